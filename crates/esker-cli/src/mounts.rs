//! Mount points, as a person names them, and who stands on them.
//!
//! Above: the verbs. Below: `esker_fuse::mount`. Invariant: nothing here enters a mount, so a dead
//! file system cannot keep us from unmounting it.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_fuse::handler::Handler;
use esker_fuse::mount::{MountEntry, MountError, examine};
use esker_fuse::{MountOptions, converse, mount};
use rustix::io::Errno;

use crate::failure::{Exit, Failure, Outcome, os_shown, shown};

/// What the door says about a mount point, with our exit status.
pub fn failure(error: &MountError) -> Failure {
    let exit = match error {
        MountError::Missing { .. }
        | MountError::NotDirectory { .. }
        | MountError::NotEmpty { .. }
        | MountError::Stale(_)
        | MountError::AlreadyMounted { .. }
        | MountError::NotMounted { .. }
        | MountError::NotOurs { .. }
        | MountError::Busy { .. }
        | MountError::NotYours { .. }
        | MountError::Unreadable { .. } => Exit::MountPoint,
        _ => Exit::Failed,
    };
    Failure::new(exit, error.to_string(), "")
}

/// Mounts on an empty directory, and answers the kernel in the foreground until that is unmounted.
pub fn answer<H: Handler + 'static>(
    dir: &Path,
    options: &MountOptions,
    handler: Arc<H>,
) -> Outcome {
    let unable = |error: MountError| failure(&error);
    let dir = examine(dir, options).map_err(unable)?;
    let (device, mounted) = mount(&dir, options).map_err(unable)?;
    let stopped = |error: &dyn std::fmt::Display| {
        Failure::at(Exit::Failed, &format!("cannot serve the kernel: {error}"), &dir, "")
    };
    let running = converse(device, handler, options);
    let ended = running.map_err(|error| stopped(&error))?.join();
    drop(mounted);
    ended.map_err(|error| stopped(&error))
}

/// The path without symlinks and relative parts, also when a dead file system is mounted there.
pub fn resolve(path: &Path) -> io::Result<PathBuf> {
    let dead = |error: &io::Error| error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error());
    match fs::canonicalize(path) {
        Err(error) if dead(&error) => {
            let name = path.file_name().ok_or(error)?;
            let above = match path.parent() {
                Some(above) if !above.as_os_str().is_empty() => above,
                _ => Path::new("."),
            };
            Ok(fs::canonicalize(above)?.join(name))
        }
        answer => answer,
    }
}

/// Other processes that have something below `point` open, or stand there: `name (pid)`, at most
/// `limit`.
pub fn users(point: &Path, limit: usize) -> Vec<String> {
    let mut found = Vec::new();
    let us = std::process::id().to_string();
    let Ok(processes) = fs::read_dir("/proc") else { return found };
    for process in processes.flatten() {
        let id = process.file_name();
        let is_process = id.as_bytes().iter().all(u8::is_ascii_digit) && id != us.as_str();
        if found.len() == limit || !is_process {
            continue;
        }
        if uses(&process.path(), point) {
            let name = fs::read(process.path().join("comm")).unwrap_or_default();
            let name = shown(name.trim_ascii_end());
            found.push(format!("{name} (pid {})", id.to_string_lossy()));
        }
    }
    found
}

fn uses(process: &Path, point: &Path) -> bool {
    let below = |link: &Path| fs::read_link(link).is_ok_and(|target| target.starts_with(point));
    if ["cwd", "root", "exe"].iter().any(|link| below(&process.join(link))) {
        return true;
    }
    let Ok(open) = fs::read_dir(process.join("fd")) else { return false };
    open.flatten().any(|file| below(&file.path()))
}

/// The source of a mount for a message: `mem: (fuse.esker)`.
pub fn source_shown(mount: &MountEntry) -> String {
    format!("{} ({})", os_shown(&mount.source), shown(mount.fs_type.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_resolved_and_users_found() {
        let tmp = fs::canonicalize("/tmp").unwrap();
        assert_eq!(resolve(Path::new("/proc/../tmp/.")).unwrap(), tmp);
        assert!(resolve(Path::new("/no/such/place")).is_err());
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let here = std::env::current_dir().unwrap();
        let found = users(&here, 1000);
        let _ = child.kill();
        let _ = child.wait();
        assert!(found.contains(&format!("sleep (pid {})", child.id())), "{found:?}");
        assert!(!found.iter().any(|user| user.contains(&format!("(pid {})", std::process::id()))));
        assert!(users(Path::new("/no/such/place"), 9).is_empty());
    }
}
