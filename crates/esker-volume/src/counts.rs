//! What was written since the volume was opened, and why.
//!
//! Above: verbs. Below: nothing. Invariant: only numbers, which nobody decides by.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why something was written, or done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Count {
    /// Bytes of files, before they were compressed.
    Plain,
    /// Bytes of files that were told anew so that the blocks that held them are free, before they were compressed.
    Folded,
    /// Bytes of files that were there already, and so were not written.
    Shared,
    /// Bytes of files of which only what differs from others was stored, before that.
    Resembling,
    /// Bytes of new blocks, as they are stored.
    Blocks,
    /// Bytes of blocks that were moved.
    Moved,
    /// Bytes of heads and rows of commits.
    Rows,
    /// Bytes of tables and roots.
    Tables,
    /// Bytes of parity.
    Parity,
    /// Bytes of superblocks.
    Superblocks,
    /// Bytes that only fill a unit.
    Padding,
    /// Commits that were shown.
    Commits,
    /// Steps of settling.
    Steps,
    /// Segments that became free.
    Reclaimed,
}

const COUNTS: usize = Count::Reclaimed as usize + 1;

/// Counts.
#[derive(Default)]
pub(crate) struct Counts([AtomicU64; COUNTS]);

impl Counts {
    pub fn add(&self, what: Count, count: u64) {
        self.0[what as usize].fetch_add(count, Ordering::Relaxed);
    }

    fn of(&self, what: Count) -> u64 {
        self.0[what as usize].load(Ordering::Relaxed)
    }

    pub fn told(&self) -> Counted {
        Counted {
            plain: self.of(Count::Plain).saturating_sub(self.of(Count::Folded)),
            folded: self.of(Count::Folded),
            shared: self.of(Count::Shared),
            resembling: self.of(Count::Resembling),
            blocks: self.of(Count::Blocks),
            moved: self.of(Count::Moved),
            rows: self.of(Count::Rows),
            tables: self.of(Count::Tables),
            parity: self.of(Count::Parity),
            superblocks: self.of(Count::Superblocks),
            padding: self.of(Count::Padding),
            commits: self.of(Count::Commits),
            steps: self.of(Count::Steps),
            reclaimed: self.of(Count::Reclaimed),
        }
    }
}

/// What was written since the volume was opened: bytes, but for the last three. What was written in vain counts too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Of files, before they were compressed. None of the others has them a second time.
    pub plain: u64,
    /// Of files, that were not written over, but told anew with what was, so that the blocks that held them are free:
    /// the same measure.
    pub folded: u64,
    /// Of files, that were there already: blocks are named for them once more, and nothing is written.
    pub shared: u64,
    /// Of files, of which only what differs from what they took the place of was stored; all of them count as plain.
    pub resembling: u64,
    /// Of new blocks, as they are stored.
    pub blocks: u64,
    /// Of blocks that were moved.
    pub moved: u64,
    /// Of heads and rows of commits.
    pub rows: u64,
    /// Of tables and roots.
    pub tables: u64,
    /// Of parity.
    pub parity: u64,
    /// Of superblocks.
    pub superblocks: u64,
    /// That only fill a unit.
    pub padding: u64,
    /// Commits.
    pub commits: u64,
    /// Steps of settling.
    pub steps: u64,
    /// Segments that became free.
    pub reclaimed: u64,
}

impl Counted {
    /// All bytes that went to the device.
    #[must_use]
    pub const fn written(&self) -> u64 {
        let Self { blocks, moved, rows, tables, parity, superblocks, padding, .. } = *self;
        blocks + moved + rows + tables + parity + superblocks + padding
    }

    /// What was written since.
    #[must_use]
    pub const fn since(&self, before: &Self) -> Self {
        Self {
            plain: self.plain.saturating_sub(before.plain),
            folded: self.folded - before.folded,
            shared: self.shared - before.shared,
            resembling: self.resembling - before.resembling,
            blocks: self.blocks - before.blocks,
            moved: self.moved - before.moved,
            rows: self.rows - before.rows,
            tables: self.tables - before.tables,
            parity: self.parity - before.parity,
            superblocks: self.superblocks - before.superblocks,
            padding: self.padding - before.padding,
            commits: self.commits - before.commits,
            steps: self.steps - before.steps,
            reclaimed: self.reclaimed - before.reclaimed,
        }
    }
}
