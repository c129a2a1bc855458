//! What is decoded before it is asked for: bases, once two of them were wanted.

mod kit;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use esker_image::pack::{Options, Sharing};
use esker_image::{Cache, Image};
use esker_stone::cache::{Key, What};
use esker_stone::rows::extents::BlockName;
use esker_stone::superblock::DATA;
use esker_stone::{Codec, Start};

use kit::{noise, options, pack_files};

fn name(slot: u32) -> BlockName {
    BlockName { segment: DATA, slot }
}

/// Everything of an image of some groups: what is their base, and a block on each.
fn groups(image: &Image) -> Vec<(u32, u32)> {
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    for slot in 0.. {
        let Ok(row) = image.block_row(name(slot)) else { return found };
        let base = row.base.map(|base| base.slot);
        found.extend(base.filter(|&base| seen.insert(base)).map(|base| (base, slot)));
    }
    found
}

/// Opens it with one thread that decodes ahead, and reads a byte of a block of the first two groups. Whether all bases
/// are there behind each, in a while.
fn bases_behind(packed: &[u8], limit: usize) -> [bool; 2] {
    let cache = Cache::with_readers(limit, 1);
    let source = Box::new(packed.to_vec());
    let image = Image::open(source, Start::Auto, Vec::new(), Arc::clone(&cache)).unwrap();
    let groups = groups(&image);
    assert!(groups.len() > 4, "{} groups", groups.len());
    let is_there = |slot: u32| {
        cache.holds(&Key { image: 0, what: What::Block, segment: DATA, number: slot.into() })
    };
    [0, 1].map(|number| {
        image.fill(name(groups[number].1), 0, &mut [0]).unwrap();
        assert!(is_there(groups[number].0), "it was needed");
        (0..100).any(|_| {
            sleep(Duration::from_millis(3));
            groups.iter().all(|&(base, _)| is_there(base))
        })
    })
}

#[test]
fn bases_are_decoded_once_two_were_wanted() {
    // Much is alike in them, and no stretch is the same.
    let file = |number: u8| {
        let mut bytes = noise(u64::from(number) % 4, 40_000);
        bytes.iter_mut().step_by(300).for_each(|byte| *byte ^= number);
        (format!("f{number}"), bytes)
    };
    let files: Vec<_> = (0..64).map(file).collect();
    let files = || files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
    let sharing = Some(Sharing { base_len: 64 << 10, group_len: 256 << 10 });
    let packed = pack_files(Options { sharing, ..options(Codec::Zstd, 6) }, files());
    assert_eq!(bases_behind(&packed, 64 << 20), [false, true]);
    // All of them would take more than a quarter of this one.
    assert_eq!(bases_behind(&packed, 1 << 20), [false, false]);
}
