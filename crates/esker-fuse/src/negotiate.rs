//! INIT: what the kernel offers, what we ask for, what both agree on.
//!
//! Invariant: nothing is asked for that the kernel did not offer, nor anything that the door does
//! not do.

use esker::{Error, Result};

use crate::wire::flags::init;
use crate::wire::{InHeader, InitIn, InitOut, MAJOR, MINOR, MINOR_MIN, WriteIn};

/// Pages of one request: 1 MiB.
const PAGES_MAX: u16 = 256;
const PAGE_LEN: u32 = 4096;
/// Longest data of one WRITE or READ, in bytes.
pub const DATA_LEN_MAX: usize = PAGES_MAX as usize * PAGE_LEN as usize;
/// The longest request, in bytes: a WRITE, with a page to spare for what later kernels put in
/// front.
pub const REQUEST_LEN_MAX: usize = DATA_LEN_MAX + PAGE_LEN as usize;
const _: () = assert!(InHeader::SIZE + WriteIn::SIZE <= PAGE_LEN as usize);

/// What is always asked for. Not asked for, on purpose: locks (the kernel keeps them rightly for
/// one host), the old `HANDLE_KILLPRIV`, `AUTO_INVAL_DATA` and `EXPLICIT_INVAL_DATA` (all changes
/// come through the mount), zero-message opens (an immutable file refuses; where nothing ever changes,
/// the kernel learns it from the first answer), security contexts, passthrough.
const ALWAYS: u64 = init::ASYNC_READ
    | init::ATOMIC_O_TRUNC
    | init::EXPORT_SUPPORT
    | init::BIG_WRITES
    | init::DONT_MASK
    | init::HAS_IOCTL_DIR
    | init::DO_READDIRPLUS
    | init::READDIRPLUS_AUTO
    | init::ASYNC_DIO
    | init::PARALLEL_DIROPS
    | init::POSIX_ACL
    | init::ABORT_ERROR
    | init::MAX_PAGES
    | init::CACHE_SYMLINKS
    | init::NO_OPENDIR_SUPPORT
    | init::HANDLE_KILLPRIV_V2
    | init::SETXATTR_EXT
    | init::INIT_EXT
    | init::CREATE_SUPP_GROUP
    | init::DIRECT_IO_ALLOW_MMAP
    // Fails the mount without `default_permissions`, which every mount of ours has.
    | init::ALLOW_IDMAP;

/// What a user may choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Written pages stay in the kernel for a while; small writes are gathered. The kernel then
    /// owns size and mtime of a file that is being written.
    pub writeback: bool,
    /// Requests that the kernel may have under way without anybody waiting (readahead, writeback).
    pub background_max: u16,
    /// Requests come over io_uring, where the kernel offers that.
    pub ring: bool,
}

impl Default for Terms {
    fn default() -> Self {
        Self { writeback: true, background_max: 64, ring: false }
    }
}

/// The answer to INIT, and whether the conversation starts: a kernel with a newer major version is
/// told ours and asks again.
///
/// # Errors
/// `NotSupported` for a kernel older than 7.33 (Linux 5.13).
pub fn negotiate(offer: &InitIn, terms: &Terms) -> Result<(InitOut, bool)> {
    if offer.major < MAJOR || (offer.major == MAJOR && offer.minor < MINOR_MIN) {
        return Err(Error::NotSupported);
    }
    if offer.major > MAJOR {
        return Ok((InitOut { major: MAJOR, minor: MINOR, ..SILENCE }, false));
    }
    let writeback = if terms.writeback { init::WRITEBACK_CACHE } else { 0 };
    let ring = if terms.ring { init::OVER_IO_URING } else { 0 };
    let upper = if u64::from(offer.flags) & init::INIT_EXT != 0 { offer.flags2 } else { 0 };
    let agreed = (u64::from(offer.flags) | u64::from(upper) << 32) & (ALWAYS | writeback | ring);
    Ok((
        InitOut {
            major: MAJOR,
            minor: MINOR.min(offer.minor),
            max_readahead: offer.max_readahead,
            flags: agreed as u32,
            flags2: (agreed >> 32) as u32,
            max_background: terms.background_max,
            congestion_threshold: terms.background_max / 4 * 3,
            max_write: DATA_LEN_MAX as u32,
            // Nanoseconds: times are kept as they are given.
            time_gran: 1,
            max_pages: PAGES_MAX,
            ..SILENCE
        },
        true,
    ))
}

const SILENCE: InitOut = InitOut {
    major: 0,
    minor: 0,
    max_readahead: 0,
    flags: 0,
    max_background: 0,
    congestion_threshold: 0,
    max_write: 0,
    time_gran: 0,
    max_pages: 0,
    map_alignment: 0,
    flags2: 0,
    max_stack_depth: 0,
    request_timeout: 0,
    unused: [0; 22],
};
