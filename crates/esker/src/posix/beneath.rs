//! Paths that stay beneath the directory that they start from, for programs that were given that directory and nothing
//! else: openat2(2) with `RESOLVE_BENEATH`.
//!
//! Neighbours: `walk` has the paths of programs that may go anywhere. Invariant: the way leads only through directories
//! that were reached by names from the first one, so whatever is moved meanwhile, `..` goes back and never out.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use super::create::New;
use super::{Caller, Fs, Node};
use crate::attr::Kind;
use crate::error::{Error, Result};
use crate::ids::Ino;
use crate::limits::{PATH_LEN_MAX, SYMLINK_LEN_MAX, SYMLINKS_FOLLOWED_MAX};
use crate::name::Name;
use crate::store::Store;

/// Where a path ends, whether anything is there or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Last<'p> {
    /// The directory.
    pub dir: Ino,
    /// The last part of the path, which may be `.` or `..`.
    pub name: Cow<'p, [u8]>,
    /// A slash follows it: it is to be a directory.
    pub slash: bool,
}

/// What shall be made where a path leads to nothing.
#[derive(Clone, Copy, Debug)]
pub struct Make {
    /// A file of this kind.
    pub new: New,
    /// Nothing may be there before (`O_EXCL`).
    pub exclusive: bool,
}

/// A walk under way.
struct Way {
    at: Ino,
    /// The directories above it, down from the first.
    above: Vec<Ino>,
    /// What is still to be walked.
    rest: Vec<u8>,
    links: u32,
}

impl Way {
    fn new(from: Ino, path: &[u8]) -> Result<Self> {
        let mut way = Self { at: from, above: Vec::new(), rest: Vec::new(), links: 0 };
        way.set(path, b"")?;
        Ok(way)
    }

    /// The rest is `path`, and behind that `behind`.
    fn set(&mut self, path: &[u8], behind: &[u8]) -> Result<()> {
        match path {
            [] => return Err(Error::NotFound),
            // The root of the file system is none of the walker's business.
            [b'/', ..] => return Err(Error::NotPermitted),
            _ if path.len() > PATH_LEN_MAX => return Err(Error::NameTooLong),
            _ => {}
        }
        self.rest = [path, behind].concat();
        Ok(())
    }

    /// The next part, whether a slash follows it, and whether it is the last.
    fn part(&mut self) -> (Vec<u8>, bool, bool) {
        let end = self.rest.iter().position(|&byte| byte == b'/').unwrap_or(self.rest.len());
        let behind = self.rest[end..].iter().position(|&byte| byte != b'/');
        let part = self.rest[..end].to_vec();
        let slash = end < self.rest.len();
        self.rest.drain(..behind.map_or(self.rest.len(), |more| end + more));
        (part, slash, behind.is_none())
    }

    fn up(&mut self) -> Result<()> {
        self.at = self.above.pop().ok_or(Error::NotPermitted)?;
        Ok(())
    }

    fn down(&mut self, dir: Ino) {
        self.above.push(self.at);
        self.at = dir;
    }
}

impl<S: Store> Fs<S> {
    /// Where a path ends; every symbolic link but one in its last part is followed.
    ///
    /// # Errors
    /// `NotPermitted` for a path, or a link in it, that is absolute or leads out; `NotFound`, `NotDirectory`,
    /// `TooManySymlinks`, `NameTooLong`, `AccessDenied`.
    pub fn beneath<'p>(&self, caller: &Caller<'_>, from: Ino, path: &'p [u8]) -> Result<Last<'p>> {
        if let Some((dir, name)) = self.plainly(caller, from, path) {
            return Ok(Last { dir, name: Cow::Borrowed(name.bytes()), slash: false });
        }
        let mut way = Way::new(from, path)?;
        let (name, slash) = self.advance(caller, &mut way)?;
        if name == b".." && way.above.is_empty() {
            return Err(Error::NotPermitted);
        }
        Ok(Last { dir: way.at, name: Cow::Owned(name), slash })
    }

    /// What a path leads to, made there if it is to be, and whether it is new; through a symbolic link at its end only
    /// with `follow`, or with a slash behind it. Holds what it finds.
    ///
    /// # Errors
    /// As [`Fs::beneath`], and as [`Fs::create`].
    pub fn open_beneath(
        &self,
        caller: &Caller<'_>,
        from: Ino,
        path: &[u8],
        follow: bool,
        make: Option<Make>,
    ) -> Result<(Node, bool)> {
        if let Some((dir, name)) = self.plainly(caller, from, path) {
            let (node, fresh) = self.reach(caller, dir, name, false, make)?;
            if node.attr.kind != Kind::Symlink || !follow {
                return Ok((node, fresh));
            }
            self.forget(node.ino, 1);
        }
        let mut way = Way::new(from, path)?;
        loop {
            let (part, slash) = self.advance(caller, &mut way)?;
            let (node, fresh) = match &part[..] {
                b"." | b".." if make.is_some_and(|make| make.exclusive) => {
                    return Err(Error::Exists);
                }
                b"." => (self.hold(way.at)?, false),
                b".." => {
                    way.up()?;
                    (self.hold(way.at)?, false)
                }
                name => self.reach(caller, way.at, Name::parse(name)?, slash, make)?,
            };
            match node.attr.kind {
                Kind::Symlink if follow || slash => {
                    let through = self.through(&mut way, node.ino, slash);
                    self.forget(node.ino, 1);
                    through?;
                }
                kind if slash && kind != Kind::Directory => {
                    self.forget(node.ino, 1);
                    return Err(Error::NotDirectory);
                }
                _ => return Ok((node, fresh)),
            }
        }
    }

    /// What is known of what a path leads to, which is not held.
    ///
    /// # Errors
    /// As [`Fs::beneath`].
    pub fn stat_beneath(
        &self,
        caller: &Caller<'_>,
        from: Ino,
        path: &[u8],
        follow: bool,
    ) -> Result<Node> {
        if let Some((dir, name)) = self.plainly(caller, from, path) {
            let _dir = self.locks.read(dir);
            let entry = self.find_entry(caller, dir, name)?;
            if entry.kind != Kind::Symlink || !follow {
                return Ok(Node { ino: entry.ino, attr: self.store.attr(entry.ino)? });
            }
        }
        let (node, _) = self.open_beneath(caller, from, path, follow, None)?;
        self.forget(node.ino, 1);
        Ok(node)
    }

    /// The same as [`Fs::beneath`] for most paths, which are of plain names and lead through no link.
    fn plainly<'p>(
        &self,
        caller: &Caller<'_>,
        from: Ino,
        path: &'p [u8],
    ) -> Option<(Ino, Name<'p>)> {
        if path.first() == Some(&b'/') || path.len() > PATH_LEN_MAX {
            return None;
        }
        let (dir, _, name) = self.descend(caller, from, path);
        name.map(|name| (dir, name))
    }

    fn reach(
        &self,
        caller: &Caller<'_>,
        dir: Ino,
        name: Name<'_>,
        slash: bool,
        make: Option<Make>,
    ) -> Result<(Node, bool)> {
        let found = |node| (node, false);
        let Some(make) = make else { return self.lookup(caller, dir, name).map(found) };
        // What ends in a slash must be a directory, which this does not make.
        if slash {
            let node = self.lookup(caller, dir, name).map_err(|error| match error {
                Error::NotFound => Error::IsDirectory,
                error => error,
            })?;
            if make.exclusive {
                self.forget(node.ino, 1);
                return Err(Error::Exists);
            }
            return Ok(found(node));
        }
        if make.exclusive {
            return self.create(caller, dir, name, make.new).map(|node| (node, true));
        }
        self.find_or_create(caller, dir, name, make.new)
    }

    /// Walks on until one part is left: that, and whether a slash follows it.
    fn advance(&self, caller: &Caller<'_>, way: &mut Way) -> Result<(Vec<u8>, bool)> {
        loop {
            let (part, slash, last) = way.part();
            self.may_search(caller, way.at, &self.directory(way.at)?)?;
            if last {
                return Ok((part, slash));
            }
            match &part[..] {
                b"." => {}
                b".." => way.up()?,
                name => {
                    let entry = self.find_entry(caller, way.at, Name::parse(name)?)?;
                    match entry.kind {
                        Kind::Directory => way.down(entry.ino),
                        Kind::Symlink => self.through(way, entry.ino, true)?,
                        _ => return Err(Error::NotDirectory),
                    }
                }
            }
        }
    }

    /// Goes on where a symbolic link leads.
    fn through(&self, way: &mut Way, link: Ino, slash: bool) -> Result<()> {
        way.links += 1;
        if way.links > SYMLINKS_FOLLOWED_MAX {
            return Err(Error::TooManySymlinks);
        }
        let mut target = alloc::vec![0; SYMLINK_LEN_MAX];
        let len = self.peek_link(link, &mut target)?;
        let mut behind = core::mem::take(&mut way.rest);
        if slash {
            behind.insert(0, b'/');
        }
        way.set(&target[..len], &behind)
    }
}
