//! Open, read, write, and where the holes are.

use super::attrs::{drop_set_id, without_set_id};
use super::create::change;
use super::limit::LIMITED;
use super::{Access, Caller, Fs};
use crate::attr::{Attr, Flags, Kind, Time};
use crate::error::{Error, Result};
use crate::ids::Ino;
use crate::limits::FILE_SIZE_MAX;
use crate::store::{Batch, Change, Store, Use, View};

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFlags {
    /// For reading.
    pub read: bool,
    /// For writing.
    pub write: bool,
    /// Every write goes to the end.
    pub append: bool,
    /// The content goes first.
    pub truncate: bool,
    /// Set-id bits go if the content does: the caller may not keep them.
    pub kill_priv: bool,
}

/// After so many seconds a read moves atime even if nothing was written since (relatime).
const ATIME_AGE_SECS: i64 = 24 * 60 * 60;

impl<S: View> Fs<S> {
    /// Bytes from `at` without moving atime; how many there were.
    ///
    /// # Errors
    /// `IsDirectory`; `Invalid` for anything else without content.
    pub fn peek(&self, ino: Ino, at: u64, target: &mut [u8]) -> Result<usize> {
        let _inode = self.locks.read(ino);
        self.file(ino)?;
        self.store.read(ino, at, target)
    }

    /// lseek(2) with `SEEK_DATA`.
    ///
    /// # Errors
    /// `NoSuchOffset` when there is no data at or behind `at`.
    pub fn seek_data(&self, ino: Ino, at: u64) -> Result<u64> {
        let _inode = self.locks.read(ino);
        self.file(ino)?;
        Ok(self.store.next_data(ino, at)?.ok_or(Error::NoSuchOffset)?.start().max(at))
    }

    /// lseek(2) with `SEEK_HOLE`; the end of the file is a hole.
    ///
    /// # Errors
    /// `NoSuchOffset` when `at` lies at or behind the end.
    pub fn seek_hole(&self, ino: Ino, at: u64) -> Result<u64> {
        let _inode = self.locks.read(ino);
        let size = self.file(ino)?.size;
        if at >= size {
            return Err(Error::NoSuchOffset);
        }
        let mut hole = at;
        while let Some(data) = self.store.next_data(ino, hole)? {
            if data.start() > hole || data.is_empty() {
                break;
            }
            hole = data.end();
        }
        Ok(hole.min(size))
    }

    /// The attributes of a regular file.
    pub(super) fn file(&self, ino: Ino) -> Result<Attr> {
        let attr = self.getattr(ino)?;
        is_file(&attr).map(|()| attr)
    }
}

#[inline]
const fn is_file(attr: &Attr) -> Result<()> {
    match attr.kind {
        Kind::File => Ok(()),
        Kind::Directory => Err(Error::IsDirectory),
        _ => Err(Error::Invalid),
    }
}

impl<S: Store> Fs<S> {
    /// open(2) of what exists. It holds nothing: whoever opens holds the inode already.
    ///
    /// # Errors
    /// `IsDirectory` for writing, `TooManySymlinks` for a symbolic link, `ReadOnly`, `AccessDenied`, `NotPermitted`
    /// (immutable, or append-only without `append`).
    pub fn open(&self, caller: &Caller<'_>, ino: Ino, flags: OpenFlags) -> Result<()> {
        let attr = self.getattr(ino)?;
        let changes = flags.write || flags.truncate;
        match attr.kind {
            Kind::Directory if changes => return Err(Error::IsDirectory),
            Kind::Symlink => return Err(Error::TooManySymlinks),
            _ => {}
        }
        // That nobody may write comes before whether this caller may.
        if changes && self.store.is_fixed(ino) {
            return Err(Error::ReadOnly);
        }
        if changes && attr.flags.contains(Flags::IMMUTABLE) {
            return Err(Error::NotPermitted);
        }
        let read = if flags.read { Access::READ.0 } else { 0 };
        let write = if changes { Access::WRITE.0 } else { 0 };
        self.may(caller, ino, &attr, Access(read | write))?;
        let appends = flags.append && !flags.truncate;
        if changes && attr.flags.contains(Flags::APPEND) && !appends {
            return Err(Error::NotPermitted);
        }
        if flags.truncate && attr.kind == Kind::File {
            self.empty(ino, flags.kill_priv)?;
        }
        Ok(())
    }

    fn empty(&self, ino: Ino, kill_priv: bool) -> Result<()> {
        let _inode = self.locks.write(ino);
        let mut attr = self.file(ino)?;
        change(&mut attr, self.now());
        let mut batch = Batch::new();
        batch.push(Change::Cut { ino, len: 0 });
        self.push_written(&mut batch, ino, &mut attr, kill_priv)?;
        self.store.commit(&batch)
    }

    /// Bytes from `at`; how many there were. Moves atime where it lies before the last change, or is a day old.
    ///
    /// # Errors
    /// As [`Fs::peek`].
    #[inline]
    pub fn read(&self, ino: Ino, at: u64, target: &mut [u8]) -> Result<usize> {
        let now = self.store.warms().then(|| self.now());
        let (count, attr) = {
            let _inode = self.locks.read(ino);
            if let Some(now) = now
                && let Some(count) = self.store.reread(ino, at, target, now)?
            {
                return Ok(count);
            }
            let attr = self.file(ino)?;
            (self.store.read(ino, at, target)?, attr)
        };
        let at = now.unwrap_or_else(|| self.now());
        let touched = self.touch(ino, &attr, at);
        if let Some(now) = now.filter(|_| touched.is_ok()) {
            self.store.warm(ino, Use::Read, now);
        }
        Ok(count)
    }

    /// The target of a symbolic link, as [`Fs::peek_link`]; moves atime.
    ///
    /// # Errors
    /// `Invalid` when it is none.
    pub fn readlink(&self, ino: Ino, target: &mut [u8]) -> Result<usize> {
        let count = self.peek_link(ino, target)?;
        let _ = self.touch(ino, &self.getattr(ino)?, self.now());
        Ok(count)
    }

    /// Moves atime as a read would, for somebody who is about to read bytes that he keeps from earlier;
    /// whether it moved.
    ///
    /// # Errors
    /// `Stale`.
    pub fn visit(&self, ino: Ino) -> Result<bool> {
        let seen = self.getattr(ino)?;
        Ok(self.touch(ino, &seen, self.now()).unwrap_or(false))
    }

    /// Moves atime if it is time to; whether it did. That this fails (a full home, say) is no reason not to
    /// have read.
    pub(super) fn touch(&self, ino: Ino, seen: &Attr, now: Time) -> Result<bool> {
        if !atime_due(seen, now) || self.store.is_fixed(ino) {
            return Ok(false);
        }
        let _inode = self.locks.write(ino);
        let attr = self.store.attr(ino).map(|attr| Attr { atime: now, ..attr });
        attr.and_then(|attr| self.set(ino, attr)).map(|()| true)
    }

    /// Bytes to `at`; how many, always all of them. One call is one batch: whole or absent.
    /// With `kill_priv` the writer may not keep set-id bits.
    ///
    /// # Errors
    /// `FileTooBig`, `NoSpace`; `IsDirectory`, `Invalid` for what has no content.
    // Where a program writes a little at a time, the call would be a fifth of it.
    #[inline(always)]
    pub fn write(&self, ino: Ino, at: u64, source: &[u8], kill_priv: bool) -> Result<usize> {
        if self.store.warms() {
            let now = self.now();
            let _inode = self.locks.write(ino);
            if self.store.rewrite(ino, at, source, now)? {
                return Ok(source.len());
            }
        }
        self.write_cold(ino, at, source, kill_priv)
    }

    /// The same for an inode that is not warm: apart, so that the rest is short.
    #[inline(never)]
    fn write_cold(&self, ino: Ino, at: u64, source: &[u8], kill_priv: bool) -> Result<usize> {
        self.put(ino, at, source, kill_priv, |attr| {
            let now = self.now();
            change(attr, now);
            Some(now)
        })
    }

    /// The same for bytes that were held back by somebody who has told their times, or will: these
    /// stay as they are. Whoever wrote them was told long ago that they are taken, so of those for which
    /// there is no room as many are, from the first on, as there is room for.
    ///
    /// # Errors
    /// As [`Fs::write`], also when only a part was taken.
    pub fn write_back(&self, ino: Ino, at: u64, source: &[u8], kill_priv: bool) -> Result<usize> {
        let (mut done, mut step) = (0, source.len());
        loop {
            let part = &source[done..source.len().min(done + step)];
            match self.put(ino, at + done as u64, part, kill_priv, |_| None) {
                Ok(count) => done += count,
                Err(Error::NoSpace | Error::FileTooBig) if part.len() > 1 => step = part.len() / 2,
                Err(error) => return Err(error),
            }
            if done == source.len() {
                return Ok(done);
            }
        }
    }

    fn put(
        &self,
        ino: Ino,
        at: u64,
        source: &[u8],
        kill_priv: bool,
        written: impl FnOnce(&mut Attr) -> Option<Time>,
    ) -> Result<usize> {
        let end = at.checked_add(source.len() as u64).ok_or(Error::FileTooBig)?;
        if end > FILE_SIZE_MAX {
            return Err(Error::FileTooBig);
        }
        let _inode = self.locks.write(ino);
        let mut attr = self.getattr(ino)?;
        is_file(&attr)?;
        if source.is_empty() {
            return Ok(0);
        }
        self.may_reach(ino, &attr, end)?;
        let mut batch = Batch::new();
        batch.push(Change::Write { ino, at, source });
        let now = written(&mut attr);
        self.push_written(&mut batch, ino, &mut attr, kill_priv)?;
        self.store.commit(&batch)?;
        // Of a warm inode nobody asks whether it may grow.
        let plain = without_set_id(attr.perm) == attr.perm && attr.flags.0 & LIMITED == 0;
        if let Some(now) = now.filter(|_| self.store.warms() && plain) {
            self.store.warm(ino, Use::Write, now);
        }
        Ok(source.len())
    }

    /// Gives back space that was taken ahead of writes to come: for a file that nobody writes to any
    /// more.
    ///
    /// # Errors
    /// What the home says, which knows whether there is such a file.
    pub fn trim(&self, ino: Ino) -> Result<()> {
        let _inode = self.locks.write(ino);
        self.store.trim(ino)
    }

    /// What a change of content does to the attributes: set-id bits and capabilities go.
    pub(super) fn push_written<'a>(
        &self,
        batch: &mut Batch<'a>,
        ino: Ino,
        attr: &mut Attr,
        kill_priv: bool,
    ) -> Result<()> {
        if kill_priv {
            drop_set_id(attr);
        }
        super::xattr::drop_capability(batch, ino, attr)?;
        batch.push(Change::Set { ino, attr: *attr });
        Ok(())
    }

    /// fsync(2) and fdatasync(2).
    ///
    /// # Errors
    /// What the home says.
    pub fn fsync(&self, ino: Ino, data_only: bool) -> Result<()> {
        let _ = data_only;
        self.getattr(ino)?;
        self.store.sync()
    }

    /// fsync(2) of a directory.
    ///
    /// # Errors
    /// What the home says.
    pub fn fsyncdir(&self, ino: Ino) -> Result<()> {
        self.directory(ino)?;
        self.store.sync()
    }

    /// syncfs(2).
    ///
    /// # Errors
    /// What the home says.
    pub fn sync(&self) -> Result<()> {
        self.store.sync()
    }
}

fn atime_due(attr: &Attr, now: Time) -> bool {
    let stale = attr.atime <= attr.mtime || attr.atime <= attr.ctime;
    let old = now.secs.saturating_sub(attr.atime.secs) >= ATIME_AGE_SECS;
    (stale || old) && attr.atime != now && !attr.flags.contains(Flags::NO_ATIME)
}
