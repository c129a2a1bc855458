//! A layer of what is not yet written: an overlay above the volume, or above another layer that is being written.
//!
//! Above: `home`. Below: the core's overlay, `volume`. Invariant: what lies below a layer never changes its answers: a
//! layer that was written is taken out from between in the moment in which the volume has it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use esker::overlay::{Blank, Overlay};
use esker::store::{Batch, Change, Entry, Flow, Listed, Space, Store, View};
use esker::{Attr, Cursor, Error, Ino, Kind, Name, Result, Span, XattrName};

use crate::cost::Cost;
use crate::device::Device;
use crate::dirty::Dirty;
use crate::rows::Numbers;
use crate::shelf::{Loan, SHOWN, Whose, whose};
use crate::snapped::Snapped;
use crate::volume::Volume;

/// What a layer lies on: the volume, with the layer that is being written above it.
pub(crate) struct Lower<U, D> {
    volume: Arc<Volume<D>>,
    written: RwLock<Option<Arc<Layer<U, D>>>>,
}

/// Batches since the layer below was closed.
pub(crate) struct Layer<U, D> {
    /// Rises from layer to layer.
    pub number: u64,
    pub overlay: Overlay<U, Lower<U, D>>,
    dirty: Mutex<Dirty>,
    /// Names that were made have places behind this.
    places: u64,
    names: AtomicU64,
    next_ino: AtomicU64,
    inodes: AtomicU64,
    bytes: AtomicU64,
    rows: AtomicU64,
    /// Snapshots whose files have bytes of files here, by their last commits.
    loans: Mutex<BTreeMap<u64, Loan>>,
}

impl<U: Store, D: Device> Layer<U, D> {
    /// An empty one, above all that there is.
    pub fn new(
        blank: Blank<U>,
        volume: &Arc<Volume<D>>,
        below: Option<Arc<Self>>,
        number: u64,
    ) -> Result<Self> {
        let numbers = below.as_ref().map_or_else(|| volume.numbers(), |below| below.numbers());
        let lower = Lower { volume: Arc::clone(volume), written: RwLock::new(below) };
        let last = Ino(numbers.next_ino.saturating_sub(1));
        let overlay = Overlay::behind(blank, lower, last, Cursor(numbers.next_place))?;
        let overlay = overlay.with_beside(SHOWN);
        Ok(Self {
            number,
            overlay,
            dirty: Mutex::default(),
            places: numbers.next_place,
            names: AtomicU64::new(0),
            next_ino: AtomicU64::new(numbers.next_ino),
            inodes: AtomicU64::new(numbers.inodes),
            bytes: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            loans: Mutex::default(),
        })
    }

    /// What changed.
    pub fn dirty(&self) -> MutexGuard<'_, Dirty> {
        self.dirty.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What there is to count once all this is written.
    pub fn numbers(&self) -> Numbers {
        let names = self.names.load(Relaxed);
        let next_place =
            if names > 0 { self.places + Cursor::FIRST.0 + names } else { self.places };
        let (next_ino, inodes) = (self.next_ino.load(Relaxed), self.inodes.load(Relaxed));
        Numbers { next_ino, inodes, next_place }
    }

    /// What writing it takes, at most.
    pub fn cost(&self) -> Cost {
        Cost { bytes: self.bytes.load(Relaxed), rows: self.rows.load(Relaxed) }
    }

    /// A number that was given to nobody.
    pub fn next_ino(&self, parent: Ino, kind: Kind) -> Ino {
        let ino = self.overlay.next_ino(parent, kind);
        self.next_ino.fetch_max(ino.0.saturating_add(1), Relaxed);
        ino
    }

    /// A batch of this cost is let in, and will be taken or [given up](Self::give_up): nobody else has its room.
    pub fn expect(&self, cost: Cost) {
        self.bytes.fetch_add(cost.bytes, Relaxed);
        self.rows.fetch_add(cost.rows, Relaxed);
    }

    /// It was not taken.
    pub fn give_up(&self, cost: Cost) {
        self.bytes.fetch_sub(cost.bytes, Relaxed);
        self.rows.fetch_sub(cost.rows, Relaxed);
    }

    /// Takes a batch that was let in.
    pub fn commit(&self, batch: &Batch<'_>) -> Result<()> {
        let borrowed = self.borrow(batch)?;
        self.overlay.commit(batch)?;
        self.dirty().mark(batch);
        if !borrowed.is_empty() {
            self.loans.lock().unwrap_or_else(PoisonError::into_inner).extend(borrowed);
        }
        for change in batch.changes() {
            match change {
                Change::Make { ino, .. } => {
                    self.inodes.fetch_add(1, Relaxed);
                    self.next_ino.fetch_max(ino.0.saturating_add(1), Relaxed);
                }
                Change::Drop { .. } => drop(self.inodes.fetch_sub(1, Relaxed)),
                Change::Link { .. } => drop(self.names.fetch_add(1, Relaxed)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Snapshots from which a batch copies something: they stay until that is written.
    ///
    /// # Errors
    /// `CrossDevice` for one that is being deleted; `Stale` for one that is gone; what of it cannot be found: that is
    /// to be refused now, since who writes it could not leave it out.
    fn borrow(&self, batch: &Batch<'_>) -> Result<Vec<(u64, Loan)>> {
        let (lower, mut loans) = (self.overlay.lower(), Vec::new());
        let shelf = &lower.volume.shelf;
        for change in batch.changes() {
            let Change::Share { source, from, len, .. } = *change else { continue };
            let Whose::Inside(number, _) = whose(source) else { continue };
            let sequence = shelf.sequence(number)?;
            loans.push((sequence, shelf.lend(sequence).ok_or(Error::CrossDevice)?));
            let (mut at, end) = (from, from.saturating_add(len));
            while let Some(data) = lower.next_data(source, at)?.filter(|data| data.start() < end) {
                at = data.end();
            }
        }
        Ok(loans)
    }

    /// The layer below is in the volume now.
    pub fn forget_below(&self) {
        let lower = self.overlay.lower();
        *lower.written.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl<U: Store, D: Device> Lower<U, D> {
    fn ask<R>(&self, question: impl FnOnce(&dyn View) -> R) -> R {
        let layer = self.written.read().unwrap_or_else(PoisonError::into_inner).clone();
        match layer {
            Some(layer) => question(&layer.overlay),
            None => question(&*self.volume),
        }
    }

    /// The same of a file, which may be one of a snapshot: those are beside the tree.
    fn ask_of<R>(&self, ino: Ino, question: impl FnOnce(&dyn View, Ino) -> Result<R>) -> Result<R> {
        match whose(ino) {
            Whose::Home => self.ask(|below| question(below, ino)),
            Whose::Shelf => Err(Error::Stale),
            Whose::Inside(number, own) => {
                let sequence = self.volume.shelf.sequence(number)?;
                question(&Snapped::of(Arc::clone(&self.volume), sequence), own)
            }
        }
    }
}

impl<U: Store, D: Device> View for Lower<U, D> {
    fn attr(&self, ino: Ino) -> Result<Attr> {
        self.ask_of(ino, |below, ino| below.attr(ino))
    }

    fn entry(&self, dir: Ino, name: Name<'_>) -> Result<Entry> {
        self.ask(|below| below.entry(dir, name))
    }

    fn entries(
        &self,
        dir: Ino,
        after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> Result<()> {
        self.ask(|below| below.entries(dir, after, attrs, each))
    }

    fn read(&self, ino: Ino, at: u64, target: &mut [u8]) -> Result<usize> {
        self.ask_of(ino, |below, ino| below.read(ino, at, target))
    }

    fn next_data(&self, ino: Ino, at: u64) -> Result<Option<Span>> {
        self.ask_of(ino, |below, ino| below.next_data(ino, at))
    }

    fn xattr(&self, ino: Ino, name: XattrName<'_>, target: &mut Vec<u8>) -> Result<()> {
        self.ask(|below| below.xattr(ino, name, target))
    }

    fn xattrs(&self, ino: Ino, each: &mut dyn FnMut(XattrName<'_>) -> Flow) -> Result<()> {
        self.ask(|below| below.xattrs(ino, each))
    }

    fn space(&self) -> Space {
        self.ask(|below| below.space())
    }
}
