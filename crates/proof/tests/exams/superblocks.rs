//! What superblocks say: the newest counts, also one that a newer version wrote; and without any of them the root of a
//! volume of one copy is found by the head before it, with all snapshots.

use std::sync::Arc;

use esker::posix::{Caller, Fs, New};
use esker::store::View as _;
use esker::{Ino, Kind, Name, Time};
use esker_proof::cut::{SHAPES, Shape};
use esker_proof::harness::seed;
use esker_proof::lying::medium::Medium;
use esker_proof::world::on_volume::mount;
use esker_stone::Unsupported;
use esker_volume::recover::{Repairing, repair};
use esker_volume::{Error, Snapped, Superblock};

fn clock() -> Time {
    Time { secs: 1_700_000_000, nanos: 0 }
}

const LEN: usize = 9000;

/// A volume with a file that was written over, with a snapshot before each time; and what the file held.
fn made(shape: &Shape) -> (Medium, Ino, Vec<(String, u8)>) {
    let device = shape.fresh(seed());
    let fs = Fs::new(mount(shape, Arc::clone(&device)).expect("it opens"), clock);
    let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
    let name = Name::parse(b"file").expect("a name");
    let ino = fs.create(&Caller::ROOT, Ino::ROOT, name, new).expect("room").ino;
    let mut told = Vec::new();
    for byte in 1..5 {
        fs.write(ino, 0, &[byte; LEN], false).expect("room");
        fs.sync().expect("a sync");
        let name = format!("s{byte}");
        fs.store().create_snapshot(&name).expect("it is made");
        told.push((name, byte));
    }
    fs.store().volume().close().expect("it closes");
    (device.medium(), ino, told)
}

/// Where superblocks lie, and what they say.
fn superblocks(medium: &Medium) -> Vec<(u64, Superblock)> {
    let mut bytes = vec![0; medium.size() as usize];
    medium.read(0, &mut bytes);
    let all = (0..bytes.len()).step_by(512);
    all.filter_map(|at| Some((at as u64, Superblock::parse(&bytes[at..at + 512]).ok()?))).collect()
}

#[test]
fn a_root_is_found_without_superblocks() {
    for shape in SHAPES.iter().filter(|shape| shape.copies == 1) {
        let (mut medium, ino, told) = made(shape);
        superblocks(&medium).iter().for_each(|(at, _)| medium.write(*at, &[0; 512]));
        let device = shape.device(medium);
        if shape.zones.is_some() {
            // Nothing can be written there in place: superblocks go on behind those that were.
            continue;
        }
        let done = repair(
            &device,
            shape.options(true),
            Repairing { write: true, keep_older: false, drop_snapshots: false },
        );
        let done = done.unwrap_or_else(|error| panic!("{}: {error}", shape.name));
        assert!(done.gone.is_empty() && !done.unknown_snapshots, "{}: {done:?}", shape.name);
        let volume = Arc::new(shape.open(&device, false).expect("it opens"));
        assert_eq!(volume.check(), [], "{}", shape.name);
        for (name, byte) in told {
            let seen = Snapped::new(Arc::clone(&volume), &name).expect("it is there");
            let mut bytes = vec![0; LEN + 1];
            assert_eq!(seen.read(ino, 0, &mut bytes), Ok(LEN));
            assert!(bytes[..LEN].iter().all(|&own| own == byte), "{}: {name}", shape.name);
        }
    }
}

/// Beside older ones that are understood, what a newer version wrote last is not passed over, and what it wrote before
/// is.
#[test]
fn what_a_newer_version_wrote_last_is_refused() {
    let shape = &SHAPES[0];
    let (medium, ..) = made(shape);
    let all = superblocks(&medium);
    assert!(all.len() > 4);
    let newest = all.iter().map(|(_, own)| own.generation).max().expect("some");
    for (at, own) in all {
        let mut medium = medium.clone();
        let newer = Superblock { incompatible: own.incompatible | 1 << 40, ..own };
        medium.write(at, &newer.sealed());
        let opened = shape.open(shape.device(medium), true).map(drop);
        let refused = Err(Error::Stone(Unsupported::Features(1 << 40).into()));
        let wanted = if own.generation == newest { refused } else { Ok(()) };
        assert_eq!(opened, wanted, "{}", own.generation);
    }
}
