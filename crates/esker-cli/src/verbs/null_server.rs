//! `esker null-server`: the server that does nothing, for `esker bench` to measure against.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use esker::Error;
use esker_fuse::Null;
use esker_fuse::slow::Slow;
use esker_volume::device::{Buffer, Device, FileDevice, Stream};

use crate::failure::Outcome;
use crate::options::Options;
use crate::units::ram;
use crate::{mounts, volumes};

/// What is written to a device at each fsync: what the smallest of commits is.
const BLOCK: usize = 4096;
/// Where, one after the other.
const PLACES: u64 = 1024;

/// Serve a file system that remembers names and nothing else, in the foreground, until it is unmounted.
#[derive(Args)]
pub struct NullServer {
    /// Write a block past the kernel's cache to this device, and flush it, at each fsync
    #[arg(long, value_name = "DEVICE")]
    device: Option<PathBuf>,
    /// Where: an empty directory
    dir: PathBuf,
    /// Mount options, as for `esker mount`
    #[arg(short = 'o', value_name = "OPTIONS")]
    options: Vec<OsString>,
}

impl NullServer {
    /// Serves.
    pub fn run(&self) -> Outcome {
        let mut options = Options::parse(&self.options, ram())?.mount;
        let null = Null::new(options.timeouts, !options.no_xattr);
        let Some(path) = &self.device else {
            return mounts::answer(&self.dir, &options, Arc::new(null));
        };
        options.waits = true;
        let device = volumes::past_cache(path)?;
        let turn = AtomicU64::new(0);
        let write = move || block_to(&device, &turn).map_err(|_| Error::Io);
        mounts::answer(&self.dir, &options, Arc::new(Slow::new(null, write)))
    }
}

/// Makes a block safe.
fn block_to(device: &FileDevice, turn: &AtomicU64) -> esker_volume::device::Result<()> {
    let place = turn.fetch_add(1, Ordering::Relaxed) % PLACES;
    let block = Buffer::from(&[0x5a; BLOCK][..]);
    device.submit(place * BLOCK as u64, block, Stream::Log)?;
    device.flush()
}
