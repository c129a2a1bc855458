//! Filling a file system before it is mounted: from a tree, a tar archive, an image or a volume.
//!
//! Above: `verbs::mount`, `verbs::mkfs`. Below: `fill` calls [`esker::posix::Fs`] in this process, so no kernel
//! stands between. Invariant: the file system is seen by nobody until all of it is there; a failure
//! names what failed and leaves nothing mounted.

mod acl;
mod fill;
pub mod source;
pub mod tar;
mod tree;
pub mod unpack;
mod view;

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;

use esker::posix::Fs;
use esker::store::Store;
use serde_json::{Value, json};

use crate::failure::{Exit, Failure, Outcome, said};
use crate::images::{self, Begin, Opening};
use crate::printed::warn;
use crate::progress::Progress;
use crate::volumes;
pub use fill::Tally;

/// Where to start from.
pub struct Request<'a> {
    /// A directory, an archive, an image, a volume, or `-`.
    pub from: &'a Path,
    /// Leave out what cannot be read, and say so.
    pub skip_unreadable: bool,
}

/// What came of it.
pub struct Filled {
    /// How much there is now.
    pub tally: Tally,
    /// What was left out, each with its reason.
    pub skipped: Vec<String>,
}

impl Filled {
    /// For machines.
    pub fn json(&self) -> Value {
        let tally = &self.tally;
        json!({
            "files": tally.files,
            "directories": tally.directories,
            "symlinks": tally.symlinks,
            "specials": tally.specials,
            "hard_links": tally.hard_links,
            "bytes": tally.bytes,
            "skipped": self.skipped,
        })
    }

    /// Warns a person of what was left out.
    pub fn warn(&self) {
        for skipped in &self.skipped {
            warn(&format!("left out: {skipped}"));
        }
    }
}

/// Whether this can be read as far as its beginning says: for whoever destroys something to fill it from there.
pub fn begins(from: &Path) -> Outcome {
    let meta = std::fs::metadata(from).map_err(|error| unread(from, &error))?;
    if meta.is_dir() {
        return std::fs::read_dir(from).map(drop).map_err(|error| unread(from, &error));
    }
    if !meta.is_file() {
        // What was read of a pipe is gone.
        return Ok(());
    }
    if volumes::is_volume(from) || images::is_image(from, Begin::default()) {
        return images::open_any(from, &Opening::default(), &images::cache_for_all()).map(drop);
    }
    let file = File::open(from).map_err(|error| unread(from, &error))?;
    let plain = unpack::plain(file, from, "mkfs --from - ...")?;
    let first = tar::Archive::new(plain).next();
    first.map(drop).map_err(|refusal| unpack::explain(from, &refusal, "nothing was changed"))
}

fn unread(from: &Path, error: &std::io::Error) -> Failure {
    let remedy = match error.kind() {
        std::io::ErrorKind::NotFound => "give a directory or a tar archive that exists",
        _ => "make it readable, or run as a user who may read it",
    };
    Failure::at(Exit::Source, &format!("cannot read --from ({})", said(error)), from, remedy)
}

/// Fills `fs` from whatever it is.
pub fn import<S: Store>(fs: &Fs<S>, request: &Request<'_>) -> Outcome<Filled> {
    let from = request.from;
    if from.as_os_str() == OsStr::new("-") {
        return unpack::unpack(fs, std::io::stdin().lock(), from, Progress::new("filling", None));
    }
    let meta = std::fs::metadata(from).map_err(|error| unread(from, &error))?;
    if meta.is_dir() {
        return tree::copy(fs, request);
    }
    if volumes::is_volume(from) || images::is_image(from, Begin::default()) {
        let image = images::open_any(from, &Opening::default(), &images::cache_for_all())?;
        return view::copy(fs, &*image, from);
    }
    let file = File::open(from).map_err(|error| unread(from, &error))?;
    let len = meta.is_file().then_some(meta.len());
    unpack::unpack(fs, file, from, Progress::new("filling", len))
}
