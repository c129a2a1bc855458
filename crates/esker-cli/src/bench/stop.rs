//! Stopping half-way: the first signal lets the bench come to an end and clean up behind itself.
//!
//! Above: `bench::run` listens, loops of workloads ask. Invariant: whoever starts a program for a workload
//! does it through [`run`], so that no build goes on after us.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::printed::warn;

static ASKED: AtomicBool = AtomicBool::new(false);
/// Servers that are up. A program that waits for one that hangs cannot be ended by anything else.
static SERVERS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());
/// The program that runs for a workload, and all that it started: its process group.
static RUNNING: AtomicI32 = AtomicI32::new(0);

/// Listens to SIGINT, SIGTERM and SIGHUP from now on. The second one kills the servers, so that nobody waits
/// for them any more; the third ends us at once.
pub fn listen() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let heard = move || {
        for (count, signal) in signals.forever().enumerate() {
            ASKED.store(true, Ordering::Relaxed);
            end_running();
            match count {
                0 => warn("stopping and cleaning up; once more kills the servers"),
                1 => {
                    warn("killing the servers; once more leaves everything behind");
                    kill_servers();
                }
                _ => drop(signal_hook::low_level::emulate_default_handler(signal)),
            }
        }
    };
    thread::Builder::new().name("esker-signals".to_owned()).spawn(heard).map(drop)
}

fn kill_servers() {
    for &server in servers().iter() {
        // It may have ended meanwhile.
        let _ = kill_process(server, Signal::KILL);
    }
}

/// A server is up.
pub fn has_begun(server: &Child) {
    servers().extend(Pid::from_raw(server.id().cast_signed()));
}

/// It has ended, and its number may be somebody else's next.
pub fn has_ended(server: &Child) {
    servers().retain(|&pid| Some(pid) != Pid::from_raw(server.id().cast_signed()));
}

fn servers() -> MutexGuard<'static, Vec<Pid>> {
    SERVERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Somebody has asked us to stop.
pub fn asked() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// An error if somebody has asked us to stop: for loops.
pub fn check() -> io::Result<()> {
    if asked() { Err(io::Error::other("stopped by a signal")) } else { Ok(()) }
}

/// Runs a program to its end, or to ours.
pub fn run(command: &mut Command) -> io::Result<Output> {
    let child = command.process_group(0).spawn()?;
    RUNNING.store(child.id().cast_signed(), Ordering::SeqCst);
    if asked() {
        end_running();
    }
    let output = child.wait_with_output();
    RUNNING.store(0, Ordering::SeqCst);
    check()?;
    output
}

fn end_running() {
    if let Some(group) = Pid::from_raw(RUNNING.load(Ordering::SeqCst)) {
        // It may have ended meanwhile.
        let _ = kill_process_group(group, Signal::KILL);
    }
}
