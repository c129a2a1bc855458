//! Programs at random, over the embedded home and over the reference model: every answer is the same, and so is what is
//! left. Between any two steps the embedded home loses its heap, as a canister does when it is upgraded; once more its
//! memory fails to grow at each point in turn.

mod common;

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{APPEND, CREATE, DIRECTORY, EXCLUSIVE, FOLLOW, GIVEN, Program, TRUNCATE};
use esker::ground::{Heap, Memory};
use esker::memory::{Home, Options, Resident, Tuning};
use esker::posix::Fs;
use esker::store::Store;
use esker::{Attr, Error, Ino, Kind, Time};
use esker_proof::model::Model;
use esker_wasi::{Errno, Result, Rights};

const NOW: Time = Time { secs: 1_700_000_000, nanos: 7 };

fn root() -> Attr {
    Attr::new(Kind::Directory, 0o755, 0, 0, Ino::ROOT, NOW)
}

type Found<M> = Arc<Fs<Home<Resident<&'static M>>>>;

/// The files in a memory, as they are found there.
fn try_open<M: Memory>(memory: &'static M) -> Option<Found<M>> {
    let options = Options { size_max: u64::MAX, file_size_max: i64::MAX as u64, root: root() };
    let tuning = Tuning { cache_pages: 16, ..Tuning::USUAL };
    let home = Home::<Resident<_>>::open_with(memory, &options, &tuning).ok()?;
    Some(Arc::new(Fs::new(home, || NOW)))
}

fn open<M: Memory>(memory: &'static M) -> Found<M> {
    try_open(memory).unwrap()
}

/// A memory that does not grow when it is asked for the time that was chosen, nor the next times.
struct Scarce {
    heap: Heap,
    asked: AtomicU64,
    refused: std::ops::Range<u64>,
}

/// So often in a row: what asks for less when it was refused gets nothing either.
const IN_A_ROW: u64 = 8;

impl Scarce {
    fn from(nth: u64) -> Self {
        Self { heap: Heap::new(), asked: AtomicU64::new(0), refused: nth..nth + IN_A_ROW }
    }
}

impl Memory for Scarce {
    fn size(&self) -> u64 {
        self.heap.size()
    }

    fn grow(&self, size: u64) -> esker::Result<()> {
        if size > self.size() && self.refused.contains(&self.asked.fetch_add(1, Ordering::Relaxed))
        {
            return Err(Error::NoSpace);
        }
        self.heap.grow(size)
    }

    fn read(&self, at: u64, target: &mut [u8]) -> esker::Result<()> {
        self.heap.read(at, target)
    }

    fn write(&self, at: u64, source: &[u8]) -> esker::Result<()> {
        self.heap.write(at, source)
    }
}

/// Does it again while there is no room, which has changed nothing.
fn again<R>(mut act: impl FnMut() -> Result<R>) -> Result<R> {
    for _ in 0..IN_A_ROW {
        match act() {
            Err(Errno::NoSpace) => {}
            answer => return answer,
        }
    }
    act()
}

struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    fn path(&mut self) -> String {
        let parts = (0..=self.below(2)).map(|_| match self.below(32) {
            0 => "..",
            1 => ".",
            2 => "",
            3 => "a-name-that-is-longer-than-most",
            4..=6 => "link",
            7..=16 => "a",
            17..=25 => "b",
            _ => "c",
        });
        let path = parts.collect::<Vec<_>>().join("/");
        if self.below(12) == 0 { path + "/" } else { path }
    }
}

/// Opens, does something with what is open, and closes it.
fn with_open<S: Store, R>(
    program: &mut Program<S>,
    path: &str,
    (lookup, flags, fdflags): (u32, u32, u32),
    mut act: impl FnMut(&mut Program<S>, u32) -> Result<R>,
) -> Result<R> {
    let rights = (Rights::FILE, Rights::ALL);
    let fd = again(|| program.open_with(GIVEN, path, (lookup, flags, fdflags), rights))?;
    let done = again(|| act(program, fd));
    program.close(fd)?;
    done
}

/// One step; what came of it, in words.
fn step<S: Store>(program: &mut Program<S>, chance: &mut Chance) -> String {
    let (path, other) = (chance.path(), chance.path());
    let lookup = chance.below(2) as u32 * FOLLOW;
    let (at, len) = (chance.below(9000), chance.below(5000) as usize);
    let bytes: Vec<u8> = (0..len).map(|index| (index as u64 + at) as u8).collect();
    let answer = match chance.below(17) {
        0 | 1 => format!("{:?}", again(|| program.mkdir(GIVEN, &path))),
        2 => format!("{:?}", again(|| program.rmdir(GIVEN, &path))),
        3 => format!("{:?}", again(|| program.unlink(GIVEN, &path))),
        4 => format!("{:?}", again(|| program.rename(GIVEN, &path, GIVEN, &other))),
        5 => format!("{:?}", again(|| program.link(lookup, GIVEN, &path, GIVEN, &other))),
        6 => format!("{:?}", again(|| program.symlink(&path, GIVEN, &other))),
        7 => format!("{:?}", again(|| program.readlink(&path, 100))),
        8 | 9 => {
            let how = (lookup, CREATE | [0, EXCLUSIVE, TRUNCATE][chance.below(3) as usize], 0);
            let write = |program: &mut Program<S>, fd| program.write_at(fd, at, &bytes);
            format!("{:?}", with_open(program, &path, how, write))
        }
        10 | 11 => {
            let append = |program: &mut Program<S>, fd| {
                program.write(fd, &bytes).and_then(|len| Ok((len, program.tell(fd)?)))
            };
            format!("{:?}", with_open(program, &path, (lookup, CREATE, APPEND), append))
        }
        12 => {
            let size = |program: &mut Program<S>, fd| program.context.fd_filestat_set_size(fd, at);
            format!("{:?}", with_open(program, &path, (lookup, 0, 0), size))
        }
        13 => {
            let room =
                |program: &mut Program<S>, fd| program.context.fd_allocate(fd, at, 64 * len as u64);
            format!("{:?}", with_open(program, &path, (lookup, 0, 0), room))
        }
        14 => format!(
            "{:?}",
            again(|| program.set_times(&path, lookup, (at, at + 1), len as u32 % 16))
        ),
        15 => format!("{:?}", again(|| known(program, &path, lookup))),
        _ => format!("{:?}", again(|| program.content(&path))),
    };
    format!("{path} {other}: {answer}")
}

/// All that is known of a path but its number, which each home gives out as it likes.
fn known<S: Store>(program: &mut Program<S>, path: &str, lookup: u32) -> Result<[u64; 5]> {
    let stat = program.stat(GIVEN, path, lookup)?;
    Ok([stat.filetype.into(), stat.nlink, stat.size, stat.atim, stat.mtim])
}

/// Everything beneath a directory, in the order in which it is listed.
fn picture<S: Store>(program: &mut Program<S>, path: &str, into: &mut Vec<String>) {
    let rights = (Rights::DIRECTORY, Rights::NONE);
    let dir = program.open_with(GIVEN, path, (0, DIRECTORY, 0), rights).unwrap();
    let (found, all) = program.list(dir, 0x2_0000, 0).unwrap();
    assert!(all);
    program.close(dir).unwrap();
    for (_, _, filetype, name) in found.into_iter().skip(2) {
        let below = format!("{path}/{name}");
        let known = known(program, &below, 0);
        into.push(format!("{below} {known:?}"));
        match filetype {
            3 => picture(program, &below, into),
            7 => into.push(program.readlink(&below, 5000).unwrap()),
            _ => into.push(format!("{:?}", program.content(&below))),
        }
    }
}

#[test]
fn every_answer_is_the_models_though_the_heap_is_lost_between_any_two_steps() {
    let mut done = 0;
    for seed in 1..=30 {
        let memory: &'static Heap = Box::leak(Box::new(Heap::new()));
        let mut model = Program::over(&Arc::new(Fs::new(Model::new(root()), || NOW)));
        let (mut mine, mut models) = (Chance(seed), Chance(seed));
        for number in 0..400 {
            // Lost, not closed: nothing runs that could tidy up.
            let mut program = ManuallyDrop::new(Program::over(&open(memory)));
            let answer = step(&mut program, &mut mine);
            let expected = step(&mut model, &mut models);
            assert_eq!(answer, expected, "seed {seed}, step {number}");
            done += u32::from(answer.contains("Ok"));
        }
        let (mut found, mut expected) = (Vec::new(), Vec::new());
        picture(&mut Program::over(&open(memory)), ".", &mut found);
        picture(&mut model, ".", &mut expected);
        assert_eq!(found, expected, "seed {seed}");
    }
    assert!(done > 1500, "{done} of 12,000 steps did something");
}

#[test]
fn without_room_nothing_is_changed_and_later_everything_is_as_it_should_be() {
    let mut refused = 0;
    for nth in 0.. {
        let memory: &'static Scarce = Box::leak(Box::new(Scarce::from(nth)));
        let mut model = Program::over(&Arc::new(Fs::new(Model::new(root()), || NOW)));
        let (mut mine, mut models) = (Chance(nth + 1), Chance(nth + 1));
        let found = (0..=IN_A_ROW).find_map(|_| try_open(memory)).expect("there is room again");
        let mut program = Program::over(&found);
        for number in 0..1000 {
            let answer = step(&mut program, &mut mine);
            assert_eq!(answer, step(&mut model, &mut models), "growth {nth}, step {number}");
        }
        let (mut found, mut expected) = (Vec::new(), Vec::new());
        picture(&mut Program::over(&open(memory)), ".", &mut found);
        picture(&mut model, ".", &mut expected);
        assert_eq!(found, expected, "growth {nth}");
        let asked = memory.asked.load(Ordering::Relaxed);
        if asked <= nth {
            break;
        }
        refused += 1;
    }
    assert!(refused > 4, "{refused} growths");
}
