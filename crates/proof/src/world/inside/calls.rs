//! From operation to `posix::Fs`.
//!
//! Above: [`super::Inside`]. Invariant: what is checked here is what Linux checks before it asks any file system.

use esker::limits::FILE_SIZE_MAX;
use esker::posix::{Access, Allocate, Caller, New, Node, RenameFlags, SetAttr, SetTime};
use esker::{Attr, Error, Flags, Ino, Kind, Result};

use super::{Checked, Handle, Inside, caller};
use crate::script::words::When;
use crate::script::{Op, Space, User};
use crate::world::Answer;

const EXISTS: [Error; 2] = [Error::Exists; 2];

impl<S: Checked> Inside<S> {
    pub(super) fn call(&mut self, user: User, op: &Op) -> Result<Answer> {
        match op {
            Op::Open { .. } | Op::Tmpfile { .. } | Op::LinkSlot { .. } | Op::Close { .. } => {
                self.handle(user, op)
            }
            Op::Read { .. } | Op::Write { .. } | Op::Copy { .. } | Op::Seek { .. } => {
                self.bytes(user, op)
            }
            Op::Ftruncate { .. } | Op::Fallocate { .. } | Op::Truncate { .. } => {
                self.space(user, op)
            }
            Op::Setxattr { .. }
            | Op::Getxattr { .. }
            | Op::Removexattr { .. }
            | Op::Listxattr { .. } => self.xattr(user, op),
            Op::List { .. }
            | Op::Next { .. }
            | Op::Stat { .. }
            | Op::Fstat { .. }
            | Op::Readlink { .. }
            | Op::Access { .. } => self.look(user, op),
            Op::Fsync { .. }
            | Op::Fchmod { .. }
            | Op::Fchown { .. }
            | Op::Futimes { .. }
            | Op::Chmod { .. }
            | Op::Chown { .. }
            | Op::Utimes { .. }
            | Op::Chattr { .. }
            | Op::Umask { .. } => self.attribute(user, op),
            _ => self.name(user, op),
        }
    }

    /// Calls `f` with what a path leads to.
    pub(super) fn on<R>(
        &self,
        caller: &Caller<'_>,
        path: &[u8],
        follow: bool,
        f: impl FnOnce(Node) -> Result<R>,
    ) -> Result<R> {
        let node = self.fs.walk(caller, Ino::ROOT, path, follow)?;
        let done = f(node);
        self.fs.forget(node.ino, 1);
        done
    }

    /// Lets go at once of what a call returned held.
    fn done(&self, made: Result<Node>) -> Result<()> {
        made.map(|node| self.fs.forget(node.ino, 1))
    }

    fn name(&mut self, user: User, op: &Op) -> Result<Answer> {
        let caller = &caller(user);
        let umask = *self.umask(user);
        match op {
            Op::Mkdir { path, mode } => self.at(caller, &path.0, EXISTS, |dir, name| {
                let perm = (mode.0 & 0o1777) as u16;
                let new = New { kind: Kind::Directory, perm, umask, rdev: 0 };
                self.done(self.fs.create(caller, dir, name, new))
            }),
            Op::Mknod { path, kind, mode, rdev } => {
                self.at(caller, &path.0, EXISTS, |dir, name| {
                    let perm = (mode.0 & 0o7777) as u16;
                    let new = New { kind: *kind, perm, umask, rdev: *rdev };
                    self.done(self.fs.create(caller, dir, name, new))
                })
            }
            Op::Symlink { target, path } => {
                if target.0.is_empty() {
                    return Err(Error::NotFound);
                }
                self.at(caller, &path.0, EXISTS, |dir, name| {
                    self.done(self.fs.symlink(caller, dir, name, &target.0))
                })
            }
            Op::Link { from, to, follow } => self.on(caller, &from.0, *follow, |node| {
                self.at(caller, &to.0, EXISTS, |dir, name| self.link(caller, node, dir, name))
            }),
            Op::Unlink { path } => {
                let dots = [Error::IsDirectory; 2];
                self.at(caller, &path.0, dots, |dir, name| self.fs.unlink(caller, dir, name))
            }
            Op::Rmdir { path } => {
                let dots = [Error::Invalid, Error::NotEmpty];
                self.at(caller, &path.0, dots, |dir, name| self.fs.rmdir(caller, dir, name))
            }
            Op::Rename { .. } => self.rename(caller, op),
            _ => Err(Error::NoSuchCall),
        }
        .map(|()| Answer::Nothing)
    }

    /// The sysctl fs.protected_hardlinks comes before the file system, but after EEXIST.
    fn link(&self, caller: &Caller<'_>, node: Node, dir: Ino, name: esker::Name<'_>) -> Result<()> {
        let Attr { kind, perm, uid, .. } = node.attr;
        let both = Access(Access::READ.0 | Access::WRITE.0);
        let unsafe_source = kind != Kind::File
            || perm & 0o4000 != 0
            || perm & 0o2010 == 0o2010
            || self.fs.access(caller, node.ino, both).is_err();
        let owner = caller.privileged || caller.uid == uid;
        if self.hardlinks_protected && unsafe_source && !owner {
            self.done(self.fs.lookup(caller, dir, name)).map_or_else(
                |error| if error == Error::NotFound { Ok(()) } else { Err(error) },
                |()| Err(Error::Exists),
            )?;
            return Err(Error::NotPermitted);
        }
        self.done(self.fs.link(caller, node.ino, dir, name))
    }

    fn rename(&self, caller: &Caller<'_>, op: &Op) -> Result<()> {
        let Op::Rename { from, to, how } = op else { return Err(Error::NoSuchCall) };
        if how.exchange && (how.noreplace || how.whiteout) {
            return Err(Error::Invalid);
        }
        let flags = RenameFlags {
            no_replace: how.noreplace,
            exchange: how.exchange,
            whiteout: how.whiteout,
        };
        use super::open::Last;
        let (dir, last) = self.parent(caller, Ino::ROOT, &from.0)?;
        let done = self.parent(caller, Ino::ROOT, &to.0).and_then(|(to_dir, to_last)| {
            let done = match (last, to_last) {
                (Last::Name(name), Last::Name(to_name)) => {
                    let parsed = (esker::Name::parse(name), esker::Name::parse(to_name));
                    match parsed {
                        (Ok(name), Ok(to_name)) => {
                            self.fs.rename(caller, dir.ino, name, to_dir.ino, to_name, flags)
                        }
                        (Ok(name), Err(error)) => {
                            // The source is looked up first.
                            self.done(self.fs.lookup(caller, dir.ino, name)).and(Err(error))
                        }
                        (Err(error), _) => Err(error),
                    }
                }
                (Last::Name(_), _) if how.noreplace => Err(Error::Exists),
                _ => Err(Error::Busy),
            };
            self.fs.forget(to_dir.ino, 1);
            done
        });
        self.fs.forget(dir.ino, 1);
        done
    }

    fn handle(&mut self, user: User, op: &Op) -> Result<Answer> {
        match op {
            Op::Open { slot, path, how, mode } => {
                self.close(*slot);
                let handle = self.open(user, &path.0, *how, mode.0 as u16)?;
                self.slots[usize::from(*slot)] = Some(handle);
            }
            Op::Tmpfile { slot, dir, how, mode } => {
                self.close(*slot);
                let handle = self.tmpfile(user, &dir.0, *how, mode.0 as u16)?;
                self.slots[usize::from(*slot)] = Some(handle);
            }
            Op::LinkSlot { slot, to } => {
                let handle = self.slot(*slot)?;
                if user != User::Root && handle.opener != user {
                    return Err(Error::NotFound);
                }
                let caller = &caller(user);
                let node = Node { ino: handle.ino, attr: self.fs.getattr(handle.ino)? };
                self.at(caller, &to.0, EXISTS, |dir, name| {
                    if handle.nameless && node.attr.nlink == 0 {
                        self.done(self.fs.lookup(caller, dir, name))
                            .map_or(Ok(()), |()| Err(Error::Exists))?;
                        return Err(Error::NotFound);
                    }
                    self.link(caller, node, dir, name)
                })?;
            }
            Op::Close { slot } => self.close(*slot),
            _ => return Err(Error::NoSuchCall),
        }
        Ok(Answer::Nothing)
    }

    fn bytes(&mut self, user: User, op: &Op) -> Result<Answer> {
        let kill_priv = user != User::Root;
        match *op {
            Op::Read { slot, at, len } => {
                let handle = self.slot(slot)?;
                let mut bytes = vec![0; reach(handle.read, handle.kind, at, len)? as usize];
                let count = self.fs.read(handle.ino, at, &mut bytes)?;
                bytes.truncate(count);
                Ok(Answer::Bytes(bytes))
            }
            Op::Write { slot, at, len, seed } => {
                let handle = self.slot(slot)?;
                let len = reach(handle.write, handle.kind, at, len)?;
                if len == 0 {
                    return Ok(Answer::Number(0));
                }
                let bytes = crate::script::fill(seed, at, len as usize);
                let at = if handle.append { self.fs.getattr(handle.ino)?.size } else { at };
                let room = FILE_SIZE_MAX - at;
                if room == 0 {
                    return Err(Error::FileTooBig);
                }
                let bytes = &bytes[..len.min(room) as usize];
                let count = self.fs.write(handle.ino, at, bytes, kill_priv)?;
                Ok(Answer::Number(count as u64))
            }
            Op::Copy { source, from, slot, at, len } => {
                let (source, target) = (self.slot(source)?, self.slot(slot)?);
                if source.kind == Kind::Directory || target.kind == Kind::Directory {
                    return Err(Error::IsDirectory);
                }
                if !source.read || !target.write || target.append {
                    return Err(Error::BadHandle);
                }
                let caller = caller(user);
                let (source, target) = ((source.ino, from), (target.ino, at));
                Ok(Answer::Number(self.fs.copy_range(&caller, source, target, len)?))
            }
            Op::Seek { slot, at } => self.seek(self.slot(slot)?, at),
            _ => Err(Error::NoSuchCall),
        }
    }

    fn seek(&self, handle: Handle, at: u64) -> Result<Answer> {
        if handle.kind != Kind::File {
            return Ok(Answer::Nothing);
        }
        let size = self.fs.getattr(handle.ino)?.size;
        let found = (self.fs.seek_data(handle.ino, at), self.fs.seek_hole(handle.ino, at));
        let until = match found {
            (Err(Error::NoSuchOffset), Err(Error::NoSuchOffset)) if at >= size => {
                return Err(Error::NoSuchOffset);
            }
            (Ok(data), Ok(hole)) if (at..size).contains(&data) && (at..=size).contains(&hole) => {
                data
            }
            (Err(Error::NoSuchOffset), Ok(hole)) if hole == at && at < size => size,
            other => return Ok(Answer::Broken(format!("seek from {at} of {size}: {other:?}"))),
        };
        let mut bytes = vec![0; (until - at).min(1 << 16) as usize];
        self.fs.peek(handle.ino, at, &mut bytes)?;
        if bytes.iter().any(|&byte| byte != 0) {
            return Ok(Answer::Broken(format!("data in the hole {at}..{until}")));
        }
        Ok(Answer::Nothing)
    }

    fn cut(&self, user: User, handle: Handle, len: u64) -> Result<()> {
        if !handle.write || handle.kind != Kind::File {
            return Err(Error::Invalid);
        }
        // The right to do it was asked for when it was opened.
        let caller = Caller { checked: true, ..caller(user) };
        let kill_priv = user != User::Root;
        let set = SetAttr { size: Some(len), kill_priv, ..Default::default() };
        self.fs.setattr(&caller, handle.ino, &set).map(drop)
    }

    fn space(&mut self, user: User, op: &Op) -> Result<Answer> {
        match op {
            Op::Ftruncate { slot, len } => self.cut(user, self.slot(*slot)?, *len)?,
            Op::Truncate { path, len } => {
                let how = crate::script::How { write: true, ..Default::default() };
                let handle = self.open(user, &path.0, how, 0)?;
                let done = self.cut(user, handle, *len);
                self.fs.forget(handle.ino, 1);
                done?;
            }
            Op::Fallocate { slot, how, at, len } => {
                let handle = self.slot(*slot)?;
                if *len == 0 {
                    return Err(Error::Invalid);
                }
                if !handle.write {
                    return Err(Error::BadHandle);
                }
                let mode = match how {
                    Space::Reserve => Allocate::Reserve,
                    Space::Keep => Allocate::ReserveKeepSize,
                    Space::Punch => Allocate::Punch,
                    Space::Zero => Allocate::Zero,
                    Space::ZeroKeep => Allocate::ZeroKeepSize,
                };
                self.fs.fallocate(&caller(user), handle.ino, mode, *at, *len)?;
            }
            _ => return Err(Error::NoSuchCall),
        }
        Ok(Answer::Nothing)
    }

    fn set(&self, caller: &Caller<'_>, ino: Ino, set: &SetAttr) -> Result<()> {
        self.fs.setattr(caller, ino, set).map(drop)
    }

    fn attribute(&mut self, user: User, op: &Op) -> Result<Answer> {
        let caller = &caller(user);
        match op {
            Op::Fsync { slot } => {
                let handle = self.slot(*slot)?;
                match handle.kind {
                    Kind::Directory => self.fs.fsyncdir(handle.ino),
                    _ => self.fs.fsync(handle.ino, false),
                }
            }
            Op::Fchmod { slot, mode } => self.set(caller, self.slot(*slot)?.ino, &perm(mode.0)),
            Op::Fchown { slot, uid, gid } => {
                self.set(caller, self.slot(*slot)?.ino, &owner(*uid, *gid))
            }
            Op::Futimes { slot, atime, mtime } => match times(*atime, *mtime) {
                Some(set) => self.set(caller, self.slot(*slot)?.ino, &set),
                None => self.slot(*slot).map(drop),
            },
            Op::Chmod { path, mode } => {
                self.on(caller, &path.0, true, |node| self.set(caller, node.ino, &perm(mode.0)))
            }
            Op::Chown { path, uid, gid, follow } => self.on(caller, &path.0, *follow, |node| {
                self.set(caller, node.ino, &owner(*uid, *gid))
            }),
            Op::Utimes { path, atime, mtime, follow } => match times(*atime, *mtime) {
                Some(set) => {
                    self.on(caller, &path.0, *follow, |node| self.set(caller, node.ino, &set))
                }
                None => Ok(()),
            },
            Op::Chattr { path, flags } => {
                let how = crate::script::How { read: true, ..Default::default() };
                let handle = self.open(user, &path.0, how, 0)?;
                let done = self.fs.set_flags(caller, handle.ino, Flags(*flags));
                self.fs.forget(handle.ino, 1);
                done
            }
            Op::Umask { mask } => {
                *self.umask(user) = (mask.0 & 0o777) as u16;
                Ok(())
            }
            _ => Err(Error::NoSuchCall),
        }
        .map(|()| Answer::Nothing)
    }
}

/// How far a read or write may go.
fn reach(allowed: bool, kind: Kind, at: u64, len: u64) -> Result<u64> {
    if !allowed {
        return Err(Error::BadHandle);
    }
    if at.checked_add(len).is_none_or(|end| end > FILE_SIZE_MAX) {
        return Err(Error::Invalid);
    }
    if kind == Kind::Directory { Err(Error::IsDirectory) } else { Ok(len) }
}

fn perm(mode: u32) -> SetAttr {
    SetAttr { perm: Some((mode & 0o7777) as u16), ..Default::default() }
}

fn owner(uid: u32, gid: u32) -> SetAttr {
    let some = |id: u32| Some(id).filter(|&id| id != u32::MAX);
    SetAttr { uid: some(uid), gid: some(gid), ..Default::default() }
}

/// Nothing when there is nothing to set: Linux does not even look at the path then.
fn times(atime: When, mtime: When) -> Option<SetAttr> {
    let set = |when| match when {
        When::Omit => None,
        When::Now => Some(SetTime::Now),
        When::At(time) => Some(SetTime::At(time)),
    };
    let (atime, mtime) = (set(atime), set(mtime));
    let nothing = atime.is_none() && mtime.is_none();
    if nothing { None } else { Some(SetAttr { atime, mtime, ..Default::default() }) }
}
