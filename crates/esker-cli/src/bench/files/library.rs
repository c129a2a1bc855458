//! A directory of a file system in this process: what Esker costs without a kernel between.

use std::io;
use std::sync::Arc;

use esker::ground::Clock as _;
use esker::memory::{Home, Options};
use esker::posix::{Caller, Fs, New};
use esker::store::Flow;
use esker::{Attr, Cursor, Error, Ino, Kind, Name};
use esker_host::{Arena, SystemClock};

use super::Files;
use crate::failure::{Exit, Failure, Outcome};
use crate::units::ram;

/// A file system in anonymous memory.
type Memory = Fs<Home<Arena>>;

/// About as many bytes of names as getdents(2) gives at once.
const BATCH_LEN: usize = 32 * 1024;
const FILE: New = New { kind: Kind::File, perm: 0o644, umask: 0o022, rdev: 0 };
const DIRECTORY: New = New { kind: Kind::Directory, perm: 0o755, ..FILE };

/// A directory in it.
#[derive(Clone)]
pub struct Library {
    /// The file system.
    pub fs: Arc<Memory>,
    /// The directory.
    pub dir: Ino,
}

/// A file that is held, as an open descriptor would.
pub struct Held {
    fs: Arc<Memory>,
    ino: Ino,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.fs.forget(self.ino, 1);
    }
}

impl Library {
    /// The root directory of an empty file system, which may take half of the memory, as a mount of Esker
    /// does.
    pub fn new() -> Outcome<Self> {
        let size_max = ram() / 2;
        let root = Attr::new(Kind::Directory, 0o755, 0, 0, Ino::ROOT, SystemClock.now());
        let options = Options { size_max, file_size_max: i64::MAX as u64, root };
        let home = Arena::new(size_max).and_then(|arena| Home::new(arena, &options));
        let home = home.map_err(|error| {
            let what = format!("cannot make a file system in this process ({error})");
            Failure::new(Exit::Failed, what, "")
        })?;
        Ok(Self { fs: Arc::new(Fs::new(home, SystemClock)), dir: Ino::ROOT })
    }

    /// Makes a file and lets go of it at once.
    pub fn make_file(&self, text: &str) -> io::Result<Ino> {
        let name = name(text.as_bytes())?;
        let node = self.fs.create(&Caller::ROOT, self.dir, name, FILE).map_err(system)?;
        self.fs.forget(node.ino, 1);
        Ok(node.ino)
    }

    fn held(&self, ino: Ino) -> Held {
        Held { fs: Arc::clone(&self.fs), ino }
    }
}

/// The system's error for ours.
pub fn system(error: Error) -> io::Error {
    io::Error::from_raw_os_error(error.errno())
}

fn name(bytes: &[u8]) -> io::Result<Name<'_>> {
    Name::parse(bytes).map_err(system)
}

impl Files for Library {
    type File = Held;
    const CACHED: bool = false;

    fn make_dir(&self, text: &str) -> io::Result<Self> {
        let name = name(text.as_bytes())?;
        let dir = self.fs.create(&Caller::ROOT, self.dir, name, DIRECTORY).map_err(system)?.ino;
        Ok(Self { fs: Arc::clone(&self.fs), dir })
    }

    fn remove_dir(&self, text: &str) -> io::Result<()> {
        let dir = self.open(text)?;
        // Made and held once by `make_dir`.
        self.fs.forget(dir.ino, 1);
        self.fs.rmdir(&Caller::ROOT, self.dir, name(text.as_bytes())?).map_err(system)
    }

    fn create(&self, text: &str, _append: bool) -> io::Result<Held> {
        let name = name(text.as_bytes())?;
        let node = self.fs.create(&Caller::ROOT, self.dir, name, FILE).map_err(system)?;
        Ok(self.held(node.ino))
    }

    fn open(&self, text: &str) -> io::Result<Held> {
        let node = self.fs.lookup(&Caller::ROOT, self.dir, name(text.as_bytes())?);
        Ok(self.held(node.map_err(system)?.ino))
    }

    fn look_up(&self, text: &[u8]) -> io::Result<()> {
        let node = self.fs.lookup(&Caller::ROOT, self.dir, name(text)?).map_err(system)?;
        self.fs.forget(node.ino, 1);
        Ok(())
    }

    fn remove(&self, text: &[u8]) -> io::Result<()> {
        self.fs.unlink(&Caller::ROOT, self.dir, name(text)?).map_err(system)
    }

    /// In batches, because nobody may call the file system while it lists.
    fn list(&self, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let (mut names, mut ends) = (Vec::with_capacity(BATCH_LEN + 256), Vec::new());
        let mut after = Cursor::DOT_DOT;
        loop {
            names.clear();
            ends.clear();
            let listed = self.fs.readdir(&Caller::ROOT, self.dir, after, false, &mut |dirent| {
                names.extend_from_slice(dirent.name);
                ends.push(names.len());
                after = dirent.cursor;
                if names.len() < BATCH_LEN { Flow::Continue(()) } else { Flow::Break(()) }
            });
            listed.map_err(system)?;
            if ends.is_empty() {
                return Ok(());
            }
            let mut start = 0;
            for &end in &ends {
                each(&names[start..end])?;
                start = end;
            }
        }
    }

    fn read_at(&self, file: &Held, at: u64, target: &mut [u8]) -> io::Result<()> {
        let count = self.fs.read(file.ino, at, target).map_err(system)?;
        if count == target.len() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn write_at(&self, file: &Held, at: u64, source: &[u8]) -> io::Result<()> {
        let count = self.fs.write(file.ino, at, source, false).map_err(system)?;
        if count == source.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    fn sync(&self, file: &Held) -> io::Result<()> {
        self.fs.fsync(file.ino, true).map_err(system)
    }

    /// There is no kernel in between that could know anything.
    fn drop_caches(&self) -> bool {
        false
    }
}
