//! Plain bytes on their way: those that were stored once wait here until they have a place in a block.
//!
//! Above: `data`. Below: `scratch`. Invariant: what was put at an address stays there until the end, so
//! later bytes can be compared with all earlier ones; no more than a few pages are held in memory.

use std::io;

use super::Result;
use super::scratch::{Checked, SECTOR_LEN, Scratch};

/// Bytes that are written and read at a time.
const PAGE_LEN: usize = 64 * 1024;
/// Pages that are kept to be compared with.
const PAGES: usize = 64;

const _: () = assert!(PAGE_LEN.is_multiple_of(SECTOR_LEN));

/// The bytes, by address.
pub(super) struct Spool {
    scratch: Checked,
    len: u64,
    /// The last, unfinished page.
    tail: Vec<u8>,
    /// Pages read again, each at its number modulo [`PAGES`].
    pages: Vec<Option<(u64, Vec<u8>)>>,
}

impl Spool {
    pub fn new(scratch: Box<dyn Scratch>) -> Self {
        Self { scratch: Checked::new(scratch), len: 0, tail: Vec::new(), pages: vec![None; PAGES] }
    }

    /// The address that comes next.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of memory that it takes, in about.
    pub fn memory(&self) -> u64 {
        self.scratch.memory() + (PAGES * PAGE_LEN) as u64
    }

    pub fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if !self.tail.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(PAGE_LEN - self.tail.len()));
            self.tail.extend_from_slice(now);
            self.len += now.len() as u64;
            bytes = rest;
            if self.tail.len() == PAGE_LEN {
                self.scratch.write_at(self.tail_at(), &self.tail)?;
                self.tail.clear();
            }
        }
        let (whole, rest) = bytes.split_at(bytes.len() / PAGE_LEN * PAGE_LEN);
        if !whole.is_empty() {
            self.scratch.write_at(self.len, whole)?;
        }
        self.tail.extend_from_slice(rest);
        self.len += bytes.len() as u64;
        Ok(())
    }

    /// So many bytes get their addresses, and are not kept: they cannot be read again.
    pub fn pass(&mut self, len: usize) {
        debug_assert!(self.tail.is_empty(), "others are kept");
        self.len += len as u64;
    }

    const fn tail_at(&self) -> u64 {
        self.len - self.tail.len() as u64
    }

    /// Writes all of them to `target`.
    pub fn copy(&self, target: &mut impl io::Write) -> Result<()> {
        let mut page = vec![0; PAGE_LEN];
        for at in (0..self.len).step_by(PAGE_LEN) {
            // No more than a page.
            let page = &mut page[..(self.len - at).min(PAGE_LEN as u64) as usize];
            self.read(at, page)?;
            target.write_all(page)?;
        }
        Ok(())
    }

    /// Puts so many bytes from there behind others.
    pub fn read_behind(
        &self,
        at: u64,
        len: usize,
        target: &mut Vec<u8>,
    ) -> esker_stone::Result<()> {
        let behind = target.len();
        target.resize(behind + len, 0);
        self.read(at, &mut target[behind..])
    }

    /// Fills `target` from `at` on.
    pub fn read(&self, at: u64, target: &mut [u8]) -> esker_stone::Result<()> {
        let written = self.tail_at().saturating_sub(at).min(target.len() as u64) as usize;
        let (front, back) = target.split_at_mut(written);
        if !front.is_empty() {
            self.scratch.read_at(at, front)?;
        }
        let from = (at + written as u64).saturating_sub(self.tail_at()) as usize;
        back.copy_from_slice(&self.tail[from..from + back.len()]);
        Ok(())
    }

    /// The page that `at` lies in, and where in it.
    fn page(&mut self, at: u64) -> esker_stone::Result<(&[u8], usize)> {
        let (number, inside) = (at / PAGE_LEN as u64, (at % PAGE_LEN as u64) as usize);
        if number * PAGE_LEN as u64 >= self.tail_at() {
            return Ok((&self.tail, inside));
        }
        let kept = &mut self.pages[number as usize % PAGES];
        if kept.as_ref().is_none_or(|(own, _)| *own != number) {
            let mut page = kept.take().map_or_else(|| vec![0; PAGE_LEN], |(_, page)| page);
            self.scratch.read_at(number * PAGE_LEN as u64, &mut page)?;
            *kept = Some((number, page));
        }
        Ok((kept.as_ref().map_or(&[], |(_, page)| page), inside))
    }

    /// How many bytes from `at` on are those of `bytes`.
    pub fn same_after(&mut self, at: u64, bytes: &[u8]) -> esker_stone::Result<usize> {
        let mut same = 0;
        while same < bytes.len() && at + (same as u64) < self.len {
            let (page, inside) = self.page(at + same as u64)?;
            let (here, there) = (&bytes[same..], &page[inside..]);
            let most = here.len().min(there.len());
            let found = here.iter().zip(there).take_while(|(one, other)| one == other).count();
            same += found;
            if found < most {
                break;
            }
        }
        Ok(same)
    }

    /// How many bytes before `at` are the last ones of `bytes`.
    pub fn same_before(&mut self, at: u64, bytes: &[u8]) -> esker_stone::Result<usize> {
        let mut same = 0;
        while same < bytes.len() && (same as u64) < at {
            let (page, inside) = self.page(at - same as u64 - 1)?;
            let (here, there) = (&bytes[..bytes.len() - same], &page[..=inside]);
            let most = here.len().min(there.len());
            let pairs = here.iter().rev().zip(there.iter().rev());
            let found = pairs.take_while(|(one, other)| one == other).count();
            same += found;
            if found < most {
                break;
            }
        }
        Ok(same)
    }
}

impl io::Write for Spool {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.append(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_again_across_pages() {
        let bytes: Vec<u8> = (0..3 * PAGE_LEN + 77).map(|at| ((at * at) >> 7) as u8).collect();
        let mut spool = Spool::new(Box::new(Vec::new()));
        for part in bytes.chunks(10_007) {
            spool.append(part).unwrap();
        }
        for (from, len) in [(0, bytes.len()), (PAGE_LEN - 3, 7), (3 * PAGE_LEN - 1, 78), (5, 0)] {
            let mut found = vec![0; len];
            spool.read(from as u64, &mut found).unwrap();
            assert_eq!(found, bytes[from..from + len]);
        }
        let mut other = bytes.clone();
        other[PAGE_LEN + 10] ^= 1;
        let (front, back) = other.split_at(2 * PAGE_LEN);
        assert_eq!(spool.same_after(2, &other[2..]).unwrap(), PAGE_LEN + 8);
        assert_eq!(spool.same_after(2 * PAGE_LEN as u64, back).unwrap(), back.len());
        assert_eq!(spool.same_before(2 * PAGE_LEN as u64, front).unwrap(), PAGE_LEN - 11);
        assert_eq!(spool.same_before(3, &bytes[..3]).unwrap(), 3);
        assert_eq!(spool.same_after(spool.len(), back).unwrap(), 0);
    }

    #[test]
    fn bytes_that_were_passed_are_not_read() {
        let mut spool = Spool::new(Box::new(Vec::new()));
        spool.pass(100_000);
        assert_eq!(spool.len(), 100_000);
        assert!(spool.read(0, &mut [0; 10]).is_err());
        assert!(spool.same_after(99_990, &[0; 10]).is_err());
    }
}
