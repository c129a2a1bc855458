//! What is worth reading before somebody asks: the kernel's own guess is as long as the device's setting, which for
//! some is megabytes, and follows one reader.
//!
//! Above: `file`. Invariant: it never asks for a byte twice for one reader, nor for much more than was read.

use std::ops::Range;

/// Readers that are followed at a time.
const READERS: usize = 32;
/// Bytes that may be left out, and still be the same reader.
const SKIP_LEN: u64 = 64 << 10;
/// A reader takes at least one part in so many of what it passes: who takes less picks, and needs little of what comes
/// next.
const READ_SHARE: u64 = 4;
/// What the kernel reads for whoever wants a byte of it.
const PAGE_LEN: u64 = 4 << 10;
/// Bytes that are asked for at once.
const AHEAD_MIN: u64 = 64 << 10;
const AHEAD_MAX: u64 = 512 << 10;

/// Somebody who reads one thing behind the other.
#[derive(Clone, Copy, Debug, Default)]
struct Reader {
    begin: u64,
    /// Where it was read to.
    end: u64,
    /// Bytes of that which it took, in whole pages.
    read: u64,
    /// Where it was asked for to.
    asked: u64,
    /// When it read last.
    used: u64,
}

/// Those who read a device.
#[derive(Debug, Default)]
pub struct Readers {
    all: [Reader; READERS],
    clock: u64,
}

impl Readers {
    /// What to ask for, now that somebody reads `len` bytes at `at`.
    pub fn read(&mut self, at: u64, len: u64) -> Option<Range<u64>> {
        self.clock += 1;
        let (clock, end) = (self.clock, at + len);
        let follows = |reader: &&mut Reader| {
            reader.used > 0 && (reader.begin..=reader.end + SKIP_LEN).contains(&at)
        };
        if let Some(reader) = self.all.iter_mut().filter(follows).max_by_key(|one| one.end) {
            let before = reader.end;
            let taken = if end > before { pages(before, at, end) } else { len };
            reader.used = clock;
            reader.end = before.max(end);
            reader.read = (reader.read + taken).min(reader.end - reader.begin);
            reader.asked = reader.asked.max(reader.end);
            if reader.read * READ_SHARE < reader.end - reader.begin {
                (reader.begin, reader.read) = (before.min(at), pages(0, at, end));
                return None;
            }
            return reader.ahead();
        }
        let reader = self.all.iter_mut().min_by_key(|reader| reader.used)?;
        *reader = Reader { begin: at, end, read: pages(0, at, end), asked: end, used: clock };
        None
    }
}

/// Bytes of the pages that are read for what is wanted, but for those of which some was before.
fn pages(before: u64, at: u64, end: u64) -> u64 {
    let first = (at - at % PAGE_LEN).max(before.next_multiple_of(PAGE_LEN));
    end.next_multiple_of(PAGE_LEN).saturating_sub(first)
}

impl Reader {
    /// The next to ask for, when less than a quarter of what comes at once is left.
    fn ahead(&mut self) -> Option<Range<u64>> {
        let more = self.read.clamp(AHEAD_MIN, AHEAD_MAX);
        if self.asked - self.end > more / 4 {
            return None;
        }
        let from = self.asked;
        self.asked += more;
        Some(from..self.asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_reads_on_is_read_ahead_for() {
        let mut readers = Readers::default();
        let (mut asked, mut until) = (0, 0);
        for at in (0..4 << 20).step_by(4096) {
            if let Some(range) = readers.read(at, 4096) {
                assert!(range.start >= until && range.start >= at, "{range:?} at {at}");
                (asked, until) = (asked + range.end - range.start, range.end);
            }
            assert!(until <= 3 * (at + 4096) + AHEAD_MIN, "{until} at {at}");
        }
        assert!(asked >= (4 << 20) - 8192, "{asked}");
    }

    #[test]
    fn who_jumps_about_is_not() {
        let mut readers = Readers::default();
        let far = SKIP_LEN + 8192;
        assert!((0..1000).rev().all(|number| readers.read(number * far, 4096).is_none()));
    }

    #[test]
    fn who_picks_some_is_not_until_it_reads_on() {
        let mut readers = Readers::default();
        let far = 5 * 4096;
        let asked = (0..1000).filter(|number| readers.read(number * far, 4096).is_some());
        assert!(asked.count() <= 2, "until it shows that it picks");
        let on = (1000 * far..).step_by(4096).take(20);
        assert!(on.map(|at| readers.read(at, 4096)).any(|asked| asked.is_some()));
    }

    /// A file of which each block lies in another commit, and then the next.
    #[test]
    fn who_wants_little_of_every_other_page_is() {
        let mut readers = Readers::default();
        let asked = (0..256).filter(|number| readers.read(number * 8000, 70).is_some()).count();
        assert!((3..20).contains(&asked), "{asked}");
    }

    #[test]
    fn many_at_a_time_are_told_apart() {
        let mut readers = Readers::default();
        let mut asked = [0; READERS];
        for step in 0..32 {
            for (number, asked) in (0..).zip(&mut asked) {
                *asked += u64::from(readers.read((number << 30) + step * 4096, 4096).is_some());
            }
        }
        assert!(asked.iter().all(|&asked| (1..=4).contains(&asked)), "{asked:?}");
    }
}
