//! What to do to a file system. Each workload uses system calls alone, as any program would.

mod append;
mod dir;
mod io;
mod memory;
mod tree;

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::stats::{Sample, Unit};
use super::target::Target;
use crate::failure::{Exit, Failure, Outcome};

/// A workload by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Small files in one directory: create, look up, list, stat, remove.
    Dir,
    /// 4107 bytes at a time to the end of a file.
    Append,
    /// Sequential and random reads and writes.
    Io,
    /// A source tree: unpack, walk, build; a repository: clone.
    Tree,
    /// What the daemon holds in memory for what is stored.
    Memory,
}

impl Workload {
    /// All of them, in the order to run.
    pub const ALL: [Self; 5] = [Self::Dir, Self::Append, Self::Io, Self::Tree, Self::Memory];

    /// On the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dir => "dir",
            Self::Append => "append",
            Self::Io => "io",
            Self::Tree => "tree",
            Self::Memory => "memory",
        }
    }

    /// From the command line.
    pub fn parse(word: &str) -> Outcome<Self> {
        Self::ALL.into_iter().find(|workload| workload.name() == word).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Failure::new(
                Exit::Usage,
                format!("no such workload: {word}"),
                &format!("there are {names}"),
            )
        })
    }

    /// A server that remembers nothing cannot hold a tree, and memory is asked of daemons only.
    pub fn suits(self, target: &Target) -> bool {
        match self {
            Self::Dir | Self::Append | Self::Io => true,
            Self::Tree => !target.is_null(),
            Self::Memory => target.remembers(),
        }
    }

    /// Once, on one target.
    pub fn run(self, run: &mut Run<'_>) -> Outcome {
        let place = run.target.path().join(self.name());
        fs::create_dir(&place).map_err(|error| run.failure(self, &place, &error))?;
        let done = match self {
            Self::Dir => dir::run(run, &place),
            Self::Append => append::run(run, &place),
            Self::Io => io::run(run, &place),
            Self::Tree => tree::run(run, &place),
            Self::Memory => memory::run(run, &place),
        };
        done.map_err(|error| run.failure(self, &place, &error))?;
        fs::remove_dir_all(&place).map_err(|error| run.failure(self, &place, &error))
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

/// One workload on one target.
pub struct Run<'a> {
    /// Where it runs.
    pub target: &'a Target,
    /// How much.
    pub settings: &'a Settings,
    samples: Vec<Sample>,
}

impl<'a> Run<'a> {
    /// Nothing measured yet.
    pub const fn new(target: &'a Target, settings: &'a Settings) -> Self {
        Self { target, settings, samples: Vec::new() }
    }

    /// What was measured.
    pub fn into_samples(self) -> Vec<Sample> {
        self.samples
    }

    /// Takes a figure in.
    pub fn note(&mut self, row: impl Into<String>, unit: Unit, value: f64) {
        self.samples.push(Sample { row: row.into(), unit, value });
    }

    /// Times `count` operations.
    pub fn rate<T>(
        &mut self,
        row: impl Into<String>,
        count: u64,
        work: impl FnOnce() -> std::io::Result<T>,
    ) -> std::io::Result<T> {
        let begin = Instant::now();
        let done = work()?;
        #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
        self.note(row, Unit::PerSecond, count as f64 / begin.elapsed().as_secs_f64());
        Ok(done)
    }

    /// Times `bytes` moved.
    pub fn throughput<T>(
        &mut self,
        row: impl Into<String>,
        bytes: u64,
        work: impl FnOnce() -> std::io::Result<T>,
    ) -> std::io::Result<T> {
        let begin = Instant::now();
        let done = work()?;
        #[expect(clippy::cast_precision_loss, reason = "amounts stay far below 2^52")]
        let mib = bytes as f64 / f64::from(1 << 20);
        self.note(row, Unit::MibPerSecond, mib / begin.elapsed().as_secs_f64());
        Ok(done)
    }

    /// Times the whole.
    pub fn seconds<T>(
        &mut self,
        row: impl Into<String>,
        work: impl FnOnce() -> std::io::Result<T>,
    ) -> std::io::Result<T> {
        let begin = Instant::now();
        let done = work()?;
        self.note(row, Unit::Seconds, begin.elapsed().as_secs_f64());
        Ok(done)
    }

    fn failure(&self, workload: Workload, place: &Path, error: &std::io::Error) -> Failure {
        let what = format!("{workload} failed on {} ({error})", self.target.name());
        Failure::at(Exit::Failed, &what, place, "")
    }
}

/// Makes the kernel forget names and inodes; whether it could be asked to (only root may).
pub fn drop_names() -> bool {
    fs::write("/proc/sys/vm/drop_caches", "2").is_ok()
}

/// Makes the kernel forget what it read, too.
pub fn drop_pages() -> bool {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
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
