//! Where the bytes of pages on the heap lie: each of the first in an allocation of its own, so that
//! a small tree holds little; those of a large tree in slabs, which a [`Lender`] can have backed by
//! huge pages, so that few translations of addresses are missed.
//!
//! Above: `heap_pages`, which knows what pages are in use. Below: the global allocator. Invariant: a
//! slab never moves; without a lender, who alone can take back a part of one, there are none.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;

use super::pages::Page;
use crate::error::{Error, Result};
use crate::ground::Lender;
use crate::limits::PAGE_SIZE;

/// Pages of their own in a tree with a lender: so few that what a huge page takes ahead, once a
/// tree is larger, is little beside them.
const SINGLES: usize = 2048;
/// Pages of a slab: so many that most of it is whole huge pages wherever it begins, and that
/// allocators have it from the operating system and give it back there.
const SLAB: usize = 8192;

/// A page whose header is one line of the processor's cache.
#[derive(Debug)]
#[repr(align(64))]
struct Single(Page);

/// A page as the operating system has them, to be taken back alone.
#[derive(Debug)]
#[repr(align(4096))]
struct Part(Page);

#[derive(Debug)]
struct Slab {
    /// Those used so far; there is room for all.
    parts: Vec<Part>,
    /// Nothing was released yet.
    whole: bool,
}

/// Pages by their numbers.
#[derive(Debug)]
pub(super) struct Slabs {
    singles: Vec<Option<Box<[Single; 1]>>>,
    slabs: Vec<Slab>,
    lender: Option<&'static dyn Lender>,
}

/// Where a page is.
enum Place {
    Single(usize),
    Slab(usize, usize),
}

impl Slabs {
    pub(super) const fn new(lender: Option<&'static dyn Lender>) -> Self {
        Self { singles: Vec::new(), slabs: Vec::new(), lender }
    }

    #[inline]
    fn place(&self, number: u32) -> Place {
        let number = number as usize;
        match number.checked_sub(SINGLES) {
            Some(far) if self.lender.is_some() => Place::Slab(far / SLAB, far % SLAB),
            _ => Place::Single(number),
        }
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&Page> {
        match self.place(number) {
            Place::Single(at) => Some(&self.singles.get(at)?.as_ref()?[0].0),
            Place::Slab(slab, at) => Some(&self.slabs.get(slab)?.parts.get(at)?.0),
        }
    }

    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Page> {
        match self.place(number) {
            Place::Single(at) => Some(&mut self.singles.get_mut(at)?.as_mut()?[0].0),
            Place::Slab(slab, at) => Some(&mut self.slabs.get_mut(slab)?.parts.get_mut(at)?.0),
        }
    }

    /// Makes sure of a page, which may hold anything. Its number was had before, or is the next.
    pub(super) fn furnish(&mut self, number: u32) -> Result<()> {
        match self.place(number) {
            Place::Single(at) => {
                if at >= self.singles.len() {
                    self.singles.try_reserve(1).map_err(|_| Error::NoMemory)?;
                }
                let mut page = with_room(1)?;
                page.push(Single([0; PAGE_SIZE]));
                let page = Some(page.into_boxed_slice().try_into().expect("it is one page"));
                match self.singles.get_mut(at) {
                    Some(vacant) => *vacant = page,
                    None => self.singles.push(page),
                }
            }
            Place::Slab(slab, at) => {
                if slab >= self.slabs.len() {
                    self.add_slab()?;
                }
                let parts = &mut self.slabs[slab].parts;
                if at >= parts.len() {
                    parts.push(Part([0; PAGE_SIZE]));
                }
            }
        }
        Ok(())
    }

    fn add_slab(&mut self) -> Result<()> {
        self.slabs.try_reserve(1).map_err(|_| Error::NoMemory)?;
        let parts: Vec<Part> = with_room(SLAB)?;
        if let Some(lender) = self.lender {
            lender.huge(parts.as_ptr().cast(), SLAB * PAGE_SIZE, true);
        }
        self.slabs.push(Slab { parts, whole: true });
        Ok(())
    }

    /// Gives pages back; they are there no more until they are furnished again.
    pub(super) fn release(&mut self, numbers: Range<u32>) {
        let mut next = numbers.start;
        while next < numbers.end {
            next += match self.place(next) {
                Place::Single(at) => {
                    if let Some(page) = self.singles.get_mut(at) {
                        *page = None;
                    }
                    1
                }
                Place::Slab(slab, at) => {
                    let count = (numbers.end - next).min((SLAB - at) as u32);
                    self.release_parts(slab, at..at + count as usize);
                    count
                }
            };
        }
    }

    fn release_parts(&mut self, slab: usize, parts: Range<usize>) {
        let (Some(lender), Some(slab)) = (self.lender, self.slabs.get_mut(slab)) else {
            return;
        };
        // Or the operating system would fill the holes again to have whole huge pages.
        if core::mem::take(&mut slab.whole) {
            lender.huge(slab.parts.as_ptr().cast(), SLAB * PAGE_SIZE, false);
        }
        if let Some(parts) = slab.parts.get_mut(parts) {
            lender.release(&mut parts.iter_mut().map(|part| &mut part.0[..]));
        }
    }
}

/// An empty vector with room for exactly so many.
fn with_room<T>(count: usize) -> Result<Vec<T>> {
    let mut items = Vec::new();
    items.try_reserve_exact(count).map_err(|_| Error::NoMemory)?;
    Ok(items)
}
