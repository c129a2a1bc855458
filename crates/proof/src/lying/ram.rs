//! An honest device in memory: for long lives, of which nobody wants to know every write.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use esker_volume::device::{Device, Fault, Geometry, Result};

/// The device.
pub struct Ram {
    bytes: Mutex<Vec<u8>>,
    written: AtomicU64,
    looked_at: AtomicU64,
}

impl Ram {
    /// Of zeros.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self {
            bytes: Mutex::new(vec![0; size]),
            written: AtomicU64::new(0),
            looked_at: AtomicU64::new(0),
        }
    }

    /// Bytes that were written.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// Bytes that were read.
    #[must_use]
    pub fn looked_at(&self) -> u64 {
        self.looked_at.load(Relaxed)
    }

    fn with<R>(&self, at: u64, len: usize, f: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let part = bytes.get_mut(at as usize..).and_then(|rest| rest.get_mut(..len));
        Ok(f(part.ok_or(Fault::OutOfRange)?))
    }
}

impl Device for Ram {
    fn geometry(&self) -> Geometry {
        let size = self.bytes.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
        Geometry { size, unit: 4096, zones: None }
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        self.looked_at.fetch_add(target.len() as u64, Relaxed);
        self.with(at, target.len(), |bytes| target.copy_from_slice(bytes))
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        self.written.fetch_add(source.len() as u64, Relaxed);
        self.with(at, source.len(), |bytes| bytes.copy_from_slice(source))
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }

    /// What was there may be anything from now on.
    fn discard(&self, at: u64, len: u64) -> Result<()> {
        self.with(at, len as usize, |bytes| bytes.fill(0xdb))
    }
}
