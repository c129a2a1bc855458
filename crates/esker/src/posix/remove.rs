//! Names taken away.

use super::create::change;
use super::locks::{Locks, Mode};
use super::{Caller, Fs, Node};
use crate::attr::{Attr, Kind};
use crate::error::{Error, Result};
use crate::ids::Ino;
use crate::name::Name;
use crate::store::{Batch, Change, Store};

impl<S: Store> Fs<S> {
    /// unlink(2). The inode goes with its last name and its last hold.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `AccessDenied`, `NotPermitted` (sticky, immutable, append-only).
    pub fn unlink(&self, caller: &Caller<'_>, dir: Ino, name: Name<'_>) -> Result<()> {
        self.remove(caller, dir, name, |attr| match attr.kind {
            Kind::Directory => Err(Error::IsDirectory),
            _ => Ok(()),
        })
    }

    /// rmdir(2).
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `NotEmpty`, `AccessDenied`, `NotPermitted`.
    pub fn rmdir(&self, caller: &Caller<'_>, dir: Ino, name: Name<'_>) -> Result<()> {
        self.remove(caller, dir, name, |attr| match attr.kind {
            Kind::Directory if attr.size > 0 => Err(Error::NotEmpty),
            Kind::Directory => Ok(()),
            _ => Err(Error::NotDirectory),
        })
    }

    fn remove(
        &self,
        caller: &Caller<'_>,
        dir: Ino,
        name: Name<'_>,
        fits: impl Fn(&Attr) -> Result<()>,
    ) -> Result<()> {
        loop {
            // Who may not search here is told so, not what there is.
            let seen = match self.store.entry(dir, name) {
                Ok(entry) => entry.ino,
                Err(_) => self.find(caller, dir, name)?.1.ino,
            };
            let _inodes = self.locks.lock(&[(dir, Mode::Write), (seen, Mode::Write)]);
            let dir_attr = self.directory(dir)?;
            self.may_search(caller, dir, &dir_attr)?;
            if Locks::ALONE || self.store.entry(dir, name)?.ino == seen {
                let victim = Node { ino: seen, attr: self.store.attr(seen)? };
                self.may_remove(caller, dir, &dir_attr, &victim.attr)?;
                fits(&victim.attr)?;
                return self.remove_locked(dir, name, &dir_attr, &victim);
            }
        }
    }

    fn remove_locked(
        &self,
        dir: Ino,
        name: Name<'_>,
        dir_attr: &Attr,
        victim: &Node,
    ) -> Result<()> {
        let now = self.now();
        let mut batch = Batch::new();
        batch.push(Change::Unlink { dir, name });
        let sub = u32::from(victim.attr.kind == Kind::Directory);
        let nlink = dir_attr.nlink.saturating_sub(sub);
        let mut attr = Attr { nlink, ..*dir_attr };
        change(&mut attr, now);
        batch.push(Change::Set { ino: dir, attr });
        self.drop_name(&mut batch, victim, now);
        self.store.commit(&batch)
    }

    /// Whether a name still leads where it did before the locks were taken.
    pub(super) fn leads_to(&self, dir: Ino, name: Name<'_>, ino: Option<Ino>) -> bool {
        if Locks::ALONE {
            return true;
        }
        match (self.store.entry(dir, name), ino) {
            (Ok(entry), Some(ino)) => entry.ino == ino,
            (Err(Error::NotFound), None) => true,
            // The home failed, or the directory is none: whoever goes on finds out and says so.
            (Err(error), _) => error != Error::NotFound,
            (Ok(_), None) => false,
        }
    }
}
