//! Rows of names: what each name in a directory leads to.

use esker::limits::NAME_LEN_MAX;
use esker::{Ino, Kind, Name};

use super::{count_before, rising, write_rising};
use crate::column::{Numbers, apply, difference};
use crate::error::{Damage, Result};
use crate::group::{Group, GroupWriter, Measure};
use crate::key::kind;
use crate::strings::Strings;

const DIR: u8 = 1;
const NAME: u8 = 3;
const CHILD: u8 = 6;
const KIND: u8 = 8;
const SEQ: u8 = 9;
const COLUMNS: [u8; 9] = [1, 2, 3, 4, 5, 6, 7, 8, 9];

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The directory.
    pub dir: Ino,
    /// The name.
    pub name: Vec<u8>,
    /// What it leads to.
    pub ino: Ino,
    /// Which is of this kind.
    pub kind: Kind,
    /// Its place in the listing; 0: not stored, its rank says it.
    pub seq: u64,
}

/// A page of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    dirs: Vec<u64>,
    names: Strings,
    children: Numbers,
    kinds: Numbers,
    seqs: Numbers,
}

fn kind_of(bits: u64) -> Result<Kind> {
    let mode = u32::try_from(bits).ok().and_then(|bits| bits.checked_mul(0o010_000));
    let kind = mode.and_then(Kind::from_mode).filter(|kind| Some(kind.bits()) == mode);
    kind.ok_or_else(|| Damage::Range.into())
}

impl Names {
    /// The plain bytes of a page of these, which rise by directory and name.
    #[must_use]
    pub fn encode(rows: &[Named], measure: Measure) -> Vec<u8> {
        let mut group = GroupWriter::new(kind::NAME, rows.len(), measure);
        let dirs: Vec<_> = rows.iter().map(|row| row.dir.0).collect();
        write_rising(&mut group, (DIR, DIR + 1), &dirs, 0);
        let mut names = Strings::default();
        rows.iter().for_each(|row| names.push(&row.name));
        names.write(&mut group, NAME);
        group.numbers(CHILD, &rows.first().map(|row| row.ino.0).into_iter().collect::<Vec<_>>());
        let mut children = vec![0; rows.len().min(1)];
        let step = |two: &[Named]| difference(two[1].ino.0, two[0].ino.0.wrapping_add(1));
        children.extend(rows.windows(2).map(step));
        group.numbers(CHILD + 1, &children);
        let kinds = rows.iter().map(|row| u64::from(row.kind.dirent_type()));
        group.numbers(KIND, &kinds.collect::<Vec<_>>());
        group.numbers(SEQ, &rows.iter().map(|row| row.seq).collect::<Vec<_>>());
        group.page()
    }

    /// From the plain bytes of a page.
    ///
    /// # Errors
    /// `Damaged`, `Unsupported`.
    pub fn decode(plain: &[u8]) -> Result<Self> {
        let group = Group::only(plain, kind::NAME, &COLUMNS)?;
        let dirs = rising(&group, (DIR, DIR + 1), 0)?;
        let names = Strings::read(&group, NAME, NAME_LEN_MAX)?;
        let kinds = group.numbers(KIND)?;
        let steps = group.numbers(CHILD + 1)?;
        let mut child = group.number(CHILD)?;
        let mut children = Vec::with_capacity(group.count);
        for row in 0..group.count {
            if row > 0 {
                child = apply(child.wrapping_add(1), steps.get(row));
                let rises = dirs[row - 1] < dirs[row] || names.get(row - 1) < names.get(row);
                if !rises {
                    return Err(Damage::Order.into());
                }
            }
            children.push(child);
            Name::parse(names.get(row)).map_err(|_| Damage::Name)?;
            kind_of(kinds.get(row))?;
        }
        let seqs = group.numbers(SEQ)?;
        Ok(Self { dirs, names, children: Numbers::narrow(children), kinds, seqs })
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.dirs.len()
    }

    /// None at all.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.dirs.is_empty()
    }

    /// The first row that is not before this name.
    #[must_use]
    pub fn lower_bound(&self, dir: Ino, name: &[u8]) -> usize {
        let before = |row: usize| (self.dirs[row], self.names.get(row)) < (dir.0, name);
        count_before(self.dirs.len(), before)
    }

    /// The directory of a row.
    #[must_use]
    pub fn dir(&self, row: usize) -> Option<Ino> {
        self.dirs.get(row).map(|&dir| Ino(dir))
    }

    /// The name of a row.
    #[must_use]
    pub fn name(&self, row: usize) -> &[u8] {
        self.names.get(row)
    }

    /// What a row's name leads to.
    ///
    /// # Errors
    /// `Range`, which a page that was decoded does not have.
    pub fn child(&self, row: usize) -> Result<(Ino, Kind)> {
        Ok((Ino(self.children.get(row)), kind_of(self.kinds.get(row))?))
    }

    /// A row's place in the listing; 0 where none is stored.
    #[must_use]
    pub fn seq(&self, row: usize) -> u64 {
        self.seqs.get(row)
    }

    /// A row, whole.
    ///
    /// # Errors
    /// `Range`, which a page that was decoded does not have; `Reference` behind the last.
    pub fn row(&self, row: usize) -> Result<Named> {
        let dir = self.dir(row).ok_or(Damage::Reference)?;
        let (ino, kind) = self.child(row)?;
        Ok(Named { dir, name: self.name(row).to_vec(), ino, kind, seq: self.seq(row) })
    }

    /// Bytes that it takes in memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        let numbers = self.children.memory() + self.kinds.memory() + self.seqs.memory();
        self.dirs.len() * 8 + self.names.memory() + numbers
    }
}
