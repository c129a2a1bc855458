//! Volumes that were damaged, each structure of them, and repaired: they check clean, what has its right name is what
//! it was, what was not damaged is all there, and power cut at every operation leaves the old volume or the new one.
//! `ESKER_CASES` is how many volumes of each shape.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use esker::posix::{Caller, Fs, New};
use esker::store::{Flow, View};
use esker::{Attr, Cursor, Ino, Kind, Name, Time};
use esker_proof::chance::Chance;
use esker_proof::cut::{SHAPES, Shape, goes_on};
use esker_proof::harness::{from_env, seed};
use esker_proof::lying::Lying;
use esker_proof::lying::medium::Medium;
use esker_proof::lying::states::{Dose, Replay};
use esker_proof::told::print;
use esker_proof::world::inside::root_attr;
use esker_proof::world::on_volume::{above, mount};
use esker_stone::cache::Cache;
use esker_stone::rows::inodes::Inode;
use esker_stone::rows::names::Named;
use esker_volume::device::Zones;
use esker_volume::part::{LOG, PARITY, PartHead, TABLES};
use esker_volume::recover::{Recovering, RepairError, Repaired, Repairing, recover, repair};
use esker_volume::rows::Numbers;
use esker_volume::{Damage, Error, Options, Sink, Snapped, Source, Superblock, Volume, open};

const DOSE: Dose = Dose { subsets: 1, torn: 2, garbage: 1 };
/// Of each kind of damage so many places are tried.
const OF_EACH: usize = 6;

/// Content by path: a file never has other bytes.
type Files = BTreeMap<String, Vec<u8>>;

/// A volume, what it holds, and what was there before.
struct Made {
    medium: Medium,
    files: Files,
    ever: Files,
    /// What its snapshot shows, if it has one.
    shown: Option<u64>,
    /// The files that it has.
    then: Files,
}

fn clock() -> Time {
    Time { secs: 1_700_000_000, nanos: 0 }
}

fn content(path: &str, chance: &mut Chance) -> Vec<u8> {
    let len = [90, 700, 3000, 9000, 20_000][chance.below(5) as usize] + chance.below(400);
    let words = (0..len / 8).map(|_| chance.number() & 0x0f0f_ffff_0000_ffff);
    path.bytes().chain(words.flat_map(u64::to_le_bytes)).collect()
}

/// Makes a volume by many commits, with a snapshot between if that is wanted.
fn made(shape: &Shape, seed: u64, snapshot: bool) -> Made {
    let (mut chance, device) = (Chance::new(seed), shape.fresh(seed));
    let fs = Fs::new(mount(shape, Arc::clone(&device)).expect("it opens"), clock);
    let new = |kind, perm| New { kind, perm, umask: 0, rdev: 0 };
    let name = |text: &str| text.to_owned();
    let mut dirs = Vec::new();
    for number in 0..4 {
        let own = name(&format!("d{number}"));
        let parsed = Name::parse(own.as_bytes()).expect("a name");
        let made = fs.create(&Caller::ROOT, Ino::ROOT, parsed, new(Kind::Directory, 0o755));
        dirs.push((own, made.expect("a directory").ino));
    }
    let (mut files, mut ever, mut shown) = (Files::new(), Files::new(), None);
    let mut then = Files::new();
    for number in 0..60 {
        let (dir, parent) = chance.pick(&dirs).clone();
        let own = format!("f{number}");
        let path = format!("/{dir}/{own}");
        let bytes = content(&path, &mut chance);
        let parsed = Name::parse(own.as_bytes()).expect("a name");
        let ino = fs.create(&Caller::ROOT, parent, parsed, new(Kind::File, 0o644));
        let ino = ino.expect("a file").ino;
        fs.write(ino, 0, &bytes, false).expect("room");
        fs.forget(ino, 1);
        files.insert(path.clone(), bytes.clone());
        ever.insert(path, bytes.clone());
        if number % 5 == 4 {
            // Of what shares its blocks each is there, or lost, for itself.
            let (source, copy) = (ino, format!("copy of {own}"));
            let parsed = Name::parse(copy.as_bytes()).expect("a name");
            let ino = fs.create(&Caller::ROOT, parent, parsed, new(Kind::File, 0o644));
            let (ino, len) = (ino.expect("a file").ino, bytes.len() as u64);
            fs.sync().expect("a sync");
            let done = fs.copy_range(&Caller::ROOT, (source, 0), (ino, 0), len);
            assert_eq!(done, Ok(len));
            fs.forget(ino, 1);
            files.insert(format!("/{dir}/{copy}"), bytes.clone());
            ever.insert(format!("/{dir}/{copy}"), bytes.clone());
        }
        if number % 9 == 8 {
            let keys: Vec<_> = files.keys().cloned().collect();
            let gone = chance.pick(&keys).clone();
            let (dir, own) = gone[1..].split_once('/').expect("two names");
            let parent = dirs.iter().find(|known| known.0 == dir).expect("it is there").1;
            let parsed = Name::parse(own.as_bytes()).expect("a name");
            fs.unlink(&Caller::ROOT, parent, parsed).expect("unlink always works");
            files.remove(&gone);
        }
        if number % 7 == 6 {
            fs.sync().expect("a sync");
        }
        if number == 30 && snapshot {
            fs.sync().expect("a sync");
            fs.store().create_snapshot("one").expect("a snapshot");
            let volume = Arc::clone(fs.store().shared());
            let own = Snapped::new(volume, "one").expect("it is there");
            shown = Some(print(&own).expect("it shows everything"));
            then.clone_from(&files);
        }
    }
    fs.sync().expect("a sync");
    fs.store().volume().close().expect("it closes");
    Made { medium: device.medium(), files, ever, shown, then }
}

/// Bytes that are damaged: where, and how many.
type Places = Vec<(u64, usize)>;

/// Places of each structure, by its name; all but the last two are single ones.
fn structures(shape: &Shape, medium: &Medium) -> BTreeMap<&'static str, Vec<Places>> {
    let mut bytes = vec![0; medium.size() as usize];
    medium.read(0, &mut bytes);
    let mut all: BTreeMap<&'static str, Vec<Places>> = BTreeMap::new();
    let (mut superblocks, mut newest) = (Places::new(), None);
    for at in (0..bytes.len()).step_by(512) {
        let here = &bytes[at..];
        let place = at as u64;
        if let Ok(found) = Superblock::parse(here) {
            superblocks.push((place, 512));
            if newest.is_none_or(|(own, _): (Superblock, _)| own.generation < found.generation) {
                newest = Some((found, place));
            }
            continue;
        }
        let Some(head) = PartHead::parse(here, &[7; 16]) else { continue };
        let mut add = |name, from: u64, len| {
            all.entry(name).or_default().push(vec![(place + from, len)]);
        };
        let body = PartHead::SIZE as u64;
        match head.kind {
            LOG => {
                add("head of a commit", 0, 192);
                add("rows of a commit", head.rows_at.into(), 64);
                if u64::from(head.rows_at) > body + 100 {
                    add("block", body + 50, 20);
                }
            }
            TABLES => {
                add("head of tables", 0, 192);
                add("tables", body, 100);
            }
            PARITY => add("parity", 300, 100),
            kind => panic!("a part of kind {kind}"),
        }
    }
    let (newest, at) = newest.expect("a superblock");
    let root = u64::from(newest.root_physical) * shape.segment_len + newest.root_at;
    all.insert("root", vec![vec![(root, 32)]]);
    all.insert("newest superblock", vec![vec![(at, 512)]]);
    let with_root = superblocks.iter().copied().chain([(root, 32)]).collect();
    all.insert("superblocks", vec![superblocks]);
    all.insert("superblocks and root", vec![with_root]);
    all
}

/// Damages a twentieth of all pages that hold anything.
fn many(medium: &Medium, chance: &mut Chance) -> Places {
    let pages = (0..medium.size()).step_by(4096).filter(|&at| !medium.is_zero(at));
    pages.filter(|_| chance.below(20) == 0).map(|at| (at, 4096)).collect()
}

fn damaged(medium: &Medium, places: &Places, chance: &mut Chance) -> Medium {
    let mut medium = medium.clone();
    for &(at, len) in places {
        let noise: Vec<u8> = (0..len).map(|_| chance.number() as u8).collect();
        medium.write(at, &noise);
    }
    medium
}

fn options() -> Options {
    Options { table_len: Some(1), ..Options::new(Cache::new(1 << 20)) }
}

fn repaired(device: &Lying, drop_snapshots: bool) -> Result<Repaired, RepairError> {
    repair(device, options(), Repairing { write: true, keep_older: false, drop_snapshots })
}

/// All files, by their paths.
fn all(view: &dyn View) -> BTreeMap<String, Option<Vec<u8>>> {
    let (mut found, mut todo) = (BTreeMap::new(), vec![(String::new(), Ino::ROOT)]);
    while let Some((path, dir)) = todo.pop() {
        let mut entries = Vec::new();
        let listed = view.entries(dir, Cursor::START, false, &mut |listed| {
            let name = String::from_utf8_lossy(listed.name.bytes()).into_owned();
            entries.push((format!("{path}/{name}"), listed.entry));
            Flow::Continue(())
        });
        listed.expect("a listing");
        for (path, entry) in entries {
            if entry.kind == Kind::Directory {
                todo.push((path, entry.ino));
                continue;
            }
            let mut bytes = vec![0; 1 << 16];
            let len = view.read(entry.ino, 0, &mut bytes);
            found.insert(path, len.ok().map(|len| bytes[..len].to_vec()));
        }
    }
    found
}

/// Those that can be read.
fn readable(view: &dyn View) -> Files {
    all(view).into_iter().filter_map(|(path, bytes)| Some((path, bytes?))).collect()
}

/// Those of a volume of which everything can be read.
fn files(view: &dyn View) -> Files {
    all(view).into_iter().map(|(path, bytes)| (path, bytes.expect("it reads"))).collect()
}

/// The path that it had, if only directories above it may be older.
fn below(path: &str) -> String {
    path.replace(".older/", "/")
}

fn marked(done: &Repaired) -> BTreeSet<String> {
    let paths = done.damaged.iter().map(|(path, _)| path).chain(&done.found.older);
    paths.map(|path| String::from_utf8_lossy(path).into_owned()).collect()
}

/// With the last snapshot goes all that is known to be lost.
fn without_snapshots(shape: &Shape, device: &Lying) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Debug| format!("without snapshots: {error:?}");
    let volume = shape.open(device, true).map_err(|error| told(&error))?;
    for row in volume.snapshots() {
        let name = String::from_utf8_lossy(&row.name).into_owned();
        volume.delete_snapshot(&name).map_err(|error| told(&error))?;
    }
    let found = (volume.check(), volume.lost_blocks());
    if found == (Vec::new(), Ok(0)) { Ok(()) } else { Err(told(&found)) }
}

/// How many files are whole in a volume that was repaired, which must be clean and tell nothing wrong.
fn judge(shape: &Shape, made: &Made, device: &Lying, done: &Repaired) -> Result<usize, String> {
    let volume = shape.open(device, false).map_err(|error| format!("{error:?}, {done:?}"))?;
    let findings = volume.check();
    if !findings.is_empty() {
        return Err(format!("check finds {findings:?}, {done:?}"));
    }
    let lost = volume.lost_blocks().map_err(|error| format!("{error:?}"))?;
    if (lost > 0) == done.hurt.is_empty() {
        return Err(format!("{lost} blocks are lost: {done:?}"));
    }
    let (found, marked) = (files(&volume), marked(done));
    for (path, bytes) in &found {
        let known = made.ever.get(&below(path)) == Some(bytes) || marked.contains(path);
        let nameless = path.starts_with("/lost+found/");
        let right = known || (nameless && made.ever.values().any(|own| own == bytes));
        if !right {
            return Err(format!("{path} is wrong, and nobody says so: {done:?}"));
        }
    }
    let kept = volume.snapshots().len();
    if let Some(shown) = made.shown.filter(|_| kept > 0 && done.hurt.is_empty()) {
        let volume = Arc::new(shape.open(device, false).expect("it opened before"));
        let own = Snapped::new(volume, "one").map_err(|error| format!("{error:?}"))?;
        if print(&own) != Ok(shown) {
            return Err(format!("the snapshot shows something else: {done:?}"));
        }
    }
    drop(volume);
    if lost > 0 {
        without_snapshots(shape, &shape.device(device.medium()))?;
    }
    goes_on(shape, device)?;
    Ok(made.files.iter().filter(|(path, bytes)| found.get(*path) == Some(bytes)).count())
}

/// Repairs a medium, without its snapshot if that cannot stay; how many files are whole, and whether it stayed.
fn whole(shape: &Shape, made: &Made, medium: Medium) -> Result<(usize, Repaired), String> {
    let device = shape.device(medium.clone());
    let before = medium.print(0, medium.size());
    let done = match repaired(&device, false) {
        Err(RepairError::Snapshots(_)) => {
            if device.medium().print(0, medium.size()) != before {
                return Err("it was refused, and written".into());
            }
            repaired(&device, true)
        }
        done => done,
    };
    let done = done.map_err(|error| format!("{error:?}"))?;
    Ok((judge(shape, made, &device, &done)?, done))
}

#[test]
fn each_structure_may_be_damaged() {
    for shape in &SHAPES {
        let mut score: BTreeMap<&str, (usize, usize, usize)> = BTreeMap::new();
        for number in 0..from_env("ESKER_CASES", 2) {
            let seed = seed().wrapping_add(number);
            let made = made(shape, seed, number % 2 == 1);
            let mut chance = Chance::new(seed);
            let mut all = structures(shape, &made.medium);
            all.insert("a twentieth", (0..3).map(|_| many(&made.medium, &mut chance)).collect());
            all.insert("nothing", vec![Places::new()]);
            for (name, places) in all {
                let step = places.len().div_ceil(OF_EACH).max(1);
                for place in places.iter().step_by(step) {
                    let medium = damaged(&made.medium, place, &mut chance);
                    let (count, done) = whole(shape, &made, medium).unwrap_or_else(|why| {
                        panic!("{}, {name} at {place:?}, seed {seed:#x}: {why}", shape.name)
                    });
                    let own = score.entry(name).or_default();
                    *own = (own.0 + count, own.1 + made.files.len(), own.2 + done.gone.len());
                    let left = count + done.damaged.len();
                    let all_there = ["nothing", "newest superblock", "parity"].contains(&name)
                        || (shape.copies > 1
                            && ["tables", "head of tables", "root"].contains(&name));
                    assert!(
                        !all_there || count == made.files.len(),
                        "{}, {name} at {place:?}, seed {seed:#x}: {count} whole, {done:?}",
                        shape.name
                    );
                    assert!(
                        name != "block" || left >= made.files.len(),
                        "{}, {name} at {place:?}, seed {seed:#x}: {count} whole, {done:?}",
                        shape.name
                    );
                }
            }
        }
        for (name, (whole, all, gone)) in score {
            println!("{}, {name}: {whole} of {all} whole, {gone} snapshots gone", shape.name);
        }
    }
}

/// Power fails at every operation: the volume is what it was, and can be repaired, or is repaired.
#[test]
fn repairing_survives_every_cut() {
    for shape in &SHAPES {
        let (mut states, mut new) = (0, 0);
        for number in 0..from_env("ESKER_CASES", 2) {
            let seed = seed().wrapping_add(number);
            let made = made(shape, seed, number % 2 == 1);
            let mut chance = Chance::new(seed);
            let places = structures(shape, &made.medium);
            let some = ["block", "tables", "superblocks and root"];
            for name in some {
                // What is never settled has no tables.
                let Some(own) = places.get(name) else { continue };
                let place = chance.pick(own).clone();
                let medium = damaged(&made.medium, &place, &mut chance);
                let device = shape.device(medium.clone());
                let done = repaired(&device, true).expect("it is repaired");
                let wanted = print(&shape.open(&device, false).expect("it opens"));
                judge(shape, &made, &shape.device(device.medium()), &done).expect("it is right");
                let mut replay = Replay::new(medium, shape.zones.map(|zones| zones.len), false);
                for op in &device.ops() {
                    replay.step(op);
                    replay.states(DOSE, &mut chance, &mut |state| {
                        let own = shape.device(state);
                        let volume = shape.open(&own, false);
                        let clean = volume.as_ref().is_ok_and(|volume| volume.check().is_empty());
                        let is_new = clean && volume.is_ok_and(|volume| print(&volume) == wanted);
                        (states, new) = (states + 1, new + u32::from(is_new));
                        if is_new || states % 5 > 0 {
                            return;
                        }
                        let done = repaired(&own, true).unwrap_or_else(|why| {
                            panic!("{}, {name}, seed {seed:#x}: {why:?}", shape.name)
                        });
                        judge(shape, &made, &own, &done).unwrap_or_else(|why| {
                            panic!("{}, {name}, seed {seed:#x}: cut, {why}", shape.name)
                        });
                    });
                }
            }
        }
        println!("{}: {states} states, {new} of them repaired", shape.name);
        assert!(new > 0, "{}: nothing was repaired", shape.name);
    }
}

/// A snapshot comes out as it was; of one that is damaged whatever has its right name is right.
#[test]
fn snapshots_are_taken_out() {
    let named = |name: &[u8]| Recovering { snapshot: Some(name.to_vec()), ..Recovering::default() };
    for shape in &SHAPES {
        let made = made(shape, seed(), true);
        let device = shape.device(made.medium.clone());
        let (view, found) = recover(&device, options(), named(b"one")).expect("it is there");
        assert!(files(&view) == made.then, "{}: other files", shape.name);
        assert!(!found.has_gaps() && found.older.is_empty() && found.bare.is_empty(), "{found:?}");
        let none = recover(&device, options(), named(b"two")).map(drop);
        assert_eq!(none, Err(Error::Damaged(Damage::NoSnapshot)));
        let mut chance = Chance::new(seed());
        let mut left = 0;
        for _ in 0..20 {
            let places = many(&made.medium, &mut chance);
            let device = shape.device(damaged(&made.medium, &places, &mut chance));
            let Ok((view, found)) = recover(&device, options(), named(b"one")) else { continue };
            let marked: BTreeSet<_> =
                found.older.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect();
            for (path, bytes) in readable(&view) {
                let nameless = path.starts_with("/lost+found/");
                let right = made.ever.get(&below(&path)) == Some(&bytes) || marked.contains(&path);
                assert!(right || nameless, "{}: {path} is wrong, {found:?}", shape.name);
                left += 1;
            }
        }
        println!("{}: {left} files of snapshots", shape.name);
        assert!(left > 0);
    }
}

/// Stretches of a device that forgets nothing are begun again and again by parts of other lengths, and heads of an
/// earlier life lie in the gaps between them: nothing is missing, and nothing is what it was.
#[test]
fn what_lies_in_gaps_is_left_there() {
    // What commits say stays in the log for long.
    let shape = &Shape { recent_len: 64 << 10, copies: 1, ..SHAPES[1] };
    let (mut chance, device) = (Chance::new(seed()), shape.fresh(seed()));
    let told = Options { write: true, discard: false, recent_len: Some(64 << 10), ..options() };
    let volume = open(Arc::clone(&device), told).expect("it opens");
    let fs = Fs::new(above(volume).expect("there is room"), clock);
    let mut files = Files::new();
    for step in 0..from_env("ESKER_CASES", 6) * 400 {
        let path = format!("f{}", chance.below(12));
        let name = Name::parse(path.as_bytes()).expect("a name");
        if files.contains_key(&path) {
            fs.unlink(&Caller::ROOT, Ino::ROOT, name).expect("unlink always works");
        }
        let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
        let ino = fs.create(&Caller::ROOT, Ino::ROOT, name, new).expect("room").ino;
        // One that is small, and one that is not: the second goes right behind the first.
        let len = [chance.below(100), chance.below(30_000)][chance.below(2) as usize];
        let bytes: Vec<u8> = (0..len).map(|_| chance.number() as u8).collect();
        fs.write(ino, 0, &bytes, false).expect("room");
        fs.forget(ino, 1);
        files.insert(path, bytes);
        fs.sync().expect("a sync");
        if step % 40 < 39 {
            continue;
        }
        let now = shape.device(device.medium());
        let (found, told) = recover(&now, options(), Recovering::default()).expect("it is whole");
        assert!(!told.has_gaps() && told.older.is_empty(), "step {step}: {told:?}");
        let found: Vec<_> = readable(&found).into_values().collect();
        assert!(found.iter().eq(files.values()), "step {step}: other files");
        repaired(&now, false).unwrap_or_else(|error| panic!("step {step}: {error:?}"));
        let volume = shape.open(&now, false).expect("it opens");
        assert_eq!(volume.check(), [], "step {step}");
        assert!(readable(&volume).values().eq(files.values()), "step {step}: other files");
    }
}

/// All superblocks changed, with their checksums right.
fn resealed(medium: &Medium, change: &dyn Fn(Superblock) -> Superblock) -> Medium {
    let mut medium = medium.clone();
    let mut bytes = vec![0; medium.size() as usize];
    medium.read(0, &mut bytes);
    for at in (0..bytes.len()).step_by(512) {
        if let Ok(found) = Superblock::parse(&bytes[at..]) {
            medium.write(at as u64, &change(found).sealed());
        }
    }
    medium
}

/// What repairing says, which must not have written anything.
fn refused(shape: &Shape, medium: &Medium) -> Option<RepairError> {
    let device = shape.device(medium.clone());
    let done = repaired(&device, false);
    let same = device.medium().print(0, medium.size()) == medium.print(0, medium.size());
    assert!(done.is_ok() || same, "it was refused, and written");
    done.err()
}

/// What only a newer reader, or writer, knows is refused as opening refuses it.
#[test]
fn what_is_newer_is_left_alone() {
    let shape = &SHAPES[0];
    let made = made(shape, seed(), false);
    let newer: [fn(Superblock) -> Superblock; 4] = [
        |own| Superblock { read_compatible: own.read_compatible | 1 << 40, ..own },
        |own| Superblock { version: own.version + 1, ..own },
        |own| Superblock { incompatible: own.incompatible | 1 << 40, ..own },
        |own| Superblock { codec: 77, ..own },
    ];
    for (number, change) in newer.iter().enumerate() {
        let medium = resealed(&made.medium, change);
        let device = shape.device(medium.clone());
        let error = shape.open(&device, true).map(drop).expect_err("it is newer");
        assert!(matches!(error, Error::Stone(_)), "{number}: {error:?}");
        assert_eq!(refused(shape, &medium), Some(RepairError::Volume(error)), "{number}");
        let found = recover(&device, options(), Recovering::default()).map(drop);
        let wanted = if number == 0 { Ok(()) } else { Err(error) };
        assert_eq!(found, wanted, "{number}");
    }
}

/// Numbers that cannot go on are not written.
#[test]
fn what_cannot_be_counted_on_from_is_left_alone() {
    let shape = &SHAPES[0];
    let made = made(shape, seed(), false);
    let last = (1 << 48) - 1;
    let absurd: [fn(Superblock, u64) -> Superblock; 3] = [
        |own, last| Superblock { generation: last - u64::from(own.generation % 2 == 0), ..own },
        |own, last| Superblock { epoch: last, ..own },
        |own, last| Superblock { proven: last, ..own },
    ];
    for (number, change) in absurd.iter().enumerate() {
        let medium = resealed(&made.medium, &|own| change(own, last));
        let wanted = RepairError::Volume(Error::Damaged(Damage::Superblock));
        assert_eq!(refused(shape, &medium), Some(wanted), "{number}");
    }
}

/// Zeros where parts like these have their heads, and behind them for so many bytes more.
fn without(medium: &Medium, body: usize, which: &dyn Fn(&PartHead) -> bool) -> Medium {
    let mut own = medium.clone();
    let mut bytes = vec![0; medium.size() as usize];
    medium.read(0, &mut bytes);
    for at in (0..bytes.len()).step_by(512) {
        if PartHead::parse(&bytes[at..], &[7; 16]).is_some_and(|head| which(&head)) {
            own.write(at as u64, &vec![0; PartHead::SIZE + body]);
        }
    }
    own
}

fn without_superblocks(medium: &Medium) -> Medium {
    let mut own = medium.clone();
    let mut bytes = vec![0; medium.size() as usize];
    medium.read(0, &mut bytes);
    let all = (0..bytes.len()).step_by(512);
    all.filter(|&at| Superblock::parse(&bytes[at..]).is_ok())
        .for_each(|at| own.write(at as u64, &[0; 512]));
    own
}

/// Without superblocks and roots nobody knows whether there were snapshots.
#[test]
fn snapshots_do_not_go_in_silence() {
    let shape = &SHAPES[0];
    let made = made(shape, seed(), true);
    let medium = without(&made.medium, 300, &|head| head.kind == TABLES);
    let medium = without_superblocks(&medium);
    assert_eq!(refused(shape, &medium), Some(RepairError::Snapshots(Vec::new())));
    repaired(&shape.device(medium), true).expect("it is repaired without them");
}

/// A file, or as much of one as is told before the source fails.
struct Telling {
    ino: u64,
    len: usize,
    fails: bool,
}

impl Source for Telling {
    fn tell(&self, to: &mut dyn Sink) -> Result<(), Error> {
        let (ino, mut chance) = (Ino(self.ino), Chance::new(self.ino));
        let bytes: Vec<u8> = (0..self.len).map(|_| chance.number() as u8).collect();
        let attr = Attr { kind: Kind::File, nlink: 1, size: self.len as u64, ..root_attr() };
        to.inode(Inode { ino, attr, inline: Vec::new() });
        let name = format!("f{}", self.ino).into_bytes();
        to.name(Named { dir: Ino::ROOT, name, ino, kind: Kind::File, seq: (1 << 30) + self.ino })?;
        to.bytes(ino, 0, &bytes)?;
        if self.fails {
            return Err(Error::Source(esker::Error::Io));
        }
        let (next_ino, next_place) = (self.ino + 1, (1 << 30) + self.ino + 1);
        to.numbers(Numbers { next_ino, inodes: self.ino, next_place });
        Ok(())
    }
}

fn tell(volume: &Volume<Arc<Lying>>, ino: u64, len: usize, fails: bool) {
    let done = volume.commit(&Telling { ino, len, fails });
    assert_eq!(done.is_err(), fails, "{done:?}");
}

/// Commits that were given up are no loss: nothing is older for that.
#[test]
fn what_was_given_up_is_no_loss() {
    let shape = &SHAPES[3];
    let device = shape.fresh(seed());
    let volume = shape.open(Arc::clone(&device), true).expect("it opens");
    for ino in 2..8 {
        tell(&volume, ino, 20_000, false);
        tell(&volume, ino + 1, 900_000, true);
    }
    volume.close().expect("it closes");
    let wanted = files(&volume);
    drop(volume);
    let torn =
        parts(&device.medium()).iter().filter(|head| head.kind == LOG && !head.is_last()).count();
    assert!(torn > 4, "{torn} parts of what was given up");
    for medium in [device.medium(), without_superblocks(&device.medium())] {
        let now = shape.device(medium);
        let (view, found) = recover(&now, options(), Recovering::default()).expect("it is there");
        assert!(!found.has_gaps() && found.older.is_empty(), "{found:?}");
        assert!(files(&view) == wanted);
    }
}

/// Heads of a medium.
fn parts(medium: &Medium) -> Vec<PartHead> {
    let mut bytes = vec![0; medium.size() as usize];
    medium.read(0, &mut bytes);
    let all = (0..bytes.len()).step_by(512);
    all.filter_map(|at| PartHead::parse(&bytes[at..], &[7; 16])).collect()
}

/// A commit that no barrier is known behind counts if it is whole, as when the volume is opened.
#[test]
fn what_never_was_safe_does_not_count() {
    let shape = &SHAPES[3];
    let device = shape.fresh(seed());
    let volume = shape.open(Arc::clone(&device), true).expect("it opens");
    (2..6).for_each(|ino| tell(&volume, ino, 20_000, false));
    drop(volume);
    let mut medium = device.medium();
    let mut bytes = vec![0; medium.size() as usize];
    medium.read(0, &mut bytes);
    let all = (0..bytes.len()).step_by(512);
    let last = all.filter_map(|at| Some((PartHead::parse(&bytes[at..], &[7; 16])?.sequence, at)));
    let (_, at) = last.max().expect("a commit");
    medium.write((at + PartHead::SIZE + 100) as u64, &[0xa5; 64]);
    let device = shape.device(medium);
    let wanted = files(&shape.open(&device, false).expect("it opens"));
    assert_eq!(wanted.len(), 3);
    let (view, found) = recover(&device, options(), Recovering::default()).expect("it is there");
    assert!(!found.has_gaps() && found.older.is_empty(), "{found:?}");
    assert!(readable(&view) == wanted && self::all(&view).len() == 3);
}

/// Heads that went astray, and such as somebody made up, move nothing and hide nothing.
#[test]
fn stray_heads_move_nothing() {
    let shape = &SHAPES[1];
    let made = made(shape, seed(), false);
    let mut medium = made.medium.clone();
    let mut bytes = vec![0; medium.size() as usize];
    medium.read(0, &mut bytes);
    let mut seen = BTreeSet::new();
    let all = (0..bytes.len()).step_by(512);
    let heads: Vec<_> =
        all.filter_map(|at| Some((at as u64, PartHead::parse(&bytes[at..], &[7; 16])?))).collect();
    let stretches = (4..medium.size() / shape.segment_len).map(|own| own * shape.segment_len);
    let (free, used): (Vec<u64>, Vec<u64>) = stretches
        .partition(|&at| (at..at + shape.segment_len).step_by(4096).all(|at| medium.is_zero(at)));
    let mut free = free.into_iter().rev();
    let mut strays = 0;
    for (_, head) in heads.iter().filter(|(_, head)| head.kind == LOG && head.slots > 0) {
        let Some(to) = seen.insert(head.segment).then(|| free.next()).flatten() else { continue };
        medium.write(to + head.at, &head.encode());
        strays += 1;
    }
    let mut planted = 0;
    for begin in used {
        let mut gaps = (begin..begin + shape.segment_len).step_by(4096);
        let Some(to) = gaps.find(|&at| medium.is_zero(at)) else { continue };
        let mut part = vec![0; 512];
        let head = heads[0].1;
        let (segment, at) = (1 << 30, to - begin);
        PartHead { segment, at, kind: LOG, sequence: 1, rows_stored: 0, rows_at: 0, ..head }
            .seal(&mut part);
        part[300] = 1;
        medium.write(to, &part);
        planted += 1;
    }
    assert!(strays > 0 && planted > 0, "{strays} astray, {planted} made up");
    let medium = without_superblocks(&medium);
    let device = shape.device(medium);
    let (view, found) = recover(&device, options(), Recovering::default()).expect("it is there");
    assert!(readable(&view) == made.files, "{found:?}");
    let done = repaired(&device, true).expect("it is repaired");
    assert_eq!(judge(shape, &made, &device, &done), Ok(made.files.len()), "{done:?}");
}

/// A file that is mostly a hole is not lost for that.
#[test]
fn sparse_files_are_kept() {
    let shape = &SHAPES[0];
    let device = shape.fresh(seed());
    let fs = Fs::new(mount(shape, Arc::clone(&device)).expect("it opens"), clock);
    let make = |path: &str, byte: u8| {
        let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
        let name = Name::parse(path.as_bytes()).expect("a name");
        let ino = fs.create(&Caller::ROOT, Ino::ROOT, name, new).expect("room").ino;
        fs.write(ino, 0, &[byte; 5000], false).expect("room");
        fs.write(ino, 1 << 40, &[byte + 1; 5000], false).expect("room");
        fs.sync().expect("a sync");
        fs.forget(ino, 1);
    };
    make("lost", 1);
    let first = parts(&device.medium()).iter().map(|head| head.sequence).max().expect("a commit");
    make("old", 8);
    drop(fs);
    let lost = |head: &PartHead| head.kind == TABLES || head.sequence == first;
    let medium = without(&device.medium(), 300, &lost);
    let device = shape.device(without_superblocks(&medium));
    repaired(&device, true).expect("it is repaired");
    let volume = shape.open(&device, false).expect("it opens");
    let mut found = None;
    let listed = volume.entries(Ino::ROOT, Cursor::START, false, &mut |listed| {
        let name = String::from_utf8_lossy(listed.name.bytes()).into_owned();
        found = name.starts_with("old").then_some((name, listed.entry.ino)).or(found.take());
        Flow::Continue(())
    });
    listed.expect("a listing");
    let (name, ino) = found.expect("it is there");
    assert!(name.ends_with(".damaged"), "{name}");
    let mut bytes = [0; 5000];
    assert_eq!(volume.read(ino, 1 << 40, &mut bytes), Ok(5000));
    assert!(bytes == [9; 5000]);
}

/// On zones nothing is put back in its place: a snapshot whose tables were made again goes, and the rest is repaired.
#[test]
fn zones_are_not_written_over() {
    let zones = SHAPES[4].zones.map(|zones| Zones { active: 4, ..zones });
    let shape = &Shape { copies: 2, zones, ..SHAPES[4] };
    let made = made(shape, seed(), true);
    let mut chance = Chance::new(seed());
    for place in &structures(shape, &made.medium)["tables"] {
        let medium = damaged(&made.medium, place, &mut chance);
        whole(shape, &made, medium).unwrap_or_else(|why| panic!("{place:?}: {why}"));
    }
}
