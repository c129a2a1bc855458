//! Real trees: unpack an archive, walk it, build it; clone a repository.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::super::files::{Files as _, Kernel};
use super::super::stop;
use super::{Run, command};

/// What of archive, build and repository was given.
pub fn run(run: &mut Run<'_>, place: &Path) -> io::Result<()> {
    let settings = run.settings;
    if let Some(archive) = &settings.archive {
        let top = place.join("tree");
        fs::create_dir(&top)?;
        run.seconds("unpack", || unpack(archive, &top))?;
        if Kernel::new(&top).drop_caches() {
            run.seconds("walk, cold", || walk(&top).map(drop))?;
        }
        run.seconds("walk, warm", || walk(&top).map(drop))?;
        if let Some(how) = &settings.build {
            run.seconds("build", || build(&top, how))?;
        }
        run.seconds("remove", || fs::remove_dir_all(&top))?;
    }
    if let Some(repository) = &settings.repository {
        let copy = place.join("clone");
        run.seconds("clone", || {
            command("git", |git| git.args(["clone", "-q", "--no-local"]).arg(repository).arg(&copy))
        })?;
    }
    Ok(())
}

/// With tar(1).
pub fn unpack(archive: &Path, to: &Path) -> io::Result<()> {
    command("tar", |tar| tar.arg("-xf").arg(archive).arg("-C").arg(to))
}

/// Builds what was unpacked to `top`, by a command of the shell.
pub fn build(top: &Path, how: &str) -> io::Result<()> {
    let inner = only_directory(top)?;
    command("sh", |sh| sh.args(["-c", how]).current_dir(&inner))
}

/// Stats everything; answers the bytes, so that nothing can be left out.
pub fn walk(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        stop::check()?;
        let entry = entry?;
        let stat = entry.metadata()?;
        if stat.is_dir() {
            bytes += walk(&entry.path())?;
        } else {
            bytes += stat.size();
        }
    }
    Ok(bytes)
}

/// The one directory that an archive holds, or the place itself.
fn only_directory(top: &Path) -> io::Result<PathBuf> {
    let entries: Vec<_> = fs::read_dir(top)?.collect::<Result<_, _>>()?;
    match entries.as_slice() {
        [one] if one.file_type()?.is_dir() => Ok(one.path()),
        _ => Ok(top.to_owned()),
    }
}
