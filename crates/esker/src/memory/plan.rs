//! What a batch will change, worked out before anything is changed.
//!
//! Neighbours: `write`, `resize` and `share` fill the plan, `commit` carries it out or gives it up.
//! Invariant: planning changes nothing that a reader or a later failure could see: it claims space
//! and counts uses, and notes both in the ledger, from which giving up restores what was.

use alloc::vec::Vec;

use super::base::Base;
use super::extents::{Extent, Extents, Window};
use super::few::Row;
use super::free::Runs;
use super::home::Home;
use super::keys;
use super::record::{self, Record};
use crate::attr::{Attr, Kind};
use crate::error::{Error, Result};
use crate::ids::Ino;
use crate::limits::{GRANULE, XATTR_VALUE_LEN_MAX};
use crate::name::{Name, XattrName};
use crate::store::{Change, Entry};

/// An inode that the batch names.
#[derive(Debug)]
pub(super) struct Staged {
    pub ino: Ino,
    /// As it will be.
    pub record: Record,
    /// The record differs from the stored one.
    pub changed: bool,
    /// It is in the tree already.
    pub stored: bool,
    /// There it is without names.
    pub orphan: bool,
    /// It goes.
    pub dropped: bool,
    /// Its size in the tree: bytes behind it are nobody's.
    pub stored_size: u64,
    /// The inline content, where it was needed.
    pub inline: Option<Vec<u8>>,
    /// It differs from the stored one.
    pub inline_changed: bool,
    /// Its extents.
    pub window: Window,
}

impl Staged {
    /// It is not in the tree without names, and will be.
    pub(super) const fn becomes_orphan(&self) -> bool {
        !self.dropped && !self.orphan && self.record.nlink == 0
    }
}

/// A name that the batch names.
#[derive(Debug)]
pub(super) struct StagedName<'a> {
    pub dir: Ino,
    pub name: Name<'a>,
    pub stored: Option<Entry>,
    pub now: Option<Entry>,
}

/// An extended attribute that the batch names, the last word on it.
#[derive(Debug)]
pub(super) struct StagedXattr<'a> {
    pub ino: Ino,
    pub name: XattrName<'a>,
    pub value: Option<&'a [u8]>,
}

/// Bytes to move in the memory, by address.
#[derive(Debug)]
pub(super) enum Move<'a> {
    Fill { to: u64, source: &'a [u8] },
    FillOwn { to: u64, source: Vec<u8> },
    Copy { from: u64, to: u64, len: u64 },
    Zero { to: u64, len: u64 },
}

/// A move, in the order of the batch.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub bytes: Move<'a>,
    /// It overwrites bytes that a reader can see: from here on there is no way back.
    pub visible: bool,
}

/// What to undo when the plan is given up, and what to let go when it is carried out.
#[derive(Debug, Default)]
pub struct Ledger {
    pub(super) claims: Runs,
    pub(super) shares: Runs,
    pub(super) drops: Runs,
}

/// A batch's plan.
pub(super) struct Plan<'h, 'a, B: Base> {
    pub home: &'h Home<B>,
    pub inodes: Row<Staged, 4>,
    pub names: Row<StagedName<'a>, 2>,
    pub xattrs: Vec<StagedXattr<'a>>,
    pub jobs: Row<Job<'a>, 4>,
    pub ledger: Ledger,
    /// The budget does not count: the batch only shrinks.
    pub overdraft: bool,
}

impl<'h, 'a, B: Base> Plan<'h, 'a, B> {
    // Built where it will stand: it is too large to be moved about.
    #[inline(always)]
    pub(super) fn new(home: &'h Home<B>, overdraft: bool) -> Self {
        Self {
            home,
            inodes: Row::new(),
            names: Row::new(),
            xattrs: Vec::new(),
            jobs: Row::new(),
            ledger: Ledger::default(),
            overdraft,
        }
    }

    /// Works one change into the plan.
    pub(super) fn add(&mut self, change: &Change<'a>) -> Result<()> {
        match *change {
            Change::Make { ino, ref attr } => self.make(ino, attr),
            Change::Set { ino, ref attr } => self.set(ino, attr),
            Change::Drop { ino } => self.drop_inode(ino),
            Change::Link { dir, name, ino, kind } => self.link(dir, name, ino, kind),
            Change::Unlink { dir, name } => self.unlink(dir, name),
            Change::Write { ino, at, source } => self.write(ino, at, source),
            Change::Cut { ino, len } => self.cut(ino, len),
            Change::Punch { ino, span } => self.punch(ino, span),
            Change::Reserve { ino, span } => self.reserve(ino, span),
            Change::Share { source, from, ino, at, len } => self.share(source, from, ino, at, len),
            Change::Xattr { ino, name, value } => self.xattr(ino, name, value),
        }
    }

    /// Where the inode stands in the plan; looks it up when it is not there yet.
    pub(super) fn inode(&mut self, ino: Ino) -> Result<usize> {
        if let Some(index) = self.inodes.iter().position(|staged| staged.ino == ino) {
            return if self.inodes[index].dropped { Err(Error::NotFound) } else { Ok(index) };
        }
        let find = || {
            let record = self.home.tree(ino).record(ino, record::record, is_directory)?;
            record.ok_or(Error::NotFound)?
        };
        let inodes = &mut self.inodes;
        let stage = |record: &Record| {
            inodes.push(Staged {
                ino,
                record: *record,
                changed: false,
                stored: true,
                orphan: record.nlink == 0,
                dropped: false,
                stored_size: record.size,
                inline: None,
                inline_changed: false,
                window: Window::default(),
            });
        };
        B::record(self.home, ino, stage, find)?;
        Ok(self.inodes.len() - 1)
    }

    /// The same for what must have content.
    pub(super) fn content(&mut self, ino: Ino) -> Result<usize> {
        let index = self.inode(ino)?;
        if self.inodes[index].record.has_content() { Ok(index) } else { Err(Error::Invalid) }
    }

    /// The inline content of an inode of the plan.
    pub(super) fn inline(&mut self, index: usize) -> Result<&mut Vec<u8>> {
        let staged = &mut self.inodes[index];
        if staged.inline.is_none() && staged.record.inline_len == 0 {
            staged.inline = Some(Vec::new());
        } else if staged.inline.is_none() {
            let copy = |value: &[u8]| record::inline(value).map(<[u8]>::to_vec);
            let found = self.home.tree(staged.ino).get_record(staged.ino, copy)?;
            staged.inline = Some(found.ok_or(Error::Corrupt)??);
        }
        staged.inline.as_mut().ok_or(Error::Corrupt)
    }

    /// Replaces the inline content.
    pub(super) fn set_inline(&mut self, index: usize, content: Vec<u8>) {
        let staged = &mut self.inodes[index];
        staged.record.inline_len = content.len() as u16;
        staged.inline = Some(content);
        staged.inline_changed = true;
        staged.changed = true;
    }

    /// Looks at the extents that touch granules `from..to`.
    pub(super) fn load(&mut self, index: usize, from: u64, to: u64) -> Result<()> {
        let staged = &mut self.inodes[index];
        if staged.window.alone {
            return Ok(());
        }
        staged.window.load(&self.home.tree(staged.ino), staged.ino, from, to)
    }

    /// Replaces what lies in granules `from..to`, and keeps count.
    pub(super) fn splice(&mut self, index: usize, from: u64, to: u64, fresh: &[Extent]) {
        let staged = &mut self.inodes[index];
        let more = staged.window.splice(from, to, fresh);
        staged.record.own = staged.record.own.wrapping_add_signed(more);
        staged.changed = true;
    }

    /// Claims space for `len` granules of a file from `start` on, behind `near` where that is free.
    pub(super) fn claim(&mut self, start: u64, len: u64, near: Option<u64>) -> Result<Extents> {
        let known = self.ledger.claims.len();
        self.home.space.claim(len, near, self.overdraft, &mut self.ledger.claims)?;
        let mut at = start;
        let extents = self.ledger.claims[known..].iter().map(|run| {
            let extent = Extent { start: at, len: run.len, place: run.start, unwritten: false };
            at += run.len;
            extent
        });
        Ok(extents.collect())
    }

    /// Nothing is new but bytes in space that was paid for before. Reserved space must take them in a full
    /// home, although the tree may need pages to tell which of it is written: at most one extent for
    /// each granule, so the budget is overdrawn by a fraction of what was reserved.
    pub(super) fn only_fills(&self) -> bool {
        self.ledger.claims.is_empty()
            && self.ledger.shares.is_empty()
            && self.names.len() == 0
            && self.xattrs.iter().all(|staged| staged.value.is_none())
            && self.inodes.iter().all(|staged| staged.stored && !staged.inline_changed)
    }

    /// Bytes of hidden places to be moved.
    pub(super) fn hidden(&mut self, bytes: Move<'a>) {
        self.jobs.push(Job { bytes, visible: false });
    }

    fn make(&mut self, ino: Ino, attr: &Attr) -> Result<()> {
        let known = self.inodes.iter().any(|staged| staged.ino == ino);
        // What a home keeps beyond its life may give out a number twice, if its bytes were changed: its tree tells
        // when the record is to come in.
        let taken = || self.home.tree(ino).has(&keys::inode(ino));
        debug_assert!(B::LASTING || !matches!(taken(), Ok(true)));
        if known {
            return Err(Error::Exists);
        }
        self.inodes.push(Staged {
            ino,
            record: Record::new(attr),
            changed: true,
            stored: false,
            orphan: false,
            dropped: false,
            stored_size: 0,
            inline: Some(Vec::new()),
            inline_changed: true,
            window: Window::of_new(),
        });
        Ok(())
    }

    fn set(&mut self, ino: Ino, attr: &Attr) -> Result<()> {
        let index = self.inode(ino)?;
        let staged = &mut self.inodes[index];
        staged.record.set(staged.record.kind()?, attr);
        staged.changed = true;
        Ok(())
    }

    fn drop_inode(&mut self, ino: Ino) -> Result<()> {
        let index = self.inode(ino)?;
        if self.inodes[index].record.has_content() {
            self.wipe(index)?;
        }
        self.inodes[index].dropped = true;
        Ok(())
    }

    fn xattr(&mut self, ino: Ino, name: XattrName<'a>, value: Option<&'a [u8]>) -> Result<()> {
        self.inode(ino)?;
        if value.is_some_and(|value| value.len() > XATTR_VALUE_LEN_MAX) {
            return Err(Error::TooBig);
        }
        let known = self.xattrs.iter_mut().find(|staged| staged.ino == ino && staged.name == name);
        let there = match &known {
            Some(staged) => staged.value.is_some(),
            None if value.is_some() => true,
            None => {
                let key = keys::xattr(ino, name.bytes(), 0);
                self.home.tree(ino).get(&key, |_| ())?.is_some()
            }
        };
        if value.is_none() && !there {
            return Err(Error::NoData);
        }
        match known {
            Some(staged) => staged.value = value,
            None => self.xattrs.push(StagedXattr { ino, name, value }),
        }
        Ok(())
    }

    /// Where a name stands in the plan; looks it up when it is not there yet.
    fn name(&mut self, dir: Ino, name: Name<'a>) -> Result<usize> {
        let index = self.inode(dir)?;
        if self.inodes[index].record.kind()? != Kind::Directory {
            return Err(Error::NotDirectory);
        }
        let known = self.names.iter().position(|staged| staged.dir == dir && staged.name == name);
        if let Some(known) = known {
            return Ok(known);
        }
        let find = || self.home.find_entry(dir, name);
        let stored = match self.inodes[index].stored {
            true => match B::entry(self.home, dir, name.bytes(), find) {
                Err(Error::NotFound) => None,
                found => Some(found?),
            },
            false => None,
        };
        self.names.push(StagedName { dir, name, stored, now: stored });
        Ok(self.names.len() - 1)
    }

    fn link(&mut self, dir: Ino, name: Name<'a>, ino: Ino, kind: Kind) -> Result<()> {
        let place = self.name(dir, name)?;
        let index = self.inode(dir)?;
        let entry = &mut self.names[place].now;
        if let Some(entry) = entry {
            (entry.ino, entry.kind) = (ino, kind);
            return Ok(());
        }
        let staged = &mut self.inodes[index];
        *entry = Some(Entry { ino, kind, seq: crate::ids::Cursor(staged.record.own) });
        let more = |count: u64| count.checked_add(1).ok_or(Error::Corrupt);
        staged.record.own = more(staged.record.own)?;
        staged.record.size = more(staged.record.size)?;
        staged.changed = true;
        Ok(())
    }

    fn unlink(&mut self, dir: Ino, name: Name<'a>) -> Result<()> {
        let place = self.name(dir, name)?;
        let index = self.inode(dir)?;
        self.names[place].now.take().ok_or(Error::NotFound)?;
        let staged = &mut self.inodes[index];
        staged.record.size = staged.record.size.checked_sub(1).ok_or(Error::Corrupt)?;
        staged.changed = true;
        Ok(())
    }
}

fn is_directory(record: &Result<Record>) -> bool {
    matches!(record.as_ref().map(Record::kind), Ok(Ok(Kind::Directory)))
}

/// The first granule at or behind a byte.
pub(super) const fn ceil(at: u64) -> u64 {
    at.div_ceil(GRANULE)
}
