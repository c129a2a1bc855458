//! How many bytes may be held: one number, shared by everything that a home keeps in memory.
//!
//! Above: the tree's pages and data space take before they hold, and give after they let go.
//! Invariant: `used` is the sum of what was taken and forced less what was given.

use super::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::error::{Error, Result};

/// Bytes in use, and how many there may be. The counter orders no other memory, hence relaxed.
#[derive(Debug)]
pub struct Budget {
    used: AtomicU64,
    total: u64,
}

impl Budget {
    /// Nothing used of `total` bytes.
    #[must_use]
    pub const fn new(total: u64) -> Self {
        Self { used: AtomicU64::new(0), total }
    }

    /// Takes `bytes`, or nothing and `NoSpace` when that would be more than the total.
    pub fn take(&self, bytes: u64) -> Result<()> {
        let fit = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= self.total);
        self.used.fetch_update(Relaxed, Relaxed, fit).map(drop).map_err(|_| Error::NoSpace)
    }

    /// Takes `bytes` even past the total: for changes that only shrink, which must work in a full
    /// home.
    pub fn force(&self, bytes: u64) {
        self.used.fetch_add(bytes, Relaxed);
    }

    /// Gives back `bytes` that were taken or forced. (What hostile bytes say is in use may be less than what they give
    /// back.)
    pub fn give(&self, bytes: u64) {
        let less = |used: u64| Some(used.saturating_sub(bytes));
        let _ = self.used.fetch_update(Relaxed, Relaxed, less);
    }

    /// As if nothing had happened since `used` bytes were in use.
    pub fn reset(&self, used: u64) {
        self.used.store(used, Relaxed);
    }

    /// Bytes in use; more than the total after [`force`](Self::force).
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    /// Bytes that there may be.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.total
    }
}
