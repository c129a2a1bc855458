//! Damage: whatever happens to an image's bytes, it is read rightly or refused, and one damaged block costs only
//! the files that use it.

mod kit;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use esker::store::View as _;
use esker::{Ino, Name};
use esker_image::pack::{Category, LEVELS, Options, Sharing};
use esker_image::{Depth, Thing, verify};
use esker_stone::limits::UNIT_LEN;
use esker_stone::rows::extents::BlockName;
use esker_stone::superblock::DATA;
use esker_stone::{Codec, ReadAt, Superblock};

use kit::{
    all_kinds, chance, few_kinds, noise, nothing_wrong, open, open_with, options, pack, pack_files,
    pack_long, pack_samples, pack_sounds, pack_streams, picture, rows,
};

/// What lies before the blocks.
const SUPERBLOCK_LEN: usize = 512;

/// An image with bytes changed in place.
struct Changed {
    image: Arc<Vec<u8>>,
    at: usize,
    xor: u8,
}

impl ReadAt for Changed {
    fn size(&self) -> esker_stone::Result<u64> {
        self.image.size()
    }

    fn read_at(&self, at: u64, target: &mut [u8]) -> esker_stone::Result<()> {
        self.image.read_at(at, target)?;
        let place = (self.at as u64).checked_sub(at).and_then(|place| usize::try_from(place).ok());
        if let Some(byte) = place.and_then(|place| target.get_mut(place)) {
            *byte ^= self.xor;
        }
        Ok(())
    }
}

#[test]
fn every_single_bit_flip_of_a_small_image_gives_right_bytes_or_an_error() {
    for (codec, step, which) in
        [(Codec::Zstd, 1, 0), (Codec::None, 11, 0), (Codec::Zstd, 3, 1), (Codec::Zstd, 9973, 2)]
    {
        let image = Arc::new(match which {
            0 => pack(options(codec, 1), false),
            1 => pack_sounds(options(codec, 1)),
            _ => pack_streams(options(codec, 1)),
        });
        let right = picture(&open(image.to_vec()).unwrap()).unwrap();
        let mut harmless = 0;
        for bit in (0..image.len() * 8).step_by(step) {
            let (at, xor) = (bit / 8, 1 << (bit % 8));
            let source = Box::new(Changed { image: Arc::clone(&image), at, xor });
            let Ok(opened) = open_with(source, 1 << 20) else { continue };
            match picture(&opened) {
                Ok(seen) if seen == right => harmless += 1,
                Ok(seen) => nothing_wrong(&seen, &right).unwrap_or_else(|why| {
                    panic!("{codec:?}: bit {bit}: {why}");
                }),
                Err(_) => {}
            }
        }
        // Roots and superblocks are there twice: a flip in either copy costs nothing.
        assert!(
            which > 0 || harmless > image.len() * 8 / step / 3,
            "{harmless} of {}",
            image.len() * 8
        );
    }
}

#[test]
fn a_flip_at_any_level_gives_right_bytes_of_every_kind_or_an_error() {
    const FLIPS: usize = 8;
    let files = all_kinds();
    for level in 0..LEVELS {
        let image = Arc::new(pack_samples(Options::level(level, 2, 4 << 30), &files));
        let opened = open(image.to_vec()).unwrap();
        let right = picture(&opened).unwrap();
        // Nothing is wrong; whether anything is lost.
        let is_harmed = |at: usize, bit: usize| {
            let source = Changed { image: Arc::clone(&image), at, xor: 1 << (bit % 8) };
            let Ok(opened) = open_with(Box::new(source), 8 << 20) else { return true };
            let Ok(seen) = picture(&opened) else { return true };
            nothing_wrong(&seen, &right).unwrap_or_else(|why| panic!("{level}, byte {at}: {why}"));
            seen != right
        };
        let anywhere = (0..FLIPS).map(|flip| ((2 * flip + 1) * image.len() / (2 * FLIPS), flip));
        let harmed = anywhere.filter(|&(at, flip)| is_harmed(at, flip)).count();
        // Nearly all of it is bytes of files.
        assert!(harmed > FLIPS / 2, "level {level}: {harmed}");
        // What is in few blocks is hit too: in the first and in the last block of each category.
        let rows = rows(&opened);
        for category in 0..Category::NAMES.len() {
            let mut own = rows.iter().filter(|row| row.category as usize == category);
            let ends = [own.next(), own.next_back()];
            for (row, part) in ends.into_iter().zip([3, 4]) {
                let Some(row) = row else { continue };
                let at = SUPERBLOCK_LEN + row.at as usize + row.stored as usize * part / 5;
                assert!(is_harmed(at, category), "level {level}: {row:?}");
            }
        }
    }
}

#[test]
fn every_flip_is_found_by_check() {
    let image = Arc::new(pack(options(Codec::Zstd, 1), false));
    assert_eq!(verify(&open(image.to_vec()).unwrap(), Depth::Plain, &mut |_| {}).findings, []);
    for at in 0..image.len() {
        let source = Box::new(Changed { image: Arc::clone(&image), at, xor: 0x10 });
        if let Ok(opened) = open_with(source, 1 << 20) {
            let report = verify(&opened, Depth::Stored, &mut |_| {});
            assert!(!report.findings.is_empty(), "byte {at} of {}", image.len());
        }
    }
}

#[test]
fn an_image_cut_short_anywhere_is_refused() {
    // Behind the blocks of a larger one everything is cut, and of them here and there.
    let files = few_kinds();
    let at_level = |level| (pack_samples(Options::level(level, 1, 4 << 30), &files), 211);
    let images = (0..LEVELS).map(at_level).chain([(pack(options(Codec::Zstd, 1), false), 1)]);
    for (number, (image, step)) in images.enumerate() {
        let block = Superblock::parse(&image[..SUPERBLOCK_LEN]).unwrap();
        let tables = SUPERBLOCK_LEN + block.data_len as usize;
        for len in (0..tables).step_by(step).chain(tables..image.len()) {
            let error = open(image[..len].to_vec()).map(drop).unwrap_err();
            let damaged = matches!(error, esker_stone::Error::Damaged(_));
            assert!(damaged, "image {number}, {len}: {error}");
        }
    }
}

#[test]
fn what_is_stored_as_it_is_is_read_unit_by_unit() {
    let plain = chance(5 * UNIT_LEN + 4321);
    let options = Options::level(3, 1, 1 << 30);
    let image = Arc::new(pack_files(options, [("packed", &plain[..])]));
    let at = SUPERBLOCK_LEN + 2 * UNIT_LEN + 777;
    let opened = open_with(Box::new(Changed { image, at, xor: 1 }), 8 << 20).unwrap();
    let entry = opened.entry(Ino(1), Name::parse(b"packed").unwrap()).unwrap();
    let damaged = 2 * UNIT_LEN..3 * UNIT_LEN;
    for from in (0..plain.len()).step_by(12_345) {
        for len in [1, 4096, UNIT_LEN, 2 * UNIT_LEN + 1] {
            let until = plain.len().min(from + len);
            let mut target = vec![0; len];
            let read = opened.read(entry.ino, from as u64, &mut target);
            if from < damaged.end && until > damaged.start {
                assert_eq!(read, Err(esker::Error::Io), "{from} {len}");
            } else {
                assert_eq!(read, Ok(until - from));
                assert!(target[..until - from] == plain[from..until], "{from} {len}");
            }
        }
    }
}

#[test]
fn a_damaged_block_costs_only_the_files_that_use_it() {
    let image = Arc::new(pack(options(Codec::Zstd, 3), true));
    let right = picture(&open(image.to_vec()).unwrap()).unwrap();
    let superblock = Superblock::parse(&image[..512]).unwrap();
    let at = 512 + superblock.data_len as usize / 2;
    let opened = open_with(Box::new(Changed { image, at, xor: 1 }), 8 << 20).unwrap();
    let seen = picture(&opened).unwrap();
    nothing_wrong(&seen, &right).unwrap();
    let lost: Vec<_> =
        seen.iter().filter(|(_, seen)| seen.is_err()).map(|(path, _)| path).collect();
    assert!(!lost.is_empty() && lost.len() < right.len() / 2, "{} lost", lost.len());
    let report = verify(&opened, Depth::Stored, &mut |_| {});
    let blocks = report.findings.iter().filter(|found| matches!(found.thing, Thing::Block(_)));
    assert_eq!(blocks.count(), 1);
    let named = report.findings.iter().filter_map(|found| match &found.thing {
        Thing::Path(path) => Some(path),
        _ => None,
    });
    let mut named: Vec<_> = named.collect();
    named.sort();
    assert_eq!(named, lost);
}

/// Also of the same block: what lies before the damage is read, or all but the unit that is hit where the block is
/// stored as it is; and check names only the others.
#[test]
fn a_damaged_unit_costs_no_more_than_what_lies_behind_it() {
    const FILES: usize = 64;
    for (codec, losses) in [(Codec::None, 1..FILES / 8), (Codec::Zstd, FILES / 8..FILES / 2)] {
        let image = Arc::new(pack_long(options(codec, 1), FILES));
        let right = picture(&open(image.to_vec()).unwrap()).unwrap();
        let superblock = Superblock::parse(&image[..512]).unwrap();
        let at = 512 + superblock.data_len as usize * 3 / 4;
        let opened = open_with(Box::new(Changed { image, at, xor: 1 }), 8 << 20).unwrap();
        let seen = picture(&opened).unwrap();
        nothing_wrong(&seen, &right).unwrap();
        let lost: Vec<_> = seen.iter().filter(|(_, seen)| seen.is_err()).collect();
        assert!(losses.contains(&lost.len()), "{codec:?}: {} lost", lost.len());
        let report = verify(&opened, Depth::Stored, &mut |_| {});
        let named = report.findings.iter().filter(|found| matches!(found.thing, Thing::Path(_)));
        assert_eq!(named.count(), lost.len(), "{codec:?}");
    }
}

/// Lines of words in no order.
fn prose(seed: u64, len: usize) -> Vec<u8> {
    let noise = noise(seed, len / 2);
    let word = |pair: &[u8]| {
        let number = u16::from_le_bytes([pair[0], pair[1] & 7]);
        let end = if pair[1] & 0x78 == 0 { "\n" } else { " " };
        format!("word{}{end}", u32::from(number) * 7919 % 99_991)
    };
    let mut text: Vec<u8> =
        noise.chunks_exact(2).flat_map(|pair| word(pair).into_bytes()).collect();
    text.truncate(len);
    text
}

/// Also where text is told in words, in those of its block or of a base, which is text too.
#[test]
fn text_before_the_damage_is_read() {
    const FILES: usize = 128;
    // A third of each is of lines that all have, in an order of its own, so that a base is worth it.
    let known = prose(1000, 30_000);
    let file = |number: usize| {
        let own = prose(number as u64 + 1, 28_000);
        let line = |(at, own): (usize, &[u8])| {
            let line = at * (2 * number + 1) % 300;
            [own, &known[line * 100..(line + 1) * 100]].concat()
        };
        own.chunks(200).enumerate().flat_map(line).collect::<Vec<u8>>()
    };
    let files: Vec<_> = (0..FILES).map(|number| (format!("{number:03}"), file(number))).collect();
    let sharing = Sharing { base_len: 2 << 20, group_len: 6 << 20 };
    for (sharing, mib, part) in [(None, 8, 4), (Some(sharing), 3, 1)] {
        let options = Options { block_len: mib << 20, sharing, ..options(Codec::Zstd, 1) };
        let all = files.iter().map(|(name, bytes)| (&name[..], &bytes[..]));
        let image = Arc::new(pack_files(options, all));
        let right = picture(&open(image.to_vec()).unwrap()).unwrap();
        let opened = open(image.to_vec()).unwrap();
        let row = |slot| opened.block_row(BlockName { segment: DATA, slot }).ok();
        let first = row(0).unwrap();
        assert!(first.words > 0 && first.sections.len() > 4, "{first:?}");
        let based = (0..).map_while(row).any(|row| row.base.is_some());
        assert_eq!(based, sharing.is_some());
        // Behind the first units, which are loaded together.
        let at = 512 + first.stored as usize - 9;
        assert!(first.stored as usize > 4 * UNIT_LEN + 9, "{first:?}");
        let opened = open_with(Box::new(Changed { image, at, xor: 1 }), 8 << 20).unwrap();
        let seen = picture(&opened).unwrap();
        nothing_wrong(&seen, &right).unwrap();
        let read = seen.values().filter(|seen| seen.is_ok()).count();
        assert!(read > FILES * part / 16 && read < FILES, "{read} are read");
    }
}

#[test]
fn a_damaged_base_costs_what_leans_on_it() {
    let image = Arc::new(pack(options(Codec::Zstd, 3), true));
    let right = picture(&open(image.to_vec()).unwrap()).unwrap();
    let opened = open(image.to_vec()).unwrap();
    let row = |slot| opened.block_row(BlockName { segment: DATA, slot });
    let base = (0..).map_while(|slot| row(slot).ok()).find_map(|row| row.base).unwrap();
    let at = 512 + row(base.slot).unwrap().at as usize;
    let opened = open_with(Box::new(Changed { image, at: at + 88, xor: 1 }), 8 << 20).unwrap();
    let seen = picture(&opened).unwrap();
    nothing_wrong(&seen, &right).unwrap();
    let lost: Vec<_> =
        seen.iter().filter(|(_, seen)| seen.is_err()).map(|(path, _)| path.clone()).collect();
    assert!(!lost.is_empty() && lost.len() < right.len());
    for depth in [Depth::Stored, Depth::Plain] {
        let report = verify(&opened, depth, &mut |_| {});
        let named = report.findings.iter().filter_map(|found| match &found.thing {
            Thing::Path(path) => Some(path.clone()),
            _ => None,
        });
        let mut named: Vec<_> = named.collect();
        named.sort();
        assert_eq!(named, lost, "{depth:?}");
    }
}

#[test]
fn damage_everywhere_never_makes_anything_up() {
    let image = pack(options(Codec::Zstd, 3), true);
    let right = picture(&open(image.clone()).unwrap()).unwrap();
    let random = noise(99, 8 * 3 * 200);
    for run in random.chunks(8 * 3).take(60) {
        let mut damaged = image.clone();
        for word in run.chunks(8) {
            let word = u64::from_le_bytes(word.try_into().unwrap());
            let at = (word >> 8) as usize % damaged.len();
            let len = (word as usize & 0xff) + 1;
            let end = (at + len).min(damaged.len());
            damaged[at..end].fill(word as u8);
        }
        if let Ok(opened) = open(damaged)
            && let Ok(seen) = picture(&opened)
        {
            nothing_wrong(&seen, &right).unwrap();
        }
    }
}

/// A device that fails at one question.
struct Failing {
    image: Arc<Vec<u8>>,
    left: Arc<AtomicUsize>,
}

impl ReadAt for Failing {
    fn size(&self) -> esker_stone::Result<u64> {
        self.image.size()
    }

    fn read_at(&self, at: u64, target: &mut [u8]) -> esker_stone::Result<()> {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 0 {
            return Err(esker_stone::Error::Io(std::io::ErrorKind::Other, Some(5)));
        }
        self.image.read_at(at, target)
    }
}

/// Lets each read fail, one at a time; how many there are.
fn fail_each_read(image: Vec<u8>) -> usize {
    let image = Arc::new(image);
    let right = picture(&open(image.to_vec()).unwrap()).unwrap();
    let mut fail = 0;
    loop {
        let left = Arc::new(AtomicUsize::new(fail));
        let source = Failing { image: Arc::clone(&image), left: Arc::clone(&left) };
        if let Ok(opened) = open_with(Box::new(source), 1 << 20) {
            let seen = picture(&opened);
            if let Ok(seen) = &seen {
                nothing_wrong(seen, &right).unwrap();
            }
            // It counts on below nothing.
            if left.load(Ordering::Relaxed) <= fail {
                assert!(seen.unwrap() == right);
                return fail;
            }
            // What failed once is not kept as a failure.
            assert!(picture(&opened).unwrap() == right, "read {fail}");
        }
        fail += 1;
    }
}

#[test]
fn every_failing_read_is_an_error_once_and_nothing_later() {
    let files = few_kinds();
    let at_level = |level| {
        let small =
            Options { block_len: 16 << 10, page_len: 512, ..Options::level(level, 1, 4 << 30) };
        pack_samples(small, &files)
    };
    let images = (0..LEVELS).map(at_level).chain([pack(options(Codec::Zstd, 1), false)]);
    for (number, image) in images.enumerate() {
        let reads = fail_each_read(image);
        assert!(reads > 10, "image {number}: {reads}");
    }
}
