//! What a host can do for large pieces of memory that the core has from the global allocator.
//!
//! Above: the tree's slabs. Below: `esker-host`, or nobody: a home does without. Invariant: only
//! [`Lender::release`] changes bytes, and only those that it is given.

use core::fmt::Debug;

/// Backs memory with huge pages, and takes back parts of it.
pub trait Lender: Debug + Sync {
    /// The `len` bytes from `start` on, used from now on and for long, would better lie on huge
    /// pages; or if not `wanted`, no longer. Advice: it changes no byte, whatever lies there.
    fn huge(&self, start: *const u8, len: usize, wanted: bool);

    /// The bytes of all pieces are not needed for now: they may turn to anything, and what is below them may go
    /// to others until they are written again. Pieces that follow each other in memory go together, for less.
    fn release(&self, pieces: &mut dyn Iterator<Item = &mut [u8]>);
}
