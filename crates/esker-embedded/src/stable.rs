//! Any memory of the crate `ic-stable-structures`, as a memory for a home.
//!
//! Invariant: the memory below, which traps at addresses past its end, is asked for none.

use core::cell::Cell;

use esker::ground::Memory;
use esker::{Error, Result};

/// Bytes of a WebAssembly page.
const WASM_PAGE: u64 = 64 * 1024;

/// A memory of pages of 64 KiB. Nobody else grows it meanwhile: its size is remembered.
pub struct Stable<M> {
    memory: M,
    size: Cell<u64>,
}

impl<M: ic_stable_structures::Memory> Stable<M> {
    /// A canister's stable memory, one of a `MemoryManager`'s, a vector, and so on.
    pub fn new(memory: M) -> Self {
        let size = Cell::new(memory.size() * WASM_PAGE);
        Self { memory, size }
    }

    #[inline]
    fn check(&self, at: u64, len: usize) -> Result<()> {
        match at.checked_add(len as u64) {
            Some(end) if end <= self.size.get() => Ok(()),
            _ => Err(Error::Corrupt),
        }
    }
}

impl<M: ic_stable_structures::Memory> Memory for Stable<M> {
    #[inline]
    fn size(&self) -> u64 {
        self.size.get()
    }

    fn grow(&self, size: u64) -> Result<()> {
        let Some(more) = size.checked_sub(self.size.get()).filter(|&more| more > 0) else {
            return Ok(());
        };
        if self.memory.grow(more.div_ceil(WASM_PAGE)) < 0 {
            return Err(Error::NoSpace);
        }
        self.size.set(self.memory.size() * WASM_PAGE);
        Ok(())
    }

    #[inline]
    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        self.check(at, target.len())?;
        self.memory.read(at, target);
        Ok(())
    }

    #[inline]
    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        self.check(at, source.len())?;
        self.memory.write(at, source);
        Ok(())
    }

    #[inline]
    fn read_inside(&self, at: u64, target: &mut [u8]) -> Result<()> {
        self.memory.read(at, target);
        Ok(())
    }

    #[inline]
    fn write_inside(&self, at: u64, source: &[u8]) -> Result<()> {
        self.memory.write(at, source);
        Ok(())
    }
}
