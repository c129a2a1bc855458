//! Loop devices: the file that one is made over, so that who has one has the other.
//!
//! Above: `file` locks both. Invariant: what cannot be found out is as if there were nothing below.

use std::fs::{File, read_to_string};
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock, major, minor};

/// Loop devices over files in loop devices, at most.
const DEPTH_MAX: usize = 8;

/// The file in which all of a loop device lies, from its first byte on, if the path leads to one.
#[must_use]
pub fn below(path: &Path) -> Option<PathBuf> {
    let meta = path.metadata().ok().filter(|meta| meta.file_type().is_block_device())?;
    let (major, minor) = (major(meta.rdev()), minor(meta.rdev()));
    let told = |what: &str| read_to_string(format!("/sys/dev/block/{major}:{minor}/loop/{what}"));
    let begins = told("offset").is_ok_and(|offset| offset.trim() == "0");
    begins
        .then(|| told("backing_file").ok().map(|name| PathBuf::from(name.trim_end_matches('\n'))))?
}

/// Locks what lies below a loop device as this was locked, and all below that.
pub(super) fn lock(path: &Path, how: FlockOperation) -> std::io::Result<Vec<File>> {
    let mut locked = Vec::new();
    let mut next = below(path);
    while let Some(path) = next.take().filter(|_| locked.len() < DEPTH_MAX) {
        let Ok(file) = File::open(&path) else { break };
        match flock(&file, how) {
            // Not every file system has locks.
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(error.into()),
            _ => locked.push(file),
        }
        next = below(&path);
    }
    Ok(locked)
}
