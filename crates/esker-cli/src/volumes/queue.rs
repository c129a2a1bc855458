//! Writes of a volume past the kernel's cache, where the machine and the file allow it.
//!
//! Below: `esker_host::Writes`. Invariant: a machine that cannot is as right, and only slower.

use std::fs::File;

use esker_host::Writes;
use esker_volume::device::{Buffer, Queue};

/// The queue of a file.
pub struct Direct(Writes);

impl Direct {
    /// For a file that may be written, if that can be.
    pub fn begin(file: &File) -> Option<Box<dyn Queue>> {
        let writes = Writes::new(file).ok()?;
        Some(Box::new(Self(writes)))
    }
}

impl Queue for Direct {
    fn submit(&self, at: u64, source: Buffer) -> std::io::Result<Buffer> {
        self.0.submit(at, source.into_parts()).map(Buffer::from_parts)
    }

    fn wait(&self) -> std::io::Result<()> {
        self.0.wait()
    }
}
