//! Volumes that get what this version writes: a second copy of what names everything, and parts that lie across no
//! page. Cut at every operation of the device they are what they were, or what they were to become, and hold what they
//! held; so do their snapshots.

use std::path::PathBuf;
use std::sync::Arc;

use esker::posix::{Caller, Fs, New};
use esker::{Ino, Kind, Name, Time};
use esker_proof::chance::Chance;
use esker_proof::cut::{History, SHAPES, Shape, goes_on};
use esker_proof::harness::{from_env, sample, seed};
use esker_proof::lying::medium::{Medium, PAGE};
use esker_proof::lying::states::{Dose, Replay};
use esker_proof::script::generate::Profile;
use esker_proof::shape::OLDER;
use esker_proof::told::print;
use esker_proof::world::on_volume::mount;
use esker_stone::Codec;
use esker_volume::device::Zones;
use esker_volume::scrub::Scrubbing;
use esker_volume::segments::Condition;
use esker_volume::superblock::PAGES;
use esker_volume::{Error, Snapped, Upgrade};

const PROFILE: Profile = Profile { steps_max: 40, users: true, cursors: false };
const DOSE: Dose = Dose { subsets: 1, torn: 2, garbage: 1 };
/// A volume of this size, with zones enough for two copies.
const ZONED: Shape =
    Shape { zones: Some(Zones { len: 256 << 10, capacity: 192 << 10, active: 6 }), ..SHAPES[4] };

/// What a state holds, what its snapshots hold, and what it lacks.
fn look(shape: &Shape, medium: Medium) -> Result<(Vec<u64>, Upgrade), String> {
    let told = |error: Error| format!("{error:?}");
    let volume = Arc::new(shape.open(shape.device(medium), false).map_err(told)?);
    let findings = volume.check();
    if !findings.is_empty() {
        return Err(format!("check finds {findings:?}"));
    }
    let mut shown = vec![print(&*volume)?];
    for row in volume.snapshots() {
        let name = String::from_utf8_lossy(&row.name).into_owned();
        let own = Snapped::new(Arc::clone(&volume), &name).map_err(|e| format!("{e:?}"))?;
        shown.push(print(&own)?);
    }
    Ok((shown, volume.lacks(Some(2)).map_err(told)?))
}

/// Upgrades what is on a medium, and looks at all that a cut may leave; how many states, and how many of them are
/// upgraded.
fn cut(shape: &Shape, medium: &Medium, seed: u64) -> (u64, u64) {
    let (shown, wanted) = look(shape, medium.clone()).expect("it is sound");
    let device = Arc::new(shape.device(medium.clone()));
    let mut volume = shape.open(Arc::clone(&device), true).expect("it opens");
    volume.upgrade(wanted).unwrap_or_else(|error| panic!("{}, {seed:#x}: {error}", shape.name));
    drop(volume);
    let mut replay = Replay::new(medium.clone(), shape.zones.map(|zones| zones.len), false);
    let (mut chance, mut states, mut new) = (Chance::new(seed), 0, 0);
    for op in &device.ops() {
        replay.step(op);
        replay.states(DOSE, &mut chance, &mut |state| {
            let found = look(shape, state.clone());
            let found = found.unwrap_or_else(|why| panic!("{}, seed {seed:#x}: {why}", shape.name));
            assert_eq!(found.0, shown, "{}, seed {seed:#x}: other files", shape.name);
            let is_new = found.1 == Upgrade::default();
            assert!(is_new || found.1 == wanted, "half of it: {:?}", found.1);
            (states, new) = (states + 1, new + u64::from(is_new));
            if states % 16 == 0 {
                goes_on(shape, &shape.device(state)).unwrap();
            }
        });
    }
    let end = device.medium();
    assert_eq!(look(shape, end.clone()), Ok((shown, Upgrade::default())), "{}", shape.name);
    // What lacks nothing was not written; the parity of a part that its version left out is for scrubbing.
    if wanted.is_any() {
        is_whole(shape, &end, wanted);
    }
    goes_on(shape, &shape.device(end)).unwrap();
    (states, new)
}

/// All tables have their parity, superblocks their copies, and the second of these alone is enough.
fn is_whole(shape: &Shape, medium: &Medium, wanted: Upgrade) {
    let volume = shape.open(Arc::new(shape.device(medium.clone())), true).expect("it opens");
    let found = volume.scrub(&Scrubbing::all(&|_| true)).expect("scrubbed");
    assert_eq!(found.findings, [], "{}", shape.name);
    assert_eq!((found.mended, found.parity, found.superblocks), (0, 0, 0), "{}", shape.name);
    let homes = volume.stretches();
    let homes = homes.iter().filter(|row| row.condition == Condition::Home).count();
    assert_eq!(homes as u32, volume.shape().homes());
    drop(volume);
    if !wanted.second_copy {
        return;
    }
    // The newest of the first copy is gone: the second is found.
    let mut medium = medium.clone();
    let generation = |at: u64, medium: &Medium| {
        let mut bytes = vec![0; 512];
        medium.read(at, &mut bytes);
        esker_volume::Superblock::parse(&bytes).map_or(0, |found| found.generation)
    };
    let all =
        (0..2).flat_map(|home| (0..64).map(move |step| home * shape.segment_len + step * 4096));
    let newest = all.max_by_key(|&at| generation(at, &medium)).expect("there are some");
    let before = generation(newest, &medium);
    medium.write(newest, &vec![0; PAGE]);
    let volume = shape.open(shape.device(medium), false).expect("it opens");
    assert_eq!(volume.settled() + 1, before, "{}: an older one counts", shape.name);
}

#[test]
fn a_second_copy_survives_every_cut() {
    for shape in [&SHAPES[0], &SHAPES[2], &SHAPES[3], &ZONED] {
        let mut sum = (0, 0);
        for number in 0..from_env("ESKER_CASES", 1) {
            let seed = seed().wrapping_add(number);
            let script = sample(PROFILE, seed);
            let history = History::run_with_snapshots(shape, &script, seed, 3);
            let (states, new) = cut(shape, &history.medium(shape), seed);
            sum = (sum.0 + states, sum.1 + new);
        }
        println!("{}: {} states, {} of them upgraded", shape.name, sum.0, sum.1);
        assert!(sum.1 > 0 && sum.1 < sum.0);
    }
}

/// What an earlier version left on a device of this shape.
fn golden(name: &str, shape: &Shape) -> Medium {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden").join(name);
    let packed = std::fs::read(&path).expect("it is kept");
    let mut bytes = vec![0; shape.size as usize];
    Codec::Zstd.decode(&packed, &[], &mut bytes).expect("unpacked");
    let mut medium = Medium::new(shape.size);
    for (at, page) in (0..).zip(bytes.chunks(PAGE)) {
        medium.write(at * PAGE as u64, page);
    }
    medium
}

#[test]
fn volumes_of_every_version_are_upgraded() {
    let based = Shape { base: true, ..SHAPES[1] };
    let all = [
        ("v1-zstd.volume", SHAPES[2]),
        ("v1-names.volume", SHAPES[2]),
        ("v1-lz4-copies.volume", SHAPES[1]),
        ("v1-snapshots.volume", SHAPES[1]),
        ("v1-rules.volume", SHAPES[1]),
        ("v1-base.volume", based),
    ];
    for (name, shape) in all {
        let medium = golden(name, &shape);
        let (_, lacks) = look(&shape, medium.clone()).expect("it is sound");
        assert_eq!(lacks.second_copy, shape.copies == 1, "{name}");
        let (states, new) = cut(&shape, &medium, seed());
        println!("{name}: {lacks:?}, {states} states, {new} of them upgraded");
    }
}

/// Some files on a volume as the first versions made it.
fn without_pages(shape: &Shape) -> Medium {
    let device = Shape { lacks: OLDER[3], ..*shape }.fresh(seed());
    let fs = Fs::new(mount(shape, Arc::clone(&device)).expect("it opens"), clock);
    for number in 0..40 {
        let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
        let name = format!("file {number}");
        let name = Name::parse(name.as_bytes()).expect("a name");
        let ino = fs.create(&Caller::ROOT, Ino::ROOT, name, new).expect("room").ino;
        fs.write(ino, 0, &vec![number; 700 + 40 * usize::from(number)], false).expect("room");
        fs.sync().expect("a sync");
    }
    drop(fs);
    device.medium()
}

fn clock() -> Time {
    Time { secs: 1_700_000_000, nanos: 0 }
}

#[test]
fn parts_lie_across_no_page_from_then_on() {
    for copies in 1..=2 {
        let shape = Shape { copies, ..SHAPES[1] };
        let medium = without_pages(&shape);
        let (_, lacks) = look(&shape, medium.clone()).expect("it is sound");
        assert_eq!(
            lacks,
            Upgrade {
                pages: true,
                deltas: true,
                pieces: true,
                names: true,
                second_copy: copies == 1
            }
        );
        let (states, new) = cut(&shape, &medium, seed());
        println!("{copies} copies: {states} states, {new} of them upgraded");
        assert!(new > 0 && new < states);
    }
}

/// A volume that is full is not upgraded, and nothing of it changes.
#[test]
fn there_must_be_room_for_a_second_copy() {
    let shape = Shape { size: 12 * SHAPES[0].segment_len, ..SHAPES[0] };
    let device = shape.fresh(1);
    let mut volume = shape.open(Arc::clone(&device), true).expect("it opens");
    let wanted = volume.lacks(Some(2)).expect("it lacks one");
    assert_eq!(volume.upgrade(wanted), Err(Error::NoSpace));
    assert_eq!(volume.check(), []);
    assert_eq!((volume.shape().copies, volume.shape().incompatible & PAGES), (1, 0));
    drop(volume);
    goes_on(&shape, &*device).unwrap();
    let volume = shape.open(Arc::clone(&device), false).expect("it opens");
    assert!(matches!(volume.lacks(Some(3)), Err(Error::Setting(_))));
    let few = shape_of_few_zones();
    let volume = few.open(few.fresh(1), false).expect("it opens");
    assert!(matches!(volume.lacks(Some(2)), Err(Error::Setting(_))));
}

const fn shape_of_few_zones() -> Shape {
    SHAPES[4]
}
