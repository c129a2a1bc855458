//! Many small files in one directory: the experiment of "how far do directories scale?".

use std::io;

use super::super::files::Files;
use super::super::stop;
use super::{Run, Scatter, file_name};

const LOOKUPS: u64 = 1000;

/// Each number of files in turn.
pub fn run<F: Files>(run: &mut Run<'_>, place: &F) -> io::Result<()> {
    for count in run.settings.files.clone() {
        run.files = Some(count);
        let name = count.to_string();
        one(run, &place.make_dir(&name)?, count)?;
        place.remove_dir(&name)?;
    }
    Ok(())
}

fn one<F: Files>(run: &mut Run<'_>, dir: &F, count: u64) -> io::Result<()> {
    type Step<F> = fn(&F, u64) -> io::Result<()>;
    let steps: [(&str, u64, Step<F>); 3] = [
        ("look up 1000", LOOKUPS, look_up),
        ("list", count, list),
        ("list and stat", count, list_and_stat),
    ];
    run.rate("create", count, || create(dir, count))?;
    for (row, operations, step) in steps {
        // Whoever cannot have the caches dropped has no cold row, rather than one with a wrong name.
        if F::CACHED && dir.drop_caches() {
            run.rate(format!("{row}, cold"), operations, || step(dir, count))?;
        }
        run.rate(format!("{row}, warm"), operations, || step(dir, count))?;
    }
    run.rate("remove", count, || remove(dir, count))
}

fn create<F: Files>(dir: &F, count: u64) -> io::Result<()> {
    for number in 0..count {
        stop::check()?;
        let file = dir.create(&file_name(number), false)?;
        dir.write_at(&file, 0, b"four")?;
    }
    Ok(())
}

fn look_up<F: Files>(dir: &F, count: u64) -> io::Result<()> {
    let mut scatter = Scatter::new(count);
    (0..LOOKUPS).try_for_each(|_| dir.look_up(file_name(scatter.below(count)).as_bytes()))
}

fn list<F: Files>(dir: &F, count: u64) -> io::Result<()> {
    counted(dir, count, |_| Ok(()))
}

fn list_and_stat<F: Files>(dir: &F, count: u64) -> io::Result<()> {
    counted(dir, count, |name| dir.look_up(name))
}

/// Reads the whole directory; that it holds what was made is part of the work.
fn counted<F: Files>(
    dir: &F,
    expected: u64,
    mut each: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut count = 0;
    dir.list(&mut |name| {
        stop::check()?;
        count += 1;
        each(name)
    })?;
    if count == expected {
        return Ok(());
    }
    Err(io::Error::other(format!("{count} entries listed where {expected} were made")))
}

/// As rm(1) does: listed first.
fn remove<F: Files>(dir: &F, count: u64) -> io::Result<()> {
    let mut names = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
    counted(dir, count, |name| {
        names.push(name.to_vec());
        Ok(())
    })?;
    for name in names {
        stop::check()?;
        dir.remove(&name)?;
    }
    Ok(())
}
