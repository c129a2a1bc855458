//! What can be found out about a piece without all that came before it.
//!
//! Above: `data`, `incoming`, `repeats`. Below: `gear`. Invariant: it depends on the piece alone, not on who looks, nor
//! when.

use core::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker_stone::check::{Hash, hash};

use super::gear::{Rolling, next_anchor};

/// One of two to the power of this many places is an anchor, at first.
pub(super) const BITS: u32 = 7;

/// A place that is known again: the hash of the bytes before it, and where they end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Anchor {
    pub hash: u64,
    pub end: u32,
}

/// What was found out.
#[derive(Debug)]
pub(super) struct Look {
    pub hash: Hash,
    /// None where the piece is likely to have been there before.
    pub anchors: Option<Vec<Anchor>>,
}

/// Words of bits that tell which pieces may have been there before.
const HINTS: usize = 1 << 14;

/// Who looks.
#[derive(Clone)]
pub(super) struct Looker {
    /// Stretches that were there before are looked for.
    repeats: bool,
    /// Of each piece that was taken two bits are set. They decide who looks for anchors, never what is found.
    hints: Arc<[AtomicU64]>,
}

impl Looker {
    pub fn new(repeats: bool) -> Self {
        Self { repeats, hints: (0..HINTS).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Hash and anchors; no anchors where the piece is likely to be known by its hash.
    pub fn look(&self, bytes: &[u8]) -> Look {
        let hash = hash(bytes);
        let is_new =
            bits(&hash).any(|(word, bit)| self.hints[word].load(Ordering::Relaxed) & bit == 0);
        Look { hash, anchors: is_new.then(|| self.anchors(bytes)) }
    }

    /// A piece was taken.
    pub fn took(&self, piece: &Hash) {
        bits(piece).for_each(|(word, bit)| {
            self.hints[word].fetch_or(bit, Ordering::Relaxed);
        });
    }

    /// The anchors in a piece, if they are wanted.
    pub fn anchors(&self, bytes: &[u8]) -> Vec<Anchor> {
        if self.repeats { anchors(bytes) } else { Vec::new() }
    }
}

/// The bits of a piece.
fn bits(piece: &Hash) -> impl Iterator<Item = (usize, u64)> {
    let (words, _) = piece.as_chunks::<4>();
    let numbers = words.iter().take(2).map(|&word| u32::from_le_bytes(word) as usize);
    numbers.map(|number| (number / 64 % HINTS, 1 << (number % 64)))
}

/// All anchors in some bytes.
fn anchors(bytes: &[u8]) -> Vec<Anchor> {
    let mut found = Vec::with_capacity(bytes.len() >> BITS);
    let (mut rolling, mut at) = (Rolling::<1>::default(), 0);
    while let Some((hash, end)) = next_anchor(BITS, &mut rolling, &bytes[at..]) {
        at += end;
        // No piece has 4 GiB.
        found.push(Anchor { hash, end: at as u32 });
    }
    found
}

/// Some bytes of a piece, and its anchors.
#[derive(Clone, Copy)]
pub(super) struct Looked<'a> {
    pub bytes: &'a [u8],
    /// Where they begin in the piece.
    from: usize,
    anchors: &'a [Anchor],
}

impl<'a> Looked<'a> {
    /// A piece.
    pub const fn new(bytes: &'a [u8], anchors: &'a [Anchor]) -> Self {
        Self { bytes, from: 0, anchors }
    }

    /// A part of it.
    pub fn part(self, range: Range<usize>) -> Self {
        let from = self.from + range.start;
        Self { bytes: &self.bytes[range], from, anchors: self.anchors }
    }

    /// Anchors whose bytes are among these, those that end behind `at`.
    pub fn behind(self, at: usize) -> impl Iterator<Item = (u64, usize)> + 'a {
        let (from, len) = (self.from, self.bytes.len());
        let least = from + (at + 1).max(Rolling::<1>::REACH);
        let first = self.anchors.partition_point(|anchor| (anchor.end as usize) < least);
        let ends = self.anchors[first..].iter();
        let own = ends.map(move |anchor| (anchor.hash, anchor.end as usize - from));
        own.take_while(move |&(_, end)| end <= len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_of_what_was_taken_are_left_to_who_needs_them() {
        let looker = Looker::new(true);
        let (one, other) = ([1; 9000], [2; 9000]);
        let look = looker.look(&one);
        assert!(look.anchors.is_some());
        looker.took(&look.hash);
        assert!(looker.look(&one).anchors.is_none());
        assert!(looker.look(&other).anchors.is_some());
    }

    #[test]
    fn a_part_has_the_anchors_whose_bytes_are_in_it() {
        let bytes: Vec<u8> = (0..90_000u32).map(|at| (at.wrapping_mul(at) >> 7) as u8).collect();
        let all = anchors(&bytes);
        assert!(all.len() > 100, "{}", all.len());
        let whole = Looked::new(&bytes, &all);
        let (start, end) = (all[3].end as usize - Rolling::<1>::REACH, all[40].end as usize);
        let part = whole.part(start..end);
        let found: Vec<_> = part.behind(0).map(|(hash, at)| (hash, at + start)).collect();
        let inside = |anchor: &&Anchor| {
            let at = anchor.end as usize;
            (start + Rolling::<1>::REACH..=end).contains(&at)
        };
        let right: Vec<_> =
            all.iter().filter(inside).map(|own| (own.hash, own.end as usize)).collect();
        assert_eq!(found, right);
        assert_eq!(found[0].1, all[3].end as usize);
        // They are those of the part by itself.
        let own = anchors(part.bytes);
        let alone: Vec<_> = Looked::new(part.bytes, &own).behind(0).collect();
        assert_eq!(alone, part.behind(0).collect::<Vec<_>>());
        let behind: Vec<_> = part.behind(alone[5].1).collect();
        assert_eq!(behind, alone[6..]);
    }
}
