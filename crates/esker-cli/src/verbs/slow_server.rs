//! `esker slow-server`: memory that takes its time to be safe, for `esker bench volume` to have a device in.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Args;
use esker::posix::Fs;
use esker_fuse::Door;
use esker_fuse::slow::Slow;
use esker_host::SystemClock;

use crate::failure::Outcome;
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
        let fs = Arc::new(Fs::new(homes::memory(&options)?.0, SystemClock));
        let wait = Duration::from_micros(self.wait);
        let slow = Slow::new(Door::new(fs, options.mount.door()), move || {
            thread::sleep(wait);
            Ok(())
        });
        mounts::answer(&self.dir, &options.mount, Arc::new(slow))
    }
}
