//! Making inodes in a file system that nobody sees yet, and keeping count.
//!
//! Above: `tree` and `unpack`. Below: [`Fs`], called as root. Invariant: what a later step would
//! disturb is set last, by [`Filler::close`]: when a directory changed, which its entries move, and
//! the flags that forbid further change. What waits for that takes a few bytes for each inode, so
//! that the size of the file system bounds it too.

use std::collections::{HashMap, HashSet};

use esker::attr::device_number;
use esker::posix::{Caller, Fs, New, SetAttr, SetTime, XattrMode};
use esker::store::Store;
use esker::{Error, Flags, Ino, Kind, Name, Result, Time, XattrName};

use super::acl;

const ROOT: Caller<'static> = Caller::ROOT;

/// Attributes to give to an inode.
#[derive(Clone, Debug, Default)]
pub struct Meta {
    /// Permission bits.
    pub perm: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last read; now, if not said.
    pub atime: Option<Time>,
    /// Last change of content.
    pub mtime: Time,
    /// Extended attributes, ACLs among them.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// chattr flags.
    pub flags: Flags,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Regular files.
    pub files: u64,
    /// Directories, without the root.
    pub directories: u64,
    /// Symbolic links.
    pub symlinks: u64,
    /// Devices, pipes and sockets.
    pub specials: u64,
    /// Further names of an inode.
    pub hard_links: u64,
    /// Bytes of data, holes not counted.
    pub bytes: u64,
}

impl Tally {
    /// Files and bytes.
    pub const fn seen(&self) -> (u64, u64) {
        (self.files, self.bytes)
    }
}

impl Tally {
    /// How many there are of one kind.
    const fn of(&mut self, kind: Kind) -> &mut u64 {
        match kind {
            Kind::File => &mut self.files,
            Kind::Directory => &mut self.directories,
            Kind::Symlink => &mut self.symlinks,
            _ => &mut self.specials,
        }
    }
}

/// Why an inode could not be finished.
#[derive(Debug)]
pub enum Unfinished {
    /// The file system refused.
    Refused(Error),
    /// It refused the extended attribute of this name.
    Xattr(Vec<u8>, Error),
    /// It refused to set when a directory changed.
    Times(Error),
    /// It refused the flags of what lies at this path.
    Flags(Vec<u8>, Error),
}

/// The attributes are set, or not.
pub type Finished = std::result::Result<(), Unfinished>;

impl From<Error> for Unfinished {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

/// Fills a file system.
pub struct Filler<'a, S> {
    fs: &'a Fs<S>,
    /// When directories changed, before their entries came.
    mtimes: HashMap<Ino, Time>,
    /// Directories that would hand a default ACL to their entries, who come with their own.
    heritable: HashSet<Ino>,
    flags: Vec<(Ino, Vec<u8>, Flags)>,
    /// So far.
    pub tally: Tally,
}

impl<'a, S: Store> Filler<'a, S> {
    /// Nothing filled in yet.
    pub fn new(fs: &'a Fs<S>) -> Self {
        Self {
            fs,
            mtimes: HashMap::new(),
            heritable: HashSet::new(),
            flags: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// The inode under a name, if there is one.
    pub fn find(&self, dir: Ino, name: Name<'_>) -> Result<Option<(Ino, Kind)>> {
        match self.fs.lookup(&ROOT, dir, name) {
            Ok(node) => {
                // It has a name, and nobody else is here to take that away: no hold is needed.
                self.fs.forget(node.ino, 1);
                Ok(Some((node.ino, node.attr.kind)))
            }
            Err(Error::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A new inode that is no symbolic link.
    pub fn make(
        &mut self,
        dir: Ino,
        name: Name<'_>,
        kind: Kind,
        device: (u32, u32),
    ) -> Result<Ino> {
        let rdev = device_number(device.0, device.1);
        let rdev = if matches!(kind, Kind::CharDevice | Kind::BlockDevice) { rdev } else { 0 };
        let new = New { kind, perm: 0o600, umask: 0, rdev };
        let node = self.fs.create(&ROOT, dir, name, new)?;
        self.fs.forget(node.ino, 1);
        *self.tally.of(kind) += 1;
        if self.heritable.contains(&dir) {
            self.disinherit(node.ino, kind)?;
        }
        Ok(node.ino)
    }

    /// Takes away the ACLs that a new inode got from its directory.
    fn disinherit(&self, ino: Ino, kind: Kind) -> Result<()> {
        let names = if kind == Kind::Directory { &acl::NAMES[..] } else { &acl::NAMES[..1] };
        for name in names {
            match self.fs.removexattr(&ROOT, ino, XattrName::parse(name)?) {
                Ok(()) | Err(Error::NoData) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A new symbolic link.
    pub fn symlink(&mut self, dir: Ino, name: Name<'_>, target: &[u8]) -> Result<Ino> {
        if target.contains(&0) {
            return Err(Error::Invalid);
        }
        let node = self.fs.symlink(&ROOT, dir, name, target)?;
        self.fs.forget(node.ino, 1);
        *self.tally.of(Kind::Symlink) += 1;
        Ok(node.ino)
    }

    /// A further name of an inode.
    pub fn link(&mut self, ino: Ino, dir: Ino, name: Name<'_>) -> Result<()> {
        self.fs.link(&ROOT, ino, dir, name)?;
        self.fs.forget(ino, 1);
        self.tally.hard_links += 1;
        Ok(())
    }

    /// Takes a name away that does not lead to a directory, and what it led to out of the count.
    pub fn unlink(&mut self, dir: Ino, name: Name<'_>) -> Result<()> {
        let node = self.fs.lookup(&ROOT, dir, name)?;
        self.fs.forget(node.ino, 1);
        if node.attr.nlink > 1 {
            self.fs.unlink(&ROOT, dir, name)?;
            self.tally.hard_links -= 1;
            return Ok(());
        }
        let kind = node.attr.kind;
        let bytes = if kind == Kind::File { self.data(node.ino, node.attr.size)? } else { 0 };
        self.fs.unlink(&ROOT, dir, name)?;
        *self.tally.of(kind) -= 1;
        // Holes are known in units of 512 bytes, so a sparse file may seem to hold more than it was
        // given.
        self.tally.bytes = self.tally.bytes.saturating_sub(bytes);
        Ok(())
    }

    /// Bytes of a file that are no hole.
    fn data(&self, ino: Ino, size: u64) -> Result<u64> {
        let (mut bytes, mut at) = (0, 0);
        while at < size {
            let from = match self.fs.seek_data(ino, at) {
                Err(Error::NoSuchOffset) => break,
                from => from?,
            };
            at = self.fs.seek_hole(ino, from)?;
            bytes += at - from;
        }
        Ok(bytes)
    }

    /// Bytes of a file.
    pub fn write(&mut self, ino: Ino, at: u64, source: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < source.len() {
            let count = self.fs.write(ino, at + done as u64, &source[done..], false)?;
            if count == 0 {
                return Err(Error::Io);
            }
            done += count;
        }
        self.tally.bytes += source.len() as u64;
        Ok(())
    }

    /// A file's size; what was not written is hole.
    pub fn resize(&mut self, ino: Ino, size: u64) -> Result<()> {
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        self.fs.setattr(&ROOT, ino, &set).map(drop)
    }

    /// Gives an inode its attributes, all but the flags, which come last of all; a directory once its
    /// entries are there. `path` is for messages about flags.
    pub fn finish(&mut self, ino: Ino, kind: Kind, path: &[u8], meta: &Meta) -> Finished {
        // chown takes set-id bits away and the ACL moves the permission bits, so each comes in its
        // turn.
        let perm = (kind != Kind::Symlink).then_some(meta.perm);
        let owner = SetAttr { uid: Some(meta.uid), gid: Some(meta.gid), ..SetAttr::default() };
        self.fs.setattr(&ROOT, ino, &owner)?;
        self.fs.setattr(&ROOT, ino, &SetAttr { perm, ..SetAttr::default() })?;
        for (name, value) in &meta.xattrs {
            let set = XattrName::parse(name)
                .and_then(|name| self.fs.setxattr(&ROOT, ino, name, value, XattrMode::Any, false));
            set.map_err(|error| Unfinished::Xattr(name.clone(), error))?;
        }
        let atime = meta.atime.map(SetTime::At);
        let times = SetAttr { atime, mtime: Some(SetTime::At(meta.mtime)), ..SetAttr::default() };
        self.fs.setattr(&ROOT, ino, &times)?;
        if meta.flags != Flags::default() {
            self.flags.push((ino, path.to_vec(), meta.flags));
        }
        Ok(())
    }

    /// Gives a directory its attributes while entries may still come, which get nothing from it; a
    /// later word about the same one wins.
    pub fn finish_early(&mut self, ino: Ino, path: &[u8], meta: &Meta) -> Finished {
        self.finish(ino, Kind::Directory, path, meta)?;
        if meta.xattrs.iter().any(|(name, _)| name == acl::NAMES[1]) {
            self.heritable.insert(ino);
        }
        self.mtimes.insert(ino, meta.mtime);
        Ok(())
    }

    /// Does what had to wait, and tells how much there is.
    pub fn close(self) -> std::result::Result<Tally, Unfinished> {
        for (ino, mtime) in self.mtimes {
            let set = SetAttr { mtime: Some(SetTime::At(mtime)), ..SetAttr::default() };
            self.fs.setattr(&ROOT, ino, &set).map_err(Unfinished::Times)?;
        }
        for (ino, path, flags) in self.flags {
            let set = self.fs.set_flags(&ROOT, ino, flags);
            set.map_err(|error| Unfinished::Flags(path, error))?;
        }
        Ok(self.tally)
    }
}

/// What to do about a refusal by the file system that is being filled.
pub fn remedy(error: Error) -> &'static str {
    match error {
        Error::NoSpace | Error::NoMemory => {
            "give it more room: -o size= of a mount, --size of a volume"
        }
        Error::FileTooBig => "allow larger files with -o file_size=",
        _ => "leave it out of the source",
    }
}
