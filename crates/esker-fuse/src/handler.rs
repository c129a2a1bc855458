//! From a request's bytes to its answer, whoever handles it.
//!
//! Above: `session`. Below: `request`, `reply`. A handler's panic is answered with EIO and the
//! session lives; what an answer that did not reach the kernel held is let go again.

use std::panic::{AssertUnwindSafe, catch_unwind};

use esker::{Error, Ino};

use crate::reply::Reply;
use crate::request::{Op, ParseError, Request};
use crate::wire::OutHeader;

/// Bytes of a file that the kernel may hold back: all of them from `from` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flush {
    /// Whose.
    pub node: Ino,
    /// The first of them.
    pub from: u64,
}

/// Answers requests.
pub trait Handler: Send + Sync {
    /// Answers one: fills `reply`, or names the error.
    ///
    /// # Errors
    /// The error is the answer; whatever is in `reply` then is not sent.
    fn handle(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> Result<(), Error>;

    /// What the kernel must have written back before this request can be answered rightly: it may
    /// hold written bytes back, and does not flush them by itself before every question about them.
    fn needs_flushed(&self, request: &Request<'_>) -> Option<Flush> {
        let _ = request;
        None
    }

    /// Whether a thread beside the workers is to answer this request: it may take as long as it likes, and have the
    /// kernel [forget](Reply::forget) what it knows.
    fn takes_long(&self, request: &Request<'_>) -> bool {
        let _ = request;
        false
    }

    /// Whether space may come back by itself in a moment: files that were removed, and that the
    /// kernel has yet to let go of.
    fn awaits_space(&self) -> bool {
        false
    }

    /// The kernel has not heard of `count` look-ups that answers told of, and never will.
    fn forget(&self, node: Ino, count: u64);
}

/// Handles a request and returns the header of the answer, whose body lies in `reply`; nothing for
/// a request that wants none.
pub fn answer<H: Handler + ?Sized>(
    handler: &H,
    request: Result<Request<'_>, ParseError>,
    reply: &mut Reply<'_>,
) -> Option<OutHeader> {
    let (unique, outcome) = match request {
        Ok(request) => {
            let silent = request.op.is_silent();
            let outcome = guarded(handler, &request, reply);
            if silent {
                return None;
            }
            (request.unique, outcome)
        }
        Err(ParseError::Header) => return None,
        Err(ParseError::Body { unique, error, .. }) => (unique, Err(error)),
    };
    let error = match outcome {
        Ok(()) => 0,
        Err(error) => {
            let_go(handler, reply);
            reply.clear();
            (-error.errno()).cast_unsigned()
        }
    };
    Some(OutHeader { len: (OutHeader::SIZE + reply.body().len()) as u32, error, unique })
}

/// Lets go of everything that an answer which the kernel did not get holds.
pub fn let_go<H: Handler + ?Sized>(handler: &H, reply: &Reply<'_>) {
    reply.held().for_each(|node| handler.forget(node, 1));
}

fn guarded<H: Handler + ?Sized>(
    handler: &H,
    request: &Request<'_>,
    reply: &mut Reply<'_>,
) -> Result<(), Error> {
    // What a panic leaves behind, the home answers for (its locks open themselves, see
    // `ground::sync`).
    let caught = catch_unwind(AssertUnwindSafe(|| match &request.op {
        Op::Init(_) => Err(Error::Io),
        _ => handler.handle(request, reply),
    }));
    caught.unwrap_or(Err(Error::Io))
}
