//! Answers: the overlay's [`View`].
//!
//! Neighbours: `state` says which home is asked. Invariant: whoever holds no lock of an inode gets an answer that was
//! true at some time during the call, but for the size of a directory and the space of a file, whose two parts may be
//! of different times.

use alloc::vec::Vec;

use super::Overlay;
use super::below::Piece;
use super::slots::Slot;
use super::state::Told;
use crate::attr::Attr;
use crate::error::{Error, Result};
use crate::ids::{Cursor, Ino, Span};
use crate::name::{Name, XattrName};
use crate::store::{Entry, Flow, Listed, Space, Store, View};

impl<U: Store, L: View> View for Overlay<U, L> {
    #[inline]
    fn attr(&self, ino: Ino) -> Result<Attr> {
        if self.is_above(ino) {
            return self.upper.attr(ino);
        }
        match self.states.told(ino) {
            Told::Gone => Err(Error::NotFound),
            Told::Nothing if ino.0 > self.last => self.upper.attr(ino),
            Told::Nothing => self.lower.attr(ino),
            Told::Above { size, blocks } => {
                let attr = self.upper.attr(ino)?;
                Ok(Attr { size: attr.size + size, blocks: attr.blocks + blocks, ..attr })
            }
        }
    }

    #[inline]
    fn entry(&self, dir: Ino, name: Name<'_>) -> Result<Entry> {
        if dir.0 > self.last {
            return self.upper.entry(dir, name);
        }
        match self.states.told(dir) {
            Told::Gone => return Err(Error::NotFound),
            Told::Nothing => return self.lower.entry(dir, name),
            Told::Above { .. } => {}
        }
        match self.upper.entry(dir, name).map(|entry| self.behind_lower(entry)) {
            Err(Error::NotFound) => {}
            answer => return answer,
        }
        let below = self.lower.entry(dir, name)?;
        match self.states.slot(dir, below.seq) {
            Slot::Own => Ok(below),
            Slot::Leads(ino, kind) => Ok(Entry { ino, kind, ..below }),
            // Since it is hidden the upper alone knows, and may have got the name after it was asked.
            Slot::Hidden => self.upper.entry(dir, name).map(|entry| self.behind_lower(entry)),
        }
    }

    fn entries(
        &self,
        dir: Ino,
        after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> Result<()> {
        if dir.0 > self.last {
            return self.upper_entries(dir, after, 0, attrs, each);
        }
        let above = match self.states.told(dir) {
            Told::Gone => return Err(Error::NotFound),
            Told::Nothing => false,
            Told::Above { .. } => true,
        };
        if after.0 < self.places {
            match self.lower_entries(dir, after, attrs, each) {
                Ok(flow) if flow.is_break() => return Ok(()),
                // It came late: nothing of it is below.
                Err(Error::NotFound) if above => {}
                done => drop(done?),
            }
        }
        if !above {
            return Ok(());
        }
        let after = Cursor(after.0.saturating_sub(self.places));
        self.upper_entries(dir, after, self.places, attrs, each)
    }

    fn read(&self, ino: Ino, at: u64, target: &mut [u8]) -> Result<usize> {
        if !self.upper_has(ino)? {
            return self.lower.read(ino, at, target);
        }
        if self.is_above(ino) {
            return self.upper.read(ino, at, target);
        }
        let end = at.saturating_add(target.len() as u64);
        let pieces = self.states.pieces(ino, at, end);
        // No piece lies behind the end of the file: what one has whole, the upper need not be asked for.
        if let [piece] = pieces[..]
            && (piece.start, piece.end) == (at, end)
        {
            return self.read_below(piece, target).map(|()| target.len());
        }
        let len = self.upper.read(ino, at, target)?;
        for piece in pieces {
            let part = (piece.start - at) as usize..(piece.end - at) as usize;
            let part = target[..len].get_mut(part).ok_or(Error::Corrupt)?;
            self.read_below(piece, part)?;
        }
        Ok(len)
    }

    fn next_data(&self, ino: Ino, at: u64) -> Result<Option<Span>> {
        if !self.upper_has(ino)? {
            return self.lower.next_data(ino, at);
        }
        if self.is_above(ino) {
            return self.upper.next_data(ino, at);
        }
        let above = self.upper.next_data(ino, at)?;
        if above.is_some_and(|above| above.start() == at) {
            return Ok(above);
        }
        let below = self.next_data_below(ino, at)?;
        Ok(match (above, below) {
            (Some(above), Some(below)) if below.start() < above.start() => Some(below),
            (None, below) => below,
            (above, _) => above,
        })
    }

    fn xattr(&self, ino: Ino, name: XattrName<'_>, target: &mut Vec<u8>) -> Result<()> {
        if self.upper_has(ino)? {
            self.upper.xattr(ino, name, target)
        } else {
            self.lower.xattr(ino, name, target)
        }
    }

    fn xattrs(&self, ino: Ino, each: &mut dyn FnMut(XattrName<'_>) -> Flow) -> Result<()> {
        if self.upper_has(ino)? {
            self.upper.xattrs(ino, each)
        } else {
            self.lower.xattrs(ino, each)
        }
    }

    /// The upper's, with what the overlay remembers; inodes are those of both.
    fn space(&self) -> Space {
        let (above, below) = (self.upper.space(), self.lower.space());
        let lower = below.inodes.saturating_sub(self.states.listed());
        Space {
            used: above.used.saturating_add(self.states.bytes()),
            inodes: above.inodes.saturating_add(lower),
            ..above
        }
    }
}

impl<U: Store, L: View> Overlay<U, L> {
    /// An entry of the upper in a directory that is also below.
    const fn behind_lower(&self, entry: Entry) -> Entry {
        Entry { seq: Cursor(entry.seq.0 + self.places), ..entry }
    }

    /// Whether the upper answers for an inode.
    fn upper_has(&self, ino: Ino) -> Result<bool> {
        if ino.0 > self.last {
            return Ok(true);
        }
        match self.states.told(ino) {
            Told::Gone => Err(Error::NotFound),
            Told::Nothing => Ok(false),
            Told::Above { .. } => Ok(true),
        }
    }

    /// What the lower has in a directory; `each` broke or did not.
    fn lower_entries(
        &self,
        dir: Ino,
        after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> Result<Flow> {
        let own = self.states.has_own_names(dir);
        let mut flow = Flow::Continue(());
        let mut failed = None;
        self.lower.entries(dir, after, attrs, &mut |listed| {
            let slot = if own { Slot::Own } else { self.states.slot(dir, listed.entry.seq) };
            let entry = match slot {
                Slot::Own => listed.entry,
                Slot::Hidden => return Flow::Continue(()),
                Slot::Leads(ino, kind) => Entry { ino, kind, ..listed.entry },
            };
            let known = listed.attr.filter(|_| slot == Slot::Own);
            flow = match self.with_attr(Listed { entry, attr: known, ..listed }, attrs) {
                Ok(Some(listed)) => each(listed),
                Ok(None) => Flow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    Flow::Break(())
                }
            };
            flow
        })?;
        failed.map_or(Ok(flow), Err)
    }

    /// What the upper has in a directory, its places moved by `shift`.
    fn upper_entries(
        &self,
        dir: Ino,
        after: Cursor,
        shift: u64,
        attrs: bool,
        each: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> Result<()> {
        let mut failed = None;
        self.upper.entries(dir, after, attrs, &mut |listed| {
            let seq = Cursor(listed.entry.seq.0 + shift);
            let entry = Entry { seq, ..listed.entry };
            let known = listed.attr.filter(|_| self.is_above(entry.ino));
            match self.with_attr(Listed { entry, attr: known, ..listed }, attrs) {
                Ok(Some(listed)) => each(listed),
                Ok(None) => Flow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    Flow::Break(())
                }
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    /// An entry with the attributes that its inode has now, where they are wanted; nothing when that is gone. What
    /// the lower said is right for an inode that is only there.
    fn with_attr<'a>(&self, listed: Listed<'a>, wanted: bool) -> Result<Option<Listed<'a>>> {
        let ino = listed.entry.ino;
        let known =
            listed.attr.is_some() && (ino.0 > self.last || self.states.told(ino) == Told::Nothing);
        if !wanted || known {
            return Ok(Some(listed));
        }
        match self.attr(ino) {
            Ok(attr) => Ok(Some(Listed { attr: Some(attr), ..listed })),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Bytes of a piece, all of them.
    pub(super) fn read_below(&self, piece: Piece, target: &mut [u8]) -> Result<()> {
        let len = self.lower.read(piece.ino, piece.from, target)?;
        if len == target.len() { Ok(()) } else { Err(Error::Io) }
    }

    /// The first run of data that comes from below.
    fn next_data_below(&self, ino: Ino, at: u64) -> Result<Option<Span>> {
        let mut at = at;
        while let Some(piece) = self.states.next_piece(ino, at) {
            let start = piece.start.max(at);
            if let Some(data) = self.lower.next_data(piece.ino, piece.place(start))? {
                let first = start.saturating_add(data.start().saturating_sub(piece.place(start)));
                if first < piece.end {
                    let end = first.saturating_add(data.len()).min(piece.end);
                    return Ok(Span::new(first, end).filter(|span| !span.is_empty()));
                }
            }
            at = piece.end;
        }
        Ok(None)
    }
}
