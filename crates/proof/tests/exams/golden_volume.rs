//! Volumes of every version of the format open for ever: what was written once shows the same, is sound, and can be
//! written on. `ESKER_GOLDEN=write` writes those of this version anew, which only a declared change of the format may
//! need.

use std::path::PathBuf;
use std::sync::Arc;

use esker::posix::{Caller, Fs, New};
use esker::store::{Batch, Change, Flow, Store as _, View as _};
use esker::{Cursor, Ino, Kind, Name, Time};
use esker_proof::base;
use esker_proof::chance::Chance;
use esker_proof::cut::{SHAPES, Shape};
use esker_proof::lying::ram::Ram;
use esker_proof::model::Model;
use esker_proof::script::Script;
use esker_proof::told::print;
use esker_proof::workloads::workload;
use esker_proof::world::World as _;
use esker_proof::world::inside::{Inside, root_attr};
use esker_proof::world::on_volume::mount;
use esker_stone::{Codec, Setting};
use esker_volume::device::Device as _;
use esker_volume::rules::{Occasion, Rules};
use esker_volume::{Snapped, make};

/// Something of every kind, in blocks and in tables, with a round of settling under way.
const OPS: &[&str] = &[
    "mkdir d/deep 0755",
    "write 0 20000 70000 10",
    "fallocate 0 punch 30000 9000",
    "symlink elsewhere t",
    "link a d/m nofollow",
    "setxattr a user.x fill:3000:2 any nofollow",
    "unlink d/b",
    "rename d/m e/moved -",
    "ftruncate 0 80000",
    "write 0 100 5000 8",
    "chmod e 0700",
];

fn script() -> Script {
    workload(OPS)
}

fn place(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

/// Steps after which there is a snapshot, in the volume that has some, and what they are called.
const MOMENTS: [(usize, &str); 2] = [(9, "first"), (18, "second")];

/// A volume with a commit after every third step, and snapshots if it is to have some.
fn written(shape: &Shape, snapshots: bool) -> Vec<u8> {
    let device = Arc::new(Ram::new(shape.size as usize));
    make(&device, &shape.making()).expect("a volume");
    let home = mount(shape, Arc::clone(&device)).expect("it opens");
    let mut inside = Inside::new("volume", home);
    for (number, step) in script().0.iter().enumerate() {
        inside.now();
        inside.run(step).unwrap_or_else(|error| panic!("{step}: {error}"));
        if number % 3 == 2 {
            inside.fs().sync().expect("a sync");
        }
        for (_, name) in MOMENTS.iter().filter(|(at, _)| snapshots && *at == number + 1) {
            inside.fs().store().create_snapshot(name).expect("a snapshot");
        }
    }
    inside.fs().sync().expect("a sync");
    let mut bytes = vec![0; shape.size as usize];
    device.read(0, &mut bytes).expect("bytes");
    bytes
}

/// The same with rules for snapshots, one that a rule has made, and gone back to the first moment.
fn gone_back(shape: &Shape) -> Vec<u8> {
    let mut bytes = written(shape, true);
    let device = Ram::new(bytes.len());
    device.write(0, &bytes).expect("bytes");
    let volume = shape.open(&device, true).expect("it opens");
    volume.set_rules(&rules()).expect("rules");
    volume.create_snapshot_beside("hourly", Some(Occasion::Hour), &|| 0).expect("a snapshot");
    volume.rollback("first").expect("it goes back");
    drop(volume);
    device.read(0, &mut bytes).expect("bytes");
    bytes
}

fn rules() -> Rules {
    let mut rules = Rules::default();
    for text in ["every hour keep 24", "on sync keep 3 for 2d"] {
        rules.add(text.parse().expect("a rule")).expect("no other one");
    }
    rules.set_largest(40);
    rules
}

/// A volume over a base, of which some changed, with a snapshot of how it began.
fn above_base(shape: &Shape) -> Vec<u8> {
    let device = Arc::new(Ram::new(shape.size as usize));
    make(&device, &shape.making()).expect("a volume");
    shape
        .open(&device, true)
        .and_then(|mut volume| volume.lay_over(base::below(), &mut |_| {}))
        .expect("laid");
    let home = mount(shape, Arc::clone(&device)).expect("it opens");
    home.create_snapshot("begin").expect("a snapshot");
    home.commit(&cut_short()).expect("a change");
    home.write().expect("safe");
    let mut bytes = vec![0; shape.size as usize];
    device.read(0, &mut bytes).expect("bytes");
    bytes
}

/// Cuts all long files of the base short.
fn cut_short() -> Batch<'static> {
    let mut batch = Batch::new();
    for ino in base::long_files(base::model()).into_iter().take(4) {
        batch.push(Change::Cut { ino, len: 600 });
    }
    batch
}

/// What the model shows after so many steps of the same.
fn wanted(steps: usize) -> u64 {
    let mut model = Inside::new("model", Model::new(root_attr()));
    for step in script().0.iter().take(steps) {
        model.now();
        model.run(step).unwrap_or_else(|error| panic!("{step}: {error}"));
    }
    print(model.fs().store()).expect("the model shows everything")
}

/// What is kept of a volume; written first, if that was asked for.
fn kept(name: &str, shape: &Shape, write: impl Fn() -> Vec<u8>) -> Arc<Ram> {
    let (path, len) = (place(name), shape.size as usize);
    if std::env::var("ESKER_GOLDEN").as_deref() == Ok("write") {
        let packed = Setting::new(Codec::Zstd, 19).encode(&write(), &[]);
        std::fs::write(&path, packed.expect("packed").1).expect("written");
    }
    let device = Arc::new(Ram::new(len));
    device.write(0, &unpacked(name, len)).expect("bytes");
    device
}

fn unpacked(name: &str, len: usize) -> Vec<u8> {
    let packed = std::fs::read(place(name)).expect("it is kept");
    let mut bytes = vec![0; len];
    Codec::Zstd.decode(&packed, &[], &mut bytes).expect("unpacked");
    bytes
}

#[test]
fn volumes_of_every_version_show_what_they_did() {
    let all = [
        ("v1-zstd.volume", SHAPES[2]),
        ("v1-lz4-copies.volume", SHAPES[1]),
        ("v1-names.volume", SHAPES[2]),
    ];
    for (name, shape) in all {
        let device = kept(name, &shape, || written(&shape, false));
        let home = mount(&shape, Arc::clone(&device)).unwrap_or_else(|e| panic!("{name}: {e:?}"));
        assert_eq!(home.volume().check(), [], "{name}");
        assert_eq!(print(home.volume()), Ok(wanted(usize::MAX)), "{name} shows something else");
        let mut inside = Inside::new("volume", home);
        for step in workload(&["mkdir new 0755", "unlink s"]).0.iter().rev().take(2) {
            inside.run(step).unwrap_or_else(|error| panic!("{name}, {step}: {error}"));
        }
        inside.fs().sync().expect("a sync");
        assert_eq!(inside.fs().store().volume().check(), [], "{name}, written on");
    }
}

#[test]
fn snapshots_of_every_version_show_what_they_did() {
    let (name, shape) = ("v1-snapshots.volume", SHAPES[1]);
    let device = kept(name, &shape, || written(&shape, true));
    let home = mount(&shape, Arc::clone(&device)).expect("it opens");
    assert_eq!(home.volume().check(), []);
    assert_eq!(print(home.volume()), Ok(wanted(usize::MAX)), "{name} shows something else");
    for (steps, name) in MOMENTS {
        let own = Snapped::new(Arc::clone(home.shared()), name).expect("it is there");
        assert_eq!(print(&own), Ok(wanted(steps)), "{name} shows something else");
    }
    for (_, name) in MOMENTS {
        home.volume().delete_snapshot(name).expect("deleted");
        assert_eq!(home.volume().check(), []);
    }
}

#[test]
fn rules_of_every_version_are_obeyed() {
    let (name, shape) = ("v1-rules.volume", SHAPES[1]);
    let device = kept(name, &shape, || gone_back(&shape));
    let home = mount(&shape, Arc::clone(&device)).expect("it opens");
    let volume = home.volume();
    assert_eq!(volume.check(), []);
    assert_eq!(print(volume), Ok(wanted(MOMENTS[0].0)), "{name} shows something else");
    assert_eq!(volume.rules(), rules());
    let made: Vec<_> = volume.snapshots_made().into_iter().map(|(_, made)| made).collect();
    assert_eq!(made, [None, None, Some(Occasion::Hour)]);
    let newest = Snapped::new(Arc::clone(home.shared()), "hourly").expect("it is there");
    assert_eq!(print(&newest), Ok(wanted(usize::MAX)));
    volume.delete_snapshot("hourly").expect("deleted");
    volume.set_rules(&Rules::default()).expect("no rules");
    assert_eq!(volume.check(), []);
    assert_eq!(shape.open(&device, false).expect("it opens").shape().incompatible, 1);
}

/// What the file of a volume with deltas holds after so many rounds.
fn altered(rounds: u8) -> Vec<u8> {
    let mut chance = Chance::new(11);
    let mut bytes: Vec<u8> = (0..4096).flat_map(|_| chance.number().to_le_bytes()).collect();
    bytes.chunks_mut(4096).for_each(|block| block[7] = rounds);
    bytes
}

/// A volume with one file, of which each block was written over with what differs a little.
fn with_deltas(shape: &Shape) -> Vec<u8> {
    let device = Arc::new(Ram::new(shape.size as usize));
    make(&device, &shape.making()).expect("a volume");
    let home = mount(shape, Arc::clone(&device)).expect("it opens");
    let fs = Fs::new(home, || Time { secs: 1_700_000_000, nanos: 0 });
    let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
    let name = Name::parse(b"file").expect("a name");
    let ino = fs.create(&Caller::ROOT, Ino::ROOT, name, new).expect("room").ino;
    for rounds in 0..4 {
        for (number, block) in altered(rounds).chunks(4096).enumerate() {
            fs.write(ino, number as u64 * 4096, block, false).expect("room");
        }
        fs.sync().expect("a sync");
    }
    let mut bytes = vec![0; shape.size as usize];
    device.read(0, &mut bytes).expect("bytes");
    bytes
}

#[test]
fn deltas_of_every_version_are_read() {
    let (name, shape) = ("v1-deltas.volume", SHAPES[2]);
    let device = kept(name, &shape, || with_deltas(&shape));
    let home = mount(&shape, Arc::clone(&device)).expect("it opens");
    assert_eq!(home.volume().check(), []);
    assert_eq!(home.volume().deltas(), 32 << 10);
    let name = Name::parse(b"file").expect("a name");
    let ino = home.entry(Ino::ROOT, name).expect("it is there").ino;
    let mut found = vec![0; 64 << 10];
    assert_eq!(home.read(ino, 0, &mut found), Ok(32 << 10));
    assert!(found[..32 << 10] == altered(3));
}

/// The base is what scripts leave in the model: where these say something else one day, the file is to be written anew.
#[test]
fn bases_of_every_version_lie_below() {
    let (name, shape) = ("v1-base.volume", Shape { base: true, ..SHAPES[1] });
    let device = kept(name, &shape, || above_base(&shape));
    let home = mount(&shape, Arc::clone(&device)).expect("it opens");
    assert_eq!(home.volume().check(), []);
    assert_eq!(home.volume().base().map(|base| base.name), Some(base::NAME));
    let begin = Snapped::new(Arc::clone(home.shared()), "begin").expect("it is there");
    assert_eq!(print(&begin), print(base::model()), "{name} shows something else");
    let model = base::model().copy();
    model.commit(&cut_short()).expect("a change");
    assert_eq!(print(home.volume()), print(&model), "{name} shows something else");
}

/// Names of the directory `d` in the order in which they are listed.
fn listed(view: &impl esker::store::View) -> Vec<String> {
    let dir = view.entry(Ino::ROOT, Name::parse(b"d").expect("a name")).expect("it is there").ino;
    let mut names = Vec::new();
    view.entries(dir, Cursor::START, false, &mut |listed| {
        names.push(String::from_utf8_lossy(listed.name.bytes()).into_owned());
        Flow::Continue(())
    })
    .expect("a listing");
    names
}

/// The last version that stored names twice wrote it: 400 names were made, some went, and some got others.
#[test]
fn names_that_are_stored_twice_are_listed_once() {
    let (name, shape) = ("v1-twice.volume", Shape { size: 4 << 20, ..SHAPES[2] });
    let device = kept(name, &shape, || unpacked(name, 4 << 20));
    let home = mount(&shape, Arc::clone(&device)).expect("it opens");
    let made = |number: u64| format!("{:x} of {number}", number * 7919 % 100_003);
    let stays = (0..400).filter(|number| number % 7 > 0 && number % 11 > 0).map(made);
    let moved = (0..400).filter(|number| number % 7 > 0 && number % 11 == 0);
    let mut wanted: Vec<_> = stays.chain(moved.map(|number| format!("moved {number}"))).collect();
    assert_eq!(listed(home.volume()), wanted);
    let before = Snapped::new(Arc::clone(home.shared()), "before").expect("it is there");
    assert_eq!(listed(&before), wanted);
    assert_eq!(home.volume().check(), []);

    let fs = Fs::new(home, || Time { secs: 1_700_000_000, nanos: 0 });
    let dir = Name::parse(b"d").expect("a name");
    let dir = fs.store().entry(Ino::ROOT, dir).expect("it is there").ino;
    for number in 0..200 {
        let name = format!("{number}");
        let path = Name::parse(name.as_bytes()).expect("a name");
        let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
        fs.create(&Caller::ROOT, dir, path, new).expect("room");
        let gone = wanted.remove(number % 5 * 60);
        fs.unlink(&Caller::ROOT, dir, Name::parse(gone.as_bytes()).expect("a name"))
            .expect("it goes");
        wanted.push(name);
        if number % 50 == 49 {
            fs.sync().expect("a sync");
            assert_eq!(listed(fs.store().volume()), wanted);
        }
    }
    assert_eq!(fs.store().volume().check(), []);
    drop(fs);
    let mut volume = shape.open(Arc::clone(&device), true).expect("it opens");
    let lacks = volume.lacks(None).expect("it may be upgraded");
    assert!(lacks.names, "it was not asked for that yet");
    volume.upgrade(lacks).expect("upgraded");
    drop(volume);
    let volume = shape.open(Arc::clone(&device), true).expect("it opens");
    assert_eq!((listed(&volume), volume.check()), (wanted, vec![]));
}
