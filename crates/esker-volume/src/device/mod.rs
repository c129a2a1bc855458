//! The device seam: positioned reads and writes, a barrier, and what a zoned device asks for.
//!
//! Above: `log`, `recovery`, `mkfs`. Below: a file here, a liar in the workshop. Invariant: nothing above says
//! how a byte gets to the medium; every failure comes back as a [`Fault`], and nothing here tries again.

mod ahead;
mod buffer;
mod file;
mod looped;
mod meter;
mod stream;

pub use buffer::{ALIGN, Buffer};
pub use file::{Discard, FileDevice, Queue, Zoning};
pub use looped::below;
pub use meter::{Meter, Traffic};
pub use stream::{Placement, Stream, Wish};

use std::fmt;

/// The result of asking a device.
pub type Result<T> = core::result::Result<T, Fault>;

/// What a device may answer instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It failed, with this errno if it had one.
    Io(Option<i32>),
    /// There is no room below it: a full host under a sparse file.
    NoSpace,
    /// It cannot be written.
    ReadOnly,
    /// It is not there any more.
    Gone,
    /// Past its end.
    OutOfRange,
    /// A zone is written elsewhere than at its write pointer, or beyond its capacity.
    Zone,
}

/// Zones: stretches that are only written from their beginning on, and begun again as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zones {
    /// From the beginning of one to that of the next, in bytes.
    pub len: u64,
    /// How many of these can be written.
    pub capacity: u64,
    /// How many may be begun and neither full nor finished at a time; 0: any number.
    pub active: u32,
}

/// What a device is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// In bytes.
    pub size: u64,
    /// Writes begin and end at multiples of this.
    pub unit: u32,
    /// Its zones, if it has them.
    pub zones: Option<Zones>,
}

/// Something that keeps bytes through a loss of power, after a [`Device::flush`].
pub trait Device: Send + Sync {
    /// What it is like.
    fn geometry(&self) -> Geometry;

    /// Fills `target` from `at` on, whole.
    ///
    /// # Errors
    /// What the device says.
    fn read(&self, at: u64, target: &mut [u8]) -> Result<()>;

    /// Puts all of `source` at `at`. Until a flush nobody knows which of its bytes would survive.
    ///
    /// # Errors
    /// What the device says; the bytes there are then unknown.
    fn write(&self, at: u64, source: &[u8]) -> Result<()>;

    /// The same, but it need not be done when this returns: what becomes of it is said by the next flush at the
    /// latest. Nobody reads there before. A buffer for what comes next is given back, empty. What is of one stream the
    /// device may put together, apart from all else.
    ///
    /// # Errors
    /// What the device says, of this write or of one before; no write is on its way any more then.
    fn submit(&self, at: u64, mut source: Buffer, stream: Stream) -> Result<Buffer> {
        let _ = stream;
        self.write(at, &source)?;
        source.clear();
        Ok(source)
    }

    /// Returns once every write before is safe.
    ///
    /// # Errors
    /// What the device says; every write since the last flush that succeeded is then unknown.
    fn flush(&self) -> Result<()>;

    /// The bytes there are needed no more. A zone is begun again by this.
    ///
    /// # Errors
    /// What the device says.
    fn discard(&self, at: u64, len: u64) -> Result<()>;

    /// Makes it at least as large, where that can be; how large it is then, which may be more. Nothing moves.
    ///
    /// # Errors
    /// What the device says.
    fn extend(&self, size: u64) -> Result<u64> {
        let _ = size;
        Ok(self.geometry().size)
    }

    /// How far the zone that begins at `at` was written; `None`: there are no zones.
    ///
    /// # Errors
    /// What the device says.
    fn written(&self, at: u64) -> Result<Option<u64>> {
        let _ = at;
        Ok(None)
    }

    /// The zone that begins at `at` is written no further before it is begun again: it is active no more. Without
    /// zones it is nothing.
    ///
    /// # Errors
    /// What the device says.
    fn finish(&self, at: u64) -> Result<()> {
        let _ = at;
        Ok(())
    }

    /// Where zones begin that are active: begun, and neither full nor finished.
    ///
    /// # Errors
    /// What the device says.
    fn active(&self) -> Result<Vec<u64>> {
        Ok(Vec::new())
    }
}

macro_rules! through {
    ($($pointer:ty),*) => {$(
        impl<D: Device + ?Sized> Device for $pointer {
            fn geometry(&self) -> Geometry {
                (**self).geometry()
            }

            fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
                (**self).read(at, target)
            }

            fn write(&self, at: u64, source: &[u8]) -> Result<()> {
                (**self).write(at, source)
            }

            fn submit(&self, at: u64, source: Buffer, stream: Stream) -> Result<Buffer> {
                (**self).submit(at, source, stream)
            }

            fn flush(&self) -> Result<()> {
                (**self).flush()
            }

            fn discard(&self, at: u64, len: u64) -> Result<()> {
                (**self).discard(at, len)
            }

            fn extend(&self, size: u64) -> Result<u64> {
                (**self).extend(size)
            }

            fn written(&self, at: u64) -> Result<Option<u64>> {
                (**self).written(at)
            }

            fn finish(&self, at: u64) -> Result<()> {
                (**self).finish(at)
            }

            fn active(&self) -> Result<Vec<u64>> {
                (**self).active()
            }
        }
    )*};
}
through!(&D, std::sync::Arc<D>);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(Some(errno)) => {
                let text = std::io::Error::from_raw_os_error(*errno).to_string();
                f.write_str(text.rsplit_once(" (os error ").map_or(&*text, |(words, _)| words))
            }
            Self::Io(None) => f.write_str("the device failed"),
            Self::NoSpace => f.write_str("no room below the volume"),
            Self::ReadOnly => f.write_str("the device cannot be written"),
            Self::Gone => f.write_str("the device is gone"),
            Self::OutOfRange => f.write_str("past the end of the device"),
            Self::Zone => f.write_str("against the rules of the zone"),
        }
    }
}
