//! What kind of data a unit is, found out from its bytes alone.
//!
//! Above: `units`. Invariant: a category decides what lies together and how hard is tried, never how bytes are read.

use esker_stone::chance::is_even;
use esker_stone::{Codec, Search, Setting, Shape, is_text};

use super::program::Machine;

/// A kind of data. What is in a block is of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// Anything.
    Usual,
    /// Compressed already: there is nothing to gain.
    Packed,
    /// Sound, samples that lie in the bytes like this.
    Sound(Shape),
    /// Made of text in other blocks.
    Made,
    /// Wanted first when the image is used.
    Hot,
    /// Text of streams that were unpacked.
    Text,
    /// Code of programs and libraries.
    Code(Machine),
    /// Text that can be told in words.
    Words,
    /// Such text of streams that were unpacked.
    TextWords,
    /// A strip of a picture of JPEG.
    Picture,
}

/// Shorter units say too little about themselves.
const LEN_MIN: usize = 1024;
/// What looks like chance: two of its bytes are equal by no more than half more than is to be expected.
const EVEN: (u64, u64) = (3, 2);
/// Most bytes of a block of sound.
const SOUND_LEN: usize = 512 << 10;
/// How hard is tried with text of streams at most. Harder, it takes three times as long for less than 1 % of the text.
const TEXT_LEVEL: i32 = 10;
/// The same where other blocks are xz, which takes longer anyway.
const TEXT_LEVEL_XZ: i32 = 13;
/// Most bytes of a block of it that has a base.
const TEXT_LEN: usize = 512 << 10;
/// Most bytes of a block of text in words that has a base: their form has half as many, and what they have in common
/// with others is known from the base.
const WORDS_LEN: usize = 1 << 20;
/// From this level of xz on text is tried as hard as anything.
const TEXT_XZ: i32 = 9;
/// What is tried on bytes that look like chance.
pub(super) const TRIAL: Setting = Setting::new(Codec::Zstd, 1);
/// Whatever shrinks by less than one part in so many is compressed already.
const GAIN: usize = 50;

impl Category {
    /// What users read of all, by their numbers.
    pub const NAMES: [&str; 15] = [
        "usual",
        "compressed already",
        "sound in one channel",
        "sound in two channels",
        "made again of its text",
        "wanted first",
        "what streams of deflate hold",
        "sound in many channels",
        "code for x86",
        "code for ARM of 32 bits",
        "code for ARM of 64 bits",
        "code for RISC-V",
        "text",
        "text of streams of deflate",
        "pictures of JPEG",
    ];

    /// Those of which like is drawn to like, and whose blocks may share bases.
    pub(super) const DRAWN: [Self; 8] = [
        Self::Usual,
        Self::Words,
        Self::TextWords,
        Self::Text,
        Self::Code(Machine::X86),
        Self::Code(Machine::Arm),
        Self::Code(Machine::Arm64),
        Self::Code(Machine::Riscv),
    ];

    /// The number at rest.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Usual => 0,
            Self::Packed => 1,
            Self::Sound(shape) => match shape.channels() {
                1 => 2,
                2 => 3,
                _ => 7,
            },
            Self::Made => 4,
            Self::Hot => 5,
            Self::Text => 6,
            Self::Code(machine) => 8 + machine as u32,
            Self::Words => 12,
            Self::TextWords => 13,
            Self::Picture => 14,
        }
    }

    /// Where units of it begin in a block, and end but for the last one of a file: at multiples of so many bytes.
    pub(super) const fn alignment(self) -> usize {
        match self {
            Self::Sound(shape) => shape.moment_len(),
            _ => 1,
        }
    }

    /// Its units lie in a block as they do in their file, by multiples of so many bytes.
    pub(super) const fn word(self) -> usize {
        match self {
            Self::Code(machine) => machine.word(),
            _ => 1,
        }
    }

    /// Most bytes of a block of it where others have `usual`, and a base or none.
    pub(super) const fn block_len(self, usual: usize, has_base: bool) -> usize {
        match self {
            // What is made takes parts of several such blocks, and what is alike is known from the base.
            Self::Text | Self::TextWords if has_base && usual > TEXT_LEN => TEXT_LEN,
            Self::Words if has_base && usual > WORDS_LEN => WORDS_LEN,
            // What came long before says little about sound, and a small block is quick to read.
            Self::Sound(_) if usual > SOUND_LEN => SOUND_LEN,
            // Each strip is a block.
            Self::Picture => 0,
            _ => usual,
        }
    }

    /// How blocks of it are compressed where others are with `usual`.
    #[must_use]
    pub fn setting(self, usual: Setting) -> Setting {
        match self {
            // It is cheap, and finds what repeats by chance.
            Self::Packed | Self::Picture if !usual.codec.is_quick() => TRIAL,
            // There is a lot of it, and it was compressed worse before.
            Self::Text | Self::TextWords if usual.codec == Codec::Zstd => {
                Setting::new(Codec::Zstd, usual.level.min(TEXT_LEVEL))
            }
            // What is made of it shall not wait long.
            Self::Text | Self::TextWords if usual.codec == Codec::Xz && usual.level < TEXT_XZ => {
                Setting::new(Codec::Zstd, TEXT_LEVEL_XZ)
            }
            _ => usual,
        }
    }

    /// How thoroughly blocks of it are compressed on a base.
    pub(super) const fn search(self) -> Search {
        match self {
            Self::Usual | Self::Code(_) => Search::Near,
            // Of text a near search finds less, and takes as long.
            _ => Search::Whole,
        }
    }

    /// Whether like is drawn to like in it.
    pub(super) const fn is_drawn(self) -> bool {
        matches!(self, Self::Usual | Self::Text | Self::Code(_)) || self.is_told()
    }

    /// Whether blocks of it are told in words, if that pays.
    pub(super) const fn is_told(self) -> bool {
        matches!(self, Self::Words | Self::TextWords)
    }

    /// What bytes of this category are if they are text.
    pub(super) fn in_words(self, bytes: &[u8]) -> Self {
        match self {
            Self::Usual if is_text(bytes) => Self::Words,
            Self::Text if is_text(bytes) => Self::TextWords,
            other => other,
        }
    }

    /// That of some bytes.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let packed = bytes.len() >= LEN_MIN && is_even(bytes, EVEN) && !shrinks(bytes);
        if packed { Self::Packed } else { Self::Usual }
    }
}

fn shrinks(bytes: &[u8]) -> bool {
    let stored = TRIAL.encode(bytes, &[]).map_or(bytes.len(), |(_, stored)| stored.len());
    stored + bytes.len() / GAIN < bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_has_a_base_lies_in_short_blocks_and_is_quick_to_read() {
        let text = Category::Text;
        assert_eq!(text.block_len(3 << 20, true), TEXT_LEN);
        assert_eq!(text.block_len(3 << 20, false), 3 << 20);
        assert_eq!(text.block_len(100, true), 100);
        assert_eq!(Category::Words.block_len(3 << 20, true), WORDS_LEN);
        assert_eq!(Category::Words.block_len(3 << 20, false), 3 << 20);
        assert_eq!(Category::Usual.block_len(3 << 20, true), 3 << 20);
        let of = |codec, level| text.setting(Setting::new(codec, level));
        let zstd = |level| Setting::new(Codec::Zstd, level);
        assert_eq!(of(Codec::Zstd, 18), zstd(TEXT_LEVEL));
        assert_eq!(of(Codec::Xz, 6), zstd(TEXT_LEVEL_XZ));
        assert_eq!(of(Codec::Xz, 9), Setting::new(Codec::Xz, 9));
        assert_eq!(of(Codec::Zstd, 3), Setting::new(Codec::Zstd, 3));
    }

    #[test]
    fn those_that_are_drawn_have_numbers_and_names_of_their_own() {
        let drawn = Category::DRAWN.map(Category::number);
        assert_eq!(drawn, [0, 12, 13, 6, 8, 9, 10, 11]);
        assert!(Category::DRAWN.iter().all(|category| category.is_drawn()));
        assert!(drawn.iter().all(|&number| (number as usize) < Category::NAMES.len()));
    }

    #[test]
    fn what_is_compressed_is_known_and_what_is_not_too() {
        let text: Vec<u8> =
            (0..40_000u32).flat_map(|at| format!("{} ", at * at).into_bytes()).collect();
        assert_eq!(Category::of(&text), Category::Usual);
        let (codec, packed) = Setting::new(Codec::Zstd, 9).encode(&text, &[]).unwrap();
        assert_eq!(codec, Codec::Zstd);
        for part in packed.chunks_exact(4096).take(8) {
            assert_eq!(Category::of(part), Category::Packed);
        }
        // All bytes are as frequent, and all of them come again.
        let twice = [&packed[..8192], &packed[..8192]].concat();
        assert_eq!(Category::of(&twice), Category::Usual);
        assert_eq!(Category::of(&packed[..100]), Category::Usual, "too short to say");
        assert_eq!(Category::of(&[]), Category::Usual);
    }
}
