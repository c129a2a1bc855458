//! A tree of this machine copied into a file system, with everything that it has.
//!
//! Above: `import`. Below: `source` reads the tree, `fill` makes. Invariant: nothing is followed:
//! every step goes from an open directory to a name in it, so a tree that changes meanwhile cannot
//! lead us astray.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use esker::posix::Fs;
use esker::store::Store;
use esker::{Error, Ino, Kind, Name};
use rustix::fs::{Stat, major, minor};
use rustix::io::Errno;

use super::fill::{Filler, Meta, Unfinished, remedy};
use super::source::{self, time};
use super::{Filled, Request};
use crate::failure::{Exit, Failure, Outcome, path_shown, said, shown};
use crate::progress::Progress;

/// Bytes that are moved at a time.
const CHUNK: usize = 1 << 20;

/// Why one thing could not be copied.
enum Trouble {
    /// The source cannot be read: told, and perhaps left out.
    Unreadable(String),
    /// The file system that is filled refuses: no use to go on.
    Refused(Failure),
}

impl From<Errno> for Trouble {
    fn from(errno: Errno) -> Self {
        Self::Unreadable(said(&errno.into()))
    }
}

/// A directory on the way down.
struct Level {
    source: OwnedFd,
    target: Ino,
    /// Names still to copy, the next one last.
    names: Vec<CString>,
    meta: Meta,
}

/// Copies the tree below `request.from`.
pub fn copy<S: Store>(fs: &Fs<S>, request: &Request<'_>) -> Outcome<Filled> {
    source::allow_many_files();
    let mut copier = Copier {
        filler: Filler::new(fs),
        path: request.from.to_path_buf(),
        levels: Vec::new(),
        links: HashMap::new(),
        unreadable: Vec::new(),
        buffer: vec![0; CHUNK].into_boxed_slice(),
        progress: Progress::new("filling", None),
    };
    copier.run()?;
    copier.progress.done();
    let unreadable = copier.unreadable;
    if !unreadable.is_empty() && !request.skip_unreadable {
        return Err(left_out(request.from, &unreadable));
    }
    let tally = copier.filler.close().map_err(|error| {
        Failure::new(Exit::Source, format!("cannot copy: {}", explained(&error)), "")
    })?;
    Ok(Filled { tally, skipped: unreadable })
}

fn left_out(from: &Path, unreadable: &[String]) -> Failure {
    let (things, them) = if unreadable.len() == 1 { ("thing", "it") } else { ("things", "them") };
    let what = format!(
        "cannot read all of {}: {} {things}:\n  {}\n",
        path_shown(from),
        unreadable.len(),
        unreadable.join("\n  ")
    );
    let remedy = format!(
        "nothing was mounted: make {them} readable, or leave {them} out with --skip-unreadable"
    );
    Failure { exit: Exit::Source, text: format!("{what}{remedy}") }
}

/// Why, for a person.
pub fn explained(error: &Unfinished) -> String {
    match error {
        Unfinished::Refused(error) => error.to_string(),
        Unfinished::Xattr(name, error) => {
            format!("extended attribute {} is refused ({error})", shown(name))
        }
        Unfinished::Times(error) => format!("the times of a directory are refused ({error})"),
        Unfinished::Flags(path, error) => format!("{}: {error}", shown(path)),
    }
}

struct Copier<'a, S> {
    filler: Filler<'a, S>,
    path: PathBuf,
    levels: Vec<Level>,
    /// Where the first name of an inode with several was copied to, by device and number.
    links: HashMap<(u64, u64), Ino>,
    unreadable: Vec<String>,
    buffer: Box<[u8]>,
    progress: Progress,
}

impl<S: Store> Copier<'_, S> {
    fn run(&mut self) -> Outcome {
        let root = source::open_root(&self.path).map_err(Trouble::from);
        let pushed = root.and_then(|(fd, stat)| self.descend(fd, &stat, Ino::ROOT));
        self.note(pushed)?;
        while let Some(level) = self.levels.last_mut() {
            match level.names.pop() {
                Some(name) => {
                    self.path.push(source::os(&name));
                    let depth = self.levels.len();
                    let copied = self.copy(&name);
                    let descended = self.levels.len() > depth;
                    self.note(copied)?;
                    if !descended {
                        self.path.pop();
                    }
                }
                None => {
                    let level = self.levels.pop().expect("the loop saw it");
                    let path = self.path.as_os_str().as_bytes();
                    let meta = &level.meta;
                    let done = self.filler.finish(level.target, Kind::Directory, path, meta);
                    done.map_err(|error| {
                        let what = format!("cannot copy ({})", explained(&error));
                        Failure::at(Exit::Source, &what, &self.path, "")
                    })?;
                    self.path.pop();
                }
            }
            self.progress.tick(self.filler.tally.seen(), 0);
        }
        Ok(())
    }

    /// Remembers what could not be read; everything else ends the work.
    fn note(&mut self, copied: Result<(), Trouble>) -> Outcome {
        match copied {
            Ok(()) => Ok(()),
            Err(Trouble::Refused(failure)) => Err(failure),
            Err(Trouble::Unreadable(why)) => {
                self.unreadable.push(format!("{}: {why}", path_shown(&self.path)));
                Ok(())
            }
        }
    }

    /// A refusal by the file system that is filled, at the present path.
    fn refused(&self, error: Error) -> Trouble {
        let what = format!("cannot copy ({error})");
        Trouble::Refused(Failure::at(Exit::Failed, &what, &self.path, remedy(error)))
    }

    /// Copies one name of the directory that is open.
    fn copy(&mut self, name: &CString) -> Result<(), Trouble> {
        let level = self.levels.last().expect("a name comes from a level");
        let dir = level.target;
        let stat = source::stat(&level.source, name)?;
        let named = Name::parse(name.as_bytes()).map_err(|error| self.refused(error))?;
        let kind = Kind::from_mode(stat.st_mode)
            .ok_or_else(|| Trouble::Unreadable("of a kind that is not known".to_owned()))?;
        if kind == Kind::Directory {
            let (fd, stat) = source::open_directory(&level.source, name)?;
            let names = source::names(&fd)?;
            let meta = self.meta(&fd, c".", Some(&fd), &stat)?;
            let ino = self.filler.make(dir, named, kind, (0, 0));
            let ino = ino.map_err(|error| self.refused(error))?;
            self.levels.push(Level { source: fd, target: ino, names, meta });
            return Ok(());
        }
        if stat.st_nlink > 1
            && let Some(&first) = self.links.get(&(stat.st_dev, stat.st_ino))
        {
            return self.filler.link(first, dir, named).map_err(|error| self.refused(error));
        }
        let ino = self.leaf(dir, named, name, &stat, kind)?;
        if stat.st_nlink > 1 {
            self.links.insert((stat.st_dev, stat.st_ino), ino);
        }
        Ok(())
    }

    /// Enters the root of the tree.
    fn descend(&mut self, fd: OwnedFd, stat: &Stat, target: Ino) -> Result<(), Trouble> {
        let names = source::names(&fd)?;
        let meta = self.meta(&fd, c".", Some(&fd), stat)?;
        self.levels.push(Level { source: fd, target, names, meta });
        Ok(())
    }

    /// Anything but a directory. What turns out unreadable half-way is taken away again.
    fn leaf(
        &mut self,
        dir: Ino,
        named: Name<'_>,
        name: &CString,
        stat: &Stat,
        kind: Kind,
    ) -> Result<Ino, Trouble> {
        // Everything is read or opened before anything is made.
        let level = self.levels.last().expect("a name comes from a level");
        let file = match kind {
            Kind::File => Some(source::open_file(&level.source, name, stat)?),
            _ => None,
        };
        let meta = self.meta(&level.source, name, file.as_ref(), stat)?;
        let ino = match kind {
            Kind::Symlink => {
                let target = source::target(&level.source, name)?;
                self.filler.symlink(dir, named, target.as_bytes())
            }
            _ => {
                let device = (major(stat.st_rdev), minor(stat.st_rdev));
                self.filler.make(dir, named, kind, device)
            }
        };
        let ino = ino.map_err(|error| self.refused(error))?;
        let copied = match file {
            Some(file) => self.data(&file, ino, stat),
            None => Ok(()),
        };
        let finished = copied.and_then(|()| {
            let done = self.filler.finish(ino, kind, self.path.as_os_str().as_bytes(), &meta);
            done.map_err(|error| Trouble::Unreadable(explained(&error)))
        });
        if finished.is_err() {
            // Best effort: if even that fails, the failure at hand is the one to tell.
            let _ = self.filler.unlink(dir, named);
        }
        finished.map(|()| ino)
    }

    /// The bytes of a file; its holes stay holes.
    fn data(&mut self, file: &OwnedFd, ino: Ino, stat: &Stat) -> Result<(), Trouble> {
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        // Blocks are of 512 bytes, whatever st_blksize says.
        let holes = u64::try_from(stat.st_blocks).unwrap_or(0) < size / 512;
        let mut at = 0;
        loop {
            let end = if holes {
                let Some((from, to)) = source::next_data(file, at)? else { break };
                at = from;
                to
            } else {
                u64::MAX
            };
            while at < end {
                let room = CHUNK.min(usize::try_from(end - at).unwrap_or(CHUNK));
                let count = source::read(file, &mut self.buffer[..room], at)?;
                if count == 0 {
                    break;
                }
                let written = self.filler.write(ino, at, &self.buffer[..count]);
                written.map_err(|error| self.refused(error))?;
                self.progress.tick(self.filler.tally.seen(), 0);
                at += count as u64;
            }
            if !holes {
                break;
            }
            if at < end {
                // The file became shorter while it was read.
                break;
            }
        }
        if at < size {
            self.filler.resize(ino, size).map_err(|error| self.refused(error))?;
        }
        Ok(())
    }

    /// Everything else that an inode has; `open` is a directory or file itself.
    fn meta(
        &self,
        dir: &OwnedFd,
        name: &CStr,
        open: Option<&OwnedFd>,
        stat: &Stat,
    ) -> Result<Meta, Trouble> {
        Ok(Meta {
            perm: (stat.st_mode & 0o7777) as u16,
            uid: stat.st_uid,
            gid: stat.st_gid,
            atime: Some(time(stat.st_atime, stat.st_atime_nsec)),
            mtime: time(stat.st_mtime, stat.st_mtime_nsec),
            xattrs: source::xattrs(dir, name)?,
            flags: open.map(source::flags).unwrap_or_default(),
        })
    }
}
