//! Sequential and random reads and writes, by one job and by four, as fio(1) does them with `end_fsync`: the
//! clock stops when written bytes are where they stay, and reads begin without cached pages.

use std::io;

use super::super::files::Files;
use super::super::stop;
use super::{Run, Scatter, by_all};

const PIECES: [usize; 3] = [4 << 10, 128 << 10, 1 << 20];

/// One of the programs that read and write at the same time.
struct Job {
    name: String,
    seed: u64,
}

/// What each job does.
#[derive(Clone, Copy)]
struct Task {
    /// Bytes of each job's file.
    len: u64,
    /// Bytes at once.
    piece: usize,
    /// A quarter of the pieces in random places, not all of them in order.
    random: bool,
}

impl Task {
    fn offsets(self, job: &Job) -> impl Iterator<Item = u64> {
        let pieces = self.len / self.piece as u64;
        let mut scatter = Scatter::new(job.seed);
        let number = move |number| if self.random { scatter.below(pieces) } else { number };
        (0..self.count()).map(number).map(move |number| number * self.piece as u64)
    }

    fn count(self) -> u64 {
        let pieces = self.len / self.piece as u64;
        if self.random { (pieces / 4).max(1) } else { pieces }
    }

    const fn random(self) -> Self {
        Self { random: true, ..self }
    }
}

/// Every size of piece, by one job and by four.
pub fn run<F: Files>(run: &mut Run<'_>, place: &F) -> io::Result<()> {
    for jobs in [1, 4] {
        for piece in PIECES {
            let len = run.settings.bytes / jobs / piece as u64 * piece as u64;
            measure(run, place, jobs, Task { len, piece, random: false })?;
        }
    }
    Ok(())
}

fn measure<F: Files>(run: &mut Run<'_>, place: &F, count: u64, task: Task) -> io::Result<()> {
    let mut jobs: Vec<Job> =
        (0..count).map(|seed| Job { name: format!("job-{seed}"), seed }).collect();
    let plural = if count > 1 { "s" } else { "" };
    let label = |what: &str| format!("{what} {}K, {count} job{plural}", task.piece >> 10);
    let bytes = |task: Task| task.count() * task.piece as u64 * count;
    run.throughput(label("write"), bytes(task), || {
        by_all(&mut jobs, |job| write(place, &place.create(&job.name, false)?, job, task))
    })?;
    let random = task.random();
    run.throughput(label("random write"), bytes(random), || {
        by_all(&mut jobs, |job| write(place, &place.open(&job.name)?, job, random))
    })?;
    for (what, task) in [("read", task), ("random read", random)] {
        if place.is_fresh() {
            run.throughput(label(what), bytes(task), || {
                by_all(&mut jobs, |job| read(place, &place.open(&job.name)?, job, task))
            })?;
        }
    }
    jobs.iter().try_for_each(|job| place.remove(job.name.as_bytes()))
}

fn write<F: Files>(place: &F, file: &F::File, job: &Job, task: Task) -> io::Result<()> {
    let source = vec![0xa5; task.piece];
    for at in task.offsets(job) {
        stop::check()?;
        place.write_at(file, at, &source)?;
    }
    place.sync(file)
}

fn read<F: Files>(place: &F, file: &F::File, job: &Job, task: Task) -> io::Result<()> {
    let mut target = vec![0; task.piece];
    for at in task.offsets(job) {
        stop::check()?;
        place.read_at(file, at, &mut target)?;
    }
    Ok(())
}
