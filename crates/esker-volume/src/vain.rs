//! Room that was looked for in vain: how much nobody needed then, so that it is looked for again once more is dead.

use std::sync::atomic::{AtomicU64, Ordering};

/// It was not looked for in vain.
const NEVER: u64 = u64::MAX;

/// Bytes that nobody needed when one way to make room gave none.
#[derive(Debug)]
pub(crate) struct Vain(AtomicU64);

impl Default for Vain {
    fn default() -> Self {
        Self(AtomicU64::new(NEVER))
    }
}

impl Vain {
    /// Whether it would be in vain again: so much is dead now, and `more` than then must be.
    pub fn still(&self, dead: u64, more: u64) -> bool {
        let then = self.0.load(Ordering::Acquire);
        then != NEVER && dead < then.saturating_add(more)
    }

    /// It was, or was not.
    pub fn note(&self, in_vain: bool, dead: u64) {
        self.0.store(if in_vain { dead } else { NEVER }, Ordering::Release);
    }

    /// It may not be any more.
    pub fn forget(&self) {
        self.note(false, 0);
    }
}
