//! Which bytes of files are the same, without reading them where a volume knows that by the names of their blocks.
//!
//! Above: `differ`. Below: `view`, `stack`. Invariant: two pieces in the same block at the same offset hold the same
//! bytes: blocks never change, and no name of one is given out again.

use esker::limits::FILE_SIZE_MAX;
use esker::store::View;
use esker::{Ino, Result};
use esker_stone::rows::extents::BlockName;

use crate::device::Device;
use crate::snapped::Snapped;
use crate::stack::Stack;
use crate::view::Sees;
use crate::volume::Volume;

/// Where bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lies {
    /// Nowhere.
    Hole,
    /// From this byte on in a block.
    Block(BlockName, u32),
    /// Only who reads them knows.
    Somewhere,
}

/// A stretch of a file, from where somebody asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Where it ends, or later.
    pub end: u64,
    /// Where its bytes are.
    pub lies: Lies,
}

/// A tree that can be compared with an earlier or later state of itself: an inode's number is given to no other.
pub trait Compared: View {
    /// What lies at this byte of a file and behind it.
    ///
    /// # Errors
    /// As [`View::next_data`].
    fn piece(&self, ino: Ino, at: u64) -> Result<Piece> {
        Ok(match self.next_data(ino, at)? {
            None => Piece { end: FILE_SIZE_MAX, lies: Lies::Hole },
            Some(run) if run.start() > at => Piece { end: run.start(), lies: Lies::Hole },
            Some(run) => Piece { end: run.end(), lies: Lies::Somewhere },
        })
    }
}

impl<D: Device> Stack<'_, D> {
    fn piece(&self, ino: Ino, at: u64) -> crate::error::Result<Piece> {
        let row = self.inode(ino)?;
        if row.is_some_and(|row| !row.inline.is_empty()) {
            return Ok(Piece { end: FILE_SIZE_MAX, lies: Lies::Somewhere });
        }
        let run = self.run(ino, at)?;
        let lies = run.place.map_or(Lies::Hole, |place| Lies::Block(place.block, place.offset));
        Ok(Piece { end: run.end(), lies })
    }
}

fn look<S: Sees>(on: &S, ino: Ino, at: u64) -> Result<Piece> {
    on.look(|stack| stack.piece(ino, at).map_err(crate::error::Error::core))
}

impl<D: Device> Compared for Snapped<D> {
    fn piece(&self, ino: Ino, at: u64) -> Result<Piece> {
        look(self, ino, at)
    }
}

impl<D: Device> Compared for Volume<D> {
    fn piece(&self, ino: Ino, at: u64) -> Result<Piece> {
        look(self, ino, at)
    }
}
