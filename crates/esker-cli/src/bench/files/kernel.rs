//! A directory through system calls.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, RawDir, openat, statat, syncfs, unlinkat};

use super::Files;

/// Opened when it is first worked in, so that its path alone keeps no mount busy.
pub struct Kernel {
    path: PathBuf,
    dir: std::sync::OnceLock<File>,
}

impl Kernel {
    /// The directory at `path`.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), dir: std::sync::OnceLock::new() }
    }

    /// For programs, which take paths.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn dir(&self) -> io::Result<&File> {
        if let Some(dir) = self.dir.get() {
            return Ok(dir);
        }
        let dir = File::open(&self.path)?;
        Ok(self.dir.get_or_init(|| dir))
    }

    fn open_with(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let mode = Mode::from_raw_mode(0o644);
        Ok(openat(self.dir()?, name, flags | OFlags::CLOEXEC, mode)?.into())
    }
}

impl Files for Kernel {
    type File = File;
    const CACHED: bool = true;

    fn make_dir(&self, name: &str) -> io::Result<Self> {
        let path = self.path.join(name);
        fs::create_dir(&path)?;
        Ok(Self::new(&path))
    }

    fn remove_dir(&self, name: &str) -> io::Result<()> {
        fs::remove_dir(self.path.join(name))
    }

    fn create(&self, name: &str, append: bool) -> io::Result<File> {
        let append = if append { OFlags::APPEND } else { OFlags::empty() };
        self.open_with(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | append)
    }

    fn open(&self, name: &str) -> io::Result<File> {
        self.open_with(name, OFlags::RDWR)
    }

    fn look_up(&self, name: &[u8]) -> io::Result<()> {
        statat(self.dir()?, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(())
    }

    fn remove(&self, name: &[u8]) -> io::Result<()> {
        Ok(unlinkat(self.dir()?, name, AtFlags::empty())?)
    }

    fn list(&self, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let dir = self.open_with(".", OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut buffer = Vec::with_capacity(64 * 1024);
        let mut entries = RawDir::new(&dir, buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            let entry = entry?;
            match entry.file_name().to_bytes() {
                b"." | b".." => {}
                name => each(name)?,
            }
        }
        Ok(())
    }

    fn read_at(&self, file: &File, at: u64, target: &mut [u8]) -> io::Result<()> {
        file.read_exact_at(target, at)
    }

    /// Linux appends whatever the offset where the file was opened for that.
    fn write_at(&self, file: &File, at: u64, source: &[u8]) -> io::Result<()> {
        file.write_all_at(source, at)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// Only root can. Inodes with bytes that are still to be written stay, and some file systems say that they
    /// are done a little early: so twice.
    fn drop_caches(&self) -> bool {
        let Ok(dir) = self.dir() else { return false };
        (0..2).all(|_| {
            let dropped = OpenOptions::new().write(true).open("/proc/sys/vm/drop_caches");
            syncfs(dir).is_ok()
                && dropped.and_then(|mut file| io::Write::write_all(&mut file, b"3")).is_ok()
        })
    }
}
