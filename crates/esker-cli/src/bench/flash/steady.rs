//! The steady state: a volume that is nearly full, written over at random until what it writes does not change any
//! more.
//!
//! Above: [`super`]. Below: [`super::subject`]. Invariant: only the last pass counts; causes add up to what the device
//! saw.

use esker_stone::Setting;
use esker_volume::Counted;

use super::device::Seen;
use super::subject::{BLOCK, Shape, Subject, failed};
use crate::bench::Tell;
use crate::failure::Outcome;

/// Blocks that are written from one sync to the next.
pub const BATCH: u64 = 32;

/// Which blocks are written over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// All alike.
    Uniform,
    /// Four fifths of the writes go to a fifth of them.
    Skewed,
}

/// What to do.
#[derive(Clone, Copy)]
pub struct Plan {
    pub size: u64,
    /// Bytes of a segment; 0: what suits the size.
    pub segment: u64,
    /// Bytes of a block of the volume, and how it is compressed; what is written is 4 KiB of chance at a time.
    pub block: u32,
    pub setting: Setting,
    /// How full, in hundredths of what the volume can hold.
    pub full: u64,
    pub access: Access,
    /// How often as many blocks are written over as there are; the last time counts.
    pub passes: u64,
}

/// What came of it, all of the last pass.
pub struct Row {
    pub plan: Plan,
    /// Bytes of the user, and how often he had them made safe.
    pub user: u64,
    pub syncs: u64,
    pub seen: Seen,
    /// Why they were written.
    pub counted: Counted,
    /// The most bytes that one sync wrote, and in one request.
    pub most: u64,
    pub largest: u64,
    /// Bytes that are needed, of a hundred on the device.
    pub needed: u64,
}

impl Access {
    /// One of so many blocks.
    pub const fn choose(self, subject: &mut Subject, blocks: u64) -> u64 {
        let hot = blocks / 5;
        match self {
            Self::Uniform => subject.below(blocks),
            Self::Skewed if subject.below(5) < 4 => subject.below(hot),
            Self::Skewed => hot + subject.below(blocks - hot),
        }
    }

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Skewed => "4/5 to 1/5",
        }
    }
}

impl Plan {
    /// Fills a volume, and writes over it.
    pub fn run(&self, tell: &mut dyn Tell) -> Outcome<Row> {
        let Self { size, segment, block, setting, .. } = *self;
        let mut subject = Subject::new(Shape { size, segment, block, setting })?;
        let ino = subject.file("file")?;
        let blocks = subject.fill(ino, self.full)?;
        for pass in 1..self.passes {
            tell.step(pass as usize - 1, self.passes as usize, &self.to_string());
            self.pass(&mut subject, ino, blocks)?;
        }
        let (seen, counted) = (subject.device.seen(), subject.volume().counted());
        let _ = subject.device.largest();
        let most = self.pass(&mut subject, ino, blocks)?;
        let findings = subject.volume().check();
        if let Some(finding) = findings.first() {
            return Err(failed(format!("{finding:?}")));
        }
        let live: u64 = subject.volume().stretches().iter().map(|row| row.live).sum();
        Ok(Row {
            plan: *self,
            user: blocks * BLOCK,
            syncs: blocks.div_ceil(BATCH),
            seen: subject.device.seen().since(seen),
            counted: subject.volume().counted().since(&counted),
            most,
            largest: subject.device.largest(),
            needed: live * 100 / self.size,
        })
    }

    /// As many blocks are written over as there are; the most bytes that one sync wrote.
    fn pass(&self, subject: &mut Subject, ino: esker::Ino, blocks: u64) -> Outcome<u64> {
        let mut most = 0;
        let mut done = 0;
        while done < blocks {
            let before = subject.device.seen();
            for _ in 0..BATCH.min(blocks - done) {
                let block = self.access.choose(subject, blocks);
                subject.overwrite(ino, block)?;
            }
            subject.sync()?;
            most = most.max(subject.device.seen().since(before).written);
            done += BATCH;
        }
        Ok(most)
    }
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} % full, {}", self.full, self.access.name())
    }
}
