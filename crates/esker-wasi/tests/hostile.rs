//! Programs that hand over nonsense: every function answers with an errno, and nothing panics, loops or grows.

mod common;

use common::door::{Door, again_linked};
use common::{CREATE, GIVEN, Program, files_of, refused};
use esker_wasi::{Errno, Guest as _, NAMES};

/// A small generator: which numbers come is not the point.
struct Chance {
    state: u64,
    /// The program shares its memory with the module that the functions are linked into, which nothing keeps it from
    /// spoiling but that it names places of its own, or none.
    shared: bool,
}

/// In a memory that is shared, numbers from `OWN` on that may be places are brought below it. The longest that a call
/// goes on from there ends where nobody has anything.
const OWN: u64 = 0x2000;
const SHARED: std::ops::Range<u64> = OWN..1 << 30;

impl Chance {
    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    fn place(&mut self, size: u64) -> u32 {
        let place = self.number(size) & u64::from(u32::MAX);
        (if self.shared && SHARED.contains(&place) { place % OWN } else { place }) as u32
    }

    fn number(&mut self, size: u64) -> u64 {
        match self.next() % 16 {
            0..=2 => self.next() % 8,
            3 => GIVEN.into(),
            4..=6 => 0x1000 + self.next() % 64 * 4,
            7 => size - self.next() % 64,
            8 => self.next() % size,
            9 => u32::MAX.into(),
            10 => u64::from(u32::MAX) - self.next() % 64,
            11 => self.next() % 4096,
            12 => 1 << (self.next() % 64),
            13 => u64::MAX - self.next() % 64,
            14 => (i64::MAX as u64).wrapping_add(self.next() % 64).wrapping_sub(32),
            _ => self.next(),
        }
    }
}

trait Given {
    fn given(chance: &mut Chance) -> Self;
}

/// As long as the programs' memory here.
const SIZE: u64 = 0x4_0000;

impl Given for u32 {
    fn given(chance: &mut Chance) -> Self {
        chance.place(SIZE)
    }
}

impl Given for u64 {
    fn given(chance: &mut Chance) -> Self {
        chance.number(SIZE)
    }
}

impl Given for i64 {
    fn given(chance: &mut Chance) -> Self {
        chance.number(SIZE).cast_signed()
    }
}

macro_rules! call_any {
    (
        guest { $($guest:ident($($g:ident: $gt:ty),*);)* }
        alone { $($alone:ident($($a:ident: $at:ty),*);)* }
    ) => {
        /// Calls one function with nonsense; whether it did something.
        fn call_any(program: &mut Program, which: u64, chance: &mut Chance) -> bool {
            let mut left = which;
            $(
                if left == 0 {
                    $(let $g = <$gt>::given(chance);)*
                    return program.context.$guest(&mut program.memory[..], $($g),*).is_ok();
                }
                left -= 1;
            )*
            $(
                if left == 0 {
                    $(let $a = <$at>::given(chance);)*
                    return program.context.$alone($($a),*).is_ok();
                }
                left -= 1;
            )*
            unreachable!("{left}")
        }
    };
}
esker_wasi::preview1!(call_any);

/// So many programs; more of them with `ESKER_CASES`.
fn cases(usual: u64) -> u64 {
    std::env::var("ESKER_CASES").map_or(usual, |cases| cases.parse().expect("is a number"))
}

#[test]
fn nonsense_is_answered() {
    let mut done = [0; 45];
    let mut fewest = 31;
    for seed in 1..=cases(8) {
        let mut program = Program::new();
        let shared = matches!(program.context, Door::Linked(_));
        let mut chance = Chance { state: 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed), shared };
        for name in ["a", "b", "a/c", "a/../b"] {
            let _ = program.mkdir(GIVEN, name);
        }
        program.open(GIVEN, "file", CREATE).unwrap();
        program.symlink("a/c", GIVEN, "link").unwrap();
        // What is linked in is interpreted, and all of its memory copied for each call.
        let calls = if shared { 5000 } else { 20_000 };
        fewest = if shared { 20 } else { fewest };
        for _ in 0..calls {
            // Short paths, pieces and subscriptions that mean something, among much that does not.
            for at in (0x1000..0x1100).step_by(4) {
                let word = match chance.next() % 5 {
                    0 => *b"a/..",
                    1 => (0x1000 + chance.next() as u32 % 256).to_le_bytes(),
                    2 => (chance.next() as u32 % 16).to_le_bytes(),
                    3 => chance.place(SIZE).to_le_bytes(),
                    _ => *b"link",
                };
                program.memory.put(at, &word).unwrap();
            }
            let which = chance.next() % 45;
            // What is closed, or has no rights any more, is good for nothing.
            let ends = ["fd_close", "fd_renumber", "fd_fdstat_set_rights"];
            if ends.contains(&NAMES[which as usize]) && !chance.next().is_multiple_of(64) {
                continue;
            }
            done[which as usize] += u32::from(call_any(&mut program, which, &mut chance));
            // What it was given may be gone by now.
            if let Door::Here(context) = &mut program.context
                && chance.next().is_multiple_of(64)
            {
                context.give(b"/", b"/").ok();
            }
        }
    }
    // Nonsense must come through sometimes, or it finds nothing.
    let often = done.iter().filter(|&&count| count > 0).count();
    assert!(often >= fewest, "{often}: {done:?}");
}

#[test]
fn nonsense_is_answered_by_what_is_linked_into_a_module() {
    again_linked(&["what_lies", "there_are_only", "a_full_home", "no_more_is_taken"]);
}

#[test]
fn what_lies_outside_of_the_memory_is_a_fault() {
    let mut program = Program::new();
    let file = program.open(GIVEN, "file", CREATE).unwrap();
    let end = program.memory.len() as u32;
    for (at, len) in
        [(end, 1), (end - 1, 2), (u32::MAX, 1), (end - 1, u32::MAX), (u32::MAX, u32::MAX)]
    {
        program.memory.put_u32(0x5100, at).unwrap();
        program.memory.put_u32(0x5104, len).unwrap();
        let memory = &mut program.memory[..];
        let context = &mut program.context;
        let answers = [
            context.fd_read(memory, file, 0x5100, 1, 0x5000),
            context.fd_write(memory, file, 0x5100, 1, 0x5000),
            context.fd_write(memory, 1, 0x5100, 1, 0x5000),
            context.fd_write(memory, file, at, 1, 0x5000),
            context.fd_write(memory, file, 0x5100, 0, at),
            context.path_create_directory(memory, GIVEN, at, len),
            context.path_unlink_file(memory, GIVEN, at, len),
            context.random_get(memory, at, len),
            context.fd_readdir(memory, GIVEN, at, len, 0, 0x5000),
            context.fd_filestat_get(memory, file, at),
            context.clock_time_get(memory, 0, 0, at),
            context.poll_oneoff(memory, at, 0x5000, 1, 0x5000),
        ];
        for (index, answer) in answers.into_iter().enumerate() {
            assert_eq!(answer, Err(Errno::Fault), "{index}: {len} at {at}");
        }
    }
    assert_eq!(program.content("file").unwrap(), b"");
    // A place for the answer is looked at before anything is done.
    program.memory.put(0x5100, &[0, 0x80, 0, 0, 5, 0, 0, 0]).unwrap();
    let memory = &mut program.memory[..];
    assert_eq!(program.context.fd_write(memory, file, 0x5100, 1, end), Err(Errno::Fault));
    assert_eq!(program.context.fd_write(memory, file, 0x5100, 1025, 0), Err(Errno::Invalid));
    assert_eq!(program.content("file").unwrap(), b"");
    let bytes = program.memory.put(0x1000, b"\xff");
    assert_eq!(bytes, Ok(()));
    let bad = program.context.path_create_directory(&mut program.memory[..], GIVEN, 0x1000, 1);
    assert_eq!(refused(bad), Errno::IllegalBytes);
}

#[test]
fn there_are_only_so_many_descriptors() {
    let mut program = Program::new();
    program.make(GIVEN, "file", b"");
    let mut last = 0;
    let refusal = loop {
        match program.look(GIVEN, "file", 0, 0) {
            Ok(fd) => last = fd,
            Err(errno) => break errno,
        }
    };
    assert_eq!((last, refusal), (65_535, Errno::TooManyFiles));
    program.close(1000).unwrap();
    assert_eq!(program.look(GIVEN, "file", 0, 0), Ok(1000));
}

#[test]
fn a_full_home_says_so_and_room_comes_back() {
    let mut program = Program::over(&files_of(2 << 20));
    let file = program.open(GIVEN, "file", CREATE).unwrap();
    let (piece, mut done) = ([7; 0x8000], 0);
    let why = loop {
        match program.write(file, &piece) {
            Ok(count) => done += count,
            Err(errno) => break errno,
        }
    };
    assert_eq!(why, Errno::NoSpace);
    assert!(done > 1 << 20, "{done}");
    assert_eq!(refused(program.context.fd_allocate(file, 0, 2 << 20)), Errno::NoSpace);
    assert_eq!(program.stat_open(file).unwrap().size, done as u64);
    let last = done as u64 - piece.len() as u64;
    assert_eq!(program.read_at(file, last, piece.len()).unwrap(), piece);
    // Names and links take room too.
    let why = (0..100_000).find_map(|number| {
        let name = format!("{number:0200}");
        match number % 3 {
            0 => program.mkdir(GIVEN, &name),
            1 => program.symlink(&name, GIVEN, &name),
            _ => program.open(GIVEN, &name, CREATE).and_then(|fd| program.close(fd)),
        }
        .err()
    });
    assert_eq!(why, Some(Errno::NoSpace));
    program.close(file).unwrap();
    program.unlink(GIVEN, "file").unwrap();
    program.make(GIVEN, "again", &piece);
    assert_eq!(program.content("again").unwrap(), piece);
}

/// A length that a program names is not a length that is taken: whatever it asks for, one call takes a few pages.
#[test]
fn no_more_is_taken_than_a_program_has() {
    let mut program = Program::new();
    let file = program.open(GIVEN, "file", CREATE).unwrap();
    let end = program.memory.len() as u32;
    // A thousand pieces, each of which is all of the memory: more than can be told, and than is gathered.
    for index in 0..1024 {
        program.memory.put_u32(0x1000 + index * 8, 0).unwrap();
        program.memory.put_u32(0x1004 + index * 8, end).unwrap();
    }
    let memory = &mut program.memory[..];
    let context = &mut program.context;
    context.fd_write(memory, file, 0x1000, 1024, 0x5000).unwrap();
    let written = u32::from_le_bytes(memory.bytes(0x5000, 4).unwrap().try_into().unwrap());
    assert!(written >= end && written <= 64 << 20, "{written}");
    for count in [1025, 1 << 29, u32::MAX] {
        assert_eq!(context.fd_write(memory, file, 0x1000, count, 0x5000), Err(Errno::Invalid));
        assert_eq!(context.fd_read(memory, file, 0x1000, count, 0x5000), Err(Errno::Invalid));
    }
    for len in [1 << 16, (1 << 16) + 1, u32::MAX] {
        let refusal = context.poll_oneoff(memory, 0, 0, len, 0x5000).unwrap_err();
        assert_eq!(refusal, if len > 1 << 16 { Errno::Invalid } else { Errno::Fault });
    }
    assert_eq!(context.random_get(memory, 0, end + 1), Err(Errno::Fault));
    assert_eq!(context.fd_allocate(file, u64::MAX - 1, 2), Err(Errno::FileTooBig));
    assert_eq!(context.fd_filestat_set_size(file, u64::MAX), Err(Errno::FileTooBig));
    let far = context.fd_pwrite(memory, file, 0x1000, 1, u64::MAX - 5, 0x5000);
    assert_eq!(far, Err(Errno::FileTooBig));
    context.fd_pread(memory, file, 0x1000, 1, u64::MAX - 5, 0x5000).unwrap();
    assert_eq!(memory.bytes(0x5000, 4).unwrap(), [0; 4]);
}
