//! Open files and directories, as numbers.
//!
//! Neighbours: `files` uses them. Invariant: a number that was closed means nothing until it is given out again.

use alloc::vec::Vec;

use esker::{Cursor, Error, Ino, Result};

/// An open file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fd(pub u32);

impl Fd {
    /// The root directory: always open, never closed.
    pub const ROOT: Self = Self(0);
}

/// How a path is opened: for reading unless it says more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Open {
    /// Bytes may be written.
    pub write: bool,
    /// Every write goes to the end.
    pub append: bool,
    /// It is made if it is not there. The directory above must be.
    pub create: bool,
    /// With `create`: it must not be there.
    pub exclusive: bool,
    /// Its content goes.
    pub truncate: bool,
    /// It must be a directory.
    pub directory: bool,
}

impl Open {
    /// For reading.
    pub const READ: Self = Self {
        write: false,
        append: false,
        create: false,
        exclusive: false,
        truncate: false,
        directory: false,
    };
    /// For reading and writing.
    pub const WRITE: Self = Self { write: true, ..Self::READ };
    /// For reading and writing, made if it is not there.
    pub const CREATE: Self = Self { create: true, ..Self::WRITE };
    /// The same, and empty.
    pub const EMPTY: Self = Self { truncate: true, ..Self::CREATE };
}

/// From where to seek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// The first byte.
    Start,
    /// Where the handle stands.
    Here,
    /// The end.
    End,
}

/// A lock on an open file, as flock(2) has it: who asks for it is told of others, nobody else is kept away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// Beside others of this kind.
    Shared,
    /// Alone.
    Exclusive,
}

/// What is known of an open file or directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle {
    /// That of no inode once it is closed.
    pub ino: Ino,
    /// The next byte.
    pub at: u64,
    pub write: bool,
    pub append: bool,
    /// Bytes were written: space taken ahead goes back when it is closed.
    pub written: bool,
    /// The last write went to the file's own bytes, where the handle stood; so will the next.
    pub plain: bool,
    /// The last entry listed.
    pub cursor: Cursor,
    pub lock: Option<Lock>,
}

impl Handle {
    /// Closed.
    const CLOSED: Self = Self {
        ino: Ino(0),
        at: 0,
        write: false,
        append: false,
        written: false,
        plain: false,
        cursor: Cursor::START,
        lock: None,
    };

    /// An inode, open for reading, and for writing perhaps.
    pub(crate) const fn new(ino: Ino, write: bool, append: bool) -> Self {
        Self { ino, write, append, ..Self::CLOSED }
    }

    #[inline]
    fn is_open(&self) -> bool {
        self.ino != Self::CLOSED.ino
    }
}

/// All that are open, and places of others.
#[derive(Debug)]
pub(crate) struct Handles {
    open: Vec<Handle>,
}

impl Handles {
    pub(crate) fn new(root: Handle) -> Self {
        Self { open: alloc::vec![root] }
    }

    pub(crate) fn add(&mut self, handle: Handle) -> Result<Fd> {
        let vacant = self.open.iter().position(|handle| !handle.is_open());
        let index = vacant.unwrap_or(self.open.len());
        let fd = Fd(u32::try_from(index).map_err(|_| Error::NoMemory)?);
        match self.open.get_mut(index) {
            Some(place) => *place = handle,
            None => self.open.push(handle),
        }
        Ok(fd)
    }

    #[inline]
    pub(crate) fn get(&mut self, fd: Fd) -> Result<&mut Handle> {
        let handle = self.open.get_mut(fd.0 as usize);
        handle.filter(|handle| handle.is_open()).ok_or(Error::BadHandle)
    }

    pub(crate) fn peek(&self, fd: Fd) -> Result<&Handle> {
        let handle = self.open.get(fd.0 as usize);
        handle.filter(|handle| handle.is_open()).ok_or(Error::BadHandle)
    }

    /// One whose last write went to the file's own bytes where it stood, if it is such.
    #[inline]
    pub(crate) fn plain(&mut self, fd: Fd) -> Option<&mut Handle> {
        self.open.get_mut(fd.0 as usize).filter(|handle| handle.plain)
    }

    /// The inode's bytes are elsewhere from now on.
    pub(crate) fn divert(&mut self, ino: Ino) {
        let handles = self.open.iter_mut();
        handles.filter(|handle| handle.ino == ino).for_each(|handle| handle.plain = false);
    }

    /// Gives an open file a lock, in the place of the one that it has, or takes that.
    pub(crate) fn lock(&mut self, fd: Fd, lock: Option<Lock>) -> Result<()> {
        let ino = self.get(fd)?.ino;
        let others = self.open.iter().enumerate().filter(|(index, _)| *index != fd.0 as usize);
        let mut others = others.map(|(_, handle)| handle);
        let bars = |other: &Handle| match lock {
            Some(Lock::Exclusive) => other.lock.is_some(),
            Some(Lock::Shared) => other.lock == Some(Lock::Exclusive),
            None => false,
        };
        if others.any(|other| other.ino == ino && bars(other)) {
            return Err(Error::Busy);
        }
        self.get(fd)?.lock = lock;
        Ok(())
    }

    pub(crate) fn take(&mut self, fd: Fd) -> Result<Handle> {
        if fd == Fd::ROOT {
            return Err(Error::BadHandle);
        }
        self.get(fd).map(|handle| core::mem::replace(handle, Handle::CLOSED))
    }
}
