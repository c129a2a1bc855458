//! What goes wrong elsewhere and must not here: defects that were found in the crate stable-fs 0.13, each a promise.

use esker::memory::OpenError;
use esker::{Error, Time};
use esker_embedded::{Fd, Files, Open, Stable, Whence};
use ic_stable_structures::memory_manager::{MemoryId, MemoryManager};
use ic_stable_structures::{Memory, VectorMemory};

type Here = Files<Stable<VectorMemory>>;

fn now() -> Time {
    Time { secs: 5, nanos: 0 }
}

fn files() -> Here {
    Files::open_memory(Stable::new(VectorMemory::default()), now).unwrap()
}

fn put(files: &mut Here, path: &str, bytes: &[u8]) {
    let file = files.open(Fd::ROOT, path.as_bytes(), Open::EMPTY).unwrap();
    assert_eq!(files.write(file, bytes), Ok(bytes.len()));
    files.close(file).unwrap();
}

fn get(files: &mut Here, path: &str) -> Vec<u8> {
    let file = files.open(Fd::ROOT, path.as_bytes(), Open::READ).unwrap();
    let mut bytes = vec![0; files.stat(file).unwrap().size as usize];
    assert_eq!(files.read(file, &mut bytes), Ok(bytes.len()));
    files.close(file).unwrap();
    bytes
}

#[test]
fn a_file_renamed_onto_itself_stays() {
    let mut files = files();
    put(&mut files, "a", b"bytes");
    files.rename(Fd::ROOT, b"a", Fd::ROOT, b"a").unwrap();
    assert_eq!(get(&mut files, "a"), b"bytes");
}

#[test]
fn a_directory_cannot_move_into_itself() {
    let mut files = files();
    files.mkdir(Fd::ROOT, b"p").unwrap();
    files.mkdir(Fd::ROOT, b"p/q").unwrap();
    assert_eq!(files.rename(Fd::ROOT, b"p", Fd::ROOT, b"p/q/r"), Err(Error::Invalid));
    assert!(files.stat_path(Fd::ROOT, b"p/q", false).is_ok());
}

#[test]
fn saving_over_a_file_leaks_nothing() {
    let mut files = files();
    let bytes = vec![5; 1 << 20];
    put(&mut files, "t", &bytes);
    let before = files.space().used;
    for _ in 0..20 {
        put(&mut files, "new", &bytes);
        files.rename(Fd::ROOT, b"new", Fd::ROOT, b"t").unwrap();
    }
    assert!(files.space().used <= before + 65_536, "{} bytes more", files.space().used - before);
}

#[test]
fn an_open_file_can_be_unlinked() {
    let mut files = files();
    let before = files.space().used;
    let file = files.open(Fd::ROOT, b"o", Open::CREATE).unwrap();
    files.write(file, &[7; 100_000]).unwrap();
    files.unlink(Fd::ROOT, b"o").unwrap();
    let mut bytes = [0; 10];
    assert_eq!(files.seek(file, -10, Whence::End), Ok(99_990));
    assert_eq!((files.read(file, &mut bytes), bytes), (Ok(10), [7; 10]));
    files.close(file).unwrap();
    assert!(files.space().used <= before + 65_536);
}

#[test]
fn nothing_is_made_on_the_way() {
    let mut files = files();
    assert_eq!(files.open(Fd::ROOT, b"a/b/c", Open::CREATE), Err(Error::NotFound));
    assert_eq!(files.stat_path(Fd::ROOT, b"a", false), Err(Error::NotFound));
    put(&mut files, "f", b"x");
    assert_eq!(files.open(Fd::ROOT, b"f/child", Open::CREATE), Err(Error::NotDirectory));
    put(&mut files, "g", b"y");
    assert_eq!(files.link(Fd::ROOT, b"f", Fd::ROOT, b"g"), Err(Error::Exists));
}

#[test]
fn what_was_cut_off_does_not_come_back() {
    let mut files = files();
    let file = files.open(Fd::ROOT, b"s", Open::CREATE).unwrap();
    files.write(file, b"0123456789").unwrap();
    files.set_len(file, 4).unwrap();
    files.set_len(file, 10).unwrap();
    let mut bytes = [9; 10];
    assert_eq!(files.read_at(file, 0, &mut bytes), Ok(10));
    assert_eq!(&bytes, b"0123\0\0\0\0\0\0");
    files.set_len(file, 1 << 40).unwrap();
    files.write_at(file, 10 << 40, b"x").unwrap();
    assert!(files.space().used < 1 << 20, "a sparse file takes what was written");
}

/// A file open for reading cannot be written; a number that was closed is nothing.
#[test]
fn handles_are_what_they_were_opened_for() {
    let mut files = files();
    put(&mut files, "f", b"x");
    let file = files.open(Fd::ROOT, b"f", Open::READ).unwrap();
    assert_eq!(files.write(file, b"y"), Err(Error::BadHandle));
    files.close(file).unwrap();
    assert_eq!(files.read(file, &mut [0]), Err(Error::BadHandle));
    assert_eq!(files.close(Fd::ROOT), Err(Error::BadHandle));
    let file = files.open(Fd::ROOT, b"f", Open { append: true, ..Open::READ }).unwrap();
    files.write(file, b"y").unwrap();
    assert_eq!(get(&mut files, "f"), b"xy");
}

/// One memory of a manager's, beside others that are somebody else's, through an upgrade.
#[test]
fn a_managed_memory_holds_it_through_an_upgrade() {
    let memory = VectorMemory::default();
    let manager = || MemoryManager::init(memory.clone());
    let first = manager();
    first.get(MemoryId::new(1)).grow(1);
    first.get(MemoryId::new(1)).write(0, b"not ours");
    let open = |manager: &MemoryManager<VectorMemory>, id| {
        Files::open_memory(Stable::new(manager.get(MemoryId::new(id))), now)
    };
    assert_eq!(open(&first, 1).err(), Some(OpenError::Foreign), "an id that is in use");
    let mut files = open(&first, 2).unwrap();
    files.mkdir(Fd::ROOT, b"d").unwrap();
    let file = files.open(Fd::ROOT, b"d/f", Open::CREATE).unwrap();
    for part in 0..200_u8 {
        files.write(file, &[part; 1000]).unwrap();
    }
    // Nothing is closed, and nobody is told.
    drop((files, first));
    let later = manager();
    let mut files = open(&later, 2).unwrap();
    let file = files.open(Fd::ROOT, b"d/f", Open::READ).unwrap();
    let mut bytes = [0; 1000];
    for part in 0..200_u8 {
        assert_eq!(files.read(file, &mut bytes), Ok(1000));
        assert!(bytes.iter().all(|&byte| byte == part), "part {part}");
    }
    assert_eq!(files.read(file, &mut bytes), Ok(0));
    let mut neighbour = [0; 8];
    later.get(MemoryId::new(1)).read(0, &mut neighbour);
    assert_eq!(&neighbour, b"not ours");
}
