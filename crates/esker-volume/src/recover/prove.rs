//! Proving: which blocks are as they were written, wherever they lie now; what files have of all others becomes a hole.
//!
//! Above: `repair`. Below: rows of blocks, the device. Invariant: a block that is said to be whole was read, had its
//! checksums, and could be decoded.

use std::collections::{BTreeMap, BTreeSet};

use esker_stone::rows::blocks::BlockRow;
use esker_stone::rows::extents::BlockName;

use super::{All, Places, moved};
use crate::base::is_based;
use crate::device::Device;
use crate::left::is_in_one;
use crate::limits::BLOCK_LEN_MAX;
use crate::recent::{Run, Runs};
use crate::rows::{Move, Refs};

/// Blocks, and what is known of each by now.
pub(super) struct Proving<'a, D> {
    device: &'a D,
    places: &'a Places,
    /// Bytes of a segment, at most.
    room: u64,
    blocks: BTreeMap<BlockName, BlockRow>,
    moves: BTreeMap<BlockName, Move>,
    /// Whether there is a base: what lies there is not looked at.
    pub below: bool,
    /// Plain bytes of those that were read; `None`: damaged.
    known: BTreeMap<BlockName, Option<u32>>,
    /// Those that were moved, and are whole only where they were born.
    born: BTreeSet<BlockName>,
}

impl<'a, D: Device> Proving<'a, D> {
    /// Of all blocks of which there is a row.
    pub fn new(device: &'a D, places: &'a Places, room: u64, all: &mut All) -> Self {
        let blocks = std::mem::take(&mut all.recent.blocks);
        let moves = std::mem::take(&mut all.recent.moves);
        let (known, born) = (BTreeMap::new(), BTreeSet::new());
        Self { device, places, room, blocks, moves, below: false, known, born }
    }

    /// The row of a block.
    pub fn row(&self, block: BlockName) -> Option<&BlockRow> {
        self.blocks.get(&block)
    }

    /// That it was moved.
    pub fn moved(&self, block: BlockName) -> Option<Move> {
        let row = moved(&self.moves, block).filter(|_| !self.born.contains(&block))?;
        Some(Move { block, count: 1, ..row })
    }

    /// The segment in which it lies.
    pub fn segment(&self, block: BlockName) -> u64 {
        self.moved(block).map_or(block.segment, |row| row.to)
    }

    /// Of these blocks, those that are not whole are said to be lost. Of one without a row nobody knows how long it
    /// was: it is as long as a block can be.
    pub fn lose(&mut self, blocks: &BTreeSet<BlockName>, len: u32) {
        for &block in blocks {
            if self.plain(block).is_some() {
                continue;
            }
            let before = self.blocks.range(..block).next_back();
            let before = before.filter(|(other, _)| other.segment == block.segment);
            let (at, plain) = match (self.row(block), before) {
                (Some(row), _) => (row.at, row.plain),
                (None, Some((_, row))) => (row.at.saturating_add(row.stored.into()), len),
                (None, None) => (0, len),
            };
            // It lies nowhere.
            self.born.insert(block);
            self.blocks.insert(block, BlockRow::lost(at, plain));
        }
    }

    /// The plain bytes of a block, where it lies by what is known.
    fn read(&mut self, block: BlockName) -> Option<Vec<u8>> {
        let row = self.row(block)?.clone();
        let base = match row.base {
            // A base has none itself.
            Some(base) if self.row(base)?.base.is_none() => self.found(base)?,
            Some(_) => return None,
            None => Vec::new(),
        };
        row.open(self.stored(block, &row)?, &base).ok()
    }

    fn stored(&self, block: BlockName, row: &BlockRow) -> Option<Vec<u8>> {
        if row.plain > BLOCK_LEN_MAX || row.stored > row.plain {
            return None;
        }
        let shift = self.moved(block).map_or(0, |row| row.shift);
        let at = row.at.wrapping_add(shift);
        at.checked_add(row.stored.into()).filter(|&end| end <= self.room)?;
        let place = self.places.get(self.segment(block))?.checked_add(at)?;
        let mut stored = vec![0; row.stored as usize];
        self.device.read(place, &mut stored).ok()?;
        BlockRow::covered(block).verify(0, &stored, &row.checksums).ok()?;
        Some(stored)
    }

    /// The same wherever it is whole, and from then on that is where it lies.
    fn found(&mut self, block: BlockName) -> Option<Vec<u8>> {
        let mut read = self.read(block);
        if read.is_none() && self.moved(block).is_some() {
            // What is moved stays where it was until a superblock has forgotten that.
            self.born.insert(block);
            read = self.read(block);
        }
        read
    }

    /// Adds what deltas name to the references of blocks; plain bytes of all of these. Of blocks that are named at all.
    pub fn deltas(&self, refs: &mut BTreeMap<BlockName, u64>) -> u64 {
        let rows = refs.keys().filter_map(|&block| self.row(block));
        let deltas: Vec<_> = rows.filter_map(|row| Some((row.base?, row.plain))).collect();
        for &(base, plain) in &deltas {
            let bytes = refs.entry(base).or_default();
            // What only a snapshot had is named again.
            let named = Refs { block: base, bytes: *bytes }.named().saturating_add(plain.into());
            let known = Refs { block: base, bytes: named };
            let is_in_one = self.row(base).is_some_and(is_in_one);
            *bytes = if is_in_one { known.never_in_pieces().bytes } else { named };
        }
        deltas.iter().map(|(_, plain)| u64::from(*plain)).sum()
    }

    /// How many plain bytes it has, if it is whole.
    pub fn plain(&mut self, block: BlockName) -> Option<u32> {
        if let Some(&known) = self.known.get(&block) {
            return known;
        }
        let plain = self.found(block).map(|bytes| bytes.len() as u32);
        self.known.insert(block, plain);
        plain
    }

    fn is_whole(&mut self, run: &Run) -> bool {
        let Some(place) = run.place else { return true };
        if is_based(place.block) {
            return self.below;
        }
        let plain = self.plain(place.block);
        plain.is_some_and(|plain| u64::from(place.offset) + run.len <= plain.into())
    }

    /// Makes a hole of whatever a file has of other blocks, and says which those files are.
    pub fn holes(&mut self, all: &mut All) {
        for (ino, runs) in &mut all.recent.extents {
            let size = all.recent.inodes.get(ino).and_then(Option::as_ref);
            let size = size.map_or(0, |row| row.attr.size);
            let (mut left, mut lost) = (Runs::default(), 0);
            for run in runs.iter() {
                if self.is_whole(run) {
                    left.put(*run);
                } else {
                    lost += run.within(0, size).map_or(0, |seen| seen.len);
                }
            }
            *runs = left;
            if lost > 0 {
                all.damaged.insert(*ino, lost);
            }
        }
    }
}
