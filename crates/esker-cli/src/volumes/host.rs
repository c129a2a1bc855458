//! The file system in which the file of a mounted volume lies, where that is full.
//!
//! Above: `ask`, `verbs::sync`, `verbs::umount`. Invariant: it only looks, and never inside of the mount.

use std::io::Error;
use std::path::{Path, PathBuf};

use esker_fuse::mount::mounted_on;
use rustix::fs::statvfs;
use rustix::io::Errno;

use crate::failure::path_shown;

/// A file system with less than this counts as full: a volume writes as much at once, in about.
const LEAST: u64 = 4 << 20;

/// The directory of the volume whose mount this path is in, if it has no room for more of it.
fn full_below(path: &Path) -> Option<PathBuf> {
    let volume = PathBuf::from(mounted_on(path).ok()?.source);
    if !volume.is_file() {
        return None;
    }
    let found = statvfs(&volume).ok()?;
    let folder = volume.parent()?.to_owned();
    (found.f_bavail.saturating_mul(found.f_frsize) < LEAST).then_some(folder)
}

/// What may be done where what is in this mount cannot be written: `usual`, where that is not for want of room below.
pub fn remedy(path: &Path, error: &Error, usual: &str) -> String {
    let no_room = matches!(Errno::from_io_error(error), Some(Errno::NOSPC | Errno::DQUOT));
    match no_room.then(|| full_below(path)).flatten() {
        Some(folder) => {
            let folder = path_shown(&folder);
            format!(
                "{folder} is full, where the volume lies: make room there and ask again, \
                 what waits stays in memory until then"
            )
        }
        None => usual.to_owned(),
    }
}
