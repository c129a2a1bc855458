//! Hostile images, made by hand: loops, directories with two names, lies about kinds, bombs, blocks that lean on
//! themselves. All checksums and hashes are right. `fuzz.rs` beside it leaves it to chance.

mod kit;

use std::time::Duration;

use esker::Kind;
use esker_image::{Depth, Image, verify};
use esker_stone::key::kind;
use esker_stone::layer::write_index;
use esker_stone::rows::blocks::{BlockRow, Blocks};
use esker_stone::rows::extents::BlockName;
use esker_stone::rows::names::{Named, Names};
use esker_stone::superblock::DATA;
use esker_stone::tree::Leaf;
use esker_stone::{Codec, Setting};

use kit::parts::{WRITING, put_together, take_apart};
use kit::{open, options, pack, pack_streams, picture};

/// The names of an image, changed.
fn with_names(change: impl FnOnce(&mut Vec<Named>)) -> Image {
    let mut parts = take_apart(&pack(options(Codec::None, 0), false));
    let first = parts.leaves.iter().position(|leaf| leaf.kind == kind::NAME).unwrap();
    let mut names = Vec::new();
    for leaf in parts.leaves.iter().filter(|leaf| leaf.kind == kind::NAME) {
        let page = Names::decode(&leaf.plain).unwrap();
        for row in 0..page.len() {
            let (ino, kind) = page.child(row).unwrap();
            let (dir, name) = (page.dir(row).unwrap(), page.name(row).to_vec());
            names.push(Named { dir, name, ino, kind, seq: 0 });
        }
    }
    change(&mut names);
    parts.leaves.retain(|leaf| leaf.kind != kind::NAME);
    let key = esker_stone::key::name(names[0].dir, &names[0].name);
    let plain = Names::encode(&names, WRITING.measure());
    let leaf = Leaf { kind: kind::NAME, key, entries: names.len() as u64, plain };
    parts.leaves.insert(first, leaf);
    open(put_together(&parts)).unwrap()
}

fn row<'a>(names: &'a mut [Named], name: &[u8]) -> &'a mut Named {
    names.iter_mut().find(|row| row.name == name).unwrap()
}

#[test]
fn a_directory_that_is_its_own_grandchild_is_refused() {
    let image = with_names(|names| {
        let dir = row(names, b"dir").ino;
        row(names, b"deep").ino = dir;
    });
    let seen = picture(&image).unwrap();
    assert!(seen[&b"/dir/deep"[..]].is_err());
    assert!(!verify(&image, Depth::Stored, &mut |_| {}).findings.is_empty());
}

#[test]
fn a_directory_with_two_names_is_refused() {
    let image = with_names(|names| {
        let deep = row(names, b"deep").ino;
        row(names, b"empty dir").ino = deep;
    });
    let seen = picture(&image).unwrap();
    assert!(seen[&b"/empty dir"[..]].is_err());
    assert!(!verify(&image, Depth::Stored, &mut |_| {}).findings.is_empty());
}

#[test]
fn a_root_below_itself_is_refused() {
    let image = with_names(|names| row(names, b"empty dir").ino = esker::Ino::ROOT);
    assert!(picture(&image).unwrap()[&b"/empty dir"[..]].is_err());
}

#[test]
fn a_name_that_lies_about_its_kind_is_refused() {
    let image = with_names(|names| row(names, b"text").kind = Kind::Directory);
    let seen = picture(&image).unwrap();
    assert!(seen[&b"/dir/text"[..]].is_err());
}

#[test]
fn names_that_no_directory_may_have_are_refused() {
    for bad in [&b"."[..], b"..", b"a/b", b"", b"nul\0", b"/"] {
        let image = with_names(|names| row(names, b"deep").name = bad.to_vec());
        let seen = picture(&image).unwrap();
        assert!(seen.keys().skip(1).all(|path| !path.ends_with(bad) || bad.is_empty()), "{bad:?}");
        assert!(!verify(&image, Depth::Stored, &mut |_| {}).findings.is_empty(), "{bad:?}");
    }
}

/// An image whose first block is this.
fn with_block(change: impl FnOnce(&mut BlockRow, &mut Vec<u8>)) -> Image {
    let mut parts = take_apart(&pack(options(Codec::Zstd, 1), false));
    let blocks = Blocks::decode(&parts.index[0].plain).unwrap();
    let mut rows: Vec<_> = blocks.iter().map(|(_, row)| row.clone()).collect();
    change(&mut rows[0], &mut parts.data);
    let covered = BlockRow::covered(BlockName { segment: DATA, slot: 0 });
    let stored = rows[0].stored as usize;
    if let Some(stored) = parts.data.get(..stored) {
        rows[0].checksums = covered.checksums(stored);
    }
    parts.index[0].plain = Blocks::encode(0, &rows, WRITING.measure());
    // The writer of indexes makes the same of them.
    let mut roots = Vec::new();
    write_index(&rows, WRITING, 1 << 16, &mut roots).unwrap();
    open(put_together(&parts)).unwrap()
}

#[test]
fn a_bomb_is_no_larger_than_a_block_may_be() {
    // A megabyte of zeros in a few bytes is what it says; a block that says less or more is refused.
    let setting = Setting::new(Codec::Zstd, 19);
    let (codec, bomb) = setting.encode(&vec![0; 60 << 20], &[]).unwrap();
    assert!(bomb.len() < 10_000);
    for plain in [0, 1, 1 << 20, (60 << 20) - 1, (60 << 20) + 1, 64 << 20, u32::MAX] {
        let image = with_block(|row, data| {
            *data = bomb.clone();
            (row.codec, row.stored, row.plain, row.at) = (codec, bomb.len() as u32, plain, 0);
        });
        let report = verify(&image, Depth::Plain, &mut |_| {});
        assert!(!report.findings.is_empty(), "{plain} plain bytes");
        assert!(picture(&image).is_ok());
    }
}

#[test]
fn a_block_may_not_lean_on_itself() {
    let image = with_block(|row, _| {
        row.base = Some(BlockName { segment: DATA, slot: 0 });
    });
    let seen = picture(&image).unwrap();
    assert!(seen[&b"/dir/text"[..]].is_err());
    let elsewhere = with_block(|row, _| {
        let segment = (7 << 48) | DATA;
        row.base = Some(BlockName { segment, slot: 0 });
    });
    assert!(picture(&elsewhere).unwrap()[&b"/dir/text"[..]].is_err());
}

#[test]
fn a_block_may_not_lean_on_one_that_is_made_of_it() {
    let mut parts = take_apart(&pack_streams(options(Codec::Zstd, 1)));
    let page = Blocks::decode(&parts.index[0].plain).unwrap();
    let mut rows: Vec<_> = page.iter().map(|(_, row)| row.clone()).collect();
    let made = rows.iter().rposition(|row| row.recipe > 0).unwrap();
    let stored = |row: &BlockRow| parts.data[row.at as usize..][..row.stored as usize].to_vec();
    let mut blocks: Vec<_> = rows.iter().map(|row| (row.clone(), stored(row))).collect();
    let (mut first, recipe) = blocks.remove(made);
    let mut recipe = first.open_recipe(recipe).unwrap();
    // The slot of the first stretch, twice.
    let text = usize::from(recipe[1] / 2 + 1);
    recipe[1] += 2;
    let (codec, coded) = Setting::new(Codec::Zstd, 3).encode(&recipe, &[]).unwrap();
    (first.codec, first.stored) = (codec, coded.len() as u32);
    blocks.insert(0, (first, coded));
    let bases = blocks.iter_mut().filter_map(|(row, _)| row.base.as_mut());
    bases.for_each(|base| base.slot += 1);
    blocks[text].0.base = Some(BlockName { segment: DATA, slot: 0 });
    (rows, parts.data) = (Vec::new(), Vec::new());
    for ((mut row, stored), slot) in blocks.into_iter().zip(0..) {
        row.at = parts.data.len() as u64;
        row.checksums = BlockRow::covered(BlockName { segment: DATA, slot }).checksums(&stored);
        parts.data.extend(stored);
        rows.push(row);
    }
    parts.index[0].entries = rows.len() as u64;
    parts.index[0].plain = Blocks::encode(0, &rows, WRITING.measure());
    let image = put_together(&parts);
    // What waits for itself waits for ever: somebody else looks at the clock.
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let image = open(image).unwrap();
        let readable = picture(&image).unwrap().values().filter(|file| file.is_ok()).count();
        let found = verify(&image, Depth::Plain, &mut |_| {}).findings.len();
        tell.send((readable, found)).unwrap();
    });
    let (readable, found) = told.recv_timeout(Duration::from_secs(300)).expect("an answer");
    assert!(readable > 0 && found > 1, "{readable} files, {found} findings");
}
