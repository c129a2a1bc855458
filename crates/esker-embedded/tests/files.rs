//! What handles promise beyond what POSIX decides below them.

use esker::ground::Heap;
use esker::{Error, Time};
use esker_embedded::{Fd, Files, Lock, Open, Settings};

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
    let settings = Settings { size_max: 1 << 20, file_size_max: 100_000, cache_pages: 4 };
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
