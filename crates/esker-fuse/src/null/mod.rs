//! A server that does nothing: the bound that a file system is measured against.
//!
//! Above: `session`, benches. Beside: `door`. It speaks the whole protocol on the same transport
//! with the same terms and timeouts: every request is parsed, every answer packed. What it leaves
//! out is a file system: a name is a row in a table, an attribute is what the row says, times stand
//! still, and file bytes are copied into and out of one arena that all files share, so that what is
//! read is not what was written. No renames, links or attributes of one's own.

mod arena;
mod table;

use std::sync::{Mutex, MutexGuard, PoisonError};

use esker::posix::{Dirent, New, Node};
use esker::store::Space;
use esker::{Cursor, Error, Ino, Kind, Result};

use crate::convert::{self, NO_ENTRY, Timeouts};
use crate::handler::Handler;
use crate::reply::Reply;
use crate::request::{Op, Request};
use crate::wire::flags::opened;
use crate::wire::{GetxattrOut, OpenOut, WriteOut};
use arena::Arena;
use table::Table;

/// Answers everything at once and keeps next to nothing.
pub struct Null {
    table: Mutex<Table>,
    arena: Arena,
    timeouts: Timeouts,
    xattrs: bool,
}

impl Null {
    /// An empty one. With `xattrs` it answers as a server does that offers extended attributes but
    /// has none, which costs a request at the first write to each file; without, the kernel asks
    /// once and never again.
    #[must_use]
    pub fn new(timeouts: Timeouts, xattrs: bool) -> Self {
        Self { table: Mutex::new(Table::new()), arena: Arena::new(), timeouts, xattrs }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn entry(&self, node: &Node, generation: u32, reply: &mut Reply<'_>) -> Result<()> {
        reply.entry(&self.timeouts.entry_out(node, generation.into()))
    }

    fn make(
        &self,
        request: &Request<'_>,
        name: &[u8],
        new: New,
        reply: &mut Reply<'_>,
    ) -> Result<()> {
        let owner = (request.uid, request.gid);
        let (node, generation) = self.table().make(request.node, name, new, owner)?;
        self.entry(&node, generation, reply)
    }

    fn lookup(&self, dir: Ino, name: &[u8], reply: &mut Reply<'_>) -> Result<()> {
        match self.table().lookup(dir, name) {
            Ok((node, generation)) => self.entry(&node, generation, reply),
            Err(Error::NotFound) if !self.timeouts.negative.is_zero() => {
                reply.entry(&self.timeouts.negative_out())
            }
            Err(error) => Err(error),
        }
    }

    fn list(&self, dir: Ino, after: Cursor, limit: u32, reply: &mut Reply<'_>) -> Result<()> {
        self.table().list(dir, after, false, |dirent, _| reply.record(dirent, limit))
    }

    fn list_plus(&self, dir: Ino, after: Cursor, limit: u32, reply: &mut Reply<'_>) -> Result<()> {
        self.table().list(dir, after, true, |dirent: &Dirent<'_>, generation| {
            let entry = dirent.attr.map_or(NO_ENTRY, |attr| {
                self.timeouts.entry_out(&Node { ino: dirent.ino, attr }, generation.into())
            });
            reply.record_plus(dirent, &entry, limit)
        })
    }

    fn attrs(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
        let ino = request.node;
        let attr = match &request.op {
            Op::Setattr(set) => self.table().set(ino, set.perm, set.size)?,
            _ => self.table().attr(ino)?,
        };
        match &request.op {
            Op::Statx => reply.put(&self.timeouts.statx_out(ino, &attr).encode()),
            _ => reply.put(&self.timeouts.attr_out(ino, &attr).encode()),
        }
    }

    fn read(&self, ino: Ino, at: u64, len: u32, reply: &mut Reply<'_>) -> Result<()> {
        let left = self.table().attr(ino)?.size.saturating_sub(at);
        let len = u32::try_from(left).map_or(len, |left| left.min(len));
        reply.fill(len, |target| {
            self.arena.read(ino, at, target);
            Ok(target.len())
        })
    }

    fn write(&self, ino: Ino, at: u64, source: &[u8], reply: &mut Reply<'_>) -> Result<()> {
        let end = at.checked_add(source.len() as u64).ok_or(Error::FileTooBig)?;
        self.arena.write(ino, at, source);
        self.table().grow(ino, end)?;
        reply.put(&WriteOut { size: source.len() as u32, padding: 0 }.encode())
    }

    fn xattr(&self, op: &Op<'_>, reply: &mut Reply<'_>) -> Result<()> {
        match op {
            Op::Getxattr { .. } if self.xattrs => Err(Error::NoData),
            Op::Listxattr { size: 0 } if self.xattrs => {
                reply.put(&GetxattrOut { size: 0, padding: 0 }.encode())
            }
            Op::Listxattr { .. } if self.xattrs => Ok(()),
            Op::Setxattr { .. } | Op::Removexattr { .. } if self.xattrs => Err(Error::NotSupported),
            _ => Err(Error::NoSuchCall),
        }
    }
}

impl Handler for Null {
    fn handle(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
        let ino = request.node;
        match &request.op {
            Op::Lookup { name } => self.lookup(ino, name, reply),
            Op::Forget { count } => {
                self.table().forget(ino, *count);
                Ok(())
            }
            Op::BatchForget(forgets) => {
                let mut table = self.table();
                forgets.iter().for_each(|(ino, count)| table.forget(ino, count));
                Ok(())
            }
            Op::Mknod { name, new } | Op::Mkdir { name, new } => {
                self.make(request, name, *new, reply)
            }
            Op::Create { name, new, .. } => {
                self.make(request, name, *new, reply)?;
                reply.put(&OPENED.encode())
            }
            Op::Unlink { name } => self.table().remove(ino, name, |kind| kind != Kind::Directory),
            Op::Rmdir { name } => self.table().remove(ino, name, |kind| kind == Kind::Directory),
            Op::Getattr { .. } | Op::Statx | Op::Setattr(_) => self.attrs(request, reply),
            Op::Open { flags, .. } => {
                if flags.truncate {
                    self.table().set(ino, None, Some(0))?;
                }
                reply.put(&OPENED.encode())
            }
            Op::Read { at, len, .. } => self.read(ino, *at, *len, reply),
            Op::Write { at, source, .. } => self.write(ino, *at, source, reply),
            Op::Readdir { after, len } => self.list(ino, *after, *len, reply),
            Op::Readdirplus { after, len } => self.list_plus(ino, *after, *len, reply),
            Op::Statfs => {
                let space = Space { total: 1 << 40, used: 0, inodes: self.table().count() };
                reply.put(&convert::statfs(&space).encode())
            }
            Op::Fsync { .. } | Op::Fsyncdir | Op::Syncfs | Op::Fallocate { .. } => Ok(()),
            Op::Release { .. } | Op::Releasedir | Op::Interrupt { .. } | Op::Destroy => Ok(()),
            op => self.xattr(op, reply),
        }
    }

    fn forget(&self, node: Ino, count: u64) {
        self.table().forget(node, count);
    }
}

const OPENED: OpenOut = OpenOut {
    fh: 0,
    open_flags: opened::KEEP_CACHE | opened::NOFLUSH | opened::PARALLEL_DIRECT_WRITES,
    backing_id: 0,
};
