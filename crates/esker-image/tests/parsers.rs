//! Hostile files, packed: whatever files of gzip, zip, PNG, JPEG, packs of git, sound and programs say of themselves,
//! packing them ends, takes no more memory than it may, and the image gives back what was packed, byte by byte.
//!
//! `ESKER_CASES` says how many images (200), `ESKER_SEED` with which to begin: a failure tells its own.

mod kit;

use std::panic::{AssertUnwindSafe, catch_unwind};

use esker::store::View as _;
use esker::{Ino, Name};
use esker_image::pack::Options;
use esker_image::{Depth, Image, verify};
use esker_stone::Codec;
use esker_stone::rows::extents::Piece;

use kit::dice::{Dice, memory, number};
use kit::{
    ENCODERS, JPEGS, MACHINES, PICTURES, STREAMS, open, options, pack_files, picture, program, wave,
};

/// Files of some hundred KiB, whose streams may have 48 MiB of text: more than this at any time is too much.
const MEMORY_MAX: u64 = 400 << 20;

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

/// A pack of git: the streams of files of gzip, each as an object.
fn git(files: &[&[u8]]) -> Vec<u8> {
    let mut pack = b"PACK\0\0\0\x02\0\0\0\x05".to_vec();
    let heads: [&[u8]; 3] = [b"\xb0\x64", b"\xe0\x64\x81\x02", b"\xf0\x64twenty bytes of name"];
    for (file, head) in files.iter().zip(heads.iter().cycle()) {
        pack.extend(*head);
        pack.extend(b"\x78\x9c");
        pack.extend(&file[10..file.len() - 8]);
        pack.extend(b"adle");
    }
    pack.extend([0x5a; 20]);
    pack
}

/// The sound of a WAVE file as AIFF.
fn aiff(wave: &[u8]) -> Vec<u8> {
    let samples = &wave[44..];
    let mut bytes =
        b"FORM\0\0\0\0AIFFCOMM\0\0\0\x12\0\x01\0\0\0\0\0\x10\x40\x0e\xac\x44......".to_vec();
    bytes.extend(b"SSND");
    bytes.extend((samples.len() as u32 + 8).to_be_bytes());
    bytes.extend([0; 8]);
    bytes.extend(samples.chunks_exact(2).flat_map(|two| [two[1], two[0]]));
    bytes
}

/// Bytes with numbers of 4 bytes at places.
fn with(mut bytes: Vec<u8>, numbers: &[(usize, u32)]) -> Vec<u8> {
    for &(at, number) in numbers {
        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

/// A program of ELF as one of PE.
fn pe(program: &[u8]) -> Vec<u8> {
    let bytes = [&b"MZ"[..], &[0; 4094], &program[4096..]].concat();
    let len = program.len() as u32 - 9096;
    let head = [(0x3c, 128), (128, 0x4550), (132, 0x1_5064), (168 + 16, len), (168 + 20, 4096)];
    with(with(bytes, &head), &[(148, 16), (168 + 36, 0x6000_0020)])
}

/// And as one of Mach-O.
fn mach(program: &[u8]) -> Vec<u8> {
    let bytes = [&[0; 4096], &program[4096..]].concat();
    let len = program.len() as u32 - 9096;
    let head = [(0, 0xfeed_facf), (4, 0x0100_000c), (16, 1), (32, 0x19), (36, 152), (32 + 64, 1)];
    let section = [(104 + 40, len), (104 + 48, 4096), (104 + 64, 0x8000_0400)];
    with(with(bytes, &head), &section)
}

/// Sound ones of all kinds, and some that are right and do not mean well.
fn seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> =
        STREAMS.iter().chain(&ENCODERS).chain(&PICTURES).map(|(_, bytes)| bytes.to_vec()).collect();
    let (long, short) = (STREAMS[0].1, STREAMS[1].1);
    seeds.push(git(&[short, long, short]));
    let (one, two) = (wave(1, 9000), wave(2, 6000));
    seeds.extend([aiff(&one), one, two]);
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

/// Packs files, and reads them again.
fn pack_and_read(files: &[Vec<u8>], sharing: bool) -> Image {
    let names: Vec<String> = (0..files.len()).map(|number| number.to_string()).collect();
    let named = names.iter().map(String::as_str).zip(files.iter().map(Vec::as_slice));
    let usual = options(Codec::Zstd, 1);
    // Code is told from other bytes where blocks share nothing.
    let sharing = usual.sharing.filter(|_| sharing);
    let image = open(pack_files(Options { sharing, ..usual }, named)).unwrap();
    let seen = picture(&image).unwrap();
    for (name, bytes) in names.iter().zip(files) {
        let own = seen[format!("/{name}").as_bytes()].as_ref().unwrap();
        let same = own.attr.size == bytes.len() as u64 && own.bytes.starts_with(bytes);
        assert!(same, "file {name} is another one");
    }
    assert_eq!(verify(&image, Depth::Plain, &mut |_| {}).findings, []);
    image
}

/// How many bytes of the first file are made by recipes.
fn made(image: &Image, len: usize) -> u64 {
    let ino = image.entry(Ino::ROOT, Name::parse(b"0").unwrap()).unwrap().ino;
    let places = image.places(ino, len as u64, 0, len as u64).unwrap().unwrap();
    let made = |piece: &&Piece| image.block_row(piece.place.unwrap().block).unwrap().recipe > 0;
    places.iter().filter(made).map(|piece| piece.len).sum()
}

#[test]
fn what_is_sound_is_unpacked() {
    let seeds = seeds();
    for (number, seed) in seeds.iter().enumerate() {
        let made = made(&pack_and_read(std::slice::from_ref(seed), true), seed.len());
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
        let image = pack_and_read(std::slice::from_ref(seed), false);
        let ino = image.entry(Ino::ROOT, Name::parse(b"0").unwrap()).unwrap().ino;
        let len = seed.len() as u64;
        let places = image.places(ino, len, 0, len).unwrap().unwrap();
        let row = |piece: &Piece| image.block_row(piece.place.unwrap().block).unwrap();
        let code = places.iter().filter(|piece| row(piece).transform.is_of_code());
        let code: u64 = code.map(|piece| piece.len).sum();
        assert_eq!(code, len - 9096, "program {number}");
    }
}

#[test]
fn hostile_files_are_stored_as_they_are() {
    let seeds = seeds();
    let cases = number("ESKER_CASES").unwrap_or(200);
    let mut dice = Dice(number("ESKER_SEED").unwrap_or(0x5eed_0005));
    for _ in 0..cases {
        let seed = dice.0;
        let files: Vec<_> = (0..=dice.below(3)).map(|_| hostile(&seeds, &mut dice)).collect();
        let sharing = dice.below(2) == 0;
        let done = catch_unwind(AssertUnwindSafe(|| drop(pack_and_read(&files, sharing))));
        assert!(done.is_ok(), "ESKER_SEED={seed:#x} ESKER_CASES=1");
        assert!(memory() < MEMORY_MAX, "ESKER_SEED={seed:#x}: {} bytes of memory", memory());
    }
    eprintln!("{cases} images, {} MiB at most, last state {:#x}", memory() >> 20, dice.0);
}
