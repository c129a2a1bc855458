//! Making a home in an empty memory, and finding the one that a memory holds.
//!
//! Neighbours: `superblock` has the bytes. Invariant: opening reads a page and writes nothing; a memory that holds
//! anything else is left as it is.

use alloc::sync::Arc;
use core::fmt;

use super::known::Known;
use super::pages::{Pool, ResidentPages};
use super::superblock::{MAGIC, Superblock, VERSION};
use super::warm::State;
use super::{KEYS, LENS, Resident, STARTS, Tuning, USES, accounts};
use crate::error::{Error, Result};
use crate::ground::order::Rank;
use crate::ground::sync::Mutex;
use crate::ground::sync::atomic::Ordering;
use crate::ground::{Budget, Memory, is_blank};
use crate::ids::Ino;
use crate::limits::{GRANULE, PAGE_SIZE, RELEASE_UNIT};
use crate::memory::free::{PAGE, Run};
use crate::memory::home::{Home, Options};
use crate::memory::keys;
use crate::tree::{PageId, Tree};

/// Pages of the accounts of space at hand, of each.
const ACCOUNT_PAGES: usize = 64;

/// Why a memory cannot be opened. It was left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// It holds something else.
    Foreign,
    /// It holds a home of another version.
    Version {
        /// Which.
        found: u32,
    },
    /// Its pages or granules are of another size.
    PageSize {
        /// Bytes of a page.
        found: u32,
        /// Bytes of a granule.
        granule: u32,
    },
    /// No home can be used with files' pages of this size.
    Unfit {
        /// In bytes.
        page_size: u32,
    },
    /// Its superblock contradicts itself: it was written in part, or damaged.
    Torn,
    /// It is shorter than the home in it.
    Short {
        /// Bytes that there should be.
        needs: u64,
        /// Bytes that there are.
        has: u64,
    },
    /// The memory itself failed, or there is no space for a new home.
    Memory(Error),
}

impl From<Error> for OpenError {
    fn from(error: Error) -> Self {
        Self::Memory(error)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => write!(f, "the memory holds something else"),
            Self::Version { found } => {
                write!(f, "the memory holds version {found} of the format; this is {VERSION}")
            }
            Self::PageSize { found, granule } => {
                write!(f, "the memory has pages of {found} bytes and granules of {granule}")
            }
            Self::Unfit { page_size } => {
                write!(f, "a page of {page_size} bytes: a power of two from 512 to 65536 is wanted")
            }
            Self::Torn => write!(f, "the superblock is damaged"),
            Self::Short { needs, has } => {
                write!(f, "the home takes {needs} bytes, and the memory has {has}")
            }
            Self::Memory(error) => write!(f, "{error}"),
        }
    }
}

impl core::error::Error for OpenError {}

impl<M: Memory> Home<Resident<M>> {
    /// The home in this memory, or a new one, with the root directory that `options` say, in a memory that is blank
    /// ([`is_blank`]).
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(memory: M, options: &Options) -> Result<Self, OpenError> {
        Self::open_with(memory, options, &Tuning::USUAL)
    }

    /// The same, used otherwise.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_with(memory: M, options: &Options, tuning: &Tuning) -> Result<Self, OpenError> {
        if !tuning.fits() {
            return Err(OpenError::Unfit { page_size: tuning.page_size });
        }
        if is_blank(&memory)? {
            return Ok(Self::format(memory, options, tuning)?);
        }
        let superblock = Superblock::read(&memory)?;
        let pool = Arc::new(Pool::new(memory));
        pool.load_spare(&superblock)?;
        let tree = |number, capacity, root, levels| {
            let pages = ResidentPages::new(Arc::clone(&pool), number, capacity);
            Tree::open(pages, PageId(root), levels)
        };
        let starts = tree(STARTS, ACCOUNT_PAGES, superblock.starts_root, superblock.starts_levels)?;
        let lens = tree(LENS, ACCOUNT_PAGES, superblock.lens_root, superblock.lens_levels)?;
        let uses = tree(USES, ACCOUNT_PAGES, superblock.uses_root, superblock.uses_levels)?;
        let keys = tree(KEYS, tuning.cache_pages, superblock.keys_root, superblock.keys_levels)?;
        let home =
            Self::over(Arc::clone(&pool), options, tuning, superblock, [starts, lens, uses])?;
        let mut held = home.trees[0].write();
        held.set_tree(keys);
        held.inodes = superblock.inodes;
        drop(held);
        home.set_counts(superblock.next_ino, superblock.inodes);
        let first = home.tree(Ino(0)).get_first(&keys::orphan(Ino(0)))?;
        home.left_behind.store(first, Ordering::Relaxed);
        Ok(home)
    }

    fn over(
        pool: Arc<Pool<M>>,
        options: &Options,
        tuning: &Tuning,
        superblock: Superblock,
        [starts, lens, uses]: [Tree<ResidentPages<M>>; 3],
    ) -> Result<Self> {
        let (free, refs) = accounts(starts, lens, uses, &superblock);
        let state = Mutex::new(Rank::Turn.only(), State::new(superblock));
        let known = Mutex::new(Rank::Known.only(), Known::new());
        let base = Resident { pool, state, known, tuning: *tuning };
        let budget = Arc::new(Budget::new(options.size_max));
        budget.force((superblock.end - superblock.free) * GRANULE);
        Self::bare(base, budget, options.file_size_max, free, refs)
    }

    /// A new home: all of the first unit of the memory is pages.
    fn format(memory: M, options: &Options, tuning: &Tuning) -> Result<Self> {
        if options.size_max < RELEASE_UNIT {
            return Err(Error::NoSpace);
        }
        memory.grow(RELEASE_UNIT)?;
        let end = RELEASE_UNIT / GRANULE;
        let pool = Arc::new(Pool::new(memory));
        pool.stock(Run { start: PAGE, len: end - PAGE });
        let tree = |number| Tree::new(ResidentPages::new(Arc::clone(&pool), number, ACCOUNT_PAGES));
        let accounts = [tree(STARTS)?, tree(LENS)?, tree(USES)?];
        let superblock = Superblock {
            magic: MAGIC,
            version: VERSION,
            page_size: PAGE_SIZE as u32,
            granule: GRANULE as u32,
            spare: 0,
            sequence: 0,
            end,
            free: 0,
            next_ino: 0,
            inodes: 0,
            keys_root: 0,
            starts_root: 0,
            lens_root: 0,
            uses_root: 0,
            keys_levels: 0,
            starts_levels: 0,
            lens_levels: 0,
            uses_levels: 0,
            pages: 0,
            unused: [0; 32],
            check: 0,
        };
        let home = Self::over(pool, options, tuning, superblock, accounts)?;
        home.plant(&options.root)?;
        home.store(&mut home.space.base.state.lock())?;
        Ok(home)
    }
}
