//! `esker umount`: give a mount back.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clap::Args;
use esker_fuse::MountError;
use esker_fuse::mount::{FS_TYPE, mount_entry, unmount};

use super::say;
use crate::failure::{Exit, Failure, Outcome, path_shown, said};
use crate::mounts;

/// Processes that are named when a mount is in use.
const USERS_MAX: usize = 5;
/// How often, and how long apart, a mount in use is tried again: who just looked at it, or was
/// started a moment ago, has let go of it by then.
const TRIES: u32 = 10;
const TRY_AGAIN: Duration = Duration::from_millis(25);

/// Unmount an Esker file system; what a memory file system held is gone then.
///
/// Works for a stale mount too, one whose daemon has died.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker umount /mnt/x
  esker umount -l /mnt/x     also when it is in use: it goes when the last user has")]
pub struct Umount {
    /// Where it is mounted
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Take it out of sight at once, even in use
    #[arg(short, long)]
    lazy: bool,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

impl Umount {
    /// Unmounts.
    pub fn run(&self) -> Outcome {
        let failed =
            |what: &str, remedy: &str| Err(Failure::at(Exit::MountPoint, what, &self.dir, remedy));
        let point = match mounts::resolve(&self.dir) {
            Ok(point) => point,
            Err(error) => {
                return failed(&format!("cannot unmount ({})", said(&error)), "name a mount point");
            }
        };
        match mount_entry(&point) {
            None => return failed("not a mount point", "`findmnt -t fuse.esker` lists what is"),
            Some(mount) if mount.fs_type != FS_TYPE => {
                let what = format!("not an Esker mount but {}", mounts::source_shown(&mount));
                return failed(&what, "use umount(8)");
            }
            Some(_) => {}
        }
        patiently(&point, self.lazy).map_err(|error| {
            let users = match error {
                MountError::Busy { .. } => mounts::users(&point, USERS_MAX),
                _ => Vec::new(),
            };
            if users.is_empty() {
                return mounts::failure(&error);
            }
            let what = format!("in use by {}", users.join(", "));
            Failure::at(Exit::MountPoint, &what, &point, "end that, or unmount it with -l")
        })?;
        if self.json {
            let dir = point.to_string_lossy();
            say(&serde_json::json!({ "unmounted": dir, "lazy": self.lazy }).to_string());
        } else {
            say(&format!("unmounted {}", path_shown(&point)));
        }
        Ok(())
    }
}

fn patiently(point: &Path, lazily: bool) -> Result<(), MountError> {
    for _ in 1..TRIES {
        match unmount(point, lazily) {
            Err(MountError::Busy { .. }) => thread::sleep(TRY_AGAIN),
            done => return done,
        }
    }
    unmount(point, lazily)
}
