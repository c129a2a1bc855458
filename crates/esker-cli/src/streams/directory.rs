//! A directory of this machine as the target of a stream. The stream may be hostile, and so may be what is in the
//! directory already.
//!
//! Above: `streams`. Below: the system. Invariant: every step goes from an open directory to one name in it and follows
//! nothing, and what is changed of something is changed of what was looked at, whatever has its name by then; what this
//! machine cannot give to something is left out and told. Only one receiver at a time is at work here.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use esker::attr::device_parts;
use esker::{Error, Flags, Kind, Result, Time};
use esker_volume::stream::{Meta, OWN, Target};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, FlockOperation, Gid, IFlags, Mode, OFlags, RenameFlags,
    Stat, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::Errno;

use crate::failure::shown;
use crate::import::source;

const DIRECTORY: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const OPEN: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
/// More than what is kept.
const STATE_MAX: u64 = 4096;
/// All names of extended attributes of something are no longer.
const XATTRS_LEN: usize = 64 << 10;
/// With so much room left a refusal for want of room is of something else.
const ROOM_MIN: u64 = 16 << 20;
/// Zeros that are written at a time.
const ZEROS_LEN: usize = 64 << 10;
/// Directories that are open to their owner at a time, and those on one path more.
const LENT_MAX: usize = 64;
/// What was left out is told of so many.
const LEFT_OUT_MAX: usize = 20;

/// All errors that there are in a word of the core.
const ERRORS: [Error; 20] = [
    Error::NotPermitted,
    Error::NotFound,
    Error::TooBig,
    Error::NoMemory,
    Error::AccessDenied,
    Error::Busy,
    Error::Exists,
    Error::CrossDevice,
    Error::NotDirectory,
    Error::IsDirectory,
    Error::Invalid,
    Error::FileTooBig,
    Error::NoSpace,
    Error::ReadOnly,
    Error::TooManyLinks,
    Error::Range,
    Error::NameTooLong,
    Error::NotEmpty,
    Error::TooManySymlinks,
    Error::NotSupported,
];

fn core(errno: Errno) -> Error {
    let found = ERRORS.into_iter().find(|error| error.errno() == errno.raw_os_error());
    found.unwrap_or(Error::Io)
}

fn io(error: &std::io::Error) -> Error {
    Errno::from_io_error(error).map_or(Error::Io, core)
}

/// A name in an open directory.
struct Place {
    dir: OwnedFd,
    name: CString,
}

/// Something that was found under a name, whatever has that name by now.
struct Node {
    fd: OwnedFd,
    stat: Stat,
}

impl Place {
    fn kind(&self) -> rustix::io::Result<FileType> {
        let stat = rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(stat.st_mode))
    }

    fn node(&self) -> rustix::io::Result<Node> {
        let flags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
        Node::of(rustix::fs::openat(&self.dir, &self.name, flags, Mode::empty())?)
    }
}

impl Node {
    fn of(fd: OwnedFd) -> rustix::io::Result<Self> {
        let stat = rustix::fs::fstat(&fd)?;
        Ok(Self { fd, stat })
    }

    /// A way to it that leads to nothing else.
    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd())
    }

    fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// Opens it. It is a file or a directory: to open anything else may do something.
    fn open(&self, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        if !matches!(self.kind(), FileType::RegularFile | FileType::Directory) {
            return Err(Errno::OPNOTSUPP);
        }
        let flags = flags.union(OPEN).difference(OFlags::NOFOLLOW);
        rustix::fs::open(self.path(), flags, Mode::empty())
    }

    fn set_mode(&self, mode: Mode) -> rustix::io::Result<()> {
        rustix::fs::chmodat(CWD, self.path(), mode, AtFlags::empty())
    }

    /// Its permission bits.
    fn mode(&self) -> Mode {
        Mode::from_raw_mode(self.stat.st_mode)
    }

    fn is(&self, other: &Self) -> bool {
        (self.stat.st_dev, self.stat.st_ino) == (other.stat.st_dev, other.stat.st_ino)
    }

    /// Does something that needs to be allowed, which it is meanwhile.
    fn allowed<T>(
        &self,
        is_root: bool,
        mut change: impl FnMut() -> rustix::io::Result<T>,
    ) -> rustix::io::Result<T> {
        match change() {
            Err(Errno::ACCESS) if !is_root && self.kind() != FileType::Symlink => {
                self.set_mode(self.mode() | Mode::RUSR | Mode::WUSR)?;
                let done = change();
                self.set_mode(self.mode())?;
                done
            }
            done => done,
        }
    }
}

/// A directory in which nobody else works meanwhile.
pub struct Directory {
    root: OwnedFd,
    /// The file that was written last.
    file: Option<(Vec<u8>, File)>,
    is_root: bool,
    /// Directories that are open to their owner until what was done is kept.
    lent: Vec<Node>,
    /// What could not be given to what, and how often that was.
    pub left_out: (Vec<String>, u64),
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.give_back();
    }
}

impl Directory {
    /// This one.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let flags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);
        let root = rustix::fs::open(path, flags, Mode::empty())?;
        let is_root = rustix::process::geteuid().is_root();
        Ok(Self { root, file: None, is_root, lent: Vec::new(), left_out: (Vec::new(), 0) })
    }

    /// For nobody else as long as it is open; whether it is.
    pub fn lock(&self) -> std::io::Result<bool> {
        match rustix::fs::flock(&self.root, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Ok(false),
            locked => Ok(locked.map(|()| true)?),
        }
    }

    fn root(&self) -> Result<OwnedFd> {
        self.root.try_clone().map_err(|error| io(&error))
    }

    /// Who owns a directory and is not root may have to allow himself what is done in it.
    fn lend(&mut self, dir: &OwnedFd) -> Result<()> {
        if self.is_root {
            return Ok(());
        }
        let node = Node::of(dir.try_clone().map_err(|error| io(&error))?).map_err(core)?;
        let is_own = node.stat.st_uid == rustix::process::geteuid().as_raw();
        if is_own && node.kind() == FileType::Directory && !node.mode().contains(Mode::RWXU) {
            node.set_mode(node.mode() | Mode::RWXU).map_err(core)?;
            self.lent.push(node);
        }
        Ok(())
    }

    fn give_back(&mut self) {
        for node in self.lent.drain(..) {
            // It was his own a moment ago.
            let _ = node.set_mode(node.mode());
        }
    }

    /// Each is an open file, of which there are not many. Nothing may be on its way in one of them.
    fn lend_no_more(&mut self) {
        if self.lent.len() >= LENT_MAX {
            self.give_back();
        }
    }

    fn place(&mut self, path: &[u8]) -> Result<Place> {
        let c_name = |name: &[u8]| CString::new(name).map_err(|_| Error::Invalid);
        if path.is_empty() {
            return Ok(Place { dir: self.root()?, name: c_name(b".")? });
        }
        let mut names: Vec<_> = path.split(|&byte| byte == b'/').collect();
        let last = names.pop().unwrap_or_default();
        let mut dir = self.root()?;
        self.lend(&dir)?;
        for name in names {
            let next = rustix::fs::openat(&dir, c_name(name)?, DIRECTORY, Mode::empty());
            dir = next.map_err(core)?;
            self.lend(&dir)?;
        }
        Ok(Place { dir, name: c_name(last)? })
    }

    fn node(&mut self, path: &[u8]) -> Result<Node> {
        self.lend_no_more();
        self.place(path)?.node().map_err(core)
    }

    /// A regular file, to be written.
    fn file(&mut self, path: &[u8]) -> Result<&File> {
        if self.file.as_ref().is_none_or(|(own, _)| own != path) {
            let node = self.node(path)?;
            if node.kind() != FileType::RegularFile {
                return Err(Error::Invalid);
            }
            let file = node.allowed(self.is_root, || node.open(OFlags::RDWR)).map_err(core)?;
            self.file = Some((path.to_vec(), File::from(file)));
        }
        self.file.as_ref().map(|(_, file)| file).ok_or(Error::Io)
    }

    /// What cannot be given here is left out, and told; whether it was given.
    fn given(&mut self, path: &[u8], what: &str, done: rustix::io::Result<()>) -> Result<bool> {
        match done {
            Err(Errno::OPNOTSUPP | Errno::PERM | Errno::NOTTY | Errno::INVAL | Errno::NOSYS) => {
                self.left_out.1 += 1;
                if self.left_out.0.len() < LEFT_OUT_MAX {
                    self.left_out.0.push(format!("{what} of /{}", shown(path)));
                }
                Ok(false)
            }
            done => done.map(|()| true).map_err(core),
        }
    }

    /// Some file systems have little room for an extended attribute, however much they have for all else.
    fn small(&self, done: rustix::io::Result<()>) -> rustix::io::Result<()> {
        match done {
            Err(Errno::TOOBIG | Errno::RANGE) => Err(Errno::OPNOTSUPP),
            Err(Errno::NOSPC) => {
                let found = rustix::fs::fstatvfs(&self.root)?;
                let room = found.f_bavail.saturating_mul(found.f_frsize);
                Err(if room > ROOM_MIN { Errno::OPNOTSUPP } else { Errno::NOSPC })
            }
            done => done,
        }
    }

    /// Owner and group, or the group alone; whether both were given.
    fn own_by(&mut self, path: &[u8], node: &Node, meta: &Meta) -> Result<bool> {
        let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
        let set = |uid| rustix::fs::chownat(CWD, node.path(), uid, Some(gid), AtFlags::empty());
        let both = set(Some(uid));
        if both.is_err() {
            // What there is of it is better than nothing, and both were left out if this fails.
            let _ = set(None);
        }
        self.given(path, "the owner", both)
    }

    fn own(&self) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::DIRECTORY.union(OPEN);
        rustix::fs::openat(&self.root, OsStr::from_bytes(OWN), flags, Mode::empty())
    }

    /// Zeros where a file system makes no holes, up to the end of the file.
    fn zeros(&mut self, path: &[u8], at: u64, len: u64) -> Result<()> {
        let file = self.file(path)?;
        let size = file.metadata().map_err(|error| io(&error))?.len();
        let (mut at, end) = (at, at.saturating_add(len).min(size));
        let zeros = [0; ZEROS_LEN];
        while at < end {
            let some = (end - at).min(ZEROS_LEN as u64) as usize;
            file.write_all_at(&zeros[..some], at).map_err(|error| io(&error))?;
            at += some as u64;
        }
        Ok(())
    }
}

/// Names of extended attributes.
fn xattr_names(node: &Node) -> rustix::io::Result<Vec<Vec<u8>>> {
    let mut list = vec![0; XATTRS_LEN];
    let len = match rustix::fs::listxattr(node.path(), &mut list[..]) {
        Err(Errno::OPNOTSUPP) => 0,
        found => found?,
    };
    let names = list[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(<[u8]>::to_vec).collect())
}

impl Target for Directory {
    fn kind(&mut self, path: &[u8]) -> Result<Option<Kind>> {
        self.lend_no_more();
        let found = self.place(path).and_then(|place| place.kind().map_err(core));
        Ok(Some(match found {
            Err(Error::NotFound) => return Ok(None),
            Err(error) => return Err(error),
            Ok(kind) => Kind::from_mode(kind.as_raw_mode()).ok_or(Error::Invalid)?,
        }))
    }

    fn is_same(&mut self, one: &[u8], other: &[u8]) -> Result<bool> {
        Ok(self.node(one)?.is(&self.node(other)?))
    }

    /// Where a file system was made there is a directory for what is found again.
    fn is_empty(&mut self) -> Result<bool> {
        for name in source::names(&self.root).map_err(core)? {
            let is_found = name.as_bytes() == b"lost+found"
                && source::open_directory(&self.root, &name)
                    .and_then(|(dir, _)| source::names(&dir))
                    .is_ok_and(|names| names.is_empty());
            if name.as_bytes() != OWN && !is_found {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        self.file = None;
        let (from, to) = (self.place(from)?, self.place(to)?);
        // A directory that goes elsewhere has another one above it then, which is a change of it.
        self.lend(&from.node().map_err(core)?.fd)?;
        let rename =
            |flags| rustix::fs::renameat_with(&from.dir, &from.name, &to.dir, &to.name, flags);
        match rename(RenameFlags::NOREPLACE) {
            // Some file systems cannot promise that; nothing was there when somebody looked.
            Err(Errno::INVAL) => rename(RenameFlags::empty()),
            done => done,
        }
        .map_err(core)
    }

    fn remove(&mut self, path: &[u8], dir: bool) -> Result<()> {
        self.file = None;
        let place = self.place(path)?;
        let flags = if dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        rustix::fs::unlinkat(&place.dir, &place.name, flags).map_err(core)
    }

    fn make(&mut self, path: &[u8], kind: Kind, rdev: u32) -> Result<()> {
        self.file = None;
        let Place { dir, name } = &self.place(path)?;
        let node =
            |kind, device| rustix::fs::mknodat(dir, name, kind, Mode::RUSR | Mode::WUSR, device);
        let (major, minor) = device_parts(rdev);
        let device = rustix::fs::makedev(major, minor);
        match kind {
            Kind::Directory => rustix::fs::mkdirat(dir, name, Mode::RWXU),
            Kind::File => node(FileType::RegularFile, 0),
            Kind::Fifo => node(FileType::Fifo, 0),
            Kind::Socket => node(FileType::Socket, 0),
            Kind::CharDevice => node(FileType::CharacterDevice, device),
            Kind::BlockDevice => node(FileType::BlockDevice, device),
            Kind::Symlink => return Err(Error::Invalid),
        }
        .map_err(core)
    }

    fn symlink(&mut self, path: &[u8], target: &[u8]) -> Result<()> {
        let place = self.place(path)?;
        let target = CString::new(target).map_err(|_| Error::Invalid)?;
        rustix::fs::symlinkat(&target, &place.dir, &place.name).map_err(core)
    }

    fn link(&mut self, of: &[u8], path: &[u8]) -> Result<()> {
        let (of, place) = (self.place(of)?, self.place(path)?);
        let (to, name) = (&place.dir, &place.name);
        rustix::fs::linkat(&of.dir, &of.name, to, name, AtFlags::empty()).map_err(core)
    }

    fn size(&mut self, path: &[u8], size: u64) -> Result<()> {
        self.file(path)?.set_len(size).map_err(|error| io(&error))
    }

    fn write(&mut self, path: &[u8], at: u64, bytes: &[u8]) -> Result<()> {
        self.file(path)?.write_all_at(bytes, at).map_err(|error| io(&error))
    }

    fn hole(&mut self, path: &[u8], at: u64, len: u64) -> Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(self.file(path)?, flags, at, len) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.zeros(path, at, len),
            done => done.map_err(core),
        }
    }

    fn strip(&mut self, path: &[u8]) -> Result<()> {
        let node = self.node(path)?;
        let names = node.allowed(self.is_root, || xattr_names(&node)).map_err(core)?;
        for name in names {
            let key = OsStr::from_bytes(&name);
            let removed = node.allowed(self.is_root, || rustix::fs::removexattr(node.path(), key));
            let own = name.starts_with(b"security.") || name.starts_with(b"system.");
            match removed {
                Err(Errno::NODATA) => {}
                // What the system gives to everything it takes away from nothing.
                Err(Errno::PERM | Errno::OPNOTSUPP | Errno::ACCESS | Errno::INVAL) if own => {}
                done => {
                    let what = format!("that the extended attribute {} is gone", shown(&name));
                    self.given(path, &what, done)?;
                }
            }
        }
        Ok(())
    }

    fn xattr(&mut self, path: &[u8], name: &[u8], value: &[u8]) -> Result<()> {
        let node = self.node(path)?;
        let key = OsStr::from_bytes(name);
        let set = || rustix::fs::setxattr(node.path(), key, value, XattrFlags::empty());
        let done = self.small(node.allowed(self.is_root, set));
        self.given(path, &format!("the extended attribute {}", shown(name)), done).map(drop)
    }

    fn attr(&mut self, path: &[u8], meta: &Meta) -> Result<()> {
        self.file = None;
        let node = self.node(path)?;
        self.lent.retain(|lent| !lent.is(&node));
        let is_owned = self.own_by(path, &node, meta)?;
        if node.kind() != FileType::Symlink {
            // Who is not the owner that was meant gets no program that runs as its owner.
            let perm = if is_owned { meta.perm } else { meta.perm & 0o1777 };
            if perm != meta.perm {
                self.given(path, "set-id", Err(Errno::PERM))?;
            }
            let done = node.set_mode(Mode::from_raw_mode(perm.into()));
            self.given(path, "the permissions", done)?;
        }
        let time = |time: Time| Timespec { tv_sec: time.secs, tv_nsec: time.nanos.into() };
        let times =
            Timestamps { last_access: time(meta.atime), last_modification: time(meta.mtime) };
        let done = rustix::fs::utimensat(CWD, node.path(), &times, AtFlags::empty());
        self.given(path, "the times", done).map(drop)
    }

    fn flags(&mut self, path: &[u8], flags: Flags) -> Result<()> {
        let node = self.node(path)?;
        let known = IFlags::from_bits_retain(Flags::KNOWN.0);
        let set = || {
            let file = node.open(OFlags::RDONLY)?;
            let others = rustix::fs::ioctl_getflags(&file)?.difference(known);
            let wanted = others | IFlags::from_bits_retain(flags.0);
            rustix::fs::ioctl_setflags(&file, wanted)
        };
        match node.allowed(self.is_root, set) {
            Err(_) if flags == Flags::default() => Ok(()),
            done => self.given(path, "the flags", done).map(drop),
        }
    }

    fn aside(&mut self) -> Result<Option<Vec<u8>>> {
        let names = match self.own().and_then(|dir| source::names(&dir)) {
            Err(Errno::NOENT) => return Ok(None),
            names => names.map_err(core)?,
        };
        let is_own = |name: &&CString| ![&b"state"[..], b"state.new"].contains(&name.as_bytes());
        Ok(names.iter().find(is_own).map(|name| [OWN, b"/", name.as_bytes()].concat()))
    }

    fn left_out(&self) -> u64 {
        self.left_out.1
    }

    fn state(&mut self) -> Result<Vec<u8>> {
        let opened = self.own().and_then(|dir| {
            rustix::fs::openat(&dir, "state", OPEN.union(OFlags::RDONLY), Mode::empty())
        });
        let mut bytes = Vec::new();
        let file = match opened {
            Err(Errno::NOENT) => return Ok(bytes),
            opened => File::from(opened.map_err(core)?),
        };
        if !file.metadata().map_err(|error| io(&error))?.is_file() {
            return Err(Error::Invalid);
        }
        file.take(STATE_MAX).read_to_end(&mut bytes).map_err(|error| io(&error))?;
        Ok(bytes)
    }

    fn keep(&mut self, state: &[u8]) -> Result<()> {
        self.file = None;
        let root = self.root()?;
        self.lend(&root)?;
        match rustix::fs::mkdirat(&self.root, OsStr::from_bytes(OWN), Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(core(errno)),
        }
        let dir = self.own().map_err(core)?;
        self.give_back();
        rustix::fs::syncfs(&self.root).map_err(core)?;
        match rustix::fs::unlinkat(&dir, "state.new", AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(core(errno)),
        }
        let flags = OPEN.union(OFlags::WRONLY).union(OFlags::CREATE).union(OFlags::EXCL);
        let mode = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(&dir, "state.new", flags, mode).map_err(core)?;
        let mut file = File::from(file);
        file.write_all(state).and_then(|()| file.sync_all()).map_err(|error| io(&error))?;
        rustix::fs::renameat(&dir, "state.new", &dir, "state").map_err(core)?;
        rustix::fs::fsync(&dir).map_err(core)
    }
}
