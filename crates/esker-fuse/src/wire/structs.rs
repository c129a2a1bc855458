//! Every structure that crosses the kernel's boundary.
#![expect(missing_docs, reason = "fields have the names and meanings of linux/fuse.h")]

use esker::layout;
use esker::layout::Field;

/// Lets one structure be a field of another.
macro_rules! nested {
    ($($name:ident),*) => {$(
        impl Field for $name {
            const SIZE: usize = $name::SIZE;
            #[inline]
            fn put(self, target: &mut [u8]) {
                target.copy_from_slice(&self.encode());
            }
            #[inline]
            fn take(source: &[u8]) -> Self {
                Self::decode(source).expect("a field's slice has the field's size")
            }
        }
    )*};
}
nested!(Attr, SxTime, Statx);

layout! {
    /// Before every request.
    pub struct InHeader: 40 {
        0 => len: u32,
        4 => opcode: u32,
        8 => unique: u64,
        16 => nodeid: u64,
        24 => uid: u32,
        28 => gid: u32,
        32 => pid: u32,
        36 => total_extlen: u16,
        38 => padding: u16,
    }
}
layout! {
    /// Before every answer; `error` is a negative errno as its bits.
    pub struct OutHeader: 16 {
        0 => len: u32,
        4 => error: u32,
        8 => unique: u64,
    }
}
layout! {
    /// INIT; the kernel sends the first 16 bytes only when it knows no `INIT_EXT`.
    pub struct InitIn: 64 {
        0 => major: u32,
        4 => minor: u32,
        8 => max_readahead: u32,
        12 => flags: u32,
        16 => flags2: u32,
        20 => unused: [u8; 44],
    }
}
layout! {
    /// Answer to INIT.
    pub struct InitOut: 64 {
        0 => major: u32,
        4 => minor: u32,
        8 => max_readahead: u32,
        12 => flags: u32,
        16 => max_background: u16,
        18 => congestion_threshold: u16,
        20 => max_write: u32,
        24 => time_gran: u32,
        28 => max_pages: u16,
        30 => map_alignment: u16,
        32 => flags2: u32,
        36 => max_stack_depth: u32,
        40 => request_timeout: u16,
        42 => unused: [u8; 22],
    }
}
layout! {
    /// What stat(2) tells of an inode.
    pub struct Attr: 88 {
        0 => ino: u64,
        8 => size: u64,
        16 => blocks: u64,
        24 => atime: u64,
        32 => mtime: u64,
        40 => ctime: u64,
        48 => atimensec: u32,
        52 => mtimensec: u32,
        56 => ctimensec: u32,
        60 => mode: u32,
        64 => nlink: u32,
        68 => uid: u32,
        72 => gid: u32,
        76 => rdev: u32,
        80 => blksize: u32,
        84 => flags: u32,
    }
}
layout! {
    /// A time of statx(2).
    pub struct SxTime: 16 {
        0 => tv_sec: i64,
        8 => tv_nsec: u32,
        12 => reserved: u32,
    }
}
layout! {
    /// What statx(2) tells of an inode.
    pub struct Statx: 256 {
        0 => mask: u32,
        4 => blksize: u32,
        8 => attributes: u64,
        16 => nlink: u32,
        20 => uid: u32,
        24 => gid: u32,
        28 => mode: u16,
        30 => spare0: u16,
        32 => ino: u64,
        40 => size: u64,
        48 => blocks: u64,
        56 => attributes_mask: u64,
        64 => atime: SxTime,
        80 => btime: SxTime,
        96 => ctime: SxTime,
        112 => mtime: SxTime,
        128 => rdev_major: u32,
        132 => rdev_minor: u32,
        136 => dev_major: u32,
        140 => dev_minor: u32,
        144 => spare2: [u8; 112],
    }
}
layout! {
    /// An inode that the kernel counts one look-up more of.
    pub struct EntryOut: 128 {
        0 => nodeid: u64,
        8 => generation: u64,
        16 => entry_valid: u64,
        24 => attr_valid: u64,
        32 => entry_valid_nsec: u32,
        36 => attr_valid_nsec: u32,
        40 => attr: Attr,
    }
}
layout! {
    /// FORGET.
    pub struct ForgetIn: 8 {
        0 => nlookup: u64,
    }
}
layout! {
    /// One of BATCH_FORGET.
    pub struct ForgetOne: 16 {
        0 => nodeid: u64,
        8 => nlookup: u64,
    }
}
layout! {
    /// BATCH_FORGET; `count` times [`ForgetOne`] follow.
    pub struct BatchForgetIn: 8 {
        0 => count: u32,
        4 => dummy: u32,
    }
}
layout! {
    /// GETATTR.
    pub struct GetattrIn: 16 {
        0 => getattr_flags: u32,
        4 => dummy: u32,
        8 => fh: u64,
    }
}
layout! {
    /// Answer to GETATTR and SETATTR.
    pub struct AttrOut: 104 {
        0 => attr_valid: u64,
        8 => attr_valid_nsec: u32,
        12 => dummy: u32,
        16 => attr: Attr,
    }
}
layout! {
    /// STATX.
    pub struct StatxIn: 24 {
        0 => getattr_flags: u32,
        4 => reserved: u32,
        8 => fh: u64,
        16 => sx_flags: u32,
        20 => sx_mask: u32,
    }
}
layout! {
    /// Answer to STATX.
    pub struct StatxOut: 288 {
        0 => attr_valid: u64,
        8 => attr_valid_nsec: u32,
        12 => flags: u32,
        16 => spare: [u8; 16],
        32 => stat: Statx,
    }
}
layout! {
    /// MKNOD; the name follows.
    pub struct MknodIn: 16 {
        0 => mode: u32,
        4 => rdev: u32,
        8 => umask: u32,
        12 => padding: u32,
    }
}
layout! {
    /// MKDIR; the name follows.
    pub struct MkdirIn: 8 {
        0 => mode: u32,
        4 => umask: u32,
    }
}
layout! {
    /// RENAME; both names follow.
    pub struct RenameIn: 8 {
        0 => newdir: u64,
    }
}
layout! {
    /// RENAME2; both names follow.
    pub struct Rename2In: 16 {
        0 => newdir: u64,
        8 => flags: u32,
        12 => padding: u32,
    }
}
layout! {
    /// LINK; the name follows.
    pub struct LinkIn: 8 {
        0 => oldnodeid: u64,
    }
}
layout! {
    /// SETATTR.
    pub struct SetattrIn: 88 {
        0 => valid: u32,
        4 => padding: u32,
        8 => fh: u64,
        16 => size: u64,
        24 => lock_owner: u64,
        32 => atime: u64,
        40 => mtime: u64,
        48 => ctime: u64,
        56 => atimensec: u32,
        60 => mtimensec: u32,
        64 => ctimensec: u32,
        68 => mode: u32,
        72 => unused4: u32,
        76 => uid: u32,
        80 => gid: u32,
        84 => unused5: u32,
    }
}
layout! {
    /// OPEN, OPENDIR.
    pub struct OpenIn: 8 {
        0 => flags: u32,
        4 => open_flags: u32,
    }
}
layout! {
    /// CREATE, TMPFILE; the name follows.
    pub struct CreateIn: 16 {
        0 => flags: u32,
        4 => mode: u32,
        8 => umask: u32,
        12 => open_flags: u32,
    }
}
layout! {
    /// Answer to OPEN and OPENDIR; behind [`EntryOut`] that to CREATE and TMPFILE.
    pub struct OpenOut: 16 {
        0 => fh: u64,
        8 => open_flags: u32,
        12 => backing_id: u32,
    }
}
layout! {
    /// RELEASE, RELEASEDIR.
    pub struct ReleaseIn: 24 {
        0 => fh: u64,
        8 => flags: u32,
        12 => release_flags: u32,
        16 => lock_owner: u64,
    }
}
layout! {
    /// FLUSH.
    pub struct FlushIn: 24 {
        0 => fh: u64,
        8 => unused: u32,
        12 => padding: u32,
        16 => lock_owner: u64,
    }
}
layout! {
    /// READ, READDIR, READDIRPLUS.
    pub struct ReadIn: 40 {
        0 => fh: u64,
        8 => offset: u64,
        16 => size: u32,
        20 => read_flags: u32,
        24 => lock_owner: u64,
        32 => flags: u32,
        36 => padding: u32,
    }
}
layout! {
    /// WRITE; the bytes follow.
    pub struct WriteIn: 40 {
        0 => fh: u64,
        8 => offset: u64,
        16 => size: u32,
        20 => write_flags: u32,
        24 => lock_owner: u64,
        32 => flags: u32,
        36 => padding: u32,
    }
}
layout! {
    /// Answer to WRITE and COPY_FILE_RANGE.
    pub struct WriteOut: 8 {
        0 => size: u32,
        4 => padding: u32,
    }
}
layout! {
    /// Answer to STATFS.
    pub struct StatfsOut: 80 {
        0 => blocks: u64,
        8 => bfree: u64,
        16 => bavail: u64,
        24 => files: u64,
        32 => ffree: u64,
        40 => bsize: u32,
        44 => namelen: u32,
        48 => frsize: u32,
        52 => padding: u32,
        56 => spare: [u8; 24],
    }
}
layout! {
    /// FSYNC, FSYNCDIR.
    pub struct FsyncIn: 16 {
        0 => fh: u64,
        8 => fsync_flags: u32,
        12 => padding: u32,
    }
}
layout! {
    /// SETXATTR in the form of `SETXATTR_EXT`; name and value follow.
    pub struct SetxattrIn: 16 {
        0 => size: u32,
        4 => flags: u32,
        8 => setxattr_flags: u32,
        12 => padding: u32,
    }
}
layout! {
    /// GETXATTR, where the name follows, and LISTXATTR.
    pub struct GetxattrIn: 8 {
        0 => size: u32,
        4 => padding: u32,
    }
}
layout! {
    /// Answer to a GETXATTR or LISTXATTR that only asks for the size.
    pub struct GetxattrOut: 8 {
        0 => size: u32,
        4 => padding: u32,
    }
}
layout! {
    /// ACCESS.
    pub struct AccessIn: 8 {
        0 => mask: u32,
        4 => padding: u32,
    }
}
layout! {
    /// INTERRUPT.
    pub struct InterruptIn: 8 {
        0 => unique: u64,
    }
}
layout! {
    /// IOCTL; `in_size` bytes follow.
    pub struct IoctlIn: 32 {
        0 => fh: u64,
        8 => flags: u32,
        12 => cmd: u32,
        16 => arg: u64,
        24 => in_size: u32,
        28 => out_size: u32,
    }
}
layout! {
    /// Answer to IOCTL; the output's bytes follow.
    pub struct IoctlOut: 16 {
        0 => result: u32,
        4 => flags: u32,
        8 => in_iovs: u32,
        12 => out_iovs: u32,
    }
}
layout! {
    /// What `FS_IOC_FSGETXATTR` carries.
    pub struct Fsxattr: 28 {
        0 => fsx_xflags: u32,
        4 => fsx_extsize: u32,
        8 => fsx_nextents: u32,
        12 => fsx_projid: u32,
        16 => fsx_cowextsize: u32,
        20 => fsx_pad: [u8; 8],
    }
}
layout! {
    /// FALLOCATE.
    pub struct FallocateIn: 32 {
        0 => fh: u64,
        8 => offset: u64,
        16 => length: u64,
        24 => mode: u32,
        28 => padding: u32,
    }
}
layout! {
    /// LSEEK.
    pub struct LseekIn: 24 {
        0 => fh: u64,
        8 => offset: u64,
        16 => whence: u32,
        20 => padding: u32,
    }
}
layout! {
    /// Answer to LSEEK.
    pub struct LseekOut: 8 {
        0 => offset: u64,
    }
}
layout! {
    /// COPY_FILE_RANGE and its 64-bit form.
    pub struct CopyFileRangeIn: 56 {
        0 => fh_in: u64,
        8 => off_in: u64,
        16 => nodeid_out: u64,
        24 => fh_out: u64,
        32 => off_out: u64,
        40 => len: u64,
        48 => flags: u64,
    }
}
layout! {
    /// Answer to COPY_FILE_RANGE_64.
    pub struct CopyFileRangeOut: 8 {
        0 => bytes_copied: u64,
    }
}
layout! {
    /// One record of READDIR; the name follows, and padding to eight bytes.
    pub struct Dirent: 24 {
        0 => ino: u64,
        8 => off: u64,
        16 => namelen: u32,
        20 => kind: u32,
    }
}
layout! {
    /// Notification: the kernel gives up what it keeps of an inode's bytes, and writes what it held
    /// back.
    pub struct NotifyInvalInodeOut: 24 {
        0 => ino: u64,
        8 => off: i64,
        16 => len: i64,
    }
}
layout! {
    /// Notification: the kernel looks a name up anew; the name follows, with a NUL that `namelen` does not count.
    pub struct NotifyInvalEntryOut: 16 {
        0 => parent: u64,
        8 => namelen: u32,
        12 => flags: u32,
    }
}
layout! {
    /// Before each extension at a request's end; `size` includes it.
    pub struct ExtHeader: 8 {
        0 => size: u32,
        4 => kind: u32,
    }
}
layout! {
    /// One request or answer of io_uring: header and operation here, all else in the payload.
    pub struct RingHeader: 288 {
        0 => in_out: [u8; 128],
        128 => operation: [u8; 128],
        256 => entry: [u8; 32],
    }
}
layout! {
    /// The last part of [`RingHeader`].
    pub struct RingEntry: 32 {
        0 => flags: u64,
        8 => commit_id: u64,
        16 => payload_len: u32,
        20 => padding: u32,
        24 => reserved: u64,
    }
}
layout! {
    /// What an entry of the ring says to FUSE.
    pub struct RingCommand: 24 {
        0 => flags: u64,
        8 => commit_id: u64,
        16 => qid: u16,
        18 => padding: [u8; 6],
    }
}
