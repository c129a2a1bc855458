//! Segments: which stretch of the device is which segment now, and how much of it somebody needs.
//!
//! Above: `log`, `settle`, `recovery`. Invariant: a number names at most one stretch; only free stretches are taken.

use std::collections::HashMap;

use esker_stone::key::kind;
use esker_stone::rows::numbers::NumberRow;

use crate::error::{Damage, Result};
use crate::limits::{NUMBER_MAX, SPARE};
use crate::tally::{Tally, is_free};

/// A stretch of the device, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Physical(pub u32);

/// What a stretch is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// For nothing.
    Free,
    /// Parts of commits.
    Log,
    /// Tables and roots.
    Tables,
    /// It failed, and is left alone.
    Bad,
    /// Superblocks.
    Home,
    /// Named as the one where the log goes on.
    Next,
    /// Blocks that were moved.
    Moved,
}

impl Condition {
    const ALL: [Self; 7] =
        [Self::Free, Self::Log, Self::Tables, Self::Bad, Self::Home, Self::Next, Self::Moved];
}

/// A stretch and what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Where it is.
    pub physical: Physical,
    /// Its number in this life; 0: none.
    pub number: u64,
    /// Bytes that somebody needs.
    pub live: u64,
    /// What it is used for.
    pub condition: Condition,
    /// How often it was begun again.
    pub erases: u64,
}

impl NumberRow<5> for Segment {
    const KIND: u8 = kind::SEGMENT;
    const KEYS: usize = 1;

    fn numbers(&self) -> [u64; 5] {
        let condition = self.condition as u64;
        [self.physical.0.into(), self.number, self.live, condition, self.erases]
    }

    fn from_numbers(
        [physical, number, live, condition, erases]: [u64; 5],
    ) -> esker_stone::Result<Self> {
        let range = esker_stone::Damage::Range;
        let physical = Physical(u32::try_from(physical).map_err(|_| range)?);
        let condition = usize::try_from(condition).ok().and_then(|at| Condition::ALL.get(at));
        Ok(Self { physical, number, live, condition: *condition.ok_or(range)?, erases })
    }
}

/// All stretches of a volume.
#[derive(Clone, Debug, Default)]
pub struct Segments {
    rows: Vec<Segment>,
    by_number: HashMap<u64, Physical>,
    /// Where to look for the next free one: they take turns, so that all wear alike.
    turn: usize,
    next_number: u64,
    /// Those before this one are not taken any more.
    barred: u32,
    tally: Tally,
}

impl Segments {
    /// Of a new volume: the first `homes` of `count` hold superblocks.
    #[must_use]
    pub fn new(count: u32, homes: u32) -> Self {
        let row = |number| Segment {
            physical: Physical(number),
            number: 0,
            live: 0,
            condition: if number < homes { Condition::Home } else { Condition::Free },
            erases: 0,
        };
        let rows: Vec<_> = (0..count).map(row).collect();
        Self { tally: Tally::of(&rows, 0), rows, next_number: 1, ..Self::default() }
    }

    /// From their rows, which must be all of them.
    ///
    /// # Errors
    /// `Segment`.
    pub fn from_rows(rows: Vec<Segment>, count: u32, next_number: u64) -> Result<Self> {
        let mut by_number = HashMap::new();
        let complete = rows.len() == count as usize
            && (0..).zip(&rows).all(|(number, row)| row.physical == Physical(number));
        for row in &rows {
            let again = row.number != 0 && by_number.insert(row.number, row.physical).is_some();
            if again || row.number >= next_number {
                return Err(Damage::Segment.into());
            }
        }
        if !complete || next_number > NUMBER_MAX {
            return Err(Damage::Segment.into());
        }
        let tally = Tally::of(&rows, 0);
        Ok(Self { rows, by_number, next_number, tally, ..Self::default() })
    }

    /// Of a volume that is only read: segments that were found, and nothing else is known of any stretch.
    #[must_use]
    pub(crate) fn found(by_number: HashMap<u64, Physical>) -> Self {
        Self { by_number, ..Self::default() }
    }

    /// Adds free stretches until there are so many.
    pub(crate) fn grow(&mut self, count: u32) {
        let more = Self::new(count, 0).rows.split_off(self.rows.len().min(count as usize));
        self.rows.extend(more);
        self.count();
    }

    /// Takes those away again that came behind so many. Nobody has taken one of them.
    pub(crate) fn shrink(&mut self, count: u32) {
        self.rows.truncate(count as usize);
        self.count();
    }

    fn count(&mut self) {
        self.tally = Tally::of(&self.rows, self.barred);
    }

    /// Alters one.
    fn change(&mut self, physical: Physical, change: impl FnOnce(&mut Segment)) {
        let Some(row) = self.rows.get_mut(physical.0 as usize) else { return };
        self.tally.take(row, self.barred);
        change(row);
        self.tally.add(row, self.barred);
    }

    /// All of them, in their order.
    #[must_use]
    pub fn rows(&self) -> &[Segment] {
        &self.rows
    }

    /// Where the segment of this number lies.
    #[must_use]
    pub fn find(&self, number: u64) -> Option<Physical> {
        self.by_number.get(&number).copied()
    }

    /// What is known of a stretch.
    #[must_use]
    pub fn get(&self, physical: Physical) -> Option<&Segment> {
        self.rows.get(physical.0 as usize)
    }

    /// No segment has this number or one above it.
    #[must_use]
    pub const fn next_number(&self) -> u64 {
        self.next_number
    }

    /// Numbers below this are not given out any more.
    pub fn skip_numbers(&mut self, to: u64) {
        self.next_number = self.next_number.max(to);
    }

    /// How many are free.
    #[must_use]
    pub const fn free(&self) -> usize {
        self.tally.free
    }

    /// Those of which nobody needs anything, and that are not free yet, in their order.
    pub(crate) fn idle(&self) -> impl Iterator<Item = Physical> {
        self.tally.idle.iter().copied()
    }

    /// Bytes that can be used, where `room` is filled in each and so many of them are kept back; and of these what
    /// somebody needs.
    pub(crate) fn usage(&self, room: u64, kept: usize) -> (u64, u64) {
        let total = self.tally.usable.saturating_sub(kept + SPARE) as u64 * room;
        (total, u64::try_from(self.tally.live).map_or(total, |live| live.min(total)))
    }

    /// Takes a free stretch for what will soon be written over: of those that were begun least often the next in turn.
    pub fn take(&mut self, condition: Condition) -> Option<Physical> {
        let least = self.free_rows().map(|row| row.erases).min()?;
        self.take_worn(condition, least)
    }

    /// Takes one for what others wear in the place of: of those that were begun most often, which rest under it.
    pub fn take_to_keep(&mut self, condition: Condition) -> Option<Physical> {
        let most = self.free_rows().map(|row| row.erases).max()?;
        self.take_worn(condition, most)
    }

    fn take_worn(&mut self, condition: Condition, erases: u64) -> Option<Physical> {
        let count = self.rows.len();
        let mut order = (0..count).map(|step| (self.turn + step) % count);
        let is_one = |row: &Segment| is_free(row, self.barred) && row.erases == erases;
        let found = order.find(|&at| is_one(&self.rows[at]))?;
        self.turn = found + 1;
        let physical = Physical(found as u32);
        self.change(physical, |row| row.condition = condition);
        Some(physical)
    }

    /// What was taken is free again, unless it failed.
    pub(crate) fn give_back(&mut self, physical: Physical) {
        if self.get(physical).is_some_and(|row| row.condition != Condition::Bad) {
            self.set(physical, Condition::Free);
        }
    }

    fn free_rows(&self) -> impl Iterator<Item = &Segment> {
        self.rows.iter().filter(|row| is_free(row, self.barred))
    }

    /// Gives a stretch a number and a use.
    pub fn begin(&mut self, physical: Physical, number: u64, condition: Condition) {
        let Some(&Segment { number: before, .. }) = self.get(physical) else { return };
        self.by_number.remove(&before);
        self.change(physical, |row| {
            *row = Segment { number, condition, live: 0, erases: row.erases + 1, ..*row };
        });
        self.by_number.insert(number, physical);
        self.next_number = self.next_number.max(number + 1);
    }

    /// Stretches before this one are to hold superblocks: when they are free they stay so.
    pub(crate) fn bar(&mut self, before: Physical) {
        self.barred = before.0;
        self.count();
    }

    /// Says what a stretch is used for.
    pub fn set(&mut self, physical: Physical, condition: Condition) {
        let Some(&Segment { number, .. }) = self.get(physical) else { return };
        let ends = matches!(condition, Condition::Free | Condition::Next | Condition::Bad);
        if ends {
            self.by_number.remove(&number);
        }
        self.change(physical, |row| {
            row.condition = condition;
            if ends {
                (row.number, row.live) = (0, 0);
            }
        });
    }

    /// Says how much of a segment is needed.
    ///
    /// # Errors
    /// `Segment` when there is no such segment.
    pub fn set_live(&mut self, number: u64, live: u64) -> Result<()> {
        let physical = self.find(number).ok_or(Damage::Segment)?;
        self.change(physical, |row| row.live = live);
        Ok(())
    }

    /// So much more of a segment is needed, or less.
    ///
    /// # Errors
    /// `Segment` when there is no such segment, or not as much is needed of it.
    pub(crate) fn change_live(&mut self, number: u64, more: i64) -> Result<()> {
        let live = self.live(number).checked_add_signed(more).ok_or(Damage::Segment)?;
        self.set_live(number, live)
    }

    /// How much of a segment is needed; 0 of one that is not known.
    #[must_use]
    pub fn live(&self, number: u64) -> u64 {
        self.find(number).and_then(|physical| self.get(physical)).map_or(0, |row| row.live)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_is_what_is_there() {
        let mut segments = Segments::new(40, 2);
        let mut random = 1_u64;
        let mut below = |most: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) % most
        };
        for number in 1..2000 {
            let physical = Physical(below(44) as u32);
            match below(8) {
                0 | 1 => segments.begin(physical, number, Condition::Log),
                2 => segments.set(physical, Condition::ALL[below(7) as usize]),
                3 => drop(segments.take(Condition::Tables)),
                4 => segments.give_back(physical),
                5 => segments.bar(Physical(below(6) as u32)),
                6 if number % 64 == 0 => segments.grow(41),
                7 if number % 64 == 0 => segments.shrink(40),
                _ => drop(segments.set_live(number - below(9).min(number), below(3) * 1000)),
            }
            assert_eq!(segments.tally, Tally::of(&segments.rows, segments.barred));
        }
        let (total, used) = segments.usage(1000, 1);
        assert!(used > 0 && used <= total, "{used} of {total}");
    }

    #[test]
    fn what_stays_lies_where_most_was_erased() {
        let mut segments = Segments::new(12, 2);
        for (number, physical) in [(1, 4), (2, 4), (3, 7)] {
            segments.begin(Physical(physical), number, Condition::Log);
        }
        segments.set(Physical(4), Condition::Free);
        segments.set(Physical(7), Condition::Free);
        assert_eq!(segments.take_to_keep(Condition::Moved), Some(Physical(4)), "erased twice");
        assert_eq!(segments.take_to_keep(Condition::Moved), Some(Physical(7)), "erased once");
        assert_eq!(segments.take(Condition::Next), Some(Physical(8)), "never, and the next");
        segments.give_back(Physical(7));
        assert_eq!(segments.take_to_keep(Condition::Moved), Some(Physical(7)), "given back");
        segments.set(Physical(7), Condition::Bad);
        segments.give_back(Physical(7));
        assert_eq!(segments.get(Physical(7)).unwrap().condition, Condition::Bad, "it failed");
    }
}
