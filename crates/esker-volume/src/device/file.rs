//! A device in a regular file or on a block device.

use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Seek as _, SeekFrom};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{
    Advice, FallocateFlags, FlockOperation, fadvise, fallocate, flock, ioctl_blkpbszget,
};

use super::ahead::Readers;
use super::{
    Buffer, Device, Fault, Geometry, Meter, Placement, Result, Stream, Wish, Zones, looped,
};
use crate::limits::{UNIT_MAX, UNIT_MIN};

/// What a device writes as a whole, by its own word; of a file, what the kernel's cache writes.
fn unit(file: &File) -> u32 {
    let own = ioctl_blkpbszget(file).ok().filter(|own| own.is_power_of_two());
    own.map_or(UNIT_MAX, |own| own.clamp(UNIT_MIN, UNIT_MAX))
}

/// Somebody who writes to the same file meanwhile.
pub trait Queue: Send + Sync {
    /// Takes a write, and gives back a buffer that may be filled.
    ///
    /// # Errors
    /// What became of this write, or of one before.
    fn submit(&self, at: u64, source: Buffer, stream: Stream) -> std::io::Result<Buffer>;

    /// From now on the device is told of streams in this way, if it can be.
    fn place(&self, wish: Wish);

    /// How it is told.
    fn placement(&self) -> Placement;

    /// Returns once all that it took is written, if not yet safe.
    ///
    /// # Errors
    /// The first that was not told of yet.
    fn wait(&self) -> std::io::Result<()>;
}

/// Somebody who knows the zones of the same device.
pub trait Zoning: Send + Sync {
    /// What they are like.
    fn zones(&self) -> Zones;

    /// Writes at the end of what was written of a zone.
    ///
    /// # Errors
    /// What the operating system says.
    fn write(&self, at: u64, source: &Buffer) -> std::io::Result<()>;

    /// As [`Device::written`].
    ///
    /// # Errors
    /// What the operating system says.
    fn written(&self, at: u64) -> std::io::Result<u64>;

    /// As [`Device::active`].
    ///
    /// # Errors
    /// What the operating system says.
    fn active(&self) -> std::io::Result<Vec<u64>>;

    /// Has zones begin again.
    ///
    /// # Errors
    /// What the operating system says.
    fn reset(&self, at: u64, len: u64) -> std::io::Result<()>;

    /// As [`Device::finish`].
    ///
    /// # Errors
    /// What the operating system says.
    fn finish(&self, at: u64) -> std::io::Result<()>;
}

/// Has a file, or a device, keep nothing of so many bytes from here on.
pub type Discard = fn(&File, u64, u64) -> std::io::Result<()>;

/// Makes a hole in a file.
fn hole(file: &File, at: u64, len: u64) -> std::io::Result<()> {
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(fallocate(file, how, at, len)?)
}

/// A file as a device. A sparse one grows as it is written.
pub struct FileDevice {
    file: File,
    /// What a loop device is made over: it has the same lock.
    _below: Vec<File>,
    size: AtomicU64,
    unit: u32,
    readers: Mutex<Readers>,
    /// What was asked of it, for whoever wants to know.
    meter: Arc<Meter>,
    queue: Option<Box<dyn Queue>>,
    zoning: Option<Box<dyn Zoning>>,
    discard: Discard,
    /// It can give nothing back.
    keeps_all: AtomicBool,
}

fn fault(error: &Error) -> Fault {
    match error.raw_os_error() {
        // ENOSPC, EDQUOT
        Some(28 | 122) => Fault::NoSpace,
        // EROFS
        Some(30) => Fault::ReadOnly,
        // ENXIO, ENODEV
        Some(6 | 19) => Fault::Gone,
        _ if error.kind() == ErrorKind::UnexpectedEof => Fault::OutOfRange,
        errno => Fault::Io(errno),
    }
}

/// What is read of it besides what is asked for, [`Readers`] say.
fn guided(file: File) -> File {
    // It only ever saves time.
    let _ = fadvise(&file, 0, None, Advice::Random);
    file
}

impl FileDevice {
    /// Opens what is there, and keeps every other one who asks for it out as long as it is open.
    ///
    /// # Errors
    /// What the operating system says; `WouldBlock` when somebody has it open.
    pub fn open(path: &Path, write: bool) -> std::io::Result<Self> {
        let file = OpenOptions::new().read(true).write(write).open(path)?;
        let how = if write {
            FlockOperation::NonBlockingLockExclusive
        } else {
            FlockOperation::NonBlockingLockShared
        };
        flock(&file, how)?;
        let below = looped::lock(path, how)?;
        let size = (&file).seek(SeekFrom::End(0))?;
        let (size, unit) = (AtomicU64::new(size), unit(&file));
        let (readers, meter) = (Mutex::default(), Arc::default());
        let (file, queue, zoning) = (guided(file), None, None);
        let (discard, keeps_all) = (hole, AtomicBool::new(false));
        Ok(Self {
            file,
            _below: below,
            size,
            unit,
            readers,
            meter,
            queue,
            zoning,
            discard,
            keeps_all,
        })
    }

    /// Whether it is a file, which can be made longer, and not a block device. Asked of what is open: a name may
    /// lead elsewhere by now.
    #[must_use]
    pub fn is_file(&self) -> bool {
        self.file.metadata().is_ok_and(|meta| meta.is_file())
    }

    /// What was asked of it since it was opened: it goes on counting.
    #[must_use]
    pub fn meter(&self) -> Arc<Meter> {
        Arc::clone(&self.meter)
    }

    /// The same, with somebody who writes meanwhile, if there is one for this file: he keeps the file as it was opened,
    /// with its lock, and gives back another for all else.
    #[must_use]
    pub fn with_queue(self, make: impl FnOnce(&File) -> Option<(Box<dyn Queue>, File)>) -> Self {
        match make(&self.file) {
            Some((queue, file)) => Self { file: guided(file), queue: Some(queue), ..self },
            None => self,
        }
    }

    /// From now on the device is told of streams in this way, if it can be: what does not go past the kernel's cache
    /// cannot.
    pub fn place(&self, wish: Wish) {
        if let Some(queue) = &self.queue {
            queue.place(wish);
        }
    }

    /// How the device is told of streams.
    #[must_use]
    pub fn placement(&self) -> Placement {
        self.queue.as_ref().map_or(Placement::Nothing, |queue| queue.placement())
    }

    /// Bytes that were given back since it was opened; nothing if it can give none back, as far as that was tried.
    #[must_use]
    pub fn given_back(&self) -> Option<u64> {
        let keeps = self.keeps_all.load(Ordering::Relaxed);
        (!keeps).then(|| self.meter.told().discarded)
    }

    /// The same, which gives back in this way what it need not keep; without, by a hole, which is what a file can.
    #[must_use]
    pub fn with_discard(self, discard: Discard) -> Self {
        Self { discard, ..self }
    }

    /// The same, whose zones somebody knows, if it has any.
    ///
    /// # Errors
    /// Those of `find`.
    pub fn with_zones(
        self,
        find: impl FnOnce(&File) -> std::io::Result<Option<Box<dyn Zoning>>>,
    ) -> std::io::Result<Self> {
        let zoning = find(&self.file)?;
        Ok(Self { zoning, ..self })
    }

    /// Makes a file of this size that takes no room yet, or opens the one that is there and makes it at least as large.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn create(path: &Path, size: u64) -> std::io::Result<Self> {
        drop(OpenOptions::new().create(true).append(true).open(path)?);
        let device = Self::open(path, true)?;
        device.lengthen(size)?;
        Ok(device)
    }

    /// Makes a file as long, and looks how long it is, or the device.
    fn lengthen(&self, size: u64) -> std::io::Result<u64> {
        let mut now = (&self.file).seek(SeekFrom::End(0))?;
        if now < size && self.is_file() {
            self.file.set_len(size)?;
            now = size;
        }
        self.size.fetch_max(now, Ordering::AcqRel);
        Ok(self.size())
    }

    fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    /// Has the kernel read what is likely to be wanted.
    fn read_ahead(&self, at: u64, len: usize) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(range) = readers.read(at, len as u64) else { return };
        drop(readers);
        let len = range.end.min(self.size()).saturating_sub(range.start);
        if let Some(len) = NonZeroU64::new(len) {
            let _ = fadvise(&self.file, range.start, Some(len), Advice::WillNeed);
        }
    }

    fn within(&self, at: u64, len: usize) -> Result<()> {
        let end = at.checked_add(len as u64).filter(|&end| end <= self.size());
        end.map(|_| ()).ok_or(Fault::OutOfRange)
    }
}

impl Device for FileDevice {
    fn geometry(&self) -> Geometry {
        let zones = self.zoning.as_ref().map(|zoning| zoning.zones());
        // Nothing is left out between writes to a zone, so there it is as large as it may be.
        let unit = if zones.is_some() { UNIT_MAX } else { self.unit };
        Geometry { size: self.size(), unit, zones }
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        self.within(at, target.len())?;
        self.read_ahead(at, target.len());
        self.meter.read(target.len() as u64);
        self.file.read_exact_at(target, at).map_err(|error| fault(&error))
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        self.within(at, source.len())?;
        self.meter.write(source.len() as u64);
        let done = match &self.zoning {
            Some(zoning) => zoning.write(at, &Buffer::from(source)),
            None => self.file.write_all_at(source, at),
        };
        done.map_err(|error| fault(&error))
    }

    fn submit(&self, at: u64, mut source: Buffer, stream: Stream) -> Result<Buffer> {
        self.within(at, source.len())?;
        match (&self.zoning, &self.queue) {
            // Those of a zone must come in their order.
            (Some(zoning), _) => {
                self.meter.write(source.len() as u64);
                zoning.write(at, &source).map_err(|error| fault(&error))?;
            }
            (None, Some(queue)) => {
                self.meter.write(source.len() as u64);
                return queue.submit(at, source, stream).map_err(|error| fault(&error));
            }
            (None, None) => self.write(at, &source)?,
        }
        source.clear();
        Ok(source)
    }

    fn flush(&self) -> Result<()> {
        self.meter.flush();
        let waited = self.queue.as_ref().map_or(Ok(()), |queue| queue.wait());
        waited.and_then(|()| self.file.sync_data()).map_err(|error| fault(&error))
    }

    fn discard(&self, at: u64, len: u64) -> Result<()> {
        if let Some(zoning) = &self.zoning {
            return zoning.reset(at, len).map_err(|error| fault(&error));
        }
        match (self.discard)(&self.file, at, len) {
            // It only ever saves room: where it cannot, nothing is lost.
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                self.keeps_all.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => Err(fault(&error)),
            Ok(()) => {
                self.meter.discard(len);
                Ok(())
            }
        }
    }

    fn extend(&self, size: u64) -> Result<u64> {
        self.lengthen(size).map_err(|error| fault(&error))
    }

    fn written(&self, at: u64) -> Result<Option<u64>> {
        let written = self.zoning.as_ref().map(|zoning| zoning.written(at));
        written.transpose().map_err(|error| fault(&error))
    }

    fn finish(&self, at: u64) -> Result<()> {
        let finished = self.zoning.as_ref().map(|zoning| zoning.finish(at));
        finished.unwrap_or(Ok(())).map_err(|error| fault(&error))
    }

    fn active(&self) -> Result<Vec<u64>> {
        let active = self.zoning.as_ref().map(|zoning| zoning.active());
        active.unwrap_or(Ok(Vec::new())).map_err(|error| fault(&error))
    }
}
