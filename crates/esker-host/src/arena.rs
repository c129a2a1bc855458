//! One long stretch of address space as a [`Memory`].
//!
//! Reserving addresses costs nothing: the kernel gives a page when it is first written, and takes
//! it back when it is released. Growing only moves a limit.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use esker::ground::{Lender, Memory};
use esker::{Error, Result};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::huge::HugePages;
use crate::words::{self, WORD};

/// Addresses asked for where no limit is known, in bytes.
const UNLIMITED: u64 = 1 << 40;

/// An arena of so many bytes is sure to grow further: what comes next is had from the kernel in steps,
/// which costs less than to have it page by page.
const LARGE: u64 = 64 << 20;
/// Such a step, in bytes.
const STEP: u64 = 256 << 10;

/// Anonymous memory of this process, all of it reserved in one piece.
#[derive(Debug)]
pub struct Arena {
    base: NonNull<AtomicU64>,
    /// Length of the mapping in bytes, a multiple of the page.
    reserved: usize,
    /// Bytes in use, at most `reserved`.
    size: AtomicU64,
    /// How far writes and steps have come.
    reached: AtomicU64,
    page: usize,
}

// SAFETY: the mapping belongs to the arena alone until it is dropped, is not tied to a thread, and
// is only accessed as atomic words.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Reserves address space for `size_max` bytes, or for 1 TiB if that is less, or for as much as
    /// the kernel grants, halving down to a sixteenth of what was asked for.
    ///
    /// # Errors
    /// `NoMemory` when the kernel grants nothing of the kind.
    pub fn new(size_max: u64) -> Result<Self> {
        let page = rustix::param::page_size();
        let mut want = size_max.clamp(1, UNLIMITED).next_multiple_of(page as u64);
        let least = (want / 16).max(page as u64);
        loop {
            if let Ok(len) = usize::try_from(want)
                && let Some(base) = reserve(len)
            {
                return Ok(Self {
                    base,
                    reserved: len,
                    size: AtomicU64::new(0),
                    reached: AtomicU64::new(0),
                    page,
                });
            }
            want = (want / 2).next_multiple_of(page as u64);
            if want <= least {
                return Err(Error::NoMemory);
            }
        }
    }

    /// The same, most of which will be used, and soon: in huge pages where the kernel has them, which costs less than
    /// to have it page by page.
    ///
    /// # Errors
    /// As [`Arena::new`].
    pub fn busy(size_max: u64) -> Result<Self> {
        let arena = Self::new(size_max)?;
        // SAFETY: the live mapping; this advice is about what is below its bytes, and lets none of them change.
        let _ =
            unsafe { madvise(arena.base.as_ptr().cast(), arena.reserved, Advice::LinuxHugepage) };
        Ok(arena)
    }

    /// Of no bytes again. What it grows by then holds what it held.
    pub(crate) fn forget(&mut self) {
        *self.size.get_mut() = 0;
    }

    /// Bytes that it can grow to.
    #[must_use]
    pub const fn reserved(&self) -> u64 {
        self.reserved as u64
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `base` is the page-aligned start of a live mapping of `reserved` readable and
        // writable bytes, which was zeroed by the kernel; any bytes are valid words. Nobody
        // accesses it but through here.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.reserved / WORD) }
    }

    /// Before bytes up to `end` are first written: has the kernel give the pages for them, up to the
    /// end of a step.
    fn reach(&self, at: u64, end: u64) {
        let until =
            end.next_multiple_of(STEP).min(self.size()) / self.page as u64 * self.page as u64;
        let reached = self.reached.fetch_max(until, Ordering::Relaxed);
        let start = at.max(reached) / self.page as u64 * self.page as u64;
        if start >= until {
            return;
        }
        // SAFETY: whole pages of the live mapping, which the size is within. Their bytes stay what
        // they are; where the kernel has no pages to give, they come or fail to when written.
        let _ = unsafe {
            let base = self.base.as_ptr().cast::<u8>().add(start as usize);
            madvise(base.cast(), (until - start) as usize, Advice::LinuxPopulateWrite)
        };
    }

    /// The range as an offset, if it lies within the size.
    fn within(&self, at: u64, len: usize) -> Result<usize> {
        let end = at.checked_add(len as u64).ok_or(Error::Corrupt)?;
        if end > self.size() {
            return Err(Error::Corrupt);
        }
        usize::try_from(at).map_err(|_| Error::Corrupt)
    }
}

fn reserve(len: usize) -> Option<NonNull<AtomicU64>> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new anonymous mapping at an address of the kernel's choice overlaps nothing.
    let base = unsafe { mmap_anonymous(std::ptr::null_mut(), len, protection, flags) };
    NonNull::new(base.ok()?.cast())
}

impl Memory for Arena {
    fn size(&self) -> u64 {
        self.size.load(Ordering::Relaxed)
    }

    fn grow(&self, size: u64) -> Result<()> {
        if size > self.reserved as u64 {
            return Err(Error::NoSpace);
        }
        self.size.fetch_max(size, Ordering::Relaxed);
        Ok(())
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        let at = self.within(at, target.len())?;
        words::read(self.words(), at, target);
        Ok(())
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        let start = self.within(at, source.len())?;
        let end = at + source.len() as u64;
        if end > LARGE && end > self.reached.load(Ordering::Relaxed) {
            self.reach(at, end);
        }
        words::write(self.words(), start, source);
        Ok(())
    }

    fn release(&self, at: u64, len: u64) {
        let page = self.page as u64;
        let end = at.saturating_add(len).min(self.size()) / page * page;
        let start = at.next_multiple_of(page);
        if start >= end {
            return;
        }
        // SAFETY: whole pages of the live mapping, which `start..end` was just cut to. Their words
        // turn to zeros as by stores of the kernel's, and are only ever accessed atomically.
        let _ = unsafe {
            let base = self.base.as_ptr().cast::<u8>().add(start as usize);
            madvise(base.cast(), (end - start) as usize, Advice::LinuxDontNeed)
        };
    }

    fn lender(&self) -> Option<&'static dyn Lender> {
        Some(&HugePages)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping was made with this length in `new`, and no reference into it outlives
        // `self`.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.reserved) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_keeps_and_releases() {
        let arena = Arena::new(1 << 30).unwrap();
        assert_eq!(arena.write(0, b"early"), Err(Error::Corrupt));
        arena.grow(100_000).unwrap();
        arena.write(70_001, b"here").unwrap();
        let mut bytes = [1; 6];
        arena.read(70_000, &mut bytes).unwrap();
        assert_eq!(&bytes, b"\0here\0");
        assert_eq!(arena.read(99_995, &mut bytes), Err(Error::Corrupt));
        assert_eq!(arena.grow((1 << 30) + 1), Err(Error::NoSpace));
        arena.release(70_001, 8192);
        arena.read(70_000, &mut bytes).unwrap();
        assert_eq!(&bytes, b"\0here\0", "part of a page was released");
        arena.release(65_536, 65_536);
        arena.read(70_000, &mut bytes).unwrap();
        assert_eq!(bytes, [0; 6]);
    }

    #[test]
    fn takes_memory_when_written_and_gives_it_back() {
        const LEN: usize = 64 << 20;
        let arena = Arena::new(u64::MAX).unwrap();
        arena.grow(LEN as u64).unwrap();
        let before = crate::resident_bytes().unwrap();
        let block = vec![7; 1 << 20];
        (0..LEN as u64).step_by(block.len()).for_each(|at| arena.write(at, &block).unwrap());
        let full = crate::resident_bytes().unwrap();
        assert!(full - before >= LEN as u64 * 9 / 10);
        arena.release(0, LEN as u64);
        let after = crate::resident_bytes().unwrap();
        assert!(after - before < LEN as u64 / 10);
    }
}
