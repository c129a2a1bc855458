//! A server that takes its time to say that all is safe, as a device does: for benches.
//!
//! Above: `session`. Around any handler. All else is answered as fast as that does.

use std::thread;
use std::time::Duration;

use esker::{Error, Ino};

use crate::handler::{Flush, Handler};
use crate::reply::Reply;
use crate::request::{Op, Request};

/// A handler that waits before each fsync.
pub struct Slow<H> {
    handler: H,
    wait: Duration,
}

impl<H> Slow<H> {
    /// Around `handler`.
    #[must_use]
    pub const fn new(handler: H, wait: Duration) -> Self {
        Self { handler, wait }
    }
}

impl<H: Handler> Handler for Slow<H> {
    fn handle(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
        if matches!(request.op, Op::Fsync { .. }) {
            thread::sleep(self.wait);
        }
        self.handler.handle(request, reply)
    }

    fn needs_flushed(&self, request: &Request<'_>) -> Option<Flush> {
        self.handler.needs_flushed(request)
    }

    fn takes_long(&self, request: &Request<'_>) -> bool {
        self.handler.takes_long(request)
    }

    fn awaits_space(&self) -> bool {
        self.handler.awaits_space()
    }

    fn forget(&self, node: Ino, count: u64) {
        self.handler.forget(node, count);
    }
}
