//! Files in memories of their own, under the names that ic-wasi-polyfill has for that.
//!
//! Below: `esker_embedded::mounted`. As there, whoever does not care what a function answers need not look. Invariant:
//! mounts are not kept; who wants one after an upgrade makes it again.

use esker::ground::Memory;
use esker_embedded::mounted::{init_mounted, mount, store_mounted, unmount};
use esker_embedded::{Backing, MountError, Stable};
use esker_wasi::Errno;

use crate::init::with_files;

/// How long a mounted file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountedFileSizePolicy {
    /// As long as it was, which the memory knows: its first page is for that. Nothing in a memory of no bytes. A memory
    /// that holds something else is refused.
    PreviousOrZero,
    /// The same, but a memory that holds something else is the file's from its first byte on: all of it when it is
    /// mounted so for the first time, and later as long as it was, which the file below keeps.
    PreviousOrMemoryPages,
    /// So many bytes from the first of the memory on.
    Explicit(u64),
    /// All of the memory.
    MemoryPages,
}

/// A memory behind a pointer, as the crate of memories has none.
struct Boxed(Box<dyn ic_stable_structures::Memory>);

impl ic_stable_structures::Memory for Boxed {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn grow(&self, pages: u64) -> i64 {
        self.0.grow(pages)
    }

    fn read(&self, offset: u64, dst: &mut [u8]) {
        self.0.read(offset, dst);
    }

    fn write(&self, offset: u64, src: &[u8]) {
        self.0.write(offset, src);
    }
}

fn errno(error: MountError) -> Errno {
    match error {
        MountError::File(error) => error.into(),
        _ => Errno::Invalid,
    }
}

/// Backs a file with a memory: what is written to it goes there, and is not limited by the files' own memory. The file
/// is made if it is not there. An errno, or 0.
pub fn mount_memory_file(
    file_name: &str,
    memory: Box<dyn ic_stable_structures::Memory>,
    size_policy: MountedFileSizePolicy,
) -> i32 {
    use MountedFileSizePolicy as Policy;

    let memory = Stable::new(Boxed(memory));
    let backing = match size_policy {
        Policy::PreviousOrZero => Backing::Kept,
        Policy::PreviousOrMemoryPages if is_kept(&memory) => Backing::Kept,
        Policy::PreviousOrMemoryPages => Backing::RawKept { first: memory.size() },
        Policy::MemoryPages => Backing::RawPages,
        Policy::Explicit(size) => Backing::Raw { size },
    };
    with_files(|fs| mount(fs, file_name.as_bytes(), Box::new(memory), backing).map_err(errno))
}

/// Whether it is without bytes, or begins as a file's own memory does.
fn is_kept(memory: &impl Memory) -> bool {
    let mut magic = [0; Backing::MAGIC.len()];
    memory.size() == 0 || memory.read(0, &mut magic).is_ok() && magic == Backing::MAGIC
}

/// The file has the bytes again that it had before it was mounted. An errno, or 0.
pub fn unmount_memory_file(file_name: &str) -> i32 {
    with_files(|fs| Ok(unmount(fs, file_name.as_bytes()).map(drop)?))
}

/// The bytes that the file has itself become those of the memory. An errno, or 0.
pub fn init_memory_file(file_name: &str) -> i32 {
    with_files(|fs| Ok(init_mounted(fs, file_name.as_bytes())?))
}

/// The bytes of the memory become those that the file has itself. An errno, or 0.
pub fn store_memory_file(file_name: &str) -> i32 {
    with_files(|fs| Ok(store_mounted(fs, file_name.as_bytes())?))
}
