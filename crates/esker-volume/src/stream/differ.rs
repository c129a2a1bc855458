//! What is different about one inode: its bytes, its attributes.
//!
//! Above: `send`. Below: `pieces`. Invariant: what is told is enough to make the new one of the old one, and of
//! nothing where there is no old one; bytes that are known to be the same are neither read nor told.

use esker::limits::FILE_SIZE_MAX;
use esker::store::{Flow, View};
use esker::{Attr, Ino, Kind, XattrName};

use super::PIECE;
use super::apply::Meta;
use super::pieces::{Compared, Lies, Piece};
use super::words::Word;

/// Why it could not be told: the tree cannot be read, or who listens wants no more.
pub(super) enum Stopped {
    Source(esker::Error),
    Listener(super::Error),
}

impl From<esker::Error> for Stopped {
    fn from(error: esker::Error) -> Self {
        Self::Source(error)
    }
}

/// Whoever is told.
pub(super) type Tell<'a> = dyn FnMut(&Word<'_>) -> super::Result<()> + 'a;

/// An inode now, and what it was before, if it was.
pub(super) struct Two<'a> {
    pub now: &'a dyn Compared,
    pub old: Option<&'a dyn Compared>,
    pub ino: Ino,
    pub path: &'a [u8],
}

const HOLE: Piece = Piece { end: FILE_SIZE_MAX, lies: Lies::Hole };

/// What of an inode's attributes counts.
fn meta(attr: &Attr) -> Meta {
    let Attr { perm, uid, gid, atime, mtime, .. } = *attr;
    Meta { perm, uid, gid, atime, mtime }
}

/// All extended attributes, in the order of their names.
fn xattrs(view: &dyn View, ino: Ino) -> esker::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut all = Vec::new();
    view.xattrs(ino, &mut |name| {
        all.push((name.bytes().to_vec(), Vec::new()));
        Flow::Continue(())
    })?;
    for (name, value) in &mut all {
        view.xattr(ino, XattrName::parse(name)?, value)?;
    }
    Ok(all)
}

/// Reads all of the target.
fn read(view: &dyn View, ino: Ino, at: u64, target: &mut [u8]) -> esker::Result<()> {
    let mut done = 0;
    while done < target.len() {
        match view.read(ino, at + done as u64, &mut target[done..])? {
            0 => return Err(esker::Error::Io),
            count => done += count,
        }
    }
    Ok(())
}

impl Two<'_> {
    /// Tells what is different about the bytes of a file; whether anything is.
    pub fn bytes(&self, tell: &mut Tell<'_>) -> Result<bool, Stopped> {
        let size = self.now.attr(self.ino)?.size;
        let old_size = match self.old {
            Some(old) => old.attr(self.ino)?.size,
            None => 0,
        };
        let mut any = false;
        let path = self.path;
        let mut say = |word: &Word<'_>| {
            if !any {
                any = true;
                tell(&Word::Size { size, path }).map_err(Stopped::Listener)?;
            }
            if matches!(word, Word::Size { .. }) {
                return Ok(());
            }
            tell(word).map_err(Stopped::Listener)
        };
        if size != old_size {
            say(&Word::Size { size, path })?;
        }
        let mut at = 0;
        while at < size {
            let now = self.now.piece(self.ino, at)?;
            let old = match self.old.filter(|_| at < old_size) {
                Some(old) => old.piece(self.ino, at)?,
                None => HOLE,
            };
            let bound = if at < old_size { size.min(old_size) } else { size };
            let end = now.end.min(old.end).min(bound);
            if end <= at {
                return Err(esker::Error::Corrupt.into());
            }
            match (now.lies, old.lies) {
                (Lies::Hole, Lies::Hole) => {}
                (Lies::Hole, _) => say(&Word::Hole { at, len: end - at, path })?,
                (Lies::Block(..), same) if now.lies == same => {}
                (_, was) => self.stretch((at, end), was != Lies::Hole, &mut say)?,
            }
            at = end;
        }
        Ok(any)
    }

    /// Tells bytes from one to another, but for those that were the same.
    fn stretch(
        &self,
        (from, to): (u64, u64),
        compare: bool,
        say: &mut dyn FnMut(&Word<'_>) -> Result<(), Stopped>,
    ) -> Result<(), Stopped> {
        let mut at = from;
        let (mut one, mut other) = (vec![0; PIECE], vec![0; PIECE]);
        while at < to {
            let len = (to - at).min(PIECE as u64) as usize;
            let bytes = &mut one[..len];
            read(self.now, self.ino, at, bytes)?;
            let was = &mut other[..len];
            let same = match self.old.filter(|_| compare) {
                Some(old) => {
                    read(old, self.ino, at, was)?;
                    was == bytes
                }
                None => false,
            };
            if !same {
                say(&Word::Bytes { at, path: self.path, bytes })?;
            }
            at += len as u64;
        }
        Ok(())
    }

    /// Tells attributes if they are different, or `anyway`.
    pub fn meta(&self, anyway: bool, tell: &mut Tell<'_>) -> Result<(), Stopped> {
        let (attr, all) = (self.now.attr(self.ino)?, xattrs(self.now, self.ino)?);
        if let Some(old) = self.old.filter(|_| !anyway)
            && meta(&old.attr(self.ino)?) == meta(&attr)
            && xattrs(old, self.ino)? == all
        {
            return Ok(());
        }
        let path = self.path;
        let mut say = |word: &Word<'_>| tell(word).map_err(Stopped::Listener);
        say(&Word::Strip { path })?;
        say(&Word::Attr { meta: meta(&attr), path })?;
        all.iter().try_for_each(|(name, value)| say(&Word::Xattr { path, name, value }))
    }

    /// Tells of something new, which has no bytes and no attributes yet.
    pub fn make(&self, kind: Kind, tell: &mut Tell<'_>) -> Result<(), Stopped> {
        let path = self.path;
        let word = |word: &Word<'_>, tell: &mut Tell<'_>| tell(word).map_err(Stopped::Listener);
        let attr = self.now.attr(self.ino)?;
        if kind != Kind::Symlink {
            return word(&Word::Make { kind, rdev: attr.rdev, path }, tell);
        }
        let len = usize::try_from(attr.size).unwrap_or(usize::MAX);
        let mut target = vec![0; len.min(esker::limits::SYMLINK_LEN_MAX)];
        read(self.now, self.ino, 0, &mut target)?;
        word(&Word::Symlink { path, target: &target }, tell)
    }
}
