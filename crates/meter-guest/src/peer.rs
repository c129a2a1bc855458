//! The crate stable-fs, by its documentation.

use ic_stable_structures::DefaultMemoryImpl;
use ic_stable_structures::memory_manager::{MemoryId, MemoryManager};
use stable_fs::fs::{ChunkSize, DstBuf, Fd, FdStat, FileSystem, OpenFlags, SrcBuf, Whence};
use stable_fs::storage::Storage;
use stable_fs::storage::stable::StableStorage;
use stable_fs::storage::types::MountedFileSizePolicy;

use crate::{BACKED, Subject};

pub struct Peer {
    fs: FileSystem,
    root: Fd,
    _manager: MemoryManager<DefaultMemoryImpl>,
}

impl Peer {
    /// With chunks of so many KiB; 99: its largest files mounted.
    pub fn new(kind: u32) -> Self {
        let manager = MemoryManager::init(DefaultMemoryImpl::default());
        let mut storage = StableStorage::new_with_memory_manager(&manager, 200..210);
        match kind {
            4 => storage.set_chunk_size(ChunkSize::CHUNK4K).expect("a new storage"),
            64 => storage.set_chunk_size(ChunkSize::CHUNK64K).expect("a new storage"),
            _ => {}
        }
        let mut fs = FileSystem::new(Box::new(storage)).expect("a new storage");
        if kind == 99 {
            for (name, id) in BACKED.iter().zip(20..) {
                let memory = Box::new(manager.get(MemoryId::new(id)));
                let policy = MountedFileSizePolicy::PreviousOrZero;
                fs.mount_memory_file(name, memory, policy).expect("mounts");
            }
        }
        let root = fs.root_fd();
        Self { fs, root, _manager: manager }
    }
}

impl Subject for Peer {
    type Handle = Fd;

    fn open(&mut self, path: &str, create: bool) -> Fd {
        let flags = if create { OpenFlags::CREATE } else { OpenFlags::empty() };
        self.fs.open(self.root, path, FdStat::default(), flags, 42).expect("opens")
    }
    fn close(&mut self, file: Fd) {
        self.fs.close(file).expect("closes");
    }
    fn write(&mut self, file: Fd, source: &[u8]) -> usize {
        let source = SrcBuf { buf: source.as_ptr(), len: source.len() };
        self.fs.write_vec(file, &[source]).expect("writes") as usize
    }
    fn read(&mut self, file: Fd, target: &mut [u8]) -> usize {
        let target = DstBuf { buf: target.as_mut_ptr(), len: target.len() };
        self.fs.read_vec(file, &[target]).expect("reads") as usize
    }
    fn seek(&mut self, file: Fd, at: u64) {
        self.fs.seek(file, at as i64, Whence::SET).expect("seeks");
    }
    fn size(&mut self, file: Fd) -> u64 {
        self.fs.metadata(file).expect("is there").size
    }
    fn truncate(&mut self, file: Fd, len: u64) {
        self.fs.set_file_size(file, len).expect("truncates");
    }
    fn stat(&mut self, path: &str) -> u64 {
        self.fs.open_metadata(self.root, path).expect("is there").size
    }
    fn mkdir(&mut self, path: &str) {
        self.fs.mkdir(self.root, path, FdStat::default(), 42).expect("makes");
    }
    fn list(&mut self, path: &str) -> u64 {
        let dir = self.fs.open(self.root, path, FdStat::default(), OpenFlags::DIRECTORY, 0);
        let dir = dir.expect("opens");
        let mut count = 0;
        let mut each = |_: &_, entry: &stable_fs::storage::types::DirEntry| {
            count += u64::from(entry.name.length > 0);
            true
        };
        self.fs.with_direntries(dir, Some(0), &mut each).expect("lists");
        self.fs.close(dir).expect("closes");
        count
    }
    fn unlink(&mut self, path: &str) {
        self.fs.remove_file(self.root, path).expect("removes");
    }
    fn rename(&mut self, old: &str, new: &str) {
        let moved = self.fs.rename(self.root, old, self.root, new).expect("moves");
        self.fs.close(moved).expect("closes");
    }
}
