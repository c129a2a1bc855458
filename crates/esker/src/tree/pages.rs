//! The seam below the tree: where its pages live.
//!
//! Above: every room of the tree. Below: [`HeapPages`](super::HeapPages) today, a cache over a
//! `Memory` later. Invariant: what is behind a [`PageId`] is nobody's word: the tree checks each
//! page that it reads.

use core::ops::Deref;

use crate::error::Result;
use crate::limits::PAGE_SIZE;

/// The bytes of one page.
pub type Page = [u8; PAGE_SIZE];

/// Which page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u32);

/// Where pages live.
pub trait Pages {
    /// A page held for reading.
    type Ref<'a>: Deref<Target = Page>
    where
        Self: 'a;

    /// A page to read. `Corrupt` when it is not allocated.
    fn get(&self, id: PageId) -> Result<Self::Ref<'_>>;

    /// A page to change. `Corrupt` when it is not allocated.
    fn edit(&mut self, id: PageId) -> Result<&mut Page>;

    /// A page for new content; what it holds now may be anything. Does not fail for pages that
    /// [`reserve`](Self::reserve) made sure of; `NoSpace` or `NoMemory` otherwise.
    fn allocate(&mut self) -> Result<PageId>;

    /// The page is no longer needed. Freeing what is not allocated does nothing.
    fn free(&mut self, id: PageId);

    /// Makes sure of the next `count` pages: so many more may be allocated than are freed, until
    /// the next call, which takes the place of this one. `NoSpace` or `NoMemory` when they cannot
    /// be had.
    fn reserve(&mut self, count: usize) -> Result<()>;
}
