//! `esker resize`, `esker label` and `esker tune`: what can be changed of a volume that was made.

use std::path::{Path, PathBuf};

use clap::Args;
use esker_stone::Setting;
use esker_volume::device::{Device as _, FileDevice};
use esker_volume::{Change, Superblock};
use serde_json::{Value, json};

use super::mkfs::{Reserve, bytes, label, reserve};
use super::say;
use crate::failure::{Exit, Failure, Outcome, path_shown, said};
use crate::options::Options;
use crate::units::{ram, size_shown};
use crate::volumes::{self, report, setting};

/// Make a volume larger.
///
/// What it holds stays where it is. A crash meanwhile leaves it as large as it was, or as large as it is to be.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker resize disk.vol --size 20G     the file grows as it is written
  esker resize /dev/sdx1               all of a device that became larger")]
pub struct Resize {
    /// A volume that is not mounted
    #[arg(value_name = "FILE|DEVICE")]
    target: PathBuf,
    /// How large [default: all of what is there]
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    size: Option<u64>,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

/// Tell or set the name that people know a volume by.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker label disk.vol                 tells it
  esker label disk.vol photographs     sets it
  esker label disk.vol ''              takes it away")]
pub struct Label {
    /// A volume, which is not mounted if it gets a name
    #[arg(value_name = "FILE|DEVICE")]
    target: PathBuf,
    /// The name, of up to 32 bytes
    #[arg(value_name = "TEXT")]
    label: Option<String>,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

/// Change what a volume keeps back, and how what is new is compressed.
#[derive(Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
What was written before stays as it is compressed; `mount -o compress=` changes it for one mount.

Examples:
  esker tune disk.vol --compress zstd:9
  esker tune disk.vol --reserve 5%"
)]
pub struct Tune {
    /// A volume that is not mounted
    #[arg(value_name = "FILE|DEVICE")]
    target: PathBuf,
    /// none, lz4, zstd or zstd:LEVEL
    #[arg(long, value_name = "CODEC", value_parser = setting)]
    compress: Option<Setting>,
    /// How much is kept back: bytes, or a share as in 5%
    #[arg(long, value_name = "SIZE|N%", value_parser = reserve)]
    reserve: Option<Reserve>,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

impl Resize {
    /// Makes it larger.
    pub fn run(&self) -> Outcome {
        let size = match self.size {
            Some(size) => {
                self.extend(size)?;
                size
            }
            None => volumes::device(&self.target, true)?.geometry().size,
        };
        let now = alter(&self.target, &Change { size: Some(size), ..Change::default() })?;
        let shown = format!("{} has {} now", path_shown(&self.target), size_shown(now.size));
        tell(self.json, &self.target, &now, &shown);
        Ok(())
    }

    /// Makes the file as long, if it is one.
    fn extend(&self, size: u64) -> Outcome {
        let target = &self.target;
        // It is a volume, and nobody else has it: before anything changes.
        let volume = volumes::open(target, volumes::opening(target, true, &options()?))?;
        let (there, now) = (volume.device().geometry().size, volume.shape().size);
        drop(volume);
        let usage = |what: &str, remedy: &str| Failure::at(Exit::Usage, what, target, remedy);
        if size < now {
            let what = format!("a volume only grows, and this one has {}", size_shown(now));
            return Err(usage(&what, "make a smaller one, and copy what it holds: mkfs --from"));
        }
        if size <= there {
            return Ok(());
        }
        if !target.metadata().is_ok_and(|meta| meta.is_file()) {
            let what = format!("the device has {}", size_shown(there));
            return Err(usage(&what, "leave out --size"));
        }
        FileDevice::create(target, size).map(drop).map_err(|error| {
            let what = format!("cannot make the file longer ({})", said(&error));
            Failure::at(Exit::Failed, &what, target, "")
        })
    }
}

impl Label {
    /// Tells or sets it.
    pub fn run(&self) -> Outcome {
        let now = match &self.label {
            None => *volumes::look(&self.target)?.shape(),
            Some(text) => {
                alter(&self.target, &Change { label: Some(label(text)?), ..Change::default() })?
            }
        };
        tell(self.json, &self.target, &now, &report::label(&now.label));
        Ok(())
    }
}

impl Tune {
    /// Changes it.
    pub fn run(&self) -> Outcome {
        if self.compress.is_none() && self.reserve.is_none() {
            let remedy = "give --compress or --reserve";
            return Err(Failure::new(Exit::Usage, "nothing to change", remedy));
        }
        let size = volumes::look(&self.target)?.shape().size;
        let reserve = self.reserve.map(|reserve| reserve.checked_of(size)).transpose()?;
        let change = Change { reserve, setting: self.compress, ..Change::default() };
        let now = alter(&self.target, &change)?;
        let (setting, kept) = (now.setting(), size_shown(now.reserve));
        let (name, codec, level) = (path_shown(&self.target), setting.codec.name(), setting.level);
        let shown =
            format!("{name}: what is new is compressed by {codec}:{level}, {kept} are kept back");
        tell(self.json, &self.target, &now, &shown);
        Ok(())
    }
}

fn options() -> Outcome<Options> {
    Options::parse(&[], ram())
}

fn alter(path: &Path, change: &Change) -> Outcome<Superblock> {
    let volume = volumes::open(path, volumes::opening(path, true, &options()?))?;
    volume.alter(change).map_err(|error| volumes::failure(path, &error))
}

fn tell(json: bool, path: &Path, now: &Superblock, shown: &str) {
    let all: Value = json!({
        "volume": path.to_string_lossy(),
        "size": now.size,
        "label": report::label(&now.label),
        "reserve": now.reserve,
        "compress": now.setting().codec.name(),
        "level": now.setting().level,
    });
    say(&if json { all.to_string() } else { shown.to_owned() });
}
