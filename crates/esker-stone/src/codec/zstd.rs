//! Zstandard, by its own library built in. The only codec that takes a base: the base's bytes are
//! the prefix that matches may reach back into.

use std::io::Read;

use zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

use super::{Coding, undecodable};
use crate::error::{Damage, Error, Result};

/// Largest window, as a power of two: what the format allows.
const WINDOW_LOG_MAX: u32 = 27;
/// Bytes that a decoder is fed at a time.
const FEED: usize = 128 * 1024;

pub(super) struct Zstd;

/// The library says that a parameter or a call is wrong, which no input can bring about.
fn refused(_: usize) -> Error {
    Error::Io(std::io::ErrorKind::OutOfMemory, None)
}

/// The smallest window that reaches over so many bytes.
fn window_log(len: usize) -> u32 {
    len.next_power_of_two().trailing_zeros().clamp(10, WINDOW_LOG_MAX)
}

fn decoder() -> Result<DCtx<'static>> {
    let mut context = DCtx::try_create().ok_or_else(|| refused(0))?;
    context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).map_err(refused)?;
    Ok(context)
}

impl Coding for Zstd {
    fn encode(&self, level: i32, plain: &[u8], base: &[u8], stored: &mut Vec<u8>) -> Result<()> {
        let mut context = CCtx::try_create().ok_or_else(|| refused(0))?;
        let mut set = |parameter| context.set_parameter(parameter).map(drop).map_err(refused);
        set(CParameter::CompressionLevel(level))?;
        set(CParameter::ChecksumFlag(false))?;
        set(CParameter::ContentSizeFlag(false))?;
        if level >= 10 || !base.is_empty() {
            set(CParameter::WindowLog(window_log(plain.len() + base.len())))?;
        }
        if !base.is_empty() {
            context.ref_prefix(base).map_err(refused)?;
        }
        context.set_pledged_src_size(Some(plain.len() as u64)).map_err(refused)?;
        let from = stored.len();
        let mut room = vec![0; zstd_safe::compress_bound(plain.len())];
        let len = context.compress2(room.as_mut_slice(), plain).map_err(refused)?;
        stored.extend_from_slice(room.get(..len).unwrap_or_default());
        debug_assert_eq!(stored.len(), from + len);
        Ok(())
    }

    fn decode(&self, stored: &[u8], base: &[u8], plain: &mut [u8]) -> Result<()> {
        let mut context = decoder()?;
        if !base.is_empty() {
            context.ref_prefix(base).map_err(refused)?;
        }
        let len = plain.len();
        match context.decompress(plain, stored) {
            Ok(done) if done == len => Ok(()),
            _ => Err(Damage::Undecodable.into()),
        }
    }

    fn decode_head(
        &self,
        stored: &mut dyn Read,
        base: &[u8],
        _: usize,
        plain: &mut [u8],
    ) -> Option<Result<()>> {
        Some(head(stored, base, plain))
    }

    fn encoding_memory(&self, level: i32, len: usize) -> u64 {
        // Measured with the library's own estimate: tables grow with the window and the level.
        let window = 1u64 << window_log(len);
        let times = match level {
            ..=2 => 2,
            3..=9 => 4,
            10..=15 => 7,
            16..=19 => 12,
            _ => 14,
        };
        window * times + (2 << 20)
    }

    fn levels(&self) -> (i32, i32) {
        (-7, 22)
    }
}

fn head(stored: &mut dyn Read, base: &[u8], plain: &mut [u8]) -> Result<()> {
    let mut context = decoder()?;
    if !base.is_empty() {
        context.ref_prefix(base).map_err(refused)?;
    }
    let mut feed = vec![0; FEED];
    let (mut from, mut to) = (0, 0);
    let len = plain.len();
    let mut out = OutBuffer::around(plain);
    while out.pos() < len {
        if from == to {
            to = stored.read(&mut feed).map_err(|error| undecodable(&error))?;
            from = 0;
        }
        let mut input = InBuffer::around(&feed[from..to]);
        let before = out.pos();
        let left = context
            .decompress_stream(&mut out, &mut input)
            .map_err(|_| Error::Damaged(Damage::Undecodable))?;
        let stuck = out.pos() == before && input.pos() == 0;
        from += input.pos();
        // The frame is over, or there is nothing more to feed it.
        if out.pos() < len && (left == 0 || (to == 0 && stuck)) {
            return Err(Damage::Undecodable.into());
        }
    }
    let _ = context.reset(ResetDirective::SessionOnly);
    Ok(())
}
