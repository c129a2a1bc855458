//! What was packed is what is read: with every codec, at every level, on any number of threads.

mod kit;

use std::io::Cursor;

use esker::store::View as _;
use esker::{Error, Ino, Kind, Name, XattrName};
use esker_image::pack::{Guide, LEVELS, Meta, Options, Packer, Sharing, copy, copy_adopted};
use esker_image::{Cache, Depth, Image, verify};
use esker_stone::rows::blocks::BlockRow;
use esker_stone::rows::extents::Piece;
use esker_stone::superblock::ENCODERS as ENCODED;
use esker_stone::{Codec, Start, Superblock};

use kit::dice::Dice;
use kit::{
    ENCODERS, JPEGS, MACHINES, PICTURES, STREAMS, Sample, all_kinds, bytes_in, few_kinds, git,
    is_treated, mach, open, open_with, options, pack, pack_and_tell, pack_files, pack_samples,
    pack_sounds, pack_streams, pack_versions, pe, picture, program, shared, sound,
};

#[test]
fn a_rich_tree_reads_as_it_was_packed_with_every_codec() {
    let plain = picture(&open(pack(options(Codec::None, 0), true)).unwrap()).unwrap();
    assert_eq!(plain.len(), 17 + 3006);
    let holes = plain[&b"/dir/deep/holes"[..]].as_ref().unwrap();
    assert_eq!(holes.bytes[8192..8492], kit::noise(2, 300));
    let end = 8492 + (1 << 40);
    assert_eq!(holes.holes, [(8192, 8492), (end, end + 700)]);
    assert_eq!(plain[&b"/dir/link \xff\n"[..]].as_ref().unwrap().bytes[..13], *b"../no/\xfe/where");
    assert_eq!(
        plain[&b"/many/large"[..]].as_ref().unwrap().bytes[..900_000],
        kit::noise(77, 900_000)
    );
    assert_eq!(plain[&b"/hard link"[..]].as_ref().unwrap().attr.nlink, 2);
    assert_eq!(plain[&b"/dir/pipe"[..]].as_ref().unwrap().xattrs.len(), 3);
    for (codec, level) in
        [(Codec::Lz4, 1), (Codec::Zstd, 1), (Codec::Zstd, 19), (Codec::Xz, 6), (Codec::Brotli, 5)]
    {
        let image = open(pack(options(codec, level), true)).unwrap();
        let seen = picture(&image).unwrap();
        assert!(seen == plain, "{codec:?} differs");
        let report = verify(&image, Depth::Plain, &mut |_| {});
        assert_eq!(report.findings, [], "{codec:?}");
        assert!(report.pages > 50 && report.blocks > 10 && report.names == 3022);
    }
}

#[test]
fn every_level_packs() {
    let right = picture(&open(pack(options(Codec::None, 0), false)).unwrap()).unwrap();
    for level in 0..LEVELS {
        let mut options = Options::level(level, 1, 16 << 30);
        options.times = esker_image::pack::Times::All;
        assert!(picture(&open(pack(options, false)).unwrap()).unwrap() == right, "level {level}");
    }
}

#[test]
fn the_same_bytes_for_any_number_of_threads_and_any_memory() {
    let with = |threads, memory| pack(Options { threads, memory, ..options(Codec::Zstd, 3) }, true);
    let one = with(1, 64 << 20);
    assert_eq!(one, with(7, 4 << 30));
    assert_eq!(one, with(2, 1 << 30));
}

#[test]
fn every_level_packs_every_kind_the_same_with_any_threads() {
    // The few are those of other tests here.
    for (level, files) in (0..LEVELS).flat_map(|level| [(level, all_kinds()), (level, few_kinds())])
    {
        let pack = |threads, memory| pack_samples(Options::level(level, threads, memory), &files);
        let one = pack(1, 4 << 30);
        assert!(one == pack(3, 16 << 30), "level {level}");
        let image = open(one).unwrap();
        assert_eq!(verify(&image, Depth::Plain, &mut |_| {}).findings, [], "level {level}");
        for Sample { name, bytes, category, levels } in &files {
            let ino = image.entry(Ino::ROOT, Name::parse(name.as_bytes()).unwrap()).unwrap().ino;
            let mut found = vec![0; bytes.len()];
            let len = image.read(ino, 0, &mut found).unwrap();
            assert!(len == bytes.len() && found == *bytes, "level {level}: {name}");
            // Where the level tells it from others, that was done.
            let treated = |row: &BlockRow| row.category == *category && is_treated(row);
            let much = bytes_in(&image, name, treated) * 4 > bytes.len() as u64;
            assert!(*category == 0 || much == levels.contains(&level), "level {level}: {name}");
        }
    }
}

#[test]
fn an_image_can_be_packed_again() {
    let image = open(pack(options(Codec::Zstd, 3), true)).unwrap();
    let root = esker_image::pack::Meta::new(esker::Kind::Directory, 0o755);
    let output = std::io::Cursor::new(Vec::new());
    let mut packer = Packer::new(output, root, options(Codec::Xz, 1)).unwrap();
    copy(&image, &mut packer, &mut |_, _| false).unwrap();
    let again = open(packer.finish().unwrap().0.into_inner()).unwrap();
    assert!(picture(&again).unwrap() == picture(&image).unwrap());
    assert_eq!(image.root().statistics.files, again.root().statistics.files);
}

#[test]
fn a_small_cache_serves_the_same() {
    let bytes = std::sync::Arc::new(pack(options(Codec::Zstd, 3), true));
    let large = picture(&open_with(shared(&bytes), 64 << 20).unwrap()).unwrap();
    let image = open_with(shared(&bytes), 20_000).unwrap();
    assert!(picture(&image).unwrap() == large);
    assert!(image.cache().usage().bytes < 200_000);
}

/// A file whose bytes lie in two blocks in turn, of which a cache does not even have room for one: each is decoded once
/// for as much as is read together.
#[test]
fn blocks_that_are_wanted_in_turn_are_decoded_once() {
    const STEP: usize = 16 << 10;
    let [a, b] = [1, 2].map(|seed| kit::noise(seed, 1 << 20));
    let steps = a.chunks(STEP).zip(b.chunks(STEP));
    let both: Vec<u8> = steps.flat_map(|(a, b)| [a, b]).flatten().copied().collect();
    let files = [("a", &a[..]), ("b", &b[..]), ("both", &both[..])];
    let options = Options { block_len: 1 << 20, sharing: None, ..options(Codec::Zstd, 3) };
    let image = open_with(Box::new(pack_files(options, files)), 200_000).unwrap();
    let ino = image.entry(Ino::ROOT, Name::parse(b"both").unwrap()).unwrap().ino;
    let pieces = image.places(ino, both.len() as u64, 0, both.len() as u64).unwrap().unwrap();
    let blocks = pieces.iter().filter_map(|piece| piece.place).map(|place| place.block);
    let mut blocks: Vec<_> = blocks.collect();
    blocks.dedup();
    assert!(blocks.len() > 50, "in turn: {}", blocks.len());
    let mut found = vec![0; both.len()];
    let before = image.cache().usage().misses;
    assert_eq!(image.read(ino, 0, &mut found), Ok(both.len()));
    let misses = image.cache().usage().misses - before;
    assert!(found == both && misses < 20, "{misses} misses");
}

#[test]
fn two_images_share_a_cache() {
    let cache = Cache::new(8 << 20);
    let open = |codec| {
        let bytes = pack(options(codec, 1), false);
        Image::open(Box::new(bytes), Start::Auto, Vec::new(), std::sync::Arc::clone(&cache))
    };
    let (one, other) = (open(Codec::Lz4).unwrap(), open(Codec::Xz).unwrap());
    assert!(picture(&one).unwrap() == picture(&other).unwrap());
}

#[test]
fn an_image_behind_something_else_is_found() {
    let image = pack(options(Codec::Zstd, 3), false);
    let right = picture(&open(image.clone()).unwrap()).unwrap();
    let script = b"#!/bin/sh\nexec esker mount \"$0\" \x89ESKR\r\n\x1a\n".to_vec();
    let behind = [script.clone(), image.clone()].concat();
    assert!(picture(&open(behind.clone()).unwrap()).unwrap() == right);
    let between = [behind, vec![7; 3000]].concat();
    assert!(picture(&open(between.clone()).unwrap()).unwrap() == right);
    let at = Start::At(script.len() as u64);
    Image::open(Box::new(between.clone()), at, Vec::new(), Cache::new(1 << 20)).unwrap();
    let wrong = Image::open(Box::new(between), Start::At(3), Vec::new(), Cache::new(1 << 20));
    assert!(wrong.is_err());
}

#[test]
fn categories_part_ways_and_come_out_as_they_went_in() {
    let bytes = pack_sounds(options(Codec::Zstd, 3));
    let image = open(bytes).unwrap();
    let seen = picture(&image).unwrap();
    let bytes = |path: &[u8]| seen[path].as_ref().unwrap().bytes.clone();
    assert!(bytes(b"/one.wav").starts_with(&kit::wave(1, 2000)));
    assert!(bytes(b"/packed").starts_with(&kit::chance(2500)));
    let rows = (0..4).map(|slot| {
        let block = esker_stone::rows::extents::BlockName { segment: 3, slot };
        image.block_row(block).unwrap()
    });
    let mut found: Vec<_> = rows.map(|row| (row.category, row.codec)).collect();
    found.sort_by_key(|row| row.0);
    assert_eq!(found, [(0, Codec::Zstd), (1, Codec::None), (2, Codec::Pcm), (3, Codec::Pcm)]);
}

#[test]
fn sound_of_every_shape_is_predicted_and_read_from_anywhere() {
    let mut files = Vec::new();
    for width in 1..=4 {
        for channels in [1, 2, 5] {
            for upper_first in [false, true] {
                let name = format!("{width} {channels} {upper_first}");
                files.push((name, sound(width, channels, upper_first, 30_000)));
            }
        }
    }
    // Twice the same, cut short, and longer than a block of sound and than a piece.
    files.push(("again".to_owned(), files[7].1.clone()));
    files.push(("short".to_owned(), files[9].1[..50_001].to_vec()));
    files.push(("long".to_owned(), sound(3, 3, false, 170_000)));
    for (level, alike) in [(1, false), (3, true)] {
        let usual = Options { block_len: 1 << 20, alike, ..options(Codec::Zstd, level) };
        let packed = |threads| {
            let all = files.iter().map(|(name, bytes)| (&name[..], &bytes[..]));
            pack_files(Options { threads, ..usual.clone() }, all)
        };
        let bytes = packed(1);
        assert!(bytes == packed(3), "whatever the threads");
        let image = open_with(Box::new(bytes), 4 << 20).unwrap();
        assert_eq!(verify(&image, Depth::Plain, &mut |_| {}).findings, []);
        for (name, plain) in &files {
            let ino = image.entry(Ino::ROOT, Name::parse(name.as_bytes()).unwrap()).unwrap().ino;
            for at in (0..plain.len()).step_by(plain.len() / 7 + 1) {
                let mut found = vec![0; 1000.min(plain.len() - at)];
                let len = image.read(ino, at as u64, &mut found).unwrap();
                assert!(found[..len] == plain[at..at + len] && len > 0, "{name} at {at}");
            }
            let places = image.places(ino, plain.len() as u64, 0, plain.len() as u64);
            let predicted: u64 = places
                .unwrap()
                .unwrap()
                .iter()
                .filter(|piece| {
                    let row = image.block_row(piece.place.unwrap().block).unwrap();
                    row.codec == Codec::Pcm && row.plain <= 512 << 10
                })
                .map(|piece| piece.len)
                .sum();
            assert!(predicted + 100 > plain.len() as u64, "{name}: {predicted}");
        }
    }
}

#[test]
fn streams_are_stored_as_their_text_and_made_again() {
    let alone = Options { unpack: None, ..options(Codec::Zstd, 9) };
    let right = open(pack_streams(alone)).unwrap();
    for small in [false, true] {
        let usual = options(Codec::Zstd, 9);
        let (block_len, alike) = if small { (4096, false) } else { (64 << 10, true) };
        let bytes = pack_streams(Options { block_len, alike, ..usual });
        for cache in [0, 8 << 20] {
            let image = open_with(Box::new(bytes.clone()), cache).unwrap();
            assert!(picture(&image).unwrap() == picture(&right).unwrap());
            assert_eq!(verify(&image, Depth::Plain, &mut |_| {}).findings, []);
        }
        let image = open(bytes.clone()).unwrap();
        for (name, stream) in STREAMS {
            let ino = image.entry(Ino::ROOT, Name::parse(name.as_bytes()).unwrap()).unwrap().ino;
            let places = image.places(ino, stream.len() as u64, 0, stream.len() as u64).unwrap();
            let made = |piece: &Piece| {
                let row = image.block_row(piece.place.unwrap().block).unwrap();
                if row.recipe > 0 { piece.len } else { 0 }
            };
            let places = places.unwrap();
            let recipe =
                |piece: &Piece| image.block_row(piece.place.unwrap().block).unwrap().recipe;
            let recipes: u64 = places.iter().map(|piece| u64::from(recipe(piece))).sum();
            // The encoder was guessed: hardly anything has to be told.
            assert!(small || recipes < 1500, "{name}: recipes of {recipes} bytes");
            let made: u64 = places.iter().map(made).sum();
            // But for the file in the zip file that is stored as it is.
            assert!(made + 3200 > stream.len() as u64, "{name}: {made} of {}", stream.len());
            for at in (0..stream.len()).step_by(1777) {
                let mut some = [0; 100];
                let len = image.read(ino, at as u64, &mut some).unwrap();
                assert_eq!(some[..len], stream[at..stream.len().min(at + 100)]);
            }
        }
        assert!(
            bytes
                == pack_streams(Options {
                    block_len,
                    alike,
                    threads: 1,
                    ..options(Codec::Zstd, 9)
                })
        );
    }
}

/// All of an image is copied.
struct All;

impl<W> Guide<W> for All {
    fn trouble(&mut self, _: &[u8], _: Error) -> bool {
        false
    }
}

#[test]
fn streams_of_other_encoders_are_made_again_and_are_a_feature() {
    let feature = |bytes: &[u8]| Superblock::parse(&bytes[..512]).unwrap().incompatible & ENCODED;
    let plain = open(pack_files(Options { unpack: None, ..options(Codec::Zstd, 9) }, ENCODERS));
    let right = picture(&plain.unwrap()).unwrap();
    let (bytes, choices) = pack_and_tell(options(Codec::Zstd, 9), ENCODERS.iter().copied());
    let image = open(bytes.clone()).unwrap();
    assert!(picture(&image).unwrap() == right);
    assert_eq!(verify(&image, Depth::Plain, &mut |_| {}).findings, []);
    // All of them, and their text once.
    assert_eq!(choices.left.unknown.count, 0);
    assert!(bytes.len() < ENCODERS[0].1.len() + 3000, "{}", bytes.len());
    assert_eq!((feature(&bytes), feature(&pack_streams(options(Codec::Zstd, 9)))), (ENCODED, 0));
    // Whoever takes the blocks over needs it as well.
    let (output, root) = (Cursor::new(Vec::new()), Meta::new(Kind::Directory, 0o755));
    let mut packer = Packer::new(output, root, options(Codec::Zstd, 9)).unwrap();
    copy_adopted(&image, &mut packer, &mut All).unwrap();
    let again = packer.finish().unwrap().0.into_inner();
    assert_eq!(feature(&again), ENCODED);
    assert!(picture(&open(again).unwrap()).unwrap() == right);
}

#[test]
fn long_streams_stay_as_they_are_where_only_short_ones_are_unpacked() {
    let files = || STREAMS.iter().chain(&PICTURES).copied();
    let pack = |unpack, threads| {
        pack_and_tell(Options { unpack, threads, ..options(Codec::Zstd, 9) }, files())
    };
    let (none, _) = pack(None, 2);
    let right = open(none).unwrap();
    // Longer than the usual level takes, so that there are several.
    let usual = Some(12 << 10);
    assert!(Options::level(6, 1, 1 << 30).unpack < usual);
    let (bytes, choices) = pack(usual, 2);
    let image = open(bytes.clone()).unwrap();
    assert!(picture(&image).unwrap() == picture(&right).unwrap());
    assert_eq!(verify(&image, Depth::Plain, &mut |_| {}).findings, []);
    for (name, stream) in files() {
        let ino = image.entry(Ino::ROOT, Name::parse(name.as_bytes()).unwrap()).unwrap().ino;
        let places = image.places(ino, stream.len() as u64, 0, stream.len() as u64).unwrap();
        let made = |piece: &Piece| image.block_row(piece.place.unwrap().block).unwrap().recipe > 0;
        let long = name == "long.gz";
        assert_eq!(places.unwrap().iter().any(made), !long, "{name}");
    }
    let long = STREAMS[0].1.len() as u64;
    assert_eq!((choices.stream_max, choices.left.long.count), (usual, 1));
    assert!((long - 40..long).contains(&choices.left.long.bytes));
    assert!(choices.unpacked > 10_000 && choices.left.unknown.count == 0);
    assert!(pack(usual, 1) == (bytes, choices.clone()));
    let (_, all) = pack(Some(usize::MAX), 2);
    assert_eq!(
        (all.left.long.count, all.unpacked),
        (0, choices.unpacked + choices.left.long.bytes)
    );
}

#[test]
fn pictures_are_stored_as_their_text_and_made_again() {
    let [(_, whole), (_, chunks)] = PICTURES;
    let twice = [whole, chunks].concat();
    let files = [("a whole", whole), ("chunks", chunks), ("again", chunks), ("twice", &twice)];
    for (block_len, alike) in [(4096, false), (64 << 10, true)] {
        let packed = |threads| {
            pack_files(Options { block_len, alike, threads, ..options(Codec::Zstd, 9) }, files)
        };
        let bytes = packed(1);
        assert!(bytes == packed(4), "whatever the threads");
        for cache in [0, 8 << 20] {
            let image = open_with(Box::new(bytes.clone()), cache).unwrap();
            assert_eq!(verify(&image, Depth::Plain, &mut |_| {}).findings, []);
            for (name, plain) in files {
                let ino =
                    image.entry(Ino::ROOT, Name::parse(name.as_bytes()).unwrap()).unwrap().ino;
                for at in (0..plain.len()).step_by(211) {
                    let mut some = vec![0; 1000.min(plain.len() - at)];
                    assert_eq!(image.read(ino, at as u64, &mut some), Ok(some.len()));
                    assert!(some == plain[at..at + some.len()], "{name} at {at}");
                }
                let places = image.places(ino, plain.len() as u64, 0, plain.len() as u64).unwrap();
                let made = |piece: &&Piece| {
                    image.block_row(piece.place.unwrap().block).unwrap().recipe > 0
                };
                let made: u64 = places.unwrap().iter().filter(made).map(|piece| piece.len).sum();
                assert_eq!(made, plain.len() as u64, "{name}");
            }
        }
    }
}

/// Files of every kind with changes, mostly in their heads, where lengths and formats stand.
fn damaged_files() -> Vec<(String, Vec<u8>)> {
    let sounds = [sound(2, 2, false, 3000), sound(3, 1, true, 2000), sound(1, 3, false, 2000)];
    let code = MACHINES.map(|(_, machine, transform)| program(machine, transform, 0, 500));
    let packed = [git(&[STREAMS[1].1, STREAMS[1].1]), pe(&code[4]), mach(&code[3])];
    let others = STREAMS.iter().chain(&PICTURES).chain(&JPEGS).map(|(_, bytes)| bytes.to_vec());
    let whole: Vec<_> = sounds.into_iter().chain(code).chain(packed).chain(others).collect();
    let mut dice = Dice(11);
    let mut files = Vec::new();
    for number in 0..240 {
        let mut bytes = whole[number % whole.len()].clone();
        for _ in 0..=dice.below(4) {
            let reach = if dice.below(3) > 0 { 160 } else { bytes.len() };
            let at = dice.below(reach.min(bytes.len()));
            match dice.below(5) {
                _ if bytes.is_empty() => {}
                0 => bytes[at] ^= 1 << dice.below(8),
                1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][dice.below(5)],
                2 => bytes.truncate(at.max(3)),
                3 => drop(bytes.splice(at..at, (0..dice.below(9)).map(|byte| byte as u8))),
                _ => drop(bytes.drain(at..(at + dice.below(70)).min(bytes.len()))),
            }
        }
        files.push((format!("{number:03}"), bytes));
    }
    files
}

#[test]
fn damaged_files_of_every_kind_come_out_as_they_went_in() {
    let files = damaged_files();
    let all = || files.iter().map(|(name, bytes)| (&name[..], &bytes[..]));
    let small = Options { sharing: None, ..options(Codec::Zstd, 3) };
    let levels = (0..LEVELS).map(|level| Options::level(level, 2, 4 << 30));
    for options in levels.chain([options(Codec::Zstd, 3), small]) {
        let image = open(pack_files(options.clone(), all())).unwrap();
        assert_eq!(verify(&image, Depth::Plain, &mut |_| {}).findings, [], "{options:?}");
        for (name, plain) in &files {
            let ino = image.entry(Ino::ROOT, Name::parse(name.as_bytes()).unwrap()).unwrap().ino;
            let mut found = vec![0; plain.len() + 1];
            assert_eq!(image.read(ino, 0, &mut found), Ok(plain.len()), "{name}: {options:?}");
            assert!(found[..plain.len()] == *plain, "{name}: {options:?}");
        }
    }
}

#[test]
fn small_blocks_lean_on_a_base_that_their_group_shares() {
    let sharing = Some(Sharing { base_len: 64 << 10, group_len: 1 << 20 });
    let image = open(pack_versions(Options { sharing, ..options(Codec::Zstd, 3) })).unwrap();
    let (_, top) = image.root().indexes[0];
    let name = |slot| esker_stone::rows::extents::BlockName { segment: 3, slot };
    let rows: Vec<_> =
        (0..top.entries as u32).map(|slot| image.block_row(name(slot)).unwrap()).collect();
    let bases: Vec<_> = rows.iter().filter_map(|row| row.base).collect();
    assert_eq!((bases.len(), rows.len()), (15, 16));
    for base in bases {
        assert_eq!(rows[base.slot as usize].base, None);
    }
    // Alone, each block would have all of it again.
    let alone = open(pack_versions(Options { sharing: None, ..options(Codec::Zstd, 3) })).unwrap();
    let stored: u64 = rows.iter().map(|row| u64::from(row.stored)).sum();
    assert!(stored * 2 < alone.rest().superblock().data_len, "{stored}");
    assert!(picture(&alone).unwrap() == picture(&image).unwrap());
    assert_eq!(verify(&image, Depth::Plain, &mut |_| {}).findings, []);
}

#[test]
fn what_is_not_there_is_not_found() {
    for large in [false, true] {
        let image = open(pack(options(Codec::Zstd, 3), large)).unwrap();
        let last = image.root().statistics.last_ino;
        for ino in [0, last + 1, u64::MAX] {
            assert_eq!(image.attr(Ino(ino)), Err(Error::NotFound));
        }
        for name in [&b"\x01"[..], b"dir2", b"zzz", b"~", &[255; 255]] {
            for dir in (1..=last).map(Ino) {
                let found = image.entry(dir, Name::parse(name).unwrap());
                assert_eq!(found.unwrap_err(), Error::NotFound, "{name:?} in {dir:?}");
            }
        }
        let mut value = Vec::new();
        for name in [&b"a"[..], b"user.aa", b"zzz"] {
            let name = XattrName::parse(name).unwrap();
            for ino in (1..=last).map(Ino) {
                assert_eq!(image.xattr(ino, name, &mut value), Err(Error::NoData));
            }
        }
    }
}

#[test]
fn a_listing_goes_on_where_it_stopped() {
    use esker::Cursor;
    use esker::store::Flow;
    let image = open(pack(options(Codec::Zstd, 3), true)).unwrap();
    let many = image.entry(Ino::ROOT, Name::parse(b"many").unwrap()).unwrap().ino;
    let (mut names, mut after) = (Vec::new(), Cursor::START);
    loop {
        let before = names.len();
        let mut count = 0;
        image
            .entries(many, after, false, &mut |listed| {
                names.push(listed.name.bytes().to_vec());
                after = listed.entry.seq;
                count += 1;
                if count == 7 { Flow::Break(()) } else { Flow::Continue(()) }
            })
            .unwrap();
        if names.len() == before {
            break;
        }
    }
    assert_eq!(names.len(), 3006);
    assert!(names.windows(2).all(|two| two[0] < two[1]));
    image.entries(many, Cursor(u64::MAX), true, &mut |_| panic!("behind the end")).unwrap();
}

#[test]
fn too_little_memory_is_said_before_anything_is_done() {
    let root = esker_image::pack::Meta::new(esker::Kind::Directory, 0o755);
    let options = Options::level(9, 2, 64 << 20);
    let refused = Packer::new(std::io::Cursor::new(Vec::new()), root.clone(), options);
    let Err(esker_image::pack::Error::Memory(needed)) = refused else { panic!("not refused") };
    let enough = Options::level(9, 2, needed);
    Packer::new(std::io::Cursor::new(Vec::new()), root, enough).map(drop).unwrap();
}

/// Sound that was cut out of other sound is stored once, wherever the cut is, and reads as it was.
#[test]
fn sound_that_was_there_before_is_not_stored_again() {
    for channels in [1, 2, 3] {
        let whole = kit::wave(channels, 600_000);
        let (head, samples) = whole.split_at(44);
        let cut = |from: usize, to: usize| [head, &samples[from..to]].concat();
        // Between two moments, in the middle of one, and of a sample.
        let cuts = [cut(12_000, 900_000), cut(12_002, 800_000), cut(12_001, 1_100_001)];
        let files = [&whole, &cuts[0], &cuts[1], &cuts[2]].map(Vec::as_slice);
        let named = || ["0", "1", "2", "3"].into_iter().zip(files);
        let options = Options { pictures: false, ..options(Codec::Zstd, 3) };
        let alone = pack_files(options.clone(), named().take(1));
        let all = pack_files(options.clone(), named());
        assert!(all.len() < alone.len() + 4000, "{} and {}", alone.len(), all.len());
        let image = open(all).unwrap();
        for (name, bytes) in named() {
            let ino = image.entry(Ino::ROOT, Name::parse(name.as_bytes()).unwrap()).unwrap().ino;
            let mut read = vec![0; bytes.len()];
            assert_eq!(image.read(ino, 0, &mut read), Ok(bytes.len()));
            assert!(read == bytes, "{channels} channels, {name}");
        }
    }
}
