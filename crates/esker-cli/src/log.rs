//! Where a daemon without a terminal tells of trouble: the system log, or a file.
//!
//! Invariant: telling never fails and never panics; a log that cannot be written is lost.

use std::backtrace::Backtrace;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::net::UnixDatagram;
use std::panic;
use std::process;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Facility "daemon", severity "error", as syslog(3) counts them.
const PRIORITY: u32 = 3 * 8 + 3;

/// Where to tell.
#[derive(Debug)]
pub enum Sink {
    /// Standard error.
    Terminal,
    /// This file.
    File(File),
    /// The system log, by a socket that is there before the right to make one is given up.
    System(UnixDatagram),
}

impl Sink {
    /// The system log; without a socket to it, standard error.
    pub fn system() -> Self {
        UnixDatagram::unbound().map_or(Self::Terminal, Self::System)
    }
}

static SINK: OnceLock<Mutex<Sink>> = OnceLock::new();

/// From now on trouble is told here, panics too.
pub fn begin(sink: Sink) {
    if SINK.set(Mutex::new(sink)).is_ok() {
        panic::set_hook(Box::new(|info| {
            tell(&format!("panic: {info}\n{}", Backtrace::force_capture()));
        }));
    }
}

/// Tells.
pub fn tell(text: &str) {
    let sink = SINK.get_or_init(|| Mutex::new(Sink::Terminal));
    let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
    let id = process::id();
    // Nothing can be done about a failure to tell of a failure.
    let _ = match &mut *sink {
        Sink::Terminal => writeln!(std::io::stderr(), "esker: {text}"),
        Sink::File(file) => writeln!(file, "esker[{id}]: {text}"),
        Sink::System(socket) => {
            let line = format!("<{PRIORITY}>esker[{id}]: {text}");
            socket.send_to(line.as_bytes(), "/dev/log").map(drop)
        }
    };
}
