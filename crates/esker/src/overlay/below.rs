//! Which bytes of a file still come from below, and from where there.
//!
//! Neighbours: `state` keeps one for each file that needs it. Invariant: pieces are not empty, do not overlap and lie
//! in order; two that follow each other in both files are one.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::ids::Ino;
use crate::limits::GRANULE;

/// A run of bytes that a file has from below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its first byte in the file.
    pub start: u64,
    /// One past its last byte in the file.
    pub end: u64,
    /// The lower's file that has the bytes.
    pub ino: Ino,
    /// Where they begin there.
    pub from: u64,
}

impl Piece {
    /// The part that lies in `start..end`, which it must touch.
    fn part(self, start: u64, end: u64) -> Self {
        let first = self.start.max(start);
        Self { start: first, end: self.end.min(end), from: self.place(first), ..self }
    }

    /// Where byte `at` of the file, which lies in it, is below.
    pub(super) const fn place(&self, at: u64) -> u64 {
        self.from + (at - self.start)
    }

    /// Granules that it touches.
    pub(super) const fn granules(&self) -> u64 {
        self.end.div_ceil(GRANULE) - self.start / GRANULE
    }
}

/// What lies at a piece's first byte.
#[derive(Clone, Copy, Debug)]
struct Behind {
    end: u64,
    ino: Ino,
    from: u64,
}

/// The pieces of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct Below {
    pieces: BTreeMap<u64, Behind>,
    granules: u64,
}

impl Below {
    /// All of a lower file.
    pub(super) fn whole(ino: Ino, size: u64) -> Self {
        let mut below = Self::default();
        below.put(Piece { start: 0, end: size, ino, from: 0 });
        below
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Granules that they touch, at most.
    pub(super) const fn granules(&self) -> u64 {
        self.granules
    }

    fn known(&self, (&start, behind): (&u64, &Behind)) -> Piece {
        Piece { start, end: behind.end, ino: behind.ino, from: behind.from }
    }

    fn insert(&mut self, piece: Piece) {
        self.granules += piece.granules();
        let Piece { start, end, ino, from } = piece;
        self.pieces.insert(start, Behind { end, ino, from });
    }

    fn take(&mut self, piece: Piece) {
        self.pieces.remove(&piece.start);
        self.granules -= piece.granules();
    }

    /// The piece that holds byte `at`, or the first one behind it.
    pub(super) fn next(&self, at: u64) -> Option<Piece> {
        let before = self.pieces.range(..=at).next_back().map(|found| self.known(found));
        before
            .filter(|piece| piece.end > at)
            .or_else(|| self.pieces.range(at..).next().map(|found| self.known(found)))
    }

    /// What lies in `start..end`, cut to it.
    pub(super) fn within(&self, start: u64, end: u64) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut at = start;
        while let Some(piece) = self.next(at).filter(|piece| piece.start < end) {
            pieces.push(piece.part(start, end));
            at = piece.end;
        }
        pieces
    }

    /// `start..end` does not come from below any more.
    pub(super) fn remove(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        while let Some(piece) = self.next(start).filter(|piece| piece.start < end) {
            self.take(piece);
            if piece.start < start {
                self.insert(piece.part(0, start));
            }
            if piece.end > end {
                self.insert(piece.part(end, u64::MAX));
            }
        }
    }

    /// These bytes come from below, whatever was there before.
    pub(super) fn put(&mut self, mut piece: Piece) {
        self.remove(piece.start, piece.end);
        if piece.start >= piece.end {
            return;
        }
        let before = self.pieces.range(..piece.start).next_back().map(|found| self.known(found));
        if let Some(before) = before
            && before.end == piece.start
            && before.ino == piece.ino
            && before.from + (before.end - before.start) == piece.from
        {
            self.take(before);
            (piece.start, piece.from) = (before.start, before.from);
        }
        if let Some(behind) = self.next(piece.end)
            && behind.start == piece.end
            && behind.ino == piece.ino
            && behind.from == piece.place(piece.end)
        {
            self.take(behind);
            piece.end = behind.end;
        }
        self.insert(piece);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 200;

    fn assert_sound(below: &Below, bytes: &[Option<(u64, u64)>]) {
        let mut found = [None; LEN as usize];
        let mut last: Option<Piece> = None;
        for piece in below.within(0, LEN) {
            assert!(piece.start < piece.end);
            if let Some(last) = last {
                let follows = last.end == piece.start && last.ino == piece.ino;
                assert!(last.end <= piece.start);
                assert!(!follows || last.place(last.end) != piece.from, "two that are one");
            }
            for at in piece.start..piece.end {
                found[at as usize] = Some((piece.ino.0, piece.place(at)));
            }
            last = Some(piece);
        }
        assert_eq!(found, bytes);
        let granules: u64 = below.within(0, LEN).iter().map(Piece::granules).sum();
        assert_eq!((below.granules(), below.len()), (granules, below.within(0, LEN).len()));
        let (part, all) = (below.within(50, 90), bytes[50..90].iter().flatten().count());
        assert_eq!(part.iter().map(|piece| piece.end - piece.start).sum::<u64>(), all as u64);
    }

    /// Pieces come and go at random; each byte is where a plain row of bytes has it.
    #[test]
    fn mirrors_a_row_of_bytes() {
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut chance = |end: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            (seed >> 20) % end
        };
        let mut below = Below::whole(Ino(1), LEN);
        let mut bytes: [_; LEN as usize] = core::array::from_fn(|at| Some((1, at as u64)));
        assert_sound(&below, &bytes);
        for _ in 0..20_000 {
            let start = chance(LEN);
            let end = (start + chance(40)).min(LEN);
            let part = &mut bytes[start as usize..end as usize];
            if chance(2) == 0 {
                below.remove(start, end);
                part.fill(None);
            } else {
                let (ino, by) = (chance(2) + 1, chance(3) * 7);
                below.put(Piece { start, end, ino: Ino(ino), from: start + by });
                for (at, byte) in part.iter_mut().enumerate() {
                    *byte = Some((ino, start + at as u64 + by));
                }
            }
            assert_sound(&below, &bytes);
        }
        below.remove(0, u64::MAX);
        assert_eq!((below.len(), below.granules()), (0, 0));
    }
}
