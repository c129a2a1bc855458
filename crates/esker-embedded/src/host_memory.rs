//! A memory that the program's host keeps, behind four functions: in plain WebAssembly, imported ones.
//!
//! Invariant: the host is asked for no byte past the size that it told.

use esker::ground::Memory;
use esker::{Error, Result};

/// A memory by its verbs, in bytes. The program wraps what it imports (examples/imported.rs).
#[derive(Clone, Copy, Debug)]
pub struct HostMemory {
    /// How many bytes there are.
    pub size: fn() -> u64,
    /// Makes it at least so long, with zeros; whether it could.
    pub grow: fn(u64) -> bool,
    /// Copies out what is at an address.
    pub read: fn(u64, &mut [u8]),
    /// Copies in.
    pub write: fn(u64, &[u8]),
}

impl HostMemory {
    fn check(&self, at: u64, len: usize) -> Result<()> {
        match at.checked_add(len as u64) {
            Some(end) if end <= self.size() => Ok(()),
            _ => Err(Error::Corrupt),
        }
    }
}

impl Memory for HostMemory {
    fn size(&self) -> u64 {
        (self.size)()
    }

    fn grow(&self, size: u64) -> Result<()> {
        if size <= self.size() || (self.grow)(size) { Ok(()) } else { Err(Error::NoSpace) }
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        self.check(at, target.len())?;
        (self.read)(at, target);
        Ok(())
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        self.check(at, source.len())?;
        (self.write)(at, source);
        Ok(())
    }
}
