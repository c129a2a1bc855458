//! The checks that keep the house: walls, sizes, words, links, formats.
//!
//! Above: `tests/exams/tidy.rs`, one test each. Below: [`source`] reads Rust just well enough.
//! Invariant: every check returns all that is wrong, each with file and line, and changes nothing.

pub mod formats;
pub mod imports;
pub mod links;
pub mod sizes;
pub mod source;

use std::path::{Path, PathBuf};

/// The root of the repository.
///
/// # Panics
/// Never: the workshop lies two folders below it.
#[must_use]
pub fn root() -> &'static Path {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder.ancestors().nth(2).expect("crates/proof lies in the repository")
}

/// Every file below `folder` with this extension, sorted, without what is built, hidden or fetched.
#[must_use]
pub fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let kind = entry.file_type();
            if kind.as_ref().is_ok_and(std::fs::FileType::is_dir) {
                if name != "target" && !name.starts_with('.') {
                    todo.push(path);
                }
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A path as people write it: from the root of the repository.
#[must_use]
pub fn short(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// The text of a file; an empty one if it cannot be read.
#[must_use]
pub fn text(path: &Path) -> String {
    std::fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}
