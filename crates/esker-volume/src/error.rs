//! Every way in which a volume can fail.
//!
//! Invariant: what the device says is a [`Fault`], what is wrong with the bytes is [`Damage`] (here) or stone's; what
//! POSIX is told is decided in one place, [`Error::core`].

use std::fmt;

use crate::device::Fault;

/// The result of working on a volume.
pub type Result<T> = core::result::Result<T, Error>;

/// Why something could not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The device failed.
    Device(Fault),
    /// The form at rest is damaged, or needs a newer reader.
    Stone(esker_stone::Error),
    /// The volume contradicts itself.
    Damaged(Damage),
    /// The volume is full.
    NoSpace,
    /// The volume cannot be written any more: its device failed, or it was opened so.
    ReadOnly,
    /// These parameters do not fit.
    Setting(&'static str),
    /// The source of a commit, or the base, failed.
    Source(esker::Error),
    /// The volume cannot be used without its base.
    Base(NoBase),
}

/// Why there is no base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBase {
    /// The image that it lies on is not there.
    Missing,
    /// Laying the volume over it did not come to its end.
    Unfinished,
}

impl NoBase {
    /// In words, for a person.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Missing => "the base image of the volume is not there",
            Self::Unfinished => "making the volume over its base was cut short",
        }
    }
}

/// What is wrong with a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Damage {
    /// No superblock that counts.
    NoVolume,
    /// The device is smaller than the volume.
    Shortened,
    /// A superblock's numbers contradict each other.
    Superblock,
    /// The root is not what the superblock says.
    Root,
    /// What the root says of snapshots contradicts itself.
    Snapshots,
    /// A commit that was known to be safe is not there, or not whole.
    LostCommit,
    /// What a commit says makes no sense.
    Commit,
    /// A segment is named that is none.
    Segment,
    /// A block is named that is not known.
    Block,
    /// The block is stored as what differs from another, and that one is damaged.
    DeltaBase,
    /// A table's page holds something else than it should.
    Table,
    /// Bytes of the base are named that are none.
    Base,
    /// No snapshot of this name is left.
    NoSnapshot,
    /// Bytes of a snapshot's file could not be saved when the volume was repaired.
    Lost,
}

impl Damage {
    /// In words, for a person.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NoVolume => "no volume here: no superblock that counts",
            Self::Shortened => "the device is smaller than the volume on it",
            Self::Superblock => "the superblock contradicts itself",
            Self::Root => "the root is not what the superblock says",
            Self::Snapshots => "what the root says of snapshots contradicts itself",
            Self::LostCommit => "a commit that was safe is lost",
            Self::Commit => "a commit makes no sense",
            Self::Segment => "a segment is named that is none",
            Self::Block => "a block is named that is not known",
            Self::DeltaBase => "the block that it is stored as a difference from is damaged",
            Self::Table => "a table's page holds something else",
            Self::Base => "bytes of the base are named that are none",
            Self::NoSnapshot => "no snapshot of this name is left",
            Self::Lost => "these bytes of a snapshot were lost before the volume was repaired",
        }
    }
}

impl Error {
    /// As POSIX is told.
    #[must_use]
    pub const fn core(self) -> esker::Error {
        match self {
            Self::NoSpace | Self::Device(Fault::NoSpace) => esker::Error::NoSpace,
            Self::ReadOnly => esker::Error::ReadOnly,
            Self::Source(error) => error,
            Self::Stone(esker_stone::Error::Unsupported(_)) => esker::Error::NotSupported,
            _ => esker::Error::Io,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device(fault) => fault.fmt(f),
            Self::Stone(error) => error.fmt(f),
            Self::Damaged(damage) => f.write_str(damage.text()),
            Self::NoSpace => f.write_str("no space left in the volume"),
            Self::ReadOnly => f.write_str("the volume cannot be written"),
            Self::Setting(what) => f.write_str(what),
            Self::Source(error) => f.write_str(error.text()),
            Self::Base(why) => f.write_str(why.text()),
        }
    }
}

impl std::error::Error for Error {}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::Device(fault)
    }
}

impl From<esker_stone::Error> for Error {
    fn from(error: esker_stone::Error) -> Self {
        Self::Stone(error)
    }
}

impl From<esker_stone::Damage> for Error {
    fn from(damage: esker_stone::Damage) -> Self {
        Self::Stone(damage.into())
    }
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

impl From<esker::Error> for Error {
    fn from(error: esker::Error) -> Self {
        Self::Source(error)
    }
}
