//! Snapshots of volumes: they show what there was, survive power cuts, cost what changed since, and give back exactly
//! what was said when they go.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker::posix::{Caller, Fs, New, SetAttr};
use esker::store::View as _;
use esker::{Error, Ino, Kind, Name, Time};
use esker_proof::chance::Chance;
use esker_proof::cut::{History, SHAPES, Shape};
use esker_proof::harness::{from_env, sample, seed};
use esker_proof::lying::Lying;
use esker_proof::lying::medium::Medium;
use esker_proof::lying::ram::Ram;
use esker_proof::lying::states::{Dose, Replay};
use esker_proof::script::generate::Profile;
use esker_proof::told::print;
use esker_proof::world::inside::Checked as _;
use esker_proof::world::on_volume::{Above, mount};
use esker_stone::Codec;
use esker_volume::rules::{Occasion, Rules};
use esker_volume::segments::Condition;
use esker_volume::superblock::{DELTAS, NAMES, PIECES};
use esker_volume::{Snapped, SnapshotError, make};

/// What every new volume has.
const ALWAYS: u64 = DELTAS | PIECES | NAMES;
const PROFILE: Profile = Profile { steps_max: 40, users: true, cursors: false };
const DOSE: Dose = Dose { subsets: 1, torn: 2, garbage: 1 };
const SIZE: usize = 24 << 20;
const SHAPE: Shape = Shape {
    name: "churning",
    size: SIZE as u64,
    segment_len: 128 << 10,
    block_len: 8 << 10,
    codec: Codec::None,
    recent_len: 64 << 10,
    table_len: 4 << 10,
    ..SHAPES[0]
};

/// Scripts with snapshots made, deleted, gone back to and cloned from between, cut at every operation of the device.
#[test]
fn snapshots_survive_every_cut() {
    let scripts = from_env("ESKER_CASES", 6);
    for shape in &SHAPES {
        let (mut states, mut backs, mut clones) = (0, 0, 0);
        for number in 0..scripts {
            let seed = seed().wrapping_add(number);
            let script = sample(PROFILE, seed);
            let history = History::run_with_snapshots(shape, &script, seed, 3);
            backs += history.backs;
            clones += history.clones;
            match history.cut(shape, DOSE, false, seed) {
                Ok(count) => states += count,
                Err(why) => panic!("{}, seed {seed:#x}\n{script}\n{why}", shape.name),
            }
        }
        let name = shape.name;
        println!("{name}: {states} states, went back {backs} times, {clones} clones");
        assert!(states > 0 && backs > 0 && clones > 0);
    }
}

/// Bits that turn round and writes that go astray, where there are snapshots and the volume went back to some: never
/// anything is shown that was not.
#[test]
fn damage_is_told_where_there_are_snapshots() {
    let (mut told, mut same) = (0, 0);
    for shape in &SHAPES {
        for number in 0..from_env("ESKER_CASES", 3) {
            let seed = seed().wrapping_add(number);
            let history = History::run_with_snapshots(shape, &sample(PROFILE, seed), seed, 3);
            let rotten = history.rot(shape, 60, seed);
            let stray = history.stray(shape, 30, seed);
            for found in [rotten, stray] {
                let found = found.unwrap_or_else(|why| panic!("{}, {seed:#x}: {why}", shape.name));
                (told, same) = (told + found.0, same + found.1);
            }
        }
    }
    println!("{told} told, {same} did no harm");
    assert!(told > 0 && same > 0);
}

/// The control: on a device that forgets its flushes the same exam must fail.
#[test]
fn a_device_that_forgets_flushes_is_found_out() {
    let failed = (0..20).any(|number| {
        let script = sample(PROFILE, number);
        let history = History::run_with_snapshots(&SHAPES[0], &script, number, 3);
        history.cut(&SHAPES[0], DOSE, true, number).is_err()
    });
    assert!(failed, "nobody noticed");
}

fn clock() -> Time {
    Time { secs: 1_700_000_000, nanos: 0 }
}

/// Files on a volume that come, change and go.
struct Churn {
    fs: Fs<Above<Arc<Ram>>>,
    files: BTreeMap<u64, Ino>,
    next: u64,
    chance: Chance,
}

impl Churn {
    fn new(device: &Arc<Ram>) -> Self {
        make(device, &SHAPE.making()).expect("a volume");
        let home = mount(&SHAPE, Arc::clone(device)).expect("it opens");
        let fs = Fs::new(home, clock);
        Self { fs, files: BTreeMap::new(), next: 0, chance: Chance::new(seed()) }
    }

    fn home(&self) -> &Above<Arc<Ram>> {
        self.fs.store()
    }

    fn noise(&mut self, len: u64) -> Vec<u8> {
        let seed = self.chance.below(u64::MAX);
        (0..len).map(|at| (seed.wrapping_mul(at | 1) >> 40) as u8).collect()
    }

    fn create(&mut self, len: u64) -> Result<(), Error> {
        let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
        let path = format!("file {}", self.next);
        let path = Name::parse(path.as_bytes()).expect("a name");
        let ino = self.fs.create(&Caller::ROOT, Ino::ROOT, path, new)?.ino;
        self.files.insert(self.next, ino);
        self.next += 1;
        let bytes = self.noise(len);
        self.fs.write(ino, 0, &bytes, false).map(drop)
    }

    fn any(&mut self) -> Option<u64> {
        let at = self.chance.below(self.files.len().max(1) as u64) as usize;
        self.files.keys().nth(at).copied()
    }

    fn remove(&mut self, number: u64) {
        let path = format!("file {number}");
        let path = Name::parse(path.as_bytes()).expect("a name");
        let ino = self.files.remove(&number).expect("a file");
        self.fs.unlink(&Caller::ROOT, Ino::ROOT, path).expect("unlink always works");
        self.fs.forget(ino, 1);
    }

    fn step(&mut self) {
        let Some(number) = self.any() else { return self.create(3000).expect("room") };
        let ino = self.files[&number];
        match self.chance.below(5) {
            0 => self.create(1 + 9000 / 8 * number % 9000).expect("room"),
            1 if self.files.len() > 60 => self.remove(number),
            2 => {
                let size = self.chance.below(12_000);
                let set = SetAttr { size: Some(size), ..SetAttr::default() };
                self.fs.setattr(&Caller::ROOT, ino, &set).expect("cut");
            }
            _ => {
                let at = self.chance.below(20_000);
                let len = 1 + self.chance.below(9000);
                let bytes = self.noise(len);
                self.fs.write(ino, at, &bytes, false).expect("room");
            }
        }
    }

    /// Bytes in segments of blocks, and of tables, that somebody needs.
    fn live(&self) -> (u64, u64) {
        let rows = self.home().volume().stretches();
        let sum = |wanted| {
            let own = rows.iter().filter(|row| row.condition == wanted);
            own.map(|row| row.live).sum::<u64>()
        };
        (sum(Condition::Log) + sum(Condition::Moved), sum(Condition::Tables))
    }

    fn shows(&self, name: &str) -> u64 {
        let volume = Arc::clone(self.home().shared());
        print(&Snapped::new(volume, name).expect("it is there")).expect("it shows everything")
    }

    /// Deletes a snapshot: as much becomes free as was said.
    fn delete(&self, name: &str) {
        let volume = self.home().volume();
        let at = volume.snapshots().iter().position(|row| row.name == name.as_bytes());
        let held = volume.held_by_snapshots().expect("counted")[at.expect("it is there")].1;
        let before = self.live().0;
        volume.delete_snapshot(name).expect("deleted");
        assert_eq!(before - self.live().0, held.blocks, "{name} was said to hold {held:?}");
    }
}

/// Fifty snapshots are kept of a volume that is written over and over: each shows what it did, metadata grows with what
/// changes, and what is deleted gives back what was said.
#[test]
fn fifty_snapshots_cost_what_changes() {
    let device = Arc::new(Ram::new(SIZE));
    let mut churn = Churn::new(&device);
    for _ in 0..1500 {
        churn.create(400).expect("room");
    }
    churn.fs.sync().expect("a sync");
    churn.home().create_snapshot("first").expect("a snapshot");
    let mut kept = vec![("first".to_owned(), churn.shows("first"))];
    let (_, begin) = churn.live();
    for round in 0..from_env("ESKER_CASES", 7) * 10 {
        for _ in 0..3 {
            churn.step();
        }
        churn.fs.sync().expect("a sync");
        let shown = print(churn.home()).expect("it shows everything");
        let name = format!("s{round}");
        churn.home().create_snapshot(&name).expect("a snapshot");
        assert_eq!(churn.shows(&name), shown, "{name}, just made");
        kept.push((name, shown));
        if kept.len() > 50 {
            let at = churn.chance.below(kept.len() as u64) as usize;
            let (name, shown) = kept.remove(at);
            assert_eq!(churn.shows(&name), shown, "{name}, before it goes");
            churn.delete(&name);
        }
        churn.home().volume().reclaim_in_time().expect("room is made");
        if round % 35 == 34 {
            assert_eq!(churn.home().findings(), [""; 0], "after {round} rounds");
            for (name, shown) in &kept {
                assert_eq!(churn.shows(name), *shown, "{name}");
            }
        }
    }
    let (blocks, tables) = churn.live();
    let count = kept.len();
    println!("{count} snapshots: {blocks} bytes of blocks, {tables} of tables; {begin} with one");
    assert!(tables < begin * count as u64 / 4, "{tables} bytes of tables, {begin} with one");
    for (name, _) in kept {
        churn.delete(&name);
    }
    let volume = churn.home().volume();
    assert!(volume.snapshots().is_empty());
    assert_eq!(churn.home().findings(), [""; 0]);
    assert!(churn.live().1 < 2 * begin, "{:?}, {begin}", churn.live());
}

/// A volume goes back and forth between twelve snapshots, with changes between: it shows what they showed, they stay,
/// and in the end nothing is left of them.
#[test]
fn going_back_shows_what_there_was() {
    let device = Arc::new(Ram::new(SIZE));
    let mut churn = Churn::new(&device);
    (0..300).for_each(|_| churn.create(700).expect("room"));
    let mut kept: Vec<(String, u64, BTreeMap<u64, Ino>)> = Vec::new();
    for round in 0..from_env("ESKER_CASES", 4) * 10 {
        (0..8).for_each(|_| churn.step());
        churn.fs.sync().expect("a sync");
        if kept.len() < 12 {
            let name = format!("s{round}");
            churn.home().create_snapshot(&name).expect("a snapshot");
            kept.push((name.clone(), churn.shows(&name), churn.files.clone()));
        }
        if round % 3 == 2 {
            let (name, shown, files) = churn.chance.pick(&kept).clone();
            let next = churn.next;
            if round % 2 == 0 {
                let done = churn.fs.alone_with_all(|home| home.rollback(&name));
                done.expect("it goes back");
                assert_eq!(print(churn.home()), Ok(shown), "{name}, in round {round}");
                (churn.files, churn.next) = (files, next);
                continue;
            }
            drop(std::mem::replace(&mut churn.fs, Fs::new(nowhere(), clock)));
            let volume = SHAPE.open(Arc::clone(&device), true).expect("it opens");
            volume.rollback(&name).expect("it goes back");
            assert_eq!(print(&volume), Ok(shown), "{name}, in round {round}");
            assert_eq!(volume.check(), [], "{name}, in round {round}");
            drop(volume);
            let home = mount(&SHAPE, Arc::clone(&device)).expect("it opens");
            churn.fs = Fs::new(home, clock);
            (churn.files, churn.next) = (files, next);
        }
    }
    for (name, shown, _) in &kept {
        assert_eq!(churn.shows(name), *shown, "{name}");
    }
    assert_eq!(churn.home().findings(), [""; 0]);
    for (name, ..) in &kept {
        churn.delete(name);
    }
    for number in churn.files.keys().copied().collect::<Vec<_>>() {
        churn.remove(number);
    }
    churn.fs.sync().expect("a sync");
    assert_eq!(churn.home().findings(), [""; 0]);
    assert_eq!(churn.live().0, 0, "something is kept");
}

/// Something else to hold while a volume is not mounted.
fn nowhere() -> Above<Arc<Ram>> {
    let device = Arc::new(Ram::new(SIZE));
    make(&device, &SHAPE.making()).expect("a volume");
    mount(&SHAPE, device).expect("it opens")
}

/// A file with so many bytes of its own, safe.
fn add(fs: &Fs<Above<Arc<Lying>>>, name: &str, len: usize) {
    let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
    let path = Name::parse(name.as_bytes()).expect("a name");
    let ino = fs.create(&Caller::ROOT, Ino::ROOT, path, new).expect("room").ino;
    fs.write(ino, 0, &vec![len as u8; len], false).expect("room");
    fs.sync().expect("a sync");
}

/// Every state of a device on its way from one medium: power may go after each operation.
fn cuts(shape: &Shape, medium: &Medium, device: &Lying, each: &mut dyn FnMut(Medium)) {
    cuts_of(shape, medium, (device, false), each);
}

/// The same; the device may forget its flushes.
fn cuts_of(
    shape: &Shape,
    medium: &Medium,
    (device, forgets): (&Lying, bool),
    each: &mut dyn FnMut(Medium),
) {
    let mut replay = Replay::new(medium.clone(), shape.zones.map(|zones| zones.len), forgets);
    let mut chance = Chance::new(seed());
    let subsets = u64::from(forgets) * 4;
    for op in &device.ops() {
        replay.step(op);
        replay.states(Dose { subsets, torn: 0, garbage: 0 }, &mut chance, each);
    }
}

/// Power goes while a volume goes back, and again in the first commit after that, which begins new segments: it
/// opens each time, with all that was safe.
#[test]
fn a_way_back_that_is_cut_short_leaves_nothing_behind() {
    let shape = &Shape { size: 3 << 20, ..SHAPE };
    let device = shape.fresh(seed());
    let fs = Fs::new(mount(shape, Arc::clone(&device)).expect("it opens"), clock);
    (0..40).for_each(|number| add(&fs, &format!("then {number}"), 700));
    fs.store().create_snapshot("then").expect("a snapshot");
    (0..40).for_each(|number| add(&fs, &format!("now {number}"), 700));
    drop(fs);
    let medium = device.medium();
    let device = Arc::new(shape.device(medium.clone()));
    let volume = shape.open(Arc::clone(&device), true).expect("it opens");
    let now = print(&volume).expect("it shows everything");
    volume.rollback("then").expect("it goes back");
    let then = print(&volume).expect("it shows everything");
    drop(volume);
    let (mut states, mut seen, mut ends) = (0, [false; 2], [false; 2]);
    cuts(shape, &medium, &device, &mut |cut| {
        let again = Arc::new(shape.device(cut.clone()));
        let fs = Fs::new(mount(shape, Arc::clone(&again)).expect("it opens"), clock);
        let shown = print(fs.store()).expect("it shows everything");
        assert!(shown == now || shown == then, "neither of both");
        seen[usize::from(shown == then)] = true;
        add(&fs, "long", 3 * (SHAPE.segment_len as usize));
        let written = print(fs.store()).expect("it shows everything");
        drop(fs);
        cuts(shape, &cut, &again, &mut |cut| {
            let volume = shape.open(Arc::new(shape.device(cut)), false).expect("it opens");
            let then = (0..40).map(|number| format!("then {number}"));
            let mut names = then.map(|name| volume.entry(Ino::ROOT, Name::parse(name.as_bytes())?));
            assert!(names.all(|entry| entry.is_ok()), "what was safe is not there");
            // A long commit may be several.
            let found = print(&volume).expect("it shows everything");
            ends[usize::from(found == written)] |= found == shown || found == written;
            states += 1;
        });
    });
    println!("{states} states");
    assert_eq!((seen, ends), ([true; 2], [true; 2]));
}

/// One in so many states after the first cut, and after the second, is looked at.
const ONCE: u64 = 7;
const TWICE: u64 = 3;

/// What a volume shows that was cut short on its way back, and again while that was finished; it must be sound, and its
/// snapshot show what it did.
fn after_cuts(shape: &Shape, cut: Medium, then: u64) -> Result<u64, String> {
    let told = |error: &dyn std::fmt::Debug| format!("{error:?}");
    let volume = shape.open(Arc::new(shape.device(cut)), false).map_err(|error| told(&error))?;
    let findings = volume.check();
    if !findings.is_empty() {
        return Err(format!("check finds {findings:?}"));
    }
    let (shown, volume) = (print(&volume)?, Arc::new(volume));
    let own = Snapped::new(volume, "then").map_err(|error| told(&error))?;
    if print(&own)? == then { Ok(shown) } else { Err("the snapshot shows something else".into()) }
}

/// Cuts a way back, and once more either what opening finishes of it or another way back; how many states there were,
/// and how many showed the one and the other.
fn cut_twice(shape: &Shape, forgets: bool) -> Result<(u64, [u64; 2]), String> {
    let device = shape.fresh(seed());
    let fs = Fs::new(mount(shape, Arc::clone(&device)).expect("it opens"), clock);
    (0..30).for_each(|number| add(&fs, &format!("then {number}"), 700));
    fs.store().create_snapshot("then").expect("a snapshot");
    (0..30).for_each(|number| add(&fs, &format!("now {number}"), 3000));
    drop(fs);
    let medium = device.medium();
    let back = |medium: &Medium, again: bool| {
        let device = Arc::new(shape.device(medium.clone()));
        let volume = shape.open(Arc::clone(&device), true).map_err(|error| format!("{error:?}"))?;
        let before = print(&volume)?;
        let done = if again { volume.rollback("then") } else { volume.sweep().map_err(Into::into) };
        done.map_err(|error| format!("{error:?}"))?;
        Ok::<_, String>((before, print(&volume)?, device))
    };
    let (now, then, first) = back(&medium, true)?;
    let (mut states, mut seen, mut found) = (0, [0; 2], Ok(()));
    let (mut once, mut twice) = (0_u64, 0_u64);
    cuts_of(shape, &medium, (&first, forgets), &mut |cut| {
        once += 1;
        if once % ONCE != 0 {
            return;
        }
        for again in [false, true] {
            let mut look = || {
                let (shown, wanted, second) = back(&cut, again)?;
                if ![now, then].contains(&shown) || (again && wanted != then) {
                    return Err("cut once, it shows neither of both".into());
                }
                let mut found = Ok(());
                cuts_of(shape, &cut, (&second, forgets), &mut |cut| {
                    twice += 1;
                    if twice % TWICE != 0 {
                        return;
                    }
                    let own = after_cuts(shape, cut, then);
                    states += 1;
                    seen[usize::from(own == Ok(then))] += 1;
                    // What went back does not come again.
                    let right = own.as_ref().is_ok_and(|own| [shown, wanted].contains(own));
                    if !right && found.is_ok() {
                        found = Err(format!("cut twice, again: {again}: {own:?}"));
                    }
                });
                found
            };
            if found.is_ok() {
                found = look();
            }
        }
    });
    found.map(|()| (states, seen))
}

/// Power goes while a volume goes back, and again while that is finished or done once more: it is what it was, or what
/// the snapshot shows, and nothing else.
#[test]
fn a_way_back_that_is_cut_twice_is_the_one_or_the_other() {
    for shape in &SHAPES {
        // Twice the room: what it goes back to is written beside what there is.
        let shape = &Shape { size: shape.size * 2, ..*shape };
        let (states, seen) =
            cut_twice(shape, false).unwrap_or_else(|why| panic!("{}: {why}", shape.name));
        println!("{}: {states} states, {seen:?}", shape.name);
        assert!(seen.iter().all(|&count| count > 0), "{}: {seen:?}", shape.name);
    }
}

/// The control: on a device that forgets its flushes the same must fail.
#[test]
fn a_way_back_on_a_device_that_forgets_flushes_is_found_out() {
    assert!(cut_twice(&SHAPES[0], true).is_err(), "nobody noticed");
}

/// Where there is no room to go back it is said, and nothing has changed.
#[test]
fn there_must_be_room_to_go_back() {
    let device = Arc::new(Ram::new(SIZE));
    let mut churn = Churn::new(&device);
    (0..2000).for_each(|_| churn.create(300).expect("room"));
    churn.home().create_snapshot("few").expect("a snapshot");
    let few = churn.shows("few");
    for (_, &ino) in churn.files.iter().skip(1) {
        let mode = SetAttr { perm: Some(0o600), ..SetAttr::default() };
        churn.fs.setattr(&Caller::ROOT, ino, &mode).expect("chmod always works");
    }
    while churn.create(20_000).is_ok() {}
    churn.fs.sync().expect("a sync");
    let shown = print(churn.home()).expect("it shows everything");
    let Churn { fs, .. } = churn;
    drop(fs);
    let volume = SHAPE.open(Arc::clone(&device), true).expect("it opens");
    assert_eq!(volume.rollback("few"), Err(SnapshotError::NoRoom));
    assert_eq!(print(&volume), Ok(shown));
    assert_eq!(volume.check(), []);
    assert_eq!(volume.rollback("many"), Err(SnapshotError::Missing));
    let own = Snapped::new(Arc::new(volume), "few").expect("it is there");
    assert_eq!(print(&own), Ok(few));
}

/// Snapshots of a volume that nobody changes cost a row of the root each, and no table.
#[test]
fn snapshots_without_changes_cost_no_table() {
    let device = Arc::new(Ram::new(SIZE));
    let mut churn = Churn::new(&device);
    (0..500).for_each(|_| churn.create(400).expect("room"));
    churn.fs.sync().expect("a sync");
    churn.home().create_snapshot("s0").expect("a snapshot");
    let (blocks, begin) = churn.live();
    for number in 1..100 {
        churn.home().create_snapshot(&format!("s{number}")).expect("a snapshot");
    }
    let (now, tables) = churn.live();
    println!("{begin} bytes of tables with one, {tables} with a hundred");
    assert_eq!(now, blocks);
    assert!(tables <= begin + 99 * 200, "{tables} bytes, {begin} with one");
}

/// A volume that is full, and has snapshots, takes whatever only takes away, and gives back what a snapshot held.
#[test]
fn a_full_volume_gives_its_snapshots_back() {
    // How much is free in the end depends on how long files are.
    (16_000..24_000).step_by(2_000).for_each(gives_its_snapshots_back);
}

fn gives_its_snapshots_back(len: u64) {
    let device = Arc::new(Ram::new(SIZE));
    let mut churn = Churn::new(&device);
    while churn.create(len).is_ok() {
        if churn.next == 300 {
            churn.home().create_snapshot("half").expect("a snapshot");
        }
    }
    let shown = churn.shows("half");
    for round in 0.. {
        assert!(round < 1000, "there is room for ever");
        for &ino in churn.files.values().step_by(7) {
            let mode = SetAttr { perm: Some(0o400 + round), ..SetAttr::default() };
            churn.fs.setattr(&Caller::ROOT, ino, &mode).expect("chmod always works");
        }
        match churn.home().create_snapshot(&format!("full{round}")) {
            Ok(()) => {}
            Err(SnapshotError::NoRoom) => break,
            Err(error) => panic!("{error}"),
        }
    }
    for (number, ino) in churn.files.clone() {
        let mode = SetAttr { perm: Some(0o600), ..SetAttr::default() };
        churn.fs.setattr(&Caller::ROOT, ino, &mode).expect("chmod always works");
        if number % 2 == 0 {
            churn.remove(number);
        }
        if number % 16 == 0 {
            churn.fs.sync().expect("taking away is written");
        }
    }
    churn.fs.sync().expect("taking away is written");
    assert_eq!(churn.shows("half"), shown);
    assert_eq!(churn.home().findings(), [""; 0]);
    let before = churn.home().space();
    for row in churn.home().volume().snapshots() {
        churn.delete(std::str::from_utf8(&row.name).expect("a name"));
    }
    let after = churn.home().space();
    assert!(after.used + (1 << 20) < before.used, "{before:?}, {after:?}");
    assert_eq!(churn.home().findings(), [""; 0]);
    churn.create(len).expect("there is room again");
}

/// There may be as many as the root can name, and no more: then the volume is as good as before, and each can go.
#[test]
fn there_are_as_many_as_the_root_can_name() {
    let device = Arc::new(Ram::new(SIZE));
    let mut churn = Churn::new(&device);
    for _ in 0..600 {
        churn.create(300).expect("room");
    }
    let churn = churn;
    let name = |number: u16| format!("{number:064}");
    let change = |round: u16| {
        for &ino in churn.files.values().skip(usize::from(round) % 50).step_by(50) {
            let mode = SetAttr { perm: Some(0o400 + round % 256), ..SetAttr::default() };
            churn.fs.setattr(&Caller::ROOT, ino, &mode).expect("chmod always works");
        }
        churn.fs.sync().expect("a sync");
    };
    let mut count = 0;
    loop {
        change(count);
        match churn.home().create_snapshot(&name(count)) {
            Ok(()) => count += 1,
            Err(SnapshotError::NoRoom) => break,
            Err(error) => panic!("{count}: {error}"),
        }
        churn.home().volume().reclaim_in_time().expect("room is made");
        assert!(count < 4096, "there is no end");
    }
    (0..40).for_each(|round| change(count + round));
    assert_eq!(churn.home().findings(), [""; 0], "with {count}");
    for number in 0..count / 2 {
        churn.home().volume().delete_snapshot(&name(number)).expect("it goes");
    }
    change(count);
    churn.home().create_snapshot("again").expect("there is room again");
    assert_eq!(churn.home().findings(), [""; 0]);
    println!("{count} snapshots");
}

/// Several are deleted at once: nothing is kept for none.
#[test]
fn what_is_deleted_at_once_is_freed() {
    let device = Arc::new(Ram::new(SIZE));
    let mut churn = Churn::new(&device);
    let names = ["a", "b", "c", "d"];
    for name in names {
        for _ in 0..500 {
            churn.create(600).expect("room");
        }
        churn.fs.sync().expect("a sync");
        churn.home().create_snapshot(name).expect("a snapshot");
    }
    for number in churn.files.keys().copied().collect::<Vec<_>>() {
        churn.remove(number);
    }
    churn.fs.sync().expect("a sync");
    let volume = churn.home().volume();
    std::thread::scope(|scope| {
        for name in names {
            scope.spawn(|| volume.delete_snapshot(name).expect("it goes"));
        }
    });
    assert_eq!(churn.home().findings(), [""; 0]);
    assert_eq!(churn.live().0, 0, "something is kept");
}

/// Rules are there when the volume is opened again, with what they made; wherever power goes they are those of before
/// or those that were to be.
#[test]
fn rules_are_kept_in_the_volume() {
    let shape = &SHAPES[0];
    let device = shape.fresh(1);
    let begin = device.medium();
    let volume = shape.open(Arc::clone(&device), true).expect("it opens");
    let mut rules = Rules::default();
    rules.add("every day keep 7 for 30d".parse().expect("a rule")).expect("no other one");
    volume.set_rules(&rules).expect("rules");
    let ruled = device.done();
    volume.create_snapshot_beside("daily", Some(Occasion::Day), &|| 0).expect("a snapshot");
    volume.create_snapshot("mine").expect("a snapshot");
    drop(volume);
    let mut replay = Replay::new(begin, None, false);
    let (ops, mut chance) = (device.ops(), Chance::new(1));
    let (mut without, mut with) = (0, 0);
    for done in 0..=ops.len() {
        replay.states(DOSE, &mut chance, &mut |medium| {
            let volume = shape.open(shape.device(medium), false).expect("it opens");
            let found = volume.rules();
            assert!(found == rules || (found.is_empty() && done < ruled), "after {done}");
            if found.is_empty() {
                without += 1
            } else {
                with += 1
            }
            for (row, made) in volume.snapshots_made() {
                assert_eq!(made.is_some(), row.name == b"daily", "after {done}");
            }
        });
        ops.get(done).into_iter().for_each(|op| replay.step(op));
    }
    assert!(without > 0 && with > 0);
    let volume = shape.open(Arc::clone(&device), true).expect("it opens");
    assert_eq!((volume.rules(), volume.shape().incompatible), (rules, 3 | ALWAYS));
    volume.set_rules(&Rules::default()).expect("no rules");
    volume.delete_snapshot("daily").expect("deleted");
    drop(volume);
    let features =
        shape.open(Arc::clone(&device), false).expect("it opens").shape().incompatible & !ALWAYS;
    assert_eq!(features, 1, "who knows no rules may come again");
}

/// A rule's snapshot that was to go is deleted by somebody, and its name given to another one, by hand and by a rule,
/// after changes and without any: that stays.
#[test]
fn what_a_rule_takes_away_is_what_it_saw() {
    let device = Arc::new(Ram::new(SIZE));
    let mut churn = Churn::new(&device);
    let mut row = |changes: usize, made: Option<Occasion>| {
        (0..changes).for_each(|_| churn.create(600).expect("room"));
        churn.fs.sync().expect("a sync");
        churn.home().create_snapshot_for("daily", made).expect("a snapshot");
        (
            Arc::clone(churn.home().shared()),
            churn.home().volume().snapshot("daily").expect("it is there"),
        )
    };
    let day = Some(Occasion::Day);
    let (volume, first) = row(1, day);
    volume.delete_snapshot("daily").expect("deleted");
    assert_eq!(volume.delete_ruled(&first), Err(SnapshotError::Missing));
    // The same state by hand, another one by hand, another one by a rule.
    for (changes, made) in [(0, None), (1, None), (1, day)] {
        let (_, other) = row(changes, made);
        assert_eq!(volume.delete_ruled(&first), Err(SnapshotError::Missing), "{changes} {made:?}");
        assert_eq!(volume.snapshots_made(), [(other, made)]);
        volume.delete_snapshot("daily").expect("deleted");
    }
    let (_, last) = row(1, day);
    assert_eq!(volume.delete_ruled(&last), Ok(()));
    assert_eq!(volume.snapshots(), []);
    assert_eq!(churn.home().findings(), [""; 0]);
}

/// Names that cannot be, that are there, or not.
#[test]
fn names_are_told_apart() {
    let device = Arc::new(Ram::new(SIZE));
    let churn = Churn::new(&device);
    let home = churn.home();
    for bad in ["", "a/b", "a b", "\u{e9}", &"x".repeat(65)] {
        assert_eq!(home.create_snapshot(bad), Err(SnapshotError::Name), "{bad}");
    }
    home.create_snapshot("one").expect("a snapshot");
    home.create_snapshot("two").expect("another of the same state");
    assert_eq!(home.create_snapshot("one"), Err(SnapshotError::Exists));
    assert_eq!(home.volume().delete_snapshot("three"), Err(SnapshotError::Missing));
    let own = Snapped::new(Arc::clone(home.shared()), "one").expect("it is there");
    home.volume().delete_snapshot("one").expect("deleted");
    assert_eq!(own.attr(Ino::ROOT), Err(Error::Stale));
    assert_eq!(home.volume().snapshots().len(), 1);
    let features =
        || SHAPE.open(Arc::clone(&device), false).expect("it opens").shape().incompatible & !ALWAYS;
    assert_eq!(features(), 1);
    home.volume().delete_snapshot("two").expect("deleted");
    assert_eq!(features(), 0, "who knows no snapshots may come again");
}
