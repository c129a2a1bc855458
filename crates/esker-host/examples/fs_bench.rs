//! The library without a mount: calls a second through `Fs` over the memory home, on one thread and
//! on two.
//!
//! `cargo run --release -p esker-host --example fs_bench -- [FILES] [STEP..]`: so many files in all
//! (1,000,000), and but for the first only the steps whose names begin so.
//!
//! Each step is timed alone. A look-up holds what it finds, as a kernel does; letting go is the step
//! behind it, or in the same where the name says so.

use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use esker::ground::Clock as _;
use esker::memory::{Home, Options};
use esker::posix::{Caller, Fs, New};
use esker::{Attr, Ino, Kind, Name, Result};
use esker_host::{Arena, SystemClock};
use rustix::time::{ClockId, clock_gettime};

type Memory = Fs<Home<Arena>>;
/// The most that the file system may hold, in bytes.
const SPACE: u64 = 12 << 30;
const FILES: u64 = 1_000_000;
const FILES_MAX: u64 = 10_000_000;
const NEW: New = New { kind: Kind::File, perm: 0o644, umask: 0o022, rdev: 0 };

/// One thread's.
struct Files {
    fs: Arc<Memory>,
    dir: Ino,
    count: u64,
    /// The first one's number, once it is made.
    first: u64,
}

type Step = fn(&Files) -> Result<()>;
const STEPS: [(&str, Step); 13] = [
    ("create and forget", Files::create),
    ("look up in order", |files| files.look_up(0..files.count)),
    ("forget in order", |files| files.forget(0..files.count)),
    ("look up scattered", |files| files.look_up(scattered(files.count))),
    ("forget scattered", |files| files.forget(scattered(files.count))),
    ("look up and forget scattered", Files::look_up_and_forget),
    ("stat in order", |files| files.stat(0..files.count)),
    ("stat scattered", |files| files.stat(scattered(files.count))),
    ("write 4 KiB scattered", Files::write),
    ("overwrite 4 KiB scattered", Files::write),
    ("read 4 KiB scattered, moving atime", Files::read),
    ("read 4 KiB scattered again", Files::read),
    ("remove in order", Files::remove),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let files = words.first().map_or(Ok(FILES), |word| word.parse());
    let Some(files) = files.ok().filter(|files| (2..=FILES_MAX).contains(files)) else {
        eprintln!("usage: fs_bench [FILES] [STEP..]; FILES is a number from 2 to {FILES_MAX}");
        return ExitCode::from(2);
    };
    let chosen = words.get(1..).unwrap_or(&[]);
    let unknown = |word: &&String| !STEPS.iter().any(|(name, _)| name.starts_with(&***word));
    if let Some(word) = chosen.iter().find(unknown) {
        let names = STEPS.map(|(name, _)| name).join("\n  ");
        eprintln!("no step begins with {word:?}; there are\n  {names}");
        return ExitCode::from(2);
    }
    match [1, 2].into_iter().try_for_each(|threads| bench(files, threads, chosen)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fs_bench: {error:?}");
            ExitCode::FAILURE
        }
    }
}

fn bench(files: u64, threads: u64, chosen: &[String]) -> Result<()> {
    let fs = Arc::new(make()?);
    let count = files / threads;
    println!("{threads} thread(s), {count} files each in a directory of its own:");
    let files = |number| {
        let dir = directory(&fs, &format!("dir-{number}"))?;
        Ok(Files { fs: Arc::clone(&fs), dir, count, first: 0 })
    };
    let mut all = (0..threads).map(files).collect::<Result<Vec<Files>>>()?;
    run(STEPS[0], &all)?;
    for files in &mut all {
        files.first = files.find(0)?.0;
        files.fs.forget(Ino(files.first), 1);
    }
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|word| name.starts_with(word));
    let steps = STEPS[1..].iter().filter(|(name, _)| wanted(name));
    steps.copied().try_for_each(|step| run(step, &all))
}

/// Runs a step, each thread's files on one, and tells how long it took.
fn run((name, step): (&str, Step), all: &[Files]) -> Result<()> {
    let begin = Instant::now();
    let busy = thread::scope(|scope| {
        let start = |files| scope.spawn(move || step(files).map(|()| cpu_time()));
        let jobs: Vec<_> = all.iter().map(start).collect();
        let ends = jobs.into_iter().map(|job| job.join().expect("a step does not panic"));
        ends.sum::<Result<Duration>>()
    })?;
    let calls: u64 = all.iter().map(|files| files.count).sum();
    let rate = calls as f64 / begin.elapsed().as_secs_f64();
    let busy = busy.as_nanos() as f64 / calls as f64;
    println!("  {name:<34} {rate:>10.0} /s {busy:>7.0} ns of CPU each");
    Ok(())
}

/// What this thread has had of a processor.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

fn make() -> Result<Memory> {
    let root = Attr::new(Kind::Directory, 0o755, 0, 0, Ino::ROOT, SystemClock.now());
    let options = Options { size_max: SPACE, file_size_max: i64::MAX as u64, root };
    Ok(Fs::new(Home::new(Arena::new(SPACE)?, &options)?, SystemClock))
}

fn directory(fs: &Memory, name: &str) -> Result<Ino> {
    let new = New { kind: Kind::Directory, perm: 0o755, ..NEW };
    Ok(fs.create(&Caller::ROOT, Ino::ROOT, Name::parse(name.as_bytes())?, new)?.ino)
}

/// Each number once, scattered: multiplication by an odd number permutes the numbers below a power
/// of two.
fn scattered(count: u64) -> impl Iterator<Item = u64> {
    let end = count.next_power_of_two();
    (0..end).map(move |n| n.wrapping_mul(0x9e37_79b9) & (end - 1)).filter(move |&n| n < count)
}

/// `file-` and seven digits, without the cost of formatting.
fn named<T>(mut number: u64, then: impl FnOnce(Name<'_>) -> Result<T>) -> Result<T> {
    let mut text = *b"file-0000000";
    for digit in text[5..].iter_mut().rev() {
        *digit += (number % 10) as u8;
        number /= 10;
    }
    then(Name::parse(&text)?)
}

impl Files {
    /// A file's inode. A directory's files follow each other in steps of the number of sub-trees.
    fn ino(&self, number: u64) -> Ino {
        Ino(self.first + number * esker::limits::SUBTREES as u64)
    }

    fn find(&self, number: u64) -> Result<Ino> {
        Ok(named(number, |name| self.fs.lookup(&Caller::ROOT, self.dir, name))?.ino)
    }

    fn create(&self) -> Result<()> {
        (0..self.count).try_for_each(|number| {
            let node = named(number, |name| self.fs.create(&Caller::ROOT, self.dir, name, NEW))?;
            self.fs.forget(node.ino, 1);
            Ok(())
        })
    }

    fn look_up(&self, mut numbers: impl Iterator<Item = u64>) -> Result<()> {
        numbers.try_for_each(|number| self.find(number).map(drop))
    }

    fn forget(&self, numbers: impl Iterator<Item = u64>) -> Result<()> {
        numbers.for_each(|number| self.fs.forget(self.ino(number), 1));
        Ok(())
    }

    fn look_up_and_forget(&self) -> Result<()> {
        scattered(self.count).try_for_each(|number| {
            self.fs.forget(self.find(number)?, 1);
            Ok(())
        })
    }

    fn stat(&self, mut numbers: impl Iterator<Item = u64>) -> Result<()> {
        numbers.try_for_each(|number| self.fs.getattr(self.ino(number)).map(drop))
    }

    fn write(&self) -> Result<()> {
        let write = |number| self.fs.write(self.ino(number), 0, &[7; 4096], false).map(drop);
        scattered(self.count).try_for_each(write)
    }

    fn read(&self) -> Result<()> {
        let mut bytes = [0; 4096];
        let read = |number| self.fs.read(self.ino(number), 0, &mut bytes).map(drop);
        scattered(self.count).try_for_each(read)
    }

    fn remove(&self) -> Result<()> {
        let remove = |number| named(number, |name| self.fs.unlink(&Caller::ROOT, self.dir, name));
        (0..self.count).try_for_each(remove)
    }
}
