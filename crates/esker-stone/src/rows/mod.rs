//! What the rows of each kind of group say: one file per kind, with writing and reading side by side.
//!
//! Above: `layer` fills pages, `tree` and homes read them. Below: `group`. Invariant: rows that were read
//! have rising keys, and every number in them lies in the range that its meaning allows.

pub mod bases;
pub mod blocks;
pub mod extents;
pub mod gone;
pub mod inodes;
pub mod names;
pub mod numbers;
pub mod pages;
mod pieces;
pub mod places;
pub mod snapshots;
pub mod tables;
pub mod xattrs;

use crate::error::{Damage, Result};
use crate::group::{Group, GroupWriter};

/// Numbers that rise or stay: the first, and steps from each to the next (the first step is 0).
/// `least` is the least step.
fn rising(group: &Group<'_>, columns: (u8, u8), least: u64) -> Result<Vec<u64>> {
    let mut number = group.number(columns.0)?;
    let steps = group.numbers(columns.1)?;
    let mut numbers = Vec::with_capacity(group.count);
    for row in 0..group.count {
        if row > 0 {
            let step = steps.get(row).checked_add(least).ok_or(Damage::Range)?;
            number = number.checked_add(step).ok_or(Damage::Range)?;
        }
        numbers.push(number);
    }
    if group.count > 0 && steps.get(0) != 0 {
        return Err(Damage::Column.into());
    }
    Ok(numbers)
}

/// Writes down what [`rising`] reads.
fn write_rising(group: &mut GroupWriter, columns: (u8, u8), numbers: &[u64], least: u64) {
    let mut steps = vec![0; numbers.len().min(1)];
    steps.extend(numbers.windows(2).map(|two| two[1].saturating_sub(two[0]).saturating_sub(least)));
    group.numbers(columns.0, &numbers[..numbers.len().min(1)]);
    group.numbers(columns.1, &steps);
}

/// How many of `count` rows `before` holds for; it holds for none behind one that it does not hold for.
fn count_before(count: usize, before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if before(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

/// Values of a byte column: where each ends.
fn ends(group: &Group<'_>, lens: u8, bytes: u8, max: usize) -> Result<(Vec<u32>, Vec<u8>)> {
    let (lens, bytes) = (group.numbers(lens)?, group.bytes(bytes)?);
    let mut ends = Vec::with_capacity(group.count);
    let mut end = 0usize;
    for row in 0..group.count {
        let len = usize::try_from(lens.get(row)).ok().filter(|&len| len <= max);
        end = end.checked_add(len.ok_or(Damage::Column)?).ok_or(Damage::Column)?;
        ends.push(u32::try_from(end).map_err(|_| Damage::Column)?);
    }
    if end != bytes.len() {
        return Err(Damage::Column.into());
    }
    Ok((ends, bytes.to_vec()))
}

/// One of the values of [`ends`].
fn value<'a>(ends: &[u32], bytes: &'a [u8], row: usize) -> &'a [u8] {
    let start = row.checked_sub(1).and_then(|row| ends.get(row)).map_or(0, |&end| end as usize);
    let end = ends.get(row).map_or(start, |&end| end as usize);
    bytes.get(start..end).unwrap_or_default()
}
