//! A program's memory: on a host a slice, inside of a module the module's own.
//!
//! Invariant: every range that a program names is looked at before it is used.

use crate::{Errno, Result};

/// The linear memory of a program.
pub trait Guest {
    /// `len` bytes from `at`.
    ///
    /// # Errors
    /// `Fault` when they do not all lie in the memory.
    fn bytes(&self, at: u32, len: u32) -> Result<&[u8]>;

    /// The same, to be written.
    ///
    /// # Errors
    /// As [`Guest::bytes`].
    fn bytes_mut(&mut self, at: u32, len: u32) -> Result<&mut [u8]>;

    /// Copies in.
    ///
    /// # Errors
    /// As [`Guest::bytes`]; nothing was written then.
    #[inline]
    fn put(&mut self, at: u32, source: &[u8]) -> Result {
        let len = u32::try_from(source.len()).map_err(|_| Errno::Overflow)?;
        self.bytes_mut(at, len)?.copy_from_slice(source);
        Ok(())
    }

    /// A number, written; checked before anything else is done, it cannot fail later.
    ///
    /// # Errors
    /// As [`Guest::bytes`].
    #[inline]
    fn put_u32(&mut self, at: u32, number: u32) -> Result {
        self.put(at, &number.to_le_bytes())
    }

    /// The same for a longer one.
    ///
    /// # Errors
    /// As [`Guest::bytes`].
    #[inline]
    fn put_u64(&mut self, at: u32, number: u64) -> Result {
        self.put(at, &number.to_le_bytes())
    }
}

fn range(at: u32, len: u32) -> core::ops::Range<usize> {
    let start = at as usize;
    start..start.saturating_add(len as usize)
}

impl Guest for [u8] {
    #[inline]
    fn bytes(&self, at: u32, len: u32) -> Result<&[u8]> {
        self.get(range(at, len)).ok_or(Errno::Fault)
    }

    #[inline]
    fn bytes_mut(&mut self, at: u32, len: u32) -> Result<&mut [u8]> {
        self.get_mut(range(at, len)).ok_or(Errno::Fault)
    }
}
