//! open(2), as Linux plays it over a file system: following, creating, refusing.
//!
//! Above: [`super::calls`]. Invariant: a handle that is returned holds its inode once.

use esker::posix::{Access, Caller, New, Node, OpenFlags};
use esker::{Cursor, Error, Ino, Kind, Name, Result};

use super::{Checked, Handle, Inside, caller};
use crate::script::{How, User};

/// The last part of a path.
pub(super) enum Last<'p> {
    Name(&'p [u8]),
    Dot,
    DotDot,
}

impl<S: Checked> Inside<S> {
    /// The directory that the last part of a path lies in, held and searchable, and that part.
    pub(super) fn parent<'p>(
        &self,
        caller: &Caller<'_>,
        from: Ino,
        path: &'p [u8],
    ) -> Result<(Node, Last<'p>)> {
        if path.is_empty() {
            return Err(Error::NotFound);
        }
        let start = path.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let (before, last) = path.split_at(start);
        let before = before.strip_suffix(b"/").filter(|before| !before.is_empty());
        let node = self.fs.walk(caller, from, before.unwrap_or(b"."), true)?;
        let searchable = match node.attr.kind {
            Kind::Directory => self.fs.access(caller, node.ino, Access::EXEC),
            _ => Err(Error::NotDirectory),
        };
        if let Err(error) = searchable {
            self.fs.forget(node.ino, 1);
            return Err(error);
        }
        let last = match last {
            b"." => Last::Dot,
            b".." => Last::DotDot,
            name => Last::Name(name),
        };
        Ok((node, last))
    }

    /// Calls `f` with the directory and the name that shall be made or removed in it.
    pub(super) fn at<R>(
        &self,
        caller: &Caller<'_>,
        path: &[u8],
        dots: [Error; 2],
        f: impl FnOnce(Ino, Name<'_>) -> Result<R>,
    ) -> Result<R> {
        let (dir, last) = self.parent(caller, Ino::ROOT, path)?;
        let done = match last {
            Last::Name(name) => Name::parse(name).and_then(|name| f(dir.ino, name)),
            Last::Dot => Err(dots[0]),
            Last::DotDot => Err(dots[1]),
        };
        self.fs.forget(dir.ino, 1);
        done
    }

    pub(super) fn open(&mut self, user: User, path: &[u8], how: How, perm: u16) -> Result<Handle> {
        let caller = caller(user);
        let umask = *self.umask(user);
        let mut path = path.to_vec();
        let mut base = self.fs.hold(Ino::ROOT)?;
        for _ in 0..=esker::limits::SYMLINKS_FOLLOWED_MAX {
            let parent = self.parent(&caller, base.ino, &path);
            self.fs.forget(base.ino, 1);
            let (dir, last) = parent?;
            let found = match last {
                Last::Dot => self.fs.hold(dir.ino),
                Last::DotDot => self.fs.hold_parent(dir.ino),
                Last::Name(name) => {
                    let new = New { kind: Kind::File, perm: perm & 0o7777, umask, rdev: 0 };
                    match self.open_name(&caller, dir.ino, name, how, new) {
                        Ok((node, true)) => {
                            self.fs.forget(dir.ino, 1);
                            return Ok(handle(user, node, how));
                        }
                        other => other.map(|(node, _)| node),
                    }
                }
            };
            let follow = !(how.nofollow || how.create && how.excl);
            match found {
                Ok(link) if link.attr.kind == Kind::Symlink && follow => {
                    let mut target = vec![0; esker::limits::SYMLINK_LEN_MAX];
                    let len = self.fs.readlink(link.ino, &mut target);
                    self.fs.forget(link.ino, 1);
                    target.truncate(len?);
                    (base, path) = (dir, target);
                }
                Ok(node) => {
                    let opened = self.open_found(&caller, dir, node, how);
                    self.fs.forget(dir.ino, 1);
                    return match opened {
                        Ok(()) => Ok(handle(user, node, how)),
                        Err(error) => {
                            self.fs.forget(node.ino, 1);
                            Err(error)
                        }
                    };
                }
                Err(error) => {
                    self.fs.forget(dir.ino, 1);
                    return Err(error);
                }
            }
        }
        self.fs.forget(base.ino, 1);
        Err(Error::TooManySymlinks)
    }

    /// What the name leads to, made if need be; whether it was.
    fn open_name(
        &self,
        caller: &Caller<'_>,
        dir: Ino,
        name: &[u8],
        how: How,
        new: New,
    ) -> Result<(Node, bool)> {
        let name = Name::parse(name)?;
        match self.fs.lookup(caller, dir, name) {
            Err(Error::NotFound) if how.create => {
                Ok((self.fs.create(caller, dir, name, new)?, true))
            }
            found => Ok((found?, false)),
        }
    }

    /// O_CREAT in a sticky directory must not open what a stranger has put there.
    fn planted(&self, caller: &Caller<'_>, dir: Node, node: Node) -> bool {
        let off = match node.attr.kind {
            Kind::File => !self.regular_protected,
            Kind::Fifo => !self.fifos_protected,
            _ => false,
        };
        let stranger = node.attr.uid != dir.attr.uid && node.attr.uid != caller.uid;
        dir.attr.perm & 0o1002 == 0o1002 && stranger && !off
    }

    fn open_found(&self, caller: &Caller<'_>, dir: Node, node: Node, how: How) -> Result<()> {
        let kind = node.attr.kind;
        if how.create && how.excl {
            return Err(Error::Exists);
        }
        if how.create && kind == Kind::Directory {
            return Err(Error::IsDirectory);
        }
        if how.create && self.planted(caller, dir, node) {
            return Err(Error::AccessDenied);
        }
        if how.directory && kind != Kind::Directory {
            return Err(Error::NotDirectory);
        }
        if matches!(kind, Kind::CharDevice | Kind::BlockDevice) {
            return Err(Error::AccessDenied);
        }
        let flags = OpenFlags {
            read: how.read || !how.write,
            write: how.write,
            append: how.append,
            truncate: how.trunc,
            kill_priv: !caller.privileged,
        };
        self.fs.open(caller, node.ino, flags)?;
        match kind {
            Kind::Fifo | Kind::Socket => Err(Error::NoSuchOffset),
            _ => Ok(()),
        }
    }

    pub(super) fn tmpfile(
        &mut self,
        user: User,
        dir: &[u8],
        how: How,
        perm: u16,
    ) -> Result<Handle> {
        let caller = caller(user);
        let dir = self.fs.walk(&caller, Ino::ROOT, dir, true)?;
        let umask = *self.umask(user);
        let new = New { kind: Kind::File, perm: perm & 0o7777, umask, rdev: 0 };
        let made = self.fs.tmpfile(&caller, dir.ino, new);
        self.fs.forget(dir.ino, 1);
        Ok(Handle { nameless: how.excl, ..handle(user, made?, how) })
    }
}

fn handle(opener: User, node: Node, how: How) -> Handle {
    Handle {
        ino: node.ino,
        kind: node.attr.kind,
        read: how.read || !how.write,
        write: how.write,
        append: how.append,
        nameless: false,
        opener,
        cursor: Cursor::START,
    }
}
