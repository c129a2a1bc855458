//! Hostile images: every number in every page may be anything, and all checksums and hashes are right. No panic, no
//! hang, no allocation that the limits do not bound; a walk ends, and a loop is refused.
//!
//! The fuzzer takes an image apart into its leaves, changes some of their bytes or rows, and puts it
//! together again with every checksum, hash and count mended. `ESKER_FUZZ_SECONDS` makes it run for longer.

mod kit;

use std::time::{Duration, Instant};

use esker::Kind;
use esker_image::{Depth, Image, verify};
use esker_stone::key::kind;
use esker_stone::layer::write_index;
use esker_stone::root::Root;
use esker_stone::rows::blocks::{BlockRow, Blocks};
use esker_stone::rows::names::{Named, Names};
use esker_stone::rows::pages::Inner;
use esker_stone::superblock::{DATA, Lens, ROOTS, TABLES};
use esker_stone::tree::{Leaf, Writing};
use esker_stone::{Codec, PageRef, Rest, Sealed, Setting, Start, Superblock};

use kit::{open, options, pack, picture};

const WRITING: Writing = Writing { setting: Setting::new(Codec::Lz4, 1), threads: 1 };

/// An image in pieces.
#[derive(Clone)]
struct Parts {
    root: Root,
    leaves: Vec<Leaf>,
    index: Vec<Leaf>,
    data: Vec<u8>,
}

fn leaves(rest: &Rest<Vec<u8>>, page: &PageRef, base: Option<PageRef>, height: u8) -> Vec<Leaf> {
    let base = base.map(|base| rest.page(&base, &[]).unwrap()).unwrap_or_default();
    let plain = rest.page(page, &base).unwrap();
    if height == 0 {
        return vec![Leaf { kind: plain[0], key: Vec::new(), entries: 0, plain }];
    }
    let inner = Inner::decode(&plain).unwrap();
    let mut all = Vec::new();
    for child in 0..inner.len() {
        let (page, base) = inner.page(child).unwrap();
        let mut below = leaves(rest, &page, base, height - 1);
        if height == 1 {
            below[0].key = inner.key(child).to_vec();
            below[0].entries = inner.entries(child);
        }
        all.extend(below);
    }
    all
}

fn take_apart(image: &[u8]) -> Parts {
    let rest = Rest::open(image.to_vec(), Start::At(0)).unwrap();
    let root = rest.root().clone();
    let mut index = Vec::new();
    for (_, top) in &root.indexes {
        index = leaves(&rest, &top.page, None, top.height);
        if top.height == 0 {
            index[0].entries = top.entries;
            index[0].key = vec![0; 4];
        }
    }
    let own = rest.superblock();
    let data = image[own.data_place as usize..][..own.data_len as usize].to_vec();
    Parts { leaves: leaves(&rest, &root.layer.page, None, root.layer.height), index, root, data }
}

fn put_together(parts: &Parts, root_plain: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Vec<u8> {
    let (mut roots, mut tables) = (Vec::new(), Vec::new());
    let mut root = parts.root.clone();
    root.layer = WRITING.build(&parts.leaves, TABLES, Some(&mut tables), &mut roots).unwrap();
    root.indexes = vec![(DATA, WRITING.build(&parts.index, ROOTS, None, &mut roots).unwrap())];
    let sealed = Sealed::new(&root_plain(root.encode()), &[], WRITING.setting).unwrap();
    let page = PageRef::new((ROOTS, roots.len() as u64), &sealed);
    roots.extend(sealed.stored);
    let lens = Lens {
        data: parts.data.len() as u64,
        roots: roots.len() as u64,
        tables: tables.len() as u64,
    };
    let block = Superblock::new(lens, &page).encode();
    [&block[..], &parts.data, &roots, &tables, &roots, &block].concat()
}

/// Everything that a reader may do; what it answers does not matter, only that it does.
fn use_it(image: Vec<u8>) {
    if let Ok(opened) = open(image) {
        let _ = picture(&opened);
        verify(&opened, Depth::Plain, &mut |_| {});
    }
}

/// A small generator of random numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.roll() >> 11) as usize % limit.max(1)
    }

    /// Bytes that hurt where numbers are expected.
    fn spoil(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(3) {
            if bytes.is_empty() {
                return;
            }
            let at = self.below(bytes.len());
            match self.below(7) {
                0 => bytes[at] = self.roll() as u8,
                1 => bytes[at] ^= 1 << self.below(8),
                2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
                3 => {
                    let end = (at + 8).min(bytes.len());
                    bytes[at..end].fill(0xff);
                }
                4 => bytes.truncate(at),
                5 => {
                    let from = self.below(bytes.len());
                    let end = (from + self.below(40)).min(bytes.len());
                    bytes.extend_from_within(from..end);
                }
                _ => {
                    let other = self.below(bytes.len());
                    bytes.swap(at, other);
                }
            }
        }
    }
}

fn change(parts: &mut Parts, dice: &mut Dice) {
    let at = dice.below(parts.leaves.len());
    match dice.below(8) {
        0..4 => dice.spoil(&mut parts.leaves[at].plain),
        4 => {
            let at = dice.below(parts.index.len());
            dice.spoil(&mut parts.index[at].plain);
        }
        5 => {
            let other = dice.below(parts.leaves.len());
            parts.leaves.swap(at, other);
        }
        6 => parts.leaves[at].entries = dice.roll() >> dice.below(64),
        _ => {
            let key = &mut parts.leaves[at].key;
            dice.spoil(key);
        }
    }
}

fn fuzz(seed: u64, time: Duration) -> u32 {
    let plain = take_apart(&pack(options(Codec::None, 0), false));
    // It comes together again as it was.
    let right = picture(&open(pack(options(Codec::None, 0), false)).unwrap()).unwrap();
    assert!(picture(&open(put_together(&plain, |root| root)).unwrap()).unwrap() == right);
    let (mut dice, begun, mut runs) = (Dice(seed), Instant::now(), 0);
    while begun.elapsed() < time {
        let before = dice.0;
        let mut parts = plain.clone();
        for _ in 0..=dice.below(2) {
            change(&mut parts, &mut dice);
        }
        let spoil_root = dice.below(10) == 0;
        let started = Instant::now();
        let image = put_together(&parts, |mut root| {
            if spoil_root {
                dice.spoil(&mut root);
            }
            root
        });
        use_it(image);
        assert!(started.elapsed() < Duration::from_secs(10), "seed {before:#x}: it hangs");
        runs += 1;
    }
    runs
}

#[test]
fn images_with_mended_checksums_do_no_harm() {
    let seconds = std::env::var("ESKER_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let seed = std::env::var("ESKER_FUZZ_SEED").ok().and_then(|text| text.parse().ok());
    let runs = fuzz(seed.unwrap_or(0x5eed_0001), Duration::from_secs(seconds.unwrap_or(5)));
    assert!(runs > 20, "only {runs} images");
}

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
            names.push(Named { dir, name, ino, kind });
        }
    }
    change(&mut names);
    parts.leaves.retain(|leaf| leaf.kind != kind::NAME);
    let key = esker_stone::key::name(names[0].dir, &names[0].name);
    let plain = Names::encode(&names, WRITING.measure());
    let leaf = Leaf { kind: kind::NAME, key, entries: names.len() as u64, plain };
    parts.leaves.insert(first, leaf);
    open(put_together(&parts, |root| root)).unwrap()
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
    let covered =
        BlockRow::covered(esker_stone::rows::extents::BlockName { segment: DATA, slot: 0 });
    let stored = rows[0].stored as usize;
    if let Some(stored) = parts.data.get(..stored) {
        rows[0].checksums = covered.checksums(stored);
    }
    parts.index[0].plain = Blocks::encode(0, &rows, WRITING.measure());
    // The writer of indexes makes the same of them.
    let mut roots = Vec::new();
    write_index(&rows, WRITING, 1 << 16, &mut roots).unwrap();
    open(put_together(&parts, |root| root)).unwrap()
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
        row.base = Some(esker_stone::rows::extents::BlockName { segment: DATA, slot: 0 });
    });
    let seen = picture(&image).unwrap();
    assert!(seen[&b"/dir/text"[..]].is_err());
    let elsewhere = with_block(|row, _| {
        let segment = (7 << 48) | DATA;
        row.base = Some(esker_stone::rows::extents::BlockName { segment, slot: 0 });
    });
    assert!(picture(&elsewhere).unwrap()[&b"/dir/text"[..]].is_err());
}
