//! The file that packing writes: without a name until it is whole and synced.
//!
//! Invariant: whatever ends the program before [`Output::keep`], the old file of that name stays and nothing new
//! appears. A temporary name is taken where the file system has no files without names, and removed at the usual
//! signals; only kill -9 leaves that one behind, or the one that a file has for a moment before it replaces another.
//! Whoever writes a file there next takes such names away: who still needs one holds a lock on it.

use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use esker_image::pack::{Error, Scratch};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::ending::{AtSignal, at_signal};
use crate::failure::{Exit, Failure, Outcome, said};
use crate::units::{OWN_MAX, size_shown};

/// How old an empty file under a temporary name is before it is taken away: who made it has a lock on it by then. One
/// with something in it was locked before.
const LEFT_BEHIND: Duration = Duration::from_secs(60);

/// A file that holds something is replaced by its like only, which `is_one` knows. `refusal` is what is told of any
/// other, and what to do.
pub fn spare_unlike(
    path: &Path,
    is_one: impl FnOnce() -> Outcome<bool>,
    refusal: (&str, &str),
) -> Outcome {
    let holds = path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() > 0);
    if !holds || is_one()? {
        return Ok(());
    }
    Err(Failure::at(Exit::Usage, refusal.0, path, refusal.1))
}

/// Why packing failed, for a person.
pub fn failure(error: Error, output: &Output) -> Failure {
    match error {
        Error::Output(error) => output.failure(&error),
        Error::Memory(needed) => Failure::new(
            Exit::Usage,
            format!("too little memory allowed: at least {} are needed", size_shown(needed)),
            &format!(
                "give as much with --memory, and {} more than that with `ulimit -v`, for esker \
                 itself; a smaller --block-size or a lower --level takes less",
                size_shown(OWN_MAX)
            ),
        ),
        Error::Image(error) => Failure::new(
            if matches!(error, esker_stone::Error::Damaged(_)) {
                Exit::Damaged
            } else {
                Exit::Source
            },
            format!("cannot take over the blocks of the image ({error})"),
            "`esker check` tells more; without --metadata-only files are read one by one",
        ),
        Error::Tree(esker::Error::Io) => Failure::new(
            Exit::Damaged,
            "what is to be packed cannot be read (input/output error)",
            "`esker check` tells what is wrong with an image or a volume",
        ),
        error => Failure::new(Exit::Failed, error.to_string(), ""),
    }
}

/// The file on its way.
pub struct Output {
    /// What it is, in a word.
    kind: &'static str,
    file: File,
    path: PathBuf,
    folder: PathBuf,
    /// Whether it may take the place of another file.
    force: bool,
    /// Its temporary name, where it must have one.
    name: Option<PathBuf>,
    /// That goes at a signal, too.
    _ending: Option<AtSignal>,
}

fn refused(kind: &str, path: &Path, error: &io::Error) -> Failure {
    let what = format!("cannot write the {kind} ({})", said(error));
    let remedy = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room, or write it elsewhere; nothing was left behind"
        }
        _ if Errno::from_io_error(error) == Some(Errno::MFILE) => {
            "allow more open files, as by `ulimit -n 1024`"
        }
        _ => "name another place",
    };
    Failure::at(Exit::Failed, &what, path, remedy)
}

/// There is a file of that name, now or since it was looked for.
fn exists(path: &Path) -> Failure {
    Failure::at(Exit::Usage, "the output exists already", path, "--force replaces it")
}

/// Gives a file another name, that of another one only by `force`, as far as the file system knows how.
fn rename(from: &Path, to: &Path, force: bool) -> io::Result<()> {
    if !force {
        match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Err(Errno::INVAL | Errno::NOSYS) => {}
            done => return Ok(done?),
        }
    }
    std::fs::rename(from, to)
}

/// A name for a file that has none of its own yet.
fn temporary(folder: &Path) -> PathBuf {
    folder.join(format!(".esker-{}.new", std::process::id()))
}

/// Whether it is such a name, of whomever.
fn is_temporary(name: &std::ffi::OsStr) -> bool {
    let inner = name.to_str().and_then(|name| name.strip_prefix(".esker-")?.strip_suffix(".new"));
    inner.is_some_and(|pid| !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Holds a file, so that nobody takes its temporary name away.
fn hold(file: &File) -> bool {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Takes away what programs that were killed left behind.
fn tidy(folder: &Path) {
    let Ok(names) = folder.read_dir() else { return };
    let is_old = |of: &Metadata| {
        let age = of.modified().ok().and_then(|at| at.elapsed().ok());
        age.is_some_and(|age| age > LEFT_BEHIND)
    };
    for entry in names.flatten().filter(|entry| is_temporary(&entry.file_name())) {
        let of = entry.metadata().ok().filter(Metadata::is_file);
        let is_left = of.is_some_and(|of| of.len() > 0 || is_old(&of));
        if is_left && File::open(entry.path()).is_ok_and(|file| hold(&file)) {
            // It may have gone meanwhile, or not be ours to take.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Writes a file in the place of what has this name, whole or not at all. What is no file, as a terminal, is given the
/// bytes.
///
/// # Errors
/// That it cannot be written.
pub fn replace(kind: &'static str, path: &Path, bytes: &[u8]) -> Outcome {
    // Through a link, as others write.
    let whole = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let failed = |error: io::Error| refused(kind, path, &error);
    if whole.metadata().is_ok_and(|meta| !meta.is_file()) {
        return std::fs::write(whole, bytes).map_err(failed);
    }
    let output = Output::of(kind, &whole, true)?;
    io::Write::write_all(&mut output.file()?, bytes).map_err(failed)?;
    output.keep()
}

/// Device and number of what a path leads to.
pub fn identity(path: &Path) -> Option<(u64, u64)> {
    path.metadata().ok().map(|meta| (meta.dev(), meta.ino()))
}

/// A file without a name, where there are such.
fn nameless(folder: &Path) -> Result<File, Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(folder, flags, Mode::from_bits_truncate(0o666)).map(File::from)
}

/// Lets a file have the permissions of the one whose place it takes, before there is anything in it; owner and group
/// as far as that is allowed.
fn succeed(file: &File, old: &Metadata) -> io::Result<()> {
    // One that may not be given away may still be given to a group.
    let _ = fchown(file, None, Some(old.gid()));
    let _ = fchown(file, Some(old.uid()), None);
    let bits = old.mode() & 0o777;
    // Not every file system knows how.
    if file.metadata()?.mode() & 0o777 == bits {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(bits))
}

impl Output {
    /// A new image that will be `path`.
    pub fn new(path: &Path, force: bool) -> Outcome<Self> {
        Self::of("image", path, force)
    }

    /// A new file of some kind.
    pub fn of(kind: &'static str, path: &Path, force: bool) -> Outcome<Self> {
        if path.as_os_str() == "-" {
            let what = format!("standard output cannot take the {kind}: its beginning comes last");
            let remedy = "name a file, and send that; a file called - is ./-";
            return Err(Failure::new(Exit::Usage, what, remedy));
        }
        if path.file_name().is_none() {
            return Err(Failure::at(Exit::Usage, "no name for a file", path, "name one"));
        }
        let old = path.symlink_metadata().ok();
        match &old {
            Some(meta) if !meta.is_file() => {
                let what = "something that is no file is there already";
                return Err(Failure::at(Exit::Usage, what, path, "choose another name"));
            }
            Some(_) if !force => return Err(exists(path)),
            _ => {}
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
            _ => PathBuf::from("."),
        };
        tidy(&folder);
        let (file, name) = match nameless(&folder) {
            Ok(file) => (file, None),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                let name = temporary(&folder);
                let file = File::options().read(true).write(true).create_new(true).open(&name);
                let file = file.map_err(|error| refused(kind, path, &error))?;
                hold(&file);
                (file, Some(name))
            }
            Err(errno) => return Err(refused(kind, path, &errno.into())),
        };
        let remove = |name: PathBuf| at_signal(move || drop(std::fs::remove_file(name)));
        let ending = name.clone().map(remove);
        if let Some(old) = old {
            succeed(&file, &old).map_err(|error| refused(kind, path, &error))?;
        }
        Ok(Self { kind, file, path: path.to_owned(), folder, force, name, _ending: ending })
    }

    /// The directory that it will be in: device and number.
    pub fn folder(&self) -> Option<(u64, u64)> {
        identity(&self.folder)
    }

    /// Refuses to replace a file without which the new image could not be read.
    pub fn spares(&self, base: &Path) -> Outcome {
        if identity(&self.path).is_none_or(|own| identity(base) != Some(own)) {
            return Ok(());
        }
        let what = "the image would take the place of its own base";
        Err(Failure::at(Exit::Usage, what, &self.path, "write it under another name with -o"))
    }

    /// That it lies inside of what is packed.
    pub fn lies_inside(&self) -> Failure {
        let what = "the output lies inside of what is packed";
        Failure::at(Exit::Usage, what, &self.path, "write it elsewhere with -o")
    }

    /// To write to.
    pub fn file(&self) -> Outcome<File> {
        self.file.try_clone().map_err(|error| refused(self.kind, &self.path, &error))
    }

    /// A file without a name beside it, for what nobody wants when the image is done.
    pub fn beside(&self) -> io::Result<File> {
        nameless(&self.folder).or_else(|errno| match errno {
            Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL => {
                let name = self.folder.join(format!(".esker-{}.tmp", std::process::id()));
                let file = File::options().read(true).write(true).create_new(true).open(&name)?;
                std::fs::remove_file(name)?;
                Ok(file)
            }
            errno => Err(io::Error::from(errno)),
        })
    }

    /// The same for the packer.
    pub fn scratch(&self) -> io::Result<Box<dyn Scratch>> {
        Ok(Box::new(self.beside()?))
    }

    /// What writing said, for a person.
    pub fn failure(&self, error: &io::Error) -> Failure {
        refused(self.kind, &self.path, error)
    }

    /// It is whole: synced, and under its name.
    pub fn keep(mut self) -> Outcome {
        self.place().map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => exists(&self.path),
            _ => refused(self.kind, &self.path, &error),
        })
    }

    fn place(&mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if self.name.is_none() {
            let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            let link = |name| rustix::fs::linkat(CWD, &own, CWD, name, AtFlags::SYMLINK_FOLLOW);
            // Only to take the place of another file it needs a name of its own first.
            match link(&self.path) {
                Err(Errno::EXIST) if self.force => {
                    hold(&self.file);
                    let name = temporary(&self.folder);
                    link(&name)?;
                    self.name = Some(name);
                }
                done => done?,
            }
        }
        if let Some(name) = &self.name {
            rename(name, &self.path, self.force)?;
            self.name = None;
        }
        File::open(&self.folder)?.sync_all()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // Best effort: the failure at hand is the one to tell.
            let _ = std::fs::remove_file(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn only_what_nobody_holds_any_more_is_taken_away() {
        let folder = std::env::temp_dir().join(format!("esker-tidy-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let old = SystemTime::now() - 2 * LEFT_BEHIND;
        let make = |name: &str, old: Option<SystemTime>| {
            let file = File::create(folder.join(name)).unwrap();
            old.into_iter().for_each(|old| file.set_modified(old).unwrap());
            file
        };
        drop(make(".esker-7.new", Some(old)));
        drop(make(".esker-8.new", None));
        make(".esker-6.new", None).write_all(b"whole").unwrap();
        let held = make(".esker-9.new", Some(old));
        assert!(hold(&held));
        drop(make(".esker-x.new", Some(old)));
        drop(make("esker-7.new", Some(old)));
        tidy(&folder);
        let mut left: Vec<_> =
            folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".esker-8.new", ".esker-9.new", ".esker-x.new", "esker-7.new"]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
