//! Reading a tree of this machine: thin words over the system calls, each from an open directory to
//! a name.
//!
//! Above: `tree`. Invariant: no call follows a symbolic link in the last part of a path, and none
//! waits for a pipe or a device.

use std::ffi::{CStr, CString, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use esker::{Flags, Time};
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, SeekFrom, Stat, StatxFlags};
use rustix::io::{Errno, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const DIRECTORY: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);

/// A directory stays open on every level of the way down, so the limit on open files is raised as
/// far as it goes. A tree deeper than that is reported, not followed.
pub fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    // A refusal leaves the usual limit of 1024, which is enough for all but strange trees.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// The name as a path part.
pub fn os(name: &CStr) -> &OsStr {
    OsStr::from_bytes(name.to_bytes())
}

/// The root of the tree, which may be named by a symbolic link.
pub fn open_root(path: &Path) -> Result<(OwnedFd, Stat)> {
    let fd = rustix::fs::open(path, DIRECTORY, Mode::empty())?;
    let stat = rustix::fs::fstat(&fd)?;
    Ok((fd, stat))
}

/// What a name is.
pub fn stat(dir: &OwnedFd, name: &CStr) -> Result<Stat> {
    rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)
}

/// A directory below, and what it is.
pub fn open_directory(dir: &OwnedFd, name: &CStr) -> Result<(OwnedFd, Stat)> {
    let fd = open_quietly(dir, name, DIRECTORY.union(OFlags::NOFOLLOW))?;
    let stat = rustix::fs::fstat(&fd)?;
    Ok((fd, stat))
}

/// A regular file, which must still be the one that `known` tells of.
pub fn open_file(dir: &OwnedFd, name: &CStr, known: &Stat) -> Result<OwnedFd> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let fd = open_quietly(dir, name, flags)?;
    let stat = rustix::fs::fstat(&fd)?;
    let same = (stat.st_dev, stat.st_ino) == (known.st_dev, known.st_ino);
    if same { Ok(fd) } else { Err(Errno::STALE) }
}

/// Opens for reading, without moving atime where that is allowed.
fn open_quietly(dir: &OwnedFd, name: &CStr, flags: OFlags) -> Result<OwnedFd> {
    match rustix::fs::openat(dir, name, flags | OFlags::NOATIME, Mode::empty()) {
        Err(Errno::PERM) => rustix::fs::openat(dir, name, flags, Mode::empty()),
        answer => answer,
    }
}

/// The names in a directory, the first in the order of their bytes last.
pub fn names(dir: &OwnedFd) -> Result<Vec<CString>> {
    let mut names = Vec::new();
    let mut buffer = [const { MaybeUninit::uninit() }; 1 << 15];
    let mut listing = RawDir::new(dir, &mut buffer);
    while let Some(entry) = listing.next() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable_by(|one, other| other.cmp(one));
    Ok(names)
}

/// Where a symbolic link leads.
pub fn target(dir: &OwnedFd, name: &CStr) -> Result<CString> {
    rustix::fs::readlinkat(dir, name, Vec::new())
}

/// Bytes of a file.
pub fn read(file: &OwnedFd, target: &mut [u8], at: u64) -> Result<usize> {
    rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *target, at))
}

/// The first stretch of data at or behind `at`: where it begins and ends.
pub fn next_data(file: &OwnedFd, at: u64) -> Result<Option<(u64, u64)>> {
    match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(from) => Ok(Some((from, rustix::fs::seek(file, SeekFrom::Hole(from))?))),
        Err(Errno::NXIO) => Ok(None),
        // A file system that knows no holes: all is data.
        Err(Errno::INVAL | Errno::OPNOTSUPP) => Ok(Some((at, u64::MAX))),
        Err(error) => Err(error),
    }
}

/// A time of the system; the types of its parts differ between machines.
pub fn time(secs: impl Into<i64>, nanos: impl TryInto<u32>) -> Time {
    Time { secs: secs.into(), nanos: nanos.try_into().unwrap_or(0).min(999_999_999) }
}

/// chattr flags of an open file or directory, as far as we know them; none where its file system
/// has none.
pub fn flags(file: &OwnedFd) -> Flags {
    let bits = rustix::fs::ioctl_getflags(file).map_or(0, |bits| bits.bits());
    Flags(bits & Flags::KNOWN.0)
}

/// When it was born, where the file system knows.
pub fn birth(dir: &OwnedFd, name: &CStr) -> Option<Time> {
    let found = rustix::fs::statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BTIME).ok()?;
    let known = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
    known.then(|| time(found.stx_btime.tv_sec, found.stx_btime.tv_nsec))
}

/// Extended attributes, ACLs among them, name and value; none where the file system has none.
pub fn xattrs(dir: &OwnedFd, name: &CStr) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    // There is no call from a directory to a name; this way round works for links and pipes too.
    let mut path = format!("/proc/self/fd/{}/", dir.as_raw_fd()).into_bytes();
    path.extend(name.to_bytes());
    let path = Path::new(OsStr::from_bytes(&path));
    let list = match grown(|buffer| rustix::fs::llistxattr(path, buffer)) {
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        list => list?,
    };
    let mut found = Vec::new();
    for name in list.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let key = OsStr::from_bytes(name);
        match grown(|buffer| rustix::fs::lgetxattr(path, key, buffer)) {
            Ok(value) => found.push((name.to_vec(), value)),
            // Gone meanwhile, or a name that only looks like an attribute.
            Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Calls with a larger buffer until the answer fits.
fn grown(mut call: impl FnMut(&mut [u8]) -> Result<usize>) -> Result<Vec<u8>> {
    let mut buffer = vec![0; 256];
    loop {
        match call(&mut buffer) {
            Ok(len) => {
                buffer.truncate(len);
                return Ok(buffer);
            }
            // 64 KiB is the most that Linux has for a list or a value.
            Err(Errno::RANGE) if buffer.len() < 1 << 17 => buffer.resize(buffer.len() * 4, 0),
            Err(error) => return Err(error),
        }
    }
}
