//! Groups: rows in columns, the one shape that everything in a page has.
//!
//! Above: `rows`. Below: `column`. Invariant: a group that was taken apart has each column once, none
//! that its kind does not know, and no byte that belongs to nothing.
#![expect(missing_docs, reason = "fields have their meanings in FORMAT.md")]

use esker::layout;

use crate::column::{self, Numbers, encoding};
use crate::error::{Damage, Result, Unsupported};
use crate::limits::ROWS_MAX;

layout! {
    /// Before the columns of a group.
    pub struct GroupHead: 4 {
        0 => kind: u8,
        1 => columns: u8,
        2 => count: u16,
    }
}

layout! {
    /// Before the bytes of a column.
    pub struct ColumnHead: 8 {
        0 => column: u8,
        1 => encoding: u8,
        2 => reserved: u16,
        4 => len: u32,
    }
}

/// Columns from here on may be passed over by whoever does not know them; groups of the root page too.
const OPTIONAL: u8 = 128;

/// A group, taken apart.
pub(crate) struct Group<'a> {
    pub kind: u8,
    pub count: usize,
    columns: Vec<(u8, u8, &'a [u8])>,
}

fn split(bytes: &[u8], at: usize) -> Result<(&[u8], &[u8])> {
    bytes.split_at_checked(at).ok_or_else(|| Damage::Head.into())
}

impl<'a> Group<'a> {
    /// The first group in `bytes`, and what follows it.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, &'a [u8])> {
        let (head, mut rest) = split(bytes, GroupHead::SIZE)?;
        let head = GroupHead::decode(head).ok_or(Damage::Head)?;
        let count = usize::from(head.count);
        if count > ROWS_MAX {
            return Err(Damage::Head.into());
        }
        let mut columns: Vec<(u8, u8, &[u8])> = Vec::with_capacity(head.columns.into());
        for _ in 0..head.columns {
            let (own, behind) = split(rest, ColumnHead::SIZE)?;
            let own = ColumnHead::decode(own).ok_or(Damage::Head)?;
            let rises = columns.last().is_none_or(|&(before, ..)| before < own.column);
            if !rises || own.reserved != 0 {
                return Err(Damage::Head.into());
            }
            let (bytes, behind) = split(behind, own.len as usize)?;
            columns.push((own.column, own.encoding, bytes));
            rest = behind;
        }
        Ok((Self { kind: head.kind, count, columns }, rest))
    }

    /// The groups of a page, each with its kind and its bytes.
    pub fn split(mut bytes: &'a [u8]) -> Result<Vec<(u8, &'a [u8])>> {
        let mut groups = Vec::new();
        while !bytes.is_empty() {
            let (group, rest) = Self::parse(bytes)?;
            groups.push((group.kind, &bytes[..bytes.len() - rest.len()]));
            bytes = rest;
        }
        Ok(groups)
    }

    /// The only group of a page, of this kind, with no columns but these.
    pub fn only(bytes: &'a [u8], kind: u8, known: &[u8]) -> Result<Self> {
        let (group, rest) = Self::parse(bytes)?;
        if group.kind != kind || !rest.is_empty() {
            return Err(Damage::Head.into());
        }
        group.knows(known)?;
        Ok(group)
    }

    /// Fails if there is a column that must be known and is not.
    pub fn knows(&self, known: &[u8]) -> Result<()> {
        for &(column, ..) in &self.columns {
            if column < OPTIONAL && !known.contains(&column) {
                return Err(Unsupported::Column(self.kind, column).into());
            }
        }
        Ok(())
    }

    /// Whether somebody who does not know its kind may pass it over.
    pub const fn is_optional(&self) -> bool {
        self.kind >= OPTIONAL
    }

    fn find(&self, column: u8) -> Option<(u8, &'a [u8])> {
        let found = self.columns.iter().find(|(number, ..)| *number == column);
        found.map(|&(_, encoding, bytes)| (encoding, bytes))
    }

    /// A number for each row.
    pub fn numbers(&self, column: u8) -> Result<Numbers> {
        self.some_numbers(column, self.count)
    }

    /// So many numbers.
    pub fn some_numbers(&self, column: u8, count: usize) -> Result<Numbers> {
        match self.find(column) {
            Some((encoding, bytes)) => column::decode(encoding, bytes, count, (self.kind, column)),
            None => Ok(Numbers::Same(0)),
        }
    }

    /// One number.
    pub fn number(&self, column: u8) -> Result<u64> {
        Ok(self.some_numbers(column, 1)?.get(0))
    }

    /// Bytes.
    pub fn bytes(&self, column: u8) -> Result<&'a [u8]> {
        match self.find(column) {
            Some((encoding::RAW, bytes)) => Ok(bytes),
            Some(_) => Err(Damage::Column.into()),
            None => Ok(&[]),
        }
    }
}

/// The groups of a page that has several, each with its kind and its bytes.
///
/// # Errors
/// `Head`.
pub fn groups(plain: &[u8]) -> Result<Vec<(u8, &[u8])>> {
    Group::split(plain)
}

/// How long a column's bytes will be when its page is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// As long as they are: the page is not compressed.
    Raw,
    /// As long as a quick compression makes them.
    Packed,
}

impl Measure {
    fn of(self, bytes: &[u8]) -> usize {
        let quick = crate::codec::Setting::new(crate::codec::Codec::Zstd, 1);
        match self {
            Self::Packed if bytes.len() > 16 => {
                quick.encode(bytes, &[]).map_or(bytes.len(), |(_, stored)| stored.len())
            }
            _ => bytes.len(),
        }
    }
}

/// Bytes of a group with few rows, in about.
const SMALL_LEN: usize = 256;

/// Writes a group down. Columns come in the order of their numbers; those without content are left
/// out.
pub(crate) struct GroupWriter {
    kind: u8,
    count: usize,
    columns: u8,
    bytes: Vec<u8>,
    measure: Measure,
}

impl GroupWriter {
    pub fn new(kind: u8, count: usize, measure: Measure) -> Self {
        Self { kind, count, columns: 0, bytes: Vec::with_capacity(SMALL_LEN), measure }
    }

    fn column(&mut self, column: u8, encoding: u8, bytes: &[u8]) {
        let len = bytes.len() as u32;
        self.bytes.extend(ColumnHead { column, encoding, reserved: 0, len }.encode());
        self.bytes.extend_from_slice(bytes);
        self.columns += 1;
    }

    pub fn numbers(&mut self, column: u8, values: &[u64]) {
        if values.iter().any(|&value| value != 0) {
            let (encoding, bytes) = column::encode(values, &|bytes| self.measure.of(bytes));
            self.column(column, encoding, &bytes);
        }
    }

    pub fn bytes(&mut self, column: u8, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.column(column, encoding::RAW, bytes);
        }
    }

    /// The plain bytes of a page with nothing but this group.
    pub fn page(self) -> Vec<u8> {
        let mut plain = Vec::new();
        self.finish(&mut plain);
        plain
    }

    pub fn finish(self, target: &mut Vec<u8>) {
        debug_assert!(self.count <= ROWS_MAX, "a group that is too large");
        let head = GroupHead { kind: self.kind, columns: self.columns, count: self.count as u16 };
        target.extend(head.encode());
        target.extend(self.bytes);
    }
}
