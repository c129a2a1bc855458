//! Every way in which reading stored bytes can fail.
//!
//! Above: everybody. Invariant: what is wrong with the bytes themselves is [`Damage`], each kind a
//! variant of its own; what the device said is [`Error::Io`]; what a later version may understand
//! is [`Unsupported`].

use std::fmt;
use std::io;

/// The result of reading and writing the format.
pub type Result<T> = core::result::Result<T, Error>;

/// Why something could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The device failed.
    Io(io::ErrorKind, Option<i32>),
    /// The bytes contradict themselves.
    Damaged(Damage),
    /// The bytes need a newer reader.
    Unsupported(Unsupported),
    /// Something asked for more than the user's limits allow.
    OverLimit(&'static str),
}

/// What is wrong with stored bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Damage {
    /// There is no image where one should begin.
    NoImage,
    /// The image ends before what it refers to.
    Truncated,
    /// The stored bytes are not those that were written.
    Checksum,
    /// The plain bytes are not those that were written.
    Hash,
    /// The stored bytes cannot be decoded to what they should be.
    Undecodable,
    /// A group or column head makes no sense.
    Head,
    /// A column's bytes make no sense.
    Column,
    /// A number lies outside of what is allowed there.
    Range,
    /// Keys do not rise.
    Order,
    /// A name is none.
    Name,
    /// A reference leads nowhere, or to something of another kind.
    Reference,
    /// A base, or a block that others are made of, needs more blocks than it may.
    BaseOfBase,
    /// The pages of a tree do not hang together.
    Tree,
    /// A file's stretches leave a gap, or end elsewhere than the file.
    Extents,
    /// A directory's parent is another, or itself.
    Parent,
    /// Counts that must agree do not.
    Count,
}

impl Damage {
    /// In words, for a person.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NoImage => "no image begins here",
            Self::Truncated => "it ends too early",
            Self::Checksum => "a checksum is wrong",
            Self::Hash => "a hash is wrong",
            Self::Undecodable => "stored bytes cannot be decoded",
            Self::Head => "the head of a group makes no sense",
            Self::Column => "a column makes no sense",
            Self::Range => "a number is out of range",
            Self::Order => "keys are out of order",
            Self::Name => "a name is not allowed",
            Self::Reference => "a reference leads nowhere",
            Self::BaseOfBase => "a block that others need needs others itself",
            Self::Tree => "the pages of a tree do not hang together",
            Self::Extents => "the stretches of a file do not make it up",
            Self::Parent => "a directory is not where it says it is",
            Self::Count => "counts do not agree",
        }
    }
}

/// What a newer reader may understand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsupported {
    /// A later version of the format.
    Version(u32),
    /// Another home than the reader's.
    Home(u32),
    /// Feature flags that must be known.
    Features(u64),
    /// Feature flags that must be known to write.
    Writing(u64),
    /// A kind of checksum.
    Checksums(u32),
    /// A codec.
    Codec(u64),
    /// A transform.
    Transform(u64),
    /// A column, in a kind of group.
    Column(u8, u8),
    /// A kind of group.
    Group(u8),
    /// A base image is needed that was not given.
    Base(u16),
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "version {version} of the format is newer"),
            Self::Home(home) => write!(f, "it is no image but a home of kind {home}"),
            Self::Features(flags) => write!(f, "it needs features {flags:#x}, not known here"),
            Self::Writing(flags) => {
                write!(f, "with features {flags:#x}, not known here, it can only be read")
            }
            Self::Checksums(kind) => write!(f, "checksums of kind {kind} are not known here"),
            Self::Codec(codec) => write!(f, "codec {codec} is not known here"),
            Self::Transform(number) => write!(f, "transform {number} is not known here"),
            Self::Column(kind, column) => {
                write!(f, "column {column} of groups of kind {kind} is not known here")
            }
            Self::Group(kind) => write!(f, "groups of kind {kind} are not known here"),
            Self::Base(number) => write!(f, "its base image {number} is missing"),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(_, Some(errno)) => {
                let text = io::Error::from_raw_os_error(*errno).to_string();
                f.write_str(text.rsplit_once(" (os error ").map_or(&*text, |(words, _)| words))
            }
            Self::Io(kind, None) => write!(f, "{kind}"),
            Self::Damaged(damage) => f.write_str(damage.text()),
            Self::Unsupported(what) => write!(f, "{what}"),
            Self::OverLimit(what) => write!(f, "more than the limit for {what}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error.kind(), error.raw_os_error())
    }
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

impl From<Unsupported> for Error {
    fn from(what: Unsupported) -> Self {
        Self::Unsupported(what)
    }
}
