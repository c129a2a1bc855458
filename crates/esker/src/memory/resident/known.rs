//! Attributes at hand: every step of a path asks for those of a directory, and most calls for those of one file again
//! and again. And names of directories, which paths lead through again and again.
//!
//! Neighbours: `view` asks; a commit makes forget what it has changed. Invariant: what is kept was in the tree
//! before, or is: attributes found before anything was forgotten are not kept after that.

use alloc::boxed::Box;

use crate::attr::Attr;
use crate::ground::short;
use crate::ids::Ino;
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

/// Attributes of a few inodes, and a few names.
pub struct Known {
    places: Box<[Option<(Ino, Attr)>]>,
    names: [Option<Named>; NAMES],
    /// How often something was forgotten.
    forgotten: u64,
}

impl Known {
    /// Of none.
    pub fn new() -> Self {
        let names = core::array::from_fn(|_| None);
        Self { places: alloc::vec![None; PLACES].into(), names, forgotten: 0 }
    }

    #[inline]
    fn place(&mut self, ino: Ino) -> &mut Option<(Ino, Attr)> {
        &mut self.places[ino.0 as usize % PLACES]
    }

    /// An inode's attributes.
    #[inline]
    pub fn get(&self, ino: Ino) -> Option<&Attr> {
        match &self.places[ino.0 as usize % PLACES] {
            Some((known, attr)) if *known == ino => Some(attr),
            _ => None,
        }
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
        let known = named.name.get(..named.len)?;
        let found = named.dir == dir && known.len() == name.len() && short::same(known, name);
        found.then_some(named.entry)
    }

    /// Keeps what a directory's name led to `since` then, if nothing was forgotten meanwhile.
    pub fn put_entry(&mut self, dir: Ino, name: &[u8], entry: Entry, since: u64) {
        if self.forgotten == since && name.len() <= NAME_LEN {
            let mut named = Named { dir, name: [0; NAME_LEN], len: name.len(), entry };
            short::copy(&mut named.name[..name.len()], name);
            self.names[Self::name_place(dir, name)] = Some(named);
        }
    }

    /// Since when what is found in the tree may be put here.
    #[inline]
    pub const fn since(&self) -> u64 {
        self.forgotten
    }

    /// Keeps attributes that the tree had `since` then, if nothing was forgotten meanwhile.
    #[inline]
    pub fn put(&mut self, ino: Ino, attr: &Attr, since: u64) {
        if self.forgotten == since {
            *self.place(ino) = Some((ino, *attr));
        }
    }

    /// The inode has changed, and if it is a directory, its names.
    pub fn forget(&mut self, ino: Ino) {
        self.forgotten += 1;
        for name in &mut self.names {
            if name.as_ref().is_some_and(|name| name.dir == ino) {
                *name = None;
            }
        }
        if let Some((known, _)) = self.place(ino)
            && *known == ino
        {
            *self.place(ino) = None;
        }
    }

    /// Any may have changed.
    pub fn forget_all(&mut self) {
        self.forgotten += 1;
        self.places.fill(None);
        self.names.fill(None);
    }
}
