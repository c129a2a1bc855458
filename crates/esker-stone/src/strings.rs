//! Sorted strings of bytes, each sharing its beginning with the one before.
//!
//! Above: `rows`. Invariant: as many strings as rows, each no longer than was allowed, so the whole is
//! bounded before anything is allocated.

use crate::error::{Damage, Result};
use crate::group::{Group, GroupWriter};

/// Strings in one allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Strings {
    bytes: Vec<u8>,
    /// Each where it ends.
    ends: Vec<u32>,
}

impl Strings {
    /// One more.
    pub fn push(&mut self, string: &[u8]) {
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len() as u32);
    }

    /// How many.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// One; empty behind the last.
    #[must_use]
    pub fn get(&self, row: usize) -> &[u8] {
        let start = row.checked_sub(1).and_then(|before| self.ends.get(before)).map_or(0, |&e| e);
        let end = self.ends.get(row).map_or(start, |&end| end);
        self.bytes.get(start as usize..end as usize).unwrap_or_default()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.len()).map(|row| self.get(row))
    }

    /// Bytes that they take in memory.
    #[must_use]
    pub const fn memory(&self) -> usize {
        self.bytes.len() + self.ends.len() * 4
    }

    /// Into three columns from this one on.
    pub(crate) fn write(&self, group: &mut GroupWriter, column: u8) {
        let (mut shared, mut lens, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        let mut before: &[u8] = &[];
        for string in self.iter() {
            let same = before.iter().zip(string).take_while(|(a, b)| a == b).count();
            shared.push(same as u64);
            lens.push((string.len() - same) as u64);
            rest.extend_from_slice(&string[same..]);
            before = string;
        }
        group.numbers(column, &shared);
        group.numbers(column + 1, &lens);
        group.bytes(column + 2, &rest);
    }

    /// From three columns from this one on; each string at most `max` long.
    pub(crate) fn read(group: &Group<'_>, column: u8, max: usize) -> Result<Self> {
        let shared = group.numbers(column)?;
        let lens = group.numbers(column + 1)?;
        let mut rest = group.bytes(column + 2)?;
        let mut strings = Self { bytes: Vec::new(), ends: Vec::with_capacity(group.count) };
        let mut start = 0;
        for row in 0..group.count {
            let end = strings.bytes.len();
            let same = usize::try_from(shared.get(row)).map_err(|_| Damage::Column)?;
            let len = usize::try_from(lens.get(row)).map_err(|_| Damage::Column)?;
            let whole = same.checked_add(len).filter(|&whole| whole <= max);
            if same > end - start || whole.is_none() {
                return Err(Damage::Column.into());
            }
            let (own, behind) = rest.split_at_checked(len).ok_or(Damage::Column)?;
            strings.bytes.extend_from_within(start..start + same);
            strings.bytes.extend_from_slice(own);
            strings.ends.push(strings.bytes.len() as u32);
            (start, rest) = (end, behind);
        }
        if rest.is_empty() { Ok(strings) } else { Err(Damage::Column.into()) }
    }
}
