//! A device in memory that counts what is done to it, and how often each stretch of it is begun again.
//!
//! Above: [`super::subject`]. Below: the device seam. Invariant: it keeps every byte; what it counts is what was asked
//! of it, and nothing else.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use esker_volume::device::{Device, Fault, Geometry, Result};

/// What writes begin and end at.
const UNIT: u32 = 4096;

/// What was done to a device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub written: u64,
    pub requests: u64,
    pub flushes: u64,
    pub read: u64,
}

impl Seen {
    /// What was done since.
    pub const fn since(self, before: Self) -> Self {
        Self {
            written: self.written - before.written,
            requests: self.requests - before.requests,
            flushes: self.flushes - before.flushes,
            read: self.read - before.read,
        }
    }
}

/// The device.
pub struct Flash {
    bytes: Mutex<Vec<u8>>,
    block: u64,
    written: AtomicU64,
    requests: AtomicU64,
    largest: AtomicU64,
    flushes: AtomicU64,
    read: AtomicU64,
    erases: Vec<AtomicU64>,
}

impl Flash {
    /// Of zeros, with erase blocks of this length.
    pub fn new(size: u64, block: u64) -> Self {
        Self {
            bytes: Mutex::new(vec![0; size as usize]),
            block,
            written: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            largest: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
            read: AtomicU64::new(0),
            erases: (0..size / block).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// What was done to it until now.
    pub fn seen(&self) -> Seen {
        Seen {
            written: self.written.load(Relaxed),
            requests: self.requests.load(Relaxed),
            flushes: self.flushes.load(Relaxed),
            read: self.read.load(Relaxed),
        }
    }

    /// The largest request to write since this was asked last.
    pub fn largest(&self) -> u64 {
        self.largest.swap(0, Relaxed)
    }

    /// How often each erase block was written from its beginning.
    pub fn erases(&self) -> Vec<u64> {
        self.erases.iter().map(|count| count.load(Relaxed)).collect()
    }

    fn with<R>(&self, at: u64, len: usize, each: impl FnOnce(&mut [u8]) -> R) -> Result<R> {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        let part = bytes.get_mut(at as usize..).and_then(|rest| rest.get_mut(..len));
        Ok(each(part.ok_or(Fault::OutOfRange)?))
    }
}

impl Device for Flash {
    fn geometry(&self) -> Geometry {
        let size = self.bytes.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
        Geometry { size, unit: UNIT, zones: None }
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        self.read.fetch_add(target.len() as u64, Relaxed);
        self.with(at, target.len(), |bytes| target.copy_from_slice(bytes))
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        let len = source.len() as u64;
        self.written.fetch_add(len, Relaxed);
        self.requests.fetch_add(1, Relaxed);
        self.largest.fetch_max(len, Relaxed);
        if at.is_multiple_of(self.block)
            && let Some(count) = self.erases.get((at / self.block) as usize)
        {
            count.fetch_add(1, Relaxed);
        }
        self.with(at, source.len(), |bytes| bytes.copy_from_slice(source))
    }

    fn flush(&self) -> Result<()> {
        self.flushes.fetch_add(1, Relaxed);
        Ok(())
    }

    fn discard(&self, at: u64, len: u64) -> Result<()> {
        self.with(at, len as usize, |bytes| bytes.fill(0))
    }
}
