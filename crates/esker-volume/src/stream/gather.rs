//! The names of a tree, gathered before they are compared: some 100 bytes for each.
//!
//! Above: `send`. Invariant: walks go in the order of names, whatever order a home lists them in, and leave out what
//! a receiver keeps in the root.

use std::collections::{HashMap, HashSet};

use esker::store::{Flow, View};
use esker::{Attr, Cursor, Flags, Ino, Kind};

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
        let mut own =
            Self { dirs: HashMap::new(), root: Flags(root.flags.0 & Flags::KNOWN.0), bytes: 0 };
        let mut waiting = vec![(Ino::ROOT, Vec::new())];
        while let Some((dir, path)) = waiting.pop() {
            let mut all = Vec::new();
            view.entries(dir, Cursor::START, true, &mut |listed| {
                let name = listed.name.bytes();
                if let Some(attr) = listed.attr.filter(|_| dir != Ino::ROOT || name != OWN) {
                    if attr.kind == Kind::File {
                        own.bytes = own.bytes.saturating_add(attr.size);
                    }
                    all.push(child(name, listed.entry.ino, &attr));
                }
                Flow::Continue(())
            })
            .map_err(failed(&path))?;
            all.sort_by(|one, other| one.name.cmp(&other.name));
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
