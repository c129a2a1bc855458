//! Paths, for programs that have no kernel to walk for them.

use alloc::vec::Vec;

use super::{Caller, Fs, Node};
use crate::attr::{Attr, Kind};
use crate::error::{Error, Result};
use crate::ids::Ino;
use crate::limits::{SYMLINK_LEN_MAX, SYMLINKS_FOLLOWED_MAX};
use crate::name::Name;
use crate::store::Store;

impl<S: Store> Fs<S> {
    /// Walks a path from the directory `from` (an absolute path from the root), through symbolic links;
    /// through one at its end only with `follow`. Holds what it finds.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `AccessDenied`, `TooManySymlinks`, `NameTooLong`.
    pub fn walk(&self, caller: &Caller<'_>, from: Ino, path: &[u8], follow: bool) -> Result<Node> {
        if path.is_empty() {
            return Err(Error::NotFound);
        }
        let (from, path, name) = self.descend(caller, from, path);
        if let Some(name) = name {
            let node = self.lookup(caller, from, name)?;
            if node.attr.kind != Kind::Symlink || !follow {
                return Ok(node);
            }
            self.forget(node.ino, 1);
        }
        let mut at = self.hold(if path[0] == b'/' { Ino::ROOT } else { from })?;
        // Most paths are of plain names and lead through no link.
        let mut left = path;
        while let Some((name, behind)) = plain(left) {
            let next = self.lookup(caller, at.ino, name);
            if next.as_ref().is_ok_and(|next| next.attr.kind == Kind::Symlink) {
                next.inspect(|next| self.forget(next.ino, 1))?;
                break;
            }
            self.forget(at.ino, 1);
            at = next?;
            if behind.is_empty() {
                return Ok(at);
            }
            left = behind;
        }
        self.walk_on(caller, at, left, follow)
    }

    /// What is known of what a path leads to, which is not held.
    ///
    /// # Errors
    /// As [`Fs::walk`].
    pub fn stat(&self, caller: &Caller<'_>, from: Ino, path: &[u8], follow: bool) -> Result<Attr> {
        let (from, path, name) = self.descend(caller, from, path);
        if let Some(name) = name {
            let _dir = self.locks.read(from);
            let entry = self.find_entry(caller, from, name)?;
            if entry.kind != Kind::Symlink || !follow {
                return self.store.attr(entry.ino);
            }
        }
        let node = self.walk(caller, from, path, follow)?;
        self.forget(node.ino, 1);
        Ok(node.attr)
    }

    /// Goes down through directories by plain names, for who may search them all: where that ends, what is left of the
    /// path, a name at least, and that name if it is the last. Holds nothing: in a directory that is removed meanwhile
    /// there are no names.
    pub(super) fn descend<'p>(
        &self,
        caller: &Caller<'_>,
        from: Ino,
        path: &'p [u8],
    ) -> (Ino, &'p [u8], Option<Name<'p>>) {
        let (mut at, mut left) = match path {
            [b'/', left @ ..] if !left.is_empty() => (Ino::ROOT, left),
            path => (from, path),
        };
        loop {
            let Some((name, behind)) = plain(left) else { return (at, left, None) };
            if behind.is_empty() {
                return (at, left, Some(name));
            }
            match Self::searches_all(caller).then(|| self.store.entry(at, name)) {
                Some(Ok(entry)) if entry.kind == Kind::Directory => {
                    (at, left) = (entry.ino, behind)
                }
                _ => return (at, left, None),
            }
        }
    }

    /// Walks on from a directory that is held.
    fn walk_on(&self, caller: &Caller<'_>, at: Node, path: &[u8], follow: bool) -> Result<Node> {
        let mut links = 0;
        // What is still to be walked, the next part last.
        let mut rest = Vec::new();
        let mut at = self.start(at, path, &mut rest)?;
        while let Some(part) = rest.pop() {
            let last = rest.is_empty();
            let next = self.step(caller, at, &part);
            if next.as_ref().is_ok_and(|next| next.attr.kind == Kind::Symlink) && (follow || !last)
            {
                let link = next?;
                links += 1;
                let target = self.follow(link, links);
                self.forget(link.ino, 1);
                let target = target.inspect_err(|_| self.forget(at.ino, 1))?;
                at = self.start(at, &target, &mut rest)?;
                continue;
            }
            self.forget(at.ino, 1);
            at = next?;
        }
        Ok(at)
    }

    /// The directory that the last name of a path lies in, held, and that name.
    ///
    /// # Errors
    /// As [`Fs::walk`]; `Invalid` for a path that ends in no name.
    pub fn walk_to_parent<'p>(
        &self,
        caller: &Caller<'_>,
        from: Ino,
        path: &'p [u8],
    ) -> Result<(Node, Name<'p>)> {
        let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
        let start = path[..end].iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
        let name = Name::parse(&path[start..end])?;
        let parent = match &path[..start] {
            b"" => b".",
            // One slash at its end says no more than the name behind it.
            [above @ .., last, b'/'] if *last != b'/' => &path[..above.len() + 1],
            parent => parent,
        };
        let node = self.walk(caller, from, parent, true)?;
        if node.attr.kind == Kind::Directory {
            return Ok((node, name));
        }
        self.forget(node.ino, 1);
        Err(Error::NotDirectory)
    }

    /// The same for a directory that is not held.
    ///
    /// # Errors
    /// As [`Fs::walk_to_parent`].
    pub fn parent<'p>(
        &self,
        caller: &Caller<'_>,
        from: Ino,
        path: &'p [u8],
    ) -> Result<(Ino, Name<'p>)> {
        let (dir, _, name) = self.descend(caller, from, path);
        if let Some(name) = name
            && (dir != from || self.store.attr(dir)?.kind == Kind::Directory)
        {
            return Ok((dir, name));
        }
        let (node, name) = self.walk_to_parent(caller, from, path)?;
        self.forget(node.ino, 1);
        Ok((node.ino, name))
    }

    /// Where a path begins, with its parts laid out; a path that ends in `/` must end in a directory.
    fn start(&self, at: Node, path: &[u8], rest: &mut Vec<Vec<u8>>) -> Result<Node> {
        let part = |bytes: &[u8]| bytes.to_vec();
        if path.last() == Some(&b'/') {
            rest.push(part(b"."));
        }
        let parts = path.split(|&byte| byte == b'/').filter(|bytes| !bytes.is_empty());
        rest.extend(parts.rev().map(part));
        if path.first() != Some(&b'/') {
            return Ok(at);
        }
        self.forget(at.ino, 1);
        self.hold(Ino::ROOT)
    }

    fn step(&self, caller: &Caller<'_>, at: Node, part: &[u8]) -> Result<Node> {
        match part {
            b"." | b".." => {
                if at.attr.kind != Kind::Directory {
                    return Err(Error::NotDirectory);
                }
                self.may_search(caller, at.ino, &at.attr)?;
                if part == b"." { self.hold(at.ino) } else { self.hold_parent(at.ino) }
            }
            _ => match Name::parse(part) {
                Ok(name) => self.lookup(caller, at.ino, name),
                // That names cannot be looked up here at all is said before what is wrong with this one.
                Err(error) => {
                    self.may_search(caller, at.ino, &self.directory(at.ino)?)?;
                    Err(error)
                }
            },
        }
    }

    fn follow(&self, link: Node, links: u32) -> Result<Vec<u8>> {
        if links > SYMLINKS_FOLLOWED_MAX {
            return Err(Error::TooManySymlinks);
        }
        let mut target = alloc::vec![0; SYMLINK_LEN_MAX];
        let len = self.readlink(link.ino, &mut target)?;
        target.truncate(len);
        Ok(target)
    }
}

/// The name that a path begins with, and what is behind it, if there is only one slash between them, or nothing.
pub(super) fn plain(path: &[u8]) -> Option<(Name<'_>, &[u8])> {
    let (name, behind) = Name::first(path)?;
    match behind {
        [] => Some((name, behind)),
        [_] | [_, b'/', ..] => None,
        [_, behind @ ..] => Some((name, behind)),
    }
}
