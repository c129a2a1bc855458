//! `esker clone`: another file or tree with the same blocks.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::say;
use crate::cloning;
use crate::failure::{Outcome, path_shown};
use crate::units::size_shown;

/// Make a writable clone of a file or a tree of a mount, within the mount.
///
/// It has all that the source has: data, holes, owners, permissions, times, extended attributes, flags, hard links
/// within it. Blocks that were written before are shared, not copied, so it takes room only for names and
/// attributes, until one of the two changes. It appears under its name when it is whole. The source may be what a
/// snapshot has, in a mount with `-o snapshots`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker clone /mnt/d/disk.img /mnt/d/test.img
  esker clone /mnt/d/tree /mnt/d/tree.new --json
  esker clone /mnt/d/.snapshots/before/tree /mnt/d/tree.before")]
pub struct Clone {
    /// A file or a directory in the mount of a volume
    source: PathBuf,
    /// What the clone is called; there is nothing of that name, and it is in the same mount
    target: PathBuf,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

impl Clone {
    /// Clones.
    pub fn run(&self) -> Outcome {
        let tally = cloning::clone(&self.source, &self.target)?;
        if self.json {
            let line = json!({
                "cloned": self.source.to_string_lossy(),
                "target": self.target.to_string_lossy(),
                "files": tally.files,
                "directories": tally.directories,
                "symlinks": tally.symlinks,
                "specials": tally.specials,
                "hard_links": tally.hard_links,
                "bytes": tally.bytes,
            });
            say(&line.to_string());
        } else {
            let (source, target) = (path_shown(&self.source), path_shown(&self.target));
            let (files, bytes) = (tally.files, size_shown(tally.bytes));
            say(&format!("cloned {source} to {target}: {files} files, {bytes}"));
        }
        Ok(())
    }
}
