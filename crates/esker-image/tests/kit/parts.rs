//! Images taken apart and put together again, with every checksum, hash and count mended.

use esker_stone::root::Root;
use esker_stone::rows::pages::Inner;
use esker_stone::superblock::{DATA, Lens, ROOTS, TABLES};
use esker_stone::tree::{Leaf, Writing};
use esker_stone::{Codec, PageRef, Rest, Sealed, Setting, Start, Superblock};

/// How the pages of what is put together are written.
pub const WRITING: Writing = Writing { setting: Setting::new(Codec::Lz4, 1), threads: 1 };

/// An image in pieces.
#[derive(Clone)]
pub struct Parts {
    pub root: Root,
    pub leaves: Vec<Leaf>,
    pub index: Vec<Leaf>,
    pub data: Vec<u8>,
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

pub fn take_apart(image: &[u8]) -> Parts {
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

/// An image of the pieces, every checksum, hash and count right.
pub fn put_together(parts: &Parts) -> Vec<u8> {
    put_together_with(parts, |root| root, |_| {})
}

/// As [`put_together`], after changes to the root page's bytes and to the superblock.
pub fn put_together_with(
    parts: &Parts,
    root_plain: impl FnOnce(Vec<u8>) -> Vec<u8>,
    superblock: impl FnOnce(&mut Superblock),
) -> Vec<u8> {
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
    let mut block = Superblock::new(lens, &page);
    superblock(&mut block);
    block.seal();
    let block = block.encode();
    [&block[..], &parts.data, &roots, &tables, &roots, &block].concat()
}
