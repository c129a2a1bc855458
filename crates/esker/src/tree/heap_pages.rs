//! Pages on the heap: which of them are in use, and what they may take.
//!
//! Above: the tree. Below: `slabs`, where their bytes are, and a [`Budget`] that says how much may
//! be held. Invariant: a number is in use, or in `spare`, or in `vacant`, or not yet given out; the
//! first two have a page that is charged to the budget, the others have none.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::pages::{Page, PageId, PageMut, Pages};
use super::slabs::Slabs;
use crate::error::{Error, Result};
use crate::ground::{Budget, Lender};
use crate::limits::PAGE_SIZE;

/// Pages owned by the heap.
#[derive(Debug)]
pub struct HeapPages {
    slabs: Slabs,
    /// A bit for each number given out: it is in use.
    in_use: Vec<u64>,
    /// Numbers given out.
    given: u32,
    /// Those without a page.
    vacant: Vec<u32>,
    /// Those with a page and free.
    spare: Vec<u32>,
    overdraft: bool,
    budget: Arc<Budget>,
}

impl HeapPages {
    /// No pages yet.
    #[must_use]
    pub const fn new(budget: Arc<Budget>) -> Self {
        Self::with_lender(budget, None)
    }

    /// No pages yet; those of a large tree lie in larger pieces, which are the lender's to back and
    /// to take back.
    #[must_use]
    pub const fn with_lender(budget: Arc<Budget>, lender: Option<&'static dyn Lender>) -> Self {
        Self {
            slabs: Slabs::new(lender),
            in_use: Vec::new(),
            given: 0,
            vacant: Vec::new(),
            spare: Vec::new(),
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
        self.given as usize - self.vacant.len() - self.spare.len()
    }

    /// Free pages.
    #[must_use]
    pub fn spare(&self) -> usize {
        self.spare.len()
    }

    /// Gives back free pages but for so many; no others ever go. Better many at once than one by one: neighbours
    /// go together.
    pub fn keep(&mut self, spare: usize) {
        if self.spare.len() <= spare {
            return;
        }
        // Those of the highest numbers go: they are the last that were needed.
        self.spare.sort_unstable();
        let gone = &self.spare[spare..];
        for run in gone.chunk_by(|one, next| one + 1 == *next) {
            self.slabs.release(run[0]..run[0] + run.len() as u32);
        }
        self.budget.give((gone.len() * PAGE_SIZE) as u64);
        self.vacant.extend_from_slice(gone);
        self.spare.truncate(spare);
    }

    /// One more free page.
    fn add_spare(&mut self) -> Result<()> {
        self.spare.try_reserve(1).map_err(|_| Error::NoMemory)?;
        let fresh = self.vacant.is_empty();
        let number = self.vacant.last().copied().unwrap_or(self.given);
        if fresh {
            // All numbers but the last, so that the count of numbers is one too.
            self.given.checked_add(1).ok_or(Error::NoSpace)?;
            self.in_use.try_reserve(1).map_err(|_| Error::NoMemory)?;
        }
        if self.overdraft {
            self.budget.force(PAGE_SIZE as u64);
        } else {
            self.budget.take(PAGE_SIZE as u64)?;
        }
        if let Err(error) = self.slabs.furnish(number) {
            self.budget.give(PAGE_SIZE as u64);
            return Err(error);
        }
        if fresh {
            self.given += 1;
            self.in_use.resize((self.given as usize).div_ceil(64), 0);
        } else {
            self.vacant.pop();
        }
        self.spare.push(number);
        Ok(())
    }

    #[inline]
    fn is_used(&self, id: PageId) -> bool {
        let bits = self.in_use.get(id.0 as usize / 64);
        bits.is_some_and(|bits| bits & (1 << (id.0 % 64)) != 0)
    }

    fn turn(&mut self, number: u32) {
        self.in_use[number as usize / 64] ^= 1 << (number % 64);
    }
}

impl Pages for HeapPages {
    type Ref<'a> = &'a Page;

    #[inline]
    fn get(&self, id: PageId) -> Result<&Page> {
        self.slabs.get(id.0).filter(|_| self.is_used(id)).ok_or(Error::Corrupt)
    }

    #[inline]
    fn edit(&mut self, id: PageId) -> Result<PageMut<'_>> {
        let used = self.is_used(id);
        self.slabs.get_mut(id.0).filter(|_| used).map(PageMut::new).ok_or(Error::Corrupt)
    }

    fn allocate(&mut self) -> Result<PageId> {
        if self.spare.is_empty() {
            self.add_spare()?;
        }
        let number = self.spare.pop().ok_or(Error::NoMemory)?;
        self.turn(number);
        Ok(PageId(number))
    }

    fn free(&mut self, id: PageId) {
        if !self.is_used(id) {
            return;
        }
        self.turn(id.0);
        self.spare.push(id.0);
    }

    fn reserve(&mut self, count: usize) -> Result<()> {
        let known = self.spare.len();
        while self.spare.len() < count {
            if let Err(error) = self.add_spare() {
                self.keep(known);
                return Err(error);
            }
        }
        Ok(())
    }
}

impl Drop for HeapPages {
    fn drop(&mut self) {
        self.budget.give(self.bytes() as u64);
    }
}
