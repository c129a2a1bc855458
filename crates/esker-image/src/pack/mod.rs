//! Packing: a tree goes in, one file comes out.
//!
//! | file | what it holds |
//! |---|---|
//! | mod.rs | what the image shall be like |
//! | tree.rs | the tree while it is gathered |
//! | numbers.rs | the numbers that everything in it gets |
//! | incoming.rs | files on their way in, and whose turn it is |
//! | ahead.rs, look.rs | what other threads find out about them meanwhile |
//! | data.rs, data/ | bytes cut into pieces, each stored once, gathered into blocks |
//! | contents.rs | what files hold, and where it came to lie |
//! | scratch.rs | where bytes wait, and whether they are the same afterwards |
//! | spool.rs | plain bytes that wait for their blocks |
//! | shelf.rs | what is remembered of every file, outside of memory |
//! | finder.rs | numbers of it, found by what it is |
//! | gear.rs | rolling hashes, and the places that they pick out |
//! | repeats.rs | stretches that were there before, wherever they begin and end |
//! | units.rs | stretches of them that go into a block as one |
//! | category.rs | what kind of data that is |
//! | sound.rs | sound among it |
//! | program.rs, code.rs | code of programs among it, and what is done to it before it is compressed |
//! | telling.rs | text told in words |
//! | unpack.rs, made.rs | streams of deflate among it, stored as their text and what makes them of it |
//! | alike.rs | what has much in common with what |
//! | order.rs | blocks grown from what is alike |
//! | groups.rs | what many blocks share, so that they can be small |
//! | trial.rs | whether they do |
//! | pool.rs | blocks compressed by all cores, written in their order |
//! | needs.rs | how much memory that takes |
//! | packer.rs | all of it together, and the end: index, roots |
//! | laying.rs | the layer: what is known of every file, row by row |
//! | from_view.rs | packing what another home holds |
//! | explain.rs | what was chosen |
//! | kinds.rs | what became of files of each kind |
//!
//! Invariant: what comes out depends on what goes in and on the options, not on time, threads or memory.

mod ahead;
mod alike;
mod category;
mod code;
mod contents;
mod data;
mod explain;
mod finder;
mod from_view;
mod gear;
mod groups;
mod incoming;
mod kinds;
mod laying;
mod look;
mod made;
mod needs;
mod numbers;
mod order;
mod own;
mod packer;
mod pool;
mod program;
mod repeats;
mod scratch;
mod shelf;
mod sound;
mod spool;
mod telling;
mod tree;
mod trial;
mod units;
mod unpack;

use esker_stone::limits::{BLOCK_LEN_MAX, PAGE_LEN};
use esker_stone::{Codec, Setting};

pub use category::Category;
pub use explain::{Amount, CategoryUse, Choice, Choices, GroupUse, Left, Tried, uses};
pub use from_view::{Guide, Waiting, copy, copy_adopted, copy_into, copy_names, xattrs};
pub use incoming::Incoming;
pub use kinds::KindUse;
pub use own::{Own, Owns};
pub use packer::{Packed, Packer};
pub use program::Machine;
pub use scratch::{Scratch, Scratches};
pub use tree::{Meta, NodeId, Times};
pub use unpack::FILE_MAX as UNPACK_FILE_MAX;

/// How an image shall be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// How blocks are compressed.
    pub data: Setting,
    /// How pages are compressed.
    pub pages: Setting,
    /// Plain bytes of a block, at most.
    pub block_len: usize,
    /// The shortest stretch that is looked for in everything that came before; none: only files, and pieces of them,
    /// that were there as a whole.
    pub repeats: Option<usize>,
    /// Whether what is alike goes into the same block, or everything into the next one.
    pub alike: bool,
    /// What blocks share, if like is beside like.
    pub sharing: Option<Sharing>,
    /// Whether text is told in words.
    pub words: bool,
    /// The longest stream of deflate that is stored as its text; none: none is.
    pub unpack: Option<usize>,
    /// Whether pictures of JPEG are stored as what is in their blocks.
    pub pictures: bool,
    /// Plain bytes of a page, in about.
    pub page_len: usize,
    /// What is said of single kinds of data.
    pub owns: Owns,
    /// Which times are kept.
    pub times: Times,
    /// Threads that compress.
    pub threads: usize,
    /// Bytes of memory that may be used.
    pub memory: u64,
    /// Words that are kept in the image.
    pub notes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Blocks of a group have a base in common where that pays: plain bytes that all of them may refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Plain bytes of a base, at most.
    pub base_len: usize,
    /// Plain bytes of a group, the base among them, in about.
    pub group_len: usize,
}

impl Sharing {
    /// Plain bytes within which like is drawn to like: more than that, and what comes in between is too far away.
    pub(super) const fn near(self) -> usize {
        self.group_len / 4
    }

    /// One of how many bytes is in a base.
    pub(super) fn parts(self) -> u64 {
        (self.group_len / self.base_len.max(1)).max(1) as u64
    }
}

/// What levels share that share anything.
pub const SHARING: Sharing = Sharing { base_len: 3 << 20, group_len: 32 << 20 };

/// Levels: how hard to try.
pub const LEVELS: usize = 10;

/// Codec, its level, the length of blocks in MiB, and what is done about what came before, of each level.
const BY_LEVEL: [(Codec, i32, usize, Before); LEVELS] = [
    (Codec::None, 0, 1, (None, false, None)),
    (Codec::Lz4, 1, 1, (Some(2048), false, None)),
    (Codec::Zstd, 1, 1, (Some(2048), false, None)),
    (Codec::Zstd, 3, 2, (Some(1024), false, None)),
    (Codec::Zstd, 6, 8, (Some(1024), true, None)),
    (Codec::Zstd, 12, 2, (Some(1024), true, Some(SHARING))),
    (Codec::Zstd, 18, 3, (Some(1024), true, Some(SHARING))),
    (Codec::Xz, 6, 8, (Some(1024), true, None)),
    (Codec::Xz, 9, 16, (Some(1024), true, None)),
    (Codec::Xz, 9, 64, (Some(1024), true, None)),
];

/// The shortest stretch that is looked for, whether like comes to like, and what blocks share.
type Before = (Option<usize>, bool, Option<Sharing>);

/// The least length of blocks that would share something, if they do not.
const ORDERED_LEN: usize = 8 << 20;
/// From this level on short streams are unpacked, and from that on all.
const UNPACK_SHORT: usize = 5;
const UNPACK_ALL: usize = 7;

/// From this level on pictures are stored as what is in their blocks, which takes long to read.
const PICTURES: usize = 7;

/// The level that is taken if none is given.
pub const LEVEL: usize = 6;

impl Options {
    /// Those of a level, with so many threads and so much memory.
    #[must_use]
    pub fn level(level: usize, threads: usize, memory: u64) -> Self {
        let (codec, own, mib, (repeats, alike, sharing)) = BY_LEVEL[level.min(LEVELS - 1)];
        let pages = match level {
            0 => Setting::PLAIN,
            1..=5 => Setting::new(Codec::Zstd, 9),
            _ => Setting::new(Codec::Zstd, 19),
        };
        Self {
            data: Setting::new(codec, own),
            pages,
            block_len: (mib << 20).min(BLOCK_LEN_MAX),
            repeats,
            alike,
            sharing,
            words: alike,
            unpack: match level {
                0..UNPACK_SHORT => None,
                UNPACK_SHORT..UNPACK_ALL => Some(unpack::SHORT_MAX),
                _ => Some(usize::MAX),
            },
            pictures: level >= PICTURES,
            page_len: PAGE_LEN,
            owns: Owns::default(),
            times: Times::Content,
            threads,
            memory,
            notes: Vec::new(),
        }
    }
}

impl Options {
    /// Bytes stay in the order in which they come: like is not drawn to like, and blocks stand alone.
    pub fn keep_order(&mut self) {
        self.alike = false;
        if self.sharing.take().is_some() {
            self.block_len = self.block_len.max(ORDERED_LEN);
        }
    }

    /// Whether anything is tried with bytes: otherwise they are to be read as they are, or nearly.
    const fn tries(&self) -> bool {
        !self.data.codec.is_quick()
    }

    /// What blocks share.
    fn shares(&self) -> Option<Sharing> {
        self.sharing.filter(|_| self.data.codec.takes_base())
    }

    /// Whether text is told from other bytes.
    const fn knows_text(&self) -> bool {
        self.words && self.tries()
    }

    /// Whether code is told from other bytes: where like is drawn to like, and no blocks share a base, which is used
    /// as it is and has something for everything.
    fn knows_code(&self) -> bool {
        self.tries() && self.alike && self.shares().is_none()
    }

    /// Whether data may be taken for what has this name in [`Owns::NAMES`].
    fn tells_apart(&self, name: &str) -> bool {
        match name {
            "sound" => self.tries(),
            "text" => self.knows_text(),
            "streams" => self.unpack.is_some(),
            "code" => self.knows_code(),
            _ => true,
        }
    }
}

/// Why packing did not come to its end.
#[derive(Debug)]
pub enum Error {
    /// The output cannot be written.
    Output(std::io::Error),
    /// The limit on memory is too low: so many bytes are needed at least, or for a tree this large.
    Memory(u64),
    /// What waited beside the output came back as something else.
    Scratch,
    /// A codec failed.
    Coding(esker_stone::Error),
    /// The image whose blocks are taken over cannot be read.
    Image(esker_stone::Error),
    /// A tree was given that cannot be.
    Tree(esker::Error),
    /// Somebody asked to stop, or it failed before and cannot go on.
    Stopped,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Output(error) => write!(f, "cannot write the image ({error})"),
            Self::Memory(bytes) => write!(f, "at least {bytes} bytes of memory are needed"),
            Self::Scratch => f.write_str(
                "what waited beside the image came back changed: check that disk, or the memory",
            ),
            Self::Coding(error) => write!(f, "cannot compress ({error})"),
            Self::Image(error) => write!(f, "cannot take over the image's blocks ({error})"),
            Self::Tree(error) => write!(f, "cannot take this in ({error})"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Output(error)
    }
}

impl From<esker_stone::Error> for Error {
    /// What the system says is of the output, or of what waits beside it, whose bytes alone have checksums here; a
    /// codec has only words of its own.
    fn from(error: esker_stone::Error) -> Self {
        match error {
            esker_stone::Error::Io(_, Some(errno)) => {
                Self::Output(std::io::Error::from_raw_os_error(errno))
            }
            esker_stone::Error::Damaged(esker_stone::Damage::Checksum) => Self::Scratch,
            other => Self::Coding(other),
        }
    }
}

impl From<esker::Error> for Error {
    fn from(error: esker::Error) -> Self {
        Self::Tree(error)
    }
}

/// The result of packing.
pub type Result<T> = std::result::Result<T, Error>;
