//! The settings of chunks that ic-wasi-polyfill has, so that who sets them need not change a line. There are no chunks
//! here: nothing comes of them.

use std::cell::RefCell;

use esker_wasi::Result;

/// How long chunks would be, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ChunkSize {
    CHUNK4K = 4096,
    CHUNK8K = 8192,
    CHUNK16K = 16384,
    CHUNK32K = 32768,
    CHUNK64K = 65536,
}

impl ChunkSize {
    /// All of them.
    pub const VALUES: [Self; 5] =
        [Self::CHUNK4K, Self::CHUNK8K, Self::CHUNK16K, Self::CHUNK32K, Self::CHUNK64K];
}

/// In which way chunks would be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ChunkType {
    V1 = 1,
    V2 = 2,
}

/// What was set.
#[derive(Debug)]
pub struct Storage {
    size: ChunkSize,
    kind: ChunkType,
}

impl Storage {
    /// Notes it, and nothing else.
    ///
    /// # Errors
    /// Never.
    pub const fn set_chunk_size(&mut self, size: ChunkSize) -> Result {
        self.size = size;
        Ok(())
    }

    /// What was set last, in bytes.
    #[must_use]
    pub const fn chunk_size(&self) -> usize {
        self.size as usize
    }

    /// Notes it, and nothing else.
    pub const fn set_chunk_type(&mut self, kind: ChunkType) {
        self.kind = kind;
    }

    /// What was set last.
    #[must_use]
    pub const fn chunk_type(&self) -> ChunkType {
        self.kind
    }
}

/// Where settings are found. Files are reached through `std::fs`.
#[derive(Debug)]
pub struct FileSystem {
    /// The settings.
    pub storage: Storage,
}

thread_local! {
    /// The one that there is.
    pub static FS: RefCell<FileSystem> = const {
        let storage = Storage { size: ChunkSize::CHUNK16K, kind: ChunkType::V2 };
        RefCell::new(FileSystem { storage })
    };
}
