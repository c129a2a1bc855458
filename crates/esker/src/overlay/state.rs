//! What the overlay itself remembers: the inodes that are not simply those of one of the two homes.
//!
//! Above: `view` and `commit`. Invariant: an inode of the lower is listed from the moment when the upper has it (or
//! when it is gone), and stays listed; one of the upper since some of its bytes came from below. No lock of this
//! table is held while one of the two homes is asked.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound;

use super::below::{Below, Piece};
use super::slots::{Slot, Slots};
use crate::attr::{Attr, Kind};
use crate::ground::order::Rank;
use crate::ground::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::ground::sync::{Mutex, MutexGuard, RwLock};
use crate::ids::{Cursor, Ino};

/// Parts of the table, each with a lock of its own.
const SHARDS: usize = 64;
/// Bytes that an inode takes in the table, in about, and one piece or name of it.
const INODE_LEN: u64 = 160;
const PART_LEN: u64 = 64;

/// An inode of the table.
#[derive(Debug)]
pub(super) enum State {
    /// It was below, and is nowhere now.
    Gone,
    /// A directory of both: names below, and others above.
    Directory {
        /// Names that it has below.
        below: u64,
        /// What became of them.
        slots: Slots,
    },
    /// Anything else that the upper has, with bytes that come from below.
    Content {
        /// Those bytes.
        below: Below,
        /// The most space that they can take, in granules.
        granules_max: u64,
    },
}

impl State {
    /// Of an inode of which nothing is below.
    pub(super) fn of(attr: &Attr) -> Self {
        match attr.kind {
            Kind::Directory => Self::Directory { below: 0, slots: Slots::default() },
            _ => Self::Content { below: Below::default(), granules_max: 0 },
        }
    }

    /// Bytes that it takes.
    fn weight(&self) -> u64 {
        let parts = match self {
            Self::Gone => 0,
            Self::Directory { slots, .. } => slots.len(),
            Self::Content { below, .. } => below.len(),
        };
        INODE_LEN + parts as u64 * PART_LEN
    }

    /// What comes on top of the upper's attributes.
    fn told(&self) -> Told {
        match self {
            Self::Gone => Told::Gone,
            Self::Directory { below, slots } => {
                Told::Above { size: below.saturating_sub(slots.hidden_count()), blocks: 0 }
            }
            Self::Content { below, granules_max } => {
                Told::Above { size: 0, blocks: below.granules().min(*granules_max) }
            }
        }
    }
}

/// What the table says of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Nothing: it is as one of the two homes has it.
    Nothing,
    /// It was below, and is nowhere now.
    Gone,
    /// The upper has it; this much of it is below.
    Above {
        /// Names.
        size: u64,
        /// Space.
        blocks: u64,
    },
}

/// In lines of the processor's cache of its own.
#[repr(align(128))]
struct Shard {
    states: RwLock<BTreeMap<u64, State>>,
    /// One inode is being brought up at a time.
    lift: Mutex<()>,
}

/// The table.
pub(super) struct States {
    shards: Box<[Shard]>,
    /// Inodes of the lower that are listed.
    listed: AtomicU64,
    /// Inodes of the upper that are listed.
    borrowers: AtomicU64,
    bytes: AtomicU64,
}

impl States {
    /// Nothing changed yet.
    pub(super) fn new() -> Self {
        let shard = |number| Shard {
            states: RwLock::new(Rank::Overlay.number(number), BTreeMap::new()),
            lift: Mutex::new(Rank::Lift.number(number), ()),
        };
        Self {
            shards: (0..SHARDS).map(shard).collect(),
            listed: AtomicU64::new(0),
            borrowers: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Nothing changed any more.
    pub(super) fn clear(&mut self) {
        self.shards.iter_mut().for_each(|shard| shard.states.get_mut().clear());
        for count in [&mut self.listed, &mut self.borrowers, &mut self.bytes] {
            *count.get_mut() = 0;
        }
    }

    fn shard(&self, ino: Ino) -> &Shard {
        &self.shards[(ino.0 % SHARDS as u64) as usize]
    }

    /// The right to bring this inode up.
    pub(super) fn lift(&self, ino: Ino) -> MutexGuard<'_, ()> {
        self.shard(ino).lift.lock()
    }

    fn with<R>(&self, ino: Ino, f: impl FnOnce(Option<&State>) -> R) -> R {
        f(self.shard(ino).states.read().get(&ino.0))
    }

    fn edit<R>(&self, ino: Ino, f: impl FnOnce(&mut State) -> R) -> Option<R> {
        let mut states = self.shard(ino).states.write();
        let state = states.get_mut(&ino.0)?;
        let before = state.weight();
        let result = f(state);
        let after = state.weight();
        drop(states);
        self.weigh(before, after);
        Some(result)
    }

    fn weigh(&self, before: u64, after: u64) {
        if after >= before {
            self.bytes.fetch_add(after - before, Relaxed);
        } else {
            self.bytes.fetch_sub(before - after, Relaxed);
        }
    }

    /// What is known of an inode.
    pub(super) fn told(&self, ino: Ino) -> Told {
        self.with(ino, |state| state.map_or(Told::Nothing, State::told))
    }

    /// An inode of the lower is listed.
    pub(super) fn list(&self, ino: Ino, state: State) {
        self.weigh(0, state.weight());
        let old = self.shard(ino).states.write().insert(ino.0, state);
        self.listed.fetch_add(u64::from(old.is_none()), Relaxed);
        self.weigh(old.map_or(0, |old| old.weight()), 0);
    }

    /// An inode of the upper is listed, since its number is one of the lower's.
    pub(super) fn list_late(&self, ino: Ino, state: State) {
        self.weigh(0, state.weight());
        self.shard(ino).states.write().insert(ino.0, state);
    }

    /// It is not there after all.
    pub(super) fn unlist_late(&self, ino: Ino) {
        if let Some(old) = self.shard(ino).states.write().remove(&ino.0) {
            self.weigh(old.weight(), 0);
        }
    }

    /// An inode of the upper borrows from below no more.
    pub(super) fn unlist(&self, ino: Ino) {
        if let Some(old) = self.shard(ino).states.write().remove(&ino.0) {
            self.weigh(old.weight(), 0);
            self.borrowers.fetch_sub(1, Relaxed);
        }
    }

    /// What a name of a lower directory means now.
    pub(super) fn slot(&self, dir: Ino, place: Cursor) -> Slot {
        self.with(dir, |state| match state {
            Some(State::Directory { slots, .. }) => slots.get(place),
            _ => Slot::Own,
        })
    }

    /// Whether all names of a lower directory mean what they mean below.
    pub(super) fn has_own_names(&self, dir: Ino) -> bool {
        self.with(dir, |state| match state {
            Some(State::Directory { slots, .. }) => slots.is_empty(),
            _ => true,
        })
    }

    /// Says what a name of a lower directory means.
    pub(super) fn set_slot(&self, dir: Ino, place: Cursor, slot: Slot) {
        self.edit(dir, |state| {
            if let State::Directory { slots, .. } = state {
                slots.set(place, slot);
            }
        });
    }

    /// What of `start..end` comes from below.
    pub(super) fn pieces(&self, ino: Ino, start: u64, end: u64) -> Vec<Piece> {
        self.with(ino, |state| match state {
            Some(State::Content { below, .. }) => below.within(start, end),
            _ => Vec::new(),
        })
    }

    /// The piece that holds byte `at`, or the first one behind it.
    pub(super) fn next_piece(&self, ino: Ino, at: u64) -> Option<Piece> {
        self.with(ino, |state| match state {
            Some(State::Content { below, .. }) => below.next(at),
            _ => None,
        })
    }

    /// `start..end` does not come from below any more.
    pub(super) fn cover(&self, ino: Ino, start: u64, end: u64) {
        self.edit(ino, |state| {
            if let State::Content { below, .. } = state {
                below.remove(start, end);
            }
        });
    }

    /// These bytes of `ino`, an inode of the upper when `borrows`, come from below; they take at most this space.
    pub(super) fn borrow(&self, ino: Ino, pieces: &[Piece], granules: u64, borrows: bool) {
        if borrows && !pieces.is_empty() {
            let mut states = self.shard(ino).states.write();
            if let alloc::collections::btree_map::Entry::Vacant(vacant) = states.entry(ino.0) {
                let state = State::Content { below: Below::default(), granules_max: 0 };
                self.weigh(0, state.weight());
                vacant.insert(state);
                self.borrowers.fetch_add(1, Relaxed);
            }
        }
        self.edit(ino, |state| {
            if let State::Content { below, granules_max } = state {
                *granules_max = granules_max.saturating_add(granules);
                pieces.iter().for_each(|&piece| below.put(piece));
            }
        });
    }

    /// The most space that the bytes from below can take.
    pub(super) fn granules_max(&self, ino: Ino) -> u64 {
        self.with(ino, |state| match state {
            Some(State::Content { granules_max, .. }) => *granules_max,
            _ => 0,
        })
    }

    /// The first listed inode behind this one in its shard, or the first one of the next.
    pub(super) fn next(&self, behind: Option<Ino>) -> Option<(Ino, Told)> {
        let mut shard = behind.map_or(0, |ino| (ino.0 % SHARDS as u64) as usize);
        let mut from = behind.map_or(Bound::Unbounded, |ino| Bound::Excluded(ino.0));
        while let Some(found) = self.shards.get(shard) {
            let states = found.states.read();
            if let Some((&ino, state)) = states.range((from, Bound::Unbounded)).next() {
                return Some((Ino(ino), state.told()));
            }
            (shard, from) = (shard + 1, Bound::Unbounded);
        }
        None
    }

    /// Whether any inode of the upper borrows from below.
    pub(super) fn has_borrowers(&self) -> bool {
        self.borrowers.load(Relaxed) > 0
    }

    /// Inodes of the lower that are not just there.
    pub(super) fn listed(&self) -> u64 {
        self.listed.load(Relaxed)
    }

    /// Bytes that all this takes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }
}
