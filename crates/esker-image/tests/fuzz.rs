//! Hostile images by chance: any number in the header, the index, a page or a block may be anything, and all checksums
//! are mended. No panic, no hang, no allocation that the limits do not bound; and whatever is answered once is
//! answered again, however little the cache holds.
//!
//! `ESKER_FUZZ_SECONDS` says for how long (5), `ESKER_FUZZ_SEED` begins with an image that was told of.

mod kit;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use esker::store::{Flow, View as _};
use esker::{Cursor, Ino, Kind, Name};
use esker_image::{Depth, Image, verify};
use esker_stone::key::kind;
use esker_stone::rooms::Rooms;
use esker_stone::rows::blocks::{BlockRow, Blocks};
use esker_stone::rows::extents::{BlockName, Content, Extent, Extents, Place};
use esker_stone::rows::inodes::{Inode, Inodes};
use esker_stone::rows::names::{Named, Names};
use esker_stone::rows::xattrs::{Xattr, Xattrs};
use esker_stone::superblock::DATA;
use esker_stone::{Codec, Setting, Superblock, Transform};

use kit::dice::{Dice, Watch, memory, number};
use kit::parts::{Parts, WRITING, put_together, put_together_with, take_apart};
use kit::{
    Picture, open, open_with, options, pack, pack_changed, pack_jpegs, pack_programs, pack_sounds,
    pack_streams, pack_texts, picture,
};

/// More than this at any time is too much for images of some hundred KiB: a block may be as long as the format allows,
/// and its base too, but no more of them are needed at once.
const MEMORY_MAX: u64 = 700 << 20;
/// More work than this, and one image hangs; how long it takes depends on who else is at work.
const WORK_MAX: Duration = Duration::from_secs(20);

fn change_inode(inode: &mut Inode, dice: &mut Dice) {
    let attr = &mut inode.attr;
    match dice.below(8) {
        0 => attr.size = dice.number(attr.size).min(i64::MAX as u64),
        1 => attr.blocks = dice.number(attr.blocks),
        2 => attr.nlink = dice.short(attr.nlink),
        3 => attr.parent = Ino(dice.number(attr.parent.0)),
        4 => attr.mtime.secs = dice.roll().cast_signed(),
        5 => attr.rdev = dice.short(attr.rdev),
        6 => inode.inline = vec![b'a'; dice.below(5000)],
        _ => {
            let kinds = [Kind::File, Kind::Directory, Kind::Symlink, Kind::Fifo, Kind::Socket];
            attr.kind = kinds[dice.below(kinds.len())];
        }
    }
}

fn change_extent(row: &mut Extent, dice: &mut Dice) {
    match dice.below(6) {
        0 => row.ino = Ino(dice.number(row.ino.0)),
        1 => row.start = dice.number(row.start),
        2 => row.len = Some(dice.number(row.len.unwrap_or(1))),
        3 => row.content = Content::Same(Ino(dice.number(row.ino.0))),
        _ => {
            let Content::Pieces(pieces) = &mut row.content else { return };
            let at = dice.below(pieces.len());
            let Some(piece) = pieces.get_mut(at) else { return };
            let none = Place { block: BlockName { segment: DATA, slot: 0 }, offset: 0 };
            let mut place = piece.place.unwrap_or(none);
            match dice.below(5) {
                0 => piece.len = dice.number(piece.len),
                1 => place.offset = dice.short(place.offset),
                2 => place.block.slot = dice.short(place.block.slot),
                3 => place.block.segment = dice.number(place.block.segment),
                _ => {
                    let again = *piece;
                    pieces.extend(vec![again; dice.below(30)]);
                    return;
                }
            }
            piece.place = Some(place);
        }
    }
}

fn change_name(row: &mut Named, dice: &mut Dice) {
    match dice.below(4) {
        0 => row.ino = Ino(dice.number(row.ino.0)),
        1 => row.dir = Ino(dice.number(row.dir.0)),
        2 => dice.spoil(&mut row.name),
        _ => row.kind = [Kind::File, Kind::Directory, Kind::Symlink][dice.below(3)],
    }
}

/// Changes rows of a leaf as what they are.
fn change_rows(leaf: &mut esker_stone::tree::Leaf, dice: &mut Dice) {
    let measure = WRITING.measure();
    match leaf.kind {
        kind::INODE => {
            let Ok(page) = Inodes::decode(&leaf.plain) else { return };
            let inode = |row| {
                let (ino, attr) = (page.ino(row)?, page.attr_at(row).ok()?);
                Some(Inode { ino, attr, inline: page.inline_at(row).to_vec() })
            };
            let mut rows: Vec<_> = (0..page.len()).filter_map(inode).collect();
            let at = dice.below(rows.len());
            rows.get_mut(at).into_iter().for_each(|row| change_inode(row, dice));
            leaf.plain = Inodes::encode(&rows, measure);
        }
        kind::NAME => {
            let Ok(page) = Names::decode(&leaf.plain) else { return };
            let named = |row| {
                let (ino, kind) = page.child(row).ok()?;
                Some(Named {
                    dir: page.dir(row)?,
                    name: page.name(row).to_vec(),
                    ino,
                    kind,
                    seq: 0,
                })
            };
            let mut rows: Vec<_> = (0..page.len()).filter_map(named).collect();
            let at = dice.below(rows.len());
            rows.get_mut(at).into_iter().for_each(|row| change_name(row, dice));
            leaf.plain = Names::encode(&rows, measure);
        }
        kind::XATTR => {
            let Ok(page) = Xattrs::decode(&leaf.plain) else { return };
            let xattr = |row| {
                let (ino, name, value) = page.row(row)?;
                Some(Xattr { ino, name: name.to_vec(), value: value.to_vec() })
            };
            let mut rows: Vec<_> = (0..page.len()).filter_map(xattr).collect();
            let at = dice.below(rows.len());
            if let Some(row) = rows.get_mut(at) {
                match dice.below(3) {
                    0 => row.ino = Ino(dice.number(row.ino.0)),
                    1 => dice.spoil(&mut row.name),
                    _ => row.value = vec![7; dice.below(100_000)],
                }
            }
            leaf.plain = Xattrs::encode(&rows, measure);
        }
        _ => {
            let Ok(page) = Extents::decode(&leaf.plain) else { return };
            let mut rows: Vec<_> = (0..page.len()).filter_map(|row| page.row(row).ok()).collect();
            let at = dice.below(rows.len());
            rows.get_mut(at).into_iter().for_each(|row| change_extent(row, dice));
            leaf.plain = Extents::encode(&rows, measure);
        }
    }
}

/// Changes what is said of a block, or its stored bytes, whose checksums are mended.
fn change_block(parts: &mut Parts, dice: &mut Dice) {
    let at = dice.below(parts.index.len());
    let leaf = &mut parts.index[at];
    let Ok(page) = Blocks::decode(&leaf.plain) else { return };
    let Some((first, _)) = page.iter().next() else { return };
    let mut rows: Vec<BlockRow> = page.iter().map(|(_, row)| row.clone()).collect();
    let at = dice.below(rows.len());
    let name = BlockName { segment: DATA, slot: first.wrapping_add(at as u32) };
    let row = &mut rows[at];
    let place = row.at as usize..row.at as usize + row.stored as usize;
    match dice.below(12) {
        10 => change_sections(row, dice),
        9 => change_words(row, name, parts.data.get_mut(place), dice),
        8 => {
            row.words = dice.short(row.words);
            row.sections.clear();
        }
        6 => row.recipe = dice.short(row.recipe),
        0 => row.plain = dice.short(row.plain),
        1 => row.codec = Codec::ALL[dice.below(Codec::ALL.len())],
        2 => {
            let slot = dice.below(rows.len() + 1) as u32;
            let segment = if dice.below(4) == 0 { dice.number(DATA) } else { DATA };
            rows[at].base = Some(BlockName { segment, slot });
        }
        3 => row.hash = None,
        4 => row.transform = Transform::ALL[dice.below(Transform::ALL.len())],
        7 => change_recipe(row, name, parts.data.get_mut(place), dice),
        _ => {
            let Some(stored) = parts.data.get_mut(place) else { return };
            let mut spoiled = stored.to_vec();
            dice.spoil(&mut spoiled);
            spoiled.resize(stored.len(), dice.roll() as u8);
            row.checksums = BlockRow::covered(name).checksums(&spoiled);
            stored.copy_from_slice(&spoiled);
        }
    }
    leaf.plain = Blocks::encode(first, &rows, WRITING.measure());
}

/// Changes the form in words of a block that has its own.
fn change_words(row: &mut BlockRow, name: BlockName, stored: Option<&mut [u8]>, dice: &mut Dice) {
    let Some(stored) = stored.filter(|_| row.words > 0) else { return };
    let Ok(mut form) = row.open_form(stored.to_vec(), &[], &Rooms::none()) else { return };
    dice.spoil(&mut form);
    let Ok((codec, coded)) = Setting::new(Codec::Zstd, 9).encode(&form, &[]) else { return };
    if coded.len() <= stored.len() {
        if row.words as usize != form.len() {
            row.words = form.len() as u32;
            row.sections.clear();
        }
        store_again(row, name, stored, codec, coded);
    }
}

/// Moves the border between two sections of a form.
fn change_sections(row: &mut BlockRow, dice: &mut Dice) {
    let count = row.sections.len();
    if let Some(at) = count.checked_sub(2).map(|most| dice.below(most + 1)) {
        let by = dice.short(row.sections[at]).min(row.sections[at]);
        row.sections[at] -= by;
        row.sections[at + 1] += by;
    }
}

/// Changes the recipe of a block, which stays stored at the same place.
fn change_recipe(row: &mut BlockRow, name: BlockName, stored: Option<&mut [u8]>, dice: &mut Dice) {
    let Some(stored) = stored else { return };
    let Ok(mut recipe) = row.open_recipe(stored.to_vec()) else { return };
    dice.spoil(&mut recipe);
    let coded = Setting::new(Codec::Zstd, 3).encode(&recipe, &[]);
    let Ok((codec, coded)) = coded else { return };
    if coded.len() <= stored.len() {
        row.recipe = recipe.len() as u32;
        store_again(row, name, stored, codec, coded);
    }
}

/// Stores a block at its place, in other bytes that are no more than those before.
fn store_again(
    row: &mut BlockRow,
    name: BlockName,
    stored: &mut [u8],
    codec: Codec,
    mut coded: Vec<u8>,
) {
    (row.codec, row.stored) = (codec, coded.len() as u32);
    row.checksums = BlockRow::covered(name).checksums(&coded);
    coded.resize(stored.len(), 0);
    stored.copy_from_slice(&coded);
}

fn change(parts: &mut Parts, dice: &mut Dice) {
    let at = dice.below(parts.leaves.len());
    match dice.below(12) {
        0..3 => dice.spoil(&mut parts.leaves[at].plain),
        3..6 => change_rows(&mut parts.leaves[at], dice),
        6 => {
            let at = dice.below(parts.index.len());
            dice.spoil(&mut parts.index[at].plain);
        }
        7..9 => change_block(parts, dice),
        9 => {
            let other = dice.below(parts.leaves.len());
            parts.leaves.swap(at, other);
        }
        10 => parts.leaves[at].entries = dice.roll() >> dice.below(64),
        _ => {
            let key = &mut parts.leaves[at].key;
            dice.spoil(key);
        }
    }
}

fn change_superblock(block: &mut Superblock, dice: &mut Dice) {
    let fields = [
        &mut block.size,
        &mut block.generation,
        &mut block.data_place,
        &mut block.data_len,
        &mut block.tables_place,
        &mut block.tables_len,
        &mut block.roots_place,
        &mut block.roots_twin,
        &mut block.roots_len,
        &mut block.root_at,
        &mut block.root_checksum,
        &mut block.read_compatible,
        &mut block.incompatible,
    ];
    let at = dice.below(fields.len() + 4);
    match at.checked_sub(fields.len()) {
        None => {
            for (number, field) in fields.into_iter().enumerate() {
                if number == at {
                    *field = dice.number(*field);
                }
            }
        }
        Some(0) => block.root_stored = dice.short(block.root_stored),
        Some(1) => block.root_plain = dice.short(block.root_plain),
        Some(2) => block.root_codec = dice.short(block.root_codec),
        Some(_) => block.version = dice.short(block.version),
    }
}

/// What was answered twice was answered alike.
fn agree(one: &Picture, other: &Picture) {
    for (path, seen) in one {
        if let (Ok(one), Some(Ok(other))) = (seen, other.get(path)) {
            assert!(one == other, "{} has two faces", path.escape_ascii());
        }
    }
}

/// Questions that no tree asks.
fn ask(image: &Image, dice: &mut Dice) {
    let last = image.root().statistics.last_ino;
    let mut bytes = vec![0; 70_000];
    for _ in 0..20 {
        let ino = Ino(if dice.below(3) == 0 { dice.number(last) } else { dice.roll() % 40 });
        let size = image.attr(ino).map_or(1 << 20, |attr| attr.size);
        let at = if dice.below(2) == 0 { dice.number(size) } else { dice.roll() % size.max(1) };
        let len = dice.below(bytes.len());
        let _ = image.read(ino, at, &mut bytes[..len]);
        let _ = image.next_data(ino, at);
        let _ = image.entry(ino, Name::parse(&[b'a' + dice.below(26) as u8]).unwrap());
        let mut listed = 0;
        let _ = image.entries(ino, Cursor(dice.number(last)), dice.below(2) == 0, &mut |_| {
            listed += 1;
            if listed < 100_000 { Flow::Continue(()) } else { panic!("a listing without end") }
        });
    }
}

/// Everything that a reader may do; what it answers does not matter, only that it does.
fn use_it(image: Vec<u8>, dice: &mut Dice) {
    let Ok(opened) = open(image.clone()) else { return };
    let seen = picture(&opened);
    verify(&opened, Depth::Plain, &mut |_| {});
    ask(&opened, dice);
    let small = open_with(Box::new(image), 20_000).expect("it was opened before");
    if let (Ok(one), Ok(other)) = (seen, picture(&small)) {
        agree(&one, &other);
    }
}

/// How long this thread has been at work.
fn work() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

fn sources() -> Vec<Parts> {
    let codecs =
        [(Codec::None, 0), (Codec::Lz4, 1), (Codec::Zstd, 1), (Codec::Xz, 1), (Codec::Brotli, 3)];
    let mut all = Vec::new();
    for (codec, level) in codecs {
        let image = pack(options(codec, level), false);
        let parts = take_apart(&image);
        // It comes together again as it was.
        let again = picture(&open(put_together(&parts)).unwrap()).unwrap();
        assert!(again == picture(&open(image).unwrap()).unwrap());
        all.push(parts);
    }
    all.push(take_apart(&pack_sounds(options(Codec::Zstd, 1))));
    all.push(take_apart(&pack_streams(options(Codec::Zstd, 1))));
    all.push(take_apart(&pack_texts(options(Codec::Zstd, 1))));
    all.push(take_apart(&pack_changed(options(Codec::Zstd, 1))));
    all.push(take_apart(&pack_jpegs(options(Codec::Zstd, 1))));
    all.push(take_apart(&pack_programs(options(Codec::Xz, 1), 2000)));
    all.push(take_apart(&pack(options(Codec::Zstd, 1), true)));
    all
}

fn fuzz(seed: u64, time: Duration) -> u32 {
    let sources = sources();
    let (mut dice, begun, mut runs) = (Dice(seed), Instant::now(), 0);
    let mut slowest = Duration::ZERO;
    let watch = Watch::new(seed);
    while begun.elapsed() < time {
        let before = dice.0;
        watch.next(before);
        // The last is large, and takes its time.
        let large = dice.below(60) == 0;
        let number = if large { sources.len() - 1 } else { dice.below(sources.len() - 1) };
        let mut parts = sources[number].clone();
        let worked = work();
        let done = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..=dice.below(3) {
                change(&mut parts, &mut dice);
            }
            let spoil_root = dice.below(12) == 0;
            let spoil_superblock = dice.below(12) == 0;
            let mut other = Dice(dice.roll() | 1);
            let image = put_together_with(
                &parts,
                |mut root| {
                    if spoil_root {
                        dice.spoil(&mut root);
                    }
                    root
                },
                |block| {
                    if spoil_superblock {
                        change_superblock(block, &mut other);
                    }
                },
            );
            use_it(image, &mut other);
        }));
        assert!(done.is_ok(), "seed {before:#x}: see above");
        let worked = work() - worked;
        slowest = slowest.max(worked);
        assert!(worked < WORK_MAX, "seed {before:#x}: it hangs");
        assert!(memory() < MEMORY_MAX, "seed {before:#x}: {} bytes of memory", memory());
        runs += 1;
    }
    let (mib, last) = (memory() >> 20, dice.0);
    eprintln!(
        "{runs} images, {mib} MiB at most, the slowest took {slowest:?}, last state {last:#x}"
    );
    runs
}

#[test]
fn images_with_mended_checksums_do_no_harm() {
    let seconds = number("ESKER_FUZZ_SECONDS").unwrap_or(5);
    let seed = number("ESKER_FUZZ_SEED").unwrap_or(0x5eed_0001);
    let runs = fuzz(seed, Duration::from_secs(seconds));
    assert!(runs > 2, "only {runs} images");
}
