//! All short workloads over a few files: one operation, or two, above what was there and safe before.
//!
//! Above: `tests/exams/workloads.rs`. Below: [`crate::script`]. Invariant: every workload is a script that says what it
//! is.

use crate::script::Script;

/// What is there and safe before: a file in two places, one in a directory, something in each.
const BEFORE: &str = "\
mkdir d 0755
open 0 a read+write+create 0644
write 0 0 9000 1
open 1 d/b read+write+create 0644
write 1 0 300 2
link a l nofollow
setxattr a user.k fill:20:1 any nofollow
symlink somewhere s
mkdir e 0755
";

/// The operations: on files that have a handle and names, and on one of which only the names matter.
pub const OPS: &[&str] = &[
    "open 2 n read+write+create 0640",
    "tmpfile 2 d read+write 0600",
    "open 2 a read+write+trunc 0644",
    "write 0 9000 5000 7",
    "write 0 100 5000 8",
    "write 0 20000 10 9",
    "write 1 0 40000 10",
    "ftruncate 0 3",
    "ftruncate 0 20000",
    "fallocate 0 punch 4096 4096",
    "fallocate 1 zero 100 5000",
    "copy 0 0 1 8189 4000",
    "link a d/m nofollow",
    "unlink a",
    "unlink l",
    "unlink d/b",
    "rename a c -",
    "rename a d/b -",
    "rename d/b a -",
    "rename a d/b exchange",
    "rename d e -",
    "rename d e exchange",
    "rename a c whiteout",
    "mkdir d/x 0755",
    "rmdir e",
    "symlink elsewhere t",
    "unlink s",
    "setxattr a user.x fill:3000:2 any nofollow",
    "setxattr a user.k fill:5:3 any nofollow",
    "removexattr a user.k nofollow",
    "chmod a 0600",
    "chown d 1001 1001 nofollow",
    "close 0",
];

/// Steps of [`BEFORE`]; behind the last of them everything is safe.
pub const BEFORE_LEN: usize = 9;

/// These operations behind what was before.
///
/// # Panics
/// When one of them is no operation.
#[must_use]
pub fn workload(ops: &[&str]) -> Script {
    let text = [BEFORE, &ops.join("\n")].concat();
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}
