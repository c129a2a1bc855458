//! Where bytes come from: one small trait, so that a liar can be put in place of a file.

use crate::error::{Damage, Result};

/// Bytes with places from 0 that can be read in any order, by many threads.
pub trait ReadAt: Send + Sync {
    /// How many there are.
    ///
    /// # Errors
    /// What the device says.
    fn size(&self) -> Result<u64>;

    /// Fills `target` from `at` on, whole.
    ///
    /// # Errors
    /// `Truncated` past the end; what the device says.
    fn read_at(&self, at: u64, target: &mut [u8]) -> Result<()>;
}

impl ReadAt for [u8] {
    fn size(&self) -> Result<u64> {
        Ok(self.len() as u64)
    }

    fn read_at(&self, at: u64, target: &mut [u8]) -> Result<()> {
        let from = usize::try_from(at).ok();
        let found = from.and_then(|from| self.get(from..from.checked_add(target.len())?));
        target.copy_from_slice(found.ok_or(Damage::Truncated)?);
        Ok(())
    }
}

impl ReadAt for Vec<u8> {
    fn size(&self) -> Result<u64> {
        self.as_slice().size()
    }

    fn read_at(&self, at: u64, target: &mut [u8]) -> Result<()> {
        self.as_slice().read_at(at, target)
    }
}

#[cfg(unix)]
impl ReadAt for std::fs::File {
    fn size(&self) -> Result<u64> {
        use std::io::{Seek as _, SeekFrom};
        let meta = self.metadata()?;
        if meta.is_file() {
            return Ok(meta.len());
        }
        // A block device tells its size at its end. Nobody else uses this file's position.
        let mut file = self;
        Ok(file.seek(SeekFrom::End(0))?)
    }

    fn read_at(&self, at: u64, target: &mut [u8]) -> Result<()> {
        match std::os::unix::fs::FileExt::read_exact_at(self, target, at) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                Err(Damage::Truncated.into())
            }
            done => Ok(done?),
        }
    }
}

impl<R: ReadAt + ?Sized> ReadAt for &R {
    fn size(&self) -> Result<u64> {
        (**self).size()
    }

    fn read_at(&self, at: u64, target: &mut [u8]) -> Result<()> {
        (**self).read_at(at, target)
    }
}

impl<R: ReadAt + ?Sized> ReadAt for Box<R> {
    fn size(&self) -> Result<u64> {
        (**self).size()
    }

    fn read_at(&self, at: u64, target: &mut [u8]) -> Result<()> {
        (**self).read_at(at, target)
    }
}

impl<R: ReadAt + ?Sized> ReadAt for std::sync::Arc<R> {
    fn size(&self) -> Result<u64> {
        (**self).size()
    }

    fn read_at(&self, at: u64, target: &mut [u8]) -> Result<()> {
        (**self).read_at(at, target)
    }
}
