//! Names: directories made, names given, moved and taken away, where symbolic links lead.
//!
//! Invariant: a path ends beneath the directory that it starts from, or the call is refused.

use core::str;

use esker::posix::{Last, New, RenameFlags};
use esker::store::Store;
use esker::{Ino, Kind, Name};

use crate::context::{Context, ME};
use crate::open::FOLLOW;
use crate::{Errno, Guest, Result, Rights, World};

/// A path that a program hands over: UTF-8, as WASI has it.
#[inline]
pub(crate) fn path<G: Guest + ?Sized>(guest: &G, at: u32, len: u32) -> Result<&[u8]> {
    let bytes = guest.bytes(at, len)?;
    if len as usize > esker::limits::PATH_LEN_MAX {
        return Err(Errno::NameTooLong);
    }
    match str::from_utf8(bytes) {
        Ok(_) => Ok(bytes),
        Err(_) => Err(Errno::IllegalBytes),
    }
}

/// The last name of a path.
fn name<'a>(last: &'a Last<'_>) -> Result<Name<'a>> {
    Ok(Name::parse(&last.name)?)
}

fn dots(last: &Last<'_>) -> bool {
    matches!(&last.name[..], b"." | b"..")
}

impl<S: Store, W: World> Context<S, W> {
    fn dir(&mut self, fd: u32, needed: Rights) -> Result<Ino> {
        self.table.get(fd)?.directory(needed)
    }

    /// Where a path ends: a directory, and a name in it.
    fn last<'a, G: Guest + ?Sized>(
        &mut self,
        guest: &'a G,
        (fd, needed): (u32, Rights),
        (at, len): (u32, u32),
    ) -> Result<Last<'a>> {
        let dir = self.dir(fd, needed)?;
        Ok(self.fs.beneath(&ME, dir, path(guest, at, len)?)?)
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// `Exists`, `NotFound`, `NotDirectory`, `NotCapable`, `NoSpace`.
    pub fn path_create_directory<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        fd: u32,
        at: u32,
        len: u32,
    ) -> Result {
        let last = self.last(guest, (fd, Rights::PATH_CREATE_DIRECTORY), (at, len))?;
        if dots(&last) {
            return Err(Errno::Exists);
        }
        let new = New { kind: Kind::Directory, perm: 0o755, umask: 0, rdev: 0 };
        let node = self.fs.create(&ME, last.dir, name(&last)?, new)?;
        self.fs.forget(node.ino, 1);
        Ok(())
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotEmpty`, `NotDirectory`, `NotFound`, `NotCapable`; `Invalid` for `.`.
    pub fn path_remove_directory<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        fd: u32,
        at: u32,
        len: u32,
    ) -> Result {
        let last = self.last(guest, (fd, Rights::PATH_REMOVE_DIRECTORY), (at, len))?;
        if &last.name[..] == b".." {
            return Err(Errno::NotEmpty);
        }
        Ok(self.fs.rmdir(&ME, last.dir, name(&last)?)?)
    }

    /// Removes a name of a file; the file goes with its last name and its last descriptor.
    ///
    /// # Errors
    /// `IsDirectory`, `NotFound`, `NotCapable`; `NotDirectory` for a file with a slash behind it.
    pub fn path_unlink_file<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        fd: u32,
        at: u32,
        len: u32,
    ) -> Result {
        let last = self.last(guest, (fd, Rights::PATH_UNLINK_FILE), (at, len))?;
        if dots(&last) {
            return Err(Errno::IsDirectory);
        }
        if last.slash {
            self.is_directory(&last)?;
        }
        Ok(self.fs.unlink(&ME, last.dir, name(&last)?)?)
    }

    /// What a name leads to is a directory, which a slash behind it says.
    fn is_directory(&self, last: &Last<'_>) -> Result {
        let attr = self.fs.stat(&ME, last.dir, name(last)?.bytes(), false)?;
        if attr.kind == Kind::Directory { Ok(()) } else { Err(Errno::NotDirectory) }
    }

    /// A name for something that is no directory: a slash behind it is wrong, whatever is there.
    fn for_no_directory<'a>(&self, last: &'a Last<'_>) -> Result<Name<'a>> {
        if dots(last) {
            return Err(Errno::Exists);
        }
        let name = name(last)?;
        if last.slash {
            self.is_directory(last)?;
            return Err(Errno::Exists);
        }
        Ok(name)
    }

    /// Gives a file another name.
    ///
    /// # Errors
    /// `Exists`, `NotFound`, `NotPermitted` for a directory, `NotCapable`.
    #[expect(clippy::too_many_arguments, reason = "WASI has them")]
    pub fn path_link<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        fd: u32,
        flags: u32,
        at: u32,
        len: u32,
        to: u32,
        new_at: u32,
        new_len: u32,
    ) -> Result {
        let dir = self.dir(fd, Rights::PATH_LINK_SOURCE)?;
        let to = self.dir(to, Rights::PATH_LINK_TARGET)?;
        let (old, new) = (path(guest, at, len)?, path(guest, new_at, new_len)?);
        let (node, _) = self.fs.open_beneath(&ME, dir, old, flags & FOLLOW != 0, None)?;
        let linked = self.fs.beneath(&ME, to, new).map_err(Errno::from).and_then(|last| {
            let name = self.for_no_directory(&last)?;
            Ok(self.fs.link(&ME, node.ino, last.dir, name)?)
        });
        // Once for the path that was walked, once for the name that was made.
        self.fs.forget(node.ino, 1 + u64::from(linked.is_ok()));
        linked.map(drop)
    }

    /// Makes a symbolic link, which may lead anywhere but to an absolute path.
    ///
    /// # Errors
    /// `Exists`, `NotFound` for an empty target, `NotPermitted` for an absolute one, `NotCapable`, `NameTooLong`.
    pub fn path_symlink<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        target_at: u32,
        target_len: u32,
        fd: u32,
        at: u32,
        len: u32,
    ) -> Result {
        let dir = self.dir(fd, Rights::PATH_SYMLINK)?;
        let (target, place) = (path(guest, target_at, target_len)?, path(guest, at, len)?);
        if target.first() == Some(&b'/') {
            return Err(Errno::NotPermitted);
        }
        let last = self.fs.beneath(&ME, dir, place)?;
        let node = self.fs.symlink(&ME, last.dir, self.for_no_directory(&last)?, target)?;
        self.fs.forget(node.ino, 1);
        Ok(())
    }

    /// Where a symbolic link leads, to `buffer`, as much as it takes; how many bytes that were to `used`.
    ///
    /// # Errors
    /// `Invalid` when it is none; `NotFound`, `NotCapable`.
    #[expect(clippy::too_many_arguments, reason = "WASI has them")]
    pub fn path_readlink<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        fd: u32,
        at: u32,
        len: u32,
        buffer: u32,
        buffer_len: u32,
        used: u32,
    ) -> Result {
        guest.bytes_mut(used, 4)?;
        let dir = self.dir(fd, Rights::PATH_READLINK)?;
        let (node, _) = self.fs.open_beneath(&ME, dir, path(guest, at, len)?, false, None)?;
        let read = guest.bytes_mut(buffer, buffer_len).and_then(|target| {
            Ok(match self.atime {
                true => self.fs.readlink(node.ino, target),
                false => self.fs.peek_link(node.ino, target),
            }?)
        });
        self.fs.forget(node.ino, 1);
        guest.put_u32(used, read? as u32)
    }

    /// Moves a name; what the new one led to goes.
    ///
    /// # Errors
    /// `NotFound`, `NotEmpty`, `IsDirectory`, `NotDirectory`, `NotCapable`; `Invalid` for a directory into itself.
    #[expect(clippy::too_many_arguments, reason = "WASI has them")]
    pub fn path_rename<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        fd: u32,
        at: u32,
        len: u32,
        to: u32,
        new_at: u32,
        new_len: u32,
    ) -> Result {
        let dir = self.dir(fd, Rights::PATH_RENAME_SOURCE)?;
        let to = self.dir(to, Rights::PATH_RENAME_TARGET)?;
        let (old, new) = (path(guest, at, len)?, path(guest, new_at, new_len)?);
        let (old, new) = (self.fs.beneath(&ME, dir, old)?, self.fs.beneath(&ME, to, new)?);
        if dots(&old) || dots(&new) {
            return Err(Errno::Busy);
        }
        if old.slash || new.slash {
            self.is_directory(&old)?;
        }
        let flags = RenameFlags::default();
        Ok(self.fs.rename(&ME, old.dir, name(&old)?, new.dir, name(&new)?, flags)?)
    }
}
