//! A home whose batches a volume keeps: whoever is on top answers, and a sync writes what changed.
//!
//! Above: POSIX. Below: a [`Store`] that has everything, and the volume. Invariant: what a sync writes is a
//! prefix of the batches: none comes in while it gathers, and one that came before is in it.

use std::sync::{Mutex, PoisonError, RwLock};

use esker::store::{Batch, Change, Entry, Flow, Listed, Space, Store, View};
use esker::{Attr, Cursor, Ino, Kind, Name, Result, Span, XattrName};

use crate::device::Device;
use crate::dirty::{Dirty, Told};
use crate::error::Error;
use crate::volume::Volume;

/// A store whose changes a volume keeps.
pub struct Kept<S, D> {
    top: S,
    volume: Volume<D>,
    /// Batches read it, a sync writes it.
    gate: RwLock<()>,
    dirty: Mutex<Dirty>,
    next_ino: Mutex<u64>,
}

impl<S: Store, D: Device> Kept<S, D> {
    /// What `top` has is what the volume has; from now on the volume follows.
    pub fn new(top: S, volume: Volume<D>) -> Self {
        let next_ino = Mutex::new(volume.next_ino());
        Self { top, volume, gate: RwLock::new(()), dirty: Mutex::default(), next_ino }
    }

    /// The volume.
    pub const fn volume(&self) -> &Volume<D> {
        &self.volume
    }

    /// Who answers.
    pub const fn top(&self) -> &S {
        &self.top
    }

    /// Writes what changed; the error as the volume says it.
    ///
    /// # Errors
    /// Those of [`Volume::commit`]. What changed is still remembered then.
    pub fn write(&self) -> core::result::Result<(), Error> {
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let mut dirty = self.dirty.lock().unwrap_or_else(PoisonError::into_inner);
        if dirty.is_empty() {
            // What failed to become safe is still marked: so everything is safe.
            return Ok(());
        }
        let next_ino = *self.next_ino.lock().unwrap_or_else(PoisonError::into_inner);
        let told = Told { dirty: &dirty, view: &self.top, below: &self.volume, next_ino };
        self.volume.commit(&told)?;
        *dirty = Dirty::default();
        Ok(())
    }
}

impl<S: Store, D: Device> View for Kept<S, D> {
    fn attr(&self, ino: Ino) -> Result<Attr> {
        self.top.attr(ino)
    }

    fn entry(&self, dir: Ino, name: Name<'_>) -> Result<Entry> {
        self.top.entry(dir, name)
    }

    fn entries(
        &self,
        dir: Ino,
        after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> Result<()> {
        self.top.entries(dir, after, attrs, each)
    }

    fn read(&self, ino: Ino, at: u64, target: &mut [u8]) -> Result<usize> {
        self.top.read(ino, at, target)
    }

    fn next_data(&self, ino: Ino, at: u64) -> Result<Option<Span>> {
        self.top.next_data(ino, at)
    }

    fn xattr(&self, ino: Ino, name: XattrName<'_>, target: &mut Vec<u8>) -> Result<()> {
        self.top.xattr(ino, name, target)
    }

    fn xattrs(&self, ino: Ino, each: &mut dyn FnMut(XattrName<'_>) -> Flow) -> Result<()> {
        self.top.xattrs(ino, each)
    }

    fn space(&self) -> Space {
        let inodes = self.top.space().inodes;
        Space { inodes, ..self.volume.space() }
    }
}

impl<S: Store, D: Device> Store for Kept<S, D> {
    fn next_ino(&self, parent: Ino, kind: Kind) -> Ino {
        self.top.next_ino(parent, kind)
    }

    fn commit(&self, batch: &Batch<'_>) -> Result<()> {
        let _gate = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        if !self.volume.is_writable() {
            return Err(esker::Error::ReadOnly);
        }
        self.top.commit(batch)?;
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner).mark(batch);
        for change in batch.changes() {
            if let Change::Make { ino, .. } = change {
                let mut next = self.next_ino.lock().unwrap_or_else(PoisonError::into_inner);
                *next = (*next).max(ino.0.saturating_add(1));
            }
        }
        Ok(())
    }

    fn trim(&self, ino: Ino) -> Result<()> {
        self.top.trim(ino)
    }

    fn tick(&self) -> Result<()> {
        self.top.tick()
    }

    fn sync(&self) -> Result<()> {
        self.write().map_err(Error::core)
    }
}
