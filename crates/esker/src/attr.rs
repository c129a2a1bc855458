//! What is known of an inode.

use crate::ids::Ino;

/// What an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link; its target is its content.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
}

impl Kind {
    /// The type bits of `st_mode` (`S_IFMT`).
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::Fifo => 0o010_000,
            Self::CharDevice => 0o020_000,
            Self::Directory => 0o040_000,
            Self::BlockDevice => 0o060_000,
            Self::File => 0o100_000,
            Self::Symlink => 0o120_000,
            Self::Socket => 0o140_000,
        }
    }

    /// The kind that the type bits of `st_mode` name; no type bits mean a regular file, as in mknod(2).
    #[must_use]
    pub const fn from_mode(mode: u32) -> Option<Self> {
        Some(match mode & 0o170_000 {
            0o010_000 => Self::Fifo,
            0o020_000 => Self::CharDevice,
            0o040_000 => Self::Directory,
            0o060_000 => Self::BlockDevice,
            0 | 0o100_000 => Self::File,
            0o120_000 => Self::Symlink,
            0o140_000 => Self::Socket,
            _ => return None,
        })
    }

    /// `d_type` of a directory entry.
    #[must_use]
    pub const fn dirent_type(self) -> u8 {
        (self.bits() >> 12) as u8
    }
}

/// A point in time: seconds from 1970 (negative before), and nanoseconds from there, under 10^9.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time {
    /// Seconds.
    pub secs: i64,
    /// Nanoseconds, 0..=999_999_999, always forward.
    pub nanos: u32,
}

/// Inode flags as chattr(1) sets them, in the bits of `FS_IOC_GETFLAGS`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u32);

impl Flags {
    /// `+i`: nothing may change.
    pub const IMMUTABLE: Self = Self(0x10);
    /// `+a`: data may only be appended.
    pub const APPEND: Self = Self(0x20);
    /// `+d`: left out by dump(8).
    pub const NO_DUMP: Self = Self(0x40);
    /// `+A`: reading does not move atime.
    pub const NO_ATIME: Self = Self(0x80);
    /// All that a user may set.
    pub const KNOWN: Self = Self(0xf0);

    /// All bits of `other` are set here.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// An inode's attributes. `size` and `blocks` belong to the home; POSIX decides all else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// What it is; never changes.
    pub kind: Kind,
    /// Permission bits with set-id and sticky: the low 12 bits of `st_mode`.
    pub perm: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names that lead here; a directory has 2 and one per sub-directory. 0 marks an orphan.
    pub nlink: u32,
    /// Device number of a device node: [`device_number`].
    pub rdev: u32,
    /// chattr flags.
    pub flags: Flags,
    /// Bytes; of a directory: its entries; of a symlink: its target's length.
    pub size: u64,
    /// Space taken, in units of 512 bytes.
    pub blocks: u64,
    /// Of a directory: the directory above (the root's is itself). Otherwise whatever POSIX put there.
    pub parent: Ino,
    /// Last read.
    pub atime: Time,
    /// Last change of content.
    pub mtime: Time,
    /// Last change of anything.
    pub ctime: Time,
    /// Birth.
    pub btime: Time,
}

/// A device's number in the encoding of `makedev(3)`, 32 bits.
#[must_use]
pub const fn device_number(major: u32, minor: u32) -> u32 {
    (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12)
}

/// The major and the minor number in a device's number.
#[must_use]
pub const fn device_parts(number: u32) -> (u32, u32) {
    ((number >> 8) & 0xfff, (number & 0xff) | ((number >> 12) & 0xf_ff00))
}

impl Attr {
    /// `st_mode`: type and permission bits.
    #[must_use]
    pub const fn mode(&self) -> u32 {
        self.kind.bits() | self.perm as u32
    }

    /// A fresh inode of this kind: one link (two for a directory), all four times `now`.
    #[must_use]
    pub const fn new(kind: Kind, perm: u16, uid: u32, gid: u32, parent: Ino, now: Time) -> Self {
        Self {
            kind,
            perm,
            uid,
            gid,
            nlink: if matches!(kind, Kind::Directory) { 2 } else { 1 },
            rdev: 0,
            flags: Flags(0),
            size: 0,
            blocks: 0,
            parent,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
        }
    }
}
