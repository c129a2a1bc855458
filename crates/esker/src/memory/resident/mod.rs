//! The embedded home: everything in the memory itself, which outlives the process, the program's upgrade, the
//! power. See FORMAT.md, "The embedded home".
//!
//! | file | what it holds |
//! |---|---|
//! | superblock.rs | how such a memory begins |
//! | cache.rs, pages.rs | pages of trees at hand, and in the memory |
//! | pairs.rs | accounts of space in trees |
//! | known.rs | records at hand |
//! | open.rs | making such a home, and finding one |
//! | warm.rs | short cuts for bytes that are used again and again |
//!
//! Above: `memory`, whose files do all the work of a home; this is what they stand on. Below: any [`Memory`].
//! Invariant: a commit changes pages at hand, and data that no file has yet; at its end all of that, and only
//! then anything else, goes to the memory. So what a returned call did is in the memory, and a commit that
//! fails leaves none of it.

mod cache;
mod known;
mod open;
mod pages;
mod pairs;
mod superblock;
#[cfg(test)]
mod tests;
mod warm;

use alloc::sync::Arc;
use alloc::vec::Vec;

pub use open::OpenError;
pub use superblock::Superblock;

use self::known::Known;
use self::pages::{Pool, ResidentPages};
use self::pairs::TreePairs;
use self::warm::State;
use super::base::Base;
use super::free::{Free, PAGE, Run};
use super::home::Home;
use super::plan::Ledger;
use super::record::Record;
use super::refs::Refs;
use crate::attr::{Kind, Time};
use crate::error::{Error, Result};
use crate::ground::sync::{Mutex, MutexGuard};
use crate::ground::{Budget, Memory};
use crate::ids::Ino;
use crate::limits::{GRANULE, RELEASE_UNIT};
use crate::store::{Entry, Use};
use crate::tree::{PageId, Tree};

/// A memory that a home lies in as a whole.
pub struct Resident<M> {
    pool: Arc<Pool<M>>,
    state: Mutex<State>,
    known: Mutex<Known>,
    tuning: Tuning,
}

/// How a home in a memory is used: nothing that the memory keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Pages of the tree of keys at hand, of 4 KiB, about.
    pub cache_pages: usize,
    /// Bytes that a file takes at least where something is written into a hole of it: a power of two from 512 to
    /// 65,536.
    pub page_size: u32,
}

impl Tuning {
    /// 4 MiB at hand, and no byte taken that is not needed.
    pub const USUAL: Self = Self { cache_pages: 1024, page_size: GRANULE as u32 };

    fn fits(&self) -> bool {
        let range = GRANULE..=RELEASE_UNIT;
        self.page_size.is_power_of_two() && range.contains(&u64::from(self.page_size))
    }
}

/// The trees, by the numbers of their caches.
const KEYS: usize = 0;
const STARTS: usize = 1;
const LENS: usize = 2;
const USES: usize = 3;

fn root<M: Memory>(tree: &Tree<ResidentPages<M>>) -> (u32, u8) {
    let (PageId(root), levels) = tree.root();
    (root, levels)
}

impl<M: Memory> Home<Resident<M>> {
    /// The superblock that tells of everything as it is now.
    fn superblock(&self, before: &Superblock) -> Result<Superblock> {
        let (next_ino, inodes) = self.counts();
        let tree = self.trees[0].read();
        let (keys_root, keys_levels) = root(tree.tree().ok_or(Error::Corrupt)?);
        drop(tree);
        let (uses_root, uses_levels) = root(&self.space.refs.lock().runs.0);
        let map = self.space.map.lock();
        let (starts_root, starts_levels) = root(&map.free.by_start.0);
        let (lens_root, lens_levels) = root(&map.free.by_len.0);
        Ok(Superblock {
            spare: self.space.base.pool.spare() as u32,
            pages: self.space.base.pool.pages(),
            end: map.free.end(),
            free: map.free.total(),
            next_ino,
            inodes,
            keys_root,
            starts_root,
            lens_root,
            uses_root,
            keys_levels,
            starts_levels,
            lens_levels,
            uses_levels,
            ..*before
        })
    }

    /// Everything that is only at hand goes to the memory.
    fn store(&self, state: &mut State) -> Result<()> {
        let superblock = self.superblock(&state.superblock)?;
        if let Some(tree) = self.trees[0].read().tree() {
            tree.pages().flush()?;
            state.moved_to(tree.layout());
        }
        self.space.refs.lock().runs.0.pages().flush()?;
        let map = self.space.map.lock();
        map.free.by_start.0.pages().flush()?;
        map.free.by_len.0.pages().flush()?;
        drop(map);
        let pool = &self.space.base.pool;
        pool.store_spare()?;
        if superblock != state.superblock {
            let sequence = superblock.sequence.wrapping_add(1);
            let superblock = Superblock { sequence, ..superblock };
            pool.memory.write(0, &superblock.sealed())?;
            state.superblock = superblock;
        }
        pool.memory.whole()
    }

    /// What is at hand is what the memory has.
    fn reload(&self, state: &State) -> Result<()> {
        let stored = &state.superblock;
        self.space.base.pool.load_spare(stored)?;
        let reopen = |tree: &mut Tree<ResidentPages<M>>, root, levels| {
            tree.pages().forget();
            tree.reopen(PageId(root), levels)
        };
        let mut keys = self.trees[0].write();
        let tree = keys.tree_mut().ok_or(Error::Corrupt)?;
        reopen(tree, stored.keys_root, stored.keys_levels)?;
        keys.inodes = stored.inodes;
        drop(keys);
        // The number of a new inode that never came is gone.
        let (next_ino, _) = self.counts();
        self.set_counts(next_ino, stored.inodes);
        let mut refs = self.space.refs.lock();
        reopen(&mut refs.runs.0, stored.uses_root, stored.uses_levels)?;
        let shared = !refs.is_empty()?;
        drop(refs);
        let mut map = self.space.map.lock();
        reopen(&mut map.free.by_start.0, stored.starts_root, stored.starts_levels)?;
        reopen(&mut map.free.by_len.0, stored.lens_root, stored.lens_levels)?;
        map.free.set_counts(stored.free, stored.end);
        drop(map);
        self.space.set_shared(shared);
        self.budget.reset((stored.end - stored.free) * GRANULE);
        Ok(())
    }

    /// The memory, after the last call.
    #[must_use]
    pub fn into_memory(self) -> Option<M> {
        let pool = Arc::clone(&self.space.base.pool);
        drop(self);
        Arc::into_inner(pool).map(|pool| pool.memory)
    }
}

impl<M: Memory> Base for Resident<M> {
    type Memory = M;
    type Pages = ResidentPages<M>;
    type Pairs = TreePairs<M>;
    type Turn<'a>
        = MutexGuard<'a, State>
    where
        M: 'a;

    const GROUPS: usize = 1;
    const LASTING: bool = true;
    // A commit that grows a file costs as much as 300 small appends that need none.
    const AHEAD_EIGHTHS: u64 = 24;
    const AHEAD_MIN: u64 = (64 << 10) / GRANULE;

    #[inline]
    fn memory(&self) -> &M {
        &self.pool.memory
    }

    #[inline]
    fn page(&self) -> u64 {
        u64::from(self.tuning.page_size) / GRANULE
    }

    fn pages(&self, _: &Arc<Budget>) -> ResidentPages<M> {
        ResidentPages::new(Arc::clone(&self.pool), KEYS, self.tuning.cache_pages)
    }

    #[inline]
    fn spare(&self) -> usize {
        self.pool.spare()
    }

    fn stock(&self, pages: Run) {
        self.pool.stock(pages);
    }

    fn unstock(&self, keep: usize) -> Option<Run> {
        self.pool.unstock(keep)
    }

    fn own_bytes(&self) -> u64 {
        (u64::from(self.pool.pages()) + 1) * crate::limits::PAGE_SIZE as u64
    }

    fn own_runs(home: &Home<Self>) -> Result<Vec<Run>> {
        let mut ids: Vec<u32> = alloc::vec![0];
        ids.extend(home.space.base.pool.spare_ids());
        let mut walk = |tree: &Tree<ResidentPages<M>>| {
            tree.page_ids().map(|found| ids.extend(found.iter().map(|id| id.0)))
        };
        walk(home.trees[0].read().tree().ok_or(Error::Corrupt)?)?;
        walk(&home.space.refs.lock().runs.0)?;
        let map = home.space.map.lock();
        walk(&map.free.by_start.0)?;
        walk(&map.free.by_len.0)?;
        Ok(ids.iter().map(|&id| Run { start: u64::from(id) * PAGE, len: PAGE }).collect())
    }

    #[inline]
    fn begin(home: &Home<Self>) -> Result<MutexGuard<'_, State>> {
        Ok(home.space.base.state.lock())
    }

    fn touched(
        home: &Home<Self>,
        state: &mut MutexGuard<'_, State>,
        ino: Ino,
        left: Option<&Record>,
    ) {
        state.cool(ino);
        home.space.base.known.lock().changed(ino, left);
    }

    fn renamed(home: &Home<Self>, dir: Ino, name: &[u8]) {
        home.space.base.known.lock().forget_entry(dir, name);
    }

    #[inline]
    fn record<R>(
        home: &Home<Self>,
        ino: Ino,
        look: impl FnOnce(&Record) -> R,
        find: impl FnOnce() -> Result<Record>,
    ) -> Result<R> {
        let known = &home.space.base.known;
        let since = {
            let known = known.lock();
            if let Some(record) = known.get(ino) {
                return Ok(look(record));
            }
            known.since()
        };
        let record = find()?;
        // A path leads through a directory again and again; of others, what was changed last is asked for.
        if matches!(record.kind(), Ok(Kind::Directory)) {
            known.lock().put(ino, &record, since);
        }
        Ok(look(&record))
    }

    #[inline]
    fn entry(
        home: &Home<Self>,
        dir: Ino,
        name: &[u8],
        find: impl FnOnce() -> Result<Entry>,
    ) -> Result<Entry> {
        let known = &home.space.base.known;
        let since = {
            let known = known.lock();
            if let Some(entry) = known.entry(dir, name) {
                return Ok(entry);
            }
            if known.is_absent(dir, name) {
                return Err(Error::NotFound);
            }
            known.since()
        };
        let found = find();
        match found {
            Ok(entry) if entry.kind == Kind::Directory => {
                known.lock().put_entry(dir, name, entry, since);
            }
            Err(Error::NotFound) => known.lock().put_absent(dir, name, since),
            _ => {}
        }
        found
    }

    fn finish(home: &Home<Self>, state: &mut MutexGuard<'_, State>) -> Result<()> {
        home.store(state)
    }

    fn give_up(home: &Home<Self>, _: &Ledger, state: &mut MutexGuard<'_, State>) -> Result<()> {
        state.cool_all();
        let done = home.reload(state);
        home.space.base.known.lock().forget_all();
        done
    }

    fn sync(home: &Home<Self>) -> Result<()> {
        home.memory().sync()
    }

    #[inline(always)]
    fn rewrite(home: &Home<Self>, ino: Ino, at: u64, source: &[u8], now: Time) -> Result<bool> {
        home.rewrite_warm(ino, at, source, now)
    }

    #[inline]
    fn reread(
        home: &Home<Self>,
        ino: Ino,
        at: u64,
        target: &mut [u8],
        now: Time,
    ) -> Result<Option<usize>> {
        home.reread_warm(ino, at, target, now)
    }

    #[inline]
    fn warm(home: &Home<Self>, ino: Ino, after: Use, now: Time) {
        home.warm_up(ino, after, now);
    }
}

/// Accounts of free space as the trees have them.
fn accounts<M: Memory>(
    by_start: Tree<ResidentPages<M>>,
    by_len: Tree<ResidentPages<M>>,
    uses: Tree<ResidentPages<M>>,
    superblock: &Superblock,
) -> (Free<TreePairs<M>>, Refs<TreePairs<M>>) {
    let (by_start, by_len) = (TreePairs(by_start), TreePairs(by_len));
    let free = Free::new(by_start, by_len, superblock.free, superblock.end);
    (free, Refs { runs: TreePairs(uses) })
}
