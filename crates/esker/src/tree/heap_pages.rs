//! Pages on the heap, in chunks that go back to the allocator when they are empty.
//!
//! Above: the tree. Below: the global allocator, and a [`Budget`] that says how much of it may be
//! held. Invariant: `roomy` names the chunks that have pages both used and free, `empty` those with
//! free pages only, `vacant` the places without a chunk; `free` counts the free pages of all
//! chunks.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::pages::{Page, PageId, Pages};
use crate::error::{Error, Result};
use crate::ground::Budget;
use crate::limits::PAGE_SIZE;

/// Pages that are allocated from the heap at once.
const CHUNK_PAGES: usize = 8;
const CHUNK_BYTES: usize = CHUNK_PAGES * PAGE_SIZE;
/// Every page of a chunk is in use.
const ALL: u8 = u8::MAX;
const _: () = assert!(CHUNK_PAGES == u8::BITS as usize);

/// A page whose header is one line of the processor's cache.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Aligned(Page);

#[derive(Debug)]
struct Chunk {
    pages: Box<[Aligned; CHUNK_PAGES]>,
    /// One bit for each page in use.
    used: u8,
}

/// Pages owned by the heap.
///
/// Low chunks fill first, so that the high ones empty and go back. Chunks are charged to the budget
/// whole, when they are allocated.
#[derive(Debug)]
pub struct HeapPages {
    chunks: Vec<Option<Chunk>>,
    roomy: BTreeSet<u32>,
    empty: BTreeSet<u32>,
    vacant: BTreeSet<u32>,
    /// Free pages in all chunks.
    free: usize,
    /// Free pages to keep: what was last asked of [`Pages::reserve`].
    spare: usize,
    overdraft: bool,
    budget: Arc<Budget>,
}

impl HeapPages {
    /// No pages yet.
    #[must_use]
    pub const fn new(budget: Arc<Budget>) -> Self {
        Self {
            chunks: Vec::new(),
            roomy: BTreeSet::new(),
            empty: BTreeSet::new(),
            vacant: BTreeSet::new(),
            free: 0,
            spare: 0,
            overdraft: false,
            budget,
        }
    }

    /// Whether chunks may be had past the budget from now on: for batches that only shrink, which
    /// must work in a full home although a split may need a page.
    pub const fn overdraft(&mut self, allowed: bool) {
        self.overdraft = allowed;
    }

    /// Bytes held, which is what the budget was charged.
    #[must_use]
    pub fn bytes(&self) -> usize {
        (self.chunks.len() - self.vacant.len()) * CHUNK_BYTES
    }

    /// Pages in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.bytes() / PAGE_SIZE - self.free
    }

    /// One more chunk, at the lowest place there is.
    fn add_chunk(&mut self) -> Result<()> {
        let end = u32::try_from(self.chunks.len()).map_err(|_| Error::NoSpace)?;
        let place = self.vacant.first().copied().unwrap_or(end);
        if place > u32::MAX / CHUNK_PAGES as u32 {
            return Err(Error::NoSpace);
        }
        let mut pages = Vec::new();
        pages.try_reserve_exact(CHUNK_PAGES).map_err(|_| Error::NoMemory)?;
        self.chunks.try_reserve(1).map_err(|_| Error::NoMemory)?;
        if self.overdraft {
            self.budget.force(CHUNK_BYTES as u64);
        } else {
            self.budget.take(CHUNK_BYTES as u64)?;
        }
        pages.resize(CHUNK_PAGES, Aligned([0; PAGE_SIZE]));
        let pages = pages.into_boxed_slice().try_into().expect("as many pages as a chunk has");
        let chunk = Some(Chunk { pages, used: 0 });
        if place == end {
            self.chunks.push(chunk);
        } else {
            self.vacant.remove(&place);
            self.chunks[place as usize] = chunk;
        }
        self.empty.insert(place);
        self.free += CHUNK_PAGES;
        Ok(())
    }

    /// Gives empty chunks back, the highest first, as far as `spare` pages stay free.
    fn give_back(&mut self) {
        while self.free >= self.spare + CHUNK_PAGES {
            let Some(place) = self.empty.pop_last() else { break };
            self.chunks[place as usize] = None;
            self.vacant.insert(place);
            self.free -= CHUNK_PAGES;
            self.budget.give(CHUNK_BYTES as u64);
        }
        while let Some(None) = self.chunks.last() {
            self.chunks.pop();
            self.vacant.pop_last();
        }
    }

    /// The chunk and the place in it of a page in use.
    fn locate(&self, id: PageId) -> Option<(&Chunk, usize)> {
        let (place, index) = split(id);
        let chunk = self.chunks.get(place as usize)?.as_ref()?;
        (chunk.used & 1 << index != 0).then_some((chunk, index))
    }
}

const fn split(id: PageId) -> (u32, usize) {
    (id.0 / CHUNK_PAGES as u32, id.0 as usize % CHUNK_PAGES)
}

impl Pages for HeapPages {
    type Ref<'a> = &'a Page;

    #[inline]
    fn get(&self, id: PageId) -> Result<&Page> {
        let (chunk, index) = self.locate(id).ok_or(Error::Corrupt)?;
        Ok(&chunk.pages[index].0)
    }

    #[inline]
    fn edit(&mut self, id: PageId) -> Result<&mut Page> {
        let (place, index) = split(id);
        let chunk = self.chunks.get_mut(place as usize).and_then(Option::as_mut);
        let chunk = chunk.filter(|chunk| chunk.used & 1 << index != 0).ok_or(Error::Corrupt)?;
        Ok(&mut chunk.pages[index].0)
    }

    fn allocate(&mut self) -> Result<PageId> {
        if self.free == 0 {
            self.add_chunk()?;
        }
        let place = self.roomy.first().or_else(|| self.empty.first()).copied();
        let place = place.expect("where pages are free, a chunk has room");
        let chunk = self.chunks[place as usize].as_mut().expect("a chunk that has room is there");
        let index = chunk.used.trailing_ones();
        chunk.used |= 1 << index;
        if chunk.used == ALL {
            self.roomy.remove(&place);
        } else if self.empty.remove(&place) {
            self.roomy.insert(place);
        }
        self.free -= 1;
        Ok(PageId(place * CHUNK_PAGES as u32 + index))
    }

    fn free(&mut self, id: PageId) {
        if self.locate(id).is_none() {
            return;
        }
        let (place, index) = split(id);
        let chunk = self.chunks[place as usize].as_mut().expect("the page was located");
        chunk.used &= !(1 << index);
        self.free += 1;
        if chunk.used == 0 {
            self.roomy.remove(&place);
            self.empty.insert(place);
            self.give_back();
        } else {
            self.roomy.insert(place);
        }
    }

    /// As [`Pages::reserve`]; `reserve(0)` also gives back every empty chunk.
    fn reserve(&mut self, count: usize) -> Result<()> {
        self.spare = 0;
        while self.free < count {
            if let Err(error) = self.add_chunk() {
                self.give_back();
                return Err(error);
            }
        }
        self.spare = count;
        if count == 0 {
            self.give_back();
        }
        Ok(())
    }
}

impl Drop for HeapPages {
    fn drop(&mut self) {
        self.budget.give(self.bytes() as u64);
    }
}
