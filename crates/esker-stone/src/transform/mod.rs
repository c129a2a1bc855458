//! What is done to a block's plain bytes before they are compressed, and undone after: the same bytes in another form,
//! as long as before, that a codec can do more with.
//!
//! Above: `rest`, and whoever packs. Below: `sound`, `branches`. Invariant: undoing works on any bytes, and takes each
//! chunk by itself, so that whole chunks from the beginning of a block are enough to have its beginning.

mod branches;
mod sound;

use crate::error::{Result, Unsupported};
use branches::Branches;

/// Bytes that are transformed by themselves; the last chunk of a block is shorter.
pub const CHUNK_LEN: usize = Transform::CHUNK_LEN;

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
    /// Code for x86, of 32 and of 64 bits.
    X86,
    /// Code for ARM of 32 bits.
    Arm,
    /// Code for ARM of 32 bits in the short form, Thumb.
    Thumb,
    /// Code for ARM of 64 bits.
    Arm64,
    /// Code for RISC-V.
    Riscv,
}

/// What a transform does to a chunk.
enum Way {
    Nothing,
    /// Sound in so many channels.
    Sound(usize),
    Branches(Branches),
}

impl Transform {
    /// Bytes that are transformed by themselves; the last chunk of a block is shorter.
    pub const CHUNK_LEN: usize = 64 * 1024;

    /// All, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::None,
        Self::Mono,
        Self::Stereo,
        Self::X86,
        Self::Arm,
        Self::Thumb,
        Self::Arm64,
        Self::Riscv,
    ];

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

    /// Whether it is for code: only readers that know the feature of that can undo it.
    #[must_use]
    pub const fn is_of_code(self) -> bool {
        matches!(self.way(), Way::Branches(_))
    }

    /// The transformed form of `plain`.
    #[must_use]
    pub fn apply(self, plain: &[u8]) -> Vec<u8> {
        let mut bytes = plain.to_vec();
        for (number, chunk) in bytes.chunks_mut(CHUNK_LEN).enumerate() {
            self.apply_chunk(number, chunk);
        }
        bytes
    }

    /// Transforms the chunk of a block that has this number.
    pub fn apply_chunk(self, number: usize, chunk: &mut [u8]) {
        match self.way() {
            Way::Nothing => {}
            Way::Sound(channels) => sound::split(chunk, channels),
            Way::Branches(branches) => branches.apply(number * CHUNK_LEN, chunk),
        }
    }

    /// Makes plain bytes of transformed ones. They begin where a block begins, and end where a chunk ends.
    pub fn undo(self, bytes: &mut [u8]) {
        for (number, chunk) in bytes.chunks_mut(CHUNK_LEN).enumerate() {
            self.undo_chunk(number, chunk);
        }
    }

    fn undo_chunk(self, number: usize, chunk: &mut [u8]) {
        match self.way() {
            Way::Nothing => {}
            Way::Sound(channels) => sound::join(chunk, channels),
            Way::Branches(branches) => branches.undo(number * CHUNK_LEN, chunk),
        }
    }

    /// Transforms a block where it lies, and proves of each chunk that it comes out again. `false`: one does not, and
    /// the block is as it was.
    #[must_use]
    pub fn prove(self, plain: &mut [u8]) -> bool {
        let mut right = 0;
        for (number, chunk) in plain.chunks_mut(CHUNK_LEN).enumerate() {
            let mut bytes = chunk.to_vec();
            self.apply_chunk(number, &mut bytes);
            let mut again = bytes.clone();
            self.undo_chunk(number, &mut again);
            if again != chunk {
                break;
            }
            chunk.copy_from_slice(&bytes);
            right = number + 1;
        }
        let all = right == plain.len().div_ceil(CHUNK_LEN);
        if !all {
            self.undo(&mut plain[..right * CHUNK_LEN]);
        }
        all
    }

    const fn way(self) -> Way {
        match self {
            Self::None => Way::Nothing,
            Self::Mono => Way::Sound(1),
            Self::Stereo => Way::Sound(2),
            Self::X86 => Way::Branches(Branches::X86),
            Self::Arm => Way::Branches(Branches::Arm),
            Self::Thumb => Way::Branches(Branches::Thumb),
            Self::Arm64 => Way::Branches(Branches::Arm64),
            Self::Riscv => Way::Branches(Branches::Riscv),
        }
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
                let mut proven = plain.to_vec();
                assert!(transform.prove(&mut proven));
                let mut bytes = transform.apply(plain);
                assert_eq!(proven, bytes);
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
        for transform in Transform::ALL {
            let bytes = transform.apply(&plain);
            let mut head = bytes[..2 * CHUNK_LEN].to_vec();
            transform.undo(&mut head);
            assert_eq!(head, plain[..2 * CHUNK_LEN]);
        }
    }

    /// Calls of a few functions from many places, in the words of a machine.
    fn calls(transform: Transform) -> Vec<u8> {
        let mut bytes = Vec::new();
        for number in 0..20_000u32 {
            let target = 4096 * (number.wrapping_mul(2_654_435_761) >> 27);
            let away = target.wrapping_sub(bytes.len() as u32);
            match transform {
                Transform::X86 => {
                    bytes.push(0xe8);
                    bytes.extend(away.wrapping_sub(5).to_le_bytes());
                }
                Transform::Arm => {
                    let words = away.wrapping_sub(8) >> 2;
                    bytes.extend((0xeb00_0000 | words & 0x00ff_ffff).to_le_bytes());
                }
                Transform::Thumb => {
                    let halves = away.wrapping_sub(4) >> 1;
                    bytes.extend((0xf000 | (halves >> 11 & 0x7ff) as u16).to_le_bytes());
                    bytes.extend((0xf800 | (halves & 0x7ff) as u16).to_le_bytes());
                }
                Transform::Arm64 => {
                    bytes.extend((0x9400_0000 | away >> 2 & 0x03ff_ffff).to_le_bytes());
                }
                _ => {
                    let bit = |from: u32, count: u32| away >> from & ((1 << count) - 1);
                    let word = bit(20, 1) << 31 | bit(1, 10) << 21 | bit(11, 1) << 20;
                    bytes.extend((word | bit(12, 8) << 12 | 0xef).to_le_bytes());
                }
            }
            // What is between is not always as long.
            bytes.extend([0, 0x13, 0, 0].repeat(number as usize % 3));
        }
        bytes
    }

    #[test]
    fn calls_of_the_same_function_look_the_same() {
        for transform in Transform::ALL.into_iter().filter(|one| one.is_of_code()) {
            let plain = calls(transform);
            let len = |bytes: &[u8]| Setting::new(Codec::Xz, 6).encode(bytes, &[]).unwrap().1.len();
            let mut bytes = plain.clone();
            assert!(transform.prove(&mut bytes));
            assert!(len(&bytes) * 2 < len(&plain), "{transform:?}");
            assert_eq!(bytes, transform.apply(&plain));
            transform.undo(&mut bytes);
            assert_eq!(bytes, plain);
        }
    }

    #[test]
    fn sound_gets_smaller() {
        let plain = tones(100_000);
        let len = |bytes: &[u8]| Setting::new(Codec::Zstd, 9).encode(bytes, &[]).unwrap().1.len();
        assert!(len(&Transform::Mono.apply(&plain)) * 10 < len(&plain) * 8);
    }
}
