//! The blocks of a picture in the order of its scan.
//!
//! Above: `scan`, `strip`. Below: `head`, `block`. Invariant: whoever walks comes by the same blocks and markers,
//! whether he reads, tells or makes them.

use super::bits::{Reader, Writer};
use super::block::{Rows, ZIGZAG};
use super::head::{COMPONENTS_MAX, Place, Tables};
use super::huffman::Codes;

/// The first of the markers that begin anew.
const MARKER: u8 = 0xd0;
/// Sixteen zeros, and nothing but zeros up to the end.
const ZEROS: u8 = 0xf0;
const END: u8 = 0;
/// Most bits of a first number's difference, and of others.
const FIRST_BITS: u8 = 11;
const REST_BITS: u8 = 10;

/// Somebody on his way through a picture.
#[derive(Clone)]
pub(super) struct Walk<'a> {
    pub tables: &'a Tables,
    codes: &'a [Codes],
    pub place: Place,
    row: u32,
}

/// A block that is come by.
pub(super) struct Step<'a> {
    pub component: usize,
    pub quants: &'a [u16; 64],
    pub x: usize,
    pub y: u32,
    first: &'a Codes,
    rest: &'a Codes,
}

impl<'a> Walk<'a> {
    /// From a place on; `codes` are those of the tables.
    pub const fn new(tables: &'a Tables, codes: &'a [Codes], place: Place) -> Self {
        Self { tables, codes, place, row: 0 }
    }

    /// Rows for the blocks that come by, for so many groups.
    pub fn rows(&self, count: u32) -> Vec<Rows> {
        let width = self.tables.width.min(self.place.column.saturating_add(count)) as usize;
        let of = |component: &super::head::Component| {
            Rows::new(width * usize::from(component.across), component.down.into())
        };
        self.tables.components.iter().map(of).collect()
    }

    /// The second byte of a marker that comes before the next group.
    pub fn marker(&mut self) -> Option<u8> {
        if self.tables.interval == 0 {
            return None;
        }
        let here = self.place.left == 0;
        if here {
            self.place.left = self.tables.interval;
            self.place.before = [0; COMPONENTS_MAX];
            self.place.marker = (self.place.marker + 1) % 8;
        }
        self.place.left -= 1;
        here.then(|| MARKER + (self.place.marker + 7) % 8)
    }

    /// The blocks of the next group, each with the first number of the one before, which becomes its own.
    pub fn group<E>(
        &mut self,
        mut each: impl FnMut(&Step<'a>, &mut i16) -> Result<(), E>,
    ) -> Result<(), E> {
        for (number, component) in self.tables.components.iter().enumerate() {
            let (across, down) = (usize::from(component.across), u32::from(component.down));
            for y in 0..down {
                for x in 0..across {
                    let step = Step {
                        component: number,
                        quants: &self.tables.quants[usize::from(component.quant)],
                        x: self.place.column as usize * across + x,
                        y: self.row * down + y,
                        first: &self.codes[usize::from(component.first)],
                        rest: &self.codes[usize::from(component.rest)],
                    };
                    each(&step, &mut self.place.before[number])?;
                }
            }
        }
        self.place.column += 1;
        if self.place.column == self.tables.width {
            (self.place.column, self.row) = (0, self.row + 1);
        }
        Ok(())
    }
}

impl Step<'_> {
    /// Reads the block; `None`: it cannot be read, or is not written as it would be here.
    pub fn read(&self, reader: &mut Reader<'_>, before: &mut i16) -> Option<[i16; 64]> {
        let mut numbers = [0; 64];
        let bits = reader.symbol(self.first).filter(|&bits| bits <= FIRST_BITS)?;
        let first = i32::from(*before) + reader.number(bits.into())?;
        *before = i16::try_from(first).ok()?;
        numbers[0] = *before;
        let (mut at, mut zeros) = (1, false);
        while at < 64 {
            let symbol = reader.symbol(self.rest)?;
            let (run, bits) = (usize::from(symbol >> 4), symbol & 15);
            match symbol {
                END if zeros => return None,
                END => break,
                // Something must follow.
                ZEROS => (at, zeros) = (at + 16, true),
                _ if bits == 0 || bits > REST_BITS => return None,
                _ => {
                    let place = usize::from(*ZIGZAG.get(at + run)?);
                    numbers[place] = reader.number(bits.into())? as i16;
                    (at, zeros) = (at + run + 1, false);
                }
            }
        }
        (!zeros).then_some(numbers)
    }

    /// Writes the block; `None`: something in it has no code.
    pub fn write(
        &self,
        writer: &mut Writer<'_>,
        before: &mut i16,
        numbers: &[i16; 64],
    ) -> Option<()> {
        let mut put = |codes: &Codes, symbol: u8, number: i32, bits: u32| {
            let (code, len) = codes.code(symbol)?;
            writer.put(code.into(), len.into());
            writer.number(number, bits);
            Some(())
        };
        let bits = |number: i32| u32::BITS - number.unsigned_abs().leading_zeros();
        let first = i32::from(numbers[0]) - i32::from(*before);
        put(self.first, bits(first) as u8, first, bits(first))?;
        *before = numbers[0];
        let mut zeros = 0;
        for &at in &ZIGZAG[1..] {
            let number = i32::from(numbers[usize::from(at)]);
            if number == 0 {
                zeros += 1;
                continue;
            }
            while zeros >= 16 {
                put(self.rest, ZEROS, 0, 0)?;
                zeros -= 16;
            }
            let bits = bits(number);
            put(self.rest, zeros << 4 | bits as u8, number, bits)?;
            zeros = 0;
        }
        if zeros > 0 { put(self.rest, END, 0, 0) } else { Some(()) }
    }
}
