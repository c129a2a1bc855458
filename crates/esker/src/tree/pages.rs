//! The seam below the tree: where its pages live.
//!
//! Above: every room of the tree. Below: [`HeapPages`](super::HeapPages), or a cache over a `Memory`
//! (`memory::resident`). Invariant: what is behind a [`PageId`] is nobody's word: the tree checks each
//! page that it reads. A page's bytes change only through [`PageMut`], which notes what was touched.

use alloc::sync::Arc;
use core::ops::{Deref, Range};

use crate::error::Result;
use crate::ground::short;
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

    /// Whether pages can be kept.
    const KEEPS: bool = false;

    /// A page to read after the tree is let go, as it is now; nothing where pages cannot be kept.
    fn kept(&self, id: PageId) -> Result<Option<Arc<Page>>> {
        let _ = id;
        Ok(None)
    }

    /// A page to change. `Corrupt` when it is not allocated.
    fn edit(&mut self, id: PageId) -> Result<PageMut<'_>>;

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

/// Bytes of a line: what is told of a page's changes.
pub const LINE: usize = PAGE_SIZE / u64::BITS as usize;

/// Lines of a page, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lines(u64);

impl Lines {
    /// All of them.
    pub const ALL: Self = Self(u64::MAX);

    /// No line.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Every line that holds bytes of the range, which lies within a page.
    #[inline]
    fn touch(&mut self, range: &Range<usize>) {
        if !range.is_empty() {
            let (first, last) = (range.start / LINE, (range.end - 1) / LINE);
            self.0 |= (u64::MAX << (first % 64)) & (u64::MAX >> (63 - last % 64));
        }
    }

    /// Runs of lines in order, as ranges of bytes, which take up to two lines between them along: to write these is
    /// less than to write twice.
    pub fn runs(self) -> impl Iterator<Item = Range<usize>> {
        let behind = self.0 << 1;
        let mut left =
            self.0 | (behind & self.0 >> 1) | (behind & self.0 >> 2) | (self.0 << 2 & self.0 >> 1);
        core::iter::from_fn(move || {
            let start = left.trailing_zeros();
            let len = left.checked_shr(start)?.trailing_ones();
            left &= u64::MAX.checked_shl(start + len).unwrap_or(0);
            Some(start as usize * LINE..(start + len) as usize * LINE)
        })
    }
}

/// A page to change.
#[derive(Debug)]
pub struct PageMut<'a> {
    bytes: &'a mut Page,
    /// Where changes are noted, for pages that are written elsewhere later.
    lines: Option<&'a mut Lines>,
}

impl<'a> PageMut<'a> {
    /// A page of which nobody needs to know what changes.
    #[inline]
    pub const fn new(bytes: &'a mut Page) -> Self {
        Self { bytes, lines: None }
    }

    /// A page whose changes are noted.
    #[inline]
    pub const fn noted(bytes: &'a mut Page, lines: &'a mut Lines) -> Self {
        Self { bytes, lines: Some(lines) }
    }

    #[inline]
    fn touch(&mut self, range: &Range<usize>) {
        if let Some(lines) = &mut self.lines {
            lines.touch(range);
        }
    }

    /// Bytes to be changed, if they lie within the page.
    #[inline]
    pub fn part(&mut self, range: Range<usize>) -> Option<&mut [u8]> {
        if range.end > PAGE_SIZE {
            return None;
        }
        self.touch(&range);
        self.bytes.get_mut(range)
    }

    /// The same, for as long as the page may be changed.
    #[inline]
    pub fn into_part(mut self, range: Range<usize>) -> Option<&'a mut [u8]> {
        if range.end > PAGE_SIZE {
            return None;
        }
        self.touch(&range);
        self.bytes.get_mut(range)
    }

    /// Moves bytes of the page to `target`. Both ranges lie within it.
    #[inline]
    pub fn move_within(&mut self, source: Range<usize>, target: usize) {
        if source.is_empty() {
            return;
        }
        self.touch(&(target..target + source.len()));
        self.bytes.copy_within(source, target);
    }

    /// Copies a few bytes of the page to a place that lies before them. Both lie within it.
    #[inline]
    pub fn copy_down(&mut self, source: Range<usize>, target: usize) {
        let target = target..target + source.len();
        self.touch(&target);
        let (low, high) = self.bytes.split_at_mut(source.start);
        short::copy(&mut low[target], &high[..source.len()]);
    }

    /// Other bytes, all of them.
    pub fn set(&mut self, page: &Page) {
        self.touch(&(0..PAGE_SIZE));
        *self.bytes = *page;
    }
}

impl Deref for PageMut<'_> {
    type Target = Page;
    #[inline]
    fn deref(&self) -> &Page {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_bytes_touched() {
        for (start, end) in [(0, 1), (0, 4096), (63, 65), (64, 128), (4095, 4096), (100, 100)] {
            let (mut page, mut lines) = ([0; PAGE_SIZE], Lines::default());
            PageMut::noted(&mut page, &mut lines).part(start..end).unwrap().fill(1);
            let told: alloc::vec::Vec<_> = lines.runs().collect();
            let rounded = start / LINE * LINE..end.next_multiple_of(LINE);
            let expected = if start == end { alloc::vec![] } else { alloc::vec![rounded] };
            assert_eq!(told, expected);
        }
        let runs = |bits| Lines(bits).runs().collect::<alloc::vec::Vec<_>>();
        assert_eq!(runs(0b10001 | 1 << 63), [0..64, 256..320, 4032..4096]);
        assert_eq!(runs(0b1001_1011 | 0b101 << 61), [0..512, 61 * 64..4096]);
    }
}
