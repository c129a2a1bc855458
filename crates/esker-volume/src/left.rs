//! What is left of a block that is not compressed: each piece of it stands for itself, so that it is needed for what
//! files still name of it, and the rest need not be moved with that.
//!
//! Above: `commit` counts and tells again, `migrate` moves, `fold` leaves such blocks alone. Below: `stack`. Invariant:
//! whose a block was is only advice. What its file names of it now must be all that is named of it.

use esker::Ino;
use esker_stone::rows::blocks::BlockRow;
use esker_stone::rows::extents::{BlockName, Place};

use crate::device::Device;
use crate::error::Result;
use crate::limits::CUT;
use crate::recent::{END, Run};
use crate::stack::Stack;
use crate::superblock::PIECES;
use crate::volume::Volume;

/// Whether it is long enough for a part of it to go, and known whose it was.
pub(crate) fn is_in_one(row: &BlockRow) -> bool {
    row.is_plain() && row.plain as usize > CUT && row.owner.is_some()
}

/// The file that a block was written for, and which of its bytes.
fn owner(row: &BlockRow) -> Option<(Ino, u64)> {
    let (ino, at) = row.owner.filter(|&(_, at)| at < END - u64::from(row.plain))?;
    Some((Ino(ino), at))
}

impl<D> Volume<D> {
    /// Whether blocks may count for what is left of them.
    pub(crate) const fn has_pieces(&self) -> bool {
        self.shape.incompatible & PIECES != 0
    }
}

impl<D: Device> Stack<'_, D> {
    /// The file that alone has a delta, all of it, and which of its bytes that are; if no snapshot has it.
    pub(crate) fn owned(&self, block: BlockName, row: &BlockRow) -> Result<Option<(Ino, Run)>> {
        let Some((ino, at)) = owner(row).filter(|_| row.base.is_some()) else { return Ok(None) };
        let alone = self.refs(block)?.named() == row.plain.into() && !self.state.needs_now(block);
        if !alone || self.inode(ino)?.is_none() {
            return Ok(None);
        }
        let run = self.run(ino, at)?;
        let all = Run { start: at, len: row.plain.into(), place: Some(Place { block, offset: 0 }) };
        Ok((run == all).then_some((ino, run)))
    }

    /// The file that alone has what is left of a block of which something is gone, and which of its bytes that are; if
    /// no snapshot has it.
    pub(crate) fn left_of(
        &self,
        block: BlockName,
        row: &BlockRow,
    ) -> Result<Option<(Ino, Vec<Run>)>> {
        let Some((ino, at)) = owner(row).filter(|_| is_in_one(row)) else { return Ok(None) };
        let named = self.refs(block)?.named();
        let is_part = named > 0 && named < row.plain.into() && !self.state.needs_now(block);
        if !is_part || self.inode(ino)?.is_none() {
            return Ok(None);
        }
        let (mut runs, mut sum, mut from) = (Vec::new(), 0, at);
        let end = at + u64::from(row.plain);
        while from < end {
            let Some(run) = self.run(ino, from)?.within(from, end) else { break };
            let place = Place { block, offset: (run.start - at) as u32 };
            from = run.end();
            if run.place == Some(place) {
                sum += run.len;
                runs.push(run);
            }
        }
        Ok((sum == named).then_some((ino, runs)))
    }
}
