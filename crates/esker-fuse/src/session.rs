//! A session: the conversation with the kernel from INIT until the file system is unmounted.
//!
//! Above: whoever mounts. Below: `handler`, `transport`. Each worker receives, handles and answers
//! one request at a time; the kernel hands requests to whichever worker waits.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle, Scope};

use esker::Error;

use crate::handler::{Handler, answer, let_go};
use crate::later::{Later, Left, awaits_space};
use crate::mount::{MountOptions, Way};
use crate::negotiate::{Terms, negotiate};
use crate::reply::Reply;
use crate::request::{Op, Request};
use crate::transport::{Channel, Device, Outlet, Ring, Transport};
use crate::wire::{InitOut, OutHeader};

/// Most workers that a session has by default.
const THREADS_MAX: usize = 4;
/// Workers that it has where they wait for a device: those who sync together are safe with one flush, and devices
/// read several places at once.
const WAITING_THREADS: usize = 8;

/// How a session runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionOptions {
    /// What to ask the kernel for.
    pub terms: Terms,
    /// Workers; by default one per CPU, at most four, or eight where answers wait for a device.
    pub threads: Option<usize>,
    /// Whether they do.
    pub waits: bool,
}

/// A conversation that has begun: the kernel and we agree on terms.
pub struct Session<T: Transport, H> {
    /// One for each worker.
    channels: Vec<T::Channel>,
    handler: Arc<H>,
    agreed: InitOut,
}

/// Why a conversation did not begin.
#[derive(Debug)]
pub enum SessionError {
    /// The kernel's FUSE is older than 7.33.
    OldKernel {
        /// The kernel's major version of the protocol.
        major: u32,
        /// The kernel's minor version.
        minor: u32,
    },
    /// The file system was unmounted before the kernel said anything.
    Unmounted,
    /// The first request is none that begins a conversation.
    NoInit,
    /// io_uring was asked for and cannot be had.
    NoRing(io::Error),
    /// The device failed.
    Io(io::Error),
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OldKernel { major, minor } => write!(
                f,
                "this kernel speaks FUSE {major}.{minor}; Esker needs 7.33 or newer (Linux 5.13)"
            ),
            Self::Unmounted => f.write_str("the file system was unmounted before it was ready"),
            Self::NoInit => f.write_str("the kernel began with something else than INIT"),
            Self::NoRing(error) => write!(
                f,
                "FUSE over io_uring cannot be had ({error}); it needs Linux 6.14 and `echo Y > \
                 /sys/module/fuse/parameters/enable_uring`, or take transport=device"
            ),
            Self::Io(error) => write!(f, "/dev/fuse: {error}"),
        }
    }
}

impl std::error::Error for SessionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::Io(error) | Self::NoRing(error) = self { Some(error) } else { None }
    }
}

impl From<io::Error> for SessionError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl<T: Transport, H: Handler> Session<T, H> {
    /// Answers the kernel's INIT. From then on the mount waits for answers, so call
    /// [`Session::run`] or [`Session::spawn`].
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn start(
        mut transport: T,
        handler: Arc<H>,
        options: &SessionOptions,
    ) -> Result<Self, SessionError> {
        let mut first = transport.channel(0)?;
        let agreed = greet(&mut first, &options.terms)?;
        transport.agree(&agreed);
        let cpus = thread::available_parallelism().map_or(1, usize::from);
        let usual = if options.waits { WAITING_THREADS } else { cpus.min(THREADS_MAX) };
        let threads = transport.workers(options.threads.unwrap_or(usual).max(1));
        // All now, for a process that gives up the right to open anything before its workers run. Fewer workers are
        // slower, not wrong.
        let others = (1..threads).map_while(|index| transport.channel(index).ok());
        let channels = std::iter::once(first).chain(others).collect();
        Ok(Self { channels, handler, agreed })
    }

    /// What both sides agreed on.
    #[must_use]
    pub const fn agreed(&self) -> &InitOut {
        &self.agreed
    }

    /// Serves until the file system is unmounted.
    ///
    /// # Errors
    /// When the device fails in a way that no unmount explains.
    pub fn run(self) -> io::Result<()> {
        let later = Later::default();
        let mut channels = self.channels;
        let others = channels.split_off(1);
        thread::scope(|scope| {
            for (mut channel, index) in others.into_iter().zip(1..) {
                let worker = thread::Builder::new().name(format!("esker-fuse-{index}"));
                let (handler, later) = (&*self.handler, &later);
                let serve = move || serve(scope, &mut channel, handler, later);
                if worker.spawn_scoped(scope, serve).is_err() {
                    break;
                }
            }
            let mut first = channels.swap_remove(0);
            serve(scope, &mut first, &*self.handler, &later)
        })
    }
}

/// Begins the conversation of a mount over the best transport that its options allow, and serves it
/// from threads of its own.
///
/// # Errors
/// [`SessionError`].
pub fn converse<H: Handler + 'static>(
    device: Device,
    handler: Arc<H>,
    options: &MountOptions,
) -> Result<Running, SessionError> {
    let mut session = options.session();
    // Who says how many workers there shall be means workers of the device.
    let wanted = match options.way {
        Way::Auto => options.threads.is_none(),
        way => way == Way::Ring,
    };
    if !wanted {
        return Ok(Session::start(device, handler, &session)?.spawn()?);
    }
    let ring = if Ring::is_offered() {
        Ring::new(device)
    } else {
        Err((device, io::Error::from(io::ErrorKind::Unsupported)))
    };
    match ring {
        Ok(ring) => {
            session.terms.ring = true;
            Ok(Session::start(ring, handler, &session)?.spawn()?)
        }
        Err((device, _)) if options.way == Way::Auto => {
            Ok(Session::start(device, handler, &session)?.spawn()?)
        }
        Err((_, error)) => Err(SessionError::NoRing(error)),
    }
}

impl<T: Transport + 'static, H: Handler + 'static> Session<T, H>
where
    T::Channel: 'static,
{
    /// Serves from threads of its own.
    ///
    /// # Errors
    /// When there can be no further thread.
    pub fn spawn(self) -> io::Result<Running> {
        let worker = thread::Builder::new().name("esker-fuse-0".to_owned());
        Ok(Running { worker: worker.spawn(move || self.run())? })
    }
}

/// A session that serves from threads of its own.
#[derive(Debug)]
pub struct Running {
    worker: JoinHandle<io::Result<()>>,
}

impl Running {
    /// Waits until the file system is unmounted.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn join(self) -> io::Result<()> {
        self.worker.join().unwrap_or_else(|_| Err(io::Error::other("a FUSE worker panicked")))
    }

    /// The file system was unmounted, and every worker has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.worker.is_finished()
    }
}

/// Answers INIT, twice where the kernel is of a newer major version.
fn greet<C: Channel>(channel: &mut C, terms: &Terms) -> Result<InitOut, SessionError> {
    loop {
        if !channel.receive()? {
            return Err(SessionError::Unmounted);
        }
        let (bytes, room) = channel.exchange();
        let Ok(Request { unique, op: Op::Init(offer), .. }) = Request::parse(bytes) else {
            return Err(SessionError::NoInit);
        };
        let mut header = OutHeader { len: OutHeader::SIZE as u32, error: 0, unique };
        let Ok((reply, begins)) = negotiate(&offer, terms) else {
            header.error = (-Error::NotSupported.errno()).cast_unsigned();
            channel.send(&header)?;
            return Err(SessionError::OldKernel { major: offer.major, minor: offer.minor });
        };
        room[..InitOut::SIZE].copy_from_slice(&reply.encode());
        header.len += InitOut::SIZE as u32;
        channel.send(&header)?;
        if begins {
            return Ok(reply);
        }
    }
}

fn serve<'scope, C, H>(
    scope: &'scope Scope<'scope, '_>,
    channel: &mut C,
    handler: &'scope H,
    later: &'scope Later<C::Outlet>,
) -> io::Result<()>
where
    C: Channel<Outlet: 'scope>,
    H: Handler,
{
    channel.begin()?;
    while channel.receive()? {
        let (bytes, room) = channel.exchange();
        let request = Request::parse(bytes);
        let flush = request.as_ref().ok().and_then(|request| handler.needs_flushed(request));
        let takes_long = |request: &Request<'_>| handler.takes_long(request);
        if flush.is_some() || request.as_ref().is_ok_and(takes_long) {
            later.answer(scope, handler, flush, leave(channel)?);
            continue;
        }
        let len = bytes.len();
        let mut reply = Reply::new(room);
        let Some(header) = answer(handler, request, &mut reply) else { continue };
        if awaits_space(handler, &header) && later.admit(len) {
            later.wait(scope, handler, leave(channel)?);
            continue;
        }
        let (held, outdated) = (reply.keep(), reply.outdated());
        if let Some(node) = outdated {
            // That the kernel knows nothing of the inode any more is no harm.
            let _ = channel.outlet().outdate(node);
        }
        if channel.send(&header).is_err() {
            // Nobody waits for it any more: its look-ups never happened. If the kernel has gone
            // altogether, the next receive says so.
            let_go(handler, &held.reply(channel.exchange().1));
        }
    }
    Ok(())
}

/// Takes the request received last out of the channel. The workers go on meanwhile, and one of them takes in
/// what its answer waits for.
fn leave<C: Channel>(channel: &mut C) -> io::Result<Left<C::Outlet>> {
    let bytes = channel.exchange().0.to_vec();
    Ok(Left { bytes, outlet: channel.leave()? })
}
