//! FUSE over io_uring: one queue per CPU, each served by a worker that stays on that CPU, so that a
//! program's request and its answer never change CPU. What the kernel sends no other way (INIT, FORGET)
//! still comes through the device.
//!
//! Above: `session`. Below: the crate `io-uring`, the structures of `wire`.
//! Invariant: a slot's header, payload and vector stay where they are from its registration until the ring is
//! closed, because the kernel writes to them; the worker touches them only between a completion
//! and the next commit.
#![expect(unsafe_code, reason = "the kernel reads and writes these buffers by address")]

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use esker::Ino;
use esker_host::release;
use io_uring::register::Restriction;
use io_uring::squeue::Entry128;
use io_uring::{IoUring, opcode, types};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::device::{Device, DeviceChannel, DeviceOutlet, Link};
use super::{Channel, KEPT, Outlet, QUIET_SECONDS, Transport};
use crate::handler::Flush;
use crate::negotiate::DATA_LEN_MAX;
use crate::reply::Forgotten;
use crate::wire::flags::init;
use crate::wire::{InHeader, InitOut, OutHeader, RingCommand, RingEntry, RingHeader};

/// Requests of one queue that may be on their way at once.
const DEPTH: usize = 4;
/// The longest operation's own fields, in bytes.
const OPERATION_LEN_MAX: usize = 128;
/// In front of a payload: the header and the operation's own fields, so that a request lies in one
/// piece.
const FRONT: usize = InHeader::SIZE + OPERATION_LEN_MAX;
/// Room for the answer to a request that itself came with a payload: an attribute's value at most.
const SIDE_LEN: usize = 64 * 1024 + 4096;

const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;
/// Marks the completion that says: another thread has left answers.
const BELL: u64 = u64::MAX;

/// The device with a ring beside it.
pub struct Ring {
    device: Device,
    /// Made before the conversation begins, so that a machine that cannot is found out in time; each is
    /// taken by its worker.
    queues: Vec<Mutex<Option<Box<Queue>>>>,
    agreed: bool,
}

impl Ring {
    /// Whether this kernel offers FUSE over io_uring at all.
    #[must_use]
    pub fn is_offered() -> bool {
        let enabled = std::fs::read_to_string("/sys/module/fuse/parameters/enable_uring");
        enabled.is_ok_and(|text| text.trim() == "Y")
    }

    /// Sets up a ring for each CPU; gives the device back, and why, where that cannot be.
    ///
    /// # Errors
    /// The machine allows no rings, or not enough of them.
    pub fn new(device: Device) -> Result<Self, (Device, io::Error)> {
        let queues = (0..possible_cpus())
            .map(|cpu| Ok(Mutex::new(Some(Box::new(Queue::new(device.shared(), cpu)?)))))
            .collect();
        match queues {
            Ok(queues) => Ok(Self { device, queues, agreed: false }),
            Err(error) => Err((device, error)),
        }
    }
}

impl Transport for Ring {
    type Channel = RingChannel;

    /// Channel 0 is the device; then comes one for each CPU that the machine may have.
    fn channel(&self, index: usize) -> io::Result<RingChannel> {
        let queue = index.checked_sub(1).filter(|_| self.agreed);
        let Some(queue) = queue.and_then(|index| self.queues.get(index)) else {
            return Ok(RingChannel::Device(self.device.channel(index)?));
        };
        let queue = queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        queue.map(RingChannel::Queue).ok_or_else(|| io::Error::other("the queue has a worker"))
    }

    fn agree(&mut self, terms: &InitOut) {
        self.agreed = u64::from(terms.flags2) << 32 & init::OVER_IO_URING != 0;
    }

    /// The kernel waits until every CPU's queue is served.
    fn workers(&self, wanted: usize) -> usize {
        if self.agreed { 1 + self.queues.len() } else { wanted }
    }
}

/// A line to the kernel: the device's, or a queue's.
pub enum RingChannel {
    /// read(2) and write(2).
    Device(DeviceChannel),
    /// A CPU's own.
    Queue(Box<Queue>),
}

impl Channel for RingChannel {
    type Outlet = RingOutlet;

    fn begin(&mut self) -> io::Result<()> {
        match self {
            Self::Device(device) => device.begin(),
            Self::Queue(queue) => queue.begin(),
        }
    }

    fn receive(&mut self) -> io::Result<bool> {
        match self {
            Self::Device(device) => device.receive(),
            Self::Queue(queue) => queue.receive(),
        }
    }

    fn exchange(&mut self) -> (&[u8], &mut [u8]) {
        match self {
            Self::Device(device) => device.exchange(),
            Self::Queue(queue) => queue.slots[queue.current].exchange(),
        }
    }

    fn send(&mut self, header: &OutHeader) -> io::Result<()> {
        match self {
            Self::Device(device) => device.send(header),
            Self::Queue(queue) => queue.finish(queue.current, header),
        }
    }

    fn leave(&mut self) -> io::Result<RingOutlet> {
        if let Self::Queue(queue) = self {
            queue.replace()?;
        }
        Ok(self.outlet())
    }

    fn outlet(&self) -> RingOutlet {
        match self {
            Self::Device(device) => RingOutlet::Device(device.outlet()),
            Self::Queue(queue) => RingOutlet::Queue {
                device: DeviceOutlet::new(Arc::clone(&queue.fd)),
                slot: queue.current,
                late: Arc::clone(&queue.late),
            },
        }
    }
}

/// A way out for one answer of a queue: only the queue's own worker may touch its ring.
pub enum RingOutlet {
    /// The device's.
    Device(DeviceOutlet),
    /// A queue's.
    Queue {
        /// For notifications, which go no other way.
        device: DeviceOutlet,
        /// Where the request lies.
        slot: usize,
        /// Where its answer is left.
        late: Arc<Late>,
    },
}

impl Outlet for RingOutlet {
    fn flush(&self, what: Flush) -> io::Result<()> {
        match self {
            Self::Device(device) | Self::Queue { device, .. } => device.flush(what),
        }
    }

    fn outdate(&self, node: Ino) -> io::Result<()> {
        match self {
            Self::Device(device) | Self::Queue { device, .. } => device.outdate(node),
        }
    }

    fn forget(&self, what: &Forgotten) -> io::Result<()> {
        match self {
            Self::Device(device) | Self::Queue { device, .. } => device.forget(what),
        }
    }

    fn send(&self, header: &OutHeader, body: &[u8]) -> io::Result<()> {
        match self {
            Self::Device(device) => device.send(header, body),
            Self::Queue { slot, late, .. } => late.leave(*slot, *header, body),
        }
    }
}

/// Answers that other threads left for a queue's worker, and the bell that wakes it.
pub struct Late {
    answers: Mutex<Vec<(usize, OutHeader, Vec<u8>)>>,
    bell: OwnedFd,
}

impl Late {
    fn leave(&self, slot: usize, header: OutHeader, body: &[u8]) -> io::Result<()> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.push((slot, header, body.to_vec()));
        drop(answers);
        rustix::io::write(&self.bell, &1_u64.to_ne_bytes())?;
        Ok(())
    }

    fn take(&self) -> Vec<(usize, OutHeader, Vec<u8>)> {
        std::mem::take(&mut self.answers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One CPU's queue.
pub struct Queue {
    // Closed before the buffers go: fields drop in their order.
    ring: IoUring<Entry128>,
    fd: Arc<Link>,
    cpu: u16,
    slots: Vec<Slot>,
    /// Slots with a request that nobody has looked at yet.
    arrived: VecDeque<usize>,
    current: usize,
    /// Slots whose answers other threads will give.
    left: usize,
    /// More of a slot has been in use than is to be kept.
    full: bool,
    late: Arc<Late>,
    /// What the bell's eventfd is read into.
    rung: Box<[u8; 8]>,
}

/// The buffers of one request and its answer.
struct Slot {
    header: Box<[u8; RingHeader::SIZE]>,
    /// [`FRONT`] bytes, then the payload.
    buffer: Box<[u8]>,
    /// Header and payload as the kernel knows them: address and length of each.
    vector: Box<[[u64; 2]; 2]>,
    side: Box<[u8]>,
    entry: RingEntry,
    /// Where the request begins in `buffer`.
    start: usize,
}

impl Queue {
    fn new(fd: Arc<Link>, cpu: usize) -> io::Result<Self> {
        let late =
            Late { answers: Mutex::new(Vec::new()), bell: eventfd(0, EventfdFlags::CLOEXEC)? };
        Ok(Self {
            ring: ring()?,
            fd,
            cpu: u16::try_from(cpu).map_err(|_| io::Error::other("too many CPUs"))?,
            slots: (0..DEPTH).map(|_| Slot::new()).collect(),
            arrived: VecDeque::with_capacity(DEPTH),
            current: 0,
            left: 0,
            full: false,
            late: Arc::new(late),
            rung: Box::new([0; 8]),
        })
    }

    /// Keeps the calling thread on this CPU, and tells the kernel that the queue is served.
    fn begin(&mut self) -> io::Result<()> {
        let mut set = CpuSet::new();
        if usize::from(self.cpu) < CpuSet::MAX_CPU {
            set.set(self.cpu.into());
        }
        // A CPU that is not there now has no programs either: its queue is served from wherever we are.
        let _ = sched_setaffinity(None, &set);
        self.ring.submitter().register_enable_rings()?;
        for index in 0..DEPTH {
            self.register(index)?;
        }
        self.listen()?;
        self.ring.submit()?;
        Ok(())
    }

    fn register(&mut self, slot: usize) -> io::Result<()> {
        let vector = self.slots[slot].vector.as_ptr() as u64;
        self.command(REGISTER, slot, 0, Some(vector))
    }

    /// The current request is left to another thread, whose answer may wait for further requests of this
    /// queue: so as many slots as ever must be there for them.
    fn replace(&mut self) -> io::Result<()> {
        self.left += 1;
        if self.slots.len() - self.left < DEPTH {
            self.slots.push(Slot::new());
            self.register(self.slots.len() - 1)?;
        }
        Ok(())
    }

    fn command(
        &mut self,
        code: u32,
        slot: usize,
        commit_id: u64,
        vector: Option<u64>,
    ) -> io::Result<()> {
        let command = RingCommand { flags: 0, commit_id, qid: self.cpu, padding: [0; 6] };
        let mut bytes = [0; 80];
        bytes[..RingCommand::SIZE].copy_from_slice(&command.encode());
        let fd = types::Fd(self.fd.as_raw_fd());
        let entry = opcode::UringCmd80::new(fd, code).cmd(bytes).addr(vector).build();
        let mut entry = entry.user_data(slot as u64);
        if vector.is_some() {
            set_len(&mut entry, 2);
        }
        self.push(&entry)
    }

    /// The answer goes down together with the wait for the next request: one system call for each.
    fn commit(&mut self, slot: usize) -> io::Result<()> {
        let commit_id = self.slots[slot].entry.commit_id;
        self.command(COMMIT_AND_FETCH, slot, commit_id, None)
    }

    /// Waits for the bell once.
    fn listen(&mut self) -> io::Result<()> {
        let bell = types::Fd(self.late.bell.as_raw_fd());
        let read = opcode::Read::new(bell, self.rung.as_mut_ptr(), self.rung.len() as u32);
        self.push(&Entry128::from(read.build().user_data(BELL)))
    }

    fn push(&mut self, entry: &Entry128) -> io::Result<()> {
        if self.ring.submission().is_full() {
            self.ring.submit()?;
        }
        // SAFETY: what the kernel reaches through an entry (a slot's header, payload and vector, or the bytes that
        // the bell is read into) lies in boxes of this queue, which outlive its ring.
        let pushed = unsafe { self.ring.submission().push(entry) };
        pushed.map_err(|_| io::Error::other("the ring is full, which its size rules out"))
    }

    fn receive(&mut self) -> io::Result<bool> {
        while self.arrived.is_empty() {
            self.wait()?;
            let mut rung = false;
            for done in self.ring.completion() {
                match (done.user_data(), done.result()) {
                    (BELL, _) => rung = true,
                    (slot, 0) => self.arrived.push_back(slot as usize),
                    // The mount is gone, or is about to go.
                    (_, error) if ended(-error) => return Ok(false),
                    (_, error) => return Err(io::Error::from_raw_os_error(-error)),
                }
            }
            if rung {
                self.answer_late()?;
            }
        }
        self.current = self.arrived.pop_front().unwrap_or(self.current);
        self.slots[self.current].arrange()?;
        self.full |= self.slots[self.current].entry.payload_len as usize > KEPT;
        Ok(true)
    }

    /// Until something may have come.
    fn wait(&mut self) -> io::Result<()> {
        let waited = if self.full {
            let quiet = types::Timespec::new().sec(QUIET_SECONDS);
            let args = types::SubmitArgs::new().timespec(&quiet);
            self.ring.submitter().submit_with_args(1, &args)
        } else {
            self.ring.submit_and_wait(1)
        };
        match waited.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(Errno::TIME) => {
                self.rest();
                Ok(())
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Gives memory back. The kernel fills buffers only while this thread is in its call, and then says so.
    fn rest(&mut self) {
        if self.left == 0 {
            for slot in &mut self.slots {
                release(&mut slot.buffer[KEPT..]);
                release(&mut slot.side);
            }
            self.full = false;
        }
    }

    fn finish(&mut self, slot: usize, header: &OutHeader) -> io::Result<()> {
        self.full |= header.len as usize > KEPT;
        self.slots[slot].finish(header);
        self.commit(slot)
    }

    fn answer_late(&mut self) -> io::Result<()> {
        self.listen()?;
        for (slot, header, body) in self.late.take() {
            self.left -= 1;
            self.slots[slot].room()[..body.len()].copy_from_slice(&body);
            self.finish(slot, &header)?;
        }
        Ok(())
    }
}

impl Slot {
    fn new() -> Self {
        let mut slot = Self {
            header: Box::new([0; RingHeader::SIZE]),
            buffer: vec![0; FRONT + DATA_LEN_MAX].into_boxed_slice(),
            vector: Box::new([[0; 2]; 2]),
            side: vec![0; SIDE_LEN].into_boxed_slice(),
            entry: RingEntry { flags: 0, commit_id: 0, payload_len: 0, padding: 0, reserved: 0 },
            start: FRONT,
        };
        let payload = slot.buffer[FRONT..].as_mut_ptr() as u64;
        let header = slot.header.as_mut_ptr() as u64;
        *slot.vector = [[header, RingHeader::SIZE as u64], [payload, DATA_LEN_MAX as u64]];
        slot
    }

    /// Puts header and operation in front of the payload, as a request that came through the device
    /// has them.
    fn arrange(&mut self) -> io::Result<()> {
        let damaged = || io::Error::from(io::ErrorKind::InvalidData);
        let ring = RingHeader::decode(&self.header[..]).ok_or_else(damaged)?;
        let request = InHeader::decode(&ring.in_out).ok_or_else(damaged)?;
        self.entry = RingEntry::decode(&ring.entry).ok_or_else(damaged)?;
        let payload = self.entry.payload_len as usize;
        let own = (request.len as usize).checked_sub(InHeader::SIZE + payload);
        let own = own.filter(|&own| own <= OPERATION_LEN_MAX).ok_or_else(damaged)?;
        if payload > DATA_LEN_MAX {
            return Err(damaged());
        }
        self.start = FRONT - own - InHeader::SIZE;
        let (head, operation) = self.buffer[self.start..FRONT].split_at_mut(InHeader::SIZE);
        head.copy_from_slice(&ring.in_out[..InHeader::SIZE]);
        operation.copy_from_slice(&ring.operation[..own]);
        Ok(())
    }

    /// The answer is written where the payload lies, unless the request still lies there.
    fn exchange(&mut self) -> (&[u8], &mut [u8]) {
        if self.entry.payload_len > 0 {
            let end = FRONT + self.entry.payload_len as usize;
            return (&self.buffer[self.start..end], &mut self.side);
        }
        let (front, payload) = self.buffer.split_at_mut(FRONT);
        (&front[self.start..], payload)
    }

    fn room(&mut self) -> &mut [u8] {
        self.exchange().1
    }

    fn finish(&mut self, header: &OutHeader) {
        let len = header.len as usize - OutHeader::SIZE;
        if self.entry.payload_len != 0 {
            self.buffer[FRONT..FRONT + len].copy_from_slice(&self.side[..len]);
        }
        self.header[..OutHeader::SIZE].copy_from_slice(&header.encode());
        let entry = RingEntry { payload_len: len as u32, ..self.entry };
        self.header[RingHeader::SIZE - RingEntry::SIZE..].copy_from_slice(&entry.encode());
    }
}

fn ring() -> io::Result<IoUring<Entry128>> {
    // One thread fills the ring and waits on it, and completions are run in its own wait; disabled until that
    // thread is there to call it its own.
    let ring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_r_disabled()
        .build((DEPTH * 4) as u32)?;
    // A ring that could also open files would be a way round what a confined process may do.
    ring.submitter().register_restrictions(&mut [
        Restriction::sqe_op(opcode::UringCmd80::CODE),
        Restriction::sqe_op(opcode::Read::CODE),
    ])?;
    Ok(ring)
}

/// The crate's builder has no way to say how many buffers the address is of.
fn set_len(entry: &mut Entry128, len: u32) {
    const LEN_AT: usize = 24;
    const _: () = assert!(size_of::<Entry128>() == 128);
    // SAFETY: an entry is 128 plain bytes in the kernel's layout (`repr(C)`, its size checked above), in which
    // `len` is the u32 at byte 24.
    unsafe { std::ptr::from_mut(entry).cast::<u8>().add(LEN_AT).cast::<u32>().write_unaligned(len) }
}

/// ENOTCONN, ENODEV, ECONNABORTED, ECANCELED.
const fn ended(errno: i32) -> bool {
    matches!(errno, 107 | 19 | 103 | 125)
}

/// CPUs that the kernel keeps a queue for.
fn possible_cpus() -> usize {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = text.trim().rsplit(['-', ',']).next().and_then(|word| word.parse::<usize>().ok());
    last.map_or_else(
        || std::thread::available_parallelism().map_or(1, usize::from),
        |last| last + 1,
    )
}
