//! Requests that a worker leaves to others, because their answer waits for what further requests bring
//! (bytes that the kernel must hand over first, or space that it is about to let go of) or takes long by itself.
//!
//! Above: `session`. Below: `handler`, `transport`. Invariant: what waits is bounded, whoever asks and
//! however often: so many threads answer, and one looks again for all that wait for space, for
//! as long and as many bytes as the constants here allow. What finds no place is answered at once.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use esker::Error;

use crate::control::PAGE_LEN;
use crate::handler::{Flush, Handler, answer, let_go};
use crate::reply::Reply;
use crate::request::Request;
use crate::transport::Outlet;
use crate::wire::{EntryOut, IoctlOut, OpenOut, OutHeader, StatxOut};

/// Room for an answer that comes later, in bytes: an inode with an open file, what statx(2) tells, or a page of what
/// the server was asked for.
const LATE_LEN_MAX: usize = IoctlOut::SIZE + PAGE_LEN;
const _: () = assert!(StatxOut::SIZE <= LATE_LEN_MAX);
const _: () = assert!(EntryOut::SIZE + OpenOut::SIZE <= LATE_LEN_MAX);
/// Most threads that answer, or have the kernel hand bytes over, at once; further requests wait for one of them.
const HANDS_MAX: usize = 8;
/// How long a thread without work stays for more.
const LINGER: Duration = Duration::from_millis(20);
/// How often, and for how long, a request for which there was no space is tried again while space is
/// expected.
const SPACE_STEP: Duration = Duration::from_millis(4);
const SPACE_WAIT: Duration = Duration::from_secs(1);
/// Most requests, and most of their bytes, that wait for space.
const WAITING_MAX: usize = 64;
const WAITING_LEN_MAX: usize = 8 << 20;
const NO_SPACE: u32 = (-Error::NoSpace.errno()).cast_unsigned();

/// A request and the way out for its answer.
pub struct Left<O> {
    /// The request's bytes.
    pub bytes: Vec<u8>,
    /// Where the answer goes.
    pub outlet: O,
}

/// What was left.
pub struct Later<O> {
    state: Mutex<State<O>>,
    /// There is something to answer.
    bell: Condvar,
}

struct State<O> {
    /// Each with what is to be flushed before.
    requests: VecDeque<(Option<Flush>, Left<O>)>,
    hands: usize,
    /// Those of them that wait for the bell.
    idle: usize,
    waits: Vec<(Instant, Left<O>)>,
    /// Requests in `waits`, or just being tried again, and their bytes.
    waiting: (usize, usize),
    /// Somebody looks after `waits`.
    looks: bool,
}

impl<O> Default for Later<O> {
    fn default() -> Self {
        let state = State {
            requests: VecDeque::new(),
            hands: 0,
            idle: 0,
            waits: Vec::new(),
            waiting: (0, 0),
            looks: false,
        };
        Self { state: Mutex::new(state), bell: Condvar::new() }
    }
}

/// Whether a request should wait because space is expected.
pub fn awaits_space<H: Handler + ?Sized>(handler: &H, header: &OutHeader) -> bool {
    header.error == NO_SPACE && handler.awaits_space()
}

impl<O: Outlet> Later<O> {
    /// Answers in a thread of its own, once the kernel has handed over what it held back of something.
    pub fn answer<'scope, H: Handler>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        handler: &'scope H,
        first: Option<Flush>,
        left: Left<O>,
    ) where
        O: 'scope,
    {
        let mut state = self.state();
        state.requests.push_back((first, left));
        if state.requests.len() <= state.idle {
            self.bell.notify_one();
            return;
        }
        if state.hands == HANDS_MAX {
            return;
        }
        state.hands += 1;
        drop(state);
        if thread::Builder::new().spawn_scoped(scope, || self.work(handler)).is_ok() {
            return;
        }
        let mut state = self.state();
        state.hands -= 1;
        // Others will come to it, or nobody will.
        let lost =
            if state.hands == 0 { std::mem::take(&mut state.requests) } else { VecDeque::new() };
        drop(state);
        lost.iter().for_each(|(_, left)| refuse(left, Error::NoMemory));
    }

    fn work<H: Handler>(&self, handler: &H) {
        while let Some((first, left)) = self.next() {
            if let Some(what) = first {
                // An error says that there was nothing to write back.
                let _ = left.outlet.flush(what);
            }
            try_now(&left, handler, false);
        }
    }

    fn next(&self) -> Option<(Option<Flush>, Left<O>)> {
        let mut state = self.state();
        if state.requests.is_empty() {
            state.idle += 1;
            let waited =
                self.bell.wait_timeout_while(state, LINGER, |state| state.requests.is_empty());
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.idle -= 1;
        }
        let next = state.requests.pop_front();
        if next.is_none() {
            state.hands -= 1;
        }
        next
    }

    /// Whether a request of so many bytes may wait for space; it then must be left to
    /// [`Later::wait`].
    pub fn admit(&self, len: usize) -> bool {
        let mut state = self.state();
        let (count, bytes) = state.waiting;
        let fits = count < WAITING_MAX && bytes + len <= WAITING_LEN_MAX;
        if fits {
            state.waiting = (count + 1, bytes + len);
        }
        fits
    }

    /// Answers once there is space, or none is expected any more. It was admitted before.
    pub fn wait<'scope, H: Handler>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        handler: &'scope H,
        left: Left<O>,
    ) where
        O: 'scope,
    {
        let mut state = self.state();
        state.waits.push((Instant::now() + SPACE_WAIT, left));
        if std::mem::replace(&mut state.looks, true) {
            return;
        }
        drop(state);
        if thread::Builder::new().spawn_scoped(scope, || self.look(handler)).is_err() {
            let mut state = self.state();
            state.looks = false;
            state.waiting = (0, 0);
            let lost = std::mem::take(&mut state.waits);
            drop(state);
            lost.iter().for_each(|(_, left)| refuse(left, Error::NoSpace));
        }
    }

    /// Tries everything that waits again and again until nothing does.
    fn look<H: Handler>(&self, handler: &H) {
        loop {
            thread::sleep(SPACE_STEP);
            let waits = std::mem::take(&mut self.state().waits);
            let now = Instant::now();
            let (mut kept, mut done) = (Vec::new(), (0, 0));
            for (until, left) in waits {
                if try_now(&left, handler, now < until) {
                    done = (done.0 + 1, done.1 + left.bytes.len());
                } else {
                    kept.push((until, left));
                }
            }
            let mut state = self.state();
            state.waiting = (state.waiting.0 - done.0, state.waiting.1 - done.1);
            kept.append(&mut state.waits);
            state.waits = kept;
            if state.waits.is_empty() {
                state.looks = false;
                return;
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State<O>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Handles a request and answers it, unless it may wait on and there still is no space.
fn try_now<H: Handler, O: Outlet>(left: &Left<O>, handler: &H, may_wait: bool) -> bool {
    let mut room = [0; LATE_LEN_MAX];
    let mut reply = Reply::new(&mut room);
    let request = Request::parse(&left.bytes);
    let Some(header) = answer(handler, request, &mut reply) else { return true };
    if may_wait && awaits_space(handler, &header) {
        return false;
    }
    if let Some(node) = reply.outdated() {
        // That the kernel knows nothing of the inode any more is no harm.
        let _ = left.outlet.outdate(node);
    }
    for what in reply.forgotten() {
        let _ = left.outlet.forget(what);
    }
    if left.outlet.send(&header, reply.body()).is_err() {
        let_go(handler, &reply);
    }
    true
}

fn refuse<O: Outlet>(left: &Left<O>, error: Error) {
    let unique = Request::parse(&left.bytes).map_or(0, |request| request.unique);
    let error = (-error.errno()).cast_unsigned();
    let header = OutHeader { len: OutHeader::SIZE as u32, error, unique };
    let _ = left.outlet.send(&header, &[]);
}
