//! `esker tune`: change of a volume what can be changed once it is made: its label, what is kept back, how new bytes
//! are compressed, and its size.

use std::path::PathBuf;

use clap::Args;
use esker_stone::Setting;
use esker_volume::device::{Device as _, FileDevice};
use serde_json::json;

use super::mkfs::{Reserve, bytes, label, reserve};
use super::say;
use crate::failure::{Exit, Failure, Outcome, path_shown, said};
use crate::options::Options;
use crate::units::size_shown;
use crate::volumes::{self, setting};

/// Change what a volume is like: its label, its reserve, how what is new is compressed, its size.
///
/// It takes a new superblock: whatever fails meanwhile, the volume is as it was, or as it was to be. A volume in a
/// file grows with the file, one on a device up to the size of that.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker tune disk.vol --label data
  esker tune disk.vol --size 20G            larger; smaller is not possible
  esker tune disk.vol --reserve 5% --compress zstd:9")]
pub struct Tune {
    /// A volume that is not mounted
    #[arg(value_name = "VOLUME")]
    volume: PathBuf,
    /// How large: more than it is, or `max` for all of what is there
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: Option<Size>,
    /// A name for people, of up to 32 bytes
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// How much is kept back: bytes, or a share as in 5%
    #[arg(long, value_name = "SIZE|N%", value_parser = reserve)]
    reserve: Option<Reserve>,
    /// For what is new: none, lz4, zstd or zstd:LEVEL
    #[arg(long, value_name = "CODEC", value_parser = setting)]
    compress: Option<Setting>,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

/// How large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Bytes(u64),
    All,
}

fn size(word: &str) -> Result<Size, String> {
    if word == "max" { Ok(Size::All) } else { bytes(word).map(Size::Bytes) }
}

impl Tune {
    /// Changes it.
    pub fn run(&self) -> Outcome {
        let wanted = (self.size, &self.label, self.reserve, self.compress);
        if matches!(wanted, (None, None, None, None)) {
            return Err(Failure::new(Exit::Usage, "nothing to change", "see `esker tune --help`"));
        }
        let failed = |error| volumes::failure(&self.volume, &error);
        let label = self.label.as_deref().map(label).transpose()?;
        // All that can be refused is, before anything is changed.
        let looked = volumes::look(&self.volume)?;
        let (now, segment_len) = (looked.shape().size, looked.shape().segment_len);
        drop(looked);
        let size = self.grown(now, segment_len)?;
        let reserve = self.reserve.map(|reserve| reserve.checked_of(size)).transpose()?;
        if size > now {
            self.make_room(size)?;
        }
        let options = volumes::opening(&self.volume, true, &Options::default());
        let volume = volumes::open(&self.volume, options)?;
        if size > now {
            volume.grow(size).map_err(failed)?;
        }
        let changed = volume.retell(|own| {
            own.label = label.unwrap_or(own.label);
            own.reserve = reserve.unwrap_or(own.reserve);
            if let Some(setting) = self.compress {
                own.codec = setting.codec.number().into();
                own.level = setting.level.cast_unsigned();
            }
        });
        changed.map_err(failed)?;
        let line = json!({ "volume": self.volume.to_string_lossy(), "size": size });
        match self.json {
            true => say(&line.to_string()),
            false => {
                let (path, size) = (path_shown(&self.volume), size_shown(size));
                say(&format!("changed {path}, which has {size}"));
            }
        }
        Ok(())
    }

    /// The size that it is to have.
    fn grown(&self, now: u64, segment_len: u64) -> Outcome<u64> {
        let there = volumes::device(&self.volume, false)?.geometry().size;
        let wanted = match self.size {
            None => return Ok(now),
            Some(Size::All) => there,
            Some(Size::Bytes(bytes)) => bytes,
        };
        let whole = wanted / segment_len * segment_len;
        if whole < now {
            let what = format!("it has {}, and cannot be made smaller", size_shown(now));
            let remedy = "make another one, and copy what is in this one";
            return Err(Failure::at(Exit::Usage, &what, &self.volume, remedy));
        }
        Ok(whole)
    }

    /// Makes the file as large, if it is one.
    fn make_room(&self, size: u64) -> Outcome {
        if self.volume.metadata().is_ok_and(|meta| meta.is_file()) {
            FileDevice::create(&self.volume, size).map_err(|error| {
                let what = format!("the file cannot be made larger ({})", said(&error));
                Failure::at(Exit::Failed, &what, &self.volume, "")
            })?;
        }
        Ok(())
    }
}
