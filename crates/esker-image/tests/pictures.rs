//! Pictures of JPEG: stored as what is in their blocks, and read as they were, bit by bit; what is no such picture, or
//! only begins as one, comes out too. Stored bytes that are hostile make nobody panic, wait or take memory.

mod kit;

use esker::store::View as _;
use esker::{Ino, Name};
use esker_image::pack::Options;
use esker_image::{Depth, Image, verify};
use esker_stone::jpeg::Picture;
use esker_stone::rows::extents::Piece;
use esker_stone::superblock::PICTURES;
use esker_stone::{Codec, Superblock};

use kit::dice::{Dice, memory};
use kit::{JPEGS, open, open_with, options, pack_files, pack_jpegs, picture};

/// How many bytes of a file are in the codec of pictures, and in how many stored bytes.
fn told(image: &Image, name: &str) -> (u64, u64) {
    let ino = image.entry(Ino::ROOT, Name::parse(name.as_bytes()).unwrap()).unwrap().ino;
    let size = image.attr(ino).unwrap().size;
    let row = |piece: &Piece| image.block_row(piece.place.unwrap().block).unwrap();
    let places = image.places(ino, size, 0, size).unwrap().unwrap();
    let own: Vec<_> = places.iter().filter(|piece| row(piece).codec == Codec::Jpeg).collect();
    let stored = own.iter().map(|piece| u64::from(row(piece).stored)).sum();
    (own.iter().map(|piece| piece.len).sum(), stored)
}

#[test]
fn pictures_are_smaller_and_come_out_bit_by_bit() {
    let alone = Options { pictures: false, ..options(Codec::Zstd, 9) };
    let right = open(pack_jpegs(alone.clone())).unwrap();
    let bytes = pack_jpegs(options(Codec::Zstd, 9));
    for cache in [0, 8 << 20] {
        let image = open_with(Box::new(bytes.clone()), cache).unwrap();
        assert!(picture(&image).unwrap() == picture(&right).unwrap());
        assert_eq!(verify(&image, Depth::Plain, &mut |_| {}).findings, []);
    }
    let image = open_with(Box::new(bytes.clone()), 0).unwrap();
    for (name, plain) in &JPEGS[..5] {
        let (own, stored) = told(&image, name);
        assert!(own + 800 > plain.len() as u64, "{name}: {own} of {}", plain.len());
        assert!(stored * 100 < own * 93, "{name}: {own} became {stored}");
        // The beginning of a block alone, and any other part of it.
        let ino = image.entry(Ino::ROOT, Name::parse(name.as_bytes()).unwrap()).unwrap().ino;
        for at in (0..plain.len()).step_by(777) {
            let mut some = [0; 100];
            let len = image.read(ino, at as u64, &mut some).unwrap();
            assert_eq!(some[..len], plain[at..plain.len().min(at + 100)], "{name} from {at} on");
        }
    }
    let feature = |bytes: &[u8]| Superblock::parse(&bytes[..512]).unwrap().incompatible;
    assert_eq!((feature(&bytes), feature(&pack_jpegs(alone))), (PICTURES, 0));
    for (threads, alike) in [(1, true), (4, true), (1, false), (4, false)] {
        let pack = |threads| pack_jpegs(Options { threads, alike, ..options(Codec::Zstd, 9) });
        assert!(pack(threads) == pack(2), "whatever the threads");
    }
}

#[test]
fn what_is_damaged_is_told_as_far_as_it_can_be_read() {
    let image = open(pack_jpegs(options(Codec::Zstd, 9))).unwrap();
    let most = |name: &str, of: usize| told(&image, name).0 * 3 > of as u64 * 2;
    let colour = JPEGS[0].1.len();
    assert!(most("cut short.jpg", colour * 3 / 4));
    assert!(most("tail.jpg", JPEGS[1].1.len()));
    for name in ["steps.jpg", "head.jpg"] {
        assert_eq!(told(&image, name).0, 0, "{name}");
    }
    assert_eq!(told(&image, "again.jpg"), told(&image, "colour.jpg"));
}

#[test]
fn a_picture_with_other_words_in_front_is_stored_once() {
    let (_, plain) = JPEGS[0];
    let words = [&plain[..2], b"\xff\xfe\0\x09one two", &plain[2..]].concat();
    let one = pack_files(options(Codec::Zstd, 9), [("one", plain)]);
    let both = pack_files(options(Codec::Zstd, 9), [("one", plain), ("two", &words)]);
    assert!(both.len() < one.len() + 2500, "{} and {}", one.len(), both.len());
    let image = open(both).unwrap();
    assert_eq!(told(&image, "one"), told(&image, "two"));
    let found = picture(&image).unwrap();
    assert_eq!(found[&b"/two"[..]].as_ref().unwrap().bytes[..words.len()], words);
}

#[test]
fn a_picture_with_changes_in_its_scan_is_stored_as_they_are() {
    let (_, plain) = JPEGS[0];
    let mut others = plain.to_vec();
    for part in 1..4 {
        others[plain.len() * part / 4] ^= 1;
    }
    for alike in [true, false] {
        let options = Options { alike, ..options(Codec::Zstd, 9) };
        let one = pack_files(options.clone(), [("one", plain)]);
        let both = pack_files(options, [("one", plain), ("two", &others)]);
        assert!(both.len() < one.len() + 2500, "{} and {}", one.len(), both.len());
        let found = picture(&open(both).unwrap()).unwrap();
        assert!(found[&b"/two"[..]].as_ref().unwrap().bytes[..others.len()] == others);
    }
}

#[test]
fn strips_go_on_where_the_one_before_ends() {
    for (name, plain) in &JPEGS[..5] {
        let found = Picture::of(plain).unwrap();
        for len in [100, 1000, 100_000] {
            let strips = found.strips(plain, len);
            assert_eq!(strips.len() > 1, len < 10_000, "{name} in {len}");
            for pair in strips.windows(2) {
                assert_eq!(pair[0].bytes.end, pair[1].bytes.start, "{name} in {len}");
            }
            // Behind the last one there is only the end of the picture.
            assert_eq!(plain[strips.last().unwrap().bytes.end..], [0xff, 0xd9], "{name} in {len}");
            for strip in strips {
                let own = &plain[strip.bytes.clone()];
                let stored = strip.encode(own).unwrap();
                let mut again = vec![0; own.len()];
                Codec::Jpeg.decode(&stored, &[], &mut again).unwrap();
                assert!(again == own, "{name} in {len}");
                // Of another length it is refused, and so is what is cut short or goes on.
                for wrong in [0, own.len() - 1, own.len() + 1, own.len() * 2] {
                    assert!(Codec::Jpeg.decode(&stored, &[], &mut vec![0; wrong]).is_err());
                }
                let short = &stored[..stored.len() - 1];
                assert!(Codec::Jpeg.decode(short, &[], &mut again).is_err());
                let long = [&stored[..], &[0]].concat();
                assert!(Codec::Jpeg.decode(&long, &[], &mut again).is_err());
            }
        }
    }
}

#[test]
fn hostile_strips_do_no_harm() {
    let mut dice = Dice(0x5eed_0006);
    let before = memory();
    for (_, plain) in &JPEGS[..5] {
        let strips = Picture::of(plain).unwrap().strips(plain, 2000);
        let strip = &strips[strips.len() / 2];
        let own = &plain[strip.bytes.clone()];
        let stored = strip.encode(own).unwrap();
        for round in 0..300 {
            let mut wrong = stored.clone();
            match round % 3 {
                // Heads are where numbers are.
                0 => {
                    let rest = wrong.split_off(wrong.len().min(150));
                    dice.spoil(&mut wrong);
                    wrong.extend(rest);
                }
                1 => dice.spoil(&mut wrong),
                _ => (0..4).for_each(|_| {
                    let at = dice.below(40.min(wrong.len()));
                    wrong[at] = dice.roll() as u8;
                }),
            }
            let len = if round % 10 == 0 { 1 << 20 } else { own.len() };
            let _ = Codec::Jpeg.decode(&wrong, &[], &mut vec![0; len]);
        }
    }
    let more = memory().saturating_sub(before);
    assert!(more < 100 << 20, "{more} bytes of memory");
}
