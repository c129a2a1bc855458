//! What is done to a block's plain bytes before they are compressed, and undone after: the same bytes in another form,
//! as long as before, that a codec can do more with.
//!
//! Above: `rest`, and whoever packs. Invariant: undoing works on any bytes, and takes each chunk by itself, so that
//! whole chunks from the beginning of a block are enough to have its beginning.

use crate::error::{Result, Unsupported};

/// Bytes that are transformed by themselves; the last chunk of a block is shorter.
pub const CHUNK_LEN: usize = 64 * 1024;

/// A transform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transform {
    /// The bytes as they are.
    #[default]
    None,
    /// Sound in one channel: samples of 16 bits, the lower byte first.
    Mono,
    /// Sound in two channels, sample by sample in turn.
    Stereo,
}

impl Transform {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::None, Self::Mono, Self::Stereo];

    /// The number at rest.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The transform with this number.
    ///
    /// # Errors
    /// `Unsupported` for one that is not known here.
    pub fn numbered(number: u64) -> Result<Self> {
        let found = usize::try_from(number).ok().and_then(|number| Self::ALL.get(number));
        found.copied().ok_or_else(|| Unsupported::Transform(number).into())
    }

    /// The transformed form of `plain`.
    #[must_use]
    pub fn apply(self, plain: &[u8]) -> Vec<u8> {
        let mut bytes = plain.to_vec();
        if let Some(channels) = self.channels() {
            bytes.chunks_mut(CHUNK_LEN).for_each(|chunk| split(chunk, channels));
        }
        bytes
    }

    /// Makes plain bytes of transformed ones. They begin where a block begins, and end where a chunk ends.
    pub fn undo(self, bytes: &mut [u8]) {
        if let Some(channels) = self.channels() {
            bytes.chunks_mut(CHUNK_LEN).for_each(|chunk| join(chunk, channels));
        }
    }

    const fn channels(self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Mono => Some(1),
            Self::Stereo => Some(2),
        }
    }
}

/// What the two samples before say of one: that the line through them goes on.
fn guess(samples: &[u16], at: usize, channels: usize) -> u16 {
    let before = |count: usize| at.checked_sub(count * channels).map_or(0, |at| samples[at]);
    before(1).wrapping_mul(2).wrapping_sub(before(2))
}

/// All upper bytes of what the guesses were wrong by, then all lower ones; an odd byte at the end stays.
fn split(chunk: &mut [u8], channels: usize) {
    let count = chunk.len() / 2;
    let sample = |at: usize| u16::from_le_bytes([chunk[2 * at], chunk[2 * at + 1]]);
    let samples: Vec<u16> = (0..count).map(sample).collect();
    for (at, &sample) in samples.iter().enumerate() {
        let wrong = sample.wrapping_sub(guess(&samples, at, channels)).cast_signed();
        let [low, high] = ((wrong << 1) ^ (wrong >> 15)).cast_unsigned().to_le_bytes();
        (chunk[at], chunk[count + at]) = (high, low);
    }
}

fn join(chunk: &mut [u8], channels: usize) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Codec, Setting};

    /// Two tones, and a little noise.
    fn tones(samples: usize) -> Vec<u8> {
        let mut state = 1u32;
        let sample = |at: usize| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let wave = |at: usize, len: usize| {
                let place = (at % len) as i32 - (len / 2) as i32;
                place * place
            };
            (wave(at, 150) + wave(at, 191) + (state >> 28).cast_signed()) as i16
        };
        (0..samples).map(sample).flat_map(i16::to_le_bytes).collect()
    }

    #[test]
    fn whatever_goes_in_comes_out_again() {
        let noise: Vec<u8> = (0..200_001u32).map(|at| (at.wrapping_mul(at) >> 11) as u8).collect();
        for plain in [&noise[..], &noise[..CHUNK_LEN], &noise[..1], &[], &tones(50_000)] {
            for transform in Transform::ALL {
                let mut bytes = transform.apply(plain);
                assert_eq!(bytes.len(), plain.len());
                transform.undo(&mut bytes);
                assert_eq!(bytes, plain, "{transform:?}");
                // Undoing is of any bytes, and so is the other direction.
                transform.undo(&mut bytes);
                assert_eq!(transform.apply(&bytes), plain);
            }
        }
    }

    #[test]
    fn the_beginning_comes_from_the_first_chunks_alone() {
        let plain = tones(100_000);
        let bytes = Transform::Stereo.apply(&plain);
        let mut head = bytes[..2 * CHUNK_LEN].to_vec();
        Transform::Stereo.undo(&mut head);
        assert_eq!(head, plain[..2 * CHUNK_LEN]);
    }

    #[test]
    fn sound_gets_smaller() {
        let plain = tones(100_000);
        let len = |bytes: &[u8]| Setting::new(Codec::Zstd, 9).encode(bytes, &[]).unwrap().1.len();
        assert!(len(&Transform::Mono.apply(&plain)) * 10 < len(&plain) * 8);
    }
}
