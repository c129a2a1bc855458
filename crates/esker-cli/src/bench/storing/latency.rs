//! How long writes take, at half the rate that can be kept up: on a file system that is fresh, and on one that was
//! filled and written over for long.
//!
//! Above: `work`. Invariant: what a write waits for because the one before it was late is counted too.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{fdatasync, fstatvfs};

use super::super::stop;
use super::data::{BLOCK, Data, WRITES_A_SYNC, next};

/// How long the rate is sought that can be kept up, and how long half of it is held.
const FULL_SPEED: Duration = Duration::from_secs(5);
const HALF_SPEED: Duration = Duration::from_secs(15);
/// Blocks of the file on a fresh file system.
const FRESH_BLOCKS: u64 = (64 << 20) / BLOCK as u64;
/// How full a file system is made, in hundredths, and how often so many blocks are written over then.
const FULL: u64 = 90;
const ROUNDS: u64 = 5;

/// What writes took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// Writes a second that could be kept up.
    pub rate: f64,
    /// Seconds, of the median of writes at half that rate, of the last of a thousand, and of the longest one.
    pub median: f64,
    pub last_of_1000: f64,
    pub longest: f64,
}

/// A file that is written over, block by block.
pub struct Writer<'a> {
    file: &'a File,
    blocks: u64,
    data: Data,
    chance: u64,
    written: u64,
    /// How often all was asked to be safe.
    pub syncs: u64,
}

impl<'a> Writer<'a> {
    /// Of a file of blocks.
    pub fn new(file: &'a File, data: Data) -> io::Result<Self> {
        let blocks = file.metadata()?.len() / BLOCK as u64;
        Ok(Self { file, blocks, data, chance: blocks + 1, written: 0, syncs: 0 })
    }

    /// A small file.
    pub fn begin(&mut self) -> io::Result<()> {
        self.append(FRESH_BLOCKS)
    }

    /// Makes the file so large that the file system is nearly full, and writes it over and over.
    pub fn age(&mut self) -> io::Result<()> {
        let stat = fstatvfs(self.file)?;
        let wanted = stat.f_blocks * FULL / 100;
        let used = stat.f_blocks.saturating_sub(stat.f_bfree);
        self.append(wanted.saturating_sub(used) * stat.f_frsize / BLOCK as u64)?;
        (0..ROUNDS * self.blocks).try_for_each(|_| self.write())?;
        self.sync()
    }

    fn append(&mut self, blocks: u64) -> io::Result<()> {
        let (mut file, end) = (self.file, self.blocks + blocks);
        file.seek(SeekFrom::End(0))?;
        self.data.fill(&mut file, self.blocks..end)?;
        self.blocks = end;
        self.sync()
    }

    fn sync(&mut self) -> io::Result<()> {
        self.syncs += 1;
        Ok(fdatasync(self.file)?)
    }

    /// One block anywhere; the sync that ends every so many of them counts as a part of the last.
    fn write(&mut self) -> io::Result<()> {
        let mut block = [0; BLOCK];
        self.written += 1;
        self.data.block((1 << 40) + self.written, &mut block);
        let at = next(&mut self.chance) % self.blocks.max(1);
        self.file.write_all_at(&block, at * BLOCK as u64)?;
        if self.written.is_multiple_of(WRITES_A_SYNC) {
            stop::check()?;
            self.sync()?;
        }
        Ok(())
    }

    /// Finds the rate, and how long writes take at half of it.
    #[expect(clippy::cast_precision_loss, reason = "a rate is shown with three digits")]
    pub fn measure(&mut self) -> io::Result<Latency> {
        let (begin, before) = (Instant::now(), self.written);
        while begin.elapsed() < FULL_SPEED {
            self.write()?;
        }
        self.sync()?;
        let rate = (self.written - before) as f64 / begin.elapsed().as_secs_f64();
        let each = Duration::from_secs_f64(2.0 / rate.max(1.0));
        let (mut took, begin) = (Vec::new(), Instant::now());
        let (mut due, mut ended) = (begin, begin);
        while begin.elapsed() < HALF_SPEED {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            // One that waits for nobody begins now, and one that is late began when it was due.
            let started = if ended > due { due } else { Instant::now() };
            self.write()?;
            ended = Instant::now();
            took.push(ended.duration_since(started));
            due += each;
        }
        took.sort_unstable();
        let at =
            |share: usize| took.get(share.min(took.len() - 1)).map_or(0.0, Duration::as_secs_f64);
        Ok(Latency {
            rate,
            median: at(took.len() / 2),
            last_of_1000: at(took.len() - took.len() / 1000 - 1),
            longest: at(took.len() - 1),
        })
    }
}
