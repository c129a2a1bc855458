//! The snapshots of a volume beside what it holds now: a directory in its root, with a directory for each of them.
//!
//! Above: POSIX. Below: any home of the volume, and `snapped`. The numbers of inodes say whose they are: those of the
//! home are as they were, those of snapshots lie above all of them. Invariant: what the home answers is answered
//! unchanged, but for one name in the root directory that it does not have; no batch that names an inode of a snapshot
//! reaches it. A number that was told once means the same inode as long as this lives, and none at all once its
//! snapshot is deleted.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use esker::store::{Batch, Change, Entry, Flow, Listed, Space, Store, Use, View};
use esker::{Attr, Cursor, Error, Ino, Kind, Name, Result, Span, Time, XattrName};

use crate::device::Device;
use crate::limits::{SNAPSHOTS_LOOKED_AT, SNAPSHOTS_MAX};
use crate::snapped::Snapped;
use crate::volume::Volume;

/// What the directory of the snapshots is called.
pub const SNAPSHOTS: &str = ".snapshots";

/// Numbers of inodes from here on are not of the home. No program takes them for negative.
const SHOWN: u64 = 1 << 62;
/// Bits of a number that say which inode of its snapshot it is; those above say of which snapshot.
const INO_BITS: u32 = 44;
/// The directory of the snapshots: the number of no snapshot, and of no inode in it.
const SHELF: Ino = Ino(SHOWN);
/// Snapshots that can be told apart as long as the mount lives, and have numbers from 1 up.
const NUMBERED_MAX: usize = (1 << (62 - INO_BITS)) - 1;

const _: () = assert!(SNAPSHOTS_MAX <= NUMBERED_MAX);

/// Where an inode is.
#[derive(Clone, Copy)]
enum Place {
    Home,
    Shelf,
    /// In the snapshot of this number.
    Inside(u32, Ino),
}

const fn place(ino: Ino) -> Place {
    if ino.0 < SHOWN {
        return Place::Home;
    }
    let (number, own) = ((ino.0 - SHOWN) >> INO_BITS, ino.0 & ((1 << INO_BITS) - 1));
    // Numbers that are too large are never given out.
    if number == 0 { Place::Shelf } else { Place::Inside(number as u32, Ino(own)) }
}

/// The number by which an inode of a snapshot is known above.
const fn outside(number: u32, own: Ino) -> Result<Ino> {
    if own.0 >> INO_BITS != 0 {
        return Err(Error::Overflow);
    }
    Ok(Ino(SHOWN | (number as u64) << INO_BITS | own.0))
}

/// Attributes as they are seen from above.
fn attr_outside(number: u32, own: Ino, attr: Attr) -> Result<Attr> {
    let parent = match attr.kind {
        Kind::Directory if own == Ino::ROOT => SHELF,
        Kind::Directory => outside(number, attr.parent)?,
        _ => attr.parent,
    };
    Ok(Attr { parent, ..attr })
}

/// Which snapshots have a number, and those that were looked at last.
struct Shelf<D> {
    /// By their numbers, less one.
    sequences: Vec<u64>,
    numbers: BTreeMap<u64, u32>,
    /// The one that was looked at last comes last.
    open: Vec<(u32, Arc<Snapped<D>>)>,
}

/// A home of a volume, with its snapshots.
pub struct Shown<P, D> {
    home: P,
    volume: Arc<Volume<D>>,
    shelf: Mutex<Shelf<D>>,
}

impl<P, D: Device> Shown<P, D> {
    fn shelf(&self) -> MutexGuard<'_, Shelf<D>> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a snapshot, which it keeps.
    fn number(&self, sequence: u64) -> Result<u32> {
        let mut shelf = self.shelf();
        if let Some(&number) = shelf.numbers.get(&sequence) {
            return Ok(number);
        }
        if shelf.sequences.len() == NUMBERED_MAX {
            return Err(Error::Overflow);
        }
        shelf.sequences.push(sequence);
        let number = shelf.sequences.len() as u32;
        shelf.numbers.insert(sequence, number);
        Ok(number)
    }

    /// The snapshot of a number. Only those that were looked at last are kept open.
    fn snapped(&self, number: u32) -> Result<Arc<Snapped<D>>> {
        let mut shelf = self.shelf();
        let found = shelf.open.iter().position(|(own, _)| *own == number);
        let own = if let Some(at) = found {
            shelf.open.remove(at).1
        } else {
            let sequence = shelf.sequences.get(number as usize - 1).ok_or(Error::Stale)?;
            Arc::new(Snapped::of(Arc::clone(&self.volume), *sequence))
        };
        shelf.open.push((number, Arc::clone(&own)));
        if shelf.open.len() > SNAPSHOTS_LOOKED_AT {
            shelf.open.remove(0);
        }
        Ok(own)
    }

    /// The snapshot of this name.
    fn named(&self, name: Name<'_>) -> Result<Entry> {
        let sequence = {
            let state = self.volume.state();
            let found = state.snapshots.iter().find(|row| row.name == name.bytes());
            found.map(|row| row.sequence).ok_or(Error::NotFound)?
        };
        self.root_of(sequence)
    }

    fn root_of(&self, sequence: u64) -> Result<Entry> {
        let ino = outside(self.number(sequence)?, Ino::ROOT)?;
        // Sequences stay, so a listing goes on where it was whatever comes and goes.
        let seq = Cursor(sequence.saturating_add(Cursor::FIRST.0));
        Ok(Entry { ino, kind: Kind::Directory, seq })
    }

    /// All snapshots, the oldest first.
    fn list(
        &self,
        after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> Result<()> {
        for row in self.volume.snapshots() {
            let entry = self.root_of(row.sequence)?;
            let Ok(name) = Name::parse(&row.name) else { continue };
            if entry.seq <= after {
                continue;
            }
            let attr = if attrs { self.attr_inside(entry.ino) } else { Ok(None) };
            let attr = match attr {
                // It was deleted meanwhile.
                Err(Error::Stale) => continue,
                attr => attr?,
            };
            if each(Listed { name, entry, attr }).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn attr_inside(&self, ino: Ino) -> Result<Option<Attr>> {
        let Place::Inside(number, own) = place(ino) else { return Ok(None) };
        attr_outside(number, own, self.snapped(number)?.attr(own)?).map(Some)
    }

    fn list_inside(
        &self,
        (number, dir): (u32, Ino),
        after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> Result<()> {
        let mut failed = Ok(());
        self.snapped(number)?.entries(dir, after, attrs, &mut |listed| {
            let own = listed.entry.ino;
            let attr = listed.attr.map(|attr| attr_outside(number, own, attr)).transpose();
            match outside(number, own).and_then(|ino| Ok((ino, attr?))) {
                Ok((ino, attr)) => {
                    each(Listed { entry: Entry { ino, ..listed.entry }, attr, ..listed })
                }
                Err(error) => {
                    failed = Err(error);
                    Flow::Break(())
                }
            }
        })?;
        failed
    }
}

impl<P, D> Shown<P, D>
where
    P: Deref<Target: View>,
    D: Device,
{
    /// A home of this volume, with its snapshots.
    ///
    /// # Errors
    /// `Exists` where the home has something of the name [`SNAPSHOTS`] in its root directory; what the home says.
    pub fn new(home: P, volume: Arc<Volume<D>>) -> Result<Self> {
        match home.entry(Ino::ROOT, Name::parse(SNAPSHOTS.as_bytes())?) {
            Err(Error::NotFound) => {}
            found => return found.and(Err(Error::Exists)),
        }
        let shelf = Shelf { sequences: Vec::new(), numbers: BTreeMap::new(), open: Vec::new() };
        Ok(Self { home, volume, shelf: Mutex::new(shelf) })
    }

    /// The home.
    pub const fn home(&self) -> &P {
        &self.home
    }

    fn shelf_attr(&self) -> Result<Attr> {
        let root = self.home.attr(Ino::ROOT)?;
        let state = self.volume.state();
        let count = state.snapshots.len();
        let newest = state.snapshots.last().map_or(root.btime.secs, |row| row.time);
        // Who keeps a listing knows by the time that it is another one now: so each set of snapshots has its own.
        let mix = |sum: u64, sequence: u64| (sum ^ sequence).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let set = state.snapshots.iter().fold(0, |sum, row| mix(sum, row.sequence).rotate_left(29));
        let now = Time { secs: newest, nanos: (set % 1_000_000_000) as u32 };
        let attr = Attr::new(Kind::Directory, 0o555, root.uid, root.gid, Ino::ROOT, now);
        Ok(Attr { size: count as u64, nlink: attr.nlink + count as u32, ..attr })
    }
}

impl<P, D> View for Shown<P, D>
where
    P: Deref<Target: View>,
    D: Device,
{
    fn warms(&self) -> bool {
        self.home.warms()
    }

    fn is_fixed(&self, ino: Ino) -> bool {
        !matches!(place(ino), Place::Home) || self.home.is_fixed(ino)
    }

    /// The directory of the snapshots, and theirs: they come and go by command, and by rules.
    fn is_fleeting(&self, ino: Ino) -> bool {
        match place(ino) {
            Place::Home => self.home.is_fleeting(ino),
            Place::Shelf => true,
            Place::Inside(_, own) => own == Ino::ROOT,
        }
    }

    fn attr(&self, ino: Ino) -> Result<Attr> {
        match place(ino) {
            Place::Home => self.home.attr(ino),
            Place::Shelf => self.shelf_attr(),
            Place::Inside(..) => self.attr_inside(ino)?.ok_or(Error::NotFound),
        }
    }

    fn entry(&self, dir: Ino, name: Name<'_>) -> Result<Entry> {
        match place(dir) {
            Place::Home if dir == Ino::ROOT && name.bytes() == SNAPSHOTS.as_bytes() => {
                Ok(Entry { ino: SHELF, kind: Kind::Directory, seq: Cursor::FIRST })
            }
            // The home of a damaged volume might name what is none of its own.
            Place::Home => match self.home.entry(dir, name)? {
                entry if entry.ino.0 >= SHOWN => Err(Error::Corrupt),
                entry => Ok(entry),
            },
            Place::Shelf => self.named(name),
            Place::Inside(number, own) => {
                let entry = self.snapped(number)?.entry(own, name)?;
                Ok(Entry { ino: outside(number, entry.ino)?, ..entry })
            }
        }
    }

    /// That of the snapshots is not among the entries of the root directory: who copies or searches the whole tree
    /// does not want it many times over.
    fn entries(
        &self,
        dir: Ino,
        after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> Result<()> {
        match place(dir) {
            Place::Home => self.home.entries(dir, after, attrs, &mut |listed| {
                if listed.entry.ino.0 < SHOWN { each(listed) } else { Flow::Continue(()) }
            }),
            Place::Shelf => self.list(after, attrs, each),
            Place::Inside(number, own) => self.list_inside((number, own), after, attrs, each),
        }
    }

    fn read(&self, ino: Ino, at: u64, target: &mut [u8]) -> Result<usize> {
        match place(ino) {
            Place::Home => self.home.read(ino, at, target),
            Place::Shelf => Err(Error::IsDirectory),
            Place::Inside(number, own) => self.snapped(number)?.read(own, at, target),
        }
    }

    fn reread(&self, ino: Ino, at: u64, target: &mut [u8], now: Time) -> Result<Option<usize>> {
        match place(ino) {
            Place::Home => self.home.reread(ino, at, target, now),
            _ => Ok(None),
        }
    }

    fn warm(&self, ino: Ino, after: Use, now: Time) {
        if let Place::Home = place(ino) {
            self.home.warm(ino, after, now);
        }
    }

    fn next_data(&self, ino: Ino, at: u64) -> Result<Option<Span>> {
        match place(ino) {
            Place::Home => self.home.next_data(ino, at),
            Place::Shelf => Ok(None),
            Place::Inside(number, own) => self.snapped(number)?.next_data(own, at),
        }
    }

    fn xattr(&self, ino: Ino, name: XattrName<'_>, target: &mut Vec<u8>) -> Result<()> {
        match place(ino) {
            Place::Home => self.home.xattr(ino, name, target),
            Place::Shelf => Err(Error::NoData),
            Place::Inside(number, own) => self.snapped(number)?.xattr(own, name, target),
        }
    }

    fn xattrs(&self, ino: Ino, each: &mut dyn FnMut(XattrName<'_>) -> Flow) -> Result<()> {
        match place(ino) {
            Place::Home => self.home.xattrs(ino, each),
            Place::Shelf => Ok(()),
            Place::Inside(number, own) => self.snapped(number)?.xattrs(own, each),
        }
    }

    fn space(&self) -> Space {
        self.home.space()
    }
}

/// Whether a batch may go to the home.
fn admit(batch: &Batch<'_>) -> Result<()> {
    let is_home = |ino: Ino| ino.0 < SHOWN;
    let mut crosses = false;
    for change in batch.changes() {
        let free = match *change {
            Change::Link { dir, ino, .. } => is_home(dir) && is_home(ino),
            Change::Unlink { dir, .. } => is_home(dir),
            Change::Share { source, ino, .. } => {
                crosses |= !is_home(source);
                is_home(ino)
            }
            Change::Make { ino, .. }
            | Change::Set { ino, .. }
            | Change::Drop { ino }
            | Change::Write { ino, .. }
            | Change::Cut { ino, .. }
            | Change::Punch { ino, .. }
            | Change::Reserve { ino, .. }
            | Change::Xattr { ino, .. } => is_home(ino),
        };
        if !free {
            return Err(Error::ReadOnly);
        }
    }
    // What a snapshot has cannot be shared with what is now; who is told so copies it.
    if crosses { Err(Error::CrossDevice) } else { Ok(()) }
}

impl<P, D> Store for Shown<P, D>
where
    P: Deref<Target: Store>,
    D: Device,
{
    /// In a snapshot nothing can be made: its number is such that the batch is refused.
    fn next_ino(&self, parent: Ino, kind: Kind) -> Ino {
        match place(parent) {
            Place::Home => self.home.next_ino(parent, kind),
            _ => SHELF,
        }
    }

    fn commit(&self, batch: &Batch<'_>) -> Result<()> {
        admit(batch)?;
        self.home.commit(batch)
    }

    fn rewrite(&self, ino: Ino, at: u64, source: &[u8], now: Time) -> Result<bool> {
        match place(ino) {
            Place::Home => self.home.rewrite(ino, at, source, now),
            _ => Err(Error::ReadOnly),
        }
    }

    fn trim(&self, ino: Ino) -> Result<()> {
        match place(ino) {
            Place::Home => self.home.trim(ino),
            _ => Ok(()),
        }
    }

    fn tick(&self) -> Result<u64> {
        self.home.tick()
    }

    fn sync(&self) -> Result<()> {
        self.home.sync()
    }
}
