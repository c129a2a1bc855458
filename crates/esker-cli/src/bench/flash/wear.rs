//! Wear: how often each erase block of a small device was begun again after it was written over very often.
//!
//! Above: [`super`]. Below: [`super::subject`]. Invariant: stretches of superblocks are told apart: they lie in a fixed
//! place.

use esker_stone::{Codec, Setting};
use esker_volume::limits::SEGMENT_LEN_MIN;
use esker_volume::segments::Condition;

use super::steady::Access;
use super::subject::{BLOCK, Shape, Subject, failed};
use crate::bench::Tell;
use crate::failure::Outcome;

/// Bytes that are written over at a time, and blocks as long: what a device is written over 10,000 times with costs as
/// much for each of them as for the bytes.
pub const PIECE: u64 = 16 << 10;
/// Of these so many from one sync to the next.
pub const BATCH: u64 = 8;

/// What to do.
#[derive(Clone, Copy)]
pub struct Plan {
    pub size: u64,
    /// Where the rest of it is written over.
    pub access: Access,
    /// How often as many bytes are written as the device has.
    pub times: u64,
    /// How much of what it holds is written once and never again, in hundredths.
    pub cold: u64,
    /// How full it is, of what it can hold, in hundredths.
    pub full: u64,
}

/// What came of it.
pub struct Row {
    pub plan: Plan,
    /// Bytes of the user, and bytes that reached the device, once it was full.
    pub user: u64,
    pub written: u64,
    /// Erases of a block: fewest, in the mean, most.
    pub least: u64,
    pub mean: f64,
    pub most: u64,
    /// The most of one with superblocks.
    pub homes: u64,
}

impl Plan {
    /// Fills a small volume, and writes over the rest of it.
    pub fn run(&self, tell: &mut dyn Tell) -> Outcome<Row> {
        let (segment, block) = (SEGMENT_LEN_MIN, PIECE as u32);
        let mut subject = Subject::new(Shape {
            size: self.size,
            segment,
            block,
            setting: Setting::new(Codec::None, 1),
        })?;
        let cold = subject.file("cold")?;
        subject.fill(cold, self.full * self.cold / 100)?;
        let hot = subject.file("hot")?;
        let pieces = subject.fill(hot, self.full)? * BLOCK / PIECE;
        let before = subject.device.seen();
        let all = self.times * self.size / PIECE;
        let mut bytes = [0; PIECE as usize];
        for done in 0..all {
            let at = self.access.choose(&mut subject, pieces) * PIECE;
            subject.noise(&mut bytes);
            subject.write(hot, at, &bytes)?;
            if done % BATCH == BATCH - 1 {
                subject.sync()?;
            }
            if done.is_multiple_of(1 << 14) {
                tell.step(done as usize, all as usize, &self.to_string());
            }
        }
        subject.sync()?;
        if let Some(finding) = subject.volume().check().first() {
            return Err(failed(format!("{finding:?}")));
        }
        Ok(self.row(&subject, all * PIECE, subject.device.seen().since(before).written))
    }

    #[expect(clippy::cast_precision_loss, reason = "two digits behind the point are shown")]
    fn row(&self, subject: &Subject, user: u64, written: u64) -> Row {
        let (erases, rows) = (subject.device.erases(), subject.volume().stretches());
        let of = |home: bool| {
            let all = rows.iter().zip(&erases);
            all.filter(move |(row, _)| (row.condition == Condition::Home) == home)
        };
        let sum: u64 = of(false).map(|(_, count)| count).sum();
        Row {
            plan: *self,
            user,
            written,
            least: of(false).map(|(_, &count)| count).min().unwrap_or(0),
            mean: sum as f64 / of(false).count().max(1) as f64,
            most: of(false).map(|(_, &count)| count).max().unwrap_or(0),
            homes: of(true).map(|(_, &count)| count).max().unwrap_or(0),
        }
    }
}

impl std::fmt::Display for Plan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} % full, {}", self.full, self.access.name())?;
        match self.cold {
            0 => Ok(()),
            cold => write!(f, ", {cold} % of that never"),
        }
    }
}
