//! What workloads do to files, so that each is written once: through the kernel, as any program does, or
//! in process.

mod kernel;
mod library;

pub use kernel::Kernel;
pub use library::{Library, system};

use std::io;

/// A directory to work in.
pub trait Files: Sized + Sync {
    /// An open file.
    type File: Send + Sync;
    /// The kernel keeps copies of what was asked before.
    const CACHED: bool;

    /// Makes a directory in it.
    fn make_dir(&self, name: &str) -> io::Result<Self>;
    /// Removes an empty directory in it.
    fn remove_dir(&self, name: &str) -> io::Result<()>;
    /// A new file, open for writing; with `append`, in that mode.
    fn create(&self, name: &str, append: bool) -> io::Result<Self::File>;
    /// A file that is there, open for reading and writing.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// Finds a file and its attributes by its name.
    fn look_up(&self, name: &[u8]) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, name: &[u8]) -> io::Result<()>;
    /// Every name but `.` and `..`.
    fn list(&self, each: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()>;
    /// Fills the buffer.
    fn read_at(&self, file: &Self::File, at: u64, target: &mut [u8]) -> io::Result<()>;
    /// Writes all bytes.
    fn write_at(&self, file: &Self::File, at: u64, source: &[u8]) -> io::Result<()>;
    /// Comes back when the bytes are where they stay.
    fn sync(&self, file: &Self::File) -> io::Result<()>;
    /// Has the kernel drop its copies; whether it could be asked to.
    fn drop_caches(&self) -> bool;

    /// What is read next comes from where it is kept.
    fn is_fresh(&self) -> bool {
        !Self::CACHED || self.drop_caches()
    }
}
