//! What packing chose, for whoever wants to know why an image came out as it did.
//!
//! Above: `packer`, at its end. Invariant: what is told was counted, not guessed.

use esker_stone::rows::blocks::BlockRow;
use esker_stone::{Codec, Setting};

use super::category::Category;

/// Streams, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Amount {
    /// One more, of so many bytes.
    pub(super) const fn add(&mut self, bytes: usize) {
        self.count += 1;
        self.bytes += bytes as u64;
    }
}

/// Streams of deflate that were left as they are, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Longer than the level unpacks.
    pub long: Amount,
    /// A trial, or their shortness, said that their text would not be smaller.
    pub dense: Amount,
    /// It cannot be guessed what encoder made them.
    pub unknown: Amount,
    /// They cannot be read, or hold too much text: with all that is behind them in their files.
    pub unread: Amount,
    /// Files that may hold some, and are too large to be looked into.
    pub large: u64,
}

impl Left {
    /// Counts those of another file too.
    pub(super) fn join(&mut self, other: &Self) {
        let Self { long, dense, unknown, unread, large } = other;
        self.large += large;
        let all = [
            (&mut self.long, long),
            (&mut self.dense, dense),
            (&mut self.unknown, unknown),
            (&mut self.unread, unread),
        ];
        for (own, other) in all {
            own.count += other.count;
            own.bytes += other.bytes;
        }
    }
}

/// What blocks of groups took in trials, with a base and without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tried {
    /// Its bytes.
    pub plain: u64,
    /// Those that it takes by itself.
    pub alone: u64,
    /// And in blocks on a base.
    pub based: u64,
}

/// Whether blocks share a base, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// They do: much of them is in it too.
    Common,
    /// They do, since what is made of them wants short ones.
    Short,
    /// A trial said whether they do.
    Tried(bool),
}

/// Groups of blocks that could share a base, of one category, for which the same was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupUse {
    /// The category, as users read it.
    pub category: &'static str,
    /// Whether they do.
    pub choice: Choice,
    /// How many there are.
    pub count: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// Bytes of the bases that they could have.
    pub base: u64,
    /// Of the others, so many are in these too, by what was found to be alike.
    pub covered: u64,
    /// What trials said, if there were any.
    pub tried: Tried,
}

impl GroupUse {
    /// Counts more of them.
    pub(super) const fn join(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.base += other.base;
        self.covered += other.covered;
        self.tried.plain += other.tried.plain;
        self.tried.alone += other.tried.alone;
        self.tried.based += other.tried.based;
    }
}

/// What packing chose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// The shortest stretch that was looked for; none: none was.
    pub repeats: Option<usize>,
    /// Bytes of stretches that were found, not counting pieces and files that were there as a whole.
    pub repeated: u64,
    /// Stretches of what is left that went into a block as one.
    pub units: u64,
    /// Whether the order of these is by what is alike, and how many pairs were.
    pub alike: Option<u64>,
    /// What was chosen for groups of blocks.
    pub groups: Vec<GroupUse>,
    /// Bytes of streams of deflate that are stored as their text.
    pub unpacked: u64,
    /// Bytes of that text.
    pub text: u64,
    /// The longest stream that was to be unpacked; none: none was.
    pub stream_max: Option<usize>,
    /// Streams that were left as they are.
    pub left: Left,
    /// What became of each kind of data that there was.
    pub categories: Vec<CategoryUse>,
}

/// What became of the blocks of a category.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CategoryUse {
    /// Which, as users read it.
    pub name: &'static str,
    /// How its blocks were to be compressed; `None` where only they are known.
    pub setting: Option<Setting>,
    /// How they are stored, each codec with how many blocks. [`Codec::None`]: no other made them smaller.
    pub codecs: Vec<(Codec, u64)>,
    /// How many there are.
    pub blocks: u64,
    /// How many refer to a base.
    pub based: u64,
    /// How many are stored with branches told by where they go to.
    pub filtered: u64,
    /// How many are told in words.
    pub told: u64,
    /// Their bytes.
    pub plain: u64,
    /// And as they are stored.
    pub stored: u64,
    /// Bytes of the largest.
    pub largest: u64,
}

impl CategoryUse {
    /// How many are stored as what a prediction was wrong by: sound, and pictures.
    #[must_use]
    pub fn predicted(&self) -> u64 {
        self.count(|codec| !codec.is_for_anything())
    }

    /// How many no codec made smaller.
    #[must_use]
    pub fn raw(&self) -> u64 {
        self.count(|codec| codec == Codec::None)
    }

    fn count(&self, which: impl Fn(Codec) -> bool) -> u64 {
        self.codecs.iter().filter(|(codec, _)| which(*codec)).map(|(_, blocks)| blocks).sum()
    }

    fn add(&mut self, row: &BlockRow) {
        self.blocks += 1;
        match self.codecs.iter_mut().find(|(codec, _)| *codec == row.codec) {
            Some((_, blocks)) => *blocks += 1,
            None => self.codecs.push((row.codec, 1)),
        }
        self.based += u64::from(row.base.is_some());
        self.filtered += u64::from(row.transform.is_of_code());
        self.told += u64::from(row.words > 0);
        self.plain += u64::from(row.plain);
        self.stored += u64::from(row.stored);
        self.largest = self.largest.max(row.plain.into());
    }
}

/// What blocks of a category are called that somebody else has thought of.
const UNKNOWN: &str = "not known here";

/// What became of the blocks of each category that there is, and how they were to be compressed, by the numbers of
/// categories, if that is known.
#[must_use]
pub fn uses(rows: &[BlockRow], settings: &[Option<Setting>]) -> Vec<CategoryUse> {
    let names = Category::NAMES.into_iter().chain([UNKNOWN]);
    let settings = settings.iter().copied().chain(std::iter::repeat(None));
    let none = |(name, setting)| CategoryUse { name, setting, ..CategoryUse::default() };
    let mut all: Vec<_> = names.zip(settings).map(none).collect();
    let last = all.len() - 1;
    for row in rows {
        all[usize::try_from(row.category).map_or(last, |number| number.min(last))].add(row);
    }
    all.retain(|own| own.blocks > 0);
    all
}
