//! Snapshots: what the volume was like at moments that have a name.
//!
//! Above: homes, verbs. Below: `settle`, `commit`. Tables are never changed, only replaced, so a snapshot is the
//! tables of its moment: [`Shared`] keeps those that are replaced as long as a snapshot has them. Blocks are one
//! index for all: a block that the last file gives up stays if it was there at the moment of a snapshot, with the
//! commit since when no file names it.
//! Invariant: a block is kept if and only if the moment of some snapshot lies between when it came and when the
//! last file gave it up; a snapshot that is listed shows all that it had. A block that was kept may be named again, by
//! going back, by a clone, or since equal bytes came: then also those keep it that were made while no file named it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

use esker_stone::key::{self, kind};
use esker_stone::rows::extents::BlockName;
use esker_stone::rows::snapshots::{SnapshotRow, is_name};
use esker_stone::rows::tables::TableRow;

use crate::commit::{Sink, Source};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::leaf::Leaf;
use crate::limits::{SNAPSHOTS_MAX, SPARE};
use crate::log::Log;
use crate::part::PartHead;
use crate::root;
use crate::rows::{Numbers, Refs};
use crate::rules::{Occasion, Rules};
use crate::segments::Segments;
use crate::stack::{Stack, State};
use crate::volume::Volume;

/// Blocks that one commit sweeps away, at most, but for the last leaf of them.
const SWEPT: usize = 1024;
/// Rows of blocks that are looked at while others wait, at most, but for the last leaf of them.
const LOOKED: usize = 16 << 10;
/// Bytes of a table's rows in the root, at most, but for its key.
const ROW_LEN: usize = 160;
/// Bytes of the root for what else may come: names of snapshots, rows of more tables.
const ROOT_SPARE: usize = 8 << 10;

/// Why something could not be done with a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// No snapshot can be called so.
    Name,
    /// One is called so.
    Exists,
    /// None is called so.
    Missing,
    /// There are as many as there can be.
    TooMany,
    /// What changes after it might not find room.
    NoRoom,
    /// Something was copied from it that is not written yet.
    Lent,
    /// The volume says no.
    Volume(Error),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str("a name has 1 to 64 letters, digits and ._:-"),
            Self::Exists => f.write_str("there is a snapshot of this name"),
            Self::Missing => f.write_str("there is no snapshot of this name"),
            Self::TooMany => write!(f, "there are {SNAPSHOTS_MAX} snapshots already"),
            Self::NoRoom => f.write_str("no room for what changes after a snapshot"),
            Self::Lent => f.write_str("what is copied from the snapshot is not written yet"),
            Self::Volume(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SnapshotError {}

impl From<Error> for SnapshotError {
    fn from(error: Error) -> Self {
        Self::Volume(error)
    }
}

/// What deleting a snapshot gives back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Stored bytes of blocks that nothing else has.
    pub blocks: u64,
    /// Bytes of tables that nothing else has.
    pub tables: u64,
}

/// Where a table lies.
pub(crate) const fn place(table: &TableRow) -> (u64, u64) {
    (table.top.page.segment, table.top.page.at)
}

/// Whether a table has rows that snapshots need: blocks are not of any snapshot.
pub(crate) fn is_shared(table: &TableRow) -> bool {
    table.key.first().is_none_or(|&own| own < kind::REFS)
}

impl State {
    /// The snapshots that were made while a block was there: from when it came until before this commit.
    fn holders(&self, block: BlockName, until: u64) -> std::ops::Range<usize> {
        let first = self.snapshots.partition_point(|row| row.blocks <= block);
        first..self.snapshots.partition_point(|row| row.sequence < until).max(first)
    }

    /// Whether a snapshot needs a block that no file names since this commit.
    pub(crate) fn needs(&self, block: BlockName, since: u64) -> bool {
        !self.holders(block, since).is_empty()
    }

    /// Whether a snapshot needs a block that some file named until now.
    pub(crate) fn needs_now(&self, block: BlockName) -> bool {
        self.needs(block, u64::MAX)
    }

    /// Bytes of tables that may still be written a second time, since snapshots have them.
    pub(crate) fn shared_bytes(&self) -> u64 {
        if self.since.is_empty() {
            return 0;
        }
        let shared = self.tables.iter().filter(|table| self.since.contains_key(&place(table)));
        shared.map(|table| table.bytes).fold(0, u64::saturating_add)
    }

    /// Bytes of all tables, with those that only snapshots have.
    pub(crate) fn table_bytes(&self) -> u64 {
        let tables = self.tables.iter().chain(&self.kept);
        tables.map(|table| table.bytes).fold(0, u64::saturating_add)
    }

    /// Tables, as a snapshot has them.
    pub(crate) fn seen_by(&self, row: &SnapshotRow) -> Self {
        let has = |table: &&TableRow| {
            let since = self.since.get(&place(table)).is_some_and(|&first| first <= row.sequence);
            since && (table.layer == 0 || row.sequence <= table.layer)
        };
        let own = |table: &TableRow| TableRow { layer: 0, ..table.clone() };
        let mut tables: Vec<_> =
            self.tables.iter().chain(&self.kept).filter(has).map(own).collect();
        tables.sort_by(|one, two| one.key.cmp(&two.key));
        let (next_ino, inodes, next_place) = (row.next_ino, row.inodes, row.next_place);
        let numbers = Numbers { next_ino, inodes, next_place };
        Self { tables, numbers, version: self.version, ..Self::default() }
    }
}

/// Tables that snapshots have, while a step of settling lays tables anew.
pub(crate) struct Shared {
    /// As in [`State::kept`].
    pub kept: Vec<TableRow>,
    /// As in [`State::since`].
    pub since: BTreeMap<(u64, u64), u64>,
    newest: u64,
}

impl Shared {
    /// What snapshots have; `old` is given what none has any more.
    pub fn of(state: &State, old: &mut Vec<TableRow>) -> Self {
        let all = &state.snapshots;
        let newest = all.last().map_or(0, |row| row.sequence);
        let first_from = |first: u64| {
            let at = all.partition_point(|row| row.sequence < first);
            all.get(at).map(|row| row.sequence)
        };
        let mut own = Self { kept: Vec::new(), since: BTreeMap::new(), newest };
        for table in &state.tables {
            let first = state.since.get(&place(table)).and_then(|&first| first_from(first));
            own.since.extend(first.map(|first| (place(table), first)));
        }
        for table in &state.kept {
            let first = state.since.get(&place(table)).and_then(|&first| first_from(first));
            let last = all.partition_point(|row| row.sequence <= table.layer);
            let last = last.checked_sub(1).and_then(|at| all.get(at)).map(|row| row.sequence);
            match (first, last) {
                (Some(first), Some(layer)) if first <= layer => {
                    own.since.insert(place(table), first);
                    own.kept.push(TableRow { layer, ..table.clone() });
                }
                _ => old.push(table.clone()),
            }
        }
        own
    }

    /// Others took the place of a settled table; `old` is given it unless a snapshot has it.
    pub fn replaced(&mut self, table: &TableRow, old: &mut Vec<TableRow>) {
        if self.since.contains_key(&place(table)) {
            self.kept.push(TableRow { layer: self.newest, ..table.clone() });
        } else {
            old.push(table.clone());
        }
    }

    /// The rows of a table lie in others now.
    pub fn moved(&mut self, from: &TableRow, to: &[TableRow]) {
        if let Some(first) = self.since.remove(&place(from)) {
            self.since.extend(to.iter().map(|table| (place(table), first)));
        }
    }

    /// In the order of their layers and keys.
    pub fn sort(&mut self) {
        self.kept.sort_by(|one, two| (one.layer, &one.key).cmp(&(two.layer, &two.key)));
    }
}

/// Blocks that nothing needs.
struct Swept(Vec<BlockName>);

impl Source for Swept {
    fn tell(&self, to: &mut dyn Sink) -> Result<()> {
        self.0.iter().try_for_each(|&block| to.sweep(block))
    }
}

impl<D: Device> Stack<'_, D> {
    /// Some of the blocks from one on that no file names, for `each`; where to go on.
    fn unnamed(&self, from: BlockName, each: &mut dyn FnMut(&Refs)) -> Result<Option<BlockName>> {
        let mut all = Vec::new();
        let (mut next, mut looked, mut stopped) = (None, 0, false);
        self.leaves_from(&key::block(kind::REFS, from.segment, from.slot), &mut |leaf| {
            let Leaf::Refs(rows) = leaf else { return leaf.kind() < kind::REFS };
            let behind = rows.iter().filter(|row| row.block >= from);
            all.extend(behind.filter(|row| row.unnamed_since().is_some()).map(|row| row.block));
            next = rows
                .last()
                .map(|row| BlockName { slot: row.block.slot.saturating_add(1), ..row.block });
            looked += rows.len();
            stopped = all.len() >= SWEPT || looked >= LOOKED;
            !stopped
        })?;
        let next = next.filter(|_| stopped);
        for own in self.state.news() {
            let to = next.unwrap_or(BlockName { segment: u64::MAX, slot: u32::MAX });
            let range = if from < to { Some(own.refs.range(from..to)) } else { None };
            let rows = range.into_iter().flatten();
            all.extend(rows.map(|(&block, _)| block));
        }
        all.sort_unstable();
        all.dedup();
        for block in all {
            let row = self.refs(block)?;
            if row.unnamed_since().is_some() {
                each(&row);
            }
        }
        Ok(next)
    }
}

impl<D: Device> Volume<D> {
    /// All snapshots, the oldest first.
    #[must_use]
    pub fn snapshots(&self) -> Vec<SnapshotRow> {
        self.state().snapshots.clone()
    }

    /// The snapshot of this name.
    ///
    /// # Errors
    /// `Missing`.
    pub fn snapshot(&self, name: &str) -> std::result::Result<SnapshotRow, SnapshotError> {
        let state = self.state();
        let found = state.snapshots.iter().find(|row| row.name == name.as_bytes());
        found.cloned().ok_or(SnapshotError::Missing)
    }

    /// Makes a snapshot of what was committed. It is safe then.
    ///
    /// # Errors
    /// `Name`, `Exists`, `TooMany`, `NoRoom`; what the device says.
    pub fn create_snapshot(&self, name: &str) -> std::result::Result<(), SnapshotError> {
        self.create_snapshot_beside(name, None, &|| 0)
    }

    /// The same for a rule, beside so many bytes that are to have room later, asked while nobody writes.
    ///
    /// # Errors
    /// As [`create_snapshot`](Self::create_snapshot).
    pub fn create_snapshot_beside(
        &self,
        name: &str,
        occasion: Option<Occasion>,
        beside: &dyn Fn() -> u64,
    ) -> std::result::Result<(), SnapshotError> {
        let mut log = self.log_for_another(name)?;
        if !self.has_room_for_another(beside()) {
            drop(log);
            drop(self.reclaim_beside(self.room_for_another(), self.kept_beside_new(beside()))?);
            log = self.log_for_another(name)?;
            if !self.has_room_for_another(beside()) {
                return Err(SnapshotError::NoRoom);
            }
        }
        let last = log.sequence;
        let newest = self.state().snapshots.last().map_or(0, |row| row.sequence);
        if newest >= log.sequence {
            // Snapshots are told apart by the last commit that they have: this one has one that says nothing.
            log.tried += 1;
            log.sequence = log.tried;
        }
        let before = self.told();
        {
            let mut state = self.state_mut();
            let sequence = log.sequence;
            let Numbers { next_ino, inodes, next_place } = state.numbers;
            let blocks = BlockName { segment: log.segment, slot: log.slot };
            let (time, name) = ((self.now)(), name.as_bytes().to_vec());
            let tables: Vec<_> =
                state.tables.iter().filter(|table| is_shared(table)).map(place).collect();
            for place in tables {
                state.since.entry(place).or_insert(sequence);
            }
            let row = SnapshotRow { sequence, time, next_ino, inodes, next_place, blocks, name };
            state.snapshots.push(row);
            state.made.extend(occasion.map(|occasion| (sequence, occasion)));
            state.version += 1;
        }
        let told = self.tell_snapshots(&mut log, before);
        if told.is_err() {
            // Nothing may say that a commit was safe that is nowhere.
            (log.sequence, log.round) = (last, None);
        }
        Ok(told?)
    }

    /// Takes a snapshot away, and frees what only it needed. Once this returns well both are safe; once the first
    /// root without it is, the rest is done whenever the volume is open for writing. A home above it deletes by
    /// [`Kept::delete_snapshot`](crate::Kept::delete_snapshot), which is never told `Lent` for what it has itself.
    ///
    /// # Errors
    /// `Missing`, `Lent`; what the device says.
    pub fn delete_snapshot(&self, name: &str) -> std::result::Result<(), SnapshotError> {
        self.delete_if(|row, _| row.name == name.as_bytes())
    }

    /// Takes away a snapshot that a rule has made: this one, and not another that somebody has made since under its
    /// name.
    ///
    /// # Errors
    /// As [`delete_snapshot`](Self::delete_snapshot).
    pub fn delete_ruled(&self, ruled: &SnapshotRow) -> std::result::Result<(), SnapshotError> {
        // Of the same name and the same commit, too, one may have been made by hand meanwhile.
        self.delete_if(|row, made| {
            made.is_some() && (row.sequence, &row.name) == (ruled.sequence, &ruled.name)
        })
    }

    /// Takes away the first snapshot of which this is true, told the rule that has made it.
    fn delete_if(
        &self,
        is_it: impl Fn(&SnapshotRow, Option<Occasion>) -> bool,
    ) -> std::result::Result<(), SnapshotError> {
        self.writable()?;
        {
            let mut log = self.log();
            let sequence = {
                let state = self.state();
                let made = |row: &SnapshotRow| state.made.get(&row.sequence).copied();
                let found = state.snapshots.iter().find(|row| is_it(row, made(row)));
                found.map(|row| row.sequence).ok_or(SnapshotError::Missing)?
            };
            let _leaving = self.shelf.leave(sequence).ok_or(SnapshotError::Lent)?;
            self.prepare(&mut log)?;
            let before = self.told();
            {
                let mut state = self.state_mut();
                state.snapshots.retain(|row| row.sequence != sequence);
                state.made.remove(&sequence);
                state.sweeping = true;
                state.version += 1;
            }
            self.tell_snapshots(&mut log, before)?;
            self.deleted.fetch_add(1, Ordering::AcqRel);
        }
        // It is gone. What cannot be freed now is freed when the volume is opened again.
        let _ = self.sweep();
        Ok(())
    }

    /// What of the state says which snapshots there are.
    fn told(&self) -> State {
        let state = self.state();
        State {
            snapshots: state.snapshots.clone(),
            since: state.since.clone(),
            sweeping: state.sweeping,
            rules: state.rules.clone(),
            made: state.made.clone(),
            ..State::default()
        }
    }

    /// The rules for snapshots.
    #[must_use]
    pub fn rules(&self) -> Rules {
        self.state().rules.clone()
    }

    /// All snapshots, the oldest first, with the occasion of the rule that has made them, if one has.
    #[must_use]
    pub fn snapshots_made(&self) -> Vec<(SnapshotRow, Option<Occasion>)> {
        let state = self.state();
        let made = |row: &SnapshotRow| state.made.get(&row.sequence).copied();
        state.snapshots.iter().map(|row| (row.clone(), made(row))).collect()
    }

    /// Other rules for snapshots. They are safe then; what they made before stays.
    ///
    /// # Errors
    /// What the device says.
    pub fn set_rules(&self, rules: &Rules) -> Result<()> {
        rules.check().map_err(|_| Error::Setting("rules contradict each other"))?;
        self.writable()?;
        let mut log = self.log();
        self.prepare(&mut log)?;
        let before = self.told();
        self.state_mut().rules = rules.clone();
        self.tell_snapshots(&mut log, before)
    }

    /// Writes which snapshots there are, twice: so the superblock before the newest knows it too. Where that
    /// cannot be, all is as it was `before`.
    fn tell_snapshots(&self, log: &mut Log, before: State) -> Result<()> {
        self.look_again();
        let generation = log.superblock.generation;
        let Err(error) = self.settle(log) else {
            // It is so already; this is for the day when the newest superblock is damaged.
            let _ = self.settle(log);
            return Ok(());
        };
        {
            let mut state = self.state_mut();
            let State { snapshots, since, sweeping, rules, made, .. } = before;
            (state.snapshots, state.since, state.sweeping) = (snapshots, since, sweeping);
            (state.rules, state.made) = (rules, made);
            state.version += 1;
        }
        // A superblock that could not be written may be there all the same.
        if log.superblock.generation != generation {
            self.stop();
        }
        Err(error)
    }

    /// The log, with all that was committed in tables, where a snapshot may be called so.
    fn log_for_another(
        &self,
        name: &str,
    ) -> std::result::Result<MutexGuard<'_, Log>, SnapshotError> {
        self.writable()?;
        if !is_name(name.as_bytes()) {
            return Err(SnapshotError::Name);
        }
        let mut log = self.log();
        if self.snapshot(name).is_ok() {
            return Err(SnapshotError::Exists);
        }
        if self.state().snapshots.len() == SNAPSHOTS_MAX {
            return Err(SnapshotError::TooMany);
        }
        self.prepare(&mut log)?;
        self.settle_all(&mut log)?;
        Ok(log)
    }

    /// Segments that are free besides what is kept back where whatever changes after another snapshot finds room for
    /// its tables.
    fn free_for_another(&self, state: &State) -> usize {
        let tables = state.tables.iter().filter(|table| is_shared(table));
        let all = tables.map(|table| table.bytes).fold(0, u64::saturating_add);
        let more = all.saturating_sub(state.shared_bytes()).div_ceil(self.shape.segment_room);
        usize::try_from(more).unwrap_or(usize::MAX).saturating_add(1)
    }

    /// As bytes.
    fn room_for_another(&self) -> u64 {
        (self.free_for_another(&self.state()) as u64).saturating_mul(self.filled())
    }

    fn has_room_for_another(&self, promised: u64) -> bool {
        let beside = self.kept_beside_new(promised);
        if beside > 0 && self.room_beside(beside) < self.room_for_another() {
            return false;
        }
        let (state, segments) = (self.state(), self.segments());
        let fits = self.root_has_room((&state, &segments), &state.tables);
        let kept = self.reserve(&state).saturating_add(SPARE);
        fits && segments.free() >= kept.saturating_add(self.free_for_another(&state))
    }

    /// Whether the root holds all that may come. Each of these tables, that a snapshot is to share, may become one that
    /// only snapshots have.
    pub(crate) fn root_has_room(
        &self,
        (state, segments): (&State, &Segments),
        tables: &[TableRow],
    ) -> bool {
        let shared = tables.iter().filter(|table| is_shared(table));
        let rows: usize = shared.map(|table| table.key.len() + ROW_LEN).sum();
        let root = root::encode(state, segments, self.writing().measure()).len();
        (PartHead::SIZE + root + rows + ROOT_SPARE) as u64 <= self.shape.segment_room
    }

    /// Frees blocks that are kept and that no snapshot needs any more, some with each commit; others commit between.
    ///
    /// # Errors
    /// What the device says. The rest is freed another time then.
    pub fn sweep(&self) -> Result<()> {
        let first = Some(BlockName { segment: 0, slot: 0 });
        let (mut from, mut deleted) = (first, self.deleted.load(Ordering::Acquire));
        while self.is_writable() {
            let mut log = self.log();
            if !self.state().sweeping {
                return Ok(());
            }
            // What was passed over may be needed no more since another one went.
            let now = self.deleted.load(Ordering::Acquire);
            if deleted != now {
                (from, deleted) = (first, now);
            }
            self.prepare(&mut log)?;
            let Some(begin) = from else { return self.end_sweep(&mut log) };
            let mut found = Vec::new();
            {
                let state = self.state();
                from = self.stack(&state).unnamed(begin, &mut |row| {
                    let since = row.unnamed_since().unwrap_or(0);
                    found.extend((!state.needs(row.block, since)).then_some(row.block));
                })?;
            }
            if !found.is_empty() {
                self.write(&mut log, &Swept(found), |show| show())?;
            }
        }
        Err(Error::ReadOnly)
    }

    /// Nothing is left to sweep: once no table says otherwise either, the root says so.
    fn end_sweep(&self, log: &mut Log) -> Result<()> {
        self.settle_all(log)?;
        self.state_mut().sweeping = false;
        let told = self.settle(log);
        if told.is_err() {
            self.state_mut().sweeping = true;
        }
        told
    }

    /// All snapshots, the oldest first, and what deleting each would give back. Others commit meanwhile.
    ///
    /// # Errors
    /// What looking meets.
    pub fn held_by_snapshots(&self) -> Result<Vec<(SnapshotRow, Held)>> {
        loop {
            let all = self.snapshots();
            let (mut held, mut below) = (vec![Held::default(); all.len()], Below::new());
            let mut from = Some(BlockName { segment: 0, slot: 0 });
            while let Some(begin) = from {
                let state = self.state();
                if state.snapshots != all {
                    break;
                }
                from = self.stack(&state).add_held(begin, (&mut held, &mut below))?;
            }
            let state = self.state();
            if state.snapshots == all {
                self.stack(&state).add_held_below(&below, &mut held)?;
                state.add_held_tables(&mut held);
                return Ok(all.into_iter().zip(held).collect());
            }
        }
    }

    /// Whether blocks may be kept that no snapshot needs any more.
    #[must_use]
    pub fn is_sweeping(&self) -> bool {
        self.state().sweeping
    }
}

/// Of each snapshot and block, plain bytes of deltas that it alone holds and that differ from that.
type Below = BTreeMap<(usize, BlockName), u64>;

impl<D: Device> Stack<'_, D> {
    /// Adds what snapshots alone hold of blocks from one on; where to go on.
    fn add_held(
        &self,
        from: BlockName,
        (held, below): (&mut [Held], &mut Below),
    ) -> Result<Option<BlockName>> {
        let mut alone = Vec::new();
        let next = self.unnamed(from, &mut |row| {
            let holders = self.state.holders(row.block, row.unnamed_since().unwrap_or(0));
            alone.extend((holders.len() == 1).then_some((holders.start, row.block)));
        })?;
        for (snapshot, block) in alone {
            let row = self.block_row(block)?;
            if let Some(base) = row.base {
                let bytes = below.entry((snapshot, base)).or_default();
                *bytes = bytes.saturating_add(row.plain.into());
            }
            if let Some(held) = held.get_mut(snapshot) {
                held.blocks = held.blocks.saturating_add(row.stored.into());
            }
        }
        Ok(next)
    }

    /// Adds blocks that are needed only since others differ from them that one snapshot alone holds.
    fn add_held_below(&self, below: &Below, held: &mut [Held]) -> Result<()> {
        for (&(snapshot, base), &bytes) in below {
            // It stays for every other snapshot since which it is there.
            let holders = self.state.holders(base, u64::MAX);
            let alone = holders.len() <= usize::from(holders.contains(&snapshot));
            if !alone || self.refs(base)?.named() != bytes {
                continue;
            }
            let stored = self.block_row(base)?.stored;
            if let Some(held) = held.get_mut(snapshot) {
                held.blocks = held.blocks.saturating_add(stored.into());
            }
        }
        Ok(())
    }
}

impl State {
    /// Adds what snapshots alone hold of tables.
    fn add_held_tables(&self, held: &mut [Held]) {
        for table in &self.kept {
            if self.since.get(&place(table)) == Some(&table.layer) {
                let own = self.snapshots.binary_search_by_key(&table.layer, |row| row.sequence);
                if let Some(held) = own.ok().and_then(|at| held.get_mut(at)) {
                    held.tables = held.tables.saturating_add(table.bytes);
                }
            }
        }
    }
}
