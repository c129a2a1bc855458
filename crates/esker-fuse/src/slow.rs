//! A server that takes its time to say that all is safe, as a device does, or as whoever writes to one must: for
//! benches.
//!
//! Above: `session`. Around any handler. All else is answered as fast as that does.

use esker::{Error, Ino};

use crate::handler::{Flush, Handler};
use crate::reply::Reply;
use crate::request::{Op, Request};

/// A handler that does something before each fsync.
pub struct Slow<H, F> {
    handler: H,
    first: F,
}

impl<H, F> Slow<H, F> {
    /// Around `handler`; `first` is done before it hears of an fsync, which fails with that.
    pub const fn new(handler: H, first: F) -> Self {
        Self { handler, first }
    }
}

impl<H: Handler, F: Fn() -> Result<(), Error> + Send + Sync> Handler for Slow<H, F> {
    fn handle(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Error> {
        if matches!(request.op, Op::Fsync { .. }) {
            (self.first)()?;
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
