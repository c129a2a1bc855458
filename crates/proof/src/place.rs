//! Files on a volume that is on a lying device, and what each holds: for proofs that write, remove, keep and go back to
//! whatever they like.
//!
//! Above: tests. Below: memory above the volume. Invariant: `files` is what reading must give.

use std::sync::Arc;

use esker::posix::{Caller, Fs, New};
use esker::store::{Store as _, View as _};
use esker::{Ino, Kind, Name, Time};
use esker_volume::segments::Condition;
use esker_volume::{Snapped, SnapshotError};

use crate::chance::Chance;
use crate::cut::{Shape, goes_on};
use crate::lying::Lying;
use crate::lying::medium::Medium;
use crate::lying::states::{Dose, Replay};
use crate::world::inside::Checked as _;
use crate::world::on_volume::{Above, mount};

/// Bytes that are changed at a time.
pub const BLOCK: usize = 4096;

/// A clock that stands still.
pub fn clock() -> Time {
    Time { secs: 1_700_000_000, nanos: 0 }
}

/// Bytes that cannot be compressed.
pub fn noise(chance: &mut Chance, len: usize) -> Vec<u8> {
    (0..len / 8).flat_map(|_| chance.number().to_le_bytes()).collect()
}

/// Names, inodes and what is in them.
pub type Files = Vec<(String, Ino, Vec<u8>)>;

/// Files on a volume, and what each holds.
pub struct Place {
    /// What the volume is like.
    pub shape: Shape,
    /// Below.
    pub device: Arc<Lying>,
    /// Above.
    pub fs: Fs<Above<Arc<Lying>>>,
    /// What there is, since it was made here or what was gone back to.
    pub files: Files,
}

impl Place {
    /// A fresh volume.
    pub fn new(shape: Shape, seed: u64) -> Self {
        let device = shape.fresh(seed);
        let fs = Fs::new(mount(&shape, Arc::clone(&device)).expect("it opens"), clock);
        Self { shape, device, fs, files: Vec::new() }
    }

    /// What is on a device.
    ///
    /// # Errors
    /// What opening says, in words.
    pub fn on(shape: Shape, device: Lying) -> Result<Self, String> {
        let device = Arc::new(device);
        let home = mount(&shape, Arc::clone(&device)).map_err(|error| format!("{error:?}"))?;
        Ok(Self { shape, device, fs: Fs::new(home, clock), files: Vec::new() })
    }

    /// Mounts it again.
    pub fn again(&mut self) {
        let home = mount(&self.shape, Arc::clone(&self.device)).expect("it opens");
        self.fs = Fs::new(home, clock);
    }

    /// A file with these bytes.
    pub fn write(&mut self, name: &str, bytes: Vec<u8>) -> Ino {
        let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
        let parsed = Name::parse(name.as_bytes()).expect("a name");
        let ino = self.fs.create(&Caller::ROOT, Ino::ROOT, parsed, new).expect("a file").ino;
        self.fs.forget(ino, 1);
        self.fs.write(ino, 0, &bytes, false).expect("room");
        self.files.push((name.to_owned(), ino, bytes));
        ino
    }

    /// Changes a few bytes of a block, and writes all of it.
    pub fn alter(&mut self, file: usize, block: usize, chance: &mut Chance) {
        let (_, ino, bytes) = &mut self.files[file];
        let at = block * BLOCK;
        let own = &mut bytes[at..at + BLOCK];
        for _ in 0..1 + chance.below(3) {
            own[chance.below(BLOCK as u64) as usize] ^= 1 + chance.below(255) as u8;
        }
        self.fs.write(*ino, at as u64, own, false).expect("room");
    }

    /// Other bytes in a file.
    pub fn overwrite(&mut self, file: usize, at: usize, own: &[u8]) {
        let (_, ino, bytes) = &mut self.files[file];
        bytes[at..at + own.len()].copy_from_slice(own);
        self.fs.write(*ino, at as u64, own, false).expect("room");
    }

    /// Takes a file away.
    pub fn remove(&mut self, file: usize) {
        let (name, ..) = self.files.remove(file);
        let parsed = Name::parse(name.as_bytes()).expect("a name");
        self.fs.unlink(&Caller::ROOT, Ino::ROOT, parsed).expect("unlink always works");
    }

    /// Makes all safe; bytes of blocks that were written, and of files that were written as deltas.
    pub fn sync(&self) -> (u64, u64) {
        let volume = self.fs.store().volume();
        let before = volume.counted();
        self.fs.store().sync().expect("a sync");
        let done = volume.counted().since(&before);
        (done.blocks, done.resembling)
    }

    /// Keeps a snapshot, if there is room for it.
    pub fn keep(&self, name: String) -> Option<(String, Files)> {
        self.sync();
        match self.fs.store().create_snapshot(&name) {
            Err(SnapshotError::NoRoom) => None,
            made => {
                made.expect("it is made");
                Some((name, self.files.clone()))
            }
        }
    }

    /// Goes back, if there is room for it, and mounts it again.
    pub fn go_back(&mut self, name: &str, files: &Files) {
        self.sync();
        match self.fs.store().volume().rollback(name) {
            Err(SnapshotError::NoRoom) => {}
            done => {
                done.expect("it goes back");
                self.files.clone_from(files);
            }
        }
        self.again();
    }

    /// Mounts it again, on a device that remembers from here on what was asked of it.
    pub fn watched(&mut self) -> Watched {
        let begin = self.device.medium();
        self.device = Arc::new(self.shape.device(begin.clone()));
        self.again();
        let (told, ends) = (vec![self.files.clone()], vec![0]);
        Watched { shape: self.shape, begin, device: Arc::clone(&self.device), told, ends }
    }

    /// Bytes of blocks that somebody needs.
    pub fn needed(&self) -> u64 {
        let rows = self.fs.store().volume().stretches();
        let blocks =
            rows.iter().filter(|row| matches!(row.condition, Condition::Log | Condition::Moved));
        blocks.map(|row| row.live).sum()
    }

    /// Whether files hold this, and all counts are right.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn same(&self, files: &[(String, Ino, Vec<u8>)]) -> Result<(), String> {
        for (name, ino, bytes) in files {
            let mut found = vec![0; bytes.len() + 1];
            let read = self.fs.read(*ino, 0, &mut found);
            if read != Ok(bytes.len()) || found[..bytes.len()] != **bytes {
                return Err(format!("{name} is not what it was: {read:?}"));
            }
        }
        let findings = self.fs.store().findings();
        if findings.is_empty() { Ok(()) } else { Err(findings.join(", ")) }
    }

    /// All files are what they were given, now and when it is mounted again, and all counts are right.
    pub fn holds(&mut self) {
        for again in [false, true] {
            if again {
                self.again();
            }
            let files = &self.files;
            self.same(files).unwrap_or_else(|why| panic!("{}: {why}", self.shape.name));
        }
    }

    /// A snapshot has what all files held then.
    ///
    /// # Panics
    /// When it has not.
    pub fn looks_like(&self, name: &str, files: &[(String, Ino, Vec<u8>)]) {
        let seen = Snapped::new(Arc::clone(self.fs.store().shared()), name).expect("it is there");
        for (file, ino, bytes) in files {
            let mut found = vec![0; bytes.len() + 1];
            let read = seen.read(*ino, 0, &mut found);
            assert!(read == Ok(bytes.len()) && found[..bytes.len()] == **bytes, "{name}: {file}");
        }
    }
}

/// What was told, and when, on a device whose power is cut.
pub struct Watched {
    shape: Shape,
    begin: Medium,
    device: Arc<Lying>,
    /// What there was, and behind which operation that was safe.
    told: Vec<Files>,
    ends: Vec<usize>,
}

impl Watched {
    /// What there is in a place is safe now.
    pub fn is_safe(&mut self, place: &Place) {
        self.told.push(place.files.clone());
        self.ends.push(self.device.done());
    }

    /// Cuts power at every operation: what was safe is there, or what came next, and now and then it goes on. `each`
    /// looks at all that is found; how many that was.
    ///
    /// # Panics
    /// When something is not as it should be.
    pub fn cut(self, dose: Dose, chance: &mut Chance, each: &mut dyn FnMut(&Place)) -> usize {
        self.cut_some(dose, 1, chance, each)
    }

    /// The same of one in so many of all that may be found.
    pub(crate) fn cut_some(
        self,
        dose: Dose,
        one_in: usize,
        chance: &mut Chance,
        each: &mut dyn FnMut(&Place),
    ) -> usize {
        let Self { shape, begin, device, told, ends } = self;
        let mut replay = Replay::new(begin, shape.zones.map(|zones| zones.len), false);
        let (mut seen, mut states) = (0, 0);
        for (done, op) in device.ops().iter().enumerate() {
            replay.step(op);
            let safe = ends.iter().rposition(|&end| end <= done + 1).unwrap_or(0);
            replay.states(dose, chance, &mut |medium| {
                seen += 1;
                if !usize::is_multiple_of(seen, one_in) {
                    return;
                }
                states += 1;
                let found = Place::on(shape, shape.device(medium)).expect("it opens");
                let fits = told[safe..].iter().take(2).any(|files| found.same(files).is_ok());
                assert!(fits, "{}: after {done} operations", shape.name);
                each(&found);
                if states % 16 == 0 {
                    drop(found.fs);
                    goes_on(&shape, &found.device).expect("it goes on");
                }
            });
        }
        states
    }
}
