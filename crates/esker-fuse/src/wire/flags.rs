//! Bits and numbers inside the structures.
#![expect(missing_docs, reason = "the names are the kernel's")]

/// Capabilities that INIT offers and asks for; the upper half travels in `flags2`.
pub mod init {
    pub const ASYNC_READ: u64 = 1 << 0;
    pub const POSIX_LOCKS: u64 = 1 << 1;
    pub const ATOMIC_O_TRUNC: u64 = 1 << 3;
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    pub const BIG_WRITES: u64 = 1 << 5;
    pub const DONT_MASK: u64 = 1 << 6;
    pub const FLOCK_LOCKS: u64 = 1 << 10;
    pub const HAS_IOCTL_DIR: u64 = 1 << 11;
    pub const AUTO_INVAL_DATA: u64 = 1 << 12;
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub const ASYNC_DIO: u64 = 1 << 15;
    pub const WRITEBACK_CACHE: u64 = 1 << 16;
    pub const NO_OPEN_SUPPORT: u64 = 1 << 17;
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    pub const HANDLE_KILLPRIV: u64 = 1 << 19;
    pub const POSIX_ACL: u64 = 1 << 20;
    pub const ABORT_ERROR: u64 = 1 << 21;
    pub const MAX_PAGES: u64 = 1 << 22;
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    pub const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    pub const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub const SETXATTR_EXT: u64 = 1 << 29;
    pub const INIT_EXT: u64 = 1 << 30;
    pub const SECURITY_CTX: u64 = 1 << 32;
    pub const CREATE_SUPP_GROUP: u64 = 1 << 34;
    pub const HAS_EXPIRE_ONLY: u64 = 1 << 35;
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub const PASSTHROUGH: u64 = 1 << 37;
    pub const NO_EXPORT_SUPPORT: u64 = 1 << 38;
    pub const HAS_RESEND: u64 = 1 << 39;
    pub const ALLOW_IDMAP: u64 = 1 << 40;
    pub const OVER_IO_URING: u64 = 1 << 41;
    pub const REQUEST_TIMEOUT: u64 = 1 << 42;
}

/// `SetattrIn::valid`.
pub mod setattr {
    pub const MODE: u32 = 1 << 0;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
    pub const CTIME: u32 = 1 << 10;
    pub const KILL_SUIDGID: u32 = 1 << 11;
}

/// `OpenIn::flags` and `CreateIn::flags`, which are those of open(2), and `open_flags` of both.
pub mod open {
    pub const O_ACCMODE: u32 = 0o3;
    pub const O_WRONLY: u32 = 0o1;
    pub const O_RDWR: u32 = 0o2;
    pub const O_EXCL: u32 = 0o200;
    pub const O_TRUNC: u32 = 0o1000;
    pub const O_APPEND: u32 = 0o2000;
    pub const O_NOATIME: u32 = 0o1_000_000;
    /// In `open_flags`: set-id bits and capabilities go.
    pub const KILL_SUIDGID: u32 = 1 << 0;
}

/// `OpenOut::open_flags`.
pub mod opened {
    pub const DIRECT_IO: u32 = 1 << 0;
    pub const KEEP_CACHE: u32 = 1 << 1;
    pub const CACHE_DIR: u32 = 1 << 3;
    pub const NOFLUSH: u32 = 1 << 5;
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
    /// `OpenOut::fh` of what is open for writing, our own word: others have 0.
    pub const WRITER: u64 = 1;
}

/// `GetattrIn::getattr_flags`.
pub mod getattr {
    /// The kernel asks on behalf of an open file.
    pub const FH: u32 = 1 << 0;
}

/// `WriteIn::write_flags`.
pub mod write {
    pub const CACHE: u32 = 1 << 0;
    pub const KILL_SUIDGID: u32 = 1 << 2;
}

/// `FsyncIn::fsync_flags`.
pub mod fsync {
    pub const FDATASYNC: u32 = 1 << 0;
}

/// `SetxattrIn`: `flags` are those of setxattr(2), `setxattr_flags` the kernel's.
pub mod setxattr {
    pub const CREATE: u32 = 1;
    pub const REPLACE: u32 = 2;
    /// In `setxattr_flags`: the set-group-id bit goes with this access ACL.
    pub const ACL_KILL_SGID: u32 = 1 << 0;
}

/// `Rename2In::flags`, those of renameat2(2).
pub mod rename {
    pub const NOREPLACE: u32 = 1 << 0;
    pub const EXCHANGE: u32 = 1 << 1;
    pub const WHITEOUT: u32 = 1 << 2;
}

/// `FallocateIn::mode`, that of fallocate(2).
pub mod fallocate {
    pub const KEEP_SIZE: u32 = 0x01;
    pub const PUNCH_HOLE: u32 = 0x02;
    pub const ZERO_RANGE: u32 = 0x10;
}

/// `LseekIn::whence`, that of lseek(2).
pub mod lseek {
    pub const DATA: u32 = 3;
    pub const HOLE: u32 = 4;
}

/// `IoctlIn::cmd`: the commands of lsattr(1) and chattr(1), and the bits of [`super::Fsxattr`].
pub mod ioctl {
    pub const GETFLAGS: u32 = 0x8008_6601;
    pub const SETFLAGS: u32 = 0x4008_6602;
    pub const FSGETXATTR: u32 = 0x801c_581f;
    pub const FSSETXATTR: u32 = 0x401c_5820;
    /// `_IOWR('E', 1, 4096)`: a message to the server itself.
    pub const CONTROL: u32 = 0xd000_4501;
    pub const XFLAG_IMMUTABLE: u32 = 0x08;
    pub const XFLAG_APPEND: u32 = 0x10;
    pub const XFLAG_NOATIME: u32 = 0x40;
    pub const XFLAG_NODUMP: u32 = 0x80;
}

/// The bits of `Statx::attributes`.
pub mod statx {
    pub const IMMUTABLE: u64 = 0x10;
    pub const APPEND: u64 = 0x20;
    pub const NODUMP: u64 = 0x40;
}
