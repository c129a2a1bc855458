//! Rows that only a volume has, all of numbers.
//!
//! Above: `delta`, `root`. Below: esker-stone's columns. Invariant: a row that was read lies in its range.

use esker::Ino;
use esker_stone::key::kind;
use esker_stone::rows::extents::BlockName;
use esker_stone::rows::numbers::NumberRow;

use crate::segments::Physical;

type Result<T> = esker_stone::Result<T>;

fn short(number: u64) -> Result<u32> {
    u32::try_from(number).map_err(|_| esker_stone::Damage::Range.into())
}

/// How many bytes of files name a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refs {
    /// The block.
    pub block: BlockName,
    /// 0: the block is gone. From 2^63 on: see [`Refs::unnamed_since`]; else, bit 62: see [`Refs::in_pieces`], and bit
    /// 61: see [`Refs::never_in_pieces`].
    pub bytes: u64,
}

/// From here on a number of references is none, but says when the last one went.
const KEPT: u64 = 1 << 63;
/// What is added to a number of references where a segment is needed for so many bytes of the block, and no more.
const IN_PIECES: u64 = 1 << 62;
/// What is added where that is not to be.
const NEVER_IN_PIECES: u64 = 1 << 61;
/// More bytes of files never name a block.
pub(crate) const NAMED_MAX: u64 = NEVER_IN_PIECES - 1;

impl Refs {
    /// Of a block that no file names any more since this commit, and that a snapshot needs.
    #[must_use]
    pub const fn kept(block: BlockName, since: u64) -> Self {
        Self { block, bytes: KEPT | since }
    }

    /// How many bytes of files name it.
    #[must_use]
    pub const fn named(&self) -> u64 {
        if self.bytes < KEPT { self.bytes & NAMED_MAX } else { 0 }
    }

    /// Of a block of which what is named can be told anew without the rest.
    #[must_use]
    pub const fn in_pieces(self) -> Self {
        Self { bytes: self.bytes | IN_PIECES, ..self }
    }

    /// Of a block that others differ from, or did.
    #[must_use]
    pub const fn never_in_pieces(self) -> Self {
        Self { bytes: self.bytes | NEVER_IN_PIECES, ..self }
    }

    /// Of the same block, if all of it is needed.
    #[must_use]
    pub const fn whole(self) -> Self {
        if self.is_in_pieces() { Self { bytes: self.bytes & !IN_PIECES, ..self } } else { self }
    }

    /// Of the same block, if so many bytes name it: all of it is needed.
    #[must_use]
    pub const fn if_named(&self, bytes: u64) -> Self {
        let new = Self { block: self.block, bytes };
        if self.is_never_in_pieces() && bytes > 0 { new.never_in_pieces() } else { new }
    }

    /// Whether all of it is needed for ever, until no file names it any more.
    #[must_use]
    pub const fn is_never_in_pieces(&self) -> bool {
        self.bytes & KEPT == 0 && self.bytes & NEVER_IN_PIECES != 0
    }

    /// Whether only what is named of the block counts as needed.
    #[must_use]
    pub const fn is_in_pieces(&self) -> bool {
        self.bytes & KEPT == 0 && self.bytes & IN_PIECES != 0
    }

    /// Bytes of a segment that are needed for a block of which so many are stored.
    #[must_use]
    pub fn needed(&self, stored: u32) -> u64 {
        match self.bytes {
            0 => 0,
            _ if self.is_in_pieces() => self.named().min(stored.into()),
            _ => stored.into(),
        }
    }

    /// The commit since which no file names it; `None`: some do, or it is gone.
    #[must_use]
    pub const fn unnamed_since(&self) -> Option<u64> {
        if self.bytes < KEPT { None } else { Some(self.bytes - KEPT) }
    }
}

impl NumberRow<3> for Refs {
    const KIND: u8 = kind::REFS;
    const KEYS: usize = 2;

    fn numbers(&self) -> [u64; 3] {
        [self.block.segment, self.block.slot.into(), self.bytes]
    }

    fn from_numbers([segment, slot, bytes]: [u64; 3]) -> Result<Self> {
        Ok(Self { block: BlockName { segment, slot: short(slot)? }, bytes })
    }
}

/// Blocks that lie elsewhere than where they were born.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The first.
    pub block: BlockName,
    /// How many slots.
    pub count: u32,
    /// The segment where they lie now.
    pub to: u64,
    /// Offset there less offset in the block index.
    pub shift: u64,
}

impl Move {
    /// Whether it says where this block lies.
    #[must_use]
    pub const fn holds(&self, block: BlockName) -> bool {
        self.block.segment == block.segment
            && self.block.slot <= block.slot
            && block.slot - self.block.slot < self.count
    }
}

impl NumberRow<5> for Move {
    const KIND: u8 = kind::MOVE;
    const KEYS: usize = 2;

    fn numbers(&self) -> [u64; 5] {
        [self.block.segment, self.block.slot.into(), self.count.into(), self.to, self.shift]
    }

    fn from_numbers([segment, slot, count, to, shift]: [u64; 5]) -> Result<Self> {
        let block = BlockName { segment, slot: short(slot)? };
        Ok(Self { block, count: short(count)?, to, shift })
    }
}

/// How many bytes of a segment somebody needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Live {
    /// Which.
    pub segment: u64,
    /// So many.
    pub bytes: u64,
}

impl NumberRow<2> for Live {
    const KIND: u8 = kind::LIVE;
    const KEYS: usize = 1;

    fn numbers(&self) -> [u64; 2] {
        [self.segment, self.bytes]
    }

    fn from_numbers([segment, bytes]: [u64; 2]) -> Result<Self> {
        Ok(Self { segment, bytes })
    }
}

/// A segment that was begun for blocks that are moved, and where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begun {
    /// Its number.
    pub segment: u64,
    /// Its stretch.
    pub physical: Physical,
}

impl NumberRow<2> for Begun {
    const KIND: u8 = kind::BEGUN;
    const KEYS: usize = 1;

    fn numbers(&self) -> [u64; 2] {
        [self.segment, self.physical.0.into()]
    }

    fn from_numbers([segment, physical]: [u64; 2]) -> Result<Self> {
        Ok(Self { segment, physical: Physical(short(physical)?) })
    }
}

/// An inode without a name that somebody still used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orphan(pub Ino);

impl NumberRow<1> for Orphan {
    const KIND: u8 = kind::ORPHAN;
    const KEYS: usize = 1;

    fn numbers(&self) -> [u64; 1] {
        [self.0.0]
    }

    fn from_numbers([ino]: [u64; 1]) -> Result<Self> {
        Ok(Self(Ino(ino)))
    }
}

/// A table that snapshots have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// Where it lies.
    pub place: (u64, u64),
    /// The first snapshot that has it.
    pub first: u64,
}

impl NumberRow<3> for Since {
    const KIND: u8 = kind::SINCE;
    const KEYS: usize = 2;

    fn numbers(&self) -> [u64; 3] {
        [self.place.0, self.place.1, self.first]
    }

    fn from_numbers([segment, at, first]: [u64; 3]) -> Result<Self> {
        Ok(Self { place: (segment, at), first })
    }
}

/// A counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Which.
    pub number: u64,
    /// What it says.
    pub value: u64,
}

/// Numbers of counters.
pub mod counter {
    /// No inode has this number or one above it.
    pub const NEXT_INO: u64 = 1;
    /// Inodes in use.
    pub const INODES: u64 = 2;
    /// No segment has this number or one above it.
    pub const NEXT_SEGMENT: u64 = 3;
    /// No name has this place in its directory's listing or one above it.
    pub const NEXT_PLACE: u64 = 4;
    /// Not 0: blocks may be kept that no snapshot needs any more.
    pub const SWEEPING: u64 = 5;
    /// Snapshots that rules have made, at most; 0 or missing: as many as they keep.
    pub const LARGEST: u64 = 6;
    /// Plain bytes of blocks that have a base.
    pub const DELTAS: u64 = 7;
    /// Scrubbing reads blocks from this segment on.
    pub const SCRUBBED: u64 = 9;
}

/// What a volume counts of its inodes and names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// No inode has this number or one above it.
    pub next_ino: u64,
    /// Inodes in use.
    pub inodes: u64,
    /// No name has this place in its directory's listing or one above it.
    pub next_place: u64,
}

impl Numbers {
    /// As rows.
    #[must_use]
    pub const fn counters(&self) -> [Counter; 3] {
        [
            Counter { number: counter::NEXT_INO, value: self.next_ino },
            Counter { number: counter::INODES, value: self.inodes },
            Counter { number: counter::NEXT_PLACE, value: self.next_place },
        ]
    }

    /// What a row says of them, if it does.
    pub const fn take(&mut self, row: &Counter) {
        match row.number {
            counter::NEXT_INO => self.next_ino = row.value,
            counter::INODES => self.inodes = row.value,
            counter::NEXT_PLACE => self.next_place = row.value,
            _ => {}
        }
    }
}

impl NumberRow<2> for Counter {
    const KIND: u8 = kind::COUNTER;
    const KEYS: usize = 1;

    fn numbers(&self) -> [u64; 2] {
        [self.number, self.value]
    }

    fn from_numbers([number, value]: [u64; 2]) -> Result<Self> {
        Ok(Self { number, value })
    }
}
