//! Bytes to [`Request`]. Bytes are hostile: every length is checked before it is believed.
//!
//! A structure comes first, then names, each ended by a NUL, or data. (Over io_uring the structure
//! and the rest arrive in two places; [`Cut`] is where that difference will live.)

use esker::posix::{Allocate, New, OpenFlags, RenameFlags, SetAttr, SetTime, XattrMode};
use esker::{Cursor, Error, Ino, Kind, Result, Time};

use crate::request::{Forgets, Groups, Op, ParseError, Request};
use crate::wire::flags::{
    fallocate, fsync, getattr, lseek, open, opened, rename, setattr, setxattr, write,
};
use crate::wire::{
    BatchForgetIn, CopyFileRangeIn, CreateIn, EXT_GROUPS, ExtHeader, FallocateIn, ForgetIn,
    ForgetOne, FsyncIn, GetattrIn, GetxattrIn, InHeader, InitIn, InterruptIn, IoctlIn, LinkIn,
    LseekIn, MkdirIn, MknodIn, Opcode, OpenIn, RECORD_ALIGN, ReadIn, ReleaseIn, Rename2In,
    RenameIn, SetattrIn, SetxattrIn, WriteIn,
};

/// The first 16 bytes of [`InitIn`] are all that a kernel without `INIT_EXT` sends.
const INIT_IN_SHORT: usize = 16;

impl<'a> Request<'a> {
    /// Takes one request apart.
    ///
    /// # Errors
    /// [`ParseError`]; never a panic, whatever the bytes.
    pub fn parse(bytes: &'a [u8]) -> std::result::Result<Self, ParseError> {
        let header = InHeader::decode(bytes).ok_or(ParseError::Header)?;
        if header.len as usize != bytes.len() {
            return Err(ParseError::Header);
        }
        Self::parse_body(&header, &bytes[InHeader::SIZE..]).map_err(|error| ParseError::Body {
            unique: header.unique,
            opcode: header.opcode,
            error,
        })
    }

    fn parse_body(header: &InHeader, body: &'a [u8]) -> Result<Self> {
        let opcode = Opcode::from_number(header.opcode).ok_or(Error::NoSuchCall)?;
        let split = body.len().checked_sub(usize::from(header.total_extlen) * 8);
        let (body, extensions) = body.split_at(split.ok_or(Error::Invalid)?);
        Ok(Self {
            unique: header.unique,
            node: Ino(header.nodeid),
            uid: header.uid,
            gid: header.gid,
            pid: header.pid,
            groups: groups(extensions)?,
            op: op(opcode, Cut { rest: body })?,
        })
    }
}

/// What of a request has not been taken yet.
struct Cut<'a> {
    rest: &'a [u8],
}

/// Takes the structure off the front.
macro_rules! take {
    ($cut:expr, $type:ident) => {
        match $type::decode($cut.rest) {
            Some(taken) => {
                $cut.skip($type::SIZE);
                taken
            }
            None => return Err(Error::Invalid),
        }
    };
}

impl<'a> Cut<'a> {
    /// So many bytes, which were there.
    fn skip(&mut self, len: usize) {
        self.rest = &self.rest[len..];
    }

    /// A name, which a NUL ends.
    fn name(&mut self) -> Result<&'a [u8]> {
        let end = self.rest.iter().position(|&byte| byte == 0).ok_or(Error::Invalid)?;
        let (name, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        Ok(name)
    }

    /// Exactly so many bytes.
    fn bytes(&mut self, len: u32) -> Result<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(len as usize).ok_or(Error::Invalid)?;
        self.rest = rest;
        Ok(bytes)
    }
}

fn op<'a>(opcode: Opcode, mut cut: Cut<'a>) -> Result<Op<'a>> {
    Ok(match opcode {
        Opcode::Lookup
        | Opcode::Symlink
        | Opcode::Mknod
        | Opcode::Mkdir
        | Opcode::Unlink
        | Opcode::Rmdir
        | Opcode::Rename
        | Opcode::Rename2
        | Opcode::Link
        | Opcode::Create
        | Opcode::Tmpfile => return name_op(opcode, cut),
        Opcode::Open
        | Opcode::Release
        | Opcode::Read
        | Opcode::Write
        | Opcode::Fsync
        | Opcode::Fallocate
        | Opcode::Lseek
        | Opcode::CopyFileRange
        | Opcode::CopyFileRange64
        | Opcode::Ioctl => return file_op(opcode, cut),
        Opcode::Setxattr | Opcode::Getxattr | Opcode::Listxattr | Opcode::Removexattr => {
            return xattr_op(opcode, cut);
        }
        Opcode::Init | Opcode::Forget | Opcode::BatchForget | Opcode::Interrupt => {
            return talk_op(opcode, cut);
        }
        Opcode::Readdir | Opcode::Readdirplus => return list_op(opcode, cut),
        Opcode::Setattr => return setattr_op(cut),
        Opcode::Getattr => {
            let asked = take!(cut, GetattrIn);
            let open = asked.getattr_flags & getattr::FH != 0;
            Op::Getattr { open, writes: open && asked.fh == opened::WRITER }
        }
        Opcode::Statx => Op::Statx,
        Opcode::Readlink => Op::Readlink,
        Opcode::Statfs => Op::Statfs,
        Opcode::Flush => Op::Flush,
        Opcode::Fsyncdir => Op::Fsyncdir,
        Opcode::Syncfs => Op::Syncfs,
        Opcode::Opendir => Op::Opendir,
        Opcode::Releasedir => Op::Releasedir,
        Opcode::Destroy => Op::Destroy,
        other => Op::Other(other),
    })
}

fn talk_op<'a>(opcode: Opcode, mut cut: Cut<'a>) -> Result<Op<'a>> {
    Ok(match opcode {
        Opcode::Init => Op::Init(init(cut.rest)?),
        Opcode::Forget => Op::Forget { count: take!(cut, ForgetIn).nlookup },
        Opcode::BatchForget => {
            let count = take!(cut, BatchForgetIn).count;
            let len = count.checked_mul(ForgetOne::SIZE as u32).ok_or(Error::Invalid)?;
            Op::BatchForget(Forgets::new(cut.bytes(len)?))
        }
        _ => Op::Interrupt { unique: take!(cut, InterruptIn).unique },
    })
}

fn init(bytes: &[u8]) -> Result<InitIn> {
    let mut whole = [0; InitIn::SIZE];
    let len = bytes.len().min(InitIn::SIZE);
    if len < INIT_IN_SHORT {
        return Err(Error::Invalid);
    }
    whole[..len].copy_from_slice(&bytes[..len]);
    InitIn::decode(&whole).ok_or(Error::Invalid)
}

fn name_op<'a>(opcode: Opcode, mut cut: Cut<'a>) -> Result<Op<'a>> {
    Ok(match opcode {
        Opcode::Lookup => Op::Lookup { name: cut.name()? },
        Opcode::Symlink => Op::Symlink { name: cut.name()?, target: cut.name()? },
        Opcode::Mknod => {
            let MknodIn { mode, rdev, umask, .. } = take!(cut, MknodIn);
            let kind = Kind::from_mode(mode).ok_or(Error::Invalid)?;
            Op::Mknod { name: cut.name()?, new: new(kind, mode, umask, rdev) }
        }
        Opcode::Mkdir => {
            let MkdirIn { mode, umask } = take!(cut, MkdirIn);
            Op::Mkdir { name: cut.name()?, new: new(Kind::Directory, mode, umask, 0) }
        }
        Opcode::Unlink => Op::Unlink { name: cut.name()? },
        Opcode::Rmdir => Op::Rmdir { name: cut.name()? },
        Opcode::Rename => {
            let to_dir = Ino(take!(cut, RenameIn).newdir);
            let flags = RenameFlags::default();
            Op::Rename { name: cut.name()?, to_dir, to_name: cut.name()?, flags }
        }
        Opcode::Rename2 => {
            let Rename2In { newdir, flags, .. } = take!(cut, Rename2In);
            let (to_dir, flags) = (Ino(newdir), rename_flags(flags)?);
            Op::Rename { name: cut.name()?, to_dir, to_name: cut.name()?, flags }
        }
        Opcode::Link => {
            let ino = Ino(take!(cut, LinkIn).oldnodeid);
            Op::Link { ino, name: cut.name()? }
        }
        Opcode::Create => {
            let create = take!(cut, CreateIn);
            Op::Create {
                name: cut.name()?,
                new: new(Kind::File, create.mode, create.umask, 0),
                flags: open_flags(create.flags, create.open_flags),
                exclusive: create.flags & open::O_EXCL != 0,
            }
        }
        _ => {
            let CreateIn { mode, umask, .. } = take!(cut, CreateIn);
            Op::Tmpfile { new: new(Kind::File, mode, umask, 0) }
        }
    })
}

const fn new(kind: Kind, mode: u32, umask: u32, rdev: u32) -> New {
    New { kind, perm: (mode & 0o7777) as u16, umask: (umask & 0o7777) as u16, rdev }
}

const fn open_flags(flags: u32, open_flags: u32) -> OpenFlags {
    OpenFlags {
        read: flags & open::O_ACCMODE != open::O_WRONLY,
        write: flags & open::O_ACCMODE != 0,
        append: flags & open::O_APPEND != 0,
        truncate: flags & open::O_TRUNC != 0,
        kill_priv: open_flags & open::KILL_SUIDGID != 0,
    }
}

fn rename_flags(flags: u32) -> Result<RenameFlags> {
    if flags & !(rename::NOREPLACE | rename::EXCHANGE | rename::WHITEOUT) != 0 {
        return Err(Error::Invalid);
    }
    Ok(RenameFlags {
        no_replace: flags & rename::NOREPLACE != 0,
        exchange: flags & rename::EXCHANGE != 0,
        whiteout: flags & rename::WHITEOUT != 0,
    })
}

fn file_op<'a>(opcode: Opcode, mut cut: Cut<'a>) -> Result<Op<'a>> {
    Ok(match opcode {
        Opcode::Open => {
            let OpenIn { flags, open_flags: more } = take!(cut, OpenIn);
            Op::Open { flags: open_flags(flags, more), no_atime: flags & open::O_NOATIME != 0 }
        }
        Opcode::Release => {
            Op::Release { write: take!(cut, ReleaseIn).flags & open::O_ACCMODE != 0 }
        }
        Opcode::Read => {
            let ReadIn { offset, size, flags, .. } = take!(cut, ReadIn);
            Op::Read { at: offset, len: size, no_atime: flags & open::O_NOATIME != 0 }
        }
        Opcode::Write => {
            let WriteIn { offset, size, write_flags, .. } = take!(cut, WriteIn);
            let kill_priv = write_flags & write::KILL_SUIDGID != 0;
            let late = write_flags & write::CACHE != 0;
            Op::Write { at: offset, source: cut.bytes(size)?, kill_priv, late }
        }
        Opcode::Fsync => {
            Op::Fsync { data_only: take!(cut, FsyncIn).fsync_flags & fsync::FDATASYNC != 0 }
        }
        Opcode::Fallocate => {
            let FallocateIn { offset, length, mode, .. } = take!(cut, FallocateIn);
            Op::Fallocate { how: allocate(mode)?, at: offset, len: length }
        }
        Opcode::Lseek => {
            let LseekIn { offset: at, whence, .. } = take!(cut, LseekIn);
            match whence {
                lseek::DATA => Op::SeekData { at },
                lseek::HOLE => Op::SeekHole { at },
                _ => return Err(Error::Invalid),
            }
        }
        Opcode::Ioctl => {
            let IoctlIn { cmd: command, in_size, out_size: output_len, .. } = take!(cut, IoctlIn);
            Op::Ioctl { command, input: cut.bytes(in_size)?, output_len }
        }
        wide => {
            let copy = take!(cut, CopyFileRangeIn);
            Op::CopyFileRange {
                from: copy.off_in,
                ino: Ino(copy.nodeid_out),
                at: copy.off_out,
                len: copy.len,
                wide: wide == Opcode::CopyFileRange64,
            }
        }
    })
}

const fn allocate(mode: u32) -> Result<Allocate> {
    const PUNCH: u32 = fallocate::PUNCH_HOLE | fallocate::KEEP_SIZE;
    const ZERO_KEEP: u32 = fallocate::ZERO_RANGE | fallocate::KEEP_SIZE;
    Ok(match mode {
        0 => Allocate::Reserve,
        fallocate::KEEP_SIZE => Allocate::ReserveKeepSize,
        PUNCH => Allocate::Punch,
        fallocate::ZERO_RANGE => Allocate::Zero,
        ZERO_KEEP => Allocate::ZeroKeepSize,
        _ => return Err(Error::NotSupported),
    })
}

fn xattr_op<'a>(opcode: Opcode, mut cut: Cut<'a>) -> Result<Op<'a>> {
    Ok(match opcode {
        Opcode::Setxattr => {
            let SetxattrIn { size, flags, setxattr_flags, .. } = take!(cut, SetxattrIn);
            let mode = match flags {
                0 => XattrMode::Any,
                setxattr::CREATE => XattrMode::Create,
                setxattr::REPLACE => XattrMode::Replace,
                _ => return Err(Error::Invalid),
            };
            let kill_sgid = setxattr_flags & setxattr::ACL_KILL_SGID != 0;
            Op::Setxattr { name: cut.name()?, value: cut.bytes(size)?, mode, kill_sgid }
        }
        Opcode::Getxattr => {
            let size = take!(cut, GetxattrIn).size;
            Op::Getxattr { name: cut.name()?, size }
        }
        Opcode::Listxattr => Op::Listxattr { size: take!(cut, GetxattrIn).size },
        _ => Op::Removexattr { name: cut.name()? },
    })
}

fn list_op<'a>(opcode: Opcode, mut cut: Cut<'a>) -> Result<Op<'a>> {
    let ReadIn { offset, size: len, .. } = take!(cut, ReadIn);
    let after = Cursor(offset);
    Ok(match opcode {
        Opcode::Readdirplus => Op::Readdirplus { after, len },
        _ => Op::Readdir { after, len },
    })
}

fn setattr_op<'a>(mut cut: Cut<'a>) -> Result<Op<'a>> {
    let set = take!(cut, SetattrIn);
    let given = |bit| set.valid & bit != 0;
    let moment = |bit, now, secs, nanos| -> Result<Option<SetTime>> {
        Ok(match (given(bit), given(now)) {
            (false, _) => None,
            (true, true) => Some(SetTime::Now),
            (true, false) => Some(SetTime::At(time(secs, nanos)?)),
        })
    };
    let ctime = given(setattr::CTIME).then(|| time(set.ctime, set.ctimensec)).transpose()?;
    Ok(Op::Setattr(SetAttr {
        perm: given(setattr::MODE).then_some((set.mode & 0o7777) as u16),
        uid: given(setattr::UID).then_some(set.uid),
        gid: given(setattr::GID).then_some(set.gid),
        size: given(setattr::SIZE).then_some(set.size),
        atime: moment(setattr::ATIME, setattr::ATIME_NOW, set.atime, set.atimensec)?,
        mtime: moment(setattr::MTIME, setattr::MTIME_NOW, set.mtime, set.mtimensec)?,
        ctime,
        kill_priv: given(setattr::KILL_SUIDGID),
    }))
}

fn time(secs: u64, nanos: u32) -> Result<Time> {
    if nanos >= 1_000_000_000 {
        return Err(Error::Invalid);
    }
    Ok(Time { secs: secs.cast_signed(), nanos })
}

/// The supplementary groups among the extensions.
fn groups(mut extensions: &[u8]) -> Result<Groups> {
    let mut groups = Groups::default();
    while !extensions.is_empty() {
        let ExtHeader { size, kind } = ExtHeader::decode(extensions).ok_or(Error::Invalid)?;
        let size = size as usize;
        if size < ExtHeader::SIZE || size > extensions.len() {
            return Err(Error::Invalid);
        }
        // All extensions together are a number of whole words, so rounding up stays inside.
        let (extension, rest) = extensions.split_at(size.next_multiple_of(RECORD_ALIGN));
        extensions = rest;
        if kind != EXT_GROUPS {
            continue;
        }
        let mut numbers = extension[ExtHeader::SIZE..size].as_chunks::<4>().0.iter();
        let count = numbers.next().map_or(0, |&bytes| u32::from_le_bytes(bytes));
        if count as usize > numbers.len() {
            return Err(Error::Invalid);
        }
        numbers.take(count as usize).for_each(|&bytes| groups.add(u32::from_le_bytes(bytes)));
    }
    Ok(groups)
}
