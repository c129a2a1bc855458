//! Serving one file system: made and filled, or opened; mounted, until somebody unmounts it or says stop.
//!
//! Above: `verbs::mount`. Below: `homes`, the core, the door. Invariant: whatever fails before the
//! mount answers leaves nothing mounted; whatever ends us afterwards unmounts first.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use esker::posix::Fs;
use esker::store::{ReadOnly, Store};
use esker_fuse::mount::{MountError, Mounted, examine};
use esker_fuse::{Door, Running, converse, mount};
use esker_host::SystemClock;
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::failure::{Exit, Failure, Outcome};
use crate::import::{self, Filled};
use crate::options::Options;
use crate::{filling, homes, housekeeping, log, mounts};

/// What to serve.
pub struct Plan<'a> {
    /// The mount point.
    pub dir: &'a Path,
    /// How.
    pub options: &'a Options,
    /// What.
    pub home: HomePlan<'a>,
}

/// The home of what is served.
pub enum HomePlan<'a> {
    /// Memory, filled with something or not.
    Memory(Option<import::Request<'a>>),
    /// An image.
    Image(&'a Path),
    /// Memory that an image is moved to while it is used.
    Lazy(&'a Path),
    /// Memory for what changes, above an image.
    Overlay(&'a Path),
}

/// A file system that is mounted and answers.
pub struct Served {
    running: Running,
    mounted: Arc<Mounted>,
    /// About the mount, for a machine.
    pub report: Value,
}

/// Makes and fills, or opens; and mounts. `detach` is called before mounting.
pub fn start(plan: &Plan<'_>, detach: impl FnOnce() -> Outcome) -> Outcome<Served> {
    let began = Instant::now();
    let dir = examine(plan.dir, &plan.options.mount).map_err(|error| mounts::failure(&error))?;
    match &plan.home {
        HomePlan::Memory(from) => {
            let (home, size) = homes::memory(plan.options)?;
            let fs = Fs::new(home, SystemClock);
            let fill = |from| homes::fill(&fs, from, plan.options);
            let filled = from.as_ref().map(fill).transpose()?;
            for skipped in filled.iter().flat_map(|filled| &filled.skipped) {
                eprintln!("esker: left out: {skipped}");
            }
            detach()?;
            let fs = Arc::new(fs);
            housekeeping::start(&fs);
            let mut served = attach(fs, &dir, plan.options)?;
            served.report["size"] = json!(size);
            served.report["filled"] = json!(filled.as_ref().map(filled_json));
            served.report["seconds"] = json!(began.elapsed().as_secs_f64());
            Ok(served)
        }
        HomePlan::Image(path) => {
            let image = homes::image(path, plan.options)?;
            detach()?;
            let size = image.rest().superblock().size;
            let fs = Arc::new(Fs::new(ReadOnly(image), SystemClock));
            let mut served = attach(fs, &dir, &homes::as_image(path, plan.options))?;
            served.report["size"] = json!(size);
            served.report["image"] = json!(path.to_string_lossy());
            served.report["seconds"] = json!(began.elapsed().as_secs_f64());
            Ok(served)
        }
        HomePlan::Lazy(path) => {
            let (fs, size) = homes::lazy(path, plan.options)?;
            detach()?;
            let fs = Arc::new(fs);
            housekeeping::start(&fs);
            let mut served = attach(Arc::clone(&fs), &dir, plan.options)?;
            filling::start(&fs, path)?;
            served.report["size"] = json!(size);
            served.report["filling"] = json!(path.to_string_lossy());
            served.report["seconds"] = json!(began.elapsed().as_secs_f64());
            Ok(served)
        }
        HomePlan::Overlay(path) => {
            let (fs, size) = homes::overlay(path, plan.options)?;
            detach()?;
            let fs = Arc::new(fs);
            housekeeping::start(&fs);
            let mut served = attach(fs, &dir, &homes::as_overlay(path, plan.options))?;
            served.report["size"] = json!(size);
            served.report["image"] = json!(path.to_string_lossy());
            served.report["overlay"] = json!(true);
            served.report["seconds"] = json!(began.elapsed().as_secs_f64());
            Ok(served)
        }
    }
}

impl Served {
    /// Serves until it is unmounted.
    pub fn wait(self) -> Outcome {
        let ended = self.running.join();
        // Nothing is mounted any more, unless the device failed under us.
        drop(self.mounted);
        ended.map_err(|error| {
            let what = format!("the connection to the kernel failed: {error}");
            log::tell(&what);
            Failure::new(Exit::Failed, what, "mount again")
        })
    }
}

/// Mounts what is ready, and returns when the kernel and we have agreed: from then on whoever asks the mount is
/// answered. We never ask it ourselves: a thread of ours that waits for an answer of ours, when we are killed,
/// cannot die, and while it lives the kernel does not know that nobody will answer.
fn attach<S>(fs: Arc<Fs<S>>, dir: &Path, options: &Options) -> Outcome<Served>
where
    S: Store + Send + Sync + 'static,
{
    // From here on a signal must not end us half-way: it is taken up again when the mount answers.
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot take signals: {error}"), ""))?;
    let (device, mounted) = mount(dir, &options.mount).map_err(|error| mounts::failure(&error))?;
    let unable = |error: &dyn std::fmt::Display| {
        let what = format!("cannot serve the kernel: {error}");
        Failure::at(Exit::Failed, &what, dir, "nothing was mounted")
    };
    let door = Arc::new(Door::new(fs, options.mount.door()));
    let running = converse(device, door, &options.mount).map_err(|error| unable(&error))?;
    let mounted = Arc::new(mounted);
    obey(signals, Arc::clone(&mounted))?;
    let report = json!({
        "mounted": mounted.dir().to_string_lossy(),
        "source": options.mount.source(),
        "pid": std::process::id(),
    });
    Ok(Served { running, mounted, report })
}

/// A thread that unmounts and ends the process at the first signal, lazily if the mount is in use.
fn obey(mut signals: Signals, mounted: Arc<Mounted>) -> Outcome {
    let thread = thread::Builder::new().name("esker-signals".to_owned()).spawn(move || {
        if signals.forever().next().is_none() {
            return;
        }
        let gone = match mounted.unmount() {
            Err(MountError::Busy { .. }) => mounted.detach(),
            answer => answer,
        };
        match gone {
            // The file system ends with us, so its memory need not be taken apart first.
            Ok(()) => std::process::exit(0),
            Err(error) => {
                log::tell(&format!("cannot unmount: {error}"));
                std::process::exit(Exit::Failed as i32)
            }
        }
    });
    thread
        .map(drop)
        .map_err(|error| Failure::new(Exit::Failed, format!("cannot start a thread: {error}"), ""))
}

fn filled_json(filled: &Filled) -> Value {
    let tally = &filled.tally;
    json!({
        "files": tally.files,
        "directories": tally.directories,
        "symlinks": tally.symlinks,
        "specials": tally.specials,
        "hard_links": tally.hard_links,
        "bytes": tally.bytes,
        "skipped": filled.skipped,
    })
}
