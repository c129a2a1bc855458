//! Stored bytes, one after the other, for codecs that are our own.
//!
//! Above: `jpeg`, `pcm`. Invariant: no more is asked of whoever reads than a buffer's worth at a time.

use std::io::Read;

use super::undecodable;
use crate::error::Result;

/// Bytes that are read together.
const BUFFER_LEN: usize = 4096;

/// Gives bytes from a reader.
pub(super) struct Feed<'a> {
    source: &'a mut dyn Read,
    buffer: Box<[u8; BUFFER_LEN]>,
    /// What of it was not taken yet.
    ready: std::ops::Range<usize>,
}

impl<'a> Feed<'a> {
    pub fn new(source: &'a mut dyn Read) -> Self {
        Self { source, buffer: Box::new([0; BUFFER_LEN]), ready: 0..0 }
    }

    /// The next one; `None`: there is no more.
    #[inline]
    pub fn next(&mut self) -> Result<Option<u8>> {
        if self.ready.is_empty() {
            self.load()?;
        }
        Ok(self.ready.next().map(|at| self.buffer[at]))
    }

    /// The next eight, the first one lowest, if so many were read already.
    #[inline]
    pub fn eight(&self) -> Option<u64> {
        let eight = self.buffer[self.ready.clone()].first_chunk()?;
        Some(u64::from_le_bytes(*eight))
    }

    /// So many are taken, of those that were read already.
    #[inline]
    pub fn skip(&mut self, count: usize) {
        self.ready.start = self.ready.end.min(self.ready.start + count);
    }

    /// Whether there is no more.
    pub fn is_at_end(&mut self) -> Result<bool> {
        if self.ready.is_empty() {
            self.load()?;
        }
        Ok(self.ready.is_empty())
    }

    #[cold]
    fn load(&mut self) -> Result<()> {
        let count = self.source.read(&mut self.buffer[..]).map_err(|error| undecodable(&error))?;
        self.ready = 0..count;
        Ok(())
    }
}
