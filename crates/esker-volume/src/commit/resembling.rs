//! Delta-coding: a block that resembles the one it takes the place of is stored as what differs from that, its base.
//! When its segment is emptied it is written as a whole, by `again`.
//!
//! Above: `blocks`. Below: the cache; the device only while it pays. Invariant: a
//! base has none itself, and counts the plain bytes of each block that has it among its references, so it stays as
//! long as any of those. How much is held in this way beside what files have is bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use esker::Ino;
use esker_stone::Setting;
use esker_stone::rows::blocks::BlockRow;
use esker_stone::rows::extents::BlockName;

use super::Writer;
use super::blocks::{Coded, Plain};
use crate::base::is_based;
use crate::device::Device;
use crate::error::Result;
use crate::limits::{DELTAS_SHARE, REMEMBERED_LEN};
use crate::rows::{Counter, counter};
use crate::stack::State;
use crate::superblock::DELTAS;
use crate::volume::Volume;

/// A block is a delta when that takes no more than one part of so many of what it would take alone, ...
const WORTH: usize = 2;
/// ... which is not looked at if it takes no more than one part of so many of its plain bytes.
const LITTLE: usize = 8;
/// A base is so many times as long as its delta at most: it is kept as a whole.
const LONGER_MAX: usize = 2;
/// After so many in a row that did not resemble ...
const VAIN_MAX: u32 = 64;
/// ... only one of so many is compared. As many more are not read for that.
const SELDOM: u32 = 16;

/// Whether comparing has been worth it of late: how many in a row did not resemble.
pub(crate) struct Likeness(AtomicU32);

impl Default for Likeness {
    fn default() -> Self {
        // That it pays is still to be seen.
        Self(AtomicU32::new(1))
    }
}

impl Likeness {
    /// Whether this block is read to be compared with what takes its place: always where the last one resembled,
    /// otherwise now and then, since nobody would ever know.
    fn reads(&self, block: BlockName) -> bool {
        match self.0.load(Ordering::Relaxed) {
            0 => true,
            1..VAIN_MAX => block.slot.is_multiple_of(SELDOM),
            _ => block.slot.is_multiple_of(SELDOM * SELDOM),
        }
    }

    /// Whether what takes the place of this block is compared with it.
    fn samples(&self, block: BlockName) -> bool {
        self.0.load(Ordering::Relaxed) < VAIN_MAX || block.slot.is_multiple_of(SELDOM)
    }

    fn compared(&self, is_alike: bool) {
        if is_alike {
            self.0.store(0, Ordering::Relaxed);
        } else if self.0.load(Ordering::Relaxed) < VAIN_MAX {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A block, and its plain bytes.
pub(super) struct Near {
    block: BlockName,
    bytes: Arc<Vec<u8>>,
}

/// Compresses a block, as what differs from another if that is much less.
pub(super) fn encode(plain: &Plain, setting: Setting) -> Result<Coded<Vec<u8>>> {
    let Some(near) = &plain.near else {
        return Ok(Coded::alone(setting.encode_or_leave(&plain.bytes)?));
    };
    let (codec, stored) = setting.encode(&plain.bytes, &near.bytes)?;
    let is_little = stored.len() * LITTLE <= plain.bytes.len();
    let alone = if is_little { None } else { Some(setting.encode_or_leave(&plain.bytes)?) };
    Ok(match alone {
        Some(alone) if stored.len() * WORTH > alone.1.len() => Coded::alone(alone),
        _ => Coded { codec, stored, base: Some(near.block) },
    })
}

/// Why blocks are no deltas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoDeltas {
    /// It was opened so.
    Unwanted,
    /// The volume is of before there were any.
    Older,
    /// What compresses blocks takes no base.
    Codec,
}

impl<D: Device> Volume<D> {
    /// How well comparing goes, if new blocks may be deltas.
    fn likeness(&self) -> Option<&Likeness> {
        self.likeness.as_ref().filter(|_| self.no_deltas().is_none())
    }

    /// Why no block that is written now is a delta, if so.
    pub fn no_deltas(&self) -> Option<NoDeltas> {
        if self.likeness.is_none() {
            Some(NoDeltas::Unwanted)
        } else if self.shape.incompatible & DELTAS == 0 {
            Some(NoDeltas::Older)
        } else if !self.setting().codec.takes_base() {
            Some(NoDeltas::Codec)
        } else {
            None
        }
    }

    /// Plain bytes of blocks that may be deltas: what they hold of others no file may have any more. None where there
    /// is no room to write all of them as a whole.
    pub(super) fn deltas_max(&self, state: &State) -> u64 {
        if self.likeness().is_none() {
            return 0;
        }
        let segments = self.segments();
        let (total, used) = segments.usage(self.filled(), self.kept_back(state));
        let most = total / DELTAS_SHARE;
        if total - used < most { 0 } else { most }
    }
}

impl<D: Device> Writer<'_, D> {
    /// What bytes that take the place of others may differ little from, if it is at hand.
    pub(super) fn near(&self, ino: Ino, at: u64, len: usize) -> Option<Near> {
        let volume = self.volume;
        let likeness = volume.likeness()?;
        let deltas = self.state.deltas.saturating_add_signed(self.deltas);
        if deltas.saturating_add(len as u64) > self.deltas_max {
            return None;
        }
        let stack = volume.stack(self.state);
        let before = stack.run(ino, at).ok()?.place?.block;
        if is_based(before) {
            return None;
        }
        let block = stack.block_row(before).ok()?.base.unwrap_or(before);
        if self.folded.contains(&block) || !likeness.samples(block) {
            return None;
        }
        if stack.block_row(block).ok()?.plain as usize > LONGER_MAX * len {
            return None;
        }
        let known = volume.cache.peek(volume.block_key(block));
        let read = || if likeness.reads(block) { stack.block(block).ok() } else { None };
        Some(Near { block, bytes: known.or_else(read)? })
    }

    /// A block was compared, or not, and resembled or not.
    pub(super) fn compared(&self, was: bool, is_alike: bool) {
        if let Some(likeness) = self.volume.likeness().filter(|_| was) {
            likeness.compared(is_alike);
        }
    }

    /// The block that was just laid down may be what the next one in its place differs little from.
    pub(super) fn remember(&mut self, bytes: Vec<u8>) {
        let Some(likeness) = self.volume.likeness() else { return };
        let slot = self.log.slot + (self.rows.len() as u32).wrapping_sub(1);
        let block = BlockName { segment: self.log.segment, slot };
        let is_it = self.rows.last().is_some_and(|row| row.plain as usize == bytes.len());
        let most = REMEMBERED_LEN.min(self.volume.cache.limit() / 8);
        if is_it && likeness.samples(block) && self.remembered_len + bytes.len() <= most {
            self.remembered_len += bytes.len();
            self.remembered.push((block, bytes));
        }
    }

    /// What was laid down is there.
    pub(super) fn publish_remembered(&mut self) {
        for (block, bytes) in self.remembered.drain(..) {
            self.volume.cache.put(self.volume.block_key(block), bytes);
        }
    }

    /// A block is gone: what it differs from has a reference less.
    pub(super) fn unbase(&mut self, row: &BlockRow) {
        if let Some(base) = row.base {
            self.refers(base, -i64::from(row.plain));
            self.deltas -= i64::from(row.plain);
        }
    }

    /// How many bytes deltas have after this commit, if others than before.
    pub(super) fn count_deltas(&mut self) {
        if self.deltas != 0 {
            let value = self.state.deltas.saturating_add_signed(self.deltas);
            self.delta.counters.push(Counter { number: counter::DELTAS, value });
        }
    }
}
