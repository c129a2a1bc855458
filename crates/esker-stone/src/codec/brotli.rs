//! Brotli, by the crate `brotli`.

use std::io::Read;

use brotli::enc::BrotliEncoderParams;
use brotli::{BrotliCompress, Decompressor};

use super::{Coding, all, first};
use crate::error::{Error, Result};

/// Bytes that the decoder is fed at a time.
const FEED: usize = 64 * 1024;
/// Windows as powers of two: the least and the greatest of RFC 7932.
const WINDOW_LOGS: (u32, u32) = (10, 24);

pub(super) struct Brotli;

impl Coding for Brotli {
    fn encode(&self, level: i32, plain: &[u8], _: &[u8], stored: &mut Vec<u8>) -> Result<()> {
        let log = (plain.len() + 16).next_power_of_two().trailing_zeros();
        let params = BrotliEncoderParams {
            quality: level.clamp(0, 11),
            lgwin: log.clamp(WINDOW_LOGS.0, WINDOW_LOGS.1).cast_signed(),
            size_hint: plain.len(),
            ..BrotliEncoderParams::default()
        };
        let mut source = plain;
        BrotliCompress(&mut source, stored, &params).map_err(Error::from)?;
        Ok(())
    }

    fn decode(&self, stored: &[u8], _: &[u8], plain: &mut [u8]) -> Result<()> {
        all(Decompressor::new(stored, FEED), plain)
    }

    fn decode_head(
        &self,
        stored: &mut dyn Read,
        _: &[u8],
        _: usize,
        _: usize,
        plain: &mut [u8],
    ) -> Option<Result<()>> {
        Some(first(Decompressor::new(stored, FEED), plain))
    }

    fn encoding_memory(&self, level: i32, len: usize) -> u64 {
        let window = (len as u64).next_power_of_two().min(1 << WINDOW_LOGS.1);
        window * if level >= 10 { 40 } else { 6 } + (4 << 20)
    }

    fn levels(&self) -> (i32, i32) {
        (0, 11)
    }
}
