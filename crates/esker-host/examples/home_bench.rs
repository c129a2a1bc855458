//! How many operations a second the memory home does in this process, straight through `View` and
//! `Store`, and how many bytes it takes for an empty file.
//!
//! `cargo run --release -p esker-host --example home_bench [entries] [threads]`

use std::hint::black_box;
use std::time::Instant;

use esker::ground::Clock;
use esker::limits::FILE_SIZE_MAX;
use esker::memory::{Home, Options};
use esker::store::{Batch, Change, Flow, Store, View};
use esker::{Attr, Cursor, Ino, Kind, Name, Result};
use esker_host::{Arena, SystemClock, resident_bytes};
use rustix::time::{ClockId, clock_gettime};

type Bench = Home<Arena>;

/// Names in one directory of the reading and writing rows.
const FILE_LEN: u64 = 256 << 20;
const BLOCK: u64 = 4096;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |otherwise| {
        arguments.next().and_then(|argument| argument.parse::<u64>().ok()).unwrap_or(otherwise)
    };
    let (entries, threads) = (number(1_000_000), number(2));
    for threads in [1, threads] {
        println!("{threads} thread(s), {entries} entries each, a directory for each thread");
        let home = empty()?;
        let dirs: Vec<Ino> =
            (0..threads).map(|index| directory(&home, index)).collect::<Result<_>>()?;
        let before = (resident_bytes().unwrap_or(0), home.usage().used);
        let files = each(&home, &dirs, "create", entries, create);
        let held = home.usage().used - before.1;
        let resident = resident_bytes().unwrap_or(0).saturating_sub(before.0);
        let files_made = entries * threads;
        println!("  {} bytes an empty file, {} resident", held / files_made, resident / files_made);
        each(&home, &dirs, "lookup", entries, lookup);
        each(&home, &dirs, "lookup + attr", entries, lookup_attr);
        let numbers: Vec<(Ino, Vec<Ino>)> = dirs.iter().copied().zip(files).collect();
        each(&home, &numbers, "attr", entries, |home, (_, files), entries| {
            (0..entries).try_for_each(|step| {
                let ino = files[scatter(step, entries) as usize];
                black_box(home.attr(ino)?);
                Ok(())
            })
        });
        each(&home, &dirs, "enumerate", entries, |home, &dir, _| enumerate(home, dir, false));
        each(&home, &dirs, "enumerate + attr", entries, |home, &dir, _| enumerate(home, dir, true));
        each(&home, &numbers, "remove", entries, |home, (dir, files), entries| {
            remove(home, *dir, files, entries)
        });
        let after = home.usage();
        println!("  {} of {} bytes left after removing all", after.used, held);
        data(&home, &dirs)?;
        assert_eq!(home.check(), []);
    }
    Ok(())
}

/// CPU time of this process, in seconds.
fn busy() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn empty() -> Result<Bench> {
    let root = Attr::new(Kind::Directory, 0o755, 0, 0, Ino::ROOT, SystemClock.now());
    let options = Options { size_max: 64 << 30, file_size_max: FILE_SIZE_MAX, root };
    Home::new(Arena::new(options.size_max)?, &options)
}

/// Runs `work` once for each of `parts`, each on a thread of its own, and prints how fast that was.
fn each<P: Sync, R: Send>(
    home: &Bench,
    parts: &[P],
    title: &str,
    count: u64,
    work: impl Fn(&Bench, &P, u64) -> Result<R> + Sync,
) -> Vec<R> {
    let work = &work;
    let (start, start_busy) = (Instant::now(), busy());
    let results: Result<Vec<R>> = std::thread::scope(|scope| {
        let run = |part| scope.spawn(move || work(home, part, count));
        let threads: Vec<_> = parts.iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker panicked")).collect()
    });
    let results = results.expect("the home refused");
    let seconds = start.elapsed().as_secs_f64();
    let total = count * parts.len() as u64;
    let busy = busy() - start_busy;
    let (wall, cpu) = (total as f64 / seconds, total as f64 / busy);
    println!("  {title:<20} {wall:>12.0} /s {cpu:>12.0} /CPU s");
    results
}

fn name(target: &mut [u8; 12], number: u64) -> Name<'_> {
    let mut rest = number;
    for digit in target.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    target[..4].copy_from_slice(b"file");
    Name::parse(target).expect("digits are a name")
}

/// The same numbers in an order without locality.
fn scatter(step: u64, count: u64) -> u64 {
    step.wrapping_mul(0x9e37_79b9_7f4a_7c15) % count
}

fn directory(home: &Bench, index: u64) -> Result<Ino> {
    let attr = Attr::new(Kind::Directory, 0o755, 0, 0, Ino::ROOT, SystemClock.now());
    link(home, Ino::ROOT, name(&mut [0; 12], index), attr)
}

fn link(home: &Bench, dir: Ino, name: Name<'_>, attr: Attr) -> Result<Ino> {
    let ino = home.next_ino(dir, attr.kind);
    let above = home.attr(dir)?;
    let nlink = above.nlink + u32::from(attr.kind == Kind::Directory);
    let mut batch = Batch::new();
    batch.push(Change::Make { ino, attr });
    batch.push(Change::Link { dir, name, ino, kind: attr.kind });
    batch.push(Change::Set { ino: dir, attr: Attr { nlink, mtime: attr.btime, ..above } });
    home.commit(&batch)?;
    Ok(ino)
}

/// What POSIX does to create a file: look that there is none, then commit.
fn create(home: &Bench, &dir: &Ino, entries: u64) -> Result<Vec<Ino>> {
    let mut bytes = [0; 12];
    (0..entries)
        .map(|index| {
            let name = name(&mut bytes, index);
            black_box(home.entry(dir, name).is_err());
            link(home, dir, name, Attr::new(Kind::File, 0o644, 0, 0, dir, SystemClock.now()))
        })
        .collect()
}

fn lookup(home: &Bench, &dir: &Ino, entries: u64) -> Result<()> {
    let mut bytes = [0; 12];
    (0..entries).try_for_each(|step| {
        black_box(home.entry(dir, name(&mut bytes, scatter(step, entries)))?);
        Ok(())
    })
}

fn lookup_attr(home: &Bench, &dir: &Ino, entries: u64) -> Result<()> {
    let mut bytes = [0; 12];
    (0..entries).try_for_each(|step| {
        let entry = home.entry(dir, name(&mut bytes, scatter(step, entries)))?;
        black_box(home.attr(entry.ino)?);
        Ok(())
    })
}

fn enumerate(home: &Bench, dir: Ino, attrs: bool) -> Result<()> {
    home.entries(dir, Cursor::START, attrs, &mut |listed| {
        black_box(listed);
        Flow::Continue(())
    })
}

fn remove(home: &Bench, dir: Ino, files: &[Ino], entries: u64) -> Result<()> {
    let mut bytes = [0; 12];
    let above = home.attr(dir)?;
    (0..entries).try_for_each(|index| {
        let mut batch = Batch::new();
        batch.push(Change::Unlink { dir, name: name(&mut bytes, index) });
        batch.push(Change::Drop { ino: files[index as usize] });
        batch.push(Change::Set { ino: dir, attr: above });
        home.commit(&batch)
    })
}

/// Bytes of one large file in each directory.
fn data(home: &Bench, dirs: &[Ino]) -> Result<()> {
    let attr = Attr::new(Kind::File, 0o644, 0, 0, Ino::ROOT, SystemClock.now());
    let files: Vec<Ino> = dirs
        .iter()
        .map(|&dir| link(home, dir, name(&mut [0; 12], 77), attr))
        .collect::<Result<_>>()?;
    each(home, &files, "write 1M (new), MB", FILE_LEN >> 20, |home, &ino, count| {
        let block = vec![7; 1 << 20];
        (0..count).try_for_each(|step| write(home, ino, step << 20, &block, attr))
    });
    let blocks = FILE_LEN / BLOCK;
    let in_order = |step: u64, _: u64| step;
    for (order, place) in [("", in_order as fn(u64, u64) -> u64), (" random", scatter)] {
        each(home, &files, &format!("write 4K{order}"), blocks, |home, &ino, count| {
            let block = [9; BLOCK as usize];
            (0..count)
                .try_for_each(|step| write(home, ino, place(step, count) * BLOCK, &block, attr))
        });
        each(home, &files, &format!("read 4K{order}"), blocks, |home, &ino, count| {
            let mut block = [0; BLOCK as usize];
            (0..count).try_for_each(|step| {
                black_box(home.read(ino, place(step, count) * BLOCK, &mut block)?);
                Ok(())
            })
        });
    }
    each(home, &files, "read 1M, MB", FILE_LEN >> 20, |home, &ino, count| {
        let mut block = vec![7; 1 << 20];
        (0..count).try_for_each(|step| home.read(ino, step << 20, &mut block).map(drop))
    });
    let logs: Vec<Ino> = dirs
        .iter()
        .map(|&dir| link(home, dir, name(&mut [0; 12], 78), attr))
        .collect::<Result<_>>()?;
    each(home, &logs, "append 4107", 25_000, |home, &ino, count| {
        let block = [9; 4107];
        (0..count).try_for_each(|step| write(home, ino, step * 4107, &block, attr))
    });
    Ok(())
}

fn write(home: &Bench, ino: Ino, at: u64, source: &[u8], attr: Attr) -> Result<()> {
    let mut batch = Batch::new();
    batch.push(Change::Write { ino, at, source });
    batch.push(Change::Set { ino, attr });
    home.commit(&batch)
}
