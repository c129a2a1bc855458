//! Snapshots as streams: what a tree is, or how it differs from an earlier one, for somebody who makes it elsewhere.
//! `FORMAT.md` has every byte of it in words.
//!
//! | file | what it holds |
//! |---|---|
//! | frame.rs | frames: what lies in a stream, and how far somebody is in one |
//! | words.rs | words: what is to be done, in frames |
//! | opening.rs | what a stream is of, and what a receiver knows of it |
//! | gather.rs, pieces.rs | the names of a tree; which bytes of two files are the same |
//! | send.rs, differ.rs | a stream from a tree, or from two |
//! | receive.rs, apply.rs | a tree from a stream |
//!
//! Above: the command. Below: `snapped`, the knot. Invariant: the same two trees give the same frames, whoever
//! compresses them; what a frame says can be done again, as long as no later step was begun.

mod apply;
mod differ;
pub mod frame;
mod gather;
mod opening;
mod pieces;
mod receive;
mod send;
pub mod words;

use std::fmt;

pub use apply::{Meta, Target, apply};
pub use frame::{Frame, Frames, Mark};
pub use opening::{Moment, Opening, Received, VERSION};
pub use pieces::{Compared, Lies, Piece};
pub use receive::{About, Came, Keeper, opened, receive, received, verify};
pub use send::{Tree, is_like, send};
pub use words::Word;

/// The directory in the root of a target in which it is kept what was received; no stream tells of it.
pub const OWN: &[u8] = b".esker-received";
/// Plain bytes at which a frame is full.
pub const FULL: usize = 192 << 10;
/// Plain bytes of a frame, at most: one word more than is full.
pub const MOST: usize = 448 << 10;
/// Bytes of a file in one word, at most.
pub const PIECE: usize = 64 << 10;
/// Bytes of a path, at most: two of them and a piece fit behind what is nearly full.
pub const PATH: usize = 64 << 10;
/// Plain bytes after which a receiver keeps how far it is.
pub const KEEP: usize = 8 << 20;

const _: () = assert!(FULL + 2 * PATH + PIECE + (16 << 10) <= MOST);

/// What is done in a frame; no later frame goes back to an earlier step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Says what the stream is of.
    Open = 0,
    /// What is gone goes, and what gets another name is laid aside.
    Clear = 1,
    /// Everything gets its names.
    Place = 2,
    /// Files get their bytes, and all but directories their attributes.
    Fill = 3,
    /// Directories get their attributes.
    Finish = 4,
    /// Flags, which may forbid all else.
    Flag = 5,
    /// It is whole.
    End = 6,
}

impl Step {
    /// The step of this number.
    #[must_use]
    pub fn numbered(number: u32) -> Option<Self> {
        const ALL: [Step; 7] =
            [Step::Open, Step::Clear, Step::Place, Step::Fill, Step::Finish, Step::Flag, Step::End];
        ALL.get(usize::try_from(number).ok()?).copied()
    }
}

/// Why a stream was not sent, or not received.
#[derive(Debug)]
pub enum Error {
    /// It cannot be read.
    Read(std::io::Error),
    /// It cannot be written.
    Write(std::io::Error),
    /// That is no stream.
    NoStream,
    /// Of a version that is not known.
    Version(u32),
    /// It ends before its end; everything before that was taken.
    Cut,
    /// The frame of this number is not what was sent.
    Damaged(u64),
    /// A frame of this number was expected, and another one came.
    Gap(u64),
    /// What was sent until the mark is something else.
    OtherStream,
    /// The target holds nothing, and the stream is a difference from this.
    NeedsBase(Box<Moment>),
    /// The target holds the first, and the stream is a difference from the second.
    OtherBase(Box<[Moment; 2]>),
    /// The target holds some of this, and the stream is of something else.
    Halfway(Box<Moment>),
    /// The target holds something, and the stream is of a whole tree.
    NotEmpty,
    /// What the target knows of what it received is damaged.
    State,
    /// The target is a copy of what received, and nothing tells whether it is a true one.
    Copied(Box<Moment>),
    /// Nothing shows any more that the target is what it was when it received this.
    Forgotten(Box<Moment>),
    /// Something lies behind the end of the stream.
    More,
    /// Something in the source cannot be read.
    Source(Vec<u8>, esker::Error),
    /// Something cannot be done in the target.
    Target(Vec<u8>, esker::Error),
    /// Something in the target is not what it was when it was received.
    Changed(Vec<u8>),
    /// Something in the target is in the way.
    InTheWay(Vec<u8>),
}

/// The result of sending or receiving.
pub type Result<T> = std::result::Result<T, Error>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(error) => write!(f, "cannot read the stream ({error})"),
            Self::Write(error) => write!(f, "cannot write the stream ({error})"),
            Self::NoStream => f.write_str("this is no stream of a snapshot"),
            Self::Version(version) => write!(f, "the stream is of version {version}"),
            Self::Cut => f.write_str("the stream is cut short"),
            Self::Damaged(number) => write!(f, "the stream is damaged in frame {number}"),
            Self::Gap(number) => write!(f, "the stream goes on elsewhere than in frame {number}"),
            Self::OtherStream => f.write_str("that is another stream than the one begun"),
            Self::NeedsBase(base) => write!(f, "the stream tells what changed since {base}"),
            Self::OtherBase(two) => {
                write!(f, "it holds {}, and the stream tells what changed since {}", two[0], two[1])
            }
            Self::Halfway(moment) => write!(f, "it holds a part of {moment}"),
            Self::NotEmpty => f.write_str("there is something already"),
            Self::State => f.write_str("what is known of what was received is damaged"),
            Self::Copied(moment) => write!(f, "it is a copy of what received {moment}"),
            Self::Forgotten(moment) => {
                write!(f, "nothing shows any more whether it still is {moment}")
            }
            Self::More => f.write_str("there is more behind the end of the stream"),
            Self::Source(_, error) | Self::Target(_, error) => error.fmt(f),
            Self::Changed(_) => f.write_str("changed since it was received"),
            Self::InTheWay(_) => f.write_str("in the way of what is received"),
        }
    }
}

impl std::error::Error for Error {}
