//! A directory of our own that goes when we do.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Exit, Failure, Outcome, said};

/// A fresh directory, removed on drop; what is mounted in it has been unmounted by its target before.
pub struct Place(PathBuf);

impl Place {
    /// Below `parent`, which exists.
    pub fn make(parent: &Path) -> Outcome<Self> {
        let path = parent.join(format!("esker-bench-{}", std::process::id()));
        let made = fs::create_dir(&path).and_then(|()| fs::canonicalize(&path));
        made.map(Self).map_err(|error| {
            let what = format!("cannot make a directory for mount points ({})", said(&error));
            Failure::at(Exit::Failed, &what, &path, "name another place with --scratch")
        })
    }

    /// Where.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Never into a mount that could not be unmounted: only empty directories and our own files go.
        if let Ok(entries) = fs::read_dir(&self.0) {
            for entry in entries.flatten() {
                let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                let path = entry.path();
                let _ = if is_dir { fs::remove_dir(&path) } else { fs::remove_file(&path) };
            }
        }
        let _ = fs::remove_dir(&self.0);
    }
}
