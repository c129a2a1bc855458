//! The names of a tree, gathered before they are compared: some 170 bytes for each.
//!
//! Above: `send`. Invariant: two trees with one hash have the same names for the same inodes with the same attributes,
//! and so, as every change of an inode moves its ctime, the same bytes. Walks go in the order of names, whatever order
//! a home lists them in, and leave out what a receiver keeps in the root.

use std::collections::{HashMap, HashSet};

use esker::store::{Flow, View};
use esker::{Attr, Cursor, Flags, Ino, Kind};
use esker_stone::{Hash, hash};

use super::{Error, OWN, PATH, Result};

/// A name in a directory.
#[derive(Clone, Debug)]
pub(super) struct Child {
    pub name: Vec<u8>,
    pub ino: Ino,
    pub kind: Kind,
    /// Its inode has other names, too.
    pub linked: bool,
    pub flags: Flags,
}

/// All names.
pub(super) struct Names {
    dirs: HashMap<Ino, Vec<Child>>,
    /// Flags of the root.
    pub root: Flags,
    /// About how many bytes all files have.
    pub bytes: u64,
    /// Over all names, and attributes of what they lead to.
    pub hash: Hash,
}

/// When a directory is met: before what is in it, or behind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    First,
    Last,
}

/// A name that is met on a walk.
pub(super) struct Met<'a> {
    pub path: &'a [u8],
    pub dir: Ino,
    pub child: &'a Child,
}

/// Attributes of an inode, for the hash.
fn tell(child: &Child, attr: &Attr, to: &mut Vec<u8>) {
    let Attr { kind, perm, uid, gid, nlink, rdev, size, .. } = *attr;
    to.extend((child.name.len() as u64).to_le_bytes());
    to.extend_from_slice(&child.name);
    // Of a directory these are of what is in it, which is counted itself.
    let (size, nlink) = if kind == Kind::Directory { (0, 0) } else { (size, nlink) };
    let small = [kind.bits(), perm.into(), uid, gid, nlink, rdev, child.flags.0];
    [child.ino.0, size].iter().for_each(|number| to.extend(number.to_le_bytes()));
    small.iter().for_each(|number| to.extend(number.to_le_bytes()));
    for time in [attr.atime, attr.mtime, attr.ctime, attr.btime] {
        to.extend(time.secs.to_le_bytes());
        to.extend(time.nanos.to_le_bytes());
    }
}

fn child(name: &[u8], ino: Ino, attr: &Attr) -> Child {
    let kind = attr.kind;
    let linked = kind != Kind::Directory && attr.nlink > 1;
    let flags = Flags(attr.flags.0 & Flags::KNOWN.0);
    Child { name: name.to_vec(), ino, kind, linked, flags }
}

impl Names {
    /// Those of a tree.
    pub fn of(view: &dyn View) -> Result<Self> {
        let failed = |path: &[u8]| {
            let path = path.to_vec();
            move |error| Error::Source(path, error)
        };
        let root = view.attr(Ino::ROOT).map_err(failed(b""))?;
        let flags = Flags(root.flags.0 & Flags::KNOWN.0);
        let mut own = Self { dirs: HashMap::new(), root: flags, bytes: 0, hash: [0; 32] };
        own.add(Ino::ROOT, &[(child(b"", Ino::ROOT, &root), root)]);
        let mut waiting = vec![(Ino::ROOT, Vec::new())];
        while let Some((dir, path)) = waiting.pop() {
            let mut listed = Vec::new();
            view.entries(dir, Cursor::START, true, &mut |one| {
                let name = one.name.bytes();
                if let Some(attr) = one.attr.filter(|_| dir != Ino::ROOT || name != OWN) {
                    listed.push((child(name, one.entry.ino, &attr), attr));
                }
                Flow::Continue(())
            })
            .map_err(failed(&path))?;
            listed.sort_by(|one, other| one.0.name.cmp(&other.0.name));
            own.add(dir, &listed);
            let mut all: Vec<_> = listed.into_iter().map(|(child, _)| child).collect();
            // It lies where attributes lay, too.
            all.shrink_to_fit();
            for child in all.iter().filter(|child| child.kind == Kind::Directory) {
                let path = joined(&path, &child.name);
                if path.len() > PATH {
                    return Err(Error::Source(path, esker::Error::NameTooLong));
                }
                if own.dirs.contains_key(&child.ino) {
                    return Err(Error::Source(path, esker::Error::Corrupt));
                }
                waiting.push((child.ino, path));
            }
            own.dirs.insert(dir, all);
        }
        Ok(own)
    }

    /// Counts what is in a directory.
    fn add(&mut self, dir: Ino, listed: &[(Child, Attr)]) {
        let mut told = self.hash.to_vec();
        told.extend(dir.0.to_le_bytes());
        for (child, attr) in listed {
            tell(child, attr, &mut told);
            let len = if attr.kind == Kind::File { attr.size } else { 0 };
            self.bytes = self.bytes.saturating_add(len);
        }
        self.hash = hash(&told);
    }

    /// Whether there is such a directory.
    pub fn has_dir(&self, dir: Ino) -> bool {
        self.dirs.contains_key(&dir)
    }

    /// Whether this very name leads to this very inode.
    pub fn has(&self, dir: Ino, child: &Child) -> bool {
        let Some(all) = self.dirs.get(&dir) else { return false };
        let found = all.binary_search_by(|own| own.name.cmp(&child.name));
        found.is_ok_and(|at| all[at].ino == child.ino)
    }

    /// Meets every name but that of the root.
    pub fn walk(&self, order: Order, each: &mut dyn FnMut(&Met<'_>) -> Result<()>) -> Result<()> {
        let none = Vec::new();
        let list = |dir: Ino| self.dirs.get(&dir).unwrap_or(&none);
        let mut path = Vec::new();
        // Directories on the way down, each with its next name and the length of its path.
        let mut levels = vec![(Ino::ROOT, 0, 0)];
        while let Some(&mut (dir, ref mut next, len)) = levels.last_mut() {
            path.truncate(len);
            let Some(child) = list(dir).get(*next) else {
                levels.pop();
                if let Some(&(dir, next, _)) = levels.last()
                    && order == Order::Last
                {
                    each(&Met { path: &path, dir, child: &list(dir)[next - 1] })?;
                }
                continue;
            };
            *next += 1;
            path = joined(&path, &child.name);
            let enters = child.kind == Kind::Directory;
            if order == Order::First || !enters {
                each(&Met { path: &path, dir, child })?;
            }
            if enters {
                levels.push((child.ino, 0, path.len()));
            }
        }
        Ok(())
    }

    /// Every inode once, by its first name.
    pub fn inodes(&self, each: &mut dyn FnMut(&Met<'_>) -> Result<()>) -> Result<()> {
        let mut met = HashSet::new();
        self.walk(Order::First, &mut |one| {
            if one.child.linked && !met.insert(one.child.ino) {
                return Ok(());
            }
            each(one)
        })
    }
}

/// A path and a name.
fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_vec() } else { [path, b"/", name].concat() }
}
