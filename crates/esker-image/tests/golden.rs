//! Images of every version that was ever written are read for ever. `tests/golden` has one of each codec, written
//! by the first packer of version 1; `ESKER_GOLDEN=write` writes those that are missing, and never replaces one.

mod kit;

use std::path::Path;

use esker_image::pack::{Options, Sharing};
use esker_image::{Depth, verify};
use esker_stone::key::kind;
use esker_stone::{Codec, ColumnHead, GroupHead, Superblock, hex};

use kit::parts::take_apart;
use kit::{
    ENCODERS, PICTURES, Picture, open, options, pack, pack_changed, pack_files, pack_jpegs,
    pack_programs, pack_sounds, pack_streams, pack_texts, picture,
};

/// Each golden image, how it was packed, and the name that it must have.
const GOLDEN: [(&str, Codec, i32, &str); 5] = [
    (
        "v1-none.esker",
        Codec::None,
        0,
        "06cb93bf792e663bc81c9815eac4b6a3231213b48c1da878cb9fcacfb1ea8641",
    ),
    (
        "v1-lz4.esker",
        Codec::Lz4,
        1,
        "a768dc39bf7bc0df4a73f14a70623082d9307507639bf05c1033e457eec217fb",
    ),
    (
        "v1-zstd.esker",
        Codec::Zstd,
        19,
        "96828704732592bdac087ec7f282237e941323d369917548b83f4dc2866d8396",
    ),
    (
        "v1-xz.esker",
        Codec::Xz,
        9,
        "276543ed936c0f80c12631d29f560240f5ec0b5e8363514c3c0463265c0e09d2",
    ),
    (
        "v1-brotli.esker",
        Codec::Brotli,
        9,
        "72a8dd2c6357854d2fd8c796b398aa6fe154f13d605ea0ef493f98002e4e78fe",
    ),
];

/// One with blocks of all categories, and the name that it must have.
const SOUNDS: (&str, &str) =
    ("v1-sounds.esker", "0422bf5347ca57accc8e67e91e649338fab07fba2dc433a1b161131ec1ec946e");

/// One with sound that is predicted, and the name that it must have.
const PREDICTED: (&str, &str) =
    ("v1-pcm.esker", "7261f83c3e010d872a95b40917af29706fbe8df8edb6144d8d06659d4dd15d99");

/// One with pictures that are made of text in others, and the name that it must have.
const PICTURED: (&str, &str) =
    ("v1-pictures.esker", "076660d68093124076e742ea17482c4649424e7182e687aea25cd0b476881647");

/// One with pictures of JPEG, and the name that it must have.
const JPEG: (&str, &str) =
    ("v1-jpeg.esker", "c7822c62e9fc43bceec7e614dc4d261137715f15632f7f67c4f1012034e6d47e");

/// One whose blocks share bases, and the name that it must have.
const SHARED: (&str, &str) =
    ("v1-shared.esker", "2dbffef3aaf67c179b13860c1258912bacaa4f323de6bd8014d63229980d03b7");

/// One with blocks that are made of text in others, and the name that it must have.
const STREAMS: (&str, &str) =
    ("v1-streams.esker", "f57733a6603475f5cdcb3b278acf99ff50c8e66742aaba0793d0a7e9ac0e9adb");

/// One with streams by encoders beside zlib, and the name that it must have.
const OTHERS: (&str, &str) =
    ("v1-encoders.esker", "85616add864769640872cfc66a27abff71ef42e0caee766cdafd31e633af3c84");

/// One with code whose branches are told by where they go to, and the name that it must have.
const PROGRAMS: (&str, &str) =
    ("v1-programs.esker", "b274b96eff3bca77857758ac22108cf2136f1ec084a4918d0d7a736e3d10b0f8");

/// One with text in words, in those of bases too, and the name that it must have.
const TOLD: (&str, &str) =
    ("v1-words.esker", "7965ce73bd943468f6d3c3585e7f84c50451c294313778aafa6a486e4e785107");

/// One with text in words that is read section by section, and the name that it must have.
const SECTIONS: (&str, &str) =
    ("v1-sections.esker", "979cc9ac07960007182f1995c78ac3a2fb977b2fe6fc03cfd68235f16f75aef3");

/// One with pieces that are told by others, and the name that it must have.
const PIECES: (&str, &str) =
    ("v1-pieces.esker", "9dc7df1e689eea7f7769534efc47ff576271004c458fb0bb5d41e1d2b6fa445f");

/// What is in a golden image. It is written first where that was asked for, and is not there.
fn read(file: &str, name: &str, pack: impl Fn() -> Vec<u8>) -> Picture {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    let write = std::env::var_os("ESKER_GOLDEN").is_some_and(|word| word == "write");
    if write && !path.exists() {
        std::fs::write(&path, pack()).unwrap();
    }
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    assert_eq!(Superblock::parse(&bytes[..512]).unwrap().version, 1);
    let image = open(bytes).unwrap();
    match write {
        true => println!("{file} {}", hex(&image.name())),
        false => assert_eq!(hex(&image.name()), name, "{file}"),
    }
    assert_eq!(verify(&image, Depth::Plain, &mut |_| {}).findings, [], "{file}");
    picture(&image).unwrap()
}

#[test]
fn old_images_are_read_as_they_were_written() {
    let right = picture(&open(pack(options(Codec::None, 0), false)).unwrap()).unwrap();
    for (file, codec, level, name) in GOLDEN {
        let found = read(file, name, || pack(options(codec, level), false));
        assert!(found == right, "{file}");
    }
}

#[test]
fn an_old_image_with_transforms_is_read_as_it_was_written() {
    let right = picture(&open(pack_sounds(options(Codec::None, 0))).unwrap()).unwrap();
    let found = read(SOUNDS.0, SOUNDS.1, || pack_sounds(options(Codec::Zstd, 19)));
    assert!(found == right);
    let found = read(PREDICTED.0, PREDICTED.1, || pack_sounds(options(Codec::Zstd, 19)));
    assert!(found == right);
}

#[test]
fn an_old_image_whose_blocks_share_bases_is_read_as_it_was_written() {
    let sharing = Some(Sharing { base_len: 256, group_len: 768 });
    let small = Options { block_len: 256, sharing, ..options(Codec::Zstd, 19) };
    let right = picture(&open(pack(options(Codec::None, 0), false)).unwrap()).unwrap();
    let found = read(SHARED.0, SHARED.1, || pack(small.clone(), false));
    assert!(found == right);
}

#[test]
fn an_old_image_with_blocks_that_are_made_is_read_as_it_was_written() {
    let right = picture(&open(pack_streams(options(Codec::None, 0))).unwrap()).unwrap();
    let found = read(STREAMS.0, STREAMS.1, || pack_streams(options(Codec::Zstd, 19)));
    assert!(found == right);
    let right = picture(&open(pack_files(options(Codec::None, 0), PICTURES)).unwrap()).unwrap();
    let found = read(PICTURED.0, PICTURED.1, || pack_files(options(Codec::Zstd, 19), PICTURES));
    assert!(found == right);
    let right = picture(&open(pack_files(options(Codec::None, 0), ENCODERS)).unwrap()).unwrap();
    let found = read(OTHERS.0, OTHERS.1, || pack_files(options(Codec::Zstd, 19), ENCODERS));
    assert!(found == right);
}

#[test]
fn an_old_image_with_code_is_read_as_it_was_written() {
    let right = picture(&open(pack_programs(options(Codec::None, 0), 2000)).unwrap()).unwrap();
    let found = read(PROGRAMS.0, PROGRAMS.1, || pack_programs(options(Codec::Xz, 9), 2000));
    assert!(found == right);
}

#[test]
fn an_old_image_with_text_in_words_is_read_as_it_was_written() {
    let right = picture(&open(pack_texts(options(Codec::None, 0))).unwrap()).unwrap();
    let found = read(TOLD.0, TOLD.1, || pack_texts(options(Codec::Zstd, 19)));
    assert!(found == right);
    let large = Options { block_len: 160 << 10, ..options(Codec::Zstd, 19) };
    let found = read(SECTIONS.0, SECTIONS.1, || pack_texts(large.clone()));
    assert!(found == right);
}

#[test]
fn an_old_image_of_pictures_of_jpeg_is_read_as_it_was_written() {
    let alone = Options { pictures: false, ..options(Codec::None, 0) };
    let right = picture(&open(pack_jpegs(alone)).unwrap()).unwrap();
    let found = read(JPEG.0, JPEG.1, || pack_jpegs(options(Codec::Zstd, 19)));
    assert!(found == right);
}

/// The columns of the pages of a kind.
fn columns(image: &[u8], kind: u8) -> Vec<u8> {
    let mut found = Vec::new();
    for leaf in take_apart(image).leaves.iter().filter(|leaf| leaf.kind == kind) {
        let mut rest = &leaf.plain[GroupHead::SIZE..];
        while let Some(head) = rest.get(..ColumnHead::SIZE).and_then(ColumnHead::decode) {
            found.push(head.column);
            rest = &rest[ColumnHead::SIZE + head.len as usize..];
        }
    }
    found
}

#[test]
fn an_old_image_whose_pieces_are_told_by_others_is_read_as_it_was_written() {
    let new = pack_changed(options(Codec::Zstd, 19));
    assert!(columns(&new, kind::EXTENT).ends_with(&[11, 12]));
    let plain = Options { repeats: None, ..options(Codec::None, 0) };
    let right = picture(&open(pack_changed(plain)).unwrap()).unwrap();
    let found = read(PIECES.0, PIECES.1, || new.clone());
    assert!(found == right);
}
