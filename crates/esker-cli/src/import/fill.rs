//! Making inodes in a file system that nobody sees yet, and keeping count.
//!
//! Above: `tree` and `unpack`. Below: [`Fs`], called as root. Invariant: what a later step would
//! disturb is set last, by [`Filler::close`]: a directory's times and default ACL, which its
//! entries would move or inherit, and the flags that forbid further change.

use esker::posix::{Caller, Fs, New, SetAttr, SetTime, XattrMode};
use esker::store::Store;
use esker::{Error, Flags, Ino, Kind, Name, Result, Time, XattrName};

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

/// Why an inode could not be finished.
#[derive(Debug)]
pub enum Unfinished {
    /// The file system refused.
    Refused(Error),
    /// It refused the extended attribute of this name.
    Xattr(Vec<u8>, Error),
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
    late: Vec<(Ino, Vec<u8>, Meta)>,
    flags: Vec<(Ino, Vec<u8>, Flags)>,
    /// So far.
    pub tally: Tally,
}

impl<'a, S: Store> Filler<'a, S> {
    /// Nothing filled in yet.
    pub fn new(fs: &'a Fs<S>) -> Self {
        Self { fs, late: Vec::new(), flags: Vec::new(), tally: Tally::default() }
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
        let (major, minor) = device;
        let rdev = (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12);
        let rdev = if matches!(kind, Kind::CharDevice | Kind::BlockDevice) { rdev } else { 0 };
        let new = New { kind, perm: 0o600, umask: 0, rdev };
        let node = self.fs.create(&ROOT, dir, name, new)?;
        self.fs.forget(node.ino, 1);
        *match kind {
            Kind::File => &mut self.tally.files,
            Kind::Directory => &mut self.tally.directories,
            _ => &mut self.tally.specials,
        } += 1;
        Ok(node.ino)
    }

    /// A new symbolic link.
    pub fn symlink(&mut self, dir: Ino, name: Name<'_>, target: &[u8]) -> Result<Ino> {
        if target.contains(&0) {
            return Err(Error::Invalid);
        }
        let node = self.fs.symlink(&ROOT, dir, name, target)?;
        self.fs.forget(node.ino, 1);
        self.tally.symlinks += 1;
        Ok(node.ino)
    }

    /// A further name of an inode.
    pub fn link(&mut self, ino: Ino, dir: Ino, name: Name<'_>) -> Result<()> {
        self.fs.link(&ROOT, ino, dir, name)?;
        self.fs.forget(ino, 1);
        self.tally.hard_links += 1;
        Ok(())
    }

    /// Takes a name away that does not lead to a directory.
    pub fn unlink(&mut self, dir: Ino, name: Name<'_>) -> Result<()> {
        self.fs.unlink(&ROOT, dir, name)
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

    /// Gives an inode that is no directory its attributes, all but the flags, which come last of
    /// all.
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

    /// Gives a directory its attributes when everything is there; later words about the same one
    /// win.
    pub fn finish_late(&mut self, ino: Ino, path: &[u8], meta: Meta) {
        self.late.push((ino, path.to_vec(), meta));
    }

    /// Does what had to wait, and tells how much there is. A failure comes with its path.
    pub fn close(mut self) -> std::result::Result<Tally, (Vec<u8>, Unfinished)> {
        for (ino, path, meta) in std::mem::take(&mut self.late) {
            let finished = self.finish(ino, Kind::Directory, &path, &meta);
            finished.map_err(|error| (path, error))?;
        }
        for (ino, path, flags) in self.flags {
            let set = self.fs.set_flags(&ROOT, ino, flags);
            set.map_err(|error| (path, Unfinished::Refused(error)))?;
        }
        Ok(self.tally)
    }
}

/// What to do about a refusal by the file system that is being filled.
pub fn remedy(error: Error) -> &'static str {
    match error {
        Error::NoSpace | Error::NoMemory => "give it more room with -o size=",
        Error::FileTooBig => "allow larger files with -o file_size=",
        _ => "leave it out of the source",
    }
}
