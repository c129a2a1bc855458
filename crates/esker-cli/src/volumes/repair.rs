//! Repairing a volume: what has parity is made again in its place; if that is not enough, what is left is written as a
//! volume that is whole.
//!
//! Above: `verbs::check`. Below: `esker-volume`. Invariant: nothing is written to a volume that is sound, nor to one
//! that is only looked at; whoever repairs has it to himself.

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker_stone::cache::Cache;
use esker_stone::superblock::MAGIC;
use esker_volume::device::{Device as _, FileDevice};
use esker_volume::recover::{RepairError, Repaired, Repairing, repair};
use esker_volume::scrub::{ScrubError, Scrubbing, mend_root};
use esker_volume::{Bases, Error, Options, open};
use serde_json::{Value, json};

use super::base::{self, Finder};
use super::{IMAGE, device};
use crate::failure::{Exit, Failure, Outcome, path_shown, shown};
use crate::images;
use crate::progress::while_reading;
use crate::units::size_shown;

/// What is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Nothing is written.
    pub dry_run: bool,
    /// What may be older than it was keeps its name.
    pub keep_older: bool,
    /// Snapshots may go of which anything is lost.
    pub drop_snapshots: bool,
}

/// What was done, or would be.
#[derive(Debug, Default)]
pub struct Done {
    /// Superblocks, parts of tables, pieces of parity and logs that were made again as they were.
    again: u64,
    /// What that did not help against.
    rebuilt: Option<Repaired>,
    /// What is wrong after all.
    findings: Vec<String>,
}

/// A volume that nobody has mounted, and where its base may be.
struct Patient<'a> {
    path: &'a Path,
    device: FileDevice,
    bases: &'a [PathBuf],
    finder: Arc<Finder>,
    cache: Arc<Cache>,
}

/// Whether what is left may be put together where this is wrong; whatever else is wrong, nothing is written.
const fn is_repaired(error: &Error) -> bool {
    match error {
        Error::Damaged(_) | Error::Device(_) | Error::NoSpace => true,
        Error::Stone(error) => !matches!(error, esker_stone::Error::Unsupported(_)),
        _ => false,
    }
}

impl<'a> Patient<'a> {
    fn new(path: &'a Path, bases: &'a [PathBuf], write: bool) -> Outcome<Self> {
        let cache = Cache::new(images::CACHE_LEN);
        let finder = Finder::new(path, bases, &cache);
        Ok(Self { path, device: device(path, write)?, bases, finder, cache })
    }

    fn options(&self, write: bool) -> Options {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let bases = Some(Arc::clone(&self.finder) as Arc<dyn Bases>);
        Options { write, threads, bases, ..Options::new(Arc::clone(&self.cache)) }
    }

    fn scrub(&self, mend: bool) -> Result<(u64, bool), ScrubError> {
        let root = mend_root(&self.device, mend)?;
        let volume = open(&self.device, self.options(mend))?;
        let how = Scrubbing { mend, ..Scrubbing::all(&|_| true) };
        let done = volume.scrub(&how)?;
        if mend {
            // All is safe without it.
            let _ = volume.close();
        }
        Ok((done.again() + u64::from(root), done.findings.is_empty() && done.unnamed == 0))
    }

    /// What could be made again, and whether that is all that is wrong; `None`: it cannot be opened.
    fn scrubbed(&self, mend: bool) -> Outcome<Option<(u64, bool)>> {
        match self.scrub(mend) {
            Ok(done) => Ok(Some(done)),
            Err(ScrubError::Volume(error)) if !is_repaired(&error) => {
                Err(self.finder.failure(&error))
            }
            Err(_) => Ok(None),
        }
    }

    /// What is wrong with the volume and its base.
    fn check(&self) -> Outcome<Vec<String>> {
        let volume = open(&self.device, self.options(false));
        let volume = volume.map_err(|error| self.finder.failure(&error))?;
        let mut findings: Vec<_> = volume.check().iter().map(ToString::to_string).collect();
        if let Some(base) = volume.base() {
            findings.extend(base::scrub(&base, self.bases, &|_| true)?.findings);
        }
        Ok(findings)
    }

    /// Does what helps.
    fn treat(&self, wanted: Wanted) -> Outcome<Done> {
        let mut done = Done::default();
        let mut state = self.scrubbed(false)?;
        if !wanted.dry_run && state.is_none_or(|(again, _)| again > 0) {
            let before = state.map_or(0, |(again, _)| again);
            state = self.scrubbed(true)?.map(|(again, all)| (again.max(before), all));
        }
        let whole = state.is_some_and(|(again, whole)| {
            done.again = again;
            whole
        });
        if !whole {
            let (keep_older, drop_snapshots) = (wanted.keep_older, wanted.drop_snapshots);
            let how = Repairing { write: !wanted.dry_run, keep_older, drop_snapshots };
            let rebuilt = repair(&self.device, self.options(false), how);
            let rebuilt = rebuilt.map_err(|error| refused(self.path, &self.finder, error))?;
            done.rebuilt = Some(rebuilt);
        }
        if whole || !wanted.dry_run {
            done.findings = self.check()?;
        }
        Ok(done)
    }
}

fn refused(path: &Path, finder: &Finder, error: RepairError) -> Failure {
    let recover = "`esker recover` takes out what is left";
    match error {
        RepairError::Volume(error) => finder.failure(&error),
        RepairError::Snapshots(names) if names.is_empty() => {
            let what = "snapshots that there were, or may have been, are lost with the root";
            Failure::at(Exit::Damaged, what, path, "--drop-snapshots repairs it without them")
        }
        RepairError::Snapshots(names) => {
            let names: Vec<_> = names.iter().map(|name| shown(name)).collect();
            let what = format!("snapshots cannot be kept: {}", names.join(", "));
            Failure::at(Exit::Damaged, &what, path, "--drop-snapshots repairs it without them")
        }
        error @ RepairError::NoRoom => Failure::at(Exit::Failed, &error.to_string(), path, recover),
        error @ RepairError::Feature => {
            Failure::at(Exit::Source, &error.to_string(), path, recover)
        }
    }
}

/// Repairs a volume that nobody has mounted; its base may be among these.
pub fn run(path: &Path, bases: &[PathBuf], wanted: Wanted) -> Outcome<Done> {
    let patient = Patient::new(path, bases, !wanted.dry_run)?;
    let (meter, size) = (patient.device.meter(), patient.device.geometry().size);
    while_reading((&meter, size), || patient.treat(wanted))
}

impl Done {
    /// Nothing was wrong.
    pub const fn is_sound(&self) -> bool {
        self.is_kept() && self.findings.is_empty()
    }

    /// There was nothing that repairing helps against.
    const fn is_kept(&self) -> bool {
        self.again == 0 && self.rebuilt.is_none()
    }

    /// Whether anything that the volume held is not there as it was.
    pub fn has_losses(&self) -> bool {
        let lossy = |own: &Repaired| {
            let files = [own.found.older.len(), own.found.lost.len(), own.damaged.len()];
            let snapshots = own.gone.len() + own.hurt.len();
            own.found.has_gaps()
                || own.unknown_snapshots
                || own.settings_lost
                || files.iter().sum::<usize>() + snapshots > 0
        };
        !self.findings.is_empty() || self.rebuilt.as_ref().is_some_and(lossy)
    }

    /// For a machine.
    pub fn json(&self, path: &Path, wanted: Wanted) -> Value {
        let none = Repaired::default();
        let own = self.rebuilt.as_ref().unwrap_or(&none);
        let texts = |all: &[Vec<u8>]| all.iter().map(|text| shown(text)).collect::<Vec<_>>();
        let damaged = own.damaged.iter();
        let damaged = damaged.map(|(path, lost)| json!({ "path": shown(path), "lost": lost }));
        json!({
            "volume": path.to_string_lossy(),
            "sound": self.is_sound(),
            "written": !wanted.dry_run && !self.is_kept(),
            "made_again": self.again,
            "rebuilt": self.rebuilt.is_some(),
            "inodes": own.inodes,
            "blocks": own.blocks,
            "damaged": damaged.collect::<Vec<_>>(),
            "older": texts(&own.found.older),
            "lost": texts(&own.found.lost),
            "bare": texts(&own.found.bare),
            "nameless": own.found.nameless,
            "lost_commit": own.found.lost_commit,
            "lost_ranges": own.found.lost_ranges,
            "dropped_snapshots": texts(&own.gone),
            "damaged_snapshots": texts(&own.hurt),
            "unknown_snapshots": own.unknown_snapshots,
            "settings_lost": own.settings_lost,
            "findings": self.findings,
        })
    }

    /// For a person, a line for each thing.
    pub fn lines(&self, path: &Path, wanted: Wanted) -> Vec<String> {
        let path = path_shown(path);
        if self.is_sound() {
            return vec![format!("{path} is whole: there is nothing to repair")];
        }
        let mut lines = self.findings.clone();
        if let Some(own) = &self.rebuilt {
            let (older, lost) = (&own.found.older, &own.found.lost);
            let zeros = |(path, lost): &(Vec<u8>, u64)| {
                format!("{}: {} lost, zeros there", shown(path), size_shown(*lost))
            };
            lines.extend(own.damaged.iter().map(zeros));
            let told = |path: &Vec<u8>, what: &str| format!("{}: {what}", shown(path));
            lines.extend(older.iter().map(|path| told(path, "may be older than it was")));
            lines.extend(lost.iter().map(|path| told(path, "only the name was left")));
            let xattrs = "extended attributes may be lost";
            lines.extend(own.found.bare.iter().map(|path| told(path, xattrs)));
            lines.extend(own.gone.iter().map(|name| format!("snapshot {}: lost", shown(name))));
            let hurt = "bytes of its files are lost; --drop-snapshots would leave it out";
            lines.extend(own.hurt.iter().map(|name| format!("snapshot {}: {hurt}", shown(name))));
        }
        lines.push(self.words(&path, wanted));
        lines
    }

    fn words(&self, path: &str, wanted: Wanted) -> String {
        let (did, wrote) = match wanted.dry_run {
            true => ("could be made again", "would be written anew"),
            false => ("made again as they were", "written anew"),
        };
        let mut text = format!("{path}: {} pieces {did}", self.again);
        let Some(own) = &self.rebuilt else { return text };
        let _ = write!(
            text,
            "; tables {wrote}: {} inodes, {} blocks\n  {} files with lost bytes, {} may be older, \
             {} only a name, {} in lost+found",
            own.inodes,
            own.blocks,
            own.damaged.len(),
            own.found.older.len(),
            own.found.lost.len(),
            own.found.nameless
        );
        if let Some(lost) = own.found.lost_commit {
            let _ = write!(text, "\n  commits up to {lost} are lost in part");
        }
        if own.found.lost_ranges > 0 {
            let what = "extended attributes that they held are not there";
            let _ = write!(text, "\n  {} ranges of tables are lost: {what}", own.found.lost_ranges);
        }
        if own.unknown_snapshots {
            text += "\n  the newest root is lost, and with it how many snapshots there were";
        }
        if own.settings_lost {
            text +=
                "\n  no superblock is left: label, reserve and compression are as of a new volume";
        }
        text
    }
}

/// Whether an image begins here.
pub fn is_image(path: &Path) -> bool {
    let mut head = [0; 16];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut head, 0));
    read.is_ok() && head.starts_with(&MAGIC) && head.ends_with(&IMAGE.to_le_bytes())
}
