//! The one stretch of memory that all bytes go into and come out of: what a copy costs, and nothing
//! else.

use std::ops::Range;
use std::sync::{PoisonError, RwLock};

use esker::Ino;

const BLOCK_LEN: usize = 1 << 20;
const BLOCKS: usize = 64;
/// Files begin at different places, so that they do not all use the same block.
const STRIDE: u64 = 5 * 4096;

pub(super) struct Arena {
    blocks: Box<[RwLock<Box<[u8]>>]>,
}

impl Arena {
    pub(super) fn new() -> Self {
        let block = || RwLock::new(vec![0; BLOCK_LEN].into_boxed_slice());
        Self { blocks: (0..BLOCKS).map(|_| block()).collect() }
    }

    pub(super) fn read(&self, ino: Ino, at: u64, target: &mut [u8]) {
        for (block, within, part) in parts(ino, at, target.len()) {
            let bytes = self.blocks[block].read().unwrap_or_else(PoisonError::into_inner);
            target[part].copy_from_slice(&bytes[within]);
        }
    }

    pub(super) fn write(&self, ino: Ino, at: u64, source: &[u8]) {
        for (block, within, part) in parts(ino, at, source.len()) {
            let mut bytes = self.blocks[block].write().unwrap_or_else(PoisonError::into_inner);
            bytes[within].copy_from_slice(&source[part]);
        }
    }
}

/// The blocks that `len` bytes of a file touch: which, where in it, and what part of the bytes.
fn parts(
    ino: Ino,
    at: u64,
    len: usize,
) -> impl Iterator<Item = (usize, Range<usize>, Range<usize>)> {
    let start = ino.0.wrapping_mul(STRIDE).wrapping_add(at) % (BLOCK_LEN * BLOCKS) as u64;
    let mut done = 0;
    std::iter::from_fn(move || {
        let place = start as usize + done;
        let within = place % BLOCK_LEN;
        let part = (BLOCK_LEN - within).min(len - done);
        done += part;
        let block = place / BLOCK_LEN % BLOCKS;
        (part > 0).then_some((block, within..within + part, done - part..done))
    })
}
