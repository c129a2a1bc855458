//! `esker slow-server`: memory that takes its time to be safe, for `esker bench volume` to have a device in.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use esker::posix::Fs;
use esker_fuse::mount::examine;
use esker_fuse::slow::Slow;
use esker_fuse::{Door, converse, mount};
use esker_host::SystemClock;

use crate::failure::{Exit, Failure, Outcome};
use crate::options::Options;
use crate::units::ram;
use crate::{homes, mounts};

/// Serve memory of which nothing is safe before so long, in the foreground, until it is unmounted.
#[derive(Args)]
pub struct SlowServer {
    /// How long each fsync waits, in microseconds
    #[arg(long, value_name = "MICROSECONDS")]
    wait: u64,
    /// Where: an empty directory
    dir: PathBuf,
    /// Mount options, as for `esker mount`
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<OsString>,
}

impl SlowServer {
    /// Serves.
    pub fn run(&self) -> Outcome {
        let options = Options::parse(&self.options, ram())?;
        let unable = |error: esker_fuse::MountError| mounts::failure(&error);
        let dir = examine(&self.dir, &options.mount).map_err(unable)?;
        let fs = Arc::new(Fs::new(homes::memory(&options)?.0, SystemClock));
        let (device, mounted) = mount(&dir, &options.mount).map_err(unable)?;
        let door = Door::new(fs, options.mount.door());
        let slow = Slow::new(door, Duration::from_micros(self.wait));
        let failure = |error: &dyn std::fmt::Display| {
            Failure::at(Exit::Failed, &format!("cannot serve the kernel: {error}"), &dir, "")
        };
        let running = converse(device, Arc::new(slow), &options.mount);
        let ended = running.map_err(|error| failure(&error))?.join();
        drop(mounted);
        ended.map_err(|error| failure(&error))
    }
}
