//! Esker's embedded home, through handles and paths.

use esker::memory::{Home, Options, Resident, Tuning};
use esker::{Attr, Ino, Kind, Time};
use esker_embedded::{Fd, Files, Open, Stable, Whence};
use ic_stable_structures::DefaultMemoryImpl;

use crate::Subject;

type Memory = Stable<DefaultMemoryImpl>;

pub struct Esker(Files<Memory>);

/// Within a message the time stands still.
const NOW: Time = Time { secs: 1_700_000_000, nanos: 42 };

impl Esker {
    /// With so many pages at hand.
    pub fn new(cache_pages: usize) -> Self {
        let root = Attr::new(Kind::Directory, 0o755, 0, 0, Ino::ROOT, NOW);
        let options = Options { size_max: u64::MAX, file_size_max: u64::MAX, root };
        let memory = Stable::new(DefaultMemoryImpl::default());
        let tuning = Tuning { cache_pages, ..Tuning::USUAL };
        let home = Home::<Resident<Memory>>::open_with(memory, &options, &tuning);
        Self(Files::new(home.expect("an empty memory"), || NOW))
    }
}

impl Subject for Esker {
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
