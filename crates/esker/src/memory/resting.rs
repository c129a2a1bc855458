//! Freed units that are not given back yet: whoever writes next finds their memory at hand, which costs a
//! third less than to have it from the operating system again.
//!
//! Neighbours: `space` owns it, under the lock of its map. Invariant: nothing rests in a home that is never
//! told that time passes, and nothing rests for more than [`RESTING_TICKS`] ticks. A unit that was claimed
//! again meanwhile is still noted here: `space` asks its map before it gives one back.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::free::Run;
use super::space::UNIT;
use crate::limits::{RELEASE_UNIT, RESTING_MAX, RESTING_TICKS};

/// Units that rest at most.
const UNITS_MAX: usize = (RESTING_MAX / RELEASE_UNIT) as usize;

/// Which units rest, and since when.
#[derive(Debug, Default)]
pub(super) struct Resting {
    /// The tick in which each unit was freed, by its number.
    units: BTreeMap<u64, u64>,
    /// Ticks so far: before the first nothing rests.
    now: u64,
}

impl Resting {
    /// Lets whole units rest, where `left` granules may be used in all; `false` where they are to go back at once.
    pub(super) fn keep(&mut self, units: Run, left: u64) -> bool {
        let numbers = units.start / UNIT..units.end() / UNIT;
        let count = usize::try_from(units.len / UNIT).unwrap_or(usize::MAX);
        let count_max = UNITS_MAX.min(usize::try_from(left / UNIT).unwrap_or(usize::MAX));
        if self.now == 0 || count > count_max {
            return false;
        }
        // Those that were used and freed again do not count twice.
        let others = self.units.len() - self.units.range(numbers.clone()).count();
        if others + count > count_max {
            return false;
        }
        self.units.extend(numbers.map(|unit| (unit, self.now)));
        true
    }

    /// Time has passed: what has rested for long enough, in runs of at most `len` granules.
    pub(super) fn tick(&mut self, len: u64) -> Vec<Run> {
        self.now += 1;
        let Some(due) = self.now.checked_sub(RESTING_TICKS) else { return Vec::new() };
        let mut runs: Vec<Run> = Vec::new();
        self.units.retain(|&unit, since| {
            if *since > due {
                return true;
            }
            let start = unit * UNIT;
            match runs.last_mut() {
                Some(run) if run.end() == start && run.len < len => run.len += UNIT,
                _ => runs.push(Run { start, len: UNIT }),
            }
            false
        });
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(start: u64, len: u64) -> Run {
        Run { start: start * UNIT, len: len * UNIT }
    }

    #[test]
    fn what_is_not_used_again_leaves_in_time() {
        let mut resting = Resting::default();
        assert!(!resting.keep(units(0, 1), u64::MAX), "nobody tells the time");
        assert_eq!(resting.tick(8 * UNIT), []);
        assert!(resting.keep(units(3, 10), u64::MAX));
        assert_eq!(resting.tick(8 * UNIT), []);
        assert!(resting.keep(units(5, 1), u64::MAX), "freed again: it rests from now on");
        for _ in 2..RESTING_TICKS {
            assert_eq!(resting.tick(8 * UNIT), []);
        }
        assert_eq!(resting.tick(8 * UNIT), [units(3, 2), units(6, 7)]);
        assert_eq!(resting.tick(8 * UNIT), [units(5, 1)]);
        assert_eq!(resting.tick(8 * UNIT), []);
    }

    #[test]
    fn no_more_rests_than_may() {
        let mut resting = Resting::default();
        resting.tick(UNIT);
        assert!(!resting.keep(units(0, UNITS_MAX as u64 + 1), u64::MAX));
        assert!(resting.keep(units(0, UNITS_MAX as u64), u64::MAX));
        assert!(resting.keep(units(0, UNITS_MAX as u64), u64::MAX), "the same again");
        assert!(!resting.keep(units(1 << 20, 1), u64::MAX));
        for _ in 0..RESTING_TICKS {
            resting.tick(UNIT);
        }
        assert!(!resting.keep(units(1 << 20, 1), UNIT - 1), "the home may not hold as much");
        assert!(resting.keep(units(1 << 20, 1), u64::MAX));
    }
}
