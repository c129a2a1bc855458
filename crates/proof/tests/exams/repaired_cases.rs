//! What else befalls a volume before it is repaired, recovered or scrubbed: growing that was stopped, with the
//! superblocks that say so gone; reads and superblocks that failed; what may be older, that keeps its name if that is
//! wanted; extended attributes that may be lost. `ESKER_CASES` is how many volumes of each shape grow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use esker::posix::{Caller, Fs, New, XattrMode};
use esker::store::{Flow, Store as _, View};
use esker::{Cursor, Ino, Kind, Name, Time, XattrName};
use esker_proof::chance::Chance;
use esker_proof::cut::{SHAPES, Shape, goes_on};
use esker_proof::harness::{from_env, seed};
use esker_proof::lying::medium::{Medium, PAGE};
use esker_proof::lying::states::{Dose, Replay};
use esker_proof::lying::{Lying, Op, Plan, Request};
use esker_proof::told::print;
use esker_proof::world::on_volume::{Above, mount};
use esker_stone::cache::Cache;
use esker_volume::device::{Device, Fault, Geometry};
use esker_volume::part::{LOG, PartHead, TABLES};
use esker_volume::recover::{Recovering, Repaired, Repairing, recover, repair};
use esker_volume::scrub::{Scrubbed, Scrubbing, mend_root};
use esker_volume::{Change, Options, Snapped, Superblock, Volume};

/// Bytes of a device that can be read together, or not.
const UNIT: u64 = 4096;

/// What files hold, by their paths.
type Files = BTreeMap<String, Vec<u8>>;
type Mounted = Fs<Above<Arc<Lying>>>;

fn clock() -> Time {
    Time { secs: 1_700_000_000, nanos: 0 }
}

fn options() -> Options {
    Options { table_len: Some(1), ..Options::new(Cache::new(1 << 20)) }
}

fn mounted(shape: &Shape, device: &Arc<Lying>) -> Mounted {
    Fs::new(mount(shape, Arc::clone(device)).expect("it opens"), clock)
}

fn make(fs: &Mounted, dir: Ino, name: &str, kind: Kind) -> Ino {
    let new = New { kind, perm: 0o755, umask: 0, rdev: 0 };
    let name = Name::parse(name.as_bytes()).expect("a name");
    fs.create(&Caller::ROOT, dir, name, new).expect("room").ino
}

/// A file, or other bytes of one.
fn put(fs: &Mounted, name: &str, bytes: &[u8]) -> Ino {
    let parsed = Name::parse(name.as_bytes()).expect("a name");
    let known = fs.lookup(&Caller::ROOT, Ino::ROOT, parsed).map(|node| node.ino);
    let ino = known.unwrap_or_else(|_| make(fs, Ino::ROOT, name, Kind::File));
    fs.write(ino, 0, bytes, false).expect("room");
    ino
}

fn noise(chance: &mut Chance, len: usize) -> Vec<u8> {
    (0..len).map(|_| chance.number() as u8).collect()
}

/// All that has a name, by its path.
fn paths(view: &dyn View) -> BTreeMap<String, (Ino, Kind)> {
    let (mut found, mut todo) = (BTreeMap::new(), vec![(String::new(), Ino::ROOT)]);
    while let Some((path, dir)) = todo.pop() {
        let listed = view.entries(dir, Cursor::START, false, &mut |listed| {
            let path = format!("{path}/{}", String::from_utf8_lossy(listed.name.bytes()));
            let entry = listed.entry;
            if entry.kind == Kind::Directory {
                todo.push((path.clone(), entry.ino));
            }
            found.insert(path, (entry.ino, entry.kind));
            Flow::Continue(())
        });
        listed.expect("a listing");
    }
    found
}

/// All files, of a view of which everything can be read.
fn files(view: &dyn View) -> Files {
    let all = paths(view).into_iter().filter(|(_, (_, kind))| *kind == Kind::File);
    let read = |(path, (ino, _)): (String, (Ino, Kind))| {
        let mut bytes = vec![0; 1 << 21];
        let len = view.read(ino, 0, &mut bytes).unwrap_or_else(|why| panic!("{path}: {why:?}"));
        bytes.truncate(len);
        (path, bytes)
    };
    all.map(read).collect()
}

fn texts(paths: &[Vec<u8>]) -> BTreeSet<String> {
    paths.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect()
}

/// Everything that lies on a medium at multiples of 512.
fn units<T>(medium: &Medium, of: impl Fn(&[u8]) -> Option<T>) -> Vec<(u64, T)> {
    let mut bytes = vec![0; medium.size() as usize];
    medium.read(0, &mut bytes);
    let all = (0..bytes.len()).step_by(512);
    all.filter_map(|at| Some((at as u64, of(&bytes[at..])?))).collect()
}

fn superblocks(medium: &Medium) -> Vec<(u64, Superblock)> {
    units(medium, |bytes| Superblock::parse(bytes).ok())
}

fn heads(medium: &Medium) -> Vec<(u64, PartHead)> {
    units(medium, |bytes| PartHead::parse(bytes, &[7; 16]))
}

/// Zeros in place of such parts, from their heads on for so many bytes more.
fn without(medium: &Medium, body: usize, which: impl Fn(&PartHead) -> bool) -> Medium {
    let mut own = medium.clone();
    for (at, head) in heads(medium) {
        if which(&head) {
            own.write(at, &vec![0; (PartHead::SIZE + body).min(head.len as usize)]);
        }
    }
    own
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

/// Which superblocks are gone.
#[derive(Clone, Copy, Debug)]
enum Gone {
    Newest,
    /// All that say that the volume has grown.
    Grown,
    All,
}

impl Gone {
    fn of(self, shape: &Shape, medium: &Medium) -> Medium {
        let (mut own, all) = (medium.clone(), superblocks(medium));
        let newest = all.iter().map(|(_, own)| own.generation).max();
        let goes = |found: &Superblock| match self {
            Self::Newest => Some(found.generation) == newest,
            Self::Grown => found.size > shape.size,
            Self::All => true,
        };
        all.iter()
            .filter(|(_, found)| goes(found))
            .for_each(|(at, _)| own.write(*at, &[0xa5; 512]));
        own
    }
}

/// A volume that grows, and is written on; what it held after how many operations of its device.
struct Grown {
    before: Medium,
    device: Arc<Lying>,
    marks: Vec<(usize, Files)>,
    shown: u64,
}

fn grown(shape: &Shape, seed: u64) -> Grown {
    let mut chance = Chance::new(seed);
    let device = shape.fresh(seed);
    let (fs, mut all) = (mounted(shape, &device), Files::new());
    let mut add = |fs: &Mounted, name: &str, len: usize| {
        let bytes = noise(&mut chance, len);
        put(fs, name, &bytes);
        all.insert(format!("/{name}"), bytes);
        fs.store().sync().expect("a sync");
        all.clone()
    };
    (0..8).for_each(|number| drop(add(&fs, &format!("before {number}"), 30_000)));
    fs.store().create_snapshot("one").expect("a snapshot");
    let begin = add(&fs, "before 3", 40_000);
    let volume = Arc::clone(fs.store().shared());
    let shown = print(&Snapped::new(volume, "one").expect("it is there")).expect("it reads");
    drop(fs);
    let before = larger(&device.medium(), shape.size * 2);
    let device = Arc::new(shape.device(before.clone()));
    let fs = mounted(shape, &device);
    let change = Change { size: Some(shape.size * 2), ..Change::default() };
    fs.store().volume().alter(&change).expect("it grows");
    let mut marks = vec![(0, begin)];
    // More than a stretch at a time: what came last is told by no superblock.
    for (number, len) in [5000, 700_000, 9000, 1_400_000].into_iter().enumerate() {
        let now = add(&fs, &format!("after {number}"), len);
        marks.push((device.done(), now));
    }
    Grown { before, device, marks, shown }
}

/// Repairs what is left, of which only superblocks are gone: all that was safe is there.
fn regrown(shape: &Shape, grown: &Grown, done: usize, medium: Medium) -> Result<Repaired, String> {
    let device = shape.device(medium);
    let how = Repairing { write: true, ..Repairing::default() };
    let would = repair(&device, shape.options(true), Repairing::default());
    let told = repair(&device, shape.options(true), how);
    let told = told.map_err(|why| format!("{why:?}, {would:?}"))?;
    let volume = Arc::new(shape.open(&device, false).map_err(|why| format!("{why:?}, {told:?}"))?);
    let findings = volume.check();
    if !findings.is_empty() {
        return Err(format!("check finds {findings:?}, {told:?}"));
    }
    let (_, safe) = grown.marks.iter().rev().find(|(mark, _)| *mark <= done).expect("the first");
    let (_, ever) = grown.marks.last().expect("the last");
    let found = files(&*volume);
    if let Some(path) = safe.keys().find(|&path| found.get(path) != safe.get(path)) {
        return Err(format!("{path} is lost, {told:?}"));
    }
    if let Some(path) = found.keys().find(|&path| found.get(path) != ever.get(path)) {
        return Err(format!("{path} is wrong, {told:?}"));
    }
    let own = Snapped::new(Arc::clone(&volume), "one").map_err(|why| format!("{why:?}"))?;
    if print(&own) != Ok(grown.shown) {
        return Err(format!("the snapshot shows something else, {told:?}"));
    }
    drop((own, volume));
    goes_on(shape, &device)?;
    Ok(told)
}

/// A volume whose growing was stopped anywhere, and that was written on since: without its newest superblock, without
/// all that say how large it is, without any, nothing is lost.
#[test]
fn growing_that_was_stopped_is_repaired() {
    let dose = Dose { subsets: 0, torn: 1, garbage: 0 };
    for shape in &SHAPES {
        let mut counts = [0; 3];
        for number in 0..from_env("ESKER_CASES", 1) {
            let seed = seed().wrapping_add(number);
            let (grown, mut chance) = (grown(shape, seed), Chance::new(seed));
            let zone = shape.zones.map(|zones| zones.len);
            let mut replay = Replay::new(grown.before.clone(), zone, false);
            let mut states = 0;
            for (done, op) in (1..).zip(&grown.device.ops()) {
                replay.step(op);
                replay.states(dose, &mut chance, &mut |state| {
                    states += 1;
                    if states % 5 > 0 && done < grown.marks[1].0 {
                        return;
                    }
                    if states % 17 > 0 && done >= grown.marks[1].0 {
                        return;
                    }
                    for (gone, count) in
                        [Gone::Newest, Gone::Grown, Gone::All].into_iter().zip(&mut counts)
                    {
                        let medium = gone.of(shape, &state);
                        regrown(shape, &grown, done, medium).unwrap_or_else(|why| {
                            panic!("{}, {gone:?}, {done}, seed {seed:#x}: {why}", shape.name)
                        });
                        *count += 1;
                    }
                });
            }
        }
        println!("{}: {counts:?} states repaired", shape.name);
        assert!(counts.iter().all(|&count| count > 0), "{}: nothing was repaired", shape.name);
    }
}

/// Where the few parts that are left lie at multiples of two stretches, the root says how long a stretch is.
#[test]
fn stretches_are_as_long_as_the_root_says() {
    let (shape, mut chance) = (&SHAPES[0], Chance::new(seed()));
    let device = shape.fresh(seed());
    let (fs, mut cases) = (mounted(shape, &device), 0);
    for step in 0..300 {
        let bytes = noise(&mut chance, 9000);
        put(&fs, "file", &bytes);
        fs.store().sync().expect("a sync");
        fs.store().volume().give_back_below(u64::MAX);
        let medium = device.medium();
        let mut begins = heads(&medium).into_iter().map(|(at, head)| at - head.at);
        let twice = 2 * shape.segment_len;
        if !begins.all(|begin| begin.is_multiple_of(twice) && begin >= 2 * twice) {
            continue;
        }
        let own = shape.device(Gone::All.of(shape, &medium));
        let how = Repairing { write: true, ..Repairing::default() };
        let told = repair(&own, shape.options(true), how);
        let told = told.unwrap_or_else(|why| panic!("step {step}: {why:?}"));
        let volume = shape.open(&own, false).expect("it opens");
        let wanted = Files::from([("/file".to_owned(), bytes)]);
        assert!(files(&volume) == wanted, "step {step}: {told:?}");
        cases += 1;
    }
    println!("{cases} volumes of which every second stretch is empty");
    assert!(cases > 0, "none was so");
}

/// A device of which some pages cannot be read until they are written.
struct Worn {
    device: Lying,
    pages: Mutex<BTreeSet<u64>>,
}

impl Worn {
    fn new(device: Lying, pages: impl IntoIterator<Item = u64>) -> Self {
        Self { device, pages: Mutex::new(pages.into_iter().map(|at| at / UNIT * UNIT).collect()) }
    }

    fn pages(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.pages.lock().expect("nobody panicked")
    }
}

impl Device for Worn {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<(), Fault> {
        let (first, end) = (at / UNIT * UNIT, at + target.len() as u64);
        match self.pages().range(first..end).next() {
            Some(_) => Err(Fault::Io(None)),
            None => self.device.read(at, target),
        }
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<(), Fault> {
        let end = at + source.len() as u64;
        self.pages().retain(|&page| page < at || page + UNIT > end);
        self.device.write(at, source)
    }

    fn flush(&self) -> Result<(), Fault> {
        self.device.flush()
    }

    fn discard(&self, at: u64, len: u64) -> Result<(), Fault> {
        self.device.discard(at, len)
    }
}

/// A volume of some files, and what they hold.
fn some(shape: &Shape, chance: &mut Chance) -> (Medium, Files) {
    let (device, mut all) = (shape.fresh(seed()), Files::new());
    let fs = mounted(shape, &device);
    for number in 0..12 {
        let (name, bytes) = (format!("f{number}"), noise(chance, 9000));
        put(&fs, &name, &bytes);
        fs.store().sync().expect("a sync");
        all.insert(format!("/{name}"), bytes);
    }
    fs.store().volume().close().expect("it closes");
    (device.medium(), all)
}

fn scrub<D: Device>(volume: &Volume<D>) -> Scrubbed {
    volume.scrub(&Scrubbing::all(&|_| true)).expect("it is scrubbed")
}

/// A page of tables that cannot be read costs nothing where there is parity: the others of its part are read one by
/// one, it is made again, and can be read then.
#[test]
fn what_cannot_be_read_is_made_again() {
    let shape = &Shape { unit: 4096, recent_len: 1, table_len: 1, ..SHAPES[1] };
    let (medium, all) = some(shape, &mut Chance::new(seed()));
    let mut again = 0;
    for (at, head) in heads(&medium).into_iter().filter(|(_, head)| head.kind == TABLES) {
        for page in (at..at + head.len).step_by(UNIT as usize) {
            let device = Worn::new(shape.device(medium.clone()), [page]);
            again += u64::from(mend_root(&device, true).expect("it is made again"));
            let volume = shape.open(&device, true).expect("it opens");
            let told = scrub(&volume);
            assert_eq!(told.findings, [], "{page}: {told:?}");
            again += told.mended;
            assert!(told.mended == 0 || device.pages().is_empty(), "{page}: {told:?}");
            assert!(scrub(&volume).is_sound(), "{page}: {told:?}");
            assert!(files(&volume) == all, "{page}: {told:?}");
        }
    }
    println!("{again} parts made again");
    assert!(again > 0, "nothing was needed");
}

/// A read that fails once, whichever it is, is not taken for damage of what it read: nothing is lost, nothing is made
/// again of parts that are whole, and the next scrub finds nothing.
#[test]
fn a_read_that_fails_once_costs_nothing() {
    for shape in &SHAPES {
        let (medium, all) = some(shape, &mut Chance::new(seed()));
        let device = shape.device(medium);
        let volume = shape.open(&device, true).expect("it opens");
        let (mut nth, mut found) = (0, 0);
        loop {
            let fault = Fault::Io(None);
            device.plan(Some(Plan { request: Request::Read, nth, forever: false, fault }));
            let told = scrub(&volume);
            let failed = device.count(Request::Read) > nth;
            device.plan(None);
            assert_eq!(told.mended, 0, "{}, {nth}: {told:?}", shape.name);
            found += told.findings.len();
            let next = scrub(&volume);
            assert!(next.is_sound(), "{}, {nth}: {next:?} after {told:?}", shape.name);
            if !failed {
                assert!(told.is_sound(), "{}: {told:?}", shape.name);
                break;
            }
            nth += 1;
        }
        assert!(files(&volume) == all, "{}", shape.name);
        println!("{}: {nth} reads failed, {found} of them told", shape.name);
    }
}

/// Whether a write went where superblocks are.
fn is_superblock(shape: &Shape, op: &Op) -> bool {
    let homes = u64::from(2 * shape.copies) * shape.segment_len;
    matches!(op, Op::Write(write) if write.at < homes)
}

/// Writes until so many writes came to the device, of which the last one fails; what was safe then.
fn until_failed(shape: &Shape, device: &Arc<Lying>, nth: u64) -> (Mounted, Files, Files) {
    let (mut chance, fs) = (Chance::new(seed()), mounted(shape, device));
    let plan = Plan { request: Request::Write, nth, forever: false, fault: Fault::Io(None) };
    device.plan(Some(plan));
    let (mut safe, mut ever) = (Files::new(), Files::new());
    for number in 0..12 {
        let (name, bytes) = (format!("f{number}"), noise(&mut chance, 60_000));
        put(&fs, &name, &bytes);
        ever.insert(format!("/{name}"), bytes);
        if fs.store().sync().is_ok() {
            safe.clone_from(&ever);
        }
        if device.count(Request::Write) > nth {
            break;
        }
    }
    device.plan(None);
    (fs, safe, ever)
}

fn has_all(view: &dyn View, safe: &Files, ever: &Files) -> bool {
    let found = files(view);
    let is_known = |(path, bytes): (&String, &Vec<u8>)| ever.get(path) == Some(bytes);
    safe.keys().all(|path| found.contains_key(path)) && found.iter().all(is_known)
}

/// The write of a superblock fails, and may be there in part: scrubbing writes another, at once or after the volume was
/// opened again, and then finds nothing.
#[test]
fn a_superblock_that_failed_is_written_again() {
    for shape in &SHAPES {
        let device = shape.fresh(seed());
        drop(until_failed(shape, &device, u64::MAX));
        let writes: Vec<Op> =
            device.ops().into_iter().filter(|op| matches!(op, Op::Write(_))).collect();
        let told = (0..).zip(&writes).filter(|(_, op)| is_superblock(shape, op));
        let told: Vec<u64> = told.map(|(nth, _)| nth).collect();
        let (mut cases, mut live, mut later) = (0, 0, 0);
        for &nth in told.iter().step_by(told.len().div_ceil(8).max(1)) {
            let device = shape.fresh(seed());
            let (fs, safe, ever) = until_failed(shape, &device, nth);
            let medium = device.medium();
            let volume = fs.store().volume();
            live += scrub(volume).superblocks;
            let next = scrub(volume);
            assert!(next.is_sound(), "{}, {nth}: {next:?}", shape.name);
            drop(fs);
            for medium in [medium, device.medium()] {
                let device = shape.device(medium);
                let volume = shape.open(&device, true).expect("it opens");
                later += scrub(&volume).superblocks;
                let next = scrub(&volume);
                assert!(next.is_sound(), "{}, {nth}: {next:?}", shape.name);
                assert!(has_all(&volume, &safe, &ever), "{}, {nth}", shape.name);
            }
            cases += 1;
        }
        println!("{}: {cases} failed, {live} written again, {later} later", shape.name);
        assert!(cases > 0 && live > 0, "{}: none was written again", shape.name);
    }
}

/// A commit is lost: what may be older says so by its name, or, where that is wanted, has its own; it is told all the
/// same, and what came later is not touched by it.
#[test]
fn what_may_be_older_keeps_its_name() {
    let (shape, mut chance) = (&SHAPES[3], Chance::new(seed()));
    let device = shape.fresh(seed());
    let fs = mounted(shape, &device);
    let mut step = |name: &str| {
        let bytes = noise(&mut chance, 6000);
        put(&fs, name, &bytes);
        fs.store().sync().expect("a sync");
        let newest = heads(&device.medium()).iter().map(|(_, head)| head.sequence).max();
        (bytes, newest.expect("a commit"))
    };
    let old: BTreeSet<String> = (0..5).map(|number| format!("/f{number}")).collect();
    let mut all: Files = old.iter().map(|path| (path.clone(), step(&path[1..]).0)).collect();
    // Of a file that the same commit makes the name is lost, and a later one says the rest.
    let nameless = put(&fs, "nameless", &[1; 3000]);
    let (_, lost) = step("f2");
    put(&fs, "nameless", &[2; 3000]);
    all.insert(format!("/lost+found/#{}", nameless.0), vec![2; 3000]);
    for name in ["next", "last"] {
        all.insert(format!("/{name}"), step(name).0);
    }
    drop(fs);
    let gone = |head: &PartHead| head.kind == LOG && head.sequence == lost;
    let medium = without(&device.medium(), 0, gone);
    for keep_older in [false, true] {
        let named = |path: &String| match keep_older || !is_older(path) {
            true => path.clone(),
            false => format!("{path}.older"),
        };
        let older: BTreeSet<String> = all.keys().filter(|path| is_older(path)).map(named).collect();
        let wanted: Files = all.iter().map(|(path, bytes)| (named(path), bytes.clone())).collect();
        let device = shape.device(medium.clone());
        let how = Recovering { keep_older, ..Recovering::default() };
        let (view, found) = recover(&device, options(), how).expect("it is there");
        assert_eq!(texts(&found.older), older, "recovered");
        assert!(files(&view) == wanted, "recovered, {keep_older}: {found:?}");
        drop(view);
        let how = Repairing { write: true, keep_older, ..Repairing::default() };
        let told = repair(&device, shape.options(true), how).expect("it is repaired");
        assert_eq!(texts(&told.found.older), older, "repaired");
        let volume = shape.open(&device, false).expect("it opens");
        assert!(files(&volume) == wanted, "repaired, {keep_older}: {told:?}");
    }
}

/// Of the above: what was there when a commit was lost, and what the first one behind that made.
fn is_older(path: &str) -> bool {
    path != "/last"
}

/// Inodes of files, and of the root, that have the attribute.
fn attributed(view: &dyn View) -> BTreeSet<Ino> {
    let name = XattrName::parse(b"user.own").expect("a name");
    let all = paths(view).into_values().map(|(ino, _)| ino).chain([Ino::ROOT]);
    all.filter(|&ino| view.xattr(ino, name, &mut Vec::new()).is_ok()).collect()
}

/// A volume of which everything is in tables, and has an attribute; and those that are needed, but for the root.
fn with_attributes(shape: &Shape) -> (Medium, Vec<(u64, PartHead)>) {
    let device = shape.fresh(seed());
    let fs = mounted(shape, &device);
    let mark = |ino| {
        let name = XattrName::parse(b"user.own").expect("a name");
        fs.setxattr(&Caller::ROOT, ino, name, &[7; 300], XattrMode::Any, false).expect("room");
    };
    mark(Ino::ROOT);
    (0..60).for_each(|number| mark(put(&fs, &format!("f{number:02}"), b"few bytes")));
    fs.store().sync().expect("a sync");
    let change = Change { label: Some([b'x'; 32]), ..Change::default() };
    fs.store().volume().alter(&change).expect("it is settled");
    drop(fs);
    let medium = device.medium();
    let newest = superblocks(&medium).into_iter().max_by_key(|(_, own)| own.generation);
    let (_, newest) = newest.expect("a superblock");
    let root = u64::from(newest.root_physical) * shape.segment_len + newest.root_at;
    let root = root - PartHead::SIZE as u64;
    // What is older may not help.
    let medium = without(&medium, 0, |head| head.kind == LOG && head.sequence <= newest.sequence);
    let mut left = medium.clone();
    let mut needed = heads(&medium);
    needed.retain(|&(at, head)| {
        let mut own = medium.clone();
        own.write(at, &[0; 1024]);
        let device = shape.device(own.clone());
        let (_, found) = recover(&device, options(), Recovering::default()).expect("it is there");
        let is_needed = head.kind == TABLES && at != root && found.lost_ranges > 0;
        if head.kind == TABLES && at != root && !is_needed {
            left.write(at, &[0; 1024]);
        }
        is_needed
    });
    (left, needed)
}

/// Of everything that may have lost extended attributes the paths are told: of what did, and of nothing else but what a
/// table that is lost may have begun or ended with.
#[test]
fn what_may_have_lost_attributes_is_told() {
    let shape = &SHAPES[0];
    let (medium, needed) = with_attributes(shape);
    let (mut cases, mut count) = (0, 0);
    for (at, head) in needed {
        let mut own = medium.clone();
        own.write(at, &vec![0; head.len as usize]);
        let device = shape.device(own);
        let (view, found) = recover(&device, options(), Recovering::default()).expect("it reads");
        assert_eq!(found.older, Vec::<Vec<u8>>::new(), "{at}: {found:?}");
        let by_path = paths(&view);
        let all: BTreeSet<Ino> = by_path.values().map(|(ino, _)| *ino).chain([Ino::ROOT]).collect();
        let told: BTreeSet<Ino> = texts(&found.bare)
            .iter()
            .map(|path| by_path.get(path).map_or(Ino::ROOT, |(ino, _)| *ino))
            .collect();
        let lost: BTreeSet<Ino> = &all - &attributed(&view);
        let made = by_path.iter().filter(|(path, _)| path.as_str() == "/lost+found");
        let lost: BTreeSet<Ino> = &lost - &made.map(|(_, (ino, _))| *ino).collect();
        assert!(told.is_superset(&lost), "{at}: {:?} are not told", &lost - &told);
        // The last key that it may have had is one of the inode that the next table begins with.
        let next = lost.last().map_or(all.first(), |last| all.range(Ino(last.0 + 1)..).next());
        let more = &told - &lost;
        assert!(
            more.len() <= 1 && more.first().is_none_or(|own| Some(own) == next),
            "{at}: {more:?}"
        );
        (cases, count) = (cases + u32::from(!lost.is_empty()), count + lost.len());
    }
    println!("{count} attributes lost by {cases} tables");
    assert!(cases > 1, "no table had any");
}
