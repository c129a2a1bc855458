//! How many times each inode is held from outside (a kernel's lookup count, open files).
//!
//! Invariant: only inodes held at least once are listed, so what nobody holds costs nothing; an inode that
//! is held and has no names is marked, so letting go of any other asks nothing of the home.

mod table;

use alloc::boxed::Box;

use self::table::Table;
use crate::ground::order::Rank;
use crate::ground::sync::atomic::{AtomicUsize, Ordering};
use crate::ground::sync::{Mutex, MutexGuard};
use crate::ids::Ino;

const SHARDS: usize = 64;
/// Set beside the count: the inode may have lost its last name.
const ORPHAN: u32 = 1 << 31;
/// A count that gets here stays: the inode is kept for the life of the instance, which is safe.
const COUNT_MAX: u32 = ORPHAN - 1;

/// Some of the counts; in lines of the processor's cache of their own, so that those who work with
/// inodes of one shard do not hinder others.
#[repr(align(128))]
struct Shard(Mutex<Table>);

/// A count for each inode that is held.
pub(super) struct Holds {
    shards: Box<[Shard]>,
    /// How many of them are marked.
    orphans: AtomicUsize,
}

impl Holds {
    pub(super) fn new() -> Self {
        let shard = |number| Shard(Mutex::new(Rank::Holds.number(number), Table::default()));
        let shards = (0..SHARDS).map(shard).collect();
        Self { shards, orphans: AtomicUsize::new(0) }
    }

    /// Once more.
    pub(super) fn add(&self, ino: Ino) {
        let mut shard = self.shard(ino);
        let held = shard.get(ino);
        if held & COUNT_MAX < COUNT_MAX {
            shard.set(ino, held + 1);
        }
    }

    /// `count` times less; whether it was the last hold of an inode that may have no names. Whoever hears
    /// so drops it, and then says [`Holds::dropped`].
    pub(super) fn sub(&self, ino: Ino, count: u64) -> bool {
        let mut shard = self.shard(ino);
        let held = shard.get(ino);
        let now = held & COUNT_MAX;
        if now == 0 || now == COUNT_MAX {
            return false;
        }
        let left = u64::from(now).saturating_sub(count) as u32;
        shard.set(ino, if left > 0 { held & ORPHAN | left } else { 0 });
        left == 0 && held & ORPHAN != 0
    }

    /// The inode is losing its last name: whether it is held, and so must be kept until it is let go of.
    pub(super) fn mark_orphan(&self, ino: Ino) -> bool {
        let mut shard = self.shard(ino);
        let held = shard.get(ino);
        if held > 0 && held & ORPHAN == 0 {
            shard.set(ino, held | ORPHAN);
            self.orphans.fetch_add(1, Ordering::Relaxed);
        }
        held > 0
    }

    /// What the last hold of an orphan kept is gone, or has names again.
    pub(super) fn dropped(&self) {
        self.orphans.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether letting go of something might give space back, or is just doing so.
    pub(super) fn has_orphans(&self) -> bool {
        self.orphans.load(Ordering::Relaxed) > 0
    }

    /// At least once.
    pub(super) fn is_held(&self, ino: Ino) -> bool {
        self.shard(ino).get(ino) > 0
    }

    fn shard(&self, ino: Ino) -> MutexGuard<'_, Table> {
        self.shards[(ino.0 % SHARDS as u64) as usize].0.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_hold_of_an_orphan_asks_for_more() {
        let (holds, ino) = (Holds::new(), Ino(7));
        assert!(!holds.mark_orphan(ino), "nobody holds it");
        holds.add(ino);
        holds.add(ino);
        assert!(!holds.sub(ino, 2), "it has names");
        assert!(!holds.is_held(ino));
        holds.add(ino);
        holds.add(ino);
        assert!(holds.mark_orphan(ino) && holds.has_orphans());
        assert!(!holds.sub(ino, 1));
        assert!(holds.is_held(ino));
        assert!(holds.sub(ino, u64::MAX));
        holds.dropped();
        assert!(!holds.sub(ino, 1) && !holds.has_orphans(), "it is gone");
    }
}
