//! Files by path and by handle, on the program's own behalf.
//!
//! Above: programs. Below: `esker::posix`, which decides everything. Invariant: what an open handle leads to lives
//! as long as the handle does, whatever becomes of its names.

use esker::ground::{Clock, Memory};
use esker::memory::{Home, OpenError, Options, Resident, Tuning};
use esker::posix::{Caller, Dirent, Fs, New, Node, OpenFlags, RenameFlags, SetAttr};
use esker::store::{Flow, Space};
use esker::{Attr, Cursor, Error, Ino, Kind, Result, Time};

use crate::handle::{Fd, Handle, Handles, Lock, Open, Whence};

const ME: Caller<'static> = Caller::ROOT;

/// How a memory is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Most bytes of the memory.
    pub size_max: u64,
    /// Largest file, in bytes. Longer ones that are there stay.
    pub file_size_max: u64,
    /// Pages of 4 KiB at hand on the heap: the one thing to tune. More are faster where more is in use than fits.
    pub cache_pages: usize,
}

impl Default for Settings {
    /// No limits, and 4 MiB at hand.
    fn default() -> Self {
        Self { size_max: u64::MAX, file_size_max: u64::MAX, cache_pages: 1024 }
    }
}

/// A file system in a memory.
pub struct Files<M: Memory> {
    fs: Fs<Home<Resident<M>>>,
    handles: Handles,
}

impl<M: Memory> Files<M> {
    /// The file system in this memory, or a new one in a memory of no bytes. Opening reads a few pages, however
    /// much there is, and writes nothing.
    ///
    /// # Errors
    /// See [`OpenError`]; the memory is left as it is.
    pub fn open_memory(
        memory: M,
        clock: impl Clock + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        Self::open_memory_with(memory, clock, &Settings::default())
    }

    /// The same with other settings, which are not kept in the memory.
    ///
    /// # Errors
    /// See [`OpenError`]; the memory is left as it is.
    pub fn open_memory_with(
        memory: M,
        clock: impl Clock + Send + Sync + 'static,
        settings: &Settings,
    ) -> Result<Self, OpenError> {
        let Settings { size_max, file_size_max, cache_pages } = *settings;
        let root = Attr::new(Kind::Directory, 0o755, 0, 0, Ino::ROOT, clock.now());
        let options = Options { size_max, file_size_max, root };
        let tuning = Tuning { cache_pages, ..Tuning::USUAL };
        let home = Home::<Resident<M>>::open_with(memory, &options, &tuning)?;
        Ok(Self::new(home, clock))
    }

    /// Files of a home that was opened otherwise.
    pub fn new(home: Home<Resident<M>>, clock: impl Clock + Send + Sync + 'static) -> Self {
        let root = Handle {
            ino: Ino::ROOT,
            at: 0,
            write: false,
            append: false,
            written: false,
            cursor: Cursor::START,
            lock: None,
        };
        Self { fs: Fs::new(home, clock), handles: Handles::new(root) }
    }

    /// The file system below, for all that is not here.
    pub const fn fs(&self) -> &Fs<Home<Resident<M>>> {
        &self.fs
    }

    /// The inode behind a handle.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn ino(&mut self, fd: Fd) -> Result<Ino> {
        Ok(self.handles.get(fd)?.ino)
    }

    /// Opens a path from the directory `from`; an absolute one from the root.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `Exists`, `IsDirectory` and others, as open(2) has them.
    pub fn open(&mut self, from: Fd, path: &[u8], how: Open) -> Result<Fd> {
        let dir = self.handles.get(from)?.ino;
        let (node, fresh) = self.find_or_make(dir, path, how)?;
        let opened = if fresh { Ok(()) } else { self.admit(&node, how) };
        let handle = Handle {
            ino: node.ino,
            at: 0,
            write: how.write || how.append,
            append: how.append,
            written: false,
            cursor: Cursor::START,
            lock: None,
        };
        let added = opened.and_then(|()| self.handles.add(handle));
        if added.is_err() {
            self.fs.forget(node.ino, 1);
        }
        added
    }

    fn find_or_make(&self, dir: Ino, path: &[u8], how: Open) -> Result<(Node, bool)> {
        if !how.create || how.directory {
            return Ok((self.fs.walk(&ME, dir, path, true)?, false));
        }
        let (parent, name) = self.fs.parent(&ME, dir, path)?;
        let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
        // What ends in a slash must be a directory, which this does not make.
        if path.last() == Some(&b'/') {
            return match self.fs.stat(&ME, parent, name.bytes(), false) {
                Err(Error::NotFound) => Err(Error::IsDirectory),
                Ok(_) if how.exclusive => Err(Error::Exists),
                _ => self.fs.walk(&ME, dir, path, true).map(|node| (node, false)),
            };
        }
        if how.exclusive {
            return self.fs.create(&ME, parent, name, new).map(|node| (node, true));
        }
        let (node, fresh) = self.fs.find_or_create(&ME, parent, name, new)?;
        if node.attr.kind != Kind::Symlink {
            return Ok((node, fresh));
        }
        self.fs.forget(node.ino, 1);
        Ok((self.fs.walk(&ME, dir, path, true)?, false))
    }

    fn admit(&self, node: &Node, how: Open) -> Result<()> {
        if how.directory && node.attr.kind != Kind::Directory {
            return Err(Error::NotDirectory);
        }
        let flags = OpenFlags {
            read: true,
            write: how.write || how.append,
            append: how.append,
            truncate: how.truncate,
            kill_priv: false,
        };
        self.fs.open(&ME, node.ino, flags)
    }

    /// Closes a handle.
    ///
    /// # Errors
    /// `BadHandle`; what giving back space says.
    pub fn close(&mut self, fd: Fd) -> Result<()> {
        let handle = self.handles.take(fd)?;
        let trimmed = if handle.written { self.fs.trim(handle.ino) } else { Ok(()) };
        self.fs.forget(handle.ino, 1);
        trimmed
    }

    /// Reads where the handle stands, and moves it; how many bytes there were.
    ///
    /// # Errors
    /// `BadHandle`, `IsDirectory`, what the memory says.
    #[inline]
    pub fn read(&mut self, fd: Fd, target: &mut [u8]) -> Result<usize> {
        let handle = self.handles.get(fd)?;
        let count = self.fs.read(handle.ino, handle.at, target)?;
        handle.at += count as u64;
        Ok(count)
    }

    /// Reads from byte `at`; how many bytes there were.
    ///
    /// # Errors
    /// As [`Files::read`].
    pub fn read_at(&mut self, fd: Fd, at: u64, target: &mut [u8]) -> Result<usize> {
        let ino = self.handles.get(fd)?.ino;
        self.fs.read(ino, at, target)
    }

    /// Writes all bytes where the handle stands, or at the end if it appends, and moves it behind them.
    ///
    /// # Errors
    /// `BadHandle` when it is not open for writing; `FileTooBig`, `NoSpace`: nothing is written then.
    #[inline]
    pub fn write(&mut self, fd: Fd, source: &[u8]) -> Result<usize> {
        let handle = self.handles.get(fd)?;
        if !handle.write {
            return Err(Error::BadHandle);
        }
        if handle.append {
            handle.at = self.fs.getattr(handle.ino)?.size;
        }
        let count = self.fs.write(handle.ino, handle.at, source, false)?;
        handle.at += count as u64;
        handle.written = true;
        Ok(count)
    }

    /// Writes all bytes from byte `at` on.
    ///
    /// # Errors
    /// As [`Files::write`].
    pub fn write_at(&mut self, fd: Fd, at: u64, source: &[u8]) -> Result<usize> {
        let handle = self.handles.get(fd)?;
        if !handle.write {
            return Err(Error::BadHandle);
        }
        handle.written = true;
        self.fs.write(handle.ino, at, source, false)
    }

    /// Moves the handle; where it stands then.
    ///
    /// # Errors
    /// `BadHandle`; `Invalid` before the first byte or past the last offset.
    pub fn seek(&mut self, fd: Fd, by: i64, whence: Whence) -> Result<u64> {
        let handle = self.handles.get(fd)?;
        let base = match whence {
            Whence::Start => 0,
            Whence::Here => handle.at,
            Whence::End => self.fs.getattr(handle.ino)?.size,
        };
        let at = base.checked_add_signed(by).filter(|&at| at <= i64::MAX as u64);
        handle.at = at.ok_or(Error::Invalid)?;
        Ok(handle.at)
    }

    /// What is known of an open file or directory.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn stat(&mut self, fd: Fd) -> Result<Attr> {
        let ino = self.handles.get(fd)?.ino;
        self.fs.getattr(ino)
    }

    /// What is known of a path; of a symbolic link at its end only with `follow` what it leads to.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`.
    pub fn stat_path(&mut self, from: Fd, path: &[u8], follow: bool) -> Result<Attr> {
        let dir = self.handles.get(from)?.ino;
        self.fs.stat(&ME, dir, path, follow)
    }

    /// Makes the file so many bytes long.
    ///
    /// # Errors
    /// `BadHandle`, `FileTooBig`.
    pub fn set_len(&mut self, fd: Fd, len: u64) -> Result<()> {
        let handle = *self.handles.get(fd)?;
        if !handle.write {
            return Err(Error::BadHandle);
        }
        self.fs.setattr(&ME, handle.ino, &SetAttr { size: Some(len), ..SetAttr::default() })?;
        Ok(())
    }

    /// Locks an open file, or changes or lets go of its lock (`None`); closing it does so too.
    ///
    /// # Errors
    /// `BadHandle`; `Busy` when another handle's lock on the same file is in the way.
    pub fn lock(&mut self, fd: Fd, lock: Option<Lock>) -> Result<()> {
        self.handles.lock(fd, lock)
    }

    /// Sets times.
    ///
    /// # Errors
    /// `BadHandle`.
    pub fn set_times(&mut self, fd: Fd, atime: Option<Time>, mtime: Option<Time>) -> Result<()> {
        let ino = self.handles.get(fd)?.ino;
        let time = |time: Option<Time>| time.map(esker::posix::SetTime::At);
        let set = SetAttr { atime: time(atime), mtime: time(mtime), ..SetAttr::default() };
        self.fs.setattr(&ME, ino, &set).map(drop)
    }

    /// Returns once the memory would survive a loss of power, as far as it promises that.
    ///
    /// # Errors
    /// What the memory says.
    pub fn sync(&self) -> Result<()> {
        self.fs.sync()
    }

    /// How full the memory is.
    #[must_use]
    pub fn space(&self) -> Space {
        self.fs.statfs()
    }

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

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotEmpty`, `NotDirectory`, `NotFound`.
    pub fn rmdir(&mut self, from: Fd, path: &[u8]) -> Result<()> {
        self.in_parent(from, path, |fs, dir, name| fs.rmdir(&ME, dir, name))
    }

    /// Removes a name; the file goes with its last name and its last handle.
    ///
    /// # Errors
    /// `IsDirectory`, `NotFound`.
    pub fn unlink(&mut self, from: Fd, path: &[u8]) -> Result<()> {
        self.in_parent(from, path, |fs, dir, name| fs.unlink(&ME, dir, name))
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
    /// `Invalid` for a directory into itself, `NotEmpty`, `IsDirectory`, `NotDirectory`.
    pub fn rename(&mut self, from: Fd, old: &[u8], to: Fd, new: &[u8]) -> Result<()> {
        let dir = self.handles.get(from)?.ino;
        let (parent, name) = self.fs.parent(&ME, dir, old)?;
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
