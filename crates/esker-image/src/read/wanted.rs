//! Stretches of blocks that are wanted together, by block: bytes that lie in two long blocks in turn would have each of
//! them decoded again and again where the cache has room for one.
//!
//! Above: `view` and `image`. Invariant: blocks come in the order in which they were wanted first, and no more of what
//! an image says is remembered than is bounded here.

use std::collections::BTreeMap;

use esker_stone::rows::extents::BlockName;

/// Stretches that are gathered at most: pieces are some KiB, and a hostile image may have one for each byte.
const MANY: usize = 4096;

/// Where in a block bytes begin, and where they go.
pub(super) type Target<'a> = (usize, &'a mut [u8]);

/// What is wanted.
#[derive(Default)]
pub(super) struct Wanted<'a> {
    places: BTreeMap<BlockName, usize>,
    blocks: Vec<(BlockName, Vec<Target<'a>>)>,
    count: usize,
}

impl<'a> Wanted<'a> {
    /// These bytes of a block too.
    pub(super) fn add(&mut self, block: BlockName, target: Target<'a>) {
        self.count += 1;
        let place = *self.places.entry(block).or_insert(self.blocks.len());
        match self.blocks.get_mut(place) {
            Some((_, targets)) => targets.push(target),
            None => self.blocks.push((block, vec![target])),
        }
    }

    /// Whether that is as much as should be gathered.
    pub(super) const fn is_full(&self) -> bool {
        self.count >= MANY
    }

    /// All that is wanted of each block.
    pub(super) fn blocks(self) -> impl Iterator<Item = (BlockName, Vec<Target<'a>>)> {
        self.blocks.into_iter()
    }
}
