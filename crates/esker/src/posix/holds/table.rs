//! Numbers of inodes and a count for each, in one piece of memory: a look costs one miss of the
//! processor's cache.
//!
//! Above: `holds`. Invariant: a place with count 0 is vacant, and no vacant place lies between the
//! place where a number would best stand and where it stands.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{COUNT_MAX, SHARDS};
use crate::ids::Ino;

/// Places of the smallest table: a line of the processor's cache.
const PLACES_MIN: usize = 4;
/// Numbers that follow each other stand side by side, so many of them.
const ROW: u64 = 4;

#[derive(Clone, Copy, Default)]
struct Place {
    ino: u64,
    count: u32,
}

/// Counts by inode; 0 for those that are not listed.
#[derive(Default)]
pub(super) struct Table {
    /// None, or a power of two.
    places: Box<[Place]>,
    len: usize,
    /// The machine had no memory to list one more: from then on each that is not listed may be the one, and
    /// counts for ever.
    lost: bool,
    /// The machine has no memory.
    #[cfg(test)]
    poor: bool,
}

impl Table {
    /// The inode's count.
    pub(super) fn get(&self, ino: Ino) -> u32 {
        let unlisted = if self.lost { COUNT_MAX } else { 0 };
        self.find(ino).map_or(unlisted, |at| self.places[at].count)
    }

    /// Another count for the inode; with 0 it is listed no more.
    pub(super) fn set(&mut self, ino: Ino, count: u32) {
        match self.find(ino) {
            Some(at) if count > 0 => self.places[at].count = count,
            Some(at) => self.remove(at),
            None if count > 0 => self.insert(Place { ino: ino.0, count }),
            None => {}
        }
    }

    /// Where a number would best stand. The numbers in one shard differ by multiples of the number
    /// of shards.
    fn best(&self, ino: u64) -> usize {
        let number = ino / SHARDS as u64;
        let row = (number / ROW).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (row * ROW + number % ROW) as usize & (self.places.len() - 1)
    }

    fn behind(&self, at: usize) -> usize {
        (at + 1) & (self.places.len() - 1)
    }

    fn find(&self, ino: Ino) -> Option<usize> {
        if self.len == 0 {
            return None;
        }
        let mut at = self.best(ino.0);
        loop {
            match self.places[at] {
                Place { count: 0, .. } => return None,
                place if place.ino == ino.0 => return Some(at),
                _ => at = self.behind(at),
            }
        }
    }

    /// Lists a number that is not listed yet. At least a quarter of the places stay vacant, or one where there
    /// is no memory for more.
    fn insert(&mut self, place: Place) {
        if (self.len + 1) * 4 > self.places.len() * 3 {
            let grown = self.resize((self.places.len() * 2).max(PLACES_MIN));
            if !grown && self.len + 1 >= self.places.len() {
                self.lost = true;
                return;
            }
        }
        self.put(place);
        self.len += 1;
    }

    fn put(&mut self, place: Place) {
        let mut at = self.best(place.ino);
        while self.places[at].count > 0 {
            at = self.behind(at);
        }
        self.places[at] = place;
    }

    /// What stands behind moves up, unless it would come before its best place.
    fn remove(&mut self, mut vacant: usize) {
        let mask = self.places.len() - 1;
        let mut at = self.behind(vacant);
        while self.places[at].count > 0 {
            let best = self.best(self.places[at].ino);
            if at.wrapping_sub(best) & mask >= at.wrapping_sub(vacant) & mask {
                self.places[vacant] = self.places[at];
                vacant = at;
            }
            at = self.behind(at);
        }
        self.places[vacant] = Place::default();
        self.len -= 1;
        if self.len * 8 < self.places.len() && self.places.len() > PLACES_MIN {
            self.resize(self.places.len() / 2);
        }
    }

    /// Another number of places; whether the machine had memory for it.
    fn resize(&mut self, count: usize) -> bool {
        #[cfg(test)]
        if self.poor {
            return false;
        }
        let mut places = Vec::new();
        if places.try_reserve_exact(count).is_err() {
            return false;
        }
        places.resize(count, Place::default());
        let old = core::mem::replace(&mut self.places, places.into_boxed_slice());
        old.iter().filter(|place| place.count > 0).for_each(|&place| self.put(place));
        true
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use super::*;

    /// Without memory it fills up, and then keeps everything that it does not know.
    #[test]
    fn without_memory_nothing_is_let_go() {
        let mut table = Table::default();
        (1..=3).for_each(|ino| table.set(Ino(ino), 7));
        table.poor = true;
        assert_eq!((table.get(Ino(3)), table.get(Ino(4))), (7, 0));
        (4..=9).for_each(|ino| table.set(Ino(ino), 1));
        let known = (1..=9).filter(|&ino| table.find(Ino(ino)).is_some()).count();
        assert!(known >= 3 && known < table.places.len());
        assert_eq!(
            (table.get(Ino(1)), table.get(Ino(9)), table.get(Ino(99))),
            (7, COUNT_MAX, COUNT_MAX)
        );
        table.set(Ino(1), 6);
        assert_eq!(table.get(Ino(1)), 6);
    }

    /// Counts come and go at random, in waves; the table says the same as a map.
    #[test]
    fn mirrors_a_map() {
        let (mut table, mut map) = (Table::default(), BTreeMap::new());
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        for step in 0..200_000_u64 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let ino = seed % 3000 * [1, 64, 1 << 40][(seed >> 40) as usize % 3];
            let growing = step / 10_000 % 2 == 0;
            let count = if growing == (seed >> 50).is_multiple_of(8) { 0 } else { step as u32 };
            table.set(Ino(ino), count);
            match count {
                0 => map.remove(&ino),
                _ => map.insert(ino, count),
            };
            assert_eq!(table.len, map.len());
            assert!(table.places.len() <= PLACES_MIN.max(table.len * 8));
            let other = (seed >> 20) % 3000 * 64;
            assert_eq!(table.get(Ino(other)), map.get(&other).copied().unwrap_or(0));
        }
        assert!(map.iter().all(|(&ino, &count)| table.get(Ino(ino)) == count));
        map.keys().for_each(|&ino| table.set(Ino(ino), 0));
        assert_eq!((table.len, table.places.len()), (0, PLACES_MIN));
        assert_eq!(table.get(Ino(7)), 0);
    }
}
