//! Which granules of the memory are free: by address, and by length.
//!
//! Neighbours: `space` owns it and moves the bytes. Invariant: both maps hold the same runs, none
//! empty, none touching another.

use alloc::collections::{BTreeMap, BTreeSet};

use super::few::Few;
use crate::limits::GRANULE;

/// Granules to a page: what is as large begins at a page where it can.
const PAGE: u64 = 4096 / GRANULE;

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
pub(super) struct Free {
    by_start: BTreeMap<u64, u64>,
    by_len: BTreeSet<(u64, u64)>,
    total: u64,
}

impl Free {
    fn add(&mut self, run: Run) {
        self.by_start.insert(run.start, run.len);
        self.by_len.insert((run.len, run.start));
        self.total += run.len;
    }

    fn remove(&mut self, run: Run) {
        self.by_start.remove(&run.start);
        self.by_len.remove(&(run.len, run.start));
        self.total -= run.len;
    }

    /// Takes `part` out of the free run that holds it.
    fn carve(&mut self, whole: Run, part: Run) {
        self.remove(whole);
        if part.start > whole.start {
            self.add(Run { start: whole.start, len: part.start - whole.start });
        }
        if part.end() < whole.end() {
            self.add(Run { start: part.end(), len: whole.end() - part.end() });
        }
    }

    /// Free granules in all.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Every free run in the order of addresses.
    pub(super) fn runs(&self) -> impl Iterator<Item = Run> {
        self.by_start.iter().map(|(&start, &len)| Run { start, len })
    }

    /// Gives back a run; tells the free run that it is part of now.
    pub(super) fn insert(&mut self, run: Run) -> Run {
        let mut whole = run;
        self.total += run.len;
        if let Some(len) = self.by_start.remove(&run.end()) {
            self.by_len.remove(&(len, run.end()));
            whole.len += len;
        }
        if let Some((&start, len)) = self.by_start.range_mut(..run.start).next_back()
            && start + *len == run.start
        {
            self.by_len.remove(&(*len, start));
            whole = Run { start, len: *len + whole.len };
            *len = whole.len;
        } else {
            self.by_start.insert(whole.start, whole.len);
        }
        self.by_len.insert((whole.len, whole.start));
        whole
    }

    /// Takes this part of a free run out.
    pub(super) fn take(&mut self, part: Run) {
        let whole = self.by_start.range(..=part.start).next_back();
        if let Some((&start, &len)) = whole
            && start + len >= part.end()
        {
            self.carve(Run { start, len }, part);
        }
    }

    /// Takes up to `want` granules from exactly `start` on; how many there were.
    pub(super) fn take_at(&mut self, start: u64, want: u64) -> u64 {
        let Some(&len) = self.by_start.get(&start) else { return 0 };
        let got = len.min(want);
        if got > 0 {
            self.carve(Run { start, len }, Run { start, len: got });
        }
        got
    }

    /// Takes `want` granules in one run out of the smallest free run that holds them, at a page's
    /// beginning when they fill one and there is a choice.
    pub(super) fn take_best(&mut self, want: u64) -> Option<Run> {
        let fitting = |least| self.by_len.range((least, 0)..).next();
        let mut found = fitting(want)?;
        let aligned = |start: u64| start.next_multiple_of(PAGE);
        if want >= PAGE
            && aligned(found.1) + want > found.1 + found.0
            && let Some(roomy) = fitting(want + PAGE - 1)
        {
            found = roomy;
        }
        let whole = Run { start: found.1, len: found.0 };
        let mut part = Run { start: whole.start, len: want };
        if want >= PAGE && aligned(whole.start) + want <= whole.end() {
            part.start = aligned(whole.start);
        }
        self.carve(whole, part);
        Some(part)
    }

    /// Takes up to `want` granules out of the longest free run.
    pub(super) fn take_longest(&mut self, want: u64) -> Option<Run> {
        let &(len, start) = self.by_len.last()?;
        let part = Run { start, len: len.min(want) };
        self.carve(Run { start, len }, part);
        Some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs are taken and given back at random; the maps mirror each other and a plain bitmap.
    #[test]
    fn mirrors_a_bitmap() {
        const SIZE: u64 = 600;
        let mut free = Free::default();
        let mut map = [false; SIZE as usize];
        let mut held: alloc::vec::Vec<Run> = alloc::vec::Vec::new();
        free.insert(Run { start: 0, len: SIZE });
        map.fill(true);
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..20_000 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let want = seed % 23 + 1;
            let taken = match (seed >> 8) % 4 {
                0 => free.take_best(want),
                1 => free.take_longest(want),
                2 => {
                    let start = (seed >> 16) % SIZE;
                    let len = free.take_at(start, want);
                    (len > 0).then_some(Run { start, len })
                }
                _ if held.is_empty() => None,
                _ => {
                    let run = held.swap_remove((seed >> 16) as usize % held.len());
                    free.insert(run);
                    map[run.start as usize..run.end() as usize].fill(true);
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
            assert_eq!(free.by_start.len(), free.by_len.len());
            let mut last = None;
            for run in free.runs() {
                assert!(last.is_none_or(|end| end < run.start), "neighbours not joined");
                assert!(free.by_len.contains(&(run.len, run.start)));
                last = Some(run.end());
            }
        }
    }
}
