//! Rows of a block index: all that must be known to read a block, and to know it again.

use core::ops::Range;

use super::extents::BlockName;
use crate::check::{Covered, Hash};
use crate::codec::Codec;
use crate::column::Numbers;
use crate::error::{Damage, Result};
use crate::group::{Group, GroupWriter, Measure};
use crate::key::kind;
use crate::limits::{BLOCK_LEN_MAX, BLOCK_STORED_LEN_MAX, RECIPE_LEN_MAX, SECTION_LEN, UNIT_LEN};
use crate::rooms::Rooms;
use crate::transform::Transform;

const SLOT: u8 = 1;
const FIRST: u8 = 2;
const GAP: u8 = 3;
const STORED: u8 = 4;
const PLAIN: u8 = 5;
const CODEC: u8 = 6;
const TRANSFORM: u8 = 7;
const BASE_SEGMENT: u8 = 8;
const BASE_SLOT: u8 = 9;
const BIRTH: u8 = 10;
const CHECKSUMS: u8 = 11;
const HASHES: u8 = 12;
const CATEGORY: u8 = 13;
const SEGMENT: u8 = 14;
const SKIPPED: u8 = 15;
const RECIPE: u8 = 16;
const WORDS: u8 = 17;
/// Only advice: who does not know these passes them over.
const OWNER: u8 = 128;
const OWNER_AT: u8 = 129;
const SECTIONS: u8 = 130;
const COLUMNS: [u8; 17] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17];

/// What is known of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockRow {
    /// Its offset in its segment.
    pub at: u64,
    /// Its stored length.
    pub stored: u32,
    /// Its plain length.
    pub plain: u32,
    /// Its codec.
    pub codec: Codec,
    /// What is undone when it is decoded.
    pub transform: Transform,
    /// Its base.
    pub base: Option<BlockName>,
    /// Of each unit of its stored bytes.
    pub checksums: Vec<u64>,
    /// Of its plain bytes.
    pub hash: Option<Hash>,
    /// What kind of data it is.
    pub category: u32,
    /// Bytes of the recipe by which it is made, which is stored in place of its own; 0: there is none.
    pub recipe: u32,
    /// Bytes of its form in words, which is stored in place of its own; 0: there is none.
    pub words: u32,
    /// How many bytes of that form each section of the text takes; none: it can only be read as a whole.
    pub sections: Vec<u32>,
    /// The file that it was written for, and where it begins there: kept of blocks that have a base.
    pub owner: Option<(u64, u64)>,
}

/// A page of a block index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocks {
    segment: u64,
    slots: Vec<u32>,
    rows: Vec<BlockRow>,
}

const fn units(stored: u32) -> usize {
    (stored as usize).div_ceil(UNIT_LEN)
}

/// Sections of a block, if it is told in words.
const fn sections(words: u32, plain: u32) -> usize {
    if words == 0 { 0 } else { (plain as usize).div_ceil(SECTION_LEN) }
}

impl BlockRow {
    /// A block of which nothing is left, and of which that is known: to read it fails.
    #[must_use]
    pub const fn lost(at: u64, plain: u32) -> Self {
        let (codec, transform) = (Codec::None, Transform::None);
        let (base, hash, owner) = (None, None, None);
        let checksums = Vec::new();
        let sections = Vec::new();
        let (category, recipe, words, stored) = (0, 0, 0, 0);
        Self {
            at,
            stored,
            plain,
            codec,
            transform,
            base,
            checksums,
            hash,
            category,
            recipe,
            words,
            sections,
            owner,
        }
    }

    /// Whether it is such a one.
    #[must_use]
    pub const fn is_lost(&self) -> bool {
        self.stored == 0 && self.plain > 0
    }

    /// Whether its plain bytes are the stored ones, so that each unit of them can be read by itself.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.codec == Codec::None
            && self.stored == self.plain
            && self.recipe == 0
            && self.words == 0
            && self.transform == Transform::None
    }

    /// Whether it keeps to the limits, and is told in one way alone.
    fn is_possible(&self) -> bool {
        let one_way = self.recipe == 0 && self.transform == Transform::None;
        self.plain as usize <= BLOCK_LEN_MAX
            && self.stored as usize <= BLOCK_STORED_LEN_MAX
            && self.recipe as usize <= RECIPE_LEN_MAX
            && self.words as usize <= BLOCK_LEN_MAX
            && (self.words == 0 || one_way)
            && self.has_its_sections()
    }

    /// Whether its sections, if it has some, are those of its form.
    fn has_its_sections(&self) -> bool {
        let all = || self.sections.iter().map(|&len| u64::from(len)).sum::<u64>();
        self.sections.is_empty()
            || (self.sections.len() == sections(self.words, self.plain)
                && all() == u64::from(self.words))
    }

    /// Where a section lies in the form, and its plain length; `None`: there is no such one.
    #[must_use]
    pub fn section(&self, number: usize) -> Option<(Range<usize>, usize)> {
        let len = *self.sections.get(number)? as usize;
        let start = self.sections[..number].iter().map(|&len| len as usize).sum::<usize>();
        let plain = (self.plain as usize).checked_sub(number * SECTION_LEN)?;
        Some((start..start + len, plain.min(SECTION_LEN)))
    }

    /// What the checksums cover besides the bytes.
    #[must_use]
    pub const fn covered(name: BlockName) -> Covered {
        // The origin is not covered: it says in which image a block is found, and the block itself
        // does not know who else calls it what.
        Covered { segment: name.segment & ORIGIN_SEGMENT_MASK, number: name.slot as u64 }
    }

    /// The plain bytes of a block of which these are the stored ones, checked.
    ///
    /// # Errors
    /// `Undecodable`, also for one that is made by a recipe, or is told in words.
    pub fn open(&self, stored: Vec<u8>, base: &[u8]) -> Result<Vec<u8>> {
        self.open_in(stored, base, &Rooms::none())
    }

    /// The same, in a room that waits.
    ///
    /// # Errors
    /// `Undecodable`, also for one that is made by a recipe, or is told in words.
    pub fn open_in(&self, stored: Vec<u8>, base: &[u8], rooms: &Rooms) -> Result<Vec<u8>> {
        if self.recipe > 0 || self.words > 0 {
            return Err(Damage::Undecodable.into());
        }
        self.decode(stored, base, self.plain, rooms)
    }

    /// The recipe of a block of which these are the stored bytes, checked.
    ///
    /// # Errors
    /// `Undecodable`.
    pub fn open_recipe(&self, stored: Vec<u8>) -> Result<Vec<u8>> {
        self.decode(stored, &[], self.recipe, &Rooms::none())
    }

    /// The form in words of a block of which these are the stored bytes, checked.
    ///
    /// # Errors
    /// `Undecodable`.
    pub fn open_form(&self, stored: Vec<u8>, base: &[u8], rooms: &Rooms) -> Result<Vec<u8>> {
        self.decode(stored, base, self.words, rooms)
    }

    fn decode(&self, stored: Vec<u8>, base: &[u8], len: u32, rooms: &Rooms) -> Result<Vec<u8>> {
        let mut plain = match self.codec {
            Codec::None if self.stored == len => stored,
            codec => {
                let mut plain = rooms.take(len as usize);
                codec.decode(&stored, base, &mut plain)?;
                plain
            }
        };
        self.transform.undo(&mut plain);
        Ok(plain)
    }
}

/// The lengths of the sections of all of these that are told in words, one row's behind the other's: as many zeros
/// where it does not know them.
fn all_sections(rows: &[&BlockRow]) -> Vec<u64> {
    let mut lens = Vec::new();
    for row in rows {
        let many = lens.len() + sections(row.words, row.plain);
        lens.extend(row.sections.iter().map(|&len| u64::from(len)));
        lens.resize(many, 0);
    }
    lens
}

/// The lengths of sections on their way to their rows.
struct Sections {
    lens: Numbers,
    seen: usize,
}

impl Sections {
    /// Those of the next row, which has so many; none, where it does not know them.
    fn next(&mut self, many: usize) -> Result<Vec<u32>> {
        let own = self.seen..self.seen + many;
        self.seen = own.end;
        if own.clone().all(|number| self.lens.get(number) == 0) {
            return Ok(Vec::new());
        }
        own.map(|number| u32::try_from(self.lens.get(number)).map_err(|_| Damage::Range.into()))
            .collect()
    }
}

/// The part of a segment's number that its own image knows.
pub const ORIGIN_SEGMENT_MASK: u64 = (1 << 48) - 1;

impl Blocks {
    /// The plain bytes of a page of these, from this slot on, of a segment that need not be named.
    #[must_use]
    pub fn encode(first_slot: u32, rows: &[BlockRow], measure: Measure) -> Vec<u8> {
        let rows: Vec<_> = (first_slot..).zip(rows).collect();
        Self::encode_some(0, &rows, measure)
    }

    /// The plain bytes of a page of some blocks of a segment, which rise by slot, and by place.
    #[must_use]
    pub fn encode_some(segment: u64, slots: &[(u32, &BlockRow)], measure: Measure) -> Vec<u8> {
        let mut group = GroupWriter::new(kind::BLOCK, slots.len(), measure);
        let rows: Vec<_> = slots.iter().map(|(_, row)| *row).collect();
        group.numbers(SLOT, &[slots.first().map_or(0, |(slot, _)| u64::from(*slot))]);
        group.numbers(FIRST, &[rows.first().map_or(0, |row| row.at)]);
        let mut gaps = vec![0; rows.len().min(1)];
        let gap = |two: &[&BlockRow]| two[1].at - (two[0].at + u64::from(two[0].stored));
        gaps.extend(rows.windows(2).map(gap));
        group.numbers(GAP, &gaps);
        let mut numbers = |column, number: &dyn Fn(&BlockRow) -> u64| {
            group.numbers(column, &rows.iter().map(|row| number(row)).collect::<Vec<_>>());
        };
        numbers(STORED, &|row| row.stored.into());
        numbers(PLAIN, &|row| row.plain.into());
        numbers(CODEC, &|row| row.codec.number().into());
        numbers(TRANSFORM, &|row| row.transform.number().into());
        numbers(BASE_SEGMENT, &|row| row.base.map_or(0, |base| base.segment));
        numbers(BASE_SLOT, &|row| row.base.map_or(0, |base| base.slot.into()));
        let checksums = rows.iter().flat_map(|row| row.checksums.iter().map(|c| c.to_le_bytes()));
        group.bytes(CHECKSUMS, &checksums.flatten().collect::<Vec<_>>());
        if rows.iter().all(|row| row.hash.is_some()) {
            group
                .bytes(HASHES, &rows.iter().flat_map(|row| row.hash).flatten().collect::<Vec<_>>());
        }
        let categories: Vec<_> = rows.iter().map(|row| row.category.into()).collect();
        group.numbers(CATEGORY, &categories);
        group.numbers(SEGMENT, &[segment]);
        let mut skipped = vec![0; slots.len().min(1)];
        skipped.extend(slots.windows(2).map(|two| u64::from(two[1].0 - two[0].0 - 1)));
        group.numbers(SKIPPED, &skipped);
        let recipes: Vec<_> = rows.iter().map(|row| row.recipe.into()).collect();
        group.numbers(RECIPE, &recipes);
        let words: Vec<_> = rows.iter().map(|row| row.words.into()).collect();
        group.numbers(WORDS, &words);
        let owners = |of: &dyn Fn((u64, u64)) -> u64| {
            rows.iter().map(|row| row.owner.map_or(0, of)).collect::<Vec<_>>()
        };
        group.numbers(OWNER, &owners(&|(owner, _)| owner));
        group.numbers(OWNER_AT, &owners(&|(_, at)| at));
        group.numbers(SECTIONS, &all_sections(&rows));
        group.page()
    }

    /// From the plain bytes of a page.
    ///
    /// # Errors
    /// `Damaged`, `Unsupported`.
    pub fn decode(plain: &[u8]) -> Result<Self> {
        let group = Group::only(plain, kind::BLOCK, &COLUMNS)?;
        let short = |numbers: &Numbers, row| -> Result<u32> {
            u32::try_from(numbers.get(row)).map_err(|_| Damage::Range.into())
        };
        let slot = |slot: u64| u32::try_from(slot).map_err(|_| Damage::Range);
        let numbers = super::rising(&group, (SLOT, SKIPPED), 1)?;
        let slot_numbers =
            numbers.into_iter().map(slot).collect::<core::result::Result<Vec<_>, _>>()?;
        let (gaps, stored, plain) =
            (group.numbers(GAP)?, group.numbers(STORED)?, group.numbers(PLAIN)?);
        let (codecs, transforms) = (group.numbers(CODEC)?, group.numbers(TRANSFORM)?);
        let (segments, slots) = (group.numbers(BASE_SEGMENT)?, group.numbers(BASE_SLOT)?);
        let (categories, recipes) = (group.numbers(CATEGORY)?, group.numbers(RECIPE)?);
        let words = group.numbers(WORDS)?;
        let (owners, places) = (group.numbers(OWNER)?, group.numbers(OWNER_AT)?);
        group.numbers(BIRTH)?;
        let many = |row| -> Result<usize> {
            let (words, plain) = (short(&words, row)?, short(&plain, row)?);
            let fits = words.max(plain) as usize <= BLOCK_LEN_MAX;
            if fits { Ok(sections(words, plain)) } else { Err(Damage::Range.into()) }
        };
        let count = (0..group.count).map(many).sum::<Result<usize>>()?;
        let mut lens = Sections { lens: group.some_numbers(SECTIONS, count)?, seen: 0 };
        let (mut checksums, hashes) = (group.bytes(CHECKSUMS)?, group.bytes(HASHES)?);
        if !hashes.is_empty() && hashes.len() != group.count * 32 {
            return Err(Damage::Column.into());
        }
        let mut hashes = hashes.chunks_exact(32);
        let mut at = group.number(FIRST)?;
        let mut rows = Vec::with_capacity(group.count);
        for row in 0..group.count {
            let own = short(&stored, row)?;
            let (sums, behind) =
                checksums.split_at_checked(units(own) * 8).ok_or(Damage::Column)?;
            checksums = behind;
            at = at.checked_add(gaps.get(row)).ok_or(Damage::Range)?;
            let base = match segments.get(row) {
                0 => None,
                segment => Some(BlockName { segment, slot: short(&slots, row)? }),
            };
            let sum = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
            rows.push(BlockRow {
                at,
                stored: own,
                plain: short(&plain, row)?,
                codec: Codec::numbered(codecs.get(row))?,
                transform: Transform::numbered(transforms.get(row))?,
                base,
                checksums: sums.chunks_exact(8).map(sum).collect(),
                hash: hashes.next().and_then(|hash| hash.try_into().ok()),
                category: short(&categories, row)?,
                recipe: short(&recipes, row)?,
                words: short(&words, row)?,
                sections: lens.next(many(row)?)?,
                owner: match owners.get(row) {
                    0 => None,
                    owner => Some((owner, places.get(row))),
                },
            });
            at = at.checked_add(own.into()).ok_or(Damage::Range)?;
        }
        if !checksums.is_empty() {
            return Err(Damage::Column.into());
        }
        if !rows.iter().all(BlockRow::is_possible) {
            return Err(Damage::Range.into());
        }
        Ok(Self { segment: group.number(SEGMENT)?, slots: slot_numbers, rows })
    }

    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.rows.len()
    }

    /// None at all.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The row of a slot.
    #[must_use]
    pub fn find(&self, slot: u32) -> Option<&BlockRow> {
        let first = *self.slots.first()?;
        let near = slot.checked_sub(first)? as usize;
        let row = if self.slots.get(near) == Some(&slot) {
            near
        } else {
            self.slots.binary_search(&slot).ok()?
        };
        self.rows.get(row)
    }

    /// The segment that all of them were written in; 0 where the page does not say it.
    #[must_use]
    pub const fn segment(&self) -> u64 {
        self.segment
    }

    /// All rows, each with its slot.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &BlockRow)> {
        self.slots.iter().copied().zip(&self.rows)
    }

    /// Bytes that it takes in memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        let own = |row: &BlockRow| row.checksums.len() * 8 + row.sections.len() * 4;
        let sums: usize = self.rows.iter().map(own).sum();
        self.rows.len() * (size_of::<BlockRow>() + 4) + sums
    }
}
