//! What a device that fails for good leaves behind: parts that are torn, in every place where the log may go on.
//! Whoever goes on behind them, on a device that is sound again, loses nothing that was answered, however often.

use esker::store::Store as _;
use esker_proof::chance::Chance;
use esker_proof::cut::{SHAPES, Shape};
use esker_proof::harness::seed;
use esker_proof::lying::{Plan, Request};
use esker_proof::place::{BLOCK, Files, Place, noise};
use esker_volume::device::{Fault, Zones};

/// Blocks of the file.
const BLOCKS: usize = 96;
/// Volumes of each shape, and how often each fails.
const CASES: u64 = 24;
const FAILURES: usize = 6;
/// Syncs until it fails, at most, and that go on behind it.
const SYNCS: u64 = 8;
/// The write that fails first is one of so many.
const WRITES: u64 = 24;

/// Short zones: the log goes on in the next one every few commits.
const SHORT: Shape = Shape {
    name: "short zones",
    zones: Some(Zones { len: 128 << 10, capacity: 128 << 10, active: 4 }),
    segment_len: 128 << 10,
    size: 8 << 20,
    ..SHAPES[0]
};

/// Writes some of the file over, and makes that safe.
fn change(place: &mut Place, chance: &mut Chance) -> esker::Result<()> {
    let count = 1 + chance.below(BLOCKS as u64 / 3) as usize;
    let at = chance.below((BLOCKS - count) as u64) as usize * BLOCK;
    let (own, (_, ino, bytes)) = (noise(chance, count * BLOCK), &mut place.files[0]);
    bytes[at..at + own.len()].copy_from_slice(&own);
    place.fs.write(*ino, at as u64, &own, false)?;
    place.fs.store().sync()
}

fn again(place: &Place) -> Place {
    let left = place.shape.device(place.device.medium());
    Place::on(place.shape, left).unwrap_or_else(|why| panic!("{}: {why}", place.shape.name))
}

/// All writes fail from one on, or all barriers, or both: there may be something whole behind the last barrier. What
/// is there then is what was synced last, or something that came since.
fn fail(place: &mut Place, chance: &mut Chance) -> Files {
    // A zone that cannot be finished stays active, and no device lets a write into one more.
    let both = if place.shape.zones.is_some() { Request::Flush } else { Request::Any };
    let request = *chance.pick(&[Request::Write, Request::Flush, both]);
    let nth = chance.below(WRITES);
    let plan = Plan { request, nth, forever: true, fault: Fault::Io(None) };
    place.device.plan(Some(plan));
    let mut since = vec![place.files.clone()];
    for _ in 0..SYNCS {
        if change(place, chance).is_ok() {
            since.clear();
        }
        since.push(place.files.clone());
    }
    place.device.plan(None);
    let found = again(place);
    let there = since.into_iter().rev().find(|files| found.same(files).is_ok());
    there.unwrap_or_else(|| panic!("{}, {plan:?}: what was synced is gone", place.shape.name))
}

#[test]
fn what_is_synced_behind_torn_parts_is_there() {
    println!("ESKER_SEED={:#x}", seed());
    for shape in [SHAPES[0], SHAPES[4], SHORT] {
        for case in 0..CASES {
            let chance = &mut Chance::new(seed() ^ case);
            let mut place = Place::new(shape, case);
            place.write("file", noise(chance, BLOCKS * BLOCK));
            place.sync();
            for failure in 0..FAILURES {
                let files = fail(&mut place, chance);
                place = again(&place);
                place.files = files;
                // Where too many stretches refused bytes nothing can be written any more.
                if change(&mut place, chance).is_err() {
                    break;
                }
                (1..1 + chance.below(3)).for_each(|_| change(&mut place, chance).expect("a sync"));
                // What is closed says of all that it was safe, in a superblock from which the log may begin earlier.
                if chance.below(2) == 0 {
                    place.fs.store().volume().close().expect("it is closed");
                }
                let found = again(&place);
                let why = |why| panic!("{}, case {case}, failure {failure}: {why}", shape.name);
                found.same(&place.files).unwrap_or_else(why);
                place = Place { files: place.files, ..found };
            }
        }
    }
}
