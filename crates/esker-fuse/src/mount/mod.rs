//! Mounting and unmounting: as root by mount(2), otherwise through `fusermount3`.
//!
//! Above: the CLI and whoever embeds the door. Below: `transport::Device`.
//! Invariant: a [`Mounted`] unmounts only the mount that it made, never what somebody put in its
//! place.

mod error;
mod helper;
mod options;
mod place;
mod remount;
mod table;

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub use error::{MountError, Stale};
pub use options::{MountOptions, OptionError, Way, words};
pub use place::{examine, mounted_on};
pub use remount::{Remount, remount};
pub use table::{MountEntry, mount_entry, ours};

use rustix::fs::{Mode, OFlags, major, minor};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::transport::Device;
use helper::Parting;
use table::Table;

/// What the mount table calls us.
pub const FS_TYPE: &str = "fuse.esker";
/// The same where what is mounted lies on a block device.
pub const FS_TYPE_BLOCK: &str = "fuseblk.esker";

/// Whether a type of the mount table is ours.
#[must_use]
pub fn is_ours(fs_type: &str) -> bool {
    [FS_TYPE, FS_TYPE_BLOCK].contains(&fs_type)
}

/// A file system that is mounted. Dropped, it is taken away, even while somebody uses it.
#[derive(Debug)]
pub struct Mounted {
    dir: PathBuf,
    /// The mount table's `major:minor`, by which we know it again as long as the conversation lasts: the kernel gives
    /// the same to the next one.
    device: String,
    /// The conversation ended since it was unmounted.
    unmounted: Arc<AtomicBool>,
    /// Where the kernel says what is mounted.
    table: Table,
    /// fusermount3 has mounted it.
    by_helper: bool,
    /// With `auto_unmount`, fusermount3 waits for this to close.
    guard: Mutex<Option<(UnixStream, Child)>>,
    /// What unmounts it where we may start no programs any more.
    parting: Mutex<Option<Parting>>,
}

/// Mounts on `dir`. The kernel waits for a [`crate::Session`] on the device then.
///
/// # Errors
/// [`MountError`]: nothing is mounted then.
pub fn mount(dir: &Path, options: &MountOptions) -> Result<(Device, Mounted), MountError> {
    let dir = place::examine(dir, options)?;
    let table =
        Table::open().map_err(|error| MountError::Io { what: "/proc/self/mountinfo", error })?;
    let direct = rustix::process::geteuid().is_root() && !options.auto_unmount;
    // Of a device that is mounted already, to be read, the kernel would show what it has, and ask nobody anew.
    let made = match (direct, options.block && !is_shown(options.source())) {
        (false, _) => Err(MountError::NoPermission),
        (true, false) => mount_directly(&dir, options, FS_TYPE),
        // A kernel without it has the other.
        (true, true) => match mount_directly(&dir, options, FS_TYPE_BLOCK) {
            Err(MountError::NoDevice) => mount_directly(&dir, options, FS_TYPE),
            made => made,
        },
    };
    let by_helper = matches!(made, Err(MountError::NoPermission));
    let (fd, guard) = match made {
        Ok(fd) => (fd, None),
        // Root of a container without the right to mount, or a user: fusermount3 has the right.
        Err(MountError::NoPermission) => helper::mount(&dir, options)?,
        Err(error) => return Err(error),
    };
    let device = table.entry(&dir).map(|entry| entry.device).unwrap_or_default();
    let (guard, parting) = (Mutex::new(guard), Mutex::default());
    let talk = Device::new(fd);
    let unmounted = talk.unmounted();
    Ok((talk, Mounted { dir, device, unmounted, table, by_helper, guard, parting }))
}

/// Whether what is on this block device is mounted as such.
fn is_shown(source: &str) -> bool {
    let number = std::fs::metadata(source).map(|meta| meta.rdev());
    number.is_ok_and(|number| {
        let device = format!("{}:{}", major(number), minor(number));
        ours().iter().any(|mount| mount.device == device)
    })
}

fn mount_directly(
    dir: &Path,
    options: &MountOptions,
    fs_type: &str,
) -> Result<OwnedFd, MountError> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let fd = rustix::fs::open("/dev/fuse", flags, Mode::empty()).map_err(|errno| match errno {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => MountError::NoDevice,
        Errno::ACCESS | Errno::PERM => MountError::NoPermission,
        errno => MountError::Io { what: "opening /dev/fuse", error: errno.into() },
    })?;
    let (user, group) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let allow_other = if options.allow_other { ",allow_other" } else { "" };
    let block = if fs_type == FS_TYPE_BLOCK { ",blksize=4096" } else { "" };
    let data = CString::new(format!(
        "fd={},rootmode=40000,user_id={user},group_id={group},default_permissions{allow_other}\
         {block}",
        fd.as_raw_fd(),
    ))
    .expect("numbers and words have no NUL");
    let mounted =
        rustix::mount::mount(options.source(), dir, fs_type, options.mount_flags(), &*data);
    mounted.map_err(|errno| match errno {
        Errno::PERM | Errno::ACCESS => MountError::NoPermission,
        Errno::NODEV => MountError::NoDevice,
        Errno::BUSY => MountError::Busy { dir: dir.to_owned() },
        errno => MountError::Io { what: "mount(2)", error: errno.into() },
    })?;
    Ok(fd)
}

impl Mounted {
    /// Where it is mounted: an absolute path.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// It is still there (somebody else may have unmounted it).
    #[must_use]
    pub fn is_mounted(&self) -> bool {
        !self.unmounted.load(Ordering::Acquire)
            && self.table.entry(&self.dir).is_some_and(|entry| entry.device == self.device)
    }

    /// For a process that is about to give up the right to start programs: starts now what unmounting
    /// needs of them.
    ///
    /// # Errors
    /// `Io` when nothing can be started.
    pub fn prepare_to_part(&self) -> Result<(), MountError> {
        if self.by_helper {
            let parting = Parting::new(&self.dir)?;
            *self.parting.lock().unwrap_or_else(PoisonError::into_inner) = Some(parting);
        }
        Ok(())
    }

    /// Unmounts. Fine if somebody else already has.
    ///
    /// # Errors
    /// `Busy` while somebody uses it, `NoPermission`.
    pub fn unmount(&self) -> Result<(), MountError> {
        self.take_away(false)
    }

    /// Takes the file system out of the tree now; it ends when its last user has let go of it.
    ///
    /// # Errors
    /// `NoPermission`.
    pub fn detach(&self) -> Result<(), MountError> {
        self.take_away(true)
    }

    fn take_away(&self, lazily: bool) -> Result<(), MountError> {
        if self.is_mounted() {
            match &mut *self.parting.lock().unwrap_or_else(PoisonError::into_inner) {
                Some(parting) => parting.unmount(&self.dir, lazily)?,
                None => unmount(&self.dir, lazily)?,
            }
        }
        // fusermount3 sees the closed socket, finds nothing to unmount, and ends.
        let guard = self.guard.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((socket, mut child)) = guard {
            drop(socket);
            let _ = child.wait();
        }
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = self.detach();
    }
}

/// Unmounts whatever is mounted on `dir`, `lazily` even while it is used.
///
/// # Errors
/// `Busy`, `NotMounted`, `NotPermitted`, and what fusermount3 says.
pub fn unmount(dir: &Path, lazily: bool) -> Result<(), MountError> {
    let lazy = if lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(dir, UnmountFlags::NOFOLLOW | lazy) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(MountError::Busy { dir: dir.to_owned() }),
        Err(Errno::INVAL | Errno::NOENT) => Err(MountError::NotMounted { dir: dir.to_owned() }),
        Err(Errno::PERM | Errno::ACCESS) => {
            helper::unmount(dir, lazily).map_err(|error| match error {
                // fusermount3 looks among the caller's own mounts only.
                MountError::NotMounted { dir } if mount_entry(&dir).is_some() => {
                    let who = "root, or the user who mounted it, may unmount it";
                    MountError::NotPermitted { dir, who }
                }
                error => error,
            })
        }
        Err(errno) => Err(MountError::Io { what: "umount2(2)", error: errno.into() }),
    }
}
