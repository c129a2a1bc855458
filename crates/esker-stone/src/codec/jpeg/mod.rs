//! Pictures of JPEG: what is in their blocks, told by what is likely there, and their codes made again.
//!
//! Above: `codec`. Below: `scan`, which finds what can be told so, and `strip`. Invariant: what is made of stored
//! bytes follows from whole numbers alone; memory and time are bounded by how long the plain bytes are and by how wide
//! pictures may be, whatever the stored bytes say.

mod bits;
mod block;
mod chance;
mod guess;
mod head;
mod huffman;
mod model;
mod numbers;
mod scan;
mod strip;
mod walk;

use std::io::Read;

use super::Coding;
use crate::error::{Damage, Result};

pub use scan::Picture;
pub use strip::{STRIP_LEN_MAX, Strip};

/// The codec.
pub(super) struct Jpeg;

impl Coding for Jpeg {
    /// Bytes alone do not say how they are read, as [`Strip::encode`] is told: they stay as they are.
    fn encode(&self, _: i32, plain: &[u8], _: &[u8], stored: &mut Vec<u8>) -> Result<()> {
        stored.extend_from_slice(plain);
        Ok(())
    }

    fn decode(&self, mut stored: &[u8], _: &[u8], plain: &mut [u8]) -> Result<()> {
        let whole = plain.len();
        match strip::decode(&mut stored, whole, plain)? {
            true => Ok(()),
            false => Err(Damage::Undecodable.into()),
        }
    }

    fn decode_head(
        &self,
        stored: &mut dyn Read,
        _: &[u8],
        _: usize,
        whole: usize,
        plain: &mut [u8],
    ) -> Option<Result<()>> {
        Some(strip::decode(stored, whole, plain).map(drop))
    }

    fn encoding_memory(&self, _: i32, len: usize) -> u64 {
        len as u64 + (8 << 20)
    }

    fn levels(&self) -> (i32, i32) {
        (0, 0)
    }
}
