//! Moving up what nobody changed: after all of it the lower is not needed any more.
//!
//! Neighbours: `commit` brings inodes up, `leaving` is a lower that can be left. Invariant: no answer changes, but for
//! the space that files take.

use alloc::vec::Vec;

use super::Overlay;
use super::leaving::{Leaving, children};
use super::state::Told;
use crate::attr::Kind;
use crate::error::{Error, Result};
use crate::ids::Ino;
use crate::store::{Batch, Change, Store, View};

impl<U: Store, L: View> Overlay<U, L> {
    /// Brings up an inode and of its bytes as many as `buffer` has room for; whether some are left. Whoever calls
    /// has the inode to himself, as for a change of it.
    ///
    /// # Errors
    /// What the homes say; `NoSpace` when the upper is full.
    pub fn fill(&self, ino: Ino, buffer: &mut [u8]) -> Result<bool> {
        match self.bring_up(ino) {
            Err(Error::NotFound) => return Ok(false),
            brought => brought?,
        }
        let Some(piece) = self.states.next_piece(ino, 0) else { return Ok(false) };
        let data = self.lower.next_data(piece.ino, piece.from)?;
        let end = piece.from + (piece.end - piece.start);
        let start = data.map_or(end, |data| data.start().clamp(piece.from, end));
        let at = piece.start + (start - piece.from);
        let data_end = data.map_or(end, |data| data.end().min(end));
        let len = data_end.saturating_sub(start).min(buffer.len() as u64) as usize;
        let source = &mut buffer[..len];
        if !source.is_empty() {
            if self.lower.read(piece.ino, start, source)? != len {
                return Err(Error::Io);
            }
            let mut batch = Batch::new();
            batch.push(Change::Write { ino, at, source });
            self.upper.commit(&batch)?;
        }
        self.states.cover(ino, piece.start, at + len as u64);
        Ok(self.states.next_piece(ino, 0).is_some())
    }

    /// The first inode behind this one, in no particular order, of which some bytes come from below.
    #[must_use]
    pub fn next_unfilled(&self, behind: Option<Ino>) -> Option<Ino> {
        let mut at = behind;
        loop {
            let (ino, told) = self.states.next(at)?;
            at = Some(ino);
            if told != Told::Gone && self.states.next_piece(ino, 0).is_some() {
                return at;
            }
        }
    }
}

/// A walk through all that is below, each inode for every name that it has.
pub struct Walk {
    pending: Vec<(Ino, Kind)>,
}

impl Walk {
    /// From the root directory.
    #[must_use]
    pub fn new() -> Self {
        Self { pending: alloc::vec![(Ino::ROOT, Kind::Directory)] }
    }

    /// The next inode, a directory before what is in it; `None` behind the last one. A directory is kept.
    ///
    /// # Errors
    /// What the lower says.
    pub fn next<U: Store, V: View>(
        &mut self,
        overlay: &Overlay<U, Leaving<V>>,
    ) -> Result<Option<Ino>> {
        let Some((ino, kind)) = self.pending.pop() else { return Ok(None) };
        if kind == Kind::Directory {
            overlay.lower().keep(ino)?;
            let first = self.pending.len();
            self.pending.extend(children(overlay.lower(), ino)?);
            self.pending[first..].reverse();
        }
        Ok(Some(ino))
    }
}

impl Default for Walk {
    fn default() -> Self {
        Self::new()
    }
}
