//! Which files are open for writing: only of such a file can the kernel hold bytes back (writeback,
//! mmap), and it writes them back before the last close is told.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use esker::Ino;

/// How many times each file is open for writing.
#[derive(Default)]
pub struct Writers {
    counts: Mutex<HashMap<Ino, u32>>,
}

impl Writers {
    /// A file was opened.
    pub fn opened(&self, ino: Ino, write: bool) {
        if write {
            *self.counts().entry(ino).or_default() += 1;
        }
    }

    /// A file was closed for the last time since it was opened.
    pub fn closed(&self, ino: Ino, write: bool) {
        if !write {
            return;
        }
        let mut counts = self.counts();
        if let Some(count) = counts.get_mut(&ino) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&ino);
            }
        }
    }

    /// Somebody may write to it.
    pub fn has(&self, ino: Ino) -> bool {
        self.counts().contains_key(&ino)
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<Ino, u32>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
