//! Data space: which granules of the memory belong to somebody, and to how many.
//!
//! Neighbours: `plan` claims, `commit` gives back; `free` and `refs` do the accounting; `base` says where the
//! accounts live. Invariant: a granule is free, or claimed and charged to the budget once, however many extents
//! name it. Accounts that live in pages of the same memory find room for themselves before they change.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::base::Base;
use super::free::{Free, PAGE, Run, Runs};
use super::pairs::Pairs;
use super::refs::Refs;
use super::resting::Resting;
use crate::error::{Error, Result};
use crate::ground::order::Rank;
use crate::ground::sync::Mutex;
use crate::ground::sync::atomic::{AtomicBool, Ordering};
use crate::ground::{Budget, Memory};
use crate::limits::{GRANULE, RELEASE_UNIT};

/// The memory grows by an eighth, but in one step by no more than this, in bytes.
const GROWTH_MAX: u64 = 64 << 20;
/// Granules in a unit that goes back to the operating system.
pub(super) const UNIT: u64 = RELEASE_UNIT / GRANULE;
/// Granules that go back in one step: nobody claims any meanwhile.
const STEP: u64 = 16 * UNIT;
/// Pages that are taken out of data space at once, where there are as many.
const PAGES_AT_ONCE: u64 = RELEASE_UNIT / GRANULE / PAGE;
/// Free pages more than needed at most, before some go back to data space.
const PAGES_KEPT: usize = 64;

/// Where the granules are, without a claim on their meaning.
#[derive(Debug)]
pub(super) struct Map<P> {
    pub free: Free<P>,
    resting: Resting,
}

impl<P: Pairs> Map<P> {
    /// Granules claimed.
    fn claimed(&self) -> u64 {
        self.free.end().saturating_sub(self.free.total())
    }

    /// Pages that one change of the map may take.
    fn pages(&self) -> usize {
        let each = Free::<P>::PUTS;
        self.free.by_start.pages_for(each) + self.free.by_len.pages_for(each)
    }
}

/// The allocator of data space.
pub(super) struct Space<B: Base> {
    pub base: B,
    budget: Arc<Budget>,
    pub map: Mutex<Map<B::Pairs>>,
    pub refs: Mutex<Refs<B::Pairs>>,
    /// `refs` is not empty; to be seen without its lock. The granules of an extent become shared
    /// only while its inode is locked, and who asks about them has locked it: `false` cannot be
    /// out of date for him.
    shared: AtomicBool,
}

fn bytes(granules: u64) -> Result<u64> {
    granules.checked_mul(GRANULE).ok_or(Error::NoSpace)
}

impl<B: Base> Space<B> {
    /// As the accounts have it.
    pub(super) fn new(
        base: B,
        budget: Arc<Budget>,
        free: Free<B::Pairs>,
        refs: Refs<B::Pairs>,
    ) -> Result<Self> {
        let shared = AtomicBool::new(!refs.is_empty()?);
        let map = Mutex::new(Rank::Space.only(), Map { free, resting: Resting::default() });
        let refs = Mutex::new(Rank::Uses.only(), refs);
        Ok(Self { base, budget, map, refs, shared })
    }

    /// Whether anything is shared, after the accounts changed below.
    pub(super) fn set_shared(&self, shared: bool) {
        self.shared.store(shared, Ordering::Release);
    }

    /// Where the bytes are.
    #[inline]
    pub(super) fn memory(&self) -> &B::Memory {
        self.base.memory()
    }

    /// Granules claimed.
    pub(super) fn claimed(&self) -> u64 {
        self.map.lock().claimed()
    }

    /// Granules of the memory, free or not, and the free ones.
    pub(super) fn survey(&self) -> Result<(u64, Vec<Run>)> {
        let map = self.map.lock();
        let mut runs = Vec::new();
        map.free.each(|run| runs.push(run))?;
        Ok((map.free.end(), runs))
    }

    /// Whether the accounts of free space tell the same.
    pub(super) fn mirrored(&self) -> Result<bool> {
        self.map.lock().free.mirrored()
    }

    /// Every run that more than one extent names, with its uses.
    pub(super) fn shared_runs(&self) -> Result<Vec<(Run, u32)>> {
        let mut runs = Vec::new();
        self.refs.lock().each(|run, uses| runs.push((run, uses)))?;
        Ok(runs)
    }

    /// Makes sure that trees may take so many more pages out of the memory. With `overdraft`
    /// neither the budget nor what the accounts themselves may need counts.
    pub(super) fn provide(&self, pages: usize, overdraft: bool) -> Result<()> {
        if B::LASTING { self.provide_from(&mut self.map.lock(), pages, overdraft) } else { Ok(()) }
    }

    fn provide_from(&self, map: &mut Map<B::Pairs>, pages: usize, overdraft: bool) -> Result<()> {
        while self.base.spare() < pages.saturating_add(map.pages()) {
            match self.take_pages(map, overdraft) {
                Ok(()) => {}
                Err(Error::NoSpace) if overdraft && self.base.spare() >= pages => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Pages for one change of the map.
    #[inline]
    fn room(&self, map: &mut Map<B::Pairs>, overdraft: bool) -> Result<()> {
        let pages = map.pages();
        if B::LASTING { self.provide_from(map, pages, overdraft) } else { Ok(()) }
    }

    /// Turns free space into free pages, and space of the memory's end into free space at need.
    fn take_pages(&self, map: &mut Map<B::Pairs>, overdraft: bool) -> Result<()> {
        for count in [PAGES_AT_ONCE, 1] {
            match overdraft {
                true => self.budget.force(bytes(count * PAGE)?),
                false if self.budget.take(bytes(count * PAGE)?).is_err() => continue,
                false => {}
            }
            let mut taken = map.free.take_pages(count)?;
            if taken.is_none() && self.grow(map, (count + 1) * PAGE - 1)? {
                taken = map.free.take_pages(count)?;
            }
            if let Some(run) = taken {
                self.base.stock(run);
                return Ok(());
            }
            self.budget.give(count * PAGE * GRANULE);
        }
        Err(Error::NoSpace)
    }

    /// Free pages that are many more than the next change will need become free space; and if they
    /// are fewer, the other way round, where that can be.
    pub(super) fn settle(&self) -> Result<()> {
        let mut map = self.map.lock();
        let needed = 2 * map.pages();
        if self.base.spare() < needed {
            let pages = map.pages();
            return match self.provide_from(&mut map, pages, false) {
                Err(Error::NoSpace) => Ok(()),
                done => done,
            };
        }
        let keep = if self.base.spare() > needed + PAGES_KEPT {
            needed + PAGES_KEPT / 2
        } else {
            usize::MAX
        };
        while let Some(run) = self.base.unstock(keep) {
            map.free.insert(run)?;
            self.budget.give(run.len * GRANULE);
        }
        Ok(())
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
        let claimed = self.claim_from(&mut map, want, near, overdraft, runs);
        if claimed.is_err() {
            for &run in &runs[before..] {
                map.free.insert(run)?;
            }
            runs.truncate(before);
            self.budget.give(want * GRANULE);
        }
        claimed
    }

    fn claim_from(
        &self,
        map: &mut Map<B::Pairs>,
        want: u64,
        near: Option<u64>,
        overdraft: bool,
        runs: &mut Runs,
    ) -> Result<()> {
        let mut left = want;
        if let Some(start) = near {
            left -= self.claim_at(map, start, left, overdraft, runs)?;
        }
        if left > 0 {
            self.room(map, overdraft)?;
            let mut best = map.free.take_best(left)?;
            if best.is_none() && self.grow(map, left)? {
                self.room(map, overdraft)?;
                best = map.free.take_best(left)?;
            }
            if let Some(run) = best {
                runs.push(run);
                return Ok(());
            }
        }
        while left > 0 {
            self.room(map, overdraft)?;
            let run = map.free.take_longest(left)?.ok_or(Error::NoSpace)?;
            left -= run.len;
            runs.push(run);
        }
        Ok(())
    }

    /// Claims up to `want` more granules from exactly `start` on, if the budget has plenty; tells
    /// how many.
    pub(super) fn extend(&self, start: u64, want: u64) -> Result<u64> {
        if want == 0 || !self.take_plenty(want) {
            return Ok(0);
        }
        let got =
            match self.claim_at(&mut self.map.lock(), start, want, false, &mut Runs::default()) {
                Err(Error::NoSpace) => 0,
                got => got?,
            };
        self.budget.give((want - got) * GRANULE);
        Ok(got)
    }

    /// Claims `want` granules in one run, behind `near` where as many are free there, if the budget
    /// has plenty and there is such a run.
    pub(super) fn claim_whole(&self, want: u64, near: Option<u64>) -> Result<Option<Run>> {
        if !self.take_plenty(want) {
            return Ok(None);
        }
        let mut map = self.map.lock();
        let claimed = self.claim_whole_from(&mut map, want, near);
        if !matches!(claimed, Ok(Some(_))) {
            self.budget.give(want * GRANULE);
        }
        match claimed {
            Err(Error::NoSpace) => Ok(None),
            claimed => claimed,
        }
    }

    fn claim_whole_from(
        &self,
        map: &mut Map<B::Pairs>,
        want: u64,
        near: Option<u64>,
    ) -> Result<Option<Run>> {
        self.room(map, false)?;
        if let Some(start) = near {
            let known = map.free.free_at(start)?;
            let enough = known >= want
                || start + known == map.free.end()
                    && self.grow(map, want - known)?
                    && map.free.free_at(start)? >= want;
            if enough {
                self.room(map, false)?;
                return Ok(Some(Run { start, len: map.free.take_at(start, want)? }));
            }
        }
        if let Some(run) = map.free.take_best(want)? {
            return Ok(Some(run));
        }
        if !self.grow(map, want)? {
            return Ok(None);
        }
        self.room(map, false)?;
        map.free.take_best(want)
    }

    /// Charges the budget, if it has plenty.
    fn take_plenty(&self, granules: u64) -> bool {
        let left = self.budget.total().saturating_sub(self.budget.used());
        bytes(granules).is_ok_and(|bytes| bytes < left / 16 && self.budget.take(bytes).is_ok())
    }

    /// Takes up to `want` granules from `start` on, out of new memory where the old one ends; how
    /// many.
    fn claim_at(
        &self,
        map: &mut Map<B::Pairs>,
        start: u64,
        want: u64,
        overdraft: bool,
        runs: &mut Runs,
    ) -> Result<u64> {
        self.room(map, overdraft)?;
        let mut got = map.free.take_at(start, want)?;
        if got < want && start + got == map.free.end() && self.grow(map, want - got)? {
            got += map.free.take_at(start + got, want - got)?;
        }
        runs.extend((got > 0).then_some(Run { start, len: got }));
        Ok(got)
    }

    /// Makes the memory longer, so that at least `want` granules lie in one run at its end, if it
    /// can.
    fn grow(&self, map: &mut Map<B::Pairs>, want: u64) -> Result<bool> {
        let memory = self.memory();
        let end = map.free.end() * GRANULE;
        let Some(need) = want.checked_mul(GRANULE).and_then(|len| end.checked_add(len + 4096))
        else {
            return Ok(false);
        };
        let Some(need) = need.checked_next_multiple_of(RELEASE_UNIT) else { return Ok(false) };
        let ample = end + (end / 8).next_multiple_of(RELEASE_UNIT).min(GROWTH_MAX);
        let grown = memory.size() >= need
            || (ample > need && memory.grow(ample).is_ok())
            || memory.grow(need).is_ok();
        if !grown {
            return Ok(false);
        }
        // What the memory has beyond the need is taken over step by step, lest an empty home look
        // at all of it.
        let size = memory.size().min(need.max(ample)) / GRANULE;
        if size > map.free.end() {
            map.free.extend(size)?;
        }
        Ok(true)
    }

    /// A run's granules are named once more.
    pub(super) fn share(&self, run: Run) -> Result<()> {
        self.refs.lock().add(run, |runs| self.room_for_uses(runs, false))?;
        self.shared.store(true, Ordering::Release);
        Ok(())
    }

    /// Pages for one step of the count of uses.
    fn room_for_uses(&self, runs: &B::Pairs, overdraft: bool) -> Result<()> {
        self.provide(runs.pages_for(Refs::<B::Pairs>::PUTS), overdraft)
    }

    /// Cuts `run` into parts and tells of each whether others use it too.
    pub(super) fn parts(&self, run: Run, mut each: impl FnMut(Run, bool)) -> Result<()> {
        if self.shared.load(Ordering::Acquire) {
            return self.refs.lock().parts(run, |part, uses| each(part, uses > 1));
        }
        each(run, false);
        Ok(())
    }

    /// The runs are named once less. What nobody names any more is free, and units that become
    /// wholly free by it go back to the operating system, at once or when they have rested.
    pub(super) fn let_go(&self, runs: &[Run]) -> Result<()> {
        if runs.is_empty() {
            return Ok(());
        }
        if !self.shared.load(Ordering::Acquire) {
            return self.free(runs);
        }
        let mut last_used = Vec::new();
        let mut refs = self.refs.lock();
        for &run in runs {
            refs.remove(run, &mut last_used, |runs| self.room_for_uses(runs, true))?;
        }
        self.shared.store(!refs.is_empty()?, Ordering::Release);
        drop(refs);
        self.free(&last_used)
    }

    fn free(&self, runs: &[Run]) -> Result<()> {
        let mut units = Runs::default();
        let mut map = self.map.lock();
        for &run in runs {
            self.room(&mut map, true)?;
            let whole = map.free.insert(run)?;
            self.budget.give(run.len * GRANULE);
            let start = whole.start.next_multiple_of(UNIT).max(run.start / UNIT * UNIT);
            let end = (whole.end() / UNIT * UNIT).min(run.end().next_multiple_of(UNIT));
            // What outlives a kill keeps its bytes until the next claim: they may be needed to go back.
            if start < end && !B::LASTING {
                let run = Run { start, len: end - start };
                let left = self.budget.total().saturating_sub(self.budget.used());
                if !map.resting.keep(run, left / GRANULE) {
                    units.push(run);
                }
            }
        }
        drop(map);
        units.iter().try_for_each(|&run| self.release(run))
    }

    /// A second has passed: what has rested for long enough goes back, unless it is in use again.
    pub(super) fn tick(&self) -> Result<()> {
        let due = self.map.lock().resting.tick(STEP);
        due.into_iter().try_for_each(|run| self.release(run))
    }

    /// Whole units go back to the operating system, as far as they are free: the map is locked, so that nobody
    /// claims one while its bytes go, but never for longer than a step takes.
    fn release(&self, units: Run) -> Result<()> {
        let mut at = units.start;
        while at < units.end() {
            let step = Run { start: at, len: STEP.min(units.end() - at) };
            let map = self.map.lock();
            map.free.parts_within(step, |free| {
                let start = free.start.next_multiple_of(UNIT);
                let len = (free.end() / UNIT * UNIT).saturating_sub(start);
                if len > 0 {
                    self.memory().release(start * GRANULE, len * GRANULE);
                }
            })?;
            drop(map);
            at = step.end();
        }
        Ok(())
    }
}
