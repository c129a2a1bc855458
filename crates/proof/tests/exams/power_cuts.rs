//! Power cuts: whatever the device leaves, a volume shows what was there after some operation, and all that was synced.

use std::sync::atomic::Ordering;
use std::time::Instant;

use esker_proof::cut::{History, SHAPES, Shape};
use esker_proof::harness::{from_env, sample, seed};
use esker_proof::lying::Request;
use esker_proof::lying::states::Dose;
use esker_proof::script::Script;
use esker_proof::script::generate::Profile;
use esker_volume::device::Fault;

const PROFILE: Profile = Profile { steps_max: 50, users: true, cursors: false };
const IO: Fault = Fault::Io(Some(5));
const DOSE: Dose = Dose { subsets: 2, torn: 3, garbage: 2 };

/// Scripts of up to 50 operations with a sync after a third of them, cut at every operation of the device.
#[test]
fn what_was_synced_survives_every_cut() {
    let scripts = from_env("ESKER_CASES", 12);
    for shape in &SHAPES {
        let (begun, mut states, mut settled) = (Instant::now(), 0, 0);
        for number in 0..scripts {
            let seed = seed().wrapping_add(number);
            let script = sample(PROFILE, seed);
            let history = History::run(shape, &script, seed, 3);
            match history.cut(shape, DOSE, false, seed) {
                Ok(count) => {
                    states += count;
                    settled += history.settled.load(Ordering::Relaxed);
                }
                Err(why) => panic!("{}, seed {seed:#x}\n{script}\n{why}", shape.name),
            }
        }
        let secs = begun.elapsed().as_secs_f64();
        println!(
            "{}: {states} states, {:.0} a second, settled {settled} times",
            shape.name,
            states as f64 / secs
        );
    }
}

/// The control: on a device that forgets its flushes the same exam must fail.
#[test]
fn a_device_that_forgets_flushes_is_found_out() {
    for shape in &SHAPES {
        let failed = (0..20).any(|number| {
            let script = sample(PROFILE, number);
            let history = History::run(shape, &script, number, 3);
            history.cut(shape, DOSE, true, number).is_err()
        });
        assert!(failed, "{}: nobody noticed", shape.name);
    }
}

/// The n-th write or flush fails, once or for ever, for every n: what a sync called safe is there all the same, and
/// nothing else but a prefix of what was done.
#[test]
fn a_sync_that_succeeded_is_safe_whatever_fails() {
    let scripts = from_env("ESKER_CASES", 12).div_ceil(10);
    for shape in &SHAPES {
        let (mut runs, mut syncs) = (0, 0);
        for number in 0..scripts {
            let seed = seed().wrapping_add(number);
            let script = sample(PROFILE, seed);
            for request in [Request::Write, Request::Flush] {
                for forever in [false, true] {
                    let outcome = History::fail(shape, &script, seed, (request, forever, IO));
                    match outcome {
                        Ok((own, safe)) => (runs, syncs) = (runs + own, syncs + safe),
                        Err(why) => panic!("{}, seed {seed:#x}\n{script}\n{why}", shape.name),
                    }
                }
            }
        }
        println!("{}: {runs} failures, {syncs} syncs succeeded all the same", shape.name);
        assert!(runs > 0 && syncs > 0, "nothing failed, or everything");
    }
}

/// There is no room below, once or from then on: what a sync called safe is there, and with room again syncs succeed.
#[test]
fn a_full_host_loses_nothing() {
    let scripts = from_env("ESKER_CASES", 12).div_ceil(10);
    for shape in SHAPES.iter().filter(|shape| shape.zones.is_none()) {
        let (mut runs, mut syncs) = (0, 0);
        for number in 0..scripts {
            let seed = seed().wrapping_add(number);
            let script = sample(PROFILE, seed);
            for forever in [false, true] {
                let plan = (Request::Write, forever, Fault::NoSpace);
                match History::fail(shape, &script, seed, plan) {
                    Ok((own, safe)) => (runs, syncs) = (runs + own, syncs + safe),
                    Err(why) => panic!("{}, seed {seed:#x}\n{script}\n{why}", shape.name),
                }
            }
        }
        println!("{}: {runs} times full, {syncs} syncs succeeded all the same", shape.name);
        assert!(syncs > runs, "nothing went on");
    }
}

/// A bit turns round somewhere in what is safe: the volume shows what it showed, or says that it cannot.
#[test]
fn no_bit_that_rots_is_taken_for_another() {
    told_or_harmless("bits were told", |history, shape, seed| history.rot(shape, 400, seed));
}

/// A write goes where another was to go, or nowhere: the volume shows what it showed, or says that it cannot.
#[test]
fn no_write_that_goes_astray_is_taken_for_another() {
    told_or_harmless("writes were missed", |history, shape, seed| history.stray(shape, 200, seed));
}

/// The head of any part is damaged, of small commits and of such as fill stretches: what came after it is missed.
#[test]
fn no_damaged_head_hides_what_came_after() {
    let lens = [100, 150_000, 3_000, 400_000, 90_000, 127_000, 1, 60_000];
    let mut steps = "open 0 f read+write+create 0644\n".to_owned();
    for number in 0..40 {
        let (at, len) = (number * 7_000, lens[number % lens.len()]);
        steps += &format!("write 0 {at} {len} {number}\n");
    }
    let script = steps.parse().expect("a script");
    for shape in &SHAPES {
        let history = History::run(shape, &script, seed(), 1);
        let (told, same) =
            history.behead(shape, seed()).unwrap_or_else(|why| panic!("{}: {why}", shape.name));
        println!("{}: {told} heads were missed, {same} did no harm", shape.name);
        assert!(told > 0);
    }
}

/// Does harm to what scripts left, in every shape: some of it is told, some changes nothing, and none is shown.
fn told_or_harmless(
    what: &str,
    harm: impl Fn(&History, &Shape, u64) -> Result<(u64, u64), String>,
) {
    let scripts = from_env("ESKER_CASES", 12).div_ceil(10);
    for shape in &SHAPES {
        let (mut told, mut same) = (0, 0);
        for number in 0..scripts {
            let seed = seed().wrapping_add(number);
            let script = sample(PROFILE, seed);
            let history = History::run(shape, &script, seed, 3);
            match harm(&history, shape, seed) {
                Ok((own, others)) => (told, same) = (told + own, same + others),
                Err(why) => panic!("{}, seed {seed:#x}\n{script}\n{why}", shape.name),
            }
        }
        println!("{}: {told} {what}, {same} did no harm", shape.name);
        assert!(told > 0 && same > 0);
    }
}

/// The n-th read fails, once or for ever: what is asked for is an error, nothing else is shown, and what a sync called
/// safe is there.
#[test]
fn a_read_that_fails_spoils_nothing() {
    let scripts = from_env("ESKER_CASES", 12).div_ceil(10);
    for shape in &SHAPES {
        let (mut runs, mut syncs) = (0, 0);
        for number in 0..scripts {
            let seed = seed().wrapping_add(number);
            let script = without_atime(sample(PROFILE, seed));
            for forever in [false, true] {
                match History::fail(shape, &script, seed, (Request::Read, forever, IO)) {
                    Ok((own, safe)) => (runs, syncs) = (runs + own, syncs + safe),
                    Err(why) => panic!("{}, seed {seed:#x}\n{script}\n{why}", shape.name),
                }
            }
        }
        println!("{}: {runs} failures, {syncs} syncs succeeded all the same", shape.name);
    }
}

/// That atime cannot be moved is no reason not to read, nor not to follow a link: without what moves it.
fn without_atime(mut script: Script) -> Script {
    script.0.retain(|step| {
        let text = step.to_string();
        let verb = text.split(' ').find(|word| !word.starts_with('@'));
        !matches!(verb, Some("read" | "readlink" | "copy" | "list" | "symlink"))
    });
    script
}

/// The device is pulled out at every one of its operations, and nothing is answered from then on: what a sync called
/// safe is there when it is plugged in again, and no sync succeeded that wrote anything.
#[test]
fn a_device_that_is_pulled_out_loses_nothing_that_was_safe() {
    let scripts = from_env("ESKER_CASES", 12).div_ceil(10);
    for shape in &SHAPES {
        let (mut runs, mut syncs) = (0, 0);
        for number in 0..scripts {
            let seed = seed().wrapping_add(number);
            let script = without_atime(sample(PROFILE, seed));
            match History::fail(shape, &script, seed, (Request::Any, true, Fault::Gone)) {
                Ok((own, safe)) => (runs, syncs) = (runs + own, syncs + safe),
                Err(why) => panic!("{}, seed {seed:#x}\n{script}\n{why}", shape.name),
            }
        }
        println!("{}: {runs} times pulled out, {syncs} syncs succeeded", shape.name);
        assert!(runs > 0 && syncs > 0);
    }
}

/// The same seed does the same to the device, to the last byte.
#[test]
fn the_same_seed_leaves_the_same_trace() {
    for shape in &SHAPES {
        let script = sample(PROFILE, 5);
        let trace = || History::run(shape, &script, 5, 2).trace();
        assert_eq!(trace(), trace(), "{}", shape.name);
    }
}

/// The control: without the barrier between what a superblock names and the superblock the exam must fail, too.
#[test]
fn a_barrier_that_is_left_out_is_found_out() {
    for shape in SHAPES.iter().filter(|shape| shape.name != "never settled") {
        let failed = (0..40).any(|number| {
            let script = sample(PROFILE, number);
            let mut history = History::run(shape, &script, number, 2);
            history.leave_out_barriers_before(|at| at < 2 * shape.segment_len);
            history.cut(shape, DOSE, false, number).is_err()
        });
        assert!(failed, "{}: nobody noticed", shape.name);
    }
}
