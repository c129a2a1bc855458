//! What can be found out about a piece without all that came before it.
//!
//! Above: `data`, `incoming`, `repeats`. Below: `gear`. Invariant: it depends on the piece alone, not on who looks, nor
//! when.

use core::ops::Range;

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
    pub anchors: Vec<Anchor>,
}

/// Who looks.
#[derive(Clone, Copy)]
pub(super) struct Looker {
    /// Stretches that were there before are looked for.
    pub repeats: bool,
}

impl Looker {
    pub fn look(self, bytes: &[u8]) -> Look {
        Look { hash: hash(bytes), anchors: self.anchors(bytes) }
    }

    /// The anchors in a piece, if they are wanted.
    pub fn anchors(self, bytes: &[u8]) -> Vec<Anchor> {
        if self.repeats { anchors(bytes) } else { Vec::new() }
    }
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
