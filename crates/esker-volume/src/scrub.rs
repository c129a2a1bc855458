//! Scrubbing: everything that somebody needs is read, what has parity is made again in its place, and what is damaged
//! is named by its paths; others may write meanwhile.
//!
//! Above: the command. Below: `check`, `moment`, `recover` for parts and their parity. The superblock, the log and the
//! tables are read as of one moment; then blocks, in the order of their names, which rise with the log: so where it
//! got to is one number, which the root keeps. Invariant: only damaged bytes are written over, and only with those that
//! were there, which a checksum says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::Ordering;

use esker::store::Flow;
use esker::{Cursor, Ino, Kind};
use esker_stone::key::{self, kind};
use esker_stone::rows::extents::BlockName;

use crate::check::Finding;
use crate::device::Device;
use crate::error::{Damage, Error, Result};
use crate::leaf::Leaf;
use crate::limits::SUPERBLOCK_STEP;
use crate::log::Log;
use crate::moment::{Moment, Pace, TRIES};
use crate::parity::{PIECE, parity};
use crate::part::PartHead;
use crate::recent::END;
use crate::recover::mend::{Part, State, parts};
use crate::recover::scan::Scan;
use crate::recovery::{newest, reads_log};
use crate::segments::{Condition, Physical};
use crate::stack::Stack;
use crate::superblock::Superblock;
use crate::view::list;
use crate::volume::Volume;

/// Longest path that is put together.
const PATH_LEN_MAX: usize = 64 << 10;
/// Blocks that are read while nobody else can have a commit shown.
const BLOCKS: usize = 32;
/// Damaged blocks that are named; more are counted.
const FINDINGS_MAX: usize = 100_000;
/// Stored bytes of blocks after which it is written how far it got.
const SAVE_LEN: u64 = 1 << 30;

/// How to scrub.
#[derive(Clone, Copy)]
pub struct Scrubbing<'a> {
    /// Asked before bytes are read; once it says no, it is noted how far it got.
    pub pace: Pace<'a>,
    /// Whether damaged bytes may be written over.
    pub mend: bool,
    /// Whether to begin anew, and not where an earlier one stopped.
    pub restart: bool,
}

impl<'a> Scrubbing<'a> {
    /// All of it, mending.
    #[must_use]
    pub const fn all(pace: Pace<'a>) -> Self {
        Self { pace, mend: true, restart: true }
    }
}

/// Why it did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubError {
    /// There is no room to keep what is there while it is looked at, and others write.
    NoRoom,
    /// The volume says no.
    Volume(Error),
}

impl fmt::Display for ScrubError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom => f.write_str("no room to keep what is there while others write"),
            Self::Volume(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ScrubError {}

impl From<Error> for ScrubError {
    fn from(error: Error) -> Self {
        Self::Volume(error)
    }
}

/// Paths of files, and the snapshot in which they are so; `None`: they are so now.
pub type Files = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Scrubbed {
    /// Copies of the superblock that were damaged; it is written again.
    pub superblocks: u64,
    /// Times that the log was damaged, and what it says was laid into tables.
    pub logs: u64,
    /// Parts of tables that were read.
    pub parts: u64,
    /// Of these so many were damaged, and could be made again.
    pub mended: u64,
    /// Pieces of parity that were damaged, and could be made again.
    pub parity: u64,
    /// Blocks that were read.
    pub blocks: u64,
    /// All that is wrong besides.
    pub findings: Vec<Finding>,
    /// Damaged blocks besides, which are too many to be named.
    pub unnamed: u64,
    /// Blocks that snapshots name, and that were lost before the volume was repaired.
    pub lost: u64,
    /// Which paths of files that costs, and in which snapshot if it is not so now.
    pub files: Files,
    /// It began where an earlier one stopped.
    pub resumed: bool,
    /// It was told to stop.
    pub stopped: bool,
}

impl Scrubbed {
    /// How much was damaged and can be made again.
    #[must_use]
    pub const fn again(&self) -> u64 {
        self.superblocks + self.logs + self.mended + self.parity
    }

    /// Nothing was wrong.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.again() == 0 && self.findings.is_empty()
    }
}

/// Makes the root again, without which a volume does not open; whether it was damaged. It is written if `write` says
/// so.
///
/// # Errors
/// `Root` when it cannot be; what opening says of superblocks; what the device says.
pub fn mend_root(device: &impl Device, write: bool) -> Result<bool> {
    let ((superblock, _), _) = newest(device)?;
    if write {
        superblock.may_be_written()?;
    }
    let Some(page) = superblock.root()? else { return Ok(false) };
    let begin = u64::from(superblock.root_physical) * superblock.segment_len;
    let mut stored = vec![0; page.stored as usize];
    let read = device.read(begin + page.at, &mut stored);
    if read.is_ok() && page.verify(&stored).is_ok() {
        return Ok(false);
    }
    let at = page.at.checked_sub(PartHead::SIZE as u64).ok_or(Damage::Root)?;
    let scan = Scan::between(device, begin, begin + superblock.segment_room);
    let known = parts(&scan);
    let part = known.get(&(begin + at)).ok_or(Damage::Root)?;
    let State::Again(whole) = part.state(device, begin + at) else {
        return Err(Damage::Root.into());
    };
    let right = whole.get(PartHead::SIZE..).and_then(|rest| rest.get(..page.stored as usize));
    if right.is_none_or(|stored| page.verify(stored).is_err()) {
        return Err(Damage::Root.into());
    }
    if write {
        put_back(device, begin + at, &whole)?;
        device.flush()?;
    }
    Ok(true)
}

/// Writes what is not there as it should be; how many pieces.
fn put_back(device: &impl Device, place: u64, wanted: &[u8]) -> Result<u64> {
    let mut count = 0;
    for (number, piece) in (0..).zip(wanted.chunks(PIECE)) {
        let at = place + number * PIECE as u64;
        let mut there = vec![0; piece.len()];
        if device.read(at, &mut there).is_err() || there != piece {
            device.write(at, piece)?;
            count += 1;
        }
    }
    Ok(count)
}

/// How many pieces are not there as they should be.
fn missing(device: &impl Device, place: u64, wanted: &[u8]) -> u64 {
    let mut there = vec![0; PIECE];
    let pieces = (0..).zip(wanted.chunks(PIECE));
    let bad = pieces.filter(|(number, piece)| {
        let read = device.read(place + number * PIECE as u64, &mut there[..piece.len()]);
        read.is_err() || there[..piece.len()] != **piece
    });
    bad.count() as u64
}

impl<D: Device> Volume<D> {
    /// Reads everything that somebody needs, and makes again what can be, while others write.
    ///
    /// # Errors
    /// `NoRoom`; what the device says of what is written. Whatever else is wrong is a finding.
    pub fn scrub(&self, how: &Scrubbing<'_>) -> std::result::Result<Scrubbed, ScrubError> {
        let mut done = Scrubbed::default();
        let mend = how.mend && self.is_writable();
        self.scrub_superblocks(mend, &mut done)?;
        self.scrub_moment(how.pace, mend, &mut done)?;
        if !done.stopped {
            self.scrub_blocks(how, mend, &mut done)?;
        }
        if !done.stopped {
            done.files = self.files_of(&done.findings, how.pace)?;
        }
        Ok(done)
    }

    /// Bytes that scrubbing reads at least.
    #[must_use]
    pub fn scrub_len(&self) -> u64 {
        self.segments().rows().iter().map(|row| row.live).fold(0, u64::saturating_add)
    }

    /// The superblock that counts, in all its copies.
    fn scrub_superblocks(&self, mend: bool, done: &mut Scrubbed) -> Result<()> {
        let mut log = self.log();
        let (which, step) = log.home;
        let wanted = log.superblock.sealed();
        let damaged = |copy: &u32| {
            let mut bytes = [0; Superblock::SIZE];
            let at = self.place(Physical(2 * copy + which)) + step * SUPERBLOCK_STEP;
            self.device.read(at, &mut bytes).is_err() || bytes != wanted
        };
        done.superblocks = (0..self.shape.copies).filter(damaged).count() as u64;
        done.superblocks += u64::from(log.fresh && self.has_damaged_next(&log));
        if mend && done.superblocks > 0 {
            self.retell(&mut log)?;
        }
        Ok(())
    }

    /// Whether a superblock that does not count lies where the next one would go: it was the newest one, and the one
    /// before it counts now.
    fn has_damaged_next(&self, log: &Log) -> bool {
        let Ok((which, step)) = self.next_home(log) else { return false };
        let is_one = |copy: u32| {
            let mut bytes = [0; Superblock::SIZE];
            let at = self.place(Physical(2 * copy + which)) + step * SUPERBLOCK_STEP;
            if self.device.read(at, &mut bytes).is_err() {
                return false;
            }
            let Some(found) = Superblock::decode(&bytes) else { return false };
            found.uuid == self.shape.uuid && Superblock::parse(&bytes).is_err()
        };
        (0..self.shape.copies).any(is_one)
    }

    /// The log and the tables, as of one moment; and everything is counted again.
    fn scrub_moment(
        &self,
        pace: Pace<'_>,
        mend: bool,
        done: &mut Scrubbed,
    ) -> std::result::Result<(), ScrubError> {
        for _ in 0..TRIES {
            let moment = self.moment(pace, mend);
            let mut found = Scrubbed { superblocks: done.superblocks, ..Scrubbed::default() };
            self.scrub_log(&moment, (pace, mend), &mut found)?;
            let written = moment.view.scrub_tables(&mut found);
            found.findings.extend(moment.view.count(false));
            found.stopped = !pace(0);
            if found.stopped {
                // What was read since is not what is there.
                done.stopped = true;
                return Ok(());
            }
            // What was mended was so, whatever else did not count.
            let again = (found.logs + done.logs, found.mended + done.mended);
            (found.logs, found.mended) = again;
            found.parity += done.parity;
            *done = found;
            if moment.is_kept() {
                return Ok(written?);
            }
        }
        Err(ScrubError::NoRoom)
    }

    /// Whether opening the volume would find all commits that are not settled. What it says is known as long as the
    /// volume is open, and so can be laid into tables.
    fn scrub_log(
        &self,
        moment: &Moment<'_, D>,
        (pace, mend): (Pace<'_>, bool),
        done: &mut Scrubbed,
    ) -> Result<()> {
        let then = moment.view.log().clone();
        let name = then.good.name;
        let read = reads_log(&moment.view.device, &then.superblock, name);
        if read == Ok(true) || !moment.is_kept() || !pace(0) {
            return Ok(());
        }
        let mut log = self.log();
        if mend && self.settle_log(&mut log).is_ok() {
            done.logs += 1;
        } else {
            done.findings.push(Finding::Log(then.sequence));
        }
        Ok(())
    }

    /// The log begins behind all that was committed.
    fn settle_log(&self, log: &mut Log) -> Result<()> {
        self.prepare(log)?;
        self.settle_all(log)
    }

    /// Parts of tables, and their parity.
    fn scrub_tables(&self, done: &mut Scrubbed) -> Result<()> {
        let log = self.log();
        let state = self.state();
        let tables = state.tables.iter().chain(&state.kept);
        let tops = tables.map(|table| table.top.page).collect::<Vec<_>>();
        drop(state);
        let root = log.superblock.root().ok().flatten();
        let needed: BTreeSet<(u64, u64)> =
            tops.iter().chain(&root).map(|page| (page.segment, page.at)).collect();
        let stretches = self.stretches();
        for row in stretches.iter().filter(|row| row.condition == Condition::Tables) {
            let begin = self.place(row.physical);
            let scan = Scan::between(&self.device, begin, begin + self.shape.segment_room);
            for (place, part) in parts(&scan) {
                let Some(len) = part.len() else { continue };
                let Some(at) = place.checked_sub(begin) else { continue };
                let own = (row.number, at)..(row.number, at + len as u64);
                let is_needed = needed.range(own).next().is_some();
                if is_needed && part.is_of(row.number) {
                    self.scrub_part(place, &part, done)?;
                }
            }
        }
        if self.writes_in_place() && done.mended + done.parity > 0 {
            self.device.flush()?;
        }
        Ok(())
    }

    /// Whether damaged bytes can be written over.
    fn writes_in_place(&self) -> bool {
        self.is_writable() && self.device.geometry().zones.is_none()
    }

    fn scrub_part(&self, place: u64, part: &Part, done: &mut Scrubbed) -> Result<()> {
        done.parts += 1;
        let whole = match part.state(&self.device, place) {
            State::Whole(whole) => whole,
            State::Again(whole) => {
                done.mended += 1;
                if self.writes_in_place() {
                    put_back(&self.device, place, &whole)?;
                }
                whole
            }
            // The check names what hangs from it.
            State::Lost => return Ok(()),
        };
        let Some(head) = PartHead::parse(&whole, &self.shape.uuid) else { return Ok(()) };
        if self.parity_len(whole.len() as u64) == 0 {
            return Ok(());
        }
        let (behind, wanted) = (place + whole.len() as u64, parity(&head, &whole));
        done.parity += match self.writes_in_place() {
            true => put_back(&self.device, behind, &wanted)?,
            false => missing(&self.device, behind, &wanted),
        };
        Ok(())
    }

    /// Blocks, some at a time, from where an earlier one stopped.
    fn scrub_blocks(&self, how: &Scrubbing<'_>, mend: bool, done: &mut Scrubbed) -> Result<()> {
        let saved = self.scrubbed.load(Ordering::Acquire);
        let first = if how.restart { 0 } else { saved };
        done.resumed = first > 0;
        let mut from = Some(BlockName { segment: first, slot: 0 });
        // What is laid down from now on was just written.
        let end = self.segments().next_number();
        let generation = self.settled();
        let mut since_saved = 0;
        while let Some(begin) = from.filter(|block| block.segment < end) {
            if mend {
                self.scrubbed.store(begin.segment, Ordering::Release);
            }
            if since_saved >= SAVE_LEN && mend {
                self.save_scrubbed();
                since_saved = 0;
            }
            if !(how.pace)(0) {
                done.stopped = true;
                break;
            }
            let (len, next) = self.prove_some(begin, done)?;
            (how.pace)(usize::try_from(len).unwrap_or(usize::MAX));
            since_saved += len;
            from = next;
        }
        if mend && !done.stopped {
            self.scrubbed.store(0, Ordering::Release);
        }
        // Some root may say what is not so any more.
        if mend && (done.stopped || saved > 0 || self.settled() != generation) {
            self.save_scrubbed();
        }
        Ok(())
    }

    /// Writes how far it got. Without, it begins earlier the next time.
    fn save_scrubbed(&self) {
        let mut log = self.log();
        let _ = self.prepare(&mut log).and_then(|()| self.settle(&mut log));
    }

    /// Reads a few blocks that somebody needs, from this name on; how many bytes, and where to go on.
    fn prove_some(&self, from: BlockName, done: &mut Scrubbed) -> Result<(u64, Option<BlockName>)> {
        let state = self.state();
        let stack = self.stack(&state);
        let (names, next) = match stack.blocks_from(from) {
            Ok(found) => found,
            Err(error) => {
                // What comes behind is not known: tables were read before.
                done.findings.push(Finding::Table(error));
                return Ok((0, None));
            }
        };
        let mut len = 0;
        for block in names {
            if stack.refs(block).is_ok_and(|row| row.bytes == 0) {
                continue;
            }
            done.blocks += 1;
            match stack.prove(block) {
                Ok(own) => len += own,
                Err(Error::Damaged(Damage::Lost)) => done.lost += 1,
                Err(_) if done.findings.len() >= FINDINGS_MAX => done.unnamed += 1,
                Err(error) => done.findings.push(Finding::Block(block, error)),
            }
        }
        Ok((len, next))
    }

    /// Paths of what findings are about: as they are now, and of what is not damaged now those in the newest
    /// snapshot that has it.
    ///
    /// # Errors
    /// `NoRoom` when others wrote where that was looked for.
    fn files_of(
        &self,
        findings: &[Finding],
        pace: Pace<'_>,
    ) -> std::result::Result<Files, ScrubError> {
        let wanted = Wanted::of(findings);
        if wanted.is_empty() {
            return Ok(Files::new());
        }
        for _ in 0..TRIES {
            let moment = self.moment(pace, false);
            let files = Self::files_then(&moment, &wanted);
            if moment.is_kept() || !pace(0) {
                return Ok(files);
            }
        }
        Err(ScrubError::NoRoom)
    }

    /// The same as of a moment.
    fn files_then(moment: &Moment<'_, D>, wanted: &Wanted) -> Files {
        let state = moment.view.state();
        let mut all: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
        for path in moment.view.stack(&state).paths_of(wanted, None) {
            all.insert(path, None);
        }
        for row in state.snapshots.iter().rev() {
            let seen = state.seen_by(row);
            let stack = Stack { volume: &moment.view, state: &seen, index: &state };
            for path in stack.paths_of(wanted, Some(row.sequence)) {
                all.entry(path).or_insert_with(|| Some(row.name.clone()));
            }
        }
        all.into_iter().collect()
    }
}

/// What is damaged, of which paths are looked for.
#[derive(Default)]
struct Wanted {
    /// By the last commit of the snapshot that has them.
    inodes: BTreeSet<(Option<u64>, Ino)>,
    blocks: BTreeSet<BlockName>,
}

impl Wanted {
    fn of(findings: &[Finding]) -> Self {
        let mut all = Self::default();
        for finding in findings {
            match finding {
                Finding::Within(sequence, finding) => all.add(Some(*sequence), finding),
                finding => all.add(None, finding),
            }
        }
        all
    }

    fn add(&mut self, of: Option<u64>, finding: &Finding) {
        match finding {
            Finding::Content(ino, _) | Finding::Dangling(_, ino) | Finding::Listing(ino, _) => {
                self.inodes.insert((of, *ino));
            }
            Finding::Block(block, _) => drop(self.blocks.insert(*block)),
            _ => {}
        }
    }

    fn is_empty(&self) -> bool {
        self.inodes.is_empty() && self.blocks.is_empty()
    }
}

impl<D: Device> Stack<'_, D> {
    /// Some names of blocks from this one on, in their order, and where to go on.
    pub(crate) fn blocks_from(
        &self,
        from: BlockName,
    ) -> Result<(Vec<BlockName>, Option<BlockName>)> {
        let mut names = Vec::new();
        self.leaves_from(&key::block(kind::BLOCK, from.segment, from.slot), &mut |leaf| {
            let Leaf::Blocks(rows) = leaf else { return leaf.kind() < kind::BLOCK };
            let segment = rows.segment();
            let behind = rows.iter().map(|(slot, _)| BlockName { segment, slot });
            names.extend(behind.filter(|&name| name >= from).take(BLOCKS));
            names.len() < BLOCKS
        })?;
        for own in self.state.news() {
            names.extend(own.blocks.range(from..).take(BLOCKS).map(|(&name, _)| name));
        }
        names.sort_unstable();
        names.dedup();
        let is_all = names.len() < BLOCKS;
        names.truncate(BLOCKS);
        let next =
            names.last().map(|&last| BlockName { slot: last.slot.saturating_add(1), ..last });
        Ok((names, next.filter(|_| !is_all)))
    }

    /// Paths of what is wanted.
    fn paths_of(&self, wanted: &Wanted, of: Option<u64>) -> Vec<Vec<u8>> {
        let (mut named, mut seen) = (Vec::new(), BTreeSet::new());
        let mut todo = vec![(Ino::ROOT, Vec::new())];
        while let Some((dir, path)) = todo.pop() {
            let mut entries = Vec::new();
            // What cannot be listed is a finding of its own.
            let _ = list(self, dir, (Cursor::START, false), &mut |listed| {
                entries.push((listed.name.bytes().to_vec(), listed.entry));
                Flow::Continue(())
            });
            for (name, entry) in entries {
                let below = [&path[..], b"/", &name].concat();
                let known = wanted.inodes.contains(&(of, entry.ino));
                if known || self.has_one_of(entry.ino, &wanted.blocks) {
                    named.push(below.clone());
                }
                let new = entry.kind == Kind::Directory && seen.insert(entry.ino);
                if new && below.len() <= PATH_LEN_MAX {
                    todo.push((entry.ino, below));
                }
            }
        }
        named
    }

    /// Whether a file has bytes in one of these blocks.
    fn has_one_of(&self, ino: Ino, blocks: &BTreeSet<BlockName>) -> bool {
        let mut at = 0;
        while !blocks.is_empty() && at < END {
            let Ok(run) = self.run(ino, at) else { return false };
            if run.place.is_some_and(|place| blocks.contains(&place.block)) {
                return true;
            }
            at = run.end();
        }
        false
    }
}
