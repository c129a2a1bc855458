//! What a program has besides files: arguments, environment, clocks, chance, and waiting.

mod common;

use common::{BUFFER, CREATE, GIVEN, Program, refused};
use esker_wasi::{Errno, Guest as _};

#[test]
fn arguments_and_environment_are_laid_out_one_behind_the_other() {
    let mut program = Program::new();
    for word in [&b"program"[..], b"", b"two words"] {
        program.context.arg(word).unwrap();
    }
    program.context.env(b"HOME", b"/").unwrap();
    for (name, value) in [(&b""[..], &b"x"[..]), (b"a=b", b"x"), (b"a", b"x\0"), (b"a\0", b"")] {
        assert_eq!(program.context.env(name, value), Err(Errno::Invalid));
    }
    let memory = &mut program.memory[..];
    program.context.args_sizes_get(memory, 0x5000, 0x5004).unwrap();
    assert_eq!(memory.bytes(0x5000, 8).unwrap(), [3, 0, 0, 0, 19, 0, 0, 0]);
    program.context.args_get(memory, 0x5000, BUFFER).unwrap();
    assert_eq!(memory.bytes(BUFFER, 19).unwrap(), b"program\0\0two words\0");
    let places = [BUFFER, BUFFER + 8, BUFFER + 9].map(u32::to_le_bytes).concat();
    assert_eq!(memory.bytes(0x5000, 12).unwrap(), places);
    program.context.environ_sizes_get(memory, 0x5000, 0x5004).unwrap();
    assert_eq!(memory.bytes(0x5000, 8).unwrap(), [1, 0, 0, 0, 7, 0, 0, 0]);
    program.context.environ_get(memory, 0x5000, BUFFER).unwrap();
    assert_eq!(memory.bytes(BUFFER, 7).unwrap(), b"HOME=/\0");
}

#[test]
fn clocks_go_on_and_chance_fills_what_it_is_given() {
    let mut program = Program::new();
    let memory = &mut program.memory[..];
    for clock in [0, 1] {
        program.context.clock_res_get(memory, clock, 0x5000).unwrap();
        program.context.clock_time_get(memory, clock, 1, 0x5000).unwrap();
        let first = memory.bytes(0x5000, 8).unwrap().to_vec();
        program.context.clock_time_get(memory, clock, 0, 0x5000).unwrap();
        assert_ne!(memory.bytes(0x5000, 8).unwrap(), first);
    }
    for clock in [2, 3, 4, u32::MAX] {
        let errno = refused(program.context.clock_time_get(memory, clock, 0, 0x5000));
        assert_eq!(errno, Errno::Invalid);
    }
    program.context.random_get(memory, BUFFER, 0x1_0000).unwrap();
    let zeros = memory.bytes(BUFFER, 0x1_0000).unwrap().iter().filter(|byte| **byte == 0).count();
    assert!((128..512).contains(&zeros));
    program.context.random_get(memory, BUFFER, 0).unwrap();
}

const CLOCK: u8 = 0;
const READ: u8 = 1;
const WRITE: u8 = 2;

/// Subscribes, and tells each event: what was subscribed to, the error, and how many bytes.
fn poll(program: &mut Program, asked: &[(u8, u32, u64, u16)]) -> Vec<(u8, u16, u64)> {
    for (index, (tag, id, timeout, flags)) in (0..).zip(asked) {
        let at = 0x5000 + index * 48;
        let memory = &mut program.memory[..];
        memory.put_u64(at, index.into()).unwrap();
        memory.put_u64(at + 8, (*tag).into()).unwrap();
        memory.put_u32(at + 16, *id).unwrap();
        memory.put_u64(at + 24, *timeout).unwrap();
        memory.put_u64(at + 40, (*flags).into()).unwrap();
    }
    let (memory, len) = (&mut program.memory[..], asked.len() as u32);
    program.context.poll_oneoff(memory, 0x5000, BUFFER, len, 0x4f00).unwrap();
    let count = u32::from(memory[0x4f00]);
    let event = |index| memory.bytes(BUFFER + index * 32, 32).unwrap();
    let events = (0..count).map(event);
    events
        .map(|event| {
            let bytes = u64::from_le_bytes(event[16..24].try_into().unwrap());
            assert_eq!(event[10], asked[event[0] as usize].0);
            (event[0], u16::from_le_bytes([event[8], event[9]]), bytes)
        })
        .collect()
}

#[test]
fn waiting_ends_with_what_comes_first() {
    let mut program = Program::new();
    let before = program.context.world().now;
    let clocks = [(CLOCK, 1, 5_000_000, 0), (CLOCK, 0, 2_000_000, 0)];
    assert_eq!(poll(&mut program, &clocks), [(1, 0, 0)]);
    assert!(program.context.world().now >= before + 2_000_000);
    let soon = program.context.world().now + 1_000_000;
    assert_eq!(poll(&mut program, &[(CLOCK, 1, soon, 1)]), [(0, 0, 0)]);
    assert!(program.context.world().now >= soon);
    assert_eq!(poll(&mut program, &[(CLOCK, 1, 5, 1)]), [(0, 0, 0)]);
    // Input comes before the clock, or the clock without input.
    let either = [(CLOCK, 1, 9_000_000, 0), (READ, 0, 0, 0)];
    assert_eq!(poll(&mut program, &either), [(0, 0, 0)]);
    program.context.world().input = b"x".to_vec();
    assert_eq!(poll(&mut program, &either), [(1, 0, 1)]);
}

#[test]
fn files_and_output_never_make_anybody_wait() {
    let mut program = Program::new();
    let file = program.open(GIVEN, "file", CREATE).unwrap();
    program.write_at(file, 0, b"12345").unwrap();
    program.seek(file, 2, 0).unwrap();
    let asked = [
        (CLOCK, 1, 1 << 60, 0),
        (READ, file, 0, 0),
        (WRITE, file, 0, 0),
        (WRITE, 1, 0, 0),
        (READ, 0, 0, 0),
    ];
    assert_eq!(poll(&mut program, &asked), [(1, 0, 3), (2, 0, 0), (3, 0, 0)]);
    let wrong = [(READ, 99, 0, 0), (WRITE, 0, 0, 0), (CLOCK, 9, 0, 0), (READ, GIVEN, 0, 0)];
    let (bad, invalid) = (Errno::BadDescriptor.number(), Errno::Invalid.number());
    let incapable = Errno::NotCapable.number();
    let told = [(0, bad, 0), (1, incapable, 0), (2, invalid, 0), (3, incapable, 0)];
    assert_eq!(poll(&mut program, &wrong), told);
    let memory = &mut program.memory[..];
    assert_eq!(
        refused(program.context.poll_oneoff(memory, 0x5000, BUFFER, 0, 0x4f00)),
        Errno::Invalid
    );
    memory[0x5008] = 3;
    assert_eq!(
        refused(program.context.poll_oneoff(memory, 0x5000, BUFFER, 1, 0x4f00)),
        Errno::Invalid
    );
}
