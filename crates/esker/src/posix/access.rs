//! Who may: permission bits, ACLs, sticky directories, immutable inodes.

use super::acl::{self, Acl};
use super::{Caller, Fs};
use crate::attr::{Attr, Flags, Kind};
use crate::error::{Error, Result};
use crate::ids::Ino;
use crate::store::{Entry, View};

/// What is to be done with an inode: any of read (4), write (2) and execute or search (1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(pub u8);

impl Access {
    /// Read.
    pub const READ: Self = Self(4);
    /// Write.
    pub const WRITE: Self = Self(2);
    /// Execute a file, search a directory.
    pub const EXEC: Self = Self(1);
    /// Change a directory's entries.
    pub(super) const CHANGE: Self = Self(3);
}

/// The sticky bit: in such a directory only owners remove.
const STICKY: u16 = 0o1000;

impl<S: View> Fs<S> {
    /// access(2) for the caller as it is, whoever checked before.
    ///
    /// # Errors
    /// `AccessDenied`; `NotPermitted` for writing to an immutable inode.
    pub fn access(&self, caller: &Caller<'_>, ino: Ino, access: Access) -> Result<()> {
        let attr = self.store.attr(ino)?;
        if access.0 & Access::WRITE.0 != 0 && attr.flags.contains(Flags::IMMUTABLE) {
            return Err(Error::NotPermitted);
        }
        self.may(&Caller { checked: false, ..*caller }, ino, &attr, access)
    }

    /// Whether the permission bits, or the ACL, let the caller do this.
    pub(super) fn may(
        &self,
        caller: &Caller<'_>,
        ino: Ino,
        attr: &Attr,
        access: Access,
    ) -> Result<()> {
        if caller.checked {
            return Ok(());
        }
        if caller.privileged {
            let plain = attr.kind != Kind::Directory && attr.perm & 0o111 == 0;
            let denied = plain && access.0 & Access::EXEC.0 != 0;
            return if denied { Err(Error::AccessDenied) } else { Ok(()) };
        }
        let allowed = if caller.uid == attr.uid {
            attr.perm >> 6
        } else if let Some(acl) = self.access_acl(ino, attr)? {
            return if acl.allows(caller, attr, access) {
                Ok(())
            } else {
                Err(Error::AccessDenied)
            };
        } else if caller.in_group(attr.gid) {
            attr.perm >> 3
        } else {
            attr.perm
        };
        if access.0 & !(allowed as u8 & 7) == 0 { Ok(()) } else { Err(Error::AccessDenied) }
    }

    fn access_acl(&self, ino: Ino, attr: &Attr) -> Result<Option<Acl>> {
        // The group's bits are the list's mask. Linux passes over a list whose mask is empty, so that those it
        // names are treated as others.
        if attr.flags.0 & acl::HAS_ACCESS == 0 || attr.perm & 0o070 == 0 {
            return Ok(None);
        }
        self.acl(ino, acl::ACCESS)
    }

    /// Whether the caller may search the directory.
    pub(super) fn may_search(&self, caller: &Caller<'_>, dir: Ino, attr: &Attr) -> Result<()> {
        self.may(caller, dir, attr, Access::EXEC)
    }

    /// Whether the caller may make a name in the directory.
    pub(super) fn may_add(&self, caller: &Caller<'_>, dir: Ino, attr: &Attr) -> Result<()> {
        if attr.nlink == 0 {
            return Err(Error::NotFound);
        }
        if attr.flags.contains(Flags::IMMUTABLE) {
            return Err(Error::NotPermitted);
        }
        self.may(caller, dir, attr, Access::CHANGE)
    }

    /// Whether the caller may take the name of `victim` from the directory.
    pub(super) fn may_remove(
        &self,
        caller: &Caller<'_>,
        dir: Ino,
        dir_attr: &Attr,
        victim: &Attr,
    ) -> Result<()> {
        self.may_add(caller, dir, dir_attr)?;
        let fixed = Flags::IMMUTABLE.0 | Flags::APPEND.0;
        let sticky =
            dir_attr.perm & STICKY != 0 && !caller.owns(victim.uid) && caller.uid != dir_attr.uid;
        if dir_attr.flags.contains(Flags::APPEND) || victim.flags.0 & fixed != 0 || sticky {
            return Err(Error::NotPermitted);
        }
        Ok(())
    }

    /// Whether the caller may search every directory.
    pub(super) const fn searches_all(caller: &Caller<'_>) -> bool {
        caller.checked || caller.privileged
    }

    /// The entry alone, once the caller may search for it.
    pub(super) fn find_entry(
        &self,
        caller: &Caller<'_>,
        dir: Ino,
        name: crate::name::Name<'_>,
    ) -> Result<Entry> {
        if Self::searches_all(caller)
            && let Ok(entry) = self.store.entry(dir, name)
        {
            return Ok(entry);
        }
        self.find(caller, dir, name).map(|(_, entry)| entry)
    }

    /// The entry, once the caller may search for it.
    pub(super) fn find(
        &self,
        caller: &Caller<'_>,
        dir: Ino,
        name: crate::name::Name<'_>,
    ) -> Result<(Attr, Entry)> {
        let attr = self.directory(dir)?;
        self.may_search(caller, dir, &attr)?;
        Ok((attr, self.store.entry(dir, name)?))
    }
}
