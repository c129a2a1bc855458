//! Arenas that are used again, one after the other: memory that the kernel has given once is had without asking it
//! again, and without its zeros.
//!
//! Below: `arena`. Invariant: an arena is lent to one at a time.

use std::sync::{Arc, Mutex, PoisonError};

use esker::Result;
use esker::ground::{Lender, Memory};

use crate::arena::Arena;

/// Arenas of one size that nobody has.
#[derive(Debug)]
pub struct Pool {
    size_max: u64,
    free: Mutex<Vec<Arena>>,
}

impl Pool {
    /// Of arenas for so many bytes each.
    #[must_use]
    pub fn new(size_max: u64) -> Arc<Self> {
        Arc::new(Self { size_max, free: Mutex::default() })
    }

    fn free(&self) -> std::sync::MutexGuard<'_, Vec<Arena>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One of them, of no bytes. What it grows by may hold anything, as if it had been released before.
    ///
    /// # Errors
    /// `NoMemory` when the kernel grants no more.
    pub fn lend(self: &Arc<Self>) -> Result<Lent> {
        let known = self.free().pop();
        let arena = known.map_or_else(|| Arena::busy(self.size_max), Ok)?;
        Ok(Lent { arena: Some(arena), pool: Arc::clone(self) })
    }

    /// Gives back to the kernel what nobody has.
    pub fn rest(&self) {
        self.free().clear();
    }
}

/// An arena that goes back when it is dropped.
#[derive(Debug)]
pub struct Lent {
    /// There until it is dropped.
    arena: Option<Arena>,
    pool: Arc<Pool>,
}

impl Lent {
    fn arena(&self) -> Result<&Arena> {
        self.arena.as_ref().ok_or(esker::Error::Corrupt)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(mut arena) = self.arena.take() {
            arena.forget();
            self.pool.free().push(arena);
        }
    }
}

impl Memory for Lent {
    fn size(&self) -> u64 {
        self.arena().map_or(0, Memory::size)
    }

    fn grow(&self, size: u64) -> Result<()> {
        self.arena()?.grow(size)
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        self.arena()?.read(at, target)
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        self.arena()?.write(at, source)
    }

    fn release(&self, at: u64, len: u64) {
        if let Ok(arena) = self.arena() {
            arena.release(at, len);
        }
    }

    fn lender(&self) -> Option<&'static dyn Lender> {
        self.arena.as_ref().and_then(Memory::lender)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arena_comes_back_empty() {
        let pool = Pool::new(1 << 20);
        let one = pool.lend().unwrap();
        one.grow(5).unwrap();
        one.write(0, b"bytes").unwrap();
        let other = pool.lend().unwrap();
        drop(one);
        let again = pool.lend().unwrap();
        assert_eq!((again.size(), pool.free().len()), (0, 0));
        assert!(again.read(0, &mut [0]).is_err());
        drop((other, again));
        assert_eq!(pool.free().len(), 2);
        pool.rest();
        assert_eq!(pool.free().len(), 0);
    }
}
