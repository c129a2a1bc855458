//! Files backed by a memory of their own: what is read and written at their paths is that memory, until they are
//! unmounted or the program is upgraded, which may mount them again.
//!
//! Neighbours: `files` asks for every call that concerns bytes or sizes; `backing` has the bytes. Invariant: a mounted
//! inode is held, and neither its name nor its own bytes, which lie below, are changed but by the calls here.

use alloc::boxed::Box;
use alloc::vec::Vec;

use esker::ground::Memory;
use esker::posix::{New, SetAttr, SetTime};
use esker::{Attr, Error, Ino, Kind, Result};

use crate::backing::{Backed, Backing, MountError, note, noted};
use crate::files::{Files, ME};
use crate::handle::{Fd, Open};

/// Bytes copied at once.
const COPY_LEN: usize = 256 << 10;
/// What `st_blocks` counts in.
pub(crate) const BLOCK: u64 = 512;

struct Mount {
    ino: Ino,
    backed: Backed,
}

/// All that are mounted.
#[derive(Default)]
pub(crate) struct Mounts {
    mounts: Vec<Mount>,
}

impl Mounts {
    /// The memory behind an inode.
    #[inline]
    pub(crate) fn get(&mut self, ino: Ino) -> Option<&mut Backed> {
        // Most programs mount nothing.
        if self.mounts.is_empty() {
            return None;
        }
        self.mounts.iter_mut().find(|mount| mount.ino == ino).map(|mount| &mut mount.backed)
    }

    /// Attributes of an inode as they are above.
    pub(crate) fn cover(&self, ino: Ino, attr: Attr) -> Attr {
        match self.mounts.iter().find(|mount| mount.ino == ino) {
            Some(mount) => {
                let size = mount.backed.size();
                Attr { size, blocks: size.div_ceil(BLOCK), ..attr }
            }
            None => attr,
        }
    }

    /// Whether the inode is mounted.
    pub(crate) fn has(&self, ino: Ino) -> bool {
        self.mounts.iter().any(|mount| mount.ino == ino)
    }

    /// Whether nothing is mounted.
    pub(crate) const fn is_empty(&self) -> bool {
        self.mounts.is_empty()
    }

    fn take(&mut self, ino: Ino) -> Result<Backed> {
        let index = self.mounts.iter().position(|mount| mount.ino == ino);
        Ok(self.mounts.swap_remove(index.ok_or(Error::Invalid)?).backed)
    }
}

impl<M: Memory> Files<M> {
    /// Backs a file with a memory of its own, for open handles too. The file is made if it is not there; the bytes that
    /// it has itself stay below, out of sight.
    ///
    /// # Errors
    /// See [`MountError`]; neither memory has changed then.
    pub fn mount(
        &mut self,
        from: Fd,
        path: &[u8],
        memory: Box<dyn Memory>,
        backing: Backing,
    ) -> Result<(), MountError> {
        let found = match self.ino_of(from, path) {
            Err(Error::NotFound) => None,
            found => Some(found?),
        };
        let told = noted(self.fs.store(), found, backing)?;
        let mut backed = Backed::find(memory, backing, told)?;
        let fresh = found.is_none();
        let fd = self.open(from, path, Open { create: fresh, ..Open::READ })?;
        let ino = self.ino(fd)?;
        let mounted = self.mountable(ino).and_then(|()| backed.lay_down());
        let mounted = mounted.and_then(|()| note(&self.fs, ino, &mut backed));
        self.close(fd)?;
        if let Err(error) = mounted {
            if fresh {
                self.unlink(from, path)?;
            }
            return Err(error.into());
        }
        self.fs.hold(ino)?;
        self.mounts.mounts.push(Mount { ino, backed });
        self.handles.divert(ino);
        Ok(self.limit_mounted(ino)?)
    }

    fn mountable(&self, ino: Ino) -> Result<()> {
        match self.fs.getattr(ino)?.kind {
            Kind::File if self.mounts.has(ino) => Err(Error::Busy),
            Kind::File => Ok(()),
            Kind::Directory => Err(Error::IsDirectory),
            _ => Err(Error::Invalid),
        }
    }

    /// The file has its own bytes again; the memory, which has those that were written above.
    ///
    /// # Errors
    /// `Invalid` when it is not mounted.
    pub fn unmount(&mut self, from: Fd, path: &[u8]) -> Result<Box<dyn Memory>> {
        let ino = self.mounted(from, path)?;
        let backed = self.mounts.take(ino)?;
        self.fs.forget(ino, 1);
        Ok(backed.into_memory())
    }

    /// A mounted file grows no longer than it may itself, nor than any may.
    pub(crate) fn limit_mounted(&mut self, ino: Ino) -> Result<()> {
        if let Some(backed) = self.mounts.get(ino) {
            let own = self.fs.size_limit(ino)?.unwrap_or(u64::MAX);
            backed.set_size_max(own.min(self.file_size_max));
        }
        Ok(())
    }

    /// A mounted file's bytes become those of the file below, all at once. Until then there are both.
    ///
    /// # Errors
    /// `Invalid` when it is not mounted; `NoSpace`, `FileTooBig`: then the file below has what it had.
    pub fn store_mounted(&mut self, from: Fd, path: &[u8]) -> Result<()> {
        let ino = self.mounted(from, path)?;
        let (fs, backed) = (&self.fs, self.mounts.get(ino).ok_or(Error::Invalid)?);
        // Without a name: if this ends in between, it goes when the home is opened next.
        let new = New { kind: Kind::File, perm: 0o600, umask: 0, rdev: 0 };
        let fresh = fs.tmpfile(&ME, Ino::ROOT, new)?.ino;
        let read = |at, target: &mut [u8]| backed.read(at, target);
        let stored = copy(read, |at, source| fs.write(fresh, at, source, false).map(drop))
            .and_then(|()| fs.replace_content(&ME, fresh, ino));
        fs.forget(fresh, 1);
        stored
    }

    /// The bytes of the file below become those of a mounted one, all at once where its memory is whole after a kill
    /// or a trap.
    ///
    /// # Errors
    /// `Invalid` when it is not mounted; `NoSpace`, `FileTooBig`: then it has what it had. What the memory says when it
    /// fails to be written.
    pub fn init_mounted(&mut self, from: Fd, path: &[u8]) -> Result<()> {
        let ino = self.mounted(from, path)?;
        let (fs, backed) = (&self.fs, self.mounts.get(ino).ok_or(Error::Invalid)?);
        let size = fs.getattr(ino)?.size;
        backed.replace(size, |write| copy(|at, target| fs.peek(ino, at, target), write))?;
        note(fs, ino, backed)
    }

    fn ino_of(&self, from: Fd, path: &[u8]) -> Result<Ino> {
        let dir = self.handles.peek(from)?.ino;
        let node = self.fs.walk(&ME, dir, path, true)?;
        self.fs.forget(node.ino, 1);
        Ok(node.ino)
    }

    fn mounted(&self, from: Fd, path: &[u8]) -> Result<Ino> {
        let ino = self.ino_of(from, path)?;
        if self.mounts.has(ino) { Ok(ino) } else { Err(Error::Invalid) }
    }

    /// As [`Files::write`], for a mounted file that is open for writing.
    #[inline(never)]
    pub(crate) fn write_mounted(&mut self, fd: Fd, source: &[u8]) -> Result<usize> {
        let handle = self.handles.get(fd)?;
        let ino = handle.ino;
        let backed = self.mounts.get(ino).ok_or(Error::Invalid)?;
        if handle.append {
            handle.at = backed.size();
        }
        backed.write(handle.at, source)?;
        handle.at += source.len() as u64;
        if backed.changed() != Some(self.fs.now()) {
            self.touch_mounted(ino)?;
        }
        Ok(source.len())
    }

    /// A mounted file's bytes changed: the inode below has the time, once for each, and the size if it keeps that.
    pub(crate) fn touch_mounted(&mut self, ino: Ino) -> Result<()> {
        let now = self.fs.now();
        let Some(backed) = self.mounts.get(ino) else { return Ok(()) };
        note(&self.fs, ino, backed)?;
        if !backed.changes(now) {
            return Ok(());
        }
        let mtime = Some(SetTime::At(now));
        self.fs.setattr(&ME, ino, &SetAttr { mtime, ..SetAttr::default() }).map(drop)
    }
}

/// Copies bytes from the first on, until there are no more.
pub(crate) fn copy(
    read: impl Fn(u64, &mut [u8]) -> Result<usize>,
    mut write: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut buffer = alloc::vec![0; COPY_LEN];
    let mut at = 0;
    loop {
        let len = read(at, &mut buffer)?;
        if len == 0 {
            return Ok(());
        }
        write(at, &buffer[..len])?;
        at += len as u64;
    }
}
