//! What a daemon holds in memory for what it was given, and after that was removed.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use esker::limits::RESTING_TICKS;

use super::super::stats::Unit;
use super::super::stop;
use super::{Run, Scatter, file_name, float, tree};

/// Files of the tree that stands for redis's sources where no archive is given.
const TREE_FILES: u64 = 1700;
const TREE_DIRS: u64 = 150;

/// What is stored each time.
struct Load {
    what: String,
    /// The unit in which memory is counted: bytes stored, or files.
    of: Of,
    fill: fn(&Run<'_>, &Path) -> io::Result<()>,
}

#[derive(Clone, Copy)]
enum Of {
    Bytes,
    Files(u64),
}

/// A source tree, many tiny files, one big file.
pub fn run(run: &mut Run<'_>, place: &Path) -> io::Result<()> {
    let count = run.settings.most_files();
    let tree = if run.settings.archive.is_some() { "the archive" } else { "a source tree" };
    let loads = [
        Load { what: tree.to_owned(), of: Of::Bytes, fill: sources },
        Load { what: "files of 4 bytes".to_owned(), of: Of::Files(count), fill: tiny },
        Load { what: "one file".to_owned(), of: Of::Bytes, fill: big },
    ];
    loads.iter().try_for_each(|load| load.measure(run, place))
}

impl Load {
    fn measure(&self, run: &mut Run<'_>, place: &Path) -> io::Result<()> {
        stop::check()?;
        let dir = place.join("load");
        let before = settled(run)?;
        fs::create_dir(&dir)?;
        (self.fill)(run, &dir)?;
        rustix::fs::syncfs(File::open(&dir)?)?;
        let full = settled(run)? - before;
        run.files = None;
        let what = &self.what;
        match self.of {
            Of::Bytes => {
                let stored = float(tree::walk(&dir)?);
                run.note(format!("{what}, bytes stored"), Unit::Bytes, stored);
                run.note(format!("{what}, memory for each byte"), Unit::Times, full / stored);
            }
            Of::Files(count) => {
                run.files = Some(count);
                run.note(format!("{what}, memory for each"), Unit::Bytes, full / float(count));
            }
        }
        fs::remove_dir_all(&dir)?;
        if full > LITTLE {
            sleep(RESTING);
        }
        let left = (settled(run)? - before).max(0.0);
        run.note(format!("{what}, memory left when removed"), Unit::Bytes, left);
        Ok(())
    }
}

/// A home may keep what was removed at hand for so long.
const RESTING: Duration = Duration::from_secs(RESTING_TICKS + 2);

/// Bytes for which nobody waits.
const LITTLE: f64 = (4 << 20) as f64;
/// Nor does it know at once that nobody asks for more.
const IDLE: Duration = Duration::from_millis(2500);

/// Memory of the daemon once it does not change any more: what is removed is given back a little later.
fn settled(run: &Run<'_>) -> io::Result<f64> {
    const STEPS: usize = 50;
    const STEP: Duration = Duration::from_millis(100);
    const STILL: u64 = 64 << 10;
    let resident = || run.target.resident().ok_or_else(|| io::Error::other("the daemon is gone"));
    sleep(IDLE);
    let mut last = resident()?;
    for _ in 0..STEPS {
        sleep(STEP);
        let now = resident()?;
        let change = last.abs_diff(now);
        last = now;
        if change <= STILL {
            break;
        }
    }
    Ok(float(last))
}

fn big(run: &Run<'_>, dir: &Path) -> io::Result<()> {
    let piece = vec![0x3c; 1 << 20];
    let mut file = File::create_new(dir.join("big"))?;
    for _ in 0..run.settings.bytes >> 20 {
        stop::check()?;
        file.write_all(&piece)?;
    }
    file.sync_all()
}

fn tiny(run: &Run<'_>, dir: &Path) -> io::Result<()> {
    for number in 0..run.settings.most_files() {
        stop::check()?;
        fs::write(dir.join(file_name(number)), b"four")?;
    }
    Ok(())
}

/// The archive, or a tree with as many files and bytes as redis's: sizes from 64 bytes to 64 KiB, each
/// power of two as often as the next.
fn sources(run: &Run<'_>, dir: &Path) -> io::Result<()> {
    if let Some(archive) = &run.settings.archive {
        return tree::unpack(archive, dir);
    }
    let mut scatter = Scatter::new(TREE_FILES);
    let bytes = vec![b'/'; 1 << 16];
    for number in 0..TREE_FILES {
        stop::check()?;
        let place = dir.join(format!("dir-{}", number % TREE_DIRS));
        if number < TREE_DIRS {
            fs::create_dir(&place)?;
        }
        let most = 1 << (6 + scatter.below(11));
        let len = usize::try_from(most / 2 + scatter.below(most / 2)).unwrap_or(0);
        fs::write(place.join(file_name(number)), &bytes[..len])?;
    }
    Ok(())
}
