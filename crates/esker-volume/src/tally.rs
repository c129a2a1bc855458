//! What segments come to, counted as they change: every commit asks, and a volume may have a great many.
//!
//! Above: `segments`. Invariant: it is what a count of all rows would be.

use std::collections::BTreeSet;

use crate::segments::{Condition, Physical, Segment};

/// Of all stretches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// How many are free and may be taken.
    pub free: usize,
    /// How many may hold something.
    pub usable: usize,
    /// Bytes in these that somebody needs.
    pub live: u128,
    /// Those of which nobody needs anything though they are not free.
    pub idle: BTreeSet<Physical>,
}

impl Tally {
    /// Of these, of which those before `barred` are not taken.
    pub fn of(rows: &[Segment], barred: u32) -> Self {
        let mut tally = Self::default();
        rows.iter().for_each(|row| tally.add(row, barred));
        tally
    }

    /// One more.
    pub fn add(&mut self, row: &Segment, barred: u32) {
        self.free += usize::from(is_free(row, barred));
        self.usable += usize::from(is_usable(row));
        self.live += live(row);
        if is_idle(row) {
            self.idle.insert(row.physical);
        }
    }

    /// One less, that was added as it is now.
    pub fn take(&mut self, row: &Segment, barred: u32) {
        self.free -= usize::from(is_free(row, barred));
        self.usable -= usize::from(is_usable(row));
        self.live -= live(row);
        if is_idle(row) {
            self.idle.remove(&row.physical);
        }
    }
}

/// Whether it may be taken.
pub(crate) fn is_free(row: &Segment, barred: u32) -> bool {
    row.condition == Condition::Free && row.physical.0 >= barred
}

const fn is_usable(row: &Segment) -> bool {
    !matches!(row.condition, Condition::Home | Condition::Bad)
}

fn live(row: &Segment) -> u128 {
    if is_usable(row) { row.live.into() } else { 0 }
}

const fn is_idle(row: &Segment) -> bool {
    let holds = matches!(row.condition, Condition::Log | Condition::Tables | Condition::Moved);
    holds && row.live == 0
}
