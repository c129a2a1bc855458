//! Numbers of what was seen before, by what it is: all that stays in memory of each of many things.
//!
//! Above: `tree`, `contents`. Invariant: each number takes [`SLOT_LEN`] bytes in a table that is at least half full
//! once it has grown; what it stands for is compared where it lies, so a number that was found is the right one.

use std::hash::{BuildHasher as _, Hash, RandomState};

use super::Result;

/// Bytes of a slot: a part of the hash, and the number.
const SLOT_LEN: usize = size_of::<(u32, u32)>();
/// Slots of the first table.
const SLOTS_MIN: usize = 1024;
/// What no number is.
const NONE: u32 = u32::MAX;

/// Numbers, each in the first free slot from where its hash says.
pub(super) struct Finder {
    /// Others cannot know which names would meet in it.
    state: RandomState,
    slots: Vec<(u32, u32)>,
    count: usize,
}

impl Finder {
    pub fn new() -> Self {
        Self { state: RandomState::new(), slots: Vec::new(), count: 0 }
    }

    /// Bytes of memory that it takes.
    pub const fn memory(&self) -> u64 {
        (self.slots.capacity() * SLOT_LEN) as u64
    }

    fn mark(&self, key: &impl Hash) -> u32 {
        // The upper half is as good as the lower one.
        (self.state.hash_one(key) >> 32) as u32
    }

    /// The slots from where a mark says, once around.
    fn from(&self, mark: u32) -> impl Iterator<Item = usize> + use<> {
        let count = self.slots.len();
        let first = ((u64::from(mark) * count as u64) >> 32) as usize;
        (first..count).chain(0..first)
    }

    /// The number of the thing with this key; `is` tells whether it has one.
    pub fn find(
        &self,
        key: &impl Hash,
        mut is: impl FnMut(u32) -> Result<bool>,
    ) -> Result<Option<u32>> {
        let mark = self.mark(key);
        for slot in self.from(mark) {
            match self.slots[slot] {
                (_, NONE) => break,
                (own, number) if own == mark && is(number)? => return Ok(Some(number)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Knows one more, which was not found.
    pub fn insert(&mut self, key: &impl Hash, number: u32) {
        if self.slots.len() - self.slots.len() / 4 <= self.count {
            self.grow();
        }
        self.count += 1;
        self.put(self.mark(key), number);
    }

    fn put(&mut self, mark: u32, number: u32) {
        let free = self.from(mark).find(|&slot| self.slots[slot].1 == NONE);
        if let Some(free) = free {
            self.slots[free] = (mark, number);
        }
    }

    /// Half as many slots more: twice as many would be half empty for long.
    fn grow(&mut self) {
        let count = (self.slots.len() + self.slots.len() / 2).max(SLOTS_MIN);
        let before = std::mem::replace(&mut self.slots, vec![(0, NONE); count]);
        for (mark, number) in before.into_iter().filter(|&(_, number)| number != NONE) {
            self.put(mark, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_found_and_nothing_else_in_few_bytes() {
        let mut finder = Finder::new();
        let key = |number: u32| format!("{}", u64::from(number) * 7919);
        let count = 100_000;
        for number in 0..count {
            let is = |found| Ok(found == number);
            assert_eq!(finder.find(&key(number), is).unwrap(), None);
            finder.insert(&key(number), number);
        }
        let mut asked = 0;
        for number in 0..count {
            let is = |found| {
                asked += 1;
                Ok(found == number)
            };
            assert_eq!(finder.find(&key(number), is).unwrap(), Some(number));
        }
        // Hardly any two have the same mark.
        assert!(asked < count + count / 1000, "{asked}");
        assert_eq!(finder.find(&key(count), |_| Ok(false)).unwrap(), None);
        assert!(finder.memory() <= u64::from(count) * 16, "{}", finder.memory());
    }
}
