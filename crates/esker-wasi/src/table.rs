//! Descriptors: what is open, by number.
//!
//! Neighbours: `context` has the one table of a program. Invariant: what a descriptor leads to is held as long as the
//! descriptor is open.

use alloc::boxed::Box;
use alloc::vec::Vec;

use esker::Ino;

use crate::{Errno, Result, Rights, Stream};

/// Most descriptors of one program.
const DESCRIPTORS_MAX: usize = 1 << 16;

/// What a descriptor leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// One of the three that were open from the first.
    Stream(Stream),
    File,
    Directory,
    /// A device, a socket or a pipe that somebody made in the home: it has no bytes here.
    Other,
}

/// `fdflags`.
pub(crate) mod flags {
    pub const APPEND: u16 = 1;
    pub const DSYNC: u16 = 2;
    pub const RSYNC: u16 = 8;
    pub const SYNC: u16 = 16;
    /// Every flag that there is; `NONBLOCK`, 4, makes no difference to a file.
    pub const ALL: u16 = 31;
}

#[derive(Debug)]
pub(crate) struct Descriptor {
    pub what: What,
    /// Of streams: nobody looks.
    pub ino: Ino,
    /// The next byte.
    pub at: u64,
    pub base: Rights,
    pub inheriting: Rights,
    pub flags: u16,
    /// Bytes were written: space taken ahead goes back when it is closed.
    pub written: bool,
    /// The name under which a program was given this directory.
    pub given: Option<Box<[u8]>>,
}

impl Descriptor {
    pub(crate) fn new(what: What, ino: Ino, base: Rights, inheriting: Rights, flags: u16) -> Self {
        Self { what, ino, at: 0, base, inheriting, flags, written: false, given: None }
    }

    pub(crate) fn stream(stream: Stream) -> Self {
        let way = match stream {
            Stream::Input => Rights::FD_WRITE,
            Stream::Output | Stream::Error => Rights::FD_READ,
        };
        Self::new(What::Stream(stream), Ino(0), Rights::STREAM.without(way), Rights::NONE, 0)
    }

    /// Checks that it has rights that mean something for a file.
    #[inline]
    pub(crate) fn file(&mut self, needed: Rights) -> Result<&mut Self> {
        if self.what == What::File && self.base.contains(needed) {
            return Ok(self);
        }
        Err(self.why_no_file(needed))
    }

    #[cold]
    fn why_no_file(&self, needed: Rights) -> Errno {
        match self.what {
            What::Directory => Errno::IsDirectory,
            What::Stream(_) if !self.base.contains(needed.and(Rights::STREAM)) => Errno::NotCapable,
            What::Stream(_) => Errno::NoSeek,
            What::Other => Errno::NotSupported,
            What::File => Errno::NotCapable,
        }
    }

    pub(crate) fn directory(&self, needed: Rights) -> Result<Ino> {
        match self.what {
            What::Directory if self.base.contains(needed) => Ok(self.ino),
            What::Directory => Err(Errno::NotCapable),
            _ => Err(Errno::NotDirectory),
        }
    }

    pub(crate) fn needs(&self, needed: Rights) -> Result<&Self> {
        if self.base.contains(needed) { Ok(self) } else { Err(Errno::NotCapable) }
    }

    /// Whether it leads to an inode, and which.
    pub(crate) const fn inode(&self) -> Option<Ino> {
        match self.what {
            What::Stream(_) => None,
            _ => Some(self.ino),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Table {
    open: Vec<Option<Descriptor>>,
    /// No lower number is free.
    vacant: usize,
}

impl Table {
    pub(crate) fn new() -> Self {
        let streams = [Stream::Input, Stream::Output, Stream::Error];
        let open: Vec<_> = streams.map(|stream| Some(Descriptor::stream(stream))).into();
        Self { vacant: open.len(), open }
    }

    #[inline]
    pub(crate) fn get(&mut self, fd: u32) -> Result<&mut Descriptor> {
        self.open.get_mut(fd as usize).and_then(Option::as_mut).ok_or(Errno::BadDescriptor)
    }

    /// Opens the lowest number that is free.
    pub(crate) fn add(&mut self, descriptor: Descriptor) -> Result<u32, (Errno, Descriptor)> {
        let free = self.open[self.vacant..].iter().position(Option::is_none);
        let index = free.map_or(self.open.len(), |more| self.vacant + more);
        if index >= DESCRIPTORS_MAX {
            return Err((Errno::TooManyFiles, descriptor));
        }
        if free.is_none() && self.open.try_reserve(1).is_err() {
            return Err((Errno::NoMemory, descriptor));
        }
        match self.open.get_mut(index) {
            Some(place) => *place = Some(descriptor),
            None => self.open.push(Some(descriptor)),
        }
        self.vacant = index + 1;
        Ok(index as u32)
    }

    pub(crate) fn take(&mut self, fd: u32) -> Result<Descriptor> {
        let place = self.open.get_mut(fd as usize).ok_or(Errno::BadDescriptor)?;
        let descriptor = place.take().ok_or(Errno::BadDescriptor)?;
        self.vacant = self.vacant.min(fd as usize);
        Ok(descriptor)
    }

    /// Gives a descriptor the number of another one; that.
    pub(crate) fn renumber(&mut self, from: u32, to: u32) -> Result<Option<Descriptor>> {
        self.get(to)?;
        self.get(from)?;
        if from == to {
            return Ok(None);
        }
        let moved = self.take(from)?;
        Ok(self.open[to as usize].replace(moved))
    }

    /// All that are open.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Descriptor> + '_ {
        self.vacant = 0;
        self.open.drain(..).flatten()
    }
}
