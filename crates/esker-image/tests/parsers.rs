//! Hostile files, packed: whatever files of gzip, zip, PNG, JPEG, packs of git, sound and programs say of themselves,
//! packing them ends, takes no more memory than it may, and the image gives back what was packed, byte by byte; with
//! small blocks, and with what the levels take that unpack and predict.
//!
//! `ESKER_FUZZ_SECONDS` says for how long (200 images), `ESKER_FUZZ_SEED` with which to begin: a failure tells its own.

mod kit;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use esker_image::pack::{LEVELS, Options};
use esker_image::{Depth, Image, verify};
use esker_stone::Codec;

use kit::dice::{Dice, Watch, forget_memory, memory, number};
use kit::{
    ENCODERS, JPEGS, MACHINES, PICTURES, STREAMS, bytes_in, git, mach, open, options, pack_files,
    pe, picture, program, sound, wave,
};

/// Files of some hundred KiB, whose streams may have 48 MiB of text: more than this at any time is too much, beside
/// what the settings need at least.
const MEMORY_MAX: u64 = 250 << 20;
/// The first level that unpacks anything.
const UNPACKS: usize = 5;
/// Images, if nobody says for how long.
const RUNS: usize = 200;

/// A stream of zeros: so many blocks of the longest matches.
fn zeros(blocks: usize, matches: usize) -> Vec<u8> {
    let (mut bytes, mut open, mut count) = (Vec::new(), 0u64, 0);
    let mut put = |number: u64, bits: u32| {
        open |= number << count;
        count += bits;
        while count >= 8 {
            bytes.push(open as u8);
            (open, count) = (open >> 8, count - 8);
        }
    };
    for block in 1..=blocks {
        // Codes that are always the same: a zero, 00110000, then 258 bytes from one before, 11000101 and 00000.
        put(u64::from(block == blocks) | 1 << 1, 3);
        put(0b0000_1100, 8);
        (0..matches).for_each(|_| put(0b1010_0011, 13));
        put(0, 7);
    }
    put(0, 7);
    bytes
}

fn gzip(stream: &[u8], behind: usize) -> Vec<u8> {
    let head = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 3];
    [&head[..], stream, &vec![0xa5; behind]].concat()
}

/// Sound ones of all kinds, and some that are right and do not mean well.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> =
        STREAMS.iter().chain(&ENCODERS).chain(&PICTURES).map(|(_, bytes)| bytes.to_vec()).collect();
    let (long, short) = (STREAMS[0].1, STREAMS[1].1);
    seeds.push(git(&[short, long, short]));
    seeds.extend([sound(2, 1, true, 9000), wave(1, 9000), wave(2, 6000)]);
    // Sixteen million zeros: more than such a file may have, as many as it may, and one block that is too long.
    seeds.extend([gzip(&zeros(40, 1500), 8), gzip(&zeros(40, 1500), 300_000)]);
    seeds.push(gzip(&zeros(1, 3000), 300_000));
    seeds.extend(JPEGS.map(|(_, bytes)| bytes.to_vec()));
    seeds.extend(MACHINES.map(|(_, number, transform)| program(number, transform, 0, 3000)));
    seeds.extend([pe(&seeds[seeds.len() - 1]), mach(&seeds[seeds.len() - 2])]);
    seeds
}

/// One that is damaged, or has the beginning of one and the end of another.
fn hostile(seeds: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut bytes = seeds[dice.below(seeds.len())].clone();
    if dice.below(4) == 0 {
        let other = &seeds[dice.below(seeds.len())];
        bytes.truncate(dice.below(bytes.len()));
        bytes.extend(&other[dice.below(other.len())..]);
    }
    match dice.below(3) {
        // Heads are where numbers are.
        0 => {
            let rest = bytes.split_off(bytes.len().min(64));
            dice.spoil(&mut bytes);
            bytes.extend(rest);
        }
        1 => dice.spoil(&mut bytes),
        _ => {}
    }
    bytes
}

/// Small blocks that are quick to compress, on bases or not.
fn small(sharing: bool) -> Options {
    let usual = options(Codec::Zstd, 1);
    // Code is told from other bytes where blocks share nothing.
    Options { sharing: usual.sharing.filter(|_| sharing), ..usual }
}

/// Such settings, or those of a level; the last levels take their time.
fn settings(dice: &mut Dice) -> Options {
    match dice.below(12) {
        0..3 => small(true),
        3..6 => small(false),
        6..11 => Options::level(UNPACKS + dice.below(3), 2, 4 << 30),
        _ => Options::level(UNPACKS + dice.below(LEVELS - UNPACKS), 2, 4 << 30),
    }
}

/// Packs files, and reads them again.
fn pack_and_read(files: &[Vec<u8>], options: Options) -> Image {
    let names: Vec<String> = (0..files.len()).map(|number| number.to_string()).collect();
    let named = names.iter().map(String::as_str).zip(files.iter().map(Vec::as_slice));
    let image = open(pack_files(options, named)).unwrap();
    let seen = picture(&image).unwrap();
    for (name, bytes) in names.iter().zip(files) {
        let own = seen[format!("/{name}").as_bytes()].as_ref().unwrap();
        let same = own.attr.size == bytes.len() as u64 && own.bytes.starts_with(bytes);
        assert!(same, "file {name} is another one");
    }
    assert_eq!(verify(&image, Depth::Plain, &mut |_| {}).findings, []);
    image
}

#[test]
fn what_is_sound_is_unpacked() {
    let seeds = seeds();
    for (number, seed) in seeds.iter().enumerate() {
        let image = pack_and_read(std::slice::from_ref(seed), small(true));
        let made = bytes_in(&image, "0", |row| row.recipe > 0);
        // Files with streams come first, then sound.
        match number {
            0..=9 => assert!(made > seed.len() as u64 / 4, "{made} of number {number}"),
            10..=12 => assert_eq!(made, 0),
            _ => {}
        }
    }
}

#[test]
fn programs_of_all_kinds_are_known() {
    let seeds = seeds();
    for (number, seed) in seeds[seeds.len() - MACHINES.len() - 2..].iter().enumerate() {
        let image = pack_and_read(std::slice::from_ref(seed), small(false));
        let code = bytes_in(&image, "0", |row| row.transform.is_of_code());
        assert_eq!(code, seed.len() as u64 - 9096, "program {number}");
    }
}

#[test]
fn hostile_files_are_stored_as_they_are() {
    let seeds = seeds();
    let time = number("ESKER_FUZZ_SECONDS").map(Duration::from_secs);
    let mut dice = Dice(number("ESKER_FUZZ_SEED").unwrap_or(0x5eed_0005));
    let (watch, begun, mut runs, mut most) = (Watch::new(dice.0), Instant::now(), 0, 0);
    while runs == 0 || time.map_or(runs < RUNS, |time| begun.elapsed() < time) {
        let seed = dice.0;
        let again = format!("ESKER_FUZZ_SEED={seed:#x} ESKER_FUZZ_SECONDS=0");
        watch.next(seed);
        forget_memory();
        let options = settings(&mut dice);
        let files: Vec<_> = (0..=dice.below(3)).map(|_| hostile(&seeds, &mut dice)).collect();
        let allowed = MEMORY_MAX + options.memory_least();
        let done = catch_unwind(AssertUnwindSafe(|| drop(pack_and_read(&files, options))));
        assert!(done.is_ok(), "{again}");
        let taken = memory();
        assert!(taken < allowed, "{again}: {taken} bytes of memory");
        (runs, most) = (runs + 1, most.max(taken));
    }
    eprintln!("{runs} images, {} MiB at most, last state {:#x}", most >> 20, dice.0);
}
