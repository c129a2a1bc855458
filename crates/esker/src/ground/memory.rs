//! The memory seam: four verbs over one growable array of bytes, two of them also for those who have looked already,
//! one that gives some back, and who lends more.

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

    /// As [`read`](Self::read), of a range that was seen to lie below [`size`](Self::size): a memory that never
    /// shrinks, and is safe all the same, need not look again.
    #[inline]
    fn read_inside(&self, at: u64, target: &mut [u8]) -> Result<()> {
        debug_assert!(lies_inside(at, target.len(), self.size()), "bytes at {at} were seen");
        self.read(at, target)
    }

    /// As [`write`](Self::write), of such a range.
    #[inline]
    fn write_inside(&self, at: u64, source: &[u8]) -> Result<()> {
        debug_assert!(lies_inside(at, source.len(), self.size()), "bytes at {at} were seen");
        self.write(at, source)
    }

    /// The range is no longer needed: its bytes may turn to anything, and its storage may go back to
    /// whoever lent it.
    fn release(&self, at: u64, len: u64) {
        let _ = (at, len);
    }

    /// Everything written since the last call belongs together, and is now whole: a memory that outlives a kill
    /// comes back as of the last such call, or of the one that was under way if that got far enough.
    fn whole(&self) -> Result<()> {
        Ok(())
    }

    /// Returns once what is whole would survive a loss of power, as far as the memory promises that.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    /// Who can do more for what a home keeps outside of this memory.
    fn lender(&self) -> Option<&'static dyn Lender> {
        None
    }
}

/// As far as anybody looks whether there is something in a memory, in bytes.
const LOOKED_AT: u64 = 16 << 20;
/// Bytes that are looked at together.
const CHUNK: u64 = 64 << 10;

/// Whether a memory holds nothing yet: it has no bytes, or the first 16 MiB of them are zeros. It may have grown for
/// somebody whose first call was ended, or be a part of a larger one that did.
///
/// # Errors
/// Of the memory.
pub fn is_blank<M: Memory + ?Sized>(memory: &M) -> Result<bool> {
    let (end, mut at) = (memory.size().min(LOOKED_AT), 0);
    if end == 0 {
        return Ok(true);
    }
    // Most that holds something begins with it.
    let mut first = [0; 8];
    let len = first.len().min(end as usize);
    memory.read(0, &mut first[..len])?;
    let mut blank = first == [0; 8];
    let mut chunk = alloc::vec![0; if blank { end.min(CHUNK) as usize } else { 0 }];
    while blank && at < end {
        let len = (end - at).min(CHUNK) as usize;
        memory.read(at, &mut chunk[..len])?;
        blank = chunk[..len].iter().all(|&byte| byte == 0);
        at += len as u64;
    }
    Ok(blank)
}

/// Whether so many bytes from an address on are among the first `size`.
fn lies_inside(at: u64, len: usize, size: u64) -> bool {
    at.checked_add(len as u64).is_some_and(|end| end <= size)
}

/// A memory that somebody else owns.
impl<M: Memory + ?Sized> Memory for &M {
    fn size(&self) -> u64 {
        (**self).size()
    }

    fn grow(&self, size: u64) -> Result<()> {
        (**self).grow(size)
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        (**self).read(at, target)
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        (**self).write(at, source)
    }

    fn read_inside(&self, at: u64, target: &mut [u8]) -> Result<()> {
        (**self).read_inside(at, target)
    }

    fn write_inside(&self, at: u64, source: &[u8]) -> Result<()> {
        (**self).write_inside(at, source)
    }

    fn release(&self, at: u64, len: u64) {
        (**self).release(at, len);
    }

    fn whole(&self) -> Result<()> {
        (**self).whole()
    }

    fn sync(&self) -> Result<()> {
        (**self).sync()
    }

    fn lender(&self) -> Option<&'static dyn Lender> {
        (**self).lender()
    }
}

/// A memory of any kind.
impl<M: Memory + ?Sized> Memory for alloc::boxed::Box<M> {
    fn size(&self) -> u64 {
        (**self).size()
    }

    fn grow(&self, size: u64) -> Result<()> {
        (**self).grow(size)
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        (**self).read(at, target)
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        (**self).write(at, source)
    }

    fn read_inside(&self, at: u64, target: &mut [u8]) -> Result<()> {
        (**self).read_inside(at, target)
    }

    fn write_inside(&self, at: u64, source: &[u8]) -> Result<()> {
        (**self).write_inside(at, source)
    }

    fn release(&self, at: u64, len: u64) {
        (**self).release(at, len);
    }

    fn whole(&self) -> Result<()> {
        (**self).whole()
    }

    fn sync(&self) -> Result<()> {
        (**self).sync()
    }

    fn lender(&self) -> Option<&'static dyn Lender> {
        (**self).lender()
    }
}
