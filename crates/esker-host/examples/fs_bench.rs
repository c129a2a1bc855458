//! The library without a mount: files a second through `Fs` over the memory home, on one thread and
//! on two.
//!
//! `cargo run --release -p esker-host --example fs_bench -- [FILES]` (default 1,000,000 in all).

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use esker::ground::Clock as _;
use esker::memory::{Home, Options};
use esker::posix::{Caller, Fs, New};
use esker::{Attr, Ino, Kind, Name};
use esker_host::{Arena, SystemClock};

type Memory = Fs<Home<Arena>>;
/// The most that the file system may hold, in bytes.
const SPACE: u64 = 12 << 30;
const NEW: New = New { kind: Kind::File, perm: 0o644, umask: 0o022, rdev: 0 };

fn main() -> esker::Result<()> {
    let files: u64 =
        std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(1_000_000);
    for threads in [1, 2] {
        let fs = Arc::new(make()?);
        let each = files / threads;
        println!("{threads} thread(s), {each} files each in a directory of its own:");
        let dirs = (0..threads)
            .map(|number| directory(&fs, &format!("dir-{number}")))
            .collect::<esker::Result<Vec<Ino>>>()?;
        type Step = fn(&Memory, Ino, u64) -> esker::Result<()>;
        let steps: [(&str, Step); 6] = [
            ("create", create),
            ("look up", look_up),
            ("stat", stat),
            ("write 4 KiB", write),
            ("read 4 KiB", read),
            ("remove", remove),
        ];
        for (name, step) in steps {
            let begin = Instant::now();
            thread::scope(|scope| {
                let jobs: Vec<_> = dirs
                    .iter()
                    .map(|&dir| {
                        let fs = Arc::clone(&fs);
                        scope.spawn(move || step(&fs, dir, each))
                    })
                    .collect();
                jobs.into_iter().try_for_each(|job| job.join().expect("a step does not panic"))
            })?;
            let rate = (each * threads) as f64 / begin.elapsed().as_secs_f64();
            println!("  {name:<12} {rate:>12.0} /s");
        }
    }
    Ok(())
}

fn make() -> esker::Result<Memory> {
    let root = Attr::new(Kind::Directory, 0o755, 0, 0, Ino::ROOT, SystemClock.now());
    let options = Options { size_max: SPACE, file_size_max: i64::MAX as u64, root };
    Ok(Fs::new(Home::new(Arena::new(SPACE)?, &options)?, SystemClock))
}

fn directory(fs: &Memory, name: &str) -> esker::Result<Ino> {
    let new = New { kind: Kind::Directory, perm: 0o755, ..NEW };
    Ok(fs.create(&Caller::ROOT, Ino::ROOT, Name::parse(name.as_bytes())?, new)?.ino)
}

/// Each number once, scattered: multiplication by an odd number permutes the numbers below a power
/// of two.
fn scattered(count: u64) -> impl Iterator<Item = u64> {
    let end = count.next_power_of_two();
    (0..end).map(move |n| n.wrapping_mul(0x9e37_79b9) & (end - 1)).filter(move |&n| n < count)
}

fn named<T>(number: u64, then: impl FnOnce(Name<'_>) -> esker::Result<T>) -> esker::Result<T> {
    let text = format!("file-{number:07}");
    then(Name::parse(text.as_bytes())?)
}

fn create(fs: &Memory, dir: Ino, count: u64) -> esker::Result<()> {
    for number in 0..count {
        let node = named(number, |name| fs.create(&Caller::ROOT, dir, name, NEW))?;
        fs.forget(node.ino, 1);
    }
    Ok(())
}

fn each(
    fs: &Memory,
    dir: Ino,
    count: u64,
    mut then: impl FnMut(Ino) -> esker::Result<()>,
) -> esker::Result<()> {
    for number in scattered(count) {
        let node = named(number, |name| fs.lookup(&Caller::ROOT, dir, name))?;
        then(node.ino)?;
        fs.forget(node.ino, 1);
    }
    Ok(())
}

fn look_up(fs: &Memory, dir: Ino, count: u64) -> esker::Result<()> {
    each(fs, dir, count, |_| Ok(()))
}

fn stat(fs: &Memory, dir: Ino, count: u64) -> esker::Result<()> {
    let first = named(0, |name| fs.lookup(&Caller::ROOT, dir, name))?.ino.0;
    fs.forget(Ino(first), 1);
    // A directory's files follow each other in steps of the number of sub-trees.
    let step = esker::limits::SUBTREES as u64;
    for number in scattered(count) {
        fs.getattr(Ino(first + number * step))?;
    }
    Ok(())
}

fn write(fs: &Memory, dir: Ino, count: u64) -> esker::Result<()> {
    let bytes = [7; 4096];
    each(fs, dir, count, |ino| fs.write(ino, 0, &bytes, false).map(drop))
}

fn read(fs: &Memory, dir: Ino, count: u64) -> esker::Result<()> {
    let mut bytes = [0; 4096];
    each(fs, dir, count, |ino| fs.read(ino, 0, &mut bytes).map(drop))
}

fn remove(fs: &Memory, dir: Ino, count: u64) -> esker::Result<()> {
    for number in 0..count {
        named(number, |name| fs.unlink(&Caller::ROOT, dir, name))?;
    }
    Ok(())
}
