//! Where bytes are that were written before, by their hash: for whoever writes the same once more.
//!
//! Above: `commit`. Below: nothing. Invariant: only a hint, of bounded size. Whoever takes it looks whether the block
//! is still there, and whether the bytes are the same.

use esker_stone::rows::extents::{BlockName, Place};

use crate::limits::HASHES_MAX;

/// Entries among which that of a hash is.
const WAYS: usize = 4;

/// The hash, the segment and one, the slot and the offset; zeros: there is none.
type Entry = [u64; 3];

/// Places by hash, of each few the newest.
#[derive(Default)]
pub(crate) struct Known(Vec<Entry>);

const fn few(hash: u64) -> usize {
    (hash >> 32) as usize % (HASHES_MAX / WAYS) * WAYS
}

impl Known {
    /// Where bytes of this hash may be.
    pub fn find(&self, hash: u64) -> Option<Place> {
        let few = self.0.get(few(hash)..)?.get(..WAYS)?;
        let &[_, segment, rest] = few.iter().find(|entry| entry[0] == hash && entry[1] > 0)?;
        let block = BlockName { segment: segment - 1, slot: (rest >> 32) as u32 };
        Some(Place { block, offset: rest as u32 })
    }

    /// Bytes of this hash are here; what came first of its few goes.
    pub fn add(&mut self, hash: u64, Place { block, offset }: Place) {
        if self.0.is_empty() {
            // Of pages that nobody touches there are none.
            self.0 = vec![[0; 3]; HASHES_MAX];
        }
        let from = few(hash);
        let Some(few) = self.0.get_mut(from..from + WAYS) else { return };
        let same = few.iter().position(|entry| entry[0] == hash);
        if let Some(few) = few.get_mut(..=same.unwrap_or(WAYS - 1)) {
            few.rotate_right(1);
            few[0] = [hash, block.segment + 1, (u64::from(block.slot) << 32) | u64::from(offset)];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn place(slot: u32) -> Place {
        Place { block: BlockName { segment: 0, slot }, offset: 9 }
    }

    /// Of hashes that share their few entries the newest are known, each where it was told of last.
    #[test]
    fn the_newest_are_known() {
        let mut known = Known::default();
        assert_eq!(known.find(0), None);
        for hash in 0..6 {
            known.add(hash, place(hash as u32));
        }
        let found: Vec<_> = (0..6).map(|hash| known.find(hash)).collect();
        let [two, three, four, five] = [2, 3, 4, 5].map(|slot| Some(place(slot)));
        assert_eq!(found, [None, None, two, three, four, five]);
        known.add(2, place(77));
        assert_eq!((known.find(2), known.find(3)), (Some(place(77)), three));
    }
}
