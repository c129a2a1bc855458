//! The classic transport: one read(2) per request and one write(2) per answer on `/dev/fuse`.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use esker::Ino;
use esker_host::release;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{Channel, KEPT, Outlet, QUIET_SECONDS, Transport};
use crate::handler::Flush;
use crate::negotiate::{DATA_LEN_MAX, REQUEST_LEN_MAX};
use crate::reply::Forgotten;
use crate::wire::{
    NOTIFY_INVAL_ENTRY, NOTIFY_INVAL_INODE, NotifyInvalEntryOut, NotifyInvalInodeOut, OutHeader,
};

/// The offset that stands for no bytes at all in a notification about an inode.
const ATTRIBUTES_ONLY: i64 = -1;
/// So many messages in a row that need no more than is kept say as much as a quiet while, which each of them would be
/// waited for.
const SMALL_MAX: usize = 64;
const QUIET: Timespec = Timespec { tv_sec: QUIET_SECONDS as i64, tv_nsec: 0 };
/// Where the kernel offers FUSE.
pub const PATH: &str = "/dev/fuse";

/// An open `/dev/fuse` on which a file system is mounted.
#[derive(Debug)]
pub struct Device {
    link: Arc<Link>,
}

impl Device {
    /// From the descriptor that mount(2) was given, or that fusermount3 sent.
    #[must_use]
    pub fn new(fd: OwnedFd) -> Self {
        Self { link: Arc::new(Link { fd, unmounted: Arc::default() }) }
    }

    /// Says whether the file system was unmounted, once nobody talks over this any more.
    #[must_use]
    pub(crate) fn unmounted(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.link.unmounted)
    }

    /// The descriptor, for a transport beside this one.
    pub(super) fn shared(&self) -> Arc<Link> {
        Arc::clone(&self.link)
    }
}

/// A descriptor of the conversation with the kernel.
#[derive(Debug)]
pub(super) struct Link {
    fd: OwnedFd,
    unmounted: Arc<AtomicBool>,
}

impl Link {
    /// Another one of the same conversation.
    fn again(&self) -> io::Result<Self> {
        Ok(Self { fd: clone(&self.fd)?, unmounted: Arc::clone(&self.unmounted) })
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Link {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.fd.as_raw_fd()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Only where the conversation is over: reading would take a request otherwise.
        let mut ended = [PollFd::new(&self.fd, PollFlags::empty())];
        let over = poll(&mut ended, Some(&Timespec::default())) == Ok(1)
            && ended[0].revents().contains(PollFlags::ERR);
        // One that was cut off is still mounted, and ECONNABORTED.
        if over
            && rustix::io::read(&self.fd, &mut vec![0; REQUEST_LEN_MAX][..]) == Err(Errno::NODEV)
        {
            self.unmounted.store(true, Ordering::Release);
        }
    }
}

impl Transport for Device {
    type Channel = DeviceChannel;

    fn channel(&self, index: usize) -> io::Result<DeviceChannel> {
        // A descriptor of its own gives a worker its own queue of requests under way. Who may not
        // open the device again shares the first.
        let own = if index == 0 { None } else { self.link.again().ok() };
        Ok(DeviceChannel::new(own.map_or_else(|| Arc::clone(&self.link), Arc::new)))
    }
}

/// One worker's descriptor and buffers.
#[derive(Debug)]
pub struct DeviceChannel {
    fd: Arc<Link>,
    request: Vec<u8>,
    request_len: usize,
    /// Room for the header, then for the body.
    answer: Vec<u8>,
    /// More of them has been in use than is to be kept.
    full: bool,
    /// Messages since then that needed no more.
    small: usize,
    /// Where it waits for what comes while they are.
    next: Option<OwnedFd>,
}

impl DeviceChannel {
    fn new(fd: Arc<Link>) -> Self {
        Self {
            // Without it buffers stay as they are.
            next: one_by_one(&fd).ok(),
            fd,
            request: vec![0; REQUEST_LEN_MAX],
            request_len: 0,
            answer: vec![0; OutHeader::SIZE + DATA_LEN_MAX],
            full: false,
            small: 0,
        }
    }

    /// So much of a buffer was.
    const fn used(&mut self, len: usize) {
        if len > KEPT {
            (self.full, self.small) = (true, 0);
        } else {
            self.small = self.small.saturating_add(1);
        }
    }

    /// Whether nothing comes for a while.
    fn is_quiet(&self) -> bool {
        let mut found = [MaybeUninit::uninit()];
        let Some(next) = &self.next else { return false };
        epoll::wait(next, &mut found, Some(&QUIET)).is_ok_and(|(some, _)| some.is_empty())
    }
}

impl Channel for DeviceChannel {
    type Outlet = DeviceOutlet;

    fn receive(&mut self) -> io::Result<bool> {
        if self.full && (self.small >= SMALL_MAX || self.is_quiet()) {
            release(&mut self.request[KEPT..]);
            release(&mut self.answer[KEPT..]);
            self.full = false;
        }
        loop {
            match rustix::io::read(&self.fd, &mut self.request[..]) {
                Ok(0) | Err(Errno::NODEV | Errno::CONNABORTED) => return Ok(false),
                Ok(len) => {
                    self.request_len = len;
                    self.used(len);
                    return Ok(true);
                }
                // ENOENT: whoever asked was interrupted before we read.
                Err(Errno::INTR | Errno::NOENT | Errno::AGAIN) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    fn exchange(&mut self) -> (&[u8], &mut [u8]) {
        (&self.request[..self.request_len], &mut self.answer[OutHeader::SIZE..])
    }

    fn send(&mut self, header: &OutHeader) -> io::Result<()> {
        self.used(header.len as usize);
        self.answer[..OutHeader::SIZE].copy_from_slice(&header.encode());
        write(&self.fd, &[&self.answer[..header.len as usize]])
    }

    fn outlet(&self) -> DeviceOutlet {
        // The kernel looks for the request among those that this descriptor has received.
        DeviceOutlet::new(Arc::clone(&self.fd))
    }
}

/// A descriptor that a worker shares with a thread which answers later.
#[derive(Debug)]
pub struct DeviceOutlet {
    fd: Arc<Link>,
}

impl DeviceOutlet {
    pub(super) const fn new(fd: Arc<Link>) -> Self {
        Self { fd }
    }

    fn invalidate(&self, node: Ino, off: i64) -> io::Result<()> {
        let what = NotifyInvalInodeOut { ino: node.0, off, len: 0 };
        let len = (OutHeader::SIZE + NotifyInvalInodeOut::SIZE) as u32;
        let header = OutHeader { len, error: NOTIFY_INVAL_INODE, unique: 0 };
        write(&self.fd, &[&header.encode(), &what.encode()])
    }
}

impl Outlet for DeviceOutlet {
    fn flush(&self, what: Flush) -> io::Result<()> {
        self.invalidate(what.node, what.from.min(i64::MAX as u64).cast_signed())
    }

    fn outdate(&self, node: Ino) -> io::Result<()> {
        self.invalidate(node, ATTRIBUTES_ONLY)
    }

    fn forget(&self, what: &Forgotten) -> io::Result<()> {
        match what {
            Forgotten::Node(node) => self.invalidate(*node, 0),
            Forgotten::Name(dir, name) => {
                let namelen = name.len() as u32;
                let what = NotifyInvalEntryOut { parent: dir.0, namelen, flags: 0 };
                let len = (OutHeader::SIZE + NotifyInvalEntryOut::SIZE + name.len() + 1) as u32;
                let header = OutHeader { len, error: NOTIFY_INVAL_ENTRY, unique: 0 };
                write(&self.fd, &[&header.encode(), &what.encode(), name, &[0]])
            }
        }
    }

    fn send(&self, header: &OutHeader, body: &[u8]) -> io::Result<()> {
        write(&self.fd, &[&header.encode(), body])
    }
}

/// One message, whole: the device takes no halves.
fn write<const PARTS: usize>(fd: &Link, parts: &[&[u8]; PARTS]) -> io::Result<()> {
    let parts = parts.map(IoSlice::new);
    loop {
        match rustix::io::writev(fd, &parts) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Tells that something comes, each time one of the workers that wait: poll(2) would wake all of them, each of which
/// then wants the kernel's lock of what comes.
fn one_by_one(fd: &Link) -> rustix::io::Result<OwnedFd> {
    let next = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let flags = epoll::EventFlags::IN | epoll::EventFlags::EXCLUSIVE;
    epoll::add(&next, fd, epoll::EventData::new_u64(0), flags)?;
    Ok(next)
}

/// Opens the device anew, for the same file system.
fn clone(fd: &OwnedFd) -> rustix::io::Result<OwnedFd> {
    let clone = rustix::fs::open(PATH, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let of = fd.as_raw_fd().cast_unsigned();
    #[expect(unsafe_code, reason = "rustix has no safe wrapper for this ioctl")]
    // SAFETY: `FUSE_DEV_IOC_CLONE` reads one u32, a descriptor's number, from the pointer that
    // `Setter` passes, and writes nothing to our memory.
    unsafe {
        rustix::ioctl::ioctl(&clone, rustix::ioctl::Setter::<FUSE_DEV_IOC_CLONE, u32>::new(of))?;
    }
    Ok(clone)
}

const FUSE_DEV_IOC_CLONE: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<u32>(229, 0);
