//! Sequential and random reads and writes, by one job and by four.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use super::{Run, Scatter, drop_pages};

const PIECES: [usize; 3] = [4 << 10, 128 << 10, 1 << 20];

/// Every size of piece, by one job and by four; a random row moves a quarter of the bytes.
pub fn run(run: &mut Run<'_>, place: &Path) -> io::Result<()> {
    for jobs in [1_u64, 4] {
        for piece in PIECES {
            measure(run, place, jobs, piece)?;
        }
    }
    Ok(())
}

fn measure(run: &mut Run<'_>, place: &Path, jobs: u64, piece: usize) -> io::Result<()> {
    let each = run.settings.bytes / jobs / piece as u64 * piece as u64;
    let paths: Vec<PathBuf> = (0..jobs).map(|job| place.join(format!("job-{job}"))).collect();
    let label = |what: &str| {
        format!("{what} {}K, {jobs} job{}", piece >> 10, if jobs > 1 { "s" } else { "" })
    };
    let all = each * jobs;
    run.throughput(label("write"), all, || {
        by_all(&paths, |path, _| write_through(&create(path)?, each, piece, None))
    })?;
    run.throughput(label("random write"), all / 4, || {
        by_all(&paths, |path, job| {
            write_through(&rewrite(path)?, each, piece, Some(Scatter::new(job)))
        })
    })?;
    if drop_pages() {
        run.throughput(label("read"), all, || {
            by_all(&paths, |path, _| read_through(&File::open(path)?, each, piece, None))
        })?;
        drop_pages();
        run.throughput(label("random read"), all / 4, || {
            by_all(&paths, |path, job| {
                read_through(&File::open(path)?, each, piece, Some(Scatter::new(job)))
            })
        })?;
    }
    paths.iter().try_for_each(fs::remove_file)
}

fn by_all(paths: &[PathBuf], work: impl Fn(&Path, u64) -> io::Result<()> + Sync) -> io::Result<()> {
    thread::scope(|scope| {
        let work = &work;
        let jobs = paths.iter().zip(0..).map(|(path, job)| scope.spawn(move || work(path, job)));
        let jobs: Vec<_> = jobs.collect();
        jobs.into_iter().try_for_each(|job| {
            job.join().unwrap_or_else(|_| Err(io::Error::other("a job of the benchmark panicked")))
        })
    })
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path)
}

fn rewrite(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

/// Offsets in order, or a quarter of them scattered.
fn offsets(bytes: u64, piece: usize, scatter: Option<Scatter>) -> Vec<u64> {
    let pieces = bytes / piece as u64;
    match scatter {
        None => (0..pieces).map(|number| number * piece as u64).collect(),
        Some(mut scatter) => {
            (0..pieces / 4).map(|_| scatter.below(pieces) * piece as u64).collect()
        }
    }
}

fn write_through(
    file: &File,
    bytes: u64,
    piece: usize,
    scatter: Option<Scatter>,
) -> io::Result<()> {
    let source = vec![0xa5; piece];
    offsets(bytes, piece, scatter).into_iter().try_for_each(|at| file.write_all_at(&source, at))
}

fn read_through(file: &File, bytes: u64, piece: usize, scatter: Option<Scatter>) -> io::Result<()> {
    let mut target = vec![0; piece];
    offsets(bytes, piece, scatter)
        .into_iter()
        .try_for_each(|at| file.read_exact_at(&mut target, at))
}
