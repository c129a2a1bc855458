//! Units: the bytes of the spool in stretches that go into a block as one.
//!
//! Above: `data`, `contents`. Below: `category`, `alike`. Invariant: units follow each other without a gap, and none is
//! longer than it may be; files that are too short for a unit of their own share one.

use super::alike::{Like, Likeness};
use super::category::Category;

/// Plain bytes of a unit, at most.
const UNIT_LEN: usize = 64 * 1024;
/// A file's end ends the unit, if it has so many.
const UNIT_LEN_MIN: usize = 2 * 1024;

/// A unit of the spool: it lies between its address and that of the next one.
pub(super) type UnitId = u32;

/// Units, as their bytes come in.
pub(super) struct Units {
    /// Where each begins.
    starts: Vec<u64>,
    /// What each that has ended is.
    categories: Vec<Category>,
    /// Where each begins in a word of its file.
    phases: Vec<u8>,
    /// Bytes of those that were not let go of, up to the end of the one at hand.
    held: Vec<u8>,
    /// Bytes of the one at hand.
    open: usize,
    /// What its file says that it is.
    said: Option<Category>,
    unit_len: usize,
    /// Text is told from other bytes.
    words: bool,
    end: u64,
    likeness: Option<Likeness>,
}

impl Units {
    /// Units of at most `unit_len`; what they have in common is looked for if `alike` says so, and text is told from
    /// other bytes if `words` does.
    pub fn new(unit_len: usize, alike: bool, words: bool) -> Self {
        Self {
            starts: Vec::new(),
            categories: Vec::new(),
            phases: Vec::new(),
            held: Vec::new(),
            open: 0,
            said: None,
            unit_len: unit_len.min(UNIT_LEN),
            words,
            end: 0,
            likeness: alike.then(Likeness::new),
        }
    }

    /// How many there are that have ended.
    pub const fn count(&self) -> usize {
        self.categories.len()
    }

    /// Where a unit lies: its address and its end.
    pub fn range(&self, unit: UnitId) -> (u64, u64) {
        let at = |unit: usize| self.starts.get(unit).copied().unwrap_or(self.end);
        (at(unit as usize), at(unit as usize + 1))
    }

    /// What a unit is that has ended.
    pub fn category(&self, unit: UnitId) -> Category {
        self.categories[unit as usize]
    }

    /// Where in a block of so many bytes a unit goes that has ended.
    pub fn place(&self, unit: UnitId, filled: usize) -> usize {
        let category = self.category(unit);
        let (at, word) = (filled.next_multiple_of(category.alignment()), category.word());
        at + (usize::from(self.phases[unit as usize]) + word - at % word) % word
    }

    /// The unit that an address lies in.
    pub fn holding(&self, address: u64) -> UnitId {
        self.starts.partition_point(|&start| start <= address).saturating_sub(1) as UnitId
    }

    /// Bytes of memory that it takes, in about.
    pub fn memory(&self) -> u64 {
        let likeness = self.likeness.as_ref().map_or(0, Likeness::memory);
        likeness + self.starts.capacity() as u64 * 10
    }

    /// More bytes of the spool, from a file that may say what they are; `at` is where they are in what it says that of.
    pub fn push(&mut self, mut bytes: &[u8], said: Option<Category>, mut at: u64) {
        let word = said.map_or(1, Category::word) as u64;
        let open = self.phases.last().map_or(0, |&phase| u64::from(phase)) + self.open as u64;
        if self.said != said || open % word != at % word {
            self.close();
            self.said = said;
        }
        let unit_len = said.map_or(self.unit_len, |said| {
            (self.unit_len / said.alignment()).max(1) * said.alignment()
        });
        while !bytes.is_empty() {
            if self.open == 0 {
                self.starts.push(self.end);
                self.phases.push((at % word) as u8);
            }
            let (now, rest) = bytes.split_at(bytes.len().min(unit_len - self.open));
            self.held.extend_from_slice(now);
            self.open += now.len();
            self.end += now.len() as u64;
            at += now.len() as u64;
            bytes = rest;
            if self.open == unit_len {
                self.close();
            }
        }
    }

    /// Bytes of the spool that are one unit, however long they are.
    pub fn push_whole(&mut self, bytes: &[u8], said: Category) {
        self.close();
        self.said = Some(said);
        self.starts.push(self.end);
        self.phases.push(0);
        self.end += bytes.len() as u64;
        self.held.extend_from_slice(bytes);
        self.categories.push(said);
    }

    /// The bytes of a unit that has ended and was not let go of.
    pub fn bytes(&self, unit: UnitId) -> &[u8] {
        let first = self.end - self.held.len() as u64;
        let (start, end) = self.range(unit);
        // Lengths in memory.
        &self.held[(start - first) as usize..(end - first) as usize]
    }

    /// Nobody wants the bytes of units before this one.
    pub fn let_go(&mut self, before: UnitId) {
        let (start, _) = self.range(before);
        let kept = (self.end - start) as usize;
        self.held.drain(..self.held.len() - kept);
    }

    /// A file ends here.
    pub fn end_file(&mut self) {
        let own = self.said.is_some_and(|said| said != Category::Text);
        if own || self.open >= UNIT_LEN_MIN.min(self.unit_len) {
            self.close();
        }
    }

    /// Ends the unit at hand, if there is one.
    pub fn close(&mut self) {
        if self.open == 0 {
            return;
        }
        let own = self.count() as UnitId;
        let bytes = &self.held[self.held.len() - self.open..];
        let category = match self.said {
            None => Category::of(bytes),
            Some(Category::Text | Category::Code(_)) if Category::of(bytes) == Category::Packed => {
                Category::Packed
            }
            Some(said) => said,
        };
        let category = if self.words { category.in_words(bytes) } else { category };
        if let Some(likeness) = self.likeness.as_mut().filter(|_| category.is_drawn()) {
            likeness.look(own, bytes);
        }
        self.categories.push(category);
        self.open = 0;
    }

    /// What was found to be alike. Nothing is looked for any more.
    pub fn likes(&mut self) -> Vec<Like> {
        self.likeness.take().map_or_else(Vec::new, Likeness::found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::program::Machine;

    #[test]
    fn units_are_cut_at_their_length_and_at_ends_of_files() {
        let mut units = Units::new(10_000, false, false);
        units.push(&[1; 25_000], None, 0);
        units.end_file();
        units.push(&[2; 10], None, 0);
        units.end_file();
        units.push(&[3; 3000], None, 0);
        units.end_file();
        units.close();
        let ranges: Vec<_> = (0..units.count() as UnitId).map(|unit| units.range(unit)).collect();
        assert_eq!((units.holding(9_999), units.holding(10_000)), (0, 1));
        assert_eq!(ranges, [(0, 10_000), (10_000, 20_000), (20_000, 25_000), (25_000, 28_010)]);
    }
    #[test]
    fn code_lies_in_blocks_as_it_does_in_its_file() {
        let said = Some(Category::Code(Machine::Arm64));
        let mut units = Units::new(10_000, false, false);
        // Two stretches that fit each other, and one that does not.
        units.push(&[1; 5], said, 3);
        units.push(&[2; 6], said, 8);
        units.push(&[3; 25_000], said, 101);
        units.close();
        let ranges: Vec<_> = (0..units.count() as UnitId).map(|unit| units.range(unit)).collect();
        assert_eq!(ranges, [(0, 11), (11, 10_011), (10_011, 20_011), (20_011, 25_011)]);
        let places = |filled| [0, 1, 2, 3].map(|unit| units.place(unit, filled));
        assert_eq!(places(0), [3, 1, 1, 1]);
        assert_eq!(places(6), [7, 9, 9, 9]);
    }
}
