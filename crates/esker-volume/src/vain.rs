//! Room that was looked for in vain: how much nobody needed then, so that it is looked for again once more is dead.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One way to make room, and when it gave none.
#[derive(Debug, Default)]
pub(crate) struct Vain(Mutex<Option<Sought>>);

/// So many bytes were looked for, when nobody needed so many.
#[derive(Clone, Copy, Debug)]
struct Sought {
    wanted: u64,
    dead: u64,
}

impl Vain {
    /// Whether it would be in vain again: as much is wanted as then, and not `more` than then is dead now.
    pub fn still(&self, wanted: u64, dead: u64, more: u64) -> bool {
        self.last()
            .is_some_and(|then| wanted >= then.wanted && dead < then.dead.saturating_add(more))
    }

    /// It was, or was not.
    pub fn note(&self, in_vain: bool, wanted: u64, dead: u64) {
        let mut last = self.last();
        if in_vain {
            *last = Some(Sought { wanted, dead });
        } else if last.is_some_and(|then| wanted >= then.wanted) {
            *last = None;
        }
    }

    /// It may not be any more.
    pub fn forget(&self) {
        *self.last() = None;
    }

    fn last(&self) -> MutexGuard<'_, Option<Sought>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_is_looked_for_all_the_same() {
        let vain = Vain::default();
        assert!(!vain.still(100, 50, 10));
        vain.note(true, 100, 50);
        assert!(vain.still(100, 59, 10) && vain.still(101, 50, 10));
        assert!(!vain.still(99, 50, 10) && !vain.still(100, 60, 10));
        // What was found says nothing of more.
        vain.note(false, 99, 50);
        assert!(vain.still(100, 50, 10));
        vain.note(false, 100, 50);
        assert!(!vain.still(100, 50, 10));
        vain.note(true, 100, 50);
        vain.forget();
        assert!(!vain.still(100, 50, 10));
    }
}
