//! Rows of an inner page: the pages below it. Layers and block indexes of the root page are such rows
//! too.

use super::count_before;
use crate::check::Hash;
use crate::codec::Codec;
use crate::column::Numbers;
use crate::error::{Damage, Result};
use crate::group::{Group, GroupWriter, Measure};
use crate::key::kind;
use crate::limits::{FAN_OUT, KEY_LEN_MAX, LEVELS_MAX};
use crate::page::PageRef;
use crate::strings::Strings;

const KEY: u8 = 1;
const ENTRIES: u8 = 4;
const SEGMENT: u8 = 5;
const AT: u8 = 6;
const STORED: u8 = 7;
const PLAIN: u8 = 8;
const CODEC: u8 = 9;
const BASE: u8 = 10;
const CHECKSUM: u8 = 11;
const HASH: u8 = 12;
const LEVEL: u8 = 13;
/// All columns of an inner page.
pub(crate) const COLUMNS: [u8; 13] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13];

/// A page below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Child {
    /// Not greater than any key in it, and greater than every key before it.
    pub key: Vec<u8>,
    /// How many entries lie in it and below.
    pub entries: u64,
    /// Where it is.
    pub page: PageRef,
    /// Which of its siblings is its base.
    pub base: Option<u16>,
}

/// An inner page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inner {
    /// Level of the pages below: 0 is a leaf.
    pub level: u8,
    keys: Strings,
    /// For each child, how many entries lie in it and those before it.
    ends: Vec<u64>,
    pages: Vec<(PageRef, Option<u16>)>,
}

/// Writes children into the columns of a group.
pub(crate) fn write(group: &mut GroupWriter, children: &[Child], level: u8) {
    let mut keys = Strings::default();
    children.iter().for_each(|child| keys.push(&child.key));
    keys.write(group, KEY);
    let mut numbers = |column, number: &dyn Fn(&Child) -> u64| {
        group.numbers(column, &children.iter().map(number).collect::<Vec<_>>());
    };
    numbers(ENTRIES, &|child| child.entries);
    numbers(SEGMENT, &|child| child.page.segment);
    numbers(AT, &|child| child.page.at);
    numbers(STORED, &|child| child.page.stored.into());
    numbers(PLAIN, &|child| child.page.plain.into());
    numbers(CODEC, &|child| child.page.codec.number().into());
    numbers(BASE, &|child| child.base.map_or(0, |base| u64::from(base) + 1));
    let checksums = children.iter().flat_map(|child| child.page.checksum.to_le_bytes());
    group.bytes(CHECKSUM, &checksums.collect::<Vec<_>>());
    let hashes = children.iter().flat_map(|child| child.page.hash);
    group.bytes(HASH, &hashes.collect::<Vec<_>>());
    group.numbers(LEVEL, &[level.into()]);
}

/// The children in a group.
pub(crate) fn read(group: &Group<'_>) -> Result<(Vec<Child>, u8)> {
    let keys = Strings::read(group, KEY, KEY_LEN_MAX)?;
    let wide = |column| group.numbers(column);
    let (entries, segments, at) = (wide(ENTRIES)?, wide(SEGMENT)?, wide(AT)?);
    let (stored, plain) = (wide(STORED)?, wide(PLAIN)?);
    let (codecs, bases) = (wide(CODEC)?, wide(BASE)?);
    let (checksums, hashes) = (group.bytes(CHECKSUM)?, group.bytes(HASH)?);
    let right = checksums.len() == group.count * 8 && hashes.len() == group.count * 32;
    if !right {
        return Err(Damage::Column.into());
    }
    let level = group.number(LEVEL)?;
    let level = u8::try_from(level).ok().filter(|&level| level < LEVELS_MAX);
    let level = level.ok_or(Damage::Range)?;
    let short = |numbers: &Numbers, row| -> Result<u32> {
        u32::try_from(numbers.get(row)).map_err(|_| Damage::Range.into())
    };
    let mut children = Vec::with_capacity(group.count);
    let rows = checksums.chunks_exact(8).zip(hashes.chunks_exact(32));
    for (row, (checksum, hash)) in rows.enumerate() {
        let page = PageRef {
            segment: segments.get(row),
            at: at.get(row),
            stored: short(&stored, row)?,
            plain: short(&plain, row)?,
            codec: Codec::numbered(codecs.get(row))?,
            checksum: u64::from_le_bytes(checksum.try_into().map_err(|_| Damage::Column)?),
            hash: Hash::try_from(hash).map_err(|_| Damage::Column)?,
        };
        let base = match bases.get(row).checked_sub(1) {
            None => None,
            Some(base) => Some(u16::try_from(base).map_err(|_| Damage::Range)?),
        };
        let key = keys.get(row).to_vec();
        children.push(Child { key, entries: entries.get(row), page: page.checked()?, base });
    }
    Ok((children, level))
}

impl Inner {
    /// The plain bytes of a page with these children.
    #[must_use]
    pub fn encode(children: &[Child], level: u8, measure: Measure) -> Vec<u8> {
        let mut group = GroupWriter::new(kind::PAGE, children.len(), measure);
        write(&mut group, children, level);
        group.page()
    }

    /// From the plain bytes of a page.
    ///
    /// # Errors
    /// `Damaged`, `Unsupported`.
    pub fn decode(plain: &[u8]) -> Result<Self> {
        let group = Group::only(plain, kind::PAGE, &COLUMNS)?;
        let (children, level) = read(&group)?;
        if children.is_empty() || children.len() > FAN_OUT {
            return Err(Damage::Tree.into());
        }
        let mut inner = Self { level, keys: Strings::default(), ends: vec![], pages: vec![] };
        let mut end = 0u64;
        for (row, child) in children.iter().enumerate() {
            if row > 0 && children[row - 1].key >= child.key {
                return Err(Damage::Order.into());
            }
            if let Some(base) = child.base
                && children.get(usize::from(base)).is_none_or(|base| base.base.is_some())
            {
                return Err(Damage::BaseOfBase.into());
            }
            end = end.checked_add(child.entries).ok_or(Damage::Range)?;
            inner.keys.push(&child.key);
            inner.ends.push(end);
            inner.pages.push((child.page, child.base));
        }
        Ok(inner)
    }

    /// How many pages are below.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.pages.len()
    }

    /// Never: a page without pages below is damaged.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// The page that would hold `key`: the last one whose key is not greater.
    #[must_use]
    pub fn with_key(&self, key: &[u8]) -> usize {
        count_before(self.keys.len(), |row| self.keys.get(row) <= key).saturating_sub(1)
    }

    /// The page that holds the entry with this rank here.
    #[must_use]
    pub fn with_rank(&self, rank: u64) -> Option<usize> {
        let child = self.ends.partition_point(|&end| end <= rank);
        (child < self.pages.len()).then_some(child)
    }

    /// The key of a page below.
    #[must_use]
    pub fn key(&self, child: usize) -> &[u8] {
        self.keys.get(child)
    }

    /// How many entries lie before this page.
    #[must_use]
    pub fn before(&self, child: usize) -> u64 {
        child.checked_sub(1).and_then(|child| self.ends.get(child)).map_or(0, |&end| end)
    }

    /// How many entries lie in this page and below.
    #[must_use]
    pub fn entries(&self, child: usize) -> u64 {
        self.ends.get(child).map_or(0, |&end| end - self.before(child))
    }

    /// How many entries there are.
    #[must_use]
    pub fn all_entries(&self) -> u64 {
        self.ends.last().map_or(0, |&end| end)
    }

    /// A page below, and its base.
    #[must_use]
    pub fn page(&self, child: usize) -> Option<(PageRef, Option<PageRef>)> {
        let &(page, base) = self.pages.get(child)?;
        let base = base.and_then(|base| self.pages.get(usize::from(base)));
        Some((page, base.map(|&(page, _)| page)))
    }

    /// Bytes that it takes in memory.
    #[must_use]
    pub const fn memory(&self) -> usize {
        self.keys.memory() + self.ends.len() * 8 + self.pages.len() * size_of::<(PageRef, u32)>()
    }
}
