//! Whether bytes look like chance, as what was compressed already, encrypted or drawn by lot does: no codec makes them
//! smaller, and to try takes several times as long as to find that out.
//!
//! Above: whoever compresses. Invariant: it decides what is tried, and nothing about what bytes are.

use crate::error::Result;
use crate::{Codec, Setting};

/// Bytes of a sample, and stretches that it is made of.
const SAMPLE_LEN: usize = 2048;
const STRETCHES: usize = 16;
/// In a sample of chance two bytes are equal by no more than this share of what is to be expected, but for one sample
/// of 300,000. What is that even is made 1 % smaller at most by how frequent its bytes are.
const SAMPLE_EVEN: (u64, u64) = (21, 20);

/// Whether all bytes are about as frequent: that two are equal is at most `most / of` times as likely as by chance.
#[must_use]
pub fn is_even(bytes: &[u8], (most, of): (u64, u64)) -> bool {
    let pairs = |count: u64| count * count.saturating_sub(1);
    let all = pairs(bytes.len() as u64);
    let mut counts = [[0; 256]; 4];
    let mut done = 0;
    // What is left has as many equal ones as chance has, at least, so most text is known by its first quarter.
    let (first, rest) = bytes.split_at(bytes.len() / 16 * 4);
    let (second, rest) = rest.split_at(first.len());
    [first, second, rest].into_iter().all(|part| {
        count(part, &mut counts);
        done += part.len() as u64;
        let each = (0..256).map(|byte| counts.iter().map(|counts| u64::from(counts[byte])).sum());
        let equal: u64 = each.map(pairs).sum();
        (equal * 256 + all - pairs(done)) * of <= all * most
    })
}

/// Counts bytes in turn in four tables: one that counts a byte that comes again has to wait for itself.
fn count(bytes: &[u8], counts: &mut [[u32; 256]; 4]) {
    let (fours, rest) = bytes.as_chunks::<4>();
    for four in fours {
        counts.iter_mut().zip(four).for_each(|(counts, &byte)| counts[usize::from(byte)] += 1);
    }
    rest.iter().for_each(|&byte| counts[0][usize::from(byte)] += 1);
}

/// Whether bytes from all over these are about as frequent.
fn is_even_by_sample(bytes: &[u8]) -> bool {
    let len = SAMPLE_LEN / STRETCHES;
    let Some(last) = bytes.len().checked_sub(SAMPLE_LEN) else { return false };
    let mut sample = [0; SAMPLE_LEN];
    for (number, target) in sample.chunks_exact_mut(len).enumerate() {
        let from = number * len + last * number / (STRETCHES - 1);
        target.copy_from_slice(&bytes[from..from + len]);
    }
    is_even(&sample, SAMPLE_EVEN)
}

impl Setting {
    /// As [`encode`](Self::encode) without a base, for blocks of which many may look like chance: those are stored as
    /// they are after a quick look. What takes no time anyway is always tried.
    ///
    /// # Errors
    /// Those of [`encode`](Self::encode).
    pub fn encode_or_leave(self, plain: &[u8]) -> Result<(Codec, Vec<u8>)> {
        if !self.codec.is_quick() && is_even_by_sample(plain) {
            let left = Self::QUICK.encode(plain, &[])?;
            if left.0 == Codec::None {
                return Ok(left);
            }
        }
        self.encode(plain, &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chance(len: usize) -> Vec<u8> {
        let mut state = 0x5eed_u64;
        let roll = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..len).map(roll).collect()
    }

    #[test]
    fn chance_is_left_and_all_else_is_tried() {
        let zstd = Setting::new(Codec::Zstd, 3);
        for len in [2048, 4096, 32 << 10] {
            let bytes = chance(len);
            assert!(is_even_by_sample(&bytes), "{len}");
            assert_eq!(zstd.encode_or_leave(&bytes).unwrap(), (Codec::None, bytes.clone()));
        }
        // Bytes that come again are even too; some that never come are not, nor is anything short.
        let again = chance(4096).repeat(8);
        assert!(is_even_by_sample(&again));
        let few: Vec<u8> = chance(32 << 10).into_iter().map(|byte| byte & 0x7f).collect();
        let text = "what is written here is nothing but words\n".repeat(800).into_bytes();
        for bytes in [again, few, text, chance(1024).repeat(2), vec![0; 100], Vec::new()] {
            let (codec, stored) = zstd.encode_or_leave(&bytes).unwrap();
            assert_eq!((codec, stored.len()), {
                let (codec, stored) = zstd.encode(&bytes, &[]).unwrap();
                (codec, stored.len())
            });
        }
    }

    #[test]
    fn bytes_at_both_ends_are_in_the_sample() {
        for len in [2048, 2049, 5000, 32 << 10] {
            let mut bytes = chance(len);
            bytes[..128].fill(7);
            assert!(!is_even_by_sample(&bytes), "{len}");
            let mut bytes = chance(len);
            bytes[len - 128..].fill(7);
            assert!(!is_even_by_sample(&bytes), "{len}");
        }
    }
}
