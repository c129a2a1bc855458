//! What to do to a file system, one workload per file; `Files` lets most of them run in process, too.

mod append;
mod clients;
mod dir;
mod fio;
mod library;
mod memory;
pub mod tree;

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use super::files::{Files as _, Kernel};
use super::stats::{Sample, Unit};
use super::stop;
use super::target::Target;
use crate::failure::{Exit, Failure, Outcome, said, shown};
use crate::near::nearest;

/// A workload by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Small files in one directory: create, look up, list, stat, remove.
    Dir,
    /// 4107 bytes at a time to the end of a file.
    Append,
    /// Sequential and random reads and writes.
    Fio,
    /// A source tree: unpack, walk, build; a repository: clone.
    Tree,
    /// What the daemon holds in memory for what is stored.
    Memory,
    /// Programs on the same CPU and on two.
    Clients,
    /// Esker's own calls, on one thread and on two.
    Library,
}

impl Workload {
    /// All of them, in the order to run.
    pub const ALL: [Self; 7] = [
        Self::Dir,
        Self::Append,
        Self::Fio,
        Self::Tree,
        Self::Memory,
        Self::Clients,
        Self::Library,
    ];

    /// On the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dir => "dir",
            Self::Append => "append",
            Self::Fio => "fio",
            Self::Tree => "tree",
            Self::Memory => "memory",
            Self::Clients => "clients",
            Self::Library => "library",
        }
    }

    /// From the command line.
    pub fn parse(word: &str) -> Outcome<Self> {
        Self::ALL.into_iter().find(|workload| workload.name() == word).ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            let near = nearest(word, &names);
            let near = near.map_or(String::new(), |near| format!(" (did you mean {near}?)"));
            let what = format!("no such workload: {}{near}", shown(word.as_bytes()));
            Failure::new(Exit::Usage, what, &format!("there are {}", names.join(", ")))
        })
    }

    /// How many bytes counts for it.
    pub const fn moves_bytes(self) -> bool {
        matches!(self, Self::Append | Self::Fio | Self::Memory)
    }

    /// Why it cannot run there, if it cannot.
    pub fn misfit(self, target: &Target) -> Option<&'static str> {
        let in_process = target.ground().is_err();
        match self {
            Self::Dir | Self::Append | Self::Fio => None,
            Self::Library => (!in_process).then_some("it calls Esker in process"),
            Self::Tree | Self::Clients if in_process => Some("programs need a mount"),
            Self::Tree => (!target.remembers()).then_some("it has to hold what it is given"),
            Self::Memory => (!target.is_served() || !target.remembers())
                .then_some("it asks what a daemon of Esker's holds"),
            Self::Clients => None,
        }
    }

    /// Once, on one target. Whatever it leaves behind where it fails is removed.
    pub fn run(self, run: &mut Run<'_>) -> io::Result<()> {
        match run.target.ground() {
            Ok(top) => self.run_in_kernel(run, &top),
            Err(top) => {
                let place = top.make_dir(self.name())?;
                match self {
                    Self::Append => append::run(run, &place)?,
                    Self::Fio => fio::run(run, &place)?,
                    Self::Library => library::run(run, &place)?,
                    _ => dir::run(run, &place)?,
                }
                top.remove_dir(self.name())
            }
        }
    }

    fn run_in_kernel(self, run: &mut Run<'_>, top: &Kernel) -> io::Result<()> {
        let place = top.make_dir(self.name())?;
        let done = match self {
            Self::Append => append::run(run, &place),
            Self::Fio => fio::run(run, &place),
            Self::Tree => tree::run(run, place.path()),
            Self::Memory => memory::run(run, place.path()),
            Self::Clients => clients::run(run, &place),
            Self::Dir | Self::Library => dir::run(run, &place),
        };
        let removed = std::fs::remove_dir_all(place.path());
        done.and(removed)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How much of everything.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Files in the directory, each size a run of its own.
    pub files: Vec<u64>,
    /// Bytes to append, to read and to write.
    pub bytes: u64,
    /// A tar archive to unpack and walk.
    pub archive: Option<PathBuf>,
    /// A shell command that builds what was unpacked, run in its top directory.
    pub build: Option<String>,
    /// A git repository to clone.
    pub repository: Option<PathBuf>,
}

impl Settings {
    /// The largest directory asked for.
    pub fn most_files(&self) -> u64 {
        self.files.iter().copied().max().unwrap_or(1)
    }
}

/// One workload on one target.
pub struct Run<'a> {
    /// Where it runs.
    pub target: &'a Target,
    /// How much.
    pub settings: &'a Settings,
    /// Among how many files what is measured next happens, where that is varied.
    pub files: Option<u64>,
    samples: Vec<Sample>,
}

impl<'a> Run<'a> {
    /// Nothing measured yet.
    pub const fn new(target: &'a Target, settings: &'a Settings) -> Self {
        Self { target, settings, files: None, samples: Vec::new() }
    }

    /// What was measured.
    pub fn into_samples(self) -> Vec<Sample> {
        self.samples
    }

    /// Takes a figure in.
    pub fn note(&mut self, row: impl Into<String>, unit: Unit, value: f64) {
        self.samples.push(Sample { row: row.into(), files: self.files, unit, value });
    }

    /// Times `count` operations.
    pub fn rate(
        &mut self,
        row: impl Into<String>,
        count: u64,
        work: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let seconds = timed(work)?;
        self.note(row, Unit::PerSecond, float(count) / seconds);
        Ok(())
    }

    /// Times `bytes` moved.
    pub fn throughput(
        &mut self,
        row: impl Into<String>,
        bytes: u64,
        work: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let seconds = timed(work)?;
        self.note(row, Unit::MibPerSecond, float(bytes) / float(1 << 20) / seconds);
        Ok(())
    }

    /// Times the whole.
    pub fn seconds(
        &mut self,
        row: impl Into<String>,
        work: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let seconds = timed(work)?;
        self.note(row, Unit::Seconds, seconds);
        Ok(())
    }
}

fn timed(work: impl FnOnce() -> io::Result<()>) -> io::Result<f64> {
    stop::check()?;
    let begin = Instant::now();
    work()?;
    Ok(begin.elapsed().as_secs_f64())
}

/// An amount to calculate with.
#[expect(clippy::cast_precision_loss, reason = "amounts stay far below 2^52")]
pub fn float(amount: u64) -> f64 {
    amount as f64
}

/// The name of a small file.
pub fn file_name(number: u64) -> String {
    format!("file-{number:07}")
}

/// The same work for each job, each in a thread of its own, all at once.
pub fn by_all<T: Send>(
    jobs: &mut [T],
    work: impl Fn(&mut T) -> io::Result<()> + Sync,
) -> io::Result<()> {
    thread::scope(|scope| {
        let work = &work;
        let jobs: Vec<_> = jobs.iter_mut().map(|job| scope.spawn(move || work(job))).collect();
        jobs.into_iter().try_for_each(|job| {
            job.join().unwrap_or_else(|_| Err(io::Error::other("a job of the benchmark panicked")))
        })
    })
}

/// Runs a program to its end; an error holds what it said last.
pub fn command(program: &str, with: impl FnOnce(&mut Command) -> &mut Command) -> io::Result<()> {
    let mut command = Command::new(program);
    with(&mut command).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let output = stop::run(&mut command).map_err(|error| {
        io::Error::other(format!("cannot run {program} to its end: {}", said(&error)))
    })?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let mut last: Vec<&str> = text.lines().rev().take(3).collect();
    last.reverse();
    Err(io::Error::other(format!("{program} failed: {}", shown(last.join(" | ").as_bytes()))))
}

/// Numbers that look random and are the same every time (Weyl sequence and a finaliser).
pub struct Scatter(u64);

impl Scatter {
    /// From a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Below `end`.
    pub const fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 27)) % end
    }
}
