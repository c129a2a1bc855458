//! What was asked of a device, counted.
//!
//! Above: [`FileDevice`](super::FileDevice), benchmarks. Below: nothing. Invariant: only numbers, which nobody decides
//! by; what was asked in vain counts too, but for what was given back. Zones that begin again are not counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What was asked of a device. Below it requests may be cut or put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Requests to read.
    pub reads: u64,
    /// Bytes that were read.
    pub read: u64,
    /// Requests to write: a flush is none of them, but where a kernel counts it so.
    pub writes: u64,
    /// Bytes that were written.
    pub written: u64,
    /// Barriers.
    pub flushes: u64,
    /// Bytes that are needed no more.
    pub discarded: u64,
}

impl Traffic {
    /// What came after `before`.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(before.reads),
            read: self.read.saturating_sub(before.read),
            writes: self.writes.saturating_sub(before.writes),
            written: self.written.saturating_sub(before.written),
            flushes: self.flushes.saturating_sub(before.flushes),
            discarded: self.discarded.saturating_sub(before.discarded),
        }
    }
}

/// Counts it.
#[derive(Debug, Default)]
pub struct Meter {
    reads: AtomicU64,
    read: AtomicU64,
    writes: AtomicU64,
    written: AtomicU64,
    flushes: AtomicU64,
    discarded: AtomicU64,
}

impl Meter {
    /// So many bytes are read at once.
    pub fn read(&self, len: u64) {
        self.reads.fetch_add(1, Relaxed);
        self.read.fetch_add(len, Relaxed);
    }

    /// So many bytes are written at once.
    pub fn write(&self, len: u64) {
        self.writes.fetch_add(1, Relaxed);
        self.written.fetch_add(len, Relaxed);
    }

    /// All before is to be safe.
    pub fn flush(&self) {
        self.flushes.fetch_add(1, Relaxed);
    }

    /// So many bytes are given back.
    pub fn discard(&self, len: u64) {
        self.discarded.fetch_add(len, Relaxed);
    }

    /// All until now.
    #[must_use]
    pub fn told(&self) -> Traffic {
        Traffic {
            reads: self.reads.load(Relaxed),
            read: self.read.load(Relaxed),
            writes: self.writes.load(Relaxed),
            written: self.written.load(Relaxed),
            flushes: self.flushes.load(Relaxed),
            discarded: self.discarded.load(Relaxed),
        }
    }
}
