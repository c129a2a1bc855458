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
/// Bits of a hint that are a page's, and behind them a slot's.
const PAGE_BITS: u32 = 32;
const SLOT_BITS: u32 = 12;
/// The slots of a page can be told.
const SLOTS: usize = 1 << SLOT_BITS;
/// Ages that can be told apart.
const AGES: u64 = 1 << (u64::BITS - PAGE_BITS - SLOT_BITS);

const _: () = assert!(SLOTS > crate::limits::PAGE_SIZE / crate::tree::NodeSlot::SIZE);

/// Hints by what a key mixes to. Each is a page, a slot, and the age in which it was noted.
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
            // Each to all places that its key may have now.
            let (known, count) = (&self.places, (self.places.len() * 4).min(self.places_max));
            let place =
                |index: usize| AtomicU64::new(known[index & (known.len() - 1)].load(Relaxed));
            self.places = (0..count).map(place).collect();
        }
    }

    #[inline]
    fn place(&self, key: &[u8]) -> Option<&AtomicU64> {
        let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (words, rest) = key.as_chunks::<8>();
        let sum = words
            .iter()
            .fold(0, |sum: u64, word| mix(sum.rotate_left(29), u64::from_ne_bytes(*word)));
        let last = rest.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        let sum = mix(sum.rotate_left(29), last) >> 32;
        self.places.get(sum as usize & self.places.len().wrapping_sub(1))
    }

    /// Where the key may be.
    #[inline]
    pub(super) fn get(&self, key: &[u8]) -> Option<Spot> {
        let hint = self.place(key)?.load(Relaxed);
        let slot = (hint >> PAGE_BITS) as usize % SLOTS;
        let known = hint >> (PAGE_BITS + SLOT_BITS) == self.age;
        known.then_some(Spot { leaf: PageId(hint as u32), slot })
    }

    /// The key is there.
    #[inline]
    pub(super) fn note(&self, key: &[u8], spot: Spot) {
        if let Some(place) = self.place(key) {
            let vacant = place.load(Relaxed) >> (PAGE_BITS + SLOT_BITS) != self.age;
            let hint = self.age << SLOT_BITS | (spot.slot % SLOTS) as u64;
            place.store(hint << PAGE_BITS | u64::from(spot.leaf.0), Relaxed);
            if vacant {
                self.noted.fetch_add(1, Relaxed);
            }
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
        (0..128).for_each(|key: u64| hints.note(&key.to_be_bytes(), spot(7, 1)));
        hints.widen();
        assert_eq!((hints.places.len(), hints.get(&[0; 8])), (64, Some(spot(7, 1))), "no more");
        hints.places_max = 1024;
        hints.widen();
        assert_eq!(
            (hints.places.len(), hints.get(&[0; 8])),
            (256, Some(spot(7, 1))),
            "it came along"
        );
        let none = Hints::new(0);
        none.note(b"k", spot(7, 1));
        assert_eq!(none.get(b"k"), None);
    }
}
