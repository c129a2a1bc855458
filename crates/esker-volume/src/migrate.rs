//! Migration: each commit is preceded by some bytes of the segments of which little is needed, which go to segments of
//! their own. So room is made in proportion to what is written, and what is written over often is not mixed with what
//! stays.
//!
//! Above: `commit`. Below: `choose` says what and how much. Invariant: where a block lies is told by a commit that is
//! written behind a barrier behind the block, so whatever a commit says is there; until then, and until superblocks
//! have forgotten it, it stays where it was.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::Ordering;

use esker_stone::Sealed;
use esker_stone::key::{self, kind};
use esker_stone::rows::extents::BlockName;
use esker_stone::rows::numbers;

use crate::choose::{Ahead, COLD, EVEN, GENERATIONS, LEVELLING, Victim, levelled, victim};
use crate::counts::Count;
use crate::delta::Delta;
use crate::device::{Buffer, Device, Stream};
use crate::error::{Error, Result};
use crate::leaf::Leaf;
use crate::limits::{PART_LEN, SPARE};
use crate::log::Log;
use crate::part::{MOVED, PartHead, append_page};
use crate::rows::Move;
use crate::segments::{Condition, Physical, Segment, Segments};
use crate::settle::{Step, idle};
use crate::stack::Stack;
use crate::volume::Volume;

/// Bytes that are moved together at least: a part has a head, and ends with a unit. A segment may be shorter.
const LEAST: u64 = 512 << 10;
/// On volumes of fewer segments than this it is half of one at most: so few are free there that they run out meanwhile.
const FEW: u32 = 384;
/// Bytes that are moved before a commit at most, for each that was written since the last time; besides, twice the
/// least.
const MOST: u64 = 8;
/// A segment is full when less than this is left in it, or than this part of it.
const REST: (u64, u64) = (64 << 10, 16);
/// Bytes that are to be made at least before another segment is begun for them.
const OWED_LEAST: u64 = 8 << 10;
/// Free segments, besides those that are kept back, that moving leaves to whoever writes.
const LEFT: usize = 1;
/// Free segments, besides those that are kept back, with which moving goes on: some for what was admitted, and one for
/// each that takes what is moved.
pub(crate) const TO_GO_ON: usize = LEFT + 1 + GENERATIONS;
/// Roots that are written in a row to give back what nobody needs: one says so, the next one makes it free.
const ROOTS: usize = 2;
/// Segments' worth of room that is owed at most: what could not be made for so long is not made at once.
const OWED: u64 = 2;
/// Bytes that a row of a block that is moved takes in a page, at most, and the group around such rows.
const ROW_LEN: usize = 48;
const GROUP_LEN: usize = 256;

/// A segment that takes what is moved, and where that goes.
#[derive(Clone, Copy, Debug)]
struct Open {
    physical: Physical,
    segment: u64,
    at: u64,
}

/// Why segments are emptied. For each there is one at a time, so that none waits for the other.
#[derive(Clone, Copy, Debug)]
enum Why {
    /// For the room in them.
    Room,
    /// So that they wear as others do.
    Wear,
}

/// A segment that is being emptied.
#[derive(Clone, Debug, Default)]
struct Emptied {
    victim: Option<Victim>,
    /// What is left of it.
    queue: VecDeque<BlockName>,
}

/// What is being moved.
#[derive(Clone, Debug, Default)]
pub(crate) struct Moving {
    open: [Option<Open>; GENERATIONS],
    /// Blocks that were laid down since the last barrier.
    laid: Vec<Move>,
    /// Those before it: the next commit tells where they are.
    safe: Vec<Move>,
    /// How many of these the commit on its way tells of.
    told: usize,
    /// Blocks that are not moved: the next commit tells again what is left of them.
    again: Vec<BlockName>,
    /// Bytes of these.
    again_len: u64,
    /// By the reason why.
    emptied: [Emptied; 2],
    /// Segments of which everything was moved that can be.
    pub done: BTreeSet<u64>,
    /// Bytes of room that are to be made.
    owed: u64,
    /// Bytes that may be moved so that all wear alike.
    levelling: u64,
    /// Bytes that were written since that was reckoned.
    written: u64,
}

impl Moving {
    /// So many bytes of a commit were written.
    pub const fn wrote(&mut self, len: u64) {
        self.written += len;
    }

    /// There was a barrier.
    pub fn barrier(&mut self) {
        self.safe.append(&mut self.laid);
    }

    /// What the next commit is to say.
    pub fn tell(&mut self) -> Vec<Move> {
        self.told = self.safe.len();
        self.safe.clone()
    }

    /// The commit is safe that says it.
    pub fn told(&mut self) {
        self.safe.drain(..std::mem::take(&mut self.told));
        self.again.clear();
        // They took the place of what was moved.
        self.written = self.written.saturating_sub(std::mem::take(&mut self.again_len));
    }

    /// Blocks that the next commit is to tell again.
    pub fn to_tell_again(&self) -> Vec<BlockName> {
        self.again.clone()
    }

    /// Blocks that were moved and that no commit told of yet: they still seem to be where they were. Each is moved
    /// once, also where a segment is emptied anew that was before.
    fn untold(&self) -> BTreeSet<BlockName> {
        self.safe.iter().chain(&self.laid).map(|row| row.block).collect()
    }

    /// Stretches that hold what nobody was told of yet, or will.
    pub fn held(&self, segments: &Segments) -> BTreeSet<Physical> {
        let open = self.open.iter().flatten().map(|open| open.physical);
        let moves = self.safe.iter().chain(&self.laid);
        open.chain(moves.filter_map(|row| segments.find(row.to))).collect()
    }
}

impl<D: Device> Volume<D> {
    /// Whether room is made in this way.
    pub(crate) fn migrates(&self) -> bool {
        let zones = self.device.geometry().zones;
        // One of the log, one of tables, and one for each copy of the superblock are written besides.
        let active = self.shape.copies + 2 + GENERATIONS as u32;
        let enough = zones.is_none_or(|zones| zones.active == 0 || zones.active >= active);
        enough && Ahead::is_worth_it(self.shape.segments() as usize)
    }

    /// Something failed: what was laid down since the last barrier may not be there.
    pub(crate) fn forget_moved(&self, log: &mut Log) {
        log.moving.laid.clear();
        self.end_moving(log);
    }

    fn end_moving(&self, log: &mut Log) {
        for open in std::mem::take(&mut log.moving.open).into_iter().flatten() {
            self.leave(open.physical);
        }
        (log.moving.again, log.moving.again_len) = (Vec::new(), 0);
        (log.moving.emptied, log.moving.done) = (<[Emptied; 2]>::default(), BTreeSet::new());
    }

    /// Stretches that are left as they are: the log, and what was moved and not told.
    fn held(&self, log: &Log) -> BTreeSet<Physical> {
        let mut held = log.moving.held(&self.segments());
        held.extend(log.since.iter().copied().chain([log.physical]));
        held.extend(log.tables.map(|(physical, _)| physical));
        held
    }

    fn ahead(&self, log: &Log) -> Ahead {
        let kept = self.reserve(&self.state()) + SPARE;
        let segments = self.segments();
        let free = segments.free().saturating_sub(kept);
        let idle = idle(&segments, &self.held(log)).len();
        Ahead::new(segments.rows().len(), free, idle)
    }

    /// Moves as much as is due, before a commit. What fails is left where it is: the commit says so if it fails too.
    pub(crate) fn migrate(&self, log: &mut Log) {
        let written = std::mem::take(&mut log.moving.written);
        if !self.migrates() {
            return;
        }
        let ahead = self.ahead(log);
        self.give_back_in_time(log, ahead);
        let pressure = ahead.pressure();
        let more = written.saturating_mul(pressure) / EVEN;
        let owed = log.moving.owed.saturating_add(more);
        log.moving.owed = if pressure == 0 { 0 } else { owed.min(OWED * self.shape.segment_room) };
        if self.level(log, written).is_err_and(|error| error != Error::NoSpace) {
            return self.forget_moved(log);
        }
        let least = self.least();
        let mut left = MOST.saturating_mul(written).saturating_add(2 * least);
        while left >= least {
            match self.move_some(log, left) {
                Ok(0) => break,
                Ok(moved) => left = left.saturating_sub(moved),
                Err(Error::NoSpace) => break,
                Err(_) => return self.forget_moved(log),
            }
        }
    }

    /// Bytes that are moved together at least.
    fn least(&self) -> u64 {
        let room = self.shape.segment_room;
        LEAST.min(if self.shape.segments() < FEW { room / 2 } else { room })
    }

    /// Moves what others wear in the place of: a little of what is written is for that, whatever room there is.
    fn level(&self, log: &mut Log, written: u64) -> Result<()> {
        let saved = log.moving.levelling.saturating_add(written / LEVELLING);
        log.moving.levelling = saved.min(2 * self.least());
        if log.moving.levelling < self.least() || !self.has_victim(log, Why::Wear, true)? {
            return Ok(());
        }
        let moved = self.move_part(log, Why::Wear, log.moving.levelling)?;
        log.moving.levelling = log.moving.levelling.saturating_sub(moved);
        Ok(())
    }

    /// Moves something, at most about so many bytes; how many.
    fn move_some(&self, log: &mut Log, most: u64) -> Result<u64> {
        let enough = log.moving.owed >= OWED_LEAST;
        if !self.has_victim(log, Why::Room, enough)? {
            return Ok(0);
        }
        let Some(victim) = log.moving.emptied[Why::Room as usize].victim else { return Ok(0) };
        // What is gained is what another segment like it would take besides.
        let live = victim.segment.live;
        let dead = self.filled().saturating_sub(live).max(1);
        // What it takes to gain so much.
        let due = u128::from(log.moving.owed) * u128::from(live) / u128::from(dead);
        let due = u64::try_from(due).unwrap_or(u64::MAX);
        if due < self.least().min(live) {
            return Ok(0);
        }
        let moved = self.move_part(log, Why::Room, due.min(most))?;
        let gained = u128::from(moved) * u128::from(dead) / u128::from(live.max(1));
        log.moving.owed -= log.moving.owed.min(u64::try_from(gained).unwrap_or(u64::MAX));
        // What is left may be dead meanwhile.
        Ok(moved.max(1))
    }

    /// Whether there is something to move; of another segment, if all of the one before was and it may be begun.
    fn has_victim(&self, log: &mut Log, why: Why, may: bool) -> Result<bool> {
        let left = !log.moving.emptied[why as usize].queue.is_empty();
        if left || !may {
            return Ok(left);
        }
        let state = self.state();
        let held = self.held(log);
        loop {
            let found = {
                let segments = self.segments();
                log.moving.done.retain(|&number| segments.live(number) > 0);
                let not = (&held, &log.moving.done);
                match why {
                    Why::Room => victim(&segments, self.filled(), not),
                    Why::Wear => levelled(&segments, not),
                }
            };
            let Some(found) = found else { return Ok(false) };
            let number = found.segment.number;
            log.moving.done.insert(number);
            let queue = match found.segment.condition {
                Condition::Moved => self.moved_to(number).unwrap_or_default(),
                _ => self.lying_in_log(&self.stack(&state), &found.segment)?,
            };
            let some = !queue.is_empty();
            log.moving.emptied[why as usize] = Emptied { victim: Some(found), queue };
            if some {
                return Ok(true);
            }
        }
    }

    /// Lays down some of what is left of a segment that is being emptied; how many bytes.
    fn move_part(&self, log: &mut Log, why: Why, most: u64) -> Result<u64> {
        let Some(victim) = log.moving.emptied[why as usize].victim else { return Ok(0) };
        let stream = if victim.to == COLD { Stream::Cold } else { Stream::Moved };
        let mut open = self.opened(log, victim.to, why)?;
        let state = self.state();
        let stack = self.stack(&state);
        let (mut part, mut rows) = (Buffer::from(&[0; PartHead::SIZE][..]), Vec::new());
        let (mut moved, mut full, mut later) = (0, false, 0);
        let (room, known) = (self.room_to_tell_again(), log.moving.untold());
        let queue = &mut log.moving.emptied[why as usize].queue;
        while moved < most {
            let Some(&block) = queue.front() else { break };
            if known.contains(&block) {
                queue.pop_front();
                continue;
            }
            match stack.lying_in(block, victim.segment.number) {
                Some(Lying::Again(len)) if log.moving.again_len + len > room => {
                    // What can be moved meanwhile is.
                    later += 1;
                    if later > queue.len() {
                        break;
                    }
                    queue.rotate_left(1);
                    continue;
                }
                Some(Lying::Again(len)) => {
                    log.moving.again.push(block);
                    log.moving.again_len += len;
                    moved += len;
                }
                Some(Lying::Stored(bytes, own)) => {
                    let more = bytes.len() + GROUP_LEN + (rows.len() + 1) * ROW_LEN;
                    let len = self.padded(part.len() + more);
                    if len > PART_LEN as u64 || open.at + len > self.shape.segment_room {
                        full = true;
                        break;
                    }
                    let shift = (open.at + part.len() as u64).wrapping_sub(own);
                    rows.push(Move { block, count: 1, to: open.segment, shift });
                    part.extend_from_slice(&bytes);
                    moved += bytes.len() as u64;
                }
                // What is damaged is left where it is.
                None => {}
            }
            queue.pop_front();
        }
        if rows.is_empty() {
            let none = moved == 0 && !queue.is_empty();
            if none && full {
                // There is no room left in it.
                log.moving.open[victim.to] = None;
                self.leave(open.physical);
            }
            return if none && !full { Err(Error::NoSpace) } else { Ok(moved) };
        }
        self.put_moved(log, (&mut open, stream), part, rows)?;
        log.moving.open[victim.to] = Some(open);
        Ok(moved)
    }

    /// Bytes that the next commit may tell again beside what was admitted, which must still fit.
    fn room_to_tell_again(&self) -> u64 {
        self.room().saturating_sub(self.waiting.load(Ordering::Acquire))
    }

    /// Writes a part of blocks that were moved, with rows that say where they are.
    fn put_moved(
        &self,
        log: &mut Log,
        (open, stream): (&mut Open, Stream),
        mut part: Buffer,
        mut rows: Vec<Move>,
    ) -> Result<()> {
        let moved = (part.len() - PartHead::SIZE) as u64;
        rows.sort_by_key(|row| row.block);
        let writing = self.writing();
        let page = Sealed::new(&numbers::encode(&rows, writing.measure()), &[], writing.setting)?;
        let mut head = log.head(self.shape.uuid, (self.now)());
        (head.segment, head.at, head.kind) = (open.segment, open.at, MOVED);
        (head.before, head.sequence, head.first_slot) = (0, log.sequence, 0);
        head.set_rows(&append_page(&mut part, (open.segment, open.at), &page));
        let len = self.padded(part.len());
        self.counts.add(Count::Moved, moved);
        self.counts.add(Count::Rows, part.len() as u64 - moved);
        self.counts.add(Count::Padding, len - part.len() as u64);
        part.resize(len as usize);
        head.seal(&mut part);
        self.device.submit(self.place(open.physical) + open.at, part, stream)?;
        open.at += len;
        log.moving.laid.append(&mut rows);
        Ok(())
    }

    /// The segment that takes what is moved as often as that. What is only moved a second time may not stay for long:
    /// one that has worn most and came free again soon would be taken for such blocks again and again.
    fn opened(&self, log: &mut Log, to: usize, why: Why) -> Result<Open> {
        let least = REST.0.min(self.shape.segment_room / REST.1);
        if let Some(open) = log.moving.open[to] {
            if open.at + least <= self.shape.segment_room {
                return Ok(open);
            }
            log.moving.open[to] = None;
            self.leave(open.physical);
        }
        // What was admitted must still fit, whatever is moved.
        let kept = (self.reserve(&self.state()) + SPARE + LEFT) as u64;
        let waiting = self.waiting.load(Ordering::Acquire).div_ceil(self.filled());
        let physical = {
            let mut segments = self.segments_mut();
            let free = segments.free() as u64 > kept.saturating_add(waiting);
            let taken = match why {
                _ if !free => None,
                Why::Wear => segments.take_to_keep(Condition::Moved),
                Why::Room => segments.take(Condition::Moved),
            };
            taken.ok_or(Error::NoSpace)?
        };
        let begun = self.begin(physical, Condition::Moved);
        let segment = begun.inspect_err(|_| self.segments_mut().give_back(physical))?;
        self.measure_room(&self.state(), &self.segments());
        let open = Open { physical, segment, at: 0 };
        log.moving.open[to] = Some(open);
        Ok(open)
    }

    /// Blocks that were moved to a segment, as its parts say: they may be elsewhere by now.
    fn moved_to(&self, segment: u64) -> Result<VecDeque<BlockName>> {
        let mut found = VecDeque::new();
        let (mut at, mut unit) = (0, vec![0; self.shape.unit as usize]);
        while at < self.shape.segment_room {
            self.read_segment(segment, at, &mut unit)?;
            let head = PartHead::parse(&unit, &self.shape.uuid);
            let own = |head: &PartHead| {
                head.kind == MOVED && (head.segment, head.at) == (segment, at) && head.len > 0
            };
            let Some(head) = head.filter(own) else { break };
            let mut rows = Delta::default();
            rows.read(&self.page(&head.rows()?, None)?, segment)?;
            rows.moves.sort_by_key(|row| row.shift);
            found.extend(rows.moves.iter().map(|row| row.block));
            at += head.len;
        }
        Ok(found)
    }

    /// Blocks that lie in a segment of the log: all were born there, unless some were moved to it as well.
    fn lying_in_log(&self, stack: &Stack<'_, D>, segment: &Segment) -> Result<VecDeque<BlockName>> {
        let born = stack.born_in(segment.number)?;
        let mut bytes = 0;
        for &block in &born {
            let row = stack.block_row(block)?;
            let here = stack.whereabouts(block, &row)?.0 == segment.number;
            bytes += if here { stack.refs(block)?.needed(row.stored) } else { 0 };
        }
        if bytes >= segment.live {
            return Ok(born);
        }
        Ok(stack.blocks_in(&BTreeSet::from([segment.number]))?.into())
    }

    /// Gives back what nobody needs, where little is free.
    fn give_back_in_time(&self, log: &mut Log, mut ahead: Ahead) {
        for _ in 0..ROOTS {
            if !ahead.is_low() || self.keeps_moments(&self.state()) || self.give_back(log).is_err()
            {
                return;
            }
            ahead = self.ahead(log);
        }
    }

    /// Gives back what nobody needs, if free segments may have room for so many bytes then.
    pub(crate) fn give_back_for(&self, log: &mut Log, wanted: u64) {
        for _ in 0..ROOTS {
            let room = self.free_room();
            let idle = idle(&self.segments(), &self.held(log)).len() as u64;
            let helps = idle > 0 && room + idle * self.filled() >= wanted;
            if room >= wanted || !helps || self.keeps_moments(&self.state()) {
                return;
            }
            if self.give_back(log).is_err() {
                return;
            }
        }
    }

    /// Gives back what nobody needs now, however much is free.
    pub(crate) fn give_back_idle(&self, log: &mut Log) {
        for _ in 0..ROOTS {
            let idle = idle(&self.segments(), &self.held(log));
            if idle.is_empty() || self.give_back(log).is_err() {
                return;
            }
        }
    }

    /// Gives back segments that nobody needs: a root and a superblock say so. The next one makes them free.
    fn give_back(&self, log: &mut Log) -> Result<()> {
        self.settle_nothing(log, &mut |_, state, cursor| {
            let mut step = Step::of(state);
            step.tables.clone_from(&state.tables);
            step.cursor = Some(cursor.to_vec());
            Ok(step)
        })
    }
}

/// A block that somebody needs, where it lies.
enum Lying {
    /// It is told again, which takes so many bytes: a delta as a whole, or what is left of another.
    Again(u64),
    /// It is moved as it is stored; and where its row in the index says that it is.
    Stored(Vec<u8>, u64),
}

impl<D: Device> Stack<'_, D> {
    /// A block that somebody needs, if it lies in this segment and is whole.
    fn lying_in(&self, block: BlockName, segment: u64) -> Option<Lying> {
        let refs = self.refs(block).ok().filter(|refs| refs.bytes > 0)?;
        let row = self.block_row(block).ok()?;
        if self.whereabouts(block, &row).ok()?.0 != segment {
            return None;
        }
        let again = match row.base {
            Some(_) => self.owned(block, &row).ok().flatten().map(|(_, run)| run.len),
            None if refs.is_in_pieces() => {
                let left = self.left_of(block, &row).ok().flatten();
                left.map(|(_, runs)| runs.iter().map(|run| run.len).sum())
            }
            None => None,
        };
        let stored = || Some(Lying::Stored(self.stored_block(block, &row).ok()?, row.at));
        again.map(Lying::Again).or_else(stored)
    }

    /// Blocks that were first laid down in a segment.
    pub(crate) fn born_in(&self, segment: u64) -> Result<VecDeque<BlockName>> {
        let name = |slot| BlockName { segment, slot };
        let mut known = BTreeSet::new();
        self.leaves_from(&key::block(kind::BLOCK, segment, 0), &mut |leaf| match leaf {
            Leaf::Blocks(rows) if rows.segment() == segment => {
                known.extend(rows.iter().map(|(slot, _)| name(slot)));
                true
            }
            Leaf::Blocks(rows) => rows.segment() < segment,
            _ => false,
        })?;
        for own in self.state.news() {
            known.extend(own.blocks.range(name(0)..=name(u32::MAX)).map(|(&name, _)| name));
        }
        Ok(known.into_iter().collect())
    }
}
