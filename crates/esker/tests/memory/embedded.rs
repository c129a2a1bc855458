//! The embedded home where the memory fails, or holds anything.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use esker::ground::{Heap, Memory, Region, Undo};
use esker::memory::OpenError;
use esker::store::{Store, Use, View};
use esker::{Error, Ino, Result, Time};

use crate::chance::Chance;
use crate::memories::Liar;
use crate::model::{Model, Word, assert_same, commit, options};
use crate::story::{fails_in_turn, open, story};

fn bytes_of(memory: &Heap) -> Vec<u8> {
    let mut bytes = vec![0; memory.size() as usize];
    memory.read(0, &mut bytes).unwrap();
    bytes
}

fn memory_of(bytes: &[u8]) -> Heap {
    let memory = Heap::new();
    memory.grow(bytes.len() as u64).unwrap();
    memory.write(0, bytes).unwrap();
    memory
}

/// Each batch is refused whole, and the next one finds everything in order.
#[test]
fn growth_fails_at_every_point_in_turn() {
    fails_in_turn(|nth| {
        let liar = Liar::once(nth);
        let calls = liar.counter();
        (Box::new(liar), calls)
    });
}

/// What a returned call did is in the memory: the bytes after each are a home of their own.
#[test]
fn every_moment_between_calls_can_be_opened() {
    let memory = Heap::new();
    let home = open(&memory).unwrap();
    let mut model = Model::new(options(0).root);
    for words in story() {
        commit(&home, &words).unwrap();
        model.apply(&words).unwrap();
        let copy = memory_of(&bytes_of(&memory));
        let later = open(&copy).unwrap();
        assert_eq!(later.check(), []);
        model.inodes.keys().for_each(|&ino| assert_same(&later, &model, ino));
    }
}

/// A trap rolls back what the module did, in both memories: the copy from before goes on as if nothing had been.
#[test]
fn a_call_rolled_back_has_not_been() {
    let memory = Heap::new();
    let mut model = Model::new(options(0).root);
    drop(open(&memory).unwrap());
    let mut bytes = bytes_of(&memory);
    for words in story() {
        // The call that traps.
        let lost = memory_of(&bytes);
        commit(&open(&lost).unwrap(), &words).unwrap();
        // The same again, after the trap.
        let again = memory_of(&bytes);
        let home = open(&again).unwrap();
        model.inodes.keys().for_each(|&ino| assert_same(&home, &model, ino));
        commit(&home, &words).unwrap();
        model.apply(&words).unwrap();
        assert_eq!(home.check(), []);
        bytes = bytes_of(&again);
    }
}

/// Writes what it is told to until its time has come: of the last write only the first half.
struct Mortal<'a> {
    memory: &'a Heap,
    left: &'a AtomicU64,
}

impl Memory for Mortal<'_> {
    fn size(&self) -> u64 {
        self.memory.size()
    }

    fn grow(&self, size: u64) -> Result<()> {
        self.memory.grow(size)
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        self.memory.read(at, target)
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        match self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)) {
            Ok(1) => self.memory.write(at, &source[..source.len() / 2]).and(Err(Error::Io)),
            Ok(_) => self.memory.write(at, source),
            Err(_) => Err(Error::Io),
        }
    }
}

/// Killed at every write: what comes back is the state before the call that was under way, or after it.
#[test]
fn a_call_that_was_killed_has_been_or_has_not() {
    let (mut step, mut killed) = (1, 0);
    for life in 1.. {
        let (memory, log) = (Heap::new(), Heap::new());
        let left = AtomicU64::new(step);
        let mortal = |memory| Mortal { memory, left: &left };
        let mut model = Model::new(options(0).root);
        let mut next = model.clone();
        let born = Undo::open(mortal(&memory), mortal(&log)).map(open);
        let done = born.is_ok_and(|home| {
            home.is_ok_and(|home| {
                story().iter().all(|words| {
                    model = next.clone();
                    next.apply(words).unwrap();
                    commit(&home, words).is_ok()
                })
            })
        });
        if done {
            break;
        }
        killed += 1;
        step += 1;
        let undo = Undo::open(&memory, &log).unwrap();
        if undo.size() == 0 {
            continue;
        }
        match open(undo) {
            Err(error) => panic!("life {life}: {error}"),
            Ok(home) => {
                assert_eq!(home.check(), []);
                let same = |model: &Model| {
                    catch_unwind(AssertUnwindSafe(|| {
                        model.inodes.keys().for_each(|&ino| assert_same(&home, model, ino));
                    }))
                    .is_ok()
                };
                assert!(same(&model) || same(&next), "life {life}: neither before nor after");
            }
        }
    }
    assert!(killed > 100, "{killed} lives");
}

/// Quick writes and reads agree with those at length, through everything that may come between.
#[test]
fn warm_inodes_agree_with_cold_ones() {
    let memory = Heap::new();
    let home = open(&memory).unwrap();
    let mut model = Model::new(options(0).root);
    for words in &story()[..41] {
        commit(&home, words).unwrap();
        model.apply(words).unwrap();
    }
    let now = Time { secs: 5, nanos: 6 };
    let (mut chance, mut quick, mut read) = (Chance::new(11), [0, 0], vec![0; 9000]);
    for _ in 0..4000 {
        let ino = Ino(3 + chance.below(30));
        let size = model.inodes[&ino].bytes.len() as u64;
        let (at, len) = (chance.below(size + 10), chance.below(3000) + 1);
        match chance.below(6) {
            0 | 1 => {
                let bytes = chance.bytes(len as usize);
                let word = Word::Write(ino, if chance.one_in(2) { at } else { size }, bytes);
                let Word::Write(_, at, bytes) = &word else { unreachable!() };
                if home.rewrite(ino, *at, bytes, now).unwrap() {
                    quick[0] += 1;
                } else {
                    commit(&home, std::slice::from_ref(&word)).unwrap();
                    home.warm(ino, Use::Write, now);
                }
                model.apply(&[word]).unwrap();
            }
            2 | 3 => {
                home.warm(ino, Use::Read, now);
                if let Some(count) = home.reread(ino, at, &mut read, now).unwrap() {
                    quick[1] += 1;
                    let bytes = &model.inodes[&ino].bytes;
                    let expected = &bytes[bytes.len().min(at as usize)..];
                    assert_eq!(read[..count], expected[..expected.len().min(9000)]);
                }
            }
            4 if chance.one_in(20) => {
                let words = [Word::Share(ino, 0, Ino(40), 0, size.min(4000))];
                commit(&home, &words).unwrap();
                model.apply(&words).unwrap();
            }
            _ if chance.one_in(10) => {
                let words = [Word::Cut(ino, at)];
                commit(&home, &words).unwrap();
                model.apply(&words).unwrap();
            }
            _ => assert_same(&home, &model, ino),
        }
    }
    model.inodes.keys().for_each(|&ino| assert_same(&home, &model, ino));
    assert_eq!(home.check(), []);
    assert!(quick.iter().all(|&count| count > 200), "hardly ever quick: {quick:?}");
}

#[test]
fn a_region_keeps_to_itself() {
    let memory = Heap::new();
    memory.grow(200_000).unwrap();
    memory.write(0, &[1; 131_072]).unwrap();
    let region = || Region::new(&memory, 131_072, 1 << 20).unwrap();
    memory.write(150_000, &[1]).unwrap();
    assert!(matches!(open(region()), Err(OpenError::Foreign)), "somebody is there already");
    // Bytes that are there, as in a memory that grew for its end, are no obstacle.
    memory.write(150_000, &[0]).unwrap();
    let home = open(region()).unwrap();
    let stories = story();
    stories.iter().for_each(|words| commit(&home, words).unwrap());
    let large = [Word::Write(Ino(4), 0, vec![3; 2 << 20])];
    assert_eq!(commit(&home, &large), Err(Error::NoSpace), "more than the region");
    assert_eq!(home.check(), []);
    drop(home);
    assert_eq!(open(region()).unwrap().check(), []);
    assert!(bytes_of(&memory)[..131_072].iter().all(|&byte| byte == 1), "the neighbour's bytes");
}

/// The home of the golden memories: a little of everything that the format has.
fn golden() -> Vec<Vec<Word>> {
    let mut story = story();
    story.truncate(16);
    let xattr = |ino, len| Word::Xattr(Ino(ino), "user.a".into(), Some(vec![1; len]));
    story.push(vec![Word::Write(Ino(5), 10_000, vec![9; 3000])]);
    story.push(vec![Word::Share(Ino(12), 0, Ino(6), 512, 2000), Word::Cut(Ino(12), 1777)]);
    story.push(vec![xattr(7, 100), xattr(8, 2000)]);
    story.push(vec![Word::Reserve(Ino(9), 0, 5000)]);
    story.push(vec![Word::Unlink(Ino(2), "file1".into()), Word::Drop(Ino(4))]);
    story
}

/// A memory that any version wrote is opened by all later ones, and can be changed. `ESKER_GOLDEN=1` writes down the
/// one of this version, for when there is a new one.
#[test]
fn golden_memories_open_for_ever() {
    let mut model = Model::new(options(0).root);
    golden().iter().for_each(|words| model.apply(words).unwrap());
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/memory/golden");
    if std::env::var_os("ESKER_GOLDEN").is_some() {
        let memory = Heap::new();
        let home = open(&memory).unwrap();
        golden().iter().for_each(|words| commit(&home, words).unwrap());
        std::fs::write(folder.join("v1.memory"), bytes_of(&memory)).unwrap();
    }
    let mut versions = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let memory = memory_of(&std::fs::read(file.unwrap().path()).unwrap());
        let home = open(&memory).unwrap();
        assert_eq!(home.check(), []);
        model.inodes.keys().for_each(|&ino| assert_same(&home, &model, ino));
        let words = [Word::Write(Ino(5), 0, vec![4; 40_000])];
        commit(&home, &words).unwrap();
        let mut later = model.clone();
        later.apply(&words).unwrap();
        later.inodes.keys().for_each(|&ino| assert_same(&home, &later, ino));
        assert_eq!(home.check(), []);
        versions += 1;
    }
    assert!(versions > 0, "no golden memory");
}
