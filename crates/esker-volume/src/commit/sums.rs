//! What is counted, as it is after a commit: references of blocks, needed bytes of segments.
//!
//! Above: the writer, when all is laid down. Invariant: a block that loses its last reference is kept where it was
//! there at the moment of a snapshot, and is gone otherwise, with its bytes. One that can be told in pieces counts for
//! what is named of it as soon as that is less, unless a snapshot has it.

use std::collections::{BTreeMap, BTreeSet};

use esker_stone::rows::extents::BlockName;

use super::Writer;
use crate::device::Device;
use crate::error::{Damage, Result};
use crate::left::is_in_one;
use crate::rows::{Begun, Live, Move, NAMED_MAX, Refs};

/// How many bytes name a block, if so many more or fewer do.
fn changed(known: Refs, change: i64) -> Result<u64> {
    let bytes = known.named().checked_add_signed(change).filter(|&bytes| bytes <= NAMED_MAX);
    Ok(bytes.ok_or(Damage::Block)?)
}

impl<D: Device> Writer<'_, D> {
    /// References and needed bytes as they are after this commit.
    pub(super) fn sums(&mut self) -> Result<()> {
        let stack = self.volume.stack(self.state);
        self.unbase_all()?;
        self.count_deltas();
        for (block, change) in std::mem::take(&mut self.refs) {
            let known = stack.refs(block)?;
            let bytes = changed(known, change)?;
            let new = known.if_named(bytes);
            let new = match bytes {
                0 if self.state.needs_now(block) => Refs::kept(block, self.log.tried),
                0 => new,
                _ if new.is_never_in_pieces() => new,
                _ if self.bases.contains(&block) && self.is_in_one(block)? => new.never_in_pieces(),
                _ if change < 0 && !self.state.needs_now(block) && self.is_in_one(block)? => {
                    new.in_pieces()
                }
                _ => new,
            };
            self.refs_become(known, new)?;
        }
        self.tell_moved()?;
        for (segment, change) in std::mem::take(&mut self.lives) {
            let live = self.volume.segments().live(segment);
            let bytes = live.checked_add_signed(change).ok_or(Damage::Segment)?;
            self.delta.lives.push(Live { segment, bytes });
        }
        Ok(())
    }

    /// A block has other references than it had.
    fn refs_become(&mut self, known: Refs, new: Refs) -> Result<()> {
        self.delta.refs.push(new);
        // One that is new was counted when it was laid down; one that is as it was need not be found.
        let same = known.bytes != 0 && new.bytes != 0 && known.is_in_pieces() == new.is_in_pieces();
        if known.bytes == 0 || (same && !new.is_in_pieces()) {
            return Ok(());
        }
        let stack = self.volume.stack(self.state);
        let row = stack.block_row(new.block)?;
        if !row.is_lost() {
            let (segment, _) = stack.whereabouts(new.block, &row)?;
            let more =
                new.needed(row.stored).cast_signed() - known.needed(row.stored).cast_signed();
            *self.lives.entry(segment).or_default() += more;
        }
        Ok(())
    }

    /// Whether a block may count for what is named of it.
    fn is_in_one(&self, block: BlockName) -> Result<bool> {
        let all = self.volume.has_pieces();
        Ok(all && is_in_one(&self.volume.stack(self.state).block_row(block)?))
    }

    /// Of deltas that are gone after this commit, what they differ from has a reference less.
    fn unbase_all(&mut self) -> Result<()> {
        if self.state.deltas == 0 {
            return Ok(());
        }
        let stack = self.volume.stack(self.state);
        let mut gone = Vec::new();
        for (&block, &change) in self.refs.iter().filter(|(_, change)| **change < 0) {
            if changed(stack.refs(block)?, change)? == 0 && !self.state.needs_now(block) {
                gone.push(stack.block_row(block)?);
            }
        }
        gone.iter().for_each(|row| self.unbase(row));
        Ok(())
    }

    /// Says where blocks are that were moved before the last barrier, and that are still needed after this commit.
    fn tell_moved(&mut self) -> Result<()> {
        let known: BTreeMap<_, _> =
            (0..).zip(&self.delta.refs).map(|(at, row)| (row.block, at)).collect();
        let carried: BTreeSet<_> = self.delta.moves.iter().map(|row| row.block).collect();
        let mut to = BTreeSet::new();
        for moved in self.log.moving.tell() {
            if carried.contains(&moved.block) {
                continue;
            }
            if self.moves_to(&moved, known.get(&moved.block).copied())? {
                to.insert(moved.to);
                self.delta.moves.push(moved);
            }
        }
        let segments = self.volume.segments();
        let begun = |segment| Some(Begun { segment, physical: segments.find(segment)? });
        self.delta.begun = to.into_iter().filter_map(begun).collect();
        Ok(())
    }

    /// Counts a block where it was moved to, if it is still needed; what is told of its references may be at this
    /// place.
    fn moves_to(&mut self, moved: &Move, told: Option<usize>) -> Result<bool> {
        let stack = self.volume.stack(self.state);
        let told = told.and_then(|at| self.delta.refs.get_mut(at));
        let refs = told.as_deref().copied().map_or_else(|| stack.refs(moved.block), Ok)?;
        if refs.bytes == 0 {
            return Ok(false);
        }
        let row = stack.block_row(moved.block)?;
        let (from, _) = stack.whereabouts(moved.block, &row)?;
        *self.lives.entry(from).or_default() -= refs.needed(row.stored).cast_signed();
        let mut new = refs;
        if refs.is_in_pieces() && stack.left_of(moved.block, &row)?.is_none() {
            // It was moved as it is: it would be again and again, for nothing.
            new = refs.whole();
            match told {
                Some(told) => *told = new,
                None => self.delta.refs.push(new),
            }
        }
        *self.lives.entry(moved.to).or_default() += new.needed(row.stored).cast_signed();
        Ok(true)
    }
}
