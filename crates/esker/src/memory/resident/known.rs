//! Records at hand: every step of a path asks for that of a directory, and most calls for that of the file that was
//! changed last. And names of directories, which paths lead through again and again; and the name that led nowhere
//! last, which is likely to be made next.
//!
//! Neighbours: `view` and `plan` ask; a commit says what it has changed. Invariant: what is kept is in the tree, or
//! will be when the commit that says so ends well: what was found before anything changed is not kept after that.

use alloc::boxed::Box;

use crate::ground::short;
use crate::ids::Ino;
use crate::memory::record::Record;
use crate::store::Entry;

/// Places, each for the inodes of one number modulo this.
const PLACES: usize = 64;

/// Names of directories, each in a place of its own choice.
const NAMES: usize = 8;
/// The longest of them, in bytes.
const NAME_LEN: usize = 32;

/// A directory's name in another.
#[derive(Clone, Copy)]
struct Named {
    dir: Ino,
    name: [u8; NAME_LEN],
    len: usize,
    entry: Entry,
}

/// A name that led nowhere.
struct Absent {
    dir: Ino,
    name: [u8; NAME_LEN],
    len: usize,
    /// As long as nothing changes.
    since: u64,
}

/// Whether a name is this one.
#[inline]
fn is_name(known: &[u8; NAME_LEN], len: usize, name: &[u8]) -> bool {
    known.get(..len).is_some_and(|known| len == name.len() && short::same(known, name))
}

/// An inode's record.
#[derive(Clone, Copy)]
struct Place {
    /// 0 for none.
    ino: u64,
    record: Record,
}

/// Nothing yet.
const NOTHING: Place = Place { ino: 0, record: Record::NONE };

/// Records of a few inodes, and a few names.
pub struct Known {
    places: Box<[Place]>,
    names: [Option<Named>; NAMES],
    absent: Absent,
    /// How often something was changed.
    changes: u64,
}

impl Known {
    /// Of none.
    pub fn new() -> Self {
        let names = core::array::from_fn(|_| None);
        let absent = Absent { dir: Ino(0), name: [0; NAME_LEN], len: 0, since: u64::MAX };
        Self { places: alloc::vec![NOTHING; PLACES].into(), names, absent, changes: 0 }
    }

    #[inline]
    fn set(&mut self, ino: Ino, record: &Record) {
        let place = &mut self.places[ino.0 as usize % PLACES];
        place.ino = ino.0;
        place.record.assign(record);
    }

    /// An inode's record.
    #[inline]
    pub fn get(&self, ino: Ino) -> Option<&Record> {
        let place = &self.places[ino.0 as usize % PLACES];
        (place.ino == ino.0 && ino.0 > 0).then_some(&place.record)
    }

    /// The place of a name.
    #[inline]
    fn name_place(dir: Ino, name: &[u8]) -> usize {
        let ends = name.first().zip(name.last()).map_or(0, |(&a, &b)| usize::from(a ^ b));
        (dir.0 as usize).wrapping_add(ends).wrapping_add(name.len()) % NAMES
    }

    /// What a directory's name leads to.
    #[inline]
    pub fn entry(&self, dir: Ino, name: &[u8]) -> Option<Entry> {
        let named = self.names[Self::name_place(dir, name)].as_ref()?;
        let found = named.dir == dir && is_name(&named.name, named.len, name);
        found.then_some(named.entry)
    }

    /// Whether a name is known to lead nowhere.
    #[inline]
    pub fn is_absent(&self, dir: Ino, name: &[u8]) -> bool {
        let Absent { dir: known_dir, name: known, len, since } = &self.absent;
        *since == self.changes && *known_dir == dir && is_name(known, *len, name)
    }

    /// Keeps that a name led nowhere `since` then.
    #[inline]
    pub fn put_absent(&mut self, dir: Ino, name: &[u8], since: u64) {
        if let Some(known) = self.absent.name.get_mut(..name.len()) {
            short::copy(known, name);
            (self.absent.dir, self.absent.len, self.absent.since) = (dir, name.len(), since);
        }
    }

    /// Keeps what a directory's name led to `since` then, if nothing was changed meanwhile.
    pub fn put_entry(&mut self, dir: Ino, name: &[u8], entry: Entry, since: u64) {
        if self.changes == since && name.len() <= NAME_LEN {
            let mut named = Named { dir, name: [0; NAME_LEN], len: name.len(), entry };
            short::copy(&mut named.name[..name.len()], name);
            self.names[Self::name_place(dir, name)] = Some(named);
        }
    }

    /// Since when what is found in the tree may be put here.
    #[inline]
    pub const fn since(&self) -> u64 {
        self.changes
    }

    /// Keeps a record that the tree had `since` then, if nothing was changed meanwhile.
    #[inline]
    pub fn put(&mut self, ino: Ino, record: &Record, since: u64) {
        if self.changes == since {
            self.set(ino, record);
        }
    }

    /// The inode's record is another, or gone.
    pub fn changed(&mut self, ino: Ino, record: Option<&Record>) {
        self.changes += 1;
        match record {
            Some(record) => self.set(ino, record),
            None => self.forget(ino),
        }
    }

    /// The inode's record is to be looked up anew.
    pub fn forget(&mut self, ino: Ino) {
        self.changes += 1;
        if self.get(ino).is_some() {
            self.places[ino.0 as usize % PLACES].ino = 0;
        }
    }

    /// A name leads elsewhere.
    pub fn forget_entry(&mut self, dir: Ino, name: &[u8]) {
        self.changes += 1;
        if self.entry(dir, name).is_some() {
            self.names[Self::name_place(dir, name)] = None;
        }
    }

    /// Any may have changed.
    pub fn forget_all(&mut self) {
        self.changes += 1;
        self.places.iter_mut().for_each(|place| place.ino = 0);
        self.names.fill(None);
    }
}
