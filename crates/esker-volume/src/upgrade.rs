//! What a volume lacks that one made by this version has, and giving it that: parts that lie across no page, deltas,
//! blocks that count by pieces, names that are stored once, and a second copy of what names everything.
//!
//! Above: verbs. Below: `settle`, `log`. Invariant: each step is a commit or one superblock, and nothing that the
//! newest superblock or the one before it needs is written over: cut anywhere, the volume is what it was or what it
//! is to be.

use std::sync::PoisonError;

use esker_stone::rows::tables::TableRow;

use crate::commit::{Sink, Source};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::limits::{COPIES_MAX, SPARE, SUPERBLOCK_STEP};
use crate::log::Log;
use crate::merge::Fresh;
use crate::mkfs::{begins_at_pages, suffices};
use crate::parity::parity_len;
use crate::part::PartHead;
use crate::room::Carried;
use crate::rows::Numbers;
use crate::segments::{Condition, Physical, Segment};
use crate::settle::{Settling, Step, range};
use crate::stack::State;
use crate::superblock::{DELTAS, NAMES, PAGES, PIECES, Superblock};
use crate::volume::Volume;

/// The first stretch that never holds superblocks.
const HOMES_END: Physical = Physical(2 * COPIES_MAX);
/// Tries to empty the stretches of the second copy. Two superblocks make one free, and the log leads out of any that it
/// names in four commits.
const TRIES: usize = 4;
/// The same for leading the log out.
const COMMITS: usize = 4;

/// What a volume would get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Upgrade {
    /// Parts of the log that lie across no page of flash.
    pub pages: bool,
    /// Blocks that are stored as what differs from others.
    pub deltas: bool,
    /// Blocks that are needed for what is left of them, and no more.
    pub pieces: bool,
    /// Names that are stored once, and listings without rows of their own.
    pub names: bool,
    /// A second copy of the superblock, and parity behind tables.
    pub second_copy: bool,
}

impl Upgrade {
    /// Whether it is anything at all.
    #[must_use]
    pub const fn is_any(&self) -> bool {
        self.pages || self.deltas || self.pieces || self.names || self.second_copy
    }
}

/// A commit that changes nothing.
struct Same(Numbers);

impl Source for Same {
    fn tell(&self, to: &mut dyn Sink) -> Result<()> {
        to.numbers(self.0);
        Ok(())
    }
}

/// A flag, if it is to be set.
const fn of(is: bool, flag: u64) -> u64 {
    if is { flag } else { 0 }
}

/// Whether a stretch is one of superblocks, where there are two copies.
fn is_home(physical: Physical) -> bool {
    physical < HOMES_END
}

impl<D: Device> Volume<D> {
    /// What it would get from this version; a second copy only where `copies` asks for that.
    ///
    /// # Errors
    /// `Setting` for what its device does not allow.
    pub fn lacks(&self, copies: Option<u32>) -> Result<Upgrade> {
        let (shape, geometry) = (self.shape(), self.device.geometry());
        let second_copy = copies.is_some_and(|copies| copies > shape.copies);
        if copies.is_some_and(|copies| !(shape.copies..=COPIES_MAX).contains(&copies)) {
            return Err(Error::Setting("a second copy is not taken away again"));
        }
        if second_copy {
            suffices(&geometry, COPIES_MAX)?;
        }
        let pages = shape.incompatible & PAGES == 0 && begins_at_pages(shape.unit, &geometry);
        let deltas = shape.incompatible & DELTAS == 0;
        let pieces = shape.incompatible & PIECES == 0;
        let names = shape.incompatible & NAMES == 0;
        Ok(Upgrade { pages, deltas, pieces, names, second_copy })
    }

    /// Gives it this. It is safe then, and closed.
    ///
    /// # Errors
    /// `NoSpace`, `Setting`: it is what it was. What the device says: it may be either, and is written no more.
    pub fn upgrade(&mut self, what: Upgrade) -> Result<()> {
        self.writable()?;
        if !what.is_any() {
            return Ok(());
        }
        if what.second_copy {
            self.vacate()?;
        }
        let done = self.raise(what);
        if done.is_err() {
            // What is in memory is of the new shape, and what is on the device may not be.
            self.stop();
        }
        done?;
        self.close()
    }

    /// Empties the stretches of the second copy.
    fn vacate(&self) -> Result<()> {
        let failed = |row: &Segment| is_home(row.physical) && row.condition == Condition::Bad;
        if self.segments().rows().iter().any(failed) {
            return Err(Error::Setting("a stretch has failed that the second copy needs"));
        }
        self.segments_mut().bar(HOMES_END);
        // Tables are written anew, and what lies in the stretches.
        let cost = self.raised_len(&self.state());
        self.reclaim(cost.saturating_mul(2).saturating_add(4 * self.shape.segment_room))?;
        let mut log = self.log();
        self.prepare(&mut log)?;
        for _ in 0..TRIES {
            self.settle_all(&mut log)?;
            if self.is_vacant() {
                return self.has_room_for(self.raised_len(&self.state()));
            }
            self.lead_out(&mut log)?;
            self.carry_out(&mut log)?;
            let numbers: Vec<_> = self.in_homes().map(|row| row.number).collect();
            let is_there = |table: &TableRow| numbers.contains(&table.top.page.segment);
            self.settle_all(&mut log)?;
            self.settle_by(&mut log, &mut |settling, state, _| settling.anew(state, &is_there))?;
        }
        Err(Error::NoSpace)
    }

    /// The stretches of the second copy that somebody uses.
    fn in_homes(&self) -> impl Iterator<Item = Segment> + use<D> {
        let free = |row: &Segment| matches!(row.condition, Condition::Home | Condition::Free);
        let rows = self.segments().rows().to_vec();
        rows.into_iter().filter(move |row| is_home(row.physical) && !free(row))
    }

    fn is_vacant(&self) -> bool {
        self.in_homes().next().is_none()
    }

    /// Has the log go on elsewhere. It goes on only where its last part says, and so with a commit each time.
    fn lead_out(&self, log: &mut Log) -> Result<()> {
        for _ in 0..COMMITS {
            if !is_home(log.physical) && !log.next.into_iter().any(is_home) {
                break;
            }
            let [next, spare] = log.next;
            let ways = if is_home(spare) { (spare, Some(next)) } else { (next, Some(spare)) };
            self.go_on(log, ways, 0)?;
            let numbers = self.state().numbers;
            self.write(log, &Same(numbers), |show| show())?;
        }
        Ok(())
    }

    /// Moves blocks out.
    fn carry_out(&self, log: &mut Log) -> Result<()> {
        let blocks = |row: &Segment| matches!(row.condition, Condition::Log | Condition::Moved);
        let from = self.in_homes().filter(|row| blocks(row) && !log.since.contains(&row.physical));
        let from = from.map(|row| row.number).collect();
        let found = self.stack(&self.state()).blocks_in(&from)?;
        if found.is_empty() {
            return Ok(());
        }
        self.write(log, &Carried { blocks: found, all: true }, |show| show())
    }

    /// Bytes of all tables with their parity.
    fn raised_len(&self, state: &State) -> u64 {
        let tables = state.tables.iter().chain(&state.kept);
        let own = |table: &TableRow| {
            // Earlier versions counted pages alone, without the head and what fills the unit.
            let part = self.padded(PartHead::SIZE).saturating_add(table.bytes);
            part.saturating_add(parity_len(part))
        };
        tables.map(own).fold(0, u64::saturating_add)
    }

    /// Whether so many bytes of tables fit beside what is kept back, and what is kept back for them.
    fn has_room_for(&self, bytes: u64) -> Result<()> {
        let kept = (self.reserve(&self.state()) + SPARE) as u64;
        // Half of them once more is kept back for settling from then on. What is left of a segment is used on.
        let more = (bytes + bytes / 2).div_ceil(self.filled()).saturating_add(1);
        let fits = self.segments().free() as u64 >= kept.saturating_add(more);
        if fits { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// Writes superblocks that say it: two, so that the one before the newest does, too.
    fn raise(&mut self, what: Upgrade) -> Result<()> {
        self.prepare(&mut self.log())?;
        let to = |old: &Superblock| Superblock {
            incompatible: old.incompatible
                | of(what.pages, PAGES)
                | of(what.deltas, DELTAS)
                | of(what.pieces, PIECES)
                | of(what.names, NAMES),
            copies: if what.second_copy { COPIES_MAX } else { old.copies },
            ..*old
        };
        let homes = self.shape.homes();
        self.shape = to(&self.shape);
        let now = to(&self.shape());
        *self.altered.write().unwrap_or_else(PoisonError::into_inner) = now;
        let mut log = self.log();
        log.superblock = to(&log.superblock);
        if let Some(round) = &mut log.round {
            round.begin = to(&round.begin);
        }
        if what.second_copy {
            for home in homes..now.homes() {
                self.make_home(Physical(home))?;
            }
            self.device.flush()?;
            self.settle_by(&mut log, &mut |settling, state, _| settling.anew(state, &|_| true))?;
        } else {
            self.retell(&mut log)?;
        }
        self.retell(&mut log)?;
        if what.second_copy { self.forget_single(&log) } else { Ok(()) }
    }

    /// Superblocks that say that there is one copy are taken away: whoever finds one first would not look for the
    /// others.
    fn forget_single(&self, log: &Log) -> Result<()> {
        if self.device.geometry().zones.is_some() {
            // They went on in the other stretch of each pair, since the zone of the second copy was empty.
            let old = self.place(Physical(1 - log.safe_home));
            self.device.discard(old, self.shape.segment_len)?;
            return Ok(self.device.flush()?);
        }
        let zeros = vec![0; SUPERBLOCK_STEP as usize];
        for (home, step) in
            (0..2).flat_map(|home| (0..self.shape.steps()).map(move |at| (home, at)))
        {
            let at = self.place(Physical(home)) + step * SUPERBLOCK_STEP;
            let mut bytes = [0; Superblock::SIZE];
            self.device.read(at, &mut bytes)?;
            if Superblock::parse(&bytes).is_ok_and(|found| found.copies < COPIES_MAX) {
                self.device.write(at, &zeros)?;
            }
        }
        Ok(self.device.flush()?)
    }

    /// A free stretch is to hold superblocks: whatever was there does not count any more.
    fn make_home(&self, physical: Physical) -> Result<()> {
        let at = self.place(physical);
        if self.device.geometry().zones.is_some() {
            self.device.discard(at, self.shape.segment_len)?;
        } else {
            let zeros = vec![0; (self.shape.steps() * SUPERBLOCK_STEP) as usize];
            self.device.write(at, &zeros)?;
        }
        self.segments_mut().set(physical, Condition::Home);
        Ok(())
    }
}

impl<D: Device> Settling<'_, D> {
    /// Writes all of these tables again in one step, those that only snapshots have as well, and lays into all others
    /// what came.
    fn anew(&mut self, state: &State, goes: &dyn Fn(&TableRow) -> bool) -> Result<Step> {
        let fresh = Fresh::new(&state.settling);
        let mut step = Step::of(state);
        if state.tables.is_empty() {
            self.merge(state, 0..0, &state.settling, &mut step.tables)?;
        }
        for (at, table) in state.tables.iter().enumerate() {
            let touched = fresh.touches(&range(state, at));
            if !touched && !goes(table) {
                step.tables.push(table.clone());
                continue;
            }
            let first = step.tables.len();
            self.merge(state, at..at + 1, &state.settling, &mut step.tables)?;
            if !touched {
                // Then a snapshot has those that were written now.
                step.shared.moved(table, &step.tables[first..]);
            }
            step.shared.replaced(table, &mut step.old);
        }
        self.move_kept(&mut step, goes)?;
        step.shared.sort();
        Ok(step)
    }
}
