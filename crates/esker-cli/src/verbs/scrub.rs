//! `esker scrub`: read everything in a volume, and make again what can be.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::Args;
use esker_stone::cache::Cache;
use esker_volume::scrub::mend_root;
use esker_volume::{Bases, Damage, Error, Options};
use serde_json::Value;

use super::say;
use crate::failure::{Exit, Failure, Outcome, path_shown};
use crate::images;
use crate::progress::Reading;
use crate::units::{parse_size, ram};
use crate::volumes::base::{Finder, Given};
use crate::volumes::pacer::Pacer;
use crate::volumes::{self, ask, care, is_volume};

/// How often it is looked how far it is.
const LOOK: Duration = Duration::from_millis(100);

/// Less than so many bytes are read in no time.
const QUICK: u64 = 64 << 20;
/// How often it is looked then.
const MOMENT: Duration = Duration::from_millis(2);

/// Read everything in a volume, make again what has a second copy, and name the files that are damaged.
///
/// Of a volume that was made with --meta-copies 2 damaged superblocks, and tables of which enough is left, are written
/// again as they were, in their place. What cannot be made again stays as it is. Where the volume is mounted, name the
/// mount: others go on reading and writing. Stopped by ctrl-c it goes on there the next time.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker scrub disk.vol
  esker scrub /mnt/d --rate 50M         while it is mounted, no more than so many bytes a second
  esker scrub disk.vol --dry-run        write nothing

Exit status: 6 if anything is damaged that could not be made again, or was not for --dry-run;
5 if it was stopped.")]
pub struct Scrub {
    /// A volume that is not mounted, or the mount of one
    #[arg(value_name = "VOLUME|MOUNT")]
    volume: PathBuf,
    /// Read no more than so many bytes a second
    #[arg(long, value_name = "SIZE", value_parser = rate)]
    rate: Option<u64>,
    /// Only say what is damaged
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Begin anew where an earlier one was stopped
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    given: Given,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

fn rate(word: &str) -> Result<u64, String> {
    let rate = parse_size(word, ram()).map_err(|_| "give bytes, as in 50M".to_owned())?;
    if rate == 0 { Err("nothing would ever be read".to_owned()) } else { Ok(rate) }
}

/// Set by ctrl-c.
fn interrupted() -> Outcome<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let taken = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&stop));
    let unable = |error| Failure::new(Exit::Failed, format!("cannot take signals: {error}"), "");
    taken.map(|_| stop).map_err(unable)
}

/// Has the server of a mount read everything; what came of it.
pub fn online(path: &Path, work: care::Work) -> Outcome<Value> {
    let stop = interrupted()?;
    ask::ask(path, &work.message(), false)?;
    let mut told = false;
    let mut bar = Reading::new();
    loop {
        let now = ask::ask(path, &care::look(), false)?;
        if let Some(failed) = now["done"]["error"].as_str() {
            return Err(Failure::new(Exit::Failed, failed, ""));
        }
        if now["done"].is_object() {
            return Ok(now["done"].clone());
        }
        bar.tick(now["read"].as_u64().unwrap_or(0), now["of"].as_u64().unwrap_or(0));
        if stop.load(Ordering::Acquire) && !told {
            ask::ask(path, &care::stop(), false)?;
            told = true;
        }
        thread::sleep(LOOK);
    }
}

impl Scrub {
    /// Scrubs.
    pub fn run(&self) -> Outcome {
        if !is_volume(&self.volume) && self.volume.is_dir() {
            let (rate, dry_run, restart) = (self.rate, self.dry_run, self.restart);
            let work = care::Work::Scrub { rate, dry_run, restart };
            return self.tell(&online(&self.volume, work)?);
        }
        let failed = |error: Error| match error {
            Error::Damaged(Damage::Root) => {
                let what = "the root is damaged, and there is not enough parity to make it again";
                let remedy = "`esker recover` takes out what is left";
                Failure::at(Exit::Damaged, what, &self.volume, remedy)
            }
            error => volumes::failure(&self.volume, &error),
        };
        let device = volumes::device(&self.volume, !self.dry_run)?;
        let root = mend_root(&device, !self.dry_run).map_err(failed)?;
        if root && self.dry_run {
            let what = "the root is damaged, and can be made again";
            let remedy = "without --dry-run it is";
            return Err(Failure::at(Exit::Damaged, what, &self.volume, remedy));
        }
        let cache = Cache::new(images::CACHE_LEN);
        let finder = Finder::new(&self.volume, &self.given.bases, &cache);
        let bases = Some(Arc::clone(&finder) as Arc<dyn Bases>);
        let options = Options { write: !self.dry_run, bases, ..Options::new(cache) };
        let volume = esker_volume::open(device, options).map_err(|error| match error {
            Error::Base(_) => finder.failure(&error),
            error => failed(error),
        })?;
        let pacer = Pacer::new(self.rate, interrupted()?);
        let of = care::len(&volume);
        let mut done = thread::scope(|scope| {
            let (how, path) = ((self.dry_run, self.restart), &self.volume);
            let (volume, pacer, bases) = (&volume, &pacer, &self.given.bases);
            let work = scope.spawn(move || care::scrub((volume, path, bases), how, pacer));
            let mut bar = Reading::new();
            while !work.is_finished() {
                bar.tick(pacer.read(), of);
                thread::sleep(if of < QUICK { MOMENT } else { LOOK });
            }
            let panicked = |_| Failure::new(Exit::Failed, "scrubbing failed", "");
            work.join().map_err(panicked)?
        })?;
        done["damaged_parts"] = (count(&done, "damaged_parts") + u64::from(root)).into();
        // All is safe without it.
        let _ = volume.close();
        self.tell(&done)
    }

    fn tell(&self, done: &Value) -> Outcome {
        let all = |key: &str| done[key].as_array().map_or(&[][..], Vec::as_slice);
        let (findings, files) = (all("findings"), all("files"));
        let kinds = ["damaged_parts", "damaged_parity", "damaged_superblocks", "damaged_logs"];
        let again: u64 = kinds.iter().map(|key| count(done, key)).sum();
        let stopped = done["stopped"] == true;
        let found = findings.len() as u64 + count(done, "unlisted");
        if self.json {
            say(&done.to_string());
        } else {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            findings.iter().for_each(|finding| say(&text(finding)));
            files.iter().for_each(|file| say(&format!("{}: damaged", text(file))));
            let more = count(done, "unlisted_files");
            (more > 0).then(|| say(&format!("and {more} files more")));
            say(&self.words(done, found));
            care::lost_shown(count(done, "lost_blocks")).iter().for_each(|line| say(line));
        }
        if stopped && findings.is_empty() {
            let what = "stopped before everything was read";
            let remedy = "the next time it goes on there, or with --restart begins anew";
            return Err(Failure::at(Exit::Partly, what, &self.volume, remedy));
        }
        if findings.is_empty() && (again == 0 || !self.dry_run) {
            return Ok(());
        }
        let what = format!("damaged: {} finding(s)", found + again);
        let remedy = match findings.is_empty() {
            true => "without --dry-run it is made again",
            false => "`esker recover` takes out what is whole",
        };
        Err(Failure::at(Exit::Damaged, &what, &self.volume, remedy))
    }

    fn words(&self, done: &Value, findings: u64) -> String {
        let did = if self.dry_run { "could be made again" } else { "made again" };
        let path = path_shown(&self.volume);
        let (superblocks, parity) = (&done["damaged_superblocks"], &done["damaged_parity"]);
        let tables = &done["damaged_parts"];
        let log = if count(done, "damaged_logs") > 0 { ", the log" } else { "" };
        let from = if done["resumed"] == true { " (blocks from where it was stopped)" } else { "" };
        format!(
            "{path}: {did}: {superblocks} superblocks, {tables} parts of tables, \
             {parity} pieces of parity{log}; {findings} finding(s) besides{from}"
        )
    }
}

fn count(done: &Value, key: &str) -> u64 {
    done[key].as_u64().unwrap_or(0)
}
