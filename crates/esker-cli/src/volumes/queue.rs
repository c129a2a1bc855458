//! Writes of a volume on a block device past the kernel's cache, where the machine allows it.
//!
//! Below: `esker_host::Writes`. Invariant: a machine that cannot is as right, and only slower.

use std::fs::File;
use std::os::unix::fs::FileTypeExt as _;

use esker_host::Writes;
use esker_volume::device::{Buffer, Queue};

/// The queue of a file.
pub struct Direct(Writes);

impl Direct {
    /// For a block device that may be written, if that can be; and what it is to be used by otherwise.
    pub fn begin(file: &File) -> Option<(Box<dyn Queue>, File)> {
        if !file.metadata().is_ok_and(|meta| meta.file_type().is_block_device()) {
            return None;
        }
        let (writes, file) = Writes::new(file).ok()?;
        Some((Box::new(Self(writes)), file))
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
