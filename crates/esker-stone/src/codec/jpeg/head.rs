//! What stands before the numbers of a strip: the tables of its picture, and where in the picture it begins.
//!
//! Above: `scan`, `strip`. Below: `huffman`, `bits`. Invariant: whatever a head says that was read, it stays within
//! what JPEG allows, and what it makes others allocate is bounded by that.

use std::sync::Arc;

use super::bits::Carry;
use super::block::ZIGZAG;
use super::huffman::{Codes, LEN_MAX, Table};
use crate::column::{put_varint, take_varint, unzigzag, zigzag};
use crate::error::{Damage, Result};

/// Most bytes of a head.
pub(super) const HEAD_LEN_MAX: usize = 4096;
/// Most components, most blocks of all of them in a group, and most of one across and down.
pub(super) const COMPONENTS_MAX: usize = 4;
const GROUP_MAX: u32 = 10;
const ACROSS_MAX: u8 = 4;
/// Most groups in a row: 65,535 places of 8 × 8.
const WIDTH_MAX: u32 = 8192;
const INTERVAL_MAX: u32 = 65_535;
/// Most tables of each kind.
const QUANTS_MAX: usize = 4;
const CODES_MAX: usize = 8;

/// A component of a picture: lightness, or one of colour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Component {
    /// How many blocks a group has across and down.
    pub across: u8,
    pub down: u8,
    /// Its tables, by their places among those of the picture: of what numbers are multiples, codes for first numbers
    /// and for others.
    pub quant: u8,
    pub first: u8,
    pub rest: u8,
}

/// What is told of a picture once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Tables {
    pub components: Vec<Component>,
    /// Groups in a row.
    pub width: u32,
    /// Groups between markers that begin anew; 0: there are none.
    pub interval: u32,
    /// In the order of rows, not of scans.
    pub quants: Vec<[u16; 64]>,
    pub codes: Vec<Table>,
}

/// Where in a picture something is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Which group of its row comes next.
    pub column: u32,
    /// Groups up to the next marker, and its number.
    pub left: u32,
    pub marker: u8,
    /// The first number of the block before, of each component.
    pub before: [i16; COMPONENTS_MAX],
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub tables: Arc<Tables>,
    pub place: Place,
    /// How many groups there are.
    pub count: u32,
    /// Bits before the first whole byte, and those behind the last group.
    pub carry: Carry,
    pub pad: Carry,
}

impl Tables {
    /// Whether it is within the limits.
    fn is_sound(&self) -> bool {
        let own = |component: &Component| {
            (1..=ACROSS_MAX).contains(&component.across)
                && (1..=ACROSS_MAX).contains(&component.down)
                && usize::from(component.quant) < self.quants.len()
                && usize::from(component.first.max(component.rest)) < self.codes.len()
        };
        let blocks =
            |component: &Component| u32::from(component.across) * u32::from(component.down);
        let group: u32 = self.components.iter().map(blocks).sum();
        let group_max = if self.components.len() == 1 { 1 } else { GROUP_MAX };
        (1..=COMPONENTS_MAX).contains(&self.components.len())
            && self.components.iter().all(own)
            && group <= group_max
            && (1..=WIDTH_MAX).contains(&self.width)
            && self.interval <= INTERVAL_MAX
            && self.quants.len() <= QUANTS_MAX
            && self.codes.len() <= CODES_MAX
            && self.quants.iter().flatten().all(|&quant| quant > 0)
    }

    /// The tables of codes, both ways; `None`: one is none, or something is beyond the limits.
    pub fn codes(&self) -> Option<Vec<Codes>> {
        let sound = self.is_sound();
        self.codes
            .iter()
            .filter(|_| sound)
            .map(Codes::new)
            .collect::<Option<Vec<_>>>()
            .filter(|codes| !codes.is_empty())
    }

    fn put(&self, bytes: &mut Vec<u8>) {
        bytes.push(self.components.len() as u8);
        for component in &self.components {
            let Component { across, down, quant, first, rest } = component;
            bytes.extend([across << 4 | down, *quant, first << 4 | rest]);
        }
        put_varint(self.width.into(), bytes);
        put_varint(self.interval.into(), bytes);
        bytes.push(self.quants.len() as u8);
        for quants in &self.quants {
            ZIGZAG.iter().for_each(|&at| put_varint(quants[usize::from(at)].into(), bytes));
        }
        bytes.push(self.codes.len() as u8);
        for table in &self.codes {
            let known =
                (0..Table::SUGGESTED).find(|&own| Table::suggested(own).as_ref() == Some(table));
            bytes.push(known.map_or(0, |known| known as u8 + 1));
            if known.is_none() {
                bytes.extend(table.counts);
                bytes.extend(&table.symbols);
            }
        }
    }

    fn take(bytes: &mut &[u8]) -> Result<Self> {
        let mut own = Self::default();
        for _ in 0..byte(bytes)? {
            let [blocks, quant, codes] = *some(bytes, 3)? else { return Err(Damage::Range.into()) };
            let (across, down) = (blocks >> 4, blocks & 15);
            let (first, rest) = (codes >> 4, codes & 15);
            own.components.push(Component { across, down, quant, first, rest });
        }
        own.width = short(bytes)?;
        own.interval = short(bytes)?;
        for _ in 0..byte(bytes)? {
            let mut quants = [0; 64];
            for at in ZIGZAG {
                let quant = take_varint(bytes)?;
                quants[usize::from(at)] = u16::try_from(quant).map_err(|_| Damage::Range)?;
            }
            own.quants.push(quants);
        }
        for _ in 0..byte(bytes)? {
            own.codes.push(match byte(bytes)?.checked_sub(1) {
                Some(known) => Table::suggested(known.into()).ok_or(Damage::Range)?,
                None => {
                    let mut counts = [0; LEN_MAX];
                    counts.copy_from_slice(some(bytes, LEN_MAX)?);
                    Table { counts, symbols: some(bytes, Table::count(&counts))?.to_vec() }
                }
            });
        }
        Ok(own)
    }
}

fn some<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8]> {
    let (own, rest) = bytes.split_at_checked(len).ok_or(Damage::Undecodable)?;
    *bytes = rest;
    Ok(own)
}

fn byte(bytes: &mut &[u8]) -> Result<u8> {
    some(bytes, 1).map(|own| own[0])
}

fn short(bytes: &mut &[u8]) -> Result<u32> {
    Ok(u32::try_from(take_varint(bytes)?).map_err(|_| Damage::Range)?)
}

impl Head {
    pub fn put(&self, bytes: &mut Vec<u8>) {
        self.tables.put(bytes);
        let Place { column, left, marker, before } = &self.place;
        [*column, *left, self.count].iter().for_each(|&word| put_varint(word.into(), bytes));
        let all = before.iter().take(self.tables.components.len());
        all.for_each(|&number| put_varint(zigzag(number.into()), bytes));
        bytes.extend([*marker, self.carry.0, self.pad.0]);
    }

    /// Of its bytes, which nothing follows.
    pub fn take(mut bytes: &[u8]) -> Result<Self> {
        let bytes = &mut bytes;
        let tables = Tables::take(bytes)?;
        let (column, left, count) = (short(bytes)?, short(bytes)?, short(bytes)?);
        let mut before = [0; COMPONENTS_MAX];
        for number in before.iter_mut().take(tables.components.len()) {
            *number = i16::try_from(unzigzag(take_varint(bytes)?)).map_err(|_| Damage::Range)?;
        }
        let [marker, carry, pad] = **bytes else { return Err(Damage::Undecodable.into()) };
        let sound = tables.is_sound() && column < tables.width && left <= tables.interval;
        let place = Place { column, left, marker, before };
        let own =
            Self { tables: Arc::new(tables), place, count, carry: Carry(carry), pad: Carry(pad) };
        if sound && marker < 8 && own.carry.bits().is_some() && own.pad.bits().is_some() {
            Ok(own)
        } else {
            Err(Damage::Range.into())
        }
    }
}
