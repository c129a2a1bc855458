//! Pages on the heap, each an allocation of its own: a small tree holds little, and what is freed
//! can serve another tree.
//!
//! Above: the tree. Below: the global allocator, and a [`Budget`] that says how much of it may be
//! held. Invariant: `vacant` names the places without a page; what is in `pages` and in `spare` is
//! charged to the budget.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::pages::{Page, PageId, Pages};
use crate::error::{Error, Result};
use crate::ground::Budget;
use crate::limits::PAGE_SIZE;

/// A page whose header is one line of the processor's cache.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Aligned(Page);

/// Pages owned by the heap.
#[derive(Debug)]
pub struct HeapPages {
    /// By their numbers.
    pages: Vec<Option<Box<[Aligned; 1]>>>,
    vacant: Vec<u32>,
    /// Allocated and free.
    spare: Vec<Box<[Aligned; 1]>>,
    /// How many free pages a page that is freed may join.
    keep: usize,
    overdraft: bool,
    budget: Arc<Budget>,
}

impl HeapPages {
    /// No pages yet.
    #[must_use]
    pub const fn new(budget: Arc<Budget>) -> Self {
        Self {
            pages: Vec::new(),
            vacant: Vec::new(),
            spare: Vec::new(),
            keep: 0,
            overdraft: false,
            budget,
        }
    }

    /// Whether pages may be had past the budget from now on: for batches that only shrink, which
    /// must work in a full home although a split may need a page.
    pub const fn overdraft(&mut self, allowed: bool) {
        self.overdraft = allowed;
    }

    /// Bytes held, which is what the budget was charged.
    #[must_use]
    pub fn bytes(&self) -> usize {
        (self.used() + self.spare.len()) * PAGE_SIZE
    }

    /// Pages in use.
    #[must_use]
    pub fn used(&self) -> usize {
        self.pages.len() - self.vacant.len()
    }

    /// Free pages.
    #[must_use]
    pub fn spare(&self) -> usize {
        self.spare.len()
    }

    /// Gives back free pages but for so many, which also is what [`Pages::free`] keeps from now on.
    pub fn keep(&mut self, spare: usize) {
        self.keep = spare;
        if self.spare.len() > spare {
            self.budget.give(((self.spare.len() - spare) * PAGE_SIZE) as u64);
            self.spare.truncate(spare);
        }
    }

    /// One more free page.
    fn add_spare(&mut self) -> Result<()> {
        let mut page = Vec::new();
        page.try_reserve_exact(1).map_err(|_| Error::NoMemory)?;
        self.spare.try_reserve(1).map_err(|_| Error::NoMemory)?;
        if self.overdraft {
            self.budget.force(PAGE_SIZE as u64);
        } else {
            self.budget.take(PAGE_SIZE as u64)?;
        }
        page.resize(1, Aligned([0; PAGE_SIZE]));
        self.spare.push(page.into_boxed_slice().try_into().expect("it is one page"));
        Ok(())
    }
}

impl Pages for HeapPages {
    type Ref<'a> = &'a Page;

    #[inline]
    fn get(&self, id: PageId) -> Result<&Page> {
        match self.pages.get(id.0 as usize) {
            Some(Some(page)) => Ok(&page[0].0),
            _ => Err(Error::Corrupt),
        }
    }

    #[inline]
    fn edit(&mut self, id: PageId) -> Result<&mut Page> {
        match self.pages.get_mut(id.0 as usize) {
            Some(Some(page)) => Ok(&mut page[0].0),
            _ => Err(Error::Corrupt),
        }
    }

    fn allocate(&mut self) -> Result<PageId> {
        if self.spare.is_empty() {
            self.add_spare()?;
        }
        if self.vacant.is_empty() {
            self.pages.try_reserve(1).map_err(|_| Error::NoMemory)?;
        }
        let place = u32::try_from(self.pages.len()).map_err(|_| Error::NoSpace)?;
        let page = self.spare.pop();
        let place = self.vacant.pop().unwrap_or(place);
        match self.pages.get_mut(place as usize) {
            Some(vacant) => *vacant = page,
            None => self.pages.push(page),
        }
        Ok(PageId(place))
    }

    fn free(&mut self, id: PageId) {
        let Some(page) = self.pages.get_mut(id.0 as usize).and_then(Option::take) else { return };
        self.vacant.push(id.0);
        if self.spare.len() < self.keep {
            self.spare.push(page);
        } else {
            drop(page);
            self.budget.give(PAGE_SIZE as u64);
        }
    }

    fn reserve(&mut self, count: usize) -> Result<()> {
        let known = self.spare.len();
        while self.spare.len() < count {
            if let Err(error) = self.add_spare() {
                self.keep(known);
                return Err(error);
            }
        }
        // Room for their numbers too, so that only the budget and the allocator's word count.
        self.pages.try_reserve(count).map_err(|_| Error::NoMemory)?;
        self.keep = count;
        Ok(())
    }
}

impl Drop for HeapPages {
    fn drop(&mut self) {
        self.budget.give(self.bytes() as u64);
    }
}
