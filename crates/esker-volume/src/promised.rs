//! What fallocate(2) promised: bytes of files for which room is kept until they are written, or not wanted any more.
//!
//! Above: `home`. Invariant: a byte is promised once, and no longer when it was written, cut off or dropped. A promise
//! lasts as long as the volume is open: nothing of it is written.

use std::collections::{BTreeMap, BTreeSet};

use esker::Ino;
use esker::limits::FILE_SIZE_MAX;
use esker::store::{Batch, Change};

use crate::ranges::Ranges;

/// What was promised of files, and is no longer.
pub(crate) type Redeemed = Vec<(Ino, (u64, u64))>;

/// All promises.
#[derive(Debug)]
pub(crate) struct Promised {
    files: BTreeMap<Ino, Ranges>,
    bytes: u64,
    /// What is written piece by piece takes more than its bytes: so many quarters of them.
    more: u64,
    /// Whether room is being made for a batch of it, and kept from all others.
    pub claimed: bool,
}

impl Promised {
    /// Nothing yet. With `parity` what is told of pieces takes several times as much.
    pub const fn new(parity: bool) -> Self {
        Self { files: BTreeMap::new(), bytes: 0, more: if parity { 3 } else { 1 }, claimed: false }
    }

    /// Bytes that are kept free for them.
    pub const fn kept(&self) -> u64 {
        self.room_for(self.bytes)
    }

    const fn room_for(&self, bytes: u64) -> u64 {
        bytes + bytes / 4 * self.more
    }

    /// The same, but for those that a batch brings.
    pub fn kept_beside(&self, batch: &Batch<'_>) -> u64 {
        if self.bytes == 0 {
            return 0;
        }
        self.room_for(self.bytes.saturating_sub(self.covered(batch)))
    }

    /// Whether a batch brings any of them.
    pub fn covers(&self, batch: &Batch<'_>) -> bool {
        self.bytes > 0 && self.covered(batch) > 0
    }

    /// Which of these bytes of a file are not promised.
    pub fn missing(&self, ino: Ino, (start, end): (u64, u64)) -> Vec<(u64, u64)> {
        let mut missing = Ranges::default();
        missing.add(start, end);
        let own = self.files.get(&ino).into_iter().flat_map(Ranges::iter);
        for (start, end) in own {
            missing.remove(start, end);
        }
        missing.iter().collect()
    }

    /// These bytes of a file too.
    pub fn add(&mut self, ino: Ino, (start, end): (u64, u64)) {
        let own = self.files.entry(ino).or_default();
        self.bytes += end.saturating_sub(start) - own.remove(start, end);
        own.add(start, end);
    }

    /// These bytes of a file no longer.
    pub fn take(&mut self, ino: Ino, (start, end): (u64, u64)) {
        let Some(own) = self.files.get_mut(&ino) else { return };
        self.bytes -= own.remove(start, end);
        if own.is_empty() {
            self.files.remove(&ino);
        }
    }

    /// Nothing of these files any longer.
    pub fn forget(&mut self, files: &BTreeSet<Ino>) {
        files.iter().for_each(|&ino| self.take(ino, (0, FILE_SIZE_MAX)));
    }

    /// How many of the bytes that a batch brings are promised.
    fn covered(&self, batch: &Batch<'_>) -> u64 {
        let of = |(ino, (start, end))| {
            self.files.get(&ino).map_or(0, |own: &Ranges| own.within(start, end))
        };
        brought(batch).map(of).sum()
    }

    /// What a batch brings is promised no longer; what of it was.
    pub fn redeem(&mut self, batch: &Batch<'_>) -> Redeemed {
        let mut redeemed = Vec::new();
        if self.bytes == 0 {
            return redeemed;
        }
        for (ino, (start, end)) in brought(batch) {
            let own = self.files.get(&ino).into_iter().flat_map(Ranges::iter);
            let within = own.map(|(from, to)| (from.max(start), to.min(end)));
            redeemed.extend(within.filter(|(from, to)| from < to).map(|range| (ino, range)));
            self.take(ino, (start, end));
        }
        redeemed
    }

    /// A batch was taken: what it takes away is promised no longer.
    pub fn passed(&mut self, batch: &Batch<'_>) {
        if self.bytes == 0 {
            return;
        }
        for change in batch.changes() {
            match *change {
                Change::Cut { ino, len } => self.take(ino, (len, FILE_SIZE_MAX)),
                Change::Punch { ino, span } => self.take(ino, (span.start(), span.end())),
                Change::Drop { ino } => self.take(ino, (0, FILE_SIZE_MAX)),
                _ => {}
            }
        }
    }
}

/// The bytes of files that a batch brings.
fn brought<'a>(batch: &'a Batch<'_>) -> impl Iterator<Item = (Ino, (u64, u64))> + 'a {
    batch.changes().filter_map(|change| match *change {
        Change::Write { ino, at, source } => {
            Some((ino, (at, at.saturating_add(source.len() as u64))))
        }
        Change::Share { ino, at, len, .. } => Some((ino, (at, at.saturating_add(len)))),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_is_promised_once() {
        let (mut promised, ino) = (Promised::new(false), Ino(7));
        promised.add(ino, (100, 200));
        promised.add(ino, (150, 300));
        assert_eq!(promised.missing(ino, (90, 400)), [(90, 100), (300, 400)]);
        promised.take(ino, (0, 120));
        promised.take(ino, (180, 190));
        assert_eq!(promised.bytes, 170);
        let mut batch = Batch::new();
        batch.push(Change::Write { ino, at: 110, source: &[1; 40] });
        assert_eq!(promised.covered(&batch), 30);
        assert!(promised.kept_beside(&batch) < promised.kept());
        assert_eq!(promised.kept_beside(&Batch::new()), promised.kept());
        let redeemed = promised.redeem(&batch);
        assert_eq!((redeemed, promised.bytes), (vec![(ino, (120, 150))], 140));
        let mut batch = Batch::new();
        batch.push(Change::Cut { ino, len: 250 });
        promised.passed(&batch);
        assert_eq!(promised.bytes, 90);
        promised.add(ino, (0, 1000));
        assert_eq!(promised.bytes, 1000);
        let mut batch = Batch::new();
        batch.push(Change::Drop { ino });
        promised.passed(&batch);
        assert!(promised.bytes == 0 && promised.files.is_empty());
    }
}
