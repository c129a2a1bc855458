//! A volume on a device in memory, with a file to write over: in this process, without a mount and without a clock, so
//! that every run does the very same.
//!
//! Above: [`super::steady`], [`super::wear`], [`super::inflation`]. Below: [`super::device`]. Invariant: no two blocks
//! that are written are alike.

use std::sync::Arc;

use esker::ground::Heap;
use esker::limits::FILE_SIZE_MAX;
use esker::memory::{Home, Options};
use esker::posix::{Caller, Fs, New};
use esker::store::View as _;
use esker::{Ino, Kind, Name, Time};
use esker_stone::Setting;
use esker_stone::cache::Cache;
use esker_volume::{Kept, Making, Volume, make, mkfs, open};

use super::device::Flash;
use crate::bench::storing::next;
use crate::failure::{Exit, Failure, Outcome};

/// Bytes of a block that is written over.
pub const BLOCK: u64 = 4096;
/// Bytes that change in memory before they are written at the latest.
const DIRTY_MAX: u64 = 32 << 20;
/// Bytes of what was read that are kept in memory.
const CACHE_LEN: usize = 64 << 20;
/// Bytes that are written at a time.
const PIECE: usize = 256 << 10;

type Above = Kept<Home<Heap>, Arc<Flash>>;

/// How a volume is made.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Bytes of the device.
    pub size: u64,
    /// Bytes of a segment; 0: what suits the size.
    pub segment: u64,
    /// Bytes of a block that is compressed alone.
    pub block: u32,
    /// How it is compressed.
    pub setting: Setting,
}

/// A volume, and the device below.
pub struct Subject {
    pub fs: Fs<Above>,
    pub device: Arc<Flash>,
    /// Where chance goes on.
    pub chance: u64,
}

const fn clock() -> Time {
    Time { secs: 1_700_000_000, nanos: 0 }
}

/// In the words of a failure.
pub fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::new(Exit::Failed, format!("the simulation failed: {error}"), "")
}

impl Subject {
    /// A fresh one.
    pub fn new(shape: Shape) -> Outcome<Self> {
        let segment = match shape.segment {
            0 => mkfs::segment_len(shape.size),
            segment => segment,
        };
        let device = Arc::new(Flash::new(shape.size, segment));
        let root = esker::Attr::new(Kind::Directory, 0o755, 0, 0, Ino::ROOT, clock());
        let making = Making {
            segment_len: segment,
            block_len: shape.block,
            setting: shape.setting,
            copies: 1,
            reserve: 0,
            label: [0; 32],
            uuid: [7; 16],
            root,
            born: 0,
        };
        make(&device, &making).map_err(failed)?;
        let cache = Cache::new(CACHE_LEN);
        let opened = esker_volume::Options { write: true, ..esker_volume::Options::new(cache) };
        let volume = open(Arc::clone(&device), opened).map_err(failed)?;
        let options = Options { size_max: DIRTY_MAX, file_size_max: FILE_SIZE_MAX, root };
        let again = move |used: Home<Heap>| used.again(|| Ok(Heap::new()), &options);
        let homes = Box::new((move || Home::new(Heap::new(), &options), again));
        let fs = Fs::new(Kept::new(volume, DIRTY_MAX, homes).map_err(failed)?, clock);
        Ok(Self { fs, device, chance: 1 })
    }

    /// The volume.
    pub fn volume(&self) -> &Volume<Arc<Flash>> {
        self.fs.store().volume()
    }

    /// How much of what it can hold it holds, in hundredths.
    pub fn percent(&self) -> u64 {
        let space = self.fs.store().space();
        space.used * 100 / space.total.max(1)
    }

    /// An empty file.
    pub fn file(&self, name: &str) -> Outcome<Ino> {
        let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
        let name = Name::parse(name.as_bytes()).map_err(failed)?;
        Ok(self.fs.create(&Caller::ROOT, Ino::ROOT, name, new).map_err(failed)?.ino)
    }

    /// All that was written is made safe.
    pub fn sync(&self) -> Outcome {
        self.fs.sync().map_err(failed)
    }

    /// A number below this one.
    pub const fn below(&mut self, end: u64) -> u64 {
        next(&mut self.chance) % end
    }

    /// Bytes like no others.
    pub fn noise(&mut self, target: &mut [u8]) {
        for chunk in target.chunks_mut(8) {
            let bytes = next(&mut self.chance).to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
    }

    /// Writes this at this place.
    pub fn write(&self, ino: Ino, at: u64, bytes: &[u8]) -> Outcome {
        self.fs.write(ino, at, bytes, false).map(drop).map_err(failed)
    }

    /// A block of chance in the place of what was there.
    pub fn overwrite(&mut self, ino: Ino, number: u64) -> Outcome {
        let mut bytes = [0; BLOCK as usize];
        self.noise(&mut bytes);
        self.write(ino, number * BLOCK, &bytes)
    }

    /// Adds to a file until the volume is so full, in hundredths; how many blocks it has then.
    pub fn fill(&mut self, ino: Ino, percent: u64) -> Outcome<u64> {
        let (mut at, mut bytes) = (0, vec![0; PIECE]);
        while self.percent() < percent {
            self.noise(&mut bytes);
            self.write(ino, at, &bytes)?;
            at += PIECE as u64;
            if at.is_multiple_of(16 * PIECE as u64) {
                self.sync()?;
            }
        }
        self.sync()?;
        Ok(at / BLOCK)
    }
}
