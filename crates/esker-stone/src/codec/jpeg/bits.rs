//! Bits of a scan: the highest of each byte first, and behind a byte of ones one of zeros.
//!
//! Above: `scan`, `strip`. Invariant: reading ends at a marker or the end, never behind it; writing never goes beyond
//! the room that there is.

use super::huffman::Codes;

/// What comes before a marker.
pub(super) const MARK: u8 = 0xff;
/// Bits of which some code may be.
const CODE_BITS: u32 = 16;

/// Bits that come before the first whole byte of something: they stand below the highest bit that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Carry(pub u8);

impl Carry {
    pub const NONE: Self = Self(1);

    /// The lowest `count` bits of a number, fewer than eight.
    pub const fn of(bits: u64, count: u32) -> Self {
        Self((bits as u8 & ((1 << count) - 1)) | 1 << count)
    }

    /// The bits, and how many; `None`: it is no carry.
    pub const fn bits(self) -> Option<(u64, u32)> {
        match self.0.checked_ilog2() {
            Some(count) => Some((self.0 as u64 & !(1 << count), count)),
            None => None,
        }
    }
}

/// Bits as they are read.
#[derive(Clone)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    open: u64,
    count: u32,
}

impl<'a> Reader<'a> {
    pub const fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at, open: 0, count: 0 }
    }

    fn fill(&mut self) {
        while self.count <= 48 {
            let Some(&byte) = self.bytes.get(self.at) else { return };
            if byte == MARK {
                if self.bytes.get(self.at + 1) != Some(&0) {
                    return;
                }
                self.at += 1;
            }
            self.at += 1;
            self.open = self.open << 8 | u64::from(byte);
            self.count += 8;
        }
    }

    /// The next bits, at most 16, which are not taken by that; behind the end there are zeros.
    fn look(&mut self, bits: u32) -> u32 {
        if self.count < bits {
            self.fill();
        }
        let ready = match self.count.checked_sub(bits) {
            Some(more) => self.open >> more,
            None => self.open << (bits - self.count),
        };
        ready as u32 & ((1 << bits) - 1)
    }

    fn skip(&mut self, bits: u32) -> Option<()> {
        self.count = self.count.checked_sub(bits)?;
        Some(())
    }

    /// So many bits, at most 16; `None` where there are not so many.
    pub fn take(&mut self, bits: u32) -> Option<u32> {
        let found = self.look(bits);
        self.skip(bits)?;
        Some(found)
    }

    /// What the next code stands for.
    pub fn symbol(&mut self, codes: &Codes) -> Option<u8> {
        let (symbol, len) = codes.find(self.look(CODE_BITS))?;
        self.skip(len)?;
        Some(symbol)
    }

    /// A number of so many bits, as JPEG writes them: below half of what they hold it is negative.
    pub fn number(&mut self, bits: u32) -> Option<i32> {
        let found = self.take(bits)?.cast_signed();
        let negative = bits > 0 && found >> (bits - 1) == 0;
        Some(if negative { found - (1 << bits) + 1 } else { found })
    }

    /// Where the byte is whose bits come next, and those of its bits that were taken.
    pub fn place(&self) -> (usize, Carry) {
        let (mut at, mut left) = (self.at, self.count);
        let back = |at: usize| match self.bytes[..at] {
            [.., MARK, 0] => at - 2,
            _ => at - 1,
        };
        while left >= 8 {
            at = back(at);
            left -= 8;
        }
        if left == 0 {
            return (at, Carry::NONE);
        }
        let at = back(at);
        (at, Carry::of(u64::from(self.bytes[at]) >> left, 8 - left))
    }

    /// Takes the bits up to a whole byte.
    pub fn pad(&mut self) -> Option<Carry> {
        let count = self.count % 8;
        Some(Carry::of(self.take(count)?.into(), count))
    }

    /// Takes the bits up to a whole byte, all of which must be ones.
    pub fn ones(&mut self) -> Option<()> {
        let (bits, count) = self.pad()?.bits()?;
        (bits == (1 << count) - 1).then_some(())
    }

    /// How far was read, in about: no less than what was taken.
    pub const fn at(&self) -> usize {
        self.at
    }

    /// Takes a marker that comes next.
    pub fn marker(&mut self, second: u8) -> Option<()> {
        let next = self.bytes.get(self.at..)?.get(..2)?;
        (self.count == 0 && *next == [MARK, second]).then(|| self.at += 2)
    }
}

/// Bits as they are written.
pub(super) struct Writer<'a> {
    plain: &'a mut [u8],
    at: usize,
    open: u64,
    count: u32,
}

impl<'a> Writer<'a> {
    /// Writes into room that may be too short.
    pub const fn new(plain: &'a mut [u8]) -> Self {
        Self { plain, at: 0, open: 0, count: 0 }
    }

    /// Bytes so far, those for which there was no room among them.
    pub const fn len(&self) -> usize {
        self.at
    }

    fn byte(&mut self, byte: u8) {
        if let Some(place) = self.plain.get_mut(self.at) {
            *place = byte;
        }
        self.at += 1;
    }

    /// The lowest `bits` of a number, at most 32, that has no more.
    pub fn put(&mut self, number: u64, bits: u32) {
        self.open = self.open << bits | number;
        self.count += bits;
        while self.count >= 8 {
            self.count -= 8;
            let byte = (self.open >> self.count) as u8;
            self.byte(byte);
            if byte == MARK {
                self.byte(0);
            }
        }
    }

    /// A number of so many bits, as JPEG writes them.
    pub fn number(&mut self, number: i32, bits: u32) {
        let word = if number < 0 { number - 1 } else { number };
        self.put((u64::from(word.cast_unsigned())) & ((1 << bits) - 1), bits);
    }

    /// Ones up to a whole byte.
    pub fn pad(&mut self) {
        let count = self.count.wrapping_neg() % 8;
        self.put((1 << count) - 1, count);
    }

    /// A marker, behind a whole byte.
    pub fn marker(&mut self, second: u8) {
        self.byte(MARK);
        self.byte(second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_places_are_found_again() {
        let mut plain = [0; 64];
        let mut writer = Writer::new(&mut plain);
        let numbers =
            [(0, 0), (-1, 1), (1023, 10), (-1023, 10), (5, 3), (-4, 3), (255, 8), (255, 8)];
        for (number, bits) in numbers {
            writer.number(number, bits);
        }
        writer.pad();
        writer.marker(0xd0);
        let len = writer.len();
        let mut reader = Reader::new(&plain[..len], 0);
        for (number, bits) in numbers {
            let (at, carry) = reader.place();
            assert_eq!(reader.number(bits), Some(number));
            // From there on it is read alike.
            let mut other = Reader::new(&plain[..len], at);
            other.take(carry.bits().unwrap().1).unwrap();
            assert_eq!(other.number(bits), Some(number), "{at} {carry:?}");
        }
        assert_eq!(reader.pad().and_then(Carry::bits), Some((0b11111, 5)));
        assert_eq!(reader.take(1), None);
        assert_eq!(reader.marker(0xd1), None);
        assert_eq!(reader.marker(0xd0), Some(()));
        assert_eq!((Carry(0).bits(), Carry::NONE.bits()), (None, Some((0, 0))));
    }
}
