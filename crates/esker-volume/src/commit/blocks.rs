//! Blocks: bytes of files are gathered until they fill one, compressed, and laid down with a row that says how to read
//! them.
//!
//! Above: the sink. Neighbours: `resembling` finds what a block differs little from. Invariant: bytes that wait belong
//! to one try at a commit, and all of them are laid down before its rows are.

use std::thread;

use esker::Ino;
use esker_stone::rows::blocks::BlockRow;
use esker_stone::rows::extents::{BlockName, Place};
use esker_stone::{Codec, Setting, Transform};

use super::Writer;
use super::resembling::{self, Near};
use crate::counts::Count;
use crate::device::Device;
use crate::error::{Damage, Result};
use crate::limits::{CUT, PART_LEN};
use crate::recent::Run;

/// Bytes of a file that wait in the open block.
pub(super) struct Waiting {
    pub ino: Ino,
    pub run: Run,
    /// Of its bytes, if others may be found to be equal.
    pub hash: Option<u64>,
}

/// A block before it is compressed.
#[derive(Default)]
pub(super) struct Plain {
    pub bytes: Vec<u8>,
    pub waiting: Vec<Waiting>,
    /// Of bytes that are all written over others.
    pub over: bool,
    /// What it may differ little from.
    pub near: Option<Near>,
}

/// A block as it is stored.
pub(super) struct Coded<T> {
    pub codec: Codec,
    pub stored: T,
    /// What it differs from.
    pub base: Option<BlockName>,
}

impl<T> Coded<T> {
    /// One that stands for itself.
    pub fn alone((codec, stored): (Codec, T)) -> Self {
        Self { codec, stored, base: None }
    }
}

/// Blocks that a thread compresses in a row.
const BLOCKS: usize = 16;

/// Bytes from which on it is worth it to have another thread compress them.
const THREAD_LEN: usize = 64 << 10;

/// Compresses blocks, in several threads where that is worth it.
fn encode(plains: &[Plain], setting: Setting, threads: usize) -> Result<Vec<Coded<Vec<u8>>>> {
    let run = |plains: &[Plain]| -> Result<Vec<_>> {
        plains.iter().map(|plain| resembling::encode(plain, setting)).collect()
    };
    let bytes: usize = plains.iter().map(|plain| plain.bytes.len()).sum();
    let own = plains.len().div_ceil(threads.min(bytes / THREAD_LEN).max(1)).max(1);
    let mut parts = plains.chunks(own);
    let (first, rest) = (parts.next().unwrap_or_default(), parts);
    let mut all = Vec::with_capacity(plains.len());
    thread::scope(|scope| {
        let others: Vec<_> = rest.map(|part| scope.spawn(move || run(part))).collect();
        all.extend(run(first)?);
        for other in others {
            all.extend(other.join().map_err(|_| Damage::Block)??);
        }
        Ok(all)
    })
}

/// What of it waits in a piece of the block, as if that were all of it.
fn between(waiting: &[Waiting], from: usize, to: usize) -> Vec<Waiting> {
    let part = |Waiting { ino, run, hash }: &Waiting| {
        let place = run.place?;
        let own = u64::from(place.offset);
        let (first, last) = (own.max(from as u64), (own + run.len).min(to as u64));
        let offset = first.checked_sub(from as u64)? as u32;
        let len = last.checked_sub(first).filter(|&len| len > 0)?;
        let hash = hash.filter(|_| len == run.len);
        let place = Some(Place { offset, ..place });
        let run = Run { start: run.start + (first - own), len, place };
        Some(Waiting { ino: *ino, run, hash })
    };
    waiting.iter().filter_map(part).collect()
}

impl<D: Device> Writer<'_, D> {
    /// New bytes of a file, no more than a block has.
    pub(super) fn append(
        &mut self,
        (ino, at): (Ino, u64),
        bytes: &[u8],
        hash: Option<u64>,
    ) -> Result<()> {
        let whole = self.volume.shape.block_len as usize;
        let mut done = 0;
        while done < bytes.len() {
            let room = whole - self.open.bytes.len();
            let len = room.min(bytes.len() - done);
            let (offset, own) = (self.open.bytes.len() as u32, &bytes[done..done + len]);
            // The block has no name yet: only the offset in it counts.
            let place = Place { block: BlockName { segment: 0, slot: 0 }, offset };
            let run = Run { start: at + done as u64, len: len as u64, place: Some(place) };
            // Of what lies in two blocks nobody is told.
            let waiting = Waiting { ino, run, hash: hash.filter(|_| len == bytes.len()) };
            done += len;
            if len == whole && self.volume.setting().codec == Codec::None {
                self.end_blocks()?;
                let coded = Coded::alone((Codec::None, own));
                self.lay_down_fitting(own, &coded, vec![waiting])?;
                continue;
            }
            self.open.bytes.extend_from_slice(own);
            self.open.waiting.push(waiting);
            if self.open.bytes.len() == whole {
                self.end_block()?;
            }
        }
        Ok(())
    }

    /// The open block takes no more.
    pub(super) fn end_block(&mut self) -> Result<()> {
        if self.open.bytes.is_empty() {
            return Ok(());
        }
        self.plains.push(std::mem::take(&mut self.open));
        let threads = self.volume.threads;
        let alone = threads == 1 || self.volume.setting().codec == Codec::None;
        let at_once = if alone { 1 } else { threads * BLOCKS };
        if self.plains.len() < at_once { Ok(()) } else { self.end_blocks() }
    }

    /// Compresses all blocks that wait, and lays them down.
    pub(super) fn end_blocks(&mut self) -> Result<()> {
        if !self.open.bytes.is_empty() {
            self.plains.push(std::mem::take(&mut self.open));
        }
        let plains = std::mem::take(&mut self.plains);
        let encoded = match self.volume.setting().codec {
            Codec::None => Vec::new(),
            _ => encode(&plains, self.volume.setting(), self.volume.threads)?,
        };
        let mut encoded = encoded.into_iter();
        for Plain { bytes, waiting, over, near } in plains {
            let Some(Coded { codec, stored, base }) = encoded.next() else {
                let coded = Coded::alone((Codec::None, &*bytes));
                self.lay_down_fitting(&bytes, &coded, waiting)?;
                continue;
            };
            let coded = Coded { codec, stored: &*stored, base };
            self.lay_down_fitting(&bytes, &coded, waiting)?;
            self.compared(near.is_some(), base.is_some());
            if over && base.is_none() {
                self.remember(bytes);
            }
        }
        Ok(())
    }

    /// Lays a block down; in two pieces where it would not fit into the open part, so that the end of that is used:
    /// parts are as long as they are to be, and fill segments.
    fn lay_down_fitting(
        &mut self,
        plain: &[u8],
        coded: &Coded<&[u8]>,
        waiting: Vec<Waiting>,
    ) -> Result<()> {
        let stored = coded.stored.len();
        let tail = self.left(PART_LEN, stored);
        // What is compressed is not so evenly.
        let share = if coded.codec == Codec::None { tail } else { tail / 16 * 15 };
        let cut = plain.len() * share / stored.max(1) / CUT * CUT;
        if stored <= tail || cut == 0 || cut >= plain.len() || coded.base.is_some() {
            return self.lay_down(plain.len() as u32, coded, waiting);
        }
        let setting = self.volume.setting();
        let (head, rest) = plain.split_at(cut);
        for (from, plain) in [(0, head), (cut, rest)] {
            let (codec, stored) = setting.encode_or_leave(plain)?;
            let waiting = between(&waiting, from, from + plain.len());
            self.lay_down(plain.len() as u32, &Coded::alone((codec, &stored)), waiting)?;
        }
        Ok(())
    }

    fn lay_down(
        &mut self,
        plain: u32,
        &Coded { codec, stored, base }: &Coded<&[u8]>,
        waiting: Vec<Waiting>,
    ) -> Result<()> {
        self.make_room(stored.len(), 0, PART_LEN)?;
        let block =
            BlockName { segment: self.log.segment, slot: self.log.slot + self.rows.len() as u32 };
        let is_known = base.is_some()
            || (self.volume.has_pieces()
                && (codec, waiting.len()) == (Codec::None, 1)
                && plain as usize > CUT);
        let owner = waiting.first().map(|first| (first.ino.0, first.run.start));
        self.rows.push(BlockRow {
            at: self.log.at + self.part.len() as u64,
            stored: stored.len() as u32,
            plain,
            codec,
            transform: Transform::None,
            base,
            checksums: BlockRow::covered(block).checksums(stored),
            hash: None,
            category: 0,
            recipe: 0,
            words: 0,
            sections: Vec::new(),
            owner: owner.filter(|_| is_known),
        });
        if let Some(base) = base {
            self.refers(base, plain.into());
            self.bases.insert(base);
            self.deltas += i64::from(plain);
            self.volume.counts.add(Count::Resembling, plain.into());
        }
        self.volume.counts.add(Count::Plain, plain.into());
        self.volume.counts.add(Count::Blocks, stored.len() as u64);
        *self.lives.entry(block.segment).or_default() += stored.len() as i64;
        self.part.extend_from_slice(stored);
        for Waiting { ino, mut run, hash } in waiting {
            run.place = run.place.map(|place| Place { block, ..place });
            self.note(ino, &run, hash);
            self.refers(block, run.len.cast_signed());
            self.runs.entry(ino).or_default().push(run);
        }
        Ok(())
    }
}
