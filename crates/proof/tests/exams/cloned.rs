//! Clones of what snapshots hold: they name the same blocks, write next to nothing, and stay what they are whatever
//! becomes of the snapshot and of the file that it was; and all that is counted is right at each step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use esker::posix::{Caller, Fs, New, SetAttr};
use esker::store::Store as _;
use esker::{Error, Ino, Kind, Name, Result, Time};
use esker_proof::chance::Chance;
use esker_proof::cut::{SHAPES, Shape};
use esker_proof::harness::{Ends, from_env, seed};
use esker_proof::lying::ram::Ram;
use esker_proof::world::inside::Checked as _;
use esker_proof::world::on_volume::{Above, mount};
use esker_stone::Codec;
use esker_volume::segments::Condition;
use esker_volume::{SNAPSHOTS, Shown, SnapshotError, make};

type Device = Arc<Ram>;
type Mounted = Fs<Shown<Arc<Above<Device>>, Device>>;
type Files = BTreeMap<String, Vec<u8>>;

const ROOT: &Caller<'static> = &Caller::ROOT;
const NEW: New = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };

fn name(text: &str) -> Name<'_> {
    Name::parse(text.as_bytes()).expect("a name")
}

fn noise(chance: &mut Chance, len: u64) -> Vec<u8> {
    (0..len.div_ceil(8)).flat_map(|_| chance.number().to_le_bytes()).take(len as usize).collect()
}

/// A volume that is mounted with its snapshots, and what it and they hold.
struct Place {
    shape: Shape,
    device: Device,
    fs: Mounted,
    files: Files,
    snapshots: Vec<(String, Files)>,
    /// Names that were given.
    next: u64,
    /// Bytes that were shared in earlier mounts.
    shared: u64,
}

fn mounted(shape: &Shape, device: &Device) -> Mounted {
    let home = Arc::new(mount(shape, Arc::clone(device)).expect("it opens"));
    let volume = Arc::clone(home.shared());
    let shown = Shown::new(home, volume).expect("nothing is in the way");
    Fs::new(shown, || Time { secs: 1_700_000_000, nanos: 0 })
}

impl Place {
    fn new(shape: Shape) -> Self {
        let device = Arc::new(Ram::new(shape.size as usize));
        make(&device, &shape.making()).expect("a volume");
        let fs = mounted(&shape, &device);
        let (files, snapshots) = (Files::new(), Vec::new());
        Self { shape, device, fs, files, snapshots, next: 0, shared: 0 }
    }

    fn home(&self) -> &Above<Device> {
        self.fs.store().home()
    }

    fn fresh(&mut self) -> String {
        self.next += 1;
        format!("n{}", self.next)
    }

    fn ino(&self, dir: Ino, own: &str) -> Ino {
        let ino = self.fs.lookup(ROOT, dir, name(own)).expect("it is there").ino;
        self.fs.forget(ino, 1);
        ino
    }

    fn snapshot_root(&self, snapshot: &str) -> Ino {
        self.ino(self.ino(Ino::ROOT, SNAPSHOTS), snapshot)
    }

    fn create(&mut self, own: &str) -> Ino {
        let ino = self.fs.create(ROOT, Ino::ROOT, name(own), NEW).expect("made").ino;
        self.fs.forget(ino, 1);
        self.files.insert(own.to_owned(), Vec::new());
        ino
    }

    fn write(&mut self, own: &str, at: u64, bytes: &[u8]) {
        let ino = self.ino(Ino::ROOT, own);
        let mut at = at;
        for part in bytes.chunks(1 << 20) {
            self.fs.write(ino, at, part, false).expect("room");
            put(self.files.get_mut(own).expect("a file"), at, part);
            at += part.len() as u64;
        }
    }

    fn cut(&mut self, own: &str, len: u64) {
        let set = SetAttr { size: Some(len), ..SetAttr::default() };
        self.fs.setattr(ROOT, self.ino(Ino::ROOT, own), &set).expect("cut");
        self.files.get_mut(own).expect("a file").resize(len as usize, 0);
    }

    fn remove(&mut self, own: &str) {
        self.fs.unlink(ROOT, Ino::ROOT, name(own)).expect("removed");
        self.files.remove(own);
    }

    /// Bytes of a file of a snapshot become those of a file.
    fn clone_part(
        &mut self,
        (at, own): (usize, &str),
        (from, len): (u64, u64),
        (to, to_at): (&str, u64),
    ) {
        let (snapshot, then) = &self.snapshots[at];
        let bytes = then[own][from as usize..(from + len) as usize].to_vec();
        let source = self.ino(self.snapshot_root(snapshot), own);
        let target = self.ino(Ino::ROOT, to);
        let done = self.fs.copy_range(ROOT, (source, from), (target, to_at), len);
        assert_eq!(done, Ok(len), "{own} of {snapshot}");
        put(self.files.get_mut(to).expect("a file"), to_at, &bytes);
    }

    fn clone_whole(&mut self, at: usize, own: &str) -> String {
        let (fresh, len) = (self.fresh(), self.snapshots[at].1[own].len() as u64);
        self.create(&fresh);
        self.clone_part((at, own), (0, len), (&fresh, 0));
        fresh
    }

    fn snap(&mut self) {
        let fresh = self.fresh();
        self.home().create_snapshot(&fresh).expect("room");
        self.snapshots.push((fresh, self.files.clone()));
    }

    fn delete(&mut self, at: usize) {
        let (snapshot, _) = self.snapshots.remove(at);
        self.home().delete_snapshot(&snapshot).expect("deleted");
    }

    fn again(&mut self) {
        self.home().sync().expect("a sync");
        self.shared += self.home().volume().counted().shared;
        self.fs = mounted(&self.shape, &self.device);
    }

    /// Goes back to a snapshot, which is not mounted meanwhile.
    fn back(&mut self, at: usize) {
        self.home().sync().expect("a sync");
        let (snapshot, then) = self.snapshots[at].clone();
        let volume = self.shape.open(Arc::clone(&self.device), true).expect("it opens");
        volume.rollback(&snapshot).expect("room to go back");
        assert_eq!(volume.check(), []);
        drop(volume);
        self.fs = mounted(&self.shape, &self.device);
        self.files = then;
    }

    /// Bytes of blocks that somebody needs.
    fn needed(&self) -> u64 {
        let rows = self.home().volume().stretches();
        let blocks =
            rows.iter().filter(|row| matches!(row.condition, Condition::Log | Condition::Moved));
        blocks.map(|row| row.live).sum()
    }

    fn holds_in(&self, dir: Ino, files: &Files, what: &str) {
        for (own, bytes) in files {
            let ino = self.ino(dir, own);
            let mut found = vec![0xee; bytes.len() + 1];
            assert_eq!(self.fs.read(ino, 0, &mut found), Ok(bytes.len()), "{own} {what}");
            assert!(found[..bytes.len()] == **bytes, "{own} {what} is something else");
            let data = self.fs.seek_data(ino, 0);
            let first = bytes.iter().position(|&byte| byte != 0).map(|at| at as u64);
            let before = |first: u64| matches!(data, Ok(at) if at <= first);
            assert!(first.is_none_or(before), "{own} {what}: {data:?}, and data at {first:?}");
        }
    }

    /// All files are what they are to be.
    fn holds(&self) {
        self.holds_in(Ino::ROOT, &self.files, "now");
        for (snapshot, files) in &self.snapshots {
            self.holds_in(self.snapshot_root(snapshot), files, &format!("in {snapshot}"));
        }
    }

    /// The same, and all that is counted is right.
    fn is_sound(&self) {
        self.holds();
        assert_eq!(self.home().findings(), Vec::<String>::new(), "{}", self.shape.name);
        self.holds();
    }
}

fn put(file: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let (start, end) = (at as usize, at as usize + bytes.len());
    file.resize(file.len().max(end), 0);
    file[start..end].copy_from_slice(bytes);
}

/// One of many things that may happen.
fn step(place: &mut Place, chance: &mut Chance) {
    let files: Vec<String> = place.files.keys().cloned().collect();
    let any = (!files.is_empty()).then(|| chance.pick(&files).clone());
    match (chance.below(16), any) {
        (0 | 1, _) | (_, None) if files.len() < 12 => {
            let fresh = place.fresh();
            place.create(&fresh);
            let at = if chance.below(3) == 0 { chance.below(30_000) } else { 0 };
            let len = 1 + chance.below(60_000);
            place.write(&fresh, at, &noise(chance, len));
        }
        (2 | 3, Some(own)) => {
            let (at, len) = (chance.below(50_000), 1 + chance.below(20_000));
            place.write(&own, at, &noise(chance, len));
        }
        (4, Some(own)) => place.cut(&own, chance.below(70_000)),
        (5 | 6, Some(own)) => place.remove(&own),
        (7, _) if place.snapshots.len() < 4 => place.snap(),
        (8, _) if place.snapshots.len() > 1 || chance.below(4) == 0 => {
            if !place.snapshots.is_empty() {
                place.delete(chance.below(place.snapshots.len() as u64) as usize);
            }
        }
        (9, _) => place.home().sync().expect("a sync"),
        (10, _) if chance.below(3) == 0 => place.again(),
        (11, _) if chance.below(6) == 0 && !place.snapshots.is_empty() => {
            place.back(chance.below(place.snapshots.len() as u64) as usize);
        }
        (_, any) => clone_any(place, any, chance),
    }
}

/// A file of a snapshot, or a part of it, into one that is there or a new one.
fn clone_any(place: &mut Place, any: Option<String>, chance: &mut Chance) {
    if place.snapshots.is_empty() {
        return;
    }
    let at = chance.below(place.snapshots.len() as u64) as usize;
    let then: Vec<(String, u64)> =
        place.snapshots[at].1.iter().map(|(own, all)| (own.clone(), all.len() as u64)).collect();
    let then: Vec<_> = then.into_iter().filter(|(_, len)| *len > 0).collect();
    if then.is_empty() {
        return;
    }
    let (own, size) = chance.pick(&then).clone();
    match any {
        Some(into) if chance.below(2) == 0 => {
            let from = chance.below(size);
            let from = if chance.below(2) == 0 { from / 4096 * 4096 } else { from };
            let len = 1 + chance.below(size - from);
            // Where it was, or elsewhere.
            let to = if chance.below(2) == 0 { from } else { chance.below(50_000) };
            place.clone_part((at, &own), (from, len), (&into, to));
        }
        _ if place.files.len() < 16 => drop(place.clone_whole(at, &own)),
        _ => {}
    }
}

/// Files and snapshots come, change and go, the volume goes back and is mounted again, and clones of all that there was
/// are made between: whole contents are right, and so is everything that is counted; in the end nothing is kept.
#[test]
fn clones_stay_what_they_are_in_any_order() {
    let mut shared = 0;
    for shape in &SHAPES[..4] {
        for number in 0..from_env("ESKER_CASES", 6) {
            let seed = seed().wrapping_add(number);
            let mut chance = Chance::new(seed);
            let mut place = Place::new(Shape { size: 32 << 20, ..*shape });
            for _ in 0..160 {
                step(&mut place, &mut chance);
                match chance.below(12) {
                    0 => place.is_sound(),
                    1..4 => place.holds(),
                    _ => {}
                }
            }
            place.again();
            place.is_sound();
            while !place.snapshots.is_empty() {
                let at = chance.below(place.snapshots.len() as u64) as usize;
                place.delete(at);
                place.is_sound();
            }
            for own in place.files.keys().cloned().collect::<Vec<_>>() {
                place.remove(&own);
            }
            place.again();
            place.is_sound();
            assert_eq!(place.needed(), 0, "{}: something is kept, {seed:#x}", shape.name);
            shared += place.shared;
        }
    }
    println!("{shared} bytes shared");
    assert!(shared > 0);
}

/// 100 MB of noise that only a snapshot has: a clone of it writes rows alone, before and after all is settled.
#[test]
fn a_clone_of_a_hundred_megabytes_writes_next_to_nothing() {
    const LEN: u64 = 100_000_000;
    for codec in [Codec::None, Codec::Zstd] {
        let shape = Shape {
            size: 256 << 20,
            segment_len: 4 << 20,
            block_len: 32 << 10,
            codec,
            recent_len: 1 << 20,
            table_len: 64 << 10,
            ..SHAPES[0]
        };
        let mut place = Place::new(shape);
        place.create("large");
        place.write("large", 0, &noise(&mut Chance::new(seed()), LEN));
        place.snap();
        place.remove("large");
        place.again();
        let (needed, before) = (place.needed(), place.device.written());
        assert!(needed >= LEN);
        let clone = place.clone_whole(0, "large");
        place.home().sync().expect("a sync");
        let written = place.device.written() - before;
        println!("{codec:?}: {written} bytes written for a clone of {LEN}");
        assert!(written < 1 << 20, "{written}");
        assert_eq!(place.needed(), needed);
        place.home().volume().close().expect("closed");
        let written = place.device.written() - before;
        println!("{codec:?}: {written} bytes written with closing the volume");
        assert!(written < 1 << 20, "{written}");
        place.is_sound();
        // What is named again stays when its snapshot goes, and goes with the last file.
        place.delete(0);
        assert_eq!(place.needed(), needed);
        place.again();
        place.is_sound();
        place.remove(&clone);
        place.is_sound();
        assert_eq!(place.needed(), 0);
    }
}

/// Nothing of a snapshot goes before what was copied from it is written; its home sees to that.
#[test]
fn what_was_copied_is_there_when_its_snapshot_goes_first() {
    for shape in &SHAPES[..4] {
        let mut place = Place::new(Shape { size: 32 << 20, ..*shape });
        let chance = &mut Chance::new(seed());
        place.create("first");
        place.write("first", 0, &noise(chance, 90_000));
        place.snap();
        place.remove("first");
        place.home().sync().expect("a sync");
        let clone = place.clone_whole(0, "first");
        place.holds();
        let (snapshot, source) = {
            let (snapshot, _) = &place.snapshots[0];
            (snapshot.clone(), place.ino(place.snapshot_root(snapshot), "first"))
        };
        let volume = Arc::clone(place.home().shared());
        assert_eq!(volume.delete_snapshot(&snapshot), Err(SnapshotError::Lent));
        place.holds();
        place.delete(0);
        assert_eq!(volume.snapshots(), []);
        place.is_sound();
        let target = place.ino(Ino::ROOT, &clone);
        let gone = place.fs.copy_range(ROOT, (source, 0), (target, 0), 5000);
        assert_eq!(gone, Err(Error::Stale));
        place.again();
        place.is_sound();
        // The number of what is gone says nothing when it is mounted again.
        assert_eq!(place.fs.getattr(source).err(), Some(Error::Stale));
        drop(volume);
    }
}

/// A clone of a clone before either is written, one that is cut, written over and removed, and one into a file that
/// has more than what is replaced.
#[test]
fn clones_that_wait_change_like_any_file() {
    for shape in &SHAPES[..4] {
        let mut place = Place::new(Shape { size: 32 << 20, ..*shape });
        let chance = &mut Chance::new(seed());
        place.create("first");
        place.write("first", 0, &noise(chance, 90_000));
        place.write("first", 150_000, &noise(chance, 10_000));
        place.snap();
        place.write("first", 0, &noise(chance, 90_000));
        let [one, two, three] = [(); 3].map(|()| place.clone_whole(0, "first"));
        place.holds();
        let source = place.ino(Ino::ROOT, &one);
        place.create("again");
        let target = place.ino(Ino::ROOT, "again");
        assert_eq!(place.fs.copy_range(ROOT, (source, 5000), (target, 100), 155_000), Ok(155_000));
        let bytes = place.files[&one][5000..].to_vec();
        put(place.files.get_mut("again").expect("a file"), 100, &bytes);
        place.cut(&two, 40_001);
        place.cut(&two, 200_000);
        place.write(&two, 10_000, &noise(chance, 9000));
        place.remove(&three);
        place.clone_part((0, "first"), (20_000, 30_000), ("first", 20_000));
        place.clone_part((0, "first"), (0, 100_000), (&two, 190_000));
        place.holds();
        place.is_sound();
        // Content that its inode keeps, and back.
        place.cut(&one, 300);
        place.home().sync().expect("a sync");
        place.clone_part((0, "first"), (0, 80_000), (&one, 100));
        place.cut(&two, 0);
        place.is_sound();
        place.delete(0);
        place.is_sound();
        place.again();
        place.is_sound();
    }
}

fn result<T>(done: Result<T>, allowed: &[Error]) -> Option<T> {
    match done {
        Ok(done) => Some(done),
        Err(error) if allowed.contains(&error) => None,
        Err(error) => panic!("{error:?}"),
    }
}

/// Somebody copies from snapshots while others make and delete them, sync and read: each copy is whole or refused.
#[test]
fn others_delete_while_somebody_copies() {
    let shape = Shape { size: 32 << 20, recent_len: 64 << 10, table_len: 4 << 10, ..SHAPES[1] };
    let mut place = Place::new(shape);
    let chance = &mut Chance::new(seed());
    place.create("first");
    let bytes = noise(chance, 70_000);
    place.write("first", 0, &bytes);
    place.snap();
    let (fs, home) = (&place.fs, place.home());
    let (ends, whole, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        let copy = |own: usize| {
            let mut number = 0;
            while !ends.load(Relaxed) {
                number += 1;
                let shelf = fs.lookup(ROOT, Ino::ROOT, name(SNAPSHOTS)).expect("there").ino;
                let gone = [Error::NotFound, Error::Stale, Error::CrossDevice];
                let then = fs.lookup(ROOT, shelf, name(&format!("s{}", number % 3)));
                let then = then.and_then(|then| fs.lookup(ROOT, then.ino, name("first")));
                let Some(then) = result(then, &gone) else { continue };
                let path = format!("c{own}.{}", number % 5);
                let made = fs.create(ROOT, Ino::ROOT, name(&path), NEW);
                let target = made.or_else(|_| fs.lookup(ROOT, Ino::ROOT, name(&path)));
                let target = target.expect("a file").ino;
                let done = fs.copy_range(ROOT, (then.ino, 0), (target, 0), 70_000);
                match result(done, &gone) {
                    Some(len) => {
                        assert_eq!(len, 70_000);
                        whole.fetch_add(1, Relaxed);
                        let mut found = vec![0; 70_000];
                        assert_eq!(fs.read(target, 0, &mut found), Ok(70_000));
                        assert!(found == bytes, "another content");
                    }
                    None => drop(refused.fetch_add(1, Relaxed)),
                }
                fs.unlink(ROOT, Ino::ROOT, name(&path)).expect("removed");
                fs.forget(target, 1);
                fs.forget(then.ino, 1);
            }
        };
        let copies = [0, 1].map(|own| scope.spawn(move || copy(own)));
        let end = Ends(&ends);
        for round in 0..120 {
            let own = format!("s{}", round % 3);
            match home.delete_snapshot(&own) {
                Ok(()) | Err(SnapshotError::Missing) => {}
                Err(error) => panic!("{error:?}"),
            }
            home.create_snapshot(&own).expect("a snapshot");
            if round % 7 == 0 {
                home.sync().expect("a sync");
            }
        }
        drop(end);
        copies.into_iter().for_each(|copy| copy.join().expect("nothing was wrong"));
    });
    println!("{} whole, {} refused", whole.load(Relaxed), refused.load(Relaxed));
    assert!(whole.load(Relaxed) > 0);
    assert_eq!(home.findings(), Vec::<String>::new());
}
