//! The base image of a volume: found where the volume was told that it is, beside the volume, or where somebody says.
//!
//! Above: `volumes`, `verbs::mkfs`, `verbs::recover`. Below: `images`. Invariant: an image is taken for the base only
//! by its hash; why there is none is told by name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use esker_image::{Depth, Finding, verify_while};
use esker_stone::cache::Cache;
use esker_stone::hex;
use esker_volume::limits::BASE_PATH_MAX;
use esker_volume::{Base, Bases, Below, Error, NoBase};

use super::failure;
use crate::failure::{Exit, Failure, Outcome, path_shown};
use crate::images::{self, Begin};
use crate::log;

/// Where the base of a volume may be, for verbs.
#[derive(Args, Clone, Debug, Default)]
pub struct Given {
    /// Where the image is that the volume lies on, if it is neither where it was nor beside the volume
    #[arg(long = "base", value_name = "IMAGE")]
    pub bases: Vec<PathBuf>,
}

/// Finds the base of a volume.
pub struct Finder {
    volume: PathBuf,
    /// Where somebody says that it may be.
    given: Vec<PathBuf>,
    cache: Arc<Cache>,
    /// Why there is none.
    why: Mutex<Option<Failure>>,
}

impl Finder {
    /// For this volume.
    pub fn new(volume: &Path, given: &[PathBuf], cache: &Arc<Cache>) -> Arc<Self> {
        let (volume, given, cache) = (volume.to_owned(), given.to_vec(), Arc::clone(cache));
        Arc::new(Self { volume, given, cache, why: Mutex::default() })
    }

    /// What is wrong with the volume, for a person.
    pub fn failure(&self, error: &Error) -> Failure {
        let why = self.why.lock().unwrap_or_else(PoisonError::into_inner).take();
        match (error, why) {
            (Error::Base(NoBase::Missing), Some(why)) => why,
            _ => failure(&self.volume, error),
        }
    }

    fn look(&self, base: &Base) -> Outcome<Below> {
        let files = images::base_files(&self.volume, slice::from_ref(base), &self.given);
        let files = files.map_err(|mut failure| {
            failure.text += "; `esker tune --base` tells the volume for good";
            failure
        })?;
        let file = files.first().map_or(self.volume.as_path(), PathBuf::as_path);
        below(file, &self.given, &self.cache)
    }
}

impl Bases for Finder {
    fn find(&self, base: &Base) -> Option<Below> {
        let found = self.look(base);
        found
            .map_err(|failure| {
                *self.why.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
            })
            .ok()
    }
}

/// An image that a volume is to lie on.
pub fn below(file: &Path, given: &[PathBuf], cache: &Arc<Cache>) -> Outcome<Below> {
    let image = images::open_with(file, Begin(None), given, cache)?;
    let name = path_shown(file);
    image.tell_damage(move |what| log::tell(&format!("{name}: {what}")));
    let whole = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    // A path that is too long to be told: it is looked for beside the volume.
    let short = whole.as_os_str().len() <= BASE_PATH_MAX;
    let told = if short { whole.as_os_str() } else { file.file_name().unwrap_or_default() };
    let base = Base { name: image.name(), file: told.as_bytes().to_vec() };
    Ok(Below { base, view: Arc::new(image) })
}

/// Where a base was found last.
pub fn path(base: &Base) -> PathBuf {
    OsStr::from_bytes(&base.file).into()
}

/// What came of reading all of a base.
#[derive(Default)]
pub struct Checked {
    /// Blocks that were read.
    pub blocks: u64,
    /// What is wrong, with the name of the image.
    pub findings: Vec<String>,
    /// `pace` wanted no more.
    pub stopped: bool,
}

/// Bytes of the image that a volume lies on, where it was found.
pub fn len(base: &Base) -> u64 {
    path(base).metadata().map_or(0, |meta| meta.len())
}

/// Reads all of the image that a volume lies on, where it was found, as long as `pace` says of so many bytes that they
/// may be read.
pub fn scrub(base: &Base, given: &[PathBuf], pace: &dyn Fn(usize) -> bool) -> Outcome<Checked> {
    let file = path(base);
    let image = images::open_with(&file, Begin(None), given, &images::cache())?;
    let (mut read, mut goes_on) = (0, true);
    let report = verify_while(&image, Depth::Plain, &mut |report| {
        let len = usize::try_from(report.bytes - read).unwrap_or(usize::MAX);
        (read, goes_on) = (report.bytes, pace(len));
        goes_on
    });
    let (name, hash) = (path_shown(&file), hex(&base.name));
    let told = |finding: &Finding| {
        let thing = images::thing_shown(&finding.thing);
        format!("the base image {name} ({hash}): {thing}: {}", finding.error)
    };
    let findings = report.findings.iter().map(told).collect();
    Ok(Checked { blocks: report.blocks, findings, stopped: !goes_on })
}

/// What to do about a volume of which only a part was laid over its base.
pub fn unfinished(volume: &Path) -> Failure {
    let what = "making the volume over its base was cut short: nothing was ever in it but that";
    Failure::at(Exit::Damaged, what, volume, "make it again: `esker mkfs --force --base`")
}
