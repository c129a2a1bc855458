//! Writing back: what changed is written when it is old or much, and what is left is written in the end.
//!
//! Above: `serve`. Below: the volume home. Invariant: a volume in which nothing changes is not written.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use esker_volume::Error;
use esker_volume::device::Wish;

use super::Writable;
use super::ruled::Ruled;
use crate::failure::{Failure, Outcome};
use crate::log;

/// How often it looks.
const PERIOD: Duration = Duration::from_millis(500);
/// How often memory goes back: what each commit takes and leaves makes holes in the heap, a third of it after a while.
const GIVE_PERIOD: Duration = Duration::from_secs(2);
/// What is given back below at a time: as long as that takes nothing is committed.
const BELOW_LEN: u64 = 32 << 20;

/// Starts it; it ends with the volume.
pub fn start(fs: &Arc<Writable>, age_max: Duration, name: String) -> Outcome {
    let fs = Arc::downgrade(fs);
    let thread = thread::Builder::new().name("esker-writer".to_owned());
    let started = thread.spawn(move || run(&fs, age_max, &name));
    started.map(drop).map_err(|error| Failure::no_thread(&error))
}

fn run(fs: &Weak<Writable>, age_max: Duration, name: &str) {
    let mut since: Option<Instant> = None;
    let mut told = None;
    let (mut given, mut worked) = (Instant::now(), false);
    // Deleting a snapshot may have been cut short, here or by whoever had the volume before.
    let mut swept = Ok(());
    let mut ruled = Ruled::new();
    loop {
        let Some(fs) = fs.upgrade() else { return };
        let home = fs.store();
        let much = home.wait(PERIOD);
        ruled.look(&fs, name);
        home.volume().give_back_below(BELOW_LEN);
        worked |= home.is_dirty();
        if worked && given.elapsed() >= GIVE_PERIOD {
            esker_host::give_back();
            (given, worked) = (Instant::now(), false);
        }
        if !home.is_dirty() {
            since = None;
            if home.volume().is_sweeping() && swept.is_ok() {
                // Once is enough to tell what is wrong; more room, or another mount, may help.
                swept = home.volume().sweep();
                tell(name, swept);
            }
            home.rest();
            continue;
        }
        let old = since.get_or_insert_with(Instant::now).elapsed() >= age_max;
        if !much && !old {
            continue;
        }
        let written = home.write().and_then(|()| home.volume().reclaim_in_time());
        (since, swept) = (None, Ok(()));
        if written != Ok(()) && told != Some(written) {
            tell(name, written);
        }
        told = Some(written);
    }
}

fn tell(name: &str, written: Result<(), Error>) {
    if let Err(error) = written {
        log::tell(&format!("{name}: what changed cannot be written ({error})"));
    }
}

/// Writes what is left; whoever cannot is told so.
pub fn finish(fs: &Writable, name: &str) -> bool {
    let written = fs.store().write();
    tell(name, written);
    if written.is_ok() {
        // All is safe without it.
        let _ = fs.store().volume().close();
    }
    // Nobody else is to write by what the device was told for us.
    fs.store().volume().device().place(Wish::Nothing);
    written.is_ok()
}
