//! Answers, written where the transport sends them from.
//!
//! Above: handlers fill a [`Reply`]. Below: `wire`. The room belongs to the transport (room for the
//! header is kept in front of it), so what a READ copies out of the home is copied once.
//! Invariant: `len` never passes the room, and [`Reply::held`] names exactly the inodes that the
//! answer tells the kernel to count one look-up more of.

use std::ops::ControlFlow;

use esker::posix::Dirent;
use esker::store::Flow;
use esker::{Error, Ino, Result};

use crate::wire::{Dirent as Record, EntryOut, RECORD_ALIGN};

/// The body of one answer.
pub struct Reply<'a> {
    room: &'a mut [u8],
    len: usize,
    held: Held,
    outdated: Option<Ino>,
    forgotten: Vec<Forgotten>,
}

/// What the kernel is to keep nothing of any longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Forgotten {
    /// An inode's attributes and bytes. What it held back of them comes in first.
    Node(Ino),
    /// Where a name in a directory leads.
    Name(Ino, Vec<u8>),
}

/// A [`Reply`] without its room, while the transport sends that.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    len: usize,
    held: Held,
}

impl Kept {
    /// The reply again, in the same room.
    pub const fn reply(self, room: &mut [u8]) -> Reply<'_> {
        Reply { room, len: self.len, held: self.held, outdated: None, forgotten: Vec::new() }
    }
}

/// Which look-ups the answer tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Nothing,
    /// One, of the [`EntryOut`] that the body begins with.
    Entry,
    /// One of each record of the body.
    Listing,
}

impl<'a> Reply<'a> {
    /// Nothing in it yet.
    pub const fn new(room: &'a mut [u8]) -> Self {
        Self { room, len: 0, held: Held::Nothing, outdated: None, forgotten: Vec::new() }
    }

    /// What has been written.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.room[..self.len]
    }

    /// Gives the room back, and remembers what is in it.
    #[must_use]
    pub const fn keep(&self) -> Kept {
        Kept { len: self.len, held: self.held }
    }

    /// The kernel is to ask for the attributes of this inode before it relies on them again,
    /// whether the answer is an error or not.
    pub const fn outdate(&mut self, node: Ino) {
        self.outdated = Some(node);
    }

    /// The inode whose attributes the kernel is to ask for again.
    #[must_use]
    pub const fn outdated(&self) -> Option<Ino> {
        self.outdated
    }

    /// The kernel is to keep nothing of all this, whether the answer is an error or not. Only for requests that
    /// [take long](crate::handler::Handler::takes_long): a worker must not wait for what the kernel does then.
    pub fn forget(&mut self, what: Vec<Forgotten>) {
        self.forgotten = what;
    }

    /// What the kernel is to keep nothing of.
    #[must_use]
    pub fn forgotten(&self) -> &[Forgotten] {
        &self.forgotten
    }

    /// Takes back what was written.
    pub const fn clear(&mut self) {
        self.len = 0;
        self.held = Held::Nothing;
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// `Range` when there is no room for them.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let room = self.room.get_mut(self.len..self.len + bytes.len()).ok_or(Error::Range)?;
        room.copy_from_slice(bytes);
        self.len += bytes.len();
        Ok(())
    }

    /// Lets `write` fill up to `len` bytes and say how many it filled.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn fill(&mut self, len: u32, write: impl FnOnce(&mut [u8]) -> Result<usize>) -> Result<()> {
        let end = self.room.len().min(self.len.saturating_add(len as usize));
        let room = &mut self.room[self.len..end];
        let limit = room.len();
        self.len += write(room)?.min(limit);
        Ok(())
    }

    /// Begins the body with an inode that the kernel counts one look-up more of.
    ///
    /// # Errors
    /// `Range` when there is no room for it.
    pub fn entry(&mut self, entry: &EntryOut) -> Result<()> {
        self.put(&entry.encode())?;
        if entry.nodeid != 0 {
            self.held = Held::Entry;
        }
        Ok(())
    }

    /// Appends one record of a listing, if the body does not pass `limit` bytes then.
    pub fn record(&mut self, dirent: &Dirent<'_>, limit: u32) -> Flow {
        self.pack(dirent, None, limit)
    }

    /// Appends one record with the look-up of its entry; an `entry` without a node (those of `.`
    /// and `..`) counts for nothing.
    pub fn record_plus(&mut self, dirent: &Dirent<'_>, entry: &EntryOut, limit: u32) -> Flow {
        self.held = Held::Listing;
        self.pack(dirent, Some(entry), limit)
    }

    fn pack(&mut self, dirent: &Dirent<'_>, entry: Option<&EntryOut>, limit: u32) -> Flow {
        let entry_len = if entry.is_some() { EntryOut::SIZE } else { 0 };
        let name_end = entry_len + Record::SIZE + dirent.name.len();
        let len = name_end.next_multiple_of(RECORD_ALIGN);
        let end = self.room.len().min(limit as usize);
        let Some(room) = self.room[..end].get_mut(self.len..self.len + len) else {
            return ControlFlow::Break(());
        };
        if let Some(entry) = entry {
            room[..EntryOut::SIZE].copy_from_slice(&entry.encode());
        }
        let record = Record {
            ino: dirent.ino.0,
            off: dirent.cursor.0,
            namelen: dirent.name.len() as u32,
            kind: dirent.kind.dirent_type().into(),
        };
        room[entry_len..entry_len + Record::SIZE].copy_from_slice(&record.encode());
        room[entry_len + Record::SIZE..name_end].copy_from_slice(dirent.name);
        room[name_end..].fill(0);
        self.len += len;
        ControlFlow::Continue(())
    }

    /// The inodes of which the kernel counts one look-up more once it has this answer.
    pub fn held(&self) -> impl Iterator<Item = Ino> {
        let mut rest = self.body();
        std::iter::from_fn(move || {
            let entry = match self.held {
                Held::Nothing => return None,
                Held::Entry => EntryOut::decode(std::mem::take(&mut rest))?,
                Held::Listing => {
                    let entry = EntryOut::decode(rest)?;
                    let record = Record::decode(&rest[EntryOut::SIZE..])?;
                    let len = EntryOut::SIZE + Record::SIZE + record.namelen as usize;
                    rest = rest.get(len.next_multiple_of(RECORD_ALIGN)..)?;
                    entry
                }
            };
            Some(entry.nodeid)
        })
        .filter(|&node| node != 0)
        .map(Ino)
    }
}
