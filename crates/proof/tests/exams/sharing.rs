//! Bytes that are there already: copies and equal bytes share blocks, and whatever becomes of one file, the others stay
//! what they are. What is counted is checked each time.

use std::sync::Arc;

use esker::posix::{Caller, Fs, New};
use esker::store::{Store as _, View as _};
use esker::{Ino, Kind, Name, Time};
use esker_proof::chance::Chance;
use esker_proof::cut::{SHAPES, Shape};
use esker_proof::lying::Lying;
use esker_proof::lying::medium::Medium;
use esker_proof::world::inside::Checked as _;
use esker_proof::world::on_volume::{Above, mount};
use esker_volume::device::Device as _;
use esker_volume::scrub::Scrubbing;
use esker_volume::segments::Condition;

/// Whole blocks and a tail.
const LEN: u64 = 100 << 10;

fn clock() -> Time {
    Time { secs: 1_700_000_000, nanos: 0 }
}

fn noise(chance: &mut Chance, len: u64) -> Vec<u8> {
    (0..len / 8).flat_map(|_| chance.number().to_le_bytes()).collect()
}

/// Files on a volume, and what each holds.
struct Place<'a> {
    shape: &'a Shape,
    device: Arc<Lying>,
    fs: Fs<Above<Arc<Lying>>>,
    files: Vec<(String, Ino, Vec<u8>)>,
}

impl<'a> Place<'a> {
    fn new(shape: &'a Shape) -> Self {
        let device = shape.fresh(1);
        let fs = Fs::new(mount(shape, Arc::clone(&device)).expect("it opens"), clock);
        Self { shape, device, fs, files: Vec::new() }
    }

    fn create(&mut self, name: &str) -> Ino {
        let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
        let parsed = Name::parse(name.as_bytes()).expect("a name");
        let ino = self.fs.create(&Caller::ROOT, Ino::ROOT, parsed, new).expect("a file").ino;
        self.fs.forget(ino, 1);
        ino
    }

    fn write(&mut self, name: &str, bytes: &[u8]) -> Ino {
        let ino = self.create(name);
        self.fs.write(ino, 0, bytes, false).expect("room");
        self.files.push((name.to_owned(), ino, bytes.to_vec()));
        ino
    }

    fn copy(&mut self, name: &str, source: Ino) -> Ino {
        let ino = self.create(name);
        let all = self.files.iter().find(|file| file.1 == source).expect("a file").2.clone();
        let len = all.len() as u64;
        let done = self.fs.copy_range(&Caller::ROOT, (source, 0), (ino, 0), len);
        assert_eq!(done, Ok(len));
        self.files.push((name.to_owned(), ino, all));
        ino
    }

    fn change(&mut self, ino: Ino, at: usize, bytes: &[u8]) {
        self.fs.write(ino, at as u64, bytes, false).expect("room");
        let file = self.files.iter_mut().find(|file| file.1 == ino).expect("a file");
        file.2[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn remove(&mut self, ino: Ino) {
        let at = self.files.iter().position(|file| file.1 == ino).expect("a file");
        let (name, ..) = self.files.remove(at);
        let parsed = Name::parse(name.as_bytes()).expect("a name");
        self.fs.unlink(&Caller::ROOT, Ino::ROOT, parsed).expect("unlink always works");
    }

    /// Makes all safe; how many bytes of blocks were written for that, and how many of files were not.
    fn sync(&self) -> (u64, u64) {
        let volume = self.fs.store().volume();
        let before = volume.counted();
        self.fs.store().sync().expect("a sync");
        let done = volume.counted().since(&before);
        (done.blocks, done.shared)
    }

    /// Bytes of blocks that somebody needs.
    fn needed(&self) -> u64 {
        let rows = self.fs.store().volume().stretches();
        let blocks =
            rows.iter().filter(|row| matches!(row.condition, Condition::Log | Condition::Moved));
        blocks.map(|row| row.live).sum()
    }

    /// All files are what they were given, now and when it is mounted again, and all counts are right.
    fn holds(&mut self) {
        for again in [false, true] {
            for (name, ino, bytes) in &self.files {
                let mut found = vec![0; bytes.len() + 1];
                assert_eq!(self.fs.read(*ino, 0, &mut found), Ok(bytes.len()), "{name}");
                assert!(found[..bytes.len()] == **bytes, "{name} is what it was");
            }
            let findings = self.fs.store().findings();
            assert_eq!(findings, Vec::<String>::new(), "{}", self.shape.name);
            if !again {
                let home = mount(self.shape, Arc::clone(&self.device)).expect("it opens");
                self.fs = Fs::new(home, clock);
            }
        }
    }
}

/// A copy writes rows and no blocks; what is written over either, or goes, is nothing to the other. With the last file
/// that has them the blocks go.
#[test]
fn a_copy_shares_its_blocks() {
    for shape in &SHAPES {
        let mut place = Place::new(shape);
        let chance = &mut Chance::new(5);
        let first = place.write("first", &noise(chance, LEN));
        let (written, _) = place.sync();
        assert!(written >= LEN, "noise is as long as it is");
        let full = place.needed();
        let second = place.copy("second", first);
        assert_eq!(place.sync(), (0, LEN), "{}", shape.name);
        // Of a copy, of a file that changes in the same commit, and of one that goes in it.
        let third = place.copy("third", second);
        place.change(second, 9000, &noise(chance, 8 << 10));
        let fourth = place.copy("fourth", first);
        place.remove(first);
        let (written, shared) = place.sync();
        assert!(written <= 32 << 10 && shared == 2 * LEN, "{written} {shared}");
        place.holds();
        place.change(third, 0, &noise(chance, LEN));
        place.sync();
        place.holds();
        [second, third, fourth].into_iter().for_each(|ino| place.remove(ino));
        place.sync();
        place.holds();
        let left = place.needed();
        assert!(left + LEN <= full + (16 << 10), "{}: {left} of {full}", shape.name);
    }
}

/// The same bytes are written once, in one commit or in several; others are not taken for them.
#[test]
fn equal_bytes_are_written_once() {
    for shape in &SHAPES {
        let mut place = Place::new(shape);
        let chance = &mut Chance::new(6);
        let bytes = noise(chance, 64 << 10);
        place.write("one", &bytes);
        place.write("two", &bytes);
        let (written, shared) = place.sync();
        let once = bytes.len() as u64;
        assert!(written < once + (32 << 10) && shared == once, "{}: {written}", shape.name);
        let three = place.write("three", &bytes);
        assert_eq!(place.sync(), (0, once), "{}", shape.name);
        let mut other = bytes.clone();
        other[70] ^= 1;
        place.write("other", &other);
        place.change(three, 0, &bytes[..4096]);
        place.sync();
        place.holds();
        // Nobody needs them any more: they are not named again.
        for (_, ino, _) in place.files.clone() {
            place.remove(ino);
        }
        place.sync();
        place.write("four", &bytes);
        assert_eq!(place.sync().1, 0, "{}", shape.name);
        place.holds();
    }
}

/// A block that is damaged costs all files that name it, and scrubbing says which.
#[test]
fn a_damaged_block_is_told_of_all_files() {
    let shape = &SHAPES[0];
    let mut place = Place::new(shape);
    let bytes = noise(&mut Chance::new(7), 4096);
    let first = place.write("first", &bytes);
    place.sync();
    place.copy("second", first);
    place.sync();
    let mut all = vec![0; place.device.medium().size() as usize];
    place.device.medium().read(0, &mut all);
    let at = all.windows(bytes.len()).position(|window| *window == *bytes).expect("it lies there");
    all[at + 5] ^= 0x40;
    let mut medium = Medium::new(all.len() as u64);
    medium.write(0, &all);
    let device = Arc::new(Lying::on(medium, shape.unit, shape.zones, 1));
    let home = mount(shape, device).expect("it opens");
    let done = home.volume().scrub(&Scrubbing::all(&|_| true)).expect("it can be read");
    let names: Vec<_> = done.files.iter().map(|(path, _)| path.as_slice()).collect();
    assert_eq!(names, [&b"/first"[..], b"/second"]);
}

/// What memory has of a block that is damaged is not taken for what the device has: who writes the bytes again has
/// them.
#[test]
fn a_damaged_block_is_not_shared() {
    let shape = &SHAPES[0];
    let mut place = Place::new(shape);
    let bytes = noise(&mut Chance::new(8), 4096);
    place.write("first", &bytes);
    place.sync();
    // It is compared, so it has been read.
    place.write("second", &bytes);
    assert_eq!(place.sync(), (0, 4096));
    let mut all = vec![0; place.device.medium().size() as usize];
    place.device.medium().read(0, &mut all);
    let at = all.windows(bytes.len()).position(|window| *window == *bytes).expect("it lies there");
    let unit = at / shape.unit as usize * shape.unit as usize;
    all[at + 5] ^= 0x40;
    place.device.write(unit as u64, &all[unit..unit + 2 * shape.unit as usize]).expect("written");
    let third = place.write("third", &bytes);
    assert_eq!(place.sync(), (4096, 0));
    let home = mount(shape, Arc::clone(&place.device)).expect("it opens");
    let mut found = vec![0; bytes.len()];
    assert_eq!(home.read(third, 0, &mut found), Ok(bytes.len()));
    assert!(found == bytes);
}

/// A file that takes the place of an equal one, in one commit, takes its blocks too.
#[test]
fn what_is_saved_again_is_not_written_again() {
    let mut place = Place::new(&SHAPES[0]);
    let bytes = noise(&mut Chance::new(9), LEN);
    let old = place.write("old", &bytes);
    place.sync();
    place.write("new", &bytes);
    place.remove(old);
    assert_eq!(place.sync(), (0, LEN));
    place.holds();
}

/// Bytes of a block of which hardly anything is needed are written again, so that it may go.
#[test]
fn little_does_not_keep_a_block() {
    let shape = SHAPES.iter().find(|shape| shape.block_len >= 32 << 10).expect("long blocks");
    let mut place = Place::new(shape);
    let chance = &mut Chance::new(10);
    let files: Vec<_> =
        (0..8).map(|number| place.write(&format!("f{number}"), &noise(chance, 4096))).collect();
    let first = place.files[0].2.clone();
    place.sync();
    files[1..].iter().for_each(|&ino| place.remove(ino));
    place.sync();
    place.write("again", &first);
    assert_eq!(place.sync(), (4096, 0));
    place.remove(files[0]);
    place.sync();
    assert!(place.needed() <= 4096);
    place.holds();
}

/// A copy that is longer than there would be room for goes through in parts, and takes no room.
#[test]
fn a_copy_longer_than_the_room_is_made_in_parts() {
    const PIECE: u64 = 1 << 20;
    let shape = &Shape { size: 64 << 20, ..SHAPES[2] };
    let mut place = Place::new(shape);
    let chance = &mut Chance::new(11);
    let first = place.create("first");
    let mut bytes = Vec::new();
    for at in (0..36 * PIECE).step_by(PIECE as usize) {
        let piece = noise(chance, PIECE);
        place.fs.write(first, at, &piece, false).expect("room");
        bytes.extend(piece);
        place.sync();
    }
    let (len, second, before) = (bytes.len() as u64, place.create("second"), place.needed());
    let space = place.fs.store().space();
    assert!(space.total - space.used < len, "there is no room for another one");
    let (mut at, mut calls) = (0, 0);
    while at < len {
        let done = place.fs.copy_range(&Caller::ROOT, (first, at), (second, at), len - at);
        at += done.expect("room for a part");
        calls += 1;
    }
    assert!(calls > 1, "{calls} calls");
    assert_eq!(place.sync().0, 0, "no block is written");
    assert_eq!(place.needed(), before);
    place.files.push(("first".to_owned(), first, bytes.clone()));
    place.files.push(("second".to_owned(), second, bytes));
    place.holds();
}
