//! The scan of a file of JPEG: where it lies, what its head says of it, and where it can be cut.
//!
//! Above: whoever packs. Below: `walk`, `head`. Invariant: whatever a file says, what is found in it was read bit by
//! bit; what cannot be read is left out.

use core::ops::Range;
use std::sync::Arc;

use super::bits::{Carry, MARK, Reader};
use super::block::ZIGZAG;
use super::head::{COMPONENTS_MAX, Component, Head, Place, Tables};
use super::huffman::{LEN_MAX, Table};
use super::strip::Strip;
use super::walk::Walk;

/// Markers: of a file's beginning, of tables of numbers and codes, of how often the scan begins anew, of what kind of
/// picture it is, of the scan, and those that say nothing of it.
const BEGIN: u8 = 0xd8;
const QUANTS: u8 = 0xdb;
const CODES: u8 = 0xc4;
const INTERVAL: u8 = 0xdd;
const BASELINE: u8 = 0xc0;
const EXTENDED: u8 = 0xc1;
const SCAN: u8 = 0xda;
const WORDS: u8 = 0xfe;
const APPLICATIONS: Range<u8> = 0xe0..0xf0;
/// What a scan of all numbers at once says of itself: the first, the last, all bits.
const WHOLE: [u8; 3] = [0, 63, 0];
/// The bits of a value.
const VALUE_BITS: u8 = 8;
/// Most segments of a head.
const SEGMENTS_MAX: usize = 1024;

/// A file of JPEG whose scan can be taken apart.
#[derive(Clone, Debug)]
pub struct Picture {
    tables: Arc<Tables>,
    /// Where the scan begins in its file.
    scan: usize,
    /// How many groups of blocks it should have.
    groups: u64,
}

/// What segments said so far.
#[derive(Default)]
struct Said {
    quants: [Option<[u16; 64]>; 4],
    firsts: [Option<Table>; 4],
    rests: [Option<Table>; 4],
    interval: u32,
    frame: Option<Frame>,
}

/// What kind of picture it is.
struct Frame {
    width: u32,
    height: u32,
    /// Of each component its name, blocks across and down, and the table of its numbers.
    components: Vec<[u8; 4]>,
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

impl Said {
    fn quants(&mut self, mut bytes: &[u8]) -> Option<()> {
        while let Some((&kind, rest)) = bytes.split_first() {
            let wide = usize::from(kind >> 4).checked_add(1).filter(|&wide| wide <= 2)?;
            let (own, rest) = rest.split_at_checked(64 * wide)?;
            let mut quants = [0; 64];
            for (number, at) in own.chunks_exact(wide).zip(ZIGZAG) {
                let number = number.iter().fold(0, |word, &byte| word << 8 | u16::from(byte));
                quants[usize::from(at)] = number;
            }
            *self.quants.get_mut(usize::from(kind & 15))? = Some(quants);
            bytes = rest;
        }
        Some(())
    }

    fn codes(&mut self, mut bytes: &[u8]) -> Option<()> {
        while let Some((&kind, rest)) = bytes.split_first() {
            let (counts, rest) = rest.split_first_chunk::<LEN_MAX>()?;
            let (symbols, rest) = rest.split_at_checked(Table::count(counts))?;
            let all = if kind >> 4 == 0 { &mut self.firsts } else { &mut self.rests };
            let own = all.get_mut(usize::from(kind & 15)).filter(|_| kind >> 4 < 2)?;
            *own = Some(Table { counts: *counts, symbols: symbols.to_vec() });
            bytes = rest;
        }
        Some(())
    }

    fn frame(&mut self, bytes: &[u8]) -> Option<()> {
        let (&bits, &count) = (bytes.first()?, bytes.get(5)?);
        let (height, width) = (short(bytes, 1)?, short(bytes, 3)?);
        let components: Vec<_> = bytes
            .get(6..)?
            .chunks_exact(3)
            .map(|own| [own[0], own[1] >> 4, own[1] & 15, own[2]])
            .collect();
        let known = bits == VALUE_BITS
            && self.frame.is_none()
            && height > 0
            && width > 0
            && components.len() == usize::from(count)
            && (1..=COMPONENTS_MAX).contains(&components.len());
        self.frame = Some(Frame { width: width.into(), height: height.into(), components });
        known.then_some(())
    }

    /// What is told of a picture whose scan begins with this; and how many groups it has.
    fn tables(&self, scan: &[u8]) -> Option<(Tables, u64)> {
        let frame = self.frame.as_ref()?;
        let count = frame.components.len();
        let (own, rest) = scan.get(1..)?.split_at_checked(2 * count)?;
        if scan.first() != Some(&(count as u8)) || rest != WHOLE {
            return None;
        }
        let mut tables = Tables { interval: self.interval, ..Tables::default() };
        for (&[name, across, down, quant], own) in frame.components.iter().zip(own.chunks_exact(2))
        {
            if own[0] != name {
                return None;
            }
            let first = self.firsts.get(usize::from(own[1] >> 4))?.clone()?;
            let rest = self.rests.get(usize::from(own[1] & 15))?.clone()?;
            let quants = (*self.quants.get(usize::from(quant))?)?;
            tables.components.push(Component {
                across,
                down,
                quant: place(&mut tables.quants, quants),
                first: place(&mut tables.codes, first),
                rest: place(&mut tables.codes, rest),
            });
        }
        // A single component comes block by block.
        if let [only] = &mut tables.components[..] {
            (only.across, only.down) = (1, 1);
        }
        let across = tables.components.iter().map(|own| u32::from(own.across)).max()?;
        let down = tables.components.iter().map(|own| u32::from(own.down)).max()?;
        tables.width = frame.width.div_ceil(8 * across.max(1));
        let height = frame.height.div_ceil(8 * down.max(1));
        let groups = u64::from(tables.width) * u64::from(height);
        Some((tables, groups))
    }
}

/// Where something is among others, to which it is added if it is not there.
fn place<T: PartialEq>(all: &mut Vec<T>, own: T) -> u8 {
    let found = all.iter().position(|other| *other == own);
    found.unwrap_or_else(|| {
        all.push(own);
        all.len() - 1
    }) as u8
}

impl Picture {
    /// Whether a file that begins with these bytes may be one.
    #[must_use]
    pub fn begins(bytes: &[u8]) -> bool {
        bytes.starts_with(&[MARK, BEGIN, MARK])
    }

    /// The one that a file holds, if it is of the usual kind: one scan of all there is, with codes of its own.
    #[must_use]
    pub fn of(file: &[u8]) -> Option<Self> {
        if !Self::begins(file) {
            return None;
        }
        let (mut said, mut at) = (Said::default(), 2);
        for _ in 0..SEGMENTS_MAX {
            let [mark, kind] = *file.get(at..)?.first_chunk()?;
            let len = usize::from(short(file, at + 2)?);
            let bytes = file.get(at + 4..at + 2 + len).filter(|_| mark == MARK)?;
            match kind {
                QUANTS => said.quants(bytes)?,
                CODES => said.codes(bytes)?,
                INTERVAL => said.interval = short(bytes, 0)?.into(),
                BASELINE | EXTENDED => said.frame(bytes)?,
                SCAN => {
                    let (tables, groups) = said.tables(bytes)?;
                    tables.codes()?;
                    return Some(Self { tables: Arc::new(tables), scan: at + 2 + len, groups });
                }
                WORDS => {}
                kind if APPLICATIONS.contains(&kind) => {}
                _ => return None,
            }
            at += 2 + len;
        }
        None
    }

    /// Strips of about `len` bytes that make up the scan, one behind the other, up to what cannot be read.
    #[must_use]
    pub fn strips(&self, file: &[u8], len: usize) -> Vec<Strip> {
        let mut found = Vec::new();
        let Some(codes) = self.tables.codes() else { return found };
        let place = Place { column: 0, left: self.tables.interval, marker: 0, before: [0; 4] };
        let mut walk = Walk::new(&self.tables, &codes, place);
        let mut reader = Reader::new(file, self.scan);
        let (mut from, mut start, mut count) = (reader.place(), walk.place.clone(), 0);
        let mut done = 0;
        let head = |place: Place, count: u32, carry: Carry, pad: Carry| Head {
            tables: Arc::clone(&self.tables),
            place,
            count,
            carry,
            pad,
        };
        while done < self.groups {
            let (before, place) = (reader.clone(), walk.place.clone());
            if reader.at().saturating_sub(from.0) >= len && count > 0 {
                let (end, carry) = reader.place();
                let head = head(start, count, from.1, Carry::NONE);
                found.push(Strip { bytes: from.0..end, head, tail: carry });
                (from, start, count) = ((end, carry), place, 0);
            }
            let marked = match walk.marker() {
                Some(second) => reader.ones().and_then(|()| reader.marker(second)),
                None => Some(()),
            };
            let read = marked.and_then(|()| {
                let read =
                    walk.group(|step, first| step.read(&mut reader, first).map(drop).ok_or(()));
                read.ok()
            });
            if read.is_none() {
                reader = before;
                break;
            }
            (done, count) = (done + 1, count + 1);
        }
        let pad = if done == self.groups { reader.pad() } else { None };
        let (end, tail) = reader.place();
        if count > 0 && end > from.0 {
            let head = head(start, count, from.1, pad.unwrap_or(Carry::NONE));
            found.push(Strip { bytes: from.0..end, head, tail });
        }
        found
    }
}
