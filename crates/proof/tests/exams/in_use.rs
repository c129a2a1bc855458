//! Volumes that are cared for while others write: scrubbed, checked and made larger. All damage is found, nothing else
//! is, what can be is made again, and it is named which files the rest costs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use esker::posix::{Caller, Fs, New};
use esker::store::Store as _;
use esker::{Ino, Kind, Name, Time};
use esker_proof::chance::Chance;
use esker_proof::cut::{SHAPES, Shape, goes_on};
use esker_proof::harness::{Ends, from_env, seed};
use esker_proof::lying::Lying;
use esker_proof::lying::medium::{Medium, PAGE};
use esker_proof::lying::ram::Ram;
use esker_proof::lying::states::{Dose, Replay};
use esker_proof::world::on_volume::{Above, mount};
use esker_stone::Codec;
use esker_volume::device::Device;
use esker_volume::part::{LOG, PARITY, PartHead, TABLES};
use esker_volume::scrub::{Scrubbed, Scrubbing};
use esker_volume::segments::Condition;
use esker_volume::{Change, Finding, make};

const SIZE: usize = 32 << 20;
const SHAPE: Shape = Shape {
    name: "in use",
    size: SIZE as u64,
    segment_len: 256 << 10,
    block_len: 8 << 10,
    codec: Codec::None,
    copies: 2,
    recent_len: 64 << 10,
    table_len: 8 << 10,
    ..SHAPES[0]
};
/// Files that nobody touches, each with blocks of its own.
const QUIET: u64 = 60;
const QUIET_LEN: usize = 16 << 10;

fn clock() -> Time {
    Time { secs: 1_700_000_000, nanos: 0 }
}

fn create<D: Device>(fs: &Fs<Above<D>>, name: &str, bytes: &[u8]) -> Result<Ino, esker::Error> {
    let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
    let name = Name::parse(name.as_bytes()).expect("a name");
    let ino = fs.create(&Caller::ROOT, Ino::ROOT, name, new)?.ino;
    fs.write(ino, 0, bytes, false).map(|_| ino)
}

fn remove<D: Device>(fs: &Fs<Above<D>>, name: &str, ino: Ino) {
    let name = Name::parse(name.as_bytes()).expect("a name");
    fs.unlink(&Caller::ROOT, Ino::ROOT, name).expect("unlink always works");
    fs.forget(ino, 1);
}

fn noise(chance: &mut Chance, len: usize) -> Vec<u8> {
    (0..len).map(|_| chance.number() as u8).collect()
}

/// A volume with files that stay as they are, and others that come and go as long as somebody writes.
struct Busy {
    device: Arc<Ram>,
    fs: Fs<Above<Arc<Ram>>>,
    quiet: Vec<Vec<u8>>,
}

impl Busy {
    fn new(shape: &Shape, chance: &mut Chance) -> Self {
        let device = Arc::new(Ram::new(SIZE));
        make(&device, &shape.making()).expect("a volume");
        let fs = Fs::new(mount(shape, Arc::clone(&device)).expect("it opens"), clock);
        let mut quiet = Vec::new();
        for number in 0..QUIET {
            let bytes = noise(chance, QUIET_LEN);
            create(&fs, &format!("quiet {number}"), &bytes).expect("room");
            quiet.push(bytes);
        }
        fs.store().sync().expect("a sync");
        Self { device, fs, quiet }
    }

    /// Files come and go until `done`; how many.
    fn write(&self, seed: u64, done: &AtomicBool) -> u64 {
        let (mut chance, mut count) = (Chance::new(seed), 0);
        let mut there = Vec::new();
        while count < 50 || !done.load(Ordering::Acquire) {
            let name = format!("{seed} {count}");
            let len = 1 + chance.below(20_000) as usize;
            let ino = create(&self.fs, &name, &noise(&mut chance, len)).expect("room");
            there.push((name, ino));
            if there.len() > 40 {
                let (name, ino) = there.swap_remove(chance.below(40) as usize);
                remove(&self.fs, &name, ino);
            }
            count += 1;
            if count % 7 == 0 {
                self.fs.store().sync().expect("a sync");
                self.fs.store().volume().reclaim_in_time().expect("room is made");
            }
        }
        count
    }

    /// Does something while two others write.
    fn while_busy<R>(&self, seed: u64, work: impl FnOnce() -> R) -> R {
        let done = &AtomicBool::new(false);
        thread::scope(|scope| {
            let writers: Vec<_> = (1..3)
                .map(|number| scope.spawn(move || self.write(seed ^ (number << 40), done)))
                .collect();
            let ends = Ends(done);
            let answer = work();
            drop(ends);
            let counts = writers.into_iter().map(|writer| writer.join().expect("it wrote"));
            assert!(counts.sum::<u64>() > 0, "nobody wrote");
            answer
        })
    }

    fn scrub(&self) -> Scrubbed {
        let how = Scrubbing::all(&|_| true);
        self.fs.store().volume().scrub(&how).expect("there is room for a moment")
    }

    fn flip(&self, at: u64) {
        let mut byte = [0];
        self.device.read(at, &mut byte).expect("it reads");
        self.device.write(at, &[!byte[0]]).expect("it writes");
    }

    /// Flips a byte of every part of this kind in stretches of this use; how many. The `at`th byte, of its length.
    fn flip_parts(&self, kind: u32, condition: Condition, at: fn(u64) -> u64) -> u64 {
        let volume = self.fs.store().volume();
        let (len, uuid) = (SHAPE.segment_len, volume.shape().uuid);
        let mut count = 0;
        for row in volume.stretches().iter().filter(|row| row.condition == condition) {
            let begin = u64::from(row.physical.0) * len;
            let mut bytes = vec![0; len as usize];
            self.device.read(begin, &mut bytes).expect("it reads");
            for place in (0..len).step_by(4096) {
                let head = PartHead::parse(&bytes[place as usize..][..PartHead::SIZE], &uuid);
                let own = head.filter(|head| head.kind == kind && head.segment == row.number);
                if let Some(head) = own {
                    self.flip(begin + place + at(head.len));
                    count += 1;
                }
            }
        }
        count
    }

    /// Where the bytes of a file lie.
    fn place_of(&self, number: u64) -> u64 {
        let wanted = &self.quiet[number as usize][..64];
        let mut bytes = vec![0; SIZE];
        self.device.read(0, &mut bytes).expect("it reads");
        let found = bytes.windows(wanted.len()).position(|own| own == wanted);
        found.expect("it is there") as u64
    }
}

/// Who asks how much waits to be written gets an answer while it is written, and holds nobody up.
#[test]
fn what_waits_is_told_while_it_is_written() {
    let (told, hears) = channel();
    // Nobody waits for it to end: where it fails it never does.
    thread::spawn(move || {
        let busy = Busy::new(&SHAPE, &mut Chance::new(seed()));
        busy.while_busy(5, || {
            for _ in 0..20_000 {
                let (most, memory) = busy.fs.store().waiting();
                assert!(memory < SIZE as u64 && most < SIZE as u64, "{most}, {memory}");
            }
        });
        told.send(()).expect("somebody waits");
    });
    hears.recv_timeout(Duration::from_secs(120)).expect("an answer");
}

/// Nothing is found where nothing is damaged, however much is written and moved meanwhile.
#[test]
fn nothing_is_found_where_nothing_is_damaged() {
    for copies in [1, 2] {
        let shape = Shape { copies, ..SHAPE };
        let busy = Busy::new(&shape, &mut Chance::new(seed()));
        busy.fs.store().create_snapshot("one").expect("a snapshot");
        for round in 0..from_env("ESKER_CASES", 6) {
            busy.while_busy(round, || {
                let done = busy.scrub();
                assert!(done.is_sound() && done.parts > 0, "{round}: {done:?}");
                assert!(done.blocks >= 2 * QUIET, "{round}: {done:?}");
                let found = busy.fs.store().volume().check_moment(&|_| true);
                assert_eq!(found, Ok(Vec::new()), "{round}");
            });
        }
        busy.fs.store().sync().expect("a sync");
        assert_eq!(busy.fs.store().volume().check(), []);
    }
}

/// Whatever of tables, their parity, the superblock and the log is damaged is found and made again.
#[test]
fn what_can_be_made_again_is() {
    let busy = Busy::new(&SHAPE, &mut Chance::new(seed()));
    for round in 0..from_env("ESKER_CASES", 4) {
        busy.while_busy(round, thread::yield_now);
        busy.fs.store().sync().expect("a sync");
        let before = busy.scrub();
        assert!(before.is_sound(), "{before:?}");
        // In the head, in the middle, at the end.
        for at in [|_| 40, |len| len / 2, |len| len - 1] as [fn(u64) -> u64; 3] {
            let there = busy.flip_parts(TABLES, Condition::Tables, at);
            assert!(there >= before.parts);
            let done = busy.scrub();
            assert_eq!((done.mended, &done.findings), (before.parts, &vec![]), "{done:?}");
        }
        let parity = busy.flip_parts(PARITY, Condition::Tables, |len| len / 2);
        let done = busy.scrub();
        assert!((1..=parity).contains(&done.parity) && done.findings.is_empty(), "{done:?}");
        // All of it.
        let heads = busy.flip_parts(PARITY, Condition::Tables, |_| 40);
        let again = busy.scrub();
        assert!(heads >= done.parity && again.parity >= done.parity, "{done:?} {again:?}");
        let sound = busy.scrub();
        assert!(sound.is_sound(), "{sound:?}");
        // While others write: nobody but us reads parity. What was replaced meanwhile need not be made again.
        busy.flip_parts(PARITY, Condition::Tables, |len| len / 2);
        let done = busy.while_busy(round + 100, || busy.scrub());
        assert_eq!(done.findings, [], "{done:?}");
        assert!(busy.scrub().is_sound());
    }
    busy.fs.store().sync().expect("a sync");
    assert_eq!(busy.fs.store().volume().check(), []);
}

/// The newest superblock, and the log: the server knows what they said.
#[test]
fn what_the_server_knows_is_written_again() {
    for copies in [1, 2] {
        let shape = Shape { copies, ..SHAPE };
        let busy = Busy::new(&shape, &mut Chance::new(seed()));
        let volume = busy.fs.store().volume();
        let newest = (volume.settled() + 1).to_le_bytes();
        let mut homes = vec![0; 4 * SHAPE.segment_len as usize];
        busy.device.read(0, &mut homes).expect("it reads");
        let at = (0..homes.len()).step_by(4096).find(|&at| homes[at + 40..at + 48] == newest);
        busy.flip(at.expect("a superblock") as u64 + 60);
        let done = busy.scrub();
        assert_eq!((done.superblocks, done.again()), (1, 1), "{done:?}");
        create(&busy.fs, "new", &[7; 9000]).expect("room");
        busy.fs.store().sync().expect("a sync");
        assert!(busy.flip_parts(LOG, Condition::Log, |_| 40) > 0);
        let done = busy.scrub();
        assert_eq!((done.logs, &done.findings), (1, &vec![]), "{done:?}");
        assert!(busy.scrub().is_sound());
        let again = SHAPE.open(Arc::clone(&busy.device), false).expect("it opens");
        assert_eq!(again.check(), []);
    }
}

/// The newest superblock of a volume with one copy, when nobody has it open: the one before it counts, and leads to the
/// same; it is told all the same.
#[test]
fn a_newest_superblock_that_is_damaged_is_told() {
    let shape = Shape { copies: 1, ..SHAPE };
    let busy = Busy::new(&shape, &mut Chance::new(seed()));
    busy.fs.store().volume().close().expect("it closes");
    let newest = (busy.fs.store().volume().settled() + 1).to_le_bytes();
    let mut homes = vec![0; 2 * SHAPE.segment_len as usize];
    busy.device.read(0, &mut homes).expect("it reads");
    let at = (0..homes.len()).step_by(4096).find(|&at| homes[at + 40..at + 48] == newest);
    busy.flip(at.expect("a superblock") as u64 + 300);
    for (wanted, mend) in [(1, false), (1, true), (0, true)] {
        let volume = shape.open(Arc::clone(&busy.device), mend).expect("it opens");
        let how = Scrubbing { mend, ..Scrubbing::all(&|_| true) };
        let done = volume.scrub(&how).expect("it is scrubbed");
        assert_eq!((done.superblocks, done.again()), (wanted, wanted), "{done:?}");
        assert_eq!(done.findings, []);
    }
}

/// Exactly the files are named whose bytes are damaged, and those in a snapshot that are damaged only there.
#[test]
fn files_are_named_that_are_damaged() {
    let mut chance = Chance::new(seed());
    for round in 0..from_env("ESKER_CASES", 3) {
        let busy = Busy::new(&SHAPE, &mut chance);
        let gone = noise(&mut chance, QUIET_LEN);
        let ino = create(&busy.fs, "gone", &gone).expect("room");
        busy.fs.store().create_snapshot("then").expect("a snapshot");
        remove(&busy.fs, "gone", ino);
        busy.fs.store().sync().expect("a sync");
        let busy = Busy { quiet: busy.quiet.into_iter().chain([gone]).collect(), ..busy };
        let mut wanted = BTreeSet::from([(b"/gone".to_vec(), Some(b"then".to_vec()))]);
        busy.flip(busy.place_of(QUIET) + 5);
        for _ in 0..5 {
            let number = chance.below(QUIET);
            if wanted.insert((format!("/quiet {number}").into_bytes(), None)) {
                busy.flip(busy.place_of(number) + 1 + chance.below(60));
            }
        }
        let done = busy.while_busy(round, || busy.scrub());
        assert!(done.findings.iter().all(|found| matches!(found, Finding::Block(..))), "{done:?}");
        assert_eq!(done.findings.len(), wanted.len(), "{done:?}");
        assert_eq!(done.files.into_iter().collect::<BTreeSet<_>>(), wanted);
        let checked = busy.while_busy(round + 50, || {
            busy.fs.store().volume().check_moment(&|_| true).expect("a moment")
        });
        assert_eq!(checked.len(), wanted.len(), "{checked:?}");
    }
}

/// Who is stopped goes on there, after a crash too; and the next one begins anew.
#[test]
fn who_is_stopped_goes_on_there() {
    let busy = Busy::new(&SHAPE, &mut Chance::new(seed()));
    let volume = busy.fs.store().volume();
    let (read, goes_on) = (AtomicUsize::new(0), AtomicBool::new(true));
    let all = busy.scrub().blocks;
    let half = volume.scrub_len() as usize / 2;
    let pace = |len: usize| {
        if read.fetch_add(len, Ordering::AcqRel) > half {
            goes_on.store(false, Ordering::Release);
        }
        goes_on.load(Ordering::Acquire)
    };
    let how = Scrubbing { restart: false, ..Scrubbing::all(&pace) };
    let first = volume.scrub(&how).expect("it is scrubbed");
    assert!(first.stopped && first.blocks > 0 && first.blocks < all, "{first:?}");
    // As it is after a loss of power.
    let again = SHAPE.open(Arc::clone(&busy.device), true).expect("it opens");
    let how = Scrubbing { restart: false, ..Scrubbing::all(&|_| true) };
    let rest = again.scrub(&how).expect("it is scrubbed");
    assert!(rest.resumed && rest.is_sound() && rest.blocks < all, "{rest:?}");
    assert!(rest.blocks + first.blocks >= all, "{first:?} {rest:?}");
    let third = again.scrub(&how).expect("it is scrubbed");
    assert!(!third.resumed && third.blocks == all, "{third:?}");
}

/// Where there is no room for both who writes comes first, and nothing is found that is not so.
#[test]
fn writers_do_not_wait_for_a_moment() {
    let busy = Busy::new(&SHAPE, &mut Chance::new(seed()));
    let ino = create(&busy.fs, "large", &noise(&mut Chance::new(seed()), 4 << 20)).expect("room");
    // Now and then much is written over: a moment that were kept would need more room than there is.
    let reads = AtomicUsize::new(0);
    let write = |len: usize| {
        if len > 0 && reads.fetch_add(1, Ordering::AcqRel).is_multiple_of(50) {
            busy.fs.write(ino, 0, &vec![7; 4 << 20], false).expect("room");
            busy.fs.store().sync().expect("a sync");
            busy.fs.store().volume().reclaim_in_time().expect("room is made");
        }
        true
    };
    let found = busy.fs.store().volume().check_moment(&write);
    assert_eq!(found.unwrap_or_default(), [], "what did not stay was taken for damage");
    assert_eq!(busy.fs.store().volume().check(), []);
}

/// The same bytes at the beginning of a larger device.
fn larger(medium: &Medium, size: u64) -> Medium {
    let (mut all, mut page) = (Medium::new(size), vec![0; PAGE]);
    for at in (0..medium.size()).step_by(PAGE) {
        medium.read(at, &mut page);
        all.write(at, &page);
    }
    all
}

/// A volume that grows while it is written has the new room at once; power is cut at every operation.
#[test]
fn a_volume_grows_while_it_is_written() {
    let dose = Dose { subsets: 1, torn: 2, garbage: 1 };
    for shape in &SHAPES {
        let mut states = 0;
        let mut chance = Chance::new(seed());
        let medium = larger(&shape.fresh(1).medium(), shape.size * 2);
        let device: Arc<Lying> = Arc::new(shape.device(medium.clone()));
        let home = mount(shape, Arc::clone(&device)).expect("it opens");
        let fs = Fs::new(home, clock);
        create(&fs, "before", &noise(&mut chance, 100_000)).expect("room");
        fs.store().sync().expect("a sync");
        let was = esker::store::View::space(fs.store()).total;
        create(&fs, "waiting", &noise(&mut chance, 50_000)).expect("room");
        let change = Change { size: Some(shape.size * 2), ..Change::default() };
        fs.store().volume().alter(&change).expect("it grows");
        let space = esker::store::View::space(fs.store());
        assert!(space.total > 2 * was, "{}: {was}, {space:?}", shape.name);
        assert_eq!(fs.store().volume().shape().size, shape.size * 2);
        let ino = create(&fs, "after", b"").expect("room");
        for at in (0..shape.size).step_by(256 << 10) {
            fs.write(ino, at, &noise(&mut chance, 256 << 10), false).expect("room");
        }
        fs.store().sync().expect("a sync");
        assert_eq!(fs.store().volume().check(), [], "{}", shape.name);
        drop(fs);
        let mut replay = Replay::new(medium, shape.zones.map(|zones| zones.len), false);
        let mut sizes = BTreeSet::new();
        for op in &device.ops() {
            replay.step(op);
            replay.states(dose, &mut chance, &mut |state| {
                let volume = shape.open(shape.device(state), false).expect("it opens");
                assert_eq!(volume.check(), [], "{}", shape.name);
                sizes.insert(volume.shape().size);
                states += 1;
            });
        }
        assert_eq!(sizes, BTreeSet::from([shape.size, shape.size * 2]), "{}", shape.name);
        goes_on(shape, &shape.device(device.medium())).expect("it goes on");
        println!("{}: {states} states", shape.name);
    }
}
