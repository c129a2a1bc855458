//! Pages of trees that live in the memory itself, behind a cache.
//!
//! Neighbours: `cache` holds those at hand; `space` turns data space into free pages and back. Invariant: pages
//! reach the memory only in [`ResidentPages::flush`], at the end of a commit: until then nothing has happened.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Deref;

use super::cache::Cache;
use super::superblock::{SPARE_MAX, SPARE_START, Superblock};
use crate::error::{Error, Result};
use crate::ground::Memory;
use crate::ground::order::Rank;
use crate::ground::sync::Mutex;
use crate::ground::sync::atomic::{AtomicU64, Ordering};
use crate::limits::PAGE_SIZE;
use crate::memory::base::Sheets;
use crate::memory::free::{PAGE, Run};
use crate::tree::{Page, PageId, PageMut, Pages};

/// Pages of a tree at hand, whatever was asked for: 4 GiB of them.
const AT_HAND_MAX: usize = 1 << 20;

/// Numbers of free pages.
#[derive(Default)]
struct Spare {
    ids: Vec<u32>,
    /// Pages in all, free or not.
    pages: u32,
    /// From here on they are not what the memory has.
    changed: usize,
}

/// A memory, and its free pages.
pub struct Pool<M> {
    pub memory: M,
    spare: Mutex<Spare>,
    /// Pages read, of all trees: as long as it stays, what is not at hand is nowhere.
    pub fetched: AtomicU64,
}

impl<M: Memory> Pool<M> {
    pub fn new(memory: M) -> Self {
        let spare = Mutex::new(Rank::Spare.only(), Spare::default());
        Self { memory, spare, fetched: AtomicU64::new(0) }
    }

    /// Free pages.
    #[inline]
    pub fn spare(&self) -> usize {
        self.spare.lock().ids.len()
    }

    /// Pages in all.
    pub fn pages(&self) -> u32 {
        self.spare.lock().pages
    }

    /// Their numbers.
    pub fn spare_ids(&self) -> Vec<u32> {
        self.spare.lock().ids.clone()
    }

    /// Pages of a run of granules are free, the first to be used first.
    pub fn stock(&self, run: Run) {
        let mut spare = self.spare.lock();
        let ids = (run.start / PAGE..run.end() / PAGE).rev();
        let known = spare.ids.len();
        spare.ids.extend(ids.filter_map(|id| u32::try_from(id).ok()));
        spare.pages += (spare.ids.len() - known) as u32;
    }

    /// One free page above `kept`, as granules.
    pub fn unstock(&self, keep: usize) -> Option<Run> {
        let mut spare = self.spare.lock();
        let id =
            if spare.ids.len() > keep.min(SPARE_MAX) { spare.ids.pop()? } else { return None };
        spare.changed = spare.changed.min(spare.ids.len());
        spare.pages = spare.pages.saturating_sub(1);
        Some(Run { start: u64::from(id) * PAGE, len: PAGE })
    }

    fn take(&self) -> Result<u32> {
        let mut spare = self.spare.lock();
        let id = spare.ids.pop().ok_or(Error::NoSpace)?;
        spare.changed = spare.changed.min(spare.ids.len());
        Ok(id)
    }

    fn give(&self, id: u32) {
        self.spare.lock().ids.push(id);
    }

    /// Writes the numbers of free pages behind the superblock, as far as they changed.
    pub fn store_spare(&self) -> Result<()> {
        let mut spare = self.spare.lock();
        let changed = spare.changed.min(spare.ids.len());
        let bytes: Vec<u8> = spare.ids[changed..].iter().flat_map(|id| id.to_le_bytes()).collect();
        spare.changed = spare.ids.len();
        if bytes.is_empty() {
            return Ok(());
        }
        self.memory.write((SPARE_START + changed * 4) as u64, &bytes)
    }

    /// Free pages are those that the memory says.
    pub fn load_spare(&self, superblock: &Superblock) -> Result<()> {
        let mut bytes = alloc::vec![0; (superblock.spare as usize).min(SPARE_MAX) * 4];
        self.memory.read(SPARE_START as u64, &mut bytes)?;
        let last = superblock.end / PAGE;
        let ids: Vec<u32> = bytes.as_chunks().0.iter().map(|id| u32::from_le_bytes(*id)).collect();
        if ids.iter().any(|&id| id == 0 || u64::from(id) >= last) {
            return Err(Error::Corrupt);
        }
        let changed = ids.len();
        *self.spare.lock() = Spare { ids, pages: superblock.pages, changed };
        Ok(())
    }
}

/// A page held for reading.
pub struct Held(Arc<Page>);

impl Deref for Held {
    type Target = Page;
    #[inline]
    fn deref(&self) -> &Page {
        &self.0
    }
}

/// The pages of one tree.
pub struct ResidentPages<M> {
    pool: Arc<Pool<M>>,
    cache: Mutex<Cache>,
}

impl<M: Memory> ResidentPages<M> {
    /// Those of tree `number`, about `capacity` of them at hand.
    pub fn new(pool: Arc<Pool<M>>, number: usize, capacity: usize) -> Self {
        let capacity = capacity.min(AT_HAND_MAX);
        Self { pool, cache: Mutex::new(Rank::Cache.number(number), Cache::new(capacity)) }
    }

    /// Writes what was changed.
    pub fn flush(&self) -> Result<()> {
        let memory = &self.pool.memory;
        self.cache.lock().flush(|id, run, page| {
            if !run.is_empty() {
                return memory.write(place(id) + run.start as u64, &page[run]);
            }
            // A page of hostile bytes may be in two trees, each of which has its own.
            if cfg!(debug_assertions) && !written(memory, id, page) {
                return Err(Error::Corrupt);
            }
            Ok(())
        })
    }

    /// Forgets what was changed.
    pub fn forget(&self) {
        self.cache.lock().forget();
    }

    /// The page is no longer at hand: whoever needs it reads it anew.
    pub fn let_go(&self, id: PageId) {
        self.cache.lock().let_go(id.0);
    }
}

/// Whether the memory has the page as it is here, as far as it can be read.
fn written<M: Memory>(memory: &M, id: u32, page: &Page) -> bool {
    let mut stored = [0; PAGE_SIZE];
    memory.read(place(id), &mut stored).is_err() || stored == *page
}

fn place(id: u32) -> u64 {
    u64::from(id) * PAGE_SIZE as u64
}

/// Fills a page from the memory.
fn read<M: Memory>(pool: &Pool<M>, id: u32, page: &mut Page) -> Result<()> {
    let memory = &pool.memory;
    pool.fetched.fetch_add(1, Ordering::SeqCst);
    let end = place(id) + PAGE_SIZE as u64;
    if id == 0 || end > memory.size() {
        return Err(Error::Corrupt);
    }
    memory.read(place(id), page)
}

impl<M: Memory> Pages for ResidentPages<M> {
    type Ref<'a>
        = Held
    where
        M: 'a;

    #[inline]
    fn get(&self, id: PageId) -> Result<Held> {
        let pool = &self.pool;
        self.cache.lock().get(id.0, |page| read(pool, id.0, page)).map(Held)
    }

    const KEEPS: bool = true;

    fn kept(&self, id: PageId) -> Result<Option<Arc<Page>>> {
        self.get(id).map(|held| Some(held.0))
    }

    #[inline]
    fn edit(&mut self, id: PageId) -> Result<PageMut<'_>> {
        let pool = &self.pool;
        self.cache.get_mut().edit(id.0, |page| read(pool, id.0, page))
    }

    fn allocate(&mut self) -> Result<PageId> {
        let id = self.pool.take()?;
        let memory = &self.pool.memory;
        self.cache.get_mut().begin(id, |page| memory.read(place(id), page))?;
        Ok(PageId(id))
    }

    fn free(&mut self, id: PageId) {
        self.cache.get_mut().end(id.0);
        self.pool.give(id.0);
    }

    fn reserve(&mut self, count: usize) -> Result<()> {
        if self.pool.spare() >= count { Ok(()) } else { Err(Error::NoSpace) }
    }
}

impl<M: Memory> Sheets for ResidentPages<M> {
    /// 1 MiB of them, once they are needed.
    const HINTS: usize = 131_072;

    fn overdraft(&mut self, _: bool) {}

    fn begin(&mut self) -> Result<()> {
        Ok(())
    }

    fn settle(&mut self, _: usize) -> bool {
        self.cache.get_mut().forget_gone()
    }

    /// Free or not, pages are claimed from data space, and charged there.
    fn held(&self) -> u64 {
        0
    }
}
