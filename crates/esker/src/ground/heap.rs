//! Memory from the global allocator, in blocks: for tests, wasm programs and wherever nothing better is at hand.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::memory::Memory;
use super::order::Rank;
use super::sync::RwLock;
use crate::error::{Error, Result};
use crate::limits::RELEASE_UNIT;

const BLOCK: usize = RELEASE_UNIT as usize;
type Block = Option<Box<[u8]>>;

/// Blocks of [`RELEASE_UNIT`] bytes, allocated when first written and freed when released.
pub struct Heap {
    blocks: RwLock<Vec<RwLock<Block>>>,
}

impl Heap {
    /// An empty memory.
    #[must_use]
    pub fn new() -> Self {
        Self { blocks: RwLock::new(Rank::Blocks.only(), Vec::new()) }
    }

    /// Calls `each` with every block that the range touches, the range's part in the block, and how
    /// many bytes of the range came before it.
    fn walk(
        &self,
        at: u64,
        len: usize,
        mut each: impl FnMut(&RwLock<Block>, core::ops::Range<usize>, usize) -> Result<()>,
    ) -> Result<()> {
        let blocks = self.blocks.read();
        let mut done = 0;
        while done < len {
            let from = at.checked_add(done as u64).ok_or(Error::Corrupt)?;
            let index = usize::try_from(from / RELEASE_UNIT).map_err(|_| Error::Corrupt)?;
            let within = (from % RELEASE_UNIT) as usize;
            let part = (len - done).min(BLOCK - within);
            let block = blocks.get(index).ok_or(Error::Corrupt)?;
            each(block, within..within + part, done)?;
            done += part;
        }
        Ok(())
    }
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

impl Memory for Heap {
    fn size(&self) -> u64 {
        self.blocks.read().len() as u64 * RELEASE_UNIT
    }

    fn grow(&self, size: u64) -> Result<()> {
        let count = usize::try_from(size.div_ceil(RELEASE_UNIT)).map_err(|_| Error::NoSpace)?;
        let mut blocks = self.blocks.write();
        if count > blocks.len() {
            let more = count - blocks.len();
            blocks.try_reserve(more).map_err(|_| Error::NoSpace)?;
            let known = blocks.len();
            let block = |index| RwLock::new(Rank::Block.number(index), None);
            blocks.extend((known..count).map(block));
        }
        Ok(())
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        self.walk(at, target.len(), |block, part, done| {
            let target = &mut target[done..done + part.len()];
            match &*block.read() {
                Some(bytes) => target.copy_from_slice(&bytes[part]),
                None => target.fill(0),
            }
            Ok(())
        })
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        self.walk(at, source.len(), |block, part, done| {
            let source = &source[done..done + part.len()];
            let mut block = block.write();
            block.get_or_insert_with(|| alloc::vec![0; BLOCK].into_boxed_slice())[part]
                .copy_from_slice(source);
            Ok(())
        })
    }

    fn release(&self, at: u64, len: u64) {
        let Some(end) = at.checked_add(len) else { return };
        let blocks = self.blocks.read();
        let whole = at.div_ceil(RELEASE_UNIT)..(end / RELEASE_UNIT).min(blocks.len() as u64);
        for index in whole {
            *blocks[index as usize].write() = None;
        }
    }
}
