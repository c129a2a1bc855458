//! Further names of an inode.

use super::create::{NAMELESS, change};
use super::locks::Mode;
use super::{Caller, Fs, Node};
use crate::attr::{Attr, Flags, Kind};
use crate::error::{Error, Result};
use crate::ids::Ino;
use crate::limits::LINKS_MAX;
use crate::name::Name;
use crate::store::{Batch, Change, Store};

impl<S: Store> Fs<S> {
    /// link(2); holds the inode once more.
    ///
    /// # Errors
    /// `NotPermitted` for a directory, an immutable or append-only inode; `NotFound` when its last name is gone;
    /// `TooManyLinks`; as [`Fs::create`] for the name.
    pub fn link(&self, caller: &Caller<'_>, ino: Ino, dir: Ino, name: Name<'_>) -> Result<Node> {
        let _inodes = self.locks.lock(&[(ino, Mode::Write), (dir, Mode::Write)]);
        let attr = self.getattr(ino)?;
        let mut dir_attr = self.vacant(caller, dir, name)?;
        let fixed = attr.flags.0 & (Flags::IMMUTABLE.0 | Flags::APPEND.0) != 0;
        if attr.kind == Kind::Directory || fixed {
            return Err(Error::NotPermitted);
        }
        if attr.nlink == 0 && attr.flags.0 & NAMELESS == 0 {
            return Err(Error::NotFound);
        }
        if attr.nlink >= LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
        let now = self.now();
        let flags = Flags(attr.flags.0 & !NAMELESS);
        let attr = Attr { nlink: attr.nlink + 1, ctime: now, flags, ..attr };
        let mut batch = Batch::new();
        batch.push(Change::Link { dir, name, ino, kind: attr.kind });
        batch.push(Change::Set { ino, attr });
        change(&mut dir_attr, now);
        batch.push(Change::Set { ino: dir, attr: dir_attr });
        self.store.commit(&batch)?;
        self.holds.add(ino);
        Ok(Node { ino, attr })
    }
}
