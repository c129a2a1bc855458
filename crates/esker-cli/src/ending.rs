//! What is done when a signal ends the program: files that are not whole go, and so do programs that it started.
//!
//! Above: `pack`. Invariant: each thing is done once at most, and not once it was taken back.

use std::collections::BTreeMap;
use std::process::exit;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

type Act = Box<dyn FnOnce() + Send>;

static ACTS: Mutex<BTreeMap<u64, Act>> = Mutex::new(BTreeMap::new());
static LISTENING: Once = Once::new();

fn acts() -> MutexGuard<'static, BTreeMap<u64, Act>> {
    ACTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something that is done at a signal, until this is dropped.
#[derive(Debug)]
pub struct AtSignal(u64);

/// Has something done when SIGINT, SIGTERM or SIGHUP ends the program.
pub fn at_signal(act: impl FnOnce() + Send + 'static) -> AtSignal {
    LISTENING.call_once(|| {
        // Without, signals end the program as they always did.
        let heeded = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal));
        let Ok(mut signals) = Signals::new(heeded) else { return };
        thread::spawn(move || {
            if let Some(signal) = signals.forever().next() {
                // Held to the end: who meets the work of these waits when it takes back its own, and tells nothing.
                let mut acts = acts();
                std::mem::take(&mut *acts).into_values().for_each(|act| act());
                exit(128 + signal);
            }
        });
    });
    let mut acts = acts();
    let number = acts.last_key_value().map_or(0, |(last, _)| last + 1);
    acts.insert(number, Box::new(act));
    AtSignal(number)
}

/// Whether whoever started the program wants a signal ignored, as `nohup` does.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

impl Drop for AtSignal {
    fn drop(&mut self) {
        acts().remove(&self.0);
    }
}
