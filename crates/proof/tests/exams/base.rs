//! Volumes over a base: whatever is done to one shows what the model shows, survives power cuts, and never takes
//! another base, or half of one, for its own.

use std::sync::Arc;

use esker::Ino;
use esker::store::{Batch, Change, Store as _, View as _};
use esker_proof::base::{Known, NAME, below, long_files, model};
use esker_proof::chance::Chance;
use esker_proof::cut::{History, SHAPES, Shape};
use esker_proof::harness::{from_env, sample, seed};
use esker_proof::lying::states::{Dose, Replay};
use esker_proof::model::Model;
use esker_proof::script::generate::Profile;
use esker_proof::told::print;
use esker_proof::world::on_volume::mount;
use esker_stone::cache::Cache;
use esker_volume::recover::{Recovering, recover};
use esker_volume::segments::Condition;
use esker_volume::{Base, Bases, Below, Damage, Error, Finding, NoBase, Options, make, open};

const PROFILE: Profile = Profile { steps_max: 40, users: true, cursors: false };
const DOSE: Dose = Dose { subsets: 1, torn: 2, garbage: 1 };

fn over(shape: Shape) -> Shape {
    Shape { base: true, ..shape }
}

/// What the model of the base shows.
fn wanted() -> u64 {
    print(model()).expect("the model shows everything")
}

/// Another image under the name of the base.
struct Other(fn() -> Below);

impl Bases for Other {
    fn find(&self, _: &Base) -> Option<Below> {
        Some((self.0)())
    }
}

fn options(bases: impl Bases + 'static) -> Options {
    Options { bases: Some(Arc::new(bases)), ..Options::new(Cache::new(1 << 20)) }
}

#[test]
fn a_volume_over_a_base_shows_it_and_holds_none_of_its_bytes() {
    for shape in SHAPES.map(over) {
        let volume = shape.open(shape.fresh(1), false).expect("it opens");
        assert_eq!(print(&volume), Ok(wanted()), "{}", shape.name);
        assert_eq!(volume.check(), [], "{}", shape.name);
        assert_eq!(volume.base().map(|base| base.name), Some(NAME));
        let log = volume.stretches().into_iter().filter(|row| row.condition == Condition::Log);
        assert_eq!(log.map(|row| row.live).sum::<u64>(), 0, "{}: blocks", shape.name);
        assert!(long_files(model()).len() > 1, "the base has no content");
    }
}

/// Scripts over it with snapshots made, deleted and gone back to, cut at every operation of the device.
#[test]
fn what_changes_above_a_base_survives_every_cut() {
    for shape in SHAPES.map(over) {
        let (mut states, mut backs) = (0, 0);
        for number in 0..from_env("ESKER_CASES", 2) {
            let seed = seed().wrapping_add(number);
            let script = sample(PROFILE, seed);
            let history = match number % 2 {
                0 => History::run_with_snapshots(&shape, &script, seed, 3),
                _ => History::run(&shape, &script, seed, 3),
            };
            backs += history.backs;
            match history.cut(&shape, DOSE, false, seed) {
                Ok(count) => states += count,
                Err(why) => panic!("{}, seed {seed:#x}\n{script}\n{why}", shape.name),
            }
        }
        println!("{}: {states} states, went back {backs} times", shape.name);
        assert!(states > 0);
    }
}

/// Bits that turn round: never anything is shown that was not.
#[test]
fn damage_above_a_base_is_told() {
    let mut all = (0, 0);
    for shape in SHAPES.map(over) {
        let (mut told, mut same) = (0, 0);
        for number in 0..from_env("ESKER_CASES", 2) {
            let seed = seed().wrapping_add(number);
            let history = History::run_with_snapshots(&shape, &sample(PROFILE, seed), seed, 3);
            let found = history.rot(&shape, 60, seed);
            let found = found.unwrap_or_else(|why| panic!("{}, {seed:#x}: {why}", shape.name));
            (told, same) = (told + found.0, same + found.1);
        }
        println!("{}: {told} told, {same} did no harm", shape.name);
        all = (all.0 + told, all.1 + same);
    }
    // Most of what is above a base is dead here: of some shape nothing that counts may be met.
    assert!(all.0 > 0 && all.1 > 0, "{all:?}");
}

/// Power goes while a volume is laid over its base: it is a new volume, or all of it, or it says that it is neither.
#[test]
fn half_of_a_base_is_never_shown() {
    for shape in SHAPES {
        let device = shape.fresh(3);
        let medium = device.medium();
        let empty = print(&shape.open(&device, false).expect("new")).expect("shown");
        let mut volume = shape.open(Arc::clone(&device), true).expect("it opens");
        volume.lay_over(below(), &mut |_| {}).expect("there is room");
        drop(volume);
        let mut replay = Replay::new(medium, shape.zones.map(|zones| zones.len), false);
        let (mut chance, mut found) = (Chance::new(3), [0; 3]);
        for op in &device.ops() {
            replay.step(op);
            replay.states(DOSE, &mut chance, &mut |state| match shape
                .open(shape.device(state), false)
            {
                Err(Error::Base(NoBase::Unfinished)) => found[0] += 1,
                Err(error) => panic!("{}: {error:?}", shape.name),
                Ok(volume) if volume.base().is_none() => {
                    assert_eq!(print(&volume), Ok(empty), "{}", shape.name);
                    found[1] += 1;
                }
                Ok(volume) => {
                    assert_eq!(print(&volume), Ok(wanted()), "{}", shape.name);
                    assert_eq!(volume.check(), [], "{}", shape.name);
                    found[2] += 1;
                }
            });
        }
        println!("{}: {} unfinished, {} new, {} whole", shape.name, found[0], found[1], found[2]);
        assert!(found.iter().all(|&count| count > 0), "{}: {found:?}", shape.name);
    }
}

/// A base that is not there, or is another one, is told; what lies above it stays as it is.
#[test]
fn no_other_base_is_taken() {
    fn renamed() -> Below {
        Below { base: Base { name: [1; 32], ..below().base }, ..below() }
    }
    let shape = over(SHAPES[1]);
    let device = shape.fresh(5);
    let before = device.medium().print(0, shape.size);
    let refused = |options| open(&device, options).err();
    let missing = Some(Error::Base(NoBase::Missing));
    assert_eq!(refused(Options::new(Cache::new(1 << 20))), missing);
    assert_eq!(refused(options(Other(renamed))), missing);
    assert_eq!(device.medium().print(0, shape.size), before);
    assert_eq!(print(&shape.open(&device, false).expect("it opens")), Ok(wanted()));
}

/// An image that lies about what it is: bytes that it does not have are EIO, and named, never zeros.
#[test]
fn bytes_that_the_base_does_not_have_are_none() {
    fn shorter() -> Below {
        let model = model().copy();
        for ino in long_files(&model) {
            let mut batch = Batch::new();
            batch.push(Change::Cut { ino, len: 100 });
            model.commit(&batch).expect("it is cut short");
        }
        Below { view: Arc::new(model), ..below() }
    }
    fn nothing() -> Below {
        let model = Model::new(esker_proof::world::inside::root_attr());
        Below { view: Arc::new(model), ..below() }
    }
    let shape = over(SHAPES[2]);
    let device = shape.fresh(6);
    for other in [shorter as fn() -> Below, nothing] {
        let volume = open(&device, options(Other(other))).expect("it opens");
        let findings = volume.check();
        for ino in long_files(model()) {
            let size = model().attr(ino).expect("it is there").size;
            let first = model().next_data(ino, 100).expect("runs").map_or(size, |run| run.start());
            let mut bytes = [0; 16];
            if first < size {
                assert_eq!(volume.read(ino, first, &mut bytes), Err(esker::Error::Io), "{ino:?}");
            }
            let named = Finding::Content(ino, Damage::Base.into());
            assert!(findings.contains(&named), "{ino:?} in {findings:?}");
        }
    }
}

/// What was written over pieces of the base is told in terms of it: both sides of a hole in the middle are still there.
#[test]
fn a_write_into_the_middle_keeps_both_sides() {
    let shape = over(SHAPES[0]);
    let device = shape.fresh(7);
    let longest =
        long_files(model()).into_iter().max_by_key(|&ino| model().attr(ino).map(|a| a.size).ok());
    let ino = longest.expect("a file");
    let size = model().attr(ino).expect("attributes").size as usize;
    let mut bytes = vec![0; size];
    model().read(ino, 0, &mut bytes).expect("bytes");
    let home = mount(&shape, Arc::clone(&device)).expect("it opens");
    let mut batch = Batch::new();
    batch.push(Change::Write { ino, at: size as u64 / 2, source: b"new" });
    home.commit(&batch).expect("written");
    bytes[size / 2..size / 2 + 3].copy_from_slice(b"new");
    home.write().expect("safe");
    drop(home);
    let volume = shape.open(&device, false).expect("it opens");
    let mut read = vec![1; size];
    assert_eq!(volume.read(ino, 0, &mut read), Ok(size));
    assert_eq!(read, bytes);
    assert_eq!(volume.check(), []);
}

/// With the base at hand everything is recovered; without it what lies in it is an error, and no zeros.
#[test]
fn what_lies_in_the_base_is_recovered_from_it() {
    let shape = over(SHAPES[1]);
    let device = shape.fresh(8);
    let (left, found) = recover(&device, options(Known), Recovering::default()).expect("left");
    for ino in long_files(model()) {
        let len = model().attr(ino).expect("attributes").size as usize;
        let (mut read, mut wanted) = (vec![1; len], vec![2; len]);
        assert_eq!(left.read(ino, 0, &mut read), model().read(ino, 0, &mut wanted), "{ino:?}");
        assert_eq!(read, wanted, "{ino:?}");
    }
    assert_eq!(found.base_image.map(|(base, is_there)| (base.name, is_there)), Some((NAME, true)));
    let alone = Options::new(Cache::new(1 << 20));
    let (left, found) = recover(&device, alone, Recovering::default()).expect("left");
    assert_eq!(found.base_image.map(|(base, is_there)| (base.name, is_there)), Some((NAME, false)));
    let lost = long_files(model()).into_iter().all(|ino: Ino| {
        let first = model().next_data(ino, 0).ok().flatten().map_or(0, |run| run.start());
        left.read(ino, first, &mut [0; 1]) == Err(esker::Error::Io)
    });
    assert!(lost, "bytes of a base that is not there");
}

/// Only a new volume is laid over a base, and a full one says so.
#[test]
fn what_holds_something_is_not_laid_over_a_base() {
    let shape = SHAPES[1];
    let device = over(shape).fresh(9);
    let mut volume = shape.open(&device, true).expect("it opens");
    assert!(matches!(volume.lay_over(below(), &mut |_| {}), Err(Error::Setting(_))));
    drop(volume);
    let fresh = shape.fresh(9);
    make(&fresh, &shape.making()).expect("anew");
    let mut volume = shape.open(&fresh, false).expect("it opens");
    assert_eq!(volume.lay_over(below(), &mut |_| {}), Err(Error::ReadOnly));
}
