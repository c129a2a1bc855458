//! Zstandard, by its own library built in. The only codec that takes a base: the base's bytes are
//! the prefix that matches may reach back into.

use std::io::Read;
use std::sync::{Mutex, PoisonError};

use zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

use super::digest::room_memory;
use super::{Coding, undecodable};
use crate::error::{Damage, Error, Result};

/// Largest window, as a power of two: what the format allows.
const WINDOW_LOG_MAX: u32 = 27;
/// Bytes that a decoder is fed at a time.
const FEED: usize = 128 * 1024;

/// Bytes of a block and of its base of which the second is best given with the first.
const SHORT: usize = 128 << 10;

/// How a dictionary of the library's own begins. A base that does would be taken for one.
const DICTIONARY_MAGIC: [u8; 4] = [0x37, 0xa4, 0x30, 0xec];

pub(super) fn is_misread(base: &[u8]) -> bool {
    base.starts_with(&DICTIONARY_MAGIC)
}

pub(super) struct Zstd;

/// The library says that a parameter or a call is wrong, which no input can bring about.
pub(super) fn refused(_: usize) -> Error {
    Error::Io(std::io::ErrorKind::OutOfMemory, None)
}

/// The smallest window that reaches over so many bytes.
fn window_log(len: usize) -> u32 {
    len.next_power_of_two().trailing_zeros().clamp(10, WINDOW_LOG_MAX)
}

/// Contexts that wait for work: to make one, and to touch its memory for the first time, takes as long as a small
/// block.
struct Waiting<T>(Mutex<Vec<T>>);

/// Contexts that are kept of each sort.
const WAITING_MAX: usize = 8;
/// The largest that is kept, in bytes.
const WAITING_LEN_MAX: usize = 4 << 20;

static ENCODERS: Waiting<CCtx<'static>> = Waiting(Mutex::new(Vec::new()));
static DECODERS: Waiting<DCtx<'static>> = Waiting(Mutex::new(Vec::new()));

impl<T> Waiting<T> {
    fn take(&self, make: impl FnOnce() -> Result<T>) -> Result<T> {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop();
        waiting.map_or_else(make, Ok)
    }

    /// Keeps one that has done its work and can begin anew.
    fn keep(&self, context: T, len: usize) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() < WAITING_MAX && len <= WAITING_LEN_MAX {
            waiting.push(context);
        }
    }
}

fn encoder() -> Result<CCtx<'static>> {
    CCtx::try_create().ok_or_else(|| refused(0))
}

/// Appends what `code` makes of so many plain bytes; it says how long that is.
fn append(
    stored: &mut Vec<u8>,
    plain_len: usize,
    code: impl FnOnce(&mut [u8]) -> std::result::Result<usize, usize>,
) -> Result<()> {
    let from = stored.len();
    stored.resize(from + zstd_safe::compress_bound(plain_len), 0);
    let done = code(&mut stored[from..]);
    stored.truncate(from + done.unwrap_or(0));
    done.map(drop).map_err(refused)
}

/// Says how to compress, and compresses.
fn compress(
    context: &mut CCtx<'_>,
    level: i32,
    plain: &[u8],
    window: Option<u32>,
    stored: &mut Vec<u8>,
) -> Result<()> {
    let mut set = |parameter| context.set_parameter(parameter).map(drop).map_err(refused);
    set(CParameter::CompressionLevel(level))?;
    set(CParameter::ChecksumFlag(false))?;
    set(CParameter::ContentSizeFlag(false))?;
    if let Some(window) = window {
        set(CParameter::WindowLog(window))?;
    }
    context.set_pledged_src_size(Some(plain.len() as u64)).map_err(refused)?;
    append(stored, plain.len(), |target| context.compress2(target, plain))
}

/// Whether to prepare a context would take longer than this does.
fn is_short(plain: &[u8], base: &[u8]) -> bool {
    !base.is_empty() && base.len() + plain.len() <= SHORT && !is_misread(base)
}

/// Compresses by a context that was used before: it may know a base only for as long as that takes.
fn compress_short(level: i32, plain: &[u8], base: &[u8], stored: &mut Vec<u8>) -> Result<()> {
    let mut context = ENCODERS.take(encoder)?;
    append(stored, plain.len(), |target| context.compress_using_dict(target, plain, base, level))?;
    let len = context.sizeof();
    ENCODERS.keep(context, len);
    Ok(())
}

fn decoder() -> Result<DCtx<'static>> {
    let mut context = DCtx::try_create().ok_or_else(|| refused(0))?;
    context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX)).map_err(refused)?;
    Ok(context)
}

impl Coding for Zstd {
    fn encode(&self, level: i32, plain: &[u8], base: &[u8], stored: &mut Vec<u8>) -> Result<()> {
        let whole = window_log(plain.len() + base.len());
        let window = (level >= 10 || !base.is_empty()).then_some(whole);
        if is_short(plain, base) {
            return compress_short(level, plain, base, stored);
        }
        if !base.is_empty() {
            let mut context = encoder()?;
            // Wherever it lies in memory.
            let alike = CParameter::DeterministicRefPrefix(true);
            context.set_parameter(alike).map_err(refused)?;
            context.ref_prefix(base).map_err(refused)?;
            return compress(&mut context, level, plain, window, stored);
        }
        let mut context = ENCODERS.take(encoder)?;
        context.reset(ResetDirective::SessionAndParameters).map_err(refused)?;
        compress(&mut context, level, plain, window, stored)?;
        let len = context.sizeof();
        ENCODERS.keep(context, len);
        Ok(())
    }

    fn decode(&self, stored: &[u8], base: &[u8], plain: &mut [u8]) -> Result<()> {
        let len = plain.len();
        let done = if !is_misread(base) {
            let mut context = DECODERS.take(decoder)?;
            let done = context.decompress_using_dict(plain, stored, base);
            if done.is_ok() {
                let len = context.sizeof();
                DECODERS.keep(context, len);
            }
            done
        } else {
            let mut context = decoder()?;
            context.ref_prefix(base).map_err(refused)?;
            context.decompress(plain, stored)
        };
        match done {
            Ok(done) if done == len => Ok(()),
            _ => Err(Damage::Undecodable.into()),
        }
    }

    fn decode_head(
        &self,
        stored: &mut dyn Read,
        base: &[u8],
        len: usize,
        _: usize,
        plain: &mut [u8],
    ) -> Option<Result<()>> {
        Some(head(stored, base, len, plain))
    }

    fn head_room(&self, _: usize, whole: usize) -> usize {
        // Where a frame says how long it is, the library wants room for all of it; what is not filled is not touched.
        whole
    }

    fn encoding_memory(&self, level: i32, len: usize) -> u64 {
        room_memory(level, len, window_log(len))
    }

    fn levels(&self) -> (i32, i32) {
        (-7, 22)
    }
}

/// Fills the first `len` bytes, right where they stay. What is fed at a time is what the library asks for: no more of
/// the frame is decoded than that takes.
fn head(stored: &mut dyn Read, base: &[u8], len: usize, plain: &mut [u8]) -> Result<()> {
    let mut context = decoder()?;
    context.set_parameter(DParameter::StableOutBuffer(true)).map_err(refused)?;
    if !base.is_empty() {
        context.ref_prefix(base).map_err(refused)?;
    }
    let mut feed = vec![0; FEED];
    let (mut from, mut to, mut wanted) = (0, 0, 1);
    let mut out = OutBuffer::around(plain);
    while out.pos() < len {
        if from == to {
            to = stored.read(&mut feed).map_err(|error| undecodable(&error))?;
            from = 0;
        }
        let mut input = InBuffer::around(&feed[from..to.min(from + wanted)]);
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
        wanted = left.max(1);
    }
    let _ = context.reset(ResetDirective::SessionOnly);
    Ok(())
}
