//! Equal bytes of files that are named once: cut at every operation of the device, refused at any, and with hashes that
//! say nothing, the files and those of snapshots are what they were, and all counts are right.

use std::sync::Arc;

use esker::Ino;
use esker::posix::{Caller, Fs, New};
use esker::store::Store as _;
use esker::{Kind, Name, Time};
use esker_proof::chance::Chance;
use esker_proof::cut::{SHAPES, Shape, goes_on};
use esker_proof::lying::medium::Medium;
use esker_proof::lying::states::{Dose, Replay};
use esker_proof::told::print;
use esker_proof::world::on_volume::above;
use esker_stone::cache::Cache;
use esker_volume::{Deduped, Deduping, Options, Snapped};

const DOSE: Dose = Dose { subsets: 1, torn: 1, garbage: 1 };
const MEMORY: usize = 1 << 20;

fn clock() -> Time {
    Time { secs: 1_700_000_000, nanos: 0 }
}

fn noise(chance: &mut Chance, len: u64) -> Vec<u8> {
    (0..len.div_ceil(8)).flat_map(|_| chance.number().to_le_bytes()).take(len as usize).collect()
}

/// Files with these bytes, written without looking for equal ones, a sync behind each; a snapshot behind the first few.
fn filled(shape: &Shape, files: &[Vec<u8>], snapshot: Option<usize>) -> Medium {
    let device = shape.fresh(1);
    let options = Options {
        write: true,
        recent_len: Some(shape.recent_len),
        table_len: Some(shape.table_len),
        ..Options::new(Cache::new(1 << 20))
    };
    let volume = esker_volume::open(Arc::clone(&device), options).expect("it opens");
    let fs = Fs::new(above(volume).expect("memory"), clock);
    for (number, bytes) in files.iter().enumerate() {
        if snapshot == Some(number) {
            fs.store().create_snapshot("before").expect("a snapshot");
        }
        let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
        let name = format!("file {number}");
        let name = Name::parse(name.as_bytes()).expect("a name");
        let ino = fs.create(&Caller::ROOT, Ino::ROOT, name, new).expect("a file").ino;
        fs.write(ino, 0, bytes, false).expect("room");
        fs.forget(ino, 1);
        fs.store().sync().expect("a sync");
    }
    drop(fs);
    device.medium()
}

/// What is shown, by the volume and by its snapshots; that it checks clean.
fn look(shape: &Shape, medium: Medium) -> Vec<u64> {
    let volume = Arc::new(shape.open(shape.device(medium), false).expect("it opens"));
    assert_eq!(volume.check(), [], "{}", shape.name);
    let mut shown = vec![print(&*volume).expect("it can be read")];
    for row in volume.snapshots() {
        let name = String::from_utf8_lossy(&row.name).into_owned();
        let own = Snapped::new(Arc::clone(&volume), &name).expect("it is there");
        shown.push(print(&own).expect("it can be read"));
    }
    shown
}

fn dedup(shape: &Shape, medium: &Medium, how: &Deduping<'_>) -> (Medium, Deduped) {
    let device = Arc::new(shape.device(medium.clone()));
    let mut volume = shape.open(Arc::clone(&device), true).expect("it opens");
    let done = volume.dedup(how).expect("done");
    drop(volume);
    (device.medium(), done)
}

/// Files of which some are equal, some in part, and some in nothing.
fn mixed(chance: &mut Chance) -> Vec<Vec<u8>> {
    let bases: Vec<_> = [70_000, 40_960, 9_000].map(|len| noise(chance, len)).to_vec();
    let mut files = bases.clone();
    files.extend(bases.iter().cloned());
    let mut changed = bases[0].clone();
    changed[33_000] ^= 1;
    files.push(changed);
    files.push([&bases[1][8192..24_576], &bases[0][..16_384]].concat());
    files.push(noise(chance, 20_000));
    files
}

#[test]
fn whole_copies_are_gained() {
    for shape in &SHAPES {
        let chance = &mut Chance::new(3);
        let [own, other] = [(); 2].map(|()| noise(chance, 64 << 10));
        let medium = filled(shape, &[own.clone(), other.clone(), own.clone(), other], None);
        let shown = look(shape, medium.clone());
        let pace = |_, _| true;
        let how = Deduping::new(MEMORY, &pace);
        let dry = dedup(shape, &medium, &Deduping { dry_run: true, ..how }).1;
        let (after, done) = dedup(shape, &medium, &how);
        assert_eq!(done.shared, 2 * own.len() as u64, "{}", shape.name);
        assert_eq!(done, dry, "{}", shape.name);
        assert!(done.freed >= 2 * own.len() as u64, "noise is as long as it is");
        assert_eq!(look(shape, after.clone()), shown);
        assert_eq!(dedup(shape, &after, &how).1.shared, 0, "{}", shape.name);
        // A little memory is enough, in more passes.
        let (after, little) = dedup(shape, &medium, &Deduping { memory: 0, ..how });
        assert_eq!((little.shared, little.passes > 1), (done.shared, true), "{}", shape.name);
        assert_eq!(look(shape, after), shown);
    }
}

/// A hash that is the same for all, or for many: bytes are compared.
#[test]
fn a_bad_hash_shares_nothing_wrong() {
    for shape in &SHAPES {
        let medium = filled(shape, &mixed(&mut Chance::new(4)), Some(2));
        let shown = look(shape, medium.clone());
        let pace = |_, _| true;
        for hash in [|_: &[u8]| 7, |bytes: &[u8]| u64::from(bytes[0] % 4)] {
            let how = Deduping { hash, ..Deduping::new(MEMORY, &pace) };
            assert_eq!(look(shape, dedup(shape, &medium, &how).0), shown, "{}", shape.name);
        }
    }
}

#[test]
fn it_survives_every_cut() {
    let pace = |_, _| true;
    let how = Deduping::new(MEMORY, &pace);
    for shape in &SHAPES {
        let medium = filled(shape, &mixed(&mut Chance::new(5)), Some(4));
        let shown = look(shape, medium.clone());
        let device = Arc::new(shape.device(medium.clone()));
        let mut volume = shape.open(Arc::clone(&device), true).expect("it opens");
        let done = volume.dedup(&how).expect("done");
        assert!(done.blocks > 0, "{}: {done:?}", shape.name);
        drop(volume);
        let mut replay = Replay::new(medium, shape.zones.map(|zones| zones.len), false);
        let (mut chance, mut states) = (Chance::new(6), 0);
        for op in &device.ops() {
            replay.step(op);
            replay.states(DOSE, &mut chance, &mut |state| {
                assert_eq!(look(shape, state.clone()), shown, "{}: other files", shape.name);
                states += 1;
                if states % 8 == 0 {
                    let (again, _) = dedup(shape, &state, &how);
                    assert_eq!(look(shape, again.clone()), shown, "{}", shape.name);
                    goes_on(shape, &shape.device(again)).unwrap();
                }
            });
        }
        println!("{}: {states} states, {done:?}", shape.name);
    }
}
