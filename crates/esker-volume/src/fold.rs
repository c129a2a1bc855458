//! Folding: what is left of a block, of which little is, goes with what is written over the rest, so that the block is
//! free. Otherwise a byte that stays keeps all of its block.
//!
//! Above: `dirty` asks, by way of `commit`, what to tell besides; `home` asks what may still be written over when there
//! is no room. Below: `stack`. Invariant: only a file that has all that is needed of a block folds it.

use std::collections::BTreeMap;

use esker::Ino;
use esker::store::View as _;
use esker_stone::rows::extents::{BlockName, Place};

use crate::base::is_based;
use crate::device::Device;
use crate::error::Result;
use crate::left::is_in_one;
use crate::limits::INLINE_LEN;
use crate::stack::Stack;
use crate::volume::Volume;

/// Runs of a block's stretch of a file from which on it is folded whatever is left, so that it is one again.
const RUNS_MAX: usize = 64;

/// Of all that can be used one part of so many is little.
const LITTLE: u64 = 16;
/// And one of so many is nothing.
const NOTHING: u64 = 64;
/// How often what is folded may reach into further blocks.
const WIDENINGS_MAX: usize = 8;

/// How much room there is, and so what is folded of which more than half is left.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Room {
    /// Nothing.
    Ample,
    /// Whatever frees a block.
    Tight,
    /// The same; and blocks that count for what is left of them, since rows of its pieces would take more than they
    /// give.
    Full,
}

/// What is written again so that a block is free.
#[derive(Clone, Copy)]
struct Fold {
    first: u64,
    last: u64,
}

/// What a stretch of a file has of blocks.
#[derive(Default)]
struct Held {
    bytes: BTreeMap<BlockName, u64>,
    runs: usize,
    holes: bool,
}

impl<D: Device> Stack<'_, D> {
    fn held(&self, ino: Ino, from: u64, to: u64) -> Result<Held> {
        let mut held = Held::default();
        self.each_run(ino, (from, to), |at, end, place| {
            match place {
                Some(place) if is_based(place.block) => {}
                Some(place) => *held.bytes.entry(place.block).or_default() += end - at,
                None => held.holes = true,
            }
            held.runs += 1;
            Ok(())
        })?;
        Ok(held)
    }

    /// Tells each run of a stretch: where it begins and ends there, and which block it has.
    fn each_run(
        &self,
        ino: Ino,
        (from, to): (u64, u64),
        mut each: impl FnMut(u64, u64, Option<Place>) -> Result<()>,
    ) -> Result<()> {
        let mut at = from;
        while at < to {
            let run = self.run(ino, at)?;
            let end = run.end().min(to);
            each(at, end, run.place)?;
            at = end;
        }
        Ok(())
    }

    /// Blocks that a stretch of a file names.
    pub(crate) fn blocks_between(&self, ino: Ino, from: u64, to: u64) -> Result<Vec<BlockName>> {
        Ok(self.held(ino, from, to)?.bytes.into_keys().collect())
    }

    /// The stretch of the file that the block was made of that holds this byte, if what is left of it should be written
    /// again when the bytes from `from` to `to` are.
    fn folded(
        &self,
        ino: Ino,
        at: u64,
        (from, to): (u64, u64),
        room: Room,
    ) -> Result<Option<Fold>> {
        let Some(place) = self.run(ino, at)?.place else { return Ok(None) };
        if is_based(place.block) {
            return Ok(None);
        }
        let row = self.block_row(place.block)?;
        let plain = u64::from(row.plain);
        let Some((first, last)) = self.stretch(ino, at, place, plain, room)? else {
            return Ok(None);
        };
        if from <= first && last <= to {
            return Ok(None);
        }
        let all = self.held(ino, first, last)?;
        let inner = self.held(ino, from.max(first), to.min(last))?;
        let own = |held: &Held| held.bytes.get(&place.block).copied().unwrap_or(0);
        let left = own(&all) - own(&inner).min(own(&all));
        let alone = own(&all) == self.refs(place.block)?.named();
        // What a snapshot needs is not free by that.
        let frees = !self.state.needs_now(place.block);
        let by_pieces = is_in_one(&row) && self.volume.has_pieces() && room < Room::Full;
        let little = !by_pieces && frees && (room > Room::Ample || left * 2 <= plain);
        let many = all.runs >= RUNS_MAX;
        Ok((alone && left > 0 && (little || many)).then_some(Fold { first, last }))
    }

    /// The stretch of the file in which it has the block that holds this byte, as far as can be told from there. What
    /// was left of a block, and was moved, is one block again that lies in several runs: these are looked for where
    /// there is no room.
    fn stretch(
        &self,
        ino: Ino,
        at: u64,
        place: Place,
        plain: u64,
        room: Room,
    ) -> Result<Option<(u64, u64)>> {
        let first = at.checked_sub(place.offset.into());
        let one = first.map(|first| (first, first.saturating_add(plain)));
        if room < Room::Full {
            return Ok(one);
        }
        let named = self.refs(place.block)?.named();
        if let Some((first, last)) = one
            && self.held(ino, first, last)?.bytes.get(&place.block) == Some(&named)
        {
            return Ok(one);
        }
        let around = u64::from(self.volume.shape.block_len);
        let (mut first, mut last, mut own) = (at, at, 0);
        self.each_run(ino, (at.saturating_sub(around), at + around), |start, end, other| {
            if other.is_some_and(|other| other.block == place.block) {
                (first, last, own) = (first.min(start), last.max(end), own + end - start);
            }
            Ok(())
        })?;
        Ok(if own == named { Some((first, last)) } else { one })
    }

    /// What is best written together with the bytes of a file from `from` to `to`, beside them.
    pub(crate) fn beside(
        &self,
        ino: Ino,
        (from, to): (u64, u64),
        room: Room,
    ) -> Result<Vec<(u64, u64)>> {
        let fold = self.fold(ino, (from, to), room)?;
        let sides = [(fold.first, from), (to, fold.last)];
        Ok(sides.into_iter().filter(|(start, end)| start < end).collect())
    }

    /// What is best written again when the bytes of a file from `from` to `to` are, which is before its end.
    fn fold(&self, ino: Ino, (from, to): (u64, u64), room: Room) -> Result<Fold> {
        let mut all = Fold { first: from, last: to };
        for _ in 0..if room >= Room::Tight { WIDENINGS_MAX } else { 1 } {
            let before = (all.first, all.last);
            for edge in [before.0, before.1.saturating_sub(1)] {
                if let Some(one) = self.folded(ino, edge, before, room)? {
                    let (first, last) = (all.first.min(one.first), all.last.max(one.last));
                    all = Fold { first, last };
                }
            }
            if (all.first, all.last) == before {
                break;
            }
        }
        Ok(all)
    }
}

impl<D: Device> Volume<D> {
    /// How much room is left, right now and of what there can be at all.
    pub(crate) fn room_to_fold(&self) -> Room {
        let (total, used) = self.usage();
        let left = total - used;
        if left < total / NOTHING {
            Room::Full
        } else if self.room() < 4 * self.shape.segment_room || left < total / LITTLE {
            Room::Tight
        } else {
            Room::Ample
        }
    }

    /// Whether these bytes may be written over others of a file where there is no room: nothing but the file has the
    /// old ones, and the new ones take no more, once compressed.
    ///
    /// # Errors
    /// What looking meets.
    pub fn replaces(&self, ino: Ino, at: u64, source: &[u8]) -> Result<bool> {
        let state = self.state();
        let stack = self.stack(&state);
        let Some(row) = stack.inode(ino)? else { return Ok(false) };
        let end = at.saturating_add(source.len() as u64);
        if end > row.attr.size || source.is_empty() {
            return Ok(false);
        }
        if row.attr.size <= INLINE_LEN {
            return Ok(true);
        }
        let Fold { first, last } = stack.fold(ino, (at, end), Room::Full)?;
        let last = last.min(row.attr.size).max(end);
        if stack.held(ino, at, end)?.holes {
            return Ok(false);
        }
        let mut freed = 0;
        for (block, bytes) in stack.held(ino, first, last)?.bytes {
            let refs = stack.refs(block)?;
            if refs.named() == bytes && !state.needs_now(block) {
                let row = stack.block_row(block)?;
                freed += refs.needed(row.stored);
                // What it alone differs from goes with it.
                let base = row.base.filter(|&base| !state.needs_now(base));
                if let Some(base) = base
                    && stack.refs(base)?.named() == row.plain.into()
                {
                    freed += u64::from(stack.block_row(base)?.stored);
                }
            }
        }
        drop(state);
        let mut plain = vec![0; (last - first) as usize];
        let read = self.read(ino, first, &mut plain).map_err(crate::error::Error::Source)?;
        plain.truncate(read);
        let inner = (at - first) as usize;
        let Some(target) = plain.get_mut(inner..inner + source.len()) else { return Ok(false) };
        target.copy_from_slice(source);
        let mut needed = 0;
        for block in plain.chunks(self.shape.block_len as usize) {
            needed += self.setting().encode_or_leave(block)?.1.len() as u64;
        }
        Ok(needed <= freed)
    }
}
