//! How a volume on a block device is written: past the kernel's cache, where the machine allows it; and by the rules of
//! its zones, where it has any.
//!
//! Below: `esker_host`. Invariant: a machine that cannot go past the cache is as right, and only slower; zones are
//! never written through it, for it keeps no order.

use std::fs::File;
use std::os::unix::fs::FileTypeExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use esker_host::{Placing, Writes, ZonedFile};
use esker_volume::device::{Buffer, Placement, Queue, Stream, Wish, Zones, Zoning};

/// The queue of a file.
pub struct Direct {
    writes: Writes,
    /// Streams that the device keeps apart.
    streams: u8,
    /// Whether it is to be told of any.
    wanted: AtomicBool,
}

/// Of what is to stay as long, `RWH_WRITE_LIFE_SHORT` to `RWH_WRITE_LIFE_EXTREME`.
const fn lifetime(stream: Stream) -> u8 {
    stream as u8 + 2
}

impl Direct {
    /// For a block device that may be written, if that can be; and what it is to be used by otherwise.
    pub fn begin(file: &File) -> Option<(Box<dyn Queue>, File)> {
        if !file.metadata().is_ok_and(|meta| meta.file_type().is_block_device()) {
            return None;
        }
        let (writes, file) = Writes::new(file).ok()?;
        let streams = writes.streams();
        Some((Box::new(Self { writes, streams, wanted: AtomicBool::new(true) }), file))
    }
}

impl Queue for Direct {
    fn submit(&self, at: u64, source: Buffer, stream: Stream) -> std::io::Result<Buffer> {
        let place = match self.writes.placing() {
            Placing::Streams => stream.of(self.streams),
            Placing::Lifetimes => lifetime(stream),
            Placing::Nothing | Placing::Refused => 0,
        };
        self.writes.submit(at, source.into_parts(), place).map(Buffer::from_parts)
    }

    fn place(&self, wish: Wish) {
        self.wanted.store(wish != Wish::Nothing, Ordering::Relaxed);
        self.writes.place_by(match wish {
            // One is as good as none.
            Wish::Auto | Wish::Streams if self.streams > 1 => Placing::Streams,
            Wish::Lifetimes => Placing::Lifetimes,
            Wish::Auto | Wish::Streams | Wish::Nothing => Placing::Nothing,
        });
    }

    fn placement(&self) -> Placement {
        match self.writes.placing() {
            Placing::Nothing if self.wanted.load(Ordering::Relaxed) => Placement::Alone,
            Placing::Nothing => Placement::Unwanted,
            Placing::Streams => Placement::Streams(self.streams),
            Placing::Lifetimes => Placement::Lifetimes,
            Placing::Refused => Placement::Refused,
        }
    }

    fn wait(&self) -> std::io::Result<()> {
        self.writes.wait()
    }
}

/// The zones of a device.
pub struct Zoned(ZonedFile);

impl Zoned {
    /// Of a block device that has some.
    pub fn find(file: &File, write: bool) -> std::io::Result<Option<Box<dyn Zoning>>> {
        if !file.metadata()?.file_type().is_block_device() {
            return Ok(None);
        }
        let found = ZonedFile::new(file, write)?;
        Ok(found.map(|zoned| Box::new(Self(zoned)) as Box<dyn Zoning>))
    }
}

impl Zoning for Zoned {
    fn zones(&self) -> Zones {
        let layout = self.0.layout();
        Zones { len: layout.len, capacity: layout.capacity, active: layout.active }
    }

    fn write(&self, at: u64, source: &Buffer) -> std::io::Result<()> {
        self.0.write(at, source)
    }

    fn written(&self, at: u64) -> std::io::Result<u64> {
        self.0.written(at)
    }

    fn active(&self) -> std::io::Result<Vec<u64>> {
        self.0.active()
    }

    fn reset(&self, at: u64, len: u64) -> std::io::Result<()> {
        self.0.reset(at, len)
    }

    fn finish(&self, at: u64) -> std::io::Result<()> {
        self.0.finish(at)
    }
}
