//! `esker null-server`: the server that does nothing, for `esker bench` to measure against.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use esker_fuse::mount::examine;
use esker_fuse::{Null, converse, mount};

use crate::failure::{Exit, Failure, Outcome};
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
        let unable = |error: esker_fuse::MountError| mounts::failure(&error);
        let dir = examine(&self.dir, &options).map_err(unable)?;
        let (device, mounted) = mount(&dir, &options).map_err(unable)?;
        let null = Null::new(options.timeouts, !options.no_xattr);
        let running = converse(device, Arc::new(null), &options);
        let failure = |error: &dyn std::fmt::Display| {
            Failure::at(Exit::Failed, &format!("cannot serve the kernel: {error}"), &dir, "")
        };
        let ended = running.map_err(|error| failure(&error))?.join();
        drop(mounted);
        ended.map_err(|error| failure(&error))
    }
}
