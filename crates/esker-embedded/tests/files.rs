//! What handles promise beyond what POSIX decides below them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use esker::ground::{Heap, Memory};
use esker::memory::OpenError;
use esker::{Error, Result, Time};
use esker_embedded::{Backing, Fd, Files, Lock, Open, Settings};

fn now() -> Time {
    Time { secs: 5, nanos: 0 }
}

#[test]
fn locks_are_between_handles_and_go_with_them() {
    let mut files = Files::open_memory(Heap::new(), now).unwrap();
    let [a, b, c] = [(); 3].map(|()| files.open(Fd::ROOT, b"file", Open::CREATE).unwrap());
    let other = files.open(Fd::ROOT, b"other", Open::CREATE).unwrap();
    files.lock(a, Some(Lock::Shared)).unwrap();
    files.lock(b, Some(Lock::Shared)).unwrap();
    assert_eq!(files.lock(c, Some(Lock::Exclusive)), Err(Error::Busy));
    assert_eq!(files.lock(a, Some(Lock::Exclusive)), Err(Error::Busy), "b has one too");
    files.lock(other, Some(Lock::Exclusive)).unwrap();
    files.lock(b, None).unwrap();
    files.lock(a, Some(Lock::Exclusive)).unwrap();
    assert_eq!(files.lock(c, Some(Lock::Shared)), Err(Error::Busy));
    files.close(a).unwrap();
    files.lock(c, Some(Lock::Exclusive)).unwrap();
    assert_eq!(files.lock(a, Some(Lock::Shared)), Err(Error::BadHandle));
    // A number that is given out again brings no lock along.
    let again = files.open(Fd::ROOT, b"file", Open::READ).unwrap();
    assert_eq!((again, files.lock(again, Some(Lock::Shared))), (a, Err(Error::Busy)));
}

#[test]
fn limits_are_told_and_nothing_is_written_past_them() {
    let (size_max, file_size_max) = (1 << 20, 100_000);
    let settings = Settings { size_max, file_size_max, cache_pages: 4, ..Settings::default() };
    let mut files = Files::open_memory_with(Heap::new(), now, &settings).unwrap();
    let file = files.open(Fd::ROOT, b"file", Open::CREATE).unwrap();
    assert_eq!(files.write(file, &[1; 99_000]), Ok(99_000));
    // At length, and quickly once the file is warm.
    assert_eq!(files.write(file, &[2; 900]), Ok(900));
    assert_eq!(files.write(file, &[3; 101]), Err(Error::FileTooBig));
    assert_eq!(files.write(file, &[3; 100]), Ok(100));
    assert_eq!(files.set_len(file, 100_001), Err(Error::FileTooBig));
    assert_eq!(files.stat(file).unwrap().size, 100_000);
    let full = (0..100).find_map(|number| {
        let file = files.open(Fd::ROOT, format!("file{number}").as_bytes(), Open::CREATE).ok()?;
        files.write(file, &[4; 100_000]).err()
    });
    assert_eq!(full, Some(Error::NoSpace));
    assert_eq!(files.fs().store().check(), []);
}

#[test]
fn a_file_s_own_limit_is_kept_with_it() {
    let memory = Heap::new();
    let open = || Files::open_memory(&memory, now).unwrap();
    let mut files = open();
    let file = files.open(Fd::ROOT, b"file", Open::CREATE).unwrap();
    assert_eq!(files.write(file, &[1; 2000]), Ok(2000));
    assert_eq!(files.write(file, &[1; 2000]), Ok(2000), "warm from here on");
    assert_eq!(files.size_limit(file), Ok(None));
    files.set_size_limit(file, Some(5000)).unwrap();
    assert_eq!(files.write(file, &[2; 1001]), Err(Error::FileTooBig));
    assert_eq!(files.write(file, &[2; 900]), Ok(900));
    assert_eq!(files.write(file, &[3; 101]), Err(Error::FileTooBig), "twice in the same time");
    // An upgrade, and another handle.
    drop(files);
    let mut files = open();
    let file = files.open(Fd::ROOT, b"file", Open::WRITE).unwrap();
    assert_eq!(files.size_limit(file), Ok(Some(5000)));
    assert_eq!(files.write_at(file, 4900, &[3; 101]), Err(Error::FileTooBig));
    assert_eq!(files.set_len(file, 5001), Err(Error::FileTooBig));
    assert_eq!(files.reserve(file, 0, 5001), Err(Error::FileTooBig));
    assert_eq!(files.set_len(file, 5000), Ok(()));
    // What is longer than a new limit stays, and gets no longer.
    files.set_size_limit(file, Some(10)).unwrap();
    assert_eq!(files.write_at(file, 4000, &[4; 1000]), Ok(1000));
    assert_eq!(files.write_at(file, 4000, &[4; 1001]), Err(Error::FileTooBig));
    files.mount(Fd::ROOT, b"file", Box::new(Heap::new()), Backing::Kept).unwrap();
    assert_eq!(files.write_at(file, 0, &[5; 11]), Err(Error::FileTooBig), "mounted too");
    assert_eq!(files.write_at(file, 0, &[5; 10]), Ok(10));
    files.set_size_limit(file, None).unwrap();
    assert_eq!(files.write_at(file, 0, &[5; 11]), Ok(11));
    files.unmount(Fd::ROOT, b"file").unwrap();
    assert_eq!((files.size_limit(file), files.set_len(file, 100_000)), (Ok(None), Ok(())));
    let reader = files.open(Fd::ROOT, b"file", Open::READ).unwrap();
    assert_eq!(files.set_size_limit(reader, Some(1)), Err(Error::BadHandle));
    assert_eq!(files.size_limit(Fd::ROOT), Err(Error::IsDirectory));
    assert_eq!(files.fs().store().check(), []);
}

/// A byte in a hole takes a page, of a size that can be another at each opening.
#[test]
fn the_page_size_is_tuned_at_each_opening() {
    let memory = Heap::new();
    let open = |page_size| {
        let settings = Settings { page_size, ..Settings::default() };
        Files::open_memory_with(&memory, now, &settings)
    };
    for page_size in [0, 256, 600, 131_072] {
        assert_eq!(open(page_size).err(), Some(OpenError::Unfit { page_size }));
        assert_eq!(memory.size(), 0, "nothing was laid down");
    }
    for page_size in [512, 4096, 65_536] {
        let mut files = open(page_size).unwrap();
        let name = format!("file{page_size}");
        let file = files.open(Fd::ROOT, name.as_bytes(), Open::CREATE).unwrap();
        let before = files.space().used;
        files.write_at(file, 1_000_000, b"x").unwrap();
        let taken = u64::from(page_size).max(512);
        let blocks = files.stat(file).unwrap().blocks * 512;
        assert_eq!(blocks, taken, "one page");
        assert!(files.space().used >= before + taken);
        // Back to front, so that nothing is claimed ahead.
        for at in (0..100).rev() {
            files.write_at(file, at * 10_000, &[at as u8 + 1; 3]).unwrap();
        }
        let mut bytes = vec![9; 1_000_001];
        assert_eq!(files.read_at(file, 0, &mut bytes), Ok(1_000_001));
        for (at, &byte) in bytes[..1_000_000].iter().enumerate() {
            let written = if at % 10_000 < 3 { (at / 10_000 + 1) as u8 } else { 0 };
            assert_eq!(byte, written, "at {at}");
        }
        files.close(file).unwrap();
        let attr = files.stat_path(Fd::ROOT, name.as_bytes(), true).unwrap();
        let most = 1_000_001_u64.next_multiple_of(page_size.into());
        assert!(attr.blocks * 512 <= most, "{page_size}: {} blocks", attr.blocks);
        assert_eq!(files.fs().store().check(), []);
    }
}

#[test]
fn directories_come_and_go_with_what_is_in_them() {
    let mut files = Files::open_memory(Heap::new(), now).unwrap();
    files.make_dirs(Fd::ROOT, b"/a/b//c/").unwrap();
    files.make_dirs(Fd::ROOT, b"a/b/c/d").unwrap();
    let used = files.space().used;
    for (number, dir) in ["a", "a/b", "a/b/c", "a/b/c/d"].iter().enumerate() {
        for file in 0..50 * number {
            let name = format!("{dir}/file{file}");
            let file = files.open(Fd::ROOT, name.as_bytes(), Open::CREATE).unwrap();
            files.write(file, &[7; 3000]).unwrap();
            files.close(file).unwrap();
        }
    }
    files.symlink(b"/", Fd::ROOT, b"a/b/root").unwrap();
    let before = files.open(Fd::ROOT, b"keep", Open::CREATE).unwrap();
    assert_eq!(files.make_dirs(Fd::ROOT, b"keep/d"), Err(Error::NotDirectory));
    assert_eq!(files.make_dirs(Fd::ROOT, b"a/b/c/d/file1"), Err(Error::NotDirectory));
    files.remove_all(Fd::ROOT, b"a/b").unwrap();
    assert_eq!(files.stat_path(Fd::ROOT, b"a/b", false), Err(Error::NotFound));
    assert_eq!(files.remove_all(Fd::ROOT, b"a/b"), Err(Error::NotFound));
    assert!(files.stat_path(Fd::ROOT, b"keep", false).is_ok(), "a link is not followed");
    files.reserve(before, 0, 1 << 20).unwrap();
    assert_eq!(files.stat(before).unwrap().size, 1 << 20);
    files.close(before).unwrap();
    assert!(files.space().used >= 1 << 20);
    files.remove_all(Fd::ROOT, b"keep").unwrap();
    assert!(files.space().used <= used + 65_536, "{} bytes more", files.space().used - used);
    assert_eq!(files.fs().store().check(), []);
}

/// Counts what is read, and refuses to be written.
struct Reading<'a> {
    memory: &'a Heap,
    reads: &'a AtomicU64,
    bytes: &'a AtomicU64,
}

impl Memory for Reading<'_> {
    fn size(&self) -> u64 {
        self.memory.size()
    }

    fn grow(&self, _: u64) -> Result<()> {
        Err(Error::Io)
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        self.reads.fetch_add(1, Relaxed);
        self.bytes.fetch_add(target.len() as u64, Relaxed);
        self.memory.read(at, target)
    }

    fn write(&self, _: u64, _: &[u8]) -> Result<()> {
        Err(Error::Io)
    }
}

/// To open what an upgrade left takes no longer the more there is, and changes nothing.
#[test]
fn opening_reads_a_few_pages_however_much_there_is() {
    let memory = Heap::new();
    let mut made = 0;
    for count in [0, 100, 10_000] {
        let mut files = Files::open_memory(&memory, now).unwrap();
        for number in made..count {
            let name = format!("file{number}");
            let file = files.open(Fd::ROOT, name.as_bytes(), Open::CREATE).unwrap();
            files.write(file, &vec![7; number % 3000]).unwrap();
            files.close(file).unwrap();
        }
        made = count;
        drop(files);
        let (reads, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let reading = Reading { memory: &memory, reads: &reads, bytes: &bytes };
        let mut files = Files::open_memory(reading, now).unwrap();
        let [reads, bytes] = [&reads, &bytes].map(|count| count.load(Relaxed));
        assert!(reads <= 12 && bytes <= 12 * 4096, "{count} files: {reads} reads, {bytes} bytes");
        let last = format!("file{}", count.max(1) - 1);
        let found = files.stat_path(Fd::ROOT, last.as_bytes(), true);
        assert_eq!(found.is_ok(), count > 0);
    }
}

#[test]
fn time_stands_still_where_it_is_told_to() {
    let ticks = Arc::new(AtomicI64::new(0));
    let clock = Arc::clone(&ticks);
    let tick = move || Time { secs: clock.fetch_add(1, Relaxed), nanos: 0 };
    let mut files = Files::open_memory(Heap::new(), tick).unwrap();
    let mut write = |at| {
        files.stand_still(at);
        let file = files.open(Fd::ROOT, b"file", Open::CREATE).unwrap();
        (0..3).for_each(|_| assert_eq!(files.write(file, &[1; 1000]), Ok(1000)));
        let written = files.stat(file).unwrap().mtime;
        files.close(file).unwrap();
        written
    };
    let known = ticks.load(Relaxed);
    let then = Time { secs: 77, nanos: 7 };
    assert_eq!((write(Some(then)), ticks.load(Relaxed)), (then, known), "nobody asked");
    let later = write(None);
    assert!(later.secs >= known && ticks.load(Relaxed) > later.secs, "{later:?}");
}
