//! Whether a directory can be mounted on, and if not, what its user should do.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::error::{MountError, Stale};
use super::options::MountOptions;
use super::table::{MountEntry, mount_entry};
use super::{is_ours, unmount};

/// The directory as an absolute path without symbolic links, once it is fit to be mounted on.
///
/// # Errors
/// [`MountError`] with what to do about it.
pub fn examine(dir: &Path, options: &MountOptions) -> Result<PathBuf, MountError> {
    match look(dir, options) {
        Err(MountError::Stale(stale)) if options.clear_stale => {
            unmount(&stale.dir, true)?;
            look(dir, options)
        }
        looked => looked,
    }
}

fn look(dir: &Path, options: &MountOptions) -> Result<PathBuf, MountError> {
    let missing = || MountError::Missing { dir: dir.to_owned() };
    let metadata = match std::fs::metadata(dir) {
        Ok(metadata) => metadata,
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => return Err(missing()),
            Some(Errno::NOTDIR) => return Err(MountError::NotDirectory { dir: dir.to_owned() }),
            Some(Errno::NOTCONN | Errno::CONNABORTED | Errno::STALE) => {
                return Err(MountError::Stale(Stale { dir: absolute(dir) }));
            }
            _ => return Err(MountError::Unreadable { dir: dir.to_owned(), error }),
        },
    };
    if !metadata.is_dir() {
        return Err(MountError::NotDirectory { dir: dir.to_owned() });
    }
    let unreadable = |error: io::Error| MountError::Unreadable { dir: dir.to_owned(), error };
    let place = std::fs::canonicalize(dir).map_err(unreadable)?;
    if mount_entry(&place).is_some_and(|entry| is_ours(&entry.fs_type)) {
        return Err(MountError::AlreadyMounted { dir: place });
    }
    if !options.nonempty && std::fs::read_dir(&place).map_err(unreadable)?.next().is_some() {
        return Err(MountError::NotEmpty { dir: place });
    }
    Ok(place)
}

/// The Esker file system that is mounted on `dir`, even a dead one, or one that lets nobody in.
///
/// # Errors
/// `Missing`, `NotMounted`, `NotOurs`.
pub fn mounted_on(dir: &Path) -> Result<MountEntry, MountError> {
    let place = std::fs::canonicalize(dir).unwrap_or_else(|_| absolute(dir));
    match mount_entry(&place) {
        Some(mount) if is_ours(&mount.fs_type) => Ok(mount),
        Some(mount) => Err(MountError::NotOurs { dir: place, fs_type: mount.fs_type }),
        None if std::fs::symlink_metadata(&place).is_ok() => {
            Err(MountError::NotMounted { dir: place })
        }
        None => Err(MountError::Missing { dir: dir.to_owned() }),
    }
}

/// The path of a stale mount, which itself cannot be asked any more.
fn absolute(dir: &Path) -> PathBuf {
    let resolved = match (dir.parent(), dir.file_name()) {
        (Some(parent), Some(name)) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            std::fs::canonicalize(parent).map(|parent| parent.join(name))
        }
        _ => std::path::absolute(dir),
    };
    resolved.unwrap_or_else(|_| dir.to_owned())
}
