//! Wear: how often each erase block of a small device was begun again after it was written over very often.
//!
//! Above: [`super`]. Below: [`super::subject`]. Invariant: stretches of superblocks are told apart: they lie in a fixed
//! place.

use esker_stone::Codec;
use esker_volume::limits::{BLOCK_LEN_MIN, SEGMENT_LEN_MIN};
use esker_volume::segments::Condition;

use super::steady::BATCH;
use super::subject::{Shape, Subject};
use crate::bench::Tell;
use crate::failure::Outcome;

/// What to do.
#[derive(Clone, Copy)]
pub struct Plan {
    pub size: u64,
    /// How often as many bytes are written as the device has.
    pub times: u64,
    /// How much of what it can hold is written once and never again, in hundredths.
    pub cold: u64,
    /// How full it is, that included.
    pub full: u64,
}

/// What came of it.
pub struct Row {
    pub plan: Plan,
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
        let (segment, block) = (SEGMENT_LEN_MIN, BLOCK_LEN_MIN);
        let mut subject =
            Subject::new(Shape { size: self.size, segment, block, codec: Codec::None })?;
        let cold = subject.file("cold")?;
        subject.fill(cold, self.cold)?;
        let hot = subject.file("hot")?;
        let blocks = subject.fill(hot, self.full)?;
        let all = self.times * self.size / u64::from(block);
        for done in 0..all {
            let number = subject.below(blocks);
            subject.overwrite(hot, number)?;
            if done % BATCH == BATCH - 1 {
                subject.sync()?;
            }
            if done.is_multiple_of(1 << 16) {
                tell.step(done as usize, all as usize, "wear");
            }
        }
        subject.sync()?;
        Ok(self.row(&subject, all * u64::from(block)))
    }

    #[expect(clippy::cast_precision_loss, reason = "two digits behind the point are shown")]
    fn row(&self, subject: &Subject, user: u64) -> Row {
        let (erases, rows) = (subject.device.erases(), subject.volume().stretches());
        let of = |home: bool| {
            let all = rows.iter().zip(&erases);
            all.filter(move |(row, _)| (row.condition == Condition::Home) == home)
        };
        let sum: u64 = of(false).map(|(_, count)| count).sum();
        Row {
            plan: *self,
            user,
            written: subject.device.seen().written,
            least: of(false).map(|(_, &count)| count).min().unwrap_or(0),
            mean: sum as f64 / of(false).count().max(1) as f64,
            most: of(false).map(|(_, &count)| count).max().unwrap_or(0),
            homes: of(true).map(|(_, &count)| count).max().unwrap_or(0),
        }
    }
}
