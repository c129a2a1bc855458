//! A part of a memory as a memory of its own: what somebody else keeps beside it stays his.
//!
//! Invariant: no byte outside of the part is read or written.

use super::memory::Memory;
use crate::error::{Error, Result};

/// From one address of a memory on, for so many bytes at most.
#[derive(Debug)]
pub struct Region<M> {
    memory: M,
    start: u64,
    size_max: u64,
}

impl<M: Memory> Region<M> {
    /// The part from `start` on, of at most `size_max` bytes. What lies there already belongs to it.
    ///
    /// # Errors
    /// `Invalid` when it would end past the last address.
    pub fn new(memory: M, start: u64, size_max: u64) -> Result<Self> {
        match start.checked_add(size_max) {
            Some(_) => Ok(Self { memory, start, size_max }),
            None => Err(Error::Invalid),
        }
    }

    fn place(&self, at: u64, len: usize) -> Result<u64> {
        let end = at.checked_add(len as u64).filter(|&end| end <= self.size_max);
        end.map(|_| self.start + at).ok_or(Error::Corrupt)
    }
}

impl<M: Memory> Memory for Region<M> {
    fn size(&self) -> u64 {
        self.memory.size().saturating_sub(self.start).min(self.size_max)
    }

    fn grow(&self, size: u64) -> Result<()> {
        if size > self.size_max {
            return Err(Error::NoSpace);
        }
        self.memory.grow(self.start + size)
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        self.memory.read(self.place(at, target.len())?, target)
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        self.memory.write(self.place(at, source.len())?, source)
    }

    fn release(&self, at: u64, len: u64) {
        if let Ok(place) = self.place(at, usize::try_from(len).unwrap_or(usize::MAX)) {
            self.memory.release(place, len);
        }
    }

    fn whole(&self) -> Result<()> {
        self.memory.whole()
    }

    fn sync(&self) -> Result<()> {
        self.memory.sync()
    }
}
