//! The memory seam: four verbs over one growable array of bytes, a fifth that gives some back, and who lends more.

use super::Lender;
use crate::error::Result;

/// A growable array of bytes with addresses from 0. Bytes that were never written read as zero.
///
/// Callers own disjoint ranges (the space allocator sees to it), so `read` and `write` take `&self`; an
/// implementation must be sound, if not meaningful, when ranges overlap all the same.
pub trait Memory {
    /// How many bytes there are.
    fn size(&self) -> u64;

    /// Makes it at least `size` bytes long. `NoSpace` when the memory cannot; nothing has changed then.
    fn grow(&self, size: u64) -> Result<()>;

    /// Copies out. `Corrupt` when the range lies past the end.
    fn read(&self, at: u64, target: &mut [u8]) -> Result<()>;

    /// Copies in. `Corrupt` when the range lies past the end.
    fn write(&self, at: u64, source: &[u8]) -> Result<()>;

    /// The range is no longer needed: its bytes may turn to anything, and its storage may go back to
    /// whoever lent it.
    fn release(&self, at: u64, len: u64) {
        let _ = (at, len);
    }

    /// Who can do more for what a home keeps outside of this memory.
    fn lender(&self) -> Option<&'static dyn Lender> {
        None
    }
}
