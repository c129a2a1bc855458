//! Names to inodes, and letting go of them.

use super::locks::Mode;
use super::{Caller, Fs, Node};
use crate::attr::Attr;
use crate::error::{Error, Result};
use crate::ids::Ino;
use crate::limits::SYMLINK_LEN_MAX;
use crate::name::Name;
use crate::store::{Batch, Change, Space, Store, View};

impl<S: View> Fs<S> {
    /// What `name` leads to; holds it.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `AccessDenied`.
    pub fn lookup(&self, caller: &Caller<'_>, dir: Ino, name: Name<'_>) -> Result<Node> {
        // Under the directory's lock the name cannot go, so its inode cannot either before it is held.
        let _dir = self.locks.read(dir);
        let entry = self.find_entry(caller, dir, name)?;
        self.held(entry.ino)
    }

    /// Holds an inode that a name leads to, whose directory is locked.
    pub(super) fn held(&self, ino: Ino) -> Result<Node> {
        let node = Node { ino, attr: self.store.attr(ino)? };
        self.holds.add(ino);
        Ok(node)
    }

    /// Holds an inode by its number; `Stale` when there is none.
    ///
    /// # Errors
    /// `Stale`.
    pub fn hold(&self, ino: Ino) -> Result<Node> {
        let _inode = self.locks.read(ino);
        self.hold_locked(ino)
    }

    fn hold_locked(&self, ino: Ino) -> Result<Node> {
        let attr = self.store.attr(ino).map_err(stale)?;
        self.holds.add(ino);
        if attr.nlink == 0 {
            self.holds.mark_orphan(ino);
        }
        Ok(Node { ino, attr })
    }

    /// Holds the directory above a directory; the root's is itself.
    ///
    /// # Errors
    /// `Stale`, `NotDirectory`.
    pub fn hold_parent(&self, dir: Ino) -> Result<Node> {
        loop {
            let parent = self.directory(dir).map_err(stale)?.parent;
            // Under both locks the directory stays where it is, so what is above it cannot go.
            let _inodes = self.locks.lock(&[(dir, Mode::Read), (parent, Mode::Read)]);
            if self.directory(dir).map_err(stale)?.parent == parent {
                return self.hold_locked(parent);
            }
        }
    }

    /// The attributes of an inode.
    ///
    /// # Errors
    /// `Stale` when it is gone.
    pub fn getattr(&self, ino: Ino) -> Result<Attr> {
        self.store.attr(ino).map_err(stale)
    }

    /// Whether what is told of an inode must not be kept ([`View::is_fleeting`]).
    pub fn is_fleeting(&self, ino: Ino) -> bool {
        self.store.is_fleeting(ino)
    }

    /// The target of a symbolic link without moving its atime; [`SYMLINK_LEN_MAX`] bytes are always enough.
    ///
    /// # Errors
    /// `Invalid` when it is none.
    pub fn peek_link(&self, ino: Ino, target: &mut [u8]) -> Result<usize> {
        const _: () = assert!(SYMLINK_LEN_MAX < 4096);
        let _inode = self.locks.read(ino);
        if self.store.attr(ino)?.kind != crate::attr::Kind::Symlink {
            return Err(Error::Invalid);
        }
        self.store.read(ino, 0, target)
    }

    /// How full the home is.
    pub fn statfs(&self) -> Space {
        self.store.space()
    }
}

impl<S> Fs<S> {
    /// Whether inodes without names are held: letting go of them gives their space back.
    pub fn has_orphans(&self) -> bool {
        self.holds.has_orphans()
    }
}

impl<S: Store> Fs<S> {
    /// Tells the home that time passes ([`Store::tick`]); about once a second.
    ///
    /// # Errors
    /// What the home says.
    pub fn tick(&self) -> Result<u64> {
        self.store.tick()
    }

    /// Lets go of an inode `count` times. One without names goes with its last hold.
    pub fn forget(&self, ino: Ino, count: u64) {
        self.part(ino, count);
    }

    /// The same; whether the inode went.
    pub fn part(&self, ino: Ino, count: u64) -> bool {
        let last = self.holds.sub(ino, count);
        if last {
            self.drop_orphan(ino);
            self.holds.dropped();
        }
        last
    }

    fn drop_orphan(&self, ino: Ino) {
        let _inode = self.locks.write(ino);
        // Meanwhile it may have been given a name again, or held, or dropped.
        if self.holds.is_held(ino) || self.store.attr(ino).is_ok_and(|attr| attr.nlink > 0) {
            return;
        }
        let mut batch = Batch::new();
        batch.push(Change::Drop { ino });
        // Nobody is left to tell: an orphan that cannot go now goes when the home is opened next.
        let _ = self.store.commit(&batch);
    }
}

/// An inode known by number that is not there any more.
pub(super) fn stale(error: Error) -> Error {
    if error == Error::NotFound { Error::Stale } else { error }
}
