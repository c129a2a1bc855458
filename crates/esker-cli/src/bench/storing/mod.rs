//! `esker bench volume`: what file systems write to a device, and in how many requests, for the same work.
//!
//! Above: `verbs::bench_volume`. Below: [`subject`] names a file system and makes it, [`disk`] counts, [`work`]
//! says what is measured, [`doing`] does it, [`data`] gives the bytes, [`table`] and [`dots`] show.
//! Invariant: every act is a mount of its own, and what is counted is all that the device saw from before that mount
//! until after the unmount, so that nothing can be put off past the count.

mod data;
mod disk;
mod doing;
pub mod dots;
mod latency;
mod mail;
mod subject;
pub mod table;
mod work;

use std::path::{Path, PathBuf};

use esker_volume::device::Traffic;

pub use data::{Data, next};
pub use disk::Disk;
pub use latency::Latency;
pub use subject::Subject;
pub use work::{Act, Work};

use super::spec::Spec;
use super::target::Target;
use super::{Tell, conditions, place, stop};
use crate::failure::{Exit, Failure, Outcome, said};
use crate::volumes::report::device_told;

/// What to do, on what.
pub struct Plan {
    /// In the order to run them.
    pub subjects: Vec<Subject>,
    /// In the order to do them, each on a fresh file system.
    pub works: Vec<Work>,
    /// What is written.
    pub data: Data,
    /// Where mount points are made.
    pub scratch: PathBuf,
    /// A block device that may be written over; `None`: a loop device over a file in `images`.
    pub device: Option<PathBuf>,
    /// Where the file behind a loop device is.
    pub images: PathBuf,
    /// Its bytes.
    pub size: u64,
    /// That file is in memory instead, and waits so many microseconds at each flush.
    pub slow: Option<u64>,
    /// Told with the figures: name and value.
    pub conditions: Vec<(String, String)>,
}

/// What an act cost.
pub struct Cost {
    /// As the kernel counts it at the device.
    pub traffic: Traffic,
    /// As the server counts what it asks of the device, if it is ours.
    pub own: Option<Traffic>,
    /// From before the mount until after the unmount.
    pub seconds: f64,
    /// Of those, what the work itself took.
    pub busy: f64,
    /// What writes took, where that was looked at.
    pub latency: Option<Latency>,
    /// How often it asked for all to be safe; the unmount is not counted.
    pub syncs: u64,
    /// Bytes that `df` says are taken, just before the unmount.
    pub used: u64,
}

/// An act of a work on a file system.
pub struct Row {
    pub work: Work,
    pub subject: Subject,
    pub acts: Vec<(Act, Cost)>,
}

/// All there is to tell about a run.
pub struct Report {
    pub conditions: Vec<(String, String)>,
    pub notes: Vec<String>,
    pub rows: Vec<Row>,
    pub is_complete: bool,
}

/// Runs a plan.
///
/// # Errors
/// What keeps all of it from being run; that one file system fails is told and noted.
pub fn run(plan: &Plan, tell: &mut dyn Tell) -> Outcome<Report> {
    stop::listen().map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot take signals: {}", said(&error)), "")
    })?;
    let place = place::Place::make(&plan.scratch)?;
    let disk = match (&plan.device, plan.slow) {
        (Some(device), _) => Disk::of(device)?,
        (None, Some(wait)) => Disk::slow(place.path(), plan.size, wait)?,
        (None, None) => Disk::over_a_file(&plan.images, plan.size)?,
    };
    let mut conditions = conditions::of_machine();
    conditions.extend(disk.conditions());
    conditions.extend(plan.conditions.iter().cloned());
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    let all = plan.works.len() * plan.subjects.len();
    for work in &plan.works {
        for subject in &plan.subjects {
            tell.step(rows.len() + notes.len(), all, &format!("{work} on {subject}"));
            match row(work, subject, &disk, plan.data, place.path()) {
                Ok(row) => rows.push(row),
                Err(_) if stop::asked() => {
                    return Err(Failure::new(Exit::Failed, "stopped by a signal", ""));
                }
                Err(failure) => {
                    let note = format!("{work} on {subject} left out ({})", failure.text);
                    tell.note(&note);
                    notes.push(note);
                }
            }
        }
    }
    if rows.is_empty() {
        return Err(Failure::new(Exit::Failed, "nothing was measured", "see above"));
    }
    Ok(Report { conditions, is_complete: notes.is_empty(), notes, rows })
}

/// All acts of a work on a fresh file system.
fn row(work: &Work, subject: &Subject, disk: &Disk, data: Data, place: &Path) -> Outcome<Row> {
    subject.make(disk.path())?;
    let mut acts = Vec::new();
    for act in work.acts() {
        let cost = cost(work, act, &subject.mounted(disk.path()), disk, data, place)?;
        if act.is_told() {
            acts.push((act, cost));
        }
    }
    Ok(Row { work: work.clone(), subject: subject.clone(), acts })
}

/// One act, with a mount of its own.
fn cost(
    work: &Work,
    act: Act,
    spec: &Spec,
    disk: &Disk,
    data: Data,
    place: &Path,
) -> Outcome<Cost> {
    let before = disk.settled()?;
    let begin = std::time::Instant::now();
    let target = Target::start(spec, "it", &place.join("mnt"))?;
    let at_work = std::time::Instant::now();
    let done = doing::run(work, act, data, target.path()).map_err(|error| {
        let words =
            target.last_words().map_or(String::new(), |words| format!("; it said: {words}"));
        Failure::new(Exit::Failed, format!("{act} failed: {}{words}", said(&error)), "")
    })?;
    let busy = at_work.elapsed().as_secs_f64();
    let own = device_told(&target.stop()?["stats"]["device"]);
    let seconds = begin.elapsed().as_secs_f64();
    let traffic = disk.settled()?.since(&before);
    let doing::Done { syncs, used, latency } = done;
    Ok(Cost { traffic, own, seconds, busy, syncs, used, latency })
}
