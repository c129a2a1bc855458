//! A directory of our own that goes when we do.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Exit, Failure, Outcome};

/// A fresh directory, removed on drop; what is mounted in it has been unmounted by its target before.
pub struct Place(PathBuf);

impl Place {
    /// Below `parent`.
    pub fn make(parent: &Path) -> Outcome<Self> {
        let path = parent.join(format!("esker-bench-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(|error| {
            let what = format!("cannot make a directory for the benchmark ({error})");
            Failure::at(Exit::Failed, &what, &path, "name another with --scratch")
        })?;
        Ok(Self(path))
    }

    /// Where.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Never into a mount that could not be unmounted: only empty directories and our own images go.
        if let Ok(entries) = fs::read_dir(&self.0) {
            for path in entries.flatten().map(|entry| entry.path()) {
                let _ = if path.is_dir() { fs::remove_dir(&path) } else { fs::remove_file(&path) };
            }
        }
        let _ = fs::remove_dir(&self.0);
    }
}
