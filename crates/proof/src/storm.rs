//! Many threads at war over few names: renames, links, unlinks and writes that contradict each other.
//!
//! Above: `tests/exams/bad_days.rs`, on a mount and in this process. Invariant: a field answers each blow with success
//! or an errno that a right file system may give in a race; standing still is a finding, with who stands where.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use esker::posix::{Caller, Fs, New, RenameFlags};
use esker::store::Store;
use esker::{Error, Ino, Kind, Name, Result};
use rustix::fs::{CWD, RenameFlags as KernelFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::chance::Chance;

/// One blow: what, and at which of the names.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names are those of the system calls")]
pub enum Blow {
    Create { at: Spot },
    Mkdir { at: Spot },
    Unlink { at: Spot },
    Rmdir { at: Spot },
    Link { from: Spot, to: Spot },
    Rename { from: Spot, to: Spot, exchange: bool },
    Write { at: Spot, place: u64, len: usize },
    Truncate { at: Spot, len: u64 },
    List { at: Spot },
}

/// A name: up to two directories and one name in them.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    dirs: [u8; 2],
    depth: u8,
    name: u8,
}

impl Spot {
    fn any(chance: &mut Chance) -> Self {
        let dirs = [chance.below(3) as u8, chance.below(3) as u8];
        Self { dirs, depth: chance.below(3) as u8, name: chance.below(6) as u8 }
    }

    /// The parts of its path. Directories and files share their names.
    fn parts(self) -> impl Iterator<Item = [u8; 1]> {
        let dirs = self.dirs.into_iter().take(self.depth.into());
        dirs.chain([self.name]).map(|number| [b'a' + number])
    }
}

impl Blow {
    fn any(chance: &mut Chance) -> Self {
        let (at, to) = (Spot::any(chance), Spot::any(chance));
        match chance.below(100) {
            0..18 => Self::Create { at },
            18..28 => Self::Mkdir { at },
            28..40 => Self::Unlink { at },
            40..45 => Self::Rmdir { at },
            45..57 => Self::Link { from: at, to },
            57..77 => Self::Rename { from: at, to, exchange: chance.below(4) == 0 },
            77..90 => {
                let len = 1 + chance.below(9000) as usize;
                Self::Write { at, place: chance.below(100_000), len }
            }
            90..95 => Self::Truncate { at, len: chance.below(100_000) },
            _ => Self::List { at },
        }
    }
}

/// Where the war is.
pub trait Field: Sync {
    /// Does it; the errno otherwise.
    ///
    /// # Errors
    /// What the file system says.
    fn strike(&self, blow: Blow) -> std::result::Result<(), i32>;
}

/// What may come of a race: ENOENT, EEXIST, ENOTDIR, EISDIR, EINVAL (into itself), EPERM (a directory's link), EBUSY,
/// ENOSPC, ENOTEMPTY, ELOOP.
const FAIR: [i32; 10] = [2, 17, 20, 21, 22, 1, 16, 28, 39, 40];

/// A war of so many threads for so long.
///
/// # Errors
/// An errno that nobody should have got; or that a thread stood still for longer than `patience`, and in what.
pub fn rage(
    field: &dyn Field,
    threads: usize,
    time: Duration,
    patience: Duration,
    seed: u64,
) -> std::result::Result<BTreeMap<i32, u64>, String> {
    let stop = AtomicBool::new(false);
    let counts: Vec<_> = (0..threads).map(|_| AtomicU64::new(0)).collect();
    let doing: Vec<_> = (0..threads).map(|_| Mutex::new(String::new())).collect();
    let tally = Mutex::new(BTreeMap::<i32, u64>::new());
    let foul = Mutex::new(None);
    let warrior = |index: usize| {
        let mut chance = Chance::new(seed.wrapping_mul(1000).wrapping_add(index as u64));
        let mut mine = BTreeMap::<i32, u64>::new();
        while !stop.load(Ordering::Relaxed) {
            let blow = Blow::any(&mut chance);
            *doing[index].lock().expect("nobody panics here") = format!("{blow:?}");
            let errno = field.strike(blow).err().unwrap_or(0);
            if errno != 0 && !FAIR.contains(&errno) {
                *foul.lock().expect("nobody panics here") =
                    Some(format!("errno {errno}: {blow:?}"));
                stop.store(true, Ordering::Relaxed);
            }
            *mine.entry(errno).or_default() += 1;
            counts[index].fetch_add(1, Ordering::Relaxed);
        }
        let mut all = tally.lock().expect("nobody panics here");
        mine.into_iter().for_each(|(errno, count)| *all.entry(errno).or_default() += count);
    };
    std::thread::scope(|scope| {
        let warriors: Vec<_> = (0..threads)
            .map(|index| {
                let warrior = &warrior;
                scope.spawn(move || warrior(index))
            })
            .collect();
        let until = Instant::now() + time;
        let mut seen = vec![(0, Instant::now()); threads];
        while warriors.iter().any(|warrior| !warrior.is_finished()) {
            if Instant::now() > until {
                stop.store(true, Ordering::Relaxed);
            }
            for (index, seen) in seen.iter_mut().enumerate() {
                let count = counts[index].load(Ordering::Relaxed);
                if count != seen.0 || warriors[index].is_finished() {
                    *seen = (count, Instant::now());
                } else if seen.1.elapsed() > patience {
                    // Threads that hang cannot be joined: there is no way to go on.
                    let what = doing[index].lock().map(|text| text.clone()).unwrap_or_default();
                    eprintln!("DEADLOCK: thread {index} stands still in {what}; seed {seed:#x}");
                    std::process::exit(101);
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    match foul.into_inner().ok().flatten() {
        Some(why) => Err(format!("{why}; seed {seed:#x}")),
        None => Ok(tally.into_inner().unwrap_or_default()),
    }
}

/// A directory, by system calls.
#[derive(Clone, Debug)]
pub struct Directory(pub PathBuf);

impl Directory {
    fn path(&self, spot: Spot) -> PathBuf {
        let name = |part: [u8; 1]| char::from(part[0]).to_string();
        spot.parts().fold(self.0.clone(), |path, part| path.join(name(part)))
    }

    /// Walks the tree: everything can be looked at and read, and every link count is that of the names found.
    ///
    /// # Errors
    /// What is not in order.
    pub fn survey(&self) -> std::result::Result<u64, String> {
        more_descriptors();
        let mut links: BTreeMap<u64, (u64, u64, PathBuf)> = BTreeMap::new();
        let root = File::open(&self.0).map_err(|error| error.to_string())?;
        let mut todo = vec![(self.0.clone(), Arc::new(root), OsString::new())];
        let mut count = 0;
        while let Some((shown, parent, name)) = todo.pop() {
            let told = |path: &Path, error| format!("{}: {error}", path.display());
            let folder = File::open(within(&parent, name)).map_err(|error| told(&shown, error))?;
            let folder = Arc::new(folder);
            let mut sub_directories = 0;
            let entries = std::fs::read_dir(within(&folder, OsString::new()));
            for entry in entries.map_err(|error| told(&shown, error))? {
                let name = entry.map_err(|error| told(&shown, error))?.file_name();
                let (path, place) = (shown.join(&name), within(&folder, name.clone()));
                let attr = place.symlink_metadata().map_err(|error| told(&path, error))?;
                count += 1;
                if attr.is_dir() {
                    sub_directories += 1;
                    todo.push((path, Arc::clone(&folder), name));
                    continue;
                }
                let bytes = std::fs::read(&place).map_err(|error| told(&path, error))?;
                if bytes.len() as u64 != attr.len() {
                    return Err(format!("{}: {} bytes", path.display(), bytes.len()));
                }
                links.entry(attr.ino()).or_insert((attr.nlink(), 0, path)).1 += 1;
            }
            let nlink = folder.metadata().map_err(|error| told(&shown, error))?.nlink();
            if nlink != sub_directories + 2 {
                return Err(format!("{}: nlink {nlink}", shown.display()));
            }
        }
        for (nlink, found, path) in links.into_values() {
            if nlink != found {
                return Err(format!("{}: nlink {nlink}, {found} names", path.display()));
            }
        }
        Ok(count)
    }
}

/// The short way to a name in an open directory: a war piles directories up deeper than a path can be
/// long.
fn within(folder: &File, name: OsString) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name)
}

/// Each directory on the way down may stay open.
fn more_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

impl Field for Directory {
    fn strike(&self, blow: Blow) -> std::result::Result<(), i32> {
        let path = |spot| self.path(spot);
        let open = |spot| OpenOptions::new().write(true).open(path(spot));
        let done = match blow {
            Blow::Create { at } => {
                OpenOptions::new().write(true).create_new(true).open(path(at)).map(drop)
            }
            Blow::Mkdir { at } => std::fs::create_dir(path(at)),
            Blow::Unlink { at } => std::fs::remove_file(path(at)),
            Blow::Rmdir { at } => std::fs::remove_dir(path(at)),
            Blow::Link { from, to } => std::fs::hard_link(path(from), path(to)),
            Blow::Rename { from, to, exchange } => {
                let flags = if exchange { KernelFlags::EXCHANGE } else { KernelFlags::empty() };
                rustix::fs::renameat_with(CWD, path(from), CWD, path(to), flags).map_err(Into::into)
            }
            Blow::Write { at, place, len } => {
                open(at).and_then(|file| file.write_all_at(&vec![7; len], place))
            }
            Blow::Truncate { at, len } => open(at).and_then(|file| file.set_len(len)),
            Blow::List { at } => match std::fs::read_dir(path(at)) {
                Ok(mut entries) => entries.try_for_each(|entry| entry.map(drop)),
                Err(error) => Err(error),
            },
        };
        done.map_err(|error| match error.raw_os_error() {
            Some(errno) => errno,
            None if error.kind() == ErrorKind::WriteZero => 28,
            None => -1,
        })
    }
}

/// A file system in this process.
pub struct Here<'a, S>(pub &'a Fs<S>);

impl<S: Store> Here<'_, S> {
    /// The directory of a name, held.
    fn dir(&self, spot: Spot) -> Result<(Ino, [u8; 1])> {
        let mut parts: Vec<_> = spot.parts().collect();
        let last = parts.pop().ok_or(Error::Invalid)?;
        let mut at = self.0.hold(Ino::ROOT)?.ino;
        for part in parts {
            let next = self.0.lookup(&Caller::ROOT, at, Name::parse(&part)?);
            self.0.forget(at, 1);
            at = next?.ino;
        }
        Ok((at, last))
    }

    fn at<R>(&self, spot: Spot, f: impl FnOnce(Ino, Name<'_>) -> Result<R>) -> Result<R> {
        let (dir, last) = self.dir(spot)?;
        let done = Name::parse(&last).and_then(|name| f(dir, name));
        self.0.forget(dir, 1);
        done
    }

    fn on<R>(&self, spot: Spot, f: impl FnOnce(Ino) -> Result<R>) -> Result<R> {
        let found = self.at(spot, |dir, name| self.0.lookup(&Caller::ROOT, dir, name))?;
        let done = f(found.ino);
        self.0.forget(found.ino, 1);
        done
    }
}

impl<S: Store + Sync> Field for Here<'_, S> {
    fn strike(&self, blow: Blow) -> std::result::Result<(), i32> {
        let (fs, root) = (self.0, &Caller::ROOT);
        let make = |at, kind| {
            let new = New { kind, perm: 0o755, umask: 0, rdev: 0 };
            let made = self.at(at, |dir, name| fs.create(root, dir, name, new))?;
            fs.forget(made.ino, 1);
            Ok(())
        };
        let done = match blow {
            Blow::Create { at } => make(at, Kind::File),
            Blow::Mkdir { at } => make(at, Kind::Directory),
            Blow::Unlink { at } => self.at(at, |dir, name| fs.unlink(root, dir, name)),
            Blow::Rmdir { at } => self.at(at, |dir, name| fs.rmdir(root, dir, name)),
            Blow::Link { from, to } => self.on(from, |ino| {
                let linked = self.at(to, |dir, name| fs.link(root, ino, dir, name))?;
                fs.forget(linked.ino, 1);
                Ok(())
            }),
            Blow::Rename { from, to, exchange } => self.at(from, |dir, name| {
                let flags = RenameFlags { exchange, ..Default::default() };
                self.at(to, |to_dir, to_name| fs.rename(root, dir, name, to_dir, to_name, flags))
            }),
            Blow::Write { at, place, len } => {
                self.on(at, |ino| fs.write(ino, place, &vec![7; len], false).map(drop))
            }
            Blow::Truncate { at, len } => self.on(at, |ino| {
                let set = esker::posix::SetAttr { size: Some(len), ..Default::default() };
                fs.setattr(root, ino, &set).map(drop)
            }),
            Blow::List { at } => self.on(at, |ino| {
                let each = &mut |_: esker::posix::Dirent<'_>| std::ops::ControlFlow::Continue(());
                fs.readdir(root, ino, esker::Cursor::START, false, each)
            }),
        };
        done.map_err(Error::errno)
    }
}
