//! Places of pieces, told by where earlier pieces of their page lie.
//!
//! Above: `extents`. Below: columns of numbers. A file that is another one with changes takes bytes from the other's
//! blocks and from its own in turn: most pieces begin where an earlier one ended, where it would have gone on behind
//! what was replaced, or where it begins as well. Invariant: a piece is told by pieces before it only, so that one
//! walk finds all places.

use std::collections::HashMap;

use super::extents::{BlockName, Piece, Place};
use crate::error::{Damage, Result};

/// How a piece's place is told, and what tells it: one so many pieces before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// Where that one ended.
    Behind(usize),
    /// As far from that one as in the file: what lies between took the place of other bytes.
    Along(usize),
    /// Where that one begins.
    Again(usize),
}

/// Numbers of [`Told`]; 0: by itself.
mod number {
    pub const BEHIND: u64 = 1;
    pub const ALONG: u64 = 2;
    pub const AGAIN: u64 = 3;
}

/// A piece that has been seen.
#[derive(Clone, Copy)]
struct Seen {
    /// `None`: a hole.
    place: Option<Place>,
    /// Its row.
    row: usize,
    /// Where it begins in its row.
    at: u64,
    /// `None`: it is the last one of its row, which takes the rest.
    len: Option<u64>,
}

/// The pieces of a page, from its first one on.
#[derive(Default)]
struct Walk {
    seen: Vec<Seen>,
    row: usize,
    at: u64,
}

impl Told {
    fn of(relation: u64, back: u64) -> Result<Self> {
        let back = usize::try_from(back).map_err(|_| Damage::Reference)?;
        match relation {
            number::BEHIND => Ok(Self::Behind(back)),
            number::ALONG => Ok(Self::Along(back)),
            number::AGAIN => Ok(Self::Again(back)),
            _ => Err(Damage::Reference.into()),
        }
    }

    const fn numbers(self) -> (u64, u64) {
        match self {
            Self::Behind(back) => (number::BEHIND, back as u64),
            Self::Along(back) => (number::ALONG, back as u64),
            Self::Again(back) => (number::AGAIN, back as u64),
        }
    }

    const fn back(self) -> usize {
        match self {
            Self::Behind(back) | Self::Along(back) | Self::Again(back) => back,
        }
    }
}

impl Walk {
    /// Where the next piece lies, if it is told so; `None`: that says nothing.
    fn place(&self, told: Told) -> Option<Place> {
        let other = self.seen.get(self.seen.len().checked_sub(told.back())?)?;
        let Place { block, offset } = other.place?;
        let further = match told {
            Told::Behind(_) => other.len?,
            Told::Along(_) if other.row == self.row => self.at.checked_sub(other.at)?,
            Told::Along(_) => return None,
            Told::Again(_) => 0,
        };
        let offset = u64::from(offset).checked_add(further)?;
        Some(Place { block, offset: u32::try_from(offset).ok()? })
    }

    /// Goes on behind a piece.
    fn pass(&mut self, place: Option<Place>, len: Option<u64>) {
        self.seen.push(Seen { place, row: self.row, at: self.at, len });
        match len {
            // Lengths that make more than a file are found by whoever reads the row.
            Some(len) => self.at = self.at.saturating_add(len),
            None => (self.row, self.at) = (self.row + 1, 0),
        }
    }
}

/// The places of all pieces of a page, as columns.
#[derive(Default)]
pub(super) struct Places {
    /// How each piece is told; nothing, where all are told by themselves.
    pub relations: Vec<u64>,
    /// Of each that is told by another one, how far that is back.
    pub backs: Vec<u64>,
    /// Segments of the others; 0: a hole.
    pub segments: Vec<u64>,
    /// Their slots.
    pub slots: Vec<u64>,
    /// Their offsets.
    pub offsets: Vec<u64>,
}

impl Places {
    /// One that is told by itself.
    fn push(&mut self, place: Option<Place>) {
        self.segments.push(place.map_or(0, |place| place.block.segment));
        self.slots.push(place.map_or(0, |place| place.block.slot.into()));
        self.offsets.push(place.map_or(0, |place| place.offset.into()));
    }

    /// All of them by themselves.
    pub fn alone(rows: &[&[Piece]]) -> Self {
        let mut places = Self::default();
        rows.iter().flat_map(|row| row.iter()).for_each(|piece| places.push(piece.place));
        places
    }

    /// As many by others as can be.
    pub fn related(rows: &[&[Piece]]) -> Self {
        let (mut places, mut finder) = (Self::default(), Finder::default());
        for row in rows {
            for (index, piece) in row.iter().enumerate() {
                match piece.place.and_then(|place| finder.find(place)) {
                    None => {
                        places.relations.push(0);
                        places.push(piece.place);
                    }
                    Some(told) => {
                        let (relation, back) = told.numbers();
                        places.relations.push(relation);
                        places.backs.push(back);
                    }
                }
                finder.pass(piece.place, (index + 1 < row.len()).then_some(piece.len));
            }
        }
        places
    }

    /// The places of pieces that are told by others, and of those that are not, from their columns: `rows` has the
    /// number of pieces of each row that has any, `lens` the lengths of all but the last of each.
    ///
    /// # Errors
    /// `Reference`, where one is told by a piece that cannot tell it.
    pub fn resolve(
        self,
        rows: impl Iterator<Item = usize>,
        mut lens: impl Iterator<Item = u64>,
    ) -> Result<Self> {
        let (mut found, mut walk) = (Self::default(), Walk::default());
        let mut relations = self.relations.into_iter();
        let mut backs = self.backs.into_iter();
        let mut alone = self.segments.into_iter().zip(self.slots).zip(self.offsets);
        for count in rows {
            for index in 0..count {
                let len = (index + 1 < count).then(|| lens.next()).flatten();
                let relation = relations.next().ok_or(Damage::Reference)?;
                let place = if relation == 0 {
                    let ((segment, slot), offset) = alone.next().ok_or(Damage::Reference)?;
                    place([segment, slot, offset])?
                } else {
                    let told = Told::of(relation, backs.next().ok_or(Damage::Reference)?)?;
                    Some(walk.place(told).ok_or(Damage::Reference)?)
                };
                found.push(place);
                walk.pass(place, len);
            }
        }
        Ok(found)
    }
}

/// A place by its segment, its slot and its offset; `None`: a hole.
///
/// # Errors
/// `Range`.
pub(super) fn place([segment, slot, offset]: [u64; 3]) -> Result<Option<Place>> {
    if segment == 0 {
        return Ok(None);
    }
    let slot = u32::try_from(slot).map_err(|_| Damage::Range)?;
    let offset = u32::try_from(offset).map_err(|_| Damage::Range)?;
    Ok(Some(Place { block: BlockName { segment, slot }, offset }))
}

/// What tells a piece's place.
#[derive(Default)]
struct Finder {
    walk: Walk,
    /// The last piece that ended at a place, or began there.
    ended: HashMap<Place, usize>,
    began: HashMap<Place, usize>,
    /// The last piece of this row that lies so far from where it is in the file.
    along: HashMap<(BlockName, i64), usize>,
    /// How the one before was told: what goes on like that takes next to nothing.
    last: Option<Told>,
}

impl Finder {
    fn distance(&self, place: Place) -> (BlockName, i64) {
        (place.block, i64::from(place.offset).wrapping_sub_unsigned(self.walk.at))
    }

    fn find(&mut self, place: Place) -> Option<Told> {
        if self.last.is_some_and(|told| self.walk.place(told) == Some(place)) {
            return self.last;
        }
        let back = |number: &usize| self.walk.seen.len() - number;
        let known = [
            self.ended.get(&place).map(|number| Told::Behind(back(number))),
            self.along.get(&self.distance(place)).map(|number| Told::Along(back(number))),
            self.began.get(&place).map(|number| Told::Again(back(number))),
        ];
        let nearest = known.into_iter().flatten().min_by_key(|told| told.back());
        self.last = nearest.or(self.last);
        nearest
    }

    fn pass(&mut self, place: Option<Place>, len: Option<u64>) {
        let number = self.walk.seen.len();
        if let Some(place) = place {
            self.began.insert(place, number);
            let end = len.and_then(|len| u64::from(place.offset).checked_add(len));
            if let Some(offset) = end.and_then(|end| u32::try_from(end).ok()) {
                self.ended.insert(Place { offset, ..place }, number);
                self.along.insert(self.distance(place), number);
            }
        }
        self.walk.pass(place, len);
        if len.is_none() {
            self.along.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    const fn piece(len: u64, slot: u32, offset: u32) -> Piece {
        Piece { len, place: Some(Place { block: BlockName { segment: 1, slot }, offset }) }
    }

    /// An older file in block 1, of which stretches were replaced by what lies in block 2, one after the other.
    const CHANGED: [Piece; 6] = [
        piece(100, 1, 1000),
        piece(10, 2, 0),
        piece(50, 1, 1110),
        piece(7, 2, 10),
        Piece { len: 5, place: None },
        piece(30, 1, 1172),
    ];

    fn lens<'a>(rows: &'a [&[Piece]]) -> impl Iterator<Item = u64> + 'a {
        rows.iter().flat_map(|row| row[..row.len() - 1].iter().map(|piece| piece.len))
    }

    fn resolved(places: Places, rows: &[&[Piece]]) -> Result<Places> {
        places.resolve(rows.iter().map(|row| row.len()), lens(rows))
    }

    #[test]
    fn changes_are_told_by_what_was_changed() {
        let again = [piece(50, 1, 1110), piece(9, 2, 10), piece(8, 1, 1000)];
        let rows = [&CHANGED[..], &again];
        let told = Places::related(&rows);
        assert_eq!(
            told.relations,
            [0, 0, number::ALONG, number::BEHIND, 0, number::ALONG, 3, 3, 3]
        );
        assert_eq!(told.backs, [2, 2, 3, 4, 4, 8]);
        assert_eq!(
            (told.slots.as_slice(), told.offsets.as_slice()),
            (&[1, 2, 0][..], &[1000, 0, 0][..])
        );
        let (found, alone) = (resolved(told, &rows).unwrap(), Places::alone(&rows));
        assert_eq!(found.segments, alone.segments);
        assert_eq!((found.slots, found.offsets), (alone.slots, alone.offsets));
    }

    #[test]
    fn a_piece_is_told_by_nothing_that_cannot_tell_it() {
        let rows = [&CHANGED[..], &CHANGED];
        let with = |number: usize, relation, back| {
            let mut told = Places::alone(&rows);
            told.relations = vec![0; 12];
            told.relations[number] = relation;
            told.backs.push(back);
            for column in [&mut told.segments, &mut told.slots, &mut told.offsets] {
                column.remove(number);
            }
            resolved(told, &rows)
        };
        let wrong = |number, relation, back| {
            let reference = Err(Error::Damaged(Damage::Reference));
            assert_eq!(
                with(number, relation, back).map(drop),
                reference,
                "{number} {relation} {back}"
            );
        };
        for relation in number::BEHIND..=number::AGAIN {
            assert!(with(1, relation, 1).is_ok(), "{relation}");
            wrong(1, relation, 0);
            wrong(1, relation, 2);
            wrong(1, relation, u64::MAX);
            // A hole lies nowhere.
            wrong(5, relation, 1);
        }
        // The last piece of a row takes the rest, which is not known here; and rows are not in one file.
        wrong(6, number::BEHIND, 1);
        wrong(6, number::ALONG, 2);
        wrong(7, number::ALONG, 2);
        assert!(with(6, number::AGAIN, 1).is_ok());
        wrong(1, 4, 1);
        let far = [piece(1 << 33, 1, 0), piece(1, 1, 0)];
        let mut told = Places::alone(&[&far[..1]]);
        (told.relations, told.backs) = (vec![0, number::BEHIND], vec![1]);
        assert_eq!(resolved(told, &[&far]).map(drop), Err(Error::Damaged(Damage::Reference)));
    }
}
