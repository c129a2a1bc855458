//! Groups: units whose blocks share a base, so that small blocks know what large ones would.
//!
//! Above: `data`, `sharing`. Below: the order that `order` found, what `alike` found. Invariant: each unit of the order
//! is in one group, in its base or among the rest, and keeps its place among those; no base is longer than it may be.

use super::Sharing;
use super::alike::{Like, VOTE_LEN};
use super::units::UnitId;

/// Units whose blocks share a base.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Group<'a> {
    /// All of them, in their order.
    pub units: &'a [UnitId],
    /// What the base is made of.
    pub base: Vec<UnitId>,
    /// What refers to it.
    pub rest: Vec<UnitId>,
}

/// Cuts an order of units of these lengths into groups. The base has a unit from every part of its group, so
/// that it has something of everything that is in there.
pub(super) fn groups<'a>(
    order: &'a [UnitId],
    lens: &[u32],
    sharing: Sharing,
    alone: usize,
) -> Vec<Group<'a>> {
    let (mut found, mut from) = (Vec::new(), 0);
    while from < order.len() {
        let (mut end, mut len) = (from, 0);
        while end < order.len() && len < sharing.group_len as u64 {
            len += u64::from(lens[order[end] as usize]);
            end += 1;
        }
        let units = &order[from..end];
        // What fits into one block needs nothing else.
        let base_len = if len <= alone as u64 { 0 } else { sharing.base_len as u64 };
        found.push(group(units, lens, base_len.min(len / sharing.parts()), len));
        from = end;
    }
    found
}

impl Group<'_> {
    /// Whether there is a base, and something that could refer to it.
    pub const fn could_share(&self) -> bool {
        !self.base.is_empty() && !self.rest.is_empty()
    }
}

/// How many bytes of the rest of each group are in its base too, by what was found to be alike.
pub(super) fn covered(groups: &[Group<'_>], likes: &[Like], lens: &[u32]) -> Vec<u64> {
    // Which group each unit is in, and whether in its base.
    let mut sides = vec![(u32::MAX, false); lens.len()];
    for (number, group) in (0..).zip(groups) {
        group.rest.iter().for_each(|&unit| sides[unit as usize] = (number, false));
        group.base.iter().for_each(|&unit| sides[unit as usize] = (number, true));
    }
    let mut votes = vec![0; lens.len()];
    for like in likes {
        for (one, other) in like.both().map(|(one, other)| (one as usize, other as usize)) {
            if sides[one] == (sides[other].0, true) && !sides[other].1 {
                votes[other] = like.votes.max(votes[other]);
            }
        }
    }
    let bytes = |&unit: &UnitId| {
        (u64::from(votes[unit as usize]) * VOTE_LEN).min(lens[unit as usize].into())
    };
    groups.iter().map(|group| group.rest.iter().map(bytes).sum()).collect()
}

/// A group of units that have `len` bytes, `base_len` of them in the base.
fn group<'a>(units: &'a [UnitId], lens: &[u32], base_len: u64, len: u64) -> Group<'a> {
    let mut group = Group { units, base: Vec::new(), rest: Vec::new() };
    let (mut seen, mut taken) = (0, 0);
    for &unit in units {
        let own = u64::from(lens[unit as usize]);
        seen += own;
        // As much of what was seen so far as of all.
        if (2 * taken + own) * len <= 2 * seen * base_len && taken + own <= base_len {
            taken += own;
            group.base.push(unit);
        } else {
            group.rest.push(unit);
        }
    }
    group
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alone(units: &[UnitId]) -> Group<'_> {
        Group { units, base: Vec::new(), rest: units.to_vec() }
    }

    #[test]
    fn every_unit_is_in_one_group_and_bases_are_from_all_parts() {
        let lens: Vec<u32> = (0..1000).map(|unit| 1000 + unit * 7 % 300).collect();
        let order: Vec<UnitId> = (0..1000).map(|unit| unit * 7 % 1000).collect();
        let sharing = Sharing { base_len: 20_000, group_len: 160_000 };
        let found = groups(&order, &lens, sharing, 10_000);
        let mut all: Vec<_> =
            found.iter().flat_map(|group| group.base.iter().chain(&group.rest)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..1000).collect::<Vec<_>>().iter().collect::<Vec<_>>());
        for group in &found[..found.len() - 1] {
            let len = |units: &[UnitId]| units.iter().map(|&unit| lens[unit as usize]).sum::<u32>();
            assert!((15_000..=20_000).contains(&len(&group.base)), "{}", len(&group.base));
            assert!(len(&group.base) + len(&group.rest) < 162_000);
            let place = |unit: &UnitId| order.iter().position(|other| other == unit).unwrap();
            let places: Vec<_> = group.base.iter().map(place).collect();
            assert!(places.windows(2).all(|two| two[1] - two[0] < 20), "{places:?}");
        }
    }

    #[test]
    fn what_fits_into_one_block_has_no_base() {
        let sharing = Sharing { base_len: 100, group_len: 800 };
        assert_eq!(groups(&[1, 0], &[50, 60], sharing, 200), [alone(&[1, 0])]);
        assert_eq!(groups(&[], &[], sharing, 200), []);
        // A unit that is longer than a base may be is in none.
        assert_eq!(groups(&[0, 1], &[500, 200], sharing, 200), [alone(&[0, 1])]);
        // Nothing is left that could refer to what all are in.
        let all = groups(&[0, 1], &[50, 60], Sharing { base_len: 800, group_len: 800 }, 100);
        assert!(all.iter().all(|group| !group.could_share()), "{all:?}");
    }

    #[test]
    fn what_a_base_covers_is_told_by_those_of_its_own_group() {
        let like = |unit, earlier, votes| Like { unit, earlier, votes };
        let lens = [1000; 6];
        let found = [
            Group { units: &[0, 1, 2], base: vec![1], rest: vec![0, 2] },
            Group { units: &[3, 4, 5], base: vec![3], rest: vec![4, 5] },
        ];
        // Of several votes the most count, and no more than there is.
        let likes = [like(1, 0, 3), like(2, 1, 5), like(2, 0, 9), like(4, 1, 9), like(5, 3, 99)];
        assert_eq!(covered(&found, &likes, &lens), [8 * VOTE_LEN, 1000]);
        assert_eq!(covered(&[alone(&[0, 1])], &likes, &lens), [0]);
    }
}
