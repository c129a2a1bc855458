//! `esker resize`, `esker label` and `esker tune`: what can be changed of a volume that was made.

use std::path::{Path, PathBuf};

use clap::Args;
use esker_stone::Setting;
use serde_json::Value;

use super::mkfs::{Reserve, bytes, label, reserve};
use super::say;
use crate::failure::{Exit, Failure, Outcome, path_shown};
use crate::options::Options;
use crate::units::{ram, size_shown};
use crate::volumes::alter::{Request, apply};
use crate::volumes::base::Given;
use crate::volumes::{self, setting};

/// Make a volume larger.
///
/// What it holds stays where it is. A crash meanwhile leaves it as large as it was, or as large as it is to be. Where
/// it is mounted, name the mount: whoever writes there goes on, and has the new room at once.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker resize disk.vol --size 20G     the file grows as it is written
  esker resize /dev/sdx1               all of a device that became larger
  esker resize /mnt/d --size 20G       while it is mounted")]
pub struct Resize {
    /// A volume that is not mounted, or the mount of one
    #[arg(value_name = "FILE|DEVICE|MOUNT")]
    target: PathBuf,
    #[command(flatten)]
    given: Given,
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
    /// A volume that is not mounted, or the mount of one
    #[arg(value_name = "FILE|DEVICE|MOUNT")]
    target: PathBuf,
    #[command(flatten)]
    given: Given,
    /// The name, of up to 32 bytes
    #[arg(value_name = "TEXT")]
    label: Option<String>,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

/// Change what a volume keeps back, how what is new is compressed, and where it finds its base.
#[derive(Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
What was written before stays as it is compressed; `mount -o compress=` changes it for one mount.

Examples:
  esker tune disk.vol --compress zstd:9
  esker tune disk.vol --reserve 5%
  esker tune disk.vol --base /new/place/tree.esker    where the image that it lies on is now"
)]
pub struct Tune {
    /// A volume that is not mounted, or the mount of one
    #[arg(value_name = "FILE|DEVICE|MOUNT")]
    target: PathBuf,
    /// none, lz4, zstd or zstd:LEVEL
    #[arg(long, value_name = "CODEC", value_parser = setting)]
    compress: Option<Setting>,
    /// How much is kept back: bytes, or a share as in 5%
    #[arg(long, value_name = "SIZE|N%", value_parser = reserve)]
    reserve: Option<Reserve>,
    /// Where the image that the volume lies on is now; the volume must not be mounted
    #[arg(long, value_name = "IMAGE")]
    base: Option<PathBuf>,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

impl Resize {
    /// Makes it larger.
    pub fn run(&self) -> Outcome {
        let request = Request { grow: Some(self.size), ..Request::default() };
        let now = alter(&self.target, &self.given.bases, &request)?;
        let size = size_shown(now["size"].as_u64().unwrap_or(0));
        tell(self.json, &now, &format!("{} has {size} now", path_shown(&self.target)));
        Ok(())
    }
}

impl Label {
    /// Tells or sets it.
    pub fn run(&self) -> Outcome {
        if let Some(text) = &self.label {
            label(text)?;
        }
        let request = Request { label: self.label.clone(), ..Request::default() };
        let now = alter(&self.target, &self.given.bases, &request)?;
        tell(self.json, &now, now["label"].as_str().unwrap_or_default());
        Ok(())
    }
}

impl Tune {
    /// Changes it.
    pub fn run(&self) -> Outcome {
        if self.compress.is_none() && self.reserve.is_none() && self.base.is_none() {
            let remedy = "give --compress, --reserve or --base";
            return Err(Failure::new(Exit::Usage, "nothing to change", remedy));
        }
        self.base.as_deref().map_or(Ok(()), |base| self.move_base(base))?;
        let (reserve, setting) = (self.reserve, self.compress);
        let request = Request { reserve, setting, ..Request::default() };
        let now = alter(&self.target, &[], &request)?;
        let kept = size_shown(now["reserve"].as_u64().unwrap_or(0));
        let codec = now["compress"].as_str().unwrap_or_default();
        let (name, level) = (path_shown(&self.target), &now["level"]);
        let base = self.base.as_ref().map_or_else(String::new, |base| {
            format!("; it lies on the image {}", path_shown(base))
        });
        let shown = format!(
            "{name}: what is new is compressed by {codec}:{level}, {kept} are kept back{base}"
        );
        tell(self.json, &now, &shown);
        Ok(())
    }
}

impl Tune {
    /// Tells the volume where its base is.
    fn move_base(&self, base: &Path) -> Outcome {
        let path = &self.target;
        if !volumes::is_volume(path) {
            let what = "neither a volume nor a place for --base";
            return Err(Failure::at(Exit::Usage, what, path, "name a volume that is not mounted"));
        }
        let options = Options::parse(&[], ram())?;
        let bases = [base.to_owned()];
        let volume = volumes::open_over(path, &bases, volumes::opening(path, true, &options))?;
        if volume.base().is_none() {
            let what = "the volume lies on no image";
            return Err(Failure::at(Exit::Usage, what, path, "leave out --base"));
        }
        volume.tell_base().map_err(|error| volumes::failure(path, &error))
    }
}

/// Of a volume that nobody has mounted, or of one that is mounted here.
fn alter(path: &Path, bases: &[PathBuf], request: &Request) -> Outcome<Value> {
    if !volumes::is_volume(path) && path.is_dir() {
        return volumes::ask::ask(path, &request.message(), false);
    }
    let write = request.changes();
    let options = Options::parse(&[], ram())?;
    let volume = volumes::open_over(path, bases, volumes::opening(path, write, &options))?;
    apply(&volume, path, request, |change| volume.alter(change))
}

fn tell(json: bool, now: &Value, shown: &str) {
    say(&if json { now.to_string() } else { shown.to_owned() });
}
