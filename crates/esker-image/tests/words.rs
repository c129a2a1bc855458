//! Text told in words: in those of its block, or of the block that others lean on, read as it was packed from anywhere.

mod kit;

use esker::store::View as _;
use esker::{Ino, Name};
use esker_image::pack::{Options, Sharing};
use esker_image::{Depth, Image, verify};
use esker_stone::rows::blocks::BlockRow;
use esker_stone::rows::extents::BlockName;
use esker_stone::superblock::{DATA, WORDS};
use esker_stone::{Codec, Superblock};

use kit::{STREAMS, open, options, pack_files, pack_texts, rows, texts};

/// A base of so much pays for blocks of 64 KiB of these texts.
const SHARING: Sharing = Sharing { base_len: 96 << 10, group_len: 512 << 10 };

fn feature(bytes: &[u8]) -> u64 {
    Superblock::parse(&bytes[..512]).unwrap().incompatible
}

#[test]
fn text_is_read_as_it_was_packed() {
    for (codec, level) in [(Codec::Zstd, 3), (Codec::Zstd, 18), (Codec::Xz, 6), (Codec::Brotli, 5)]
    {
        let usual = Options { sharing: Some(SHARING), ..options(codec, level) };
        let bytes = pack_texts(usual.clone());
        assert_eq!(feature(&bytes), WORDS);
        let other = Options { threads: 3, memory: 256 << 20, ..usual };
        assert!(bytes == pack_texts(other), "whatever the threads and the memory");
        let image = open(bytes).unwrap();
        assert_eq!(verify(&image, Depth::Plain, &mut |_| {}).findings, []);
        for (name, plain) in texts() {
            let ino = image.entry(Ino::ROOT, Name::parse(name.as_bytes()).unwrap()).unwrap().ino;
            for at in (0..plain.len()).step_by(7001) {
                let mut found = vec![0; 1000.min(plain.len() - at)];
                let len = image.read(ino, at as u64, &mut found).unwrap();
                assert!(found[..len] == plain[at..at + len] && len > 0, "{name} at {at}");
            }
        }
    }
}

#[test]
fn blocks_on_a_base_have_its_words_and_others_their_own() {
    let told = |sharing: bool| {
        let sharing = sharing.then_some(SHARING);
        let usual = Options { sharing, ..options(Codec::Zstd, 6) };
        let image = open(pack_texts(usual)).unwrap();
        rows(&image).into_iter().filter(|row| row.words > 0).collect::<Vec<_>>()
    };
    let on_base = |rows: &[BlockRow]| rows.iter().filter(|row| row.base.is_some()).count();
    let (shared, alone) = (told(true), told(false));
    assert!(on_base(&shared) > 4 && on_base(&shared) < shared.len(), "{}", shared.len());
    assert!(on_base(&alone) == 0 && alone.len() > 4);
    assert!(shared.iter().all(|row| row.words * 3 < row.plain * 2));
}

/// Text in blocks of several sections, on a base or not.
fn sectioned(sharing: Option<Sharing>) -> Image {
    open(pack_texts(Options { block_len: 200 << 10, sharing, ..options(Codec::Zstd, 6) })).unwrap()
}

#[test]
fn a_few_bytes_of_text_take_its_form_and_one_section() {
    let sharing = Sharing { base_len: 150 << 10, group_len: 600 << 10 };
    for (sharing, most) in [(None, 1), (Some(sharing), 2)] {
        let image = sectioned(sharing);
        let all = rows(&image);
        for (row, slot) in all.iter().zip(0..).filter(|(row, _)| row.words > 0) {
            assert_eq!(row.sections.len(), row.plain.div_ceil(64 << 10) as usize);
            assert_eq!(row.sections.iter().sum::<u32>(), row.words);
            let mut right = vec![0; row.plain as usize];
            let name = BlockName { segment: DATA, slot };
            image.cache().clear();
            image.fill(name, 0, &mut right).unwrap();
            for at in (0..right.len() - 9).step_by(9973) {
                image.cache().clear();
                let mut found = [0; 9];
                image.fill(name, at, &mut found).unwrap();
                assert!(found == right[at..at + 9], "{slot} at {at}");
                let forms = all.iter().map(|row| row.words as usize).max().unwrap() * most;
                // Tables of words, and pages.
                let few = (128 + 80) << 10;
                let used = image.cache().usage().bytes;
                assert!(used < forms + few, "{slot} at {at}: {used}, and {forms}");
            }
        }
        assert!(all.iter().any(|row| row.words > 0 && row.sections.len() > 2));
        assert_eq!(all.iter().any(|row| row.base.is_some() && row.words > 0), most > 1);
    }
}

#[test]
fn text_gets_smaller() {
    let len = |words: bool| pack_texts(Options { words, ..options(Codec::Zstd, 6) }).len();
    assert!(len(true) * 100 < len(false) * 97, "{} and {}", len(true), len(false));
}

#[test]
fn what_is_no_text_is_as_it_was() {
    assert_eq!(feature(&pack_texts(Options { words: false, ..options(Codec::Zstd, 6) })), 0);
    assert_eq!(feature(&pack_texts(options(Codec::None, 0))), 0);
    assert_eq!(feature(&pack_texts(options(Codec::Lz4, 1))), 0);
    let noise = kit::noise(7, 300_000);
    assert_eq!(feature(&pack_files(options(Codec::Zstd, 6), [("noise", &noise[..])])), 0);
}

#[test]
fn streams_are_made_of_text_in_words() {
    let streams = STREAMS.into_iter().filter(|(_, bytes)| !bytes.is_empty());
    let image = open(pack_files(options(Codec::Zstd, 6), streams.clone())).unwrap();
    assert_eq!(verify(&image, Depth::Plain, &mut |_| {}).findings, []);
    for (name, plain) in streams {
        let ino = image.entry(Ino::ROOT, Name::parse(name.as_bytes()).unwrap()).unwrap().ino;
        let mut found = vec![0; plain.len()];
        assert_eq!(image.read(ino, 0, &mut found).unwrap(), plain.len());
        assert!(found == plain, "{name}");
    }
}
