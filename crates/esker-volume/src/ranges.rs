//! Ranges of bytes of a file.
//!
//! Above: `dirty`, `commit`, `promised`. Below: nothing. Invariant: they neither overlap nor touch.

use std::collections::BTreeMap;

/// Ranges of bytes that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// These bytes too.
    pub fn add(&mut self, mut start: u64, mut end: u64) {
        if start >= end {
            return;
        }
        while let Some((&from, &to)) = self.0.range(..=end).next_back() {
            if to < start {
                break;
            }
            self.0.remove(&from);
            (start, end) = (start.min(from), end.max(to));
        }
        self.0.insert(start, end);
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many bytes are in them.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.iter().map(|(start, end)| end - start).sum()
    }

    /// How many of these bytes are in them.
    #[must_use]
    pub fn within(&self, start: u64, end: u64) -> u64 {
        let before = self.0.range(..start).next_back();
        let inside = (start < end).then(|| self.0.range(start..end)).into_iter().flatten();
        let own = |(&from, &to): (&u64, &u64)| to.min(end).saturating_sub(from.max(start));
        before.into_iter().chain(inside).map(own).sum()
    }

    /// These bytes no longer; how many were in them.
    pub fn remove(&mut self, start: u64, end: u64) -> u64 {
        let mut gone = 0;
        while let Some((&from, &to)) = self.0.range(..end).next_back() {
            if to <= start || start >= end {
                break;
            }
            self.0.remove(&from);
            gone += to.min(end) - from.max(start);
            if to > end {
                self.0.insert(end, to);
            }
            if from < start {
                self.0.insert(from, start);
                break;
            }
        }
        gone
    }

    /// All of them: where each begins and ends.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(&start, &end)| (start, end))
    }
}
