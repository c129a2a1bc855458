//! chmod, chown, truncate, utimens: one call, any of them together.

use super::acl;
use super::create::change;
use super::{Access, Caller, Fs};
use crate::attr::{Attr, Flags, Kind, Time};
use crate::error::{Error, Result};
use crate::ids::Ino;
use crate::limits::FILE_SIZE_MAX;
use crate::name::XattrName;
use crate::store::{Batch, Change, Store};

/// A time to set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// `UTIME_NOW`.
    Now,
    /// This one.
    At(Time),
}

/// What to change; `None` leaves it (`UTIME_OMIT`, -1 in chown(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits, all twelve.
    pub perm: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes.
    pub size: Option<u64>,
    /// Last read.
    pub atime: Option<SetTime>,
    /// Last change of content.
    pub mtime: Option<SetTime>,
    /// Last change of anything; only a kernel that keeps times itself sets it, else it is now.
    pub ctime: Option<Time>,
    /// Set-id bits go with a change of size: the caller may not keep them.
    pub kill_priv: bool,
}

const SET_UID: u16 = 0o4000;
const SET_GID: u16 = 0o2000;
const GROUP_EXEC: u16 = 0o0010;

impl<S: Store> Fs<S> {
    /// Changes attributes, all that are named or none, and answers what they are then.
    ///
    /// # Errors
    /// `NotPermitted` (not the owner, immutable, append-only), `AccessDenied`, `FileTooBig`, `IsDirectory`,
    /// `NoSpace`.
    pub fn setattr(&self, caller: &Caller<'_>, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let _inode = self.locks.write(ino);
        let old = self.getattr(ino)?;
        self.may_set(caller, ino, &old, set)?;
        let now = self.now();
        let mut attr = old;
        let mut batch = Batch::new();
        if let Some(len) = set.size {
            self.push_size(&mut batch, ino, &mut attr, len, now)?;
        }
        change_owner(caller, &mut attr, set);
        if set.size.is_some() && set.kill_priv {
            drop_set_id(&mut attr);
        }
        if let Some(perm) = set.perm {
            attr.perm = perm & 0o7777;
            if attr.perm & SET_GID != 0 && !caller.keeps_sgid(attr.gid) {
                attr.perm &= !SET_GID;
            }
        }
        let lists = self.chmod_acl(ino, &attr, set.perm)?;
        if let Some(value) = &lists {
            let name = XattrName::parse(acl::ACCESS)?;
            batch.push(Change::Xattr { ino, name, value: Some(value) });
        }
        set_times(&mut attr, set, now);
        if set.uid.is_some() || set.gid.is_some() || set.size.is_some() {
            super::xattr::drop_capability(&mut batch, ino, &mut attr)?;
        }
        batch.push(Change::Set { ino, attr });
        self.store.commit(&batch)?;
        self.getattr(ino)
    }

    fn may_set(&self, caller: &Caller<'_>, ino: Ino, attr: &Attr, set: &SetAttr) -> Result<()> {
        let explicit = |time: Option<SetTime>| matches!(time, Some(SetTime::At(_)));
        // "Now" for both is what reading and writing would do; one of them alone is the owner's business.
        let one_alone = set.atime.is_some() != set.mtime.is_some();
        let times = explicit(set.atime) || explicit(set.mtime) || one_alone;
        let owned = set.perm.is_some() || set.uid.is_some() || set.gid.is_some() || times;
        let kept_by_kernel = set.ctime.is_some() && set.atime.is_none() && set.mtime.is_some();
        let only_times =
            set.perm.or(set.size.map(|_| 0)).is_none() && set.uid.or(set.gid).is_none();
        let flushed = kept_by_kernel && only_times;
        let immutable = attr.flags.contains(Flags::IMMUTABLE);
        let append = attr.flags.contains(Flags::APPEND) && (owned || set.size.is_some());
        if (immutable || append) && !flushed {
            return Err(Error::NotPermitted);
        }
        if caller.checked || caller.privileged {
            return Ok(());
        }
        if owned && caller.uid != attr.uid {
            return Err(Error::NotPermitted);
        }
        let gives_away = set.uid.is_some_and(|uid| uid != attr.uid)
            || set.gid.is_some_and(|gid| gid != attr.gid && !caller.in_group(gid));
        if gives_away {
            return Err(Error::NotPermitted);
        }
        let touches = set.atime.is_some() || set.mtime.is_some();
        if set.size.is_some() || (touches && !times && caller.uid != attr.uid) {
            self.may(caller, ino, attr, Access::WRITE)?;
        }
        Ok(())
    }

    fn push_size(
        &self,
        batch: &mut Batch<'_>,
        ino: Ino,
        attr: &mut Attr,
        len: u64,
        now: Time,
    ) -> Result<()> {
        match attr.kind {
            Kind::File => {}
            Kind::Directory => return Err(Error::IsDirectory),
            _ => return Err(Error::Invalid),
        }
        if len > FILE_SIZE_MAX {
            return Err(Error::FileTooBig);
        }
        self.may_reach(ino, attr, len)?;
        if len != attr.size {
            change(attr, now);
        }
        batch.push(Change::Cut { ino, len });
        Ok(())
    }

    /// The access ACL as the new permission bits leave it, where there is one.
    fn chmod_acl(
        &self,
        ino: Ino,
        attr: &Attr,
        perm: Option<u16>,
    ) -> Result<Option<alloc::vec::Vec<u8>>> {
        let Some(perm) = perm.filter(|_| attr.flags.0 & acl::HAS_ACCESS != 0) else {
            return Ok(None);
        };
        Ok(self.acl(ino, acl::ACCESS)?.map(|mut list| {
            list.set_perm(perm);
            list.encode()
        }))
    }
}

/// chown(2) takes set-id bits from whatever can be executed, whoever asks.
fn change_owner(caller: &Caller<'_>, attr: &mut Attr, set: &SetAttr) {
    if set.uid.is_none() && set.gid.is_none() {
        return;
    }
    if attr.kind != Kind::Directory {
        let drops_sgid = attr.perm & GROUP_EXEC != 0 || !caller.keeps_sgid(attr.gid);
        attr.perm &= !SET_UID;
        if drops_sgid {
            attr.perm &= !SET_GID;
        }
    }
    attr.uid = set.uid.unwrap_or(attr.uid);
    attr.gid = set.gid.unwrap_or(attr.gid);
}

fn set_times(attr: &mut Attr, set: &SetAttr, now: Time) {
    let pick = |time: Option<SetTime>, old: Time| match time {
        None => old,
        Some(SetTime::Now) => now,
        Some(SetTime::At(time)) => time,
    };
    attr.atime = pick(set.atime, attr.atime);
    attr.mtime = pick(set.mtime, attr.mtime);
    attr.ctime = set.ctime.unwrap_or(now);
}

/// After a write by somebody who may not keep them: set-user-id, and set-group-id where the group may execute.
pub(super) const fn drop_set_id(attr: &mut Attr) {
    attr.perm = without_set_id(attr.perm);
}

/// Permission bits after that.
pub(super) const fn without_set_id(perm: u16) -> u16 {
    let keeps_sgid = perm & GROUP_EXEC == 0;
    perm & if keeps_sgid { !SET_UID } else { !(SET_UID | SET_GID) }
}
