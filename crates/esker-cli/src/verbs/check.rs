//! `esker check`: is everything in an image, or in a volume, as it was written?

use std::path::PathBuf;

use clap::Args;
use esker_image::{Depth, Finding, Report, Thing, verify};
use esker_stone::hex;
use serde_json::{Value, json};

use super::say;
use crate::failure::{Exit, Failure, Outcome, path_shown};
use crate::images::{self, Opening, thing_shown};
use crate::progress::Reading;
use crate::units::size_shown;
use crate::volumes::care::{Work, lost_shown};
use crate::volumes::repair::{self, Wanted};
use crate::volumes::{is_volume, report};

/// Check that an image or a volume is as it was written, and name what a damage costs.
///
/// Reads everything: every stored byte against its checksum, every name, attribute and stretch, and of the
/// images that it was packed against the blocks that it uses. What a volume counts is counted again.
///
/// With --repair a damaged volume is made one that checks clean. What has parity is made again as it was. If
/// that is not enough, all that is left is written into new tables, and one superblock names them: cut short,
/// the volume is what it was. What keeps its name is what it was, byte for byte; a file with a gap, which is
/// zeros then, is called NAME.damaged, one that may be older than it was NAME.older, and what has lost its name
/// is in lost+found. All of these are named.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker check x.esker
  esker check --full x.esker      also decompress everything and compare strong hashes
  esker check --online /mnt/d     a volume that is mounted, as it is at one moment
  esker check --repair --dry-run disk.vol
                                  what repairing it would do
  esker check --repair disk.vol

Exit status: 6 if anything is damaged; with --repair, if anything was lost by that.")]
pub struct Check {
    /// An image, or a volume that is not mounted; with --online the mount of one
    #[arg(value_name = "IMAGE|VOLUME|MOUNT")]
    image: PathBuf,
    /// Decompress everything and compare strong hashes too
    #[arg(long)]
    full: bool,
    /// Check a volume while it is mounted and others write
    #[arg(long, conflicts_with = "full")]
    online: bool,
    /// Make a damaged volume, which is not mounted, one that checks clean
    #[arg(long, conflicts_with_all = ["full", "online"])]
    repair: bool,
    /// With --repair: only say what would be done
    #[arg(short = 'n', long, requires = "repair")]
    dry_run: bool,
    /// With --repair: what may be older than it was keeps its name
    #[arg(long, requires = "repair")]
    keep_older: bool,
    /// With --repair: snapshots go of which anything is lost
    #[arg(long, requires = "repair")]
    drop_snapshots: bool,
    #[command(flatten)]
    opening: Opening,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

fn found(finding: &Finding) -> Value {
    let kind = match finding.thing {
        Thing::Superblock(_) => "superblock",
        Thing::Page { .. } => "page",
        Thing::Block(_) | Thing::BaseBlock(..) => "block",
        Thing::Path(_) => "path",
        Thing::Whole => "image",
    };
    json!({
        "kind": kind,
        "what": thing_shown(&finding.thing),
        "why": finding.error.to_string(),
    })
}

impl Check {
    /// Checks.
    pub fn run(&self) -> Outcome {
        if self.online {
            return self.check_online();
        }
        if self.repair {
            return self.repair();
        }
        if self.image.is_dir() {
            let remedy = "with --online a volume is checked while it is mounted";
            return Err(Failure::at(Exit::Usage, "a directory", &self.image, remedy));
        }
        if is_volume(&self.image) {
            let (lines, outcome) =
                report::check(&self.image, &self.opening.bases, (self.full, self.json));
            lines.iter().for_each(|line| say(line));
            return outcome;
        }
        let cache = images::cache();
        let image = images::open_damaged(&self.image, &self.opening, &cache)?;
        let depth = if self.full { Depth::Plain } else { Depth::Stored };
        let len = self.image.metadata().map_or(0, |meta| meta.len());
        let mut bar = Reading::new();
        let report = verify(&image, depth, &mut |report| bar.tick(report.bytes, len));
        drop(bar);
        self.tell(&report, &hex(&image.name()));
        if report.findings.is_empty() {
            return Ok(());
        }
        let what = format!("damaged: {} finding(s)", report.findings.len());
        let remedy = match images::is_readable(&image) {
            true => "`esker extract --salvage` takes out what is whole",
            false => "the root directory cannot be read, so nothing can: take another copy",
        };
        Err(Failure::at(Exit::Damaged, &what, &self.image, remedy))
    }

    fn repair(&self) -> Outcome {
        if self.image.is_dir() {
            let remedy = "name the volume, when it is not mounted";
            return Err(Failure::at(Exit::Usage, "a directory", &self.image, remedy));
        }
        if repair::is_image(&self.image) {
            let remedy = "`esker extract --salvage` takes out what is whole";
            let what = "an image, which never changes, and no volume";
            return Err(Failure::at(Exit::Usage, what, &self.image, remedy));
        }
        let (dry_run, keep_older, drop_snapshots) =
            (self.dry_run, self.keep_older, self.drop_snapshots);
        let wanted = Wanted { dry_run, keep_older, drop_snapshots };
        let done = repair::run(&self.image, &self.opening.bases, wanted)?;
        if self.json {
            say(&done.json(&self.image, wanted).to_string());
        } else {
            done.lines(&self.image, wanted).iter().for_each(|line| say(line));
        }
        if !done.has_losses() && (!self.dry_run || done.is_sound()) {
            return Ok(());
        }
        let (what, remedy) = match self.dry_run {
            true => ("damaged", "without --dry-run it is repaired"),
            false => ("something was lost", "what it is stands above"),
        };
        Err(Failure::at(Exit::Damaged, what, &self.image, remedy))
    }

    fn check_online(&self) -> Outcome {
        if is_volume(&self.image) {
            let remedy = "name the mount, or leave out --online where there is none";
            return Err(Failure::at(Exit::Usage, "a volume, and no mount", &self.image, remedy));
        }
        let done = super::scrub::online(&self.image, Work::Check)?;
        let findings = done["findings"].as_array().map_or(&[][..], Vec::as_slice);
        if self.json {
            say(&done.to_string());
        } else {
            findings.iter().filter_map(Value::as_str).for_each(say);
        }
        if findings.is_empty() {
            let whole = format!("{} is whole", path_shown(&self.image));
            if !self.json {
                say(&whole);
                let lost = lost_shown(done["lost_blocks"].as_u64().unwrap_or(0));
                lost.iter().for_each(|line| say(line));
            }
            return Ok(());
        }
        let found = findings.len() as u64 + done["unlisted"].as_u64().unwrap_or(0);
        let what = format!("damaged: {found} finding(s)");
        let remedy = "`esker scrub` names the files that are damaged";
        Err(Failure::at(Exit::Damaged, &what, &self.image, remedy))
    }

    fn tell(&self, report: &Report, name: &str) {
        if self.json {
            let findings: Vec<_> = report.findings.iter().map(found).collect();
            let line = json!({
                "image": self.image.to_string_lossy(),
                "name": name,
                "pages": report.pages,
                "blocks": report.blocks,
                "bytes": report.bytes,
                "names": report.names,
                "findings": findings,
            });
            return say(&line.to_string());
        }
        for finding in &report.findings {
            say(&format!("{}: {}", thing_shown(&finding.thing), finding.error));
        }
        if report.findings.is_empty() {
            say(&format!(
                "{} is whole: {} names, {} blocks with {}, {} pages",
                path_shown(&self.image),
                report.names,
                report.blocks,
                size_shown(report.bytes),
                report.pages
            ));
        }
    }
}
