//! The order in which units go into blocks: each block grows around its first unit by those that are most like what is
//! in it already.
//!
//! Above: `data`. Below: what `alike` found. Invariant: an order of all units, each once, that depends on nothing else.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::alike::Like;
use super::units::UnitId;

/// What speaks for the unit that comes next in the order of paths: thousandths of a vote for each KiB.
const NEXT_WORTH: u64 = 100;
/// Votes are counted in thousandths.
const PART: u64 = 1000;
/// Smaller units count as if they had so many KiB, so that a handful of votes does not outweigh everything.
const KIB_MIN: u64 = 4;

struct Growing<'a> {
    lens: &'a [u32],
    /// Of each unit, where its neighbours end in `friends`.
    ends: Vec<usize>,
    /// Neighbours of all units, with their votes.
    friends: Vec<(UnitId, u32)>,
    placed: Vec<bool>,
    /// Votes of the block at hand for each unit, for each KiB of it.
    gains: Vec<u64>,
    touched: Vec<UnitId>,
    queue: BinaryHeap<(u64, Reverse<UnitId>)>,
}

/// Units of these lengths in the order in which they go into blocks of `block_len`. Those without a length are left
/// out.
pub(super) fn grown(lens: &[u32], likes: &[Like], block_len: usize) -> Vec<UnitId> {
    let mut growing = Growing::new(lens, likes);
    let mut order = Vec::with_capacity(lens.len());
    let (mut room, mut next) = (block_len as u64, 0);
    while let Some(unit) = growing.best().or_else(|| growing.first(&mut next)) {
        let len = u64::from(lens[unit as usize]);
        if len > room {
            growing.forget();
            room = block_len as u64;
        }
        room = room.saturating_sub(len);
        growing.place(unit);
        order.push(unit);
    }
    order
}

impl<'a> Growing<'a> {
    fn new(lens: &'a [u32], likes: &[Like]) -> Self {
        let mut ends = vec![0usize; lens.len() + 1];
        for (unit, _) in likes.iter().flat_map(Like::both) {
            ends[unit as usize + 1] += 1;
        }
        for unit in 1..ends.len() {
            ends[unit] += ends[unit - 1];
        }
        // Each beginning moves up to its end as it is filled.
        let mut friends = vec![(0, 0); ends.last().copied().unwrap_or(0)];
        for like in likes {
            for (unit, other) in like.both() {
                let at = &mut ends[unit as usize];
                friends[*at] = (other, like.votes);
                *at += 1;
            }
        }
        let count = lens.len();
        Self {
            lens,
            ends,
            friends,
            placed: lens.iter().map(|&len| len == 0).collect(),
            gains: vec![0; count],
            touched: Vec::new(),
            queue: BinaryHeap::new(),
        }
    }

    /// The unit that is most like what is in the block.
    fn best(&mut self) -> Option<UnitId> {
        while let Some((gain, Reverse(unit))) = self.queue.pop() {
            // What has got more votes since is in the queue again.
            if !self.placed[unit as usize] && self.gains[unit as usize] == gain {
                return Some(unit);
            }
        }
        None
    }

    /// The first one that has no place; none is before `next`.
    fn first(&self, next: &mut usize) -> Option<UnitId> {
        *next += self.placed.get(*next..)?.iter().take_while(|&&placed| placed).count();
        (*next < self.placed.len()).then_some(*next as UnitId)
    }

    fn vote(&mut self, unit: UnitId, gain: u64) {
        if !self.placed[unit as usize] {
            let own = &mut self.gains[unit as usize];
            *own = own.saturating_add(gain);
            self.touched.push(unit);
            self.queue.push((*own, Reverse(unit)));
        }
    }

    fn place(&mut self, unit: UnitId) {
        self.placed[unit as usize] = true;
        let end = self.ends[unit as usize];
        let start = if unit == 0 { 0 } else { self.ends[unit as usize - 1] };
        for at in start..end {
            let (other, votes) = self.friends[at];
            let kib = u64::from(self.lens[other as usize] >> 10).max(KIB_MIN);
            self.vote(other, u64::from(votes) * PART / kib);
        }
        if (unit as usize) + 1 < self.lens.len() {
            self.vote(unit + 1, NEXT_WORTH);
        }
    }

    /// Another block begins.
    fn forget(&mut self) {
        self.queue.clear();
        for unit in self.touched.drain(..) {
            self.gains[unit as usize] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn like(unit: UnitId, earlier: UnitId) -> Like {
        Like { unit, earlier, votes: 500 }
    }

    #[test]
    fn what_is_alike_comes_together_and_the_rest_in_order() {
        let lens = [64 << 10; 12];
        let likes = [like(6, 0), like(9, 6), like(7, 1)];
        let order = grown(&lens, &likes, 1 << 20);
        assert_eq!(order[..3], [0, 6, 9]);
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..12).collect::<Vec<_>>(), "{order:?}");
        assert_eq!(grown(&lens, &[], 1 << 20), (0..12).collect::<Vec<_>>());
        assert_eq!(grown(&[5, 0, 5, 0], &[], 1), [0, 2]);
        assert_eq!(grown(&[], &[], 1), []);
    }
}
