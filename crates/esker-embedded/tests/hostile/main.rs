//! Hostile bytes: whatever a memory, an undo log, a file's own memory or files of stable-fs hold, to open and to use
//! them ends, panics nowhere, and takes no more memory than their size justifies.
//!
//! `ESKER_CASES` says how many of each kind, `ESKER_FUZZ_SECONDS` for how long instead, `ESKER_SEED` with which to
//! begin: a failure tells its own.

#[path = "../../../esker/tests/memory/chance.rs"]
#[allow(dead_code, reason = "the memory home's tests use all of it")]
mod chance;
#[cfg(feature = "import")]
mod import;
mod kit;
mod spoil;
mod usage;

use std::sync::atomic::Ordering::Relaxed;

use esker::ground::{Heap, Memory, Undo};
use esker::memory::{OpenError, Superblock};
use esker::store::{Batch, Change, Store as _, View as _};
use esker::{Attr, Error, Result};
use esker_embedded::{Backing, BackingHead, Fd, MountError, Open};

use chance::Chance;
use kit::{Counted, alone, bounded, bytes_of, hunt, memory_of, open};
use spoil::{number, spoil, spoil_log};
use usage::{story, use_all};

/// A home of few files, and one whose trees have three levels.
fn homes() -> [Vec<u8>; 2] {
    [40, 1500].map(|files| {
        let memory = Heap::new();
        story(&mut open(&memory).unwrap(), files);
        bytes_of(&memory)
    })
}

/// Opened, used, and opened again by somebody who comes later.
fn open_and_use(memory: &impl Memory) -> bool {
    let most = memory.size();
    let used = open(memory).map(|mut files| use_all(&mut files, most)).is_ok();
    if used && let Ok(files) = open(memory) {
        files.fs().store().check();
    }
    used
}

#[test]
fn any_bytes_can_be_opened_and_used() {
    let homes = homes();
    let sound = memory_of(&homes[0]);
    assert!(open_and_use(&Counted::new(&sound)), "a sound one");
    assert_eq!(open(&sound).unwrap().fs().store().check(), []);
    let (cases, opened) = hunt("a memory", 150, |chance| {
        let home = &homes[usize::from(chance.one_in(8))];
        let mut bytes = home.clone();
        spoil(chance, &mut bytes);
        bounded(|| open_and_use(&Counted::new(memory_of(&bytes))))
    });
    assert!(cases < 20 || opened * 4 > cases, "{opened} of {cases} could be opened");
}

/// A memory and a log, as they are left by a call that is killed.
fn killed(home: &[u8]) -> (Heap, Heap) {
    let (memory, log) = (memory_of(home), Heap::new());
    let undo = Undo::open(&memory, &log).unwrap();
    for page in [0, 3, 5, 8] {
        undo.write(page * 4096 + 100, &[7; 5000]).unwrap();
    }
    drop(undo);
    (memory, log)
}

#[test]
fn any_undo_log_can_be_opened_and_used() {
    let [home, _] = homes();
    let (memory, log) = killed(&home);
    drop(Undo::open(&memory, &log).unwrap());
    assert!(bytes_of(&memory) == home, "what a sound one puts back");
    let (memory, log) = killed(&home);
    let [memory, log] = [memory, log].map(|memory| bytes_of(&memory));
    let (cases, opened) = hunt("an undo log", 100, |chance| {
        let (mut memory, mut log) = (memory.clone(), log.clone());
        spoil_log(chance, &mut log);
        if chance.one_in(3) {
            spoil(chance, &mut memory);
        }
        let memory = Counted::new(memory_of(&memory));
        let log = Counted::new(memory_of(&log));
        bounded(|| match Undo::open(&memory, log) {
            Ok(undo) => open_and_use(&undo),
            Err(error) => {
                assert!(matches!(error, Error::Corrupt | Error::NoSpace), "{error}");
                false
            }
        })
    });
    assert!(cases < 20 || opened * 4 > cases, "{opened} of {cases} could be opened");
}

/// A memory of a file's own with any head, in any backing, on a file that may say anything of its size.
fn mounted(chance: &mut Chance) -> Result<bool, MountError> {
    let home = Heap::new();
    let mut files = open(&home).unwrap();
    story(&mut files, 5);
    let own = Heap::new();
    own.grow(chance.below(5) * 4000).unwrap();
    let size = number(chance, own.size().saturating_sub(4096));
    let head = BackingHead { magic: *b"EskrFile", version: 1, start: 4096, size };
    let mut bytes = head.encode();
    if chance.one_in(4) {
        bytes[chance.below(BackingHead::SIZE as u64) as usize] = chance.next() as u8;
    }
    let _ = own.write(0, &bytes);
    let has = own.size();
    let backing = match chance.below(4) {
        0 => Backing::Raw { size: number(chance, has) },
        1 => Backing::RawKept { first: number(chance, has) },
        _ => Backing::Kept,
    };
    if chance.one_in(2) {
        let size = number(chance, has).to_string();
        let value = [size.as_bytes(), b"x", b""][chance.below(3) as usize];
        usage::set_kept_size(&mut files, b"file1", value);
    }
    files.mount(Fd::ROOT, b"file1", Box::new(Counted::new(own)), backing)?;
    let size = files.stat_path(Fd::ROOT, b"file1", true).unwrap().size;
    assert!(size <= has, "{size} bytes in a memory of {has}");
    usage::use_mounted(&mut files, b"file1");
    use_all(&mut files, home.size());
    assert_eq!(files.fs().store().check(), [], "the home is nobody's enemy");
    Ok(true)
}

#[test]
fn any_memory_of_a_file_can_be_mounted_and_used() {
    let (cases, used) =
        hunt("a file's memory", 100, |chance| bounded(|| mounted(chance).unwrap_or(false)));
    assert!(cases < 20 || used * 8 > cases, "{used} of {cases} could be mounted");
}

/// Two directories, each of which says that the other is above it.
#[test]
fn a_way_up_without_end_is_told() {
    let _alone = alone();
    let memory = Heap::new();
    let mut files = open(&memory).unwrap();
    files.make_dirs(Fd::ROOT, b"a/b/c").unwrap();
    files.mkdir(Fd::ROOT, b"d").unwrap();
    let [a, b] = [&b"a"[..], b"a/b"].map(|path| {
        let dir = files.open(Fd::ROOT, path, Open::READ).unwrap();
        files.ino(dir).unwrap()
    });
    let store = files.fs().store();
    for (ino, parent) in [(a, b), (b, a)] {
        let mut batch = Batch::new();
        batch.push(Change::Set { ino, attr: Attr { parent, ..store.attr(ino).unwrap() } });
        store.commit(&batch).unwrap();
    }
    let moved = bounded(|| files.rename(Fd::ROOT, b"d", Fd::ROOT, b"a/b/c/d"));
    assert_eq!(moved, Err(Error::Corrupt));
    drop(files);
    // As many inodes as this memory cannot hold: who counts steps by them would go on for ever.
    let mut bytes = bytes_of(&memory);
    let block = Superblock::decode(&bytes).unwrap();
    bytes[..128].copy_from_slice(&Superblock { inodes: 1 << 60, ..block }.sealed());
    assert_eq!(open(memory_of(&bytes)).err(), Some(OpenError::Torn));
}

/// What finds loops and counts memory does so.
#[test]
fn the_fuzz_itself_finds_what_it_is_for() {
    let _alone = alone();
    let found = |what: fn(&Counted<Heap>)| {
        let memory = Counted::new(memory_of(&[0; 8192]));
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| bounded(|| what(&memory))))
            .is_err()
    };
    assert!(!found(|memory| memory.read(0, &mut [0; 100]).unwrap()));
    assert!(found(|memory| while memory.read(0, &mut [0; 100]).is_ok() {}), "a loop");
    assert!(found(|_| drop(std::hint::black_box(vec![0_u8; kit::too_many()]))), "too much");
    assert!(kit::CALLS_MAX.load(Relaxed) > 0);
}
