//! A directory of this machine as the target of a stream. The stream may be hostile, and so may be what is in the
//! directory already.
//!
//! Above: `streams`. Below: the system. Invariant: every step goes from an open directory to one name in it and follows
//! nothing; what this machine cannot give to something is left out and told.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use esker::attr::device_parts;
use esker::{Error, Flags, Kind, Result, Time};
use esker_volume::stream::{Meta, OWN, Target};
use rustix::fs::{
    AtFlags, FallocateFlags, FileType, Gid, IFlags, Mode, OFlags, RenameFlags, Timespec,
    Timestamps, Uid, XattrFlags,
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

impl Place {
    /// Another way to it, for calls that know no other; the last part is not followed by those used here.
    fn path(&self) -> PathBuf {
        let mut path = format!("/proc/self/fd/{}/", self.dir.as_raw_fd()).into_bytes();
        path.extend(self.name.as_bytes());
        PathBuf::from(OsStr::from_bytes(&path))
    }

    fn open(&self, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        rustix::fs::openat(&self.dir, &self.name, flags.union(OPEN), Mode::empty())
    }

    fn kind(&self) -> rustix::io::Result<FileType> {
        let stat = rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(stat.st_mode))
    }

    fn set_mode(&self, perm: u16) -> rustix::io::Result<()> {
        let mode = Mode::from_bits_truncate(perm.into());
        rustix::fs::chmodat(&self.dir, &self.name, mode, AtFlags::empty())
    }
}

/// A directory in which nobody else works meanwhile.
pub struct Directory {
    root: OwnedFd,
    /// The file that was written last.
    file: Option<(Vec<u8>, File)>,
    is_root: bool,
    /// What could not be given to what, and how often that was.
    pub left_out: (Vec<String>, u64),
}

impl Directory {
    /// This one.
    pub fn open(path: &Path) -> std::io::Result<Self> {
        let flags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);
        let root = rustix::fs::open(path, flags, Mode::empty())?;
        let is_root = rustix::process::geteuid().is_root();
        Ok(Self { root, file: None, is_root, left_out: (Vec::new(), 0) })
    }

    fn root(&self) -> Result<OwnedFd> {
        self.root.try_clone().map_err(|error| io(&error))
    }

    fn place(&self, path: &[u8]) -> Result<Place> {
        let c_name = |name: &[u8]| CString::new(name).map_err(|_| Error::Invalid);
        if path.is_empty() {
            return Ok(Place { dir: self.root()?, name: c_name(b".")? });
        }
        let mut names: Vec<_> = path.split(|&byte| byte == b'/').collect();
        let last = names.pop().unwrap_or_default();
        let mut dir = self.root()?;
        for name in names {
            let next = rustix::fs::openat(&dir, c_name(name)?, DIRECTORY, Mode::empty());
            dir = next.map_err(core)?;
        }
        Ok(Place { dir, name: c_name(last)? })
    }

    /// Changes names in a directory, which may have to be allowed first; its attributes come again later.
    fn changing(
        &self,
        place: &Place,
        mut change: impl FnMut() -> rustix::io::Result<()>,
    ) -> Result<()> {
        match change() {
            Err(Errno::ACCESS) if !self.is_root => {
                let mode = Mode::RWXU;
                let allowed = rustix::fs::chmodat(&place.dir, ".", mode, AtFlags::empty());
                allowed.and_then(|()| change()).map_err(core)
            }
            done => done.map_err(core),
        }
    }

    /// A regular file, to be written.
    fn file(&mut self, path: &[u8]) -> Result<&File> {
        if self.file.as_ref().is_none_or(|(own, _)| own != path) {
            let place = self.place(path)?;
            if place.kind().map_err(core)? != FileType::RegularFile {
                return Err(Error::Invalid);
            }
            let file = match place.open(OFlags::RDWR) {
                Err(Errno::ACCESS) if !self.is_root => {
                    place.set_mode(0o600).and_then(|()| place.open(OFlags::RDWR))
                }
                opened => opened,
            };
            let file = File::from(file.map_err(core)?);
            if !file.metadata().map_err(|error| io(&error))?.is_file() {
                return Err(Error::Invalid);
            }
            self.file = Some((path.to_vec(), file));
        }
        self.file.as_ref().map(|(_, file)| file).ok_or(Error::Io)
    }

    /// What cannot be given here is left out, and told.
    fn given(&mut self, path: &[u8], what: &str, done: rustix::io::Result<()>) -> Result<()> {
        match done {
            Err(Errno::OPNOTSUPP | Errno::PERM | Errno::NOTTY | Errno::INVAL) => {
                self.left_out.1 += 1;
                if self.left_out.0.len() < LEFT_OUT_MAX {
                    self.left_out.0.push(format!("{what} of /{}", shown(path)));
                }
                Ok(())
            }
            done => done.map_err(core),
        }
    }

    fn own(&self, flags: OFlags) -> rustix::io::Result<OwnedFd> {
        rustix::fs::openat(&self.root, OsStr::from_bytes(OWN), flags.union(OPEN), Mode::empty())
    }
}

impl Target for Directory {
    fn kind(&mut self, path: &[u8]) -> Result<Option<Kind>> {
        let found = self.place(path).and_then(|place| place.kind().map_err(core));
        Ok(Some(match found {
            Err(Error::NotFound) => return Ok(None),
            Err(error) => return Err(error),
            Ok(kind) => Kind::from_mode(kind.as_raw_mode()).ok_or(Error::Invalid)?,
        }))
    }

    fn is_same(&mut self, one: &[u8], other: &[u8]) -> Result<bool> {
        let stat = |place: &Place| {
            rustix::fs::statat(&place.dir, &place.name, AtFlags::SYMLINK_NOFOLLOW).map_err(core)
        };
        let (one, other) = (stat(&self.place(one)?)?, stat(&self.place(other)?)?);
        Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
    }

    fn is_empty(&mut self) -> Result<bool> {
        let names = source::names(&self.root).map_err(core)?;
        Ok(names.iter().all(|name| name.as_bytes() == OWN))
    }

    fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        self.file = None;
        let (from, to) = (self.place(from)?, self.place(to)?);
        let rename =
            |flags| rustix::fs::renameat_with(&from.dir, &from.name, &to.dir, &to.name, flags);
        let change = || match rename(RenameFlags::NOREPLACE) {
            // Some file systems cannot promise that; nothing was there when somebody looked.
            Err(Errno::INVAL) => rename(RenameFlags::empty()),
            done => done,
        };
        self.changing(&from, change).or_else(|error| match error {
            Error::AccessDenied => self.changing(&to, change),
            error => Err(error),
        })
    }

    fn remove(&mut self, path: &[u8], dir: bool) -> Result<()> {
        self.file = None;
        let place = self.place(path)?;
        let flags = if dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        self.changing(&place, || rustix::fs::unlinkat(&place.dir, &place.name, flags))
    }

    fn make(&mut self, path: &[u8], kind: Kind, rdev: u32) -> Result<()> {
        self.file = None;
        let place = self.place(path)?;
        let (dir, name) = (&place.dir, &place.name);
        let node = |kind, device| {
            move || rustix::fs::mknodat(dir, name, kind, Mode::RUSR | Mode::WUSR, device)
        };
        let (major, minor) = device_parts(rdev);
        let device = rustix::fs::makedev(major, minor);
        match kind {
            Kind::Directory => self.changing(&place, || rustix::fs::mkdirat(dir, name, Mode::RWXU)),
            Kind::File => self.changing(&place, node(FileType::RegularFile, 0)),
            Kind::Fifo => self.changing(&place, node(FileType::Fifo, 0)),
            Kind::Socket => self.changing(&place, node(FileType::Socket, 0)),
            Kind::CharDevice => self.changing(&place, node(FileType::CharacterDevice, device)),
            Kind::BlockDevice => self.changing(&place, node(FileType::BlockDevice, device)),
            Kind::Symlink => Err(Error::Invalid),
        }
    }

    fn symlink(&mut self, path: &[u8], target: &[u8]) -> Result<()> {
        let place = self.place(path)?;
        let target = CString::new(target).map_err(|_| Error::Invalid)?;
        self.changing(&place, || rustix::fs::symlinkat(&target, &place.dir, &place.name))
    }

    fn link(&mut self, of: &[u8], path: &[u8]) -> Result<()> {
        let (of, place) = (self.place(of)?, self.place(path)?);
        let (to, name) = (&place.dir, &place.name);
        let link = || rustix::fs::linkat(&of.dir, &of.name, to, name, AtFlags::empty());
        self.changing(&place, link)
    }

    fn size(&mut self, path: &[u8], size: u64) -> Result<()> {
        self.file(path)?.set_len(size).map_err(|error| io(&error))
    }

    fn write(&mut self, path: &[u8], at: u64, bytes: &[u8]) -> Result<()> {
        self.file(path)?.write_all_at(bytes, at).map_err(|error| io(&error))
    }

    fn hole(&mut self, path: &[u8], at: u64, len: u64) -> Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(self.file(path)?, flags, at, len).map_err(core)
    }

    fn strip(&mut self, path: &[u8]) -> Result<()> {
        let place = self.place(path)?;
        for (name, _) in source::xattrs(&place.dir, &place.name).map_err(core)? {
            // What the system gives to everything it takes away from nothing.
            let _ = rustix::fs::lremovexattr(place.path(), OsStr::from_bytes(&name));
        }
        Ok(())
    }

    fn xattr(&mut self, path: &[u8], name: &[u8], value: &[u8]) -> Result<()> {
        let place = self.place(path)?;
        let key = OsStr::from_bytes(name);
        let done = rustix::fs::lsetxattr(place.path(), key, value, XattrFlags::empty());
        self.given(path, &format!("the extended attribute {}", shown(name)), done)
    }

    fn attr(&mut self, path: &[u8], meta: &Meta) -> Result<()> {
        self.file = None;
        let place = self.place(path)?;
        let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let owned = rustix::fs::chownat(&place.dir, &place.name, Some(uid), Some(gid), flags);
        self.given(path, "the owner", owned)?;
        if place.kind().map_err(core)? != FileType::Symlink {
            place.set_mode(meta.perm).map_err(core)?;
        }
        let time = |time: Time| Timespec { tv_sec: time.secs, tv_nsec: time.nanos.into() };
        let times =
            Timestamps { last_access: time(meta.atime), last_modification: time(meta.mtime) };
        rustix::fs::utimensat(&place.dir, &place.name, &times, flags).map_err(core)
    }

    fn flags(&mut self, path: &[u8], flags: Flags) -> Result<()> {
        let place = self.place(path)?;
        let known = IFlags::from_bits_retain(Flags::KNOWN.0);
        let set = || {
            let file = place.open(OFlags::RDONLY)?;
            let others = rustix::fs::ioctl_getflags(&file)?.difference(known);
            let wanted = others | IFlags::from_bits_retain(flags.0);
            rustix::fs::ioctl_setflags(&file, wanted)
        };
        match set() {
            Err(_) if flags == Flags::default() => Ok(()),
            done => self.given(path, "the flags", done),
        }
    }

    fn state(&mut self) -> Result<Vec<u8>> {
        let opened = self.own(OFlags::DIRECTORY).and_then(|dir| {
            rustix::fs::openat(&dir, "state", OPEN.union(OFlags::RDONLY), Mode::empty())
        });
        let mut bytes = Vec::new();
        match opened {
            Err(Errno::NOENT) => return Ok(bytes),
            Err(errno) => return Err(core(errno)),
            Ok(file) => File::from(file).take(STATE_MAX).read_to_end(&mut bytes),
        }
        .map_err(|error| io(&error))?;
        Ok(bytes)
    }

    fn keep(&mut self, state: &[u8]) -> Result<()> {
        self.file = None;
        match rustix::fs::mkdirat(&self.root, OsStr::from_bytes(OWN), Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(core(errno)),
        }
        rustix::fs::syncfs(&self.root).map_err(core)?;
        let dir = self.own(OFlags::DIRECTORY).map_err(core)?;
        let flags = OPEN.union(OFlags::WRONLY).union(OFlags::CREATE).union(OFlags::TRUNC);
        let mode = Mode::RUSR | Mode::WUSR;
        let file = rustix::fs::openat(&dir, "state.new", flags, mode).map_err(core)?;
        let mut file = File::from(file);
        file.write_all(state).and_then(|()| file.sync_all()).map_err(|error| io(&error))?;
        rustix::fs::renameat(&dir, "state.new", &dir, "state").map_err(core)?;
        rustix::fs::fsync(&dir).map_err(core)
    }
}
