//! Whether the kernel is about to let go of something: it does so by itself, a little after a file was
//! removed or a removed one closed, and only then its space comes back.
//!
//! Above: `door`. Invariant: a removed file that somebody keeps open, or waits in, makes nothing
//! due: only what has just happened does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long after the last parting, or cause of one, the next may be waited for.
const GRACE: Duration = Duration::from_millis(100);

/// When it was told last.
#[derive(Debug)]
pub struct Partings {
    begun: Instant,
    /// Until when the next is due, in milliseconds since the beginning.
    until: AtomicU64,
}

impl Partings {
    /// None was told yet.
    pub fn new() -> Self {
        Self { begun: Instant::now(), until: AtomicU64::new(0) }
    }

    /// The kernel let go of something that was removed, or has a reason to do so soon.
    pub fn told(&self) {
        self.until.store(self.now() + GRACE.as_millis() as u64, Ordering::Relaxed);
    }

    /// It may let go of more at any moment.
    pub fn are_due(&self) -> bool {
        self.now() < self.until.load(Ordering::Relaxed)
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }
}
