//! Bytes that are written once more when nothing but a snapshot has them: the block is named again, and whatever
//! becomes of the snapshot, of the way back to it, of room and of power, what was made safe is there and all that is
//! counted is right.

use std::sync::Arc;

use esker::store::Store as _;
use esker_proof::chance::Chance;
use esker_proof::cut::{SHAPES, Shape};
use esker_proof::harness::{from_env, seed};
use esker_proof::lying::states::Dose;
use esker_proof::lying::{Plan, Request};
use esker_proof::place::{BLOCK, Files, Place, noise};
use esker_volume::Snapped;
use esker_volume::device::Fault;

/// What is needed of the emptiest segments is moved before each commit.
const MANY: Shape = Shape {
    name: "many segments",
    size: 16 << 20,
    recent_len: 64 << 10,
    table_len: 16 << 10,
    ..SHAPES[0]
};

/// The snapshots that there are, and what they have.
type Kept = Vec<(String, Files)>;

/// A place, and what some file held at any time.
struct Echo {
    place: Place,
    kept: Kept,
    past: Vec<Vec<u8>>,
    /// Files and snapshots that were named.
    next: usize,
}

impl Echo {
    fn new(shape: Shape, seed: u64) -> Self {
        Self { place: Place::new(shape, seed), kept: Vec::new(), past: Vec::new(), next: 0 }
    }

    /// A file with bytes that are new, or that some file had before.
    fn write(&mut self, chance: &mut Chance) {
        let again = !self.past.is_empty() && chance.below(3) > 0;
        let len = (2 + chance.below(12)) as usize * BLOCK;
        let bytes = if again { chance.pick(&self.past).clone() } else { noise(chance, len) };
        self.next += 1;
        self.past.push(bytes.clone());
        self.place.write(&format!("f{}", self.next), bytes);
    }

    /// Something or other; whether it is safe then.
    fn step(&mut self, chance: &mut Chance) {
        let count = self.place.files.len() as u64;
        match chance.below(10) {
            0..=3 => self.write(chance),
            4..=5 if count > 0 => self.place.remove(chance.below(count) as usize),
            6 if self.kept.len() < 3 => {
                self.next += 1;
                self.kept.extend(self.place.keep(format!("s{}", self.next)));
            }
            7 if !self.kept.is_empty() => {
                let (name, files) =
                    self.kept[chance.below(self.kept.len() as u64) as usize].clone();
                self.place.go_back(&name, &files);
            }
            8 if !self.kept.is_empty() => {
                self.forget(chance.below(self.kept.len() as u64) as usize)
            }
            _ => {}
        }
        self.place.sync();
        while self.place.files.len() > 12 {
            self.place.remove(0);
        }
    }

    /// Deletes a snapshot: exactly that becomes free which was said.
    fn forget(&mut self, at: usize) {
        self.place.sync();
        let (name, _) = self.kept.remove(at);
        let home = self.place.fs.store();
        let held = home.volume().held_by_snapshots().expect("it is counted");
        let own = held.iter().find(|(row, _)| row.name == name.as_bytes());
        let before = self.place.needed();
        home.delete_snapshot(&name).expect("it is deleted");
        let freed = before - self.place.needed();
        assert_eq!(Some(freed), own.map(|(_, held)| held.blocks), "{name}");
    }

    fn holds(&mut self) {
        self.place.holds();
        self.kept.iter().for_each(|(name, files)| self.place.looks_like(name, files));
    }
}

/// What a snapshot alone has is written again: nothing is laid down for it, and it stays when the snapshot goes.
#[test]
fn what_only_a_snapshot_had_is_named_again() {
    for shape in [SHAPES[0], SHAPES[2], MANY] {
        let (mut place, chance) = (Place::new(shape, 1), &mut Chance::new(1));
        let bytes = noise(chance, 24 * BLOCK);
        place.write("first", bytes.clone());
        let (one, files) = place.keep("one".to_owned()).expect("there is room");
        place.remove(0);
        place.sync();
        let before = place.needed();
        place.write("again", bytes);
        assert_eq!((place.sync().0, place.needed()), (0, before), "{}", shape.name);
        place.looks_like(&one, &files);
        place.fs.store().delete_snapshot(&one).expect("it is deleted");
        assert_eq!(place.needed(), before, "{}", shape.name);
        place.holds();
        place.remove(0);
        place.sync();
        assert_eq!(place.needed(), 0, "{}", shape.name);
        place.holds();
    }
}

#[test]
fn anything_may_happen_to_what_is_named_again() {
    for round in 0..from_env("ESKER_CASES", 3) {
        for shape in [SHAPES[0], SHAPES[2], MANY] {
            let seed = seed() ^ round;
            let (mut own, chance) = (Echo::new(shape, seed), &mut Chance::new(seed));
            for step in 0..160 {
                own.step(chance);
                if step % 8 == 0 {
                    own.holds();
                }
            }
            while !own.kept.is_empty() {
                own.forget(0);
                own.holds();
            }
            while !own.place.files.is_empty() {
                own.place.remove(0);
            }
            own.place.sync();
            assert_eq!(own.place.needed(), 0, "{}, seed {seed:#x}", shape.name);
        }
    }
}

/// Whenever power goes, what was made safe is there, and snapshots have what they had.
#[test]
fn what_is_named_again_survives_every_cut() {
    for (shape, seed) in [(SHAPES[0], seed()), (SHAPES[2], seed() ^ 1), (MANY, seed() ^ 2)] {
        let (mut own, chance) = (Echo::new(shape, seed), &mut Chance::new(seed));
        (0..6).for_each(|_| own.write(chance));
        own.kept.extend(own.place.keep("first".to_owned()));
        let mut watched = own.place.watched();
        // The snapshot that is there all the time.
        let first = own.kept[0].clone();
        for round in 0..10 {
            if !own.place.files.is_empty() {
                own.place.remove(0);
            }
            own.place.sync();
            watched.is_safe(&own.place);
            if round == 5 {
                own.place.go_back(&first.0, &first.1);
                watched.is_safe(&own.place);
            }
            own.write(chance);
            own.place.sync();
            watched.is_safe(&own.place);
        }
        let dose = Dose { subsets: 2, torn: 1, garbage: 0 };
        let states = watched.cut(dose, chance, &mut |found| found.looks_like(&first.0, &first.1));
        assert!(states > 50, "{states}");
    }
}

/// Where writing or a flush fails after bytes were named again, and where there is no room: what was safe before is
/// there, whichever snapshot went meanwhile.
#[test]
fn failures_take_nothing_that_was_safe() {
    for shape in [SHAPES[0], SHAPES[2], MANY] {
        let faults = [
            (Request::Write, 0, Fault::Io(Some(5))),
            (Request::Flush, 0, Fault::Io(Some(5))),
            (Request::Write, 1, Fault::Io(Some(5))),
            (Request::Write, 0, Fault::NoSpace),
        ];
        for (request, nth, fault) in faults {
            let seed = seed() ^ nth;
            let (mut place, chance) = (Place::new(shape, seed), &mut Chance::new(seed));
            let bytes = noise(chance, 20 * BLOCK);
            place.write("first", bytes.clone());
            let one = place.keep("one".to_owned()).expect("there is room");
            place.remove(0);
            place.write("other", noise(chance, 4 * BLOCK));
            place.sync();
            let safe = place.files.clone();
            place.write("again", bytes);
            place.device.plan(Some(Plan { request, nth, forever: true, fault }));
            let done = place.fs.store().sync();
            place.device.plan(None);
            let seen = place.device.medium();
            let again = Place::on(shape, shape.device(seen)).expect("it opens");
            let wanted = if done.is_ok() { &place.files } else { &safe };
            let fits = again.same(wanted).or_else(|_| again.same(&place.files));
            fits.unwrap_or_else(|why| panic!("{}, {request:?}: {why}", shape.name));
            again.looks_like(&one.0, &one.1);
            again.fs.store().delete_snapshot("one").expect("it is deleted");
            let fits = again.same(wanted).or_else(|_| again.same(&place.files));
            fits.unwrap_or_else(|why| panic!("{}, {request:?}: {why}", shape.name));
            assert!(Snapped::new(Arc::clone(again.fs.store().shared()), "one").is_err());
        }
    }
}
