//! Whole blocks of a file: read in as few requests as they lie together, and decoded where they are wanted. They do not
//! go through the cache: whoever reads so much keeps it himself.
//!
//! Above: `view`. Below: `stack`. Invariant: every block is checked before it is given away, as in `stack`.

use esker_stone::rows::blocks::BlockRow;
use esker_stone::rows::extents::{BlockName, Place};
use esker_stone::{Codec, Transform};

use crate::base::is_based;
use crate::device::Device;
use crate::error::{Damage, Result};
use crate::limits::BLOCK_LEN_MIN;
use crate::stack::Stack;

/// A block that is wanted as a whole.
pub(crate) struct Whole {
    block: BlockName,
    row: BlockRow,
    /// Where it lies: the segment, and the offset there.
    place: (u64, u64),
    /// Where in the target it goes.
    to: usize,
}

impl Whole {
    /// Where its stored bytes end.
    fn end(&self) -> (u64, u64) {
        (self.place.0, self.place.1.saturating_add(self.row.stored.into()))
    }

    fn is_plain(&self) -> bool {
        self.row.codec == Codec::None && self.row.transform == Transform::None
    }
}

impl<D: Device> Stack<'_, D> {
    /// The block here, if so many bytes are all of it.
    pub(crate) fn whole(&self, place: Place, len: usize, to: usize) -> Result<Option<Whole>> {
        if place.offset != 0 || len < BLOCK_LEN_MIN as usize || is_based(place.block) {
            return Ok(None);
        }
        let (block, row) = (place.block, self.block_row(place.block)?);
        let other = row.base.is_some() || row.recipe > 0 || row.words > 0;
        if row.plain as usize != len || other {
            return Ok(None);
        }
        if row.plain > self.volume.shape.block_len || row.stored > row.plain {
            return Err(Damage::Block.into());
        }
        let place = self.whereabouts(block, &row)?;
        Ok(Some(Whole { block, row, place, to }))
    }

    /// Reads them all.
    pub(crate) fn read_whole(&self, blocks: &[Whole], target: &mut [u8]) -> Result<()> {
        let together = |one: &Whole, two: &Whole| {
            one.end() == two.place && one.to + one.row.plain as usize == two.to
        };
        blocks.chunk_by(together).try_for_each(|blocks| self.read_together(blocks, target))
    }

    /// Reads blocks that lie one behind the other, and are wanted so.
    fn read_together(&self, blocks: &[Whole], target: &mut [u8]) -> Result<()> {
        let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else { return Ok(()) };
        let (segment, at) = first.place;
        let target = target.get_mut(first.to..last.to + last.row.plain as usize);
        let target = target.ok_or(Damage::Block)?;
        if blocks.iter().all(|one| one.is_plain() && one.row.stored == one.row.plain) {
            self.volume.read_segment(segment, at, target)?;
            let mut rest = &*target;
            for one in blocks {
                let cut = rest.split_at_checked(one.row.stored as usize);
                let (stored, behind) = cut.ok_or(Damage::Block)?;
                BlockRow::covered(one.block).verify(0, stored, &one.row.checksums)?;
                rest = behind;
            }
            return Ok(());
        }
        let mut stored = vec![0; (last.end().1 - at) as usize];
        self.volume.read_segment(segment, at, &mut stored)?;
        let (mut rest, mut target) = (&*stored, target);
        for one in blocks {
            let cut = rest.split_at_checked(one.row.stored as usize);
            let (own, behind) = cut.ok_or(Damage::Block)?;
            BlockRow::covered(one.block).verify(0, own, &one.row.checksums)?;
            let (plain, further) = target.split_at_mut(one.row.plain as usize);
            one.row.codec.decode(own, &[], plain)?;
            one.row.transform.undo(plain);
            (rest, target) = (behind, further);
        }
        Ok(())
    }
}
