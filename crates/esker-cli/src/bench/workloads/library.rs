//! Esker's own calls, one by one, on one thread and on two threads in a directory each. What is looked up
//! is let go of again; the first read of a file moves its atime, the second does not.

use std::io;

use esker::Ino;

use super::super::files::{Files as _, Library, system};
use super::super::stop;
use super::{Run, by_all, file_name};

const PIECE: usize = 4096;

/// A thread's directory, and the files that it has made there.
struct Job {
    dir: Library,
    files: Vec<Ino>,
    count: u64,
}

/// Each number of files in turn, shared by the threads.
pub fn run(run: &mut Run<'_>, place: &Library) -> io::Result<()> {
    for count in run.settings.files.clone() {
        run.files = Some(count);
        for threads in [1, 2] {
            measure(run, place, threads, (count / threads).max(1))?;
        }
    }
    Ok(())
}

fn measure(run: &mut Run<'_>, place: &Library, threads: u64, count: u64) -> io::Result<()> {
    type Step = fn(&mut Job) -> io::Result<()>;
    let steps: [(&str, Step); 9] = [
        ("create", create),
        ("look up in order", |job| look_up(job, 0..job.count)),
        ("look up scattered", |job| look_up(job, scattered(job.count))),
        ("stat scattered", stat),
        ("write 4K scattered", write),
        ("overwrite 4K scattered", write),
        ("read 4K scattered", read),
        ("read 4K scattered again", read),
        ("remove", remove),
    ];
    let name = |number: u64| format!("thread-{number}");
    let jobs = (0..threads).map(|number| {
        let files = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        Ok(Job { dir: place.make_dir(&name(number))?, files, count })
    });
    let mut jobs = jobs.collect::<io::Result<Vec<_>>>()?;
    let plural = if threads > 1 { "s" } else { "" };
    for (what, step) in steps {
        let row = format!("{what}, {threads} thread{plural}");
        run.rate(row, count * threads, || by_all(&mut jobs, step))?;
    }
    (0..threads).try_for_each(|number| place.remove_dir(&name(number)))
}

/// Each number once, far apart: multiplication by an odd number permutes the numbers below a power of two.
fn scattered(count: u64) -> impl Iterator<Item = u64> {
    let end = count.next_power_of_two();
    (0..end).map(move |n| n.wrapping_mul(0x9e37_79b9) & (end - 1)).filter(move |&n| n < count)
}

fn create(job: &mut Job) -> io::Result<()> {
    for number in 0..job.count {
        stop::check()?;
        job.files.push(job.dir.make_file(&file_name(number))?);
    }
    Ok(())
}

fn look_up(job: &Job, numbers: impl Iterator<Item = u64>) -> io::Result<()> {
    for number in numbers {
        stop::check()?;
        job.dir.look_up(file_name(number).as_bytes())?;
    }
    Ok(())
}

/// Files by their inodes, far apart.
fn each(job: &Job, mut work: impl FnMut(Ino) -> esker::Result<()>) -> io::Result<()> {
    for number in scattered(job.count) {
        stop::check()?;
        let index = usize::try_from(number).map_err(io::Error::other)?;
        work(job.files[index]).map_err(system)?;
    }
    Ok(())
}

fn stat(job: &mut Job) -> io::Result<()> {
    each(job, |ino| job.dir.fs.getattr(ino).map(drop))
}

fn write(job: &mut Job) -> io::Result<()> {
    each(job, |ino| job.dir.fs.write(ino, 0, &[7; PIECE], false).map(drop))
}

fn read(job: &mut Job) -> io::Result<()> {
    let mut target = [0; PIECE];
    each(job, |ino| job.dir.fs.read(ino, 0, &mut target).map(drop))
}

fn remove(job: &mut Job) -> io::Result<()> {
    for number in 0..job.count {
        stop::check()?;
        job.dir.remove(file_name(number).as_bytes())?;
    }
    Ok(())
}
