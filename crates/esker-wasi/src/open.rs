//! Descriptors opened, closed and moved.

use esker::Kind;
use esker::posix::{Make, New, Node, OpenFlags};
use esker::store::Store;

use crate::context::{Context, ME};
use crate::names::path;
use crate::table::{Descriptor, What, flags};
use crate::{Errno, Guest, Result, Rights, World};

/// `lookupflags`: a symbolic link at the end of a path is followed.
pub(crate) const FOLLOW: u32 = 1;

/// `oflags`.
const CREATE: u32 = 1;
const DIRECTORY: u32 = 2;
const EXCLUSIVE: u32 = 4;
const TRUNCATE: u32 = 8;
const OFLAGS: u32 = 15;

const NEW_FILE: New = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };

/// What a program asks for when it opens.
#[derive(Clone, Copy)]
struct How {
    flags: u32,
    base: Rights,
    inheriting: Rights,
    fdflags: u16,
}

impl How {
    fn parse(flags: u32, base: u64, inheriting: u64, fdflags: u32) -> Result<Self> {
        let fdflags = u16::try_from(fdflags).map_err(|_| Errno::Invalid)?;
        let both = |one: u32, other: u32| flags & one != 0 && flags & other != 0;
        if flags & !OFLAGS != 0 || fdflags & !flags::ALL != 0 || both(DIRECTORY, CREATE) {
            return Err(Errno::Invalid);
        }
        let base = Rights(base).and(Rights::ALL);
        Ok(Self { flags, base, inheriting: Rights(inheriting).and(Rights::ALL), fdflags })
    }

    const fn has(self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// What the directory must have itself.
    const fn needs(self) -> Rights {
        let mut needed = Rights::PATH_OPEN;
        if self.has(CREATE) {
            needed = needed.or(Rights::PATH_CREATE_FILE);
        }
        if self.has(TRUNCATE) {
            needed = needed.or(Rights::PATH_FILESTAT_SET_SIZE);
        }
        needed
    }

    /// What it must be able to hand on.
    const fn needs_inheriting(self) -> Rights {
        let mut needed = self.base;
        if self.fdflags & flags::DSYNC != 0 {
            needed = needed.or(Rights::FD_DATASYNC);
        }
        if self.fdflags & (flags::SYNC | flags::RSYNC) != 0 {
            needed = needed.or(Rights::FD_SYNC);
        }
        needed
    }
}

impl<S: Store, W: World> Context<S, W> {
    /// Opens a path; the descriptor to `opened`.
    ///
    /// # Errors
    /// As open(2); `NotCapable` for rights that the directory cannot hand on, `NotPermitted` for a path that leads out
    /// of it.
    #[expect(clippy::too_many_arguments, reason = "WASI has them")]
    pub fn path_open<G: Guest + ?Sized>(
        &mut self,
        guest: &mut G,
        fd: u32,
        dirflags: u32,
        at: u32,
        len: u32,
        oflags: u32,
        base: u64,
        inheriting: u64,
        fdflags: u32,
        opened: u32,
    ) -> Result {
        guest.bytes_mut(opened, 4)?;
        let how = How::parse(oflags, base, inheriting, fdflags)?;
        let directory = self.table.get(fd)?;
        let dir = directory.directory(how.needs())?;
        let able = directory.inheriting;
        if !able.contains(how.needs_inheriting()) {
            return Err(Errno::NotCapable);
        }
        let how = How { inheriting: how.inheriting.and(able), ..how };
        let make = how.has(CREATE).then_some(Make { new: NEW_FILE, exclusive: how.has(EXCLUSIVE) });
        let (follow, path) = (dirflags & FOLLOW != 0, path(guest, at, len)?);
        let (node, fresh) = self.fs.open_beneath(&ME, dir, path, follow, make)?;
        let admitted = if fresh { Ok(()) } else { self.admit(&node, how) };
        if let Err(errno) = admitted {
            self.fs.forget(node.ino, 1);
            return Err(errno);
        }
        let fd = self.add(descriptor(&node, how))?;
        guest.put_u32(opened, fd)
    }

    /// What was there before lets itself be opened like this.
    fn admit(&self, node: &Node, how: How) -> Result {
        let write = how.base.contains(Rights::FD_WRITE);
        match node.attr.kind {
            Kind::Symlink => return Err(Errno::Loop),
            Kind::Directory if write => return Err(Errno::IsDirectory),
            Kind::Directory => {}
            _ if how.has(DIRECTORY) => return Err(Errno::NotDirectory),
            _ => {}
        }
        let flags = OpenFlags {
            read: how.base.contains(Rights::FD_READ),
            write,
            append: how.fdflags & flags::APPEND != 0,
            truncate: how.has(TRUNCATE),
            kill_priv: false,
        };
        Ok(self.fs.open(&ME, node.ino, flags)?)
    }

    /// Closes a descriptor.
    ///
    /// # Errors
    /// `BadDescriptor`.
    pub fn fd_close(&mut self, fd: u32) -> Result {
        let closed = self.table.take(fd)?;
        self.let_go(&closed);
        Ok(())
    }

    /// Gives what is open as `fd` the number `to`; what was open there is closed.
    ///
    /// # Errors
    /// `BadDescriptor` where one of them is not open.
    pub fn fd_renumber(&mut self, fd: u32, to: u32) -> Result {
        if let Some(closed) = self.table.renumber(fd, to)? {
            self.let_go(&closed);
        }
        Ok(())
    }
}

/// A descriptor has what was asked for, as far as it means something for what is there.
fn descriptor(node: &Node, how: How) -> Descriptor {
    let How { base, inheriting, fdflags, .. } = how;
    match node.attr.kind {
        Kind::Directory => {
            Descriptor::new(What::Directory, node.ino, base.and(Rights::DIRECTORY), inheriting, 0)
        }
        Kind::File => {
            let base = base.and(Rights::FILE);
            Descriptor::new(What::File, node.ino, base, Rights::NONE, fdflags)
        }
        _ => Descriptor::new(What::Other, node.ino, base.and(Rights::FILE), Rights::NONE, fdflags),
    }
}
