//! Requests: what the kernel asks, parsed once, with every length checked.
//!
//! Above: handlers match on [`Op`]; a test builds one without a kernel. Below: `wire`, `parse`.
//! Invariant: a `Request` was wholly inside the bytes it came from; names in it have no NUL, but
//! are otherwise as the kernel sent them.

use esker::posix::{Allocate, New, OpenFlags, RenameFlags, SetAttr, XattrMode};
use esker::{Cursor, Error, Ino};

use crate::wire::{ForgetOne, InitIn, Opcode};

/// One request.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Its number, which the answer repeats.
    pub unique: u64,
    /// The inode concerned; of a name, its directory.
    pub node: Ino,
    /// Who asks: user. `u32::MAX` where the kernel does not say (mounts that may be idmapped tell
    /// it of requests that make an inode only).
    pub uid: u32,
    /// Who asks: group; as for `uid`.
    pub gid: u32,
    /// Who asks: thread; 0 for the kernel itself.
    pub pid: u32,
    /// Supplementary groups of who asks, where the kernel tells any.
    pub groups: Groups,
    /// What is asked.
    pub op: Op<'a>,
}

/// What is asked.
#[derive(Clone, Debug)]
#[expect(
    missing_docs,
    reason = "fields have the names of the call's parameters in `esker::posix::Fs`"
)]
pub enum Op<'a> {
    /// Start of the conversation.
    Init(InitIn),
    /// End of the conversation.
    Destroy,
    /// A name, or `.` and `..` for exports.
    Lookup { name: &'a [u8] },
    /// The kernel counts `count` look-ups fewer.
    Forget { count: u64 },
    /// The same for many inodes.
    BatchForget(Forgets<'a>),
    /// stat(2); with `open`, the kernel asks before it takes a write to an open file, or reads its
    /// end, and an error is that call's. With `writes` that file is open for writing.
    Getattr { open: bool, writes: bool },
    /// statx(2) that wants the birth time.
    Statx,
    /// chmod(2), chown(2), truncate(2), utimensat(2).
    Setattr(SetAttr),
    /// readlink(2).
    Readlink,
    /// symlink(2).
    Symlink { name: &'a [u8], target: &'a [u8] },
    /// mknod(2).
    Mknod { name: &'a [u8], new: New },
    /// mkdir(2).
    Mkdir { name: &'a [u8], new: New },
    /// unlink(2).
    Unlink { name: &'a [u8] },
    /// rmdir(2).
    Rmdir { name: &'a [u8] },
    /// renameat2(2).
    Rename { name: &'a [u8], to_dir: Ino, to_name: &'a [u8], flags: RenameFlags },
    /// link(2): one more name for `ino`.
    Link { ino: Ino, name: &'a [u8] },
    /// open(2) of what exists; `no_atime` is `O_NOATIME`.
    Open { flags: OpenFlags, no_atime: bool },
    /// open(2) with `O_CREAT`; `exclusive` is `O_EXCL`.
    Create { name: &'a [u8], new: New, flags: OpenFlags, exclusive: bool },
    /// open(2) with `O_TMPFILE`.
    Tmpfile { new: New },
    /// read(2); `no_atime` where the file was opened with `O_NOATIME`.
    Read { at: u64, len: u32, no_atime: bool },
    /// write(2).
    /// With `late`, the caller was answered when the kernel took the bytes.
    Write { at: u64, source: &'a [u8], kill_priv: bool, late: bool },
    /// statfs(2).
    Statfs,
    /// The last close(2) of an opened file; `write` where it was opened for writing.
    Release { write: bool },
    /// Each close(2).
    Flush,
    /// fsync(2), fdatasync(2).
    Fsync { data_only: bool },
    /// fsync(2) of a directory.
    Fsyncdir,
    /// syncfs(2).
    Syncfs,
    /// setxattr(2).
    Setxattr { name: &'a [u8], value: &'a [u8], mode: XattrMode, kill_sgid: bool },
    /// getxattr(2); `size` 0 asks how long the value is.
    Getxattr { name: &'a [u8], size: u32 },
    /// listxattr(2); `size` 0 asks how long the list is.
    Listxattr { size: u32 },
    /// removexattr(2).
    Removexattr { name: &'a [u8] },
    /// opendir(3).
    Opendir,
    /// getdents(2): entries behind `after`, at most `len` bytes of records.
    Readdir { after: Cursor, len: u32 },
    /// The same, with the look-up of each entry.
    Readdirplus { after: Cursor, len: u32 },
    /// closedir(3).
    Releasedir,
    /// ioctl(2).
    Ioctl { command: u32, input: &'a [u8], output_len: u32 },
    /// fallocate(2).
    Fallocate { how: Allocate, at: u64, len: u64 },
    /// lseek(2) with `SEEK_DATA`.
    SeekData { at: u64 },
    /// lseek(2) with `SEEK_HOLE`.
    SeekHole { at: u64 },
    /// copy_file_range(2) from the request's node; `wide` wants the 64-bit answer.
    CopyFileRange { from: u64, ino: Ino, at: u64, len: u64, wide: bool },
    /// Request `unique` need not be answered with success any more.
    Interrupt { unique: u64 },
    /// A request that no handler here offers.
    Other(Opcode),
}

impl Op<'_> {
    /// The kernel waits for no answer.
    #[must_use]
    pub const fn is_silent(&self) -> bool {
        match self {
            Self::Forget { .. } | Self::BatchForget(_) | Self::Interrupt { .. } => true,
            Self::Other(opcode) => opcode.is_silent(),
            _ => false,
        }
    }
}

/// Supplementary groups. The kernel sends one at most (the parent directory's, when the caller is
/// in it).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Groups {
    list: [u32; Self::MAX],
    len: u8,
}

impl Groups {
    /// As many as are kept; further ones are left out, which gives fewer rights, never more.
    pub const MAX: usize = 4;

    /// One more.
    pub fn add(&mut self, gid: u32) {
        if let Some(place) = self.list.get_mut(usize::from(self.len)) {
            *place = gid;
            self.len += 1;
        }
    }

    /// All of them.
    #[must_use]
    pub fn list(&self) -> &[u32] {
        &self.list[..usize::from(self.len)]
    }
}

/// The inodes of a BATCH_FORGET, each with its count.
#[derive(Clone, Copy, Debug)]
pub struct Forgets<'a>(&'a [u8]);

impl<'a> Forgets<'a> {
    /// From records of [`ForgetOne`]; bytes of an incomplete last one are left out.
    #[must_use]
    pub const fn new(records: &'a [u8]) -> Self {
        Self(records)
    }

    /// Inode and count.
    pub fn iter(self) -> impl Iterator<Item = (Ino, u64)> + use<'a> {
        let records = self.0.chunks_exact(ForgetOne::SIZE).filter_map(ForgetOne::decode);
        records.map(|one| (Ino(one.nodeid), one.nlookup))
    }
}

/// Why bytes are no request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// Not even a header with the right length: there is nobody to answer.
    Header,
    /// A header, and behind it something else than its opcode says.
    Body {
        /// The request's number.
        unique: u64,
        /// The opcode's number.
        opcode: u32,
        /// `Invalid`, `NotSupported`, or `NoSuchCall` for an opcode that is not known here.
        error: Error,
    },
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Header => f.write_str("a request without a whole header"),
            Self::Body { unique, opcode, error } => {
                write!(f, "request {unique} with opcode {opcode}: {error}")
            }
        }
    }
}

impl std::error::Error for ParseError {}
