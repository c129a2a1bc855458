//! What was decoded and may be asked for again: pages and blocks of all images, within one limit.
//!
//! Above: homes at rest, which share one. Invariant: whenever something was loaded, what is counted is not above the
//! limit, but for what is in use just then and that one thing; a thing is loaded by one thread, and others that want it
//! wait for that one.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use crate::ahead::Readers;
use crate::rooms::Rooms;
use crate::rows::blocks::Blocks;
use crate::rows::extents::Extents;
use crate::rows::inodes::Inodes;
use crate::rows::names::Names;
use crate::rows::pages;
use crate::rows::places::Listings;
use crate::rows::xattrs::Xattrs;
use crate::words::Words;

/// Bytes that an entry takes besides its value, in about.
const ENTRY_LEN: usize = 256;

/// Most rooms that wait for what is decoded, and which part of the limit they take at most.
const ROOMS_MAX: usize = 4;
const ROOMS_PART: usize = 8;

/// What is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The image, as numbered by [`Cache::number`].
    pub image: u64,
    /// What it is, so that two things of one place do not meet.
    pub what: What,
    /// Its segment.
    pub segment: u64,
    /// Its offset or slot.
    pub number: u64,
}

/// What a kept thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum What {
    /// A page, taken apart.
    Page,
    /// The plain bytes of a page that others have as their base.
    Plain,
    /// The plain bytes of a block, from its beginning.
    Block,
    /// A unit of a block that is stored as it is, or a section of one that is told in words: its offset has that in it.
    Unit,
    /// The form of a block that is told in the words of another one, from its beginning.
    Form,
    /// The words of a block that has its own, and its form in them, from its beginning: others may have that as their
    /// base.
    Words,
}

/// A thing that can be kept.
pub trait Kept: Any + Send + Sync {
    /// Bytes that it takes.
    fn memory(&self) -> usize;
}

impl Kept for Vec<u8> {
    fn memory(&self) -> usize {
        self.capacity()
    }
}

macro_rules! pages {
    ($($page:ty),*) => {$(
        impl Kept for $page {
            fn memory(&self) -> usize {
                self.memory()
            }
        }
    )*};
}
pages!(Inodes, Names, Listings, Xattrs, Extents, Blocks, pages::Inner, Words);

type Value = Arc<dyn Any + Send + Sync>;

/// One thing, or its place while it is loaded.
#[derive(Default)]
struct Cell(Mutex<Option<Value>>);

struct Entry {
    cell: Arc<Cell>,
    /// When it was last wanted; its place in the order of leaving.
    tick: u64,
    bytes: usize,
}

#[derive(Default)]
struct Inner {
    entries: HashMap<Key, Entry>,
    order: BTreeMap<u64, Key>,
    tick: u64,
    bytes: usize,
}

/// A cache that images share.
pub struct Cache {
    limit: usize,
    readers: Option<Readers>,
    rooms: Arc<Rooms>,
    inner: Mutex<Inner>,
    images: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// How a cache fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheUse {
    /// Bytes in use.
    pub bytes: usize,
    /// Bytes that may be in use.
    pub limit: usize,
    /// Questions answered from it.
    pub hits: u64,
    /// Questions that had to load.
    pub misses: u64,
}

/// The lock, also after a thread that held it has panicked: what lies under it is whole at every step.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    fn touch(&mut self, key: Key) -> Arc<Cell> {
        self.tick += 1;
        let tick = self.tick;
        let entry = self.entries.entry(key).or_insert_with(|| Entry {
            cell: Arc::default(),
            tick,
            bytes: 0,
        });
        self.order.remove(&entry.tick);
        self.order.insert(tick, key);
        entry.tick = tick;
        Arc::clone(&entry.cell)
    }

    fn take_out(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.order.remove(&entry.tick);
            self.bytes -= entry.bytes;
        }
    }

    /// Whether nobody uses it: what somebody does stays in memory all the same, and would only be loaded once more.
    fn is_idle(&self, key: &Key) -> bool {
        let value = match self.entries.get(key).map(|entry| entry.cell.0.try_lock()) {
            Some(Ok(value)) => value,
            Some(Err(TryLockError::Poisoned(value))) => value.into_inner(),
            // Somebody loads it, or looks at it.
            Some(Err(TryLockError::WouldBlock)) | None => return false,
        };
        value.as_ref().is_some_and(|own| Arc::strong_count(own) == 1)
    }

    /// Counts what was loaded; what was not wanted for longest, and is not in use, makes room.
    fn count(&mut self, key: Key, cell: &Arc<Cell>, bytes: usize, limit: usize) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        // Somebody else may have thrown it out and loaded it again meanwhile.
        if !Arc::ptr_eq(&entry.cell, cell) {
            return;
        }
        self.bytes = self.bytes - entry.bytes + bytes;
        entry.bytes = bytes;
        let mut over = self.bytes.saturating_sub(limit);
        let mut gone = Vec::new();
        for other in self.order.values().filter(|&&other| other != key) {
            if over == 0 {
                break;
            }
            if self.is_idle(other) {
                over = over.saturating_sub(self.entries.get(other).map_or(0, |entry| entry.bytes));
                gone.push(*other);
            }
        }
        gone.iter().for_each(|other| self.take_out(other));
    }
}

impl Cache {
    /// An empty one for so many bytes, of which two fifths are for what is being loaded: that is not in it yet.
    #[must_use]
    pub fn new(limit: usize) -> Arc<Self> {
        Self::with(limit, None)
    }

    /// One that so many threads fill with what is likely to be asked for next.
    #[must_use]
    pub fn with_readers(limit: usize, count: usize) -> Arc<Self> {
        Self::with(limit, Some(Readers::start(count)))
    }

    fn with(limit: usize, readers: Option<Readers>) -> Arc<Self> {
        Arc::new(Self {
            limit: limit - limit / 5 * 2,
            rooms: Arc::new(if readers.is_some() { Rooms::kept() } else { Rooms::none() }),
            readers,
            inner: Mutex::default(),
            images: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        })
    }

    /// The threads that decode ahead.
    #[must_use]
    pub const fn readers(&self) -> Option<&Readers> {
        self.readers.as_ref()
    }

    /// Bytes that may be kept.
    #[must_use]
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// A number for one more image.
    pub fn number(&self) -> u64 {
        self.images.fetch_add(1, Ordering::Relaxed)
    }

    /// How it fares.
    #[must_use]
    pub fn usage(&self) -> CacheUse {
        CacheUse {
            bytes: locked(&self.inner).bytes,
            limit: self.limit,
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }

    /// Gives back everything that nobody uses.
    pub fn clear(&self) {
        let mut inner = locked(&self.inner);
        inner.entries.clear();
        inner.order.clear();
        inner.bytes = 0;
        self.rooms.clear();
    }

    /// Where what it is to keep may be decoded to.
    #[must_use]
    pub const fn rooms(&self) -> &Arc<Rooms> {
        &self.rooms
    }

    /// Something of up to `len` bytes was decoded: has room touched for what is next, if there are threads for it. That
    /// is of the two fifths that are not for keeping.
    pub fn make_room(&self, len: usize) {
        let count = (self.limit / ROOMS_PART / len.max(1)).min(ROOMS_MAX);
        let Some(readers) = self.readers.as_ref().filter(|_| self.rooms.lacks(len, count)) else {
            return;
        };
        let rooms = Arc::clone(&self.rooms);
        readers.ask(Box::new(move || rooms.fill(len, count)));
    }

    /// Whether there is something of this key, or is about to be.
    #[must_use]
    pub fn holds(&self, key: &Key) -> bool {
        locked(&self.inner).entries.contains_key(key)
    }

    /// The thing of this key, if it is here.
    #[must_use]
    pub fn peek<T: Kept>(&self, key: Key) -> Option<Arc<T>> {
        let mut inner = locked(&self.inner);
        if !inner.entries.contains_key(&key) {
            return None;
        }
        let cell = inner.touch(key);
        drop(inner);
        let value = locked(&cell.0).clone();
        value?.downcast().ok()
    }

    /// Keeps a thing that was not loaded.
    pub fn put<T: Kept>(&self, key: Key, thing: T) {
        let Ok(_) = self.get(key, |_| true, |_| Ok::<T, std::convert::Infallible>(thing));
    }

    /// The thing of this key if it is good enough, or what `load` makes of it (or of nothing).
    ///
    /// # Errors
    /// What `load` says.
    pub fn get<T: Kept, E>(
        &self,
        key: Key,
        good: impl Fn(&T) -> bool,
        load: impl FnOnce(Option<Arc<T>>) -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let cell = locked(&self.inner).touch(key);
        let mut value = locked(&cell.0);
        let known = value.clone().and_then(|value| value.downcast::<T>().ok());
        if let Some(known) = known.as_ref().filter(|known| good(known)) {
            self.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(Arc::clone(known));
        }
        self.misses.fetch_add(1, Ordering::Relaxed);
        match load(known) {
            Ok(loaded) => {
                let loaded = Arc::new(loaded);
                *value = Some(Arc::clone(&loaded) as Value);
                drop(value);
                let bytes = loaded.memory() + ENTRY_LEN;
                locked(&self.inner).count(key, &cell, bytes, self.limit);
                Ok(loaded)
            }
            Err(error) => {
                let empty = value.is_none();
                drop(value);
                if empty {
                    locked(&self.inner).take_out(&key);
                }
                Err(error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> Key {
        Key { image: 0, what: What::Block, segment: 3, number }
    }

    fn load(cache: &Cache, number: u64, len: usize) -> Arc<Vec<u8>> {
        let made = |_| Ok::<_, ()>(vec![number as u8; len]);
        cache.get(key(number), |_: &Vec<u8>| true, made).unwrap()
    }

    #[test]
    fn the_limit_is_kept_and_the_oldest_leaves() {
        let cache = Cache::new(10 * (1000 + ENTRY_LEN));
        for number in 0..100 {
            load(&cache, number, 1000);
            load(&cache, 0, 1000);
            assert!(cache.usage().bytes <= cache.usage().limit);
        }
        // What was wanted again and again stayed, and so did the last few.
        let misses = cache.usage().misses;
        for number in [0, 99, 98, 97] {
            load(&cache, number, 1000);
        }
        assert_eq!(cache.usage().misses, misses);
        load(&cache, 1, 1000);
        assert_eq!(cache.usage().misses, misses + 1);
        cache.clear();
        assert_eq!(cache.usage().bytes, 0);
    }

    #[test]
    fn what_is_larger_than_the_limit_is_served_all_the_same() {
        let cache = Cache::new(100);
        assert_eq!(load(&cache, 1, 5000).len(), 5000);
        load(&cache, 2, 10);
        assert!(cache.usage().bytes <= 10 + ENTRY_LEN);
    }

    #[test]
    fn what_is_in_use_stays_until_it_is_not() {
        let cache = Cache::new(10 * (1000 + ENTRY_LEN));
        let held = [load(&cache, 0, 5000), load(&cache, 1, 5000)];
        (2..50).for_each(|number| drop(load(&cache, number, 1000)));
        assert!(cache.holds(&key(0)) && cache.holds(&key(1)));
        drop(held);
        (50..100).for_each(|number| drop(load(&cache, number, 1000)));
        assert!(!cache.holds(&key(0)) && !cache.holds(&key(1)));
        assert!(cache.usage().bytes <= cache.usage().limit);
    }

    #[test]
    fn what_was_put_there_is_there() {
        let cache = Cache::new(10 * (1000 + ENTRY_LEN));
        assert!(cache.peek::<Vec<u8>>(key(1)).is_none());
        cache.put(key(1), vec![7; 1000]);
        assert_eq!(cache.peek(key(1)), Some(Arc::new(vec![7u8; 1000])));
        for number in 2..100 {
            cache.put(key(number), vec![0; 1000]);
            assert!(cache.peek::<Vec<u8>>(key(1)).is_some(), "it was wanted");
            assert!(cache.usage().bytes <= cache.usage().limit);
        }
        assert!(cache.peek::<Vec<u8>>(key(2)).is_none());
    }

    #[test]
    fn a_failure_is_not_kept() {
        let cache = Cache::new(1 << 20);
        let failed = cache.get::<Vec<u8>, _>(key(1), |_| true, |_| Err("no"));
        assert_eq!(failed, Err("no"));
        assert_eq!(load(&cache, 1, 10).len(), 10);
    }

    #[test]
    fn many_threads_load_a_thing_once() {
        let cache = Cache::new(1 << 20);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..100).for_each(|number| drop(load(&cache, number, 100))));
            }
        });
        assert_eq!(cache.usage().misses, 100);
        assert_eq!(cache.usage().hits, 700);
    }
}
