//! Volumes of any settings: geometry, codec, copies, sharing, deltas, zones and what lies below are drawn by chance;
//! what was synced survives every cut and every failure, and damage is told, in each.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use esker_proof::chance::Chance;
use esker_proof::cut::{History, Shape};
use esker_proof::harness::{from_env, sample, seed};
use esker_proof::lying::Request;
use esker_proof::lying::states::Dose;
use esker_proof::script::Script;
use esker_proof::script::generate::Profile;
use esker_volume::device::Fault;

const PROFILE: Profile = Profile { steps_max: 40, users: true, cursors: false };
const IO: Fault = Fault::Io(Some(5));
const DOSE: Dose = Dose { subsets: 2, torn: 2, garbage: 1 };

/// Runs an exam on so many drawn shapes, each with a script of its own; what it counted.
fn each(usual: u64, exam: impl Fn(&Shape, &Script, u64) -> Result<[u64; 2], String>) -> [u64; 2] {
    let mut counted = [0; 2];
    for number in 0..from_env("ESKER_CASES", usual) {
        let seed = seed().wrapping_add(number);
        let (shape, script) = (Shape::drawn(&mut Chance::new(seed)), sample(PROFILE, seed));
        match exam(&shape, &script, seed) {
            Ok(own) => counted.iter_mut().zip(own).for_each(|(all, own)| *all += own),
            Err(why) => panic!("seed {seed:#x}, {shape:?}\n{script}\n{why}"),
        }
    }
    counted
}

#[test]
fn what_was_synced_survives_every_cut_with_any_settings() {
    let [states, settled] = each(4, |shape, script, seed| {
        let history = History::run_with_snapshots(shape, script, seed, 3);
        let states = history.cut(shape, DOSE, false, seed)?;
        Ok([states, history.settled.load(Ordering::Relaxed)])
    });
    println!("{states} states, settled {settled} times");
    assert!(states > 0 && settled > 0);
}

#[test]
fn a_sync_that_succeeded_is_safe_whatever_fails_with_any_settings() {
    let [runs, syncs] = each(3, |shape, script, seed| {
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
    let [told, same] = each(6, |shape, script, seed| {
        let history = History::run_with_snapshots(shape, script, seed, 3);
        let (rotten, stray) = (history.rot(shape, 60, seed)?, history.stray(shape, 30, seed)?);
        Ok([rotten.0 + stray.0, rotten.1 + stray.1])
    });
    println!("{told} told, {same} did no harm");
    assert!(told > 0 && same > 0);
}

/// What is drawn is everything that there is.
#[test]
fn all_settings_are_drawn() {
    let mut seen = BTreeSet::new();
    for number in 0..400 {
        let shape = Shape::drawn(&mut Chance::new(number));
        let Shape { unit, segment_len, block_len, copies, threads, codec, .. } = shape;
        let Shape { base, dedup, deltas, discard, zones, reserve, .. } = shape;
        seen.extend([
            format!("unit {unit}"),
            format!("segment {segment_len}"),
            format!("block {block_len}"),
            format!("copies {copies}"),
            format!("threads {threads}"),
            format!("codec {codec:?}"),
            format!("base {base}"),
            format!("dedup {dedup}"),
            format!("deltas {deltas}"),
            format!("discard {discard}"),
            format!("zones {}", zones.is_some()),
            format!("reserve {}", reserve > 0),
        ]);
    }
    assert_eq!(seen.len(), 4 + 3 + 4 + 2 + 2 + 3 + 6 * 2, "{seen:?}");
}
