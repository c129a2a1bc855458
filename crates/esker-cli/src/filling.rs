//! Filling a home in memory from an image while it is used already; in the end the image is let go of.
//!
//! Above: `serve`. Below: `esker::overlay`, which moves one inode at a time. Invariant: what is moved is locked
//! meanwhile like what is changed, a piece at a time, so nobody waits for more than that.

use std::path::Path;
use std::sync::{Arc, Weak};
use std::thread;

use esker::overlay::Walk;
use esker::posix::Fs;
use esker::{Error, Ino};

use crate::failure::{Failure, Outcome, path_shown};
use crate::homes::Lazy;
use crate::log;

/// Bytes that are moved at a time.
const PIECE_LEN: usize = 1 << 20;

type Shared = Weak<Fs<Lazy>>;

/// Starts it; it ends with the file system.
pub fn start(fs: &Arc<Fs<Lazy>>, image: &Path) -> Outcome {
    let (fs, image) = (Arc::downgrade(fs), image.to_owned());
    let thread = thread::Builder::new().name("esker-filler".to_owned());
    let started = thread.spawn(move || {
        if let Err(error) = fill(&fs) {
            let image = path_shown(&image);
            let why = match error {
                Error::NoSpace => "the memory is full".to_owned(),
                error => error.to_string(),
            };
            log::tell(&format!("not all of {image} is in memory, so it stays in use: {why}"));
        }
    });
    started.map(drop).map_err(|error| Failure::no_thread(&error))
}

/// Moves everything. What cannot be read stays below, and is told in the end.
fn fill(fs: &Shared) -> Result<(), Error> {
    let mut buffer = vec![0; PIECE_LEN];
    let mut failed = None;
    let mut walk = Walk::new();
    loop {
        let Some(held) = fs.upgrade() else { return Ok(()) };
        match walk.next(held.store()) {
            Ok(Some(ino)) => one(fs, ino, &mut buffer, &mut failed)?,
            Ok(None) => break,
            Err(error) => failed = Some(error),
        }
    }
    // What was shared with other files meanwhile, until there is none: all inodes are up, so none can come.
    loop {
        let mut any = false;
        let mut at = None;
        loop {
            let Some(held) = fs.upgrade() else { return Ok(()) };
            at = held.store().next_unfilled(at);
            let Some(ino) = at else { break };
            any = true;
            one(fs, ino, &mut buffer, &mut failed)?;
        }
        if let Some(error) = failed {
            return Err(error);
        }
        if !any {
            break;
        }
    }
    if let Some(held) = fs.upgrade() {
        held.store().lower().leave();
    }
    esker_host::give_back();
    Ok(())
}

/// Moves an inode, piece by piece. Only a full memory ends the whole.
fn one(fs: &Shared, ino: Ino, buffer: &mut [u8], failed: &mut Option<Error>) -> Result<(), Error> {
    loop {
        let Some(held) = fs.upgrade() else { return Ok(()) };
        match held.alone(ino, |overlay| overlay.fill(ino, buffer)) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(Error::NoSpace) => return Err(Error::NoSpace),
            Err(error) => {
                *failed = Some(error);
                return Ok(());
            }
        }
    }
}
