//! LZ4 block format, by the crate `lz4_flex` without unsafe code.

use std::io::Read;

use super::Coding;
use crate::error::{Damage, Result};

pub(super) struct Lz4;

impl Coding for Lz4 {
    fn encode(&self, _: i32, plain: &[u8], _: &[u8], stored: &mut Vec<u8>) -> Result<()> {
        stored.extend_from_slice(&lz4_flex::block::compress(plain));
        Ok(())
    }

    fn decode(&self, stored: &[u8], _: &[u8], plain: &mut [u8]) -> Result<()> {
        match lz4_flex::block::decompress_into(stored, plain) {
            Ok(len) if len == plain.len() => Ok(()),
            _ => Err(Damage::Undecodable.into()),
        }
    }

    fn decode_head(
        &self,
        _: &mut dyn Read,
        _: &[u8],
        _: usize,
        _: usize,
        _: &mut [u8],
    ) -> Option<Result<()>> {
        // It decodes at memory speed: beginning in the middle would gain nothing.
        None
    }

    fn encoding_memory(&self, _: i32, len: usize) -> u64 {
        len as u64 + (64 << 10)
    }

    fn levels(&self) -> (i32, i32) {
        (1, 1)
    }
}
