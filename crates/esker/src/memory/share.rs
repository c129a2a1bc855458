//! Bytes of one file become bytes of another: granules by reference, the rest by copying.
//!
//! Neighbours: `space` counts the uses, `write` makes room for what is copied. Invariant: holes and
//! unwritten space of the source are holes in the target.

use super::base::Base;
use super::extents::{self, Extent, Extents, Pieces};
use super::plan::{Job, Move, Plan, ceil};
use super::write::address;
use crate::error::{Error, Result};
use crate::ids::Ino;
use crate::limits::GRANULE;

/// A range of the source and where it goes, in bytes.
#[derive(Clone, Copy)]
struct Pair {
    source: usize,
    from: u64,
    target: usize,
    at: u64,
    len: u64,
}

impl Pair {
    /// The same from byte `start` to byte `end` of the target.
    fn part(&self, start: u64, end: u64) -> Self {
        Self { from: self.from + (start - self.at), at: start, len: end - start, ..*self }
    }
}

impl<B: Base> Plan<'_, '_, B> {
    pub(super) fn share(
        &mut self,
        source: Ino,
        from: u64,
        ino: Ino,
        at: u64,
        len: u64,
    ) -> Result<()> {
        let pair =
            Pair { source: self.content(source)?, from, target: self.content(ino)?, at, len };
        let end = self.end_of(at, len)?;
        let record = self.inodes[pair.source].record;
        let within = from.checked_add(len).is_some_and(|end| end <= record.size);
        if !within || (source == ino && from < end && at < from + len) {
            return Err(Error::Invalid);
        }
        if len == 0 {
            return Ok(());
        }
        if record.own == 0 {
            return self.share_inline(pair);
        }
        self.spill(pair.target)?;
        self.open_gap(pair.target, at)?;
        let (mut first, mut last) = (ceil(at), end / GRANULE);
        if from + len == record.size && end >= self.inodes[pair.target].record.size {
            last = ceil(end);
        }
        if from % GRANULE != at % GRANULE || first >= last {
            (first, last) = (ceil(end), ceil(end));
        }
        self.copy(pair.part(at, end.min(first * GRANULE)))?;
        if first < last {
            self.refer(pair, first, last)?;
            self.reach(pair.target, end.min(last * GRANULE));
        }
        if last * GRANULE < end {
            self.copy(pair.part(last * GRANULE, end))?;
        }
        self.reach(pair.target, end);
        Ok(())
    }

    /// The file is at least `end` bytes long.
    fn reach(&mut self, index: usize, end: u64) {
        let staged = &mut self.inodes[index];
        staged.changed = true;
        staged.record.size = staged.record.size.max(end);
    }

    /// The source's bytes are in its record.
    fn share_inline(&mut self, pair: Pair) -> Result<()> {
        let content = self.inline(pair.source)?;
        let from = pair.from.min(content.len() as u64) as usize;
        let to = (pair.from + pair.len).min(content.len() as u64) as usize;
        let bytes = content[from..to].to_vec();
        let (at, end) = (pair.at, pair.at + bytes.len() as u64);
        if !bytes.is_empty() && !self.write_inline(pair.target, at, &bytes)? {
            for slot in &*self.slots(pair.target, at, end, 0)? {
                let from = (slot.at - at) as usize;
                let source = bytes[from..from + slot.len as usize].to_vec();
                let bytes = Move::FillOwn { to: slot.to, source };
                self.jobs.push(Job { bytes, visible: slot.visible });
            }
        }
        self.leave_hole(pair.target, end, pair.at + pair.len)
    }

    /// Bytes `at..end` of the target are hole, and its size reaches there.
    fn leave_hole(&mut self, index: usize, at: u64, end: u64) -> Result<()> {
        self.make_hole(index, at, end)?;
        self.open_gap(index, end)?;
        self.reach(index, end);
        Ok(())
    }

    /// What lies in granules `first..last` of the source.
    fn source_pieces(&mut self, source: usize, first: u64, last: u64) -> Result<Pieces> {
        self.load(source, first, last)?;
        Ok(self.inodes[source].window.pieces(first, last).collect())
    }

    /// Copies bytes.
    fn copy(&mut self, pair: Pair) -> Result<()> {
        if pair.len == 0 {
            return Ok(());
        }
        let (from, to) = (pair.from, pair.from + pair.len);
        for piece in &*self.source_pieces(pair.source, from / GRANULE, ceil(to))? {
            let start = from.max(piece.start * GRANULE);
            let end = to.min((piece.start + piece.len) * GRANULE);
            let (at, until) = (pair.at + (start - from), pair.at + (end - from));
            let Some(extent) = piece.extent.filter(|extent| !extent.unwritten) else {
                self.leave_hole(pair.target, at, until)?;
                continue;
            };
            for slot in &*self.slots(pair.target, at, until, 0)? {
                let from = address(&extent, start + (slot.at - at));
                let bytes = Move::Copy { from, to: slot.to, len: slot.len };
                self.jobs.push(Job { bytes, visible: slot.visible });
            }
        }
        Ok(())
    }

    /// Names the source's granules once more, in granules `first..last` of the target.
    fn refer(&mut self, pair: Pair, first: u64, last: u64) -> Result<()> {
        let from = (pair.from + (first * GRANULE - pair.at)) / GRANULE;
        let mut fresh = Extents::default();
        for piece in &*self.source_pieces(pair.source, from, from + (last - first))? {
            let Some(extent) = piece.extent.filter(|extent| !extent.unwritten) else { continue };
            self.home.space.share(extent.run())?;
            self.ledger.shares.push(extent.run());
            let start = first + (extent.start - from);
            extents::append(&mut fresh, Extent { start, ..extent });
        }
        self.clear(pair.target, first, last)?;
        self.splice(pair.target, first, last, &fresh);
        Ok(())
    }
}
