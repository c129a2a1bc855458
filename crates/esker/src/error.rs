//! Every way in which a call can fail, and the errno that Linux has for it.

/// The result of every call of the core.
pub type Result<T, E = Error> = core::result::Result<T, E>;

/// Why a call was refused. Each variant is one errno; doors translate, nobody else does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// EPERM: not the owner, or the inode is immutable or append-only.
    NotPermitted,
    /// ENOENT: no such name, or the inode has no names any more.
    NotFound,
    /// EIO: the home failed below us.
    Io,
    /// ENXIO: no data or hole at or after the offset.
    NoSuchOffset,
    /// E2BIG: a value longer than the format can hold.
    TooBig,
    /// EBADF: the handle does not allow this.
    BadHandle,
    /// ENOMEM: the machine has no memory left.
    NoMemory,
    /// EACCES: the permission bits or the ACL say no.
    AccessDenied,
    /// EBUSY: in use by somebody else.
    Busy,
    /// EEXIST: the name is taken.
    Exists,
    /// EXDEV: source and target are in different file systems.
    CrossDevice,
    /// ENOTDIR: a directory was needed.
    NotDirectory,
    /// EISDIR: a directory was not wanted.
    IsDirectory,
    /// EINVAL: the arguments make no sense together.
    Invalid,
    /// EFBIG: past the largest file.
    FileTooBig,
    /// ENOSPC: the home is full.
    NoSpace,
    /// EROFS: the home cannot be written.
    ReadOnly,
    /// EMLINK: too many hard links.
    TooManyLinks,
    /// ERANGE: the caller's buffer is too small.
    Range,
    /// ENAMETOOLONG: a name over 255 bytes or a target over 4095.
    NameTooLong,
    /// ENOSYS: no door or home offers this.
    NoSuchCall,
    /// ENOTEMPTY: the directory has entries.
    NotEmpty,
    /// ELOOP: too many symbolic links on the way.
    TooManySymlinks,
    /// ENODATA: no such extended attribute.
    NoData,
    /// EOVERFLOW: the value does not fit the type.
    Overflow,
    /// EOPNOTSUPP: not for this kind of file.
    NotSupported,
    /// ESTALE: the inode is gone.
    Stale,
    /// EUCLEAN: the home's own bytes contradict themselves.
    Corrupt,
}

impl Error {
    /// The errno of Linux, positive.
    #[must_use]
    pub const fn errno(self) -> i32 {
        match self {
            Self::NotPermitted => 1,
            Self::NotFound => 2,
            Self::Io => 5,
            Self::NoSuchOffset => 6,
            Self::TooBig => 7,
            Self::BadHandle => 9,
            Self::NoMemory => 12,
            Self::AccessDenied => 13,
            Self::Busy => 16,
            Self::Exists => 17,
            Self::CrossDevice => 18,
            Self::NotDirectory => 20,
            Self::IsDirectory => 21,
            Self::Invalid => 22,
            Self::FileTooBig => 27,
            Self::NoSpace => 28,
            Self::ReadOnly => 30,
            Self::TooManyLinks => 31,
            Self::Range => 34,
            Self::NameTooLong => 36,
            Self::NoSuchCall => 38,
            Self::NotEmpty => 39,
            Self::TooManySymlinks => 40,
            Self::NoData => 61,
            Self::Overflow => 75,
            Self::NotSupported => 95,
            Self::Stale => 116,
            Self::Corrupt => 117,
        }
    }

    /// What went wrong, in words for a person.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotPermitted => "operation not permitted",
            Self::NotFound => "no such file or directory",
            Self::Io => "input/output error",
            Self::NoSuchOffset => "no data at or after this offset",
            Self::TooBig => "value too long",
            Self::BadHandle => "not opened for this",
            Self::NoMemory => "out of memory",
            Self::AccessDenied => "permission denied",
            Self::Busy => "in use",
            Self::Exists => "file exists",
            Self::CrossDevice => "not on the same file system",
            Self::NotDirectory => "not a directory",
            Self::IsDirectory => "is a directory",
            Self::Invalid => "invalid argument",
            Self::FileTooBig => "file too large",
            Self::NoSpace => "no space left",
            Self::ReadOnly => "read-only file system",
            Self::TooManyLinks => "too many links",
            Self::Range => "buffer too small",
            Self::NameTooLong => "name too long",
            Self::NoSuchCall => "not implemented",
            Self::NotEmpty => "directory not empty",
            Self::TooManySymlinks => "too many levels of symbolic links",
            Self::NoData => "no such attribute",
            Self::Overflow => "value too large",
            Self::NotSupported => "operation not supported",
            Self::Stale => "stale file handle",
            Self::Corrupt => "the file system's own bytes are damaged",
        }
    }
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for Error {}
