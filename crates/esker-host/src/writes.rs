//! Writes to a file that go past the kernel's cache, several at once, while their caller goes on: direct I/O through
//! io_uring.
//!
//! Below: the crate `io-uring`. Invariant: the bytes of a write stay where they are, untouched, until its completion
//! was seen; whoever waits has seen them all.
#![expect(unsafe_code, reason = "the kernel reads these bytes by address while we go on")]

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use io_uring::squeue::Flags;
use io_uring::{IoUring, opcode, types};
use rustix::fs::{Advice, OFlags, fadvise, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

/// What the kernel was told of how long what is written to a file stays: `F_GET_RW_HINT`.
const GET_HINT: libc::c_int = 1024 + 11;
/// Tells it: `F_SET_RW_HINT`.
const SET_HINT: libc::c_int = 1024 + 12;
/// Nobody knows: `RWH_WRITE_LIFE_NOT_SET`.
const NO_HINT: u8 = 0;

/// Writes that are on their way at once.
const DEPTH: usize = 4;
/// No device takes so few bytes in pieces.
const SMALL: usize = 64 << 10;

/// How often pages are thrown away that somebody reads at that moment.
const FORGETS_MAX: usize = 8;
/// cachestat(2) has this number wherever there are Rust's targets for Linux.
const CACHESTAT: libc::c_long = 451;
/// Numbers that it tells: pages in the cache, and four more.
const CACHESTAT_LEN: usize = 5;

/// Bytes of a write: an allocation, and where in it they begin.
type Bytes = (Vec<u8>, usize);

/// How the device hears what each write belongs to. It only says where flash puts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placing {
    /// Not at all.
    #[default]
    Nothing,
    /// With each write the number of its stream (since Linux 6.16).
    Streams,
    /// By what the kernel is told of the file while a write is begun: how long it stays, from 2, short, to 5.
    Lifetimes,
    /// Not any more: the device or the kernel refused.
    Refused,
}

/// A write on its way.
struct Pending {
    at: u64,
    bytes: Bytes,
    placed: bool,
}

struct Inner {
    // Closed before the bytes go: fields drop in their order.
    ring: IoUring,
    slots: [Option<Pending>; DEPTH],
    /// Allocations that are filled again.
    spare: Vec<Bytes>,
    /// The first failure that nobody was told of.
    failed: Option<io::Error>,
    placing: Placing,
    /// What the kernel was told of the file last.
    told: u8,
}

/// A queue of writes to one file.
pub struct Writes {
    direct: File,
    /// The same file through the kernel's cache: for what cannot go past it.
    cached: File,
    inner: Mutex<Inner>,
}

/// What the kernel was told of a file, by whomever: it keeps that as long as it knows the file, whoever opens it.
fn hint(file: &File) -> u8 {
    let mut hint = 0_u64;
    // SAFETY: the kernel writes one u64 there.
    let got = unsafe { libc::fcntl(file.as_raw_fd(), GET_HINT, &raw mut hint) };
    if got == 0 { u8::try_from(hint).unwrap_or(NO_HINT) } else { NO_HINT }
}

fn set_hint(file: &File, hint: u8) -> bool {
    let hint = u64::from(hint);
    // SAFETY: the kernel reads one u64 there and keeps nothing of it.
    unsafe { libc::fcntl(file.as_raw_fd(), SET_HINT, &raw const hint) == 0 }
}

/// The pages of the kernel's cache that have a byte of these: where they begin and end.
fn pages(at: u64, len: u64) -> (u64, u64) {
    let page = rustix::param::page_size() as u64;
    (at / page * page, (at + len).next_multiple_of(page))
}

fn of((bytes, start): &Bytes) -> &[u8] {
    bytes.get(*start..).unwrap_or_default()
}

impl Writes {
    /// To a file that is open already, and is not to be read or written through this `file` any more: what it is opened
    /// again as, for all else, is given back. Bytes are to begin, and writes to begin and end, at multiples of the
    /// device's unit. A lock on `file` stays as long as a write is on its way, also when the process is killed.
    ///
    /// # Errors
    /// The machine allows no rings, or the file none of this.
    pub fn new(file: &File) -> io::Result<(Self, File)> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let cached = OpenOptions::new().read(true).write(true).open(path)?;
        let ring = IoUring::new(DEPTH as u32)?;
        let direct = file.try_clone()?;
        fcntl_setfl(&direct, fcntl_getfl(&direct)? | OFlags::DIRECT)?;
        let inner = Inner {
            ring,
            slots: [const { None }; DEPTH],
            spare: Vec::new(),
            failed: None,
            placing: Placing::Nothing,
            // Of somebody before us, who may have been killed.
            told: hint(file),
        };
        let other = cached.try_clone()?;
        Ok((Self { direct, cached, inner: Mutex::new(inner) }, other))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Streams that the device keeps apart.
    #[must_use]
    pub fn streams(&self) -> u8 {
        let Ok(stat) = rustix::fs::fstat(&self.direct) else { return 0 };
        let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
        // A partition has its disk's.
        let found = ["", "/.."].iter().find_map(|up| {
            let path = format!("/sys/dev/block/{major}:{minor}{up}/queue/max_write_streams");
            std::fs::read_to_string(path).ok()
        });
        let count = found.and_then(|text| text.trim().parse::<u32>().ok());
        count.map_or(0, |count| u8::try_from(count).unwrap_or(u8::MAX))
    }

    /// The device is told in this way from now on. What it was told of lifetimes is taken back where that is another.
    pub fn place_by(&self, placing: Placing) {
        let mut inner = self.inner();
        inner.placing = placing;
        if placing != Placing::Lifetimes {
            // What the ring says now it says again to who writes next.
            let _ = self.tell(&mut inner, NO_HINT);
        }
    }

    /// How it is told.
    #[must_use]
    pub fn placing(&self) -> Placing {
        self.inner().placing
    }

    /// Begins a write, once there is a place for it; gives back an allocation with nothing behind its beginning. Its
    /// stream, or how long it stays, is `place`, by what [`Writes::place_by`] said.
    ///
    /// # Errors
    /// Those of this write, or of one before: none is on its way any more then. Those of the ring.
    pub fn submit(&self, at: u64, bytes: Bytes, place: u8) -> io::Result<Bytes> {
        let mut inner = self.inner();
        self.tell(&mut inner, place)?;
        let slot = loop {
            if let Some(slot) = inner.slots.iter().position(Option::is_none) {
                break slot;
            }
            self.reap(&mut inner, 1)?;
        };
        let source = of(&bytes);
        let len = u32::try_from(source.len()).map_err(|_| ErrorKind::InvalidInput)?;
        let entry = opcode::Write::new(types::Fd(self.direct.as_raw_fd()), source.as_ptr(), len);
        // By a thread of the kernel's: tried without one first, what the device takes only in pieces is refused
        // half-way and begun again, and a limit on the device's bytes counts it twice. What is small is not, and
        // waking that thread, and being woken by it, would take as long as the device itself.
        let flags = if source.len() <= SMALL { Flags::empty() } else { Flags::ASYNC };
        let stream = if inner.placing == Placing::Streams { place } else { 0 };
        let entry =
            entry.offset(at).write_stream(stream).build().flags(flags).user_data(slot as u64);
        // SAFETY: moving the vector moves none of its bytes; they stay in the slot until the completion was seen, and
        // `drop` waits for it.
        unsafe { inner.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        inner.slots[slot] = Some(Pending { at, bytes, placed: stream > 0 });
        self.reap(&mut inner, 0)?;
        if inner.failed.is_some() {
            self.wait_for_all(&mut inner)?;
        }
        Ok(inner.spare.pop().unwrap_or_default())
    }

    /// Says how long what is begun next stays. It is said of the file: so what is on its way must be done.
    fn tell(&self, inner: &mut Inner, lifetime: u8) -> io::Result<()> {
        let lifetime = if inner.placing == Placing::Lifetimes { lifetime } else { NO_HINT };
        if inner.placing == Placing::Refused || inner.told == lifetime {
            return Ok(());
        }
        while inner.slots.iter().any(Option::is_some) {
            self.reap(inner, 1)?;
        }
        if set_hint(&self.direct, lifetime) {
            inner.told = lifetime;
        } else {
            inner.placing = Placing::Refused;
        }
        Ok(())
    }

    /// Returns once every write is done.
    ///
    /// # Errors
    /// The first of a write that was not told of. Those of the ring.
    pub fn wait(&self) -> io::Result<()> {
        self.wait_for_all(&mut self.inner())
    }

    fn wait_for_all(&self, inner: &mut Inner) -> io::Result<()> {
        while inner.slots.iter().any(Option::is_some) {
            self.reap(inner, 1)?;
        }
        inner.failed.take().map_or(Ok(()), Err)
    }

    /// Hands over what waits, and takes what is done, at least so many.
    fn reap(&self, inner: &mut Inner, least: usize) -> io::Result<()> {
        match inner.ring.submit_and_wait(least) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        let done: Vec<_> =
            inner.ring.completion().map(|done| (done.user_data(), done.result())).collect();
        for (slot, result) in done {
            let Some(pending) = inner.slots.get_mut(slot as usize).and_then(Option::take) else {
                continue;
            };
            if pending.placed && result == -Errno::INVAL.raw_os_error() {
                inner.placing = Placing::Refused;
            }
            if let Err(error) = self.finish(&pending, result) {
                inner.failed.get_or_insert(error);
            }
            let (mut bytes, start) = pending.bytes;
            bytes.truncate(start);
            inner.spare.push((bytes, start));
        }
        Ok(())
    }

    /// Whoever read here while it was written has left in the kernel's cache what was there before: of block devices
    /// it throws that away before such a write, and not behind it. Of a page that is only a part of what is named it
    /// would keep that: so whole pages are, with what others wrote there, which is on the device. It keeps pages that
    /// somebody reads right now as well: so whoever does is waited for, and they are thrown away again.
    fn forget(&self, (from, to): (u64, u64)) {
        let len = std::num::NonZeroU64::new(to - from);
        for _ in 0..FORGETS_MAX {
            let _ = fadvise(&self.cached, from, len, Advice::DontNeed);
            if !self.is_cached(from, to - from) {
                return;
            }
            for page in (from..to).step_by(rustix::param::page_size()) {
                let _ = self.cached.read_at(&mut [0], page);
            }
        }
    }

    /// Whether the kernel's cache has a page of these; not known before Linux 6.5.
    fn is_cached(&self, at: u64, len: u64) -> bool {
        let (range, mut found) = ([at, len], [0_u64; CACHESTAT_LEN]);
        let file = self.cached.as_raw_fd();
        // SAFETY: the kernel reads two numbers of `range`, and writes the five of `found`.
        let done = unsafe { libc::syscall(CACHESTAT, file, range.as_ptr(), found.as_mut_ptr(), 0) };
        done == 0 && found[0] > 0
    }

    /// What became of a write. What is left of one that came short is written now, and so is one that may not go past
    /// the kernel's cache.
    fn finish(&self, pending: &Pending, result: i32) -> io::Result<()> {
        let source = of(&pending.bytes);
        let done = match usize::try_from(result) {
            Ok(done) => done,
            Err(_) if result == -Errno::INVAL.raw_os_error() => 0,
            Err(_) => return Err(io::Error::from_raw_os_error(-result)),
        };
        if done >= source.len() {
            self.forget(pages(pending.at, source.len() as u64));
            return Ok(());
        }
        self.cached.write_all_at(&source[done..], pending.at + done as u64)
    }
}

impl Drop for Writes {
    fn drop(&mut self) {
        let waited = self.wait();
        let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
        if inner.told != NO_HINT {
            // Whoever writes there next would write by it, too.
            set_hint(&self.direct, NO_HINT);
        }
        if waited.is_err() {
            // What the kernel may still read must never be anything else.
            for pending in inner.slots.iter_mut().filter_map(Option::take) {
                let _: &mut [u8] = pending.bytes.0.leak();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many as there are places, and more, are all there, in any order of their ends.
    #[test]
    fn what_was_taken_is_written() {
        let path = std::env::temp_dir().join(format!("esker-writes-{}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(64 << 16).unwrap();
        // Not every file system has direct I/O, and not every machine rings.
        let Ok((writes, file)) = Writes::new(&file) else { return };
        for number in 0..64_u8 {
            let mut bytes: Vec<u8> = Vec::with_capacity((1 << 16) + 4096);
            let start = bytes.as_ptr().align_offset(4096);
            bytes.resize(start + (1 << 16), number);
            writes.submit(u64::from(number) << 16, (bytes, start), number % 5).unwrap();
        }
        writes.wait().unwrap();
        let mut read = vec![0; 64 << 16];
        file.read_exact_at(&mut read, 0).unwrap();
        for (number, bytes) in read.chunks(1 << 16).enumerate() {
            assert!(bytes.iter().all(|&byte| usize::from(byte) == number));
        }
    }

    /// Whatever the device is told, or refuses to hear, the bytes are there.
    #[test]
    fn a_hint_changes_no_byte() {
        let path = std::env::temp_dir().join(format!("esker-hints-{}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        for placing in [Placing::Nothing, Placing::Streams, Placing::Lifetimes] {
            file.set_len(0).unwrap();
            let file = file.try_clone().unwrap();
            let Ok((writes, file)) = Writes::new(&file) else { return };
            assert_eq!(writes.streams(), 0, "a file has none");
            writes.place_by(placing);
            for number in 0..16_u8 {
                let mut bytes: Vec<u8> = Vec::with_capacity(8192);
                let start = bytes.as_ptr().align_offset(4096);
                bytes.resize(start + 4096, number);
                writes.submit(u64::from(number) * 4096, (bytes, start), 2 + number % 4).unwrap();
            }
            writes.wait().unwrap();
            assert!([placing, Placing::Refused].contains(&writes.placing()));
            let mut read = vec![0; 16 * 4096];
            file.read_exact_at(&mut read, 0).unwrap();
            let whole = |(number, bytes): (usize, &[u8])| {
                bytes.iter().all(|&byte| usize::from(byte) == number)
            };
            assert!(read.chunks(4096).enumerate().all(whole), "{placing:?}");
        }
    }

    /// What the kernel was told of a file, by us or by who was killed, is nothing for those who write there next.
    #[test]
    fn no_hint_is_left() {
        let path = std::env::temp_dir().join(format!("esker-left-hint-{}", std::process::id()));
        let own = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let write = |placing, place| {
            let Ok((writes, _)) = Writes::new(&own.try_clone().unwrap()) else { return None };
            writes.place_by(placing);
            let mut bytes: Vec<u8> = Vec::with_capacity(8192);
            let start = bytes.as_ptr().align_offset(4096);
            bytes.resize(start + 4096, 1);
            writes.submit(0, (bytes, start), place).unwrap();
            writes.wait().unwrap();
            Some(hint(&own))
        };
        // Not every file system has direct I/O.
        let Some(told) = write(Placing::Lifetimes, 4) else { return };
        assert_eq!((told, hint(&own)), (4, NO_HINT), "it was dropped");
        assert!(set_hint(&own, 5));
        let (writes, _) = Writes::new(&own.try_clone().unwrap()).unwrap();
        writes.place_by(Placing::Nothing);
        assert_eq!(hint(&own), NO_HINT, "it is not to be told");
        assert!(set_hint(&own, 3));
        assert_eq!(write(Placing::Nothing, 4), Some(NO_HINT));
    }

    /// A file as a block device with units of 512 bytes, as long as this lives; only root has any.
    struct Loop(String);

    impl Loop {
        fn over(path: &std::path::Path) -> Option<Self> {
            let mut command = std::process::Command::new("losetup");
            let made = command.args(["-f", "--show"]).arg(path).output().ok()?;
            let name = String::from_utf8(made.stdout).ok()?;
            made.status.success().then(|| Self(name.trim().to_owned()))
        }
    }

    impl Drop for Loop {
        fn drop(&mut self) {
            let _ = std::process::Command::new("losetup").args(["-d", &self.0]).status();
        }
    }

    /// Writes that begin and end within a page are there for whoever reads, also when others read the page meanwhile.
    #[test]
    fn what_shares_a_page_is_seen() {
        const UNIT: usize = 512;
        let path = std::env::temp_dir().join(format!("esker-pages-{}", std::process::id()));
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        let device = Loop::over(&path);
        std::fs::remove_file(&path).unwrap();
        let Some(device) = device else { return };
        let file = OpenOptions::new().read(true).write(true).open(&device.0).unwrap();
        let (writes, file) = Writes::new(&file).unwrap();
        let (file, done) = (&file, &std::sync::atomic::AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    (0..64).for_each(|page| file.read_exact_at(&mut [0; 1], page << 12).unwrap());
                }
            });
            let missed = (0..4096_u64).filter(|number| {
                let at = number % UNIT as u64 * UNIT as u64;
                let mut bytes: Vec<u8> = Vec::with_capacity(2 * UNIT);
                let start = bytes.as_ptr().align_offset(UNIT);
                bytes.resize(start + UNIT, *number as u8 ^ (number >> 9) as u8);
                let written = bytes[start..].to_vec();
                writes.submit(at, (bytes, start), 0).unwrap();
                writes.wait().unwrap();
                let mut read = [0; UNIT];
                file.read_exact_at(&mut read, at).unwrap();
                read[..] != written
            });
            let missed = missed.count();
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            assert_eq!(missed, 0);
        });
    }

    /// A write that fails is told of once, with its errno, and the next ones go on.
    #[test]
    fn what_fails_is_told() {
        let Ok(file) = OpenOptions::new().read(true).write(true).open("/dev/full") else { return };
        let Ok((writes, _)) = Writes::new(&file) else { return };
        let first = writes.submit(0, (vec![1; 4096], 0), 0).map(drop).and_then(|()| writes.wait());
        assert_eq!(first.unwrap_err().raw_os_error(), Some(28));
        writes.wait().unwrap();
    }
}
