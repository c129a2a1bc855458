//! Blocks that are moved while others are written over: whenever power goes, whatever fails and whenever it is mounted
//! again, a volume that is nearly full holds what was made safe, and what it holds adds up.

use std::collections::HashMap;
use std::sync::Arc;

use esker::posix::{Caller, Fs, New};
use esker::store::View as _;
use esker::{Ino, Kind, Name, Time};
use esker_proof::chance::Chance;
use esker_proof::cut::{SHAPES, Shape, goes_on};
use esker_proof::harness::{from_env, seed};
use esker_proof::lying::medium::Medium;
use esker_proof::lying::states::{Dose, Replay};
use esker_proof::lying::{Lying, Op, Plan, Request};
use esker_proof::world::on_volume::{Above, mount};
use esker_stone::Codec;
use esker_stone::cache::Cache;
use esker_stone::check::checksum;
use esker_volume::device::{Fault, Stream, Zones};
use esker_volume::part::{MOVED, PartHead};
use esker_volume::recover::{Recovering, RepairError, Repairing, recover, repair};
use esker_volume::segments::{Condition, Segment};
use esker_volume::{Options, Superblock};

const BLOCK: usize = 4096;
/// Blocks from one sync to the next.
const BATCH: u64 = 8;
/// How full it is, in hundredths.
const FULL: u64 = 75;
/// How often as many blocks are written over as there are, before anybody looks.
const WARM: u64 = 2;
const SHAPE: Shape = Shape {
    name: "migration",
    size: 16 << 20,
    segment_len: 128 << 10,
    block_len: 4 << 10,
    codec: Codec::None,
    recent_len: 64 << 10,
    table_len: 16 << 10,
    ..SHAPES[0]
};
const ZONES: Shape = Shape {
    name: "migration on zones",
    zones: Some(Zones { len: 128 << 10, capacity: 128 << 10, active: 5 }),
    ..SHAPE
};

fn clock() -> Time {
    Time { secs: 1_700_000_000, nanos: 0 }
}

/// A volume with one file, and what that should hold.
struct Full {
    fs: Fs<Above<Arc<Lying>>>,
    ino: Ino,
    content: Vec<u8>,
    chance: Chance,
}

fn noise(chance: &mut Chance, target: &mut [u8]) {
    for chunk in target.chunks_mut(8) {
        chunk.copy_from_slice(&chance.number().to_le_bytes()[..chunk.len()]);
    }
}

impl Full {
    /// Nearly full, and written over until blocks were moved.
    fn new(shape: &Shape, seed: u64) -> Self {
        let home = mount(shape, shape.fresh(seed)).expect("it opens");
        let fs = Fs::new(home, clock);
        let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
        let name = Name::parse(b"file").expect("a name");
        let ino = fs.create(&Caller::ROOT, Ino::ROOT, name, new).expect("room").ino;
        let mut full = Self { fs, ino, content: Vec::new(), chance: Chance::new(seed) };
        while full.percent() < FULL {
            let mut bytes = vec![0; 16 * BLOCK];
            noise(&mut full.chance, &mut bytes);
            full.fs.write(ino, full.content.len() as u64, &bytes, false).expect("room");
            full.content.extend(bytes);
            full.fs.sync().expect("it is written");
        }
        for _ in 0..WARM * full.blocks() / BATCH {
            full.batch().expect("it is written over");
        }
        assert!(full.moved() > 0, "nothing was moved");
        full
    }

    fn percent(&self) -> u64 {
        let space = self.fs.store().space();
        space.used * 100 / space.total
    }

    fn blocks(&self) -> u64 {
        (self.content.len() / BLOCK) as u64
    }

    fn moved(&self) -> usize {
        let rows = self.fs.store().volume().stretches();
        rows.iter().filter(|row| row.condition == Condition::Moved && row.live > 0).count()
    }

    /// Some blocks anew, and a sync.
    fn batch(&mut self) -> esker::Result<()> {
        for _ in 0..BATCH {
            let at = self.chance.below(self.blocks()) as usize * BLOCK;
            let mut bytes = [0; BLOCK];
            noise(&mut self.chance, &mut bytes);
            self.fs.write(self.ino, at as u64, &bytes, false)?;
            self.content[at..at + BLOCK].copy_from_slice(&bytes);
        }
        self.fs.sync()?;
        self.fs.store().volume().give_back_below(2 * SHAPE.segment_len);
        Ok(())
    }

    fn sum(&self) -> u64 {
        checksum(&self.content)
    }

    /// The same volume on another device, with what is on this one's.
    fn again(self, shape: &Shape) -> (Self, Medium, Arc<Lying>) {
        let medium = self.fs.store().volume().device().medium();
        let device = Arc::new(shape.device(medium.clone()));
        let home = mount(shape, Arc::clone(&device)).expect("it opens");
        (Self { fs: Fs::new(home, clock), ..self }, medium, device)
    }
}

/// The checksum of what a volume has of the file, if it is sound.
fn look(shape: &Shape, device: &Lying, ino: Ino, len: usize) -> Result<u64, String> {
    let volume = shape.open(device, false).map_err(|error| format!("opening: {error:?}"))?;
    let findings = volume.check();
    if !findings.is_empty() {
        return Err(format!("check finds {findings:?}"));
    }
    let mut read = vec![0; len];
    let found = volume.read(ino, 0, &mut read).map_err(|error| format!("reading: {error:?}"))?;
    if found == len { Ok(checksum(&read)) } else { Err(format!("{found} bytes of {len}")) }
}

fn every_cut_is_survived(shape: &Shape, seed: u64) -> u64 {
    let full = Full::new(shape, seed);
    let (mut full, begin, device) = full.again(shape);
    let (mut known, mut safe) = (HashMap::from([(full.sum(), 0)]), vec![0]);
    let erases = |full: &Full| -> u64 {
        full.fs.store().volume().stretches().iter().map(|row| row.erases).sum()
    };
    let before = erases(&full);
    for number in 1..=from_env("ESKER_CASES", 6) * 2 {
        full.batch().expect("it is written over");
        known.insert(full.sum(), number);
        safe.resize(device.done(), number - 1);
        safe.push(number);
    }
    assert!(erases(&full) > before + 4, "{}: nothing is begun again", shape.name);
    let zone = shape.zones.map(|zones| zones.len);
    let (mut replay, mut states) = (Replay::new(begin, zone, false), 0);
    let (ino, len) = (full.ino, full.content.len());
    let dose = Dose { subsets: 1, torn: 1, garbage: 1 };
    for (at, op) in device.ops().iter().enumerate() {
        replay.step(op);
        replay.states(dose, &mut full.chance, &mut |medium| {
            let least = safe.get(at + 1).copied().unwrap_or(0);
            let state = shape.device(medium);
            let found = look(shape, &state, ino, len).and_then(|sum| {
                let which = known.get(&sum).ok_or("it holds something else")?;
                let fits = (least..=least + 1).contains(which);
                if fits { Ok(()) } else { Err(format!("{which}, but {least} was safe")) }
            });
            let why = |why| panic!("{}, seed {seed:#x}, operation {at}: {why}", shape.name);
            found.unwrap_or_else(why);
            if states % 32 == 0 {
                goes_on(shape, &state).unwrap_or_else(why);
            }
            states += 1;
        });
    }
    states
}

#[test]
fn what_is_moved_survives_every_cut() {
    println!("{} states", every_cut_is_survived(&SHAPE, seed()));
}

#[test]
fn what_is_moved_on_zones_survives_every_cut() {
    println!("{} states", every_cut_is_survived(&ZONES, seed()));
}

/// Some write or barrier fails, once or from then on: what was told to be safe is there.
#[test]
fn what_is_moved_survives_every_failure() {
    let (full, begin, _) = Full::new(&SHAPE, seed()).again(&SHAPE);
    let (ino, len) = (full.ino, full.content.len());
    drop(full);
    let both = [Request::Write, Request::Flush];
    for (number, request) in both.into_iter().cycle().take(40).enumerate() {
        let device = Arc::new(SHAPE.device(begin.clone()));
        let home = mount(&SHAPE, Arc::clone(&device)).expect("it opens");
        let content = begin_content(&SHAPE, &begin, ino, len);
        let chance = Chance::new(number as u64);
        let mut full = Full { fs: Fs::new(home, clock), ino, content, chance };
        let (nth, forever) = (number as u64 / 2, number % 4 > 1);
        device.plan(Some(Plan { request, nth, forever, fault: Fault::Io(None) }));
        // What may be there: what was safe last, and whatever came since.
        let (mut done, mut since) = (0, vec![full.sum()]);
        for _ in 0..12 {
            if full.batch().is_ok() {
                (done, since) = (done + 1, Vec::new());
            }
            since.push(full.sum());
        }
        assert!(forever || done > 0, "{request:?} {nth}: nothing can be written any more");
        assert!(device.count(request) > nth, "{request:?} {nth}: nothing failed");
        device.plan(None);
        let found = look(&SHAPE, &SHAPE.device(device.medium()), ino, len);
        let why = |why| panic!("{request:?} {nth}, for ever: {forever}: {why}");
        let sum = found.unwrap_or_else(why);
        assert!(since.contains(&sum), "{request:?} {nth}: it holds something else");
    }
}

/// A zone that cannot be begun again is left alone from then on, whoever took it: nothing is lost, and all goes on.
#[test]
fn a_zone_that_cannot_be_begun_is_left_alone() {
    let (full, begin, _) = Full::new(&ZONES, seed()).again(&ZONES);
    let (ino, len) = (full.ino, full.content.len());
    drop(full);
    let mut left = 0;
    for nth in 0..from_env("ESKER_CASES", 6) {
        let device = Arc::new(ZONES.device(begin.clone()));
        let home = mount(&ZONES, Arc::clone(&device)).expect("it opens");
        let content = begin_content(&ZONES, &begin, ino, len);
        let mut full = Full { fs: Fs::new(home, clock), ino, content, chance: Chance::new(nth) };
        let request = Request::Discard;
        device.plan(Some(Plan { request, nth, forever: false, fault: Fault::Io(None) }));
        for number in 0..32 {
            full.batch().unwrap_or_else(|error| panic!("{nth}, batch {number}: {error}"));
        }
        assert!(device.count(request) > nth, "{nth}: nothing failed");
        let rows = full.fs.store().volume().stretches();
        let bad = rows.iter().filter(|row| row.condition == Condition::Bad).count();
        assert!(bad < 2, "{nth}: {bad} zones are left alone");
        left += bad;
        let device = ZONES.device(device.medium());
        assert_eq!(look(&ZONES, &device, ino, len), Ok(full.sum()), "{nth}");
        goes_on(&ZONES, &device).unwrap_or_else(|why| panic!("{nth}: {why}"));
    }
    assert!(left > 0, "what failed is taken again");
}

/// No stretch is kept for nothing but failures: the one where the log would go on then wears as others do.
#[test]
fn every_stretch_wears() {
    let full = Full::new(&SHAPE, seed());
    let rows = full.fs.store().volume().stretches();
    let wears = |row: &&Segment| row.condition != Condition::Home && row.erases == 0;
    let never: Vec<_> = rows.iter().filter(wears).collect();
    assert!(never.is_empty(), "never begun: {never:?}");
}

/// A device that keeps streams apart finds one in each stretch, from its beginning to its end, and all of them.
#[test]
fn each_stretch_is_of_one_stream() {
    let full = Full::new(&SHAPE, seed());
    let (mut open, mut seen) = (HashMap::new(), Vec::new());
    for (at, stream) in full.fs.store().volume().device().placed() {
        if at % SHAPE.segment_len == 0 {
            open.insert(at / SHAPE.segment_len, stream);
        }
        // Of the first one mkfs has made the beginning.
        assert_eq!(*open.entry(at / SHAPE.segment_len).or_insert(stream), stream, "at {at}");
        if !seen.contains(&stream) {
            seen.push(stream);
        }
    }
    assert_eq!(seen.len(), Stream::ALL.len(), "only {seen:?}");
}

/// What becomes free is given back below once somebody has time, neighbours at once, and nothing that was taken again.
#[test]
fn neighbours_are_given_back_at_once() {
    let full = Full::new(&SHAPE, seed());
    let device = Arc::clone(full.fs.store().volume().device());
    let discards = || {
        device.ops().into_iter().filter_map(|op| match op {
            Op::Discard(at, len) => Some((at, len)),
            _ => None,
        })
    };
    let volume = full.fs.store().volume();
    while volume.give_back_below(u64::MAX) {}
    let before = discards().count();
    let name = Name::parse(b"file").expect("a name");
    full.fs.unlink(&Caller::ROOT, Ino::ROOT, name).expect("it is removed");
    full.fs.forget(full.ino, 1);
    full.fs.sync().expect("a sync");
    volume.reclaim(SHAPE.size).expect("what it held is free");
    assert_eq!(discards().count(), before, "somebody who commits waits for it");
    let more = volume.give_back_below(SHAPE.segment_len);
    let first: Vec<_> = discards().skip(before).collect();
    assert!(more && first.len() == 1 && first[0].1 == SHAPE.segment_len, "{first:?}");
    volume.close().expect("it is closed");
    let all: Vec<_> = discards().skip(before).collect();
    let len: u64 = all.iter().map(|(_, len)| len).sum();
    assert!(len > SHAPE.size / 2 && (all.len() as u64) < len / SHAPE.segment_len / 4, "{all:?}");
    let rows = volume.stretches();
    let free = |at: u64| rows[(at / SHAPE.segment_len) as usize].condition == Condition::Free;
    let stretches =
        all.iter().flat_map(|&(at, len)| (at..at + len).step_by(SHAPE.segment_len as usize));
    assert!(stretches.into_iter().all(free), "something that is used was given back");
}

fn begin_content(shape: &Shape, begin: &Medium, ino: Ino, len: usize) -> Vec<u8> {
    let volume = shape.open(shape.device(begin.clone()), false).expect("it opens");
    let mut content = vec![0; len];
    assert_eq!(volume.read(ino, 0, &mut content), Ok(len));
    content
}

fn written(ops: &[Op]) -> u64 {
    let len = |op: &Op| match op {
        Op::Write(write) => write.bytes.len() as u64,
        _ => 0,
    };
    ops.iter().map(len).sum()
}

/// Takes the newest superblock away, with its copies.
fn without_newest(mut medium: Medium) -> Medium {
    let end = SHAPE.segment_len * 2 * u64::from(SHAPE.copies);
    let found = |at| {
        let mut bytes = [0; Superblock::SIZE];
        medium.read(at, &mut bytes);
        Superblock::parse(&bytes).ok().map(|own| (own.generation, at))
    };
    let all: Vec<_> = (0..end).step_by(512).filter_map(found).collect();
    let newest = all.iter().map(|(generation, _)| *generation).max();
    for (_, at) in all.iter().filter(|(generation, _)| Some(*generation) == newest) {
        medium.write(*at, &[0; Superblock::SIZE]);
    }
    medium
}

/// Should the newest superblock be lost, the one before it opens all that came since, though stretches that its root
/// knew as idle were begun again meanwhile.
#[test]
fn the_superblock_before_opens_everything() {
    let mut full = Full::new(&SHAPE, seed());
    let len = full.content.len();
    for number in 0..from_env("ESKER_CASES", 6) * 16 {
        full.batch().expect("it is written over");
        let medium = without_newest(full.fs.store().volume().device().medium());
        let device = SHAPE.device(medium);
        let found = look(&SHAPE, &device, full.ino, len);
        assert_eq!(found, Ok(full.sum()), "batch {number}");
        if number % 8 == 0 {
            goes_on(&SHAPE, &device).unwrap_or_else(|why| panic!("batch {number}: {why}"));
        }
    }
}

/// Mounted again and again, it goes on where it was, and how much is written for a batch stays bounded.
#[test]
fn mounting_again_loses_nothing_and_writes_no_more() {
    let mut full = Full::new(&SHAPE, seed());
    let (mut most, mut all, mut batches) = (0, 0, 0);
    for _ in 0..from_env("ESKER_CASES", 6) {
        let (next, _, device) = full.again(&SHAPE);
        full = next;
        for _ in 0..64 {
            let before = device.done();
            full.batch().expect("it is written over");
            let own = written(&device.ops()[before..]);
            (most, all, batches) = (most.max(own), all + own, batches + 1);
        }
        assert_eq!(full.fs.store().volume().check(), []);
        let mut read = vec![0; full.content.len()];
        assert_eq!(full.fs.store().volume().read(full.ino, 0, &mut read), Ok(read.len()));
        assert!(read == full.content, "it holds something else");
    }
    let user = BATCH * BLOCK as u64;
    println!("{} % full: {all} bytes in {batches} batches of {user}, {most} at most", FULL);
    assert!(all < batches * user * 12, "{all} bytes written for {batches} batches");
    assert!(most < 64 * user, "{most} bytes for one batch");
}

/// Where blocks went is told by a commit, and by themselves: all heads there may be lost.
#[test]
fn what_was_moved_is_found_without_its_heads() {
    let mut full = Full::new(&SHAPE, seed());
    let mut repaired = 0;
    let options = || Options { table_len: Some(1), ..Options::new(Cache::new(1 << 20)) };
    for step in 0..from_env("ESKER_CASES", 3) * 10 {
        full.batch().expect("it is written over");
        let mut medium = full.fs.store().volume().device().medium();
        let mut bytes = vec![0; medium.size() as usize];
        medium.read(0, &mut bytes);
        for at in (0..bytes.len()).step_by(512) {
            if PartHead::parse(&bytes[at..], &[7; 16]).is_some_and(|head| head.kind == MOVED) {
                medium.write(at as u64, &[0; PartHead::SIZE]);
            }
        }
        let device = SHAPE.device(medium);
        let (view, found) =
            recover(&device, options(), Recovering::default()).expect("it is there");
        let mut read = vec![0; full.content.len()];
        let len = view.read(full.ino, 0, &mut read);
        assert!(len == Ok(read.len()) && read == full.content, "step {step}: {found:?}");
        let how = Repairing { write: true, ..Repairing::default() };
        let done = match repair(&device, options(), how) {
            // It is nearly full.
            Err(RepairError::NoRoom) => continue,
            done => done.unwrap_or_else(|why| panic!("step {step}: {why:?}")),
        };
        repaired += 1;
        let found = look(&SHAPE, &device, full.ino, full.content.len());
        assert_eq!(found, Ok(full.sum()), "step {step}: {done:?}");
    }
    assert!(repaired > 0, "it always was too full");
}
