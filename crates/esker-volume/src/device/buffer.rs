//! Bytes that begin where a device can take them from without copying.
//!
//! Above: `commit`, `settle`. Invariant: the first byte lies at a multiple of [`ALIGN`], whatever was added.

use std::ops::{Deref, DerefMut};

/// Where they begin: a multiple of every device's unit.
pub const ALIGN: usize = 4096;

/// Bytes to be written, which grow at their end.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
    start: usize,
}

impl Buffer {
    /// Of no bytes, with room for so many.
    #[must_use]
    pub fn with_capacity(len: usize) -> Self {
        let mut bytes: Vec<u8> = Vec::with_capacity(len + ALIGN);
        let start = bytes.as_ptr().align_offset(ALIGN).min(ALIGN);
        bytes.resize(start, 0);
        Self { bytes, start }
    }

    /// Those of a buffer that was taken apart.
    #[must_use]
    pub fn from_parts((bytes, start): (Vec<u8>, usize)) -> Self {
        let start = start.min(bytes.len());
        Self { bytes, start }
    }

    /// The allocation, and where in it the bytes begin.
    #[must_use]
    pub fn into_parts(self) -> (Vec<u8>, usize) {
        (self.bytes, self.start)
    }

    fn reserve(&mut self, more: usize) {
        if self.bytes.capacity() - self.bytes.len() < more {
            let mut larger = Self::with_capacity((2 * self.len()).max(self.len() + more));
            larger.bytes.extend_from_slice(self);
            *self = larger;
        }
    }

    /// More at its end.
    pub fn extend_from_slice(&mut self, more: &[u8]) {
        self.reserve(more.len());
        self.bytes.extend_from_slice(more);
    }

    /// So many bytes, zeros where there were none.
    pub fn resize(&mut self, len: usize) {
        self.reserve(len.saturating_sub(self.len()));
        self.bytes.resize(self.start + len, 0);
    }

    /// No bytes, and room for as many as there were.
    pub fn clear(&mut self) {
        self.bytes.truncate(self.start);
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..).unwrap_or_default()
    }
}

impl From<&[u8]> for Buffer {
    fn from(bytes: &[u8]) -> Self {
        let mut buffer = Self::with_capacity(bytes.len());
        buffer.extend_from_slice(bytes);
        buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_begin_where_they_should_however_they_grow() {
        let mut buffer = Buffer::default();
        let mut wanted = Vec::new();
        for len in [1, 4095, 70_000, 3, 1 << 20] {
            let more = vec![len as u8; len];
            buffer.extend_from_slice(&more);
            wanted.extend_from_slice(&more);
            assert_eq!(buffer.as_ptr().align_offset(ALIGN), 0);
        }
        buffer.resize(wanted.len() + 5);
        wanted.resize(wanted.len() + 5, 0);
        assert_eq!(*buffer, *wanted);
        let mut again = Buffer::from_parts(buffer.into_parts());
        assert_eq!(*again, *wanted);
        again.clear();
        again.extend_from_slice(b"new");
        assert_eq!((&*again, again.as_ptr().align_offset(ALIGN)), (&b"new"[..], 0));
    }
}
