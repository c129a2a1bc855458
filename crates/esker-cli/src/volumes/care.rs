//! Reading everything in a volume, for verbs and for the server of a mount: scrubbing it, and checking it while others
//! write. A server does that in a thread of its own, and tells how far it is.
//!
//! Above: `verbs::scrub`, `verbs::check`, `desk`. Below: `esker-volume`. Invariant: there is at most one such thread
//! of a mount; who asks for what is under way joins it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::{self, JoinHandle};

use esker_volume::device::Device;
use esker_volume::scrub::{ScrubError, Scrubbed, Scrubbing};
use esker_volume::{Finding, Volume};
use serde_json::{Value, json};

use super::ask::refusal;
use super::base::{self, Checked};
use super::pacer::Pacer;
use super::{Writable, failure};
use crate::failure::{Exit, Failure, Outcome, shown};

/// Bytes of findings, or of paths, that one answer holds.
pub const TEXTS_LEN_MAX: usize = 2 << 20;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Read everything, and make again what can be.
    Scrub {
        /// Bytes a second.
        rate: Option<u64>,
        /// Only say what is damaged.
        dry_run: bool,
        /// Not from where an earlier one stopped.
        restart: bool,
    },
    /// Read everything, and count it again.
    Check,
}

impl Work {
    const fn name(self) -> &'static str {
        match self {
            Self::Scrub { .. } => "scrub",
            Self::Check => "check",
        }
    }

    const fn rate(self) -> Option<u64> {
        match self {
            Self::Scrub { rate, .. } => rate,
            Self::Check => None,
        }
    }

    /// As the server of a mount is asked to begin it.
    pub fn message(self) -> Value {
        let own = match self {
            Self::Scrub { rate, dry_run, restart } => {
                json!({ "do": "scrub", "rate": rate, "dry_run": dry_run, "restart": restart })
            }
            Self::Check => json!({ "do": "check" }),
        };
        json!({ "care": own })
    }

    fn read(own: &Value) -> Option<Self> {
        let (rate, is) = (own["rate"].as_u64().filter(|&rate| rate > 0), |key| own[key] == true);
        match own["do"].as_str()? {
            "scrub" => Some(Self::Scrub { rate, dry_run: is("dry_run"), restart: is("restart") }),
            "check" => Some(Self::Check),
            _ => None,
        }
    }
}

/// Asks the server of a mount how far it is.
pub fn look() -> Value {
    json!({ "care": { "do": "look" } })
}

/// Asks it to stop.
pub fn stop() -> Value {
    json!({ "care": { "do": "stop" } })
}

fn busy(path: &Path) -> Failure {
    let what = "others write so much that there is no room to keep what is looked at";
    Failure::at(Exit::Failed, what, path, "try when less is written, or unmount it")
}

/// Bytes that scrubbing reads in about, those of the base too.
pub fn len<D: Device>(volume: &Volume<D>) -> u64 {
    volume.scrub_len().saturating_add(volume.base().as_ref().map_or(0, base::len))
}

/// Scrubs, and reads the base below, which may be among these; what came of it.
pub fn scrub<D: Device>(
    (volume, path, bases): (&Volume<D>, &Path, &[PathBuf]),
    (dry_run, restart): (bool, bool),
    pacer: &Pacer,
) -> Outcome<Value> {
    let pace = |len| pacer.pace(len);
    let how = Scrubbing { pace: &pace, mend: !dry_run, restart: restart || dry_run };
    match volume.scrub(&how) {
        Ok(mut done) => {
            let base = volume.base().filter(|_| !done.stopped);
            let found = base.map(|base| base::scrub(&base, bases, &pace)).transpose()?;
            done.stopped |= found.as_ref().is_some_and(|found| found.stopped);
            Ok(scrubbed(&done, found.unwrap_or_default(), (path, dry_run)))
        }
        Err(ScrubError::NoRoom) => Err(busy(path)),
        Err(ScrubError::Volume(error)) => Err(failure(path, &error)),
    }
}

/// As many as an answer has room for, and how many there are besides.
fn some(texts: impl Iterator<Item = String>) -> (Vec<String>, u64) {
    let (mut all, mut len, mut more) = (Vec::new(), 0, 0);
    for text in texts {
        len += text.len();
        if len > TEXTS_LEN_MAX {
            more += 1;
        } else {
            all.push(text);
        }
    }
    (all, more)
}

/// What is said of blocks that were lost before a volume was repaired.
pub fn lost_shown(blocks: u64) -> Option<String> {
    let what = "lost since it was repaired: to read them fails, deleting those snapshots ends it";
    (blocks > 0).then(|| format!("  {blocks} blocks of files in snapshots are {what}"))
}

fn texts(findings: &[Finding]) -> (Vec<String>, u64) {
    some(findings.iter().map(ToString::to_string))
}

fn scrubbed(done: &Scrubbed, base: Checked, (path, dry_run): (&Path, bool)) -> Value {
    let file = |(path, snapshot): &(Vec<u8>, Option<Vec<u8>>)| match snapshot {
        Some(name) => format!("{} in {}", shown(path), shown(name)),
        None => shown(path),
    };
    let own = done.findings.iter().map(ToString::to_string);
    let ((findings, unlisted), (files, unlisted_files)) =
        (some(own.chain(base.findings)), some(done.files.iter().map(file)));
    json!({
        "volume": path.to_string_lossy(),
        "parts": done.parts,
        "damaged_parts": done.mended,
        "damaged_parity": done.parity,
        "damaged_superblocks": done.superblocks,
        "damaged_logs": done.logs,
        "blocks": done.blocks,
        "lost_blocks": done.lost,
        "base_blocks": base.blocks,
        "written": !dry_run,
        "resumed": done.resumed,
        "stopped": done.stopped,
        "findings": findings,
        "unlisted": unlisted + done.unnamed,
        "files": files,
        "unlisted_files": unlisted_files,
    })
}

fn checked<D: Device>(volume: &Volume<D>, path: &Path, pacer: &Pacer) -> Outcome<Value> {
    let findings = volume.check_moment(&|len| pacer.pace(len)).map_err(|_| busy(path))?;
    let (findings, unlisted) = texts(&findings);
    let lost = volume.lost_blocks().unwrap_or(0);
    Ok(json!({
        "volume": path.to_string_lossy(),
        "findings": findings,
        "unlisted": unlisted,
        "lost_blocks": lost,
    }))
}

/// What a thread does, or did.
struct Job {
    work: Work,
    pacer: Pacer,
    /// Bytes that it reads in about.
    len: AtomicU64,
    done: Mutex<Option<Value>>,
}

impl Job {
    fn done(&self) -> Option<Value> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn run(&self, fs: &Weak<Writable>, path: &Path) {
        let gone = || Failure::at(Exit::Failed, "not mounted any more", path, "");
        let outcome = fs.upgrade().ok_or_else(gone).and_then(|fs| {
            let volume = fs.store().volume();
            self.len.store(len(volume), Ordering::Relaxed);
            match self.work {
                Work::Scrub { dry_run, restart, .. } => {
                    scrub((volume, path, &[]), (dry_run, restart), &self.pacer)
                }
                Work::Check => checked(volume, path, &self.pacer),
            }
        });
        self.end(outcome.unwrap_or_else(|failure| refusal(&failure)));
    }

    fn end(&self, answer: Value) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(answer);
    }
}

/// The thread of a mount.
pub struct Care {
    fs: Weak<Writable>,
    path: PathBuf,
    job: Mutex<Option<Arc<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Care {
    /// Of this mount.
    pub fn new(fs: &Arc<Writable>, path: &Path) -> Self {
        Self {
            fs: Arc::downgrade(fs),
            path: path.to_owned(),
            job: Mutex::default(),
            thread: Mutex::default(),
        }
    }

    /// Begins what is asked for, tells how far it is, or stops it.
    pub fn answer(&self, own: &Value) -> Outcome<Value> {
        let mut job = self.job.lock().unwrap_or_else(PoisonError::into_inner);
        match own["do"].as_str() {
            Some("look") => Ok(job.as_ref().map_or(Value::Null, |job| how_far(job))),
            Some("stop") => {
                job.iter().for_each(|job| job.pacer.stop());
                Ok(json!({ "stopping": job.is_some() }))
            }
            _ => {
                let unknown = || Failure::new(Exit::Usage, "an unknown request", "");
                let work = Work::read(own).ok_or_else(unknown)?;
                self.begin(work, &mut job)
            }
        }
    }

    fn begin(&self, work: Work, job: &mut Option<Arc<Job>>) -> Outcome<Value> {
        if let Some(job) = job.as_ref().filter(|job| job.done().is_none()) {
            if job.work.name() == work.name() {
                return Ok(json!({ "joined": true }));
            }
            let what = format!("a {} is under way", job.work.name());
            return Err(Failure::at(Exit::Failed, &what, &self.path, "wait until it is done"));
        }
        let new = Arc::new(Job {
            work,
            pacer: Pacer::new(work.rate(), Arc::default()),
            len: AtomicU64::new(0),
            done: Mutex::new(None),
        });
        let (fs, path, own) = (Weak::clone(&self.fs), self.path.clone(), Arc::clone(&new));
        let thread = thread::Builder::new().name("esker-care".to_owned());
        let started = thread.spawn(move || {
            let run = || own.run(&fs, &path);
            if catch_unwind(AssertUnwindSafe(run)).is_err() {
                own.end(refusal(&Failure::at(Exit::Failed, "the server failed", &path, "")));
            }
        });
        let started = started.map_err(|error| Failure::no_thread(&error))?;
        *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(started);
        *job = Some(new);
        Ok(json!({ "joined": false }))
    }

    /// What is under way ends, and it is written how far it got.
    pub fn end(&self) {
        let job = self.job.lock().unwrap_or_else(PoisonError::into_inner);
        job.iter().for_each(|job| job.pacer.stop());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // If it panicked, there is nothing to wait for.
        let _ = thread.map(JoinHandle::join);
    }
}

fn how_far(job: &Job) -> Value {
    json!({
        "work": job.work.name(),
        "read": job.pacer.read(),
        "of": job.len.load(Ordering::Relaxed),
        "done": job.done(),
    })
}
