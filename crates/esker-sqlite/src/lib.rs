//! SQLite straight on files in a program's own memory: what SQLite asks of a system is answered by the embedded home,
//! with no WASI and no system between.
//!
//! Above: a program with SQLite linked in, which calls [`install`] once. Below: `esker-embedded`. Invariant: what a
//! call of SQLite's wrote is in the memory when it returns, in the order in which it was written, each write whole or
//! absent.

#[cfg(target_family = "wasm")]
mod file;
mod locks;
#[cfg(target_family = "wasm")]
mod state;
#[cfg(target_family = "wasm")]
mod vfs;

pub use locks::{Level, Locks};
#[cfg(target_family = "wasm")]
pub use state::{Files, InstallError, stand_still};
#[cfg(target_family = "wasm")]
pub use vfs::{NAME, install};
