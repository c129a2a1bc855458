//! Looking at a snapshot: the volume's tables as they were then, and its blocks where they lie now.
//!
//! Above: POSIX, verbs. Below: `view`, `shelf`. Invariant: who looks holds the volume's state meanwhile, so nothing
//! that is named lies elsewhere before he is done; once the snapshot is deleted nothing is found any more.

use std::sync::Arc;

use esker::store::{Entry, Flow, Listed, Space, View};
use esker::{Attr, Cursor, Ino, Name, Result, Span, XattrName};

use crate::device::Device;
use crate::snapshots::SnapshotError;
use crate::stack::Stack;
use crate::view::{Sees, list, list_xattrs};
use crate::volume::Volume;

/// A snapshot of a volume, to be looked at.
pub struct Snapped<D> {
    volume: Arc<Volume<D>>,
    sequence: u64,
}

impl<D: Device> Snapped<D> {
    /// The snapshot of this name.
    ///
    /// # Errors
    /// `Missing`.
    pub fn new(volume: Arc<Volume<D>>, name: &str) -> std::result::Result<Self, SnapshotError> {
        let sequence = volume.snapshot(name)?.sequence;
        Ok(Self::of(volume, sequence))
    }

    /// The snapshot whose last commit this is. Of one that is not there nothing is found.
    pub(crate) const fn of(volume: Arc<Volume<D>>, sequence: u64) -> Self {
        Self { volume, sequence }
    }

    /// The volume that it is of.
    pub const fn volume(&self) -> &Arc<Volume<D>> {
        &self.volume
    }
}

impl<D: Device> Sees for Snapped<D> {
    type On = D;

    fn look<R>(&self, see: impl FnOnce(&Stack<'_, D>) -> Result<R>) -> Result<R> {
        let index = self.volume.state();
        let state = self.volume.shelf.seen(&index, self.sequence)?;
        see(&Stack { volume: &self.volume, state: &state, index: &index })
    }
}

impl<D: Device> View for Snapped<D> {
    fn attr(&self, ino: Ino) -> Result<Attr> {
        self.look(|stack| stack.attr(ino))
    }

    fn entry(&self, dir: Ino, name: Name<'_>) -> Result<Entry> {
        self.look(|stack| stack.entry(dir, name))
    }

    fn entries(
        &self,
        dir: Ino,
        after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> Result<()> {
        list(self, dir, (after, attrs), each)
    }

    fn read(&self, ino: Ino, at: u64, target: &mut [u8]) -> Result<usize> {
        self.look(|stack| stack.read(ino, at, target))
    }

    fn next_data(&self, ino: Ino, at: u64) -> Result<Option<Span>> {
        self.look(|stack| stack.next_data(ino, at))
    }

    fn xattr(&self, ino: Ino, name: XattrName<'_>, target: &mut Vec<u8>) -> Result<()> {
        self.look(|stack| stack.xattr_value(ino, name, target))
    }

    fn xattrs(&self, ino: Ino, each: &mut dyn FnMut(XattrName<'_>) -> Flow) -> Result<()> {
        list_xattrs(self, ino, each)
    }

    fn space(&self) -> Space {
        let inodes = self.look(|stack| Ok(stack.state.numbers.inodes)).unwrap_or(0);
        Space { inodes, ..self.volume.space() }
    }
}
