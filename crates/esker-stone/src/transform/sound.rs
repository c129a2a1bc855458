//! Sound: samples of 16 bits, told by how far they are from a guess. It is read for ever and written no more.
//!
//! Above: `transform`. Invariant: either direction takes any bytes.

/// What the two samples before say of one: that the line through them goes on.
fn guess(samples: &[u16], at: usize, channels: usize) -> u16 {
    let before = |count: usize| at.checked_sub(count * channels).map_or(0, |at| samples[at]);
    before(1).wrapping_mul(2).wrapping_sub(before(2))
}

/// All upper bytes of what the guesses were wrong by, then all lower ones; an odd byte at the end stays.
pub(super) fn split(chunk: &mut [u8], channels: usize) {
    let count = chunk.len() / 2;
    let sample = |at: usize| u16::from_le_bytes([chunk[2 * at], chunk[2 * at + 1]]);
    let samples: Vec<u16> = (0..count).map(sample).collect();
    for (at, &sample) in samples.iter().enumerate() {
        let wrong = sample.wrapping_sub(guess(&samples, at, channels)).cast_signed();
        let [low, high] = ((wrong << 1) ^ (wrong >> 15)).cast_unsigned().to_le_bytes();
        (chunk[at], chunk[count + at]) = (high, low);
    }
}

pub(super) fn join(chunk: &mut [u8], channels: usize) {
    let count = chunk.len() / 2;
    let mut samples = vec![0u16; count];
    for at in 0..count {
        let word = u16::from_le_bytes([chunk[count + at], chunk[at]]);
        let wrong = (word >> 1) ^ (word & 1).wrapping_neg();
        samples[at] = guess(&samples, at, channels).wrapping_add(wrong);
    }
    for (bytes, sample) in chunk.chunks_exact_mut(2).zip(samples) {
        bytes.copy_from_slice(&sample.to_le_bytes());
    }
}
