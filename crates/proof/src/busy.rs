//! A volume that is nearly full and at work: blocks are altered a little, written anew, or become equal to others, so
//! that deltas are made and blocks shared, and both are moved and told again to make room.
//!
//! Above: tests. Below: [`crate::place`]. Invariant: the same shape and seed do the same, again and again.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker::store::{Store as _, View as _};
use esker_volume::Counted;
use esker_volume::device::Fault;

use crate::chance::Chance;
use crate::cut::{Shape, goes_on};
use crate::lying::medium::{Medium, PAGE};
use crate::lying::states::Dose;
use crate::lying::{Op, Plan, Request};
use crate::place::{BLOCK, Files, Place, Watched, noise};

/// How full it is, in hundredths.
const FULL: u64 = 60;
/// Blocks of a file.
const BLOCKS: usize = 32;
/// Blocks from one sync to the next.
const BATCH: u64 = 12;
/// How often as many blocks are written over as there are, before anybody looks.
const WARM: u64 = 2;
/// Syncs in an episode.
const SYNCS: usize = 5;
/// Episodes that are tried until one has what is wanted.
const TRIES: usize = 16;

/// All that is counted.
pub const SWITCHED: [&str; 7] =
    ["resembling", "shared", "moved", "told again", "parity", "settled", "given back"];

/// How much was done of what settings switch on or off: bytes by the volume's counters, but for the last two.
pub type Did = BTreeMap<&'static str, u64>;

/// Adds what was done elsewhere.
pub fn add(all: &mut Did, own: &Did) {
    own.iter().for_each(|(what, count)| *all.entry(what).or_default() += count);
}

/// The volume, and what it is given next.
pub struct Busy {
    place: Place,
    chance: Chance,
    /// What was written last that nobody had before.
    last: Vec<u8>,
}

/// Some syncs of such a volume, to be looked at wherever they end.
pub struct Episode {
    shape: Shape,
    begin: Medium,
    files: Files,
    chance: Chance,
    last: Vec<u8>,
    watched: Watched,
    /// What is there when it was closed.
    end: (Medium, Files),
    /// How often the device was asked.
    asked: [(Request, u64); 2],
    /// What was done in it.
    pub did: Did,
}

impl Busy {
    /// Nearly full, and written over until blocks must be moved.
    pub fn new(shape: Shape, seed: u64) -> Self {
        let (mut place, mut chance) = (Place::new(shape, seed), Chance::new(seed));
        let percent = |place: &Place| {
            let space = place.fs.store().space();
            space.used * 100 / space.total
        };
        while percent(&place) < FULL {
            let name = format!("busy {}", place.files.len());
            place.write(&name, noise(&mut chance, BLOCKS * BLOCK));
            place.sync();
        }
        let last = noise(&mut chance, BLOCK);
        let mut busy = Self { place, chance, last };
        for _ in 0..WARM * (busy.place.files.len() * BLOCKS) as u64 / BATCH {
            let done = busy.batch();
            done.unwrap_or_else(|error| panic!("{error}: {:?}", busy.place.fs.store().space()));
        }
        busy.place.holds();
        busy
    }

    /// Writes some blocks over, and makes that safe.
    fn batch(&mut self) -> esker::Result<()> {
        let files = self.place.files.len() as u64;
        for _ in 0..BATCH {
            let file = self.chance.below(files) as usize;
            let at = self.chance.below(BLOCKS as u64) as usize * BLOCK;
            let (_, ino, bytes) = &mut self.place.files[file];
            let mut new = bytes[at..at + BLOCK].to_vec();
            match self.chance.below(8) {
                0..4 => new[self.chance.below(BLOCK as u64) as usize] ^= 1,
                4 => new.clone_from(&self.last),
                _ => {
                    new = noise(&mut self.chance, BLOCK);
                    self.last.clone_from(&new);
                }
            }
            self.place.fs.write(*ino, at as u64, &new, false)?;
            bytes[at..at + BLOCK].copy_from_slice(&new);
        }
        self.place.fs.store().sync()?;
        self.place.fs.store().volume().give_back_below(2 * self.place.shape.segment_len);
        Ok(())
    }

    /// What was done since it was mounted.
    fn did(&self) -> Did {
        let done = self.place.fs.store().volume().counted();
        let ops = self.place.device.ops();
        let discards = ops.iter().filter(|op| matches!(op, Op::Discard(..))).count();
        let Counted { resembling, shared, moved, folded, parity, steps, .. } = done;
        let all = [resembling, shared, moved, folded, parity, steps, discards as u64];
        SWITCHED.into_iter().zip(all).collect()
    }

    /// Some syncs in which all of this was done, or the last of many where it never is.
    pub fn episode(mut self, wanted: &[&str]) -> Episode {
        let mut tries = 0;
        loop {
            let begin = self.place.device.medium();
            let (files, chance) = (self.place.files.clone(), self.chance.clone());
            let last = self.last.clone();
            let mut watched = self.place.watched();
            for _ in 0..SYNCS {
                self.batch().expect("room");
                watched.is_safe(&self.place);
            }
            let did = self.did();
            tries += 1;
            if tries == TRIES || wanted.iter().all(|what| did[what] > 0) {
                let shape = self.place.shape;
                let asked = [Request::Write, Request::Flush];
                let asked = asked.map(|request| (request, self.place.device.count(request)));
                self.place.fs.store().volume().close().expect("it is closed");
                let end = (self.place.device.medium(), self.place.files);
                return Episode { shape, begin, files, chance, last, watched, end, asked, did };
            }
        }
    }
}

impl Episode {
    /// Cuts power at every operation, and looks at one in so many of all that is left; how many that was.
    pub fn cut(self, dose: Dose, one_in: usize, chance: &mut Chance) -> u64 {
        self.watched.cut_some(dose, one_in, chance, &mut |_| {}) as u64
    }

    /// Does the same once more while a write or a flush fails, of each about so many that lie evenly apart, by turns
    /// once and from then on: what a sync called safe is there, or something that came since. What was done, and in how
    /// many runs.
    ///
    /// # Panics
    /// When it is not.
    pub fn fail(&self, count: u64) -> (Did, u64) {
        let (mut did, mut runs) = (Did::new(), 0);
        for (request, asked) in self.asked {
            for nth in (0..asked).step_by((asked / count).max(1) as usize) {
                let plan = Plan { request, nth, forever: runs % 2 == 1, fault: Fault::Io(None) };
                add(&mut did, &self.fail_once(plan));
                runs += 1;
            }
        }
        (did, runs)
    }

    /// What was done.
    fn fail_once(&self, plan: Plan) -> Did {
        let mut place =
            Place::on(self.shape, self.shape.device(self.begin.clone())).expect("it opens");
        place.files.clone_from(&self.files);
        let device = Arc::clone(&place.device);
        device.plan(Some(plan));
        let mut busy = Busy { place, chance: self.chance.clone(), last: self.last.clone() };
        let mut since = vec![self.files.clone()];
        for _ in 0..SYNCS {
            if busy.batch().is_ok() {
                since.clear();
            }
            since.push(busy.place.files.clone());
        }
        assert!(device.count(plan.request) > plan.nth, "{plan:?}: nothing failed");
        device.plan(None);
        let did = busy.did();
        let left = self.shape.device(device.medium());
        let found = Place::on(self.shape, left).unwrap_or_else(|why| panic!("{plan:?}: {why}"));
        let tried: Vec<_> = since.iter().map(|files| found.same(files)).collect();
        assert!(tried.iter().any(Result::is_ok), "{}, {plan:?}: {tried:?}", self.shape.name);
        drop(found.fs);
        goes_on(&self.shape, &found.device).unwrap_or_else(|why| panic!("{plan:?}: {why}"));
        did
    }

    /// Turns bits round, one at a time: what is read is right or an error; how many were told, and how many did no
    /// harm.
    ///
    /// # Panics
    /// When something else is read.
    pub fn rot(&self, count: u64, chance: &mut Chance) -> (u64, u64) {
        let (medium, files) = &self.end;
        let pages = (0..medium.size()).step_by(PAGE).filter(|&at| !medium.is_zero(at));
        let pages: Vec<u64> = pages.collect();
        let mut told = 0;
        for _ in 0..count {
            let mut medium = medium.clone();
            let bit = chance.pick(&pages) * 8 + chance.below(PAGE as u64 * 8);
            medium.rot(bit);
            let Ok(volume) = self.shape.open(self.shape.device(medium), false) else {
                told += 1;
                continue;
            };
            let mut same = true;
            for (name, ino, bytes) in files {
                let mut found = vec![0; bytes.len()];
                let Ok(len) = volume.read(*ino, 0, &mut found) else {
                    same = false;
                    continue;
                };
                let right = len == bytes.len() && found == *bytes;
                assert!(right, "{}, bit {bit}: {name} holds something else", self.shape.name);
            }
            told += u64::from(!same);
        }
        (told, count - told)
    }
}
