//! The whole of what a canister may have: 500 GiB of addresses, over host memory that is taken only where it is
//! written.

use esker::ground::Region;
use esker::{Error, Time};
use esker_embedded::{Fd, Files, Open};
use esker_host::Arena;

const SIZE_MAX: u64 = 500 << 30;
/// Bytes of the largest files, of the smallest, and of what is written into each here and there.
const LEN_MAX: u64 = 3 << 30;
const LEN_MIN: u64 = 4096;
const PIECE_LEN: u64 = 100_000;
/// Bytes that may be left in the end: what the home keeps for its own pages.
const LEFT_MAX: u64 = 256 << 10;

type Memory = Region<Arena>;

fn open(memory: &Memory) -> Files<&Memory> {
    Files::open_memory(memory, || Time { secs: 5, nanos: 0 }).unwrap()
}

/// What a file has at its ends and in its middle.
fn pieces(number: u64, len: u64) -> impl Iterator<Item = (u64, Vec<u8>)> {
    let piece_len = PIECE_LEN.min(len);
    let byte = move |at: u64, index: u64| (index * (number + 7) + at) as u8 | 1;
    let places = [0, (len - piece_len) / 2, len - piece_len];
    let piece = move |at| (0..piece_len).map(|index| byte(at, at + index)).collect();
    // Short ones are written over themselves: the last one counts.
    places.into_iter().skip(if len > 3 * PIECE_LEN { 0 } else { 2 }).map(move |at| (at, piece(at)))
}

fn name(number: u64) -> Vec<u8> {
    format!("file{number}").into_bytes()
}

/// Files of space that is theirs, large ones as long as they fit, then smaller ones, until nothing fits; how long each
/// is.
fn fill(files: &mut Files<&Memory>) -> Vec<u64> {
    let (mut lens, mut len) = (Vec::new(), LEN_MAX);
    while len >= LEN_MIN {
        let number = lens.len() as u64;
        let file = match files.open(Fd::ROOT, &name(number), Open::CREATE) {
            Err(Error::NoSpace) => return lens,
            file => file.unwrap(),
        };
        match files.reserve(file, 0, len) {
            Ok(()) => {}
            Err(Error::NoSpace) => {
                files.close(file).unwrap();
                len /= 2;
                continue;
            }
            Err(error) => panic!("{error}"),
        }
        for (at, bytes) in pieces(number, len) {
            assert_eq!(files.write_at(file, at, &bytes), Ok(bytes.len()));
        }
        files.close(file).unwrap();
        lens.push(len);
    }
    // The one for which there was no space.
    files.unlink(Fd::ROOT, &name(lens.len() as u64)).unwrap();
    lens
}

/// So many addresses, or nothing where this machine says itself that it has not as many.
fn arena() -> Option<Arena> {
    let error = match Arena::new(SIZE_MAX) {
        Ok(arena) => return Some(arena),
        Err(error) => error,
    };
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current;
    let overcommit = std::fs::read_to_string("/proc/sys/vm/overcommit_memory");
    let why = match limit {
        Some(limit) if limit < SIZE_MAX => format!("a process may have {limit} bytes of addresses"),
        _ if overcommit.is_ok_and(|kind| kind.trim() == "2") => "vm.overcommit_memory is 2".into(),
        _ => panic!("500 GiB of addresses: {error}"),
    };
    assert!(std::env::var("ESKER_CI").as_deref() != Ok("1"), "{why}");
    eprintln!("SKIPPED: {why}");
    None
}

/// Filled, read back after an upgrade, emptied, and filled as far again.
#[test]
fn five_hundred_gigabytes_are_used_to_their_end() {
    let Some(arena) = arena() else { return };
    let memory = Region::new(arena, 0, SIZE_MAX).unwrap();
    for _ in 0..2 {
        let lens = fill(&mut open(&memory));
        let mut files = open(&memory);
        let (used, held) = (files.space().used, lens.iter().sum::<u64>());
        assert!(lens.len() as u64 > SIZE_MAX / LEN_MAX, "{} files", lens.len());
        assert!(used <= SIZE_MAX && SIZE_MAX - used < LEFT_MAX, "{} bytes left", SIZE_MAX - used);
        assert!(SIZE_MAX - held < 4 * LEFT_MAX, "{} bytes for other things", SIZE_MAX - held);
        println!("{} files, {held} bytes, {used} used of {SIZE_MAX}", lens.len());
        for (&len, number) in lens.iter().zip(0..) {
            let file = files.open(Fd::ROOT, &name(number), Open::READ).unwrap();
            assert_eq!(files.stat(file).unwrap().size, len);
            for (at, bytes) in pieces(number, len) {
                let mut found = vec![0; bytes.len()];
                assert_eq!(files.read_at(file, at, &mut found), Ok(bytes.len()));
                assert!(found == bytes, "file {number} at {at}");
            }
            files.close(file).unwrap();
        }
        assert_eq!(files.fs().store().check(), []);
        // Full to its end, it is emptied all the same.
        for number in 0..lens.len() as u64 {
            files.unlink(Fd::ROOT, &name(number)).unwrap();
        }
        assert!(files.space().used < 1 << 20, "{} bytes left", files.space().used);
    }
}
