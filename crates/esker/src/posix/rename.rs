//! rename(2) and renameat2(2): where a file system's house is judged.

use super::create::{New, change};
use super::locks::Mode;
use super::{Caller, Fs, Node};
use crate::attr::{Attr, Kind, Time};
use crate::error::{Error, Result};
use crate::ids::Ino;
use crate::limits::LINKS_MAX;
use crate::name::Name;
use crate::store::{Batch, Change, Store};

/// The flags of renameat2(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenameFlags {
    /// Fail where the target exists.
    pub no_replace: bool,
    /// The two names change places.
    pub exchange: bool,
    /// Leave a whiteout (a character device 0:0) under the old name.
    pub whiteout: bool,
}

/// A directory and a name in it.
#[derive(Clone, Copy)]
struct Place<'a> {
    dir: Ino,
    name: Name<'a>,
}

/// Everything that the decision needs, read under the locks.
struct Move<'a> {
    from: Place<'a>,
    to: Place<'a>,
    from_dir: Attr,
    to_dir: Attr,
    moved: Node,
    replaced: Option<Node>,
    flags: RenameFlags,
}

impl<S: Store> Fs<S> {
    /// Moves a name, whole or not at all.
    ///
    /// # Errors
    /// `NotFound`; `Exists` with `no_replace`; `NotDirectory`, `IsDirectory`, `NotEmpty` where the two do not
    /// fit; `Invalid` for a directory into itself; `AccessDenied`, `NotPermitted`, `TooManyLinks`, `NoSpace`.
    pub fn rename(
        &self,
        caller: &Caller<'_>,
        dir: Ino,
        name: Name<'_>,
        to_dir: Ino,
        to_name: Name<'_>,
        flags: RenameFlags,
    ) -> Result<()> {
        if flags.exchange && (flags.no_replace || flags.whiteout) {
            return Err(Error::Invalid);
        }
        let (from, to) = (Place { dir, name }, Place { dir: to_dir, name: to_name });
        loop {
            let source = self.find_entry(caller, from.dir, from.name)?;
            let target = match self.find_entry(caller, to.dir, to.name) {
                Ok(entry) => Some(entry),
                Err(Error::NotFound) => None,
                Err(error) => return Err(error),
            };
            let climbs = |kind| kind == Kind::Directory && from.dir != to.dir;
            let climbs = climbs(source.kind) || target.is_some_and(|entry| climbs(entry.kind));
            let _rename = climbs.then(|| self.locks.rename());
            let over = target.map_or(source.ino, |entry| entry.ino);
            let wanted = [from.dir, to.dir, source.ino, over].map(|ino| (ino, Mode::Write));
            let _inodes = self.locks.lock(&wanted);
            let target = target.map(|entry| entry.ino);
            let same = self.leads_to(from.dir, from.name, Some(source.ino))
                && self.leads_to(to.dir, to.name, target);
            if !same {
                continue;
            }
            let plan = Move {
                from,
                to,
                from_dir: self.directory(from.dir)?,
                to_dir: self.directory(to.dir)?,
                moved: self.node(source.ino)?,
                replaced: target.map(|ino| self.node(ino)).transpose()?,
                flags,
            };
            return self.rename_locked(caller, &plan);
        }
    }

    fn node(&self, ino: Ino) -> Result<Node> {
        Ok(Node { ino, attr: self.store.attr(ino)? })
    }

    fn rename_locked(&self, caller: &Caller<'_>, plan: &Move<'_>) -> Result<()> {
        match plan.replaced {
            Some(_) if plan.flags.no_replace => return Err(Error::Exists),
            None if plan.flags.exchange => return Err(Error::NotFound),
            // Two names of one inode: there is nothing to do, says POSIX.
            Some(replaced) if replaced.ino == plan.moved.ino => return Ok(()),
            _ => {}
        }
        self.keeps_the_tree(plan)?;
        self.may_rename(caller, plan)?;
        let now = self.now();
        match plan.replaced {
            Some(other) if plan.flags.exchange => self.exchange(plan, other, now),
            _ => self.replace(caller, plan, now),
        }
    }

    fn may_rename(&self, caller: &Caller<'_>, plan: &Move<'_>) -> Result<()> {
        self.may_remove(caller, plan.from.dir, &plan.from_dir, &plan.moved.attr)?;
        match plan.replaced {
            Some(other) => {
                self.may_remove(caller, plan.to.dir, &plan.to_dir, &other.attr)?;
                plan.kinds_fit(other)?;
            }
            None => self.may_add(caller, plan.to.dir, &plan.to_dir)?,
        }
        if plan.from.dir != plan.to.dir {
            self.may_reparent(caller, plan.moved)?;
            if let Some(other) = plan.replaced.filter(|_| plan.flags.exchange) {
                self.may_reparent(caller, other)?;
            }
        }
        plan.replaces_nothing_in_use()
    }

    /// A directory that moves gets another `..`, so it must itself be writable.
    fn may_reparent(&self, caller: &Caller<'_>, node: Node) -> Result<()> {
        match node.attr.kind {
            Kind::Directory => self.may(caller, node.ino, &node.attr, super::Access::WRITE),
            _ => Ok(()),
        }
    }

    /// No directory comes to lie in itself. Linux says so before it asks for any permission.
    fn keeps_the_tree(&self, plan: &Move<'_>) -> Result<()> {
        // What stays in its directory cannot get into itself; nor would the way up keep still for us.
        if plan.from.dir == plan.to.dir {
            return Ok(());
        }
        let directory = |node: Node| node.attr.kind == Kind::Directory;
        if directory(plan.moved) && self.lies_in(plan.to.dir, plan.moved.ino)? {
            return Err(Error::Invalid);
        }
        let Some(other) = plan.replaced.filter(|&other| directory(other)) else { return Ok(()) };
        if !self.lies_in(plan.from.dir, other.ino)? {
            return Ok(());
        }
        // What holds the thing that shall replace it is not empty.
        Err(if plan.flags.exchange { Error::Invalid } else { Error::NotEmpty })
    }

    /// Whether `dir` is `above` or lies somewhere in it. The way up is the tree's depth long, and the
    /// rename lock keeps it still; a home whose way up never ends is damaged.
    fn lies_in(&self, dir: Ino, above: Ino) -> Result<bool> {
        let mut at = dir;
        for _ in 0..self.store.space().inodes.saturating_add(1) {
            if at == above {
                return Ok(true);
            }
            if at == Ino::ROOT {
                return Ok(false);
            }
            at = self.store.attr(at)?.parent;
        }
        Err(Error::Corrupt)
    }

    fn replace(&self, caller: &Caller<'_>, plan: &Move<'_>, now: Time) -> Result<()> {
        let (moved, from, to) = (plan.moved, plan.from, plan.to);
        let kind = moved.attr.kind;
        let whiteout = plan.flags.whiteout.then(|| {
            let new = New { kind: Kind::CharDevice, perm: 0, umask: 0, rdev: 0 };
            self.born(caller, from.dir, &plan.from_dir, new)
        });
        let whiteout = whiteout.transpose()?;
        let mut batch = Batch::new();
        batch.push(Change::Link { dir: to.dir, name: to.name, ino: moved.ino, kind });
        if let Some(born) = &whiteout {
            let kind = Kind::CharDevice;
            let ino = self.store.next_ino(from.dir, kind);
            self.push_born(&mut batch, ino, born)?;
            batch.push(Change::Link { dir: from.dir, name: from.name, ino, kind });
        } else {
            batch.push(Change::Unlink { dir: from.dir, name: from.name });
        }
        let attr = Attr { ctime: now, parent: to.dir, ..moved.attr };
        batch.push(Change::Set { ino: moved.ino, attr });
        plan.push_directories(&mut batch, now)?;
        if let Some(replaced) = &plan.replaced {
            self.drop_name(&mut batch, replaced, now);
        }
        self.store.commit(&batch)
    }

    fn exchange(&self, plan: &Move<'_>, other: Node, now: Time) -> Result<()> {
        let mut batch = Batch::new();
        for (place, node) in [(plan.to, plan.moved), (plan.from, other)] {
            let kind = node.attr.kind;
            batch.push(Change::Link { dir: place.dir, name: place.name, ino: node.ino, kind });
            let attr = Attr { ctime: now, parent: place.dir, ..node.attr };
            batch.push(Change::Set { ino: node.ino, attr });
        }
        plan.push_directories(&mut batch, now)?;
        self.store.commit(&batch)
    }
}

impl Move<'_> {
    /// A directory replaces only a directory, and nothing else does; any two may change places.
    fn kinds_fit(&self, other: Node) -> Result<()> {
        let directory = |node: Node| node.attr.kind == Kind::Directory;
        match (directory(self.moved), directory(other)) {
            (true, false) if !self.flags.exchange => Err(Error::NotDirectory),
            (false, true) if !self.flags.exchange => Err(Error::IsDirectory),
            _ => Ok(()),
        }
    }

    /// A directory that is replaced is empty.
    fn replaces_nothing_in_use(&self) -> Result<()> {
        let full = |node: Node| node.attr.kind == Kind::Directory && node.attr.size > 0;
        let in_use = !self.flags.exchange && self.replaced.is_some_and(full);
        if in_use { Err(Error::NotEmpty) } else { Ok(()) }
    }

    /// Times and link counts of the two directories, which may be one: each sub-directory's `..` is a link.
    fn push_directories(&self, batch: &mut Batch<'_>, now: Time) -> Result<()> {
        let count = |node: Option<Node>| {
            i64::from(node.is_some_and(|node| node.attr.kind == Kind::Directory))
        };
        let moved = count(Some(self.moved));
        let other = count(self.replaced);
        let to_gains = moved - other;
        let from_gains = if self.flags.exchange { other - moved } else { -moved };
        if self.from.dir == self.to.dir {
            let mut attr = linked(self.from_dir, from_gains + to_gains)?;
            change(&mut attr, now);
            batch.push(Change::Set { ino: self.from.dir, attr });
            return Ok(());
        }
        let sides =
            [(self.from.dir, self.from_dir, from_gains), (self.to.dir, self.to_dir, to_gains)];
        for (ino, attr, gains) in sides {
            let mut attr = linked(attr, gains)?;
            change(&mut attr, now);
            batch.push(Change::Set { ino, attr });
        }
        Ok(())
    }
}

fn linked(attr: Attr, gains: i64) -> Result<Attr> {
    let nlink = (i64::from(attr.nlink) + gains).max(0);
    match u32::try_from(nlink) {
        Ok(nlink) if nlink <= LINKS_MAX => Ok(Attr { nlink, ..attr }),
        _ => Err(Error::TooManyLinks),
    }
}
