//! The door: from opcode to `Fs`, about five lines each. It translates and never decides.
//!
//! Above: `handler`. Below: `esker::posix::Fs`. The kernel has checked permissions
//! (`default_permissions` is always on), so every caller comes `checked`.
//! Invariant: an inode that an answer names as an entry is held once in `Fs`, and only such a one
//! is.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use esker::posix::{Caller, Dirent, Fs, New, Node, OpenFlags, XattrMode};
use esker::store::{Flow, Store};
use esker::{Attr, Cursor, Error, Flags, Ino, Kind, Name, Result, XattrName};

use crate::caller::{caller, filler, lister};
use crate::control::{Control, Desk, Exchanged, Served};
use crate::convert::{self, NO_ENTRY, Timeouts};
use crate::handler::{Flush, Handler};
use crate::ioctl;
use crate::latency::Latencies;
use crate::partings::Partings;
use crate::renewed::Renewed;
use crate::reply::{Forgotten, Reply};
use crate::request::{Op, Request};
use crate::wire::flags::{ioctl as commands, opened};
use crate::wire::{CopyFileRangeOut, EntryOut, GetxattrOut, LseekOut, OpenOut, WriteOut};
use crate::writers::Writers;

/// Most bytes that the 32-bit answer to COPY_FILE_RANGE can tell of, in whole pages.
const COPY_LEN_MAX: u64 = 0xffff_f000;

/// Set-user-id and set-group-id.
const SET_ID: u16 = 0o6000;

/// How long the kernel may believe the attributes of a file that it is about to take bytes for. It asks
/// again before the first write(2) after that, and the question stands in line behind all that it
/// writes back meanwhile: so not much shorter.
const MOMENT: Duration = Duration::from_millis(250);

/// The kernel holds back and writes back whole pages of so many bytes, or more.
const PAGE_LEN: u64 = 4096;

/// How a door behaves.
#[derive(Clone, Copy, Debug)]
pub struct DoorOptions {
    /// How long the kernel may believe what it was told.
    pub timeouts: Timeouts,
    /// Offer extended attributes and ACLs. Without, the kernel asks once and never again, which
    /// saves a request (does it have file capabilities?) at the first write to each file.
    pub xattrs: bool,
    /// Reading moves atime.
    pub atime: bool,
    /// The kernel holds written bytes back, and keeps the times of files itself: it tells them apart
    /// from the bytes, and not in order with them.
    pub writeback: bool,
    /// What is shown never changes: nobody needs to know who has a file open.
    pub frozen: bool,
    /// Files are known not to say when they were born: statx(2), which asks for that, needs no request of its own.
    pub no_births: bool,
}

impl Default for DoorOptions {
    fn default() -> Self {
        let timeouts = Timeouts::default();
        let (frozen, no_births) = (false, false);
        Self { timeouts, xattrs: true, atime: true, writeback: true, frozen, no_births }
    }
}

/// A handler that answers from a file system.
pub struct Door<S> {
    fs: Arc<Fs<S>>,
    options: DoorOptions,
    writers: Writers,
    partings: Partings,
    renewed: Renewed,
    desk: Option<Desk>,
    latencies: Arc<Latencies>,
}

impl<S> Door<S> {
    /// A door to `fs`.
    #[must_use]
    pub fn new(fs: Arc<Fs<S>>, options: DoorOptions) -> Self {
        let (writers, partings) = (Writers::default(), Partings::new());
        let (renewed, latencies) = (Renewed::default(), Arc::default());
        Self { fs, options, writers, partings, renewed, desk: None, latencies }
    }

    /// The same, with somebody who answers what is asked of the server itself.
    #[must_use]
    pub fn with_control(self, control: Arc<dyn Control>) -> Self {
        Self { desk: Some(Desk::new(control)), ..self }
    }

    /// How long its answers take.
    #[must_use]
    pub const fn latencies(&self) -> &Arc<Latencies> {
        &self.latencies
    }

    /// The file system.
    #[must_use]
    pub const fn fs(&self) -> &Arc<Fs<S>> {
        &self.fs
    }
}

impl<S: Store + Send + Sync> Handler for Door<S> {
    fn handle(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
        let began = Instant::now();
        let done = match self.renewed.is_empty() {
            true => self.carry_out(request, reply),
            false => self.resolved(request).and_then(|own| self.carry_out(&own, reply)),
        };
        self.latencies.note(&request.op, began.elapsed());
        done
    }

    fn needs_flushed(&self, request: &Request<'_>) -> Option<Flush> {
        let node = self.renewed.inode(request.node).ok()?;
        let seeks = matches!(request.op, Op::SeekData { .. } | Op::SeekHole { .. });
        let stats = matches!(request.op, Op::Getattr { open: false, .. } | Op::Statx);
        if !(seeks || stats && self.options.writeback) || !self.writers.has(node) {
            return None;
        }
        let from = if stats { self.first_uncounted(node)? } else { 0 };
        Some(Flush { node: request.node, from })
    }

    fn takes_long(&self, request: &Request<'_>) -> bool {
        matches!(request.op, Op::Ioctl { command: commands::CONTROL, .. })
    }

    fn awaits_space(&self) -> bool {
        self.fs.has_orphans() && self.partings.are_due()
    }

    fn forget(&self, node: Ino, count: u64) {
        if self.fs.part(self.renewed.whose(node), count) {
            self.partings.told();
        }
    }
}

/// Somebody asks for something that is no file.
struct Asked<'a, S> {
    door: &'a Door<S>,
    forgotten: RefCell<Vec<Forgotten>>,
}

impl<S: Store> Served for Asked<'_, S> {
    fn exchange(&self, exchange: &mut dyn FnMut() -> Option<Exchanged>) {
        let (fs, renewed) = (&self.door.fs, &self.door.renewed);
        let exchanged = fs.alone_with_all(|_| {
            let Exchanged { names, inodes, files, orphans } = exchange()?;
            let names = names.into_iter().map(|(dir, name)| Forgotten::Name(dir, name));
            // As the kernel knows them until now.
            let nodes = inodes.into_iter().map(|ino| Forgotten::Node(renewed.node(ino)));
            self.forgotten.borrow_mut().extend(names.chain(nodes));
            renewed.renew(&files);
            Some(orphans)
        });
        for ino in exchanged.into_iter().flatten() {
            if fs.hold(ino).is_ok() {
                fs.forget(ino, 1);
            }
        }
    }
}

impl<S: Store + Send + Sync> Door<S> {
    /// The same request, with inodes in place of nodes. What is forgotten stays as it is.
    fn resolved<'a>(&self, request: &Request<'a>) -> Result<Request<'a>> {
        let inode = |node: &mut Ino| self.renewed.inode(*node).map(|ino| *node = ino);
        let mut own = request.clone();
        match &mut own.op {
            Op::Forget { .. } | Op::BatchForget(_) => return Ok(own),
            // Closed it is all the same.
            Op::Release { .. } => {
                own.node = self.renewed.whose(own.node);
                return Ok(own);
            }
            Op::Link { ino, .. } | Op::CopyFileRange { ino, .. } => inode(ino)?,
            _ => {}
        }
        inode(&mut own.node)?;
        Ok(own)
    }

    /// Answers.
    fn carry_out(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
        match &request.op {
            Op::Lookup { .. }
            | Op::Symlink { .. }
            | Op::Mknod { .. }
            | Op::Mkdir { .. }
            | Op::Link { .. }
            | Op::Create { .. }
            | Op::Tmpfile { .. } => self.entries(request, reply),
            Op::Unlink { .. } | Op::Rmdir { .. } | Op::Rename { .. } => {
                self.names(request).inspect(|()| self.partings.told())
            }
            Op::Getattr { .. } | Op::Statx | Op::Setattr(_) | Op::Statfs | Op::Ioctl { .. } => {
                self.attrs(request, reply)
            }
            Op::Setxattr { .. }
            | Op::Getxattr { .. }
            | Op::Listxattr { .. }
            | Op::Removexattr { .. } => self.xattrs(request, reply),
            Op::Readdir { after, len } => self.list(request, *after, *len, reply),
            Op::Readdirplus { after, len } => self.list_plus(request, *after, *len, reply),
            Op::Forget { count } => {
                self.forget(request.node, *count);
                Ok(())
            }
            Op::BatchForget(forgets) => {
                forgets.iter().for_each(|(ino, count)| self.forget(ino, count));
                Ok(())
            }
            Op::Release { write } => {
                let done = self.writers.closed(request.node, *write);
                let nameless = |attr: Attr| attr.nlink == 0;
                if self.fs.has_orphans() && self.fs.getattr(request.node).is_ok_and(nameless) {
                    self.partings.told();
                }
                if done { self.fs.trim(request.node) } else { Ok(()) }
            }
            Op::Releasedir | Op::Interrupt { .. } => Ok(()),
            // Whoever unmounts may wait for this.
            Op::Destroy => self.fs.sync(),
            // ENOSYS once, and the kernel never asks again: listings need no state, closing needs
            // no flush.
            Op::Opendir | Op::Flush | Op::Other(_) | Op::Init(_) => Err(Error::NoSuchCall),
            _ => self.content(request, reply),
        }
    }
}

impl<S: Store> Door<S> {
    /// Calls that answer with an inode.
    fn entries(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
        let (fs, dir) = (&self.fs, request.node);
        let caller = &caller(request);
        let node = match &request.op {
            Op::Lookup { name: b"." } => fs.hold(dir)?,
            Op::Lookup { name: b".." } => fs.hold_parent(dir)?,
            Op::Lookup { name } => match fs.lookup(caller, dir, Name::parse(name)?) {
                Err(Error::NotFound)
                    if !self.options.timeouts.negative.is_zero() && !fs.is_fleeting(dir) =>
                {
                    return reply.entry(&self.options.timeouts.negative_out());
                }
                found => found?,
            },
            Op::Symlink { name, target } => fs.symlink(caller, dir, Name::parse(name)?, target)?,
            Op::Mknod { name, new } | Op::Mkdir { name, new } => {
                fs.create(caller, dir, Name::parse(name)?, *new)?
            }
            Op::Link { ino, name } => fs.link(caller, *ino, dir, Name::parse(name)?)?,
            Op::Tmpfile { new } => {
                let node = fs.tmpfile(caller, dir, *new)?;
                return self.opened(&node, true, reply);
            }
            Op::Create { name, new, flags, exclusive } => {
                let name = Name::parse(name)?;
                return self.create(caller, dir, name, (*new, *flags, *exclusive), reply);
            }
            _ => return Err(Error::NoSuchCall),
        };
        self.entry(&node, reply)
    }

    fn entry(&self, node: &Node, reply: &mut Reply<'_>) -> Result<()> {
        let timeouts = self.timeouts(node.ino, node.attr.kind);
        reply.entry(&self.told(&timeouts, node))
    }

    /// An inode as the kernel is to know it.
    fn told(&self, timeouts: &Timeouts, node: &Node) -> EntryOut {
        let nodeid = self.renewed.node(node.ino).0;
        EntryOut { nodeid, ..timeouts.entry_out(node, self.fs.generation()) }
    }

    /// A new file, which is written to next, if at all: that it has no blocks is soon over.
    fn opened(&self, node: &Node, write: bool, reply: &mut Reply<'_>) -> Result<()> {
        let (timeouts, attr) = match write && self.options.writeback {
            true => self.about_to_write(node.attr),
            false => (self.options.timeouts, node.attr),
        };
        let entry = self.told(&timeouts, &Node { attr, ..*node });
        reply.entry(&entry)?;
        self.writers.opened(node.ino, write);
        reply.put(&open_out(write).encode())
    }

    /// How long the kernel may believe what it is told of an inode.
    ///
    /// With writeback it keeps size and times of a file itself, but not how many blocks it has: while
    /// somebody may write, each stat(2) must ask.
    fn timeouts(&self, ino: Ino, kind: Kind) -> Timeouts {
        let timeouts = self.options.timeouts;
        match kind {
            Kind::Directory if self.fs.is_fleeting(ino) => Timeouts::NONE,
            _ if self.is_written(ino, kind) => Timeouts { attr: Duration::ZERO, ..timeouts },
            _ => timeouts,
        }
    }

    /// The kernel may hold bytes of it back.
    fn is_written(&self, ino: Ino, kind: Kind) -> bool {
        self.options.writeback && kind == Kind::File && self.writers.has(ino)
    }

    /// The same for a kernel that asks before it takes bytes: it asks before each write(2) once this
    /// is over, so that is not at once. Who asks within the moment is not told that there is no data
    /// at all, which programs that copy rely on.
    fn about_to_write(&self, attr: Attr) -> (Timeouts, Attr) {
        let timeouts = self.options.timeouts;
        let blocks = attr.blocks.max(1);
        (Timeouts { attr: timeouts.attr.min(MOMENT), ..timeouts }, Attr { blocks, ..attr })
    }

    /// From where on bytes that the kernel may hold back are missing in a file's blocks: those that
    /// were appended, and all where there are no blocks yet. What it holds back for holes between
    /// data is counted when it comes.
    fn first_uncounted(&self, ino: Ino) -> Option<u64> {
        let attr = self.fs.getattr(ino).ok().filter(|attr| attr.kind == Kind::File)?;
        Some(if attr.blocks == 0 { 0 } else { attr.size / PAGE_LEN * PAGE_LEN })
    }

    /// CREATE makes a file, or opens the one that somebody else has just made.
    fn create(
        &self,
        caller: &Caller<'_>,
        dir: Ino,
        name: Name<'_>,
        (new, flags, exclusive): (New, OpenFlags, bool),
        reply: &mut Reply<'_>,
    ) -> Result<()> {
        let node = match self.fs.create(caller, dir, name, new) {
            Err(Error::Exists) if !exclusive => {
                let node = self.fs.lookup(caller, dir, name)?;
                // From here on the answer holds it, and an error lets go of what the answer holds.
                self.entry(&node, reply)?;
                self.fs.open(caller, node.ino, flags)?;
                self.writers.opened(node.ino, flags.write);
                return reply.put(&open_out(flags.write).encode());
            }
            made => made?,
        };
        self.opened(&node, flags.write, reply)
    }

    /// Calls that take names away or elsewhere.
    fn names(&self, request: &Request<'_>) -> Result<()> {
        let (fs, dir, caller) = (&self.fs, request.node, &caller(request));
        match &request.op {
            Op::Unlink { name } => fs.unlink(caller, dir, Name::parse(name)?),
            Op::Rmdir { name } => fs.rmdir(caller, dir, Name::parse(name)?),
            Op::Rename { name, to_dir, to_name, flags } => {
                let (name, to_name) = (Name::parse(name)?, Name::parse(to_name)?);
                fs.rename(caller, dir, name, *to_dir, to_name, *flags)
            }
            _ => Err(Error::NoSuchCall),
        }
    }

    /// Calls about an inode or the whole.
    fn attrs(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
        let (fs, ino) = (&self.fs, request.node);
        let timeouts = |attr: &Attr| self.timeouts(ino, attr.kind);
        match &request.op {
            Op::Getattr { writes, .. } => {
                if *writes {
                    self.writers.hear(ino)?;
                }
                let attr = fs.getattr(ino)?;
                let (timeouts, attr) = match *writes && self.is_written(ino, attr.kind) {
                    true => self.about_to_write(attr),
                    false => (timeouts(&attr), attr),
                };
                reply.put(&timeouts.attr_out(ino, &attr).encode())
            }
            // ENOSYS once, and the kernel tells what it knows of a file from a listing or a look-up.
            Op::Statx if self.options.no_births => Err(Error::NoSuchCall),
            Op::Statx => {
                let attr = fs.getattr(ino)?;
                reply.put(&timeouts(&attr).statx_out(ino, &attr).encode())
            }
            Op::Setattr(set) => {
                let attr = fs.setattr(&caller(request), ino, set)?;
                reply.put(&timeouts(&attr).attr_out(ino, &attr).encode())
            }
            Op::Statfs => reply.put(&convert::statfs(&fs.statfs()).encode()),
            Op::Ioctl { command: commands::CONTROL, input, .. } => {
                let desk = self.desk.as_ref().ok_or(Error::NoSuchCall)?;
                let asked = Asked { door: self, forgotten: RefCell::default() };
                let done = desk.answer((request, input), &asked, reply);
                reply.forget(asked.forgotten.into_inner());
                done
            }
            Op::Ioctl { command, input, .. } => {
                let mut is_set = false;
                let set = |flags: Flags| {
                    is_set = true;
                    fs.set_flags(&caller(request), ino, flags)
                };
                ioctl::answer(*command, input, || fs.get_flags(ino), set, reply)?;
                if is_set {
                    // The kernel would go on showing the old ctime.
                    reply.outdate(self.renewed.node(ino));
                }
                Ok(())
            }
            _ => Err(Error::NoSuchCall),
        }
    }

    /// Calls that change a file's bytes where the kernel does not see that set-id bits go with them.
    fn fill<R>(
        &self,
        request: &Request<'_>,
        ino: Ino,
        reply: &mut Reply<'_>,
        call: impl FnOnce(&Caller<'_>) -> Result<R>,
    ) -> Result<R> {
        let had_set_id = self.has_set_id(ino)?;
        let done = call(&filler(request, had_set_id))?;
        if had_set_id && !self.has_set_id(ino)? {
            reply.outdate(self.renewed.node(ino));
        }
        Ok(done)
    }

    fn has_set_id(&self, ino: Ino) -> Result<bool> {
        Ok(self.fs.getattr(ino)?.perm & SET_ID != 0)
    }

    /// Calls about a file's bytes, and a link's.
    fn content(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
        let (fs, ino, caller) = (&self.fs, request.node, &caller(request));
        match &request.op {
            // ENOSYS once, and the kernel opens and closes files by itself.
            Op::Open { .. } if self.options.frozen => Err(Error::NoSuchCall),
            Op::Open { flags, no_atime } => {
                fs.open(caller, ino, *flags)?;
                // Of pages that the kernel has, nobody asks here when they are read.
                if flags.read && self.options.atime && !no_atime && fs.visit(ino)? {
                    reply.outdate(self.renewed.node(ino));
                }
                let first = self.writers.opened(ino, flags.write);
                // What the kernel was told of a file without writers holds no longer. Where the
                // content goes, it forgets that by itself.
                if first && self.options.writeback && !flags.truncate {
                    reply.outdate(self.renewed.node(ino));
                }
                reply.put(&open_out(flags.write).encode())
            }
            Op::Read { at, len, no_atime } if *no_atime || !self.options.atime => {
                reply.fill(*len, |target| fs.peek(ino, *at, target))
            }
            Op::Read { at, len, .. } => reply.fill(*len, |target| fs.read(ino, *at, target)),
            Op::Write { at, source, kill_priv, late } => {
                let written = match *late && self.options.writeback {
                    true => fs.write_back(ino, *at, source, *kill_priv),
                    false => fs.write(ino, *at, source, *kill_priv),
                };
                if let (Err(error), true) = (written, *late) {
                    self.writers.tell(ino, error);
                    reply.outdate(self.renewed.node(ino));
                }
                let size = written? as u32;
                reply.put(&WriteOut { size, padding: 0 }.encode())
            }
            Op::Readlink => reply.fill(u32::MAX, |target| match self.options.atime {
                true => fs.readlink(ino, target),
                false => fs.peek_link(ino, target),
            }),
            Op::Fsync { data_only } => fs.fsync(ino, *data_only),
            Op::Fsyncdir => fs.fsyncdir(ino),
            Op::Syncfs => fs.sync(),
            Op::Fallocate { how, at, len } => {
                let fill = |caller: &Caller<'_>| fs.fallocate(caller, ino, *how, *at, *len);
                self.fill(request, ino, reply, fill)
            }
            Op::SeekData { at } => {
                reply.put(&LseekOut { offset: fs.seek_data(ino, *at)? }.encode())
            }
            Op::SeekHole { at } => {
                reply.put(&LseekOut { offset: fs.seek_hole(ino, *at)? }.encode())
            }
            Op::CopyFileRange { from, ino: to, at, len, wide } => {
                let len = if *wide { *len } else { (*len).min(COPY_LEN_MAX) };
                let copy =
                    |caller: &Caller<'_>| fs.copy_range(caller, (ino, *from), (*to, *at), len);
                let bytes_copied = self.fill(request, *to, reply, copy)?;
                match wide {
                    true => reply.put(&CopyFileRangeOut { bytes_copied }.encode()),
                    false => {
                        reply.put(&WriteOut { size: bytes_copied as u32, padding: 0 }.encode())
                    }
                }
            }
            _ => Err(Error::NoSuchCall),
        }
    }

    fn xattrs(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
        if !self.options.xattrs {
            return Err(Error::NoSuchCall);
        }
        let (fs, ino, caller) = (&self.fs, request.node, &caller(request));
        match &request.op {
            Op::Setxattr { name, value, mode, kill_sgid } => {
                let mode: XattrMode = *mode;
                fs.setxattr(caller, ino, XattrName::parse(name)?, value, mode, *kill_sgid)
            }
            Op::Getxattr { name, size } => {
                let mut value = Vec::new();
                fs.getxattr(caller, ino, XattrName::parse(name)?, &mut value)?;
                sized(&value, *size, reply)
            }
            Op::Listxattr { size } => {
                let mut names = Vec::new();
                fs.listxattr(&lister(request), ino, &mut names)?;
                sized(&names, *size, reply)
            }
            Op::Removexattr { name } => fs.removexattr(caller, ino, XattrName::parse(name)?),
            _ => Err(Error::NoSuchCall),
        }
    }

    fn list(
        &self,
        request: &Request<'_>,
        after: Cursor,
        limit: u32,
        reply: &mut Reply<'_>,
    ) -> Result<()> {
        self.readdir(request, after, false, &mut |dirent| reply.record(&dirent, limit))
    }

    fn list_plus(
        &self,
        request: &Request<'_>,
        after: Cursor,
        limit: u32,
        reply: &mut Reply<'_>,
    ) -> Result<()> {
        self.readdir(request, after, true, &mut |dirent| {
            let entry = dirent.attr.map_or(NO_ENTRY, |attr| {
                let timeouts = self.timeouts(dirent.ino, attr.kind);
                self.told(&timeouts, &Node { ino: dirent.ino, attr })
            });
            reply.record_plus(&dirent, &entry, limit)
        })
    }

    fn readdir(
        &self,
        request: &Request<'_>,
        after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Dirent<'_>) -> Flow,
    ) -> Result<()> {
        let (dir, caller) = (request.node, &caller(request));
        match self.options.atime {
            true => self.fs.readdir(caller, dir, after, attrs, each),
            false => self.fs.peek_dir(caller, dir, after, attrs, each),
        }
    }
}

/// Every file is opened alike: its pages stay cached, and closing it needs no request. Only of who
/// asks on its behalf we want to know whether they write.
fn open_out(write: bool) -> OpenOut {
    OpenOut {
        fh: if write { opened::WRITER } else { 0 },
        open_flags: opened::KEEP_CACHE | opened::NOFLUSH | opened::PARALLEL_DIRECT_WRITES,
        backing_id: 0,
    }
}

/// An attribute's bytes, or how many there are when the caller came to ask only that.
fn sized(bytes: &[u8], size: u32, reply: &mut Reply<'_>) -> Result<()> {
    match size as usize {
        0 => reply.put(&GetxattrOut { size: bytes.len() as u32, padding: 0 }.encode()),
        room if room < bytes.len() => Err(Error::Range),
        _ => reply.put(bytes),
    }
}
