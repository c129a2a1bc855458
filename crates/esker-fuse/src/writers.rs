//! Which files are open for writing: only of such a file can the kernel hold bytes back (writeback,
//! mmap), and it writes them back before the last close is told.
//!
//! What cannot be written back was taken long ago, and the kernel by itself tells of it only when the
//! file is synced or closed: whoever fills a disk would write on for ever. So such a refusal is kept
//! here, the kernel is told to ask for the attributes anew, which it does before it takes the next
//! write, and the refusal is the answer, once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use esker::{Error, Ino, Result};

/// The files that are open for writing.
#[derive(Default)]
pub struct Writers {
    files: Mutex<HashMap<Ino, Writing>>,
}

/// One of them.
#[derive(Default)]
struct Writing {
    /// How many times it is open.
    count: u32,
    /// Why bytes could not be written back, until somebody hears of it.
    refusal: Option<Error>,
}

impl Writers {
    /// A file was opened; whether that is its first writer.
    pub fn opened(&self, ino: Ino, write: bool) -> bool {
        if !write {
            return false;
        }
        let mut files = self.files();
        let writing = files.entry(ino).or_default();
        writing.count += 1;
        writing.count == 1
    }

    /// A file was closed for the last time since it was opened; whether nobody writes to it now, but
    /// somebody did.
    pub fn closed(&self, ino: Ino, write: bool) -> bool {
        if !write {
            return false;
        }
        let mut files = self.files();
        let Some(writing) = files.get_mut(&ino) else { return false };
        writing.count -= 1;
        let last = writing.count == 0;
        if last {
            files.remove(&ino);
        }
        last
    }

    /// Somebody may write to it.
    pub fn has(&self, ino: Ino) -> bool {
        self.files().contains_key(&ino)
    }

    /// Bytes were refused whose writer was answered before; the next one is to hear of it.
    pub fn tell(&self, ino: Ino, error: Error) {
        if let Some(writing) = self.files().get_mut(&ino) {
            writing.refusal = Some(error);
        }
    }

    /// What a writer that is about to write must hear first.
    ///
    /// # Errors
    /// What earlier bytes were refused with.
    pub fn hear(&self, ino: Ino) -> Result<()> {
        let refusal = self.files().get_mut(&ino).and_then(|writing| writing.refusal.take());
        refusal.map_or(Ok(()), Err)
    }

    fn files(&self) -> MutexGuard<'_, HashMap<Ino, Writing>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
