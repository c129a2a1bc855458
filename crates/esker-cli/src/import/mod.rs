//! Filling a file system before it is mounted: from a tree, or from a tar archive.
//!
//! Above: `verbs::mount`. Below: `fill` calls [`esker::posix::Fs`] in this process, so no kernel
//! stands between. Invariant: the file system is seen by nobody until all of it is there; a failure
//! names what failed and leaves nothing mounted.

mod acl;
mod fill;
pub mod source;
pub mod tar;
mod tree;
pub mod unpack;

use std::ffi::OsStr;
use std::fs::File;
use std::path::Path;

use esker::posix::Fs;
use esker::store::Store;

use crate::failure::{Exit, Failure, Outcome, said};
use crate::progress::Progress;
pub use fill::Tally;

/// Where to start from.
pub struct Request<'a> {
    /// A directory, an archive, or `-`.
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

/// Fills `fs` from a tree or an archive, whichever it is.
pub fn import<S: Store>(fs: &Fs<S>, request: &Request<'_>) -> Outcome<Filled> {
    let from = request.from;
    if from.as_os_str() == OsStr::new("-") {
        return unpack::unpack(fs, std::io::stdin().lock(), from, Progress::new(None));
    }
    let open = |error: &std::io::Error| {
        let remedy = match error.kind() {
            std::io::ErrorKind::NotFound => "give a directory or a tar archive that exists",
            _ => "make it readable, or run as a user who may read it",
        };
        Failure::at(Exit::Source, &format!("cannot read --from ({})", said(error)), from, remedy)
    };
    let meta = std::fs::metadata(from).map_err(|error| open(&error))?;
    if meta.is_dir() {
        return tree::copy(fs, request);
    }
    let file = File::open(from).map_err(|error| open(&error))?;
    let len = meta.is_file().then_some(meta.len());
    unpack::unpack(fs, file, from, Progress::new(len))
}
