//! `esker upgrade`: give an older volume what this version writes.

use std::path::PathBuf;

use clap::Args;
use esker_volume::device::FileDevice;
use esker_volume::limits::COPIES_MAX;
use esker_volume::{Error, Upgrade as Gets, Volume};
use serde_json::{Value, json};

use super::say;
use crate::failure::{Exit, Failure, Outcome, path_shown};
use crate::images::{self, Begin};
use crate::options::Options;
use crate::units::ram;
use crate::volumes::base::Given;
use crate::volumes::{self, failure, is_volume, report};

/// Give a volume what one has that is made by this version.
///
/// What it holds stays, its snapshots too. Earlier versions may not know it any more. A crash meanwhile leaves it as
/// it was, or as it is to be. Other features, as snapshots and rules, come with their first use and go with their last.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker upgrade disk.vol --dry-run           what it has, and what it would get
  esker upgrade disk.vol
  esker upgrade disk.vol --meta-copies 2     also a second copy of what names everything

It must not be mounted. Images need no upgrade.")]
pub struct Upgrade {
    /// A volume that is not mounted
    #[arg(value_name = "FILE|DEVICE")]
    volume: PathBuf,
    /// 2: also a second copy of superblocks, and parity behind tables, as of `esker mkfs --meta-copies`
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=2))]
    meta_copies: Option<u32>,
    #[command(flatten)]
    given: Given,
    /// Only say what it would get
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

impl Upgrade {
    /// Upgrades.
    pub fn run(&self) -> Outcome {
        let path = &self.volume;
        if path.is_dir() {
            let what = "a directory: a volume is upgraded while nobody has it mounted";
            return Err(Failure::at(Exit::Usage, what, path, "unmount it, and name its file"));
        }
        if !is_volume(path) && images::is_image(path, Begin::default()) {
            return self.image();
        }
        let opening = volumes::opening(path, !self.dry_run, &Options::parse(&[], ram())?);
        let mut volume = volumes::open_over(path, &self.given.bases, opening)?;
        let had = report::features_of(&volume.shape());
        let copies = volume.shape().copies;
        let gets = volume.lacks(self.meta_copies).map_err(|error| failure(path, &error))?;
        if gets.is_any() && !self.dry_run {
            volume.upgrade(gets).map_err(|error| self.failed(&error))?;
        }
        let now = if self.dry_run { had.clone() } else { report::features_of(&volume.shape()) };
        if self.json {
            say(&self.told(&volume, &now, gets).to_string());
            return Ok(());
        }
        let name = path_shown(path);
        let all = had.iter().map(String::as_str).chain([match copies {
            COPIES_MAX => "two copies of metadata",
            _ => "one copy of metadata",
        }]);
        let all = all.collect::<Vec<_>>().join(", ");
        let new = shown(gets).join(", ");
        say(&match (gets.is_any(), self.dry_run) {
            (false, _) => format!("{name} has all that this version writes: {all}"),
            (true, true) => format!("{name} has: {all}; it would get: {new}"),
            (true, false) => format!("{name} has got: {new}"),
        });
        Ok(())
    }

    fn failed(&self, error: &Error) -> Failure {
        if *error != Error::NoSpace {
            return failure(&self.volume, error);
        }
        let what = "there is no room to write all tables again with their second copy";
        let remedy =
            "take files or snapshots away, or make it larger (`esker resize`); it is as it was";
        Failure::at(Exit::Failed, what, &self.volume, remedy)
    }

    fn told(&self, volume: &Volume<FileDevice>, features: &[String], gets: Gets) -> Value {
        let shape = volume.shape();
        json!({
            "volume": self.volume.to_string_lossy(),
            "version": shape.version,
            "features": features,
            "meta_copies": shape.copies,
            "gets": words(gets),
            "upgraded": gets.is_any() && !self.dry_run,
        })
    }

    /// Of an image there is nothing to upgrade.
    fn image(&self) -> Outcome {
        let image = images::open_with(&self.volume, Begin::default(), &[], &images::cache());
        if let Err(failure) = image
            && failure.exit == Exit::Damaged
        {
            return Err(failure);
        }
        if self.json {
            let volume = self.volume.to_string_lossy();
            say(&json!({ "image": volume, "gets": [], "upgraded": false }).to_string());
        } else {
            let name = path_shown(&self.volume);
            say(&format!("{name} is an image, and needs no upgrade; `esker repack` packs it anew"));
        }
        Ok(())
    }
}

/// For a machine.
fn words(gets: Gets) -> Vec<&'static str> {
    told(gets, ["pages", "deltas", "pieces", "names", "meta_copies"])
}

/// For a person.
fn shown(gets: Gets) -> Vec<&'static str> {
    told(
        gets,
        [
            "pages (parts of the log lie across no page of flash)",
            "deltas (what resembles what it takes the place of is stored as what differs)",
            "pieces (of a block that is not compressed what is left is needed, and no more)",
            "names (stored once: listings have no rows of their own)",
            "two copies of metadata",
        ],
    )
}

/// Of all that there is to get.
fn told(gets: Gets, words: [&'static str; 5]) -> Vec<&'static str> {
    let all = [gets.pages, gets.deltas, gets.pieces, gets.names, gets.second_copy];
    words.into_iter().zip(all).filter_map(|(word, is)| is.then_some(word)).collect()
}
