//! Hashes that roll over bytes, and those of them that are looked at: anchors.
//!
//! Above: `repeats`, `alike`. Invariant: which places are anchors depends on the bytes before them alone, so equal
//! stretches have them at equal places; a table of them has a bound, and grows sparser instead of larger.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// What each byte adds, from a seed that has no meaning.
const GEAR: [u64; 256] = gear();

const fn gear() -> [u64; 256] {
    let (mut table, mut at, mut seed) = ([0; 256], 0, 0x6573_6b65_7200_0001u64);
    while at < 256 {
        // The steps of splitmix64.
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = seed;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        table[at] = word ^ (word >> 31);
        at += 1;
    }
    table
}

/// A hash of the last `64 / SHIFT` bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct Rolling<const SHIFT: u32>(u64);

impl<const SHIFT: u32> Rolling<SHIFT> {
    /// Bytes that it depends on.
    pub const REACH: usize = 64usize.div_ceil(SHIFT as usize);

    /// One byte more.
    pub const fn push(&mut self, byte: u8) -> u64 {
        self.0 = (self.0 << SHIFT).wrapping_add(GEAR[byte as usize]);
        self.0
    }
}

/// Keys are hashes, but only their upper bits are of many bytes.
#[derive(Default)]
pub(super) struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (word ^ (word >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

/// What is known of anchors.
pub(super) struct Anchors<T> {
    known: HashMap<u64, T, BuildHasherDefault<Spread>>,
    /// One of two to the power of this many places is an anchor.
    bits: u32,
    most: usize,
}

impl<T> Anchors<T> {
    /// With so many anchors at most.
    pub fn new(bits: u32, most: usize) -> Self {
        Self { known: HashMap::default(), bits, most }
    }

    /// One of two to the power of this many places is an anchor.
    pub const fn bits(&self) -> u32 {
        self.bits
    }

    /// A hash is an anchor if its upper bits are zero.
    pub const fn is_one(&self, hash: u64) -> bool {
        hash >> (64 - self.bits) == 0
    }

    /// As [`next_anchor`].
    pub fn next<const SHIFT: u32>(
        &self,
        rolling: &mut Rolling<SHIFT>,
        bytes: &[u8],
    ) -> Option<(u64, usize)> {
        next_anchor(self.bits, rolling, bytes)
    }

    pub fn get(&self, hash: u64) -> Option<&T> {
        self.known.get(&hash)
    }

    pub fn get_mut(&mut self, hash: u64) -> Option<&mut T> {
        self.known.get_mut(&hash)
    }

    /// Knows one more. Where there are too many, every other one is forgotten.
    pub fn insert(&mut self, hash: u64, value: T) {
        // Before there is one more than fits, which would make the table twice as large.
        if self.known.len() >= self.most && self.is_one(hash) && !self.known.contains_key(&hash) {
            self.bits += 1;
            let bits = self.bits;
            // The places of what is only taken away would be lost for others.
            let kept = self.known.drain().filter(|(hash, _)| hash >> (64 - bits) == 0);
            let kept: Vec<_> = kept.collect();
            self.known.extend(kept);
        }
        if self.is_one(hash) {
            self.known.insert(hash, value);
        }
    }

    /// Bytes of memory that it takes, in about.
    pub fn memory(&self) -> u64 {
        Self::memory_of(self.known.capacity())
    }

    /// The same where so many are known.
    pub const fn memory_of(anchors: usize) -> u64 {
        (anchors * (size_of::<(u64, T)>() + 2)) as u64
    }
}

/// The next anchor, of which one of two to the power of `bits` places is one, in bytes that `rolling` has not seen: its
/// hash, and where what it covers ends there.
pub(super) fn next_anchor<const SHIFT: u32>(
    bits: u32,
    rolling: &mut Rolling<SHIFT>,
    bytes: &[u8],
) -> Option<(u64, usize)> {
    let below = 1 << (64 - bits);
    let mut hash = rolling.0;
    let (pairs, last) = bytes.as_chunks::<2>();
    for (number, &[one, two]) in pairs.iter().enumerate() {
        // Each step waits for the one before, but not one of two bytes for each of them.
        let (one, two) = (GEAR[one as usize], GEAR[two as usize]);
        let (first, both) = ((hash << SHIFT).wrapping_add(one), (one << SHIFT).wrapping_add(two));
        hash = (hash << (2 * SHIFT)).wrapping_add(both);
        if first < below || hash < below {
            let (found, end) = if first < below { (first, 1) } else { (hash, 2) };
            rolling.0 = found;
            return Some((found, number * 2 + end));
        }
    }
    rolling.0 = hash;
    let &[byte] = last else { return None };
    let hash = rolling.push(byte);
    (hash < below).then_some((hash, bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_anchors_grows_sparser_instead_of_larger() {
        let mut anchors = Anchors::new(2, 100);
        let mut rolling = Rolling::<1>::default();
        for at in 0..100_000u32 {
            let hash = rolling.push(((at * 7919) >> 5) as u8 ^ (at >> 8) as u8);
            anchors.insert(hash, at);
        }
        assert!(anchors.bits() > 2 && anchors.known.len() <= 100);
        // As many as fit into 128 slots of which an eighth is free.
        let mut full = Anchors::new(1, 112);
        (0..10_000u64).for_each(|hash| full.insert(hash.reverse_bits() >> 1, hash));
        assert!(full.known.capacity() <= 112, "{}", full.known.capacity());
        assert!(anchors.known.keys().all(|&hash| anchors.is_one(hash)));
    }

    #[test]
    fn anchors_are_found_where_they_are() {
        let anchors = Anchors::<()>::new(3, 100);
        let bytes: Vec<u8> = (0..5001u32).map(|at| (at.wrapping_mul(at) >> 5) as u8).collect();
        for len in [0, 1, 2, 4999, 5000, 5001] {
            let (mut one, mut right) = (Rolling::<1>::default(), Vec::new());
            for (at, &byte) in bytes[..len].iter().enumerate() {
                let hash = one.push(byte);
                right.extend(anchors.is_one(hash).then_some((hash, at + 1)));
            }
            let (mut rolling, mut at, mut found) = (Rolling::<1>::default(), 0, Vec::new());
            while let Some((hash, end)) = anchors.next(&mut rolling, &bytes[at..len]) {
                at += end;
                found.push((hash, at));
            }
            assert_eq!(found, right);
            assert_eq!(rolling.0, one.0);
            assert!(len < 4999 || found.len() > 400, "{}", found.len());
        }
    }

    #[test]
    fn a_hash_depends_on_the_last_bytes_alone() {
        let bytes: Vec<u8> = (0..200).map(|at| (at * 37) as u8).collect();
        let all = |bytes: &[u8]| {
            let mut rolling = Rolling::<3>::default();
            bytes.iter().map(|&byte| rolling.push(byte)).last()
        };
        assert_eq!(all(&bytes), all(&bytes[200 - Rolling::<3>::REACH..]));
        assert_ne!(all(&bytes), all(&bytes[201 - Rolling::<3>::REACH..]));
    }
}
