//! Rows of places: which name stands where in a directory's listing.

use esker::limits::NAME_LEN_MAX;
use esker::{Ino, Name};

use crate::column::Numbers;
use crate::error::{Damage, Result};
use crate::group::{Group, GroupWriter, Measure};
use crate::key::kind;
use crate::strings::Strings;

const DIR: u8 = 1;
const SEQ: u8 = 2;
const NAME: u8 = 3;
const COLUMNS: [u8; 5] = [1, 2, 3, 4, 5];

/// A place in a directory's listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The directory.
    pub dir: Ino,
    /// The place.
    pub seq: u64,
    /// What stands there.
    pub name: Vec<u8>,
}

/// A page of places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listings {
    dirs: Numbers,
    seqs: Numbers,
    names: Strings,
}

impl Listings {
    /// The plain bytes of a page of these, which rise by directory and place.
    #[must_use]
    pub fn encode(rows: &[Listing], measure: Measure) -> Vec<u8> {
        let mut group = GroupWriter::new(kind::PLACE, rows.len(), measure);
        group.numbers(DIR, &rows.iter().map(|row| row.dir.0).collect::<Vec<_>>());
        group.numbers(SEQ, &rows.iter().map(|row| row.seq).collect::<Vec<_>>());
        let mut names = Strings::default();
        rows.iter().for_each(|row| names.push(&row.name));
        names.write(&mut group, NAME);
        group.page()
    }

    /// From the plain bytes of a page.
    ///
    /// # Errors
    /// `Damaged`, `Unsupported`.
    pub fn decode(plain: &[u8]) -> Result<Self> {
        let group = Group::only(plain, kind::PLACE, &COLUMNS)?;
        let (dirs, seqs) = (group.numbers(DIR)?, group.numbers(SEQ)?);
        let names = Strings::read(&group, NAME, NAME_LEN_MAX)?;
        for row in 0..group.count {
            Name::parse(names.get(row)).map_err(|_| Damage::Name)?;
            let key = |row| (dirs.get(row), seqs.get(row));
            if row > 0 && key(row - 1) >= key(row) {
                return Err(Damage::Order.into());
            }
        }
        Ok(Self { dirs, seqs, names })
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.names.len()
    }

    /// None at all.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.names.len() == 0
    }

    /// The first row that is not before this place.
    #[must_use]
    pub fn lower_bound(&self, dir: Ino, seq: u64) -> usize {
        let before = |row: usize| (self.dirs.get(row), self.seqs.get(row)) < (dir.0, seq);
        super::count_before(self.len(), before)
    }

    /// A row.
    #[must_use]
    pub fn row(&self, row: usize) -> Option<(Ino, u64, &[u8])> {
        let inside = row < self.len();
        inside.then(|| (Ino(self.dirs.get(row)), self.seqs.get(row), self.names.get(row)))
    }

    /// Bytes that it takes in memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.dirs.memory() + self.seqs.memory() + self.names.memory()
    }
}
