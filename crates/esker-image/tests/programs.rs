//! Code of programs: told from other bytes, its branches told by where they go to where that pays, and read as it was
//! packed from anywhere, whatever its machine.

mod kit;

use esker::store::View as _;
use esker::{Ino, Name};
use esker_image::pack::Options;
use esker_image::{Depth, Image, verify};
use esker_stone::rows::extents::Piece;
use esker_stone::superblock::BRANCHES;
use esker_stone::{Codec, Error, Superblock, Transform, Unsupported};

use kit::{MACHINES, open, options, pack, pack_programs, programs, rows};

/// Calls of the programs here: code of more than a block.
const CALLS: u32 = 12_000;

fn ino(image: &Image, name: &str) -> Ino {
    image.entry(Ino::ROOT, Name::parse(name.as_bytes()).unwrap()).unwrap().ino
}

#[test]
fn code_for_every_machine_is_read_as_it_was_packed() {
    for (codec, level, block_len) in
        [(Codec::Zstd, 6, 64 << 10), (Codec::Xz, 6, 100_001), (Codec::Xz, 6, 4 << 20)]
    {
        let usual = Options { block_len, ..options(codec, level) };
        let bytes = pack_programs(usual.clone(), CALLS);
        for (threads, memory) in [(1, usual.memory), (3, 256 << 20)] {
            let other = Options { threads, memory, ..usual.clone() };
            assert!(bytes == pack_programs(other, CALLS), "whatever the threads and the memory");
        }
        let image = open(bytes).unwrap();
        assert_eq!(verify(&image, Depth::Plain, &mut |_| {}).findings, []);
        for (name, plain) in programs(CALLS) {
            let ino = ino(&image, &name);
            for at in (0..plain.len()).step_by(7001) {
                let mut found = vec![0; 1000.min(plain.len() - at)];
                let len = image.read(ino, at as u64, &mut found).unwrap();
                assert!(found[..len] == plain[at..at + len] && len > 0, "{name} at {at}");
            }
        }
    }
}

#[test]
fn code_of_one_machine_is_apart_and_transformed() {
    let image = open(pack_programs(options(Codec::Xz, 6), CALLS)).unwrap();
    for (number, (name, _, transform)) in MACHINES.iter().enumerate() {
        let bytes = &programs(CALLS)[2 * number].1;
        let len = bytes.len() as u64;
        let places = image.places(ino(&image, &format!("{name} 0")), len, 0, len);
        let row = |piece: &Piece| image.block_row(piece.place.unwrap().block).unwrap();
        let (mut inside, mut at) = (0, 0);
        for piece in places.unwrap().unwrap().iter() {
            let row = row(piece);
            let is_code = at >= 4096 && at + piece.len <= len - 5000;
            // Both forms of ARM are one machine, and a block has the one that is better for it.
            let right = match transform {
                Transform::Arm | Transform::Thumb => {
                    matches!(row.transform, Transform::Arm | Transform::Thumb)
                }
                right => row.transform == *right,
            };
            assert_eq!((8..12).contains(&row.category), is_code, "{name} at {at}");
            inside += if is_code && right { piece.len } else { 0 };
            at += piece.len;
        }
        assert!(inside * 10 > (len - 9096) * 9, "{name}: {inside} of {len}");
    }
    let both = [Transform::Arm, Transform::Thumb];
    let found = both.map(|form| rows(&image).iter().any(|row| row.transform == form));
    assert_eq!(found, [true, true]);
}

#[test]
fn code_gets_smaller() {
    let len = |programs: bool| {
        let usual = Options { block_len: 4 << 20, ..options(Codec::Xz, 6) };
        // Where like is not drawn to like, code is as any data.
        pack_programs(Options { alike: programs, ..usual }, CALLS).len()
    };
    assert!(len(true) * 2 < len(false), "{} and {}", len(true), len(false));
}

#[test]
fn who_cannot_undo_it_must_stop() {
    let feature = |bytes: &[u8]| Superblock::parse(&bytes[..512]).unwrap().incompatible;
    let bytes = pack_programs(options(Codec::Xz, 6), CALLS);
    assert_eq!(feature(&bytes), BRANCHES);
    assert_eq!(feature(&pack(options(Codec::Xz, 6), true)), 0);
    assert_eq!(feature(&pack_programs(options(Codec::None, 0), CALLS)), 0);
    // As somebody who does not know the next one.
    let mut newer = Superblock::parse(&bytes[..512]).unwrap();
    newer.incompatible |= 1 << 63;
    newer.seal();
    let refused = Superblock::parse(&newer.encode()).unwrap_err();
    assert_eq!(refused, Error::Unsupported(Unsupported::Features(1 << 63)));
}
