//! Writing bytes: into the record while there are few, else into extents, which are found, made or
//! copied.
//!
//! Neighbours: `plan` keeps what is decided here, `resize` opens gaps. Invariant: bytes that a
//! reader can see are only overwritten in place where nobody else uses them; everything else goes
//! to hidden places.

use alloc::vec::Vec;
use core::ops::Range;

use super::base::Base;
use super::extents::{self, Extent, Extents, Piece, Pieces};
use super::few::Few;
use super::free::Run;
use super::plan::{Job, Move, Plan, ceil};
use crate::error::{Error, Result};
use crate::ids::Ino;
use crate::limits::{GRANULE, INLINE_LEN_MAX};

/// Most that an append claims ahead, in granules.
const AHEAD_MAX: u64 = (16 << 20) / GRANULE;

/// Where bytes of a file are to be put in the memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slot {
    /// The first byte of the file.
    pub at: u64,
    /// Its address.
    pub to: u64,
    /// Bytes.
    pub len: u64,
    /// A reader can see what is there now.
    pub visible: bool,
}

/// Places in a row.
pub(super) type Slots = Few<Slot, 2>;

/// The address of a byte of the file that lies in the extent.
pub(super) fn address(extent: &Extent, at: u64) -> u64 {
    extent.place * GRANULE + (at - extent.start * GRANULE)
}

impl<'a, B: Base> Plan<'_, 'a, B> {
    pub(super) fn write(&mut self, ino: Ino, at: u64, source: &'a [u8]) -> Result<()> {
        let index = self.content(ino)?;
        let end = self.end_of(at, source.len() as u64)?;
        if source.is_empty() || self.write_inline(index, at, source)? {
            return Ok(());
        }
        let size = self.inodes[index].record.size;
        let ahead = match at == size && size > 0 {
            true => (size / 8 / GRANULE * B::AHEAD_EIGHTHS).clamp(B::AHEAD_MIN, AHEAD_MAX),
            false => 0,
        };
        for slot in &*self.slots(index, at, end, ahead)? {
            let from = (slot.at - at) as usize;
            let part = &source[from..from + slot.len as usize];
            self.jobs.push(Job {
                bytes: Move::Fill { to: slot.to, source: part },
                visible: slot.visible,
            });
        }
        Ok(())
    }

    /// The end of a range that is to be in a file.
    pub(super) fn end_of(&self, at: u64, len: u64) -> Result<u64> {
        let end = at.checked_add(len).filter(|&end| end <= self.home.file_size_max);
        end.ok_or(Error::FileTooBig)
    }

    /// Writes into the record, if all of the file's bytes fit there and none is elsewhere.
    pub(super) fn write_inline(&mut self, index: usize, at: u64, source: &[u8]) -> Result<bool> {
        let record = &self.inodes[index].record;
        let end = at.saturating_add(source.len() as u64);
        if end > INLINE_LEN_MAX as u64 || record.own > 0 {
            return Ok(false);
        }
        let (at, end) = (at as usize, end as usize);
        let mut content = core::mem::take(self.inline(index)?);
        if at == content.len() {
            content.extend_from_slice(source);
        } else {
            content.resize(end.max(content.len()), 0);
            content[at..end].copy_from_slice(source);
        }
        self.set_inline(index, content);
        let record = &mut self.inodes[index].record;
        record.size = record.size.max(end as u64);
        Ok(true)
    }

    /// Moves inline content to an extent of its own.
    pub(super) fn spill(&mut self, index: usize) -> Result<()> {
        if self.inodes[index].record.inline_len == 0 {
            return Ok(());
        }
        let mut source = core::mem::take(self.inline(index)?);
        source.resize(GRANULE as usize, 0);
        self.set_inline(index, Vec::new());
        let extents = self.claim(0, 1, None)?;
        self.splice(index, 0, 1, &extents);
        if let Some(extent) = extents.first() {
            self.hidden(Move::FillOwn { to: address(extent, 0), source });
        }
        Ok(())
    }

    /// Space for bytes `at..end` of a file, not empty, which grows if they end behind it; `ahead`
    /// as in [`writable`](Self::writable).
    pub(super) fn slots(&mut self, index: usize, at: u64, end: u64, ahead: u64) -> Result<Slots> {
        self.spill(index)?;
        self.open_gap(index, at)?;
        let slots = self.writable(index, at, end, ahead)?;
        let staged = &mut self.inodes[index];
        staged.changed |= end > staged.record.size;
        staged.record.size = staged.record.size.max(end);
        Ok(slots)
    }

    /// Space for bytes `at..end`; if new space reaches up to the end, up to `ahead` granules more.
    pub(super) fn writable(
        &mut self,
        index: usize,
        at: u64,
        end: u64,
        ahead: u64,
    ) -> Result<Slots> {
        if let Some(slot) = self.in_place(index, at, end)? {
            return Ok([slot].into_iter().collect());
        }
        let (first, last) = (at / GRANULE, ceil(end));
        let page = self.home.space.base.page();
        let around = first / page * page..(last + ahead).max(last.next_multiple_of(page));
        self.load(index, around.start, around.end)?;
        let window = &self.inodes[index].window;
        let pieces: Pieces = window.pieces(first, last).collect();
        let before = window.ending(first).map(|extent| extent.run().end());
        let mut job = Writing {
            at,
            end,
            from: first,
            to: last + ahead,
            fresh: Extents::default(),
            slots: Slots::default(),
            changed: false,
        };
        let (mut new, mut done) = (false, None);
        for &piece in &*pieces {
            new = piece.extent.is_none();
            match piece.extent {
                Some(extent) if extent.unwritten => self.fill(&mut job, extent, None),
                Some(extent) => self.overwrite(index, &mut job, extent)?,
                None => {
                    let near = job.fresh.last().map(|extent: &Extent| extent.run().end());
                    if B::LASTING && ahead > 0 && piece.start + piece.len == last {
                        done = self.claim_with(index, &mut job, piece, ahead, near.or(before))?;
                        if done.is_some() {
                            continue;
                        }
                    }
                    let hole = self.pages_around(index, &piece, ahead > 0);
                    job.from = job.from.min(hole.start);
                    job.to = job.to.max(hole.end);
                    let len = hole.end - hole.start;
                    for &extent in &*self.claim(hole.start, len, near.or(before))? {
                        self.fill_part(&mut job, extent, &piece);
                    }
                }
            }
        }
        let claimed = match done {
            Some(claimed) => claimed,
            None if new => self.claim_ahead(index, &mut job, last, ahead)?,
            None => 0,
        };
        if job.changed {
            let to = if ahead > 0 { last + claimed } else { job.to };
            self.splice(index, job.from, to, &job.fresh);
        }
        Ok(job.slots)
    }

    /// What of the pages around a hole's stretch is hole; nothing behind it if what follows is claimed `ahead`.
    fn pages_around(&self, index: usize, piece: &Piece, ahead: bool) -> Range<u64> {
        let (page, end) = (self.home.space.base.page(), piece.start + piece.len);
        if page == 1 {
            return piece.start..end;
        }
        let window = &self.inodes[index].window;
        let start = window.hole_start(piece.start).max(piece.start / page * page);
        let behind = end.next_multiple_of(page);
        if ahead || behind == end {
            return start..end;
        }
        let hole = window.piece(end, behind);
        start..if hole.extent.is_none() { end + hole.len } else { end }
    }

    /// New space, of which the bytes of `piece` are filled; what is around them has no bytes yet.
    fn fill_part(&mut self, job: &mut Writing, extent: Extent, piece: &Piece) {
        let (from, to) = (piece.start, piece.start + piece.len);
        let unwritten = |from, to| Extent { unwritten: true, ..extent.part(from, to) };
        if extent.start < from {
            extents::append(&mut job.fresh, unwritten(0, from.min(extent.end())));
        }
        if extent.start < to && extent.end() > from {
            self.fill(job, extent.part(from, to), None);
        }
        if extent.end() > to {
            extents::append(&mut job.fresh, unwritten(to.max(extent.start), u64::MAX));
        }
    }

    /// The place of bytes that one written extent of ours alone has already: no extent changes, so
    /// none but this has to be looked at.
    fn in_place(&self, index: usize, at: u64, end: u64) -> Result<Option<Slot>> {
        let staged = &self.inodes[index];
        if staged.window.alone || !staged.window.untouched() || staged.record.own == 0 {
            return Ok(None);
        }
        let (first, last) = (at / GRANULE, ceil(end));
        let extent = extents::holding(&self.home.tree(staged.ino), staged.ino, first)?;
        let fits = |extent: &Extent| extent.end() >= last && !extent.unwritten;
        let Some(extent) = extent.filter(fits) else { return Ok(None) };
        let mut ours = true;
        let run = extent.part(first, last).run();
        self.home.space.parts(run, |_, shared| ours &= !shared)?;
        let visible = at < staged.stored_size;
        Ok(ours.then_some(Slot { at, to: address(&extent, at), len: end - at, visible }))
    }

    /// Written space: in place where it is ours alone, else copied.
    fn overwrite(&mut self, index: usize, job: &mut Writing, extent: Extent) -> Result<()> {
        let mut parts = Few::<(Run, bool), 2>::default();
        self.home.space.parts(extent.run(), |run, shared| parts.push((run, shared)))?;
        let stored_size = self.inodes[index].stored_size;
        for &(run, shared) in &*parts {
            let start = extent.start + (run.start - extent.place);
            let part = extent.part(start, start + run.len);
            if shared {
                self.ledger.drops.push(run);
                for &copy in &*self.claim(start, run.len, None)? {
                    self.fill(job, copy, Some(part));
                }
            } else {
                let slot = job.slot(&part);
                job.slots.push(Slot { visible: slot.at < stored_size, ..slot });
                extents::append(&mut job.fresh, part);
            }
        }
        Ok(())
    }

    /// Space without bytes of this file yet: what the write leaves out of its granules is zero, or
    /// as in `old`.
    fn fill(&mut self, job: &mut Writing, extent: Extent, old: Option<Extent>) {
        let extent = Extent { unwritten: false, ..extent };
        let slot = job.slot(&extent);
        let (start, end) = (extent.start * GRANULE, extent.end() * GRANULE);
        for (from, to) in [(start, slot.at), (slot.at + slot.len, end)] {
            let (target, len) = (address(&extent, from), to - from);
            match old {
                _ if len == 0 => {}
                Some(old) => self.hidden(Move::Copy { from: address(&old, from), to: target, len }),
                None => self.hidden(Move::Zero { to: target, len }),
            }
        }
        job.slots.push(slot);
        job.changed = true;
        extents::append(&mut job.fresh, extent);
    }

    /// Claims space for a hole and for what follows it, in one run; how many granules follow. Nothing where there
    /// is no such run.
    fn claim_with(
        &mut self,
        index: usize,
        job: &mut Writing,
        piece: Piece,
        ahead: u64,
        near: Option<u64>,
    ) -> Result<Option<u64>> {
        let last = piece.start + piece.len;
        let hole = self.inodes[index].window.piece(last, last + ahead);
        if hole.extent.is_some() {
            return Ok(None);
        }
        let Some(run) = self.home.space.claim_whole(piece.len + hole.len, near)? else {
            return Ok(None);
        };
        self.ledger.claims.push(run);
        let whole = Extent { start: piece.start, len: run.len, place: run.start, unwritten: false };
        self.fill(job, whole.part(piece.start, last), None);
        extents::append(&mut job.fresh, whole.part(last, whole.end()));
        Ok(Some(hole.len))
    }

    /// Claims what is free right behind the new space, so that appends make long extents.
    fn claim_ahead(
        &mut self,
        index: usize,
        job: &mut Writing,
        last: u64,
        ahead: u64,
    ) -> Result<u64> {
        let hole = self.inodes[index].window.piece(last, last + ahead);
        let Some(extent) = job.fresh.last().filter(|_| ahead > 0 && hole.extent.is_none()) else {
            return Ok(0);
        };
        let place = extent.run().end();
        let len = self.home.space.extend(place, hole.len)?;
        if len > 0 {
            self.ledger.claims.push(Run { start: place, len });
            let extent = Extent { start: last, len, place, unwritten: false };
            extents::append(&mut job.fresh, extent);
        }
        Ok(len)
    }
}

/// A write on its way through the pieces of a file.
struct Writing {
    at: u64,
    end: u64,
    /// Granules of which `fresh` tells.
    from: u64,
    to: u64,
    fresh: Extents,
    slots: Slots,
    changed: bool,
}

impl Writing {
    /// The write's bytes that fall into the extent, into hidden space.
    fn slot(&self, extent: &Extent) -> Slot {
        let at = self.at.max(extent.start * GRANULE);
        let end = self.end.min(extent.end() * GRANULE);
        Slot { at, to: address(extent, at), len: end - at, visible: false }
    }
}
