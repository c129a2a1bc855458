//! Data space: which granules of the memory belong to somebody, and to how many.
//!
//! Neighbours: `plan` claims, `commit` gives back; `free` and `refs` do the accounting. Invariant:
//! a granule is free, or claimed and charged to the budget once, however many extents name it.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::free::{Free, Run, Runs};
use super::refs::Refs;
use crate::error::{Error, Result};
use crate::ground::order::Rank;
use crate::ground::sync::Mutex;
use crate::ground::sync::atomic::{AtomicBool, Ordering};
use crate::ground::{Budget, Memory};
use crate::limits::{GRANULE, RELEASE_UNIT};

/// The memory grows by an eighth, but in one step by no more than this, in bytes.
const GROWTH_MAX: u64 = 64 << 20;
/// Granules in a unit that goes back to the operating system.
const UNIT: u64 = RELEASE_UNIT / GRANULE;

/// Where the granules are, without a claim on their meaning.
#[derive(Debug, Default)]
struct Map {
    free: Free,
    /// Granules of the memory that are under this allocator, free or not.
    end: u64,
    /// Free granules on their way back to the operating system: in nobody's hands.
    leaving: u64,
}

/// The allocator of data space.
#[derive(Debug)]
pub(super) struct Space<M> {
    memory: M,
    budget: Arc<Budget>,
    map: Mutex<Map>,
    refs: Mutex<Refs>,
    /// `refs` is not empty; to be seen without its lock. The granules of an extent become shared
    /// only while its inode is locked, and who asks about them has locked it: `false` cannot be
    /// out of date for him.
    shared: AtomicBool,
}

fn bytes(granules: u64) -> Result<u64> {
    granules.checked_mul(GRANULE).ok_or(Error::NoSpace)
}

impl<M: Memory> Space<M> {
    /// Everything in `memory` is free.
    pub(super) fn new(memory: M, budget: Arc<Budget>) -> Self {
        let map = Mutex::new(Rank::Space.only(), Map::default());
        let refs = Mutex::new(Rank::Uses.only(), Refs::default());
        Self { memory, budget, map, refs, shared: AtomicBool::new(false) }
    }

    /// Where the bytes are.
    pub(super) fn memory(&self) -> &M {
        &self.memory
    }

    /// Granules claimed.
    pub(super) fn claimed(&self) -> u64 {
        let map = self.map.lock();
        map.end - map.free.total() - map.leaving
    }

    /// Granules of the memory, free or not, and the free ones.
    pub(super) fn survey(&self) -> (u64, Vec<Run>) {
        let map = self.map.lock();
        (map.end, map.free.runs().collect())
    }

    /// Every run that more than one extent names, with its uses.
    pub(super) fn shared_runs(&self) -> Vec<(Run, u32)> {
        self.refs.lock().runs().collect()
    }

    /// Claims `want` granules and appends them to `runs`: first those from `near` on, then the best
    /// fitting run, several runs at need. `NoSpace` and nothing claimed when there are not as many.
    /// With `overdraft` the budget does not count.
    pub(super) fn claim(
        &self,
        want: u64,
        near: Option<u64>,
        overdraft: bool,
        runs: &mut Runs,
    ) -> Result<()> {
        match overdraft {
            true => self.budget.force(bytes(want)?),
            false => self.budget.take(bytes(want)?)?,
        }
        let mut map = self.map.lock();
        let before = runs.len();
        let mut left = want;
        if let Some(start) = near {
            left -= self.claim_at(&mut map, start, left, runs);
        }
        let whole = left > 0 && {
            let best = map.free.take_best(left);
            let best = match best {
                None if self.grow(&mut map, left) => map.free.take_best(left),
                best => best,
            };
            runs.extend(best);
            best.is_some()
        };
        if whole {
            return Ok(());
        }
        while left > 0 {
            let Some(run) = map.free.take_longest(left) else {
                for &run in &runs[before..] {
                    map.free.insert(run);
                }
                runs.truncate(before);
                self.budget.give(want * GRANULE);
                return Err(Error::NoSpace);
            };
            left -= run.len;
            runs.push(run);
        }
        Ok(())
    }

    /// Claims up to `want` more granules from exactly `start` on, if the budget has plenty; tells
    /// how many.
    pub(super) fn extend(&self, start: u64, want: u64) -> u64 {
        let plenty = |bytes: u64| {
            let left = self.budget.total().saturating_sub(self.budget.used());
            bytes < left / 16 && self.budget.take(bytes).is_ok()
        };
        if want == 0 || !bytes(want).is_ok_and(plenty) {
            return 0;
        }
        let mut runs = Runs::default();
        let got = self.claim_at(&mut self.map.lock(), start, want, &mut runs);
        self.budget.give((want - got) * GRANULE);
        got
    }

    /// Takes up to `want` granules from `start` on, out of new memory where the old one ends; how
    /// many.
    fn claim_at(&self, map: &mut Map, start: u64, want: u64, runs: &mut Runs) -> u64 {
        let mut got = map.free.take_at(start, want);
        if got < want && start + got == map.end && self.grow(map, want - got) {
            got += map.free.take_at(start + got, want - got);
        }
        runs.extend((got > 0).then_some(Run { start, len: got }));
        got
    }

    /// Makes the memory longer, so that at least `want` granules lie in one run at its end, if it
    /// can.
    fn grow(&self, map: &mut Map, want: u64) -> bool {
        let end = map.end * GRANULE;
        let Some(need) = want.checked_mul(GRANULE).and_then(|len| end.checked_add(len + 4096))
        else {
            return false;
        };
        let Some(need) = need.checked_next_multiple_of(RELEASE_UNIT) else { return false };
        let ample = end + (end / 8).next_multiple_of(RELEASE_UNIT).min(GROWTH_MAX);
        let grown = self.memory.size() >= need
            || (ample > need && self.memory.grow(ample).is_ok())
            || self.memory.grow(need).is_ok();
        let size = self.memory.size() / GRANULE;
        // What the memory has beyond the need is taken over step by step, lest an empty home look
        // at all of it.
        let size = if grown { size.min(need.max(ample) / GRANULE) } else { size.min(map.end) };
        if size > map.end {
            map.free.insert(Run { start: map.end, len: size - map.end });
            map.end = size;
        }
        grown
    }

    /// A run's granules are named once more.
    pub(super) fn share(&self, run: Run) {
        self.refs.lock().add(run);
        self.shared.store(true, Ordering::Release);
    }

    /// Cuts `run` into parts and tells of each whether others use it too.
    pub(super) fn parts(&self, run: Run, mut each: impl FnMut(Run, bool)) {
        if self.shared.load(Ordering::Acquire) {
            self.refs.lock().parts(run, |part, uses| each(part, uses > 1));
        } else {
            each(run, false);
        }
    }

    /// The runs are named once less. What nobody names any more is free, and units that become
    /// wholly free by it go back to the operating system.
    pub(super) fn let_go(&self, runs: &[Run]) {
        if runs.is_empty() {
            return;
        }
        let mut last_used = Vec::new();
        let unused = if self.shared.load(Ordering::Acquire) {
            let mut refs = self.refs.lock();
            runs.iter().for_each(|&run| refs.remove(run, &mut last_used));
            self.shared.store(!refs.is_empty(), Ordering::Release);
            &last_used
        } else {
            runs
        };
        self.free(unused);
    }

    fn free(&self, runs: &[Run]) {
        let mut units = Runs::default();
        let mut map = self.map.lock();
        for &run in runs {
            let whole = map.free.insert(run);
            let start = whole.start.next_multiple_of(UNIT).max(run.start / UNIT * UNIT);
            let end = (whole.end() / UNIT * UNIT).min(run.end().next_multiple_of(UNIT));
            if start < end {
                units.push(Run { start, len: end - start });
            }
        }
        // Nobody may claim a unit while its bytes go: it is out of the map meanwhile.
        for &unit in &*units {
            map.free.take(unit);
            map.leaving += unit.len;
        }
        drop(map);
        for unit in &*units {
            self.memory.release(unit.start * GRANULE, unit.len * GRANULE);
        }
        if !units.is_empty() {
            let mut map = self.map.lock();
            for &unit in &*units {
                map.free.insert(unit);
                map.leaving -= unit.len;
            }
        }
        let len: u64 = runs.iter().map(|run| run.len).sum();
        self.budget.give(len * GRANULE);
    }
}
