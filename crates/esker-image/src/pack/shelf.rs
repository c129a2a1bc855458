//! What is remembered of everything that came in, as it lies in a scratch file: bytes by address, and rows by number.
//!
//! Above: `tree`, `contents`. Below: `scratch`. Invariant: no more than [`PAGES`] pages are in memory,
//! however much there is; what was put somewhere is what is read there until something else is put there.

use std::marker::PhantomData;

use super::scratch::{Checked, SECTOR_LEN, Scratch};
use super::{Error, Result};

/// Bytes that are written and read at a time: what is asked for one after the other lies in a few places, close by.
const PAGE_LEN: usize = SECTOR_LEN;
/// Pages that are kept.
const PAGES: usize = 512;
/// The longest row.
const ROW_LEN_MAX: usize = 64;

struct Page {
    number: u64,
    /// It is not yet in the scratch file as it is here.
    changed: bool,
    bytes: Box<[u8]>,
}

/// Bytes by address.
pub(super) struct Shelf {
    scratch: Checked,
    len: u64,
    /// How long the scratch file is.
    written: u64,
    /// Each at its number modulo [`PAGES`].
    pages: Vec<Option<Page>>,
}

impl Shelf {
    pub fn new(scratch: Box<dyn Scratch>) -> Self {
        let pages = (0..PAGES).map(|_| None).collect();
        Self { scratch: Checked::new(scratch), len: 0, written: 0, pages }
    }

    /// Bytes of memory that it takes, in about.
    pub fn memory(&self) -> u64 {
        self.scratch.memory() + self.len.min((PAGES * PAGE_LEN) as u64)
    }

    /// The page that an address lies in, and where in it.
    fn page(&mut self, at: u64) -> Result<(&mut Page, usize)> {
        let (number, inside) = (at / PAGE_LEN as u64, (at % PAGE_LEN as u64) as usize);
        let kept = &mut self.pages[(number % PAGES as u64) as usize];
        // It stays here until it is there.
        if let Some(page) = kept.as_ref().filter(|page| page.number != number && page.changed) {
            let start = page.number * PAGE_LEN as u64;
            self.scratch.write_at(start, &page.bytes)?;
            self.written = self.written.max(start + PAGE_LEN as u64);
        }
        let there = kept.take_if(|page| page.number != number);
        if kept.is_none() {
            let room = || vec![0; PAGE_LEN].into_boxed_slice();
            let mut bytes = there.map_or_else(room, |page| page.bytes);
            let start = number * PAGE_LEN as u64;
            // What was never put away is new, and comes behind all that was.
            if start < self.written {
                self.scratch.read_at(start, &mut bytes)?;
            }
            *kept = Some(Page { number, changed: false, bytes });
        }
        let page = kept.as_mut().ok_or(Error::Stopped)?;
        Ok((page, inside))
    }

    /// Puts bytes behind all others: their address.
    pub fn append(&mut self, bytes: &[u8]) -> Result<u64> {
        let at = self.len;
        self.write(at, bytes)?;
        self.len += bytes.len() as u64;
        Ok(at)
    }

    /// Puts bytes in the place of others, or right behind all of them.
    fn write(&mut self, mut at: u64, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (page, inside) = self.page(at)?;
            let (now, rest) = bytes.split_at(bytes.len().min(PAGE_LEN - inside));
            page.bytes[inside..inside + now.len()].copy_from_slice(now);
            page.changed = true;
            (at, bytes) = (at + now.len() as u64, rest);
        }
        Ok(())
    }

    /// Fills `target` from `at` on.
    pub fn read(&mut self, mut at: u64, mut target: &mut [u8]) -> Result<()> {
        while !target.is_empty() {
            let (page, inside) = self.page(at)?;
            let now = target.len().min(PAGE_LEN - inside);
            let (front, rest) = target.split_at_mut(now);
            front.copy_from_slice(&page.bytes[inside..inside + now]);
            (at, target) = (at + now as u64, rest);
        }
        Ok(())
    }

    /// The same, as bytes of their own.
    pub fn bytes(&mut self, at: u64, len: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0; len];
        self.read(at, &mut bytes)?;
        Ok(bytes)
    }
}

/// What lies there with a length that never changes.
pub(super) trait Row: Sized {
    /// In bytes.
    const LEN: usize;
    /// Into so many bytes.
    fn put(&self, target: &mut [u8]);
    /// From so many.
    fn take(source: &[u8]) -> Option<Self>;
}

/// What was declared with `layout!` is one.
macro_rules! row {
    ($name:ident) => {
        impl $crate::pack::shelf::Row for $name {
            const LEN: usize = Self::SIZE;

            fn put(&self, target: &mut [u8]) {
                target.copy_from_slice(&self.encode());
            }

            fn take(source: &[u8]) -> Option<Self> {
                Self::decode(source)
            }
        }
    };
}
pub(super) use row;

/// Rows by number.
pub(super) struct Rows<R> {
    shelf: Shelf,
    count: u32,
    rows: PhantomData<R>,
}

impl<R: Row> Rows<R> {
    pub fn new(scratch: Box<dyn Scratch>) -> Self {
        const { assert!(R::LEN <= ROW_LEN_MAX) }
        Self { shelf: Shelf::new(scratch), count: 0, rows: PhantomData }
    }

    /// How many there are.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Bytes of memory that they take, in about.
    pub fn memory(&self) -> u64 {
        self.shelf.memory()
    }

    /// One more, and its number.
    pub fn push(&mut self, row: &R) -> Result<u32> {
        let number = self.count;
        // The last number stands for none.
        let count = number.checked_add(1).ok_or(esker::Error::NoSpace)?;
        let mut bytes = [0; ROW_LEN_MAX];
        row.put(&mut bytes[..R::LEN]);
        self.shelf.append(&bytes[..R::LEN])?;
        self.count = count;
        Ok(number)
    }

    fn at(number: u32) -> u64 {
        u64::from(number) * R::LEN as u64
    }

    pub fn get(&mut self, number: u32) -> Result<R> {
        let mut bytes = [0; ROW_LEN_MAX];
        self.shelf.read(Self::at(number), &mut bytes[..R::LEN])?;
        R::take(&bytes[..R::LEN]).ok_or(Error::Stopped)
    }

    pub fn set(&mut self, number: u32, row: &R) -> Result<()> {
        let mut bytes = [0; ROW_LEN_MAX];
        row.put(&mut bytes[..R::LEN]);
        self.shelf.write(Self::at(number), &bytes[..R::LEN])
    }
}

#[cfg(test)]
mod tests {
    use esker::layout;

    use super::*;

    layout! {
        /// Of a length that no page is a multiple of.
        pub struct Odd: 13 {
            0 => word: u64,
            8 => half: u32,
            12 => byte: u8,
        }
    }
    row!(Odd);

    fn odd(number: u32) -> Odd {
        Odd { word: u64::from(number) * 0x0123_4567_89ab, half: number, byte: number as u8 }
    }

    #[test]
    fn rows_stay_what_they_are_whatever_is_in_memory() {
        // More than are kept, so that pages come and go.
        let count = (3 * PAGES * PAGE_LEN / Odd::SIZE) as u32;
        let mut rows = Rows::new(Box::new(Vec::new()));
        for number in 0..count {
            assert_eq!(rows.push(&odd(number)).unwrap(), number);
            // One that came long before is changed.
            rows.set(number / 2, &odd(number / 2 + 1)).unwrap();
        }
        for number in (0..count).rev() {
            let right = if number <= (count - 1) / 2 { number + 1 } else { number };
            assert_eq!(rows.get(number).unwrap(), odd(right));
        }
        assert_eq!(rows.count(), count);
        assert!(rows.shelf.pages.iter().flatten().count() <= PAGES);
    }

    #[test]
    fn bytes_lie_where_they_were_put() {
        let mut shelf = Shelf::new(Box::new(Vec::new()));
        let word = |number: usize| vec![number as u8; number * 37 % 9000];
        let places: Vec<_> = (0..900).map(|at| shelf.append(&word(at)).unwrap()).collect();
        for (number, at) in places.into_iter().enumerate().rev() {
            assert_eq!(shelf.bytes(at, word(number).len()).unwrap(), word(number));
        }
    }
}
