//! Volumes that are full, and wars above them: whoever asks for more than there is hears it when he asks; taking away
//! always works, and gives back all that was taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use esker::posix::{Allocate, Caller, Fs, New, RenameFlags, SetAttr};
use esker::store::View as _;
use esker::{Error, Ino, Kind, Name, Time};
use esker_proof::chance::Chance;
use esker_proof::cut::{SHAPES, Shape};
use esker_proof::harness::{from_env, seed};
use esker_proof::lying::ram::Ram;
use esker_proof::storm::{Here, rage};
use esker_proof::told::print;
use esker_proof::world::inside::Checked as _;
use esker_proof::world::layered::survey;
use esker_proof::world::on_volume::{Above, in_layers_of, mount};
use esker_stone::Codec;
use esker_volume::Error as Volumes;
use esker_volume::device::{self, Geometry};
use esker_volume::{Snapped, SnapshotError, make};

type Home = Above<Arc<Ram>>;

const SIZE: usize = 32 << 20;
const SHAPE: Shape = Shape {
    name: "full",
    size: SIZE as u64,
    segment_len: 256 << 10,
    block_len: 16 << 10,
    codec: Codec::Lz4,
    recent_len: 256 << 10,
    table_len: 64 << 10,
    ..SHAPES[0]
};

fn clock() -> Time {
    Time { secs: 1_700_000_000, nanos: 0 }
}

fn fresh(shape: &Shape, size: usize) -> (Arc<Ram>, Fs<Home>) {
    let device = Arc::new(Ram::new(size));
    make(&device, &shape.making()).expect("a volume");
    let home = mount(shape, Arc::clone(&device)).expect("it opens");
    (device, Fs::new(home, clock))
}

fn name(text: &str) -> Name<'_> {
    Name::parse(text.as_bytes()).expect("a name")
}

/// Bytes that cannot be compressed.
fn noise(chance: &mut Chance, len: usize) -> Vec<u8> {
    (0..len).map(|_| chance.below(256) as u8).collect()
}

/// Makes a file of this content.
fn put<D: device::Device>(fs: &Fs<Above<D>>, path: &str, content: &[u8]) -> Result<Ino, Error> {
    let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
    let ino = fs.create(&Caller::ROOT, Ino::ROOT, name(path), new)?.ino;
    let mut done = Ok(0);
    for (number, part) in content.chunks(100_000).enumerate() {
        done = done.and_then(|_| fs.write(ino, number as u64 * 100_000, part, false));
    }
    fs.forget(ino, 1);
    done.map(|_| ino)
}

/// Files until there is no room; how many bytes they hold.
fn fill(fs: &Fs<Home>, chance: &mut Chance, round: usize) -> (u64, Vec<String>) {
    let (mut bytes, mut names) = (0, Vec::new());
    for number in 0.. {
        let path = format!("round{round}-{number}");
        let len = 1 + chance.below(200_000) as usize;
        let content = noise(chance, len);
        match put(fs, &path, &content) {
            Ok(_) => bytes += len as u64,
            Err(Error::NoSpace) => {
                let _ = fs.unlink(&Caller::ROOT, Ino::ROOT, name(&path));
                return (bytes, names);
            }
            Err(error) => panic!("{path}: {error}"),
        }
        names.push(path);
        if number % 7 == 0 {
            fs.sync().expect("what was taken is written");
        }
    }
    (bytes, names)
}

/// What always works, on a file of a full volume.
fn take_away(fs: &Fs<Home>, path: &str) {
    let root = &Caller::ROOT;
    let ino = fs.lookup(root, Ino::ROOT, name(path)).expect("it is there").ino;
    let perm = SetAttr { perm: Some(0o600), ..SetAttr::default() };
    fs.setattr(root, ino, &perm).expect("chmod when full");
    let size = SetAttr { size: Some(100), ..SetAttr::default() };
    fs.setattr(root, ino, &size).expect("truncate when full");
    let (from, to) = (name(path), name("moved"));
    fs.rename(root, Ino::ROOT, from, Ino::ROOT, to, RenameFlags::default())
        .expect("rename when full");
    fs.unlink(root, Ino::ROOT, to).expect("unlink when full");
    fs.forget(ino, 1);
}

#[test]
fn a_full_volume_can_be_emptied_and_filled_again() {
    let (device, fs) = fresh(&SHAPE, SIZE);
    let mut chance = Chance::new(seed());
    let (mut kept, mut held) = (Vec::new(), Vec::new());
    let rounds = from_env("ESKER_CASES", 6) as usize;
    for round in 0..rounds {
        let (bytes, names) = fill(&fs, &mut chance, round);
        held.push(bytes);
        fs.sync().expect("what was taken is written");
        let findings = fs.store().volume().check();
        assert!(findings.is_empty(), "round {round}: {findings:?}");
        // Every other file goes, so that no segment is free by itself.
        kept.extend(names);
        let mut number = 0;
        kept.retain(|path| {
            number += 1;
            if number % 2 == 0 {
                take_away(&fs, path);
            }
            number % 2 != 0
        });
        fs.sync().expect("taking away is written");
    }
    println!("bytes that fitted each time: {held:?}, {} written", device.written());
    // The first time there is all the room, later half of it.
    let first = held[0];
    assert!(first * 100 >= SIZE as u64 * 85, "only {first} of {SIZE} bytes could be used");
    let worst = held[1..].iter().min().expect("rounds");
    assert!(worst * 2 * 100 >= first * 85, "space is lost: {held:?}");
    for path in kept {
        fs.unlink(&Caller::ROOT, Ino::ROOT, name(&path)).expect("unlink");
    }
    let (again, _) = fill(&fs, &mut chance, rounds);
    assert!(again * 100 >= first * 97, "space is lost: {again} after {first}");
    assert_eq!(fs.store().findings(), [""; 0]);
}

fn inode(fs: &Fs<Home>, path: &str) -> (Ino, u64) {
    let ino = fs.lookup(&Caller::ROOT, Ino::ROOT, name(path)).expect("it is there").ino;
    (ino, fs.getattr(ino).expect("an inode").size)
}

/// Where there is no room at all, what is there can be written over all the same, as often as anybody likes, as long as
/// it takes no more than before. What would take more is refused, and what was there stays.
#[test]
fn a_full_volume_can_be_written_over() {
    // With the last two, what is left of a block lies in several places of a file by then.
    [seed(), 11, 14].into_iter().for_each(written_over_when_full);
}

fn written_over_when_full(seed: u64) {
    let (_, fs) = fresh(&SHAPE, SIZE);
    let mut chance = Chance::new(seed);
    put(&fs, "even", &[7; 300_000]).expect("room");
    let (_, names) = fill(&fs, &mut chance, 0);
    let (last, mut len) = inode(&fs, &names[0]);
    let full = loop {
        match fs.write(last, len, &noise(&mut chance, 4096), false) {
            Ok(_) => len += 4096,
            Err(error) => break error,
        }
    };
    assert_eq!(full, Error::NoSpace);
    let rounds = from_env("ESKER_CASES", 9) * 50;
    let mut known = std::collections::BTreeMap::new();
    for round in 0..rounds {
        let path = chance.pick(&names).clone();
        let (ino, size) = inode(&fs, &path);
        // What is less than a block lies together with what others have.
        let len = size / u64::from(SHAPE.block_len) * u64::from(SHAPE.block_len);
        if len == 0 {
            fs.forget(ino, 1);
            continue;
        }
        let mut content = known.remove(&path).unwrap_or_else(|| {
            let mut content = vec![0; len as usize];
            fs.read(ino, 0, &mut content).expect("it can be read");
            content
        });
        let at = chance.below(len);
        let bytes = noise(&mut chance, 1 + (len - at).min(100_000) as usize / 2);
        let bytes = &bytes[..bytes.len().min((len - at) as usize)];
        let done = fs.write(ino, at, bytes, false);
        done.unwrap_or_else(|error| {
            panic!("round {round}, {path}, {at}, {}: {error}", bytes.len())
        });
        content[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        let mut read = vec![0; len as usize];
        fs.read(ino, 0, &mut read).expect("it can be read");
        assert!(read == content, "round {round}, {path}: something else");
        known.insert(path, content);
        fs.forget(ino, 1);
    }
    let (even, _) = inode(&fs, "even");
    assert_eq!(fs.write(even, 0, &noise(&mut chance, 200_000), false), Err(Error::NoSpace));
    let mut read = vec![0; 300_000];
    fs.read(even, 0, &mut read).expect("it can be read");
    assert!(read.iter().all(|&byte| byte == 7), "what was refused was written");
    fs.sync().expect("what was taken is written");
    take_away(&fs, &names[1]);
    assert_eq!(fs.store().findings(), [""; 0]);
}

/// Small files share blocks, and where a segment ends a block is cut in two: all of them hold what was written.
#[test]
fn what_lies_at_the_end_of_a_segment_is_whole() {
    for codec in [Codec::None, Codec::Lz4] {
        let shape = Shape { segment_len: 128 << 10, block_len: 32 << 10, codec, ..SHAPE };
        let (_, fs) = fresh(&shape, 8 << 20);
        let mut chance = Chance::new(seed());
        let mut known = Vec::new();
        for number in 0..400 {
            let len = 600 + chance.below(5000) as usize;
            let content = noise(&mut chance, len);
            known.push((put(&fs, &format!("file{number}"), &content).expect("room"), content));
        }
        fs.sync().expect("what was taken is written");
        for (ino, content) in known {
            let mut read = vec![0; content.len() + 1];
            let len = fs.store().volume().read(ino, 0, &mut read).expect("it can be read");
            assert!(read[..len] == *content, "{codec:?}, {ino:?}: something else");
        }
        assert_eq!(fs.store().findings(), [""; 0]);
    }
}

/// What fallocate(2) promised can be written, a little at a time and made safe each time, whatever fills the volume
/// meanwhile; and what it cannot promise it refuses.
#[test]
fn what_was_promised_can_be_written_when_it_is_full() {
    const PROMISED: u64 = 4 << 20;
    let (_, fs) = fresh(&SHAPE, SIZE);
    let mut chance = Chance::new(seed());
    let ino = put(&fs, "promised", &[7; 1000]).expect("room");
    let reserve = |len| fs.fallocate(&Caller::ROOT, ino, Allocate::Reserve, 0, len);
    let used = fs.store().space().used;
    reserve(PROMISED).expect("room");
    reserve(PROMISED).expect("the same again takes no more");
    let kept = fs.store().space().used - used;
    assert!((PROMISED..PROMISED * 3 / 2).contains(&kept), "{kept}");
    assert_eq!(reserve(SIZE as u64), Err(Error::NoSpace));
    let (bytes, names) = fill(&fs, &mut chance, 0);
    assert!(bytes > SIZE as u64 / 2);
    for at in (0..PROMISED).step_by(4096) {
        let done = fs.write(ino, at, &noise(&mut chance, 4096), false);
        done.unwrap_or_else(|error| panic!("at {at}: {error}"));
        if at % (64 << 10) == 0 {
            fs.sync().unwrap_or_else(|error| panic!("at {at}: {error}"));
        }
    }
    // Nothing is promised any more, and what is cut off is not either.
    fs.unlink(&Caller::ROOT, Ino::ROOT, name(&names[0])).expect("unlink when full");
    fs.unlink(&Caller::ROOT, Ino::ROOT, name("promised")).expect("unlink when full");
    fs.sync().expect("taking away is written");
    let other = put(&fs, "other", &[7; 1000]).expect("room");
    let reserve = |mode| fs.fallocate(&Caller::ROOT, other, mode, 0, PROMISED / 2);
    let used = fs.store().space().used;
    reserve(Allocate::ReserveKeepSize).expect("room");
    assert!(fs.store().space().used > used + PROMISED / 2);
    reserve(Allocate::Punch).expect("punch");
    assert!(fs.store().space().used < used + (64 << 10));
    assert_eq!(fs.store().findings(), [""; 0]);
}

/// Many at war over names and space, while somebody syncs all the time and room is made.
fn war(shape: &Shape, size: usize) {
    let (_, fs) = fresh(shape, size);
    let over = AtomicBool::new(false);
    let length = Duration::from_secs(from_env("ESKER_STORM_SECS", 4));
    let tally = std::thread::scope(|scope| {
        for pause in [1, 13] {
            let (fs, over) = (&fs, &over);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    fs.sync().expect("a sync");
                    fs.store().volume().reclaim_in_time().expect("room is made");
                    std::thread::sleep(Duration::from_millis(pause));
                }
            });
        }
        let tally = rage(&Here(&fs), 8, length, Duration::from_secs(60), seed());
        over.store(true, Ordering::Relaxed);
        tally.expect("a fair war")
    });
    println!("errno and how often: {tally:?}; {} commits", fs.store().volume().sequence());
    assert_eq!(fs.store().findings(), [""; 0]);
}

#[test]
fn a_war_above_a_volume_leaves_a_sound_volume() {
    war(&SHAPE, SIZE);
}

#[test]
fn a_war_for_space_leaves_a_sound_volume() {
    let tight = Shape { segment_len: 128 << 10, ..SHAPE };
    war(&tight, 4 << 20);
}

/// What a snapshot shows. What was open without a name when it was made has an inode, and no name.
fn shown(fs: &Fs<Home>, name: &str) -> u64 {
    let view = Snapped::new(Arc::clone(fs.store().shared()), name).expect("it is there");
    let nameless = |finding: &String| finding.ends_with("are found");
    let findings: Vec<_> = survey(&view).into_iter().filter(|own| !nameless(own)).collect();
    assert_eq!(findings, [""; 0], "{name}");
    print(&view).expect("it shows everything")
}

/// Makes and deletes snapshots until it is over: what each shows stays as it is. How many there were, and were refused.
fn keep(fs: &Fs<Home>, over: &AtomicBool) -> (u64, u64) {
    let (mut kept, mut made, mut refused) = (std::collections::VecDeque::new(), 0, 0);
    let end = |(name, told): (String, u64)| {
        assert_eq!(shown(fs, &name), told, "{name} shows something else");
        fs.store().volume().delete_snapshot(&name).expect("deleting always works");
    };
    while !over.load(Ordering::Relaxed) {
        let name = format!("s{}", made + refused);
        match fs.store().create_snapshot(&name) {
            Err(SnapshotError::NoRoom | SnapshotError::Volume(Volumes::NoSpace)) => refused += 1,
            done => {
                done.unwrap_or_else(|error| panic!("{name}: {error}"));
                made += 1;
                kept.push_back((name.clone(), shown(fs, &name)));
            }
        }
        if kept.len() > 4 {
            kept.pop_front().into_iter().for_each(&end);
        }
        std::thread::sleep(Duration::from_millis(7));
    }
    kept.into_iter().for_each(end);
    (made, refused)
}

/// A war while snapshots are made and deleted.
#[test]
fn a_war_above_snapshots_leaves_them_as_they_were() {
    let tight = Shape { segment_len: 128 << 10, ..SHAPE };
    let (_, fs) = fresh(&tight, 8 << 20);
    let over = AtomicBool::new(false);
    let length = Duration::from_secs(from_env("ESKER_STORM_SECS", 4));
    let (made, refused) = std::thread::scope(|scope| {
        let keeper = scope.spawn(|| keep(&fs, &over));
        let tally = rage(&Here(&fs), 8, length, Duration::from_secs(60), seed());
        over.store(true, Ordering::Relaxed);
        tally.expect("a fair war");
        keeper.join().expect("snapshots stay as they are")
    });
    println!("{made} snapshots, {refused} had no room");
    assert!(made > 5, "hardly any snapshots");
    assert!(fs.store().volume().snapshots().is_empty());
    assert_eq!(fs.store().findings(), [""; 0]);
}

/// A device that takes its time to make something safe, in which others go on.
struct Slow(Ram);

impl device::Device for Slow {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    fn read(&self, at: u64, target: &mut [u8]) -> device::Result<()> {
        self.0.read(at, target)
    }

    fn write(&self, at: u64, source: &[u8]) -> device::Result<()> {
        self.0.write(at, source)
    }

    fn flush(&self) -> device::Result<()> {
        std::thread::sleep(Duration::from_millis(3));
        self.0.flush()
    }

    fn discard(&self, at: u64, len: u64) -> device::Result<()> {
        self.0.discard(at, len)
    }
}

/// However full a volume is whose tables have two copies, and however often it was written over in pieces: other rights
/// and what is taken away are safe with the next sync, also behind another opening, and all its room comes back.
#[test]
fn what_is_taken_away_from_a_full_volume_is_safe() {
    let mut chance = Chance::new(seed());
    for _ in 0..from_env("ESKER_CASES", 2) {
        let shape = Shape {
            size: 48 << 20,
            block_len: 16 << 10 << chance.below(2),
            copies: 2,
            codec: Codec::Zstd,
            recent_len: 3 << 19,
            table_len: 32 << 10,
            deltas: chance.below(2) == 0,
            ..SHAPE
        };
        let (device, fs) = fresh(&shape, shape.size as usize);
        let mut files = written_over(&fs, &mut chance, 300);
        drop(fs);
        let fs = Fs::new(mount(&shape, device).expect("it opens"), clock);
        for number in 0..2 * files.len() {
            let path = &files[number % files.len()];
            let ino = fs.lookup(&Caller::ROOT, Ino::ROOT, name(path)).expect("it is there").ino;
            let perm = SetAttr { perm: Some(0o600 + number as u16 % 8), ..SetAttr::default() };
            fs.setattr(&Caller::ROOT, ino, &perm).expect("chmod when full");
            fs.forget(ino, 1);
            fs.sync().unwrap_or_else(|error| panic!("{shape:?}: {path} has other rights: {error}"));
        }
        while !files.is_empty() {
            let path = files.swap_remove(chance.below(files.len() as u64) as usize);
            fs.unlink(&Caller::ROOT, Ino::ROOT, name(&path)).expect("unlink");
            fs.sync().unwrap_or_else(|error| panic!("{shape:?}: {path} is gone: {error}"));
        }
        assert_eq!(fs.store().findings(), [""; 0]);
        let space = fs.store().space();
        assert!(space.used * 20 < space.total, "{shape:?}: {space:?}");
    }
}

/// Files of blocks that are half noise, until there is no room, and some blocks written over, which may be refused; all
/// of it synced piece by piece.
fn written_over(fs: &Fs<Home>, chance: &mut Chance, times: u64) -> Vec<String> {
    let half = |chance: &mut Chance| [noise(chance, 2048), vec![0; 2048]].concat();
    let mut files = Vec::new();
    for number in 0.. {
        let (path, blocks) = (format!("{number}"), 1 + chance.below(120) as usize);
        let content = std::iter::repeat_with(|| half(chance)).take(blocks).flatten();
        if put(fs, &path, &content.collect::<Vec<_>>()).is_err() {
            let _ = fs.unlink(&Caller::ROOT, Ino::ROOT, name(&path));
            break;
        }
        fs.sync().expect("what was taken is written");
        files.push((path, blocks as u64));
    }
    for _ in 0..times {
        let (path, blocks) = chance.pick(&files).clone();
        let ino = fs.lookup(&Caller::ROOT, Ino::ROOT, name(&path)).expect("it is there").ino;
        let _ = fs.write(ino, 4096 * chance.below(blocks), &half(chance), false);
        fs.forget(ino, 1);
        fs.sync().expect("what was taken is written");
    }
    files.into_iter().map(|(path, _)| path).collect()
}

/// Many make small files faster than they are written, in layers that have room for a few: each waits for its turn, and
/// none is told that a volume which is nearly empty is full. Layers are full by what memory they may take; where tables
/// have two copies, by rows for which a segment has room.
#[test]
fn who_comes_too_fast_waits_and_is_not_refused() {
    came_too_fast(1, 96 << 10);
    came_too_fast(2, 8 << 20);
}

/// With so many copies of tables, in layers of so many bytes.
fn came_too_fast(copies: u32, layer_len: u64) {
    const THREADS: u64 = 8;
    let shape = Shape { segment_len: 128 << 10, recent_len: 1 << 20, copies, ..SHAPE };
    let device = Slow(Ram::new(64 << 20));
    make(&device, &shape.making()).expect("a volume");
    let volume = shape.open(device, true).expect("it opens");
    let fs = Fs::new(in_layers_of(volume, layer_len).expect("it is mounted"), clock);
    let files = from_env("ESKER_CASES", 400);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let fs = &fs;
            scope.spawn(move || {
                for number in 0..files {
                    let path = format!("{thread}-{number}");
                    put(fs, &path, &[7; 100]).unwrap_or_else(|error| panic!("{path}: {error}"));
                }
            });
        }
    });
    fs.sync().expect("what was taken is written");
    let made = fs.store().volume().sequence();
    assert!(made > 10, "copies {copies}: {made} commits, there was always room in a layer");
    assert_eq!(fs.store().space().inodes, THREADS * files + 1);
    assert_eq!(fs.store().findings(), [""; 0]);
}

/// Also of a volume of few large segments, as zones are, who asks is told how full it is when there is no room.
#[test]
fn a_volume_of_few_segments_that_is_full_says_so() {
    let shape = Shape { segment_len: 1 << 20, ..SHAPE };
    let (_, fs) = fresh(&shape, SIZE);
    let (bytes, _) = fill(&fs, &mut Chance::new(seed()), 0);
    fs.sync().expect("what was taken is written");
    let space = fs.store().space();
    assert!(space.used * 100 >= space.total * 93, "{space:?}, {bytes} bytes were taken");
    assert!(bytes * 100 >= space.total * 90, "{space:?}, {bytes} bytes were taken");
}
