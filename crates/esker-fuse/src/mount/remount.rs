//! Changing how a mounted directory may be used, and nothing else about it.
//!
//! Above: whoever answers `mount -o remount`. Below: `table`, which says how the mount is used now.
//! Invariant: what nobody asked to change stays: remount(2) takes the whole set of flags, and a set
//! that is made from the question alone would allow again what was forbidden.

use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::error::MountError;
use super::table::{MountEntry, mount_entry};

/// Who may: fusermount3 offers users no remount.
const WHO: &str = "root may remount it";

/// Words of the mount table, and the flags that they show. Those about atime are left out: the
/// kernel keeps them by itself.
const SHOWN: [(&str, MountFlags); 8] = [
    ("ro", MountFlags::RDONLY),
    ("nosuid", MountFlags::NOSUID),
    ("nodev", MountFlags::NODEV),
    ("noexec", MountFlags::NOEXEC),
    ("nosymfollow", MountFlags::NOSYMFOLLOW),
    ("sync", MountFlags::SYNCHRONOUS),
    ("dirsync", MountFlags::DIRSYNC),
    ("lazytime", MountFlags::LAZYTIME),
];

/// What a remount is to change; at first nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remount {
    set: MountFlags,
    clear: MountFlags,
}

impl Default for Remount {
    fn default() -> Self {
        Self { set: MountFlags::empty(), clear: MountFlags::empty() }
    }
}

impl Remount {
    /// Takes one option, and tells whether a remount can do that. A later one wins.
    pub fn take(&mut self, word: &str) -> bool {
        let flag = match word {
            "ro" | "rw" => MountFlags::RDONLY,
            "nosuid" | "suid" => MountFlags::NOSUID,
            "nodev" | "dev" => MountFlags::NODEV,
            "noexec" | "exec" => MountFlags::NOEXEC,
            "sync" | "async" => MountFlags::SYNCHRONOUS,
            _ => return false,
        };
        let sets = matches!(word, "ro" | "nosuid" | "nodev" | "noexec" | "sync");
        self.set.set(flag, sets);
        self.clear.set(flag, !sets);
        true
    }

    /// The flags of a mount that has `present`, with the changes.
    fn applied_to(self, present: MountFlags) -> MountFlags {
        present.difference(self.clear).union(self.set)
    }
}

/// How the mount table says that a mount is used.
fn flags(mount: &MountEntry) -> MountFlags {
    let shown = SHOWN.iter().filter(|(word, _)| mount.has(word));
    shown.map(|&(_, flag)| flag).collect()
}

/// Changes how what is mounted may be used, and tells how it is used now. Whether reading moves
/// atime stays as it was mounted.
///
/// # Errors
/// `Busy` while somebody writes to what is to be `ro`, `NotMounted`, `NotPermitted`.
pub fn remount(mount: &MountEntry, change: Remount) -> Result<MountEntry, MountError> {
    let dir = || mount.dir.clone();
    let flags = change.applied_to(flags(mount));
    rustix::mount::mount_remount(&mount.dir, flags, c"").map_err(|errno| match errno {
        Errno::BUSY => MountError::Busy { dir: dir() },
        Errno::INVAL | Errno::NOENT => MountError::NotMounted { dir: dir() },
        Errno::PERM | Errno::ACCESS => MountError::NotPermitted { dir: dir(), who: WHO },
        errno => MountError::Io { what: "mount(2)", error: errno.into() },
    })?;
    mount_entry(&mount.dir).ok_or_else(|| MountError::NotMounted { dir: dir() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_asked_changes() {
        let present = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::SYNCHRONOUS;
        let mut change = Remount::default();
        assert_eq!(change.applied_to(present), present);
        assert!(change.take("rw") && change.take("ro") && change.take("async"));
        let expected = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::RDONLY;
        assert_eq!(change.applied_to(present), expected);
        assert!(change.take("rw") && change.take("suid"));
        assert_eq!(change.applied_to(present), MountFlags::NODEV);
        for beyond in ["noatime", "dirsync", "size=1G", "allow_other", "remount", "ro=1", ""] {
            assert!(!change.take(beyond), "{beyond}");
        }
    }
}
