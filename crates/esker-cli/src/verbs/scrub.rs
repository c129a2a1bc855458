//! `esker scrub`: read everything in a volume, and make again what can be.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use esker_stone::cache::Cache;
use esker_volume::device::{self, Device, Geometry};
use esker_volume::scrub::{Scrubbed, damaged_superblocks, mend_root};
use esker_volume::{Damage, Error, Options};
use serde_json::json;

use super::say;
use crate::failure::{Exit, Failure, Outcome, path_shown, shown};
use crate::images;
use crate::units::{parse_size, ram};
use crate::volumes;

/// Read everything in a volume, make again what has a second copy, and name the files that are damaged.
///
/// Of a volume that was made with --meta-copies 2 damaged superblocks, and tables of which enough is left, are written
/// again as they were, in their place. What cannot be made again stays as it is.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker scrub disk.vol
  esker scrub disk.vol --rate 50M       no more than so many bytes a second
  esker scrub disk.vol --dry-run        write nothing

Exit status: 6 if anything is damaged that could not be made again, or was not for --dry-run.")]
pub struct Scrub {
    /// A volume that is not mounted
    #[arg(value_name = "VOLUME")]
    volume: PathBuf,
    /// Read no more than so many bytes a second
    #[arg(long, value_name = "SIZE", value_parser = rate)]
    rate: Option<u64>,
    /// Only say what is damaged
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

fn rate(word: &str) -> Result<u64, String> {
    let rate = parse_size(word, ram()).map_err(|_| "give bytes, as in 50M".to_owned())?;
    if rate == 0 { Err("nothing would ever be read".to_owned()) } else { Ok(rate) }
}

/// A device from which no more than so many bytes a second are read.
struct Paced<D> {
    device: D,
    rate: Option<u64>,
    /// When the next read may begin.
    next: Mutex<Instant>,
}

impl<D> Paced<D> {
    fn wait_for(&self, len: usize) {
        let Some(rate) = self.rate else { return };
        let own = Duration::from_secs_f64(len as f64 / rate as f64);
        let begin = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let begin = (*next).max(Instant::now());
            *next = begin + own;
            begin
        };
        thread::sleep(begin.saturating_duration_since(Instant::now()));
    }
}

impl<D: Device> Device for Paced<D> {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn read(&self, at: u64, target: &mut [u8]) -> device::Result<()> {
        self.wait_for(target.len());
        self.device.read(at, target)
    }

    fn write(&self, at: u64, source: &[u8]) -> device::Result<()> {
        self.device.write(at, source)
    }

    fn flush(&self) -> device::Result<()> {
        self.device.flush()
    }

    fn discard(&self, at: u64, len: u64) -> device::Result<()> {
        self.device.discard(at, len)
    }

    fn written(&self, at: u64) -> device::Result<Option<u64>> {
        self.device.written(at)
    }

    fn finish(&self, at: u64) -> device::Result<()> {
        self.device.finish(at)
    }

    fn active(&self) -> device::Result<Vec<u64>> {
        self.device.active()
    }
}

impl Scrub {
    /// Scrubs.
    pub fn run(&self) -> Outcome {
        let failed = |error: Error| match error {
            Error::Damaged(Damage::Root) => {
                let what = "the root is damaged, and there is not enough parity to make it again";
                let remedy = "`esker recover` takes out what is left";
                Failure::at(Exit::Damaged, what, &self.volume, remedy)
            }
            error => volumes::failure(&self.volume, &error),
        };
        let device = volumes::device(&self.volume, !self.dry_run)?;
        let (rate, next) = (self.rate, Mutex::new(Instant::now()));
        let device = Paced { device, rate, next };
        let superblocks = damaged_superblocks(&device).map_err(failed)?;
        let root = mend_root(&device, !self.dry_run).map_err(failed)?;
        if root && self.dry_run {
            let what = "the root is damaged, and can be made again";
            let remedy = "without --dry-run it is";
            return Err(Failure::at(Exit::Damaged, what, &self.volume, remedy));
        }
        let options =
            Options { write: !self.dry_run, ..Options::new(Cache::new(images::CACHE_LEN)) };
        let volume = esker_volume::open(device, options).map_err(failed)?;
        let mut done = volume.scrub().map_err(failed)?;
        done.mended += u64::from(root);
        if superblocks > 0 && !self.dry_run {
            volume.retell().map_err(failed)?;
        }
        self.tell(&done, superblocks)
    }

    fn tell(&self, done: &Scrubbed, superblocks: u64) -> Outcome {
        let findings: Vec<String> = done.findings.iter().map(ToString::to_string).collect();
        let files: Vec<String> = done.files.iter().map(|path| shown(path)).collect();
        let again = done.mended + done.parity + superblocks;
        if self.json {
            let line = json!({
                "volume": self.volume.to_string_lossy(),
                "parts": done.parts,
                "damaged_parts": done.mended,
                "damaged_parity": done.parity,
                "damaged_superblocks": superblocks,
                "written": !self.dry_run,
                "findings": findings,
                "files": files,
            });
            say(&line.to_string());
        } else {
            findings.iter().for_each(|finding| say(finding));
            files.iter().for_each(|file| say(&format!("{file}: damaged")));
            let did = if self.dry_run { "could be made again" } else { "made again" };
            let (path, parts, parity) = (path_shown(&self.volume), done.mended, done.parity);
            let (tables, count) = (format!("{parts} parts of tables"), findings.len());
            say(&format!(
                "{path}: {did}: {superblocks} superblocks, {tables}, {parity} pieces of parity; \
                 {count} finding(s) besides"
            ));
        }
        if findings.is_empty() && (again == 0 || !self.dry_run) {
            return Ok(());
        }
        let what = format!("damaged: {} finding(s)", findings.len() as u64 + again);
        let remedy = match findings.is_empty() {
            true => "without --dry-run it is made again",
            false => "`esker recover` takes out what is whole",
        };
        Err(Failure::at(Exit::Damaged, &what, &self.volume, remedy))
    }
}
