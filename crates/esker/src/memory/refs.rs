//! How often granules are used that more than one extent names.
//!
//! Neighbours: `space` asks before it overwrites and before it frees; `pairs` keeps the count. Invariant: runs
//! are disjoint, and each counts at least two uses; what is in none is used once.

use alloc::vec::Vec;

use super::free::Run;
use super::pairs::Pairs;
use crate::error::{Error, Result};

/// Uses of granules beyond the first.
#[derive(Debug, Default)]
pub(super) struct Refs<P> {
    /// By first granule and length: uses.
    pub runs: P,
}

impl<P: Pairs> Refs<P> {
    /// Puts that one step of a change may do.
    pub(super) const PUTS: usize = 4;

    /// Nothing is used twice.
    pub(super) fn is_empty(&self) -> Result<bool> {
        Ok(self.runs.ceiling((0, 0))?.is_none())
    }

    fn sound(found: Option<((u64, u64), u32)>) -> Result<Option<(Run, u32)>> {
        let Some(((start, len), uses)) = found else { return Ok(None) };
        let sound = start.checked_add(len).is_some_and(|end| end > start) && uses > 1;
        if sound { Ok(Some((Run { start, len }, uses))) } else { Err(Error::Corrupt) }
    }

    /// The first run from `at` on.
    fn behind(&self, at: u64) -> Result<Option<(Run, u32)>> {
        Self::sound(self.runs.ceiling((at, 0))?)
    }

    /// The last run that begins before `at`.
    fn before(&self, at: u64) -> Result<Option<(Run, u32)>> {
        let Some(at) = at.checked_sub(1) else { return Ok(None) };
        Self::sound(self.runs.floor((at, u64::MAX))?)
    }

    /// Calls `each` with every run that has more than one use.
    pub(super) fn each(&self, mut each: impl FnMut(Run, u32)) -> Result<()> {
        let mut at = 0;
        while let Some((run, uses)) = self.behind(at)? {
            each(run, uses);
            at = run.end();
        }
        Ok(())
    }

    /// Cuts `run` into parts of equal use and tells each with its number of uses.
    pub(super) fn parts(&self, run: Run, mut each: impl FnMut(Run, u32)) -> Result<()> {
        let mut at = run.start;
        let mut found = self.before(run.start)?;
        if found.is_none_or(|(shared, _)| shared.end() <= run.start) {
            found = self.behind(run.start)?;
        }
        while let Some((shared, uses)) = found.filter(|(shared, _)| shared.start < run.end()) {
            let (start, end) = (shared.start.max(at), shared.end().min(run.end()));
            if start > at {
                each(Run { start: at, len: start - at }, 1);
            }
            each(Run { start, len: end - start }, uses);
            at = end;
            found = self.behind(shared.end())?;
        }
        if at < run.end() {
            each(Run { start: at, len: run.end() - at }, 1);
        }
        Ok(())
    }

    /// One more use of every granule of `run`. `room` makes sure of pages for [`Self::PUTS`] puts.
    pub(super) fn add(&mut self, run: Run, room: impl FnMut(&P) -> Result<()>) -> Result<()> {
        let more = |uses: u32| uses.checked_add(1).ok_or(Error::TooManyLinks);
        self.change(run, more, &mut Vec::new(), room)
    }

    /// One use less; what was used once goes to `unused`.
    pub(super) fn remove(
        &mut self,
        run: Run,
        unused: &mut Vec<Run>,
        room: impl FnMut(&P) -> Result<()>,
    ) -> Result<()> {
        self.change(run, |uses| Ok(uses - 1), unused, room)
    }

    fn change(
        &mut self,
        run: Run,
        count: impl Fn(u32) -> Result<u32>,
        unused: &mut Vec<Run>,
        mut room: impl FnMut(&P) -> Result<()>,
    ) -> Result<()> {
        room(&self.runs)?;
        self.split(run.start)?;
        self.split(run.end())?;
        let mut parts = Vec::new();
        self.parts(run, |part, uses| parts.push((part, uses)))?;
        for &(_, uses) in &parts {
            count(uses)?;
        }
        for (part, uses) in parts {
            room(&self.runs)?;
            match count(uses)? {
                0 => unused.push(part),
                1 => drop(self.runs.take((part.start, part.len))?),
                uses => self.runs.put((part.start, part.len), uses)?,
            }
        }
        room(&self.runs)?;
        self.join(run)
    }

    /// No run lies across `at`.
    fn split(&mut self, at: u64) -> Result<()> {
        if let Some((run, uses)) = self.before(at)?
            && run.end() > at
        {
            self.runs.take((run.start, run.len))?;
            self.runs.put((run.start, at - run.start), uses)?;
            self.runs.put((at, run.end() - at), uses)?;
        }
        Ok(())
    }

    /// Joins what touches and is used equally, in `run` and at its ends.
    fn join(&mut self, run: Run) -> Result<()> {
        let mut found = match self.before(run.start)? {
            Some(before) => Some(before),
            None => self.behind(run.start)?,
        };
        while let Some((left, uses)) = found.filter(|(left, _)| left.start <= run.end()) {
            let next = self.behind(left.end())?;
            found = match next {
                Some((right, same)) if right.start == left.end() && same == uses => {
                    let whole = Run { start: left.start, len: left.len + right.len };
                    self.runs.take((left.start, left.len))?;
                    self.runs.take((right.start, right.len))?;
                    self.runs.put((whole.start, whole.len), uses)?;
                    Some((whole, uses))
                }
                next => next,
            };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::pairs::HeapPairs;
    use super::*;

    /// Uses are added and removed at random; the map agrees with one counter per granule.
    #[test]
    fn agrees_with_counters() {
        const SIZE: usize = 60;
        let mut refs = Refs::<HeapPairs>::default();
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
                refs.add(run, |_| Ok(())).unwrap();
                uses[part].iter_mut().for_each(|uses| *uses += 1);
            } else {
                refs.remove(run, &mut unused, |_| Ok(())).unwrap();
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
            })
            .unwrap();
            assert_eq!(found, uses);
            let mut last = (u64::MAX, 0);
            refs.each(|run, uses| {
                assert!(uses >= 2 && last != (run.start, uses), "equal neighbours not joined");
                last = (run.end(), uses);
            })
            .unwrap();
        }
    }
}
