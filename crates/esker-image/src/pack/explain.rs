//! What packing chose, for whoever wants to know why an image came out as it did.
//!
//! Above: `packer`, at its end. Invariant: what is told was counted, not guessed.

use esker_stone::Codec;
use esker_stone::rows::blocks::BlockRow;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CategoryUse {
    /// Which, as users read it.
    pub name: &'static str,
    /// How many there are.
    pub blocks: u64,
    /// How many are stored as what a prediction was wrong by: sound, and pictures.
    pub predicted: u64,
    /// How many are stored with branches told by where they go to.
    pub filtered: u64,
    /// How many are told in words.
    pub told: u64,
    /// How many no codec made smaller.
    pub raw: u64,
    /// Their bytes.
    pub plain: u64,
    /// And as they are stored.
    pub stored: u64,
}

/// All categories that there are.
pub(super) fn categories(rows: &[BlockRow]) -> Vec<CategoryUse> {
    let mut all = Category::NAMES.map(|name| CategoryUse {
        name,
        blocks: 0,
        predicted: 0,
        filtered: 0,
        told: 0,
        raw: 0,
        plain: 0,
        stored: 0,
    });
    for row in rows {
        // A category that is not known here was taken over from somewhere else.
        let number = usize::try_from(row.category).ok().filter(|&number| number < all.len());
        let own = &mut all[number.unwrap_or(0)];
        own.blocks += 1;
        own.predicted += u64::from(!row.codec.is_for_anything());
        own.filtered += u64::from(row.transform.is_of_code());
        own.told += u64::from(row.words > 0);
        own.raw += u64::from(row.codec == Codec::None);
        own.plain += u64::from(row.plain);
        own.stored += u64::from(row.stored);
    }
    all.into_iter().filter(|own| own.blocks > 0).collect()
}
