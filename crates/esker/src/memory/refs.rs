//! How often granules are used that more than one extent names.
//!
//! Neighbours: `space` asks before it overwrites and before it frees. Invariant: runs of the map
//! are disjoint, and each counts at least two uses; what is not in the map is used once.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::free::Run;

/// Uses of granules beyond the first.
#[derive(Debug, Default)]
pub(super) struct Refs {
    /// By first granule: length and uses.
    runs: BTreeMap<u64, (u64, u32)>,
}

impl Refs {
    /// Nothing is used twice.
    pub(super) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Every run with more than one use.
    pub(super) fn runs(&self) -> impl Iterator<Item = (Run, u32)> {
        self.runs.iter().map(|(&start, &(len, uses))| (Run { start, len }, uses))
    }

    /// Cuts `run` into parts of equal use and tells each with its number of uses.
    pub(super) fn parts(&self, run: Run, mut each: impl FnMut(Run, u32)) {
        let mut at = run.start;
        let before = self.runs.range(..run.start).next_back();
        for (&start, &(len, uses)) in before.into_iter().chain(self.runs.range(run.start..)) {
            if start >= run.end() {
                break;
            }
            let (start, end) = (start.max(at), (start + len).min(run.end()));
            if end <= start {
                continue;
            }
            if start > at {
                each(Run { start: at, len: start - at }, 1);
            }
            each(Run { start, len: end - start }, uses);
            at = end;
        }
        if at < run.end() {
            each(Run { start: at, len: run.end() - at }, 1);
        }
    }

    /// One more use of every granule of `run`.
    pub(super) fn add(&mut self, run: Run) {
        self.change(run, |uses| uses + 1, &mut Vec::new());
    }

    /// One use less; what was used once goes to `unused`.
    pub(super) fn remove(&mut self, run: Run, unused: &mut Vec<Run>) {
        self.change(run, |uses| uses - 1, unused);
    }

    fn change(&mut self, run: Run, count: impl Fn(u32) -> u32, unused: &mut Vec<Run>) {
        self.split(run.start);
        self.split(run.end());
        let mut parts = Vec::new();
        self.parts(run, |part, uses| parts.push((part, uses)));
        for (part, uses) in parts {
            match count(uses) {
                0 => unused.push(part),
                1 => drop(self.runs.remove(&part.start)),
                uses => drop(self.runs.insert(part.start, (part.len, uses))),
            }
        }
        self.join(run);
    }

    /// No run lies across `at`.
    fn split(&mut self, at: u64) {
        if let Some((&start, &(len, uses))) = self.runs.range(..at).next_back()
            && start + len > at
        {
            self.runs.insert(start, (at - start, uses));
            self.runs.insert(at, (start + len - at, uses));
        }
    }

    /// Joins what touches and is used equally, in `run` and at its ends.
    fn join(&mut self, run: Run) {
        let first = self.runs.range(..run.start).next_back().map_or(run.start, |(&start, _)| start);
        let mut at = first;
        while let Some((&start, &(len, uses))) = self.runs.range(at..).next()
            && start <= run.end()
        {
            match self.runs.get(&(start + len)) {
                Some(&(more, same)) if same == uses => {
                    self.runs.remove(&(start + len));
                    self.runs.insert(start, (len + more, uses));
                    at = start;
                }
                _ => at = start + len,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses are added and removed at random; the map agrees with one counter per granule.
    #[test]
    fn agrees_with_counters() {
        const SIZE: usize = 60;
        let mut refs = Refs::default();
        let mut uses = [1_u32; SIZE];
        let mut seed = 0x2545_f491_4f6c_dd1d_u64;
        for _ in 0..20_000 {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            let start = seed % SIZE as u64;
            let len = (seed >> 8) % (SIZE as u64 - start) + 1;
            let run = Run { start, len };
            let part = start as usize..(start + len) as usize;
            let mut unused = Vec::new();
            if (seed >> 16).is_multiple_of(2) && uses[part.clone()].iter().all(|&uses| uses < 6) {
                refs.add(run);
                uses[part].iter_mut().for_each(|uses| *uses += 1);
            } else {
                refs.remove(run, &mut unused);
                for index in part {
                    uses[index] -= 1;
                    let gone =
                        unused.iter().any(|run| (run.start..run.end()).contains(&(index as u64)));
                    assert_eq!(gone, uses[index] == 0);
                    uses[index] = uses[index].max(1);
                }
            }
            let mut found = Vec::new();
            refs.parts(Run { start: 0, len: SIZE as u64 }, |part, uses| {
                found.extend(core::iter::repeat_n(uses, part.len as usize));
            });
            assert_eq!(found, uses);
            let mut last = (u64::MAX, 0);
            for (run, uses) in refs.runs() {
                assert!(uses >= 2 && last != (run.start, uses), "equal neighbours not joined");
                last = (run.end(), uses);
            }
        }
    }
}
