//! Random work on two files against what they should hold: reads, writes, mmap, truncate, holes, copies.
//!
//! Above: the binary `esker-fsx` and the tests. Below: [`work`], the operations, and [`map`], shared mappings.
//! Invariant: the same seed does the same work on every file system; the first byte that is wrong stops it.

mod map;
mod work;

use std::collections::VecDeque;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use crate::chance::Chance;
pub use work::Work;

/// What to do, and how much of it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the two files are made.
    pub folder: PathBuf,
    /// Of the chance.
    pub seed: u64,
    /// Operations.
    pub count: u64,
    /// Largest size of each file, in bytes.
    pub size_max: u64,
    /// Longest operation, in bytes.
    pub len_max: u64,
}

impl Plan {
    /// The usual sizes, which cross pages and extents often.
    #[must_use]
    pub fn new(folder: &Path, seed: u64, count: u64) -> Self {
        Self { folder: folder.to_owned(), seed, count, size_max: 256 << 10, len_max: 64 << 10 }
    }
}

/// One file and what it should hold.
struct Shadowed {
    path: PathBuf,
    file: File,
    bytes: Vec<u8>,
}

impl Shadowed {
    fn new(path: PathBuf) -> Result<Self, String> {
        let _ = std::fs::remove_file(&path);
        let file = open(&path, true)?;
        Ok(Self { path, file, bytes: Vec::new() })
    }
}

fn open(path: &Path, new: bool) -> Result<File, String> {
    let opened = OpenOptions::new().read(true).write(true).create_new(new).open(path);
    opened.map_err(|error| format!("{}: {error}", path.display()))
}

/// How often each kind of work was done.
#[derive(Clone, Debug, Default)]
pub struct Tally([u64; Work::KINDS.len()]);

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, count)) in Work::KINDS.iter().zip(self.0).enumerate() {
            write!(f, "{}{name} {count}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// The last of what was done, kept for the story of a failure.
const LAST_MAX: usize = 40;

struct Run {
    files: [Shadowed; 2],
    chance: Chance,
    size_max: u64,
    len_max: u64,
    /// Kinds of work that this file system refused the first time.
    refused: Vec<&'static str>,
}

/// Does the work; the files are removed if all went well.
///
/// # Errors
/// What was wrong, with the seed and the last operations.
pub fn run(plan: &Plan) -> Result<Tally, String> {
    let path = |name: &str| plan.folder.join(format!("fsx-{:x}-{name}", plan.seed));
    let mut run = Run {
        files: [Shadowed::new(path("a"))?, Shadowed::new(path("b"))?],
        chance: Chance::new(plan.seed),
        size_max: plan.size_max,
        len_max: plan.len_max,
        refused: Vec::new(),
    };
    let mut last = VecDeque::new();
    let mut tally = Tally::default();
    for index in 0..plan.count {
        let (which, work) = run.choose();
        if last.len() == LAST_MAX {
            last.pop_front();
        }
        last.push_back((index, which, work));
        tally.0[work.kind()] += 1;
        run.work(which, work).map_err(|why| story(plan, &why, &last))?;
    }
    for which in 0..2 {
        run.work(which, Work::Reopen).map_err(|why| story(plan, &why, &last))?;
        let _ = std::fs::remove_file(&run.files[which].path);
    }
    Ok(tally)
}

fn story(plan: &Plan, why: &str, last: &VecDeque<(u64, usize, Work)>) -> String {
    let mut story = format!("seed {:#x}: {why}\nthe last operations:\n", plan.seed);
    for (index, which, work) in last {
        story.push_str(&format!("{index:>9} {} {work:?}\n", ["a", "b"][*which]));
    }
    let Plan { folder, count, size_max, len_max, .. } = plan;
    story.push_str(&format!(
        "replay: esker-fsx --seed {:#x} --count {count} --size {size_max} --length {len_max} {}\n",
        plan.seed,
        folder.display()
    ));
    story
}
