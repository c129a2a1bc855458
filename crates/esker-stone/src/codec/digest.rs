//! A base that Zstandard has looked through once for all who compress on it, by a search of our own: what the library
//! offers in safe words takes no more than a level. The only file of this crate with code that the compiler trusts.
//!
//! Above: `shared`. Invariant: a pointer is that of something whole, which is given back once, when its owner goes; a
//! digest does not change once it is made.

#![allow(unsafe_code)]

use std::ptr::{NonNull, null_mut};

use zstd_safe::zstd_sys as library;

use library::ZSTD_dictContentType_e::ZSTD_dct_rawContent;
use library::ZSTD_dictLoadMethod_e::ZSTD_dlm_byCopy;
use library::ZSTD_strategy::ZSTD_btultra;

use super::zstd::refused;
use crate::error::Result;

/// How thoroughly what lies on a base is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// As the codec's level says.
    Whole,
    /// For programs, at the level that it is for: of what came before the last 2 MiB only are in a tree, with half as
    /// many attempts. It takes a sixth of the time less, and they become less than a hundredth larger.
    Near,
}

/// The level at which a near search is another one. The one below takes less time as it is.
const NEAR_LEVEL: i32 = 18;
/// Bytes of a base from which on it is: nothing in a smaller one is far.
const NEAR_LEN: usize = 2 << 20;
/// Of itself that level has a chain of 23, hashes of 22, a search of 6 and a target of 64.
const NEAR: library::ZSTD_compressionParameters = library::ZSTD_compressionParameters {
    windowLog: 23,
    chainLog: 22,
    hashLog: 21,
    searchLog: 5,
    minMatch: 3,
    targetLength: 48,
    strategy: ZSTD_btultra,
};

/// The library's own way to memory.
const MEMORY: library::ZSTD_customMem =
    library::ZSTD_customMem { customAlloc: None, customFree: None, opaque: null_mut() };

/// A base with everything in it looked up.
pub(super) struct Digest(NonNull<library::ZSTD_CDict>);

// SAFETY: the library reads it alone once it is made, and it belongs to no thread.
unsafe impl Send for Digest {}
// SAFETY: as above.
unsafe impl Sync for Digest {}

/// Bytes that a context takes which compresses so many, in a window of at least so many bits, by the library's own
/// estimate.
pub(super) fn room_memory(level: i32, len: usize, window_log: u32) -> u64 {
    // SAFETY: both count, and touch no memory.
    let bytes = unsafe {
        let mut how = library::ZSTD_getCParams(level, len as u64, 0);
        how.windowLog = how.windowLog.max(window_log);
        library::ZSTD_estimateCCtxSize_usingCParams(how)
    };
    bytes as u64
}

/// The same of a digest of a base of so many bytes: that of a near search takes less.
pub(super) fn digest_memory(level: i32, base_len: usize) -> u64 {
    // SAFETY: it counts, and touches no memory.
    unsafe { library::ZSTD_estimateCDictSize(base_len, level) as u64 }
}

impl Digest {
    /// Copies the base.
    pub fn new(base: &[u8], level: i32, search: Search) -> Option<Self> {
        let near = search == Search::Near && level == NEAR_LEVEL && base.len() >= NEAR_LEN;
        let (at, len) = (base.as_ptr().cast(), base.len());
        // SAFETY: `at` points to `len` bytes, which are read before the call returns.
        let made = unsafe {
            if near {
                let (how, what) = (ZSTD_dlm_byCopy, ZSTD_dct_rawContent);
                library::ZSTD_createCDict_advanced(at, len, how, what, NEAR, MEMORY)
            } else {
                library::ZSTD_createCDict(at, len, level)
            }
        };
        NonNull::new(made).map(Self)
    }
}

impl Drop for Digest {
    fn drop(&mut self) {
        // SAFETY: it was made by the library, and nobody has it any more.
        unsafe { library::ZSTD_freeCDict(self.0.as_ptr()) };
    }
}

/// A context that is used again and again: its tables are large. What comes out does not depend on what it was used
/// for before, since the tables of a digest replace all that it knew.
pub(super) struct Room {
    context: NonNull<library::ZSTD_CCtx>,
    target: Vec<u8>,
}

// SAFETY: it belongs to no thread.
unsafe impl Send for Room {}

impl Room {
    pub fn new() -> Result<Self> {
        // SAFETY: it may be called at any time.
        let made = unsafe { library::ZSTD_createCCtx() };
        let context = NonNull::new(made).ok_or_else(|| refused(0))?;
        Ok(Self { context, target: Vec::new() })
    }

    /// The coded form of `plain`.
    pub fn encode(&mut self, plain: &[u8], base: &Digest) -> Result<&[u8]> {
        let most = zstd_safe::compress_bound(plain.len());
        self.target.resize(self.target.len().max(most), 0);
        let (to, room) = (self.target.as_mut_ptr().cast(), self.target.len());
        let (from, len) = (plain.as_ptr().cast(), plain.len());
        let (context, base) = (self.context.as_ptr(), base.0.as_ptr());
        // SAFETY: both stretches of memory are as long as is said and apart, and nobody else has the context.
        let done = unsafe { library::ZSTD_compress_usingCDict(context, to, room, from, len, base) };
        // What went wrong is told as a length that nothing has.
        self.target.get(..done).ok_or_else(|| refused(done))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: it was made by the library, and nobody has it any more.
        unsafe { library::ZSTD_freeCCtx(self.context.as_ptr()) };
    }
}
