//! Look-ups in a volume that is old: what lies at rest is one layer, whatever was done to it, so that a name takes the
//! pages of one way down, and its attributes those of another. And opening one: it reads so many commits at most,
//! however many were synced and however little they said.
//! `ESKER_CASES` says how many times as many names there are, and as many changes to them.

use std::sync::Arc;

use esker::posix::{Caller, Fs, New, RenameFlags};
use esker::store::View;
use esker::{Ino, Kind, Name, Time};
use esker_proof::chance::Chance;
use esker_proof::cut::{SHAPES, Shape};
use esker_proof::harness::{from_env, seed};
use esker_proof::lying::ram::Ram;
use esker_proof::world::inside::Checked as _;
use esker_proof::world::on_volume::{Above, mount};
use esker_stone::Codec;
use esker_volume::limits::{CLOSED_COMMITS_MAX, COMMITS_MAX};
use esker_volume::{Volume, make};

const DIRS: u64 = 100;
/// Names for each case, changes to them, and names that are looked up.
const NAMES: u64 = 10_000;
const CHANGES: u64 = 20_000;
const LOOKS: usize = 2000;
/// Names that are changed from one sync to the next.
const A_SYNC: u64 = 500;
const SHAPE: Shape = Shape {
    name: "looked up",
    size: 256 << 20,
    segment_len: 512 << 10,
    block_len: 32 << 10,
    codec: Codec::Zstd,
    recent_len: 256 << 10,
    table_len: 64 << 10,
    ..SHAPES[0]
};

fn clock() -> Time {
    Time { secs: 1_700_000_000, nanos: 0 }
}

/// A volume with many names.
struct Old {
    fs: Fs<Above<Arc<Ram>>>,
    dirs: Vec<Ino>,
    /// Where they are, and their numbers.
    names: Vec<(Ino, u64)>,
    next: u64,
    chance: Chance,
}

fn name(number: u64) -> String {
    format!("name {number}")
}

impl Old {
    /// A fresh one.
    fn new(device: &Arc<Ram>, count: u64) -> Self {
        make(device, &SHAPE.making()).expect("a volume");
        let fs = Fs::new(mount(&SHAPE, Arc::clone(device)).expect("it opens"), clock);
        let new = New { kind: Kind::Directory, perm: 0o755, umask: 0, rdev: 0 };
        let dir = |number: u64| {
            let path = format!("dir {number}");
            let path = Name::parse(path.as_bytes()).expect("a name");
            fs.create(&Caller::ROOT, Ino::ROOT, path, new).expect("a directory").ino
        };
        let dirs = (0..DIRS).map(dir).collect();
        let mut old = Self { fs, dirs, names: Vec::new(), next: 0, chance: Chance::new(seed()) };
        for number in 0..count {
            old.create();
            if number % A_SYNC == 0 {
                old.sync();
            }
        }
        old.sync();
        old
    }

    fn sync(&self) {
        self.fs.sync().expect("what was taken is written");
        self.fs.store().volume().reclaim_in_time().expect("room is made");
    }

    fn dir(&mut self) -> Ino {
        self.dirs[self.chance.below(DIRS) as usize]
    }

    fn create(&mut self) {
        let (dir, number) = (self.dir(), self.next);
        let path = name(number);
        let path = Name::parse(path.as_bytes()).expect("a name");
        let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
        let ino = self.fs.create(&Caller::ROOT, dir, path, new).expect("a file").ino;
        self.fs.forget(ino, 1);
        self.names.push((dir, number));
        self.next += 1;
    }

    /// A name goes and another comes, or one gets another name in another directory.
    fn change(&mut self) {
        let at = self.chance.below(self.names.len() as u64) as usize;
        let (dir, number) = self.names.swap_remove(at);
        let path = name(number);
        let path = Name::parse(path.as_bytes()).expect("a name");
        if self.chance.below(2) == 0 {
            self.fs.unlink(&Caller::ROOT, dir, path).expect("it goes");
            return self.create();
        }
        let (to_dir, to) = (self.dir(), name(self.next));
        let to = Name::parse(to.as_bytes()).expect("a name");
        let flags = RenameFlags::default();
        self.fs.rename(&Caller::ROOT, dir, path, to_dir, to, flags).expect("it is renamed");
        self.names.push((to_dir, self.next));
        self.next += 1;
    }

    /// Pages that each of some names takes, and its attributes, in order of size.
    fn look(&mut self) -> [Vec<u64>; 2] {
        let mut taken = [Vec::new(), Vec::new()];
        for _ in 0..LOOKS {
            let (dir, number) = self.names[self.chance.below(self.names.len() as u64) as usize];
            let (path, volume) = (name(number), self.fs.store().volume());
            let path = Name::parse(path.as_bytes()).expect("a name");
            let before = pages(volume);
            let ino = volume.entry(dir, path).expect("it is there").ino;
            let between = pages(volume);
            volume.attr(ino).expect("it has attributes");
            taken[0].push(between - before);
            taken[1].push(pages(volume) - between);
        }
        taken.iter_mut().for_each(|taken| taken.sort_unstable());
        taken
    }
}

/// Pages that were asked for so far, of memory or of the device.
fn pages(volume: &Volume<Arc<Ram>>) -> u64 {
    let usage = volume.cached();
    usage.hits + usage.misses
}

fn told(when: &str, what: &str, taken: &[u64]) {
    let at = |hundredths: usize| taken[(taken.len() - 1) * hundredths / 100];
    println!("{when}: pages of {what}: median {}, p99 {}, most {}", at(50), at(99), at(100));
}

#[test]
fn a_look_up_takes_the_pages_of_one_layer_however_old_a_volume_is() {
    let cases = from_env("ESKER_CASES", 1);
    let device = Arc::new(Ram::new(SHAPE.size as usize));
    let mut old = Old::new(&device, cases * NAMES);
    let new = old.look();
    for number in 0..cases * CHANGES {
        old.change();
        if number % A_SYNC == 0 {
            old.sync();
        }
    }
    // As many as are gathered before they are settled: the most that there is to look through.
    old.fs.sync().expect("what was taken is written");
    let unsettled = old.fs.store().volume().unsettled();
    let aged = old.look();
    println!("{} names, {unsettled} bytes of rows not settled", old.names.len());
    for (what, (new, aged)) in ["names", "attributes"].iter().zip(new.iter().zip(&aged)) {
        told("new", what, new);
        told("old", what, aged);
        // One way down: a page of each level, in one table. Two layers would take two.
        assert!(aged[LOOKS - 1] <= 2, "{what}: {} pages", aged[LOOKS - 1]);
        assert!(aged[LOOKS / 2] <= new[LOOKS / 2], "{what}: more than when it was new");
    }
    assert_eq!(old.fs.store().findings(), [""; 0]);
}

/// Opens a volume on which one block was synced so often; how many units that reads.
fn opened_after(syncs: u64, closed: bool) -> u64 {
    // So large that nothing else is ever full.
    let shape = Shape { size: 1 << 30, segment_len: 4 << 20, recent_len: 16 << 20, ..SHAPE };
    let device = Arc::new(Ram::new(shape.size as usize));
    make(&device, &shape.making()).expect("a volume");
    let fs = Fs::new(mount(&shape, Arc::clone(&device)).expect("it opens"), clock);
    let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
    let path = Name::parse(b"file").expect("a name");
    let ino = fs.create(&Caller::ROOT, Ino::ROOT, path, new).expect("a file").ino;
    for number in 0..syncs {
        fs.write(ino, 0, &number.to_le_bytes(), false).expect("room");
        fs.sync().expect("what was taken is written");
    }
    let commits = fs.store().volume().sequence();
    assert!(commits > syncs, "{commits} commits");
    if closed {
        fs.store().volume().close().expect("it closes");
        assert!(!fs.store().volume().give_back_below(0), "something was not given back");
    }
    drop(fs);
    let before = device.looked_at();
    let volume = shape.open(&*device, false).expect("it opens");
    let read = (device.looked_at() - before) / u64::from(shape.unit);
    println!("{read} units of {commits} commits were read");
    assert_eq!(volume.sequence(), commits);
    read
}

#[test]
fn opening_reads_so_many_commits_at_most() {
    let read = opened_after(COMMITS_MAX * 3 / 4, false);
    assert!(read < COMMITS_MAX / 2, "{read} units");
}

#[test]
fn opening_what_was_closed_reads_fewer() {
    let (few, many) = (CLOSED_COMMITS_MAX / 2, CLOSED_COMMITS_MAX * 2);
    let read = opened_after(few, true);
    assert!(read > few, "{read} units: so few commits are not worth a table");
    let read = opened_after(many, true);
    assert!(read < few, "{read} units");
}
