//! Files by path and by handle, on the program's own behalf.
//!
//! Above: programs. Below: `esker::posix`, which decides everything. Invariant: what an open handle leads to lives
//! as long as the handle does, whatever becomes of its names.

use esker::ground::{Clock, Memory};
use esker::limits::FILE_SIZE_MAX;
use esker::memory::{Home, OpenError, Options, Resident, Tuning};
use esker::posix::{Allocate, Caller, Fs, New, Node, OpenFlags, SetAttr};
use esker::store::Space;
use esker::{Attr, Error, Ino, Kind, Result, Time};

use crate::handle::{Fd, Handle, Handles, Lock, Open, Whence};
use crate::mount::Mounts;

pub(crate) const ME: Caller<'static> = Caller::ROOT;

/// How a memory is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Most bytes of the memory.
    pub size_max: u64,
    /// Largest file, in bytes. Longer ones that are there stay. For one file alone: [`Files::set_size_limit`].
    pub file_size_max: u64,
    /// Pages of 4 KiB at hand on the heap: more are faster where more is in use than fits.
    pub cache_pages: usize,
    /// Bytes that a file takes at least where something is written into a hole of it, a power of two from 512 to
    /// 65,536. More keep a file that is filled at random in fewer pieces, and take more space until it is full.
    pub page_size: u32,
}

impl Default for Settings {
    /// No limits, 4 MiB at hand, and no more space than is needed.
    fn default() -> Self {
        let Tuning { cache_pages, page_size } = Tuning::USUAL;
        Self { size_max: u64::MAX, file_size_max: u64::MAX, cache_pages, page_size }
    }
}

/// A file system in a memory.
pub struct Files<M: Memory> {
    pub(crate) fs: Fs<Home<Resident<M>>>,
    pub(crate) handles: Handles,
    pub(crate) mounts: Mounts,
    /// Of mounted files: of others the home knows.
    pub(crate) file_size_max: u64,
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
        let Settings { size_max, file_size_max, cache_pages, page_size } = *settings;
        let root = Attr::new(Kind::Directory, 0o755, 0, 0, Ino::ROOT, clock.now());
        let options = Options { size_max, file_size_max, root };
        let home =
            Home::<Resident<M>>::open_with(memory, &options, &Tuning { cache_pages, page_size })?;
        Ok(Self { file_size_max: file_size_max.min(FILE_SIZE_MAX), ..Self::new(home, clock) })
    }

    /// Files of a home that was opened otherwise.
    pub fn new(home: Home<Resident<M>>, clock: impl Clock + Send + Sync + 'static) -> Self {
        Self {
            fs: Fs::new(home, clock),
            handles: Handles::new(Handle::new(Ino::ROOT, false, false)),
            mounts: Mounts::default(),
            file_size_max: FILE_SIZE_MAX,
        }
    }

    /// The file system below, for all that is not here.
    pub const fn fs(&self) -> &Fs<Home<Resident<M>>> {
        &self.fs
    }

    /// From now on every call happens at this time; without one, when the clock says. In a canister time stands still
    /// for as long as a message lasts, and to ask for it costs more than to write some bytes: told once, at the
    /// beginning of each message, it costs nothing.
    pub fn stand_still(&mut self, at: Option<Time>) {
        self.fs.stand_still(at);
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
        let handle = Handle::new(node.ino, how.write || how.append, how.append);
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

    fn admit(&mut self, node: &Node, how: Open) -> Result<()> {
        if how.directory && node.attr.kind != Kind::Directory {
            return Err(Error::NotDirectory);
        }
        let backed = self.mounts.get(node.ino);
        let flags = OpenFlags {
            read: true,
            write: how.write || how.append,
            append: how.append,
            truncate: how.truncate && backed.is_none(),
            kill_priv: false,
        };
        self.fs.open(&ME, node.ino, flags)?;
        match backed {
            Some(backed) if how.truncate => {
                backed.set_len(0)?;
                self.touch_mounted(node.ino)
            }
            _ => Ok(()),
        }
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
        if !self.mounts.is_empty()
            && let Some(backed) = self.mounts.get(handle.ino)
        {
            let count = backed.read(handle.at, target)?;
            handle.at += count as u64;
            return Ok(count);
        }
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
        match self.mounts.get(ino) {
            None => self.fs.read(ino, at, target),
            Some(backed) => backed.read(at, target),
        }
    }

    /// Writes all bytes where the handle stands, or at the end if it appends, and moves it behind them.
    ///
    /// # Errors
    /// `BadHandle` when it is not open for writing; `FileTooBig`, `NoSpace`: nothing is written then.
    #[inline]
    pub fn write(&mut self, fd: Fd, source: &[u8]) -> Result<usize> {
        let Some(handle) = self.handles.plain(fd) else { return self.write_first(fd, source) };
        let count = self.fs.write(handle.ino, handle.at, source, false)?;
        handle.at += count as u64;
        Ok(count)
    }

    /// The same, whatever is to be seen to before.
    #[inline(never)]
    fn write_first(&mut self, fd: Fd, source: &[u8]) -> Result<usize> {
        let handle = self.handles.get(fd)?;
        if !handle.write {
            return Err(Error::BadHandle);
        }
        if self.mounts.has(handle.ino) {
            return self.write_mounted(fd, source);
        }
        self.write_own(fd, source)
    }

    /// The same, to the file's own bytes.
    #[inline(never)]
    fn write_own(&mut self, fd: Fd, source: &[u8]) -> Result<usize> {
        let handle = self.handles.get(fd)?;
        if handle.append {
            handle.at = self.fs.getattr(handle.ino)?.size;
        }
        let count = self.fs.write(handle.ino, handle.at, source, false)?;
        handle.at += count as u64;
        (handle.written, handle.plain) = (true, !handle.append);
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
        let ino = handle.ino;
        let Some(backed) = self.mounts.get(ino) else {
            handle.written = true;
            return self.fs.write(ino, at, source, false);
        };
        backed.write(at, source)?;
        self.touch_mounted(ino)?;
        Ok(source.len())
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
            Whence::End => match self.mounts.get(handle.ino) {
                None => self.fs.getattr(handle.ino)?.size,
                Some(backed) => backed.size(),
            },
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
        Ok(self.mounts.cover(ino, self.fs.getattr(ino)?))
    }

    /// What is known of a path; of a symbolic link at its end only with `follow` what it leads to.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`.
    pub fn stat_path(&mut self, from: Fd, path: &[u8], follow: bool) -> Result<Attr> {
        let dir = self.handles.get(from)?.ino;
        if self.mounts.is_empty() {
            return self.fs.stat(&ME, dir, path, follow);
        }
        let node = self.fs.walk(&ME, dir, path, follow)?;
        self.fs.forget(node.ino, 1);
        Ok(self.mounts.cover(node.ino, node.attr))
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
        if let Some(backed) = self.mounts.get(handle.ino) {
            backed.set_len(len)?;
            return self.touch_mounted(handle.ino);
        }
        self.fs.setattr(&ME, handle.ino, &SetAttr { size: Some(len), ..SetAttr::default() })?;
        Ok(())
    }

    /// Makes sure of space for so many bytes from `at` on; the file grows to hold them.
    ///
    /// # Errors
    /// `BadHandle`; `NoSpace`, `FileTooBig`: no space was taken then. `Invalid` for a mounted file.
    pub fn reserve(&mut self, fd: Fd, at: u64, len: u64) -> Result<()> {
        let handle = *self.handles.get(fd)?;
        match self.mounts.get(handle.ino) {
            _ if !handle.write => Err(Error::BadHandle),
            Some(_) => Err(Error::Invalid),
            None => self.fs.fallocate(&ME, handle.ino, Allocate::Reserve, at, len),
        }
    }

    /// From now on the file grows no longer than so many bytes, whoever writes to it; without a number, as long as any
    /// ([`Settings::file_size_max`]). A file that is longer stays. The memory keeps it, as the extended attribute
    /// `trusted.esker.size_max`.
    ///
    /// # Errors
    /// `BadHandle` when it is not open for writing; `NoSpace`.
    pub fn set_size_limit(&mut self, fd: Fd, size_max: Option<u64>) -> Result<()> {
        let handle = *self.handles.get(fd)?;
        if !handle.write {
            return Err(Error::BadHandle);
        }
        self.fs.set_size_limit(&ME, handle.ino, size_max)?;
        self.limit_mounted(handle.ino)
    }

    /// The limit that [`Files::set_size_limit`] gave it.
    ///
    /// # Errors
    /// `BadHandle`; `IsDirectory`, `Invalid` for what has no size.
    pub fn size_limit(&mut self, fd: Fd) -> Result<Option<u64>> {
        let ino = self.handles.get(fd)?.ino;
        self.fs.size_limit(ino)
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
}
