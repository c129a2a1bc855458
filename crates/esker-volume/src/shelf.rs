//! Snapshots beside what the volume holds now: numbers by which their inodes are known there, their tables while
//! somebody looks, and which of them somebody still copies from.
//!
//! Above: `shown`, `layer`, `snapped`, `commit`. Invariant: a number that was told once means the same inode as long as
//! the volume is open, and none at all once its snapshot is deleted; no snapshot goes while something of it is lent.
//! Its lock is taken behind those of the volume, and nothing is asked of anybody while it is held.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use esker::{Error, Ino, Result};

use crate::limits::{SNAPSHOTS_LOOKED_AT, SNAPSHOTS_MAX};
use crate::stack::State;

/// Numbers of inodes from here on are not of what the volume holds now. No program takes them for negative.
pub(crate) const SHOWN: Ino = Ino(1 << 62);
/// Bits of a number that say which inode of its snapshot it is; those above say of which snapshot.
const INO_BITS: u32 = 44;
/// The directory of the snapshots: the number of no snapshot, and of no inode in it.
pub(crate) const SHELF: Ino = SHOWN;
/// Snapshots that can be told apart as long as the volume is open, and have numbers from 1 up.
const NUMBERED_MAX: usize = (1 << (62 - INO_BITS)) - 1;

const _: () = assert!(SNAPSHOTS_MAX <= NUMBERED_MAX);

/// Where an inode is.
#[derive(Clone, Copy)]
pub(crate) enum Whose {
    Home,
    Shelf,
    /// In the snapshot of this number.
    Inside(u32, Ino),
}

pub(crate) const fn whose(ino: Ino) -> Whose {
    if ino.0 < SHOWN.0 {
        return Whose::Home;
    }
    let (number, own) = ((ino.0 - SHOWN.0) >> INO_BITS, ino.0 & ((1 << INO_BITS) - 1));
    // Numbers that are too large are never given out.
    if number == 0 { Whose::Shelf } else { Whose::Inside(number as u32, Ino(own)) }
}

/// The number by which an inode of a snapshot is known above.
pub(crate) const fn outside(number: u32, own: Ino) -> Result<Ino> {
    if own.0 >> INO_BITS != 0 {
        return Err(Error::Overflow);
    }
    Ok(Ino(SHOWN.0 | (number as u64) << INO_BITS | own.0))
}

#[derive(Default)]
struct Known {
    /// The last commits of snapshots, by their numbers, less one.
    sequences: Vec<u64>,
    numbers: BTreeMap<u64, u32>,
    /// What was looked at last comes last.
    seen: Vec<(u64, Arc<State>)>,
    /// How often something of a snapshot is lent.
    lent: BTreeMap<u64, usize>,
    /// Those that are being deleted, or are to be as soon as nothing of them is lent.
    leaving: BTreeSet<u64>,
}

/// What is known of the snapshots of a volume. They are told apart by their last commits.
#[derive(Default)]
pub(crate) struct Shelf(Mutex<Known>);

/// As long as there is this the snapshot is not deleted.
pub(crate) struct Loan {
    shelf: Arc<Shelf>,
    sequence: u64,
}

/// As long as there is this nothing of the snapshot is lent.
pub(crate) struct Leaving<'a> {
    shelf: &'a Shelf,
    sequence: u64,
}

impl Shelf {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a snapshot, which it keeps.
    pub fn number(&self, sequence: u64) -> Result<u32> {
        let mut known = self.known();
        if let Some(&number) = known.numbers.get(&sequence) {
            return Ok(number);
        }
        if known.sequences.len() == NUMBERED_MAX {
            return Err(Error::Overflow);
        }
        known.sequences.push(sequence);
        let number = known.sequences.len() as u32;
        known.numbers.insert(sequence, number);
        Ok(number)
    }

    /// The snapshot that has this number. It may be gone.
    pub fn sequence(&self, number: u32) -> Result<u64> {
        let at = (number as usize).wrapping_sub(1);
        self.known().sequences.get(at).copied().ok_or(Error::Stale)
    }

    /// The tables of a snapshot, where they are now. Only those that were looked at last are kept at hand.
    pub fn seen(&self, state: &State, sequence: u64) -> Result<Arc<State>> {
        let mut known = self.known();
        let found = known.seen.iter().position(|(own, _)| *own == sequence);
        let found = found.map(|at| known.seen.remove(at).1);
        let own = match found.filter(|seen| seen.version == state.version) {
            Some(own) => own,
            None => {
                let found = state.snapshots.binary_search_by_key(&sequence, |row| row.sequence);
                let row = found.ok().and_then(|at| state.snapshots.get(at)).ok_or(Error::Stale)?;
                Arc::new(state.seen_by(row))
            }
        };
        known.seen.push((sequence, Arc::clone(&own)));
        if known.seen.len() > SNAPSHOTS_LOOKED_AT {
            known.seen.remove(0);
        }
        Ok(own)
    }

    /// Something of a snapshot is lent; `None`: it is to be deleted.
    pub fn lend(self: &Arc<Self>, sequence: u64) -> Option<Loan> {
        let mut known = self.known();
        if known.leaving.contains(&sequence) {
            return None;
        }
        *known.lent.entry(sequence).or_default() += 1;
        Some(Loan { shelf: Arc::clone(self), sequence })
    }

    /// A snapshot is to be deleted; `None`: something of it is lent. No more is, until somebody has tried again.
    pub fn leave(&self, sequence: u64) -> Option<Leaving<'_>> {
        let mut known = self.known();
        known.leaving.insert(sequence);
        (!known.lent.contains_key(&sequence)).then(|| Leaving { shelf: self, sequence })
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut known = self.shelf.known();
        if let Some(count) = known.lent.get_mut(&self.sequence) {
            *count -= 1;
            if *count == 0 {
                known.lent.remove(&self.sequence);
            }
        }
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.shelf.known().leaving.remove(&self.sequence);
    }
}
