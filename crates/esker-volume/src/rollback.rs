//! Going back: the volume shows again what it showed when a snapshot was made.
//!
//! Above: verbs. Below: `settle`, `snapshots`. The tables of the snapshot become the settled layer: those that were not
//! replaced stay, others are written again. Blocks are one index for all, so references are counted again from the
//! stretches in which the two differ, as many blocks at a time as there may be in memory.
//! Invariant: one superblock says all of it; no part of the log behind it names one before it, so nothing that came
//! later is ever laid over what was there before.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeBounds as _};
use std::sync::atomic::Ordering;

use esker::Ino;
use esker_stone::check::checksum;
use esker_stone::key::kind;
use esker_stone::rows::extents::BlockName;
use esker_stone::rows::snapshots::SnapshotRow;
use esker_stone::rows::tables::TableRow;

use crate::base::is_based;
use crate::device::Device;
use crate::error::{Damage, Error, Result};
use crate::leaf::Leaf;
use crate::limits::SPARE;
use crate::log::{Good, Log};
use crate::merge::{Bounds, Fresh, Row, rows};
use crate::recent::{Recent, runs};
use crate::rows::{Numbers, Refs};
use crate::settle::{Lives, Settling, Step, range};
use crate::snapshots::{SnapshotError, is_shared, place};
use crate::stack::{Stack, State};
use crate::volume::Volume;

/// Bytes that a block takes in memory while its references are counted, in about.
const COUNT_LEN: usize = 64;

/// Where tables lie.
type Places = BTreeSet<(u64, u64)>;

/// What a volume goes back to.
struct Back<'a, D> {
    /// As it is.
    now: Stack<'a, D>,
    /// As it was.
    then: Stack<'a, D>,
    /// The commit since which blocks are named no more that only the volume of now has.
    since: u64,
    here: Places,
    there: Places,
}

/// Tables of a state that have rows of the tree, and are not among `others`.
fn apart(state: &State, others: &Places) -> impl Iterator<Item = usize> {
    let all = state.tables.iter().enumerate();
    let own = all.filter(|(_, table)| is_shared(table) && !others.contains(&place(table)));
    own.map(|(at, _)| at)
}

impl<'a, D: Device> Back<'a, D> {
    fn new(volume: &'a Volume<D>, now: &'a State, then: &'a State, since: u64) -> Self {
        let places = |state: &State| state.tables.iter().map(place).collect();
        let stack = |state| Stack { volume, state, index: now };
        let (here, there) = (places(now), places(then));
        Self { now: stack(now), then: stack(then), since, here, there }
    }

    /// The last table that has rows of the tree; behind them it may have rows of blocks.
    fn edge(state: &State) -> Option<usize> {
        state.tables.partition_point(is_shared).checked_sub(1)
    }

    /// Bytes of tables that have to be written, at most.
    fn cost(&self) -> u64 {
        let bytes = |state: &State, at: usize| state.tables.get(at).map_or(0, |table| table.bytes);
        let tree = apart(self.then.state, &self.here).map(|at| bytes(self.then.state, at));
        let refs = self.index_of_refs().map(|at| bytes(self.now.state, at));
        tree.chain(refs).fold(0, u64::saturating_add)
    }

    /// Tables that may have references.
    fn index_of_refs(&self) -> impl Iterator<Item = usize> + use<'a, D> {
        let state = self.now.state;
        let edge = Self::edge(state).unwrap_or(0);
        let own = move |at: &usize| {
            let first = state.tables.get(*at).and_then(|table| table.key.first());
            first.is_none_or(|&first| first <= kind::REFS)
        };
        (edge..state.tables.len()).take_while(own)
    }

    /// Adds up what files have of blocks with names in a range that only one of the two says.
    fn count(
        &self,
        (stack, others, sign): (&Stack<'_, D>, &Places, i64),
        range: &Bounds<BlockName>,
        to: &mut BTreeMap<BlockName, i64>,
    ) -> Result<()> {
        let mut add = |leaf: &Leaf| -> Result<()> {
            let Leaf::Extents(page) = leaf else { return Ok(()) };
            for row in 0..page.len() {
                for run in runs(&page.row(row)?)? {
                    let counts = |block| range.contains(&block) && !is_based(block);
                    let Some(place) = run.place.filter(|place| counts(place.block)) else {
                        continue;
                    };
                    let len = i64::try_from(run.len).map_err(|_| Damage::Table)?;
                    let sum = to.entry(place.block).or_default();
                    *sum = sum.checked_add(sign * len).ok_or(Damage::Table)?;
                }
            }
            Ok(())
        };
        apart(stack.state, others).try_for_each(|table| stack.leaves(table, &mut add))
    }

    /// References with names in a range, as they are to be, where they are others; and what is needed more of segments
    /// for that.
    fn refs(&self, range: &Bounds<BlockName>, lives: &mut Lives) -> Result<Recent> {
        let mut changes = BTreeMap::new();
        self.count((&self.now, &self.there, -1), range, &mut changes)?;
        self.count((&self.then, &self.here, 1), range, &mut changes)?;
        let mut came = Recent::default();
        for (block, change) in changes.into_iter().filter(|(_, change)| *change != 0) {
            let known = self.now.refs(block)?;
            let bytes = known.named().checked_add_signed(change).ok_or(Damage::Block)?;
            // What no file names goes later, if no snapshot needs it.
            let gone = bytes == 0 && known.unnamed_since().is_none();
            let new = if gone { Refs::kept(block, self.since) } else { known.if_named(bytes) };
            if known.bytes == 0 || (bytes == 0 && !gone) || new.named() != bytes {
                return Err(Damage::Block.into());
            }
            if known.is_in_pieces() {
                let row = self.now.block_row(block)?;
                let (segment, _) = self.now.whereabouts(block, &row)?;
                let [old, new] = [known, new].map(|refs| refs.needed(row.stored).cast_signed());
                *lives.entry(segment).or_default() += new - old;
            }
            if known.bytes != new.bytes {
                came.refs.insert(block, new.bytes);
            }
        }
        Ok(came)
    }

    /// Inodes that had no name then.
    fn orphans(&self) -> Result<BTreeSet<Ino>> {
        let mut found = BTreeSet::new();
        for &ino in &self.now.state.orphans {
            let row = self.then.inode(ino)?;
            found.extend(row.filter(|row| row.attr.nlink == 0).map(|row| row.ino));
        }
        let mut add = |leaf: &Leaf| -> Result<()> {
            let Leaf::Inodes(page) = leaf else { return Ok(()) };
            for row in 0..page.len() {
                if page.attr_at(row)?.nlink == 0 {
                    found.extend(page.ino(row));
                }
            }
            Ok(())
        };
        let mut tables = apart(self.then.state, &self.here);
        tables.try_for_each(|table| self.then.leaves(table, &mut add))?;
        Ok(found)
    }

    /// Rows of the table at the edge of a state, from kinds within a range.
    fn edge_rows(&self, stack: &Stack<'_, D>, kinds: Range<u8>) -> Result<Vec<Row>> {
        let mut found = Vec::new();
        if let Some(edge) = Self::edge(stack.state) {
            stack.leaves(edge, &mut |leaf| match kinds.contains(&leaf.kind()) {
                true => rows(leaf, &mut found),
                false => Ok(()),
            })?;
        }
        Ok(found)
    }
}

impl<D: Device> Settling<'_, D> {
    /// All tables of the volume as it was, and its blocks as they are.
    fn back(&mut self, back: &Back<'_, D>, row: &SnapshotRow) -> Result<Step> {
        let (now, then) = (back.now.state, back.then.state);
        let mut step = Step::of(now);
        let (edge, old_edge) = (Back::<D>::edge(now), Back::<D>::edge(then));
        let lies_there = |edge: Option<usize>, state: &State| {
            edge.and_then(|at| state.tables.get(at)).map(place)
        };
        // A table that ends both is of the index like those behind it.
        let same = lies_there(edge, now) == lies_there(old_edge, then);
        let tree = then.tables.partition_point(is_shared).saturating_sub(usize::from(same));
        self.tree_back(back, tree, &mut step.tables)?;
        let mut first = edge.unwrap_or(0);
        if !same {
            self.edge_back(back, &mut step)?;
            first = edge.map_or(0, |edge| edge + 1);
        }
        self.index_back(back, first, &mut step)?;
        let stay: Places = step.tables.iter().map(place).collect();
        for table in now.tables.iter().filter(|table| !stay.contains(&place(table))) {
            step.shared.replaced(table, &mut step.old);
        }
        step.shared.sort();
        step.orphans = back.orphans()?;
        step.numbers = Numbers {
            // Numbers that were given out are not given out again.
            next_ino: now.numbers.next_ino.max(row.next_ino),
            inodes: row.inodes,
            next_place: now.numbers.next_place.max(row.next_place),
        };
        step.sweeping = true;
        Ok(step)
    }

    /// The first tables of the tree as it was: those that are still there stay, but for the last one where another one
    /// has the edge.
    fn tree_back(
        &mut self,
        back: &Back<'_, D>,
        count: usize,
        to: &mut Vec<TableRow>,
    ) -> Result<()> {
        let then = back.then.state;
        let is_here =
            |at: usize| then.tables.get(at).is_some_and(|t| back.here.contains(&place(t)));
        let edge = Back::<D>::edge(then);
        let mut at = 0;
        while at < count {
            if is_here(at) {
                to.extend(then.tables.get(at).cloned());
                at += 1;
                continue;
            }
            let begin = at;
            while at < count && !is_here(at) && edge != Some(at) {
                at += 1;
            }
            if begin == at {
                // The edge: it goes on as another one.
                break;
            }
            self.merge(then, begin..at, &Recent::default(), to)?;
        }
        Ok(())
    }

    /// The table at the edge: what the one of then has of the tree, unless it is still there, and what the one of now
    /// has of blocks.
    fn edge_back(&mut self, back: &Back<'_, D>, step: &mut Step) -> Result<()> {
        let then = back.then.state;
        let edge = Back::<D>::edge(then).and_then(|at| then.tables.get(at));
        let mut all = match edge {
            Some(table) if !back.here.contains(&place(table)) => {
                back.edge_rows(&back.then, 0..kind::REFS)?
            }
            _ => Vec::new(),
        };
        all.extend(back.edge_rows(&back.now, kind::REFS..u8::MAX)?);
        let Some(at) = Back::<D>::edge(back.now.state) else { return Ok(()) };
        let keys = range(back.now.state, at);
        let came = match keys.blocks(kind::REFS) {
            Some(bounds) => back.refs(&bounds, &mut step.lives)?,
            None => Recent::default(),
        };
        let mut waiting = self.leaves(Fresh::new(&came).over(all, &keys)?);
        self.tables(&mut waiting, true, &mut step.tables)
    }

    /// The tables of blocks from one on.
    fn index_back(
        &mut self,
        back: &Back<'_, D>,
        first: usize,
        Step { tables: to, lives, .. }: &mut Step,
    ) -> Result<()> {
        let now = back.now.state;
        let most = (self.volume.recent_len / COUNT_LEN) as u64;
        let last = back.index_of_refs().last().map_or(first, |at| at + 1).max(first);
        let mut at = first;
        while at < last {
            let (mut end, mut sum) = (at, 0);
            while end < last && (end == at || sum <= most) {
                sum += now.tables.get(end).map_or(0, |table| table.top.entries);
                end += 1;
            }
            let keys = crate::merge::Range { to: range(now, end - 1).to, ..range(now, at) };
            let bounds = keys.blocks(kind::REFS);
            let came = bounds.map(|bounds| back.refs(&bounds, lives)).transpose()?;
            let came = came.unwrap_or_default();
            for table in at..end {
                if Fresh::new(&came).touches(&range(now, table)) {
                    self.merge(now, table..table + 1, &came, to)?;
                } else {
                    to.extend(now.tables.get(table).cloned());
                }
            }
            at = end;
        }
        to.extend(now.tables.iter().skip(last).cloned());
        Ok(())
    }
}

impl<D: Device> Volume<D> {
    /// Goes back to a snapshot: shows again exactly what that shows. All snapshots stay. It is safe then; whoever goes
    /// on with a home above the volume makes that anew.
    ///
    /// # Errors
    /// `Missing`, `NoRoom`: nothing has changed; what the device says.
    pub fn rollback(&self, name: &str) -> std::result::Result<(), SnapshotError> {
        self.writable()?;
        let room = self.shape.segment_room;
        let row = self.snapshot(name)?;
        let bytes = {
            let state = self.state();
            Back::new(self, &state, &state.seen_by(&row), 0).cost()
        };
        let mut again = true;
        loop {
            self.reclaim(bytes.saturating_add(3 * room))?;
            let mut log = self.log();
            // It may have gone meanwhile.
            let row = self.snapshot(name)?;
            self.prepare(&mut log)?;
            self.settle_all(&mut log)?;
            match self.go_back(&mut log, &row) {
                // What was in the log alone took some of the room that was made.
                Err(Error::NoSpace) if again => again = false,
                Err(Error::NoSpace) => return Err(SnapshotError::NoRoom),
                done => break done?,
            }
        }
        // What was passed over by a sweep may be needed no more.
        self.deleted.fetch_add(1, Ordering::AcqRel);
        // It is so. What cannot be freed now is freed when the volume is opened again.
        let _ = self.sweep();
        Ok(())
    }

    /// Writes it, twice: so the superblock before the newest knows it too.
    fn go_back(&self, log: &mut Log, row: &SnapshotRow) -> Result<()> {
        self.look_again();
        let before = log.clone();
        log.tried += 1;
        log.sequence = log.tried;
        // The log begins anew: a superblock of before must never find what comes now.
        let seed = [&self.shape.uuid[..], &log.sequence.to_le_bytes()].concat();
        log.before = checksum(&seed).max(1);
        let place = (log.physical, log.segment, log.at, log.slot);
        log.good = Good::new(log.before, log.next, place);
        let since = log.sequence;
        let done = self.settle_by(log, &mut |settling, state, _| {
            let then = state.seen_by(row);
            let back = Back::new(settling.volume, state, &then, since);
            settling.has_room(&back)?;
            settling.back(&back, row)
        });
        let Err(error) = done else {
            // It is so already; this is for the day when the newest superblock is damaged.
            let _ = self.settle(log);
            return Ok(());
        };
        if log.superblock.generation == before.superblock.generation {
            let (sequence, name, good) = (before.sequence, before.before, before.good);
            (log.sequence, log.before, log.good, log.round) = (sequence, name, good, None);
        } else {
            // A superblock that could not be written may be there all the same.
            self.stop();
        }
        Err(error)
    }
}

impl<D: Device> Settling<'_, D> {
    /// Whether the tables that have to be written fit beside what is kept back, and the root holds what may follow:
    /// those of then have rows besides those of now, which snapshots may have.
    fn has_room(&self, back: &Back<'_, D>) -> Result<()> {
        let (volume, state, bytes) = (self.volume, back.now.state, back.cost());
        // What is left of a segment, and the root.
        let more = bytes.div_ceil(volume.filled()).saturating_add(2);
        let kept = volume.reserve(state).saturating_add(SPARE) as u64;
        let segments = volume.segments();
        let fits = segments.free() as u64 > kept.saturating_add(more)
            && volume.root_has_room((state, &segments), &back.then.state.tables);
        if fits { Ok(()) } else { Err(Error::NoSpace) }
    }
}
