//! Rows of extended attributes.

use esker::limits::{XATTR_NAME_LEN_MAX, XATTR_VALUE_LEN_MAX};
use esker::{Ino, XattrName};

use super::{count_before, ends, rising, value, write_rising};
use crate::error::{Damage, Result};
use crate::group::{Group, GroupWriter, Measure};
use crate::key::kind;
use crate::strings::Strings;

const INO: u8 = 1;
const NAME: u8 = 3;
const VALUE: u8 = 6;
const COLUMNS: [u8; 7] = [1, 2, 3, 4, 5, 6, 7];

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xattr {
    /// Whose.
    pub ino: Ino,
    /// Its name, with the namespace.
    pub name: Vec<u8>,
    /// Its value.
    pub value: Vec<u8>,
}

/// A page of extended attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Xattrs {
    inos: Vec<u64>,
    names: Strings,
    ends: Vec<u32>,
    values: Vec<u8>,
}

impl Xattrs {
    /// The plain bytes of a page of these, which rise by inode and name.
    #[must_use]
    pub fn encode(rows: &[Xattr], measure: Measure) -> Vec<u8> {
        let mut group = GroupWriter::new(kind::XATTR, rows.len(), measure);
        let inos: Vec<_> = rows.iter().map(|row| row.ino.0).collect();
        write_rising(&mut group, (INO, INO + 1), &inos, 0);
        let mut names = Strings::default();
        rows.iter().for_each(|row| names.push(&row.name));
        names.write(&mut group, NAME);
        group.numbers(VALUE, &rows.iter().map(|row| row.value.len() as u64).collect::<Vec<_>>());
        group.bytes(VALUE + 1, &rows.iter().flat_map(|row| row.value.clone()).collect::<Vec<_>>());
        group.page()
    }

    /// From the plain bytes of a page.
    ///
    /// # Errors
    /// `Damaged`, `Unsupported`.
    pub fn decode(plain: &[u8]) -> Result<Self> {
        let group = Group::only(plain, kind::XATTR, &COLUMNS)?;
        let inos = rising(&group, (INO, INO + 1), 0)?;
        let names = Strings::read(&group, NAME, XATTR_NAME_LEN_MAX)?;
        for row in 0..group.count {
            XattrName::parse(names.get(row)).map_err(|_| Damage::Name)?;
            if row > 0 && inos[row - 1] == inos[row] && names.get(row - 1) >= names.get(row) {
                return Err(Damage::Order.into());
            }
        }
        let (ends, values) = ends(&group, VALUE, VALUE + 1, XATTR_VALUE_LEN_MAX)?;
        Ok(Self { inos, names, ends, values })
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.inos.len()
    }

    /// None at all.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.inos.is_empty()
    }

    /// The first row that is not before this attribute.
    #[must_use]
    pub fn lower_bound(&self, ino: Ino, name: &[u8]) -> usize {
        let before = |row: usize| (self.inos[row], self.names.get(row)) < (ino.0, name);
        count_before(self.inos.len(), before)
    }

    /// A row: whose, its name, its value.
    #[must_use]
    pub fn row(&self, row: usize) -> Option<(Ino, &[u8], &[u8])> {
        let ino = *self.inos.get(row)?;
        Some((Ino(ino), self.names.get(row), value(&self.ends, &self.values, row)))
    }

    /// Bytes that it takes in memory.
    #[must_use]
    pub const fn memory(&self) -> usize {
        self.inos.len() * 8 + self.names.memory() + self.ends.len() * 4 + self.values.len()
    }
}
