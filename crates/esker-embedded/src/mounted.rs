//! A home some of whose files have their bytes in memories of their own, for doors that know nothing of that.
//!
//! Above: `posix`, whose batches are taken apart here. Below: any home, and `backing`. Neighbours: `mount` does the
//! same for handles, with less between. Invariant: what lies below a mounted file stays as it is, but for its
//! attributes.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cell::RefCell;

use esker::ground::Memory;
use esker::posix::{Fs, New};
use esker::store::{Batch, Change, Entry, Flow, Listed, Space, Store, Use, View};
use esker::{Attr, Cursor, Error, Ino, Kind, Name, Result, Span, Time, XattrName};

use crate::backing::{Backed, Backing, MountError, Noted, note, noted, size_name};
use crate::files::ME;
use crate::mount::{BLOCK, copy};

/// Zeros written at once.
const ZEROS: [u8; 4096] = [0; 4096];

/// A home, and what is mounted on its files. Mounts are not kept.
pub struct Mounted<S> {
    home: S,
    mounts: RefCell<Vec<(Ino, Backed)>>,
}

impl<S> Mounted<S> {
    /// Nothing is mounted yet.
    pub const fn new(home: S) -> Self {
        Self { home, mounts: RefCell::new(Vec::new()) }
    }

    /// Does something with a mounted file's bytes; nothing to others.
    #[inline]
    fn with<R>(&self, ino: Ino, act: impl FnOnce(&mut Backed) -> R) -> Option<R> {
        let mut mounts = self.mounts.borrow_mut();
        // Most programs mount nothing.
        if mounts.is_empty() {
            return None;
        }
        mounts.iter_mut().find(|mount| mount.0 == ino).map(|mount| act(&mut mount.1))
    }

    fn has(&self, ino: Ino) -> bool {
        self.with(ino, |_| ()).is_some()
    }

    fn cover(&self, ino: Ino, attr: Attr) -> Attr {
        match self.with(ino, |backed| backed.size()) {
            Some(size) => Attr { size, blocks: size.div_ceil(BLOCK), ..attr },
            None => attr,
        }
    }

    fn take(&self, ino: Ino) -> Result<Backed> {
        let mut mounts = self.mounts.borrow_mut();
        let index = mounts.iter().position(|mount| mount.0 == ino).ok_or(Error::Invalid)?;
        Ok(mounts.swap_remove(index).1)
    }

    fn put(&self, ino: Ino, backed: Backed) {
        self.mounts.borrow_mut().push((ino, backed));
    }
}

impl<S: View> View for Mounted<S> {
    #[inline]
    fn warms(&self) -> bool {
        self.home.warms()
    }

    #[inline]
    fn attr(&self, ino: Ino) -> Result<Attr> {
        Ok(self.cover(ino, self.home.attr(ino)?))
    }

    #[inline]
    fn entry(&self, dir: Ino, name: Name<'_>) -> Result<Entry> {
        self.home.entry(dir, name)
    }

    fn entries(
        &self,
        dir: Ino,
        after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> Result<()> {
        if !attrs || self.mounts.borrow().is_empty() {
            return self.home.entries(dir, after, attrs, each);
        }
        self.home.entries(dir, after, attrs, &mut |listed| {
            let attr = listed.attr.map(|attr| self.cover(listed.entry.ino, attr));
            each(Listed { attr, ..listed })
        })
    }

    #[inline]
    fn read(&self, ino: Ino, at: u64, target: &mut [u8]) -> Result<usize> {
        match self.with(ino, |backed| backed.read(at, target)) {
            Some(read) => read,
            None => self.home.read(ino, at, target),
        }
    }

    #[inline]
    fn reread(&self, ino: Ino, at: u64, target: &mut [u8], now: Time) -> Result<Option<usize>> {
        if self.has(ino) { Ok(None) } else { self.home.reread(ino, at, target, now) }
    }

    #[inline]
    fn warm(&self, ino: Ino, after: Use, now: Time) {
        if !self.has(ino) {
            self.home.warm(ino, after, now);
        }
    }

    /// A memory has no holes.
    fn next_data(&self, ino: Ino, at: u64) -> Result<Option<Span>> {
        match self.with(ino, |backed| backed.size()) {
            Some(size) if at < size => Ok(Span::new(at, size)),
            Some(_) => Ok(None),
            None => self.home.next_data(ino, at),
        }
    }

    fn xattr(&self, ino: Ino, name: XattrName<'_>, target: &mut Vec<u8>) -> Result<()> {
        self.home.xattr(ino, name, target)
    }

    fn xattrs(&self, ino: Ino, each: &mut dyn FnMut(XattrName<'_>) -> Flow) -> Result<()> {
        self.home.xattrs(ino, each)
    }

    fn space(&self) -> Space {
        self.home.space()
    }
}

impl<S: Store> Mounted<S> {
    /// A mounted file neither goes nor is replaced; its name may move.
    fn may(&self, batch: &Batch<'_>, change: &Change<'_>) -> Result<()> {
        let moves = |wanted: Ino| {
            let links =
                |change: &Change<'_>| matches!(change, Change::Link { ino, .. } if *ino == wanted);
            batch.changes().any(links)
        };
        let gone = match *change {
            Change::Drop { ino } => Some(ino),
            Change::Unlink { dir, name } => {
                self.home.entry(dir, name).ok().map(|entry| entry.ino).filter(|ino| !moves(*ino))
            }
            Change::Link { dir, name, ino, .. } => {
                self.home.entry(dir, name).ok().map(|entry| entry.ino).filter(|old| *old != ino)
            }
            // Nobody shares bytes with another memory.
            Change::Share { source, ino, .. } if self.has(source) || self.has(ino) => {
                return Err(Error::NotSupported);
            }
            _ => None,
        };
        if gone.is_some_and(|ino| self.has(ino)) { Err(Error::Busy) } else { Ok(()) }
    }

    /// What files below must be told to keep. One batch changes the bytes of few.
    fn untold(&self) -> Vec<(Ino, Noted)> {
        let mounts = self.mounts.borrow();
        mounts.iter().filter_map(|mount| Some((mount.0, mount.1.untold()?))).collect()
    }

    /// Changes a mounted file's bytes; whether the change was of such.
    fn change(&self, change: &Change<'_>) -> Result<bool> {
        let changed = match *change {
            Change::Write { ino, at, source } => self.with(ino, |backed| backed.write(at, source)),
            Change::Cut { ino, len } => self.with(ino, |backed| backed.set_len(len)),
            Change::Punch { ino, span } => self.with(ino, |backed| {
                let (mut at, end) = (span.start(), span.end().min(backed.size()));
                while at < end {
                    let len = (end - at).min(ZEROS.len() as u64);
                    backed.write(at, &ZEROS[..len as usize])?;
                    at += len;
                }
                Ok(())
            }),
            // A file has the memory that it has.
            Change::Reserve { ino, .. } => self.with(ino, |_| Ok(())),
            _ => None,
        };
        changed.transpose().map(|changed| changed.is_some())
    }
}

impl<S: Store> Store for Mounted<S> {
    fn next_ino(&self, parent: Ino, kind: Kind) -> Ino {
        self.home.next_ino(parent, kind)
    }

    fn commit(&self, batch: &Batch<'_>) -> Result<()> {
        if self.mounts.borrow().is_empty() {
            return self.home.commit(batch);
        }
        batch.changes().try_for_each(|change| self.may(batch, change))?;
        let mut below = Batch::new();
        for change in batch.changes() {
            if !self.change(change)? {
                below.push(*change);
            }
        }
        let sizes = self.untold();
        for (ino, size) in &sizes {
            below.push(Change::Xattr { ino: *ino, name: size_name()?, value: Some(size) });
        }
        let done = self.home.commit(&below);
        for (ino, _) in sizes {
            self.with(ino, |backed| backed.told(done)).transpose()?;
        }
        done
    }

    #[inline]
    fn rewrite(&self, ino: Ino, at: u64, source: &[u8], now: Time) -> Result<bool> {
        if self.has(ino) { Ok(false) } else { self.home.rewrite(ino, at, source, now) }
    }

    fn trim(&self, ino: Ino) -> Result<()> {
        if self.has(ino) { Ok(()) } else { self.home.trim(ino) }
    }

    fn tick(&self) -> Result<u64> {
        self.home.tick()
    }

    fn sync(&self) -> Result<()> {
        self.home.sync()
    }
}

/// The file at a path from the root.
fn file<S: Store>(fs: &Fs<Mounted<S>>, path: &[u8]) -> Result<Ino> {
    let node = fs.walk(&ME, Ino::ROOT, path, true)?;
    fs.forget(node.ino, 1);
    Ok(node.ino)
}

/// Backs the file at a path with a memory of its own, for those who have it open too. It is made if it is not there;
/// the bytes that it has itself stay below, out of sight.
///
/// # Errors
/// See [`MountError`]; neither memory has changed then.
pub fn mount<S: Store>(
    fs: &Fs<Mounted<S>>,
    path: &[u8],
    memory: Box<dyn Memory>,
    backing: Backing,
) -> Result<(), MountError> {
    let found = match file(fs, path) {
        Err(Error::NotFound) => None,
        found => Some(found?),
    };
    let mut backed = Backed::find(memory, backing, noted(fs.store(), found, backing)?)?;
    let (dir, name) = fs.parent(&ME, Ino::ROOT, path)?;
    let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
    let (ino, fresh) = match found {
        // It is held for as long as it is mounted.
        Some(ino) => (fs.hold(ino)?.ino, false),
        None => (fs.create(&ME, dir, name, new)?.ino, true),
    };
    let mountable = match fs.getattr(ino).map(|attr| attr.kind) {
        Ok(Kind::File) if fs.store().has(ino) => Err(Error::Busy),
        Ok(Kind::File) => backed.lay_down().and_then(|()| note(fs, ino, &mut backed)),
        Ok(Kind::Directory) => Err(Error::IsDirectory),
        Ok(_) => Err(Error::Invalid),
        Err(error) => Err(error),
    };
    if let Err(error) = mountable {
        if fresh {
            fs.unlink(&ME, dir, name)?;
        }
        fs.forget(ino, 1);
        return Err(error.into());
    }
    fs.store().put(ino, backed);
    Ok(())
}

/// The file has its own bytes again; the memory, which has those that were written above.
///
/// # Errors
/// `Invalid` when it is not mounted.
pub fn unmount<S: Store>(fs: &Fs<Mounted<S>>, path: &[u8]) -> Result<Box<dyn Memory>> {
    let ino = file(fs, path)?;
    let backed = fs.store().take(ino)?;
    fs.forget(ino, 1);
    Ok(backed.into_memory())
}

/// The bytes of the file below become those of a mounted one.
///
/// # Errors
/// `Invalid` when it is not mounted; `NoSpace`, `FileTooBig`: then it has what it had.
pub fn init_mounted<S: Store>(fs: &Fs<Mounted<S>>, path: &[u8]) -> Result<()> {
    let ino = file(fs, path)?;
    // What is not mounted for a moment is read as it lies below.
    let mut backed = fs.store().take(ino)?;
    let done = fs.getattr(ino).and_then(|attr| {
        backed.replace(attr.size, |write| copy(|at, target| fs.peek(ino, at, target), write))?;
        note(fs, ino, &mut backed)
    });
    fs.store().put(ino, backed);
    done
}

/// A mounted file's bytes become those of the file below, all at once. Until then there are both.
///
/// # Errors
/// `Invalid` when it is not mounted; `NoSpace`, `FileTooBig`: then the file below has what it had.
pub fn store_mounted<S: Store>(fs: &Fs<Mounted<S>>, path: &[u8]) -> Result<()> {
    let ino = file(fs, path)?;
    let backed = fs.store().take(ino)?;
    // Without a name: if this ends in between, it goes when the home is opened next.
    let new = New { kind: Kind::File, perm: 0o600, umask: 0, rdev: 0 };
    let done = fs.tmpfile(&ME, Ino::ROOT, new).map(|node| node.ino).and_then(|fresh| {
        let read = |at, target: &mut [u8]| backed.read(at, target);
        let stored = copy(read, |at, source| fs.write(fresh, at, source, false).map(drop))
            .and_then(|()| fs.replace_content(&ME, fresh, ino));
        fs.forget(fresh, 1);
        stored
    });
    fs.store().put(ino, backed);
    done
}
