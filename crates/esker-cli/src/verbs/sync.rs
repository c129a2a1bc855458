//! `esker sync`: make safe what changed in a mount.

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;
use rustix::io::Errno;
use serde_json::json;

use super::say;
use crate::failure::{Exit, Failure, Outcome, path_shown, said};
use crate::volumes::host;

/// Make safe all that changed in a mount until now.
///
/// What it has answered for survives a loss of power, as with fsync(2) of every file; syncfs(2) of a mount
/// through FUSE does not reach its server.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker sync /mnt/d")]
pub struct Sync {
    /// Something in the mount
    #[arg(value_name = "PATH")]
    path: PathBuf,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

/// How often somebody may have written to a file that is gone while all is handed over.
const STALE_MAX: u32 = 16;

/// Has the kernel hand over what it keeps, and the server write it.
pub fn sync(path: &Path) -> std::io::Result<()> {
    let file = File::open(path)?;
    let mut tries = 0;
    loop {
        match rustix::fs::syncfs(&file) {
            // Bytes for a file that is gone since a volume went back: that is told once, all others went on.
            Err(Errno::STALE) if tries < STALE_MAX => tries += 1,
            done => break done?,
        }
    }
    file.sync_all()
}

/// What may be done about that. The kernel tells once that it could not hand over what somebody wrote.
fn remedy(error: &std::io::Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC) => {
            "something that was written had no room and is not there: make room and write it \
             again, if it is still wanted; this is told once"
        }
        _ => "the log of the mount may say why",
    }
}

impl Sync {
    /// Syncs.
    pub fn run(&self) -> Outcome {
        sync(&self.path).map_err(|error| {
            let what = format!("not everything is safe ({})", said(&error));
            let remedy = host::remedy(&self.path, &error, remedy(&error));
            Failure::at(Exit::Failed, &what, &self.path, &remedy)
        })?;
        if self.json {
            say(&json!({ "synced": self.path.to_string_lossy() }).to_string());
        } else {
            say(&format!("synced {}", path_shown(&self.path)));
        }
        Ok(())
    }
}
