//! Which units have much in common with which.
//!
//! Above: `units`. Below: `gear`. Short stretches that two units share are votes for each other; programs that were
//! built twice share little that is long, since each call says how far it goes, but much that is short. Invariant:
//! every unit has at most [`FRIENDS`] others that it names, and where all of these are too many, those with the fewest
//! votes are forgotten, so memory has a bound.

use std::collections::HashMap;

use super::gear::{Anchors, Rolling};
use super::units::UnitId;

/// One of two to the power of this many places is an anchor, at first.
const BITS: u32 = 6;
/// So many bytes have one, in about: as many are in common for each vote.
pub(super) const VOTE_LEN: u64 = 1 << BITS;
/// Most anchors that are remembered.
const ANCHORS_MAX: usize = 7 << 18;
/// Units that an anchor remembers: the last ones that had it.
const OWNERS: usize = 2;
/// Units that one names.
const FRIENDS: usize = 16;
/// Fewer votes are chance.
const VOTES_MIN: u32 = 4;
/// Pairs that are remembered.
const PAIRS_MAX: usize = 2 << 20;

/// That a unit is like an earlier one, and by how many votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Like {
    pub unit: UnitId,
    pub earlier: UnitId,
    pub votes: u32,
}

impl Like {
    /// The two, each as the one that is like the other.
    pub const fn both(&self) -> [(UnitId, UnitId); 2] {
        [(self.unit, self.earlier), (self.earlier, self.unit)]
    }
}

/// What is remembered of all units so far.
pub(super) struct Likeness {
    anchors: Anchors<[UnitId; OWNERS]>,
    votes: HashMap<UnitId, u32>,
    found: Vec<Like>,
    /// Of fewer votes none is remembered any more.
    votes_min: u32,
    pairs_max: usize,
}

impl Likeness {
    pub fn new() -> Self {
        Self {
            anchors: Anchors::new(BITS, ANCHORS_MAX),
            votes: HashMap::new(),
            found: Vec::new(),
            votes_min: VOTES_MIN,
            pairs_max: PAIRS_MAX,
        }
    }

    /// Bytes of memory that its table takes when it is full.
    pub const MEMORY_FULL: u64 = Anchors::<[UnitId; OWNERS]>::memory_of(ANCHORS_MAX);

    /// Bytes of memory that it takes, in about.
    pub fn memory(&self) -> u64 {
        self.anchors.memory() + (self.found.capacity() * size_of::<Like>()) as u64
    }

    /// A unit, and its bytes.
    pub fn look(&mut self, own: UnitId, bytes: &[u8]) {
        let mut rolling = Rolling::<4>::default();
        let mut rest = bytes;
        while let Some((hash, end)) = self.anchors.next(&mut rolling, rest) {
            rest = &rest[end..];
            // A vote counts for all anchors that are not looked at any more.
            let weight = 1 << (self.anchors.bits() - BITS).min(16);
            match self.anchors.get_mut(hash) {
                Some(owners) if owners[0] == own => {}
                Some(owners) => {
                    for &owner in owners.iter().filter(|&&owner| owner != UnitId::MAX) {
                        *self.votes.entry(owner).or_default() += weight;
                    }
                    owners.rotate_right(1);
                    owners[0] = own;
                }
                None => self.anchors.insert(hash, [own, UnitId::MAX]),
            }
        }
        self.name_friends(own);
    }

    fn name_friends(&mut self, own: UnitId) {
        let enough = self.votes.drain().filter(|&(_, votes)| votes >= self.votes_min);
        let mut friends: Vec<(UnitId, u32)> = enough.collect();
        friends.sort_unstable_by_key(|&(unit, votes)| (std::cmp::Reverse(votes), unit));
        friends.truncate(FRIENDS);
        let like = |(earlier, votes)| Like { unit: own, earlier, votes };
        self.found.extend(friends.into_iter().map(like));
        while self.found.len() > self.pairs_max {
            self.votes_min = self.votes_min.saturating_mul(2);
            self.found.retain(|like| like.votes >= self.votes_min);
        }
    }

    /// What was found to be alike.
    pub fn found(self) -> Vec<Like> {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Code with calls in it: much that is the same, nothing of it long.
    fn program(far: u32) -> Vec<u8> {
        let word = |at: u32| (at.wrapping_mul(0x9e37_79b9) >> 3).to_le_bytes();
        let step = |at: u32| {
            let same = [at, at + 9, at + 5, at * 7, at + 77, at * 11, at * 13, at + 3];
            let call = [(at * far).to_le_bytes()];
            same.map(word).into_iter().chain(call).flatten()
        };
        (0..1600).flat_map(step).collect()
    }

    #[test]
    fn programs_built_twice_are_alike_and_others_are_not() {
        let mut likeness = Likeness::new();
        let other: Vec<u8> = (0..60_000u32).map(|at| (at.wrapping_mul(at) >> 9) as u8).collect();
        for (unit, bytes) in (0..).zip([&program(1), &other, &program(1001)]) {
            likeness.look(unit, bytes);
        }
        let found = likeness.found();
        assert!(found.iter().any(|like| (like.unit, like.earlier) == (2, 0)), "{found:?}");
        assert!(found.iter().all(|like| like.unit != 1 && like.earlier != 1), "{found:?}");
    }

    #[test]
    fn of_too_many_pairs_those_stay_that_have_the_most_in_common() {
        let mut likeness = Likeness { pairs_max: 40, ..Likeness::new() };
        let (program, part) = (program(1), program(1001)[..4000].to_vec());
        for unit in 0..60 {
            likeness.look(unit, if unit % 3 == 0 { &program } else { &part });
        }
        let found = likeness.found();
        assert!((1..=40).contains(&found.len()), "{}", found.len());
        assert!(found.iter().all(|like| like.unit % 3 == 0 && like.earlier % 3 == 0), "{found:?}");
    }
}
