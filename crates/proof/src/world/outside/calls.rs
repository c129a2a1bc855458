//! From operation to system call.
//!
//! Above: the worker threads of [`super::Outside`]. Invariant: nothing here waits: FIFOs are opened without
//! blocking and closed at once.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{
    self, Access, AtFlags, CWD, FallocateFlags, FileType, IFlags, Mode, OFlags, RenameFlags,
    SeekFrom, Timespec, Timestamps, XattrFlags,
};
use rustix::io::{Errno, Result};

use super::Lacks;
use crate::script::words::When;
use crate::script::{How, Op, RenameHow, Space, XattrHow};
use crate::world::{Answer, Outcome, Stat};
use esker::{Flags, Kind, Time};

type Slots = [Option<OwnedFd>];

pub(super) fn run(op: &Op, slots: &mut Slots, lacks: Lacks) -> Outcome {
    let answer = match op {
        Op::Open { .. } | Op::Tmpfile { .. } | Op::LinkSlot { .. } | Op::Close { .. } => {
            handle(op, slots)
        }
        Op::Read { .. } | Op::Write { .. } | Op::Copy { .. } | Op::Seek { .. } => bytes(op, slots),
        Op::Ftruncate { .. } | Op::Fallocate { .. } | Op::Truncate { .. } => {
            space(op, slots, lacks)
        }
        Op::Setxattr { .. }
        | Op::Getxattr { .. }
        | Op::Removexattr { .. }
        | Op::Listxattr { .. } => xattr(op),
        Op::List { .. }
        | Op::Next { .. }
        | Op::Stat { .. }
        | Op::Fstat { .. }
        | Op::Readlink { .. }
        | Op::Access { .. } => look(op, slots),
        Op::Fsync { .. }
        | Op::Fchmod { .. }
        | Op::Fchown { .. }
        | Op::Futimes { .. }
        | Op::Chmod { .. }
        | Op::Chown { .. }
        | Op::Utimes { .. }
        | Op::Chattr { .. }
        | Op::Umask { .. } => attribute(op, slots),
        _ => name(op),
    };
    answer.map_err(Errno::raw_os_error)
}

fn mode(bits: u32) -> Mode {
    Mode::from_raw_mode(bits)
}

fn at_flags(follow: bool) -> AtFlags {
    if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW }
}

fn name(op: &Op) -> Result<Answer> {
    match op {
        Op::Mkdir { path, mode: perm } => fs::mkdirat(CWD, &path.0[..], mode(perm.0))?,
        Op::Mknod { path, kind, mode: perm, rdev } => {
            let kind = FileType::from_raw_mode(kind.bits());
            fs::mknodat(CWD, &path.0[..], kind, mode(perm.0), (*rdev).into())?;
        }
        Op::Symlink { target, path } => fs::symlinkat(&target.0[..], CWD, &path.0[..])?,
        Op::Link { from, to, follow } => {
            let flags = if *follow { AtFlags::SYMLINK_FOLLOW } else { AtFlags::empty() };
            fs::linkat(CWD, &from.0[..], CWD, &to.0[..], flags)?;
        }
        Op::Unlink { path } => fs::unlinkat(CWD, &path.0[..], AtFlags::empty())?,
        Op::Rmdir { path } => fs::unlinkat(CWD, &path.0[..], AtFlags::REMOVEDIR)?,
        Op::Rename { from, to, how } => {
            fs::renameat_with(CWD, &from.0[..], CWD, &to.0[..], rename_flags(*how))?;
        }
        _ => return Err(Errno::NOSYS),
    }
    Ok(Answer::Nothing)
}

fn rename_flags(how: RenameHow) -> RenameFlags {
    let mut flags = RenameFlags::empty();
    flags.set(RenameFlags::NOREPLACE, how.noreplace);
    flags.set(RenameFlags::EXCHANGE, how.exchange);
    flags.set(RenameFlags::WHITEOUT, how.whiteout);
    flags
}

fn open_flags(how: How) -> OFlags {
    let mut flags = match (how.read, how.write) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        _ => OFlags::RDONLY,
    };
    flags |= OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    flags.set(OFlags::APPEND, how.append);
    flags.set(OFlags::CREATE, how.create);
    flags.set(OFlags::EXCL, how.excl);
    flags.set(OFlags::TRUNC, how.trunc);
    flags.set(OFlags::DIRECTORY, how.directory);
    flags.set(OFlags::NOFOLLOW, how.nofollow);
    flags
}

/// A FIFO answers as a socket does, whoever else has it open.
fn open(path: &[u8], flags: OFlags, perm: u32) -> Result<OwnedFd> {
    let fd = fs::openat(CWD, path, flags, mode(perm))?;
    if kind(&fs::fstat(&fd)?) == Kind::Fifo { Err(Errno::NXIO) } else { Ok(fd) }
}

fn slot(slots: &Slots, slot: u8) -> Result<&OwnedFd> {
    slots.get(usize::from(slot)).and_then(Option::as_ref).ok_or(Errno::BADF)
}

fn handle(op: &Op, slots: &mut Slots) -> Result<Answer> {
    match op {
        Op::Open { slot, path, how, mode } => {
            slots[usize::from(*slot)] = None;
            slots[usize::from(*slot)] = Some(open(&path.0, open_flags(*how), mode.0)?);
        }
        Op::Tmpfile { slot, dir, how, mode } => {
            slots[usize::from(*slot)] = None;
            let flags = open_flags(*how) | OFlags::TMPFILE;
            slots[usize::from(*slot)] = Some(open(&dir.0, flags, mode.0)?);
        }
        Op::LinkSlot { slot: from, to } => {
            fs::linkat(slot(slots, *from)?, c"", CWD, &to.0[..], AtFlags::EMPTY_PATH)?;
        }
        Op::Close { slot } => slots[usize::from(*slot)] = None,
        _ => return Err(Errno::NOSYS),
    }
    Ok(Answer::Nothing)
}

fn bytes(op: &Op, slots: &Slots) -> Result<Answer> {
    match *op {
        Op::Read { slot: from, at, len } => {
            let mut bytes = vec![0; len as usize];
            let count = rustix::io::pread(slot(slots, from)?, &mut bytes, at)?;
            bytes.truncate(count);
            Ok(Answer::Bytes(bytes))
        }
        Op::Write { slot: to, at, len, seed } => {
            let bytes = crate::script::fill(seed, at, len as usize);
            let count = rustix::io::pwrite(slot(slots, to)?, &bytes, at)?;
            Ok(Answer::Number(count as u64))
        }
        Op::Copy { source, from, slot: to, at, len } => {
            let (source, target) = (slot(slots, source)?, slot(slots, to)?);
            let (mut from, mut at) = (from, at);
            let count =
                fs::copy_file_range(source, Some(&mut from), target, Some(&mut at), len as usize)?;
            Ok(Answer::Number(count as u64))
        }
        Op::Seek { slot: of, at } => seek(slot(slots, of)?, at),
        _ => Err(Errno::NOSYS),
    }
}

/// Where data and holes are told to be may differ; that holes read as zero may not.
fn seek(fd: &OwnedFd, at: u64) -> Result<Answer> {
    let stat = fs::fstat(fd)?;
    if kind(&stat) != Kind::File {
        return Ok(Answer::Nothing);
    }
    let size = stat.st_size as u64;
    let data = fs::seek(fd, SeekFrom::Data(at));
    let hole = fs::seek(fd, SeekFrom::Hole(at));
    let hole_until = match (data, hole) {
        (Err(Errno::NXIO), Err(Errno::NXIO)) if at >= size => return Err(Errno::NXIO),
        (Ok(data), Ok(hole)) if (at..size).contains(&data) && (at..=size).contains(&hole) => data,
        (Err(Errno::NXIO), Ok(hole)) if hole == at && at < size => size,
        other => return Ok(Answer::Broken(format!("seek from {at} of {size}: {other:?}"))),
    };
    let mut bytes = vec![0; (hole_until - at).min(1 << 16) as usize];
    match rustix::io::pread(fd, &mut bytes, at) {
        Ok(_) if bytes.iter().any(|&byte| byte != 0) => {
            Ok(Answer::Broken(format!("data in the hole {at}..{hole_until}")))
        }
        _ => Ok(Answer::Nothing),
    }
}

fn space(op: &Op, slots: &Slots, lacks: Lacks) -> Result<Answer> {
    match op {
        Op::Ftruncate { slot: of, len } => fs::ftruncate(slot(slots, *of)?, *len)?,
        Op::Truncate { path, len } => {
            // truncate(2) by way of a handle: the permission and the work are the same.
            let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
            fs::ftruncate(open(&path.0, flags, 0)?, *len)?;
        }
        Op::Fallocate { slot: of, how, at, len } => {
            let fd = slot(slots, *of)?;
            let keep = FallocateFlags::KEEP_SIZE;
            let flags = match how {
                Space::Reserve => FallocateFlags::empty(),
                Space::Keep => keep,
                Space::Punch => FallocateFlags::PUNCH_HOLE | keep,
                Space::Zero if lacks.zero_range => FallocateFlags::PUNCH_HOLE | keep,
                Space::ZeroKeep if lacks.zero_range => FallocateFlags::PUNCH_HOLE | keep,
                Space::Zero => FallocateFlags::ZERO_RANGE,
                Space::ZeroKeep => FallocateFlags::ZERO_RANGE | keep,
            };
            fs::fallocate(fd, flags, *at, *len)?;
            let end = at + len;
            if *how == Space::Zero && lacks.zero_range && end > fs::fstat(fd)?.st_size as u64 {
                fs::ftruncate(fd, end)?;
            }
        }
        _ => return Err(Errno::NOSYS),
    }
    Ok(Answer::Nothing)
}

fn times(atime: When, mtime: When) -> Timestamps {
    let spec = |when| match when {
        When::Omit => Timespec { tv_sec: 0, tv_nsec: fs::UTIME_OMIT },
        When::Now => Timespec { tv_sec: 0, tv_nsec: fs::UTIME_NOW },
        When::At(time) => Timespec { tv_sec: time.secs, tv_nsec: time.nanos.into() },
    };
    Timestamps { last_access: spec(atime), last_modification: spec(mtime) }
}

fn owner(uid: u32, gid: u32) -> (Option<fs::Uid>, Option<fs::Gid>) {
    let some = |id: u32| Some(id).filter(|&id| id != u32::MAX);
    (some(uid).map(fs::Uid::from_raw), some(gid).map(fs::Gid::from_raw))
}

fn attribute(op: &Op, slots: &Slots) -> Result<Answer> {
    match op {
        Op::Fsync { slot: of } => fs::fsync(slot(slots, *of)?)?,
        Op::Fchmod { slot: of, mode: perm } => fs::fchmod(slot(slots, *of)?, mode(perm.0))?,
        Op::Fchown { slot: of, uid, gid } => {
            let (uid, gid) = owner(*uid, *gid);
            fs::fchown(slot(slots, *of)?, uid, gid)?;
        }
        Op::Futimes { slot: of, atime, mtime } => {
            fs::futimens(slot(slots, *of)?, &times(*atime, *mtime))?;
        }
        Op::Chmod { path, mode: perm } => {
            fs::chmodat(CWD, &path.0[..], mode(perm.0), AtFlags::empty())?;
        }
        Op::Chown { path, uid, gid, follow } => {
            let (uid, gid) = owner(*uid, *gid);
            fs::chownat(CWD, &path.0[..], uid, gid, at_flags(*follow))?;
        }
        Op::Utimes { path, atime, mtime, follow } => {
            fs::utimensat(CWD, &path.0[..], &times(*atime, *mtime), at_flags(*follow))?;
        }
        Op::Chattr { path, flags } => {
            let flags_of_open = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let fd = open(&path.0, flags_of_open, 0)?;
            let kept = fs::ioctl_getflags(&fd)?.bits() & !Flags::KNOWN.0;
            fs::ioctl_setflags(&fd, IFlags::from_bits_retain(kept | flags))?;
        }
        Op::Umask { mask } => drop(rustix::process::umask(mode(mask.0))),
        _ => return Err(Errno::NOSYS),
    }
    Ok(Answer::Nothing)
}

fn xattr(op: &Op) -> Result<Answer> {
    match op {
        Op::Setxattr { path, name, value, how, follow } => {
            let set = if *follow { fs::setxattr } else { fs::lsetxattr };
            let flags = match how {
                XattrHow::Any => XattrFlags::empty(),
                XattrHow::Create => XattrFlags::CREATE,
                XattrHow::Replace => XattrFlags::REPLACE,
            };
            set(&path.0[..], &name.0[..], &value.bytes(), flags)?;
            Ok(Answer::Nothing)
        }
        Op::Getxattr { path, name, follow } => {
            let mut value = vec![0; 1 << 16];
            let count = if *follow {
                fs::getxattr(&path.0[..], &name.0[..], &mut value[..])?
            } else {
                fs::lgetxattr(&path.0[..], &name.0[..], &mut value[..])?
            };
            value.truncate(count);
            Ok(Answer::Bytes(value))
        }
        Op::Removexattr { path, name, follow } => {
            let remove = if *follow { fs::removexattr } else { fs::lremovexattr };
            remove(&path.0[..], &name.0[..])?;
            Ok(Answer::Nothing)
        }
        Op::Listxattr { path, follow } => {
            let names = super::look::xattr_names(&path.0, *follow)?;
            Ok(Answer::Names(names.into_iter().map(|name| (name, Kind::File)).collect()))
        }
        _ => Err(Errno::NOSYS),
    }
}

fn look(op: &Op, slots: &Slots) -> Result<Answer> {
    match op {
        Op::List { path } => super::look::list(&path.0),
        Op::Next { .. } => Ok(Answer::Nothing),
        Op::Stat { path, follow } => {
            let stat = fs::statat(CWD, &path.0[..], at_flags(*follow))?;
            Ok(Answer::Stat(convert(&stat)))
        }
        Op::Fstat { slot: of } => Ok(Answer::Stat(convert(&fs::fstat(slot(slots, *of)?.as_fd())?))),
        Op::Readlink { path } => {
            Ok(Answer::Bytes(fs::readlinkat(CWD, &path.0[..], Vec::new())?.into_bytes()))
        }
        Op::Access { path, mask } => {
            let mask = Access::from_bits_truncate(*mask);
            fs::accessat(CWD, &path.0[..], mask, AtFlags::EACCESS)?;
            Ok(Answer::Nothing)
        }
        _ => Err(Errno::NOSYS),
    }
}

fn kind(stat: &fs::Stat) -> Kind {
    Kind::from_mode(stat.st_mode).unwrap_or(Kind::File)
}

pub(super) fn convert(stat: &fs::Stat) -> Stat {
    let kind = kind(stat);
    let time = |secs: i64, nanos: u64| Time { secs, nanos: nanos as u32 };
    Stat {
        kind,
        perm: (stat.st_mode & 0o7777) as u16,
        nlink: stat.st_nlink as u32,
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: stat.st_rdev as u32,
        size: if kind == Kind::Directory { 0 } else { stat.st_size as u64 },
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
    }
}
