//! Snapshots as streams: what was sent is what comes, whole or as a difference, wherever the stream is cut, the target
//! dies, or a byte is turned round; and a stream for something else is refused.
//!
//! `ESKER_GOLDEN=write` writes the streams of this version anew, which only a declared change of the format may need.

#[path = "../../esker-cli/src/streams/onto.rs"]
mod onto;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use esker::ground::Heap;
use esker::memory::{Home, Options};
use esker::posix::{Caller, Fs, New};
use esker::store::{Flow, Store, View};
use esker::{Attr, Cursor, Flags, Ino, Kind, Name, Time, XattrName};
use esker_proof::cut::{SHAPES, Shape};
use esker_proof::harness::{from_env, sample, seed};
use esker_proof::lying::ram::Ram;
use esker_proof::script::generate::Profile;
use esker_proof::world::World as _;
use esker_proof::world::inside::{Inside, root_attr};
use esker_proof::world::on_volume::{Above, mount};
use esker_stone::check::checksum;
use esker_stone::{Codec, Setting};
use esker_volume::device::Device as _;
use esker_volume::stream::{
    Came, Error, Frame, Frames, Mark, Meta, Moment, OWN, PATH, PIECE, Target, Tree, Word, apply,
    is_like, receive, received, send, verify,
};
use esker_volume::{Snapped, make};
use onto::Onto;

const PROFILE: Profile = Profile { steps_max: 60, users: true, cursors: false };
const PLAIN: Setting = Setting { codec: Codec::None, level: 0 };

static LARGE: [u8; PIECE + 1] = [7; PIECE + 1];

type Memory = Fs<Home<Heap>>;
type Snapshot = Snapped<Arc<Ram>>;

fn clock() -> Time {
    Time { secs: 1_800_000_000, nanos: 5 }
}

fn memory() -> Memory {
    let options = Options { size_max: 64 << 20, file_size_max: u64::MAX >> 1, root: root_attr() };
    Fs::new(Home::new(Heap::new(), &options).expect("memory"), clock)
}

fn on_ram(shape: &Shape) -> Above<Arc<Ram>> {
    let device = Arc::new(Ram::new(shape.size as usize));
    make(&device, &shape.making()).expect("a volume");
    mount(shape, device).expect("it opens")
}

/// What counts of an inode.
fn told(view: &dyn View, ino: Ino) -> esker::Result<String> {
    let Attr { kind, perm, uid, gid, nlink, rdev, flags, size, atime, mtime, .. } =
        view.attr(ino)?;
    let (flags, dir) = (flags.0 & Flags::KNOWN.0, kind == Kind::Directory);
    let (size, nlink) = if dir { (0, 0) } else { (size, nlink) };
    let mut names = Vec::new();
    view.xattrs(ino, &mut |name| {
        names.push(name.bytes().to_vec());
        Flow::Continue(())
    })?;
    let mut sums = Vec::new();
    for name in names {
        let mut value = Vec::new();
        view.xattr(ino, XattrName::parse(&name)?, &mut value)?;
        sums.push((name, checksum(&value)));
    }
    let mut sum = 0_u64;
    let mut at = 0;
    while matches!(kind, Kind::File | Kind::Symlink)
        && let Some(run) = view.next_data(ino, at)?
    {
        at = run.start();
        while at < run.end() {
            let mut bytes = vec![0; (run.end() - at).min(64 << 10) as usize];
            let count = view.read(ino, at, &mut bytes)?;
            assert!(count > 0, "data that cannot be read");
            // Zeros count as hole.
            for (at, byte) in (at..).zip(&bytes[..count]).filter(|(_, byte)| **byte != 0) {
                let mixed = (at << 8 | u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                sum = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(sum);
            }
            at += count as u64;
        }
    }
    let owner = format!("{perm:o} {uid} {gid} {nlink} {rdev} {flags} {size}");
    Ok(format!("{kind:?} {owner} {atime:?} {mtime:?} {sums:x?} {sum:x}"))
}

/// Everything that comes along, by path; of an inode with several names, which others it has.
fn picture(view: &dyn View) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let mut first: BTreeMap<Ino, String> = BTreeMap::new();
    let mut todo = vec![(Ino::ROOT, String::new())];
    let mut paths = Vec::new();
    all.insert("/".to_owned(), told(view, Ino::ROOT).expect("the root"));
    while let Some((dir, path)) = todo.pop() {
        let mut names = Vec::new();
        view.entries(dir, Cursor::START, false, &mut |listed| {
            names.push((listed.name.bytes().to_vec(), listed.entry));
            Flow::Continue(())
        })
        .expect("a listing");
        names.sort_by(|one, other| one.0.cmp(&other.0));
        for (name, entry) in names {
            if dir == Ino::ROOT && name == OWN {
                continue;
            }
            let path = format!("{path}/{}", name.escape_ascii());
            all.insert(path.clone(), told(view, entry.ino).expect("an inode"));
            if entry.kind == Kind::Directory {
                todo.push((entry.ino, path));
            } else {
                let one = first.entry(entry.ino).or_insert_with(|| path.clone());
                *one = one.clone().min(path.clone());
                paths.push((path, entry.ino));
            }
        }
    }
    for (path, ino) in paths {
        let told = all.entry(path).or_default();
        told.extend(first.get(&ino).map(|first| format!(" as {first}")));
    }
    all
}

#[track_caller]
fn same(one: &dyn View, other: &dyn View, what: &str) {
    let (one, other) = (picture(one), picture(other));
    for (path, told) in &one {
        assert_eq!(Some(told), other.get(path), "{what}: {path}");
    }
    assert_eq!(one.len(), other.len(), "{what}: {:?} beside {:?}", one.keys(), other.keys());
}

/// A volume with two snapshots, and something of each script before each.
struct Source {
    one: Snapshot,
    two: Snapshot,
    moments: [Moment; 2],
}

impl Source {
    fn of(home: &Above<Arc<Ram>>, names: [&str; 2]) -> Self {
        let volume = home.shared();
        let open = |name| Snapped::new(Arc::clone(volume), name).expect("a snapshot");
        let uuid = volume.shape().uuid;
        let moment = |name| Moment::of(uuid, &volume.snapshot(name).expect("a snapshot"));
        let moments = names.map(moment);
        Self { one: open(names[0]), two: open(names[1]), moments }
    }

    fn random(shape: &Shape, seed: u64) -> Self {
        let mut inside = Inside::new("volume", on_ram(shape));
        let script = sample(PROFILE, seed);
        let half = script.0.len() / 2;
        for (number, step) in script.0.iter().enumerate() {
            if number == half {
                inside.fs().store().create_snapshot("one").expect("a snapshot");
            }
            inside.now();
            // What is refused changes nothing.
            let _ = inside.run(step);
        }
        inside.fs().store().create_snapshot("two").expect("a snapshot");
        if half == 0 && script.0.is_empty() {
            inside.fs().store().create_snapshot("one").expect("a snapshot");
        }
        Self::of(inside.fs().store(), ["one", "two"])
    }

    fn frames(&self, whole: bool) -> Vec<Frame> {
        let one = Tree { view: &self.one, moment: self.moments[0] };
        let two = Tree { view: &self.two, moment: self.moments[1] };
        let mut frames = Vec::new();
        let mut give = |frame| {
            frames.push(frame);
            Ok(())
        };
        let sent =
            if whole { send(&one, None, &mut give) } else { send(&two, Some(&one), &mut give) };
        sent.expect("it is sent");
        frames
    }

    fn stream(&self, whole: bool) -> Vec<u8> {
        bytes(&self.frames(whole), PLAIN)
    }
}

fn bytes(frames: &[Frame], setting: Setting) -> Vec<u8> {
    let mut bytes = Vec::new();
    frames.iter().for_each(|frame| frame.write(setting, &mut bytes).expect("written"));
    bytes
}

fn take(target: &mut dyn Target, stream: &[u8]) -> Result<Came, Error> {
    receive(&mut Frames::new(stream), target, &mut |_| Ok(()))
}

#[track_caller]
fn taken<S: Store>(fs: &Fs<S>, stream: &[u8]) {
    assert_eq!(take(&mut Onto::new(fs), stream).expect("received"), Came::Whole);
}

/// Random trees, whole and then as they changed, into memory and into another volume.
#[test]
fn what_is_sent_is_what_comes() {
    for number in 0..from_env("ESKER_CASES", 40) {
        let seed = seed().wrapping_add(number);
        let shape = &SHAPES[number as usize % SHAPES.len()];
        if shape.zones.is_some() {
            continue;
        }
        let source = Source::random(shape, seed);
        let what = format!("seed {seed:#x} on {}", shape.name);
        let (whole, since) = (source.stream(true), source.stream(false));
        let fs = memory();
        taken(&fs, &whole);
        same(&source.one, fs.store(), &what);
        taken(&fs, &since);
        same(&source.two, fs.store(), &what);
        let again = take(&mut Onto::new(&fs), &since).expect("received");
        assert_eq!(again, Came::Already, "{what}");
        let home = on_ram(&SHAPES[2]);
        let fs = Fs::new(home, clock);
        taken(&fs, &bytes(&source.frames(true), Setting::new(Codec::Zstd, 3)));
        fs.store().create_snapshot("one").expect("a snapshot");
        let one = Snapped::new(Arc::clone(fs.store().shared()), "one").expect("a snapshot");
        assert!(is_like(fs.store().volume(), &one).expect("compared"), "{what}");
        same(&source.one, &one, &what);
        taken(&fs, &bytes(&source.frames(false), Setting::new(Codec::Lz4, 1)));
        same(&source.two, fs.store().volume(), &what);
        let changed = picture(&source.one) != picture(&source.two);
        let like = is_like(fs.store().volume(), &one).expect("compared");
        assert!(!(like && changed), "{what}: it changed");
        assert_eq!(fs.store().volume().check(), [], "{what}");
    }
}

/// Cut at every byte, and given again; or gone on with behind what the target has.
#[test]
fn a_stream_that_is_cut_anywhere_goes_on() {
    let source = Source::random(&SHAPES[2], seed());
    let frames = source.frames(true);
    let (whole, since) = (source.stream(true), source.stream(false));
    for cut in 0..whole.len() {
        let fs = memory();
        let came = take(&mut Onto::new(&fs), &whole[..cut]);
        assert!(matches!(came, Err(Error::Cut)), "cut at {cut}: {came:?}");
        let has = received(&mut Onto::new(&fs)).expect("it knows").map(|own| own.mark());
        let has = has.unwrap_or_default();
        let rest = |frame: &&Frame| frame.number == 0 || frame.number >= has.frames;
        let rest: Vec<_> = frames.iter().filter(rest).cloned().collect();
        taken(&fs, &if cut % 2 == 0 { whole.clone() } else { bytes(&rest, PLAIN) });
        if cut % 7 == 0 {
            same(&source.one, fs.store(), &format!("cut at {cut}"));
        }
        let came = take(&mut Onto::new(&fs), &since[..cut.min(since.len() - 1)]);
        assert!(matches!(came, Err(Error::Cut)), "cut at {cut}: {came:?}");
        taken(&fs, &since);
        if cut % 7 == 3 {
            same(&source.two, fs.store(), &format!("the difference cut at {cut}"));
        }
    }
}

/// A target that fails at one of the calls, before or behind what it does, and at all after it.
struct Dying<'a> {
    inside: Onto<'a, Home<Heap>>,
    left: u64,
    does: bool,
}

impl Dying<'_> {
    fn call<R>(
        &mut self,
        does: impl FnOnce(&mut Onto<'_, Home<Heap>>) -> esker::Result<R>,
    ) -> esker::Result<R> {
        if self.left == 0 {
            return Err(esker::Error::Io);
        }
        self.left -= 1;
        if self.left == 0 {
            if self.does {
                does(&mut self.inside)?;
            }
            return Err(esker::Error::Io);
        }
        does(&mut self.inside)
    }
}

impl Target for Dying<'_> {
    fn kind(&mut self, path: &[u8]) -> esker::Result<Option<Kind>> {
        self.inside.kind(path)
    }
    fn is_same(&mut self, one: &[u8], other: &[u8]) -> esker::Result<bool> {
        self.inside.is_same(one, other)
    }
    fn is_empty(&mut self) -> esker::Result<bool> {
        self.inside.is_empty()
    }
    fn rename(&mut self, from: &[u8], to: &[u8]) -> esker::Result<()> {
        self.call(|own| own.rename(from, to))
    }
    fn remove(&mut self, path: &[u8], dir: bool) -> esker::Result<()> {
        self.call(|own| own.remove(path, dir))
    }
    fn make(&mut self, path: &[u8], kind: Kind, rdev: u32) -> esker::Result<()> {
        self.call(|own| own.make(path, kind, rdev))
    }
    fn symlink(&mut self, path: &[u8], target: &[u8]) -> esker::Result<()> {
        self.call(|own| own.symlink(path, target))
    }
    fn link(&mut self, of: &[u8], path: &[u8]) -> esker::Result<()> {
        self.call(|own| own.link(of, path))
    }
    fn size(&mut self, path: &[u8], size: u64) -> esker::Result<()> {
        self.call(|own| own.size(path, size))
    }
    fn write(&mut self, path: &[u8], at: u64, bytes: &[u8]) -> esker::Result<()> {
        self.call(|own| own.write(path, at, bytes))
    }
    fn hole(&mut self, path: &[u8], at: u64, len: u64) -> esker::Result<()> {
        self.call(|own| own.hole(path, at, len))
    }
    fn strip(&mut self, path: &[u8]) -> esker::Result<()> {
        self.call(|own| own.strip(path))
    }
    fn xattr(&mut self, path: &[u8], name: &[u8], value: &[u8]) -> esker::Result<()> {
        self.call(|own| own.xattr(path, name, value))
    }
    fn attr(&mut self, path: &[u8], meta: &Meta) -> esker::Result<()> {
        self.call(|own| own.attr(path, meta))
    }
    fn flags(&mut self, path: &[u8], flags: Flags) -> esker::Result<()> {
        self.call(|own| own.flags(path, flags))
    }
    fn state(&mut self) -> esker::Result<Vec<u8>> {
        self.inside.state()
    }
    fn keep(&mut self, state: &[u8]) -> esker::Result<()> {
        self.call(|own| own.keep(state))
    }
}

/// Killed at every call of the target, and given again: twice in a row, too.
#[test]
fn a_target_that_dies_anywhere_goes_on() {
    for number in 0..from_env("ESKER_CASES", 40) / 10 {
        let seed = seed().wrapping_add(number);
        let source = Source::random(&SHAPES[2], seed);
        let (whole, since) = (source.stream(true), source.stream(false));
        let mut at = 0;
        loop {
            at += 1;
            let fs = memory();
            let mut died = false;
            for stream in [&whole, &since] {
                for left in [at, at / 2] {
                    let does = at % 2 == 0;
                    let mut target = Dying { inside: Onto::new(&fs), left, does };
                    died |= take(&mut target, stream).is_err();
                }
                let came = take(&mut Onto::new(&fs), stream);
                came.unwrap_or_else(|error| panic!("seed {seed:#x}, killed at {at}: {error:?}"));
                let wanted = if stream == &whole { &source.one } else { &source.two };
                same(wanted, fs.store(), &format!("seed {seed:#x}, killed at {at}"));
            }
            if !died {
                break;
            }
        }
        assert!(at > 5, "it was killed {at} times only");
    }
}

/// Every byte turned round: refused, and what came before is gone on from.
#[test]
fn every_byte_that_is_turned_round_is_noticed() {
    let source = Source::random(&SHAPES[2], seed());
    for setting in [PLAIN, Setting::new(Codec::Zstd, 3)] {
        let whole = bytes(&source.frames(true), setting);
        verify(&mut Frames::new(&whole[..])).expect("it is whole");
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            assert!(
                verify(&mut Frames::new(&damaged[..])).is_err(),
                "byte {at} counts for nothing"
            );
            if at % 5 > 0 {
                continue;
            }
            let fs = memory();
            let came = take(&mut Onto::new(&fs), &damaged);
            assert!(came.is_err(), "byte {at} was taken: {came:?}");
            taken(&fs, &whole);
            same(&source.one, fs.store(), &format!("byte {at}"));
        }
    }
}

#[test]
fn a_stream_for_something_else_is_refused() {
    let source = Source::random(&SHAPES[2], seed());
    let other = Source::random(&SHAPES[2], seed().wrapping_add(77));
    let (whole, since) = (source.stream(true), source.stream(false));
    let fs = memory();
    let come = |stream: &[u8]| take(&mut Onto::new(&fs), stream);
    assert!(matches!(come(&since), Err(Error::NeedsBase(base)) if base.called() == "one"));
    assert!(matches!(come(&whole[..whole.len() - 1]), Err(Error::Cut)));
    let others = other.stream(true);
    let same_moment = whole[80..320] == others[80..320];
    assert!(same_moment || matches!(come(&others), Err(Error::Halfway(_))));
    assert!(matches!(come(&since), Err(Error::Halfway(_))));
    assert!(matches!(come(&whole), Ok(Came::Whole)));
    assert!(matches!(
        come(b"no stream at all, but long enough for a head of one, which it is not, as said"),
        Err(Error::Cut | Error::NoStream)
    ));
    assert!(matches!(come(&since), Ok(Came::Whole)));
    assert!(matches!(come(&whole), Err(Error::NotEmpty)));
    let full = memory();
    let new = New { kind: Kind::File, perm: 0o600, umask: 0, rdev: 0 };
    full.create(&Caller::ROOT, Ino::ROOT, Name::parse(b"mine").expect("a name"), new)
        .expect("made");
    assert!(matches!(take(&mut Onto::new(&full), &whole), Err(Error::NotEmpty)));
    assert_eq!(picture(full.store()).len(), 2, "nothing was changed");
    // Going on with another mark than the target has.
    let frames = source.frames(true);
    let gap: Vec<_> = frames.iter().filter(|frame| frame.number != 1).cloned().collect();
    let fresh = memory();
    let came = take(&mut Onto::new(&fresh), &bytes(&gap, PLAIN));
    assert!(matches!(came, Err(Error::Gap(1) | Error::OtherStream)), "{came:?}");
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

/// Streams of this version are received for ever, and made of the same snapshots byte by byte.
#[test]
fn streams_of_every_version_are_received() {
    let shape = SHAPES[1];
    let packed = std::fs::read(golden("v1-snapshots.volume")).expect("it is kept");
    let mut all = vec![0; shape.size as usize];
    Codec::Zstd.decode(&packed, &[], &mut all).expect("unpacked");
    let device = Arc::new(Ram::new(all.len()));
    device.write(0, &all).expect("bytes");
    let home = mount(&shape, device).expect("it opens");
    let source = Source::of(&home, ["first", "second"]);
    let fs = memory();
    for (name, whole, view) in
        [("v1-whole.stream", true, &source.one), ("v1-since.stream", false, &source.two)]
    {
        let path = golden(name);
        if std::env::var("ESKER_GOLDEN").as_deref() == Ok("write") {
            std::fs::write(&path, source.stream(whole)).expect("written");
        }
        let kept = std::fs::read(&path).expect("it is kept");
        assert_eq!(kept, source.stream(whole), "{name} is made otherwise");
        taken(&fs, &kept);
        same(view, fs.store(), name);
    }
}

/// A mark is what its words say.
#[test]
fn marks_are_read() {
    let mark = Mark::default().after(esker_volume::stream::Step::Open, b"x");
    assert_eq!(Mark::parse(&mark.to_string()), Some(mark));
    for bad in ["", "1", "1:", "x:00", "1:zz", &format!("1:{}", "é".repeat(32))] {
        assert_eq!(Mark::parse(bad), None, "{bad}");
    }
}

fn is_read(word: &Word<'_>) -> bool {
    let mut bytes = Vec::new();
    word.encode(&mut bytes);
    let mut rest = bytes.as_slice();
    Word::take(&mut rest).is_some_and(|found| found == *word && rest.is_empty())
}

#[test]
fn paths_stay_in_the_target() {
    let long = vec![b'n'; 256];
    let deep = b"a/".repeat(PATH / 2 + 1);
    let bad: [&[u8]; 14] = [
        b"/",
        b"/a",
        b"a/",
        b"a//b",
        b".",
        b"..",
        b"../a",
        b"a/..",
        b"a/../../b",
        b"a/./b",
        b"a\0b",
        b".esker-received",
        b".esker-received/state",
        &long,
    ];
    for path in bad.into_iter().chain([deep.as_slice()]) {
        assert!(!is_read(&Word::Size { size: 1, path }), "{}", path.escape_ascii());
        assert!(!is_read(&Word::Strip { path }), "{}", path.escape_ascii());
        assert!(!is_read(&Word::Link { of: path, path: b"a" }), "{}", path.escape_ascii());
        assert!(!is_read(&Word::Link { of: b"a", path }), "{}", path.escape_ascii());
    }
    assert!(is_read(&Word::Strip { path: b"" }) && !is_read(&Word::Size { size: 1, path: b"" }));
    assert!(is_read(&Word::Size { size: 1, path: b"a/.esker-received/..b" }));
}

#[test]
fn words_that_make_no_sense_are_none() {
    let time = Time { secs: 0, nanos: 1_000_000_000 };
    let meta =
        Meta { perm: 0o7777, uid: 1, gid: 2, atime: Time::default(), mtime: Time::default() };
    let path = b"a".as_slice();
    assert!(is_read(&Word::Attr { meta, path }) && is_read(&Word::End));
    let bad = [
        Word::Make { kind: Kind::Symlink, rdev: 0, path },
        Word::Symlink { path, target: b"" },
        Word::Symlink { path, target: b"a\0" },
        Word::Symlink { path, target: &LARGE[..4096] },
        Word::Size { size: u64::MAX, path },
        Word::Bytes { at: u64::MAX, path, bytes: b"x" },
        Word::Bytes { at: 0, path, bytes: b"" },
        Word::Bytes { at: 0, path, bytes: &LARGE },
        Word::Hole { at: 1, len: u64::MAX, path },
        Word::Hole { at: 1, len: 0, path },
        Word::Xattr { path, name: b"", value: b"" },
        Word::Xattr { path, name: &LARGE[..256], value: b"" },
        Word::Xattr { path, name: b"user.a", value: &LARGE },
        Word::Attr { meta: Meta { perm: 0o10000, ..meta }, path },
        Word::Attr { meta: Meta { mtime: time, ..meta }, path },
        Word::Flag { flags: Flags(1), path },
    ];
    bad.iter().for_each(|word| assert!(!is_read(word), "{word:?}"));
    let mut seed = 1_u64;
    for round in 0..200_000 {
        let mut bytes = [0; 40];
        for byte in &mut bytes {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            *byte = (seed >> 56) as u8 & if round % 2 == 0 { 0xff } else { 0x0f };
        }
        let mut rest = bytes.as_slice();
        let before = rest.len();
        assert!(Word::take(&mut rest).is_none() || rest.len() < before);
    }
}

/// A symbolic link that the stream made is not followed by what comes behind it.
#[test]
fn links_are_not_followed() {
    let fs = memory();
    let mut target = Onto::new(&fs);
    target.keep(b"kept").expect("kept");
    let mut say = |word: &Word<'_>| {
        assert!(is_read(word), "{word:?}");
        apply(&mut target, word, false)
    };
    say(&Word::Symlink { path: b"l", target: b".esker-received" }).expect("made");
    say(&Word::Symlink { path: b"f", target: b".esker-received/state" }).expect("made");
    for path in [b"l/state".as_slice(), b"f"] {
        for word in [
            Word::Size { size: 0, path },
            Word::Bytes { at: 0, path, bytes: b"x" },
            Word::Hole { at: 0, len: 1, path },
        ] {
            let done = say(&word);
            let refused = matches!(
                done,
                Err(Error::Target(_, esker::Error::NotDirectory | esker::Error::Invalid))
            );
            assert!(refused, "{word:?}: {done:?}");
        }
    }
    assert!(say(&Word::Make { kind: Kind::File, rdev: 0, path: b"l/new" }).is_err());
    assert_eq!(target.state().expect("kept"), b"kept");
}
