//! The conversation: negotiation, answers, panics, and answers that nobody waits for, with the
//! kernel played.

mod kit;

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use esker::posix::Dirent;
use esker::{Cursor, Error, Ino, Kind, Result};
use esker_fuse::convert::{NO_ENTRY, Timeouts};
use esker_fuse::handler::{Flush, Handler, answer};
use esker_fuse::negotiate::{Terms, negotiate};
use esker_fuse::reply::{Forgotten, Reply};
use esker_fuse::request::{Op, Request};
use esker_fuse::transport::{Channel, Outlet, Transport};
use esker_fuse::wire::flags::init;
use esker_fuse::wire::{self, EntryOut, InitIn, InitOut, Opcode, OutHeader};
use esker_fuse::{Null, Session, SessionError, SessionOptions};
use kit::request;

fn offer(minor: u32, flags: u64) -> InitIn {
    InitIn {
        major: 7,
        minor,
        max_readahead: 131_072,
        flags: flags as u32,
        flags2: (flags >> 32) as u32,
        unused: [0; 44],
    }
}

fn agreed(out: &InitOut) -> u64 {
    u64::from(out.flags) | u64::from(out.flags2) << 32
}

#[test]
fn we_ask_for_what_is_offered_and_nothing_more() {
    let (out, begins) = negotiate(&offer(45, u64::MAX), &Terms::default()).unwrap();
    assert!(begins);
    assert_eq!((out.major, out.minor, out.time_gran), (7, 45, 1));
    assert_eq!((out.max_write, out.max_pages), (1 << 20, 256));
    assert_eq!((out.max_background, out.congestion_threshold), (64, 48));
    let all = agreed(&out);
    for wanted in [
        init::WRITEBACK_CACHE,
        init::READDIRPLUS_AUTO,
        init::PARALLEL_DIROPS,
        init::HANDLE_KILLPRIV_V2,
        init::POSIX_ACL,
        init::SETXATTR_EXT,
        init::NO_OPENDIR_SUPPORT,
        init::CREATE_SUPP_GROUP,
        init::ALLOW_IDMAP,
    ] {
        assert_ne!(all & wanted, 0, "{wanted:#x}");
    }
    for unwanted in [
        init::POSIX_LOCKS,
        init::FLOCK_LOCKS,
        init::NO_OPEN_SUPPORT,
        init::HANDLE_KILLPRIV,
        init::EXPLICIT_INVAL_DATA,
        init::AUTO_INVAL_DATA,
        init::SECURITY_CTX,
        init::PASSTHROUGH,
        init::OVER_IO_URING,
    ] {
        assert_eq!(all & unwanted, 0, "{unwanted:#x}");
    }
    let through = Terms { writeback: false, ..Terms::default() };
    let (out, _) = negotiate(&offer(45, u64::MAX), &through).unwrap();
    assert_eq!(agreed(&out) & init::WRITEBACK_CACHE, 0);
    let (out, _) = negotiate(&offer(46, 0), &Terms::default()).unwrap();
    assert_eq!((agreed(&out), out.minor), (0, 45));
}

#[test]
fn an_older_kernel_is_met_where_it_stands() {
    // Without INIT_EXT the upper half of the flags is somebody's padding.
    let (out, _) = negotiate(&offer(33, !init::INIT_EXT), &Terms::default()).unwrap();
    assert_eq!((out.minor, out.flags2), (33, 0));
    assert_eq!(negotiate(&offer(32, u64::MAX), &Terms::default()), Err(Error::NotSupported));
    let newer = InitIn { major: 8, ..offer(0, 0) };
    let (out, begins) = negotiate(&newer, &Terms::default()).unwrap();
    assert_eq!((out.major, begins), (7, false));
}

/// A handler with one bad habit for each opcode.
#[derive(Default)]
struct Odd {
    forgotten: Mutex<Vec<(u64, u64)>>,
}

impl Handler for Odd {
    fn handle(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<()> {
        let entry = |node| EntryOut { nodeid: node, ..NO_ENTRY };
        match request.op {
            Op::Statfs => panic!("as this test wants it"),
            Op::Lookup { .. } => reply.entry(&entry(42)),
            Op::Create { .. } => {
                reply.entry(&entry(43))?;
                Err(Error::NoSpace)
            }
            Op::Readdirplus { len, .. } => {
                for (number, name) in [(0, &b"."[..]), (51, b"first"), (52, b"second")] {
                    let (ino, cursor) = (Ino(number), Cursor(number));
                    let dirent = Dirent { name, ino, kind: Kind::File, cursor, attr: None };
                    if reply.record_plus(&dirent, &entry(number), len).is_break() {
                        break;
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn needs_flushed(&self, request: &Request<'_>) -> Option<Flush> {
        let flush = Flush { node: request.node, from: 0 };
        matches!(request.op, Op::SeekData { .. }).then_some(flush)
    }

    fn forget(&self, node: Ino, count: u64) {
        self.forgotten.lock().unwrap().push((node.0, count));
    }
}

fn create() -> Vec<u8> {
    let create = wire::CreateIn { flags: 0, mode: 0o100_644, umask: 0, open_flags: 0 };
    request(Opcode::Create, 1, &[&create.encode(), b"x\0"])
}

#[test]
fn a_panic_is_answered_with_eio() {
    let (mut room, odd) = (vec![0; 4096], Odd::default());
    let bytes = request(Opcode::Statfs, 1, &[]);
    let header = answer(&odd, Request::parse(&bytes), &mut Reply::new(&mut room)).unwrap();
    assert_eq!((header.len, header.error.cast_signed(), header.unique), (16, -5, 7));
    let bytes = request(Opcode::Lookup, 1, &[b"x\0"]);
    let header = answer(&odd, Request::parse(&bytes), &mut Reply::new(&mut room)).unwrap();
    assert_eq!((header.len, header.error), (16 + 128, 0));
}

#[test]
fn an_error_lets_go_of_what_the_answer_held() {
    let (mut room, odd) = (vec![0; 4096], Odd::default());
    let header = answer(&odd, Request::parse(&create()), &mut Reply::new(&mut room)).unwrap();
    assert_eq!((header.len, header.error.cast_signed()), (16, -28));
    assert_eq!(*odd.forgotten.lock().unwrap(), [(43, 1)]);
}

#[test]
fn silence_is_kept_where_no_answer_is_wanted() {
    let (mut room, odd) = (vec![0; 4096], Odd::default());
    let interrupt = request(Opcode::Interrupt, 1, &[&9_u64.to_le_bytes()]);
    assert_eq!(answer(&odd, Request::parse(&interrupt), &mut Reply::new(&mut room)), None);
    let forget = request(Opcode::Forget, 1, &[&9_u64.to_le_bytes()]);
    assert_eq!(answer(&odd, Request::parse(&forget), &mut Reply::new(&mut room)), None);
    let again = request(Opcode::Init, 1, &[&offer(45, 0).encode()]);
    let header = answer(&odd, Request::parse(&again), &mut Reply::new(&mut room)).unwrap();
    assert_eq!(header.error.cast_signed(), -5);
}

/// The kernel, played: gives requests, takes answers, and may refuse to take them.
#[derive(Clone, Default)]
struct Stage {
    requests: Arc<Mutex<VecDeque<Vec<u8>>>>,
    answers: Arc<Mutex<Vec<Vec<u8>>>>,
    deaf: bool,
}

/// Marks the answer that tells of outdated attributes.
const OUTDATED: u8 = 0xa7;

/// Tells of flushes and of outdated attributes by answers that are none.
struct Side(Stage);

impl Outlet for Side {
    fn flush(&self, what: Flush) -> io::Result<()> {
        self.0.answers.lock().unwrap().push(vec![what.node.0 as u8]);
        Ok(())
    }
    fn forget(&self, what: &Forgotten) -> io::Result<()> {
        self.0.answers.lock().unwrap().push(format!("{what:?}").into_bytes());
        Ok(())
    }
    fn outdate(&self, node: Ino) -> io::Result<()> {
        self.0.answers.lock().unwrap().push(vec![node.0 as u8, OUTDATED]);
        Ok(())
    }
    fn send(&self, header: &OutHeader, body: &[u8]) -> io::Result<()> {
        self.0.answers.lock().unwrap().push([&header.encode()[..], body].concat());
        Ok(())
    }
}

struct Line {
    stage: Stage,
    request: Vec<u8>,
    room: Vec<u8>,
}

impl Transport for Stage {
    type Channel = Line;
    fn channel(&self, _: usize) -> io::Result<Line> {
        Ok(Line { stage: self.clone(), request: Vec::new(), room: vec![0; 1 << 20] })
    }
}

impl Channel for Line {
    type Outlet = Side;
    fn outlet(&self) -> Side {
        Side(self.stage.clone())
    }
    fn receive(&mut self) -> io::Result<bool> {
        let next = self.stage.requests.lock().unwrap().pop_front();
        let more = next.is_some();
        self.request = next.unwrap_or_default();
        Ok(more)
    }
    fn exchange(&mut self) -> (&[u8], &mut [u8]) {
        (&self.request, &mut self.room)
    }
    fn send(&mut self, header: &OutHeader) -> io::Result<()> {
        let init = self.request[4] == Opcode::Init as u8;
        if self.stage.deaf && !init {
            return Err(io::ErrorKind::NotFound.into());
        }
        let body = &self.room[..header.len as usize - OutHeader::SIZE];
        self.stage.answers.lock().unwrap().push([&header.encode()[..], body].concat());
        Ok(())
    }
}

fn stage(deaf: bool, requests: Vec<Vec<u8>>) -> Stage {
    let begin = request(Opcode::Init, 0, &[&offer(45, u64::MAX).encode()]);
    let requests = std::iter::once(begin).chain(requests).collect();
    Stage { requests: Arc::new(Mutex::new(requests)), deaf, ..Stage::default() }
}

fn list_plus(len: u32) -> Vec<u8> {
    let mut read = wire::ReadIn::decode(&[0; wire::ReadIn::SIZE]).unwrap();
    read.size = len;
    request(Opcode::Readdirplus, 1, &[&read.encode()])
}

#[test]
fn an_answer_that_nobody_takes_holds_nothing() {
    // The third record (128 + 24 + 6 bytes, rounded up) does not fit the shorter listing.
    let short = 2 * (128 + 24 + 8) as u32;
    let lookup = request(Opcode::Lookup, 1, &[b"x\0"]);
    let stage = stage(true, vec![lookup, list_plus(short), list_plus(4096)]);
    let odd = Arc::new(Odd::default());
    let options = SessionOptions { threads: Some(1), ..SessionOptions::default() };
    let session = Session::start(stage, Arc::clone(&odd), &options).unwrap();
    session.run().unwrap();
    assert_eq!(*odd.forgotten.lock().unwrap(), [(42, 1), (51, 1), (51, 1), (52, 1)]);
}

#[test]
fn what_the_kernel_holds_back_comes_before_the_answer() {
    let seek = wire::LseekIn { fh: 0, offset: 0, whence: 3, padding: 0 }.encode();
    let stage = stage(false, vec![request(Opcode::Lseek, 9, &[&seek])]);
    let options = SessionOptions { threads: Some(1), ..SessionOptions::default() };
    let session = Session::start(stage.clone(), Arc::new(Odd::default()), &options).unwrap();
    session.run().unwrap();
    let answers = stage.answers.lock().unwrap();
    assert_eq!((&answers[1][..], answers[2].len(), answers.len()), (&[9][..], 16, 3));
}

#[test]
fn a_session_begins_with_init_or_not_at_all() {
    let stage = Stage::default();
    let start = |stage: &Stage| {
        let session =
            Session::start(stage.clone(), Arc::new(Odd::default()), &SessionOptions::default());
        session.map(|session| *session.agreed())
    };
    assert!(matches!(start(&stage), Err(SessionError::Unmounted)));
    stage.requests.lock().unwrap().push_back(request(Opcode::Statfs, 1, &[]));
    assert!(matches!(start(&stage), Err(SessionError::NoInit)));
    let old = request(Opcode::Init, 0, &[&offer(31, 0).encode()]);
    stage.requests.lock().unwrap().push_back(old);
    assert!(matches!(start(&stage), Err(SessionError::OldKernel { major: 7, minor: 31 })));
    let newer = request(Opcode::Init, 0, &[&InitIn { major: 8, ..offer(1, 0) }.encode()]);
    let same = request(Opcode::Init, 0, &[&offer(40, u64::MAX).encode()]);
    stage.requests.lock().unwrap().extend([newer, same]);
    assert_eq!(start(&stage).unwrap().minor, 40);
    let answers = stage.answers.lock().unwrap();
    assert_eq!(answers.len(), 3);
    assert_eq!(OutHeader::decode(&answers[0]).unwrap().error.cast_signed(), -95);
}

#[test]
fn the_do_nothing_server_makes_finds_lists_and_removes() {
    let lookup = || request(Opcode::Lookup, 1, &[b"x\0"]);
    let unlink = request(Opcode::Unlink, 1, &[b"x\0"]);
    let forget = request(Opcode::Forget, 2, &[&2_u64.to_le_bytes()]);
    let script = vec![
        lookup(),
        create(),
        create(),
        lookup(),
        list_plus(4096),
        unlink,
        lookup(),
        forget,
        create(),
        list_plus(4096),
    ];
    let stage = stage(false, script);
    let timeouts = Timeouts { negative: Duration::ZERO, ..Timeouts::default() };
    let null = Arc::new(Null::new(timeouts, true));
    let options = SessionOptions { threads: Some(1), ..SessionOptions::default() };
    Session::start(stage.clone(), null, &options).unwrap().run().unwrap();
    let answers = stage.answers.lock().unwrap();
    let heads: Vec<_> =
        answers.iter().skip(1).map(|bytes| OutHeader::decode(bytes).unwrap()).collect();
    let errors: Vec<_> = heads.iter().map(|head| head.error.cast_signed()).collect();
    assert_eq!(errors, [-2, 0, -17, 0, 0, 0, -2, 0, 0]);
    // `.`, `..` and the file.
    assert_eq!(heads[4].len as usize, 16 + 3 * (128 + 24 + 8));
    let entry = |index: usize| EntryOut::decode(&answers[index][16..]).unwrap();
    assert_eq!((entry(2).nodeid, entry(2).generation), (2, 0));
    // The listing still holds the first file, so the second is another.
    assert_eq!(entry(8).nodeid, 3);
}
