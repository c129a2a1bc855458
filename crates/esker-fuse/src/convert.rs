//! Esker's attributes in the kernel's words, and how long the kernel may believe them.

use std::time::Duration;

use esker::attr::device_parts;
use esker::posix::Node;
use esker::store::Space;
use esker::{Attr, Flags, Ino, Time};

use crate::wire::{self, flags};

/// What `st_blksize` says, in bytes.
const BLOCK_SIZE: u32 = 4096;
/// Inodes take space like everything else, so how many more fit is an estimate: one for so many
/// free bytes.
const BYTES_PER_INODE: u64 = 512;

/// How long the kernel may believe what it was told. All changes come through the mount, so long is
/// right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// That a name leads to an inode.
    pub entry: Duration,
    /// An inode's attributes.
    pub attr: Duration,
    /// That a name leads nowhere; zero answers ENOENT, which the kernel does not remember.
    pub negative: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 60 * 60);
        Self { entry: day, attr: day, negative: day }
    }
}

impl Timeouts {
    /// Nothing may be believed.
    pub const NONE: Self =
        Self { entry: Duration::ZERO, attr: Duration::ZERO, negative: Duration::ZERO };

    /// What a name leads to.
    #[must_use]
    pub fn entry_out(&self, node: &Node, generation: u64) -> wire::EntryOut {
        wire::EntryOut {
            nodeid: node.ino.0,
            generation,
            entry_valid: self.entry.as_secs(),
            attr_valid: self.attr.as_secs(),
            entry_valid_nsec: self.entry.subsec_nanos(),
            attr_valid_nsec: self.attr.subsec_nanos(),
            attr: attr(node.ino, &node.attr),
        }
    }

    /// A name that leads nowhere, to be remembered.
    #[must_use]
    pub fn negative_out(&self) -> wire::EntryOut {
        wire::EntryOut {
            entry_valid: self.negative.as_secs(),
            entry_valid_nsec: self.negative.subsec_nanos(),
            ..NO_ENTRY
        }
    }

    /// The answer to GETATTR.
    #[must_use]
    pub fn attr_out(&self, ino: Ino, of: &Attr) -> wire::AttrOut {
        wire::AttrOut {
            attr_valid: self.attr.as_secs(),
            attr_valid_nsec: self.attr.subsec_nanos(),
            dummy: 0,
            attr: attr(ino, of),
        }
    }

    /// The answer to STATX.
    #[must_use]
    pub fn statx_out(&self, ino: Ino, of: &Attr) -> wire::StatxOut {
        wire::StatxOut {
            attr_valid: self.attr.as_secs(),
            attr_valid_nsec: self.attr.subsec_nanos(),
            flags: 0,
            spare: [0; 16],
            stat: statx(ino, of),
        }
    }
}

/// An entry of which the kernel counts nothing: `.` and `..` in a listing with look-ups.
pub const NO_ENTRY: wire::EntryOut = wire::EntryOut {
    nodeid: 0,
    generation: 0,
    entry_valid: 0,
    attr_valid: 0,
    entry_valid_nsec: 0,
    attr_valid_nsec: 0,
    attr: wire::Attr {
        ino: 0,
        size: 0,
        blocks: 0,
        atime: 0,
        mtime: 0,
        ctime: 0,
        atimensec: 0,
        mtimensec: 0,
        ctimensec: 0,
        mode: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    },
};

/// What stat(2) tells.
#[must_use]
pub const fn attr(ino: Ino, of: &Attr) -> wire::Attr {
    wire::Attr {
        ino: ino.0,
        size: of.size,
        blocks: of.blocks,
        atime: of.atime.secs.cast_unsigned(),
        mtime: of.mtime.secs.cast_unsigned(),
        ctime: of.ctime.secs.cast_unsigned(),
        atimensec: of.atime.nanos,
        mtimensec: of.mtime.nanos,
        ctimensec: of.ctime.nanos,
        mode: of.mode(),
        nlink: of.nlink,
        uid: of.uid,
        gid: of.gid,
        rdev: of.rdev,
        blksize: BLOCK_SIZE,
        flags: 0,
    }
}

/// What statx(2) tells: the birth time too, and chattr's flags.
#[must_use]
pub fn statx(ino: Ino, of: &Attr) -> wire::Statx {
    let bit = |flag, bit| if of.flags.contains(flag) { bit } else { 0 };
    let (rdev_major, rdev_minor) = device_parts(of.rdev);
    wire::Statx {
        mask: wire::STATX_BASIC_AND_BTIME,
        blksize: BLOCK_SIZE,
        attributes: bit(Flags::IMMUTABLE, flags::statx::IMMUTABLE)
            | bit(Flags::APPEND, flags::statx::APPEND)
            | bit(Flags::NO_DUMP, flags::statx::NODUMP),
        nlink: of.nlink,
        uid: of.uid,
        gid: of.gid,
        mode: of.mode() as u16,
        spare0: 0,
        ino: ino.0,
        size: of.size,
        blocks: of.blocks,
        attributes_mask: flags::statx::IMMUTABLE | flags::statx::APPEND | flags::statx::NODUMP,
        atime: sx_time(of.atime),
        btime: sx_time(of.btime),
        ctime: sx_time(of.ctime),
        mtime: sx_time(of.mtime),
        rdev_major,
        rdev_minor,
        dev_major: 0,
        dev_minor: 0,
        spare2: [0; 112],
    }
}

const fn sx_time(time: Time) -> wire::SxTime {
    wire::SxTime { tv_sec: time.secs, tv_nsec: time.nanos, reserved: 0 }
}

/// What statfs(2) tells.
#[must_use]
pub const fn statfs(space: &Space) -> wire::StatfsOut {
    let free = space.total.saturating_sub(space.used);
    let bfree = free / BLOCK_SIZE as u64;
    let ffree = free / BYTES_PER_INODE;
    wire::StatfsOut {
        blocks: space.total / BLOCK_SIZE as u64,
        bfree,
        bavail: bfree,
        files: space.inodes.saturating_add(ffree),
        ffree,
        bsize: BLOCK_SIZE,
        namelen: esker::limits::NAME_LEN_MAX as u32,
        frsize: BLOCK_SIZE,
        padding: 0,
        spare: [0; 24],
    }
}
