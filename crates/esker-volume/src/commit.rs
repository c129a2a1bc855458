//! A commit: what changed is asked for, laid down behind the end of the log, made safe with one barrier, and
//! only then shown to readers.
//!
//! Above: homes, as a [`Source`]. Below: `log`, `stack`. Invariant: readers see a commit whole and safe, or
//! not at all; a source is asked again from its beginning when a segment or a barrier fails.

mod again;
mod blocks;
mod resembling;
mod share;
mod sums;

pub use resembling::NoDeltas;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;

use esker::Ino;
use esker_stone::key::{self, kind};
use esker_stone::rows::blocks::{BlockRow, Blocks};
use esker_stone::rows::extents::{BlockName, Content, Extent, Piece};
use esker_stone::rows::inodes::Inode;
use esker_stone::rows::names::Named;
use esker_stone::rows::places::Listing;
use esker_stone::rows::xattrs::Xattr;
use esker_stone::{Codec, Sealed, Setting};

use crate::base::{self, is_based};
use crate::counts::Count;
use crate::delta::Delta;
use crate::device::{Buffer, Device, Fault};
use crate::error::{Damage, Error, Result};
use crate::fold::Room;
use crate::limits::{NUMBER_MAX, PART_LEN, PIECES, ROWS_PAGE_LEN, SHARED_LEN_MIN, SLOT_MAX};
use crate::log::{Log, flags, may_relocate};
use crate::part::{PartHead, append_page};
use crate::ranges::Ranges;
use crate::recent::{END, Run};
use crate::rows::{Move, Numbers, Orphan, Refs, counter};
use crate::stack::State;
use crate::volume::Volume;

use blocks::Plain;
pub(crate) use resembling::Likeness;
use share::Fresh;

/// Who knows what changed. Asked once for each try at a commit, it must tell the same each time.
pub trait Source {
    /// Tells everything to `to`: final values only, no key and no byte twice.
    ///
    /// # Errors
    /// Its own, or those of `to`.
    fn tell(&self, to: &mut dyn Sink) -> Result<()>;

    /// Bytes that were told, once more; whether it still has all of them.
    fn recall(&self, ino: Ino, at: u64, target: &mut [u8]) -> bool {
        let _ = (ino, at, target);
        false
    }

    /// The shortest bytes that it wants to be shared with another file.
    fn shares_from(&self) -> u64 {
        SHARED_LEN_MIN
    }
}

/// Who takes what changed.
pub trait Sink {
    /// An inode, new or with other attributes; content is kept in it only if it is all of the file.
    fn inode(&mut self, row: Inode);
    /// An inode is gone, with all that it had.
    ///
    /// # Errors
    /// What looking for its content meets.
    fn forget(&mut self, ino: Ino) -> Result<()>;
    /// A name.
    ///
    /// # Errors
    /// What looking for its place meets.
    fn name(&mut self, row: Named) -> Result<()>;
    /// A name leads nowhere any more.
    ///
    /// # Errors
    /// What looking for its place meets.
    fn unname(&mut self, dir: Ino, name: &[u8]) -> Result<()>;
    /// An extended attribute, or that there is none.
    fn xattr(&mut self, ino: Ino, name: &[u8], value: Option<Vec<u8>>);
    /// Bytes of a file.
    ///
    /// # Errors
    /// `NoSpace`; what the device says.
    fn bytes(&mut self, ino: Ino, at: u64, bytes: &[u8]) -> Result<()>;
    /// So many bytes of a file from `at` on are those that another has in the volume, before this commit, from there
    /// on. How many of the first of them need not be told as bytes; 0: they must be.
    ///
    /// # Errors
    /// What looking for either meets.
    fn share(&mut self, ino: Ino, at: u64, len: u64, from: (Ino, u64)) -> Result<u64>;
    /// The same ranges of a file of this size with what is best told again together with them.
    ///
    /// # Errors
    /// What looking for what was there meets.
    fn widen(&mut self, file: (Ino, u64), bytes: &Ranges) -> Result<Ranges>;
    /// A hole in a file, up to its end for ever where `len` is `None`.
    ///
    /// # Errors
    /// What looking for what was there meets.
    fn hole(&mut self, ino: Ino, at: u64, len: Option<u64>) -> Result<()>;
    /// Bytes of a file that is new are those that the base's file of the same number has there.
    ///
    /// # Errors
    /// `Setting` for those that are too far behind in it; what looking for what was there meets.
    fn piece_of_base(&mut self, ino: Ino, at: u64, len: u64) -> Result<()>;
    /// A block that somebody needs is moved here; `inside`: if it fits into the open segment.
    ///
    /// # Errors
    /// `NoSpace`; what the device says.
    fn carry(&mut self, block: BlockName, inside: bool) -> Result<Carry>;
    /// What there is to count.
    fn numbers(&mut self, numbers: Numbers);
    /// A block that no file names, and no snapshot needs any more, is gone.
    ///
    /// # Errors
    /// What looking for it meets.
    fn sweep(&mut self, block: BlockName) -> Result<()>;
}

/// What became of a block that was to be moved.
pub enum Carry {
    /// It is told elsewhere, or needed no more.
    Carried,
    /// It does not fit into the open segment.
    TooLong,
    /// It cannot be read, and stays where it is.
    Unreadable(Error),
}

/// Bytes that have a block of their own where they are written over others.
const APART: usize = 4 << 10;
/// Bytes of rows so few that trying two codecs takes no time.
const FEW_ROWS_LEN: usize = 1 << 10;
/// Bytes that a row of a block takes in a page, at most.
const BLOCK_ROW_LEN: usize = 128;
/// Bytes that the group around such rows takes, at most.
const GROUP_HEAD_LEN: usize = 256;
/// How long rows are is measured again when one of so many is new.
const MEASURED_SHARE: usize = 16;
/// Before that is done, of any rows.
const NOT_MEASURED: (usize, usize) = (0, BLOCK_ROW_LEN);

/// One try at a commit.
struct Writer<'a, D> {
    volume: &'a Volume<D>,
    source: &'a dyn Source,
    log: &'a mut Log,
    state: &'a State,
    reserve: usize,
    room: Room,
    /// Bytes that may still be written again to free blocks: nobody asked whether there is room for them.
    fold_left: u64,
    /// Blocks of which bytes are written again to free them.
    folded: BTreeSet<BlockName>,
    delta: Delta,
    runs: BTreeMap<Ino, Vec<Run>>,
    refs: BTreeMap<BlockName, i64>,
    /// Blocks that new ones differ from.
    bases: BTreeSet<BlockName>,
    lives: BTreeMap<u64, i64>,
    /// Plain bytes of deltas that came, less those of deltas that went.
    deltas: i64,
    /// Of these there may be so many.
    deltas_max: u64,
    /// Blocks that later ones may differ little from, and bytes of these.
    remembered: Vec<(BlockName, Vec<u8>)>,
    remembered_len: usize,
    /// What was laid down, by hash.
    fresh: HashMap<u64, Fresh>,
    open: Plain,
    /// Blocks that are to be compressed together.
    plains: Vec<Plain>,
    /// The part that is being filled, its head left free.
    part: Buffer,
    rows: Vec<BlockRow>,
    /// With so many of these, and one more, a page would be so long.
    measured: (usize, usize),
    parts: u32,
    /// Writing failed, not looking.
    failed: bool,
}

impl<D: Device> Sink for Writer<'_, D> {
    fn inode(&mut self, row: Inode) {
        match (row.attr.nlink, self.state.orphans.contains(&row.ino)) {
            (0, false) => self.delta.orphans.push(Orphan(row.ino)),
            (1.., true) => self.delta.gone.push(key::orphan(row.ino)),
            _ => {}
        }
        self.delta.inodes.push(row);
    }

    fn forget(&mut self, ino: Ino) -> Result<()> {
        self.release(ino, 0, END)?;
        self.delta.gone.push(key::inode(ino));
        if self.state.orphans.contains(&ino) {
            self.delta.gone.push(key::orphan(ino));
        }
        Ok(())
    }

    fn name(&mut self, row: Named) -> Result<()> {
        if self.volume.has_places() {
            let old = self.volume.stack(self.state).name(row.dir, &row.name)?;
            if let Some(old) = old.filter(|old| old.seq != row.seq) {
                self.delta.gone.push(key::place(row.dir, old.seq));
            }
            let name = row.name.clone();
            self.delta.places.push(Listing { dir: row.dir, seq: row.seq, name });
        }
        self.delta.names.push(row);
        Ok(())
    }

    fn unname(&mut self, dir: Ino, name: &[u8]) -> Result<()> {
        if let Some(old) = self.volume.stack(self.state).name(dir, name)? {
            if self.volume.has_places() {
                self.delta.gone.push(key::place(dir, old.seq));
            }
            self.delta.gone.push(key::name(dir, name));
        }
        Ok(())
    }

    fn xattr(&mut self, ino: Ino, name: &[u8], value: Option<Vec<u8>>) {
        match value {
            Some(value) => self.delta.xattrs.push(Xattr { ino, name: name.to_vec(), value }),
            None => self.delta.gone.push(key::xattr(ino, name)),
        }
    }

    fn bytes(&mut self, ino: Ino, at: u64, bytes: &[u8]) -> Result<()> {
        let replaced = self.release(ino, at, at + bytes.len() as u64)?;
        let whole = self.volume.shape.block_len as usize;
        // Long runs have blocks of their own, so that what is read together lies together; so has what is written
        // over something, or little of it would keep much else from being free.
        let apart = bytes.len() >= whole || (replaced && bytes.len() >= APART);
        if apart {
            self.end_block()?;
        }
        for (start, own) in (at..).step_by(whole).zip(bytes.chunks(whole)) {
            let hash = self.hash(own);
            if !hash.is_some_and(|hash| self.share_equal(hash, (ino, start), own)) {
                if apart && replaced {
                    self.open.over = true;
                    self.open.near = self.near(ino, start, own.len());
                }
                self.append((ino, start), own, hash)?;
            }
        }
        if apart && replaced { self.end_block() } else { Ok(()) }
    }

    fn share(&mut self, ino: Ino, at: u64, len: u64, from: (Ino, u64)) -> Result<u64> {
        self.share_of(ino, (at, len), from)
    }

    fn widen(&mut self, (ino, size): (Ino, u64), bytes: &Ranges) -> Result<Ranges> {
        let (stack, mut wide) = (self.volume.stack(self.state), bytes.clone());
        for range in bytes.iter() {
            let beside = stack.beside(ino, range, self.room)?;
            let more: u64 = beside.iter().map(|(start, end)| end - start).sum();
            if more > self.fold_left {
                continue;
            }
            self.fold_left -= more;
            for (start, end) in beside {
                self.folded.extend(stack.blocks_between(ino, start, end)?);
                wide.add(start, end.min(size));
            }
        }
        self.volume.counts.add(Count::Folded, wide.len() - bytes.len());
        Ok(wide)
    }

    fn hole(&mut self, ino: Ino, at: u64, len: Option<u64>) -> Result<()> {
        let end = len.map_or(END, |len| at + len);
        self.release(ino, at, end)?;
        let run = Run { start: at, len: end - at, place: None };
        if run.len > 0 {
            self.runs.entry(ino).or_default().push(run);
        }
        Ok(())
    }

    fn piece_of_base(&mut self, ino: Ino, at: u64, len: u64) -> Result<()> {
        if !base::has_names(ino, at, len) {
            return Err(Error::Setting("the base has a file that is too large"));
        }
        self.release(ino, at, at + len)?;
        let run = Run { start: at, len, place: base::place(ino, at) };
        self.runs.entry(ino).or_default().push(run);
        Ok(())
    }

    fn carry(&mut self, block: BlockName, inside: bool) -> Result<Carry> {
        self.end_blocks()?;
        let stack = self.volume.stack(self.state);
        let (row, refs) = (stack.block_row(block)?, stack.refs(block)?);
        let needed = refs.needed(row.stored);
        if inside && needed as usize > self.left(usize::MAX, needed as usize) {
            return Ok(Carry::TooLong);
        }
        if refs.is_in_pieces()
            && let Some((ino, runs)) = stack.left_of(block, &row)?
            && self.tell_runs(block, ino, &runs)?
        {
            return Ok(Carry::Carried);
        }
        let (from, _) = stack.whereabouts(block, &row)?;
        let stored = match stack.stored_block(block, &row) {
            Ok(stored) => stored,
            Err(Error::Device(fault)) if !matches!(fault, Fault::Io(_)) => return Err(fault.into()),
            Err(error) => {
                self.log.moving.done.insert(from);
                return Ok(Carry::Unreadable(error));
            }
        };
        if refs.is_in_pieces() {
            self.delta.refs.push(refs.whole());
        }
        self.make_room(stored.len(), 0, PART_LEN)?;
        let at = self.log.at + self.part.len() as u64;
        let (to, shift) = (self.log.segment, at.wrapping_sub(row.at));
        self.volume.counts.add(Count::Moved, stored.len() as u64);
        self.part.extend_from_slice(&stored);
        self.delta.moves.push(Move { block, count: 1, to, shift });
        *self.lives.entry(from).or_default() -= needed.cast_signed();
        *self.lives.entry(to).or_default() += stored.len() as i64;
        Ok(Carry::Carried)
    }

    fn numbers(&mut self, numbers: Numbers) {
        self.delta.counters.extend(numbers.counters());
    }

    fn sweep(&mut self, block: BlockName) -> Result<()> {
        let stack = self.volume.stack(self.state);
        let known = stack.refs(block)?;
        if known.unnamed_since().is_some_and(|since| !self.state.needs(block, since)) {
            let row = stack.block_row(block)?;
            if !row.is_lost() {
                let (segment, _) = stack.whereabouts(block, &row)?;
                *self.lives.entry(segment).or_default() -= i64::from(row.stored);
            }
            self.unbase(&row);
            self.delta.refs.push(Refs { block, bytes: 0 });
        }
        Ok(())
    }
}

impl<D: Device> Writer<'_, D> {
    /// So many bytes more, or less, name a block. Sums that do not fit, which only damaged rows have, fit no counter
    /// either.
    fn refers(&mut self, block: BlockName, change: i64) {
        let sum = self.refs.entry(block).or_default();
        *sum = sum.saturating_add(change);
    }

    /// What was said of these bytes of a file is said no more; whether any was held by a block.
    fn release(&mut self, ino: Ino, from: u64, to: u64) -> Result<bool> {
        let stack = self.volume.stack(self.state);
        let mut held = false;
        if stack.inode(ino)?.is_none() {
            return Ok(held);
        }
        let mut at = from;
        while at < to {
            let run = stack.run(ino, at)?;
            let run = run.within(at, to).ok_or(Damage::Table)?;
            if let Some(place) = run.place.filter(|place| !is_based(place.block)) {
                self.refers(place.block, -run.len.cast_signed());
                held = true;
            }
            at = run.end();
        }
        Ok(held)
    }

    /// Bytes that the open part still takes, with one block more, where it and the open segment take at most `most`.
    /// Where that seems to be less than are wanted it counts how long the page of its rows really is.
    fn left(&mut self, most: usize, wanted: usize) -> usize {
        let rest = usize::try_from(self.volume.rest(self.log)).unwrap_or(usize::MAX);
        let free = most.min(rest).saturating_sub(self.part.len());
        let left = free.saturating_sub(self.page_len());
        let (rows, (measured, _)) = (self.rows.len(), self.measured);
        // Few of them have come since that was done, or it is not worth it.
        if left >= wanted || (rows - measured) * MEASURED_SHARE < rows.max(1) {
            return left;
        }
        let end = self.rows.last().map_or(0, |row| row.at + u64::from(row.stored));
        self.rows.push(stranger(end));
        let page = Blocks::encode(self.log.slot, &self.rows, self.volume.writing().measure());
        self.rows.truncate(rows);
        self.measured = (rows, page.len());
        free.saturating_sub(self.page_len())
    }

    /// Bytes that the page of the part's rows of blocks takes at most, with one row more.
    fn page_len(&self) -> usize {
        let (rows, (measured, len)) = (self.rows.len(), self.measured);
        let about = GROUP_HEAD_LEN + (rows + 1) * BLOCK_ROW_LEN;
        about.min(GROUP_HEAD_LEN + len + (rows - measured) * BLOCK_ROW_LEN)
    }

    /// Ends the part, which is to take at most `most`, and the segment, if so many bytes more, with so many of rows
    /// that are not of blocks, would be too much.
    fn make_room(&mut self, bytes: usize, page: usize, most: usize) -> Result<()> {
        let more = bytes + page;
        if self.left(most, more) < more && self.part.len() > PartHead::SIZE {
            self.put_part(&[], false)?;
        }
        if self.left(usize::MAX, more) < more {
            self.advance()?;
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<()> {
        let done = self.volume.advance(self.log, self.reserve);
        self.failed |= is_failure(&done);
        done
    }

    /// Rows as what takes the least time, of all that takes the fewest units of the device.
    fn seal(&self, plain: &[u8], setting: Setting) -> Result<Sealed> {
        let units = |len: usize| self.volume.padded(self.part.len() + len);
        let fits = |len: usize| units(len) == units(1);
        if fits(plain.len()) {
            return Ok(Sealed::new(plain, &[], Setting::PLAIN)?);
        }
        if plain.len() <= FEW_ROWS_LEN && !setting.codec.is_quick() {
            let sealed = Sealed::new(plain, &[], Setting::QUICK)?;
            if fits(sealed.stored.len()) {
                return Ok(sealed);
            }
        }
        Ok(Sealed::new(plain, &[], setting)?)
    }

    /// Writes the part with its blocks and this page of rows.
    fn put_part(&mut self, page: &[u8], last: bool) -> Result<()> {
        let writing = self.volume.writing();
        let first = self.log.slot;
        let mut plain = Vec::new();
        if !self.rows.is_empty() {
            plain = Blocks::encode(first, &self.rows, writing.measure());
        }
        plain.extend_from_slice(page);
        let sealed = self.seal(&plain, writing.setting)?;
        let mut head = self.log.head(self.volume.shape.uuid, (self.volume.now)());
        head.flags = flags(last);
        head.part = self.parts;
        head.slots = self.rows.len() as u32;
        let rows = append_page(&mut self.part, (self.log.segment, self.log.at), &sealed);
        head.set_rows(&rows);
        let (counts, len) = (&self.volume.counts, self.part.len());
        counts.add(Count::Rows, PartHead::SIZE as u64 + u64::from(rows.stored));
        counts.add(Count::Padding, self.volume.padded(len) - len as u64);
        let put = self.volume.put_part(self.log, &mut head, &mut self.part);
        self.failed |= is_failure(&put);
        put?;
        self.parts += 1;
        self.measured = NOT_MEASURED;
        self.part.clear();
        self.part.resize(PartHead::SIZE);
        let segment = self.log.segment;
        let named = |(slot, row)| (BlockName { segment, slot }, row);
        self.delta.blocks.extend((first..).zip(self.rows.drain(..)).map(named));
        Ok(())
    }

    /// The rows of the files' new runs.
    fn extents(&mut self) {
        for (ino, mut runs) in std::mem::take(&mut self.runs) {
            runs.sort_by_key(|run| run.start);
            let mut at = 0;
            while at < runs.len() {
                let mut end = at + 1;
                while end < runs.len()
                    && end - at < PIECES
                    && runs[end].start == runs[end - 1].end()
                {
                    end += 1;
                }
                self.delta.extents.push(row(ino, &runs[at..end]));
                at = end;
            }
        }
    }

    /// Lays down everything that is left, and makes it safe.
    fn finish(&mut self) -> Result<()> {
        self.end_blocks()?;
        self.extents();
        self.sums()?;
        self.delta.sort();
        let limit = ROWS_PAGE_LEN.min(self.volume.shape.segment_room as usize / 4);
        let pages = self.delta.pages(limit, self.volume.writing().measure());
        let count = pages.len();
        for (number, page) in pages.iter().enumerate() {
            // What is shorter by being apart takes no fewer requests.
            self.make_room(0, page.len(), usize::MAX)?;
            self.put_part(page, number + 1 == count)?;
        }
        if count == 0 {
            return Ok(());
        }
        let barrier = self.volume.barrier(self.log);
        self.failed |= is_failure(&barrier);
        barrier
    }
}

/// A row unlike any other: beside it no number is the same in all rows, which is what takes most.
fn stranger(end: u64) -> BlockRow {
    let base = Some(BlockName { segment: NUMBER_MAX, slot: SLOT_MAX });
    let row = BlockRow::lost(end + PART_LEN as u64, 1);
    BlockRow { codec: Codec::Lz4, base, owner: Some((NUMBER_MAX, NUMBER_MAX)), ..row }
}

/// Whether the device failed. That there is no room below it is none: what was there stays, and what was to come is
/// as if it had never been.
const fn is_failure(done: &Result<()>) -> bool {
    matches!(done, Err(Error::Device(fault)) if !matches!(fault, Fault::NoSpace))
}

/// A row of runs that follow each other.
pub(crate) fn row(ino: Ino, runs: &[Run]) -> Extent {
    let pieces = runs.iter().map(|run| Piece { len: run.len, place: run.place }).collect();
    let start = runs.first().map_or(0, |run| run.start);
    let end = runs.last().map_or(0, Run::end);
    let len = (end < END).then_some(end - start);
    Extent { ino, start, len, content: Content::Pieces(pieces) }
}

impl<D: Device> Volume<D> {
    /// Writes what `source` tells as one commit, and returns once it is safe. Nothing to tell is nothing written.
    ///
    /// # Errors
    /// `NoSpace`, and nothing has changed; those of the source; `ReadOnly` when the volume cannot be written
    /// any more.
    pub fn commit(&self, source: &dyn Source) -> Result<()> {
        self.commit_and(source, |show| show())
    }

    /// The same; `around` is called once the commit is safe, and itself calls what shows it to readers.
    ///
    /// # Errors
    /// As [`commit`](Self::commit).
    pub fn commit_and(
        &self,
        source: &dyn Source,
        around: impl FnOnce(&mut dyn FnMut() -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        self.writable()?;
        let mut log = self.log();
        self.prepare(&mut log)?;
        // Before anything is moved: whether that failed is told by the commit's own barrier, and by none before.
        self.unclose(&mut log)?;
        self.migrate(&mut log);
        self.write(&mut log, source, around)?;
        self.commits.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Writes a commit at the end of the log.
    pub(crate) fn write(
        &self,
        log: &mut Log,
        source: &dyn Source,
        around: impl FnOnce(&mut dyn FnMut() -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        self.unclose(log)?;
        let mut tries = 0;
        loop {
            let (outcome, failed) = self.attempt(log, source);
            if outcome.is_err() {
                self.forget_moved(log);
            }
            match outcome {
                Ok(delta) => {
                    let mut delta = Some(delta);
                    return around(&mut || self.publish(log, delta.take().unwrap_or_default()));
                }
                Err(error) if failed && may_relocate(&error) && tries < 2 => {
                    tries += 1;
                    let written = log.at > 0;
                    if self.relocate(log, !written).is_err() {
                        self.stop();
                        return Err(error);
                    }
                }
                Err(error) => {
                    // What was laid down is nobody's, but the log goes on behind it: so it must be safe.
                    let full_below = error == Error::Device(Fault::NoSpace)
                        && self.device.geometry().zones.is_none();
                    let none = full_below || log.before == log.good.name;
                    let harmless = !failed && (none || self.barrier(log).is_ok());
                    if harmless && full_below {
                        self.rewind(log);
                    }
                    if !harmless {
                        self.stop();
                    }
                    // It may have gone on into other segments.
                    self.measure_room(&self.state(), &self.segments());
                    return Err(error);
                }
            }
        }
    }

    /// Before a commit. Before the first after opening, what an earlier one left is made safe, and a zone that was
    /// written further than its last whole part is left.
    pub(crate) fn prepare(&self, log: &mut Log) -> Result<()> {
        if log.fresh {
            self.barrier(log)?;
            self.leave_others(log)?;
            let written = self.device.written(self.place(log.physical))?;
            if written.is_some_and(|written| written != log.at) {
                self.relocate(log, false)?;
            }
            log.fresh = false;
        }
        self.settle_in_time(log)?;
        self.proclaim_in_time(log);
        Ok(())
    }

    fn attempt(&self, log: &mut Log, source: &dyn Source) -> (Result<Delta>, bool) {
        log.tried += 1;
        let state = self.state();
        let mut writer = Writer {
            volume: self,
            source,
            reserve: self.left_to_settling(&state),
            room: self.room_to_fold(),
            fold_left: (self.room() / 4).max(self.shape.segment_room / 2),
            folded: BTreeSet::new(),
            log,
            state: &state,
            delta: Delta::default(),
            runs: BTreeMap::new(),
            refs: BTreeMap::new(),
            bases: BTreeSet::new(),
            lives: BTreeMap::new(),
            deltas: 0,
            deltas_max: self.deltas_max(&state),
            remembered: Vec::new(),
            remembered_len: 0,
            fresh: HashMap::new(),
            open: Plain::default(),
            plains: Vec::new(),
            part: Buffer::from(&[0; PartHead::SIZE][..]),
            rows: Vec::new(),
            measured: NOT_MEASURED,
            parts: 0,
            failed: false,
        };
        let told = source.tell(&mut writer).and_then(|()| writer.tell_again());
        let done = told.and_then(|()| writer.finish());
        let failed = writer.failed;
        if done.is_ok() {
            writer.publish_hashes();
            writer.publish_remembered();
        }
        (done.map(|()| std::mem::take(&mut writer.delta)), failed)
    }

    /// Shows readers what is safe now.
    fn publish(&self, log: &mut Log, delta: Delta) -> Result<()> {
        if delta.has_rows() {
            // Nothing may say of a commit that is nowhere that it was safe.
            (log.sequence, log.safe) = (log.tried, log.tried);
        }
        log.moving.told();
        self.counts.add(Count::Commits, 1);
        let mut state = self.state_mut();
        let mut segments = self.segments_mut();
        let absorbed = absorb(&mut state, &mut segments, delta);
        self.measure_room(&state, &segments);
        if absorbed.is_err() {
            self.stop();
        }
        absorbed
    }
}

/// Adds a whole commit to the state.
pub(crate) fn absorb(
    state: &mut State,
    segments: &mut crate::segments::Segments,
    mut delta: Delta,
) -> Result<()> {
    // One that was to be for a snapshot that came to nothing.
    let needless =
        |row: &Refs| row.unnamed_since().is_some_and(|since| !state.needs(row.block, since));
    state.sweeping |= delta.refs.iter().any(needless);
    for row in std::mem::take(&mut delta.lives) {
        segments.set_live(row.segment, row.bytes)?;
    }
    for row in std::mem::take(&mut delta.counters) {
        match row.number {
            counter::DELTAS => state.deltas = row.value,
            _ => state.numbers.take(&row),
        }
    }
    state.orphans.extend(std::mem::take(&mut delta.orphans).into_iter().map(|row| row.0));
    for key in delta.gone.extract_if(.., |key| key.first() == Some(&kind::ORPHAN)) {
        let ino = key.get(1..).and_then(|ino| ino.try_into().ok()).map(u64::from_be_bytes);
        state.orphans.remove(&Ino(ino.ok_or(Damage::Commit)?));
    }
    state.recent.apply(delta)
}
