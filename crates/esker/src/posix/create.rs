//! New inodes: files, directories, devices, symbolic links, and files without a name.

use alloc::vec::Vec;

use super::acl::{self, Acl};
use super::attrs::without_set_id;
use super::locks::Mode;
use super::{Caller, Fs, Node};
use crate::attr::{Attr, Flags, Kind, Time};
use crate::error::{Error, Result};
use crate::ids::Ino;
use crate::limits::{LINKS_MAX, SYMLINK_LEN_MAX};
use crate::name::{Name, XattrName};
use crate::store::{Batch, Change, Store, Use};

/// What a new inode shall be.
#[derive(Clone, Copy, Debug)]
pub struct New {
    /// Anything but a symbolic link.
    pub kind: Kind,
    /// Permission bits as asked for.
    pub perm: u16,
    /// Bits to take away, unless the directory's default ACL decides.
    pub umask: u16,
    /// Device number of a device node.
    pub rdev: u32,
}

const SET_GID: u16 = 0o2000;
/// Kept in an inode's flags: made without a name, may still get one.
pub(super) const NAMELESS: u32 = 1 << 28;

/// A new inode with the lists that it inherits.
pub(super) struct Born {
    attr: Attr,
    access: Option<Vec<u8>>,
    default: Option<Vec<u8>>,
}

impl<S: Store> Fs<S> {
    /// mknod(2), mkdir(2) and open(2) with `O_CREAT | O_EXCL`; holds the new inode.
    ///
    /// # Errors
    /// `Exists`, `NotFound` in a removed directory, `AccessDenied`, `NotPermitted`, `TooManyLinks`, `NoSpace`.
    pub fn create(&self, caller: &Caller<'_>, dir: Ino, name: Name<'_>, new: New) -> Result<Node> {
        if new.kind == Kind::Symlink {
            return Err(Error::Invalid);
        }
        self.make(caller, dir, name, new, None)
    }

    /// open(2) with `O_CREAT`: what the name leads to, or else a new inode, and whether it is new; holds it.
    ///
    /// # Errors
    /// As [`Fs::lookup`] and [`Fs::create`].
    pub fn find_or_create(
        &self,
        caller: &Caller<'_>,
        dir: Ino,
        name: Name<'_>,
        new: New,
    ) -> Result<(Node, bool)> {
        if new.kind == Kind::Symlink {
            return Err(Error::Invalid);
        }
        let _dir = self.locks.lock(&[(dir, Mode::Write)]);
        let dir_attr = self.directory(dir)?;
        self.may_search(caller, dir, &dir_attr)?;
        match self.store.entry(dir, name) {
            Err(Error::NotFound) => {}
            found => return Ok((self.held(found?.ino)?, false)),
        }
        self.may_add(caller, dir, &dir_attr)?;
        Ok((self.make_in(caller, dir, &dir_attr, name, new, None)?, true))
    }

    /// symlink(2); holds the new inode.
    ///
    /// # Errors
    /// As [`Fs::create`]; `NotFound` for an empty target, `NameTooLong` over [`SYMLINK_LEN_MAX`] bytes.
    pub fn symlink(
        &self,
        caller: &Caller<'_>,
        dir: Ino,
        name: Name<'_>,
        target: &[u8],
    ) -> Result<Node> {
        if target.is_empty() {
            return Err(Error::NotFound);
        }
        if target.len() > SYMLINK_LEN_MAX {
            return Err(Error::NameTooLong);
        }
        if target.contains(&0) {
            return Err(Error::Invalid);
        }
        let new = New { kind: Kind::Symlink, perm: 0o777, umask: 0, rdev: 0 };
        self.make(caller, dir, name, new, Some(target))
    }

    /// open(2) with `O_TMPFILE`: a file in no directory, which [`Fs::link`] can give a name; holds it.
    ///
    /// # Errors
    /// `NotDirectory`, `NotFound` in a removed directory, `AccessDenied`, `NoSpace`.
    pub fn tmpfile(&self, caller: &Caller<'_>, dir: Ino, new: New) -> Result<Node> {
        let _dir = self.locks.read(dir);
        let dir_attr = self.directory(dir)?;
        self.may_add(caller, dir, &dir_attr)?;
        let mut born = self.born(caller, dir, &dir_attr, New { kind: Kind::File, ..new })?;
        born.attr.nlink = 0;
        born.attr.flags.0 |= NAMELESS;
        let ino = self.store.next_ino(dir, Kind::File);
        let mut batch = Batch::new();
        self.push_born(&mut batch, ino, &born)?;
        self.store.commit(&batch)?;
        self.holds.add(ino);
        self.holds.mark_orphan(ino);
        Ok(Node { ino, attr: self.store.attr(ino)? })
    }

    fn make(
        &self,
        caller: &Caller<'_>,
        dir: Ino,
        name: Name<'_>,
        new: New,
        target: Option<&[u8]>,
    ) -> Result<Node> {
        let _dir = self.locks.lock(&[(dir, Mode::Write)]);
        let dir_attr = self.vacant(caller, dir, name)?;
        self.make_in(caller, dir, &dir_attr, name, new, target)
    }

    /// The same in a directory that is locked, where the caller may make the name.
    fn make_in(
        &self,
        caller: &Caller<'_>,
        dir: Ino,
        dir_attr: &Attr,
        name: Name<'_>,
        new: New,
        target: Option<&[u8]>,
    ) -> Result<Node> {
        let device = matches!(new.kind, Kind::CharDevice | Kind::BlockDevice);
        // Anybody may make the device 0:0, which is a whiteout and leads nowhere.
        let whiteout = new.kind == Kind::CharDevice && new.rdev == 0;
        if device && !whiteout && !caller.privileged && !caller.checked {
            return Err(Error::NotPermitted);
        }
        let directory = new.kind == Kind::Directory;
        if directory && dir_attr.nlink >= LINKS_MAX {
            return Err(Error::TooManyLinks);
        }
        let born = self.born(caller, dir, dir_attr, new)?;
        let ino = self.store.next_ino(dir, new.kind);
        let mut batch = Batch::new();
        self.push_born(&mut batch, ino, &born)?;
        if let Some(source) = target {
            batch.push(Change::Write { ino, at: 0, source });
        }
        batch.push(Change::Link { dir, name, ino, kind: new.kind });
        let nlink = dir_attr.nlink + u32::from(directory);
        let mut attr = Attr { nlink, ..*dir_attr };
        change(&mut attr, born.attr.btime);
        batch.push(Change::Set { ino: dir, attr });
        self.store.commit(&batch)?;
        self.holds.add(ino);
        let plain = new.kind == Kind::File && without_set_id(born.attr.perm) == born.attr.perm;
        if plain && self.store.warms() {
            // What is written now leaves the times as they are.
            self.store.warm(ino, Use::Write, born.attr.btime);
        }
        let attr = if target.is_some() { self.store.attr(ino)? } else { born.attr };
        Ok(Node { ino, attr })
    }

    /// The directory's attributes, once the caller may make this name in it.
    pub(super) fn vacant(&self, caller: &Caller<'_>, dir: Ino, name: Name<'_>) -> Result<Attr> {
        let attr = self.directory(dir)?;
        self.may_search(caller, dir, &attr)?;
        match self.store.entry(dir, name) {
            Ok(_) => Err(Error::Exists),
            Err(Error::NotFound) => self.may_add(caller, dir, &attr).map(|()| attr),
            Err(error) => Err(error),
        }
    }

    /// Owner, group, permission bits and lists of a new inode, as caller and directory have it.
    pub(super) fn born(
        &self,
        caller: &Caller<'_>,
        dir: Ino,
        dir_attr: &Attr,
        new: New,
    ) -> Result<Born> {
        let directory = new.kind == Kind::Directory;
        let shared = dir_attr.perm & SET_GID != 0;
        let gid = if shared { dir_attr.gid } else { caller.gid };
        let mut perm = new.perm & 0o7777;
        if shared && directory {
            perm |= SET_GID;
        } else if perm & 0o2010 == 0o2010 && !caller.keeps_sgid(gid) {
            perm &= !SET_GID;
        }
        let (mut access, mut default, mut flags) = (None, None, 0);
        match self.default_acl(dir, dir_attr, new.kind)? {
            Some(mut list) => {
                if directory {
                    default = Some(list.encode());
                    flags |= acl::HAS_DEFAULT;
                }
                perm = list.inherit(perm);
                if !list.is_plain() {
                    access = Some(list.encode());
                    flags |= acl::HAS_ACCESS;
                }
            }
            None => perm &= !new.umask,
        }
        let now = self.now();
        let mut attr = Attr::new(new.kind, perm, caller.uid, gid, dir, now);
        attr.flags = Flags(flags);
        if matches!(new.kind, Kind::CharDevice | Kind::BlockDevice) {
            attr.rdev = new.rdev;
        }
        Ok(Born { attr, access, default })
    }

    fn default_acl(&self, dir: Ino, dir_attr: &Attr, kind: Kind) -> Result<Option<Acl>> {
        if kind == Kind::Symlink || dir_attr.flags.0 & acl::HAS_DEFAULT == 0 {
            return Ok(None);
        }
        self.acl(dir, acl::DEFAULT)
    }

    pub(super) fn push_born<'a>(
        &self,
        batch: &mut Batch<'a>,
        ino: Ino,
        born: &'a Born,
    ) -> Result<()> {
        batch.push(Change::Make { ino, attr: born.attr });
        for (name, value) in [(acl::ACCESS, &born.access), (acl::DEFAULT, &born.default)] {
            if let Some(value) = value {
                batch.push(Change::Xattr {
                    ino,
                    name: XattrName::parse(name)?,
                    value: Some(value),
                });
            }
        }
        Ok(())
    }
}

/// The inode's content changes now.
#[inline]
pub(super) const fn change(attr: &mut Attr, now: Time) {
    (attr.mtime, attr.ctime) = (now, now);
}
