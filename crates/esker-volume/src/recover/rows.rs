//! Rows: those of the newest root, what the log says besides, and for what is lost of the two what older rows say.
//!
//! Above: `recover`. Below: `base`, parts of the log. Invariant: a row that may not be the last of its key is marked,
//! or hides nothing; content of which nothing is known is told to be lost, never to be a hole.

use std::collections::{BTreeMap, HashSet};

use esker::{Ino, Kind};
use esker_stone::key::{self, kind};
use esker_stone::rows::extents::{BlockName, Place};

use super::base::{Base, Walk, tables};
use super::chain::{self, Commit, End, Parts, State};
use super::mend::Mended;
use super::scan::{Part, Scan};
use super::{All, Found, Places};
use crate::delta::Delta;
use crate::device::Device;
use crate::merge::{Range, Row};
use crate::part::{LOG, PartHead};
use crate::recent::{END, Recent, Run, Runs, runs};
use crate::rows::{Begun, counter};
use crate::stack;

/// A block that there never is: what a file has there is lost.
const LOST: BlockName = BlockName { segment: 0, slot: 0 };

/// Most bytes of a file that are told to be lost one by one: one that lost more has a hole behind them, and a name that
/// says so.
const LOST_LEN_MAX: u64 = 64 << 30;

/// What the device tells.
pub(super) struct Told<'a, D> {
    pub scan: &'a Scan,
    pub device: &'a Mended<D>,
    pub places: &'a Places,
    pub before: Option<i64>,
}

/// What is known of the commits behind the base.
#[derive(Default)]
struct Log {
    /// The last one that is lost, or may be.
    lost: Option<u64>,
    /// Inodes from here on were made after that; `None`: none were.
    sure_from: Option<u64>,
    /// Segments that were begun for blocks that were moved.
    begun: Vec<Begun>,
}

/// Adds a row of a table.
fn put(to: &mut Recent, row: Row) {
    match row {
        Row::Inode(row) => drop(to.inodes.insert(row.ino, Some(row))),
        Row::Name(row) => drop(to.names.insert((row.dir, row.name.clone()), Some(row))),
        Row::Xattr(row) => drop(to.xattrs.insert((row.ino, row.name), Some(row.value))),
        Row::Extent(row) => {
            let own = to.extents.entry(row.ino).or_default();
            runs(&row).unwrap_or_default().into_iter().for_each(|run| own.put(run));
        }
        Row::Move(row) => drop(to.moves.insert(row.block, row)),
        Row::Block(name, row) => drop(to.blocks.insert(name, row)),
        // The tree is made anew, and nothing is counted.
        Row::Place(_) | Row::Refs(_) => {}
    }
}

/// Ranges that do not overlap, by where they begin.
struct Ranges(BTreeMap<Vec<u8>, Option<Vec<u8>>>);

impl Ranges {
    fn hold(&self, key: &[u8]) -> bool {
        let near =
            self.0.range::<[u8], _>((std::ops::Bound::Unbounded, std::ops::Bound::Included(key)));
        near.last().is_some_and(|(_, to)| to.as_deref().is_none_or(|to| key < to))
    }

    /// Whether rows of extended attributes of an inode may be lost.
    fn hold_xattrs(&self, ino: Ino) -> bool {
        let (from, to) = (key::xattr(ino, b""), key::xattr(Ino(ino.0.saturating_add(1)), b""));
        let near = self.0.range(..to).next_back();
        near.is_some_and(|(_, end)| end.as_ref().is_none_or(|end| *end > from))
    }

    /// The bytes of a file of which a row may be lost.
    fn bytes(&self, ino: Ino) -> Vec<(u64, u64)> {
        let (first, last) = (key::extent(ino, 0), key::extent(ino, u64::MAX));
        let own = &first[..first.len() - 8];
        let number = |key: &[u8]| {
            let start = key.strip_prefix(own)?;
            start.try_into().ok().map(u64::from_be_bytes)
        };
        let near = self.0.range(..=last);
        let near = near.filter(|(_, to)| to.as_ref().is_none_or(|to| *to > first));
        near.map(|(from, to)| {
            let to = to.as_deref().and_then(number).unwrap_or(END);
            (number(from).unwrap_or(0), to.min(END))
        })
        .collect()
    }
}

impl<D: Device> Told<'_, D> {
    fn in_time(&self, head: &PartHead) -> bool {
        self.before.is_none_or(|before| head.time <= before)
    }

    /// The rows of a part of the log, if its page is whole.
    fn rows(&self, part: &Part) -> Option<Delta> {
        let page = part.1.rows().ok()?;
        let place = part.0.checked_add(u64::from(part.1.rows_at))?;
        let plain = super::base::page_at(self.device, place, &page, &[])?;
        let mut delta = Delta::default();
        delta.read(&plain, part.1.segment).ok()?;
        Some(delta)
    }

    /// Parts of the log, by their commits.
    fn commits(&self) -> Parts {
        let mut commits = Parts::new();
        let own = self.scan.parts.iter().filter(|(_, head)| head.kind == LOG && self.in_time(head));
        for part in own {
            commits.entry((part.1.sequence, part.1.epoch)).or_default().push(*part);
        }
        commits.values_mut().for_each(|parts| parts.sort_by_key(|(_, head)| head.part));
        commits
    }

    /// The newest commit behind which there was a barrier.
    fn proven(&self) -> u64 {
        let heads = self.scan.parts.iter().filter(|(_, head)| self.in_time(head));
        let heads = heads.map(|(_, head)| head.durable).max().unwrap_or(0);
        let superblocks = self.scan.superblocks.iter().map(|own| own.proven).max().unwrap_or(0);
        if self.before.is_some() { heads } else { heads.max(superblocks) }
    }

    /// Lays the log behind the base over its rows.
    fn log(&self, base: &Base, to: &mut Recent, found: &mut Found) -> Log {
        let (parts, proven) = (self.commits(), self.proven());
        let end = End { sequence: base.sequence, before: base.before };
        let (mut log, mut newest, mut seen) = (Log::default(), base.sequence, base.sequence);
        found.time = base.time;
        for Commit { sequence, parts, state, gap } in
            chain::commits(self.device, &parts, end, proven)
        {
            if gap {
                (log.lost, log.sure_from) = (Some(sequence.saturating_sub(1)), None);
            }
            match state {
                // Nobody was told that it is there.
                State::GivenUp => {
                    seen = sequence;
                    continue;
                }
                // It was never safe.
                State::Torn if sequence > proven => continue,
                State::Whole | State::Torn => {}
            }
            let mut delta = Delta::default();
            let mut read = state == State::Whole;
            for part in &parts {
                match self.rows(part) {
                    Some(own) => join(&mut delta, own),
                    None => read = false,
                }
            }
            let next_ino = delta.counters.iter().find(|row| row.number == counter::NEXT_INO);
            let next_ino = next_ino.map(|row| row.value);
            if !read {
                (log.lost, log.sure_from) = (Some(sequence), None);
            } else if log.lost.is_some() {
                log.sure_from = log.sure_from.or(next_ino);
            }
            (newest, seen) = (sequence, sequence);
            found.time = parts.last().map(|(_, head)| head.time);
            log.begun.append(&mut delta.begun);
            let _ = to.apply(delta);
        }
        if proven > seen {
            (log.lost, log.sure_from) = (Some(proven), None);
        }
        found.sequence = newest;
        log
    }

    /// All that older tables and commits say, the newest last.
    fn older(&self, base: &Base) -> Recent {
        let known: HashSet<_> =
            base.state.tables.iter().map(|own| (own.top.page.segment, own.top.page.at)).collect();
        let mut all: Vec<Part> = self.commits().into_values().flatten().collect();
        all.retain(|(_, head)| head.sequence <= base.sequence);
        all.extend(tables(self.device, self.scan).into_iter().filter(|(_, head)| {
            let top = head.rows().map(|page| (page.segment, page.at));
            self.in_time(head) && top.is_ok_and(|top| !known.contains(&top))
        }));
        all.sort_by_key(|(_, head)| (head.sequence, head.kind, head.time, head.part));
        let mut older = Recent::default();
        for part in &all {
            if part.1.kind == LOG {
                let _ = self.rows(part).map(|delta| older.apply(delta));
                continue;
            }
            let Ok(top) = part.1.rows() else { continue };
            let (device, places) = (self.device, self.places);
            let mut walk = Walk::new(device, places);
            if top.stored > 0 {
                walk.tree((top, None), None, &Range { from: Vec::new(), to: None });
            }
            walk.rows.into_iter().for_each(|row| put(&mut older, row));
        }
        older
    }

    /// All rows that count, and ranges of keys of which some are lost.
    pub fn all(&self, base: &Base, found: &mut Found) -> (All, Vec<Range>) {
        let (device, places) = (self.device, self.places);
        let mut walk = Walk::new(device, places);
        walk.tables(&base.state.tables);
        let mut all = All::default();
        walk.rows.drain(..).for_each(|row| put(&mut all.recent, row));
        let log = self.log(base, &mut all.recent, found);
        found.lost_commit = log.lost;
        all.begun = log.begun;
        if !base.is_root && log.lost.is_some() {
            // There may have been tables.
            walk.lost.push(Range { from: Vec::new(), to: None });
        }
        found.lost_ranges = walk.lost.len();
        if log.lost.is_some() {
            let sure = |ino: &Ino| log.sure_from.is_some_and(|from| ino.0 >= from);
            let old = all.recent.inodes.keys().take_while(|ino| !sure(ino));
            all.older.extend(old.copied());
        }
        (all, walk.lost)
    }

    /// Takes what older rows say of what is lost.
    pub fn fill(&self, base: &Base, all: &mut All, lost: Vec<Range>) {
        if lost.is_empty() {
            return;
        }
        let lost = Ranges(lost.into_iter().map(|range| (range.from, range.to)).collect());
        // What came later than the tables has none there.
        let known = all.recent.inodes.range(..Ino(base.state.numbers.next_ino));
        let bare = known.map(|(&ino, _)| ino).filter(|&ino| lost.hold_xattrs(ino));
        all.bare = bare.collect();
        // The same goes for what is in them.
        let next_ino = if base.is_root { base.state.numbers.next_ino } else { u64::MAX };
        all.fill(&lost, self.older(base), Ino(next_ino));
        all.has_older = true;
    }
}

/// The tree becomes that of a snapshot, as far as its tables can be read. Blocks are those of the volume: they are
/// where it has them now.
pub(super) fn of_snapshot<D: Device>(
    all: &mut All,
    (device, places): (&Mended<D>, &Places),
    seen: &stack::State,
    found: &mut Found,
) {
    let mut walk = Walk::new(device, places);
    walk.tables(&seen.tables);
    let old = std::mem::take(all);
    walk.rows.drain(..).for_each(|row| put(&mut all.recent, row));
    (all.recent.blocks, all.recent.moves) = (old.recent.blocks, old.recent.moves);
    (found.lost_commit, found.lost_ranges) = (None, walk.lost.len());
    let lost = walk.lost.drain(..).map(|range| (range.from, range.to));
    let lost = Ranges(lost.collect());
    all.bare = all.recent.inodes.keys().copied().filter(|&ino| lost.hold_xattrs(ino)).collect();
    // Other rows may be newer: they say nothing of it.
    all.fill(&lost, Recent::default(), Ino(u64::MAX));
}

/// Adds the rows of another part of the same commit.
fn join(to: &mut Delta, more: Delta) {
    to.inodes.extend(more.inodes);
    to.names.extend(more.names);
    to.places.extend(more.places);
    to.xattrs.extend(more.xattrs);
    to.extents.extend(more.extents);
    to.moves.extend(more.moves);
    to.begun.extend(more.begun);
    to.gone.extend(more.gone.into_iter().filter(|key| key.first() != Some(&kind::ORPHAN)));
    to.counters.extend(more.counters);
    to.blocks.extend(more.blocks);
}

impl All {
    /// Takes from older rows what is lost. Inodes from `next` on never had rows in what is.
    fn fill(&mut self, lost: &Ranges, older: Recent, next: Ino) {
        let own = &mut self.recent;
        for (ino, row) in older.inodes {
            if row.is_some() && lost.hold(&key::inode(ino)) && !own.inodes.contains_key(&ino) {
                own.inodes.insert(ino, row);
                self.older.insert(ino);
            }
        }
        for ((dir, name), row) in older.names {
            let own_key = (dir, name);
            let here = lost.hold(&key::name(own_key.0, &own_key.1));
            if row.is_some() && here && !own.names.contains_key(&own_key) {
                own.names.insert(own_key.clone(), row);
                self.older_names.insert(own_key);
            }
        }
        for ((ino, name), value) in older.xattrs {
            if value.is_some() && lost.hold(&key::xattr(ino, &name)) {
                own.xattrs.entry((ino, name)).or_insert(value);
                self.older.insert(ino);
            }
        }
        // These never change.
        for (name, row) in older.blocks {
            own.blocks.entry(name).or_insert(row);
        }
        for (name, row) in older.moves {
            own.moves.entry(name).or_insert(row);
        }
        let files = own.inodes.range(..next).filter_map(|(_, row)| row.clone());
        let files: Vec<_> = files.collect();
        for row in files {
            let attr = row.attr;
            let has_content = matches!(attr.kind, Kind::File | Kind::Symlink) && attr.size > 0;
            if has_content && row.inline.is_empty() {
                self.fill_content(row.ino, attr.size, lost, older.extents.get(&row.ino));
            }
        }
    }

    /// The same of the content of a file.
    fn fill_content(&mut self, ino: Ino, size: u64, lost: &Ranges, older: Option<&Runs>) {
        let own = &mut self.recent;
        let runs = own.extents.entry(ino).or_default();
        let mut gone = 0;
        for (from, to) in lost.bytes(ino) {
            let (mut at, to) = (from, to.min(size));
            while at < to {
                let (start, len) = match runs.at(at) {
                    Ok(run) => {
                        at = run.end();
                        continue;
                    }
                    Err(next) => (at, next.min(to) - at),
                };
                at = start + len;
                let told = len.min(LOST_LEN_MAX.saturating_sub(gone));
                gone += len;
                let place = Some(Place { block: LOST, offset: 0 });
                runs.put(Run { start, len: told, place });
                for run in older.into_iter().flat_map(|known| known.between(start, at)) {
                    runs.put(run);
                    gone -= run.len;
                    self.older.insert(ino);
                }
            }
        }
        if gone > LOST_LEN_MAX {
            // What is told of it is enough to name it so; this is for what nobody reads.
            self.damaged.insert(ino, gone);
        }
    }
}
