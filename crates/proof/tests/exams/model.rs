//! Scripts in this process: the same POSIX over the model and over a home must do the same, to the last errno, the
//! order of every listing and the second of every time.

use std::collections::BTreeMap;

use esker::ground::Heap;
use esker::limits::FILE_SIZE_MAX;
use esker::memory::{Home, Options, Resident, Tuning};
use esker_proof::differ::Closely;
use esker_proof::harness::{Hunt, Pair, hunt, run_regressions, sample};
use esker_proof::model::Model;
use esker_proof::script::Op;
use esker_proof::script::generate::Profile;
use esker_proof::world::World;
use esker_proof::world::inside::{Inside, root_attr};

const HUNT: Hunt = Hunt {
    name: "model beside memory home",
    profile: Profile { steps_max: 60, users: true, cursors: true },
    cases: 4000,
    shrinks: 20_000,
    closely: Closely::EXACT,
};

fn memory_home() -> Result<Pair, String> {
    let options = Options { size_max: 256 << 20, file_size_max: FILE_SIZE_MAX, root: root_attr() };
    let home = Home::new(Heap::new(), &options).map_err(|error| error.to_string())?;
    let model = Model::new(root_attr());
    Ok((Box::new(Inside::new("model", model)), Box::new(Inside::new("memory", home))))
}

#[test]
fn the_memory_home_is_the_model() {
    run_regressions(Closely::EXACT, memory_home);
    hunt(HUNT, memory_home);
}

/// The same home in its memory as a whole, with far fewer pages at hand than it has: what is quick there must be
/// right as well.
fn embedded_home() -> Result<Pair, String> {
    let options = Options { size_max: 256 << 20, file_size_max: FILE_SIZE_MAX, root: root_attr() };
    let tuning = Tuning { cache_pages: 8, ..Tuning::USUAL };
    let home = Home::<Resident<Heap>>::open_with(Heap::new(), &options, &tuning);
    let home = home.map_err(|error| error.to_string())?;
    let model = Model::new(root_attr());
    Ok((Box::new(Inside::new("model", model)), Box::new(Inside::new("embedded", home))))
}

#[test]
fn the_embedded_home_is_the_model() {
    run_regressions(Closely::EXACT, embedded_home);
    hunt(Hunt { name: "model beside embedded home", cases: 2000, ..HUNT }, embedded_home);
    let profile = Profile { steps_max: 1500, ..HUNT.profile };
    hunt(Hunt { profile, cases: 30, name: "long scripts, embedded", ..HUNT }, embedded_home);
}

/// Long lives of one tree find what short ones do not: pages split and join, extents grow many.
#[test]
fn the_memory_home_is_the_model_for_long() {
    let profile = Profile { steps_max: 1500, ..HUNT.profile };
    hunt(Hunt { profile, cases: 60, name: "long scripts", ..HUNT }, memory_home);
}

/// Scripts that only fail prove nothing: every operation succeeds in some of them, and many do in each.
#[test]
fn scripts_do_something() {
    let (mut done, mut tried) = (BTreeMap::new(), 0_u64);
    for seed in 0..400 {
        let script = sample(HUNT.profile, seed);
        let mut world = Inside::new("model", Model::new(root_attr()));
        for step in &script.0 {
            tried += 1;
            if world.run(step).is_ok() {
                *done.entry(step.op.verb()).or_insert(0_u64) += 1;
            }
        }
    }
    let never: Vec<_> = Op::VERBS.iter().filter(|verb| !done.contains_key(*verb)).collect();
    let sum: u64 = done.values().sum();
    println!("{sum} of {tried} steps succeeded: {done:?}");
    assert!(never.is_empty(), "never succeeded: {never:?}");
    assert!(sum * 4 >= tried, "{sum} of {tried} steps succeeded: {done:?}");
}

/// The exam fails on a home that is known to be wrong.
#[test]
fn a_wrong_home_is_found_out() {
    let world = |limit: u64| {
        let model = Model::new(root_attr()).with_file_size_max(limit);
        Box::new(Inside::new("limited", model))
    };
    let found = std::panic::catch_unwind(|| {
        hunt(HUNT, || Ok((world(FILE_SIZE_MAX), world(100_000))));
    });
    assert!(found.is_err(), "a home that refuses large files passed");
}
