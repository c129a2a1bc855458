//! Every codec gives back what it was given, at every level; of what was cut short it gives nothing; and no bytes make
//! it panic or write beyond what it was asked for.

use esker_stone::{Codec, Encoder, Search, Setting, Shared};
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
                let mut plain = vec![0xee; sample.len()];
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
    let mut plain = vec![0xee; next.len()];
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
        let mut plain = vec![0xee; sample.len()];
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

/// Decodes what is perhaps none: a room that something else was in before never shows through.
fn decode_whatever(codec: Codec, stored: &[u8], base: &[u8], len: usize) {
    let rooms = [0, 0xee].map(|before| {
        let mut room = vec![before; len];
        codec.decode(stored, base, &mut room).map(|()| room)
    });
    assert!(rooms[0] == rooms[1], "{codec:?}");
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_bytes_make_a_decoder_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..600), len in 0usize..5000,
    ) {
        for codec in Codec::ALL {
            decode_whatever(codec, &bytes, &[], len);
        }
        decode_whatever(Codec::Zstd, &bytes, b"some base to lean on", len);
    }

    #[test]
    fn no_flip_makes_a_decoder_panic(at in 0usize..100_000, bit in 0u8..8) {
        let sample = &samples()[3][..5000];
        let settings = [(Codec::Lz4, 1), (Codec::Zstd, 3), (Codec::Xz, 1), (Codec::Brotli, 4)];
        for (codec, level) in settings {
            let (own, mut stored) = Setting::new(codec, level).encode(sample, &[]).unwrap();
            let at = at % stored.len();
            stored[at] ^= 1 << bit;
            decode_whatever(own, &stored, &[], sample.len());
        }
    }
}

#[test]
fn what_is_compressed_on_a_shared_base_depends_on_nothing_before() {
    let text = |seed: u32, len: u32| -> Vec<u8> {
        (0..len).flat_map(|at| format!("{} ", (at * seed) % 977).into_bytes()).collect()
    };
    let (base, own) = (text(7, 20_000), text(7, 9_000));
    let searches = [(1, Search::Whole), (6, Search::Near), (12, Search::Whole), (18, Search::Near)];
    for (level, search) in searches {
        let setting = Setting::new(Codec::Zstd, level);
        let shared = Shared::new(base.clone(), setting, search);
        let mut encoder = Encoder::default();
        let (codec, stored) = encoder.encode(&own, &shared).unwrap();
        let alone = setting.encode(&own, &[]).unwrap().1;
        assert!(codec == Codec::Zstd && stored.len() * 2 < alone.len(), "level {level}");
        for seed in 1..9 {
            let other = Shared::new(text(seed, 3000), setting, search);
            encoder.encode(&text(seed + 1, 30_000), &other).unwrap();
            assert_eq!(encoder.encode(&own, &shared).unwrap().1, stored, "level {level}");
            assert_eq!(encoder.encode(&own, &shared).unwrap().1, stored, "level {level}");
        }
        let mut plain = vec![0xee; own.len()];
        codec.decode(&stored, &base, &mut plain).unwrap();
        assert_eq!(plain, own);
        let decoded = codec.decode(&stored, &base[..base.len() - 1], &mut plain);
        assert!(decoded.is_err() || plain != own);
    }
}

#[test]
fn a_base_that_begins_as_a_dictionary_does_is_plain_bytes_all_the_same() {
    let mut base = vec![0x37, 0xa4, 0x30, 0xec, 1, 2, 3, 4];
    base.extend((0..50_000u32).map(|at| (at.wrapping_mul(at) >> 7) as u8));
    let own = base[100..40_000].to_vec();
    let shared = Shared::new(base.clone(), Setting::new(Codec::Zstd, 12), Search::Whole);
    let (codec, stored) = Encoder::default().encode(&own, &shared).unwrap();
    assert!(stored.len() < 100, "{}", stored.len());
    let mut plain = vec![0xee; own.len()];
    codec.decode(&stored, &base, &mut plain).unwrap();
    assert_eq!(plain, own);
}

/// Numbers below a limit, as if by chance.
fn chance() -> impl FnMut(usize) -> usize {
    let mut state = 1u64;
    move |limit| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit
    }
}

#[test]
fn what_does_not_shrink_on_a_shared_base_is_stored_as_it_is() {
    let mut below = chance();
    let mut bytes = || -> Vec<u8> { (0..5000).map(|_| below(256) as u8).collect() };
    let (base, own) = (bytes(), bytes());
    let shared = Shared::new(base, Setting::new(Codec::Zstd, 3), Search::Near);
    assert_eq!(Encoder::default().encode(&own, &shared).unwrap(), (Codec::None, own));
}

#[test]
fn a_near_search_is_another_one_where_something_is_far() {
    // Stretches of what was there before, each of which goes on in a longer one somewhere else.
    let mut below = chance();
    let mut all: Vec<u8> = (0..20_000).map(|_| below(256) as u8).collect();
    while all.len() < 3 << 20 {
        let (from, len) = (below(all.len() - 100), 4 + below(90));
        all.extend_from_within(from..from + len);
    }
    let (bases, own) = all.split_at(11 << 18);
    let mut encoder = Encoder::default();
    for (level, base_len, differ) in
        [(12, 2 << 20, false), (17, 2 << 20, false), (18, 1 << 20, false), (18, 2 << 20, true)]
    {
        let base = &bases[..base_len];
        let [whole, near] = [Search::Whole, Search::Near].map(|search| {
            let shared = Shared::new(base.to_vec(), Setting::new(Codec::Zstd, level), search);
            let (codec, stored) = encoder.encode(own, &shared).unwrap();
            let (_, alone) = Encoder::default().encode(own, &shared).unwrap();
            assert!(stored == alone, "it depends on what was before");
            let mut plain = vec![0xee; own.len()];
            codec.decode(&stored, base, &mut plain).unwrap();
            assert!(plain == own, "level {level}, {search:?}");
            stored
        });
        assert_eq!(whole != near, differ, "level {level}, base of {base_len}");
    }
}
