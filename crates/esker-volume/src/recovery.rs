//! Opening a volume: the newest superblock, its root, and every commit behind it that is whole.
//!
//! Above: `mkfs`, homes, verbs. Below: `part`, `root`. Invariant: opening writes nothing, so it can be cut and
//! begun again as often as it likes; a commit that a later one proves safe is there, or opening fails and says so.

use std::collections::BTreeSet;

use crate::commit::absorb;
use crate::delta::Delta;
use crate::device::{Device, Fault};
use crate::error::{Damage, Error, Result};
use crate::limits::{
    ASTRAY_LEN, BEHIND_LEN, NEXT, NUMBER_MAX, SEGMENT_LEN_MAX, SEGMENT_LEN_MIN, SUPERBLOCK_STEP,
    SUPERBLOCKS_MAX, TORN_MAX,
};
use crate::log::{Good, Log, hold, named, places_behind};
use crate::migrate::Moving;
use crate::part::{LOG, MAGIC, PartHead};
use crate::root;
use crate::rows::Begun;
use crate::segments::{Condition, Physical, Segment, Segments};
use crate::settle::idle;
use crate::stack::State;
use crate::superblock::Superblock;
use crate::volume::{Options, Volume};

/// Bytes that are looked at together around the end of the log.
const LOOK_LEN: usize = 128 << 10;

/// A superblock that counts, and where it lies: which segment of a pair, which step.
type Found = (Superblock, (u32, u64));

/// The newest commit that was safe when this was written, whatever it is and wherever it should be; 0: it says nothing.
fn told(unit: &[u8], uuid: &[u8; 16]) -> u64 {
    if unit.starts_with(&MAGIC) {
        return PartHead::parse(unit, uuid).map_or(0, |head| head.durable);
    }
    let superblock = Superblock::parse(unit).ok().filter(|found| found.uuid == *uuid);
    superblock.map_or(0, |found| found.proven)
}

/// The superblocks of one segment; of a device that is read for the first time, just the one at `at`.
fn superblock_at(device: &impl Device, at: u64) -> Result<Superblock> {
    let mut bytes = [0; Superblock::SIZE];
    device.read(at, &mut bytes)?;
    Superblock::parse(&bytes)
}

/// Any superblock of the volume: they begin at the first byte, or where the second segment may.
fn any(device: &impl Device) -> Result<Superblock> {
    let mut first = None;
    let mut places = vec![0];
    let mut len = SEGMENT_LEN_MIN;
    while len <= SEGMENT_LEN_MAX && len < device.geometry().size {
        places.push(len);
        len *= 2;
    }
    for at in places {
        for step in 0..SUPERBLOCKS_MAX {
            match superblock_at(device, at + step * SUPERBLOCK_STEP) {
                Ok(found) if at == 0 || found.segment_len == at => return Ok(found),
                // It is small.
                Err(Error::Device(Fault::OutOfRange)) => {}
                Err(error) => {
                    let told = first.get_or_insert(error);
                    // One that is refused may be older than those that are not.
                    if matches!(error, Error::Device(_) | Error::Stone(_)) {
                        *told = error;
                    }
                }
                Ok(_) => {}
            }
        }
    }
    Err(first.unwrap_or(Error::Damaged(Damage::NoVolume)))
}

/// Whether there is a volume, if only one of its superblocks is whole.
pub fn is_there(device: &impl Device) -> bool {
    any(device).is_ok()
}

/// The newest superblock, and the newest commit that anything among the superblocks says was safe: a part may lie there
/// that went astray.
pub(crate) fn newest(device: &impl Device) -> Result<(Found, u64)> {
    let one = any(device)?;
    if device.geometry().size < one.size {
        return Err(Damage::Shortened.into());
    }
    let (mut best, mut proven): (Option<Found>, _) = (None, 0);
    let mut refused: Option<(u64, Error)> = None;
    let mut bytes = vec![0; (one.steps() * SUPERBLOCK_STEP) as usize];
    for number in 0..one.homes() {
        if let Err(error) = device.read(u64::from(number) * one.segment_len, &mut bytes) {
            if number + 1 == one.homes() && best.is_none() {
                return Err(error.into());
            }
            continue;
        }
        let units = bytes.chunks(one.unit as usize);
        proven = units.fold(proven, |proven, unit| told(unit, &one.uuid).max(proven));
        for (step, bytes) in (0..).zip(bytes.chunks(SUPERBLOCK_STEP as usize)) {
            let found = match Superblock::parse(bytes) {
                Ok(found) => found,
                Err(error @ Error::Stone(_)) => {
                    let own = Superblock::whole(bytes).filter(|found| found.uuid == one.uuid);
                    let own = own.map(|found| (found.generation, error));
                    refused = own.into_iter().chain(refused).max_by_key(|own| own.0);
                    continue;
                }
                Err(_) => continue,
            };
            let same = found.uuid == one.uuid && found.segment_len == one.segment_len;
            let newer = best.as_ref().is_none_or(|(best, _)| best.generation < found.generation);
            if same && newer {
                best = Some((found, (number % 2, step)));
            }
        }
    }
    let (found, home) = best.ok_or(Damage::NoVolume)?;
    // What a newer version wrote since counts, and is not understood.
    match refused {
        Some((generation, error)) if generation > found.generation => Err(error),
        _ => Ok(((found, home), proven)),
    }
}

/// A part that was found.
struct Part {
    head: PartHead,
    physical: Physical,
}

/// The largest numbers of some heads.
#[derive(Default)]
struct Largest {
    segment: u64,
    sequence: u64,
    epoch: u64,
}

impl Largest {
    fn take(&mut self, head: &PartHead) {
        self.segment = self.segment.max(head.segment);
        self.sequence = self.sequence.max(head.sequence);
        self.epoch = self.epoch.max(head.epoch);
    }
}

/// Walks the log.
struct Walk<'a, D> {
    device: &'a D,
    superblock: Superblock,
    /// The newest commit that the superblocks, and whatever lies among them, say was safe.
    proven: u64,
    /// Parts in their order, each naming the one before it.
    parts: Vec<Part>,
    /// So many of them were looked at: they are proven safe, or whole.
    looked: usize,
    /// Those that are not, as power or a failure left them: what lies elsewhere may count.
    torn: Vec<Part>,
}

impl<'a, D: Device> Walk<'a, D> {
    const fn new(device: &'a D, superblock: Superblock, proven: u64) -> Self {
        Self { device, superblock, proven, parts: Vec::new(), looked: 0, torn: Vec::new() }
    }

    fn head_at(&self, physical: Physical, at: u64) -> Result<Option<PartHead>> {
        let own = &self.superblock;
        if physical.0 >= own.segments() || at + own.unit as u64 > own.segment_room {
            return Ok(None);
        }
        let mut bytes = vec![0; own.unit as usize];
        let place = u64::from(physical.0) * own.segment_len + at;
        self.device.read(place, &mut bytes)?;
        let head = PartHead::parse(&bytes, &own.uuid);
        Ok(head.filter(|head| self.is_of_log(head, at)))
    }

    /// Whether a head that was found here is one of a part of the log.
    const fn is_of_log(&self, head: &PartHead, at: u64) -> bool {
        let end = at.saturating_add(head.len);
        head.at == at && head.kind == LOG && end <= self.superblock.segment_room
    }

    /// How many parts to keep for this one to follow: it names one of them, or the superblock's.
    fn follows(&self, head: &PartHead) -> Option<usize> {
        let at = self.parts.iter().rposition(|part| part.head.checksum == head.before);
        let first = || (head.before == self.superblock.log_before).then_some(0);
        at.map(|at| at + 1).or_else(first)
    }

    /// The end of the log: where the next part would lie, and where else it may.
    fn end(&self) -> (Physical, u64, u64, [Physical; NEXT]) {
        match self.parts.last() {
            Some(part) => {
                let (head, next) = (&part.head, [part.head.next, part.head.spare]);
                (part.physical, head.segment, head.at + head.len, next.map(Physical))
            }
            None => {
                let own = &self.superblock;
                (Physical(own.log_physical), own.log_segment, own.log_at, named(own))
            }
        }
    }

    /// The part here, if it follows one that was found; how many to keep for it. One that takes the place of others,
    /// since they failed, was tried later, and must be whole: else it failed too, and what was written in their place
    /// since counts.
    fn part_at(&self, physical: Physical, at: u64) -> Result<Option<(usize, Part)>> {
        let Some(head) = self.head_at(physical, at)? else { return Ok(None) };
        if self.torn.iter().any(|torn| torn.physical == physical && torn.head.at == at) {
            return Ok(None);
        }
        let part = Part { head, physical };
        let last = self.parts.last().map_or(0, |last| last.head.sequence);
        match self.follows(&part.head) {
            Some(keep) if keep == self.parts.len() => Ok(Some((keep, part))),
            Some(keep) if head.sequence >= last && self.holds(&part)? => Ok(Some((keep, part))),
            _ => Ok(None),
        }
    }

    /// The next part, wherever it is.
    fn step(&self) -> Result<Option<(usize, Part)>> {
        let (physical, segment, at, next) = self.end();
        for at in places_behind(&self.superblock, at) {
            let behind = self.part_at(physical, at)?;
            if let Some(found) = behind.filter(|(_, part)| part.head.segment == segment) {
                return Ok(Some(found));
            }
        }
        self.elsewhere(segment, next)
    }

    /// The part in one of the two stretches where the log may go on. Where both have one the later one counts, unless
    /// only the other is whole: that the later one is not is no reason to take it, however much came after both.
    fn elsewhere(&self, segment: u64, next: [Physical; NEXT]) -> Result<Option<(usize, Part)>> {
        let mut found = Vec::new();
        for physical in next {
            let own = self.part_at(physical, 0)?;
            found.extend(own.filter(|(_, part)| part.head.segment > segment));
        }
        found.sort_by_key(|(_, part)| part.head.segment);
        match (found.pop(), found.pop()) {
            (Some(later), Some(other)) if !self.holds(&later.1)? && self.holds(&other.1)? => {
                Ok(Some(other))
            }
            (later, _) => Ok(later),
        }
    }

    fn go_on(&mut self, (keep, part): (usize, Part)) {
        self.parts.truncate(keep);
        self.looked = self.looked.min(keep);
        self.parts.push(part);
    }

    /// All parts to the end of the log. Behind the last one that is whole it is looked again, without the one that is
    /// not.
    fn run(&mut self) -> Result<()> {
        loop {
            while let Some(next) = self.step()? {
                self.go_on(next);
            }
            if !self.doubt()? {
                return Ok(());
            }
        }
    }

    /// The newest commit that is proven safe by what came after it.
    fn proven(&self) -> u64 {
        let heads = self.parts.iter().map(|part| part.head.durable);
        heads.max().unwrap_or(0).max(self.proven)
    }

    /// Whether all bytes of a part are as they were written.
    fn holds(&self, part: &Part) -> Result<bool> {
        let mut bytes = vec![0; part.head.len as usize];
        let at = u64::from(part.physical.0) * self.superblock.segment_len + part.head.at;
        self.device.read(at, &mut bytes)?;
        Ok(part.head.holds(&bytes))
    }

    /// Parts that no barrier is known behind are believed only byte by byte: whether one is not as it was written, and
    /// something else may follow the one before.
    fn doubt(&mut self) -> Result<bool> {
        let proven = self.proven();
        let first = self.parts.iter().position(|part| part.head.sequence > proven);
        for at in first.unwrap_or(self.parts.len()).max(self.looked)..self.parts.len() {
            if !self.holds(&self.parts[at])? {
                self.torn.extend(self.parts.drain(at..).next());
                self.looked = at;
                return Ok(self.torn.len() < TORN_MAX);
            }
        }
        self.looked = self.parts.len();
        Ok(false)
    }

    /// The largest numbers that whoever opens the volume later may come upon: those of the log, and of what failed or
    /// was torn where it goes on.
    fn largest(&self) -> Result<Largest> {
        let (_, _, _, next) = self.end();
        let mut largest = Largest::default();
        self.parts.iter().chain(&self.torn).for_each(|part| largest.take(&part.head));
        for physical in next {
            self.head_at(physical, 0)?.iter().for_each(|head| largest.take(head));
        }
        Ok(largest)
    }

    /// Commits from the first: the numbers of their parts, whole ones only.
    fn commits(&self) -> Vec<std::ops::Range<usize>> {
        let mut commits = Vec::new();
        let mut begin = 0;
        for (at, part) in self.parts.iter().enumerate() {
            let first = part.head.part == 0;
            let other = at > begin && part.head.sequence != self.parts[begin].head.sequence;
            if first || other {
                begin = at;
            }
            if part.head.is_last() && at - begin == part.head.part as usize {
                commits.push(begin..at + 1);
                begin = at + 1;
            }
        }
        commits
    }

    /// Whether the log was closed where it ends: behind that nothing was written since, or another superblock would
    /// have been before.
    fn is_closed(&self) -> bool {
        let end = self.parts.last().map_or(self.superblock.log_before, |part| part.head.checksum);
        self.superblock.closed != 0 && self.superblock.closed == end
    }

    /// That nothing says of a commit behind this one that it was safe.
    fn is_all(&self, sequence: u64) -> Result<()> {
        let lost =
            self.proven() > sequence || (!self.is_closed() && self.told_near_end()? > sequence);
        if lost { Err(Damage::LostCommit.into()) } else { Ok(()) }
    }

    /// Applies a commit. What something was moved to since the root is not `idle`.
    fn replay(
        &self,
        parts: std::ops::Range<usize>,
        root: &Root,
        (state, segments): (&mut State, &mut Segments),
        idle: &mut Vec<Physical>,
    ) -> Result<()> {
        let mut delta = Delta::default();
        for part in &self.parts[parts] {
            read_rows(self.device, &self.superblock, part, &mut delta)?;
        }
        for row in std::mem::take(&mut delta.begun) {
            idle.retain(|&one| segments.get(one).is_none_or(|own| own.number != row.segment));
            root.begin_moved(segments, row)?;
        }
        // What was needed of a segment that was given away since does not count any more.
        delta.lives.retain(|row| segments.find(row.segment).is_some());
        absorb(state, segments, delta)
    }

    /// The newest commit that anything near the end of the log says was safe: parts behind one whose head is damaged,
    /// what lies in the place of such a part, and all that those parts lead to.
    fn told_near_end(&self) -> Result<u64> {
        let (physical, segment, at, next) = self.end();
        let around = (at.saturating_sub(ASTRAY_LEN), at + BEHIND_LEN);
        let mut newest = self.told_between(physical, around, &|head| head.segment == segment)?;
        for physical in next {
            let later = |head: &PartHead| head.segment > segment;
            newest = newest.max(self.told_between(physical, (0, BEHIND_LEN), &later)?);
        }
        Ok(newest)
    }

    /// The same of a range of a stretch; `may`: whether a part of the log in it may be one behind the end.
    fn told_between(
        &self,
        physical: Physical,
        (from, to): (u64, u64),
        may: &dyn Fn(&PartHead) -> bool,
    ) -> Result<u64> {
        let own = &self.superblock;
        let begin = u64::from(physical.0) * own.segment_len;
        // Behind its write pointer a zone holds nothing.
        let written = self.device.written(begin)?.unwrap_or(own.segment_room);
        let end = to.min(written).min(own.segment_room);
        let (mut newest, mut last, mut bytes) = (0, None, vec![0; LOOK_LEN]);
        for at in (from..end).step_by(LOOK_LEN) {
            bytes.truncate((end - at) as usize);
            // What cannot be read tells nothing. Where the next part would be was read before.
            if self.device.read(begin + at, &mut bytes).is_err() {
                continue;
            }
            for (at, unit) in (at..).step_by(own.unit as usize).zip(bytes.chunks(own.unit as usize))
            {
                newest = newest.max(told(unit, &own.uuid));
                let head = unit.starts_with(&MAGIC).then(|| PartHead::parse(unit, &own.uuid));
                let head = head.flatten().filter(|head| self.is_of_log(head, at) && may(head));
                last = head.map(|head| Part { head, physical }).or(last);
            }
        }
        Ok(last.map_or(newest, |last| self.told_behind(last).max(newest)))
    }

    /// The newest commit that any of the parts says was safe that this one leads to. None of them need name the one
    /// before: what was written in vain tells nothing wrong.
    fn told_behind(&self, mut last: Part) -> u64 {
        let mut newest = 0;
        loop {
            newest = newest.max(last.head.durable);
            let Part { head, physical } = last;
            let mut places = places_behind(&self.superblock, head.at + head.len);
            let behind = places.find_map(|at| {
                self.head_at(physical, at).ok().flatten().filter(|own| own.segment == head.segment)
            });
            let others = [head.next, head.spare].map(Physical).into_iter().filter_map(|other| {
                let first = self.head_at(other, 0).ok().flatten();
                first.filter(|own| own.segment > head.segment).map(|own| (other, own))
            });
            // The first of the segments behind it leads to the others.
            let next = behind.map(|own| (physical, own));
            let next = next.or_else(|| others.min_by_key(|(_, own)| own.segment));
            let Some((physical, head)) = next else { return newest };
            last = Part { head, physical };
        }
    }
}

fn root_of(device: &impl Device, superblock: &Superblock) -> Result<(State, Segments)> {
    let count = superblock.segments();
    let Some(page) = superblock.root()? else {
        let mut segments = Segments::new(count, superblock.homes());
        let physical = Physical(superblock.log_physical);
        segments.begin(physical, superblock.log_segment, Condition::Log);
        return Ok((State::default(), segments));
    };
    let mut stored = vec![0; page.stored as usize];
    let at = u64::from(superblock.root_physical) * superblock.segment_len + page.at;
    device.read(at, &mut stored)?;
    page.verify(&stored)?;
    let (state, mut segments) = root::decode(&page.open(&stored, &[])?, count)?;
    if state.snapshots.last().is_some_and(|row| row.sequence > superblock.sequence) {
        return Err(Damage::Snapshots.into());
    }
    segments.change_live(page.segment, page.stored.into())?;
    Ok((state, segments))
}

/// Opens the volume on a device. Writes nothing.
///
/// # Errors
/// `Damaged`, `Stone` for what is wrong with the volume; `Base` where there is none; what the device says.
pub fn open<D: Device>(device: D, options: Options) -> Result<Volume<D>> {
    let ((superblock, home), proven) = newest(&device)?;
    if options.write {
        superblock.may_be_written()?;
    }
    let (mut state, mut segments) = root_of(&device, &superblock)?;
    let root = Root::of(&superblock, &segments);
    let mut walk = Walk::new(&device, superblock, proven);
    walk.run()?;
    let commits = walk.commits();
    let last = commits.last().map_or(0, |parts| parts.end);
    let sequence =
        last.checked_sub(1).map_or(superblock.sequence, |at| walk.parts[at].head.sequence);
    let largest = walk.largest()?;
    let closed = walk.is_closed();
    walk.is_all(sequence)?;
    let mut since = vec![Physical(superblock.log_physical)];
    // The log goes on behind the last part that is whole, even if its commit is not.
    for part in &walk.parts {
        if segments.find(part.head.segment) != Some(part.physical) {
            root.begin(&mut segments, part)?;
        }
        if since.last() != Some(&part.physical) {
            since.push(part.physical);
        }
    }
    let (physical, segment, at, next) = walk.end();
    empty(&mut segments, segment)?;
    hold(&mut segments, &next, |row| root.may_begin(row))?;
    let needed = since.iter().copied().chain([Physical(superblock.root_physical)]).collect();
    let mut idle = idle(&segments, &needed);
    for parts in commits {
        walk.replay(parts, &root, (&mut state, &mut segments), &mut idle)?;
    }
    skip_numbers(&mut segments, &largest)?;
    let before = walk.parts.last().map_or(superblock.log_before, |part| part.head.checksum);
    let slot = walk.parts.last().map(|part| part.head.first_slot + part.head.slots);
    let slot = slot.unwrap_or(superblock.log_slot);
    let log = Log {
        physical,
        segment,
        at,
        slot,
        before,
        next,
        good: Good::new(before, next, (physical, segment, at, slot)),
        sequence,
        safe: sequence,
        tried: largest.sequence.max(sequence),
        epoch: largest.epoch.max(superblock.epoch) + 1,
        superblock,
        home,
        safe_home: home.0,
        hidden: superblock.log_segment != segment,
        since,
        round: None,
        idle,
        unneeded: BTreeSet::new(),
        tables: None,
        moving: Moving::default(),
        fresh: true,
        closed,
    };
    drop(walk);
    Volume::over(device, options, log, (segments, state))
}

/// Numbers that were given out and lost are not given out again: what is written later has larger ones.
fn skip_numbers(segments: &mut Segments, largest: &Largest) -> Result<()> {
    let next = segments.next_number().max(largest.segment + 1) + segments.rows().len() as u64;
    if next >= NUMBER_MAX {
        return Err(Damage::Segment.into());
    }
    segments.skip_numbers(next);
    Ok(())
}

/// Whether opening would find all of the log from this superblock on to the part of this name, and could read it.
pub(crate) fn reads_log(device: &impl Device, superblock: &Superblock, last: u64) -> Result<bool> {
    if last == superblock.log_before {
        return Ok(true);
    }
    let mut walk = Walk::new(device, *superblock, 0);
    // Behind it somebody may be writing.
    while walk.parts.last().is_none_or(|part| part.head.checksum != last) {
        let Some(next) = walk.step()? else { return Ok(false) };
        walk.go_on(next);
    }
    for part in &walk.parts {
        if read_rows(device, superblock, part, &mut Delta::default()).is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What the root knew of stretches that were begun since.
struct Root {
    /// Segments below this one it knows, or they were given away since.
    known: u64,
    /// Stretches of which nothing was needed any more. A superblock behind this one may have said that they are free:
    /// should that one be damaged, others have been begun there all the same.
    spent: BTreeSet<Physical>,
}

impl Root {
    fn of(superblock: &Superblock, segments: &Segments) -> Self {
        let needed = [superblock.log_physical, superblock.root_physical].map(Physical);
        let spent = idle(segments, &BTreeSet::from(needed)).into_iter().collect();
        Self { known: segments.next_number(), spent }
    }

    /// Whether it holds nothing that counts. One that failed does not either: where it was named before that it may
    /// have been tried again since.
    fn may_begin(&self, segment: &Segment) -> bool {
        matches!(segment.condition, Condition::Free | Condition::Bad)
            || (segment.number < self.known && self.spent.contains(&segment.physical))
    }

    /// A segment that the log went on in.
    fn begin(&self, segments: &mut Segments, part: &Part) -> Result<()> {
        let found = segments.get(part.physical).ok_or(Damage::Segment)?;
        let fits = found.condition == Condition::Next || self.may_begin(found);
        if part.head.at != 0 || !fits {
            return Err(Damage::Segment.into());
        }
        segments.begin(part.physical, part.head.segment, Condition::Log);
        Ok(())
    }

    /// A segment that was begun for blocks that were moved.
    fn begin_moved(&self, segments: &mut Segments, row: Begun) -> Result<()> {
        match segments.find(row.segment) {
            Some(physical) if physical == row.physical => return Ok(()),
            Some(_) => return Err(Damage::Segment.into()),
            None if row.segment < self.known => return Ok(()),
            None => {}
        }
        let found = segments.get(row.physical).ok_or(Damage::Segment)?;
        if row.segment >= NUMBER_MAX || !self.may_begin(found) {
            return Err(Damage::Segment.into());
        }
        segments.begin(row.physical, row.segment, Condition::Moved);
        Ok(())
    }
}

/// Segments that were begun for the log behind its end hold nothing that counts: they are free.
fn empty(segments: &mut Segments, end: u64) -> Result<()> {
    let begun = segments.rows().iter();
    let begun = begun.filter(|row| row.condition == Condition::Log && row.number > end);
    for row in begun.copied().collect::<Vec<_>>() {
        if row.live > 0 {
            return Err(Damage::Segment.into());
        }
        segments.set(row.physical, Condition::Free);
    }
    Ok(())
}

fn read_rows(
    device: &impl Device,
    superblock: &Superblock,
    part: &Part,
    delta: &mut Delta,
) -> Result<()> {
    let page = part.head.rows()?;
    let mut stored = vec![0; page.stored as usize];
    device.read(u64::from(part.physical.0) * superblock.segment_len + page.at, &mut stored)?;
    page.verify(&stored)?;
    delta.read(&page.open(&stored, &[])?, part.head.segment)
}
