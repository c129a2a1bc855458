//! `esker null-server`: the server that does nothing, for `esker bench` to measure against.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use esker_fuse::Null;

use crate::failure::Outcome;
use crate::mounts;
use crate::options::Options;
use crate::units::ram;

/// Serve a file system that remembers names and nothing else, in the foreground, until it is unmounted.
#[derive(Args)]
pub struct NullServer {
    /// Where: an empty directory
    dir: PathBuf,
    /// Mount options, as for `esker mount`
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<OsString>,
}

impl NullServer {
    /// Serves.
    pub fn run(&self) -> Outcome {
        let options = Options::parse(&self.options, ram())?.mount;
        let null = Null::new(options.timeouts, !options.no_xattr);
        mounts::answer(&self.dir, &options, Arc::new(null))
    }
}
