//! The end of the log: where the next part goes, and what happens when a segment ends or fails.
//!
//! Above: `commit`. Below: the device. Invariant: the log only ever goes on where the part before says that it may:
//! right behind it, or in one of the two segments that it names; and after a failure in one that the last safe part
//! names, as does every part behind that one. So recovery finds every commit that was answered.

use std::collections::BTreeSet;

use crate::device::{Buffer, Device, Fault, Stream};
use crate::error::{Damage, Error, Result};
use crate::limits::{BEHIND_LEN, NEXT, UNIT_MAX};
use crate::migrate::Moving;
use crate::part::{LAST, LOG, MAGIC, PartHead};
use crate::segments::{Condition, Physical, Segment, Segments};
use crate::superblock::{PAGES, Superblock};
use crate::volume::Volume;

/// The last part that is safe, and the end of the log behind it.
#[derive(Clone, Debug)]
pub(crate) struct Good {
    /// Its name.
    pub name: u64,
    /// The segments that it names and that the log has not tried since.
    pub next: Vec<Physical>,
    /// All that it names.
    named: [Physical; NEXT],
    /// Where the part behind it would go: the stretch, its segment, the offset, the slot of the first block.
    place: (Physical, u64, u64, u32),
}

impl Good {
    /// The part of this name, with the end of the log right behind it.
    pub fn new(name: u64, named: [Physical; NEXT], place: (Physical, u64, u64, u32)) -> Self {
        Self { name, next: named.to_vec(), named, place }
    }
}

/// A round of settling: it lays what came before it began into the tables, a few of them at a time.
#[derive(Clone, Debug)]
pub(crate) struct Round {
    /// The log as it was when the round began: from there on it is needed when the round is over.
    pub begin: Superblock,
    /// How many of the segments of the log are not needed any more then.
    pub since: usize,
    /// Tables with keys before this one are done.
    pub cursor: Vec<u8>,
}

/// The end of the log.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    pub physical: Physical,
    pub segment: u64,
    /// Where the next part goes.
    pub at: u64,
    /// The slot of the next block.
    pub slot: u32,
    /// The name of the part before.
    pub before: u64,
    /// Where the log goes on when this segment ends.
    pub next: [Physical; NEXT],
    pub good: Good,
    /// The number of the last whole commit.
    pub sequence: u64,
    /// The number of the last commit that is safe: what heads tell. It is behind `sequence` only while a superblock
    /// with a number of its own is on its way: it may never come, and what was written for it stays.
    pub safe: u64,
    /// The number of the last commit that was begun.
    pub tried: u64,
    pub epoch: u64,
    /// The superblock that counts.
    pub superblock: Superblock,
    /// Where it lies: which of the segments of each pair, and which step there.
    pub home: (u32, u64),
    /// Which of the segments of each pair has the one that counts.
    pub safe_home: u32,
    /// Whether the log has left a stretch since that was written of which one damage may take every head.
    pub hidden: bool,
    /// Segments that the log since the superblock lies in, the open one last.
    pub since: Vec<Physical>,
    /// The round of settling that is under way.
    pub round: Option<Round>,
    /// Segments that the superblock does not need, but perhaps the one before it.
    pub idle: Vec<Physical>,
    /// Stretches that became free and were not given back below since.
    pub unneeded: BTreeSet<Physical>,
    /// Where tables go: the segment, and the offset in it.
    pub tables: Option<(Physical, u64)>,
    /// Blocks that are on their way to other segments.
    pub moving: Moving,
    /// Whether nothing was written yet since opening.
    pub fresh: bool,
    /// Whether the superblock that counts says that nothing lies behind the end of the log.
    pub closed: bool,
}

impl Log {
    /// A head for a part of this commit that goes here.
    pub fn head(&self, uuid: [u8; 16], time: i64) -> PartHead {
        PartHead {
            magic: MAGIC,
            checksum: 0,
            uuid,
            segment: self.segment,
            at: self.at,
            len: 0,
            kind: LOG,
            flags: 0,
            sequence: self.tried,
            epoch: self.epoch,
            before: self.before,
            durable: self.safe,
            next: self.next[0].0,
            spare: self.next[1].0,
            body_checksum: 0,
            part: 0,
            first_slot: self.slot,
            slots: 0,
            rows_at: 0,
            rows_stored: 0,
            rows_plain: 0,
            rows_codec: 0,
            reserved: 0,
            rows_checksum: 0,
            time,
            rows_hash: [0; 32],
        }
    }
}

/// Marks the last part of a commit.
pub(crate) const fn flags(last: bool) -> u32 {
    if last { LAST } else { 0 }
}

impl<D: Device> Volume<D> {
    /// How much still fits into the open segment.
    pub(crate) const fn rest(&self, log: &Log) -> u64 {
        self.shape.segment_room - log.at
    }

    /// Bytes of a part with its padding.
    pub(crate) fn padded(&self, len: usize) -> u64 {
        (len as u64).next_multiple_of(self.shape.unit.into())
    }

    /// A barrier: what was written is safe.
    pub(crate) fn barrier(&self, log: &mut Log) -> Result<()> {
        self.device.flush()?;
        log.moving.barrier();
        let place = (log.physical, log.segment, log.at, log.slot);
        log.good = Good::new(log.before, log.next, place);
        Ok(())
    }

    /// What was written since the last barrier is as if it had never been: the log goes on where it was then. Not for
    /// zones, where nothing can be written again.
    pub(crate) fn rewind(&self, log: &mut Log) {
        let mut segments = self.segments_mut();
        let kept = log.since.iter().rposition(|&one| one == log.good.place.0);
        for begun in log.since.split_off(kept.map_or(log.since.len(), |at| at + 1)) {
            segments.give_back(begun);
        }
        for one in log.next.into_iter().filter(|one| !log.good.named.contains(one)) {
            segments.set(one, Condition::Free);
        }
        log.next = log.good.named;
        log.next.iter().for_each(|&one| segments.set(one, Condition::Next));
        log.good.next = log.next.to_vec();
        log.before = log.good.name;
        (log.physical, log.segment, log.at, log.slot) = log.good.place;
    }

    /// Begins a stretch again. A zone must be, others are simply written over: nothing there is needed. One that cannot
    /// be is never taken again: else it would be the next time too, being the one that was begun least often.
    pub(crate) fn begin(&self, physical: Physical, condition: Condition) -> Result<u64> {
        if self.device.geometry().zones.is_some() {
            let begun = self.device.discard(self.place(physical), self.shape.segment_len);
            if let Err(error) = begun.map_err(Error::from) {
                if may_relocate(&error) {
                    self.segments_mut().set(physical, Condition::Bad);
                }
                return Err(error);
            }
        }
        let mut segments = self.segments_mut();
        let number = segments.next_number();
        segments.begin(physical, number, condition);
        Ok(number)
    }

    /// A stretch is written no further in this life.
    pub(crate) fn leave(&self, physical: Physical) {
        // A zone that cannot be finished failed, and is not active either. If it is, some write will say so.
        let _ = self.device.finish(self.place(physical));
    }

    /// Stretches that an earlier mount was writing, but for the end of the log and the superblock.
    pub(crate) fn leave_others(&self, log: &Log) -> Result<()> {
        let homes = (0..self.shape.copies).map(|copy| Physical(2 * copy + log.safe_home));
        let kept: Vec<_> = homes.chain([log.physical]).map(|one| self.place(one)).collect();
        for at in self.device.active()?.into_iter().filter(|at| !kept.contains(at)) {
            self.leave(Physical((at / self.shape.segment_len) as u32));
        }
        Ok(())
    }

    /// Goes on in the next segment. What was written need not be safe: should it fail, the log goes on in the spare
    /// segment, which the last safe part and every one since has named.
    pub(crate) fn advance(&self, log: &mut Log, reserve: usize) -> Result<()> {
        let [next, spare] = log.next;
        // Where a safe part named both they take turns: one that is only ever the spare never wears.
        let safe = log.next.iter().all(|one| log.good.next.contains(one));
        let (to, other) = if safe { (spare, next) } else { (next, spare) };
        self.go_on(log, (to, Some(other)), reserve)
    }

    /// Goes on in `to`, one of the segments that were named; `other` was, too.
    pub(crate) fn go_on(
        &self,
        log: &mut Log,
        (to, other): (Physical, Option<Physical>),
        reserve: usize,
    ) -> Result<()> {
        let spare = log.good.next.iter().copied().find(|&one| one != to);
        let other = other.filter(|&one| Some(one) != spare);
        let (next, taken) = self.named_from([other, spare], reserve)?;
        let number = match self.begin(to, Condition::Log) {
            Ok(number) => number,
            Err(error) => {
                let mut segments = self.segments_mut();
                taken.iter().for_each(|&one| segments.give_back(one));
                if segments.get(to).is_some_and(|row| row.condition == Condition::Bad) {
                    log.good.next.retain(|&one| one != to);
                }
                return Err(error);
            }
        };
        log.good.next.retain(|&one| one != to);
        log.since.push(to);
        log.hidden |= log.at < BEHIND_LEN;
        self.leave(log.physical);
        (log.physical, log.segment, log.at, log.slot) = (to, number, 0, 0);
        log.next = next;
        Ok(())
    }

    /// These, and free segments in the place of those that are missing; which were taken for that.
    fn named_from(
        &self,
        known: [Option<Physical>; NEXT],
        reserve: usize,
    ) -> Result<([Physical; NEXT], Vec<Physical>)> {
        let mut segments = self.segments_mut();
        let missing = known.iter().filter(|one| one.is_none()).count();
        if segments.free() < reserve + missing {
            return Err(Error::NoSpace);
        }
        let mut taken = Vec::new();
        let mut next = [Physical(0); NEXT];
        for (to, known) in next.iter_mut().zip(known) {
            *to = match known {
                Some(known) => known,
                None => {
                    let more = segments.take(Condition::Next).ok_or(Error::NoSpace)?;
                    taken.push(more);
                    more
                }
            };
        }
        Ok((next, taken))
    }

    /// After a failure: goes on in another segment that the last safe part names, as if nothing had been
    /// written since.
    pub(crate) fn relocate(&self, log: &mut Log, written: bool) -> Result<()> {
        if written {
            // The stretch refused bytes. It stays in its place in the log, and is never taken again.
            let mut segments = self.segments_mut();
            if log.at == 0 {
                segments.set(log.physical, Condition::Bad);
            }
        }
        {
            // Names that no safe part has told are nobody's.
            let mut segments = self.segments_mut();
            for one in log.next {
                if !log.good.next.contains(&one) {
                    segments.give_back(one);
                }
            }
        }
        log.next = [Physical(0); NEXT];
        log.before = log.good.name;
        let mut last = Error::Damaged(Damage::Segment);
        for to in log.good.next.clone() {
            match self.go_on(log, (to, None), 0) {
                Ok(()) => {
                    // Of what is in the stretch that was left nobody knows how much counts.
                    log.hidden = true;
                    return Ok(());
                }
                Err(error) => last = error,
            }
            log.good.next.retain(|&one| one != to);
        }
        Err(last)
    }

    /// Writes a part at the end of the log.
    pub(crate) fn put_part(
        &self,
        log: &mut Log,
        head: &mut PartHead,
        part: &mut Buffer,
    ) -> Result<()> {
        let len = self.padded(part.len());
        if len > self.rest(log) {
            return Err(Error::Damaged(Damage::Segment));
        }
        part.resize(len as usize);
        let name = head.seal(part);
        let at = self.place(log.physical) + log.at;
        *part = self.device.submit(at, std::mem::take(part), Stream::Log)?;
        let end = log.at + len;
        log.at = if self.shape.incompatible & PAGES != 0 { behind(end, len) } else { end };
        log.moving.wrote(len);
        log.slot += head.slots;
        log.before = name;
        Ok(())
    }
}

/// Where a part goes on behind one of this length that ends here. What flash writes as a whole is longer than most
/// units: where another part as long would lie across its end, that is left empty.
fn behind(end: u64, len: u64) -> u64 {
    let next = next_page(end);
    if end + len > next { next } else { end }
}

const fn next_page(end: u64) -> u64 {
    end.next_multiple_of(UNIT_MAX as u64)
}

/// Where the part behind one that ends here may begin: right there, and with parts at pages at the next one.
pub(crate) fn places_behind(shape: &Superblock, end: u64) -> impl Iterator<Item = u64> {
    let next = next_page(end);
    let paged = shape.incompatible & PAGES != 0 && next > end;
    std::iter::once(end).chain(paged.then_some(next))
}

/// Whether another segment may help against this.
pub(crate) const fn may_relocate(error: &Error) -> bool {
    match error {
        Error::Device(fault) => !matches!(fault, Fault::NoSpace | Fault::ReadOnly | Fault::Gone),
        _ => false,
    }
}

/// The stretches that a superblock names as those where the log goes on.
pub(crate) fn named(superblock: &Superblock) -> [Physical; NEXT] {
    [Physical(superblock.log_next), Physical(superblock.log_spare)]
}

/// Takes the stretches that were named, and only those, out of what `may` be begun.
pub(crate) fn hold(
    segments: &mut Segments,
    next: &[Physical],
    may: impl Fn(&Segment) -> bool,
) -> Result<()> {
    let held = segments.rows().iter().filter(|row| row.condition == Condition::Next);
    for physical in held.map(|row| row.physical).collect::<Vec<_>>() {
        segments.set(physical, Condition::Free);
    }
    for &one in next {
        if !segments.get(one).is_some_and(&may) {
            return Err(Damage::Segment.into());
        }
        segments.set(one, Condition::Next);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_length_lie_across_no_page() {
        for len in (512..=4096).step_by(512) {
            let (mut at, mut room) = (8192, 0);
            for _ in 0..100 {
                assert_eq!((at + len - 1) / 4096, at / 4096, "{len} at {at}");
                (at, room) = (behind(at + len, len), at + len);
            }
            assert!(room - 8192 <= 100 * len * 2, "{len}: {room}");
        }
    }
}
