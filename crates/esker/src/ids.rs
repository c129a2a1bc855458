//! The numbers of a file system, each a type of its own.

/// An inode number. Rises, and is never reused while the file system lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ino(pub u64);

impl Ino {
    /// The root directory.
    pub const ROOT: Self = Self(1);
}

/// Where a listing stands: the sequence number of the last entry seen. It stays true while others create and
/// remove. Entries of a directory number from [`Cursor::FIRST`] up; 1 and 2 are for `.` and `..`, which no
/// home stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub u64);

impl Cursor {
    /// Before everything.
    pub const START: Self = Self(0);
    /// Behind `.`
    pub const DOT: Self = Self(1);
    /// Behind `..`
    pub const DOT_DOT: Self = Self(2);
    /// The first stored entry of a directory.
    pub const FIRST: Self = Self(3);
}

/// A stretch of a file in bytes: `start..end`. `end` never lies before `start`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    start: u64,
    end: u64,
}

impl Span {
    /// `start..end`, or nothing when they are the wrong way round.
    #[must_use]
    pub const fn new(start: u64, end: u64) -> Option<Self> {
        if start <= end { Some(Self { start, end }) } else { None }
    }

    /// `len` bytes from `start`, or nothing when that lies past 2^64.
    #[must_use]
    pub const fn at(start: u64, len: u64) -> Option<Self> {
        match start.checked_add(len) {
            Some(end) => Some(Self { start, end }),
            None => None,
        }
    }

    /// The first byte.
    #[must_use]
    pub const fn start(self) -> u64 {
        self.start
    }

    /// One past the last byte.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.end
    }

    /// In bytes.
    #[must_use]
    pub const fn len(self) -> u64 {
        self.end - self.start
    }

    /// No bytes at all.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }
}
