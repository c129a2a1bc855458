//! Settling: what came recently becomes tables, in rounds of many small steps. A round begins with all that came
//! until then; a step lays it into a few tables and writes a root and a superblock; when the round is over the
//! superblock goes on to where the log was when it began. So how much a commit has to wait for is bounded,
//! whatever the volume holds.
//!
//! Above: `commit`, before it begins. Below: `merge`, `root`. Invariant: nothing that the superblock on the
//! device needs is given away before its successor is safe; what is being settled gives the same answers laid over
//! tables that have it and over tables that do not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use esker::Ino;
use esker_stone::key::kind;
use esker_stone::rows::tables::TableRow;
use esker_stone::{PageRef, Sealed, tree};

use crate::choose::behind;
use crate::counts::Count;
use crate::device::{Buffer, Device, Fault, Stream};
use crate::error::{Error, Result};
use crate::limits::{CLOSED_COMMIT_LEN, CLOSED_COMMITS_MAX, COMMITS_MAX};
use crate::log::{Log, Round};
use crate::merge::{Fresh, Range, Row, leaves, rows};
use crate::parity::{PART_MAX, parity, parity_len};
use crate::part::{PartHead, TABLES, append_page};
use crate::recent::Recent;
use crate::root;
use crate::rows::Numbers;
use crate::segments::{Condition, Physical, Segment, Segments};
use crate::snapshots::{Shared, place};
use crate::stack::State;
use crate::superblock::{BASE, MOVED, RULES, SNAPSHOTS, Superblock};
use crate::volume::Volume;

/// Bytes that a leaf takes in the page above it, at most.
const CHILD_LEN: usize = 400;
/// Tables' worth of bytes that a step lays something into.
const AT_ONCE: u64 = 4;
/// The same that it moves besides, out of a segment of which little is needed.
const WORN_AT_ONCE: u64 = 4;
/// Of all segments so many, as one part of this, are log before they are settled.
const LOG_SHARE: usize = 8;

/// Tables of a volume with snapshots, as long as they are shorter than others.
const SHARED_TABLES: u64 = 1024;
/// How much shorter they are at most.
const SHARED_SHARE: usize = 16;
/// How short they become where each has parity, which takes twice as much at this length, six times at a unit.
const PROTECTED_LEN_MIN: usize = 32 << 10;

/// Bytes that are needed of segments besides, or no more.
pub(crate) type Lives = BTreeMap<u64, i64>;

/// What a step leaves.
pub(crate) struct Step {
    /// All tables as they are to be.
    pub tables: Vec<TableRow>,
    /// Those that are no more.
    pub old: Vec<TableRow>,
    /// Those that snapshots have.
    pub shared: Shared,
    /// Where the next step goes on; `None`: the round is over.
    pub cursor: Option<Vec<u8>>,
    /// What there is to count.
    pub numbers: Numbers,
    /// Inodes without a name.
    pub orphans: BTreeSet<Ino>,
    /// As in [`State::sweeping`].
    pub sweeping: bool,
    /// What is needed of blocks besides what was.
    pub lives: Lives,
}

impl Step {
    /// Of a state, without any tables yet.
    pub fn of(state: &State) -> Self {
        let mut old = Vec::new();
        let shared = Shared::of(state, &mut old);
        let (numbers, orphans, sweeping) = (state.numbers, state.orphans.clone(), state.sweeping);
        let (tables, lives) = (Vec::new(), Lives::new());
        Self { tables, old, shared, cursor: None, numbers, orphans, sweeping, lives }
    }
}

/// Lays tables anew: of this state, from this key on.
pub(crate) type Steps<'a, 'v, D> =
    &'a mut dyn FnMut(&mut Settling<'v, D>, &State, &[u8]) -> Result<Step>;

/// What a part of tables holds.
struct Holds {
    /// Its top page.
    top: PageRef,
    /// The commit as of which it holds everything.
    sequence: u64,
    /// Of a root: the last part of the log that it holds.
    before: u64,
}

/// A settling on its way.
pub(crate) struct Settling<'a, D> {
    pub volume: &'a Volume<D>,
    /// The end of the log, of which only the open segment of tables changes.
    log: &'a mut Log,
    /// Stretches that were taken.
    taken: Vec<Physical>,
    /// Stored bytes of a table, about.
    table_len: usize,
    /// The commit as of which tables are that are written, where it is not that of the round.
    as_of: Option<u64>,
}

impl<D: Device> Settling<'_, D> {
    /// Where so many bytes of tables can go.
    fn room(&mut self, len: u64) -> Result<(Physical, u64, u64)> {
        if len > self.volume.shape.segment_room {
            // A root with too many rows: there may be fewer again.
            return Err(Error::NoSpace);
        }
        if let Some((physical, at)) = self.log.tables
            && at + len <= self.volume.shape.segment_room
            && let Some(row) = self.volume.segments().get(physical)
        {
            return Ok((physical, row.number, at));
        }
        let physical = self.volume.segments_mut().take(Condition::Tables);
        let physical = physical.ok_or(Error::NoSpace)?;
        self.taken.push(physical);
        if let Some((before, _)) = self.log.tables {
            self.volume.leave(before);
        }
        let number = self.volume.begin(physical, Condition::Tables)?;
        self.log.tables = Some((physical, 0));
        Ok((physical, number, 0))
    }

    /// Writes a part with pages, and its parity behind it; how long both are.
    fn put(
        &mut self,
        mut part: Buffer,
        (physical, segment, at): (Physical, u64, u64),
        holds: Holds,
    ) -> Result<u64> {
        let volume = self.volume;
        let mut head = self.log.head(volume.shape.uuid, (volume.now)());
        (head.segment, head.at, head.kind) = (segment, at, TABLES);
        // Whoever finds it without the page above knows what it is, and as of when.
        (head.before, head.sequence) = (holds.before, holds.sequence);
        head.set_rows(&holds.top);
        head.first_slot = 0;
        let len = volume.padded(part.len());
        let parity_len = volume.parity_len(len);
        volume.counts.add(Count::Tables, part.len() as u64);
        volume.counts.add(Count::Padding, len - part.len() as u64);
        volume.counts.add(Count::Parity, parity_len);
        part.resize(len as usize);
        head.seal(&mut part);
        self.log.tables = Some((physical, at + len + parity_len));
        let behind = (parity_len > 0).then(|| parity(&head, &part));
        let at = volume.place(physical) + at;
        volume.device.submit(at, part, Stream::Tables)?;
        if let Some(behind) = behind {
            volume.device.submit(at + len, behind, Stream::Tables)?;
        }
        Ok(len + parity_len)
    }

    /// Writes leaves as tables, and takes them; unless `all`, those stay that do not fill one.
    pub fn tables(
        &mut self,
        leaves: &mut Vec<tree::Leaf>,
        all: bool,
        to: &mut Vec<TableRow>,
    ) -> Result<()> {
        let limit = self.table_len.min(self.volume.table_room());
        let mut from = 0;
        while from < leaves.len() {
            let (mut end, mut len) = (from, 0);
            while end < leaves.len() {
                let own = leaves[end].plain.len() + CHILD_LEN;
                if end > from && len + own > limit {
                    break;
                }
                (end, len) = (end + 1, len + own);
            }
            if end == leaves.len() && !all {
                break;
            }
            let place = self.room(self.volume.protected(PartHead::SIZE + len))?;
            let mut part = vec![0; PartHead::SIZE];
            let writing = self.volume.writing();
            let top = writing.build_in(&leaves[from..end], (place.1, place.2), &mut part)?;
            let round = self.log.round.as_ref().map_or(0, |round| round.begin.sequence);
            let sequence = self.as_of.unwrap_or(round);
            let holds = Holds { top: top.page, sequence, before: 0 };
            let bytes = self.put(Buffer::from(&*part), place, holds)?;
            to.push(TableRow { layer: 0, key: leaves[from].key.clone(), top, bytes });
            from = end;
        }
        leaves.drain(..from);
        Ok(())
    }

    /// The leaves of rows. Those of places are left out where nothing is looked for in them.
    pub fn leaves(&self, mut rows: Vec<Row>) -> Vec<tree::Leaf> {
        if !self.volume.has_places() {
            rows.retain(|row| row.kind() != kind::PLACE);
        }
        leaves(rows, self.volume.writing().measure())
    }

    /// Some tables in a row, with what came laid over them: one after the other, so that it takes memory for the rows
    /// of one.
    pub fn merge(
        &mut self,
        state: &State,
        tables: std::ops::Range<usize>,
        came: &Recent,
        to: &mut Vec<TableRow>,
    ) -> Result<()> {
        let fresh = Fresh::new(came);
        let mut waiting = Vec::new();
        // Where there is none yet, what came is all.
        for table in tables.start..tables.end.max(tables.start + 1) {
            let (mut below, keys) = (Vec::new(), range(state, table));
            // Nor is anything read that nobody needs, and that may be damaged.
            let of_places = |key: &Vec<u8>| key.first() == Some(&kind::PLACE);
            let needed = !self.drops(&keys) || !keys.to.as_ref().is_some_and(of_places);
            if needed {
                self.volume.stack(state).leaves(table, &mut |leaf| rows(leaf, &mut below))?;
            }
            waiting.extend(self.leaves(fresh.over(below, &keys)?));
            self.tables(&mut waiting, false, to)?;
        }
        self.tables(&mut waiting, true, to)
    }

    /// Whether a table is another one then.
    fn changes(&self, fresh: &Fresh<'_>, state: &State, table: usize) -> bool {
        let keys = range(state, table);
        self.drops(&keys) || fresh.touches(&keys)
    }

    /// Whether a table with these keys begins with rows of places, which are dropped.
    fn drops(&self, keys: &Range) -> bool {
        !self.volume.has_places() && keys.from.first() == Some(&kind::PLACE)
    }

    /// Lays what is being settled into a few tables from `cursor` on.
    fn step(&mut self, state: &State, cursor: &[u8]) -> Result<Step> {
        let fresh = Fresh::new(&state.settling);
        let worn = self.worn(state);
        let mut step = Step::of(state);
        let count = state.tables.len();
        if count == 0 {
            self.merge(state, 0..0, &state.settling, &mut step.tables)?;
        }
        let (mut left, mut worn_left) =
            (AT_ONCE * self.volume.table_len as u64, WORN_AT_ONCE * self.volume.table_len as u64);
        let mut at = 0;
        while at < count {
            let own = &state.tables[at];
            let ahead = own.key.as_slice() >= cursor;
            if ahead && left == 0 && step.cursor.is_none() {
                step.cursor = Some(own.key.clone());
            }
            let (mut end, mut same) = (at, false);
            while ahead && end < count && left > 0 && self.changes(&fresh, state, end) {
                left = left.saturating_sub(state.tables[end].bytes.max(1));
                end += 1;
            }
            if end == at && worn_left > 0 && worn == Some(own.top.page.segment) {
                worn_left = worn_left.saturating_sub(own.bytes.max(1));
                end += 1;
                same = !ahead || !self.changes(&fresh, state, at);
            }
            if end == at {
                step.tables.push(state.tables[at].clone());
                at += 1;
                continue;
            }
            let first = step.tables.len();
            self.merge(state, at..end, &state.settling, &mut step.tables)?;
            for table in &state.tables[at..end] {
                if same {
                    // Then a snapshot has those that were written now.
                    step.shared.moved(table, &step.tables[first..]);
                }
                step.shared.replaced(table, &mut step.old);
            }
            at = end;
        }
        // Out of a segment of which little is needed.
        self.move_kept(&mut step, |table| {
            let goes = worn_left > 0 && worn == Some(table.top.page.segment);
            if goes {
                worn_left = worn_left.saturating_sub(table.bytes.max(1));
            }
            goes
        })?;
        step.shared.sort();
        Ok(step)
    }

    /// Writes those tables again that only snapshots have and that `goes` says.
    pub(crate) fn move_kept(
        &mut self,
        step: &mut Step,
        mut goes: impl FnMut(&TableRow) -> bool,
    ) -> Result<()> {
        for table in std::mem::take(&mut step.shared.kept) {
            if !goes(&table) {
                step.shared.kept.push(table);
                continue;
            }
            let layer = table.layer;
            let alone =
                State { tables: vec![TableRow { layer: 0, ..table.clone() }], ..State::default() };
            let mut to = Vec::new();
            // Of then: whoever finds it alone must not take it for newer than what came since.
            self.as_of = Some(layer);
            let merged = self.merge(&alone, 0..1, &alone.settling, &mut to);
            self.as_of = None;
            merged?;
            step.shared.moved(&table, &to);
            step.shared.kept.extend(to.into_iter().map(|own| TableRow { layer, ..own }));
            step.old.push(table);
        }
        Ok(())
    }

    /// The segment of tables of which least is needed: its tables move on, so that it becomes free. Or one that holds
    /// what does not change for so long that others wear in its place.
    fn worn(&self, state: &State) -> Option<u64> {
        let segments = self.volume.segments();
        let open = self.log.tables.map(|(physical, _)| physical);
        let rows = segments.rows().iter();
        let old =
            rows.filter(|row| row.condition == Condition::Tables && Some(row.physical) != open);
        let old = || old.clone().filter(|row| row.live > 0);
        let few = |row: &&Segment| row.live < self.volume.shape.segment_room / 2;
        let least = old().min_by_key(|row| row.live).filter(few);
        let worn = least.or_else(|| behind(&segments, old()))?.number;
        let mut all = state.tables.iter().chain(&state.kept);
        all.any(|table| table.top.page.segment == worn).then_some(worn)
    }

    /// Writes the root, which holds the log up to where that of this superblock begins.
    fn root(&mut self, plain: &[u8], base: &Superblock) -> Result<(Physical, PageRef)> {
        let sealed = Sealed::new(plain, &[], self.volume.setting())?;
        let len = self.volume.protected(PartHead::SIZE + sealed.stored.len());
        let place = self.room(len)?;
        let mut part = Buffer::from(&[0; PartHead::SIZE][..]);
        let page = append_page(&mut part, (place.1, place.2), &sealed);
        let holds = Holds { top: page, sequence: base.sequence, before: base.log_before };
        self.put(part, place, holds)?;
        Ok((place.0, page))
    }
}

/// The keys of a table.
pub(crate) fn range(state: &State, table: usize) -> Range {
    let key = |table: usize| state.tables.get(table).map(|table| table.key.clone());
    let from = if table == 0 { Vec::new() } else { key(table).unwrap_or_default() };
    Range { from, to: key(table + 1) }
}

/// Commits that the root does not hold.
const fn commits_behind(log: &Log) -> u64 {
    log.sequence.saturating_sub(log.superblock.sequence)
}

/// Stretches that nobody needs.
pub(crate) fn idle(segments: &Segments, keep: &BTreeSet<Physical>) -> Vec<Physical> {
    segments.idle().filter(|physical| !keep.contains(physical)).collect()
}

/// Of stretches that nobody needs now those become free that nobody needed at the last superblock: should the next
/// one be damaged, that one still finds everything. Those that are free now, and those that are just idle.
fn free(
    segments: &mut Segments,
    keep: &BTreeSet<Physical>,
    before: &[Physical],
) -> (Vec<Physical>, Vec<Physical>) {
    let idle = idle(segments, keep);
    let (free, idle): (Vec<_>, Vec<_>) = idle.into_iter().partition(|one| before.contains(one));
    for &physical in &free {
        segments.set(physical, Condition::Free);
    }
    (free, idle)
}

impl<D: Device> Volume<D> {
    /// Bytes of the parity behind a part of tables. One that fills most of a segment alone has none.
    pub(crate) fn parity_len(&self, part: u64) -> u64 {
        let own = if self.shape.copies > 1 { parity_len(part) } else { 0 };
        let fits = part + own <= self.shape.segment_room && part <= PART_MAX as u64;
        if fits { own } else { 0 }
    }

    /// Bytes of a part of tables with its padding and its parity.
    fn protected(&self, len: usize) -> u64 {
        let part = self.padded(len);
        part + self.parity_len(part)
    }

    /// Bytes of pages that fit into a segment as one table.
    fn table_room(&self) -> usize {
        let (room, unit) = (self.shape.segment_room as usize, self.shape.unit as usize);
        let share = if self.shape.copies > 1 { room / 16 * 5 } else { room };
        share - PartHead::SIZE - unit
    }

    /// Free segments that commits leave to settling.
    pub(crate) fn reserve(&self, state: &State) -> usize {
        self.reserve_with(state, (state.recent.stored + state.settling.stored) as u64)
    }

    /// Whether fewer would do if all that came were in tables.
    pub(crate) fn settling_helps(&self) -> bool {
        let state = self.state();
        self.reserve_with(&state, 0) < self.reserve(&state)
    }

    /// The same if so much came.
    fn reserve_with(&self, state: &State, came: u64) -> usize {
        let tables = state.table_bytes();
        // With its parity a table takes several times its own bytes, the more the shorter it is.
        let whole = |len: usize| self.protected(PartHead::SIZE + len);
        let step = tables.min((AT_ONCE + WORN_AT_ONCE + 1) * whole(self.table_len));
        let len = self.table_len_of(state);
        let came =
            if self.shape.copies > 1 { came.div_ceil(len as u64) * whole(len) } else { came };
        // What is still there of tables that were replaced, what a step writes, what came, and what snapshots have too.
        let bytes = (tables / 2 + step + came).saturating_add(state.shared_bytes());
        let room = self.shape.segment_room;
        // One that is half full, one for what does not fit into its rest, and the root.
        usize::try_from(bytes / room).unwrap_or(usize::MAX).saturating_add(3)
    }

    /// Stored bytes of a table, about. Where snapshots have what is replaced it is shorter, as long as there are
    /// not many.
    fn table_len_of(&self, state: &State) -> usize {
        if state.snapshots.is_empty() {
            return self.table_len;
        }
        let bytes = state.tables.iter().map(|table| table.bytes);
        let all = bytes.fold(0, u64::saturating_add);
        let share = usize::try_from(all / SHARED_TABLES).unwrap_or(usize::MAX);
        // A part takes whole units, however little is in it.
        let unit = self.shape.unit as usize - PartHead::SIZE;
        let least = unit.max(self.table_len / SHARED_SHARE);
        let least = if self.shape.copies > 1 { least.max(PROTECTED_LEN_MIN) } else { least };
        share.max(least).min(self.table_len)
    }

    /// Settles as far as it is time to: in proportion to what came since the round began.
    pub(crate) fn settle_in_time(&self, log: &mut Log) -> Result<()> {
        let mut rounds = 0;
        while rounds < 2 && self.is_due(log, rounds) {
            match self.settle(log) {
                // The log can go on without: what it is about to do says so if it cannot.
                Err(Error::NoSpace | Error::Device(Fault::Io(_) | Fault::NoSpace)) => return Ok(()),
                done => done?,
            }
            rounds += u32::from(log.round.is_none());
        }
        Ok(())
    }

    /// Whether it is time for a step.
    fn is_due(&self, log: &Log, rounds: u32) -> bool {
        let (state, segments) = (self.state(), self.segments());
        let free = segments.free();
        let tight = free <= self.reserve(&state) + 2 && log.since.len() > 1;
        let (share, part) = (segments.rows().len() / LOG_SHARE, (free / 2).max(2));
        match &log.round {
            Some(round) => {
                let done = state.tables.partition_point(|table| table.key < round.cursor);
                let all = state.tables.len();
                let came = (2 * state.recent.bytes()).saturating_mul(all);
                let long = log.since.len().saturating_sub(1 + round.since) * all;
                let log_max = share.min(part).max(2);
                let many = 2 * log.sequence.saturating_sub(round.begin.sequence) * all as u64;
                tight
                    || came > done.saturating_mul(self.recent_len)
                    || long > done * log_max
                    || many > done as u64 * COMMITS_MAX
            }
            None => {
                let full = 2 * state.recent.bytes() >= self.recent_len && !state.recent.is_empty();
                // What is dead in the log becomes free no sooner than it is settled; what lives there waits for
                // nothing.
                let dead = self.dead_in_log(log, &segments);
                let long = log.since.len() > share.max(2) || dead > part as u64 * self.filled();
                // What is idle becomes free with the second superblock from now.
                let more = !state.recent.is_empty() || !log.idle.is_empty();
                more && ((rounds == 0 && (full || long || 2 * commits_behind(log) >= COMMITS_MAX))
                    || tight)
            }
        }
    }

    /// Whether an opening would read so many commits that sparing it these is worth the tables that are written anew.
    pub(crate) fn is_worth_settling(&self, log: &Log) -> bool {
        let (commits, state) = (commits_behind(log), self.state());
        if commits <= CLOSED_COMMITS_MAX {
            return false;
        }
        let came = [&state.settling, &state.recent].map(Fresh::new);
        let touched = |table: &usize| came.iter().any(|own| own.touches(&range(&state, *table)));
        let touched = (0..state.tables.len()).filter(touched);
        let len: u64 = touched.map(|table| state.tables[table].bytes).sum();
        len <= commits * CLOSED_COMMIT_LEN
    }

    /// Bytes that nobody needs in the segments of the log since the superblock, but for the open one.
    fn dead_in_log(&self, log: &Log, segments: &Segments) -> u64 {
        let sealed = log.since.iter().rev().skip(1).filter_map(|&one| segments.get(one));
        sealed.map(|row| self.filled().saturating_sub(row.live)).sum()
    }

    /// Settles all that came until now, and all rounds are over.
    pub(crate) fn settle_all(&self, log: &mut Log) -> Result<()> {
        for _ in 0..2 {
            self.settle(log)?;
            while log.round.is_some() {
                self.settle(log)?;
            }
        }
        Ok(())
    }

    /// Settles until nothing is left in the log alone.
    pub(crate) fn settle_rest(&self, log: &mut Log) -> Result<()> {
        while log.round.is_some() || !self.state().recent.is_empty() {
            self.settle(log)?;
        }
        Ok(())
    }

    /// Begins a round, if none is under way.
    fn begin_round(&self, log: &mut Log) {
        if log.round.is_some() {
            return;
        }
        let begin = Superblock {
            sequence: log.sequence,
            log_segment: log.segment,
            log_physical: log.physical.0,
            log_slot: log.slot,
            log_at: log.at,
            log_before: log.before,
            log_next: log.next[0].0,
            log_spare: log.next[1].0,
            ..log.superblock
        };
        let mut state = self.state_mut();
        state.settling = std::mem::take(&mut state.recent);
        let since = log.since.len().saturating_sub(1);
        log.round = Some(Round { begin, since, cursor: Vec::new() });
    }

    /// A step of settling.
    pub(crate) fn settle(&self, log: &mut Log) -> Result<()> {
        self.settle_by(log, &mut |settling, state, cursor| settling.step(state, cursor))
    }

    /// A step in which tables are laid anew so.
    pub(crate) fn settle_by<'a>(&'a self, log: &'a mut Log, steps: Steps<'_, 'a, D>) -> Result<()> {
        self.begin_round(log);
        self.settle_nothing(log, steps)
    }

    /// The same, whether a round is under way or not.
    pub(crate) fn settle_nothing<'a>(
        &'a self,
        log: &'a mut Log,
        steps: Steps<'_, 'a, D>,
    ) -> Result<()> {
        let before = log.tables;
        let table_len = self.table_len_of(&self.state());
        let mut settling =
            Settling { volume: self, log, taken: Vec::new(), table_len, as_of: None };
        let written = settling.written(steps);
        let Settling { log, taken, .. } = settling;
        let written = match written {
            Ok(written) => written,
            Err(error) => {
                // Nobody was told of them.
                let mut segments = self.segments_mut();
                taken.iter().for_each(|&physical| segments.give_back(physical));
                if self.device.geometry().zones.is_some() {
                    // Nothing can be written again there.
                    let open = log.tables.or(before).map(|(physical, _)| physical);
                    open.into_iter().for_each(|physical| self.leave(physical));
                }
                log.tables = before.filter(|_| self.device.geometry().zones.is_none());
                return Err(error);
            }
        };
        self.put_superblock(log, &written.superblock)?;
        log.safe = log.sequence;
        self.show_settled(log, written)
    }

    /// Shows what is safe now, and gives back what nobody needs.
    fn show_settled(&self, log: &mut Log, written: Written) -> Result<()> {
        let Written { new, mut segments, free, idle, superblock, cursor } = written;
        segments.change_live(superblock.root_segment, superblock.root_stored.into())?;
        log.superblock = superblock;
        log.idle = idle;
        self.counts.add(Count::Steps, 1);
        self.counts.add(Count::Reclaimed, free.len() as u64);
        let mut state = self.state_mut();
        (state.tables, state.kept, state.since) = (new.tables, new.kept, new.since);
        (state.numbers, state.orphans, state.sweeping) = (new.numbers, new.orphans, new.sweeping);
        state.version += 1;
        match (cursor, log.round.take()) {
            (Some(cursor), Some(round)) => log.round = Some(Round { cursor, ..round }),
            (_, round) => {
                state.settling = Recent::default();
                log.since.drain(..round.map_or(0, |round| round.since));
            }
        }
        self.measure_room(&state, &segments);
        *self.segments_mut() = segments;
        drop(state);
        // It saves room below, and zones are begun again when they are taken.
        if self.gives_back() {
            log.unneeded.extend(free);
        }
        Ok(())
    }
}

/// What was written, and how things are once its superblock is safe.
struct Written {
    /// The tables, and which of them snapshots have.
    new: State,
    segments: Segments,
    /// Stretches that become free.
    free: Vec<Physical>,
    /// Stretches that nobody needs from then on.
    idle: Vec<Physical>,
    superblock: Superblock,
    /// Where the next step goes on.
    cursor: Option<Vec<u8>>,
}

impl<'a, D: Device> Settling<'a, D> {
    /// Stretches that are needed whatever else they hold: the log, and the open ones.
    fn keep(&self, since: usize) -> BTreeSet<Physical> {
        let open = self.log.tables.map(|(physical, _)| physical);
        let log = self.log.since.iter().skip(since).copied();
        let moved = self.log.moving.held(&self.volume.segments());
        log.chain([self.log.physical]).chain(open).chain(moved).collect()
    }

    fn written(&mut self, steps: Steps<'_, 'a, D>) -> Result<Written> {
        let (volume, state) = (self.volume, self.volume.state());
        let round = self.log.round.clone();
        let from = round.as_ref().map(|round| round.cursor.clone()).unwrap_or_default();
        let Step { tables, old, shared, cursor, numbers, orphans, sweeping, lives } =
            steps(self, &state, &from)?;
        // When the round is over the log begins where it did.
        let over = round.filter(|_| cursor.is_none()).map(|round| (round.begin, round.since));
        let (base, since) = over.unwrap_or((self.log.superblock, 0));
        let was = self.log.superblock.root()?;
        let mut segments = volume.segments().clone();
        for table in &old {
            segments.change_live(table.top.page.segment, -table.bytes.cast_signed())?;
        }
        let known: BTreeSet<_> = state.tables.iter().chain(&state.kept).map(place).collect();
        let is_new = |table: &&TableRow| !known.contains(&place(table));
        for table in tables.iter().chain(&shared.kept).filter(is_new) {
            segments.change_live(table.top.page.segment, table.bytes.cast_signed())?;
        }
        for (number, more) in lives {
            segments.change_live(number, more)?;
        }
        if let Some(page) = &was {
            segments.change_live(page.segment, -i64::from(page.stored))?;
        }
        // The root may need one more segment: it is one that is free now, not one that becomes so.
        let new = State {
            tables,
            numbers,
            orphans,
            snapshots: state.snapshots.clone(),
            kept: shared.kept,
            since: shared.since,
            deltas: state.deltas,
            scrubbed: volume.scrubbed.load(Ordering::Acquire),
            sweeping,
            rules: state.rules.clone(),
            made: state.made.clone(),
            base: state.base.clone(),
            ..State::default()
        };
        let measure = volume.writing().measure();
        // As long as somebody looks at a moment nothing becomes free that it may need.
        let before = if volume.keeps_moments(&state) { Vec::new() } else { self.log.idle.clone() };
        let mut trial = segments.clone();
        free(&mut trial, &self.keep(since), &before);
        let bound = root::encode(&new, &trial, measure).len() + 1024;
        self.room(volume.protected(PartHead::SIZE + bound))?;
        for &physical in &self.taken {
            let number = volume.segments().get(physical).map_or(0, |row| row.number);
            if segments.find(number) != Some(physical) {
                segments.set(physical, Condition::Tables);
                segments.begin(physical, number, Condition::Tables);
            }
        }
        let (free, idle) = free(&mut segments, &self.keep(since), &before);
        let plain = root::encode(&new, &segments, measure);
        let (physical, page) = self.root(&plain, &base)?;
        drop(state);
        volume.device.flush()?;
        let log = &*self.log;
        let superblock = Superblock {
            generation: log.superblock.generation + 1,
            epoch: log.epoch,
            proven: log.sequence,
            incompatible: features(&new, &segments, base.incompatible),
            ..base.with_root(physical.0, &page).closed_at(0)
        };
        Ok(Written { new, segments, free, idle, superblock, cursor })
    }
}

/// The flags of a volume like this.
fn features(state: &State, segments: &Segments, others: u64) -> u64 {
    let kept = !state.snapshots.is_empty() || state.sweeping;
    let rules = !state.rules.is_empty() || !state.made.is_empty();
    let moved = segments.rows().iter().any(|row| row.condition == Condition::Moved);
    let of = |is: bool, flag: u64| if is { flag } else { 0 };
    let base = of(state.base.is_some(), BASE);
    let own = of(kept, SNAPSHOTS) | of(rules, RULES) | of(moved, MOVED) | base;
    (others & !(SNAPSHOTS | RULES | MOVED | BASE)) | own
}
