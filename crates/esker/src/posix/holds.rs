//! How many times each inode is held from outside (a kernel's lookup count, open files).
//!
//! Invariant: only inodes held at least once are listed, so what nobody holds costs nothing.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use crate::ground::sync::{Mutex, MutexGuard};
use crate::ids::Ino;

const SHARDS: usize = 64;

/// A count for each inode that is held. A count that reaches its end stays there: the inode is then
/// kept for the life of the instance, which is safe.
pub(super) struct Holds {
    shards: Box<[Mutex<BTreeMap<u64, u32>>]>,
}

impl Holds {
    pub(super) fn new() -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::new(BTreeMap::new())).collect() }
    }

    /// Once more.
    pub(super) fn add(&self, ino: Ino) {
        let mut shard = self.shard(ino);
        let count = shard.entry(ino.0).or_insert(0);
        *count = count.saturating_add(1);
    }

    /// `count` times less; whether nobody holds it now.
    pub(super) fn sub(&self, ino: Ino, count: u64) -> bool {
        let mut shard = self.shard(ino);
        let Some(held) = shard.get_mut(&ino.0) else { return true };
        if *held == u32::MAX {
            return false;
        }
        *held = u32::try_from(u64::from(*held).saturating_sub(count)).unwrap_or(0);
        let free = *held == 0;
        if free {
            shard.remove(&ino.0);
        }
        free
    }

    /// At least once.
    pub(super) fn is_held(&self, ino: Ino) -> bool {
        self.shard(ino).contains_key(&ino.0)
    }

    fn shard(&self, ino: Ino) -> MutexGuard<'_, BTreeMap<u64, u32>> {
        self.shards[(ino.0 % SHARDS as u64) as usize].lock()
    }
}
