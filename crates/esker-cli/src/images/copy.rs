//! A tree out of an image into a directory of this machine. The image may be hostile, and so may be what is in the
//! target already, or who works there at the same time.
//!
//! Invariant: every step goes from an open directory to one name in it and follows nothing; what is created is new;
//! what was there is never opened to be written.

use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use esker::attr::device_parts;
use esker::limits::NAME_LEN_MAX;
use esker::store::View;
use esker::{Attr, Ino, Kind};
use esker_image::pack::xattrs;
use rustix::fs::XattrFlags;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use super::limits::{Limits, TOO_DEEP, TOO_MANY};
use super::walk::{Node, children};
use crate::failure::said;

/// Lost stretches of a file that are named one by one.
const SPANS_SHOWN: usize = 8;
/// Bytes that are moved at a time.
const CHUNK: usize = 1 << 20;
/// Endings that are tried for a damaged file.
const ASIDE_MAX: u32 = 1000;
const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const NEW: OFlags = OFlags::CREATE
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::RDWR)
    .union(OFlags::CLOEXEC);
const INSIDE: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// What to bring out, and how.
#[derive(Clone, Debug, Default)]
pub struct How {
    /// Owner and group.
    pub owner: bool,
    /// Set-id and sticky bits.
    pub set_id: bool,
    /// Devices, pipes and sockets.
    pub specials: bool,
    /// Extended attributes of every kind, not only those of users and ACLs.
    pub all_xattrs: bool,
    /// Replace what is there.
    pub force: bool,
    /// What is not replaced even so, since it is what is read: devices and numbers.
    pub sources: Vec<(u64, u64)>,
    /// Go on after what cannot be read, and keep what can be read of such files, under another name.
    pub salvage: bool,
    /// Go on after what cannot be read or written.
    pub go_on: bool,
    /// How much.
    pub limits: Limits,
    /// Permission bits that are taken away.
    pub umask: u16,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// Files, directories and all else.
    pub files: u64,
    /// Bytes of data.
    pub bytes: u64,
    /// What was not brought out, each with the reason.
    pub troubles: Vec<String>,
    /// Something in the image could not be read.
    pub damaged: bool,
}

/// Why one thing did not come out.
enum Trouble {
    Image(esker::Error),
    System(Errno),
    Refused(&'static str),
    /// Nobody asked for such things: the others come out.
    LeftOut(&'static str),
    /// Bytes of a file that could not be read, from and to; all others are there.
    Lost(Vec<(u64, u64)>),
    Limit(&'static str),
}

impl From<esker::Error> for Trouble {
    fn from(error: esker::Error) -> Self {
        Self::Image(error)
    }
}

impl From<Errno> for Trouble {
    fn from(errno: Errno) -> Self {
        Self::System(errno)
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::System(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

struct Level {
    fd: OwnedFd,
    attr: Attr,
    ino: Ino,
    /// Still to come, the next one last.
    names: Vec<Node>,
    /// Its path below the target.
    path: Vec<u8>,
}

/// A file that was brought out, for its further names.
struct Known {
    path: Vec<u8>,
    identity: (u64, u64),
}

struct Copier<'a> {
    image: &'a dyn View,
    how: &'a How,
    wanted: &'a dyn Fn(&Node) -> bool,
    root: OwnedFd,
    /// The target was made, and is like what it comes from.
    made: bool,
    levels: Vec<Level>,
    known: HashMap<Ino, Known>,
    done: Done,
    tick: &'a mut dyn FnMut(&Done),
}

/// Brings what is `wanted` in `start` into `target`, which is made if it is not there.
pub fn copy(
    image: &dyn View,
    start: &Node,
    target: &Path,
    how: &How,
    wanted: &dyn Fn(&Node) -> bool,
    tick: &mut dyn FnMut(&Done),
) -> io::Result<Done> {
    let made = match std::fs::create_dir(target) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        made => made.map(|()| true)?,
    };
    let root = rustix::fs::open(target, DIRECTORY, Mode::empty())?;
    let mut copier = Copier {
        image,
        how,
        wanted,
        root: root.try_clone()?,
        made,
        levels: Vec::new(),
        known: HashMap::new(),
        done: Done::default(),
        tick,
    };
    copier.run(root, start);
    Ok(copier.done)
}

/// Adds a span behind others.
fn lose(spans: &mut Vec<(u64, u64)>, from: u64, to: u64) {
    match spans.last_mut() {
        Some((_, end)) if *end == from => *end = to,
        _ => spans.push((from, to)),
    }
}

/// Which bytes are lost, for a person.
fn lost_shown(spans: &[(u64, u64)]) -> String {
    let shown: Vec<_> =
        spans.iter().take(SPANS_SHOWN).map(|(from, to)| format!("{from} to {to}")).collect();
    let more = match spans.len().saturating_sub(SPANS_SHOWN) {
        0 => String::new(),
        more => format!(", and {more} more stretches"),
    };
    format!("bytes {}{more} cannot be read, and are zeros in the file .damaged", shown.join(", "))
}

fn c_name(name: &[u8]) -> Result<CString, Trouble> {
    CString::new(name).map_err(|_| Trouble::Image(esker::Error::Io))
}

fn identity(fd: &OwnedFd, name: &CString) -> rustix::io::Result<(u64, u64)> {
    let stat = rustix::fs::statat(fd, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok((stat.st_dev, stat.st_ino))
}

fn times(attr: &Attr) -> Timestamps {
    let time = |time: esker::Time| Timespec { tv_sec: time.secs, tv_nsec: time.nanos.into() };
    Timestamps { last_access: time(attr.atime), last_modification: time(attr.mtime) }
}

impl Copier<'_> {
    fn run(&mut self, root: OwnedFd, start: &Node) {
        if start.attr.kind == Kind::Directory {
            let names = self.names(start);
            let level =
                Level { fd: root, attr: start.attr, ino: start.ino, names, path: Vec::new() };
            self.levels.push(level);
        } else {
            let names = vec![start.clone()];
            let attr = Attr { kind: Kind::File, ..start.attr };
            self.levels.push(Level { fd: root, attr, ino: Ino(0), names, path: Vec::new() });
        }
        while let Some(level) = self.levels.last_mut() {
            match level.names.pop() {
                Some(node) => {
                    let taken = self.take(&node);
                    if self.note(&node.path, taken) {
                        return;
                    }
                    (self.tick)(&self.done);
                }
                None => {
                    let Some(level) = self.levels.pop() else { return };
                    // A target that was there is the caller's.
                    let ours = self.made || !level.path.is_empty();
                    let own = ours && level.attr.kind == Kind::Directory;
                    if own {
                        let finished = self.finish_directory(&level);
                        if self.note(&level.path, finished) {
                            return;
                        }
                    }
                }
            }
        }
    }

    /// What is in a directory, the first last.
    fn names(&mut self, node: &Node) -> Vec<Node> {
        match children(self.image, node) {
            Ok(mut found) => {
                found.reverse();
                found
            }
            Err(error) => {
                self.note(&node.path, Err(error.into()));
                Vec::new()
            }
        }
    }

    /// Whether to stop.
    fn note(&mut self, path: &[u8], taken: Result<(), Trouble>) -> bool {
        let mut stop = !self.how.go_on && !self.how.salvage;
        let why = match taken {
            Ok(()) => return false,
            Err(Trouble::LeftOut(why)) => {
                stop = false;
                why.to_owned()
            }
            Err(Trouble::Lost(spans)) => {
                self.done.damaged = true;
                lost_shown(&spans)
            }
            Err(Trouble::Image(error)) => {
                self.done.damaged = true;
                error.to_string()
            }
            Err(Trouble::System(errno)) => said(&errno.into()),
            Err(Trouble::Refused(why)) => why.to_owned(),
            Err(Trouble::Limit(why)) => {
                self.done.troubles.push(why.to_owned());
                return true;
            }
        };
        let shown = super::inner_shown(path);
        self.done.troubles.push(format!("{shown}: {why}"));
        stop
    }

    fn take(&mut self, node: &Node) -> Result<(), Trouble> {
        let directory = node.attr.kind == Kind::Directory;
        if !(self.wanted)(node) {
            return Ok(());
        }
        if node.depth > self.how.limits.depth {
            return Err(Trouble::LeftOut(TOO_DEEP));
        }
        if self.done.files >= self.how.limits.files {
            return Err(Trouble::Limit(TOO_MANY));
        }
        let Some(level) = self.levels.last() else { return Ok(()) };
        let fd = level.fd.try_clone()?;
        let name = c_name(node.name())?;
        let below = [&level.path[..], b"/", node.name()].concat();
        if directory {
            let child = self.directory(&fd, &name)?;
            self.done.files += 1;
            let names = self.names(node);
            let level = Level { fd: child, attr: node.attr, ino: node.ino, names, path: below };
            self.levels.push(level);
            return Ok(());
        }
        if node.attr.nlink > 1 && self.known.contains_key(&node.ino) {
            return self.link(&fd, &name, node.ino);
        }
        match node.attr.kind {
            Kind::File => self.file(&fd, &name, node)?,
            Kind::Symlink => {
                let target = super::target(self.image, node)?;
                self.place(&fd, &name, |fd, name| rustix::fs::symlinkat(&target, fd, name))?;
                self.own(&fd, &name, &node.attr)?;
                self.xattrs_of_closed(&fd, &name, node.ino)?;
                rustix::fs::utimensat(&fd, &name, &times(&node.attr), AtFlags::SYMLINK_NOFOLLOW)?;
            }
            kind => self.special(&fd, &name, node, kind)?,
        }
        self.done.files += 1;
        if node.attr.nlink > 1 {
            let identity = identity(&fd, &name)?;
            self.known.insert(node.ino, Known { path: below, identity });
        }
        Ok(())
    }

    /// Creates something new under a name; what is there goes first, if the user said so.
    fn place<T>(
        &self,
        fd: &OwnedFd,
        name: &CString,
        mut create: impl FnMut(&OwnedFd, &CString) -> rustix::io::Result<T>,
    ) -> Result<T, Trouble> {
        match create(fd, name) {
            Err(Errno::EXIST) if self.how.force => {
                self.clear(fd, name)?;
                Ok(create(fd, name)?)
            }
            created => Ok(created?),
        }
    }

    /// Takes away what has a name.
    fn clear(&self, fd: &OwnedFd, name: &CString) -> Result<(), Trouble> {
        if identity(fd, name).is_ok_and(|own| self.how.sources.contains(&own)) {
            return Err(Trouble::Refused("what is extracted from is in its place"));
        }
        Ok(rustix::fs::unlinkat(fd, name, AtFlags::empty())?)
    }

    fn directory(&self, fd: &OwnedFd, name: &CString) -> Result<OwnedFd, Trouble> {
        match rustix::fs::mkdirat(fd, name, Mode::RWXU) {
            Ok(()) => Ok(rustix::fs::openat(fd, name, DIRECTORY, Mode::empty())?),
            Err(Errno::EXIST) => match rustix::fs::openat(fd, name, DIRECTORY, Mode::empty()) {
                Ok(fd) => Ok(fd),
                Err(Errno::NOTDIR | Errno::LOOP) if self.how.force => {
                    self.clear(fd, name)?;
                    rustix::fs::mkdirat(fd, name, Mode::RWXU)?;
                    Ok(rustix::fs::openat(fd, name, DIRECTORY, Mode::empty())?)
                }
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    Err(Trouble::Refused("something that is no directory is in its place"))
                }
                Err(errno) => Err(errno.into()),
            },
            Err(errno) => Err(errno.into()),
        }
    }

    fn file(&mut self, fd: &OwnedFd, name: &CString, node: &Node) -> Result<(), Trouble> {
        let mode = Mode::RUSR | Mode::WUSR;
        let file = self.place(fd, name, |fd, name| rustix::fs::openat(fd, name, NEW, mode))?;
        let file = File::from(file);
        let written = self.content(&file, node);
        let finished = written.and_then(|lost| {
            self.attributes(&file, node.ino, &node.attr)?;
            Ok(lost)
        });
        match finished {
            Ok(lost) if lost.is_empty() => Ok(()),
            Ok(lost) => {
                // Nothing wrong under a right name.
                if set_aside(fd, name).is_err() {
                    let _ = rustix::fs::unlinkat(fd, name, AtFlags::empty());
                }
                Err(Trouble::Lost(lost))
            }
            Err(trouble) => {
                // It is ours, and not whole.
                let _ = rustix::fs::unlinkat(fd, name, AtFlags::empty());
                Err(trouble)
            }
        }
    }

    /// The bytes of a file, holes staying holes; those that could not be read.
    fn content(&mut self, file: &File, node: &Node) -> Result<Vec<(u64, u64)>, Trouble> {
        let size = node.attr.size;
        file.set_len(size)?;
        let mut buffer = vec![0; CHUNK.min(usize::try_from(size).unwrap_or(CHUNK))];
        let (mut at, mut lost, mut small) = (0, Vec::new(), false);
        loop {
            let run = match self.image.next_data(node.ino, at) {
                Ok(Some(run)) => run,
                Ok(None) => return Ok(lost),
                Err(_) if self.how.salvage => {
                    lose(&mut lost, at, size);
                    return Ok(lost);
                }
                Err(error) => return Err(error.into()),
            };
            at = run.start();
            while at < run.end() {
                let room = usize::try_from(run.end() - at).unwrap_or(CHUNK).min(buffer.len());
                // A damaged stretch costs no more than 4 KiB beside what is lost.
                let room = if small { room.min(4096) } else { room };
                let count = match self.image.read(node.ino, at, &mut buffer[..room]) {
                    Ok(0) => return Err(esker::Error::Io.into()),
                    Ok(count) => {
                        self.done.bytes += count as u64;
                        if self.done.bytes > self.how.limits.bytes {
                            return Err(Trouble::Limit(self.how.limits.too_long));
                        }
                        file.write_all_at(&buffer[..count], at)?;
                        count
                    }
                    Err(_) if self.how.salvage => {
                        if !small && room > 4096 {
                            small = true;
                            continue;
                        }
                        lose(&mut lost, at, at + room as u64);
                        room
                    }
                    Err(error) => return Err(error.into()),
                };
                at += count as u64;
                (self.tick)(&self.done);
            }
        }
    }

    fn special(
        &self,
        fd: &OwnedFd,
        name: &CString,
        node: &Node,
        kind: Kind,
    ) -> Result<(), Trouble> {
        if !self.how.specials {
            return Err(Trouble::LeftOut("devices, pipes and sockets only with --specials"));
        }
        let (kind, device) = match kind {
            Kind::Fifo => (FileType::Fifo, false),
            Kind::Socket => (FileType::Socket, false),
            Kind::CharDevice => (FileType::CharacterDevice, true),
            _ => (FileType::BlockDevice, true),
        };
        let (major, minor) = device_parts(node.attr.rdev);
        let device = if device { rustix::fs::makedev(major, minor) } else { 0 };
        let mode = Mode::from_bits_truncate(self.perm(&node.attr).into());
        self.place(fd, name, |fd, name| rustix::fs::mknodat(fd, name, kind, mode, device))?;
        self.own(fd, name, &node.attr)?;
        self.xattrs_of_closed(fd, name, node.ino)?;
        rustix::fs::chmodat(fd, name, mode, AtFlags::empty())?;
        rustix::fs::utimensat(fd, name, &times(&node.attr), AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(())
    }

    /// A further name of a file that was brought out, if it is still the one.
    fn link(&mut self, fd: &OwnedFd, name: &CString, ino: Ino) -> Result<(), Trouble> {
        let Some(known) = self.known.get(&ino) else { return Ok(()) };
        let cut = known.path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
        let (dir, first) = (&known.path[..cut], c_name(&known.path[cut + 1..])?);
        let dir = OsStr::from_bytes(dir.strip_prefix(b"/").unwrap_or(dir));
        let dir = match dir.is_empty() {
            true => self.root.try_clone()?,
            false => rustix::fs::openat2(&self.root, dir, DIRECTORY, Mode::empty(), INSIDE)?,
        };
        self.place(fd, name, |fd, name| {
            rustix::fs::linkat(&dir, &first, fd, name, AtFlags::empty())
        })?;
        if identity(fd, name)? != known.identity {
            let _ = rustix::fs::unlinkat(fd, name, AtFlags::empty());
            return Err(Trouble::Refused("its first name was exchanged meanwhile"));
        }
        self.done.files += 1;
        Ok(())
    }

    fn perm(&self, attr: &Attr) -> u16 {
        let all = if self.how.set_id { 0o7777 } else { 0o777 };
        attr.perm & all & !self.how.umask
    }

    /// Owner and group of what is no file that is open.
    fn own(&self, fd: &OwnedFd, name: &CString, attr: &Attr) -> Result<(), Trouble> {
        if self.how.owner {
            let (uid, gid) = (Uid::from_raw(attr.uid), Gid::from_raw(attr.gid));
            rustix::fs::chownat(fd, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    /// Sets the extended attributes of an inode.
    fn xattrs(
        &self,
        ino: Ino,
        set: impl Fn(&OsStr, &[u8]) -> rustix::io::Result<()>,
    ) -> Result<(), Trouble> {
        for (name, value) in xattrs(self.image, ino)? {
            let common = name.starts_with(b"user.") || name.starts_with(b"system.posix_acl_");
            if !common && !self.how.all_xattrs {
                continue;
            }
            match set(OsStr::from_bytes(&name), &value) {
                // The target's file system has none.
                Ok(()) | Err(Errno::OPNOTSUPP) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Those of what cannot be opened: a link, a device. Only the kinds that need privilege go there.
    fn xattrs_of_closed(&self, fd: &OwnedFd, name: &CString, ino: Ino) -> Result<(), Trouble> {
        if !self.how.all_xattrs {
            return Ok(());
        }
        // There is no call from a directory to a name; this way round follows no link in the name.
        let mut path = format!("/proc/self/fd/{}/", fd.as_raw_fd()).into_bytes();
        path.extend(name.as_bytes());
        let path = OsStr::from_bytes(&path);
        self.xattrs(ino, |key, value| rustix::fs::lsetxattr(path, key, value, XattrFlags::empty()))
    }

    /// Everything that an open file or directory has beside its content.
    fn attributes(&self, file: &File, ino: Ino, attr: &Attr) -> Result<(), Trouble> {
        if self.how.owner {
            let (uid, gid) = (Uid::from_raw(attr.uid), Gid::from_raw(attr.gid));
            rustix::fs::fchown(file, Some(uid), Some(gid))?;
        }
        rustix::fs::fchmod(file, Mode::from_bits_truncate(self.perm(attr).into()))?;
        self.xattrs(ino, |key, value| {
            rustix::fs::fsetxattr(file, key, value, XattrFlags::empty())
        })?;
        rustix::fs::futimens(file, &times(attr))?;
        Ok(())
    }

    fn finish_directory(&mut self, level: &Level) -> Result<(), Trouble> {
        let file = File::from(level.fd.try_clone()?);
        self.attributes(&file, level.ino, &level.attr)
    }
}

/// Gives a damaged file an ending that says so, and takes nobody's name for that.
fn set_aside(fd: &OwnedFd, name: &CString) -> Result<(), Trouble> {
    for number in 0..ASIDE_MAX {
        let end = if number == 0 { ".damaged".to_owned() } else { format!(".damaged.{number}") };
        let own = name.as_bytes();
        let head = &own[..own.len().min(NAME_LEN_MAX - end.len())];
        let to = c_name(&[head, end.as_bytes()].concat())?;
        let there = rustix::fs::statat(fd, &to, AtFlags::SYMLINK_NOFOLLOW);
        if there.is_err_and(|errno| errno == Errno::NOENT) {
            return Ok(rustix::fs::renameat(fd, name, fd, &to)?);
        }
    }
    Err(Errno::EXIST.into())
}
