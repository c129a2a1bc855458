//! The embedded home where the memory fails, or holds anything.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use esker::ground::{Heap, Memory, Region, Undo};
use esker::memory::{Home, OpenError, Resident, Tuning};
use esker::store::{Flow, Store, Use, View};
use esker::{Attr, Cursor, Error, Ino, Kind, Result, Time};

use crate::chance::Chance;
use crate::memories::Liar;
use crate::model::{Model, Word, assert_same, attr, commit, options};

const TUNING: Tuning = Tuning { cache_pages: 16, ..Tuning::USUAL };

type Embedded<M> = Home<Resident<M>>;

fn open<M: Memory>(memory: M) -> Result<Embedded<M>, OpenError> {
    Home::<Resident<M>>::open_with(memory, &options(u64::MAX), &TUNING)
}

/// A little of everything, as batches.
fn story() -> Vec<Vec<Word>> {
    let dir = Ino(2);
    let name = |number: u64| format!("file{number}");
    let mut story = vec![vec![
        Word::Make(dir, attr(Kind::Directory, Ino::ROOT, 1)),
        Word::Link(Ino::ROOT, "dir".into(), dir, Kind::Directory),
        Word::Set(Ino::ROOT, Attr { nlink: 3, ..options(0).root }),
    ]];
    for number in 0..40 {
        let ino = Ino(3 + number);
        story.push(vec![
            Word::Make(ino, attr(Kind::File, dir, number)),
            Word::Link(dir, name(number), ino, Kind::File),
            Word::Write(ino, number * 100, vec![7; 300 * number as usize]),
        ]);
    }
    for number in 0..20 {
        let (ino, other) = (Ino(3 + number * 2), Ino(4 + number * 2));
        story.push(vec![Word::Write(ino, 10_000, vec![9; 30_000])]);
        story.push(vec![Word::Share(ino, 0, other, 512, 20_000), Word::Cut(ino, 7_777)]);
        story.push(vec![Word::Xattr(other, "user.a".into(), Some(vec![1; 2000]))]);
        story.push(vec![Word::Unlink(dir, name(number * 2)), Word::Drop(ino)]);
    }
    story
}

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

/// Growth fails at every point in turn: the batch is refused whole, and the next one finds everything in order.
#[test]
fn growth_fails_at_every_point_in_turn() {
    let mut refused = 0;
    for nth in 1.. {
        let liar = Liar::once(nth);
        let opened = (0..20).find_map(|_| match open(&liar) {
            Ok(home) => Some(home),
            Err(error) => {
                assert_eq!((error, liar.size()), (OpenError::Memory(Error::NoSpace), 0));
                refused += 1;
                None
            }
        });
        let home = opened.expect("growth fails a few times in a row");
        let mut model = Model::new(options(0).root);
        for words in story() {
            let before = model.clone();
            model.apply(&words).unwrap();
            if commit(&home, &words) == Err(Error::NoSpace) {
                refused += 1;
                model = before;
                assert_eq!(home.check(), []);
                model.inodes.keys().for_each(|&ino| assert_same(&home, &model, ino));
                // Growth fails a few times in a row.
                assert!((0..20).any(|_| commit(&home, &words).is_ok()), "refused for ever");
                model.apply(&words).unwrap();
            }
        }
        assert_eq!(home.check(), []);
        model.inodes.keys().for_each(|&ino| assert_same(&home, &model, ino));
        if liar.calls() < nth {
            assert!(nth > 4 && refused > nth, "{refused} refused, of {nth} growths");
            return;
        }
    }
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

/// Everything that can be asked, and some changes: no answer matters, only that there is one.
fn use_all<M: Memory>(home: &Embedded<M>) {
    let _ = home.check();
    let _ = home.orphans();
    let mut bytes = vec![0; 5000];
    let now = Time { secs: 9, nanos: 9 };
    for number in 0..45 {
        let ino = Ino(number);
        let _ = home.attr(ino);
        let _ = home.read(ino, 0, &mut bytes);
        let _ = home.read(ino, 20_000, &mut bytes);
        let _ = home.next_data(ino, 3);
        let _ = home.xattrs(ino, &mut |_| Flow::Continue(()));
        let mut count = 0;
        let _ = home.entries(ino, Cursor::START, true, &mut |_| {
            count += 1;
            if count < 1000 { Flow::Continue(()) } else { Flow::Break(()) }
        });
        home.warm(ino, Use::Write, now);
        let _ = home.rewrite(ino, 5, &bytes, now);
    }
    let _ = home.drop_left_behind();
    let fresh = home.next_ino(Ino::ROOT, Kind::File);
    let dir = Ino(2);
    let words = [
        vec![
            Word::Make(fresh, attr(Kind::File, dir, 5)),
            Word::Link(dir, "fresh".into(), fresh, Kind::File),
            Word::Write(fresh, 0, vec![5; 70_000]),
        ],
        vec![Word::Write(Ino(8), 100, vec![6; 9000])],
        vec![Word::Cut(Ino(10), 5)],
        vec![Word::Punch(Ino(12), 100, 9000)],
        vec![Word::Share(Ino(14), 0, fresh, 0, 600)],
        vec![Word::Unlink(dir, "file3".into()), Word::Drop(Ino(6))],
        vec![Word::Unlink(dir, "file5".into()), Word::Drop(Ino(8))],
        vec![Word::Reserve(Ino(16), 0, 100_000)],
    ];
    for words in words {
        let _ = commit(home, &words);
    }
    let _ = home.check();
}

/// Whatever bytes there are: no panic, no endless loop.
#[test]
fn any_bytes_can_be_opened_and_walked() {
    let memory = Heap::new();
    let home = open(&memory).unwrap();
    story().iter().for_each(|words| commit(&home, words).unwrap());
    drop(home);
    let sound = bytes_of(&memory);
    let rounds = std::env::var("ESKER_CASES").ok().and_then(|cases| cases.parse().ok());
    let mut opened = 0;
    for round in 0..rounds.unwrap_or(1500_u64) {
        let mut chance = Chance::new(round);
        let mut bytes = sound.clone();
        for _ in 0..=chance.below(6) {
            let page = chance.below(bytes.len() as u64 / 4096) as usize * 4096;
            // Where trees have their pages: near the beginning.
            let page = if chance.one_in(3) { page } else { page % (64 * 4096) };
            let at = page + chance.below(4096) as usize;
            match chance.below(6) {
                0 => bytes[page..page + 4096].fill([0, 255][chance.below(2) as usize]),
                1 => {
                    let other = chance.below(64) as usize * 4096;
                    bytes.copy_within(other..other + 4096, page);
                }
                2 => bytes[at] ^= 1 << chance.below(8),
                3 => bytes[page + chance.below(16) as usize] = chance.next() as u8,
                _ => bytes[at] = chance.next() as u8,
            }
        }
        if chance.one_in(3) {
            bytes[8..120][chance.below(112) as usize] = chance.next() as u8;
        }
        seal(&mut bytes);
        let hostile = memory_of(&bytes);
        let done = catch_unwind(AssertUnwindSafe(|| {
            if let Ok(home) = open(&hostile) {
                opened += 1;
                use_all(&home);
            }
        }));
        assert!(done.is_ok(), "round {round} panicked");
    }
    assert!(opened > 300, "{opened} could be opened");
}

/// Gives the superblock the check that its bytes should have.
fn seal(bytes: &mut [u8]) {
    if let Some(block) = esker::memory::Superblock::decode(bytes) {
        bytes[..128].copy_from_slice(&block.sealed());
    }
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
