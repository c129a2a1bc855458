//! A file system as the target of a stream.
//!
//! Above: `volume`; the tests of streams take this file, too. Below: POSIX. Invariant: every step goes from a
//! directory to a name in it, and follows nothing; what is kept is written in one piece, behind all that was done
//! before.

use esker::posix::{Allocate, Caller, Fs, New, Node, RenameFlags, SetAttr, SetTime, XattrMode};
use esker::store::{Flow, Store};
use esker::{Cursor, Error, Flags, Ino, Kind, Name, Result, XattrName};
use esker_volume::stream::{Meta, OWN, Target};

const ROOT: Caller<'static> = Caller::ROOT;
/// What is kept, in its directory.
pub const STATE: &[u8] = b"state";
/// More than what is kept.
pub const STATE_MAX: usize = 4096;

/// A file system that nobody else changes meanwhile.
pub struct Onto<'a, S> {
    fs: &'a Fs<S>,
    /// The directory that was looked for last.
    near: Option<(Vec<u8>, Ino)>,
    /// The volume that it is, if it is one, and the number of the next commit.
    home: [u8; 16],
    next: Box<dyn Fn() -> u64 + 'a>,
}

/// A path without its last name, and that.
fn parts(path: &[u8]) -> Result<(&[u8], Name<'_>)> {
    let at = path.iter().rposition(|&byte| byte == b'/');
    let (above, name) = at.map_or((&[][..], path), |at| (&path[..at], &path[at + 1..]));
    Ok((above, Name::parse(name)?))
}

impl<'a, S: Store> Onto<'a, S> {
    /// The whole of a volume: its name for machines, and what tells the number of the next commit.
    pub fn of(fs: &'a Fs<S>, home: [u8; 16], next: Box<dyn Fn() -> u64 + 'a>) -> Self {
        Self { fs, near: None, home, next }
    }

    /// What a name leads to. It is not held: it has a name, and nobody else is here to take that away.
    fn lookup(&self, dir: Ino, name: Name<'_>) -> Result<Node> {
        let node = self.fs.lookup(&ROOT, dir, name)?;
        self.fs.forget(node.ino, 1);
        Ok(node)
    }

    fn dir(&mut self, path: &[u8]) -> Result<Ino> {
        if path.is_empty() {
            return Ok(Ino::ROOT);
        }
        if let Some((_, ino)) = self.near.as_ref().filter(|(near, _)| near == path) {
            return Ok(*ino);
        }
        let mut at = Ino::ROOT;
        for name in path.split(|&byte| byte == b'/') {
            let node = self.lookup(at, Name::parse(name)?)?;
            if node.attr.kind != Kind::Directory {
                return Err(Error::NotDirectory);
            }
            at = node.ino;
        }
        self.near = Some((path.to_vec(), at));
        Ok(at)
    }

    fn place<'p>(&mut self, path: &'p [u8]) -> Result<(Ino, Name<'p>)> {
        let (above, name) = parts(path)?;
        Ok((self.dir(above)?, name))
    }

    fn find(&mut self, path: &[u8]) -> Result<Node> {
        if path.is_empty() {
            return Ok(Node { ino: Ino::ROOT, attr: self.fs.getattr(Ino::ROOT)? });
        }
        let (dir, name) = self.place(path)?;
        self.lookup(dir, name)
    }

    fn file(&mut self, path: &[u8]) -> Result<Ino> {
        let node = self.find(path)?;
        if node.attr.kind == Kind::File { Ok(node.ino) } else { Err(Error::Invalid) }
    }

    fn set(&self, ino: Ino, set: &SetAttr) -> Result<()> {
        self.fs.setattr(&ROOT, ino, set).map(drop)
    }

    fn write_all(&self, ino: Ino, at: u64, bytes: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < bytes.len() {
            match self.fs.write(ino, at + done as u64, &bytes[done..], false)? {
                0 => return Err(Error::Io),
                count => done += count,
            }
        }
        Ok(())
    }

    /// The directory of what is kept, if it is there.
    fn own(&self) -> Result<Option<Ino>> {
        match self.lookup(Ino::ROOT, Name::parse(OWN)?) {
            Ok(node) if node.attr.kind == Kind::Directory => Ok(Some(node.ino)),
            Ok(_) => Err(Error::NotDirectory),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn create(&self, dir: Ino, name: Name<'_>, new: New) -> Result<Ino> {
        let node = self.fs.create(&ROOT, dir, name, new)?;
        self.fs.forget(node.ino, 1);
        Ok(node.ino)
    }
}

impl<S: Store> Target for Onto<'_, S> {
    fn kind(&mut self, path: &[u8]) -> Result<Option<Kind>> {
        match self.find(path) {
            Ok(node) => Ok(Some(node.attr.kind)),
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn is_same(&mut self, one: &[u8], other: &[u8]) -> Result<bool> {
        Ok(self.find(one)?.ino == self.find(other)?.ino)
    }

    fn is_empty(&mut self) -> Result<bool> {
        let names = self.fs.getattr(Ino::ROOT)?.size;
        Ok(names == u64::from(self.own()?.is_some()))
    }

    fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        let ((dir, name), (to_dir, to_name)) = (self.place(from)?, self.place(to)?);
        self.near = None;
        let flags = RenameFlags { no_replace: true, ..RenameFlags::default() };
        self.fs.rename(&ROOT, dir, name, to_dir, to_name, flags)
    }

    fn remove(&mut self, path: &[u8], dir: bool) -> Result<()> {
        let (above, name) = self.place(path)?;
        self.near = self.near.take().filter(|_| !dir);
        if dir { self.fs.rmdir(&ROOT, above, name) } else { self.fs.unlink(&ROOT, above, name) }
    }

    fn make(&mut self, path: &[u8], kind: Kind, rdev: u32) -> Result<()> {
        let (dir, name) = self.place(path)?;
        let perm = if kind == Kind::Directory { 0o700 } else { 0o600 };
        let rdev = if matches!(kind, Kind::CharDevice | Kind::BlockDevice) { rdev } else { 0 };
        self.create(dir, name, New { kind, perm, umask: 0, rdev }).map(drop)
    }

    fn symlink(&mut self, path: &[u8], target: &[u8]) -> Result<()> {
        let (dir, name) = self.place(path)?;
        let node = self.fs.symlink(&ROOT, dir, name, target)?;
        self.fs.forget(node.ino, 1);
        Ok(())
    }

    fn link(&mut self, of: &[u8], path: &[u8]) -> Result<()> {
        let node = self.find(of)?;
        let (dir, name) = self.place(path)?;
        self.fs.link(&ROOT, node.ino, dir, name)?;
        self.fs.forget(node.ino, 1);
        Ok(())
    }

    fn size(&mut self, path: &[u8], size: u64) -> Result<()> {
        let ino = self.file(path)?;
        self.set(ino, &SetAttr { size: Some(size), ..SetAttr::default() })
    }

    fn write(&mut self, path: &[u8], at: u64, bytes: &[u8]) -> Result<()> {
        let ino = self.file(path)?;
        self.write_all(ino, at, bytes)
    }

    fn hole(&mut self, path: &[u8], at: u64, len: u64) -> Result<()> {
        let ino = self.file(path)?;
        self.fs.fallocate(&ROOT, ino, Allocate::Punch, at, len)
    }

    fn strip(&mut self, path: &[u8]) -> Result<()> {
        let (ino, mut names) = (self.find(path)?.ino, Vec::new());
        self.fs.listxattr(&ROOT, ino, &mut names)?;
        for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            self.fs.removexattr(&ROOT, ino, XattrName::parse(name)?)?;
        }
        Ok(())
    }

    fn xattr(&mut self, path: &[u8], name: &[u8], value: &[u8]) -> Result<()> {
        let ino = self.find(path)?.ino;
        self.fs.setxattr(&ROOT, ino, XattrName::parse(name)?, value, XattrMode::Any, false)
    }

    fn attr(&mut self, path: &[u8], meta: &Meta) -> Result<()> {
        let node = self.find(path)?;
        let Meta { perm, uid, gid, atime, mtime } = *meta;
        // chown takes set-id bits away, so each comes in its turn.
        self.set(node.ino, &SetAttr { uid: Some(uid), gid: Some(gid), ..SetAttr::default() })?;
        let perm = (node.attr.kind != Kind::Symlink).then_some(perm);
        self.set(node.ino, &SetAttr { perm, ..SetAttr::default() })?;
        let (atime, mtime) = (Some(SetTime::At(atime)), Some(SetTime::At(mtime)));
        self.set(node.ino, &SetAttr { atime, mtime, ..SetAttr::default() })
    }

    fn flags(&mut self, path: &[u8], flags: Flags) -> Result<()> {
        let ino = self.find(path)?.ino;
        self.fs.set_flags(&ROOT, ino, flags)
    }

    fn aside(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(dir) = self.own()? else { return Ok(None) };
        let mut found = None;
        self.fs.store().entries(dir, Cursor::START, false, &mut |listed| {
            let name = listed.name.bytes();
            if name == STATE {
                return Flow::Continue(());
            }
            found = Some([OWN, b"/", name].concat());
            Flow::Break(())
        })?;
        Ok(found)
    }

    fn home(&self) -> ([u8; 16], u64) {
        (self.home, (self.next)())
    }

    fn state(&mut self) -> Result<Vec<u8>> {
        let Some(dir) = self.own()? else { return Ok(Vec::new()) };
        let node = match self.lookup(dir, Name::parse(STATE)?) {
            Err(Error::NotFound) => return Ok(Vec::new()),
            found => found?,
        };
        let mut bytes = vec![0; STATE_MAX];
        let len = self.fs.peek(node.ino, 0, &mut bytes)?;
        bytes.truncate(len);
        Ok(bytes)
    }

    fn keep(&mut self, state: &[u8]) -> Result<()> {
        let new = |kind, perm| New { kind, perm, umask: 0, rdev: 0 };
        let dir = match self.own()? {
            Some(dir) => dir,
            None => self.create(Ino::ROOT, Name::parse(OWN)?, new(Kind::Directory, 0o700))?,
        };
        let name = Name::parse(STATE)?;
        let ino = match self.lookup(dir, name) {
            Ok(node) => node.ino,
            Err(Error::NotFound) => self.create(dir, name, new(Kind::File, 0o600))?,
            Err(error) => return Err(error),
        };
        // What was done is safe before it is said to be, and this not before it is answered.
        self.fs.sync()?;
        self.write_all(ino, 0, state)?;
        self.fs.sync()
    }
}
