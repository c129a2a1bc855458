//! The way requests come and answers go: a seam.
//!
//! Above: `session` runs one [`Channel`] per worker. Below: [`Device`], read and write on
//! `/dev/fuse`, and [`Ring`], io_uring beside it. The channel owns the bytes of the request and the
//! room of the answer, so a transport whose buffers the kernel fills by itself fits the same calls.

mod device;
mod ring;

pub use device::{Device, DeviceChannel, DeviceOutlet};
pub use ring::{Queue, Ring, RingChannel, RingOutlet};

use std::io;

use esker::Ino;

use crate::handler::Flush;
use crate::reply::Forgotten;
use crate::wire::{InitOut, OutHeader};

/// What a request's buffers may keep of memory, in bytes, once nothing has come for so many seconds.
const KEPT: usize = 64 << 10;
const QUIET_SECONDS: u64 = 1;

/// A connection to the kernel, which gives each worker a channel of its own.
pub trait Transport: Send + Sync {
    /// What a worker gets.
    type Channel: Channel;

    /// The channel of worker `index`; 0 is the first, which also starts the conversation.
    ///
    /// # Errors
    /// When the kernel does not give one.
    fn channel(&self, index: usize) -> io::Result<Self::Channel>;

    /// Hears what the kernel agreed to, before any channel but the first is asked for.
    fn agree(&mut self, terms: &InitOut) {
        let _ = terms;
    }

    /// How many workers to have where `wanted` were asked for.
    fn workers(&self, wanted: usize) -> usize {
        wanted
    }
}

/// One worker's line to the kernel.
pub trait Channel: Send {
    /// A way out for answers that come later.
    type Outlet: Outlet;

    /// Called once by the worker, in its own thread, before anything is received.
    ///
    /// # Errors
    /// When the kernel does not take the channel up.
    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Waits for the next request; `false` once there will be none, because the file system was
    /// unmounted.
    ///
    /// # Errors
    /// Whatever ends the conversation in another way.
    fn receive(&mut self) -> io::Result<bool>;

    /// The bytes of the request received last, and the room for its answer's body.
    fn exchange(&mut self) -> (&[u8], &mut [u8]);

    /// Answers with this header and as much of the room as its `len` says.
    ///
    /// # Errors
    /// `NotFound` when nobody waits for the answer any more.
    fn send(&mut self, header: &OutHeader) -> io::Result<()>;

    /// Hands the request received last over to another thread, which answers it through the outlet;
    /// the channel goes on with other requests meanwhile.
    ///
    /// # Errors
    /// When the channel cannot go on without it.
    fn leave(&mut self) -> io::Result<Self::Outlet> {
        Ok(self.outlet())
    }

    /// A way out for what another thread has to say.
    fn outlet(&self) -> Self::Outlet;
}

/// What a thread beside the worker needs to answer a request.
pub trait Outlet: Send {
    /// Has the kernel write back the bytes of a file that it holds back, and waits until they have
    /// come in as requests. It then keeps none of what it was told to flush. Whoever calls must not
    /// be a worker, who might have to answer them.
    ///
    /// # Errors
    /// `NotFound` when the kernel keeps nothing of the inode.
    fn flush(&self, what: Flush) -> io::Result<()>;

    /// Has the kernel ask for the attributes of an inode before it relies on them again. A worker may
    /// call it.
    ///
    /// # Errors
    /// `NotFound` when the kernel keeps nothing of the inode.
    fn outdate(&self, node: Ino) -> io::Result<()>;

    /// Has the kernel keep nothing of this any longer. As with [`Outlet::flush`], no worker may wait for that.
    ///
    /// # Errors
    /// `NotFound` when it keeps nothing of it.
    fn forget(&self, what: &Forgotten) -> io::Result<()>;

    /// Answers.
    ///
    /// # Errors
    /// As [`Channel::send`].
    fn send(&self, header: &OutHeader, body: &[u8]) -> io::Result<()>;
}
