//! chattr(1): flags of an inode.

use super::{Caller, Fs};
use crate::attr::{Attr, Flags, Kind};
use crate::error::{Error, Result};
use crate::ids::Ino;
use crate::store::{Store, View};

impl<S: View> Fs<S> {
    /// The flags that lsattr(1) shows.
    ///
    /// # Errors
    /// `Stale`.
    pub fn get_flags(&self, ino: Ino) -> Result<Flags> {
        Ok(Flags(self.getattr(ino)?.flags.0 & Flags::KNOWN.0))
    }
}

impl<S: Store> Fs<S> {
    /// Sets the flags of a file or directory.
    ///
    /// # Errors
    /// `NotSupported` for flags that we do not have, or other kinds of inode; `NotPermitted` for who is not the
    /// owner, or not privileged where immutable or append-only change.
    pub fn set_flags(&self, caller: &Caller<'_>, ino: Ino, flags: Flags) -> Result<()> {
        if !Flags::KNOWN.contains(flags) {
            return Err(Error::NotSupported);
        }
        let _inode = self.locks.write(ino);
        let attr = self.getattr(ino)?;
        if !matches!(attr.kind, Kind::File | Kind::Directory) {
            return Err(Error::NotSupported);
        }
        let fixed = Flags::IMMUTABLE.0 | Flags::APPEND.0;
        let guarded = (attr.flags.0 ^ flags.0) & fixed != 0;
        if !caller.owns(attr.uid) || (guarded && !caller.privileged) {
            return Err(Error::NotPermitted);
        }
        // The bits that users do not see are ours (see `acl`, `create`, `xattr`).
        let flags = Flags(attr.flags.0 & !Flags::KNOWN.0 | flags.0);
        self.set(ino, Attr { flags, ctime: self.now(), ..attr })
    }
}
