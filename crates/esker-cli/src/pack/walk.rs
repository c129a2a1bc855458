//! A tree of this machine walked in the order of its names, and given to the packer.
//!
//! Below: `import::source`. Invariant: nothing is followed; a file is stored as it was read, and one that changed
//! meanwhile, vanished or cannot be read is named.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use esker::attr::device_number;
use esker::{Flags, Kind, Time};
use esker_image::pack::{Error, Incoming, Meta, NodeId};
use rustix::fs::Stat;
use rustix::io::Errno;

use super::Rules;
use super::inputs::First;
use super::work::Work;
use crate::failure::{path_shown, said};
use crate::import::source::{self, time};

/// Bytes that are moved at a time.
const CHUNK: usize = 1 << 20;

/// What to take and how.
pub struct Plan<'a> {
    /// What to leave out.
    pub rules: &'a Rules,
    /// Stay on the file system of each root.
    pub one_file_system: bool,
    /// Owner and group that everything gets.
    pub owner: (Option<u32>, Option<u32>),
    /// The time that everything gets.
    pub time: Option<Time>,
    /// The latest that anything may have.
    pub time_max: Option<Time>,
    /// Permission bits that are taken away.
    pub umask: u16,
    /// Permission bits that everything gets before that.
    pub perms: Perms,
    /// Leave out extended attributes.
    pub no_xattrs: bool,
    /// Ask when everything was born, which takes a call for each.
    pub births: bool,
    /// The directory of the output: it must not be in the tree.
    pub output: Option<(u64, u64)>,
}

/// Permission bits that directories and everything else get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Perms {
    /// Directories.
    pub directories: Option<u16>,
    /// Everything else.
    pub files: Option<u16>,
}

impl<'a> Plan<'a> {
    /// All that these rules take, as it is.
    pub fn plain(rules: &'a Rules) -> Self {
        Self {
            rules,
            one_file_system: false,
            owner: (None, None),
            time: None,
            time_max: None,
            umask: 0,
            perms: Perms::default(),
            no_xattrs: false,
            births: false,
            output: None,
        }
    }

    /// Whether everything is taken as it is.
    pub fn changes_nothing(&self) -> bool {
        let times = self.time.is_none() && self.time_max.is_none();
        let bits = self.umask == 0 && self.perms == Perms::default();
        let all = *self.rules == Rules::default() && !self.no_xattrs;
        all && times && bits && self.owner == (None, None)
    }

    /// The attributes that something gets.
    pub fn rewrite(&self, mut meta: Meta) -> Meta {
        (meta.uid, meta.gid) = (self.owner.0.unwrap_or(meta.uid), self.owner.1.unwrap_or(meta.gid));
        if let Some(time) = self.time {
            (meta.mtime, meta.others) = (time, None);
        }
        if let Some(max) = self.time_max {
            let others = meta.others.iter_mut().flat_map(|others| others.iter_mut());
            others.chain([&mut meta.mtime]).for_each(|time| *time = (*time).min(max));
        }
        let directory = meta.kind == Kind::Directory;
        let perms = if directory { self.perms.directories } else { self.perms.files };
        if meta.kind != Kind::Symlink {
            meta.perm = perms.unwrap_or(meta.perm) & !self.umask;
        }
        if self.no_xattrs {
            meta.xattrs.clear();
        }
        meta
    }
}

/// Why one thing was not taken.
pub(super) enum Trouble {
    Unreadable(Errno),
    Packing(Error),
}

impl From<Errno> for Trouble {
    fn from(errno: Errno) -> Self {
        Self::Unreadable(errno)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Packing(error)
    }
}

/// A directory that is being taken in.
pub(super) struct Level {
    pub source: OwnedFd,
    pub node: NodeId,
    pub name: CString,
    /// Names still to take, the next one last.
    names: Vec<CString>,
}

/// Where things with several names went, by device and number.
pub type Links = HashMap<(u64, u64), NodeId>;

/// A directory of this machine on its way into an image.
pub struct Root<'a> {
    /// Where it is.
    pub path: &'a Path,
    /// Where it goes.
    pub top: NodeId,
    /// What is taken, and how.
    pub plan: &'a Plan<'a>,
    /// What is left out besides, below the directory.
    pub out: &'a HashSet<Vec<u8>>,
}

pub(super) struct Walk<'a> {
    root: &'a Root<'a>,
    pub work: &'a mut Work,
    pub path: PathBuf,
    device: u64,
    pub levels: Vec<Level>,
    /// Only what a list names is taken: directories are not listed.
    listed: bool,
    /// What is taken is wanted first.
    hot: bool,
    links: &'a mut Links,
    buffer: Vec<u8>,
}

/// Packs a tree, but for what is there.
pub fn gather(root: &Root<'_>, links: &mut Links, work: &mut Work) -> Result<(), Error> {
    let mut walk = Walk::new(root, links, work, false)?;
    walk.run()
}

/// Packs these files of a tree.
pub fn gather_first(
    root: &Root<'_>,
    files: &[First],
    links: &mut Links,
    work: &mut Work,
) -> Result<(), Error> {
    let mut walk = Walk::new(root, links, work, true)?;
    for file in files {
        walk.hot = file.hot;
        walk.named(&file.path)?;
        walk.work.tick();
        if walk.work.gathered.meets_output {
            break;
        }
    }
    Ok(())
}

#[expect(clippy::useless_conversion, reason = "the fields differ between machines")]
fn identity(stat: &Stat) -> (u64, u64) {
    (u64::from(stat.st_dev), u64::from(stat.st_ino))
}

impl<'a> Walk<'a> {
    /// In the root of the tree.
    pub fn new(
        root: &'a Root<'a>,
        links: &'a mut Links,
        work: &'a mut Work,
        listed: bool,
    ) -> Result<Self, Error> {
        source::allow_many_files();
        let mut walk = Self {
            root,
            work,
            path: root.path.to_path_buf(),
            device: 0,
            levels: Vec::new(),
            listed,
            hot: false,
            links,
            buffer: vec![0; CHUNK],
        };
        let opened = source::open_root(root.path).map_err(Trouble::from);
        let entered = opened.and_then(|(fd, stat)| {
            walk.device = identity(&stat).0;
            walk.enter(c"", fd, &stat, root.top)
        });
        walk.note(entered)?;
        Ok(walk)
    }

    /// Leaves directories until it is in so many.
    pub fn leave(&mut self, depth: usize) {
        while self.levels.len() > depth {
            self.levels.pop();
            self.path.pop();
        }
    }

    fn run(&mut self) -> Result<(), Error> {
        while let Some(level) = self.levels.last_mut() {
            let Some(name) = level.names.pop() else {
                self.levels.pop();
                self.path.pop();
                continue;
            };
            self.path.push(source::os(&name));
            let depth = self.levels.len();
            let taken = self.step(&name);
            self.note(taken)?;
            if self.levels.len() == depth {
                self.path.pop();
            }
            if self.work.gathered.meets_output {
                return Ok(());
            }
            self.work.tick();
        }
        Ok(())
    }

    /// Something was taken, or names why it was not.
    pub fn note(&mut self, taken: Result<(), Trouble>) -> Result<(), Error> {
        match taken {
            Ok(()) => Ok(()),
            Err(Trouble::Unreadable(errno)) => {
                self.trouble(&said(&errno.into()));
                Ok(())
            }
            // A name or target that the format does not hold; everything else ends the work.
            Err(Trouble::Packing(Error::Tree(error))) if error != esker::Error::NoSpace => {
                self.trouble(error.text());
                Ok(())
            }
            Err(Trouble::Packing(error)) => Err(error),
        }
    }

    fn trouble(&mut self, why: &str) {
        self.work.gathered.troubles.push(format!("{}: {why}", path_shown(&self.path)));
    }

    /// The path below the root, without a `/` in front.
    fn below(&self) -> &[u8] {
        let path = self.path.as_os_str().as_encoded_bytes();
        let below = path.get(self.root.path.as_os_str().len()..).unwrap_or_default();
        below.strip_prefix(b"/").unwrap_or(below)
    }

    /// Takes a name in the directory at hand; one that is a directory is entered.
    pub fn take(&mut self, name: &CString) -> Result<(), Trouble> {
        let Some(level) = self.levels.last() else { return Ok(()) };
        let (dir, stat) = (level.node, source::stat(&level.source, name)?);
        let Some(kind) = Kind::from_mode(stat.st_mode) else { return Err(Errno::INVAL.into()) };
        let directory = kind == Kind::Directory;
        let out = self.root.out.contains(self.below());
        if out || !self.root.plan.rules.take(self.below(), directory) {
            return Ok(());
        }
        if directory {
            let (fd, stat) = source::open_directory(&level.source, name)?;
            let node = self.work.packer.make(dir, name.as_bytes(), Meta::new(kind, 0o700))?;
            return self.enter(name, fd, &stat, node);
        }
        let links = stat.st_nlink > 1;
        if links && let Some(&known) = self.links.get(&identity(&stat)) {
            return Ok(self.work.packer.link(dir, name.as_bytes(), known)?);
        }
        let node = self.leaf(dir, name, &stat, kind)?;
        if links {
            self.links.insert(identity(&stat), node);
        }
        Ok(())
    }

    fn enter(
        &mut self,
        name: &CStr,
        fd: OwnedFd,
        stat: &Stat,
        node: NodeId,
    ) -> Result<(), Trouble> {
        if self.root.plan.output == Some(identity(stat)) {
            self.work.gathered.meets_output = true;
            return Ok(());
        }
        let meta = self.meta(&fd, c".", Some(&fd), stat, Kind::Directory)?;
        self.work.packer.set(node, &meta)?;
        self.enter_again(name, fd, stat, node)
    }

    /// Enters a directory whose attributes are there.
    pub fn enter_again(
        &mut self,
        name: &CStr,
        fd: OwnedFd,
        stat: &Stat,
        node: NodeId,
    ) -> Result<(), Trouble> {
        let elsewhere = self.root.plan.one_file_system && identity(stat).0 != self.device;
        let names = if elsewhere || self.listed { Vec::new() } else { source::names(&fd)? };
        self.levels.push(Level { source: fd, node, name: name.to_owned(), names });
        Ok(())
    }

    /// Anything but a directory; what cannot be read to its end is taken out again.
    fn leaf(
        &mut self,
        dir: NodeId,
        name: &CString,
        stat: &Stat,
        kind: Kind,
    ) -> Result<NodeId, Trouble> {
        let Some(level) = self.levels.last() else { return Err(Errno::NOENT.into()) };
        let file = match kind {
            Kind::File => Some(source::open_file(&level.source, name, stat)?),
            _ => None,
        };
        let target = match kind {
            Kind::Symlink => Some(source::target(&level.source, name)?),
            _ => None,
        };
        let meta = self.meta(&level.source, name, file.as_ref(), stat, kind)?;
        let node = self.work.packer.make(dir, name.as_bytes(), meta)?;
        let held = match (file, target) {
            (Some(file), _) => self.content(&file, node, stat),
            (_, Some(target)) => {
                self.work.packer.target(node, target.as_bytes()).map_err(Trouble::from)
            }
            _ => Ok(()),
        };
        if let Err(trouble) = held {
            let undone = self.work.packer.unlink(dir, name.as_bytes());
            // A packer that failed does nothing more: what it said first counts.
            return Err(match (trouble, undone) {
                (Trouble::Unreadable(_), Err(error)) => error.into(),
                (trouble, _) => trouble,
            });
        }
        self.work.gathered.files += 1;
        Ok(node)
    }

    fn content(&mut self, file: &OwnedFd, node: NodeId, stat: &Stat) -> Result<(), Trouble> {
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let holes = u64::try_from(stat.st_blocks).unwrap_or(0) < size / 512;
        let mut incoming = if self.hot { Incoming::hot() } else { Incoming::default() };
        let mut at = 0;
        self.work.gathered.slowest.begin(self.path.as_os_str().as_encoded_bytes());
        // No further than the size that it had: a file that grows as fast as it is read has no end.
        while at < size {
            let (from, to) = match holes {
                true => source::next_data(file, at)?.unwrap_or((size, size)),
                false => (at, size),
            };
            let (from, to) = (from.min(size), to.min(size));
            self.work.packer.hole(&mut incoming, from - at)?;
            at = from;
            while at < to {
                let room = CHUNK.min(usize::try_from(to - at).unwrap_or(CHUNK));
                let count = source::read(file, &mut self.buffer[..room], at)?;
                if count == 0 {
                    break;
                }
                self.work.packer.data(&mut incoming, &self.buffer[..count])?;
                at += count as u64;
                self.work.gathered.bytes += count as u64;
                self.work.tick();
            }
            if at < to {
                break;
            }
        }
        self.work.gathered.slowest.end();
        let after = rustix::fs::fstat(file)?;
        let moved = |stat: &Stat| {
            (stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime, stat.st_ctime_nsec)
        };
        if at < size || moved(&after) != moved(stat) {
            self.trouble("it changed while it was read, and is stored as it was read");
        } else if size == 0 && source::read(file, &mut self.buffer[..1], 0).is_ok_and(|n| n > 0) {
            self.trouble("it says that it is empty, as files in /proc do, and is stored so");
        }
        Ok(self.work.packer.end(node, incoming)?)
    }

    fn meta(
        &self,
        dir: &OwnedFd,
        name: &CStr,
        open: Option<&OwnedFd>,
        stat: &Stat,
        kind: Kind,
    ) -> Result<Meta, Trouble> {
        let mtime = time(stat.st_mtime, stat.st_mtime_nsec);
        let atime = time(stat.st_atime, stat.st_atime_nsec);
        let ctime = time(stat.st_ctime, stat.st_ctime_nsec);
        let device = matches!(kind, Kind::CharDevice | Kind::BlockDevice);
        let no_xattrs = self.root.plan.no_xattrs;
        let birth = if self.root.plan.births { source::birth(dir, name) } else { None };
        Ok(self.root.plan.rewrite(Meta {
            kind,
            perm: (stat.st_mode & 0o7777) as u16,
            uid: stat.st_uid,
            gid: stat.st_gid,
            rdev: if device { rdev(stat) } else { 0 },
            flags: open.map_or(Flags(0), source::flags),
            mtime,
            others: Some(Box::new([atime, ctime, birth.unwrap_or(mtime)])),
            xattrs: if no_xattrs { Vec::new() } else { source::xattrs(dir, name)? },
        }))
    }
}

fn rdev(stat: &Stat) -> u32 {
    device_number(rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev))
}
