//! Ageing: a volume that stays nearly full is written over and over. Nothing fails as long as there is room, what was
//! written is there, and in the end all room comes back; also where snapshots are made, deleted and gone back to
//! between.
//! `ESKER_CASES` says how many times the volume's size is written: 1000 is the whole exam.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use esker::posix::{Caller, Fs, New, SetAttr};
use esker::store::{Flow, Space, View as _};
use esker::{Cursor, Error, Ino, Kind, Name, Time};
use esker_proof::chance::Chance;
use esker_proof::cut::{SHAPES, Shape};
use esker_proof::harness::{from_env, seed};
use esker_proof::lying::ram::Ram;
use esker_proof::world::inside::Checked as _;
use esker_proof::world::on_volume::{Above, mount};
use esker_stone::Codec;
use esker_volume::{Snapped, SnapshotError, make};

const SIZE: usize = 16 << 20;
/// How full it is kept, in hundredths.
const FULL: u64 = 95;
const SHAPE: Shape = Shape {
    name: "ageing",
    size: SIZE as u64,
    segment_len: 128 << 10,
    block_len: 8 << 10,
    codec: Codec::None,
    recent_len: 256 << 10,
    table_len: 16 << 10,
    ..SHAPES[0]
};

fn clock() -> Time {
    Time { secs: 1_700_000_000, nanos: 0 }
}

/// What files hold, by their numbers.
type Files = BTreeMap<u64, (Ino, Vec<u8>)>;

/// A volume, and what it should hold.
struct Aged {
    fs: Fs<Above<Arc<Ram>>>,
    files: Files,
    /// Snapshots, and what they should show.
    kept: Vec<(String, Files)>,
    next: u64,
    chance: Chance,
    /// Bytes that were handed over.
    written: u64,
}

fn name(number: u64) -> String {
    format!("file {number}")
}

impl Aged {
    fn new(device: &Arc<Ram>) -> Self {
        make(device, &SHAPE.making()).expect("a volume");
        let home = mount(&SHAPE, Arc::clone(device)).expect("it opens");
        let (fs, chance) = (Fs::new(home, clock), Chance::new(seed()));
        Self { fs, files: Files::new(), kept: Vec::new(), next: 0, chance, written: 0 }
    }

    /// Bytes that cannot be compressed, or hardly.
    fn noise(&mut self, len: usize) -> Vec<u8> {
        let mut state = self.chance.below(u64::MAX) | 1;
        let step = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..len).map(step).collect()
    }

    /// A size of any order of magnitude.
    fn size(&mut self) -> usize {
        let bits = self.chance.below(18);
        1 + self.chance.below(1 << bits) as usize
    }

    fn percent(&self) -> u64 {
        let space = self.fs.store().space();
        space.used * 100 / space.total
    }

    fn create(&mut self) -> Result<(), Error> {
        let (number, len) = (self.next, self.size());
        self.next += 1;
        let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
        let path = name(number);
        let path = Name::parse(path.as_bytes()).expect("a name");
        let ino = self.fs.create(&Caller::ROOT, Ino::ROOT, path, new)?.ino;
        self.files.insert(number, (ino, Vec::new()));
        self.write(number, 0, len)
    }

    fn write(&mut self, number: u64, at: usize, len: usize) -> Result<(), Error> {
        let bytes = self.noise(len);
        let (ino, content) = self.files.get_mut(&number).expect("a file");
        self.fs.write(*ino, at as u64, &bytes, false)?;
        content.resize(content.len().max(at + len), 0);
        content[at..at + len].copy_from_slice(&bytes);
        self.written += len as u64;
        Ok(())
    }

    fn any(&mut self) -> Option<u64> {
        let at = self.chance.below(self.files.len().max(1) as u64) as usize;
        self.files.keys().nth(at).copied()
    }

    fn remove(&mut self, number: u64) {
        let path = name(number);
        let path = Name::parse(path.as_bytes()).expect("a name");
        let (ino, content) = self.files.remove(&number).expect("a file");
        self.look(number, ino, &content);
        self.fs.unlink(&Caller::ROOT, Ino::ROOT, path).expect("unlink always works");
        self.fs.forget(ino, 1);
    }

    fn look(&self, number: u64, ino: Ino, content: &[u8]) {
        let mut read = vec![0; content.len() + 1];
        let len = self.fs.read(ino, 0, &mut read).expect("it can be read");
        assert!(read[..len] == *content, "file {number} holds something else");
    }

    /// A snapshot, if there is room for what changes after it; whether there was.
    fn keep(&mut self, name: String) -> bool {
        match self.fs.store().create_snapshot(&name) {
            Err(SnapshotError::NoRoom) => return false,
            done => done.unwrap_or_else(|error| panic!("{name}: {error}")),
        }
        self.kept.push((name, self.files.clone()));
        true
    }

    /// A snapshot shows all that was there when it was made, and nothing else.
    fn look_at(&self, name: &str, files: &Files) {
        let volume = Arc::clone(self.fs.store().shared());
        let view = Snapped::new(volume, name).expect("it is there");
        let mut names = 0;
        let listed = view.entries(Ino::ROOT, Cursor::START, false, &mut |_| {
            names += 1;
            Flow::Continue(())
        });
        listed.expect("a listing");
        assert_eq!(names, files.len(), "{name} has other files");
        for (number, (ino, content)) in files {
            let path = self::name(*number);
            let entry = view.entry(Ino::ROOT, Name::parse(path.as_bytes()).expect("a name"));
            assert_eq!(entry.map(|entry| entry.ino), Ok(*ino), "{path} of {name}");
            let mut read = vec![0; content.len() + 1];
            let len = view.read(*ino, 0, &mut read).expect("it can be read");
            assert!(read[..len] == *content, "{path} of {name} holds something else");
        }
    }

    /// Deletes a snapshot, which shows until then what it did.
    fn delete_any(&mut self) {
        let at = self.chance.below(self.kept.len() as u64) as usize;
        let (name, files) = self.kept.swap_remove(at);
        self.look_at(&name, &files);
        self.fs.store().volume().delete_snapshot(&name).expect("deleting always works");
    }

    /// Goes back to a snapshot, if there is room for that; whether there was.
    fn go_back(self, device: &Arc<Ram>, at: usize) -> (Self, bool) {
        let (name, then) = self.kept[at].clone();
        self.fs.sync().expect("what was taken is written");
        drop(self.fs);
        let volume = SHAPE.open(Arc::clone(device), true).expect("it opens");
        let done = match volume.rollback(&name) {
            Err(SnapshotError::NoRoom) => false,
            done => done.map(|()| true).unwrap_or_else(|error| panic!("{name}: {error}")),
        };
        drop(volume);
        let fs = Fs::new(mount(&SHAPE, Arc::clone(device)).expect("it opens"), clock);
        let files = if done { then } else { self.files };
        (Self { fs, files, ..self }, done)
    }

    /// What is there is what was written, and when all of it goes all room comes back.
    fn end(mut self, fresh: &Space) {
        for (name, files) in &self.kept {
            self.look_at(name, files);
        }
        while !self.kept.is_empty() {
            self.delete_any();
        }
        for (&number, (ino, content)) in &self.files {
            self.look(number, *ino, content);
        }
        for number in self.files.keys().copied().collect::<Vec<_>>() {
            self.remove(number);
        }
        self.fs.sync().expect("taking away is written");
        self.fs.store().volume().reclaim(u64::MAX).expect("room is made");
        let space = self.fs.store().space();
        assert_eq!(self.fs.store().findings(), [""; 0]);
        assert!(space.used <= fresh.used + (256 << 10), "{space:?}, as fresh: {fresh:?}");
        assert_eq!(space.inodes, fresh.inodes);
    }

    /// One step: more where there is room, otherwise something in the place of something else.
    fn step(&mut self) -> Result<(), Error> {
        while self.percent() >= FULL {
            // What a snapshot has gives no room: of both as much goes that half of it is theirs.
            let live: usize = self.files.values().map(|(_, content)| content.len()).sum();
            if !self.kept.is_empty() && live < SIZE / 2 {
                self.delete_any();
                continue;
            }
            let Some(number) = self.any() else { break };
            self.remove(number);
        }
        let Some(number) = self.any() else { return self.create() };
        let len = self.files[&number].1.len();
        match self.chance.below(10) {
            0..4 => self.create(),
            4..8 => {
                let at = self.chance.below(len.max(1) as u64) as usize;
                let most = self.size().min(len.saturating_sub(at)).max(1);
                self.write(number, at, most)
            }
            8 => {
                let most = self.size().min(20_000);
                self.write(number, len, most)
            }
            _ => {
                let size = self.chance.below(len as u64 + 1);
                let set = SetAttr { size: Some(size), ..SetAttr::default() };
                let (ino, content) = self.files.get_mut(&number).expect("a file");
                content.truncate(size as usize);
                self.fs.setattr(&Caller::ROOT, *ino, &set).map(drop)
            }
        }
    }
}

#[test]
fn a_volume_that_ages_nearly_full_loses_nothing() {
    let device = Arc::new(Ram::new(SIZE));
    let mut aged = Aged::new(&device);
    let fresh = aged.fs.store().space();
    let times = from_env("ESKER_CASES", 6);
    let (begun, mut told) = (Instant::now(), 0);
    for step in 0_u64.. {
        aged.step().unwrap_or_else(|error| {
            let space = aged.fs.store().space();
            panic!("step {step}, {} bytes written: {error}, {space:?}", aged.written)
        });
        if step % 16 == 0 {
            aged.fs.sync().expect("what was taken is written");
            aged.fs.store().volume().reclaim_in_time().expect("room is made");
        }
        let volumes = aged.written / SIZE as u64;
        if volumes >= told + (times / 10).max(1) {
            told = volumes;
            assert_eq!(aged.fs.store().findings(), [""; 0], "after {volumes} volumes");
            let factor = device.written() as f64 / aged.written as f64;
            let secs = begun.elapsed().as_secs();
            println!(
                "{volumes} volumes, {} % full, written {factor:.2} times, {secs} s",
                aged.percent()
            );
        }
        if volumes >= times {
            break;
        }
    }
    aged.end(&fresh);
}

/// The same with snapshots, which are made, deleted where there is no room, and gone back to.
#[test]
fn a_volume_that_ages_with_snapshots_loses_nothing() {
    let device = Arc::new(Ram::new(SIZE));
    let mut aged = Aged::new(&device);
    let fresh = aged.fs.store().space();
    let times = from_env("ESKER_CASES", 6).div_ceil(3);
    let (mut made, mut refused, mut backs) = (0, 0, 0);
    for step in 1_u64.. {
        aged.step().unwrap_or_else(|error| {
            let space = aged.fs.store().space();
            panic!("step {step}, {} bytes written: {error}, {space:?}", aged.written)
        });
        if step % 16 == 0 {
            aged.fs.sync().expect("what was taken is written");
            aged.fs.store().volume().reclaim_in_time().expect("room is made");
        }
        if step % 50 == 0 {
            if aged.kept.len() > 6 {
                aged.delete_any();
            }
            if aged.keep(format!("s{step}")) { made += 1 } else { refused += 1 }
        }
        if step % 330 == 0 && !aged.kept.is_empty() {
            let at = aged.chance.below(aged.kept.len() as u64) as usize;
            let done;
            (aged, done) = aged.go_back(&device, at);
            backs += u64::from(done);
            assert_eq!(aged.fs.store().findings(), [""; 0], "gone back, in step {step}");
        }
        if aged.written >= times * SIZE as u64 {
            break;
        }
    }
    println!("{made} snapshots, {refused} had no room, went back {backs} times");
    assert!(made > 0 && backs > 0);
    aged.end(&fresh);
}
