//! Ordered maps from pairs of numbers to a number: what accounts of space are kept in.
//!
//! Neighbours: `free` and `refs` keep their accounts in them; `base` says which kind a home uses: one on the
//! heap, or a tree in the memory itself (`resident::pairs`). Invariant: none panics whatever it holds.

use alloc::collections::BTreeMap;

use crate::error::Result;

/// Two numbers, sorted by the first, then by the second.
pub type Key = (u64, u64);

/// A map of pairs to numbers.
pub trait Pairs {
    /// Adds a pair, or replaces its number.
    fn put(&mut self, key: Key, value: u32) -> Result<()>;

    /// Removes a pair; whether it was there.
    fn take(&mut self, key: Key) -> Result<bool>;

    /// The greatest pair that is not greater.
    fn floor(&self, key: Key) -> Result<Option<(Key, u32)>>;

    /// The least pair that is not less.
    fn ceiling(&self, key: Key) -> Result<Option<(Key, u32)>>;

    /// Pages that so many puts may take from where the trees of a home take theirs.
    fn pages_for(&self, puts: usize) -> usize;
}

/// On the heap.
pub type HeapPairs = BTreeMap<Key, u32>;

impl Pairs for HeapPairs {
    #[inline]
    fn put(&mut self, key: Key, value: u32) -> Result<()> {
        self.insert(key, value);
        Ok(())
    }

    #[inline]
    fn take(&mut self, key: Key) -> Result<bool> {
        Ok(self.remove(&key).is_some())
    }

    #[inline]
    fn floor(&self, key: Key) -> Result<Option<(Key, u32)>> {
        Ok(self.range(..=key).next_back().map(|(&key, &value)| (key, value)))
    }

    #[inline]
    fn ceiling(&self, key: Key) -> Result<Option<(Key, u32)>> {
        Ok(self.range(key..).next().map(|(&key, &value)| (key, value)))
    }

    #[inline]
    fn pages_for(&self, _: usize) -> usize {
        0
    }
}
