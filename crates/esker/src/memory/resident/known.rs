//! Attributes at hand: every step of a path asks for those of a directory, and most calls for those of one file again
//! and again.
//!
//! Neighbours: `view` asks; a commit makes forget what it has changed. Invariant: what is kept was in the tree
//! before, or is: attributes found before anything was forgotten are not kept after that.

use alloc::boxed::Box;

use crate::attr::Attr;
use crate::ids::Ino;

/// Places, each for the inodes of one number modulo this.
const PLACES: usize = 64;

/// Attributes of a few inodes.
pub struct Known {
    places: Box<[Option<(Ino, Attr)>]>,
    /// How often something was forgotten.
    forgotten: u64,
}

impl Known {
    /// Of none.
    pub fn new() -> Self {
        Self { places: alloc::vec![None; PLACES].into(), forgotten: 0 }
    }

    #[inline]
    fn place(&mut self, ino: Ino) -> &mut Option<(Ino, Attr)> {
        &mut self.places[ino.0 as usize % PLACES]
    }

    /// An inode's attributes, or else since when what is found in the tree may be put here.
    #[inline]
    pub fn get(&mut self, ino: Ino) -> Result<Attr, u64> {
        match self.place(ino) {
            Some((known, attr)) if *known == ino => Ok(*attr),
            _ => Err(self.forgotten),
        }
    }

    /// Keeps attributes that the tree had `since` then, if nothing was forgotten meanwhile.
    #[inline]
    pub fn put(&mut self, ino: Ino, attr: &Attr, since: u64) {
        if self.forgotten == since {
            *self.place(ino) = Some((ino, *attr));
        }
    }

    /// The inode has changed.
    pub fn forget(&mut self, ino: Ino) {
        self.forgotten += 1;
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
    }
}
