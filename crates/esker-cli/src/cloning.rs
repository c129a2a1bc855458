//! Cloning within a mount: everything that a file or a tree has, but for its bytes, which copy_file_range(2) shares.
//!
//! Above: `verbs::clone`. Below: `import::source` reads. Invariant: nothing is followed, and the clone has its name
//! only when it is whole; until then it lies beside it under a name of its own, and goes when something fails.

use std::collections::HashMap;
use std::ffi::{CString, OsStr};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use esker::Flags;
use esker_fuse::mount::MountError;
use rustix::fs::{
    AtFlags, FileType, Gid, IFlags, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps, Uid,
    XattrFlags,
};
use rustix::io::{Errno, Result};

use crate::failure::{Exit, Failure, Outcome, path_shown, said};
use crate::import::{Tally, source};
use crate::progress::Progress;

/// Bytes that are shared at a time: for so many there must be room, though they take none.
const STEP: u64 = 64 << 20;

/// A directory on the way down, and what becomes of it.
struct Level {
    from: OwnedFd,
    to: OwnedFd,
    stat: Stat,
    /// Names still to clone, the next one last.
    names: Vec<CString>,
}

struct Cloner {
    /// Where the clone lies as long as it is not whole: the directory, and the name there.
    root: OwnedFd,
    name: CString,
    /// All is on this device.
    device: u64,
    levels: Vec<Level>,
    /// What is at work, from the source on.
    path: PathBuf,
    /// The first name of an inode with several.
    links: HashMap<u64, CString>,
    /// What must not change any more once it is there.
    flagged: Vec<(PathBuf, Flags)>,
    tally: Tally,
    progress: Progress,
}

/// The directory of a path, open, and the last name.
fn split(path: &Path) -> Result<(OwnedFd, CString, PathBuf)> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new(".")).canonicalize();
    let parent = parent.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    let (dir, _) = source::open_root(&parent)?;
    let whole = parent.join(name);
    Ok((dir, CString::new(name.as_bytes()).map_err(|_| Errno::INVAL)?, whole))
}

fn refused(path: &Path, errno: Errno) -> Failure {
    let what = format!("cannot clone ({})", said(&errno.into()));
    let remedy = match errno {
        Errno::NOSPC => "make room, or clone less",
        Errno::PERM | Errno::ACCESS => "what is of others only root can clone",
        _ => "",
    };
    Failure::at(Exit::Failed, &what, path, remedy)
}

/// Makes a clone of what `from` is under the name `to`, in the same mount.
pub fn clone(from: &Path, to: &Path) -> Outcome<Tally> {
    source::allow_many_files();
    let (dir, name, from) = split(from).map_err(|errno| refused(from, errno))?;
    let stat = source::stat(&dir, &name).map_err(|errno| refused(&from, errno))?;
    let (root, last, whole) = split(to).map_err(|errno| refused(to, errno))?;
    let beside = rustix::fs::fstat(&root).map_err(|errno| refused(to, errno))?;
    if !is_ours(&whole) {
        let remedy = "name two places in one mount, or take cp(1)";
        return Err(Failure::at(Exit::Usage, "not in a mount of esker", to, remedy));
    }
    if stat.st_dev != beside.st_dev {
        let what = format!("not in the mount of {}", path_shown(&from));
        let remedy = "blocks are shared within a volume: take cp(1), or `esker send`";
        return Err(Failure::at(Exit::Usage, &what, to, remedy));
    }
    if is_directory(&stat) && whole.starts_with(&from) {
        let remedy = "name a place beside it";
        return Err(Failure::at(Exit::Usage, "that lies in what is to be cloned", to, remedy));
    }
    if !matches!(source::stat(&root, &last), Err(Errno::NOENT)) {
        let remedy = "name another, or take it away";
        return Err(Failure::at(Exit::Usage, "there is something of that name", to, remedy));
    }
    let unique = format!(".esker-clone.{}", std::process::id());
    let (unique, device) = (CString::new(unique).unwrap_or_default(), stat.st_dev);
    let mut cloner = Cloner {
        root,
        name: unique,
        device,
        levels: Vec::new(),
        path: from,
        links: HashMap::new(),
        flagged: Vec::new(),
        tally: Tally::default(),
        progress: Progress::new("cloning", None),
    };
    let done = cloner.all(&dir, &name).and_then(|()| cloner.show(&last));
    done.map_err(|errno| {
        let there = whole.with_file_name(source::os(&cloner.name));
        // The failure at hand is the one to tell.
        let _ = std::fs::remove_dir_all(&there).or_else(|_| std::fs::remove_file(&there));
        refused(&cloner.path, errno)
    })?;
    cloner.flags(&whole)?;
    cloner.progress.done();
    Ok(cloner.tally)
}

/// Whether the mount in which a path lies is one of Esker.
fn is_ours(path: &Path) -> bool {
    let place = |dir: &Path| match esker_fuse::mount::mounted_on(dir) {
        Ok(_) => Some(true),
        Err(MountError::NotOurs { .. }) => Some(false),
        Err(_) => None,
    };
    path.ancestors().skip(1).find_map(place).unwrap_or(false)
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

/// A way to a name of an open directory.
fn way(dir: &OwnedFd, name: &std::ffi::CStr) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", dir.as_raw_fd())).join(source::os(name))
}

/// Owner, attributes, permissions and times of something that is whole.
fn finish(
    (from, name): (&OwnedFd, &CString),
    (to, new): (&OwnedFd, &CString),
    stat: &Stat,
) -> Result<()> {
    let own = source::stat(to, new)?;
    if (own.st_uid, own.st_gid) != (stat.st_uid, stat.st_gid) {
        let (owner, group) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
        let (owner, group) = (Some(owner), Some(group));
        rustix::fs::chownat(to, new, owner, group, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    let there = way(to, new);
    for (key, value) in source::xattrs(from, name)? {
        let key = OsStr::from_bytes(&key);
        rustix::fs::lsetxattr(&there, key, &value, XattrFlags::empty())?;
    }
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
        rustix::fs::chmodat(to, new, mode, AtFlags::empty())?;
    }
    let times = Timestamps {
        last_access: Timespec { tv_sec: stat.st_atime, tv_nsec: stat.st_atime_nsec as _ },
        last_modification: Timespec { tv_sec: stat.st_mtime, tv_nsec: stat.st_mtime_nsec as _ },
    };
    rustix::fs::utimensat(to, new, &times, AtFlags::SYMLINK_NOFOLLOW)
}

impl Cloner {
    fn all(&mut self, dir: &OwnedFd, name: &CString) -> Result<()> {
        let (to, new) = (self.root.try_clone().map_err(|_| Errno::MFILE)?, self.name.clone());
        self.one((dir, name), (&to, &new))?;
        while let Some(mut level) = self.levels.pop() {
            if let Some(name) = level.names.pop() {
                self.path.push(source::os(&name));
                let depth = self.levels.len();
                self.levels.push(level);
                let level = self.levels.last().ok_or(Errno::IO)?;
                let both = (level.from.try_clone(), level.to.try_clone());
                let (Ok(from), Ok(to)) = both else { return Err(Errno::MFILE) };
                self.one((&from, &name), (&to, &name))?;
                if self.levels.len() == depth + 1 {
                    self.path.pop();
                }
                continue;
            }
            // `.` of a directory is the directory.
            let here = c".".to_owned();
            finish((&level.from, &here), (&level.to, &here), &level.stat)?;
            if !self.levels.is_empty() {
                self.path.pop();
            }
        }
        Ok(())
    }

    /// The path of what is at work, from the clone on.
    fn inside(&self, depth: usize) -> PathBuf {
        let parts: Vec<_> = self.path.components().rev().take(depth).collect();
        parts.into_iter().rev().collect()
    }

    /// Clones one name; of a directory, what is in it comes later.
    fn one(
        &mut self,
        (dir, name): (&OwnedFd, &CString),
        (to, new): (&OwnedFd, &CString),
    ) -> Result<()> {
        let stat = source::stat(dir, name)?;
        if stat.st_dev != self.device {
            return Err(Errno::XDEV);
        }
        self.progress.tick(self.tally.seen(), 0);
        let inside = self.inside(self.levels.len());
        let own = PathBuf::from(source::os(&self.name)).join(&inside);
        let own = CString::new(own.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
        let several = stat.st_nlink > 1 && !is_directory(&stat);
        if let Some(first) = self.links.get(&stat.st_ino).filter(|_| several) {
            self.tally.hard_links += 1;
            return rustix::fs::linkat(&self.root, first, to, new, AtFlags::empty());
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                let (from, stat) = source::open_directory(dir, name)?;
                rustix::fs::mkdirat(to, new, Mode::RWXU)?;
                let (to, _) = source::open_directory(to, new)?;
                self.remember(inside, &from);
                let names = source::names(&from)?;
                self.tally.directories += 1;
                self.levels.push(Level { from, to, stat, names });
                return Ok(());
            }
            FileType::RegularFile => {
                let file = source::open_file(dir, name, &stat)?;
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
                let copy = rustix::fs::openat(to, new, flags, Mode::RUSR | Mode::WUSR)?;
                self.data(&file, &copy, stat.st_size as u64)?;
                self.remember(inside, &file);
                self.tally.files += 1;
            }
            FileType::Symlink => {
                rustix::fs::symlinkat(source::target(dir, name)?, to, new)?;
                self.tally.symlinks += 1;
            }
            kind => {
                rustix::fs::mknodat(to, new, kind, Mode::RUSR | Mode::WUSR, stat.st_rdev)?;
                self.tally.specials += 1;
            }
        }
        if several {
            self.links.insert(stat.st_ino, own);
        }
        finish((dir, name), (to, new), &stat)
    }

    fn remember(&mut self, inside: PathBuf, open: &OwnedFd) {
        let flags = source::flags(open);
        if flags.0 != 0 {
            self.flagged.push((inside, flags));
        }
    }

    /// Data of a file; its holes stay holes.
    fn data(&mut self, from: &OwnedFd, to: &OwnedFd, size: u64) -> Result<()> {
        let mut at = 0;
        while let Some((start, end)) = source::next_data(from, at)? {
            at = start;
            while at < end {
                let len = usize::try_from((end - at).min(STEP)).unwrap_or(usize::MAX);
                let (mut first, mut second) = (at, at);
                let both = (Some(&mut first), Some(&mut second));
                let done = rustix::fs::copy_file_range(from, both.0, to, both.1, len)?;
                if done == 0 {
                    // It became shorter meanwhile.
                    return rustix::fs::ftruncate(to, size);
                }
                self.tally.bytes += done as u64;
                self.progress.tick(self.tally.seen(), 0);
                at += done as u64;
            }
        }
        rustix::fs::ftruncate(to, size)
    }

    /// It is whole, and gets its name.
    fn show(&self, name: &CString) -> Result<()> {
        let flags = RenameFlags::NOREPLACE;
        rustix::fs::renameat_with(&self.root, &self.name, &self.root, name, flags)
    }

    /// Flags come last: what has some can neither be renamed nor linked.
    fn flags(&self, whole: &Path) -> Outcome {
        for (inside, flags) in self.flagged.iter().rev() {
            let path = whole.join(inside);
            let set = || {
                let open = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let file = rustix::fs::open(&path, open, Mode::empty())?;
                rustix::fs::ioctl_setflags(&file, IFlags::from_bits_retain(flags.0))
            };
            set().map_err(|errno: Errno| {
                let what = format!("cannot set its flags ({})", said(&errno.into()));
                Failure::at(Exit::Partly, &what, &path, "the clone is whole otherwise")
            })?;
        }
        Ok(())
    }
}
