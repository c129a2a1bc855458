//! The whole of what a canister may have: 500 GiB of addresses, over host memory that is taken only where it is
//! written.

use esker::ground::Region;
use esker::posix::{Allocate, Caller};
use esker::{Error, Time};
use esker_embedded::{Fd, Files, Open};
use esker_host::Arena;

const SIZE_MAX: u64 = 500 << 30;
/// Bytes of a file, and of what is written into it here and there.
const FILE_LEN: u64 = 3 << 30;
const PIECE_LEN: usize = 100_000;
const PLACES: [u64; 3] = [0, FILE_LEN / 2 + 13, FILE_LEN - PIECE_LEN as u64];

type Memory = Region<Arena>;

fn open(memory: &Memory) -> Files<&Memory> {
    Files::open_memory(memory, || Time { secs: 5, nanos: 0 }).unwrap()
}

fn pieces(number: u64) -> impl Iterator<Item = (u64, Vec<u8>)> {
    let byte = move |at: u64, index: u64| (index * (number + 7) + at) as u8 | 1;
    PLACES.into_iter().map(move |at| (at, (0..PIECE_LEN as u64).map(|i| byte(at, i)).collect()))
}

/// Files of space that is theirs, each written at its ends and in its middle, until no more fits; how many.
fn fill(files: &mut Files<&Memory>) -> u64 {
    for number in 0.. {
        let file = files.open(Fd::ROOT, format!("file{number}").as_bytes(), Open::CREATE).unwrap();
        let ino = files.ino(file).unwrap();
        match files.fs().fallocate(&Caller::ROOT, ino, Allocate::Reserve, 0, FILE_LEN) {
            Ok(()) => {}
            Err(Error::NoSpace) => return number,
            Err(error) => panic!("{error}"),
        }
        for (at, bytes) in pieces(number) {
            assert_eq!(files.write_at(file, at, &bytes), Ok(PIECE_LEN));
        }
        files.close(file).unwrap();
    }
    unreachable!("there is an end")
}

/// Filled, read back after an upgrade, emptied, and filled as far again.
#[test]
fn five_hundred_gigabytes_are_used_to_their_end() {
    let Ok(arena) = Arena::new(SIZE_MAX) else {
        eprintln!("SKIPPED: the system does not lend as many addresses");
        return;
    };
    let memory = Region::new(arena, 0, SIZE_MAX).unwrap();
    for _ in 0..2 {
        let count = fill(&mut open(&memory));
        assert_eq!(count, SIZE_MAX / FILE_LEN, "files of 3 GiB");
        let mut files = open(&memory);
        assert!(files.space().used > count * FILE_LEN);
        let mut found = vec![0; PIECE_LEN];
        for number in 0..count {
            let name = format!("file{number}");
            let file = files.open(Fd::ROOT, name.as_bytes(), Open::READ).unwrap();
            assert_eq!(files.stat(file).unwrap().size, FILE_LEN);
            for (at, bytes) in pieces(number) {
                assert_eq!(files.read_at(file, at, &mut found), Ok(PIECE_LEN));
                assert!(found == bytes, "{name} at {at}");
            }
            files.close(file).unwrap();
        }
        assert_eq!(files.fs().store().check(), []);
        for number in 0..=count {
            files.unlink(Fd::ROOT, format!("file{number}").as_bytes()).unwrap();
        }
        assert!(files.space().used < 1 << 20, "{} bytes left", files.space().used);
    }
}
