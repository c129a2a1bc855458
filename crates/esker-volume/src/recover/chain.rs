//! Chain: which commits of the log behind the base count, and where others are lost between them.
//!
//! Above: `rows`. Below: heads of parts. Invariant: a commit that no barrier is known behind counts only if every byte
//! of it, and of all before it that are like it, is as it was written, as when the volume is opened; what was given up,
//! or written again elsewhere, does not count, and is no loss.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::scan::{Part, holds};
use crate::device::Device;

/// What is there of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The heads of all its parts.
    Whole,
    /// All that there ever was: the log goes on behind it with another.
    GivenUp,
    /// Some of them.
    Torn,
}

/// A commit that the log leads to.
#[derive(Debug)]
pub(super) struct Commit {
    pub sequence: u64,
    /// Those that were found, in their order.
    pub parts: Vec<Part>,
    pub state: State,
    /// Whether the part before one of them is lost.
    pub gap: bool,
}

/// Parts of commits, by their number and epoch.
pub(super) type Parts = BTreeMap<(u64, u64), Vec<Part>>;

/// Up to where the log is in the base.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    /// The last commit that the base holds.
    pub sequence: u64,
    /// The name of the last part that it holds.
    pub before: u64,
}

/// Whether these are the first parts of a commit, and so many.
fn in_a_row(parts: &[Part]) -> bool {
    (0..).zip(parts).all(|(number, (_, head))| head.part == number)
}

const fn key_of((_, head): &Part) -> (u64, u64) {
    (head.sequence, head.epoch)
}

fn is_whole(parts: &[Part]) -> bool {
    parts.last().is_some_and(|(_, head)| head.is_last()) && in_a_row(parts)
}

/// Follows the log from its newest part back to the base. Where a part is lost it goes on with the newest before that.
pub(super) fn commits(device: &impl Device, parts: &Parts, base: End, proven: u64) -> Vec<Commit> {
    let is_new = |((sequence, _), _): &(&(u64, u64), &Vec<Part>)| *sequence > base.sequence;
    let old = parts.iter().filter(|own| !is_new(own)).flat_map(|(_, own)| own);
    let mut held: HashSet<u64> = old.map(|(_, head)| head.checksum).collect();
    held.insert(base.before);
    let (mut all, mut may_end): (Vec<Part>, Vec<bool>) = (Vec::new(), Vec::new());
    for ((sequence, _), own) in parts.iter().filter(is_new) {
        // What has no end, and was not told to be safe, never was.
        let counts = *sequence <= proven || is_whole(own);
        all.extend(own);
        may_end.resize(all.len(), counts);
    }
    let names: HashMap<u64, usize> =
        all.iter().enumerate().map(|(at, (_, head))| (head.checksum, at)).collect();
    let newest = |below: usize| may_end[..below].iter().rposition(|&may| may);
    let mut found: BTreeMap<(u64, u64), (Vec<usize>, bool)> = BTreeMap::new();
    let mut followed = HashSet::new();
    // What is read at most, unless somebody made up the heads.
    let mut left = device.geometry().size;
    let mut next = newest(all.len());
    while let Some(at) = next {
        let (_, head) = &all[at];
        let known = names.get(&head.before).copied().filter(|&before| before < at);
        let gap = known.is_none() && !held.contains(&head.before);
        let other = |before: &usize| key_of(&all[*before]) != key_of(&all[at]);
        followed.extend(known.filter(other));
        if head.sequence <= proven || holds(device, &all[at], &mut left) == Some(true) {
            let (parts, lacks) = found.entry(key_of(&all[at])).or_default();
            parts.push(at);
            *lacks |= gap;
        } else {
            // The log ended before it.
            found.clear();
        }
        next = known.or_else(|| if gap { newest(at) } else { None });
    }
    let commit = |((sequence, _), (mut own, gap)): ((u64, u64), (Vec<usize>, bool))| {
        own.reverse();
        let parts: Vec<Part> = own.iter().map(|&at| all[at]).collect();
        let is_followed = own.last().is_some_and(|at| followed.contains(at));
        let state = match is_whole(&parts) {
            true => State::Whole,
            false if in_a_row(&parts) && is_followed => State::GivenUp,
            false => State::Torn,
        };
        Commit { sequence, parts, state, gap }
    };
    found.into_iter().map(commit).collect()
}
