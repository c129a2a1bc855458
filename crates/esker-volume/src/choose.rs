//! Choosing: which segment is emptied next, where what was in it goes, and how fast. All of the policy of migration,
//! and nothing that does it.
//!
//! Above: `migrate`. Below: `segments`. Invariant: what is chosen decides how much is written, never what is safe.

use std::collections::BTreeSet;

use crate::segments::{Condition, Physical, Segment, Segments};

/// Blocks that are moved have segments of their own, by how often they were: once, or more often. What survived in the
/// log for so long that its segment was emptied is not written over soon, and what survived that again is cold. Apart
/// from each other none of them keeps the others' segments from becoming empty by themselves.
pub(crate) const GENERATIONS: usize = 2;
/// The one of these that stays longest.
pub(crate) const COLD: usize = GENERATIONS - 1;
/// Segments of which more than this is needed, in sixty-fourths, are not worth emptying.
const WORTH: u64 = 60;
/// The least and the most segments that are kept ahead of whoever writes.
const AHEAD: (usize, usize) = (4, 16);
/// Of all segments so many are kept ahead, as one part of this.
const AHEAD_SHARE: usize = 128;
/// Volumes of fewer segments make room only when they must: what is kept ahead, and open, would be too much of them.
const SEGMENTS_MIN: usize = 64;
/// What pressure is one at which a byte of room is made for each that is written.
pub(crate) const EVEN: u64 = 64;
/// Erases that a segment is behind the mean when it is emptied for that alone, at least, and as a share of the mean.
const BEHIND: (u64, u64) = (8, 8);
/// What is moved for that alone, as one part of what is written besides.
pub(crate) const LEVELLING: u64 = 16;

/// How much room there is ahead of whoever writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    /// Free segments that are not kept back for anything.
    pub free: usize,
    /// Segments that nobody needs, and that become free by saying so.
    pub idle: usize,
    /// How many are wanted.
    wanted: usize,
}

impl Ahead {
    /// Of a volume with so many stretches.
    pub fn new(count: usize, free: usize, idle: usize) -> Self {
        Self { free, idle, wanted: (count / AHEAD_SHARE).clamp(AHEAD.0, AHEAD.1) }
    }

    /// Whether a volume with so many stretches moves anything before it must.
    pub const fn is_worth_it(count: usize) -> bool {
        count >= SEGMENTS_MIN
    }

    /// How much room is to be made for what is written, in units of [`EVEN`]: none as long as there is plenty, as much
    /// as is written where there is what is wanted, and twice that where there is none. So it is paid for while it is
    /// used up, and nobody waits for all of it at once.
    pub const fn pressure(self) -> u64 {
        let even = (self.wanted + self.some() + 1) as u64;
        let there = (self.free + self.idle) as u64;
        (2 * even).saturating_sub(there) * EVEN / even
    }

    const fn some(self) -> usize {
        self.wanted.div_ceil(2)
    }

    /// Whether it is time to give back what nobody needs: a few at a time, since that takes a root.
    pub const fn is_low(self) -> bool {
        let enough = if self.free < self.some() { 1 } else { self.some() };
        self.free < self.wanted && self.idle >= enough
    }
}

/// A segment that is to be emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Victim {
    pub segment: Segment,
    /// Where what is in it goes: an index below [`GENERATIONS`].
    pub to: usize,
}

/// How much is gained by emptying a segment, for what it takes, and how likely it is that what is in it stays: what is
/// about to die by itself need not be moved first. The age is how many segments were begun since.
fn worth(row: &Segment, room: u64, next: u64) -> u128 {
    let (dead, age) = (room.saturating_sub(row.live), next.saturating_sub(row.number));
    u128::from(dead) * u128::from(age) * (1 << 16) / u128::from(room + row.live)
}

/// Segments that may be emptied: all with blocks, but those that are held, or were emptied as far as they can be.
fn sealed<'a>(
    segments: &'a Segments,
    held: &'a BTreeSet<Physical>,
    done: &'a BTreeSet<u64>,
) -> impl Iterator<Item = &'a Segment> {
    segments.rows().iter().filter(|row| {
        matches!(row.condition, Condition::Log | Condition::Moved)
            && row.live > 0
            && !held.contains(&row.physical)
            && !done.contains(&row.number)
    })
}

/// The segment to empty next for the room in it; `room` is what blocks fill of one.
pub(crate) fn victim(
    segments: &Segments,
    room: u64,
    (held, done): (&BTreeSet<Physical>, &BTreeSet<u64>),
) -> Option<Victim> {
    let few = sealed(segments, held, done).filter(|row| row.live < room / 64 * WORTH);
    let next = segments.next_number();
    let segment = *few.max_by_key(|row| (worth(row, room, next), row.number))?;
    Some(Victim { segment, to: usize::from(segment.condition == Condition::Moved) })
}

/// The segment to empty next so that others do not wear in its place, if one is so far behind them.
pub(crate) fn levelled(
    segments: &Segments,
    (held, done): (&BTreeSet<Physical>, &BTreeSet<u64>),
) -> Option<Victim> {
    let segment = *behind(segments, sealed(segments, held, done))?;
    // What lies where little was ever written again is cold, wherever it came from.
    Some(Victim { segment, to: COLD })
}

/// The one of these that was begun least often, if that is far less often than others in the mean, and was not lately:
/// what came to such a stretch since may be written over soon, and then the next ones come to it by themselves.
pub(crate) fn behind<'a>(
    segments: &Segments,
    rows: impl Iterator<Item = &'a Segment>,
) -> Option<&'a Segment> {
    let wears = |row: &&Segment| !matches!(row.condition, Condition::Home | Condition::Bad);
    let all = segments.rows().iter().filter(wears);
    let (sum, count) = all.fold((0, 0), |(sum, count), row| (sum + row.erases, count + 1));
    let mean: u64 = sum / u64::max(count, 1);
    let enough = u64::max(BEHIND.0, mean / BEHIND.1);
    // As long as the others take to be begun so many times.
    let long = BEHIND.0 * count;
    let is_old = |row: &&Segment| segments.next_number().saturating_sub(row.number) >= long;
    let least = rows.filter(is_old).min_by_key(|row| row.erases)?;
    (least.erases + enough < mean).then_some(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: u64 = 1 << 20;

    fn full(count: u32) -> Segments {
        let mut segments = Segments::new(count, 2);
        for physical in 2..count {
            segments.begin(Physical(physical), u64::from(physical), Condition::Log);
            segments.set_live(physical.into(), ROOM / 4 * 3).unwrap();
        }
        segments
    }

    fn chosen(segments: &Segments) -> Option<(u64, usize)> {
        let none = (&BTreeSet::new(), &BTreeSet::new());
        victim(segments, ROOM, none).map(|found| (found.segment.number, found.to))
    }

    #[test]
    fn the_emptiest_and_the_oldest_go_first() {
        let mut segments = full(64);
        assert_eq!(chosen(&segments), Some((2, 0)), "the oldest of what is alike");
        segments.set_live(40, ROOM / 16).unwrap();
        assert_eq!(chosen(&segments), Some((40, 0)), "the emptiest");
        segments.set_live(40, 0).unwrap();
        assert_eq!(chosen(&segments), Some((2, 0)), "what is empty need not be emptied");
        segments.begin(Physical(2), 70, Condition::Moved);
        segments.set_live(70, 1).unwrap();
        segments.skip_numbers(1 << 20);
        assert_eq!(chosen(&segments), Some((70, 1)), "what was moved before is cold");
        (3..64).for_each(|number| segments.set_live(number, ROOM).unwrap());
        segments.set_live(70, ROOM).unwrap();
        assert_eq!(chosen(&segments), None, "nothing is gained");
    }

    /// What is moved to level wear.
    fn moved(segments: &Segments) -> Option<(u64, usize)> {
        let none = (&BTreeSet::new(), &BTreeSet::new());
        levelled(segments, none).map(|found| (found.segment.number, found.to))
    }

    #[test]
    fn what_never_moves_moves_when_others_wear_in_its_place() {
        let mut segments = full(64);
        segments.set_live(9, ROOM).unwrap();
        let mut number = 100;
        while moved(&segments) != Some((9, COLD)) {
            for physical in (2..64).filter(|&physical| physical != 9) {
                number += 1;
                segments.begin(Physical(physical), number, Condition::Log);
                segments.set_live(number, ROOM / 2).unwrap();
            }
            assert!(number < 100 + 62 * 12, "it is left alone for ever");
        }
        assert!(number > 100 + 62 * 6, "it moves all the time");
        assert!(chosen(&segments).is_some_and(|(number, _)| number != 9), "room comes first");
        // Once it was, what comes there next is as likely to be written over as anything else.
        segments.begin(Physical(9), number + 1, Condition::Log);
        segments.set_live(number + 1, ROOM).unwrap();
        assert_eq!(moved(&segments), None, "what was just written is moved");
    }

    #[test]
    fn room_is_made_in_proportion() {
        let of = |free, idle| Ahead::new(256, free, idle);
        assert_eq!(of(100, 0).pressure(), 0);
        assert_eq!(of(7, 0).pressure(), EVEN);
        assert_eq!(of(3, 4).pressure(), EVEN, "what is idle counts");
        assert_eq!(of(0, 0).pressure(), 2 * EVEN);
        assert!(of(3, 2).is_low() && of(1, 1).is_low());
        assert!(!of(3, 1).is_low() && !of(4, 9).is_low() && !of(0, 0).is_low());
    }
}
