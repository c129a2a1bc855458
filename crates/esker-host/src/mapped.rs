//! A file mapped into memory as a [`Memory`], and one that comes back whole after a kill.
//!
//! What is written is the kernel's at once and outlives the process; what it has not yet brought to the device is lost
//! with the power, unless [`Memory::sync`] has returned. Neighbours: `arena` is the same without a file.
//! Invariant: nobody else has the file open through here meanwhile, and no byte past its end is touched.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use esker::ground::{Memory, Undo};
use esker::{Error, Result};
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock, ftruncate};
use rustix::io::Errno;

use crate::words::{self, WORD};

/// The file, which others may not map meanwhile.
#[derive(Debug)]
pub struct MappedFile {
    map: MmapRaw,
    file: File,
    /// Bytes of the file.
    size: AtomicU64,
}

impl MappedFile {
    /// Maps a file, which is made if it is not there, with address space for `size_max` bytes: it never gets longer.
    ///
    /// # Errors
    /// `WouldBlock` when somebody else has mapped it, `FileTooLarge` when it is longer than that; what the system says.
    pub fn open(path: &Path, size_max: u64) -> io::Result<Self> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let size = file.metadata()?.len();
        let reserved = usize::try_from(size_max.next_multiple_of(WORD as u64))
            .ok()
            .filter(|&reserved| reserved > 0 && size <= size_max)
            .ok_or(io::ErrorKind::FileTooLarge)?;
        // Past the end of the file there are addresses, and bytes as soon as it gets longer.
        let map = MmapOptions::new().len(reserved).map_raw(&file)?;
        Ok(Self { map, file, size: AtomicU64::new(size) })
    }

    /// A memory in the file that is as of the end of a call whenever it is opened, also after a kill: what calls change
    /// is first put aside in a file of the same name with `.undo` behind it.
    ///
    /// # Errors
    /// As [`MappedFile::open`]; `InvalidData` when the file of what was put aside holds something else.
    pub fn open_whole(path: &Path, size_max: u64) -> io::Result<Undo<Self, Self>> {
        let memory = Self::open(path, size_max)?;
        let mut name = path.as_os_str().to_owned();
        name.push(".undo");
        // At the worst a call changes every page, and each has a few bytes beside it.
        let log = Self::open(Path::new(&name), size_max.saturating_add(size_max / 64 + 4096))?;
        Undo::open(memory, log).map_err(|error| match error {
            Error::NoSpace => io::ErrorKind::StorageFull.into(),
            _ => io::ErrorKind::InvalidData.into(),
        })
    }

    fn words(&self) -> &[AtomicU64] {
        let len = self.map.len() / WORD;
        // SAFETY: the mapping lives as long as `self`, begins at a page, has `len` words, and is accessed as atomic
        // words only; `within` keeps all accesses before the end of the file.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().cast(), len) }
    }

    fn within(&self, at: u64, len: usize) -> Result<usize> {
        match at.checked_add(len as u64) {
            Some(end) if end <= self.size() => usize::try_from(at).map_err(|_| Error::Corrupt),
            _ => Err(Error::Corrupt),
        }
    }

    /// Storage for every byte, lest a write find the device full and the process be killed for it.
    fn extend(&self, size: u64, more: u64) -> rustix::io::Result<()> {
        match fallocate(&self.file, FallocateFlags::empty(), size, more) {
            // The file system cannot promise any.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => ftruncate(&self.file, size + more),
            done => done,
        }
    }
}

impl Memory for MappedFile {
    fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    fn grow(&self, size: u64) -> Result<()> {
        let Some(more) = size.checked_sub(self.size()).filter(|&more| more > 0) else {
            return Ok(());
        };
        if size > self.map.len() as u64 {
            return Err(Error::NoSpace);
        }
        self.extend(self.size(), more).map_err(|errno| match errno {
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Error::NoSpace,
            _ => Error::Io,
        })?;
        self.size.fetch_max(size, Ordering::AcqRel);
        Ok(())
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        words::read(self.words(), self.within(at, target.len())?, target);
        Ok(())
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        words::write(self.words(), self.within(at, source.len())?, source);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(|_| Error::Io)
    }
}
