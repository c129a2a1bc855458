//! In which leaf a key was last: for keys that are asked for again and again in no order, of a tree whose way down from
//! the root costs much.
//!
//! Above: `subtree`. Invariant: a hint is never believed without a look at the leaf; all are forgotten whenever a page
//! may have become something else.

use alloc::boxed::Box;

use super::keys;
use crate::ground::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::tree::PageId;

/// Inodes whose numbers differ only in these bits share a hint.
const NEIGHBOURS: u64 = 7;
/// Places to begin with.
const PLACES_MIN: usize = 4096;

/// Hints by what a key mixes to. Each is a page and the age in which it was noted.
pub(super) struct Hints {
    /// None, or a power of two.
    places: Box<[AtomicU64]>,
    /// Never more than that.
    places_max: usize,
    /// Places taken since there are as many.
    noted: AtomicUsize,
    /// Hints of another age are forgotten.
    age: u32,
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
        if *self.noted.get_mut() >= self.places.len() / 2 && self.places.len() < self.places_max {
            self.places = places((self.places.len() * 4).min(self.places_max));
            *self.noted.get_mut() = 0;
        }
    }

    #[inline]
    fn place(&self, key: &[u8]) -> Option<&AtomicU64> {
        let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (words, rest) = key.as_chunks::<8>();
        // Records of neighbours are mostly in one leaf.
        let mask = if keys::is_inode(key) { u64::from_be(!NEIGHBOURS) } else { u64::MAX };
        let sum = words
            .iter()
            .fold(0, |sum: u64, word| mix(sum.rotate_left(29), u64::from_ne_bytes(*word) & mask));
        let last = rest.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        let sum = mix(sum.rotate_left(29), last) >> 32;
        self.places.get(sum as usize & self.places.len().wrapping_sub(1))
    }

    /// The leaf where the key may be.
    #[inline]
    pub(super) fn get(&self, key: &[u8]) -> Option<PageId> {
        let hint = self.place(key)?.load(Relaxed);
        (hint >> 32 == u64::from(self.age)).then_some(PageId(hint as u32))
    }

    /// The key is in this leaf.
    #[inline]
    pub(super) fn note(&self, key: &[u8], leaf: PageId) {
        if let Some(place) = self.place(key) {
            let vacant = place.load(Relaxed) >> 32 != u64::from(self.age);
            place.store(u64::from(self.age) << 32 | u64::from(leaf.0), Relaxed);
            if vacant {
                self.noted.fetch_add(1, Relaxed);
            }
        }
    }

    /// Any leaf may be something else.
    pub(super) fn forget(&mut self) {
        self.age = self.age.wrapping_add(1);
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
        for key in [&b"k"[..], b"a longer key", b"12345678", b""] {
            assert_eq!(hints.get(key), None);
            hints.note(key, PageId(7));
            assert_eq!(hints.get(key), Some(PageId(7)));
            hints.forget();
            assert_eq!(hints.get(key), None);
        }
        hints.note(b"old", PageId(9));
        hints.age = u32::MAX;
        hints.forget();
        assert_eq!((hints.age, hints.get(b"old")), (1, None), "ages begin anew without hints");
        (0..128).for_each(|key: u64| hints.note(&key.to_be_bytes(), PageId(7)));
        hints.widen();
        assert_eq!((hints.places.len(), hints.get(&[0; 8])), (64, Some(PageId(7))), "no more");
        hints.places_max = 1024;
        hints.widen();
        assert_eq!((hints.places.len(), hints.get(b"k")), (256, None));
        let none = Hints::new(0);
        none.note(b"k", PageId(7));
        assert_eq!(none.get(b"k"), None);
    }
}
