//! Bytes: read, written, sought, made room for.

use alloc::vec::Vec;

use esker::Ino;
use esker::posix::{Allocate, SetAttr};
use esker::store::Store;

use crate::context::{Context, ME};
use crate::layouts::Iovec;
use crate::table::{Descriptor, What, flags};
use crate::{Errno, Guest, Result, Rights, Stream, World};

/// Most pieces of memory that one call may name, as in Linux.
const PIECES_MAX: u32 = 1024;
/// Several pieces of no more bytes than this are written as one.
const GATHERED_MAX: u32 = 1 << 20;

/// The pieces of memory that a call names.
#[derive(Clone, Copy)]
struct Pieces {
    at: u32,
    count: u32,
    /// Bytes in all of them.
    total: u32,
}

impl Pieces {
    /// Looks at all of them: they lie in the memory, and so many bytes can be told.
    #[inline]
    fn parse<G: Guest + ?Sized>(guest: &G, at: u32, count: u32) -> Result<Self> {
        if count > PIECES_MAX {
            return Err(Errno::Invalid);
        }
        let mut pieces = Self { at, count, total: 0 };
        for index in 0..count {
            let piece = pieces.get(guest, index)?;
            guest.bytes(piece.at, piece.len)?;
            pieces.total = pieces.total.checked_add(piece.len).ok_or(Errno::Invalid)?;
        }
        Ok(pieces)
    }

    #[inline]
    fn get<G: Guest + ?Sized>(self, guest: &G, index: u32) -> Result<Iovec> {
        let at = self.at.checked_add(index * Iovec::SIZE as u32).ok_or(Errno::Fault)?;
        Iovec::decode(guest.bytes(at, Iovec::SIZE as u32)?).ok_or(Errno::Fault)
    }

    /// Does something with each of them, and is told how many bytes the ones before it had; until one is done in part,
    /// or fails. How many bytes that were: what was done before something failed counts.
    #[inline]
    fn each<G: Guest + ?Sized>(
        self,
        guest: &mut G,
        mut act: impl FnMut(&mut G, Iovec, u32) -> Result<usize>,
    ) -> Result<u32> {
        let mut done = 0;
        for index in 0..self.count {
            let piece = self.get(guest, index)?;
            let got = match act(guest, piece, done) {
                Ok(got) => got as u32,
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => break,
            };
            done += got;
            if got < piece.len {
                break;
            }
        }
        Ok(done)
    }
}

impl<S: Store, W: World> Context<S, W> {
    /// Reads where the descriptor stands, and moves it.
    ///
    /// # Errors
    /// `NotCapable`, `IsDirectory`, `Fault`; `Invalid` for over 1024 pieces.
    pub fn fd_read<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        fd: u32,
        iovs: u32,
        count: u32,
        read: u32,
    ) -> Result {
        guest.bytes_mut(read, 4)?;
        let descriptor = self.table.get(fd)?;
        if let What::Stream(_) = descriptor.what {
            descriptor.needs(Rights::FD_READ)?;
            let done = self.read_stream(guest, iovs, count)?;
            return guest.put_u32(read, done);
        }
        let Descriptor { ino, at, .. } = *descriptor.file(Rights::FD_READ)?;
        let done = self.read_file(guest, ino, at, iovs, count)?;
        self.table.get(fd)?.at = at + u64::from(done);
        guest.put_u32(read, done)
    }

    /// Reads from byte `offset`, and moves nothing.
    ///
    /// # Errors
    /// As [`Context::fd_read`].
    pub fn fd_pread<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        fd: u32,
        iovs: u32,
        count: u32,
        offset: u64,
        read: u32,
    ) -> Result {
        guest.bytes_mut(read, 4)?;
        let ino = self.table.get(fd)?.file(Rights::FD_READ.or(Rights::FD_SEEK))?.ino;
        let done = self.read_file(guest, ino, offset, iovs, count)?;
        guest.put_u32(read, done)
    }

    #[inline]
    fn read_file<G: Guest + ?Sized>(
        &self,
        guest: &mut G,
        ino: Ino,
        at: u64,
        iovs: u32,
        count: u32,
    ) -> Result<u32> {
        Pieces::parse(guest, iovs, count)?.each(guest, |guest, piece, done| {
            let target = guest.bytes_mut(piece.at, piece.len)?;
            let at = at.saturating_add(u64::from(done));
            Ok(match self.atime {
                true => self.fs.read(ino, at, target),
                false => self.fs.peek(ino, at, target),
            }?)
        })
    }

    fn read_stream<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        iovs: u32,
        count: u32,
    ) -> Result<u32> {
        let pieces = Pieces::parse(guest, iovs, count)?;
        for index in 0..count {
            let piece = pieces.get(guest, index)?;
            // What there is fills one piece: waiting for more would keep the program from it.
            if piece.len > 0 {
                let target = guest.bytes_mut(piece.at, piece.len)?;
                return Ok(self.world.read(target)?.min(target.len()) as u32);
            }
        }
        Ok(0)
    }

    /// Writes where the descriptor stands, or at the end if it appends, and moves it behind that.
    ///
    /// # Errors
    /// `NotCapable`, `IsDirectory`, `Fault`, `NoSpace`, `FileTooBig`; `Invalid` for over 1024 pieces.
    pub fn fd_write<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        fd: u32,
        iovs: u32,
        count: u32,
        written: u32,
    ) -> Result {
        guest.bytes_mut(written, 4)?;
        let descriptor = self.table.get(fd)?;
        if let What::Stream(stream) = descriptor.what {
            descriptor.needs(Rights::FD_WRITE)?;
            let done = self.write_stream(guest, stream, iovs, count)?;
            return guest.put_u32(written, done);
        }
        let &mut Descriptor { ino, mut at, flags, .. } = descriptor.file(Rights::FD_WRITE)?;
        if flags & flags::APPEND != 0 {
            at = self.fs.getattr(ino)?.size;
        }
        let done = self.write_file(guest, ino, at, iovs, count)?;
        let descriptor = self.table.get(fd)?;
        descriptor.at = at + u64::from(done);
        descriptor.written = true;
        self.settle(ino, flags)?;
        guest.put_u32(written, done)
    }

    /// Writes from byte `offset` on, and moves nothing.
    ///
    /// # Errors
    /// As [`Context::fd_write`].
    pub fn fd_pwrite<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        fd: u32,
        iovs: u32,
        count: u32,
        offset: u64,
        written: u32,
    ) -> Result {
        guest.bytes_mut(written, 4)?;
        let descriptor = self.table.get(fd)?.file(Rights::FD_WRITE.or(Rights::FD_SEEK))?;
        descriptor.written = true;
        let &mut Descriptor { ino, flags, .. } = descriptor;
        let done = self.write_file(guest, ino, offset, iovs, count)?;
        self.settle(ino, flags)?;
        guest.put_u32(written, done)
    }

    #[inline]
    fn write_file<G: Guest + ?Sized>(
        &self,
        guest: &mut G,
        ino: Ino,
        at: u64,
        iovs: u32,
        count: u32,
    ) -> Result<u32> {
        let pieces = Pieces::parse(guest, iovs, count)?;
        if count == 1 {
            let piece = pieces.get(guest, 0)?;
            return Ok(self.fs.write(ino, at, guest.bytes(piece.at, piece.len)?, false)? as u32);
        }
        // As one it is whole or absent, and costs one change of the home.
        if pieces.total <= GATHERED_MAX {
            let mut whole = Vec::new();
            whole.try_reserve_exact(pieces.total as usize).map_err(|_| Errno::NoMemory)?;
            pieces.each(guest, |guest, piece, _| {
                whole.extend_from_slice(guest.bytes(piece.at, piece.len)?);
                Ok(piece.len as usize)
            })?;
            return Ok(self.fs.write(ino, at, &whole, false)? as u32);
        }
        pieces.each(guest, |guest, piece, done| {
            let at = at.checked_add(u64::from(done)).ok_or(Errno::FileTooBig)?;
            Ok(self.fs.write(ino, at, guest.bytes(piece.at, piece.len)?, false)?)
        })
    }

    fn write_stream<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        stream: Stream,
        iovs: u32,
        count: u32,
    ) -> Result<u32> {
        Pieces::parse(guest, iovs, count)?.each(guest, |guest, piece, _| {
            match guest.bytes(piece.at, piece.len)? {
                [] => Ok(0),
                source => self.world.write(stream, source),
            }
        })
    }

    /// What was written is safe before the call returns, where it was opened so.
    fn settle(&self, ino: Ino, flags: u16) -> Result {
        match flags & (flags::SYNC | flags::DSYNC) {
            0 => Ok(()),
            kind => Ok(self.fs.fsync(ino, kind == flags::DSYNC)?),
        }
    }

    /// Moves the descriptor; where it stands then, to `place`.
    ///
    /// # Errors
    /// `Invalid` before the first byte or past the last; `NoSeek`, `IsDirectory`, `NotCapable`.
    pub fn fd_seek<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        fd: u32,
        offset: i64,
        whence: u32,
        place: u32,
    ) -> Result {
        guest.bytes_mut(place, 8)?;
        let descriptor = self.table.get(fd)?;
        let tells = whence == 1 && offset == 0 && descriptor.base.contains(Rights::FD_TELL);
        let needed = if tells { Rights::FD_TELL } else { Rights::FD_SEEK };
        let descriptor = descriptor.file(needed)?;
        let from = match whence {
            0 => 0,
            1 => descriptor.at,
            2 => self.fs.getattr(descriptor.ino)?.size,
            _ => return Err(Errno::Invalid),
        };
        let at = from.checked_add_signed(offset).filter(|&at| at <= i64::MAX as u64);
        descriptor.at = at.ok_or(Errno::Invalid)?;
        let at = descriptor.at;
        guest.put_u64(place, at)
    }

    /// Where the descriptor stands, to `place`.
    ///
    /// # Errors
    /// `NoSeek`, `IsDirectory`, `NotCapable`.
    pub fn fd_tell<G: Guest + ?Sized>(&mut self, guest: &mut G, fd: u32, place: u32) -> Result {
        let descriptor = self.table.get(fd)?;
        let seeks = descriptor.base.contains(Rights::FD_SEEK);
        let at = descriptor.file(if seeks { Rights::FD_SEEK } else { Rights::FD_TELL })?.at;
        guest.put_u64(place, at)
    }

    /// Makes sure of space, and of a file that is at least so long.
    ///
    /// # Errors
    /// `Invalid` for no bytes; `NoSpace`, `FileTooBig`, `NoSeek`, `IsDirectory`, `NotCapable`.
    pub fn fd_allocate(&mut self, fd: u32, offset: u64, len: u64) -> Result {
        let ino = self.table.get(fd)?.file(Rights::FD_ALLOCATE)?.ino;
        Ok(self.fs.fallocate(&ME, ino, Allocate::Reserve, offset, len)?)
    }

    /// How the program means to use a part of a file; nothing comes of it.
    ///
    /// # Errors
    /// `Invalid` for an advice that there is not; `NoSeek`, `IsDirectory`, `NotCapable`.
    pub fn fd_advise(&mut self, fd: u32, offset: u64, len: u64, advice: u32) -> Result {
        self.table.get(fd)?.file(Rights::FD_ADVISE)?;
        let fits = offset.checked_add(len).is_some();
        if advice <= 5 && fits { Ok(()) } else { Err(Errno::Invalid) }
    }

    /// Makes the file so many bytes long.
    ///
    /// # Errors
    /// `FileTooBig`, `NoSpace`, `Invalid` for what is no file, `IsDirectory`, `NotCapable`.
    pub fn fd_filestat_set_size(&mut self, fd: u32, size: u64) -> Result {
        let descriptor = self.table.get(fd)?.file(Rights::FD_FILESTAT_SET_SIZE);
        let ino = descriptor.map_err(|errno| match errno {
            Errno::NoSeek => Errno::Invalid,
            errno => errno,
        })?;
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        self.fs.setattr(&ME, ino.ino, &set)?;
        Ok(())
    }

    /// Returns once everything about the file would survive a loss of power, as far as the home promises that.
    ///
    /// # Errors
    /// What the home says; `NotCapable`; `Invalid` for a stream.
    pub fn fd_sync(&mut self, fd: u32) -> Result {
        self.sync(fd, Rights::FD_SYNC, false)
    }

    /// The same for its bytes.
    ///
    /// # Errors
    /// As [`Context::fd_sync`].
    pub fn fd_datasync(&mut self, fd: u32) -> Result {
        self.sync(fd, Rights::FD_DATASYNC, true)
    }

    fn sync(&mut self, fd: u32, needed: Rights, data_only: bool) -> Result {
        let descriptor = self.table.get(fd)?;
        let ino = descriptor.inode().ok_or(Errno::Invalid)?;
        descriptor.needs(needed)?;
        Ok(self.fs.fsync(ino, data_only)?)
    }
}
