//! What is known of descriptors and files, and what of that a program may set.

use esker::posix::{Node, SetAttr, SetTime};
use esker::store::Store;
use esker::{Ino, Time};

use crate::context::{Context, ME};
use crate::layouts::{Fdstat, Filestat, Prestat, filetype};
use crate::names::path;
use crate::open::FOLLOW;
use crate::table::{Descriptor, What, flags};
use crate::{Errno, Guest, Result, Rights, World};

/// Every file is on one device.
const DEVICE: u64 = 1;
const NANOS: u64 = 1_000_000_000;

/// `fstflags`.
const ATIME: u32 = 1;
const ATIME_NOW: u32 = 2;
const MTIME: u32 = 4;
const MTIME_NOW: u32 = 8;

/// Nanoseconds from 1970, as far as WASI can tell them: none before, none after 2554.
fn nanos(time: Time) -> u64 {
    let secs = u64::try_from(time.secs).unwrap_or(0);
    let nanos = if time.secs < 0 { 0 } else { u64::from(time.nanos) };
    secs.saturating_mul(NANOS).saturating_add(nanos)
}

fn time(nanos: u64) -> Time {
    Time { secs: (nanos / NANOS).cast_signed(), nanos: (nanos % NANOS) as u32 }
}

fn filestat(node: &Node) -> Filestat {
    let attr = &node.attr;
    Filestat {
        dev: DEVICE,
        ino: node.ino.0,
        filetype: filetype::of(attr.kind),
        gap: [0; 7],
        nlink: attr.nlink.into(),
        size: attr.size,
        atim: nanos(attr.atime),
        mtim: nanos(attr.mtime),
        ctim: nanos(attr.ctime),
    }
}

fn set_times(atim: u64, mtim: u64, flags: u32) -> Result<SetAttr> {
    let both = |one: u32, other: u32| flags & one != 0 && flags & other != 0;
    if both(ATIME, ATIME_NOW) || both(MTIME, MTIME_NOW) || flags > 15 {
        return Err(Errno::Invalid);
    }
    let pick = |given: u32, now: u32, nanos| match flags & (given | now) {
        0 => None,
        flag if flag == now => Some(SetTime::Now),
        _ => Some(SetTime::At(time(nanos))),
    };
    let (atime, mtime) = (pick(ATIME, ATIME_NOW, atim), pick(MTIME, MTIME_NOW, mtim));
    Ok(SetAttr { atime, mtime, ..SetAttr::default() })
}

impl<S: Store, W: World> Context<S, W> {
    fn filetype(&self, what: What, ino: Ino) -> Result<u8> {
        Ok(match what {
            What::Stream(stream) if self.world.is_terminal(stream) => filetype::CHARACTER_DEVICE,
            What::Stream(_) => filetype::UNKNOWN,
            _ => filetype::of(self.fs.getattr(ino)?.kind),
        })
    }

    /// What is known of a descriptor.
    ///
    /// # Errors
    /// `BadDescriptor`, `Fault`.
    pub fn fd_fdstat_get<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        fd: u32,
        stat: u32,
    ) -> Result {
        let &mut Descriptor { what, ino, flags, base, inheriting, .. } = self.table.get(fd)?;
        let (base, inheriting) = (base.0, inheriting.0);
        let filetype = self.filetype(what, ino)?;
        let known = Fdstat { filetype, hole: 0, flags, gap: 0, base, inheriting };
        guest.put(stat, &known.encode())
    }

    /// Sets whether writes go to the end, and are safe before they return.
    ///
    /// # Errors
    /// `Invalid` for flags that there are not; `NotCapable`.
    pub fn fd_fdstat_set_flags(&mut self, fd: u32, flags: u32) -> Result {
        let descriptor = self.table.get(fd)?;
        descriptor.needs(Rights::FD_FDSTAT_SET_FLAGS)?;
        let flags = u16::try_from(flags).ok().filter(|flags| flags & !flags::ALL == 0);
        let flags = flags.ok_or(Errno::Invalid)?;
        if let What::File | What::Other = descriptor.what {
            descriptor.flags = flags;
        }
        Ok(())
    }

    /// Takes rights from a descriptor: these are left.
    ///
    /// # Errors
    /// `NotCapable` for one that it does not have.
    pub fn fd_fdstat_set_rights(&mut self, fd: u32, base: u64, inheriting: u64) -> Result {
        let descriptor = self.table.get(fd)?;
        let (base, inheriting) = (Rights(base), Rights(inheriting));
        if !descriptor.base.contains(base) || !descriptor.inheriting.contains(inheriting) {
            return Err(Errno::NotCapable);
        }
        (descriptor.base, descriptor.inheriting) = (base, inheriting);
        Ok(())
    }

    /// What is known of what a descriptor leads to.
    ///
    /// # Errors
    /// `NotCapable`.
    pub fn fd_filestat_get<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        fd: u32,
        stat: u32,
    ) -> Result {
        let descriptor = self.table.get(fd)?.needs(Rights::FD_FILESTAT_GET)?;
        let (what, ino) = (descriptor.what, descriptor.ino);
        if let What::Stream(_) = what {
            let [dev, ino, size, atim, mtim, ctim] = [0; 6];
            let (filetype, gap) = (self.filetype(what, Ino(0))?, [0; 7]);
            let known = Filestat { dev, ino, filetype, gap, nlink: 1, size, atim, mtim, ctim };
            return guest.put(stat, &known.encode());
        }
        let node = Node { ino, attr: self.fs.getattr(ino)? };
        guest.put(stat, &filestat(&node).encode())
    }

    /// Sets the times of what a descriptor leads to.
    ///
    /// # Errors
    /// `Invalid` for flags that contradict each other, or a stream; `NotCapable`.
    pub fn fd_filestat_set_times(&mut self, fd: u32, atim: u64, mtim: u64, flags: u32) -> Result {
        let set = set_times(atim, mtim, flags)?;
        let descriptor = self.table.get(fd)?;
        let ino = descriptor.inode().ok_or(Errno::Invalid)?;
        descriptor.needs(Rights::FD_FILESTAT_SET_TIMES)?;
        self.set_attr(ino, &set)
    }

    fn set_attr(&self, ino: Ino, set: &SetAttr) -> Result {
        // Nothing to set is no change.
        if *set != SetAttr::default() {
            self.fs.setattr(&ME, ino, set)?;
        }
        Ok(())
    }

    /// What is known of what a path leads to.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `Loop`, `NotCapable`, `NotPermitted` for a path that leads out.
    pub fn path_filestat_get<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        fd: u32,
        flags: u32,
        at: u32,
        len: u32,
        stat: u32,
    ) -> Result {
        let dir = self.table.get(fd)?.directory(Rights::PATH_FILESTAT_GET)?;
        let path = path(guest, at, len)?;
        let node = self.fs.stat_beneath(&ME, dir, path, flags & FOLLOW != 0)?;
        guest.put(stat, &filestat(&node).encode())
    }

    /// Sets the times of what a path leads to.
    ///
    /// # Errors
    /// As [`Context::path_filestat_get`]; `Invalid` for flags that contradict each other.
    #[expect(clippy::too_many_arguments, reason = "WASI has them")]
    pub fn path_filestat_set_times<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        fd: u32,
        flags: u32,
        at: u32,
        len: u32,
        atim: u64,
        mtim: u64,
        fst_flags: u32,
    ) -> Result {
        let set = set_times(atim, mtim, fst_flags)?;
        let dir = self.table.get(fd)?.directory(Rights::PATH_FILESTAT_SET_TIMES)?;
        let path = path(guest, at, len)?;
        let (node, _) = self.fs.open_beneath(&ME, dir, path, flags & FOLLOW != 0, None)?;
        let done = self.set_attr(node.ino, &set);
        self.fs.forget(node.ino, 1);
        done
    }

    /// Whether the program was given this directory, and how long its name is.
    ///
    /// # Errors
    /// `BadDescriptor` for any other descriptor.
    pub fn fd_prestat_get<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        fd: u32,
        prestat: u32,
    ) -> Result {
        let given = self.table.get(fd)?.given.as_ref().ok_or(Errno::BadDescriptor)?;
        let known = Prestat { tag: 0, gap: [0; 3], name_len: given.len() as u32 };
        guest.put(prestat, &known.encode())
    }

    /// The name under which the program was given this directory.
    ///
    /// # Errors
    /// `BadDescriptor`; `NameTooLong` for a buffer that is too short.
    pub fn fd_prestat_dir_name<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        fd: u32,
        at: u32,
        len: u32,
    ) -> Result {
        let given = self.table.get(fd)?.given.as_ref().ok_or(Errno::BadDescriptor)?;
        if given.len() > len as usize {
            return Err(Errno::NameTooLong);
        }
        guest.put(at, given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_cannot_be_told_are_the_nearest_that_can() {
        assert_eq!(nanos(Time { secs: -1, nanos: 5 }), 0);
        assert_eq!(nanos(Time { secs: 3, nanos: 7 }), 3_000_000_007);
        assert_eq!(nanos(Time { secs: i64::MAX, nanos: 0 }), u64::MAX);
        let last = time(u64::MAX);
        assert_eq!((nanos(last), last.nanos < 1_000_000_000), (u64::MAX, true));
    }
}
