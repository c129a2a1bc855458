//! LZMA2, the coding inside of xz, by the crate `lzma-rust2`.

use std::io::{Read, Write as _};

use lzma_rust2::{Lzma2Options, Lzma2Reader, Lzma2Writer};

use super::{Coding, all, first};
use crate::error::{Error, Result};

/// The smallest dictionary that LZMA has.
const DICTIONARY_MIN: usize = 4096;

pub(super) struct Xz;

/// As large as what is coded: everything is in reach.
fn dictionary(len: usize) -> u32 {
    u32::try_from(len.max(DICTIONARY_MIN)).unwrap_or(u32::MAX)
}

impl Coding for Xz {
    fn encode(&self, level: i32, plain: &[u8], _: &[u8], stored: &mut Vec<u8>) -> Result<()> {
        let mut options = Lzma2Options::with_preset(level.clamp(0, 9).unsigned_abs());
        options.lzma_options.dict_size = dictionary(plain.len());
        let mut writer = Lzma2Writer::new(&mut *stored, options);
        writer.write_all(plain).map_err(Error::from)?;
        writer.finish().map_err(Error::from)?;
        Ok(())
    }

    fn decode(&self, stored: &[u8], _: &[u8], plain: &mut [u8]) -> Result<()> {
        // Behind the bytes follows the end marker, and nothing else.
        all(Lzma2Reader::new(stored, dictionary(plain.len()), None), plain)
    }

    fn decode_head(
        &self,
        stored: &mut dyn Read,
        _: &[u8],
        _: usize,
        whole: usize,
        plain: &mut [u8],
    ) -> Option<Result<()>> {
        Some(first(Lzma2Reader::new(stored, dictionary(whole), None), plain))
    }

    fn encoding_memory(&self, _: i32, len: usize) -> u64 {
        // The match finder has about 9.5 bytes for each byte of the dictionary.
        len as u64 * 12 + (8 << 20)
    }

    fn levels(&self) -> (i32, i32) {
        (0, 9)
    }
}
