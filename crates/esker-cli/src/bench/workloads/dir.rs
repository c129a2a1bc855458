//! Many small files in one directory: the experiment of "how far do directories scale?".

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, RawDir, openat, statat, unlinkat};
use rustix::io::write;

use super::{Run, Scatter, drop_names};

const LOOKUPS: u64 = 1000;

/// Each number of files in turn.
pub fn run(run: &mut Run<'_>, place: &Path) -> io::Result<()> {
    for count in run.settings.files.clone() {
        one(run, place, count)?;
    }
    Ok(())
}

fn one(run: &mut Run<'_>, place: &Path, count: u64) -> io::Result<()> {
    let path = place.join(count.to_string());
    fs::create_dir(&path)?;
    let dir = open_dir(&path)?;
    run.rate(format!("create {count}"), count, || create(&dir, count))?;
    for state in ["cold", "warm"] {
        // Without root there is no cold: the rows are left out rather than mislabelled.
        let asked = state == "warm" || drop_names();
        if asked {
            run.rate(format!("look up {LOOKUPS} of {count}, {state}"), LOOKUPS, || {
                look_up(&dir, count)
            })?;
        }
    }
    for state in ["cold", "warm"] {
        if state == "warm" || drop_names() {
            run.rate(format!("list {count}, {state}"), count, || {
                list(&path, |_, _| Ok(()), count)
            })?;
        }
    }
    for state in ["cold", "warm"] {
        if state == "warm" || drop_names() {
            run.rate(format!("list and stat {count}, {state}"), count, || {
                list(&path, stat, count)
            })?;
        }
    }
    run.rate(format!("remove {count}"), count, || remove(&path, count))?;
    fs::remove_dir(&path)
}

fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

fn name(number: u64) -> String {
    format!("file-{number:07}")
}

fn create(dir: &OwnedFd, count: u64) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    for number in 0..count {
        let file = openat(dir, name(number), flags, Mode::from_raw_mode(0o644))?;
        write(&file, b"four")?;
    }
    Ok(())
}

fn look_up(dir: &OwnedFd, count: u64) -> io::Result<()> {
    let mut scatter = Scatter::new(count);
    for _ in 0..LOOKUPS {
        statat(dir, name(scatter.below(count)), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

fn stat(dir: &OwnedFd, name: &std::ffi::CStr) -> io::Result<()> {
    statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(())
}

/// Reads the whole directory; that it holds what was made is part of the work.
fn list(
    path: &Path,
    mut each: impl FnMut(&OwnedFd, &std::ffi::CStr) -> io::Result<()>,
    expected: u64,
) -> io::Result<()> {
    let dir = open_dir(path)?;
    let mut buffer = Vec::with_capacity(64 * 1024);
    let mut entries = RawDir::new(&dir, buffer.spare_capacity_mut());
    let mut count = 0;
    while let Some(entry) = entries.next() {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            each(&dir, entry.file_name())?;
            count += 1;
        }
    }
    if count == expected {
        return Ok(());
    }
    Err(io::Error::other(format!("{count} entries listed where {expected} were made")))
}

fn remove(path: &Path, count: u64) -> io::Result<()> {
    let dir = open_dir(path)?;
    let mut names = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    list(
        path,
        |_, name| {
            names.push(name.to_owned());
            Ok(())
        },
        count,
    )?;
    for name in names {
        unlinkat(&dir, name, AtFlags::empty())?;
    }
    Ok(())
}
