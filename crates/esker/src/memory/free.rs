//! Which granules of the memory are free: by address, and by length.
//!
//! Neighbours: `space` owns it and moves the bytes; `pairs` keeps it. Invariant: both maps hold the same runs,
//! none empty, none touching another, none past the end. Maps that say otherwise are `Corrupt`, and are not
//! believed.

use super::few::Few;
use super::pairs::Pairs;
use crate::error::{Error, Result};
use crate::limits::{GRANULE, PAGE_SIZE};

/// Granules to a page: what is as large begins at a page where it can.
pub(super) const PAGE: u64 = PAGE_SIZE as u64 / GRANULE;

/// A run of granules of the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Run {
    /// The first granule.
    pub start: u64,
    /// How many; never 0.
    pub len: u64,
}

impl Run {
    /// One past the last granule.
    pub(super) fn end(self) -> u64 {
        self.start + self.len
    }
}

/// Runs in a row.
pub(super) type Runs = Few<Run, 2>;

/// The free granules.
#[derive(Debug, Default)]
pub(super) struct Free<P> {
    pub by_start: P,
    pub by_len: P,
    /// Free granules.
    total: u64,
    /// Granules of the memory, free or not.
    end: u64,
}

impl<P: Pairs> Free<P> {
    /// Puts that any one call may do to each of the maps.
    pub(super) const PUTS: usize = 2;

    /// As the maps tell it: `total` free granules of `end`.
    pub(super) const fn new(by_start: P, by_len: P, total: u64, end: u64) -> Self {
        Self { by_start, by_len, total, end }
    }

    /// A free run as a map tells it.
    #[inline]
    fn sound(&self, start: u64, len: u64) -> Result<Run> {
        let end = start.checked_add(len).filter(|&end| len > 0 && end <= self.end);
        end.map(|_| Run { start, len }).ok_or(Error::Corrupt)
    }

    /// The first free run that begins at `start` or behind.
    #[inline]
    fn behind(&self, start: u64) -> Result<Option<Run>> {
        let found = self.by_start.ceiling((start, 0))?;
        found.map(|((start, len), _)| self.sound(start, len)).transpose()
    }

    /// The last free run that begins at `start` or before.
    #[inline]
    fn before(&self, start: u64) -> Result<Option<Run>> {
        let found = self.by_start.floor((start, u64::MAX))?;
        found.map(|((start, len), _)| self.sound(start, len)).transpose()
    }

    /// The shortest free run of at least `len` granules.
    #[inline]
    fn fitting(&self, len: u64) -> Result<Option<Run>> {
        let found = self.by_len.ceiling((len, 0))?;
        found.map(|((len, start), _)| self.sound(start, len)).transpose()
    }

    fn add(&mut self, run: Run) -> Result<()> {
        self.by_start.put((run.start, run.len), 0)?;
        self.by_len.put((run.len, run.start), 0)?;
        self.total += run.len;
        Ok(())
    }

    fn remove(&mut self, run: Run) -> Result<()> {
        let known =
            self.by_start.take((run.start, run.len))? && self.by_len.take((run.len, run.start))?;
        self.total = self.total.checked_sub(run.len).filter(|_| known).ok_or(Error::Corrupt)?;
        Ok(())
    }

    /// Takes `part` out of the free run that holds it.
    fn carve(&mut self, whole: Run, part: Run) -> Result<()> {
        self.remove(whole)?;
        if part.start > whole.start {
            self.add(Run { start: whole.start, len: part.start - whole.start })?;
        }
        if part.end() < whole.end() {
            self.add(Run { start: part.end(), len: whole.end() - part.end() })?;
        }
        Ok(())
    }

    /// Free granules in all.
    pub(super) const fn total(&self) -> u64 {
        self.total
    }

    /// Granules of the memory that are under this account, free or not.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// Other counts, of what the maps hold now.
    pub(super) const fn set_counts(&mut self, total: u64, end: u64) {
        (self.total, self.end) = (total, end);
    }

    /// The memory is longer: so much more at its end is free.
    pub(super) fn extend(&mut self, end: u64) -> Result<()> {
        let start = self.end;
        self.end = end;
        self.insert(Run { start, len: end - start }).map(drop)
    }

    /// Calls `each` with every free run in the order of addresses.
    pub(super) fn each(&self, mut each: impl FnMut(Run)) -> Result<()> {
        let mut at = 0;
        while let Some(run) = self.behind(at)? {
            each(run);
            at = run.end();
        }
        Ok(())
    }

    /// Whether the map by length tells the same.
    pub(super) fn mirrored(&self) -> Result<bool> {
        let (mut key, mut count, mut total) = ((0, 0), 0_i64, 0_u64);
        while let Some(((len, start), _)) = self.by_len.ceiling(key)? {
            let run = self.sound(start, len)?;
            if self.before(start)? != Some(run) {
                return Ok(false);
            }
            (count, total) = (count + 1, total.saturating_add(len));
            key = (len, start + 1);
        }
        self.each(|_| count -= 1)?;
        Ok(count == 0 && total == self.total)
    }

    /// Gives back a run; tells the free run that it is part of now.
    pub(super) fn insert(&mut self, run: Run) -> Result<Run> {
        let mut whole = self.sound(run.start, run.len)?;
        if let Some(next) = self.behind(run.start)? {
            if next.start < run.end() {
                return Err(Error::Corrupt);
            }
            if next.start == run.end() {
                self.remove(next)?;
                whole.len += next.len;
            }
        }
        if let Some(before) = self.before(run.start)? {
            if before.end() > run.start {
                return Err(Error::Corrupt);
            }
            if before.end() == run.start {
                self.remove(before)?;
                whole = Run { start: before.start, len: before.len + whole.len };
            }
        }
        self.add(whole)?;
        Ok(whole)
    }

    /// What is free of a run.
    pub(super) fn parts_within(&self, run: Run, mut each: impl FnMut(Run)) -> Result<()> {
        let mut next = self.before(run.start)?;
        if next.is_none_or(|free| free.end() <= run.start) {
            next = self.behind(run.start)?;
        }
        while let Some(free) = next.filter(|free| free.start < run.end()) {
            let (start, end) = (free.start.max(run.start), free.end().min(run.end()));
            each(Run { start, len: end - start });
            next = self.behind(free.end())?;
        }
        Ok(())
    }

    /// How many granules are free from exactly `start` on.
    pub(super) fn free_at(&self, start: u64) -> Result<u64> {
        let found = self.behind(start)?.filter(|run| run.start == start);
        Ok(found.map_or(0, |run| run.len))
    }

    /// Takes up to `want` granules from exactly `start` on; how many there were.
    pub(super) fn take_at(&mut self, start: u64, want: u64) -> Result<u64> {
        let Some(whole) = self.behind(start)?.filter(|run| run.start == start) else {
            return Ok(0);
        };
        let got = whole.len.min(want);
        if got > 0 {
            self.carve(whole, Run { start, len: got })?;
        }
        Ok(got)
    }

    /// Takes `want` granules in one run out of the smallest free run that holds them, at a page's
    /// beginning when they fill one and there is a choice.
    pub(super) fn take_best(&mut self, want: u64) -> Result<Option<Run>> {
        let Some(mut whole) = self.fitting(want)? else { return Ok(None) };
        let aligned = |start: u64| start.next_multiple_of(PAGE);
        if want >= PAGE
            && aligned(whole.start) + want > whole.end()
            && let Some(roomy) = self.fitting(want + PAGE - 1)?
        {
            whole = roomy;
        }
        let mut part = Run { start: whole.start, len: want };
        if want >= PAGE && aligned(whole.start) + want <= whole.end() {
            part.start = aligned(whole.start);
        }
        self.carve(whole, part)?;
        Ok(Some(part))
    }

    /// Takes up to `want` granules out of the longest free run.
    pub(super) fn take_longest(&mut self, want: u64) -> Result<Option<Run>> {
        let Some(((len, start), _)) = self.by_len.floor((u64::MAX, u64::MAX))? else {
            return Ok(None);
        };
        let whole = self.sound(start, len)?;
        let part = Run { start, len: len.min(want) };
        self.carve(whole, part)?;
        Ok(Some(part))
    }

    /// Takes so many whole pages in one run, if there are.
    pub(super) fn take_pages(&mut self, count: u64) -> Result<Option<Run>> {
        let want = count * PAGE;
        // Most runs of this length lie at a page: they come from pages given back.
        for least in [want, want + PAGE - 1] {
            let Some(whole) = self.fitting(least)? else { return Ok(None) };
            let part = Run { start: whole.start.next_multiple_of(PAGE), len: want };
            if part.end() <= whole.end() {
                self.carve(whole, part)?;
                return Ok(Some(part));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::pairs::HeapPairs;
    use super::*;

    /// Runs are taken and given back at random; the maps mirror each other and a plain bitmap.
    #[test]
    fn mirrors_a_bitmap() {
        const SIZE: u64 = 600;
        let mut free = Free::<HeapPairs>::default();
        let mut map = [false; SIZE as usize];
        let mut held: alloc::vec::Vec<Run> = alloc::vec::Vec::new();
        free.extend(SIZE).unwrap();
        map.fill(true);
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..20_000 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let want = seed % 23 + 1;
            let taken = match (seed >> 8) % 5 {
                0 => free.take_best(want).unwrap(),
                1 => free.take_longest(want).unwrap(),
                2 => {
                    let start = (seed >> 16) % SIZE;
                    let len = free.take_at(start, want).unwrap();
                    (len > 0).then_some(Run { start, len })
                }
                3 => free.take_pages(want / 8 + 1).unwrap(),
                _ if held.is_empty() => None,
                _ => {
                    let run = held.swap_remove((seed >> 16) as usize % held.len());
                    free.insert(run).unwrap();
                    map[run.start as usize..run.end() as usize].fill(true);
                    assert_eq!(free.insert(run), Err(Error::Corrupt), "given back twice");
                    None
                }
            };
            if let Some(run) = taken {
                let part = &mut map[run.start as usize..run.end() as usize];
                assert!(part.iter().all(|&free| free), "taken twice: {run:?}");
                part.fill(false);
                held.push(run);
            }
            assert_eq!(free.total, map.iter().filter(|&&free| free).count() as u64);
            assert!(free.mirrored().unwrap());
            let (from, len) = ((seed >> 20) % SIZE, (seed >> 30) % 99 + 1);
            let within = from..SIZE.min(from + len);
            let mut found = 0;
            free.parts_within(Run { start: from, len }, |part| {
                assert!(within.contains(&part.start) && part.end() <= within.end);
                assert!(map[part.start as usize..part.end() as usize].iter().all(|&free| free));
                found += part.len;
            })
            .unwrap();
            let expected = map[from as usize..within.end as usize].iter().filter(|&&free| free);
            assert_eq!(found, expected.count() as u64);
            let mut last = None;
            free.each(|run| {
                assert!(last.is_none_or(|end| end < run.start), "neighbours not joined");
                last = Some(run.end());
            })
            .unwrap();
        }
    }
}
