//! Bits in the order of deflate: the lowest of each byte first.
//!
//! Above: `huffman`, `blocks`, `recipe`. Invariant: reading behind the end is told, never made up.

/// Bytes that are read bit by bit.
#[derive(Clone)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    /// The bit that comes next.
    at: usize,
}

impl<'a> Reader<'a> {
    pub const fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    /// The bit that comes next.
    pub const fn at(&self) -> usize {
        self.at
    }

    /// At least 56 bits; zeros behind the end.
    pub fn peek(&self) -> u64 {
        let rest = self.bytes.get(self.at / 8..).unwrap_or_default();
        let word = rest.first_chunk().map_or_else(
            || {
                let mut last = [0; 8];
                last[..rest.len()].copy_from_slice(rest);
                u64::from_le_bytes(last)
            },
            |word| u64::from_le_bytes(*word),
        );
        word >> (self.at % 8)
    }

    /// Goes on by some bits; `None`: there are not so many.
    pub const fn skip(&mut self, bits: usize) -> Option<()> {
        self.at += bits;
        if self.at <= self.bytes.len() * 8 { Some(()) } else { None }
    }

    /// So many bits, at most 32.
    pub fn take(&mut self, bits: u32) -> Option<u32> {
        let found = self.peek() & ((1 << bits) - 1);
        self.skip(bits as usize)?;
        Some(found as u32)
    }

    /// Bits up to the next byte, which are at most seven.
    pub fn pad(&mut self) -> Option<u32> {
        self.take((self.at.wrapping_neg() % 8) as u32)
    }

    /// So many bytes; what comes next must be the first bit of one.
    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let from = self.at / 8;
        self.skip(len.checked_mul(8)?)?;
        self.bytes.get(from..from + len)
    }
}

/// Bytes that are written bit by bit.
#[derive(Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
    /// What does not fill four bytes yet.
    open: u64,
    /// Bits of `open`, fewer than 32 between calls.
    count: u32,
}

impl Writer {
    /// The lowest `bits` of a number, at most 32.
    pub fn put(&mut self, number: u32, bits: u32) {
        self.open |= u64::from(number) << self.count;
        self.count += bits;
        if self.count >= 32 {
            self.bytes.extend_from_slice(&(self.open as u32).to_le_bytes());
            self.open >>= 32;
            self.count -= 32;
        }
    }

    /// Bits that are missing to a whole byte.
    pub const fn missing(&self) -> u32 {
        self.count.wrapping_neg() % 8
    }

    /// The bytes of `open` that are whole.
    fn flush(&mut self) {
        let whole = self.count / 8;
        self.bytes.extend_from_slice(&self.open.to_le_bytes()[..whole as usize]);
        self.open >>= 8 * whole;
        self.count %= 8;
    }

    /// Whole bytes; the one before must be whole.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.flush();
        self.bytes.extend_from_slice(bytes);
    }

    /// Bits so far.
    pub const fn len(&self) -> usize {
        self.bytes.len() * 8 + self.count as usize
    }

    /// The bytes that are whole.
    pub fn finish(mut self) -> Vec<u8> {
        self.flush();
        self.bytes
    }
}

/// Some bits of `bytes`, moved to begin with a byte.
pub(super) fn cut(bytes: &[u8], bits: core::ops::Range<usize>) -> Option<Vec<u8>> {
    let (mut reader, mut writer) = (Reader::new(bytes, bits.start), Writer::default());
    let mut left = bits.len();
    while left > 0 {
        let now = left.min(32);
        writer.put(reader.take(now as u32)?, now as u32);
        left -= now;
    }
    let missing = writer.missing();
    writer.put(0, missing);
    Some(writer.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again() {
        let mut writer = Writer::default();
        let numbers: Vec<(u32, u32)> =
            (0..500).map(|at| (at * 7919 % (1 << (at % 17)), at % 17)).collect();
        numbers.iter().for_each(|&(number, bits)| writer.put(number, bits));
        let bits = writer.len();
        let missing = writer.missing();
        writer.put(0, missing);
        let bytes = writer.finish();
        let mut reader = Reader::new(&bytes, 0);
        for &(number, bits) in &numbers {
            assert_eq!(reader.take(bits), Some(number));
        }
        assert_eq!(reader.at(), bits);
        assert_eq!(reader.pad(), Some(0));
        assert_eq!(reader.take(1), None, "there is nothing behind the end");
        let moved = cut(&bytes, 3..bits).unwrap();
        let mut reader = Reader::new(&bytes, 3);
        let mut again = Reader::new(&moved, 0);
        assert!((3..bits).all(|_| reader.take(1) == again.take(1)));
        assert_eq!(cut(&bytes, bits..bits + 9), None);
    }
}
