//! Bits of sound, the lowest of each byte first.
//!
//! Above: `frame`. Invariant: reading behind the end is damage.

use std::io::Read;

use crate::codec::feed::Feed;
use crate::error::{Damage, Result};

/// Zeros in a row that a number of its own stands behind.
const ZEROS_MAX: u32 = 24;
/// Bits of that.
const OWN_BITS: u32 = 40;
/// The largest number that has a code.
pub(super) const NUMBER_MAX: u64 = (1 << OWN_BITS) - 1;
/// Bits that are written together.
const AT_ONCE: u32 = 32;

/// Bytes that are written bit by bit.
pub(super) struct Writer<'a> {
    bytes: &'a mut Vec<u8>,
    open: u64,
    /// Bits of `open`, fewer than [`AT_ONCE`] between calls.
    count: u32,
}

impl<'a> Writer<'a> {
    pub fn new(bytes: &'a mut Vec<u8>) -> Self {
        Self { bytes, open: 0, count: 0 }
    }

    /// The lowest `bits` of a number that has no more.
    pub fn put(&mut self, number: u64, bits: u32) {
        if bits > AT_ONCE {
            self.put(number & u64::from(u32::MAX), AT_ONCE);
            return self.put(number >> AT_ONCE, bits - AT_ONCE);
        }
        self.open |= number << self.count;
        self.count += bits;
        if self.count >= AT_ONCE {
            self.bytes.extend_from_slice(&(self.open as u32).to_le_bytes());
            self.open >>= AT_ONCE;
            self.count -= AT_ONCE;
        }
    }

    /// A number in a Rice code: the upper part as so many zeros and a one, the lowest `low` bits as they are.
    pub fn rice(&mut self, number: u64, low: u32) {
        let zeros = number >> low;
        if zeros < ZEROS_MAX.into() {
            let own = (number & ((1 << low) - 1)) << 1 | 1;
            self.put(own << zeros, zeros as u32 + 1 + low);
        } else {
            self.put(0, ZEROS_MAX);
            self.put(number, OWN_BITS);
        }
    }

    /// Ends with a whole byte.
    pub fn finish(self) {
        let last = self.open.to_le_bytes();
        self.bytes.extend_from_slice(&last[..self.count.div_ceil(8) as usize]);
    }
}

/// Bits that the Rice code of a number has.
pub(super) const fn rice_len(number: u64, low: u32) -> u64 {
    let zeros = number >> low;
    if zeros < ZEROS_MAX as u64 { zeros + 1 + low as u64 } else { (ZEROS_MAX + OWN_BITS) as u64 }
}

/// Bytes that are read bit by bit.
pub(super) struct Reader<'a> {
    feed: Feed<'a>,
    open: u64,
    count: u32,
}

impl<'a> Reader<'a> {
    pub fn new(source: &'a mut dyn Read) -> Self {
        Self { feed: Feed::new(source), open: 0, count: 0 }
    }

    /// Opens 57 bits and more, where there are so many.
    fn fill(&mut self) -> Result<()> {
        if let Some(eight) = self.feed.eight() {
            let bytes = (u64::BITS - self.count) / 8;
            self.open |= (eight & u64::MAX >> (u64::BITS - 8 * bytes)) << self.count;
            self.count += 8 * bytes;
            self.feed.skip(bytes as usize);
            return Ok(());
        }
        while self.count <= 56 {
            let Some(byte) = self.feed.next()? else { return Ok(()) };
            self.open |= u64::from(byte) << self.count;
            self.count += 8;
        }
        Ok(())
    }

    fn skip(&mut self, bits: u32) -> Result<()> {
        self.count = self.count.checked_sub(bits).ok_or(Damage::Undecodable)?;
        self.open >>= bits;
        Ok(())
    }

    /// So many bits, at most 56.
    pub fn take(&mut self, bits: u32) -> Result<u64> {
        if self.count < bits {
            self.fill()?;
        }
        let found = self.open & ((1 << bits) - 1);
        self.skip(bits)?;
        Ok(found)
    }

    /// A number in a Rice code with so many bits as they are, at most 40.
    pub fn rice(&mut self, low: u32) -> Result<u64> {
        if self.count <= ZEROS_MAX {
            self.fill()?;
        }
        let zeros = self.open.trailing_zeros();
        if zeros >= ZEROS_MAX {
            self.skip(ZEROS_MAX)?;
            return self.take(OWN_BITS);
        }
        self.skip(zeros + 1)?;
        Ok(u64::from(zeros) << low | self.take(low)?)
    }

    /// Whether nothing follows but what is missing to a whole byte.
    pub fn is_at_end(&mut self) -> Result<bool> {
        Ok(self.feed.is_at_end()? && self.count < 8 && self.open == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again() {
        let numbers: Vec<(u64, u32)> = (0..9000u64)
            .map(|at| ((at * at * 7919) & ((1 << (at % 41)) - 1), at as u32 % 40))
            .collect();
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        let mut len = 0;
        for &(number, low) in &numbers {
            writer.rice(number, low);
            writer.put(number & 0xff, 8);
            len += rice_len(number, low) + 8;
        }
        writer.finish();
        assert_eq!(bytes.len() as u64, len.div_ceil(8));
        let mut from = &bytes[..];
        let mut reader = Reader::new(&mut from);
        for &(number, low) in &numbers {
            assert_eq!(reader.rice(low).unwrap(), number);
            assert!(!reader.is_at_end().unwrap());
            assert_eq!(reader.take(8).unwrap(), number & 0xff);
        }
        assert!(reader.is_at_end().unwrap() && reader.take(8).is_err());
    }
}
