//! `esker dedup`: name equal bytes of files once.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use esker::store::View as _;
use esker_volume::{Deduped, Deduping, Error};
use serde_json::json;

use super::say;
use crate::failure::{Exit, Failure, Outcome, path_shown};
use crate::options::Options;
use crate::progress::Reading;
use crate::units::{parse_size, ram, size_shown};
use crate::volumes::base::Given;
use crate::volumes::{self, failure};

/// Find equal bytes of files that were written apart, and store them once.
///
/// All files are read. Where every byte of a stored block is also in another file, at a multiple of 4 KiB, the
/// bytes are compared, that other block is named in its place, and the block becomes free. Files and their times
/// stay as they are. Blocks that snapshots need stay. Stopped at any moment it has done what it did, and goes on
/// the next time.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker dedup disk.vol --dry-run          what would be gained
  esker dedup disk.vol
  esker dedup disk.vol --memory 1G        read files fewer times, where there are many

It must not be mounted. A mount finds equal bytes while they are written, unless with -o nodedup.

Exit status: 5 if it was stopped, or some files could not be read.")]
pub struct Dedup {
    /// A volume that is not mounted
    #[arg(value_name = "FILE|DEVICE")]
    volume: PathBuf,
    /// Memory for finding equal bytes: 48 bytes for each 4 KiB. With less files are read several times
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = memory)]
    memory: u64,
    #[command(flatten)]
    given: Given,
    /// Only say what would be gained
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

fn memory(word: &str) -> Result<u64, String> {
    let bytes = parse_size(word, ram()).map_err(|_| "give bytes, as in 256M".to_owned())?;
    if bytes < 64 << 10 {
        Err("that is too little: give 64K or more".to_owned())
    } else {
        Ok(bytes)
    }
}

impl Dedup {
    /// Looks, and shares.
    pub fn run(&self) -> Outcome {
        let path = &self.volume;
        if path.is_dir() {
            let remedy = "name a volume by its file or device, and unmount it before";
            return Err(Failure::at(Exit::Usage, "a directory is no volume", path, remedy));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let taken = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&stop));
        taken.map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot take signals: {error}"), "")
        })?;
        let opening = volumes::opening(path, !self.dry_run, &Options::parse(&[], ram())?);
        let mut volume = volumes::open_over(path, &self.given.bases, opening)?;
        let before = volume.space().used;
        let bar = std::cell::RefCell::new(Reading::new());
        let pace = |read, of| {
            bar.borrow_mut().tick(read, of);
            !stop.load(Ordering::Acquire)
        };
        let memory = usize::try_from(self.memory).unwrap_or(usize::MAX);
        let how = Deduping { dry_run: self.dry_run, ..Deduping::new(memory, &pace) };
        let done = volume.dedup(&how).map_err(|error| self.failed(&error))?;
        drop(bar);
        let after = volume.space().used;
        if !self.dry_run {
            // All is safe without it.
            let _ = volume.close();
        }
        self.tell(&done, (before, after))
    }

    fn failed(&self, error: &Error) -> Failure {
        if *error != Error::NoSpace {
            return failure(&self.volume, error);
        }
        let what = "there is no room for the rows that say what is shared";
        let remedy =
            "take files or snapshots away, or make it larger (`esker resize`); no file changed";
        Failure::at(Exit::Failed, what, &self.volume, remedy)
    }

    fn tell(&self, done: &Deduped, (before, after): (u64, u64)) -> Outcome {
        if self.json {
            let line = json!({
                "volume": self.volume.to_string_lossy(),
                "dry_run": self.dry_run,
                "files": done.files,
                "read": done.read,
                "passes": done.passes,
                "shared": done.shared,
                "blocks": done.blocks,
                "block_bytes": done.freed,
                "used_before": before,
                "used": after,
                "unreadable": done.unreadable,
                "stopped": done.stopped,
            });
            say(&line.to_string());
        } else {
            let (path, files) = (path_shown(&self.volume), done.files);
            let [shared, freed, before, after] =
                [done.shared, done.freed, before, after].map(size_shown);
            let did = if self.dry_run { "would be shared" } else { "shared" };
            let used = match self.dry_run {
                true => format!("{before} used"),
                false => format!("used {before} before, {after} now"),
            };
            let blocks = done.blocks;
            say(&format!(
                "{path}: {shared} {did}, {blocks} blocks of {freed} free by that; {files} \
                 inodes; {used}"
            ));
        }
        let (what, remedy) = match (done.stopped, done.unreadable) {
            (true, _) => {
                ("stopped before everything was read".to_owned(), "the next time it does the rest")
            }
            (_, 0) => return Ok(()),
            (_, some) => {
                let what = format!("{some} files could not be read, and stay as they are");
                (what, "`esker scrub` names them")
            }
        };
        Err(Failure::at(Exit::Partly, &what, &self.volume, remedy))
    }
}
