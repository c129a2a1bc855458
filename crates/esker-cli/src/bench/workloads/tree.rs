//! Real trees: unpack an archive, walk it, build it; clone a repository.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Run, drop_names};

/// What of archive, build and repository was given.
pub fn run(run: &mut Run<'_>, place: &Path) -> io::Result<()> {
    let settings = run.settings;
    if let Some(archive) = &settings.archive {
        let top = place.join("tree");
        fs::create_dir(&top)?;
        run.seconds("unpack", || {
            command("tar", |tar| tar.arg("-xf").arg(archive).arg("-C").arg(&top))
        })?;
        if drop_names() {
            run.seconds("walk, cold", || walk(&top))?;
        }
        run.seconds("walk, warm", || walk(&top))?;
        if let Some(build) = &settings.build {
            let inner = only_directory(&top)?;
            run.seconds("build", || {
                command("sh", |sh| sh.args(["-c", build]).current_dir(&inner))
            })?;
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

/// Stats everything; answers the bytes, so that nothing can be left out.
fn walk(dir: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let stat = entry.metadata()?;
        bytes += stat.size();
        if stat.is_dir() {
            bytes += walk(&entry.path())?;
        }
    }
    Ok(bytes)
}

/// The one directory that an archive holds, or the place itself.
fn only_directory(top: &Path) -> io::Result<std::path::PathBuf> {
    let entries: Vec<_> = fs::read_dir(top)?.collect::<Result<_, _>>()?;
    match entries.as_slice() {
        [one] if one.file_type()?.is_dir() => Ok(one.path()),
        _ => Ok(top.to_owned()),
    }
}

fn command(program: &str, with: impl FnOnce(&mut Command) -> &mut Command) -> io::Result<()> {
    let mut command = Command::new(program);
    let output = with(&mut command).stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last: Vec<&str> = said.lines().rev().take(3).collect();
    Err(io::Error::other(format!("{program} failed: {}", last.join(" | "))))
}
