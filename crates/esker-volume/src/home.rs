//! The volume as a home that can be written: what changes is in memory, and a sync writes it as one commit.
//!
//! Above: POSIX. Below: `layer`, `volume`. There are at most two layers: one that takes batches, and one that
//! is closed and being written. So whoever writes goes on while a sync is under way. Once a commit is safe its layer
//! is dropped: what it held comes from the volume now.
//!
//! Invariant: what a sync writes is a prefix of the batches: no batch is under way when a layer is closed, and layers
//! are written in their order. Locks are taken in the order `overwriting`, `syncing`, the volume's log, `gate`, and
//! then `promised` or the volume's others.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::time::Duration;

use esker::overlay::Blank;
use esker::store::{Batch, Change, Entry, Flow, Listed, Space, Store, View};
use esker::{Attr, Cursor, Ino, Kind, Name, Result, Span, XattrName};
use esker_stone::rows::snapshots::SnapshotRow;

use crate::alter;
use crate::cost::{Cost, grows};
use crate::device::Device;
use crate::dirty::Told;
use crate::error::Error;
use crate::layer::Layer;
use crate::maker::Maker;
use crate::promised::{Promised, Redeemed};
use crate::replaced::Replaced;
use crate::rules::Occasion;
use crate::snapshots::SnapshotError;
use crate::superblock::Superblock;
use crate::volume::Volume;

/// Entries that are listed at a time.
const ENTRIES: usize = 64;
/// How often room is made for a batch, where others have it before.
const TRIES_MAX: u32 = 64;
/// How often somebody tries to delete a snapshot from which others copied just now.
const DELETING_MAX: u64 = 40;

/// What became of a batch.
enum Taken {
    /// This.
    Done(Result<()>),
    /// The layer has no room for it: that has to be written first.
    Later,
    /// The volume has no room for it.
    NoRoom,
}

/// Whose turn it is to have room made for what was promised: until that is let in, nothing else is.
struct Claim<'a>(&'a Mutex<Promised>);

impl<'a> Claim<'a> {
    fn of(batch: &Batch<'_>, promised: &'a Mutex<Promised>) -> Self {
        let mut own = locked(promised);
        own.claimed = own.covers(batch);
        drop(own);
        Self(promised)
    }

    /// What was promised has it, whoever brings that.
    fn for_all(promised: &'a Mutex<Promised>) -> Self {
        locked(promised).claimed = true;
        Self(promised)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        locked(self.0).claimed = false;
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Layers<U, D> {
    /// Takes batches.
    top: Arc<Layer<U, D>>,
    /// Is being written.
    closed: Option<Arc<Layer<U, D>>>,
}

/// A volume that can be written.
pub struct Kept<U, D> {
    volume: Arc<Volume<D>>,
    maker: Box<dyn Maker<U>>,
    /// What the next layer is made of, if one before it left that.
    blank: Mutex<Option<Blank<U>>>,
    gate: RwLock<Layers<U, D>>,
    syncing: Mutex<()>,
    /// One at a time writes into what is kept back, or waits for a layer with room for its rows.
    overwriting: Mutex<()>,
    /// What room is kept for.
    promised: Mutex<Promised>,
    /// Bytes in memory at which a layer is written.
    dirty_max: u64,
    /// Whether somebody should write in the background.
    due: Mutex<bool>,
    ring: Condvar,
    /// Whether somebody asked for a sync, and got it.
    synced: AtomicBool,
}

impl<U: Store, D: Device> Kept<U, D> {
    /// A volume with nothing above it yet. `maker` gives the stores that hold what changes, one to a layer: of as
    /// many bytes as `dirty_max`, of which a quarter is taken when it is time to write. What had no name and is held by
    /// nobody any more goes with the first commit.
    ///
    /// # Errors
    /// Those of `maker`; what the volume says of its root directory.
    pub fn new(volume: Volume<D>, dirty_max: u64, maker: Box<dyn Maker<U>>) -> Result<Self> {
        let volume = Arc::new(volume);
        let top = Arc::new(Layer::new(Blank::new(maker.make()?), &volume, None, 1)?);
        let promised = Mutex::new(Promised::new(volume.shape().copies > 1));
        let kept = Self {
            volume,
            maker,
            blank: Mutex::default(),
            gate: RwLock::new(Layers { top, closed: None }),
            syncing: Mutex::new(()),
            overwriting: Mutex::new(()),
            promised,
            dirty_max,
            due: Mutex::new(false),
            ring: Condvar::new(),
            synced: AtomicBool::new(false),
        };
        for ino in kept.volume.orphans() {
            let mut batch = Batch::new();
            batch.push(Change::Drop { ino });
            kept.commit(&batch)?;
        }
        Ok(kept)
    }

    /// The volume.
    pub fn volume(&self) -> &Volume<D> {
        &self.volume
    }

    /// The volume, for whoever keeps looking at it.
    pub const fn shared(&self) -> &Arc<Volume<D>> {
        &self.volume
    }

    /// Bytes that what waits to be written takes at most; and bytes of memory that hold it.
    pub fn waiting(&self) -> (u64, u64) {
        let layers = self.gate();
        // Whoever writes the closed one holds what changed there, and waits for the gate in the end.
        let top = Some(&layers.top).filter(|layer| !layer.dirty().is_empty());
        let told = top
            .into_iter()
            .chain(layers.closed.as_ref())
            .map(|layer| (layer.cost().sum(), layer.overlay.upper().space().used));
        told.fold((0, 0), |sum, own| (own.0.saturating_add(sum.0), own.1.saturating_add(sum.1)))
    }

    /// Whether something changed that is not written.
    pub fn is_dirty(&self) -> bool {
        self.newest_dirty() > 0
    }

    /// Waits until something should be written in the background, at most so long; whether it should.
    pub fn wait(&self, longest: Duration) -> bool {
        let due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ring.wait_timeout_while(due, longest, |due| !*due);
        let (mut due, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *due)
    }

    /// Nothing changes for a while: memory that was kept for what changes goes.
    pub fn rest(&self) {
        let blank = locked(&self.blank).take();
        drop(blank);
        self.maker.rest();
    }

    /// Makes [`wait`](Self::wait) return.
    pub fn wake(&self) {
        *self.due.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ring.notify_all();
    }

    /// Writes what changed until now; the error as the volume says it.
    ///
    /// # Errors
    /// Those of [`Volume::commit`]. What changed is still remembered then.
    pub fn write(&self) -> core::result::Result<(), Error> {
        let wanted = self.newest_dirty();
        if wanted == 0 {
            return Ok(());
        }
        let _turn = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(layer) = self.closed_layer(wanted)? {
            self.lay_down(&layer)?;
            self.use_again(layer);
        }
        Ok(())
    }

    fn blank(&self) -> Result<Blank<U>> {
        let known = locked(&self.blank).take();
        known.map_or_else(|| self.maker.make().map(Blank::new), Ok)
    }

    /// A layer is written: the next one is made of what it was made of, unless somebody still reads it.
    fn use_again(&self, layer: Arc<Layer<U, D>>) {
        let Some(layer) = Arc::into_inner(layer) else { return };
        *locked(&self.blank) = Blank::again(layer.overlay, |used| self.maker.again(used)).ok();
    }

    /// Makes a snapshot of all that changed until now.
    ///
    /// # Errors
    /// Those of [`Volume::create_snapshot`].
    pub fn create_snapshot(&self, name: &str) -> core::result::Result<(), SnapshotError> {
        self.create_snapshot_for(name, None)
    }

    /// The same, for a rule.
    ///
    /// # Errors
    /// Those of [`Volume::create_snapshot`].
    pub fn create_snapshot_for(
        &self,
        name: &str,
        occasion: Option<Occasion>,
    ) -> core::result::Result<(), SnapshotError> {
        self.write()?;
        let beside = || self.waiting().0.saturating_add(self.promised().kept());
        self.volume.create_snapshot_beside(name, occasion, &beside)
    }

    /// Changes the volume, as [`Volume::alter`] does, and keeps nothing back that was promised.
    ///
    /// # Errors
    /// Those of [`Volume::alter`]; `Setting` where there is not so much room.
    pub fn alter(&self, change: &alter::Change) -> core::result::Result<Superblock, Error> {
        let _turn = self.overwriting();
        let _claim = Claim::for_all(&self.promised);
        drop(self.gate_alone());
        let promised = self.promised().kept();
        let more = change.reserve.map_or(0, |new| new.saturating_sub(self.volume.shape().reserve));
        if promised > 0 && more > 0 {
            self.write()?;
            // Whole segments are kept back.
            let more = more.saturating_add(self.volume.shape().segment_room);
            if self.volume.is_short(more, self.volume.beside_new(promised)) {
                return Err(Error::Setting("what was promised to files needs that room"));
            }
        }
        self.volume.alter(change)
    }

    /// Takes a snapshot away, as [`Volume::delete_snapshot`] does.
    ///
    /// # Errors
    /// Those of [`Volume::delete_snapshot`]; what keeps from being written what was copied from it.
    pub fn delete_snapshot(&self, name: &str) -> core::result::Result<(), SnapshotError> {
        self.delete(|| self.volume.delete_snapshot(name))
    }

    /// The same for a rule.
    ///
    /// # Errors
    /// Those of [`Volume::delete_ruled`]; what keeps from being written what was copied from it.
    pub fn delete_ruled(&self, ruled: &SnapshotRow) -> core::result::Result<(), SnapshotError> {
        self.delete(|| self.volume.delete_ruled(ruled))
    }

    /// What was copied from it is written first. No more is then, once somebody was told so.
    fn delete(
        &self,
        delete: impl Fn() -> core::result::Result<(), SnapshotError>,
    ) -> core::result::Result<(), SnapshotError> {
        for wait in 0..DELETING_MAX {
            match delete() {
                Err(SnapshotError::Lent) => self.write()?,
                done => return done,
            }
            // Somebody may be about to copy, or still read what was written just now where it was before.
            std::thread::sleep(Duration::from_millis(wait));
        }
        delete()
    }

    /// Goes back to a snapshot, as [`Volume::rollback`] does, and tells what is not the same afterwards. Whoever asks
    /// lets nobody begin or end a call of POSIX meanwhile. Inodes without names that the snapshot has are kept
    /// ([`Volume::orphans`]), as somebody may hold them.
    ///
    /// # Errors
    /// Those of [`Volume::rollback`]; what keeps from being written what changed until now.
    pub fn rollback(&self, name: &str) -> core::result::Result<Replaced, SnapshotError> {
        let _alone = self.overwriting();
        loop {
            self.write()?;
            let blank = self.blank().map_err(Error::Source)?;
            let _turn = self.syncing.lock().unwrap_or_else(PoisonError::into_inner);
            // Behind `syncing` nobody who has the volume's log waits for this.
            let mut layers = self.gate_alone();
            if layers.closed.is_some() || !layers.top.dirty().is_empty() {
                continue;
            }
            let replaced = self.volume.replaced_by(name)?;
            self.volume.rollback(name)?;
            let number = layers.top.number + 1;
            let top = Layer::new(blank, &self.volume, None, number).map_err(|error| {
                // What is remembered above it may be of before.
                self.volume.stop();
                Error::Source(error)
            })?;
            layers.top = Arc::new(top);
            self.promised().forget(&replaced.inodes);
            return Ok(replaced);
        }
    }

    /// Whether somebody asked for a sync since this was called last with `forget`.
    pub fn was_synced(&self, forget: bool) -> bool {
        if forget { self.synced.swap(false, Relaxed) } else { self.synced.load(Relaxed) }
    }

    fn gate(&self) -> RwLockReadGuard<'_, Layers<U, D>> {
        self.gate.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn gate_alone(&self) -> RwLockWriteGuard<'_, Layers<U, D>> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the newest layer in which something changed; 0: there is none.
    fn newest_dirty(&self) -> u64 {
        let layers = self.gate();
        if layers.top.dirty().is_empty() {
            layers.closed.as_ref().map_or(0, |layer| layer.number)
        } else {
            layers.top.number
        }
    }

    /// The layer that is to be written next for all up to `wanted` to be safe. Whoever asks holds `syncing`.
    fn closed_layer(&self, wanted: u64) -> core::result::Result<Option<Arc<Layer<U, D>>>, Error> {
        let layers = self.gate();
        if layers.closed.is_some() {
            // It failed before.
            return Ok(layers.closed.clone());
        }
        if layers.top.number > wanted || layers.top.dirty().is_empty() {
            return Ok(None);
        }
        drop(layers);
        let blank = self.blank()?;
        let mut layers = self.gate_alone();
        let (closed, number) = (Arc::clone(&layers.top), layers.top.number + 1);
        let top = Layer::new(blank, &self.volume, Some(Arc::clone(&closed)), number)?;
        *layers = Layers { top: Arc::new(top), closed: Some(Arc::clone(&closed)) };
        Ok(Some(closed))
    }

    /// Writes a closed layer. Where there is no room, all room is made that can be, since all of it was admitted.
    fn lay_down(&self, layer: &Layer<U, D>) -> core::result::Result<(), Error> {
        let make_room = || {
            self.volume.reclaim(layer.cost().sum())?;
            self.try_lay_down(layer)
        };
        let mut done = self.try_lay_down(layer);
        if matches!(done, Err(Error::NoSpace)) {
            done = make_room();
        }
        if matches!(done, Err(Error::NoSpace)) {
            done = self.volume.in_need(make_room);
        }
        done
    }

    /// Writes a closed layer, and takes it out from between.
    fn try_lay_down(&self, layer: &Layer<U, D>) -> core::result::Result<(), Error> {
        self.volume.expect(self.waiting().0);
        let dirty = layer.dirty();
        let (view, below) = (&layer.overlay, &*self.volume);
        let borrowed = |ino| view.from_below(ino);
        let numbers = layer.numbers();
        let told = Told { dirty: &dirty, view, below, borrowed: &borrowed, numbers };
        let mut gone = None;
        self.volume.commit_and(&told, |show| {
            let mut layers = self.gate_alone();
            show()?;
            layers.top.forget_below();
            gone = layers.closed.take();
            Ok(())
        })?;
        drop(dirty);
        drop(gone);
        Ok(())
    }

    fn promised(&self) -> MutexGuard<'_, Promised> {
        locked(&self.promised)
    }

    /// Whether there is so much room for this beside what waits.
    fn fits(layers: &Layers<U, D>, cost: Cost, room: u64) -> bool {
        let waiting = (layers.top.cost() + cost).sum();
        let closed = layers.closed.as_ref().map_or(0, |layer| layer.cost().sum());
        waiting.saturating_add(closed) <= room
    }

    /// What must be left beside a batch: all that is promised but for what it brings.
    fn beside(&self, promised: &Promised, batch: &Batch<'_>) -> u64 {
        let kept = promised.kept_beside(batch);
        if promised.covers(batch) { kept } else { self.volume.beside_new(kept) }
    }

    /// Lets a batch in, if there is room for it beside all that was let in before and all that is promised; what of
    /// it was promised. One at a time, or two would have the same room.
    fn admit(
        &self,
        layers: &Layers<U, D>,
        batch: &Batch<'_>,
        (cost, grows): (Cost, bool),
    ) -> core::result::Result<Redeemed, Taken> {
        let mut promised = self.promised();
        let room = self.volume.room_beside(self.beside(&promised, batch));
        // Rows are written into what is kept back for them, never more than that at once, or to where there is room for
        // them a second time: in the log and in tables.
        let before = layers.top.cost().rows;
        let rows = Cost { bytes: 0, rows: before.saturating_add(cost.rows) };
        let has_room = Self::fits(layers, cost + rows, room);
        if before > 0 && rows.rows > self.volume.rows_room(has_room) {
            return Err(Taken::Later);
        }
        let others = promised.claimed && !promised.covers(batch);
        if grows && (others || !has_room && !Self::fits(layers, cost, room)) {
            return Err(Taken::NoRoom);
        }
        layers.top.expect(cost);
        Ok(promised.redeem(batch))
    }

    /// Takes a batch if it can.
    fn try_commit(&self, batch: &Batch<'_>, cost: Cost, grows: bool) -> Taken {
        // What is closed and still waits counts as long as it is not in the volume: nothing is closed behind the gate.
        let layers = self.gate();
        let redeemed = match self.admit(&layers, batch, (cost, grows)) {
            Ok(redeemed) => redeemed,
            Err(refused) => return refused,
        };
        let done = layers.top.commit(batch);
        if let Err(error) = done {
            let mut promised = self.promised();
            layers.top.give_up(cost);
            redeemed.into_iter().for_each(|(ino, range)| promised.add(ino, range));
            let is_full = error == esker::Error::NoSpace && !layers.top.dirty().is_empty();
            return if is_full { Taken::Later } else { Taken::Done(Err(error)) };
        }
        self.promised().passed(batch);
        let used = layers.top.overlay.upper().space().used;
        if used >= self.dirty_max / 4 && layers.closed.is_none() {
            drop(layers);
            self.wake();
        }
        Taken::Done(Ok(()))
    }
}

/// What is to be kept is nothing that is written.
fn without_reserve<'a>(batch: &Batch<'a>) -> Batch<'a> {
    let mut rest = Batch::new();
    let others = batch.changes().filter(|change| !matches!(change, Change::Reserve { .. }));
    others.for_each(|change| rest.push(*change));
    rest
}

/// What a batch wants room to be kept for.
fn reserved(batch: &Batch<'_>) -> impl Iterator<Item = (Ino, Span)> {
    batch.changes().filter_map(|change| match *change {
        Change::Reserve { ino, span } => Some((ino, span)),
        _ => None,
    })
}

impl<U: Store, D: Device> View for Kept<U, D> {
    fn attr(&self, ino: Ino) -> Result<Attr> {
        self.gate().top.overlay.attr(ino)
    }

    fn entry(&self, dir: Ino, name: Name<'_>) -> Result<Entry> {
        self.gate().top.overlay.entry(dir, name)
    }

    fn entries(
        &self,
        dir: Ino,
        after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> Result<()> {
        // Behind the gate others would wait for it. What is wrong is told there.
        self.volume.look_at(dir, after.0).ok();
        let mut after = after;
        loop {
            let mut found: Vec<(Vec<u8>, Entry, Option<Attr>)> = Vec::new();
            self.gate().top.overlay.entries(dir, after, attrs, &mut |listed| {
                found.push((listed.name.bytes().to_vec(), listed.entry, listed.attr));
                if found.len() < ENTRIES { Flow::Continue(()) } else { Flow::Break(()) }
            })?;
            let whole = found.len() == ENTRIES;
            for (name, entry, attr) in found {
                after = entry.seq;
                if each(Listed { name: Name::parse(&name)?, entry, attr }).is_break() {
                    return Ok(());
                }
            }
            if !whole {
                return Ok(());
            }
        }
    }

    fn read(&self, ino: Ino, at: u64, target: &mut [u8]) -> Result<usize> {
        self.gate().top.overlay.read(ino, at, target)
    }

    fn next_data(&self, ino: Ino, at: u64) -> Result<Option<Span>> {
        self.gate().top.overlay.next_data(ino, at)
    }

    fn xattr(&self, ino: Ino, name: XattrName<'_>, target: &mut Vec<u8>) -> Result<()> {
        self.gate().top.overlay.xattr(ino, name, target)
    }

    fn xattrs(&self, ino: Ino, each: &mut dyn FnMut(XattrName<'_>) -> Flow) -> Result<()> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        self.gate().top.overlay.xattrs(ino, &mut |name| {
            names.push(name.bytes().to_vec());
            Flow::Continue(())
        })?;
        for name in names {
            if each(XattrName::parse(&name)?).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn space(&self) -> Space {
        let layers = self.gate();
        let waiting = layers.closed.as_ref().map_or(0, |layer| layer.cost().sum());
        let waiting = waiting.saturating_add(layers.top.cost().sum() + self.promised().kept());
        let space = self.volume.space();
        let used = space.used.saturating_add(waiting).min(space.total);
        Space { used, inodes: layers.top.numbers().inodes, ..space }
    }
}

impl<U: Store, D: Device> Store for Kept<U, D> {
    fn next_ino(&self, parent: Ino, kind: Kind) -> Ino {
        self.gate().top.next_ino(parent, kind)
    }

    fn commit(&self, batch: &Batch<'_>) -> Result<()> {
        if !self.volume.is_writable() {
            return Err(esker::Error::ReadOnly);
        }
        let grows = grows(batch);
        let cost = Cost::of(batch);
        let wanted = self.unkept(batch)?;
        if wanted.is_empty() {
            return self.take(&without_reserve(batch), cost, grows);
        }
        let bytes = wanted.iter().map(|&(_, (start, end))| end - start);
        if bytes.fold(0, u64::saturating_add) > self.volume.shape().size {
            return Err(esker::Error::NoSpace);
        }
        let give_up = || wanted.iter().for_each(|&(ino, span)| self.promised().take(ino, span));
        let turn = self.overwriting();
        self.keep(&wanted);
        let room =
            self.has_room(cost).and_then(|room| room.then_some(()).ok_or(esker::Error::NoSpace));
        // Whoever has the next turn counts on it.
        room.inspect_err(|_| give_up())?;
        drop(turn);
        let done = self.take(&without_reserve(batch), cost, grows);
        match done {
            // What it took away was not wanted before.
            Ok(()) => self.keep(&wanted),
            Err(_) => give_up(),
        }
        done
    }

    fn trim(&self, ino: Ino) -> Result<()> {
        self.gate().top.overlay.trim(ino)
    }

    fn tick(&self) -> Result<u64> {
        self.gate().top.overlay.tick()
    }

    /// What is dirty and cannot be written is told of until it is written.
    fn sync(&self) -> Result<()> {
        self.write().map_err(|error| match error {
            Error::ReadOnly => esker::Error::Io,
            error => error.core(),
        })?;
        self.synced.store(true, Relaxed);
        Ok(())
    }
}

impl<U: Store, D: Device> Kept<U, D> {
    /// Takes a batch once it is written what must be for that, and room was made. Others may fill the layer as fast as
    /// it is written: that is a reason to try again, one at a time, and never to refuse.
    fn take(&self, batch: &Batch<'_>, cost: Cost, grows: bool) -> Result<()> {
        let (mut turn, mut claim, mut refused, mut made) = (None, None, 0, true);
        loop {
            match self.try_commit(batch, cost, grows) {
                Taken::Done(done) => return done,
                Taken::Later => {
                    turn.get_or_insert_with(|| self.overwriting());
                    self.write().map_err(Error::core)?;
                }
                Taken::NoRoom if refused == 0 => {
                    refused += 1;
                    self.write().map_err(Error::core)?;
                }
                // Others may have had the room that was made for it.
                Taken::NoRoom if made && refused < TRIES_MAX => {
                    refused += 1;
                    turn.get_or_insert_with(|| self.overwriting());
                    claim.get_or_insert_with(|| Claim::of(batch, &self.promised));
                    made = self.make_room(batch, cost)?;
                }
                Taken::NoRoom => {
                    let _turn = turn.unwrap_or_else(|| self.overwriting());
                    return self.overwrite(batch, cost);
                }
            }
        }
    }

    /// Makes room for a batch, behind all that was let in before; whether there is.
    fn make_room(&self, batch: &Batch<'_>, cost: Cost) -> Result<bool> {
        // Whoever was let in and is not done holds the gate.
        drop(self.gate_alone());
        self.write().map_err(Error::core)?;
        let kept = self.promised().kept_beside(batch);
        let _still = self.volume.reclaim_beside(cost.sum(), kept).map_err(Error::core)?;
        let beside = self.beside(&self.promised(), batch);
        Ok(self.volume.room_beside(beside) >= cost.sum())
    }

    fn overwriting(&self) -> MutexGuard<'_, ()> {
        self.overwriting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holes for which a batch wants room to be kept, and for which it is not yet.
    fn unkept(&self, batch: &Batch<'_>) -> Result<Vec<(Ino, (u64, u64))>> {
        let mut wanted = Vec::new();
        let punched = batch.changes().any(|change| matches!(change, Change::Punch { .. }));
        for (ino, span) in reserved(batch) {
            let mut at = span.start();
            while at < span.end() {
                let data = if punched { None } else { self.next_data(ino, at)? };
                let hole = data.map_or(span.end(), |data| data.start().clamp(at, span.end()));
                let missing = self.promised().missing(ino, (at, hole));
                wanted.extend(missing.into_iter().map(|range| (ino, range)));
                at = data.map_or(span.end(), |data| data.end());
            }
        }
        Ok(wanted)
    }

    fn keep(&self, wanted: &[(Ino, (u64, u64))]) {
        wanted.iter().for_each(|&(ino, range)| self.promised().add(ino, range));
    }

    /// Takes a batch for which there is no room, if it only puts bytes in the place of others and these take no more:
    /// it is written at once, into what is kept back, and then what was there before is free. One at a time.
    fn overwrite(&self, batch: &Batch<'_>, cost: Cost) -> Result<()> {
        let only =
            |change: &Change<'_>| matches!(change, Change::Write { .. } | Change::Set { .. });
        if !batch.changes().all(only) {
            return Err(esker::Error::NoSpace);
        }
        self.write().map_err(Error::core)?;
        if cost.bytes > self.volume.spare() {
            return Err(esker::Error::NoSpace);
        }
        for change in batch.changes() {
            if let Change::Write { ino, at, source } = *change
                && !self.volume.replaces(ino, at, source).map_err(Error::core)?
            {
                return Err(esker::Error::NoSpace);
            }
        }
        match self.try_commit(batch, cost, false) {
            Taken::Done(done) => done?,
            Taken::Later | Taken::NoRoom => return Err(esker::Error::NoSpace),
        }
        self.write().map_err(Error::core)?;
        self.volume.reclaim(cost.sum()).map_err(Error::core)
    }

    /// Whether the volume has room for so much more beside all that is kept, once it has made all the room that it can.
    fn has_room(&self, cost: Cost) -> Result<bool> {
        let kept = self.promised().kept();
        let room = || self.volume.room_beside(self.volume.beside_new(kept));
        let fits = || Self::fits(&self.gate(), cost, room());
        if fits() {
            return Ok(true);
        }
        self.write().map_err(Error::core)?;
        let _still = self.volume.reclaim_beside(cost.sum(), kept).map_err(Error::core)?;
        Ok(fits())
    }
}
