//! Counts what a file system costs inside a WebAssembly canister, exactly and repeatably: every instruction with the
//! weight that the Internet Computer publishes for it, every call to stable memory as it is charged there.
//!
//! Above: the program `esker-meter`, which prints a table, and a test that fails when a row of Esker's grows.
//! Below: `esker-meter-guest`, the module that is measured, and an interpreter. Invariant: the same module gives
//! the same figures, on any machine.

mod guest;
mod host;
mod instrument;
mod weight;

pub use guest::{Guest, build, build_example, build_example_with};
pub use host::{Done, Row, run};
pub use instrument::{instrument, names};

/// What can be measured, by the number that the guest knows it by.
pub const SUBJECTS: &[(u32, &str)] = &[
    (0, "bare memory"),
    (1, "Esker"),
    (2, "Esker, 16 pages at hand"),
    (3, "Esker mounted"),
    (7, "Esker in a MemoryManager"),
    (4, "stable-fs 4K"),
    (16, "stable-fs 16K"),
    (64, "stable-fs 64K"),
    (99, "stable-fs mounted"),
    (201, "Esker, std::fs"),
    (202, "Esker, std::fs, time told"),
    (216, "stable-fs 16K, std::fs"),
    (301, "SQLite over Esker"),
    (302, "SQLite over Esker, without WASI"),
    (303, "SQLite over Esker, time told"),
    (304, "SQLite over Esker, without WASI, time told"),
    (316, "SQLite over stable-fs 16K"),
];

/// Benches, each of some rows.
pub const BENCHES: &[(u32, &str)] = &[
    (1, "100 MB in one call"),
    (2, "100 MB in segments of 1000 bytes"),
    (3, "the same over ten files"),
    (4, "4 KiB at random in 100 MB"),
    (5, "10,000 names in a directory"),
    (6, "2000 names"),
    (7, "1000 names"),
    (8, "memory taken"),
    (9, "directories"),
    (11, "10 MB in segments over 100 files"),
    (12, "1 GB in segments"),
    (13, "100 files of 16 MB in segments"),
    (21, "100,000 users, 1,000,000 orders"),
    (22, "1000 transactions of a row each"),
    (23, "a tenth of the users and orders"),
];
