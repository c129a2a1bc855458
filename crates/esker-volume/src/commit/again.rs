//! Telling again: a delta as a whole, and what is left of a block of which the rest is gone, so that their segment can
//! be emptied.
//!
//! Above: `migrate` says which; moving blocks by a commit of its own. Below: `blocks`, `left`. Invariant: what the
//! commit says of a byte besides counts, and what is damaged is left where it is.

use esker::Ino;
use esker_stone::key;
use esker_stone::rows::extents::BlockName;

use super::Writer;
use crate::counts::Count;
use crate::device::Device;
use crate::error::{Damage, Result};
use crate::limits::CUT;
use crate::ranges::Ranges;
use crate::recent::Run;

impl<D: Device> Writer<'_, D> {
    /// Tells again what is to be.
    pub(super) fn tell_again(&mut self) -> Result<()> {
        let all = self.log.moving.to_tell_again();
        if !all.is_empty() {
            // What waits is told of then.
            self.end_blocks()?;
        }
        for block in all {
            let stack = self.volume.stack(self.state);
            let Ok(row) = stack.block_row(block) else { continue };
            let left = match row.base {
                // Of a delta nothing is gone: what was written over has taken its place.
                Some(_) => {
                    let owned = stack.owned(block, &row).ok().flatten();
                    let untouched = owned.filter(|(ino, run)| !self.is_told(*ino, run));
                    untouched.map(|(ino, run)| (ino, vec![run]))
                }
                None => stack.left_of(block, &row).ok().flatten(),
            };
            let Some((ino, runs)) = left else { continue };
            self.tell_runs(block, ino, &runs)?;
        }
        Ok(())
    }

    /// Lays down what a file has of a block once more, in a block of its own for each run. Whether it could be read.
    pub(super) fn tell_runs(&mut self, block: BlockName, ino: Ino, runs: &[Run]) -> Result<bool> {
        let Ok(plain) = self.volume.stack(self.state).block(block) else { return Ok(false) };
        for run in runs {
            let Some(place) = run.place else { continue };
            for (start, end) in self.untold(ino, run).iter() {
                let from = place.offset as usize + (start - run.start) as usize;
                let bytes = plain.get(from..from + (end - start) as usize).ok_or(Damage::Block)?;
                let apart = bytes.len() >= CUT;
                if apart {
                    self.end_block()?;
                }
                self.release(ino, start, end)?;
                self.append((ino, start), bytes, None)?;
                if apart {
                    self.end_block()?;
                }
                self.volume.counts.add(Count::Folded, end - start);
            }
        }
        Ok(true)
    }

    /// What of these bytes of a file this commit says nothing of; nothing if the file is gone.
    fn untold(&self, ino: Ino, run: &Run) -> Ranges {
        let mut left = Ranges::default();
        if !self.delta.gone.contains(&key::inode(ino)) {
            left.add(run.start, run.end());
            for own in self.runs.get(&ino).into_iter().flatten() {
                left.remove(own.start, own.end());
            }
        }
        left
    }

    /// Whether this commit says something of these bytes of a file, or that it is gone.
    fn is_told(&self, ino: Ino, run: &Run) -> bool {
        self.untold(ino, run).len() < run.len
    }
}
