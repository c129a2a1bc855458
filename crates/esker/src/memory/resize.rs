//! Making files longer, shorter, holey or sure of their space.
//!
//! Neighbours: `write` makes partial granules writable. Invariant: what a written extent holds
//! behind the end of the file is nobody's bytes, and is zeroed or dropped before the end moves past
//! it.

use alloc::vec::Vec;

use super::base::Base;
use super::extents::{self, Extent, Extents, Pieces};
use super::plan::{Job, Move, Plan, ceil};
use crate::error::Result;
use crate::ids::{Ino, Span};
use crate::limits::GRANULE;

impl<B: Base> Plan<'_, '_, B> {
    pub(super) fn cut(&mut self, ino: Ino, len: u64) -> Result<()> {
        let index = self.content(ino)?;
        self.end_of(len, 0)?;
        let record = self.inodes[index].record;
        if u64::from(record.inline_len) > len {
            let mut content = core::mem::take(self.inline(index)?);
            content.truncate(len as usize);
            self.set_inline(index, content);
        }
        if len == 0 {
            self.wipe(index)?;
        } else if record.own > 0 {
            self.open_gap(index, len)?;
            self.clear(index, ceil(len), u64::MAX)?;
        }
        let staged = &mut self.inodes[index];
        staged.changed = true;
        staged.record.size = len;
        Ok(())
    }

    pub(super) fn punch(&mut self, ino: Ino, span: Span) -> Result<()> {
        let index = self.content(ino)?;
        self.make_hole(index, span.start(), span.end())
    }

    /// Bytes `at..end` become hole as far as the file has them.
    pub(super) fn make_hole(&mut self, index: usize, at: u64, end: u64) -> Result<()> {
        let record = self.inodes[index].record;
        if at >= end {
            return Ok(());
        }
        if record.inline_len > 0 {
            self.punch_inline(index, at, end)?;
        }
        if record.own == 0 {
            return Ok(());
        }
        // Behind the end of the file there is nothing to keep: its last granule goes whole.
        let last = if end >= record.size { ceil(end) } else { end / GRANULE };
        if ceil(at) < last {
            self.clear(index, ceil(at), last)?;
        }
        let head = end.min(ceil(at).saturating_mul(GRANULE));
        self.zero(index, at, head.min(record.size.max(at)))?;
        if last >= ceil(at) && end < record.size {
            self.zero(index, last * GRANULE, end)?;
        }
        Ok(())
    }

    fn punch_inline(&mut self, index: usize, at: u64, end: u64) -> Result<()> {
        let mut content = core::mem::take(self.inline(index)?);
        let len = content.len() as u64;
        let (at, end) = (at.min(len) as usize, end.min(len) as usize);
        if end == content.len() {
            content.truncate(at);
        } else {
            content[at..end].fill(0);
        }
        self.set_inline(index, content);
        Ok(())
    }

    pub(super) fn reserve(&mut self, ino: Ino, span: Span) -> Result<()> {
        let index = self.content(ino)?;
        let end = self.end_of(span.start(), span.len())?;
        if span.is_empty() {
            return Ok(());
        }
        self.spill(index)?;
        let (first, last) = (span.start() / GRANULE, ceil(end));
        self.load(index, first, last)?;
        let staged = &self.inodes[index];
        let size = ceil(staged.record.size);
        let pieces: Pieces = staged.window.pieces(first, last).collect();
        let mut near = staged.window.ending(first).map(|extent| extent.run().end());
        let mut fresh = Extents::default();
        for &piece in &*pieces {
            let Some(extent) = piece.extent else {
                for &extent in &*self.claim(piece.start, piece.len, near)? {
                    near = Some(extent.run().end());
                    extents::append(&mut fresh, Extent { unwritten: true, ..extent });
                }
                continue;
            };
            near = Some(extent.run().end());
            // Space behind the end that no write has reached yet must not turn to hole when one
            // does.
            let (kept, ahead) = (size.clamp(extent.start, extent.end()), extent.end());
            if kept > extent.start {
                extents::append(&mut fresh, extent.part(extent.start, kept));
            }
            if ahead > kept {
                let ahead = extent.part(kept, ahead);
                extents::append(&mut fresh, Extent { unwritten: true, ..ahead });
            }
        }
        self.splice(index, first, last, &fresh);
        Ok(())
    }

    /// Granules `from..to` become hole.
    pub(super) fn clear(&mut self, index: usize, from: u64, to: u64) -> Result<()> {
        self.load(index, from, to)?;
        let window = &self.inodes[index].window;
        let to = to.min(window.end());
        let known = self.ledger.drops.len();
        if from < to {
            let runs = window.pieces(from, to).filter_map(|piece| piece.extent);
            self.ledger.drops.extend(runs.map(|extent| extent.run()));
        }
        if self.ledger.drops.len() > known {
            self.splice(index, from, to, &[]);
        }
        Ok(())
    }

    /// All content goes. What nobody has looked at is left to the commit, which walks it once.
    pub(super) fn wipe(&mut self, index: usize) -> Result<()> {
        let staged = &mut self.inodes[index];
        if staged.stored && !staged.window.alone && staged.window.untouched() {
            staged.window.wiped = staged.record.own > 0;
            staged.window.alone = true;
            staged.record.own = 0;
        } else {
            self.clear(index, 0, u64::MAX)?;
        }
        if self.inodes[index].record.inline_len > 0 {
            self.set_inline(index, Vec::new());
        }
        self.inodes[index].changed = true;
        Ok(())
    }

    /// Before the file grows up to `at`: everything between its end and there reads as zeros.
    pub(super) fn open_gap(&mut self, index: usize, at: u64) -> Result<()> {
        let record = self.inodes[index].record;
        let size = record.size;
        if at <= size || record.own == 0 {
            return Ok(());
        }
        self.zero(index, size, at.min(ceil(size) * GRANULE))?;
        let (first, last) = (ceil(size), at / GRANULE);
        self.clear_written(index, first, last)?;
        if last >= first {
            self.zero(index, last * GRANULE, at)?;
        }
        Ok(())
    }

    /// Granules `first..last` become hole, but for what is reserved.
    fn clear_written(&mut self, index: usize, first: u64, last: u64) -> Result<()> {
        if first >= last {
            return Ok(());
        }
        self.load(index, first, last)?;
        let window = &self.inodes[index].window;
        let end = last.min(window.end().max(first));
        let written = |extent: &Extent| !extent.unwritten;
        let leftovers: Extents =
            window.pieces(first, end).filter_map(|piece| piece.extent.filter(written)).collect();
        for extent in &*leftovers {
            self.clear(index, extent.start, extent.end())?;
        }
        Ok(())
    }

    /// What was claimed behind the end for writes to come goes; what was reserved there stays.
    pub(super) fn trim(&mut self, ino: Ino) -> Result<()> {
        let index = self.content(ino)?;
        let record = self.inodes[index].record;
        match record.own {
            0 => Ok(()),
            _ => self.clear_written(index, ceil(record.size), u64::MAX),
        }
    }

    /// Zeroes bytes `at..end` of one granule, if it is written.
    fn zero(&mut self, index: usize, at: u64, end: u64) -> Result<()> {
        if at >= end {
            return Ok(());
        }
        let granule = at / GRANULE;
        self.load(index, granule, granule + 1)?;
        let piece = self.inodes[index].window.piece(granule, granule + 1);
        if piece.extent.is_some_and(|extent| !extent.unwritten) {
            for slot in &*self.writable(index, at, end, 0)? {
                let bytes = Move::Zero { to: slot.to, len: slot.len };
                self.jobs.push(Job { bytes, visible: slot.visible });
            }
        }
        Ok(())
    }
}
