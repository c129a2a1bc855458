//! Blocks that are stored as what differs from those whose place they took: little is written, nothing is held for
//! ever, and whatever happens to either the files hold what they were given and all that is counted is right.

use esker::store::View as _;
use esker_proof::busy::Busy;
use esker_proof::chance::Chance;
use esker_proof::cut::{SHAPES, Shape};
use esker_proof::harness::seed;
use esker_proof::lying::medium::Medium;
use esker_proof::lying::states::Dose;
use esker_proof::place::{BLOCK, Files, Place, noise};
use esker_stone::Codec;
use esker_volume::device::Zones;
use esker_volume::recover::{Repairing, repair};
use esker_volume::scrub::Scrubbing;

/// Few segments: nothing is moved before it must.
const FEW: Shape = Shape { name: "few segments", codec: Codec::Zstd, ..SHAPES[0] };
/// Many: what is needed of the emptiest is moved before each commit.
const MANY: Shape = Shape {
    name: "many segments",
    size: 16 << 20,
    recent_len: 64 << 10,
    table_len: 16 << 10,
    ..FEW
};

/// Writes all blocks of the first file again, a little changed, so that they are looked at from then on.
fn alter_some(place: &mut Place, chance: &mut Chance) {
    let blocks = place.files[0].2.len() / BLOCK;
    (0..blocks).for_each(|block| place.alter(0, block, chance));
    place.sync();
}

/// What resembles what it takes the place of takes little, however often; and when it does not any more, or is gone,
/// nothing is held for it.
#[test]
fn little_changes_take_little() {
    let (mut place, chance) = (Place::new(FEW, 1), &mut Chance::new(1));
    place.write("file", noise(chance, 16 * BLOCK));
    place.sync();
    place.holds();
    let full = place.needed();
    // Of what is not in memory one in 16 is read, until something resembled.
    (0..16).for_each(|block| place.alter(0, block, chance));
    let alike = place.sync().1;
    assert!(alike >= BLOCK as u64, "{alike}");
    for _ in 0..5 {
        (0..16).for_each(|block| place.alter(0, block, chance));
        let (written, alike) = place.sync();
        assert_eq!(alike, 16 * BLOCK as u64);
        assert!(written < 16 * 200, "{written}");
    }
    let more = place.needed();
    assert!(more < full + 16 * 200, "one delta each: {more}, {full} before");
    place.holds();
    // From scratch.
    place.overwrite(0, 0, &noise(chance, 16 * BLOCK));
    assert_eq!(place.sync().1, 0);
    assert!(place.needed() <= full, "{} of {full}", place.needed());
    place.holds();
    alter_some(&mut place, chance);
    (0..16).for_each(|block| place.alter(0, block, chance));
    assert_eq!(place.sync().1, 16 * BLOCK as u64);
    place.remove(0);
    place.sync();
    assert_eq!(place.needed(), 0);
    place.holds();
}

/// Bytes that never resemble what was there cost no room beside themselves.
#[test]
fn what_does_not_resemble_is_written() {
    let (mut place, chance) = (Place::new(FEW, 2), &mut Chance::new(2));
    place.write("file", noise(chance, 16 * BLOCK));
    place.sync();
    place.holds();
    for _ in 0..8 {
        place.overwrite(0, 0, &noise(chance, 16 * BLOCK));
        let (written, alike) = place.sync();
        assert_eq!((written, alike), (16 * BLOCK as u64, 0));
    }
    place.holds();
}

/// A delta is read from what it differs from: that it is damaged is told, of the delta's file, and nothing else is
/// returned.
#[test]
fn a_damaged_base_is_told_of_its_deltas() {
    let (mut place, chance) = (Place::new(FEW, 3), &mut Chance::new(3));
    place.write("file", noise(chance, BLOCK));
    place.write("other", noise(chance, BLOCK));
    place.sync();
    place.holds();
    let first = place.files[0].2[..BLOCK].to_vec();
    alter_some(&mut place, chance);
    place.alter(0, 0, chance);
    assert_eq!(place.sync().1, BLOCK as u64);
    let ino = place.files[0].1;
    drop(place.fs);
    let mut all = vec![0; place.device.medium().size() as usize];
    place.device.medium().read(0, &mut all);
    let at = all.windows(BLOCK).position(|window| window == first).expect("it is needed");
    all[at + 5] ^= 0x40;
    let mut medium = Medium::new(all.len() as u64);
    medium.write(0, &all);
    let damaged = Place::on(FEW, FEW.device(medium.clone())).expect("it opens");
    assert_eq!(damaged.fs.read(ino, 0, &mut [0; BLOCK]), Err(esker::Error::Io));
    let volume = damaged.fs.store().volume();
    let done = volume.scrub(&Scrubbing::all(&|_| true)).expect("it can be read");
    let names: Vec<_> = done.files.iter().map(|(path, _)| path.as_slice()).collect();
    assert_eq!(names, [&b"/file"[..]]);
    let found: Vec<_> = volume.check().iter().map(ToString::to_string).collect();
    let told = |what: &str| found.iter().filter(|text| text.contains(what)).count();
    assert_eq!((told("a checksum is wrong"), told("a difference from is damaged")), (1, 1));
    // What is recovered says so too, and a repaired volume checks clean.
    let device = FEW.device(medium);
    repair(&device, FEW.options(true), Repairing { write: true, ..Repairing::default() })
        .expect("it is repaired");
    let volume = FEW.open(&device, false).expect("it opens");
    assert_eq!(volume.check(), []);
}

/// Some steps of anything, with snapshots kept, deleted and gone back to.
fn churn(shape: Shape, steps: u64, seed: u64) {
    let (mut place, chance) = (Place::new(shape, seed), &mut Chance::new(seed));
    let mut kept: Vec<(String, Files)> = Vec::new();
    let mut alike = 0;
    for step in 0..steps {
        match chance.below(24) {
            _ if place.files.is_empty() => {
                place.write(&format!("f{step}"), noise(chance, 24 * BLOCK));
            }
            0 if place.files.len() < 5 => {
                let len = (1 + chance.below(24)) as usize * BLOCK;
                place.write(&format!("f{step}"), noise(chance, len));
            }
            1 => place.remove(chance.below(place.files.len() as u64) as usize),
            2 => place.again(),
            3 if kept.len() < 4 => kept.extend(place.keep(format!("s{step}"))),
            4 if !kept.is_empty() => {
                let (name, _) = kept.remove(chance.below(kept.len() as u64) as usize);
                place.fs.store().volume().delete_snapshot(&name).expect("it is deleted");
            }
            5 if !kept.is_empty() => {
                let (name, files) = &kept[chance.below(kept.len() as u64) as usize];
                place.go_back(name, files);
            }
            6 => {
                let file = chance.below(place.files.len() as u64) as usize;
                let len = place.files[file].2.len();
                let at = chance.below((len / BLOCK) as u64) as usize * BLOCK;
                let most = (len - at).min(9000);
                place.overwrite(file, at, &noise(chance, most));
            }
            _ => {
                let file = chance.below(place.files.len() as u64) as usize;
                let blocks = (place.files[file].2.len() / BLOCK) as u64;
                (0..1 + chance.below(6)).for_each(|_| {
                    let block = chance.below(blocks) as usize;
                    place.alter(file, block, chance);
                });
            }
        }
        alike += place.sync().1;
        if step % 16 == 0 {
            place.holds();
            for (name, files) in &kept {
                place.looks_like(name, files);
            }
        }
    }
    assert!(alike > 0, "{}, {seed:#x}: there were no deltas", place.shape.name);
    place.holds();
    for (name, files) in std::mem::take(&mut kept) {
        place.looks_like(&name, &files);
        let volume = place.fs.store().volume();
        let held = volume.held_by_snapshots().expect("it is counted");
        let alone =
            held.iter().find(|(row, _)| row.name == name.as_bytes()).map(|(_, own)| own.blocks);
        let before = place.needed();
        volume.delete_snapshot(&name).expect("it is deleted");
        assert_eq!(Some(before - place.needed()), alone, "{name}, {seed:#x}");
        place.holds();
    }
}

#[test]
fn anything_may_happen_to_deltas() {
    for round in 0..4 {
        churn(FEW, 300, seed() ^ round);
        churn(MANY, 300, seed() ^ round);
        churn(SHAPES[2], 300, seed() ^ round);
    }
}

/// What is nearly full, and so moves all the time, holds little besides what its files have: deltas whose segments are
/// emptied are written as a whole.
#[test]
fn deltas_become_whole_when_they_are_moved() {
    let (mut place, chance) = (Place::new(MANY, seed()), &mut Chance::new(seed()));
    let full = |place: &Place| {
        let space = place.fs.store().space();
        space.used * 100 / space.total
    };
    let mut number = 0;
    while full(&place) < 60 {
        place.write(&format!("f{number}"), noise(chance, 16 * BLOCK));
        place.sync();
        number += 1;
    }
    // Of a file that nobody writes any more nothing stays a delta when what lies beside it goes.
    place.write("still", noise(chance, 16 * BLOCK));
    place.sync();
    let still = place.files.len() - 1;
    for _ in 0..3 {
        (0..16).for_each(|block| place.alter(still, block, chance));
        place.sync();
    }
    let begun = place.fs.store().volume().deltas();
    assert_eq!(begun, 16 * BLOCK as u64);
    for _ in 0..2 * number * 16 / 8 {
        for _ in 0..8 {
            let (file, block) = (chance.below(number) as usize, chance.below(16) as usize);
            place.overwrite(file, block * BLOCK, &noise(chance, BLOCK));
        }
        place.sync();
    }
    assert_eq!(place.fs.store().volume().deltas(), 0);
    place.holds();
    let (mut alike, mut most) = (0, 0);
    for _ in 0..3 * number * 16 / 8 {
        for _ in 0..8 {
            let file = chance.below(number) as usize;
            let block = chance.below(16) as usize;
            if chance.below(4) == 0 {
                place.overwrite(file, block * BLOCK, &noise(chance, BLOCK));
            } else {
                place.alter(file, block, chance);
            }
        }
        alike += place.sync().1;
        most = most.max(place.fs.store().volume().deltas());
    }
    assert!(alike > 0 && most > 0, "there were deltas");
    let limit = MANY.size / 16;
    assert!(most <= limit, "{most} of {limit}");
    place.holds();
}

/// Whenever power goes, what was made safe is there.
#[test]
fn deltas_survive_every_cut() {
    for (shape, seed) in [(FEW, seed()), (MANY, seed() ^ 1), (SHAPES[2], seed() ^ 2)] {
        let (mut place, chance) = (Place::new(shape, seed), &mut Chance::new(seed));
        (0..3).for_each(|file| _ = place.write(&format!("f{file}"), noise(chance, 16 * BLOCK)));
        place.sync();
        place.holds();
        let mut watched = place.watched();
        for _ in 0..12 {
            let file = chance.below(3) as usize;
            (0..6).for_each(|_| place.alter(file, chance.below(16) as usize, chance));
            place.overwrite(file, 0, &noise(chance, 2 * BLOCK));
            place.sync();
            watched.is_safe(&place);
        }
        let dose = Dose { subsets: 2, torn: 1, garbage: 0 };
        let states = watched.cut(dose, chance, &mut |_| {});
        assert!(states > 50, "{states}");
    }
}

/// Small blocks, which are deltas or not as a whole: all that is told again are deltas.
const BUSY: Shape = Shape { name: "busy", block_len: 4 << 10, size: 72 * (128 << 10), ..MANY };
/// The same in zones, of which as many are active as it takes for blocks to be moved.
const BUSY_ZONES: Shape = Shape {
    name: "busy zones",
    zones: Some(Zones { len: 128 << 10, capacity: 128 << 10, active: 5 }),
    ..BUSY
};

/// While deltas are written as a whole so that their segments can be emptied, and their bases are let go of, power may
/// go at any operation, and any write or barrier may fail.
#[test]
fn deltas_that_are_moved_survive_cuts_and_failures() {
    println!("ESKER_SEED={:#x}", seed());
    for shape in [BUSY, BUSY_ZONES] {
        let wanted = ["resembling", "moved", "told again"];
        let episode = Busy::new(shape, seed()).episode(&wanted);
        let (did, runs) = episode.fail(8);
        for did in [&did, &episode.did] {
            assert!(wanted.iter().all(|what| did[what] > 0), "{}: {did:?}", shape.name);
        }
        let dose = Dose { subsets: 1, torn: 1, garbage: 0 };
        let told = episode.did["told again"];
        let states = episode.cut(dose, 1, &mut Chance::new(seed()));
        println!("{}: {states} states, {runs} failures, {told} bytes told again", shape.name);
        assert!(states > 50 && runs > 8, "{states} states, {runs} failures");
    }
}

/// Nothing that is taken away makes what is recovered wrong: it is what some file held, or named as damaged.
#[test]
fn what_is_recovered_is_right() {
    let (mut place, chance) = (Place::new(SHAPES[2], 9), &mut Chance::new(9));
    (0..8).for_each(|file| _ = place.write(&format!("f{file}"), noise(chance, 8 * BLOCK)));
    place.sync();
    place.holds();
    for _ in 0..30 {
        place.alter(chance.below(8) as usize, chance.below(8) as usize, chance);
        place.sync();
    }
    assert!(place.fs.store().volume().deltas() > 0);
    let device = SHAPES[2].device(place.device.medium());
    let done =
        repair(&device, SHAPES[2].options(true), Repairing { write: true, ..Repairing::default() });
    assert!(done.expect("it is repaired").damaged.is_empty());
    let mut found = Place::on(SHAPES[2], SHAPES[2].device(device.medium())).expect("it opens");
    found.same(&place.files).expect("all is there");
    // It goes on with its deltas.
    found.files = place.files.clone();
    (0..8).for_each(|file| found.alter(file, 0, chance));
    found.sync();
    (0..8).for_each(|_| found.remove(0));
    found.sync();
    found.holds();
    assert_eq!((found.needed(), found.fs.store().volume().deltas()), (0, 0));
}
