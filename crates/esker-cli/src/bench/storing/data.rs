//! Bytes that can be packed as well as their kind says, each block another.

use std::fmt;
use std::io::{self, Write};
use std::ops::Range;

use super::super::stop;
use crate::failure::{Exit, Failure, Outcome, shown};

/// What files are written in, in bytes.
pub const BLOCK: usize = 4096;
/// Blocks that are written over between two syncs.
pub const WRITES_A_SYNC: u64 = 32;
const TILE: usize = 64;
/// Whether to stop is asked every so many blocks.
const BLOCKS_A_LOOK: u64 = 1 << 12;

/// How much of what is written can be spared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// One tile of 64 bytes over and over, another for each block.
    Tiled,
    /// Half of each block like that, the other half random.
    Half,
    /// Nothing.
    Random,
}

impl Data {
    /// From a word of the command line.
    pub fn parse(word: &str) -> Outcome<Self> {
        let all = [Self::Tiled, Self::Half, Self::Random];
        all.into_iter().find(|data| data.to_string() == word).ok_or_else(|| {
            let what = format!("no such data: {}", shown(word.as_bytes()));
            Failure::new(Exit::Usage, what, "there are tiled, half and random")
        })
    }

    /// The block of this number, which is like no other, whatever was written before.
    pub fn block(self, number: u64, target: &mut [u8; BLOCK]) {
        let mut state = number;
        let random = match self {
            Self::Tiled => 0,
            Self::Half => BLOCK / 2,
            Self::Random => BLOCK,
        };
        let (noise, tiles) = target.split_at_mut(random);
        fill(&mut state, noise);
        let mut tile = [0; TILE];
        fill(&mut state, &mut tile);
        tiles.chunks_mut(TILE).for_each(|chunk| chunk.copy_from_slice(&tile));
    }

    /// Makes a file longer by as many blocks as there are numbers.
    pub fn fill(self, file: &mut impl Write, numbers: Range<u64>) -> io::Result<()> {
        let mut block = [0; BLOCK];
        for number in numbers {
            self.block(number, &mut block);
            file.write_all(&block)?;
            if number.is_multiple_of(BLOCKS_A_LOOK) {
                stop::check()?;
            }
        }
        Ok(())
    }
}

fn fill(state: &mut u64, target: &mut [u8]) {
    target.chunks_mut(8).for_each(|chunk| {
        chunk.copy_from_slice(&next(state).to_le_bytes()[..chunk.len()]);
    });
}

/// SplitMix64: the next of a row of numbers that look random.
pub const fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tiled => "tiled",
            Self::Half => "half",
            Self::Random => "random",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deflated(bytes: &[u8]) -> Vec<u8> {
        let mut encoder =
            flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Bytes that a packer leaves of a hundred blocks in one go.
    fn packed(data: Data) -> usize {
        let mut all = Vec::new();
        for number in 0..100 {
            let mut block = [0; BLOCK];
            data.block(number, &mut block);
            all.extend_from_slice(&deflated(&block));
        }
        all.len()
    }

    #[test]
    fn data_packs_as_its_kind_says() {
        assert!(packed(Data::Tiled) < 100 * BLOCK / 20);
        assert!((100 * BLOCK / 2..100 * BLOCK * 6 / 10).contains(&packed(Data::Half)));
        assert!(packed(Data::Random) >= 100 * BLOCK);
    }

    #[test]
    fn words_name_data() {
        for data in [Data::Tiled, Data::Half, Data::Random] {
            assert_eq!(Data::parse(&data.to_string()).unwrap(), data);
        }
        assert_eq!(Data::parse("text").unwrap_err().exit, Exit::Usage);
    }
}
