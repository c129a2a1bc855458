//! Extended attributes: namespaces, and the two names that are ACLs.

use alloc::vec::Vec;
use core::ops::ControlFlow;

use super::acl::{self, Acl};
use super::{Access, Caller, Fs, limit};
use crate::attr::{Attr, Flags, Kind};
use crate::error::{Error, Result};
use crate::ids::Ino;
use crate::limits::{XATTR_LIST_LEN_MAX, XATTR_VALUE_LEN_MAX};
use crate::name::XattrName;
use crate::store::{Batch, Change, Store, View};

/// Whether the attribute must be new, or must be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XattrMode {
    /// Either.
    #[default]
    Any,
    /// `XATTR_CREATE`.
    Create,
    /// `XATTR_REPLACE`.
    Replace,
}

const CAPABILITY: &[u8] = b"security.capability";
/// Kept in an inode's flags: it has file capabilities, which a write takes away.
const HAS_CAPABILITY: u32 = 1 << 31;
const SET_GID: u16 = 0o2000;
const STICKY: u16 = 0o1000;

/// Whose an attribute is, by the first part of its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Namespace {
    User,
    Trusted,
    Security,
    Access,
    Default,
    /// `system.` with anything else behind it.
    System,
    Unknown,
}

impl Namespace {
    fn of(name: XattrName<'_>) -> Self {
        let bytes = name.bytes();
        let within = |prefix: &[u8]| bytes.starts_with(prefix);
        match bytes {
            acl::ACCESS => Self::Access,
            acl::DEFAULT => Self::Default,
            _ if within(b"user.") => Self::User,
            _ if within(b"trusted.") => Self::Trusted,
            _ if within(b"security.") => Self::Security,
            _ if within(b"system.") => Self::System,
            _ => Self::Unknown,
        }
    }

    /// The flag that remembers that there is such an attribute.
    fn mark(self, name: XattrName<'_>) -> u32 {
        match self {
            Self::Access => acl::HAS_ACCESS,
            Self::Default => acl::HAS_DEFAULT,
            Self::Security if name.bytes() == CAPABILITY => HAS_CAPABILITY,
            Self::Trusted if name.bytes() == limit::SIZE_MAX => limit::LIMITED,
            _ => 0,
        }
    }
}

impl<S: View> Fs<S> {
    /// getxattr(2): appends the value to `target`.
    ///
    /// # Errors
    /// `NoData`, `NotSupported` for a namespace that is none, `AccessDenied`, `NotPermitted`.
    pub fn getxattr(
        &self,
        caller: &Caller<'_>,
        ino: Ino,
        name: XattrName<'_>,
        target: &mut Vec<u8>,
    ) -> Result<()> {
        let attr = self.getattr(ino)?;
        match Namespace::of(name) {
            Namespace::Trusted if !caller.privileged => return Err(Error::NoData),
            Namespace::User => {
                if !holds_user(attr.kind) {
                    return Err(Error::NoData);
                }
                self.may(caller, ino, &attr, Access::READ)?;
            }
            Namespace::System => return Err(Error::NotSupported),
            Namespace::Unknown => {
                self.may(caller, ino, &attr, Access::READ)?;
                return Err(Error::NotSupported);
            }
            _ => {}
        }
        whole(name)?;
        self.store.xattr(ino, name, target)
    }

    /// listxattr(2): appends the names, each with a NUL behind it.
    ///
    /// # Errors
    /// `TooBig` past [`XATTR_LIST_LEN_MAX`] bytes.
    pub fn listxattr(&self, caller: &Caller<'_>, ino: Ino, target: &mut Vec<u8>) -> Result<()> {
        self.getattr(ino)?;
        let start = target.len();
        let mut fits = true;
        self.store.xattrs(ino, &mut |name| {
            let hidden = !caller.privileged && name.bytes().starts_with(b"trusted.");
            if !hidden {
                target.extend_from_slice(name.bytes());
                target.push(0);
            }
            fits = target.len() - start <= XATTR_LIST_LEN_MAX;
            if fits { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        if fits { Ok(()) } else { Err(Error::TooBig) }
    }
}

impl<S: Store> Fs<S> {
    /// setxattr(2). Setting an ACL sets the permission bits with it; `kill_sgid` takes the set-group-id
    /// bit from whoever may not keep it.
    ///
    /// # Errors
    /// `Exists`, `NoData` by `mode`; `TooBig` (E2BIG) over 64 KiB; `NotSupported`, `NotPermitted`,
    /// `AccessDenied`, `Invalid` for a list that is none, `NoSpace`.
    pub fn setxattr(
        &self,
        caller: &Caller<'_>,
        ino: Ino,
        name: XattrName<'_>,
        value: &[u8],
        mode: XattrMode,
        kill_sgid: bool,
    ) -> Result<()> {
        if value.len() > XATTR_VALUE_LEN_MAX {
            return Err(Error::TooBig);
        }
        let _inode = self.locks.write(ino);
        let space = Namespace::of(name);
        let attr = self.getattr(ino)?;
        self.may_set_xattr(caller, ino, &attr, space)?;
        whole(name)?;
        if name.bytes() == limit::SIZE_MAX {
            limit::parse(value)?;
        }
        self.fits(ino, name, mode)?;
        if matches!(space, Namespace::Access | Namespace::Default) {
            return self.set_acl(caller, ino, attr, (space, name), value, kill_sgid);
        }
        self.put_xattr(ino, attr, (space, name), Some(value))
    }

    /// removexattr(2).
    ///
    /// # Errors
    /// `NoData`, otherwise as [`Fs::setxattr`].
    pub fn removexattr(&self, caller: &Caller<'_>, ino: Ino, name: XattrName<'_>) -> Result<()> {
        let _inode = self.locks.write(ino);
        let space = Namespace::of(name);
        let attr = self.getattr(ino)?;
        self.may_set_xattr(caller, ino, &attr, space)?;
        whole(name)?;
        let list = matches!(space, Namespace::Access | Namespace::Default);
        match self.fits(ino, name, XattrMode::Replace) {
            // To have no list is the wish; Linux finds it granted, and a change where there could be one.
            Err(Error::NoData) if list => {
                let nowhere = space == Namespace::Default && attr.kind != Kind::Directory;
                let changed = Attr { ctime: self.now(), ..attr };
                return if nowhere { Ok(()) } else { self.set(ino, changed) };
            }
            found => found?,
        }
        self.put_xattr(ino, attr, (space, name), None)
    }

    fn put_xattr(
        &self,
        ino: Ino,
        attr: Attr,
        (space, name): (Namespace, XattrName<'_>),
        value: Option<&[u8]>,
    ) -> Result<()> {
        let mark = space.mark(name);
        let had = attr.flags.0 & mark != 0;
        let marked = if value.is_some() { attr.flags.0 | mark } else { attr.flags.0 & !mark };
        let attr = Attr { flags: Flags(marked), ctime: self.now(), ..attr };
        let mut batch = Batch::new();
        // A list as plain as the permission bits is not kept, and often there was none before.
        if value.is_some() || mark == 0 || had {
            batch.push(Change::Xattr { ino, name, value });
        }
        batch.push(Change::Set { ino, attr });
        self.store.commit(&batch)
    }

    fn may_set_xattr(
        &self,
        caller: &Caller<'_>,
        ino: Ino,
        attr: &Attr,
        space: Namespace,
    ) -> Result<()> {
        if attr.flags.0 & (Flags::IMMUTABLE.0 | Flags::APPEND.0) != 0 {
            return Err(Error::NotPermitted);
        }
        match space {
            Namespace::Trusted if !caller.privileged => Err(Error::NotPermitted),
            Namespace::Security if !caller.privileged && !caller.checked => {
                Err(Error::NotPermitted)
            }
            Namespace::Access | Namespace::Default => {
                if attr.kind == Kind::Symlink {
                    return Err(Error::NotSupported);
                }
                // That only directories have a default list is said before whose they are.
                let nowhere = space == Namespace::Default && attr.kind != Kind::Directory;
                if nowhere || caller.owns(attr.uid) { Ok(()) } else { Err(Error::NotPermitted) }
            }
            Namespace::System => Err(Error::NotSupported),
            Namespace::Unknown => {
                self.may(caller, ino, attr, Access::WRITE)?;
                Err(Error::NotSupported)
            }
            Namespace::User if !holds_user(attr.kind) => Err(Error::NotPermitted),
            Namespace::User => {
                let sticky = attr.kind == Kind::Directory && attr.perm & STICKY != 0;
                if sticky && !caller.owns(attr.uid) {
                    return Err(Error::NotPermitted);
                }
                self.may(caller, ino, attr, Access::WRITE)
            }
            _ => Ok(()),
        }
    }

    fn fits(&self, ino: Ino, name: XattrName<'_>, mode: XattrMode) -> Result<()> {
        if mode == XattrMode::Any {
            return Ok(());
        }
        match (self.store.xattr(ino, name, &mut Vec::new()), mode) {
            (Ok(()), XattrMode::Create) => Err(Error::Exists),
            (Err(Error::NoData), XattrMode::Create) => Ok(()),
            (found, _) => found,
        }
    }

    fn set_acl(
        &self,
        caller: &Caller<'_>,
        ino: Ino,
        mut attr: Attr,
        (space, name): (Namespace, XattrName<'_>),
        value: &[u8],
        kill_sgid: bool,
    ) -> Result<()> {
        if space == Namespace::Default && attr.kind != Kind::Directory {
            return Err(Error::AccessDenied);
        }
        let list = if value.is_empty() { None } else { Acl::parse(value)? };
        let mut kept = list.as_ref();
        if let Some(list) = list.as_ref().filter(|_| space == Namespace::Access) {
            attr.perm = attr.perm & !0o777 | list.perm();
            if kill_sgid || !caller.keeps_sgid(attr.gid) {
                attr.perm &= !SET_GID;
            }
            // Nine bits say the same: there is nothing to keep.
            kept = kept.filter(|list| !list.is_plain());
        }
        let bytes = kept.map(Acl::encode);
        self.put_xattr(ino, attr, (space, name), bytes.as_deref())
    }
}

/// A namespace alone is no name.
fn whole(name: XattrName<'_>) -> Result<()> {
    if name.bytes().ends_with(b".") && !name.bytes()[..name.bytes().len() - 1].contains(&b'.') {
        return Err(Error::Invalid);
    }
    Ok(())
}

/// `user.` attributes belong to files and directories only, as xattr(7) has it.
const fn holds_user(kind: Kind) -> bool {
    matches!(kind, Kind::File | Kind::Directory)
}

/// File capabilities do not outlive a change of content or owner.
pub(super) fn drop_capability(batch: &mut Batch<'_>, ino: Ino, attr: &mut Attr) -> Result<()> {
    if attr.flags.0 & HAS_CAPABILITY != 0 {
        batch.push(Change::Xattr { ino, name: XattrName::parse(CAPABILITY)?, value: None });
        attr.flags = Flags(attr.flags.0 & !HAS_CAPABILITY);
    }
    Ok(())
}
