//! Files that a canister kept with ic-wasi-polyfill, copied into a memory of ours.
//!
//! Below: `esker_embedded::import`. Invariant: what is copied from stays as it is, and nothing is copied twice.

use core::fmt;
use std::ops::Range;

use esker::memory::OpenError;
pub use esker_embedded::Imported;
use esker_embedded::{Files, Stable, import};
use ic_stable_structures::Memory;
use ic_stable_structures::memory_manager::{MemoryId, MemoryManager};
use stable_fs::fs::FileSystem;
use stable_fs::storage::stable::StableStorage;

use crate::canister::now;
use crate::init::init_with_memory;

/// Why files could not be copied.
#[derive(Debug)]
pub enum ImportError {
    /// The old ones cannot be opened: the errno of WASI that stable-fs answers.
    Old(u16),
    /// The new ones cannot be opened.
    New(OpenError),
    /// One of them cannot be read or written.
    File(esker_embedded::ImportError),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Old(errno) => write!(f, "the old files cannot be opened: errno {errno}"),
            Self::New(error) => write!(f, "the new files cannot be opened: {error:?}"),
            Self::File(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ImportError {}

/// Files in the memory `new`. If that has no bytes, what ic-wasi-polyfill kept in the memories `old` is copied into it
/// first, and stays where it is.
///
/// # Errors
/// Why they could not be copied; a canister should trap then, so that nothing of it is kept.
pub fn init_from_stable_fs<M: Memory + 'static>(
    seed: &[u8],
    env_pairs: &[(&str, &str)],
    memory_manager: &MemoryManager<M>,
    old: Range<u8>,
    new: MemoryId,
) -> Result<Option<Imported>, ImportError> {
    let memory = memory_manager.get(new);
    let imported = match memory.size() {
        0 => {
            let storage = StableStorage::new_with_memory_manager(memory_manager, old);
            let mut from = FileSystem::new(Box::new(storage))
                .map_err(|error| ImportError::Old(error as u16))?;
            let mut to = Files::open_memory(Stable::new(memory), now).map_err(ImportError::New)?;
            Some(import(&mut from, &mut to).map_err(ImportError::File)?)
        }
        _ => None,
    };
    init_with_memory(seed, env_pairs, memory_manager.get(new));
    Ok(imported)
}
