//! Giving back below what a volume needs no more: not while somebody waits for a commit, neighbours at once, and what
//! is taken again soon not at all.
//!
//! Above: whoever has time, and `close`. Below: the device. Invariant: only a stretch that is free is given back, and
//! as long as that takes nobody takes it.

use crate::device::Device;
use crate::log::Log;
use crate::segments::{Condition, Physical};
use crate::volume::Volume;

/// So large a part of a volume as one divided by this is worth that tables are written for it.
const WASTE: u64 = 32;

impl<D: Device> Volume<D> {
    /// Gives back about so many bytes of stretches that became free, and are; whether there are more.
    pub fn give_back_below(&self, most: u64) -> bool {
        let mut log = self.log();
        if log.fresh {
            // Nothing was written yet, and what an earlier one left is not looked at.
            return false;
        }
        self.discard_some(&mut log, most);
        !log.unneeded.is_empty()
    }

    /// Whether the log since the last round keeps much that nobody needs, and that could be given back below.
    pub(crate) fn holds_waste(&self, log: &Log) -> bool {
        let segments = self.segments();
        let live = |&physical: &Physical| segments.get(physical).map_or(0, |row| row.live);
        let live: u64 = log.since.iter().map(live).sum();
        let kept = log.since.len() as u64 * self.shape.segment_len;
        self.gives_back() && kept.saturating_sub(live) > self.shape.size / WASTE
    }

    /// Whether what becomes free is given back at all: where that is wanted, and there are no zones, which are begun
    /// again.
    #[must_use]
    pub fn gives_back(&self) -> bool {
        self.discard && self.device.geometry().zones.is_none()
    }

    /// Gives back all that nobody needs, where that saves room below.
    pub(crate) fn give_back_rest(&self, log: &mut Log) {
        if self.gives_back() {
            self.give_back_idle(log);
        }
        self.discard_some(log, u64::MAX);
    }

    fn discard_some(&self, log: &mut Log, most: u64) {
        let mut left = most / self.shape.segment_len;
        while left > 0 && !log.unneeded.is_empty() {
            let (first, count) = self.next_run(log, left);
            // It only ever saves room: what fails is not tried again before it was used once more.
            if count > 0 {
                let _ = self.device.discard(self.place(first), count * self.shape.segment_len);
            }
            left -= count;
        }
    }

    /// Takes neighbours that are still free, at most so many.
    fn next_run(&self, log: &mut Log, most: u64) -> (Physical, u64) {
        let segments = self.segments();
        let mut run = (Physical(0), 0);
        while run.1 < most {
            let Some(&next) = log.unneeded.first() else { break };
            let is_free = segments.get(next).is_some_and(|row| row.condition == Condition::Free);
            let follows = run.1 == 0 || u64::from(run.0.0) + run.1 == u64::from(next.0);
            if is_free && !follows {
                break;
            }
            log.unneeded.remove(&next);
            match (is_free, run.1) {
                (true, 0) => run = (next, 1),
                (true, count) => run.1 = count + 1,
                (false, _) => {}
            }
        }
        run
    }
}
