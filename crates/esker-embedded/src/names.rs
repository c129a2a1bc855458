//! Names: directories made and listed, names given, moved and taken away.
//!
//! Neighbours: `files` opens what names lead to. Invariant: a name that leads to a mounted file stays.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use esker::ground::Memory;
use esker::memory::{Home, Resident};
use esker::posix::{Dirent, Fs, New, RenameFlags};
use esker::store::Flow;
use esker::{Cursor, Error, Ino, Kind, Result};

use crate::files::{Files, ME};
use crate::handle::Fd;

/// Names that are removed without another look at their directory.
const NAMES_AT_ONCE: usize = 64;

impl<M: Memory> Files<M> {
    /// The directory that the last name of a path lies in, and what `f` does there.
    fn in_parent<R>(
        &mut self,
        from: Fd,
        path: &[u8],
        f: impl FnOnce(&Fs<Home<Resident<M>>>, Ino, esker::Name<'_>) -> Result<R>,
    ) -> Result<R> {
        let dir = self.handles.get(from)?.ino;
        let (parent, name) = self.fs.parent(&ME, dir, path)?;
        f(&self.fs, parent, name)
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// `Exists`, `NotFound` when the one above is not there.
    pub fn mkdir(&mut self, from: Fd, path: &[u8]) -> Result<()> {
        let new = New { kind: Kind::Directory, perm: 0o755, umask: 0, rdev: 0 };
        self.in_parent(from, path, |fs, dir, name| {
            fs.create(&ME, dir, name, new).map(|node| fs.forget(node.ino, 1))
        })
    }

    /// Makes a directory, and those above it that are not there.
    ///
    /// # Errors
    /// `NotDirectory`, `NameTooLong`, `NoSpace`; what was made before stays.
    pub fn make_dirs(&mut self, from: Fd, path: &[u8]) -> Result<()> {
        let ends = (0..path.len()).filter(|&end| end > 0 && path[end] == b'/');
        for end in ends.chain([path.len()]) {
            match self.stat_path(from, &path[..end], true) {
                Err(Error::NotFound) => self.mkdir(from, &path[..end])?,
                found if found?.kind != Kind::Directory => return Err(Error::NotDirectory),
                _ => {}
            }
        }
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotEmpty`, `NotDirectory`, `NotFound`.
    pub fn rmdir(&mut self, from: Fd, path: &[u8]) -> Result<()> {
        self.in_parent(from, path, |fs, dir, name| fs.rmdir(&ME, dir, name))
    }

    /// Removes what a path leads to: a directory with all that is in it.
    ///
    /// # Errors
    /// `NotFound`; `Busy` when something there is mounted; `Corrupt` when a directory lies in itself, in a damaged
    /// memory. What was removed before is gone.
    pub fn remove_all(&mut self, from: Fd, path: &[u8]) -> Result<()> {
        if self.stat_path(from, path, false)?.kind != Kind::Directory {
            return self.unlink(from, path);
        }
        // One path is kept, with the directories on it, and some names.
        let (top, mut dir) = (path.len(), path.to_vec());
        let start = self.handles.get(from)?.ino;
        let mut on_path = vec![self.ino_at(start, path)?];
        let mut entered: BTreeSet<_> = on_path.iter().copied().collect();
        loop {
            let (mut names, mut below) = (Vec::new(), None);
            self.list(from, &dir, &mut |entry| {
                if entry.kind == Kind::Directory {
                    below = Some(entry.name.to_vec());
                } else {
                    names.push(entry.name.to_vec());
                }
                let more = below.is_none() && names.len() < NAMES_AT_ONCE;
                if more { Flow::Continue(()) } else { Flow::Break(()) }
            })?;
            let empty = names.is_empty();
            for name in names {
                self.unlink(from, &[&dir[..], b"/", &name].concat())?;
            }
            match below {
                Some(name) => {
                    dir = [&dir[..], b"/", &name].concat();
                    let ino = self.ino_at(start, &dir)?;
                    if !entered.insert(ino) {
                        return Err(Error::Corrupt);
                    }
                    on_path.push(ino);
                }
                None if !empty => {}
                None => {
                    self.rmdir(from, &dir)?;
                    if dir.len() == top {
                        return Ok(());
                    }
                    on_path.pop().map(|ino| entered.remove(&ino));
                    let above = dir.iter().rposition(|&byte| byte == b'/');
                    dir.truncate(above.unwrap_or(top));
                }
            }
        }
    }

    /// Removes a name; the file goes with its last name and its last handle.
    ///
    /// # Errors
    /// `IsDirectory`, `NotFound`; `Busy` when it is mounted.
    pub fn unlink(&mut self, from: Fd, path: &[u8]) -> Result<()> {
        self.refuse_mounted(from, path)?;
        self.in_parent(from, path, |fs, dir, name| fs.unlink(&ME, dir, name))
    }

    /// The inode at the end of a path, which is not held.
    fn ino_at(&self, dir: Ino, path: &[u8]) -> Result<Ino> {
        let node = self.fs.walk(&ME, dir, path, false)?;
        self.fs.forget(node.ino, 1);
        Ok(node.ino)
    }

    /// The name of what is mounted must stay.
    fn refuse_mounted(&self, from: Fd, path: &[u8]) -> Result<()> {
        if self.mounts.is_empty() {
            return Ok(());
        }
        let dir = self.handles.peek(from)?.ino;
        match self.ino_at(dir, path) {
            Ok(ino) if self.mounts.has(ino) => Err(Error::Busy),
            _ => Ok(()),
        }
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// `Exists`, `NotPermitted` for a directory.
    pub fn link(&mut self, from: Fd, path: &[u8], to: Fd, new: &[u8]) -> Result<()> {
        let dir = self.handles.get(from)?.ino;
        let node = self.fs.walk(&ME, dir, path, false)?;
        let linked = self.in_parent(to, new, |fs, dir, name| {
            fs.link(&ME, node.ino, dir, name).map(|linked| fs.forget(linked.ino, 1))
        });
        self.fs.forget(node.ino, 1);
        linked
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// `Exists`, `NameTooLong`.
    pub fn symlink(&mut self, target: &[u8], from: Fd, path: &[u8]) -> Result<()> {
        self.in_parent(from, path, |fs, dir, name| {
            fs.symlink(&ME, dir, name, target).map(|node| fs.forget(node.ino, 1))
        })
    }

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// `Invalid` when it is none.
    pub fn readlink(&mut self, from: Fd, path: &[u8], target: &mut [u8]) -> Result<usize> {
        let dir = self.handles.get(from)?.ino;
        let node = self.fs.walk(&ME, dir, path, false)?;
        let read = self.fs.readlink(node.ino, target);
        self.fs.forget(node.ino, 1);
        read
    }

    /// Moves a name; what the new one led to goes.
    ///
    /// # Errors
    /// `Invalid` for a directory into itself, `NotEmpty`, `IsDirectory`, `NotDirectory`; `Busy` when what would go is
    /// mounted.
    pub fn rename(&mut self, from: Fd, old: &[u8], to: Fd, new: &[u8]) -> Result<()> {
        let dir = self.handles.get(from)?.ino;
        let (parent, name) = self.fs.parent(&ME, dir, old)?;
        if !self.mounts.is_empty() {
            let moved = self.ino_at(dir, old)?;
            if self.ino_at(self.handles.peek(to)?.ino, new) != Ok(moved) {
                self.refuse_mounted(to, new)?;
            }
        }
        self.in_parent(to, new, |fs, new_dir, new_name| {
            fs.rename(&ME, parent, name, new_dir, new_name, RenameFlags::default())
        })
    }

    /// Every entry of a directory but `.` and `..`, oldest first, until `each` breaks.
    ///
    /// # Errors
    /// `NotDirectory`, `NotFound`.
    pub fn list(
        &mut self,
        from: Fd,
        path: &[u8],
        each: &mut dyn FnMut(Dirent<'_>) -> Flow,
    ) -> Result<()> {
        let dir = self.handles.get(from)?.ino;
        let node = self.fs.walk(&ME, dir, path, true)?;
        let listed = self.fs.readdir(&ME, node.ino, Cursor::DOT_DOT, false, each);
        self.fs.forget(node.ino, 1);
        listed
    }

    /// The next entry of an open directory, as often as there is one; `.` and `..` come first.
    ///
    /// # Errors
    /// As [`Files::list`].
    pub fn list_next(&mut self, fd: Fd, each: &mut dyn FnMut(Dirent<'_>) -> Flow) -> Result<()> {
        let handle = self.handles.get(fd)?;
        let cursor = &mut handle.cursor;
        self.fs.readdir(&ME, handle.ino, *cursor, false, &mut |entry| {
            *cursor = entry.cursor;
            each(entry)
        })
    }
}
