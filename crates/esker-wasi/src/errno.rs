//! Every error that is answered, with its number in WASI preview 1.
//!
//! Invariant: the numbers are those of the WASI documents.

/// Why a function of WASI did not do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
#[non_exhaustive]
pub enum Errno {
    /// A value is too long.
    TooBig = 1,
    /// Permission bits say no.
    Access = 2,
    /// Nothing there yet; try again.
    Again = 6,
    /// No such descriptor.
    BadDescriptor = 8,
    /// In use.
    Busy = 10,
    /// The name is taken.
    Exists = 20,
    /// Outside of the program's memory.
    Fault = 21,
    /// Too large for a file.
    FileTooBig = 22,
    /// A path that is not UTF-8.
    IllegalBytes = 25,
    /// Interrupted.
    Interrupted = 27,
    /// Arguments that make no sense.
    Invalid = 28,
    /// The home or the outside world failed.
    Io = 29,
    /// A directory was not wanted.
    IsDirectory = 31,
    /// Symbolic links on and on, or one where none was to be followed.
    Loop = 32,
    /// Too many files are open.
    TooManyFiles = 33,
    /// Too many names of one file.
    TooManyLinks = 34,
    /// A name, or what a buffer should take, is too long.
    NameTooLong = 37,
    /// No such file or directory.
    NotFound = 44,
    /// No memory left.
    NoMemory = 48,
    /// No space left.
    NoSpace = 51,
    /// There is no such function here.
    NoSuchCall = 52,
    /// A directory was needed.
    NotDirectory = 54,
    /// The directory has entries.
    NotEmpty = 55,
    /// Not a socket.
    NotSocket = 57,
    /// Not for this kind of file.
    NotSupported = 58,
    /// No data or hole there.
    NoSuchOffset = 60,
    /// The value does not fit its type.
    Overflow = 61,
    /// Not permitted: out of the directory that was given, say.
    NotPermitted = 63,
    /// Nobody reads any more.
    Pipe = 64,
    /// Outside of what can be told.
    Range = 68,
    /// Nothing can be changed here.
    ReadOnly = 69,
    /// What has no place to seek to.
    NoSeek = 70,
    /// The file is gone.
    Stale = 72,
    /// Between two file systems.
    CrossDevice = 75,
    /// The descriptor has no right to this.
    NotCapable = 76,
}

impl Errno {
    /// The number that a program sees.
    #[must_use]
    pub const fn number(self) -> u16 {
        self as u16
    }
}

impl From<esker::Error> for Errno {
    fn from(error: esker::Error) -> Self {
        use esker::Error;
        match error {
            Error::NotPermitted => Self::NotPermitted,
            Error::NotFound => Self::NotFound,
            Error::NoSuchOffset => Self::NoSuchOffset,
            Error::TooBig => Self::TooBig,
            Error::BadHandle => Self::BadDescriptor,
            Error::NoMemory => Self::NoMemory,
            Error::AccessDenied => Self::Access,
            Error::Busy => Self::Busy,
            Error::Exists => Self::Exists,
            Error::CrossDevice => Self::CrossDevice,
            Error::NotDirectory => Self::NotDirectory,
            Error::IsDirectory => Self::IsDirectory,
            Error::Invalid => Self::Invalid,
            Error::FileTooBig => Self::FileTooBig,
            Error::NoSpace => Self::NoSpace,
            Error::ReadOnly => Self::ReadOnly,
            Error::TooManyLinks => Self::TooManyLinks,
            Error::Range => Self::Range,
            Error::NameTooLong => Self::NameTooLong,
            Error::NoSuchCall => Self::NoSuchCall,
            Error::NotEmpty => Self::NotEmpty,
            Error::TooManySymlinks => Self::Loop,
            Error::Overflow => Self::Overflow,
            Error::NotSupported => Self::NotSupported,
            Error::Stale => Self::Stale,
            // WASI has no words of its own for what is left.
            _ => Self::Io,
        }
    }
}
