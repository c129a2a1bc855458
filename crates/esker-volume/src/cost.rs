//! What a batch will cost to write, at most: so that a volume that is full says so when it is asked, and not later.
//!
//! Above: `home`, `layer`. Invariant: it is never less than what a commit lays down for these changes.

use std::ops::Add;

use esker::store::{Batch, Change};

/// Bytes of rows that a change may come to, with those of blocks and references that it touches.
const ROWS_LEN: u64 = 512;

/// Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Of content, as if nothing could be compressed.
    pub bytes: u64,
    /// Of rows.
    pub rows: u64,
}

impl Cost {
    /// Of a batch.
    #[must_use]
    pub fn of(batch: &Batch<'_>) -> Self {
        batch.changes().map(|change| Self::of_change(change)).fold(Self::default(), Self::add)
    }

    fn of_change(change: &Change<'_>) -> Self {
        let (bytes, more) = match *change {
            Change::Write { source, .. } => (source.len() as u64, 0),
            Change::Share { len, .. } => (len, 0),
            Change::Xattr { value, .. } => (0, value.map_or(0, <[u8]>::len) as u64),
            _ => (0, 0),
        };
        // Long content is many blocks, each with rows of its own.
        Self { bytes, rows: ROWS_LEN + more + bytes / 16 }
    }

    /// All of them.
    #[must_use]
    pub const fn sum(self) -> u64 {
        self.bytes.saturating_add(self.rows)
    }
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            rows: self.rows.saturating_add(other.rows),
        }
    }
}

/// Whether a volume may have to hold more after it. What only takes away is taken whatever the room.
#[must_use]
pub fn grows(batch: &Batch<'_>) -> bool {
    batch.changes().any(|change| {
        matches!(
            change,
            Change::Make { .. }
                | Change::Write { .. }
                | Change::Share { .. }
                | Change::Reserve { .. }
                | Change::Xattr { value: Some(_), .. }
        )
    })
}
