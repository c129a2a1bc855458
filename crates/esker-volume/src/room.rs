//! Room: how much more a volume takes, and making more of it by moving what is needed out of segments of which little
//! is.
//!
//! Above: `home` asks before it takes a batch. Below: `commit`, `settle`. Invariant: what is told to be room can be
//! written; what is kept back beside it is enough for whatever only takes away, and for settling.

use std::collections::BTreeSet;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use esker_stone::key::{self, kind};
use esker_stone::rows::extents::BlockName;

use crate::commit::{Carry, Sink, Source};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::leaf::Leaf;
use crate::limits::{CUT, ROWS_LEN, SPARE};
use crate::log::Log;
use crate::migrate::TO_GO_ON;
use crate::segments::{Condition, Segment, Segments};
use crate::settle::idle;
use crate::stack::{Stack, State};
use crate::volume::Volume;

/// Free segments that whoever writes leaves to moving: without them nothing could be emptied where all is nearly full.
const TO_MOVE: usize = 2;
/// A segment is worth emptying in passing when less than this is needed of it, in sixty-fourths.
const WORTH: u64 = 56;
/// The same when there is no room otherwise.
const WORTH_LAST: u64 = 63;

/// Rounds in a row that leave as much that nobody needs as there was, after which no more is tried.
const VAIN_MAX: u32 = 3;
/// Bytes that must be dead since then for another try, at least, but for small segments.
const TRY_LEN: u64 = 64 << 10;
/// Segments' worth of bytes that are moved in passing, at most.
const BUDGET: u64 = 4;

/// One part of so many of a volume is left for rows of what is there, with segments that are begun for them; one of so
/// many at most.
const ROWS_TO_COME: u64 = 256;
const ROWS_TO_COME_MAX: u64 = 64;

/// Segments of those that are kept back for settling which a commit may take where nothing else helps: what they are
/// kept for besides a step of it, garbage of tables, is there by then. And how many stay.
const LAST: usize = 2;
const LAST_LEFT: usize = 2;

/// Segments that what came takes of those that are kept back, in about, before it is settled.
const CAME: usize = 3;

/// Blocks that are moved.
pub(crate) struct Carried {
    pub blocks: Vec<BlockName>,
    /// Whether what cannot be read fails, and is not left where it is.
    pub all: bool,
}

/// Blocks among which one is looked for that still fits into a segment.
const WINDOW: usize = 64;

impl Source for Carried {
    fn tell(&self, to: &mut dyn Sink) -> Result<()> {
        let mut left = self.blocks.clone();
        let mut from = 0;
        while from < left.len() {
            let end = left.len().min(from + WINDOW);
            let mut done = Carry::TooLong;
            for at in from..end {
                done = to.carry(left[at], true)?;
                if !matches!(done, Carry::TooLong) {
                    left[from..=at].rotate_right(1);
                    break;
                }
            }
            if matches!(done, Carry::TooLong) {
                done = to.carry(left[from], false)?;
            }
            if let Carry::Unreadable(error) = done
                && self.all
            {
                return Err(error);
            }
            from += 1;
        }
        Ok(())
    }
}

impl<D: Device> Volume<D> {
    /// Bytes of a segment that blocks fill at least, in about, before the next one is begun: what is left is too short
    /// for a piece of a block, and heads and rows lie between.
    pub(crate) fn filled(&self) -> u64 {
        let room = self.shape.segment_room;
        room - CUT as u64 - u64::from(self.shape.unit) - room / 64
    }

    /// Bytes that can surely be written, as they are.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.room_beside(0)
    }

    /// The same beside so many bytes that are to have room later: for those segments must not be free now, if they can
    /// be emptied then.
    #[must_use]
    pub fn room_beside(&self, promised: u64) -> u64 {
        let left = self.left.load(Ordering::Acquire);
        self.free_room().min(left.saturating_sub(promised))
    }

    /// What is left beside what is new where so many bytes are promised. What is written over piece by piece is told in
    /// more rows, and that goes on where there is no room for anything else: so much is left for them, however many
    /// there are, so that room does not shrink.
    pub(crate) fn beside_new(&self, promised: u64) -> u64 {
        self.kept_beside_new(promised).saturating_add(self.rows_to_come())
    }

    /// What must be left beside what is new for what is promised to have room at any time.
    pub(crate) fn kept_beside_new(&self, promised: u64) -> u64 {
        let slack = if promised > 0 { self.slack.load(Ordering::Acquire) } else { 0 };
        promised.saturating_add(slack)
    }

    /// Bytes that free segments take besides those that are kept back, whether they may be used or not.
    pub(crate) fn free_room(&self) -> u64 {
        self.free.load(Ordering::Acquire)
    }

    /// What is left for rows of what is there.
    pub(crate) fn rows_to_come(&self) -> u64 {
        let size = self.shape.size;
        // A segment that is begun for tables, and one for settling them.
        let more = size / ROWS_TO_COME + 2 * self.shape.segment_room;
        more.min(size / ROWS_TO_COME_MAX)
    }

    /// So many bytes were admitted and wait to be written.
    pub(crate) fn expect(&self, bytes: u64) {
        self.waiting.store(bytes, Ordering::Release);
    }

    /// Measures it, whenever it may be another.
    pub(crate) fn measure_room(&self, state: &State, segments: &Segments) {
        let kept = self.reserve(state) + SPARE + self.to_move();
        let free = segments.free().saturating_sub(kept) as u64 * self.filled();
        // Segments that happen to be fuller than that may not stay so when what they hold is written over.
        let (total, used) = segments.usage(self.filled(), self.kept_back(state));
        // Segments of tables may be half full, of whole ones with parity still less is used; and what came was not
        // settled yet.
        let tables = state.table_bytes().saturating_mul(u64::from(self.shape.copies));
        let slack = (self.to_move() + CAME) as u64 * self.shape.segment_room;
        self.free.store(free, Ordering::Release);
        self.left.store(total - used, Ordering::Release);
        self.slack.store(slack.saturating_add(tables), Ordering::Release);
    }

    /// As [`TO_MOVE`], where there is such moving.
    fn to_move(&self) -> usize {
        if self.migrates() { TO_MOVE } else { 0 }
    }

    /// Segments' worth of bytes that are kept back for settling, and because somebody wanted it so. Only those for
    /// settling must be free segments: what is wanted besides lies wherever something is dead, and so room is made with
    /// less.
    pub(crate) fn kept_back(&self, state: &State) -> usize {
        let wanted = self.shape().reserve.div_ceil(self.shape.segment_room);
        self.reserve(state) + usize::try_from(wanted).unwrap_or(usize::MAX)
    }

    /// Free segments that a commit leaves to settling: as many as [`reserve`](Self::reserve) says, but in need.
    pub(crate) fn left_to_settling(&self, state: &State) -> usize {
        let kept = self.reserve(state);
        let in_need = self.in_need.load(Ordering::Acquire);
        if in_need { kept.saturating_sub(LAST).max(LAST_LEFT.min(kept)) } else { kept }
    }

    /// Does this where nothing else makes room for what was admitted: without it nothing could be taken away either,
    /// and the volume would stay as full as it is for ever. Who else commits meanwhile was admitted as well.
    pub(crate) fn in_need<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<R> {
        self.in_need.store(true, Ordering::Release);
        self.look_again();
        let done = work();
        self.in_need.store(false, Ordering::Release);
        done
    }

    /// Bytes that one commit may still lay down where there is no room: of what is kept back, one segment is for what
    /// follows.
    pub(crate) fn spare(&self) -> u64 {
        let state = self.state();
        let free = self.segments().free().saturating_sub(self.reserve(&state) + 1);
        free.min(SPARE) as u64 * self.filled()
    }

    /// Bytes of rows that one commit may have, where there is room for them twice beside all else, and where there is
    /// not: then they go into what is kept back.
    #[must_use]
    pub(crate) fn rows_room(&self, has_room: bool) -> u64 {
        if has_room && self.shape.copies == 1 {
            return ROWS_LEN;
        }
        self.shape.segment_room.min(ROWS_LEN)
    }

    /// Makes room for so many bytes, as far as that can be done.
    ///
    /// # Errors
    /// What the device says; that there is not as much is no error.
    pub fn reclaim(&self, wanted: u64) -> Result<()> {
        self.writable()?;
        let mut log = self.log();
        self.settle_for(&mut log, wanted, 0)?;
        self.move_for(&mut log, wanted)
    }

    /// The same beside so many bytes that are to have room later. Where there is less, nothing is moved for it. What
    /// there is nobody has as long as the log is held.
    ///
    /// # Errors
    /// As [`reclaim`](Self::reclaim).
    pub(crate) fn reclaim_beside(&self, wanted: u64, promised: u64) -> Result<MutexGuard<'_, Log>> {
        self.writable()?;
        let mut log = self.log();
        self.settle_for(&mut log, wanted, promised)?;
        if !self.is_short(wanted, promised) {
            self.move_for(&mut log, wanted)?;
        }
        Ok(log)
    }

    /// Whether there is less, wherever it lies.
    pub(crate) fn is_short(&self, wanted: u64, promised: u64) -> bool {
        self.left.load(Ordering::Acquire).saturating_sub(promised) < wanted
    }

    /// Settles all that came, as tables may take less then, and less is kept back for them.
    fn settle_for(&self, log: &mut Log, wanted: u64, promised: u64) -> Result<()> {
        let sought = wanted.saturating_add(promised);
        let in_vain = || self.settled_in_vain.still(sought, self.dead(), self.worth_it());
        if !self.is_short(wanted, promised) || !self.settling_helps() && in_vain() {
            return Ok(());
        }
        self.prepare(log)?;
        as_far_as_can_be(self.settle_all(log))?;
        self.settled_in_vain.note(self.is_short(wanted, promised), sought, self.dead());
        Ok(())
    }

    /// Empties segments of which little is needed.
    fn move_for(&self, log: &mut Log, wanted: u64) -> Result<()> {
        let in_vain = || self.moved_in_vain.still(wanted, self.dead(), self.worth_it());
        if self.free_room() >= wanted || in_vain() {
            return Ok(());
        }
        self.prepare(log)?;
        // What nobody needs any more is had for two roots; all else takes whole rounds of settling.
        self.give_back_for(log, wanted);
        if self.free_room() >= wanted {
            return Ok(());
        }
        self.moments.let_go();
        self.forget_moved(log);
        as_far_as_can_be(self.reclaim_all(log, wanted))?;
        self.moved_in_vain.note(self.free_room() < wanted, wanted, self.dead());
        Ok(())
    }

    /// What there is room for may be another: it is worth looking for more.
    pub(crate) fn look_again(&self) {
        self.moved_in_vain.forget();
        self.settled_in_vain.forget();
    }

    /// Bytes of segments that nobody needs.
    fn dead(&self) -> u64 {
        let segments = self.segments();
        let rows = segments.rows().iter();
        let used = rows.filter(|row| {
            matches!(row.condition, Condition::Log | Condition::Tables | Condition::Moved)
        });
        used.map(|row| self.shape.segment_room.saturating_sub(row.live)).sum()
    }

    /// How much more must be dead after room was looked for in vain before it is looked for again.
    fn worth_it(&self) -> u64 {
        let room = self.shape.segment_room;
        (room / 64).max(TRY_LEN.min(room / 2))
    }

    fn reclaim_all(&self, log: &mut Log, wanted: u64) -> Result<()> {
        // The log is short then, and what nobody needs in it is free.
        self.settle_all(log)?;
        let enough = wanted.max(self.enough_to_go_on());
        let (mut least, mut vain) = (u64::MAX, 0);
        while self.free_room() < enough && vain < VAIN_MAX {
            self.round(log, u64::MAX, 0)?;
            self.settle_all(log)?;
            let needless = self.needless(log);
            vain = if needless < least { 0 } else { vain + 1 };
            least = least.min(needless);
        }
        Ok(())
    }

    /// Room with which commits go on to make more by themselves, of what there can be at all: with less, what they move
    /// has nowhere to go, and each of them would come here.
    fn enough_to_go_on(&self) -> u64 {
        if !self.migrates() {
            return 0;
        }
        let (total, used) = self.usage();
        ((total - used) / 2).min((TO_GO_ON - self.to_move()) as u64 * self.filled())
    }

    /// Bytes that can be used besides what is kept back, and of these what somebody needs.
    pub(crate) fn usage(&self) -> (u64, u64) {
        let kept = self.kept_back(&self.state());
        self.segments().usage(self.filled(), kept)
    }

    /// One round, where there is little room and commits do not make any by themselves: so that it is made while others
    /// write, and not all at once. What it moves is bounded, and must be worth it.
    ///
    /// # Errors
    /// What the device says.
    pub fn reclaim_in_time(&self) -> Result<()> {
        let stretches = u64::from(self.shape().segments());
        if self.is_writable()
            && !self.migrates()
            && self.room() < stretches / 16 * self.shape.segment_room
        {
            let mut log = self.log();
            self.prepare(&mut log)?;
            let segment = self.shape.segment_room;
            match self.round(&mut log, BUDGET * segment, segment) {
                Err(Error::NoSpace) => {}
                done => done?,
            }
        }
        Ok(())
    }

    /// Bytes in segments of blocks that nobody needs.
    fn needless(&self, log: &Log) -> u64 {
        let segments = self.segments();
        let blocks = |row: &&Segment| matches!(row.condition, Condition::Log | Condition::Moved);
        let sealed = segments.rows().iter().filter(blocks);
        let sealed = sealed.filter(|row| !log.since.contains(&row.physical));
        sealed.map(|row| self.shape.segment_room.saturating_sub(row.live)).sum()
    }

    /// Empties a few segments by moving at most so many bytes, and settles on; unless less is gained.
    fn round(&self, log: &mut Log, budget: u64, least: u64) -> Result<()> {
        let worth = if least > 0 { WORTH } else { WORTH_LAST };
        let (blocks, gain) = self.to_carry(log, budget, worth)?;
        if gain < least {
            return Ok(());
        }
        if !blocks.is_empty() {
            self.write(log, &Carried { blocks, all: false }, |show| show())?;
        }
        self.settle(log)
    }

    /// Blocks of the segments of which least is needed, as many as surely fit; and the bytes that are gained.
    fn to_carry(&self, log: &Log, budget: u64, worth: u64) -> Result<(Vec<BlockName>, u64)> {
        let state = self.state();
        let since: BTreeSet<_> = log.since.iter().copied().chain([log.physical]).collect();
        let (mut by_need, mut fits, mut gain) = {
            let segments = self.segments();
            let room = self.shape.segment_room;
            let free = segments.free().saturating_sub(self.left_to_settling(&state) + 1);
            let sealed = segments.rows().iter().filter(|row| {
                let few = row.live > 0 && row.live < room / 64 * worth;
                // The log is needed itself as long as it is not settled.
                matches!(row.condition, Condition::Log | Condition::Moved)
                    && !since.contains(&row.physical)
                    && !log.moving.done.contains(&row.number)
                    && few
            });
            let all: Vec<_> = sealed.map(|row| (row.live, row.number)).collect();
            // They are free once it was settled.
            let dead = idle(&segments, &since).len() as u64 * room;
            (all, budget.min(free as u64 * self.filled()), dead)
        };
        by_need.sort_unstable();
        let mut victims = BTreeSet::new();
        for (live, number) in by_need {
            if live > fits {
                break;
            }
            fits -= live;
            gain += self.shape.segment_room - live;
            victims.insert(number);
        }
        Ok((self.stack(&state).blocks_in(&victims)?, gain))
    }
}

impl<D: Device> Stack<'_, D> {
    /// Blocks that somebody needs and that lie in one of these segments, wherever they were born.
    pub(crate) fn blocks_in(&self, segments: &BTreeSet<u64>) -> Result<Vec<BlockName>> {
        let mut known = BTreeSet::new();
        let state = self.state;
        for &segment in segments {
            known.extend(self.born_in(segment)?);
        }
        self.leaves_from(&key::block(kind::MOVE, 0, 0), &mut |leaf| match leaf {
            Leaf::Moves(rows) => {
                let here = rows.iter().filter(|row| segments.contains(&row.to));
                known.extend(here.map(|row| row.block));
                true
            }
            _ => false,
        })?;
        for own in state.news() {
            let moved = own.moves.values().filter(|row| segments.contains(&row.to));
            known.extend(moved.map(|row| row.block));
        }
        let mut found = Vec::new();
        for block in known {
            if self.refs(block)?.bytes > 0 {
                let (segment, at) = self.whereabouts(block, &self.block_row(block)?)?;
                if segments.contains(&segment) {
                    found.push((segment, at, block));
                }
            }
        }
        // In the order in which they lie, so that they are read and laid down so.
        found.sort_unstable_by_key(|&(segment, at, _)| (segment, at));
        Ok(found.into_iter().map(|(.., block)| block).collect())
    }
}

/// That there is not as much room is no error.
fn as_far_as_can_be(done: Result<()>) -> Result<()> {
    match done {
        Err(Error::NoSpace) => Ok(()),
        done => done,
    }
}
