//! Every codec gives back what it was given, at every level; of what was cut short it gives nothing; and no bytes make
//! it panic or write beyond what it was asked for.

use esker_stone::{Codec, Setting};
use proptest::prelude::*;

fn samples() -> Vec<Vec<u8>> {
    let mut mixed = Vec::new();
    for number in 0..20_000u32 {
        mixed.extend(number.wrapping_mul(0x9e37_79b9).to_le_bytes());
        mixed.extend(b"and the same words again, ");
    }
    let noise: Vec<u8> = (0..50_000u64).map(|n| (n.wrapping_mul(n * n + 7) >> 11) as u8).collect();
    vec![Vec::new(), vec![7], vec![0; 300_000], mixed, noise]
}

#[test]
fn what_goes_in_comes_out_at_every_level() {
    for codec in Codec::ALL {
        let (least, most) = codec.levels();
        for level in least..=most {
            for sample in samples().iter().filter(|sample| level < 17 || sample.len() < 100_000) {
                let (own, stored) = Setting::new(codec, level).encode(sample, &[]).unwrap();
                assert!(stored.len() <= sample.len(), "{codec:?} grew");
                let mut plain = vec![0; sample.len()];
                own.decode(&stored, &[], &mut plain).unwrap();
                assert!(plain == *sample, "{codec:?} {level}");
            }
        }
    }
}

#[test]
fn a_base_makes_what_resembles_it_small() {
    let base: Vec<u8> = (0..200_000u64).map(|n| (n.wrapping_mul(n * n + 7) >> 11) as u8).collect();
    let mut next = base.clone();
    next[1000] ^= 1;
    next.splice(50_000..50_000, *b"inserted");
    let (codec, stored) = Setting::new(Codec::Zstd, 19).encode(&next, &base).unwrap();
    assert!(stored.len() < 1000, "{} bytes", stored.len());
    let mut plain = vec![0; next.len()];
    codec.decode(&stored, &base, &mut plain).unwrap();
    assert!(plain == next);
    // With another base, or none, it is no longer the same, or cannot be decoded at all.
    for wrong in [&next[..], &[]] {
        let decoded = codec.decode(&stored, wrong, &mut plain);
        assert!(decoded.is_err() || plain != next);
    }
    for codec in [Codec::None, Codec::Lz4, Codec::Xz, Codec::Brotli] {
        assert!(codec.decode(&stored, &base, &mut plain).is_err(), "{codec:?} takes no base");
    }
}

#[test]
fn what_is_cut_short_or_of_another_length_is_refused() {
    let sample = &samples()[3][..3000];
    for (codec, level) in [(Codec::Lz4, 1), (Codec::Zstd, 3), (Codec::Xz, 6), (Codec::Brotli, 5)] {
        let (own, stored) = Setting::new(codec, level).encode(sample, &[]).unwrap();
        assert_eq!(own, codec);
        let mut plain = vec![0; sample.len()];
        for len in 0..stored.len() {
            let decoded = codec.decode(&stored[..len], &[], &mut plain);
            assert!(decoded.is_err() || plain == sample, "{codec:?} cut to {len}");
        }
        for wrong in [0, 1, sample.len() - 1, sample.len() + 1, sample.len() * 2] {
            let decoded = codec.decode(&stored, &[], &mut vec![0; wrong]);
            assert!(decoded.is_err(), "{codec:?} made {wrong} bytes");
        }
    }
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_bytes_make_a_decoder_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..600), len in 0usize..5000,
    ) {
        for codec in Codec::ALL {
            let _ = codec.decode(&bytes, &[], &mut vec![0; len]);
        }
        let _ = Codec::Zstd.decode(&bytes, b"some base to lean on", &mut vec![0; len]);
    }

    #[test]
    fn no_flip_makes_a_decoder_panic(at in 0usize..100_000, bit in 0u8..8) {
        let sample = &samples()[3][..5000];
        let settings = [(Codec::Lz4, 1), (Codec::Zstd, 3), (Codec::Xz, 1), (Codec::Brotli, 4)];
        for (codec, level) in settings {
            let (own, mut stored) = Setting::new(codec, level).encode(sample, &[]).unwrap();
            let at = at % stored.len();
            stored[at] ^= 1 << bit;
            let _ = own.decode(&stored, &[], &mut vec![0; sample.len()]);
        }
    }
}
