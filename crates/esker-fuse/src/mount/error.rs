//! Why mounting failed: what was wrong, where, and what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why nothing was mounted, or unmounted.
#[derive(Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "`dir` is the mount point, `error` what the system said")]
pub enum MountError {
    /// There is no such directory.
    Missing { dir: PathBuf },
    /// Something else than a directory is there.
    NotDirectory { dir: PathBuf },
    /// The directory has entries, which the mount would hide.
    NotEmpty { dir: PathBuf },
    /// A file system is mounted there whose server has died.
    Stale(Stale),
    /// An Esker file system is mounted there already.
    AlreadyMounted { dir: PathBuf },
    /// Nothing is mounted there.
    NotMounted { dir: PathBuf },
    /// Something else than an Esker file system is mounted there.
    NotOurs {
        dir: PathBuf,
        /// Its type.
        fs_type: String,
    },
    /// This user may not do that to what is mounted there.
    NotPermitted {
        dir: PathBuf,
        /// Who may.
        who: &'static str,
    },
    /// Somebody uses it.
    Busy { dir: PathBuf },
    /// Users mount only on what they may write to, and with the sticky bit on what they own.
    NotYours { dir: PathBuf },
    /// The directory cannot be looked at.
    Unreadable { dir: PathBuf, error: io::Error },
    /// The kernel has no FUSE, or this container no /dev/fuse.
    NoDevice,
    /// /dev/fuse is closed to this user.
    DeviceForbidden,
    /// This user may not do that.
    NoPermission,
    /// Mounting without root's rights takes fusermount3, which is not there.
    NoHelper,
    /// /etc/fuse.conf does not allow `allow_other` to users.
    AllowOtherForbidden,
    /// fusermount3 refused; its own words.
    Helper {
        /// What it wrote.
        message: String,
    },
    /// Anything else that the system said.
    Io {
        /// What was tried.
        what: &'static str,
        error: io::Error,
    },
}

/// A mount whose server has died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    /// Where.
    pub dir: PathBuf,
}

impl Stale {
    /// The command that clears it, also while somebody stands in it.
    #[must_use]
    pub fn command(&self) -> String {
        format!("esker umount -l '{}'", self.dir.display())
    }
}

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { dir } => {
                write!(f, "{0}: no such directory; make it with: mkdir -p '{0}'", dir.display())
            }
            Self::NotDirectory { dir } => {
                write!(f, "{}: not a directory; a file system is mounted on one", dir.display())
            }
            Self::NotEmpty { dir } => write!(
                f,
                "{}: not empty; choose an empty directory, or hide what is in it with -o nonempty",
                dir.display()
            ),
            Self::Stale(stale) => write!(
                f,
                "{}: the server of the file system mounted here has died; clear it with: {}, or \
                 mount with -o clear_stale",
                stale.dir.display(),
                stale.command()
            ),
            Self::AlreadyMounted { dir } => write!(
                f,
                "{}: an Esker file system is mounted here already; unmount it first, or choose \
                 another directory",
                dir.display()
            ),
            Self::NotMounted { dir } => write!(f, "{}: nothing is mounted here", dir.display()),
            Self::NotOurs { dir, fs_type } => write!(
                f,
                "{}: what is mounted here is no Esker file system but {fs_type}",
                dir.display()
            ),
            Self::NotPermitted { dir, who } => {
                write!(f, "{}: not permitted; only {who}", dir.display())
            }
            Self::Busy { dir } => write!(
                f,
                "{0}: in use; end what uses it (fuser -vm '{0}' lists that), or detach it with \
                 umount -l",
                dir.display()
            ),
            Self::NotYours { dir } => write!(
                f,
                "{}: not yours to write to; without root's rights, mount on a directory of yours",
                dir.display()
            ),
            Self::Unreadable { dir, error } => write!(f, "{}: {error}", dir.display()),
            Self::NoDevice => f.write_str(
                "/dev/fuse: not there; load the kernel module (modprobe fuse), or start the \
                 container with --device /dev/fuse --cap-add SYS_ADMIN",
            ),
            Self::DeviceForbidden => f.write_str(
                "/dev/fuse: permission denied; root can open it to users with: chmod 666 /dev/fuse",
            ),
            Self::NoPermission => f.write_str(
                "no permission to mount or unmount; run as root, or install fusermount3 (package \
                 fuse3)",
            ),
            Self::NoHelper => f.write_str(
                "fusermount3: not found; users without root's rights mount through it: install \
                 the package fuse3",
            ),
            Self::AllowOtherForbidden => f.write_str(
                "allow_other: not allowed to users here; root can allow it by the line \
                 user_allow_other in /etc/fuse.conf",
            ),
            Self::Helper { message } => write!(f, "fusermount3: {message}"),
            Self::Io { what, error } => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for MountError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { error, .. } | Self::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}
