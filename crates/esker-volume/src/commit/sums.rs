//! What is counted, as it is after a commit: references of blocks, needed bytes of segments.
//!
//! Above: the writer, when all is laid down. Invariant: a block that loses its last reference is kept where it was
//! there at the moment of a snapshot, and is gone otherwise, with its bytes.

use std::collections::{BTreeMap, BTreeSet};

use super::Writer;
use crate::device::Device;
use crate::error::{Damage, Result};
use crate::rows::{Begun, Live, NAMED_MAX, Refs};

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
            let bytes = changed(stack.refs(block)?, change)?;
            if bytes == 0 && self.state.needs_now(block) {
                self.delta.refs.push(Refs::kept(block, self.log.tried));
                continue;
            }
            self.delta.refs.push(Refs { block, bytes });
            if bytes == 0 {
                let row = stack.block_row(block)?;
                if row.is_lost() {
                    continue;
                }
                let (segment, _) = stack.whereabouts(block, &row)?;
                *self.lives.entry(segment).or_default() -= i64::from(row.stored);
            }
        }
        self.tell_moved()?;
        for (segment, change) in std::mem::take(&mut self.lives) {
            let live = self.volume.segments().live(segment);
            let bytes = live.checked_add_signed(change).ok_or(Damage::Segment)?;
            self.delta.lives.push(Live { segment, bytes });
        }
        Ok(())
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
        let stack = self.volume.stack(self.state);
        let known: BTreeMap<_, _> =
            self.delta.refs.iter().map(|row| (row.block, row.bytes)).collect();
        let carried: BTreeSet<_> = self.delta.moves.iter().map(|row| row.block).collect();
        let mut to = BTreeSet::new();
        for moved in self.log.moving.tell() {
            if carried.contains(&moved.block) {
                continue;
            }
            let bytes = known.get(&moved.block).copied();
            if bytes.map_or_else(|| stack.refs(moved.block).map(|row| row.bytes), Ok)? == 0 {
                continue;
            }
            let row = stack.block_row(moved.block)?;
            let (from, _) = stack.whereabouts(moved.block, &row)?;
            *self.lives.entry(from).or_default() -= i64::from(row.stored);
            *self.lives.entry(moved.to).or_default() += i64::from(row.stored);
            to.insert(moved.to);
            self.delta.moves.push(moved);
        }
        let segments = self.volume.segments();
        let begun = |segment| Some(Begun { segment, physical: segments.find(segment)? });
        self.delta.begun = to.into_iter().filter_map(begun).collect();
        Ok(())
    }
}
