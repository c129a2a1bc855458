//! Esker's embedded home, through handles and paths.

use esker::Time;
use esker::ground::Memory;
use esker_embedded::{Backing, Fd, Files, Open, Settings, Stable, Whence};
use ic_stable_structures::DefaultMemoryImpl;
use ic_stable_structures::memory_manager::{MemoryId, MemoryManager, VirtualMemory};

use crate::{BACKED, Subject};

pub struct Esker<M: Memory>(Files<M>);

/// Within a message the time stands still.
const NOW: Time = Time { secs: 1_700_000_000, nanos: 42 };

fn files<M: Memory>(memory: M, cache_pages: usize) -> Files<M> {
    let settings = Settings { cache_pages, ..Settings::default() };
    let mut files = Files::open_memory_with(memory, || NOW, &settings).expect("an empty memory");
    files.stand_still(Some(NOW));
    files
}

impl Esker<Stable<DefaultMemoryImpl>> {
    /// With so many pages at hand.
    pub fn new(cache_pages: usize) -> Self {
        Self(files(Stable::new(DefaultMemoryImpl::default()), cache_pages))
    }
}

impl Esker<Stable<VirtualMemory<DefaultMemoryImpl>>> {
    /// In one of a manager's memories, as beside others of a canister.
    pub fn managed() -> Self {
        let manager = MemoryManager::init(DefaultMemoryImpl::default());
        Self(files(Stable::new(manager.get(MemoryId::new(200))), 1024))
    }

    /// Its largest files in memories of their own.
    pub fn mounted() -> Self {
        let manager = MemoryManager::init(DefaultMemoryImpl::default());
        let memory = |id| Stable::new(manager.get(MemoryId::new(id)));
        let mut files = files(memory(200), 1024);
        for (name, id) in BACKED.iter().zip(20..) {
            let memory = Box::new(memory(id));
            files.mount(Fd::ROOT, name.as_bytes(), memory, Backing::Kept).expect("mounts");
        }
        Self(files)
    }
}

impl<M: Memory> Subject for Esker<M> {
    type Handle = Fd;

    fn open(&mut self, path: &str, create: bool) -> Fd {
        let how = if create { Open::CREATE } else { Open::READ };
        self.0.open(Fd::ROOT, path.as_bytes(), how).expect("opens")
    }
    fn close(&mut self, file: Fd) {
        self.0.close(file).expect("closes");
    }
    #[inline]
    fn write(&mut self, file: Fd, source: &[u8]) -> usize {
        self.0.write(file, source).expect("writes")
    }
    #[inline]
    fn read(&mut self, file: Fd, target: &mut [u8]) -> usize {
        self.0.read(file, target).expect("reads")
    }
    fn seek(&mut self, file: Fd, at: u64) {
        self.0.seek(file, at as i64, Whence::Start).expect("seeks");
    }
    fn size(&mut self, file: Fd) -> u64 {
        self.0.stat(file).expect("is there").size
    }
    fn truncate(&mut self, file: Fd, len: u64) {
        self.0.set_len(file, len).expect("truncates");
    }
    fn stat(&mut self, path: &str) -> u64 {
        self.0.stat_path(Fd::ROOT, path.as_bytes(), true).expect("is there").size
    }
    fn mkdir(&mut self, path: &str) {
        self.0.mkdir(Fd::ROOT, path.as_bytes()).expect("makes");
    }
    fn list(&mut self, path: &str) -> u64 {
        let mut count = 0;
        let each = &mut |entry: esker::posix::Dirent<'_>| {
            count += u64::from(!entry.name.is_empty());
            core::ops::ControlFlow::Continue(())
        };
        self.0.list(Fd::ROOT, path.as_bytes(), each).expect("lists");
        count
    }
    fn unlink(&mut self, path: &str) {
        self.0.unlink(Fd::ROOT, path.as_bytes()).expect("removes");
    }
    fn rename(&mut self, old: &str, new: &str) {
        self.0.rename(Fd::ROOT, old.as_bytes(), Fd::ROOT, new.as_bytes()).expect("moves");
    }
}
