//! Volumes for verbs: known when they are seen, opened for one at a time, and what is wrong with one in words.
//!
//! Above: `verbs`, `serve`, `images`. Below: `esker-volume`. Invariant: whoever may write has the volume to himself as
//! long as he has it open, and who else comes is told who that is.

mod owner;
pub mod report;
pub mod writer;

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use esker::ground::Clock as _;
use esker::limits::FILE_SIZE_MAX;
use esker::memory::{self, Home};
use esker::posix::Fs;
use esker::{Attr, Ino, Kind};
use esker_host::{Arena, SystemClock};
use esker_stone::cache::Cache;
use esker_stone::superblock::MAGIC;
use esker_volume::device::{Fault, FileDevice};
use esker_volume::limits::RECENT_LEN;
use esker_volume::{Damage, Error, Kept, Options, Volume};

use crate::failure::{Exit, Failure, Outcome, said};

/// A file system on a volume that can be written.
pub type Writable = Fs<Kept<Home<Arena>, FileDevice>>;

/// Whether a volume begins here.
pub fn is_volume(path: &Path) -> bool {
    let mut head = [0; 16];
    let Ok(file) = File::open(path) else { return false };
    if file.read_exact_at(&mut head, 0).is_err() {
        return false;
    }
    // The first superblock may be damaged, and another one be there.
    let other =
        || FileDevice::open(path, false).is_ok_and(|device| esker_volume::is_there(&device));
    esker_volume::superblock::is_one(&head) || (!head.starts_with(&MAGIC) && other())
}

/// What is wrong with a volume, for a person.
pub fn failure(path: &Path, error: &Error) -> Failure {
    let check = "`esker check` tells more";
    let (exit, what, remedy) = match error {
        Error::Damaged(Damage::NoVolume) => {
            (Exit::Source, "not an Esker volume".to_owned(), "`esker mkfs` makes one")
        }
        Error::Damaged(Damage::Shortened) => {
            let what = "the volume is cut short: the file or device is smaller than it";
            (Exit::Damaged, what.to_owned(), "make that as large again as it was")
        }
        Error::Stone(esker_stone::Error::Unsupported(_)) => {
            (Exit::Source, format!("cannot read the volume: {error}"), "take a newer esker")
        }
        Error::Damaged(_) | Error::Stone(_) => {
            (Exit::Damaged, format!("the volume is damaged ({error})"), check)
        }
        Error::Setting(_) => (Exit::Usage, error.to_string(), "choose other sizes"),
        Error::NoSpace | Error::Device(Fault::NoSpace) => {
            (Exit::Failed, error.to_string(), "take something away, or make room below")
        }
        Error::Device(_) => (Exit::Failed, format!("the device failed ({error})"), ""),
        Error::ReadOnly | Error::Source(_) => (Exit::Failed, error.to_string(), ""),
    };
    Failure::at(exit, &what, path, remedy)
}

/// Opens the file or device, for one at a time where it may be written.
pub fn device(path: &Path, write: bool) -> Outcome<FileDevice> {
    FileDevice::open(path, write).map_err(|error| {
        if error.kind() != ErrorKind::WouldBlock {
            let what = format!("cannot open the volume ({})", said(&error));
            return Failure::at(Exit::Source, &what, path, "");
        }
        let what = format!("the volume is in use by {}", owner::shown(path));
        Failure::at(Exit::Failed, &what, path, "unmount it there, or wait")
    })
}

/// Opens a volume.
pub fn open(path: &Path, write: bool, cache: u64) -> Outcome<Volume<FileDevice>> {
    let device = device(path, write)?;
    let cache = Cache::new(usize::try_from(cache).unwrap_or(usize::MAX));
    let now = || SystemClock.now().secs;
    let options = Options { write, cache, now, recent_len: RECENT_LEN };
    esker_volume::open(device, options).map_err(|error| failure(path, &error))
}

/// Opens a volume to be looked at.
pub fn look(path: &Path) -> Outcome<Volume<FileDevice>> {
    open(path, false, crate::images::CACHE_LEN as u64)
}

/// The root directory of a new volume.
pub fn root() -> Attr {
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    Attr::new(Kind::Directory, 0o755, uid, gid, Ino::ROOT, SystemClock.now())
}

/// A volume with memory above it, for as many bytes as may change before they are written: half of them for what is
/// being written, half for what changes meanwhile.
pub fn writable(path: &Path, cache: u64, dirty_max: u64) -> Outcome<Arc<Writable>> {
    let volume = open(path, true, cache)?;
    let dirty_max = dirty_max / 2;
    let make = move || {
        let options =
            memory::Options { size_max: dirty_max, file_size_max: FILE_SIZE_MAX, root: root() };
        Home::new(Arena::new(dirty_max)?, &options)
    };
    let kept = Kept::new(volume, dirty_max, Box::new(make));
    let kept = kept.map_err(|error| failure(path, &Error::Source(error)))?;
    Ok(Arc::new(Fs::new(kept, SystemClock)))
}
