//! In which leaf a key was last: for keys that are asked for again and again in no order, of a tree whose way down from
//! the root costs much.
//!
//! Above: `subtree`. Invariant: a hint is never believed without a look at the leaf; all are forgotten whenever a page
//! may have become something else.

use alloc::boxed::Box;

use crate::ground::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::tree::{PageId, Spot};

/// Places to begin with.
const PLACES_MIN: usize = 4096;
/// Of so many places one is taken before there are more, or else keys would take each other's.
const LOAD: usize = 8;
/// Bits of a hint that are a page's, behind them a slot's, and what tells keys apart that share their places.
const PAGE_BITS: u32 = 32;
const SLOT_BITS: u32 = 12;
const TAG_BITS: u32 = 12;
/// The slots of a page can be told.
const SLOTS: usize = 1 << SLOT_BITS;
/// Ages that can be told apart.
const AGES: u64 = 1 << (u64::BITS - PAGE_BITS - SLOT_BITS - TAG_BITS);

const _: () = assert!(SLOTS > crate::limits::PAGE_SIZE / crate::tree::NodeSlot::SIZE);

/// Hints by what a key mixes to, which has one of two neighbouring places. Each is a page, a slot, a tag of its key
/// (the bits behind those that number the fewest places), and the age in which it was noted.
pub(super) struct Hints {
    /// None, or a power of two.
    places: Box<[AtomicU64]>,
    /// Never more than that.
    places_max: usize,
    /// Places taken since there are as many.
    noted: AtomicUsize,
    /// Hints of another age are forgotten.
    age: u64,
}

fn places(count: usize) -> Box<[AtomicU64]> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

impl Hints {
    /// For no more than so many keys: none, or a power of two.
    pub(super) fn new(places_max: usize) -> Self {
        let places = places(PLACES_MIN.min(places_max));
        Self { places, places_max, noted: AtomicUsize::new(0), age: 1 }
    }

    /// Makes more places, if those there are will not do.
    #[inline]
    pub(super) fn widen(&mut self) {
        if *self.noted.get_mut() >= self.places.len() / LOAD && self.places.len() < self.places_max
        {
            let more = places((self.places.len() * 4).min(self.places_max));
            let known = core::mem::replace(&mut self.places, more);
            // The tag has the bits of the number that a place has from now on.
            let (bits, last) = (known.len().ilog2(), self.places.len() - 1);
            for (index, place) in known.iter().enumerate() {
                let hint = place.load(Relaxed);
                let tag = (hint >> (PAGE_BITS + SLOT_BITS)) as usize % (1 << TAG_BITS);
                let index = index | tag >> (bits - PLACES_MIN.ilog2()) << bits & last;
                *self.places[index].get_mut() = hint;
            }
        }
    }

    /// The two places that a key may have, and its tag.
    #[inline]
    fn places(&self, key: &[u8]) -> Option<([&AtomicU64; 2], u64)> {
        let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (words, rest) = key.as_chunks::<8>();
        let sum = words
            .iter()
            .fold(0, |sum: u64, word| mix(sum.rotate_left(29), u64::from_ne_bytes(*word)));
        let last = rest.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        let sum = mix(sum.rotate_left(29), last);
        let first = (sum >> 32) as usize & self.places.len().wrapping_sub(1);
        let places = [self.places.get(first)?, self.places.get(first ^ 1)?];
        let tag = sum >> (32 + PLACES_MIN.ilog2()) & ((1 << TAG_BITS) - 1);
        Some((places, tag))
    }

    /// The bits of a hint behind its page and slot.
    #[inline]
    const fn mark(&self, tag: u64) -> u64 {
        self.age << TAG_BITS | tag
    }

    /// Where the key may be.
    #[inline]
    pub(super) fn get(&self, key: &[u8]) -> Option<Spot> {
        let (places, tag) = self.places(key)?;
        let mark = self.mark(tag);
        let known = |hint: &u64| hint >> (PAGE_BITS + SLOT_BITS) == mark;
        let hint = places.into_iter().map(|place| place.load(Relaxed)).find(known)?;
        let slot = (hint >> PAGE_BITS) as usize % SLOTS;
        Some(Spot { leaf: PageId(hint as u32), slot })
    }

    /// The key is there.
    #[inline]
    pub(super) fn note(&self, key: &[u8], spot: Spot) {
        let Some((places, tag)) = self.places(key) else { return };
        let mark = self.mark(tag);
        let marks = places.map(|place| place.load(Relaxed) >> (PAGE_BITS + SLOT_BITS));
        let vacant = |mark: u64| mark >> TAG_BITS != self.age;
        // Its own, or a vacant one, or else that of another key.
        let second =
            marks[0] != mark && (marks[1] == mark || !vacant(marks[0]) && vacant(marks[1]));
        let index = usize::from(second);
        let hint = mark << SLOT_BITS | (spot.slot % SLOTS) as u64;
        places[index].store(hint << PAGE_BITS | u64::from(spot.leaf.0), Relaxed);
        if vacant(marks[index]) {
            self.noted.fetch_add(1, Relaxed);
        }
    }

    /// Any leaf may be something else.
    pub(super) fn forget(&mut self) {
        self.age = (self.age + 1) % AGES;
        if self.age == 0 {
            self.age = 1;
            self.places.iter_mut().for_each(|place| *place.get_mut() = 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_told_until_it_is_forgotten() {
        let mut hints = Hints::new(64);
        let spot = |leaf, slot| Spot { leaf: PageId(leaf), slot };
        for key in [&b"k"[..], b"a longer key", b"12345678", b""] {
            assert_eq!(hints.get(key), None);
            hints.note(key, spot(u32::MAX, 400));
            assert_eq!(hints.get(key), Some(spot(u32::MAX, 400)));
            hints.forget();
            assert_eq!(hints.get(key), None);
        }
        hints.note(b"old", spot(9, 9));
        hints.age = AGES - 1;
        hints.forget();
        assert_eq!((hints.age, hints.get(b"old")), (1, None), "ages begin anew without hints");
        let mut hints = Hints::new(PLACES_MIN);
        let keys = || (0..(PLACES_MIN / LOAD) as u64).map(u64::to_be_bytes);
        keys().for_each(|key| hints.note(&key, spot(7, 1)));
        let known = |hints: &Hints| keys().filter(|key| hints.get(key).is_some()).count();
        assert!(known(&hints) > PLACES_MIN / LOAD * 9 / 10, "few take another's place");
        for (places_max, len) in [(1, 1), (4, 4), (32, 16), (32, 32)] {
            *hints.noted.get_mut() = usize::MAX;
            hints.places_max = PLACES_MIN * places_max;
            let before = known(&hints);
            hints.widen();
            assert_eq!(hints.places.len(), PLACES_MIN * len, "{places_max}");
            assert_eq!(known(&hints), before, "all came along");
        }
        // Two that share their places do not take each other's.
        let crowded = Hints::new(2);
        (0..2).for_each(|leaf| crowded.note(&[leaf], spot(u32::from(leaf), 3)));
        (0..2).for_each(|leaf| assert_eq!(crowded.get(&[leaf]), Some(spot(u32::from(leaf), 3))));
        crowded.note(&[0], spot(9, 9));
        assert_eq!((crowded.get(&[0]), crowded.get(&[1])), (Some(spot(9, 9)), Some(spot(1, 3))));
        let none = Hints::new(0);
        none.note(b"k", spot(7, 1));
        assert_eq!(none.get(b"k"), None);
    }
}
