//! Programs at random, over the embedded home and over the reference model: every answer is the same, and so is what is
//! left. Between any two steps the embedded home loses its heap, as a canister does when it is upgraded.

mod common;

use std::mem::ManuallyDrop;
use std::sync::Arc;

use common::{APPEND, CREATE, DIRECTORY, EXCLUSIVE, FOLLOW, GIVEN, Program, TRUNCATE};
use esker::ground::Heap;
use esker::memory::{Home, Options, Resident, Tuning};
use esker::posix::Fs;
use esker::store::Store;
use esker::{Attr, Ino, Kind, Time};
use esker_proof::model::Model;
use esker_wasi::{Result, Rights};

const NOW: Time = Time { secs: 1_700_000_000, nanos: 7 };

fn root() -> Attr {
    Attr::new(Kind::Directory, 0o755, 0, 0, Ino::ROOT, NOW)
}

/// The files in a memory, as they are found there.
fn open(memory: &'static Heap) -> Arc<Fs<Home<Resident<&'static Heap>>>> {
    let options = Options { size_max: u64::MAX, file_size_max: i64::MAX as u64, root: root() };
    let tuning = Tuning { cache_pages: 16, ..Tuning::USUAL };
    let home = Home::<Resident<_>>::open_with(memory, &options, &tuning).unwrap();
    Arc::new(Fs::new(home, || NOW))
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
    act: impl FnOnce(&mut Program<S>, u32) -> Result<R>,
) -> Result<R> {
    let rights = (Rights::FILE, Rights::ALL);
    let fd = program.open_with(GIVEN, path, (lookup, flags, fdflags), rights)?;
    let done = act(program, fd);
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
        0 | 1 => format!("{:?}", program.mkdir(GIVEN, &path)),
        2 => format!("{:?}", program.rmdir(GIVEN, &path)),
        3 => format!("{:?}", program.unlink(GIVEN, &path)),
        4 => format!("{:?}", program.rename(GIVEN, &path, GIVEN, &other)),
        5 => format!("{:?}", program.link(lookup, GIVEN, &path, GIVEN, &other)),
        6 => format!("{:?}", program.symlink(&path, GIVEN, &other)),
        7 => format!("{:?}", program.readlink(&path, 100)),
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
                |program: &mut Program<S>, fd| program.context.fd_allocate(fd, at, len as u64);
            format!("{:?}", with_open(program, &path, (lookup, 0, 0), room))
        }
        14 => format!("{:?}", program.set_times(&path, lookup, (at, at + 1), len as u32 % 16)),
        15 => format!("{:?}", known(program, &path, lookup)),
        _ => format!("{:?}", program.content(&path)),
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
