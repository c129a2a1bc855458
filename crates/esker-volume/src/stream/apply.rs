//! Doing what words say in a target.
//!
//! Above: `receive`. Below: a [`Target`]. Invariant: all words from a mark on can be done again, whichever of them were
//! done already, as long as none of a later step was begun: what is there already is left, or made anew.

use esker::{Flags, Kind, Result, Time};

use super::words::Word;
use super::{Error, OWN};

/// Attributes of an inode that come along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// Permission bits.
    pub perm: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last read.
    pub atime: Time,
    /// Last change of content.
    pub mtime: Time,
}

/// Where a tree is made. Paths lead from its root, by names with a `/` between; no part of one is followed where it is
/// a symbolic link.
pub trait Target {
    /// What is there; `None`: nothing.
    ///
    /// # Errors
    /// What the target says, here and below.
    fn kind(&mut self, path: &[u8]) -> Result<Option<Kind>>;

    /// Whether both names lead to one inode.
    fn is_same(&mut self, one: &[u8], other: &[u8]) -> Result<bool>;

    /// Whether the root holds nothing but what the receiver keeps.
    fn is_empty(&mut self) -> Result<bool>;

    /// Another name, under which nothing is.
    fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<()>;

    /// Removes a name; of a directory, an empty one.
    fn remove(&mut self, path: &[u8], dir: bool) -> Result<()>;

    /// Makes something new that is no symbolic link.
    fn make(&mut self, path: &[u8], kind: Kind, rdev: u32) -> Result<()>;

    /// Makes a symbolic link.
    fn symlink(&mut self, path: &[u8], target: &[u8]) -> Result<()>;

    /// A further name of what `of` names.
    fn link(&mut self, of: &[u8], path: &[u8]) -> Result<()>;

    /// How long a file is; what is new is hole.
    fn size(&mut self, path: &[u8], size: u64) -> Result<()>;

    /// Bytes of a file.
    fn write(&mut self, path: &[u8], at: u64, bytes: &[u8]) -> Result<()>;

    /// So many bytes of a file become zeros, and hole if they can.
    fn hole(&mut self, path: &[u8], at: u64, len: u64) -> Result<()>;

    /// Takes all extended attributes away.
    fn strip(&mut self, path: &[u8]) -> Result<()>;

    /// Sets an extended attribute.
    fn xattr(&mut self, path: &[u8], name: &[u8], value: &[u8]) -> Result<()>;

    /// Sets attributes.
    fn attr(&mut self, path: &[u8], meta: &Meta) -> Result<()>;

    /// Sets chattr flags.
    fn flags(&mut self, path: &[u8], flags: Flags) -> Result<()>;

    /// Something that lies aside in what the receiver keeps, if there is anything.
    fn aside(&mut self) -> Result<Option<Vec<u8>>>;

    /// The volume that it is, and the number that the commit of what is kept next will have; zeros: it is none.
    fn home(&self) -> ([u8; 16], u64) {
        ([0; 16], 0)
    }

    /// How much it could not be given, and was left out.
    fn left_out(&self) -> u64 {
        0
    }

    /// What was kept last; nothing if nothing was.
    fn state(&mut self) -> Result<Vec<u8>>;

    /// Makes all that was done until now safe, and then keeps this, whole or not at all.
    fn keep(&mut self, state: &[u8]) -> Result<()>;
}

/// Where something lies that was laid aside.
pub(super) fn aside(ino: u64) -> Vec<u8> {
    [OWN, b"/", ino.to_string().as_bytes()].concat()
}

/// Does what a word says; `again`: some of it may have been done already.
///
/// # Errors
/// `Target`, `Changed`, `InTheWay`.
pub fn apply(target: &mut dyn Target, word: &Word<'_>, again: bool) -> super::Result<()> {
    let path = word.path();
    let refused = |error| Error::Target(path.to_vec(), error);
    let changed = || Err(Error::Changed(path.to_vec()));
    match *word {
        Word::Free { .. } => {
            if target.kind(path).map_err(refused)?.is_some() {
                target.flags(path, Flags::default()).map_err(refused)?;
            }
        }
        Word::Take { ino, .. } => {
            let aside = aside(ino);
            let waits = target.kind(&aside).map_err(refused)?.is_some();
            let there = target.kind(path).map_err(refused)?.is_some();
            match (waits, there) {
                (false, true) => target.rename(path, &aside).map_err(refused)?,
                (true, false) if again => {}
                (true, _) => return Err(Error::InTheWay(aside)),
                (false, false) => return changed(),
            }
        }
        Word::Remove { dir, .. } => match target.kind(path).map_err(refused)? {
            None => {}
            Some(kind) if (kind == Kind::Directory) == dir => {
                target.remove(path, dir).map_err(refused)?;
            }
            Some(_) => return changed(),
        },
        Word::Place { ino, .. } => {
            let there = target.kind(path).map_err(refused)?;
            let aside = aside(ino);
            let waits = target.kind(&aside).map_err(refused)?.is_some();
            match (waits, there) {
                (true, None) => target.rename(&aside, path).map_err(refused)?,
                (true, Some(_)) => return Err(Error::InTheWay(path.to_vec())),
                (false, Some(_)) if again => {}
                (false, _) => return changed(),
            }
        }
        Word::Make { .. } | Word::Symlink { .. } | Word::Link { .. } => {
            return make(target, word, again);
        }
        _ => return fill(target, word).map_err(refused),
    }
    Ok(())
}

/// Makes a name.
fn make(target: &mut dyn Target, word: &Word<'_>, again: bool) -> super::Result<()> {
    let path = word.path();
    let refused = |error| Error::Target(path.to_vec(), error);
    if let Some(there) = target.kind(path).map_err(refused)? {
        match *word {
            Word::Make { kind: Kind::Directory, .. } if again && there == Kind::Directory => {
                return Ok(());
            }
            Word::Link { of, .. } if again && target.is_same(of, path).map_err(refused)? => {
                return Ok(());
            }
            Word::Make { kind: Kind::Directory, .. } => {
                return Err(Error::InTheWay(path.to_vec()));
            }
            _ if again && there != Kind::Directory => {
                target.remove(path, false).map_err(refused)?;
            }
            _ => return Err(Error::InTheWay(path.to_vec())),
        }
    }
    let done = match *word {
        Word::Make { kind, rdev, .. } => target.make(path, kind, rdev),
        Word::Symlink { target: to, .. } => target.symlink(path, to),
        Word::Link { of, .. } => target.link(of, path),
        _ => Ok(()),
    };
    done.map_err(refused)
}

/// Gives an inode what it holds.
fn fill(target: &mut dyn Target, word: &Word<'_>) -> Result<()> {
    match *word {
        Word::Size { size, path } => target.size(path, size),
        Word::Bytes { at, path, bytes } => target.write(path, at, bytes),
        Word::Hole { at, len, path } => target.hole(path, at, len),
        Word::Strip { path } => target.strip(path),
        Word::Xattr { path, name, value } => target.xattr(path, name, value),
        Word::Attr { meta, path } => target.attr(path, &meta),
        Word::Flag { flags, path } => target.flags(path, flags),
        _ => Ok(()),
    }
}
