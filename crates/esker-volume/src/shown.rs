//! The snapshots of a volume beside what it holds now: a directory in its root, with a directory for each of them.
//!
//! Above: POSIX. Below: any home of the volume, and `snapped`. The numbers of inodes say whose they are: those of the
//! home are as they were, those of snapshots lie above all of them (`shelf`). Invariant: what the home answers is
//! answered unchanged, but for one name in the root directory that it does not have; no batch reaches it that names an
//! inode of a snapshot, but as one whose bytes are shared.

use std::ops::Deref;
use std::sync::Arc;

use esker::store::{Batch, Change, Entry, Flow, Listed, Space, Store, Use, View};
use esker::{Attr, Cursor, Error, Ino, Kind, Name, Result, Span, Time, XattrName};

use crate::device::Device;
use crate::shelf::{SHELF, SHOWN, Whose, outside, whose};
use crate::snapped::Snapped;
use crate::volume::Volume;

/// What the directory of the snapshots is called.
pub const SNAPSHOTS: &str = ".snapshots";

/// Attributes as they are seen from above.
fn attr_outside(number: u32, own: Ino, attr: Attr) -> Result<Attr> {
    let parent = match attr.kind {
        Kind::Directory if own == Ino::ROOT => SHELF,
        Kind::Directory => outside(number, attr.parent)?,
        _ => attr.parent,
    };
    Ok(Attr { parent, ..attr })
}

/// A home of a volume, with its snapshots.
pub struct Shown<P, D> {
    home: P,
    volume: Arc<Volume<D>>,
}

impl<P, D: Device> Shown<P, D> {
    /// The snapshot of a number.
    fn snapped(&self, number: u32) -> Result<Snapped<D>> {
        Ok(Snapped::of(Arc::clone(&self.volume), self.volume.shelf.sequence(number)?))
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
        let ino = outside(self.volume.shelf.number(sequence)?, Ino::ROOT)?;
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
        let Whose::Inside(number, own) = whose(ino) else { return Ok(None) };
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
        Ok(Self { home, volume })
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
        !matches!(whose(ino), Whose::Home) || self.home.is_fixed(ino)
    }

    /// The directory of the snapshots, and theirs: they come and go by command, and by rules.
    fn is_fleeting(&self, ino: Ino) -> bool {
        match whose(ino) {
            Whose::Home => self.home.is_fleeting(ino),
            Whose::Shelf => true,
            Whose::Inside(_, own) => own == Ino::ROOT,
        }
    }

    fn attr(&self, ino: Ino) -> Result<Attr> {
        match whose(ino) {
            Whose::Home => self.home.attr(ino),
            Whose::Shelf => self.shelf_attr(),
            Whose::Inside(..) => self.attr_inside(ino)?.ok_or(Error::NotFound),
        }
    }

    fn entry(&self, dir: Ino, name: Name<'_>) -> Result<Entry> {
        match whose(dir) {
            Whose::Home if dir == Ino::ROOT && name.bytes() == SNAPSHOTS.as_bytes() => {
                Ok(Entry { ino: SHELF, kind: Kind::Directory, seq: Cursor::FIRST })
            }
            // The home of a damaged volume might name what is none of its own.
            Whose::Home => match self.home.entry(dir, name)? {
                entry if entry.ino >= SHOWN => Err(Error::Corrupt),
                entry => Ok(entry),
            },
            Whose::Shelf => self.named(name),
            Whose::Inside(number, own) => {
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
        match whose(dir) {
            Whose::Home => self.home.entries(dir, after, attrs, &mut |listed| {
                if listed.entry.ino < SHOWN { each(listed) } else { Flow::Continue(()) }
            }),
            Whose::Shelf => self.list(after, attrs, each),
            Whose::Inside(number, own) => self.list_inside((number, own), after, attrs, each),
        }
    }

    fn read(&self, ino: Ino, at: u64, target: &mut [u8]) -> Result<usize> {
        match whose(ino) {
            Whose::Home => self.home.read(ino, at, target),
            Whose::Shelf => Err(Error::IsDirectory),
            Whose::Inside(number, own) => self.snapped(number)?.read(own, at, target),
        }
    }

    fn reread(&self, ino: Ino, at: u64, target: &mut [u8], now: Time) -> Result<Option<usize>> {
        match whose(ino) {
            Whose::Home => self.home.reread(ino, at, target, now),
            _ => Ok(None),
        }
    }

    fn warm(&self, ino: Ino, after: Use, now: Time) {
        if let Whose::Home = whose(ino) {
            self.home.warm(ino, after, now);
        }
    }

    fn next_data(&self, ino: Ino, at: u64) -> Result<Option<Span>> {
        match whose(ino) {
            Whose::Home => self.home.next_data(ino, at),
            Whose::Shelf => Ok(None),
            Whose::Inside(number, own) => self.snapped(number)?.next_data(own, at),
        }
    }

    fn xattr(&self, ino: Ino, name: XattrName<'_>, target: &mut Vec<u8>) -> Result<()> {
        match whose(ino) {
            Whose::Home => self.home.xattr(ino, name, target),
            Whose::Shelf => Err(Error::NoData),
            Whose::Inside(number, own) => self.snapped(number)?.xattr(own, name, target),
        }
    }

    fn xattrs(&self, ino: Ino, each: &mut dyn FnMut(XattrName<'_>) -> Flow) -> Result<()> {
        match whose(ino) {
            Whose::Home => self.home.xattrs(ino, each),
            Whose::Shelf => Ok(()),
            Whose::Inside(number, own) => self.snapped(number)?.xattrs(own, each),
        }
    }

    fn space(&self) -> Space {
        self.home.space()
    }
}

/// Whether a batch may go to the home.
fn admit(batch: &Batch<'_>) -> Result<()> {
    let is_home = |ino: Ino| ino < SHOWN;
    for change in batch.changes() {
        let free = match *change {
            Change::Link { dir, ino, .. } => is_home(dir) && is_home(ino),
            Change::Unlink { dir, .. } => is_home(dir),
            Change::Share { ino, .. }
            | Change::Make { ino, .. }
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
    Ok(())
}

impl<P, D> Store for Shown<P, D>
where
    P: Deref<Target: Store>,
    D: Device,
{
    /// In a snapshot nothing can be made: its number is such that the batch is refused.
    fn next_ino(&self, parent: Ino, kind: Kind) -> Ino {
        match whose(parent) {
            Whose::Home => self.home.next_ino(parent, kind),
            _ => SHELF,
        }
    }

    fn commit(&self, batch: &Batch<'_>) -> Result<()> {
        admit(batch)?;
        self.home.commit(batch)
    }

    fn rewrite(&self, ino: Ino, at: u64, source: &[u8], now: Time) -> Result<bool> {
        match whose(ino) {
            Whose::Home => self.home.rewrite(ino, at, source, now),
            _ => Err(Error::ReadOnly),
        }
    }

    fn trim(&self, ino: Ino) -> Result<()> {
        match whose(ino) {
            Whose::Home => self.home.trim(ino),
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
