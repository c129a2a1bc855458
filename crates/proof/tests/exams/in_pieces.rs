//! Blocks of which something was written over: what is left of them is needed, and no more; so little is moved when
//! room is made, and whatever happens besides, the files hold what they were given and all that is counted is right.

use std::sync::Arc;

use esker::posix::{Caller, SetAttr};
use esker::store::View as _;
use esker_proof::chance::Chance;
use esker_proof::cut::{SHAPES, Shape};
use esker_proof::harness::seed;
use esker_proof::lying::states::Dose;
use esker_proof::place::{BLOCK, Files, Place, noise};
use esker_stone::Codec;
use esker_volume::recover::{Repairing, repair};

const KIB: usize = 1 << 10;
/// Long blocks that nothing shortens. Few segments: nothing is moved before it must.
const FEW: Shape =
    Shape { name: "few segments", block_len: 32 << 10, codec: Codec::None, ..SHAPES[0] };
/// Many: what is needed of the emptiest is moved before each commit.
const MANY: Shape = Shape {
    name: "many segments",
    size: 16 << 20,
    recent_len: 64 << 10,
    table_len: 16 << 10,
    codec: Codec::Zstd,
    ..FEW
};

/// However much of a block is written over, and wherever: all blocks together take what the files hold.
#[test]
fn what_is_left_is_what_counts() {
    for shape in [FEW, MANY] {
        let (mut place, chance) = (Place::new(shape, 1), &mut Chance::new(1));
        let len = 512 * KIB;
        place.write("file", noise(chance, len));
        place.sync();
        assert_eq!(place.needed(), len as u64);
        for _ in 0..200 {
            let at = chance.below(len as u64 - 40_000) as usize / 8 * 8;
            let own = 8 + chance.below(40_000 / 8) as usize * 8;
            place.overwrite(0, at, &noise(chance, own.min(len - at)));
            place.sync();
            // Of what is short nothing is told apart from the rest of it.
            let most = len as u64 * 5 / 4;
            assert!((len as u64..=most).contains(&place.needed()), "{}", place.needed());
        }
        place.holds();
        place.remove(0);
        place.sync();
        assert_eq!(place.needed(), 0);
    }
}

/// The first pass over a volume that is nearly full: each block loses a part soon, and no commit makes up for all of
/// that at once.
#[test]
fn little_is_moved_at_once() {
    let shape = Shape { size: 64 << 20, recent_len: 256 << 10, table_len: 32 << 10, ..MANY };
    let (mut place, chance) = (Place::new(shape, seed()), &mut Chance::new(seed()));
    let volume = |place: &Place| Arc::clone(place.fs.store().shared());
    let mut number = 0;
    let full = |place: &Place| {
        let space = place.fs.store().space();
        space.used * 100 / space.total
    };
    while full(&place) < 85 {
        place.write(&format!("f{number}"), noise(chance, 1 << 20));
        place.sync();
        number += 1;
    }
    let blocks = (1 << 20) / BLOCK as u64;
    let (mut most, mut sum, mut user) = (0, 0, 0);
    for _ in 0..number * blocks / 32 {
        for _ in 0..32 {
            let (file, block) = (chance.below(number) as usize, chance.below(blocks) as usize);
            place.overwrite(file, block * BLOCK, &noise(chance, BLOCK));
        }
        let before = volume(&place).counted();
        place.sync();
        let done = volume(&place).counted().since(&before);
        let written = done.blocks + done.moved;
        (most, sum, user) = (most.max(written), sum + written, user + 32 * BLOCK as u64);
    }
    println!("{most} bytes at most in one sync, {} for each", sum as f64 / user as f64);
    let segment = volume(&place).shape().segment_len;
    assert!(most < 16 * segment, "{most} in one sync");
    assert!(sum < 6 * user, "{sum} for {user}");
    let held: usize = place.files.iter().map(|(.., bytes)| bytes.len()).sum();
    assert!(place.needed() < held as u64 * 33 / 32, "{} for {held}", place.needed());
    place.holds();
}

/// Writes some files of a mebibyte, and as many blocks of them over as they have, or part of that.
fn fill_and_overwrite(place: &mut Place, files: u64, rounds: u64, chance: &mut Chance) {
    let first = place.files.len() as u64;
    for file in 0..files {
        place.write(&format!("f{file}"), noise(chance, 1 << 20));
        place.sync();
    }
    let blocks = (1 << 20) / BLOCK as u64;
    for _ in 0..rounds {
        for _ in 0..32 {
            let (file, block) = (first + chance.below(files), chance.below(blocks) as usize);
            place.overwrite(file as usize, block * BLOCK, &noise(chance, BLOCK));
        }
        place.sync();
    }
}

/// A snapshot of nearly nothing keeps no room of what came behind it, however often that is written over.
#[test]
fn a_snapshot_keeps_no_more_than_it_has() {
    let many = Shape { size: 64 << 20, recent_len: 256 << 10, table_len: 32 << 10, ..MANY };
    let few = Shape { size: 7 << 20, ..FEW };
    for (shape, files, rounds, snapshot) in
        [(many, 42, 336, true), (few, 3, 72, false), (few, 3, 72, true)]
    {
        let (mut place, chance) = (Place::new(shape, seed()), &mut Chance::new(seed()));
        place.write("kept", noise(chance, 104));
        if snapshot {
            place.keep("kept".to_owned()).expect("room");
        }
        fill_and_overwrite(&mut place, files, rounds, chance);
        place.holds();
    }
}

/// Where little is free, room is made for another snapshot before it is refused.
#[test]
fn another_snapshot_finds_room_where_all_was_written_over() {
    let (mut place, chance) = (Place::new(MANY, seed()), &mut Chance::new(seed()));
    fill_and_overwrite(&mut place, 12, 384, chance);
    for number in 0..3 {
        place.keep(format!("s{number}")).expect("room");
    }
    place.holds();
}

/// What is damaged stays where it is, and room is made of all else: nobody else's writing fails for it.
#[test]
fn damage_does_not_stop_who_makes_room() {
    let shape = Shape { size: 12 << 20, ..MANY };
    let (mut place, chance) = (Place::new(shape, seed()), &mut Chance::new(seed()));
    let victim = place.write("victim", noise(chance, 300 << 10));
    place.sync();
    // What is torn at the end of a log was never said.
    place.fs.store().volume().close().expect("it is closed");
    let mut medium = place.device.medium();
    let mut all = vec![0; medium.size() as usize];
    medium.read(0, &mut all);
    let bytes = &place.files[0].2;
    for at in [0, 100 << 10, 200 << 10] {
        let found = all.windows(64).position(|own| own == &bytes[at..at + 64]);
        medium.rot(found.expect("it is stored as it is") as u64 * 8 + 13);
    }
    let files = place.files.clone();
    let mut place = Place::on(shape, shape.device(medium)).expect("it opens");
    place.files = files;
    fill_and_overwrite(&mut place, 8, 192, chance);
    let mut some = [0; 100];
    let read = place.fs.read(victim, 0, &mut some);
    assert!(read.is_err(), "{read:?} of what is damaged");
    place.fs.read(victim, 60 << 10, &mut some).expect("what is beside it");
    // All else is as it was given.
    for (name, ino, bytes) in place.files.split_off(1) {
        let mut found = vec![0; bytes.len()];
        place.fs.read(ino, 0, &mut found).expect("it is read");
        assert!(found == bytes, "{name}");
    }
}

/// A part of a file becomes one of another, which then shares its blocks.
fn copy(place: &mut Place, from: usize, to: usize, chance: &mut Chance) {
    place.sync();
    let len = chance.below(place.files[from].2.len().min(place.files[to].2.len()) as u64 / 8) * 8;
    let at = chance.below((place.files[from].2.len() as u64 - len) / 8 + 1) * 8;
    let to_at = chance.below((place.files[to].2.len() as u64 - len) / 8 + 1) * 8;
    let (source, target) = (place.files[from].1, place.files[to].1);
    let done = place.fs.copy_range(&Caller::ROOT, (source, at), (target, to_at), len);
    let done = done.expect("room") as usize;
    let bytes = place.files[from].2[at as usize..at as usize + done].to_vec();
    place.files[to].2[to_at as usize..to_at as usize + done].copy_from_slice(&bytes);
}

fn shorten(place: &mut Place, file: usize, chance: &mut Chance) {
    let (_, ino, bytes) = &mut place.files[file];
    let len = (1 + chance.below(bytes.len() as u64 / 8)) * 8;
    bytes.truncate(len as usize);
    let set = SetAttr { size: Some(len), ..SetAttr::default() };
    place.fs.setattr(&Caller::ROOT, *ino, &set).expect("cut");
}

/// Some steps of anything, with snapshots kept, deleted and gone back to, and bytes that files share.
fn churn(shape: Shape, steps: u64, seed: u64) {
    let (mut place, chance) = (Place::new(shape, seed), &mut Chance::new(seed));
    let mut kept: Vec<(String, Files)> = Vec::new();
    for step in 0..steps {
        let files = place.files.len() as u64;
        let (file, other) = (chance.below(files.max(1)), chance.below(files.max(1)));
        let (file, other) = (file as usize, other as usize);
        match chance.below(28) {
            _ if files == 0 => drop(place.write(&format!("f{step}"), noise(chance, 256 * KIB))),
            0 | 1 if files < 6 => {
                let len = (1 + chance.below(24)) as usize * 2 * BLOCK;
                place.write(&format!("f{step}"), noise(chance, len));
            }
            2 => place.remove(file),
            3 => place.again(),
            4 if kept.len() < 3 => kept.extend(place.keep(format!("s{step}"))),
            5 | 6 if !kept.is_empty() => {
                let (name, _) = kept.remove(chance.below(kept.len() as u64) as usize);
                place.fs.store().volume().delete_snapshot(&name).expect("it is deleted");
            }
            7 if !kept.is_empty() => {
                let (name, files) = &kept[chance.below(kept.len() as u64) as usize];
                place.go_back(name, files);
            }
            8 if file != other => copy(&mut place, file, other, chance),
            9 => shorten(&mut place, file, chance),
            10..14 if place.files[file].2.len() >= BLOCK => {
                let block = chance.below((place.files[file].2.len() / BLOCK) as u64);
                place.alter(file, block as usize, chance);
            }
            _ => {
                let len = place.files[file].2.len();
                let own = 8 + chance.below(len.min(48 * KIB) as u64 / 8) as usize * 8;
                let at = chance.below(len as u64 / 8) as usize * 8;
                place.overwrite(file, at, &noise(chance, own.min(len - at)));
            }
        }
        place.sync();
        if step % 8 == 0 {
            place.holds();
            for (name, files) in &kept {
                place.looks_like(name, files);
            }
        }
    }
    place.holds();
    while let Some((name, files)) = kept.pop() {
        place.looks_like(&name, &files);
        place.fs.store().volume().delete_snapshot(&name).expect("it is deleted");
        place.holds();
    }
    while !place.files.is_empty() {
        place.remove(0);
    }
    place.sync();
    place.holds();
    assert_eq!(place.needed(), 0, "{}, {seed:#x}", place.shape.name);
}

#[test]
fn anything_may_happen_to_blocks_in_pieces() {
    for round in 0..4 {
        churn(FEW, 240, seed() ^ round);
        churn(MANY, 240, seed() ^ round);
        churn(SHAPES[2], 240, seed() ^ round);
    }
}

/// A volume that is so full that blocks are moved before most commits.
fn full(shape: Shape, chance: &mut Chance) -> Place {
    let mut place = Place::new(shape, chance.number());
    for file in 0..9 {
        place.write(&format!("f{file}"), noise(chance, 1 << 20));
        place.sync();
    }
    place.holds();
    place
}

fn overwrite_some(place: &mut Place, blocks: usize, chance: &mut Chance) {
    for _ in 0..blocks {
        let (file, block) = (chance.below(9) as usize, chance.below(256) as usize);
        place.overwrite(file, block * BLOCK, &noise(chance, BLOCK));
    }
    place.sync();
}

/// Whenever power goes, what was made safe is there.
#[test]
fn what_is_told_again_survives_every_cut() {
    let chance = &mut Chance::new(seed());
    let mut place = full(MANY, chance);
    (0..24).for_each(|_| overwrite_some(&mut place, 32, chance));
    let mut watched = place.watched();
    let before = place.fs.store().volume().counted();
    for _ in 0..10 {
        overwrite_some(&mut place, 16, chance);
        watched.is_safe(&place);
    }
    let done = place.fs.store().volume().counted().since(&before);
    assert!(done.folded > 0, "nothing was told again");
    let dose = Dose { subsets: 1, torn: 1, garbage: 0 };
    let states = watched.cut(dose, chance, &mut |_| {});
    println!("{states} states, {} bytes told again", done.folded);
    assert!(states > 20, "{states}");
}

/// Repairing counts such blocks as a whole, and what is written over from then on is right again.
#[test]
fn a_repaired_volume_goes_on() {
    let chance = &mut Chance::new(seed());
    let mut place = full(MANY, chance);
    (0..24).for_each(|_| overwrite_some(&mut place, 32, chance));
    let device = MANY.device(place.device.medium());
    let done =
        repair(&device, MANY.options(true), Repairing { write: true, ..Repairing::default() });
    assert!(done.expect("it is repaired").damaged.is_empty());
    let mut found = Place::on(MANY, MANY.device(device.medium())).expect("it opens");
    found.same(&place.files).expect("all is there");
    found.files = place.files.clone();
    (0..24).for_each(|_| overwrite_some(&mut found, 32, chance));
    found.holds();
    (0..9).for_each(|_| found.remove(0));
    found.sync();
    assert_eq!(found.needed(), 0);
}
