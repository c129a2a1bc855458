//! `esker umount`: give a mount back.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use esker_fuse::MountError;
use esker_fuse::control::ask;
use esker_fuse::mount::{is_ours, mount_entry, unmount};
use esker_volume::device::FileDevice;

use rustix::io::Errno;
use serde_json::Value;

use super::say;
use super::sync::sync;
use crate::failure::{Exit, Failure, Outcome, path_shown, said};
use crate::mounts;
use crate::profile;
use crate::volumes::{host, is_volume};

/// Processes that are named when a mount is in use.
const USERS_MAX: usize = 5;
/// How often, and how long apart, a mount in use is tried again: who just looked at it, or was
/// started a moment ago, has let go of it by then.
const TRIES: u32 = 10;
const TRY_AGAIN: Duration = Duration::from_millis(25);
/// How long the server of a volume may take to close it.
const LET_GO: Duration = Duration::from_secs(30);

/// Unmount an Esker file system; what a memory file system held is gone then, what a volume holds is safe.
///
/// Works for a stale mount too, one whose daemon has died.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker umount /mnt/x
  esker umount -l /mnt/x     also when it is in use: it goes when the last user has

Where bytes could not be written since somebody asked last, it says so once and leaves the mount;
the next one goes on without them.")]
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
        let mount = match mount_entry(&point) {
            None => {
                return failed(
                    "not a mount point",
                    "`findmnt -t fuse.esker,fuseblk.esker` lists what is",
                );
            }
            Some(mount) if !is_ours(&mount.fs_type) => {
                let what = format!("not an Esker mount but {}", mounts::source_shown(&mount));
                return failed(&what, "use umount(8)");
            }
            Some(mount) => mount,
        };
        let volume = Some(PathBuf::from(&mount.source)).filter(|source| is_volume(source));
        match volume {
            _ if self.lazy => {}
            Some(_) => self.make_safe(&point)?,
            None if self.have_profile(&point)? => self.make_safe(&point)?,
            None => {}
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
        if let Some(volume) = volume.filter(|_| !self.lazy) {
            let_go(&volume);
        }
        if self.json {
            let dir = point.to_string_lossy();
            say(&serde_json::json!({ "unmounted": dir, "lazy": self.lazy }).to_string());
        } else {
            say(&format!("unmounted {}", path_shown(&point)));
        }
        Ok(())
    }
}

impl Umount {
    /// An image that is mounted to write a profile writes it before that is over; whether it is a volume whose file has
    /// not the name any more by which it was mounted.
    fn have_profile(&self, point: &Path) -> Outcome<bool> {
        let answer = ask(point, profile::message().to_string().as_bytes());
        // Nobody answers where the server has died, and where there is no such thing.
        let answer = answer.ok().and_then(|answer| serde_json::from_slice::<Value>(&answer).ok());
        let answer = answer.filter(|answer| answer["unknown"] != true).unwrap_or_default();
        match answer["error"].as_str() {
            Some(text) => {
                let text = format!("{text}; or unmount it all the same with -l");
                Err(Failure { exit: Exit::Failed, text })
            }
            None => Ok(answer["volume"] == true),
        }
    }

    /// Once it is unmounted nobody could be told that something cannot be written.
    fn make_safe(&self, point: &Path) -> Outcome {
        let lost = |error: &std::io::Error| {
            matches!(Errno::from_io_error(error), Some(Errno::IO | Errno::NOSPC | Errno::ROFS))
        };
        match sync(point) {
            Err(error) if lost(&error) => {
                let what = format!("what changed cannot be written ({})", said(&error));
                let usual = match Errno::from_io_error(&error) {
                    Some(Errno::NOSPC) => {
                        "make room and write again what had none, or ask once more to go on \
                         without it"
                    }
                    _ => "save it elsewhere",
                };
                let remedy = host::remedy(point, &error, usual);
                let remedy = format!("{remedy}; or unmount it all the same with -l");
                Err(Failure::at(Exit::Failed, &what, point, &remedy))
            }
            // Dead, or not ours to open: there is nothing more to be done about it.
            _ => Ok(()),
        }
    }
}

/// Waits until the server has closed the volume, so that it can be mounted again.
fn let_go(volume: &Path) {
    let began = Instant::now();
    let held = || {
        let opened = FileDevice::open(volume, false);
        opened.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    while held() && began.elapsed() < LET_GO {
        thread::sleep(Duration::from_millis(5));
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
