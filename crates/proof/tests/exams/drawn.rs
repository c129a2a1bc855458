//! Volumes of any settings: geometry, codec, copies, sharing, deltas, zones and what lies below are drawn by chance;
//! what was synced survives every cut and every failure, and damage is told, in each.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use esker_proof::busy::{Busy, Did, SWITCHED, add};
use esker_proof::chance::Chance;
use esker_proof::cut::{History, Shape};
use esker_proof::harness::{from_env, sample, seed};
use esker_proof::lying::Request;
use esker_proof::lying::states::Dose;
use esker_proof::script::Script;
use esker_proof::script::generate::Profile;
use esker_stone::Codec;
use esker_volume::device::Fault;

const PROFILE: Profile = Profile { steps_max: 40, users: true, cursors: false };
const IO: Fault = Fault::Io(Some(5));
const DOSE: Dose = Dose { subsets: 2, torn: 2, garbage: 1 };

/// Runs an exam on so many shapes, each with a seed of its own; what it counted.
fn each(usual: u64, exam: impl Fn(&Shape, u64) -> Result<[u64; 2], String>) -> [u64; 2] {
    let (begin, mut counted) = (seed(), [0; 2]);
    for number in 0..from_env("ESKER_CASES", usual) {
        let seed = begin.wrapping_add(number);
        let shape = Shape::numbered(number, &mut Chance::new(seed));
        // Whatever fails, this was it.
        println!("ESKER_SEED={begin:#x} ESKER_CASES={}: {shape:?}", number + 1);
        match exam(&shape, seed) {
            Ok(own) => counted.iter_mut().zip(own).for_each(|(all, own)| *all += own),
            Err(why) => panic!("ESKER_SEED={begin:#x} ESKER_CASES={}: {why}", number + 1),
        }
    }
    counted
}

/// The same with a script for each.
fn each_with_script(
    usual: u64,
    exam: impl Fn(&Shape, &Script, u64) -> Result<[u64; 2], String>,
) -> [u64; 2] {
    each(usual, |shape, seed| {
        let script = sample(PROFILE, seed);
        exam(shape, &script, seed).map_err(|why| format!("{shape:?}\n{script}\n{why}"))
    })
}

#[test]
fn what_was_synced_survives_every_cut_with_any_settings() {
    let [states, settled] = each_with_script(5, |shape, script, seed| {
        let history = History::run_with_snapshots(shape, script, seed, 3);
        let states = history.cut(shape, DOSE, false, seed)?;
        Ok([states, history.settled.load(Ordering::Relaxed)])
    });
    println!("{states} states, settled {settled} times");
    assert!(states > 0 && settled > 0);
}

#[test]
fn a_sync_that_succeeded_is_safe_whatever_fails_with_any_settings() {
    let [runs, syncs] = each_with_script(4, |shape, script, seed| {
        let mut counted = [0; 2];
        for (request, forever) in [(Request::Write, false), (Request::Flush, true)] {
            let (runs, safe) = History::fail(shape, script, seed, (request, forever, IO))?;
            counted = [counted[0] + runs, counted[1] + safe];
        }
        Ok(counted)
    });
    println!("{runs} failures, {syncs} syncs succeeded all the same");
    assert!(runs > 0 && syncs > 0);
}

#[test]
fn damage_is_told_with_any_settings() {
    let [told, same] = each_with_script(6, |shape, script, seed| {
        let history = History::run_with_snapshots(shape, script, seed, 3);
        let (rotten, stray) = (history.rot(shape, 60, seed)?, history.stray(shape, 30, seed)?);
        Ok([rotten.0 + stray.0, rotten.1 + stray.1])
    });
    println!("{told} told, {same} did no harm");
    assert!(told > 0 && same > 0);
}

/// Volumes that are nearly full, and so move blocks all the time, deltas and shared ones among them: power cut at every
/// operation, writes and barriers that fail, bits that rot. Each of the settings does something, or nothing where it
/// is off. `ESKER_FAILURES`: of each kind of request about so many fail.
#[test]
fn what_is_moved_survives_with_any_settings() {
    let all = RefCell::new(Did::new());
    let [states, told] = each(4, |shape, seed| {
        let shape = shape.narrow();
        let is_off = |what: &&str| match *what {
            "resembling" => !shape.deltas || shape.codec != Codec::Zstd,
            "shared" => !shape.dedup,
            "parity" => shape.copies == 1,
            "given back" => !shape.discard && shape.zones.is_none(),
            _ => false,
        };
        let (off, on): (Vec<_>, Vec<_>) = SWITCHED.into_iter().partition(is_off);
        let episode = Busy::new(shape, seed).episode(&on);
        let chance = &mut Chance::new(seed);
        let (failed, runs) = episode.fail(from_env("ESKER_FAILURES", 5));
        for did in [&failed, &episode.did] {
            assert!(off.iter().all(|what| did[what] == 0), "{off:?} are off: {did:?}");
        }
        add(&mut all.borrow_mut(), &episode.did);
        let (told, _) = episode.rot(30, chance);
        let dose = Dose { subsets: 1, torn: 1, garbage: 0 };
        println!("{:?}, {runs} failures, {told} told", episode.did);
        Ok([episode.cut(dose, 4, chance), told])
    });
    let did = all.into_inner();
    println!("{states} states, {told} told, {did:?}");
    assert!(states > 0 && told > 0);
    assert!(SWITCHED.iter().all(|what| did[what] > 0), "something was never done: {did:?}");
}

/// How it is made and what is switched on, in words.
fn settings(shape: &Shape) -> Vec<String> {
    let Shape { copies, codec, base, dedup, deltas, discard, zones, reserve, lacks, .. } = shape;
    vec![
        format!("copies {copies}"),
        format!("base {base}"),
        format!("dedup {dedup}"),
        format!("deltas {}", *deltas && *codec == Codec::Zstd),
        format!("discard {discard}"),
        format!("zones {}", zones.is_some()),
        format!("reserve {}", *reserve > 0),
        format!("older {}", *lacks > 0),
        format!("zstd {}", *codec == Codec::Zstd),
    ]
}

/// Whatever the seed, those that always run have each of them both ways.
#[test]
fn the_first_few_have_all_settings() {
    for seed in 0..50 {
        let drawn = |number| Shape::numbered(number, &mut Chance::new(seed + number));
        let seen: BTreeSet<_> = (0..4).flat_map(|number| settings(&drawn(number))).collect();
        assert_eq!(seen.len(), 9 * 2, "{seed}: {seen:?}");
    }
}

/// What is drawn is everything that there is.
#[test]
fn all_settings_are_drawn() {
    let mut seen = BTreeSet::new();
    for number in 0..400 {
        let shape = Shape::drawn(&mut Chance::new(number));
        let Shape { unit, segment_len, block_len, threads, codec, level, lacks, .. } = shape;
        seen.extend(settings(&shape));
        seen.extend([
            format!("unit {unit}"),
            format!("segment {segment_len}"),
            format!("block {block_len}"),
            format!("threads {threads}"),
            format!("codec {codec:?} {level}"),
            format!("lacks {lacks}"),
        ]);
        assert!(number >= 40 || shape.open(shape.fresh(number), false).is_ok(), "{shape:?}");
    }
    assert_eq!(seen.len(), 9 * 2 + 4 + 3 + 4 + 2 + 5 + 5, "{seen:?}");
}
