//! Snapshots as streams: what was sent is what comes, whole or as a difference, wherever the stream is cut, the target
//! dies, or a byte is turned round; and a stream for something else is refused.
//!
//! `ESKER_GOLDEN=write` writes the streams of this version anew, which only a declared change of the format may need.

#[path = "../../../../esker-cli/src/streams/keeper.rs"]
mod keeper;
#[path = "../../../../esker-cli/src/streams/onto.rs"]
mod onto;

mod exchange;
mod on_volume;
mod words;

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
    Came, Error, Frame, Frames, Mark, Meta, Moment, OWN, Opening, Step, Target, Tree, VERSION,
    Word, apply, is_like, receive, received, send, verify,
};
use esker_volume::{Snapped, make};
use onto::Onto;

const PROFILE: Profile = Profile { steps_max: 60, users: true, cursors: false };
const PLAIN: Setting = Setting { codec: Codec::None, level: 0 };

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

    /// All that may change between two, by a script that leaves nothing to chance.
    fn fixed() -> Self {
        let fs = Fs::new(on_ram(&SHAPES[2]), clock);
        let mut to = onto(&fs);
        exchange::before(&mut to).expect("made");
        fs.store().create_snapshot("one").expect("a snapshot");
        exchange::after(&mut to).expect("changed");
        drop(to);
        fs.store().create_snapshot("two").expect("a snapshot");
        Self::of(fs.store(), ["one", "two"])
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

fn onto<S: Store>(fs: &Fs<S>) -> Onto<'_, S> {
    Onto::of(fs, [0; 16], Box::new(|| 0))
}

fn take(target: &mut dyn Target, stream: &[u8]) -> Result<Came, Error> {
    receive(&mut Frames::new(stream), target, &mut ())
}

#[track_caller]
fn taken<S: Store>(fs: &Fs<S>, stream: &[u8]) {
    assert_eq!(take(&mut onto(fs), stream).expect("received"), Came::Whole);
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
        let again = take(&mut onto(&fs), &since).expect("received");
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
        let came = take(&mut onto(&fs), &whole[..cut]);
        assert!(matches!(came, Err(Error::Cut)), "cut at {cut}: {came:?}");
        let has = received(&mut onto(&fs)).expect("it knows").map(|own| own.mark());
        let has = has.unwrap_or_default();
        let rest = |frame: &&Frame| frame.number == 0 || frame.number >= has.frames;
        let rest: Vec<_> = frames.iter().filter(rest).cloned().collect();
        taken(&fs, &if cut % 2 == 0 { whole.clone() } else { bytes(&rest, PLAIN) });
        if cut % 7 == 0 {
            same(&source.one, fs.store(), &format!("cut at {cut}"));
        }
        let came = take(&mut onto(&fs), &since[..cut.min(since.len() - 1)]);
        assert!(matches!(came, Err(Error::Cut)), "cut at {cut}: {came:?}");
        taken(&fs, &since);
        if cut % 7 == 3 {
            same(&source.two, fs.store(), &format!("the difference cut at {cut}"));
        }
    }
}

/// The same with a difference in which names and kinds are exchanged, looked at behind each cut.
#[test]
fn what_is_exchanged_goes_on() {
    let source = Source::fixed();
    let (whole, since) = (source.stream(true), source.stream(false));
    let words = source.frames(false).iter().map(|frame| frame.step as u32).collect::<Vec<_>>();
    assert_eq!(words, [0, 1, 2, 3, 4, 5, 6], "there is something of every step");
    for cut in 0..since.len() {
        let fs = memory();
        taken(&fs, &whole);
        let came = take(&mut onto(&fs), &since[..cut]);
        assert!(matches!(came, Err(Error::Cut)), "cut at {cut}: {came:?}");
        taken(&fs, &since);
        same(&source.two, fs.store(), &format!("cut at {cut}"));
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
    fn aside(&mut self) -> esker::Result<Option<Vec<u8>>> {
        self.inside.aside()
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
    for number in 0..=from_env("ESKER_CASES", 40) / 10 {
        let seed = seed().wrapping_add(number);
        let source = match number {
            0 => Source::fixed(),
            _ => Source::random(&SHAPES[2], seed),
        };
        let (whole, since) = (source.stream(true), source.stream(false));
        let mut at = 0;
        loop {
            at += 1;
            let fs = memory();
            let mut died = false;
            for stream in [&whole, &since] {
                for left in [at, at / 2] {
                    let does = at % 2 == 0;
                    let mut target = Dying { inside: onto(&fs), left, does };
                    died |= take(&mut target, stream).is_err();
                }
                let came = take(&mut onto(&fs), stream);
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
            let came = take(&mut onto(&fs), &damaged);
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
    let come = |stream: &[u8]| take(&mut onto(&fs), stream);
    assert!(matches!(come(&since), Err(Error::NeedsBase(base)) if base.called() == "one"));
    assert!(matches!(come(&whole[..whole.len() - 1]), Err(Error::Cut)));
    let others = other.stream(true);
    assert!(matches!(come(&others), Err(Error::Halfway(_))), "copies of one volume are told apart");
    assert!(matches!(come(&since), Err(Error::Halfway(_))));
    assert!(matches!(come(&whole), Ok(Came::Whole)));
    assert!(matches!(
        come(b"no stream at all, but long enough for a head of one, which it is not, as said"),
        Err(Error::Cut | Error::NoStream)
    ));
    let others = other.stream(false);
    let came = come(&others);
    assert!(
        matches!(came, Err(Error::OtherBase(_))),
        "copies of one volume are told apart: {came:?}"
    );
    assert!(matches!(come(&since), Ok(Came::Whole)));
    assert!(matches!(come(&whole), Err(Error::NotEmpty)));
    let full = memory();
    let new = New { kind: Kind::File, perm: 0o600, umask: 0, rdev: 0 };
    full.create(&Caller::ROOT, Ino::ROOT, Name::parse(b"mine").expect("a name"), new)
        .expect("made");
    assert!(matches!(take(&mut onto(&full), &whole), Err(Error::NotEmpty)));
    assert_eq!(picture(full.store()).len(), 2, "nothing was changed");
    // Going on with another mark than the target has.
    let frames = source.frames(true);
    let gap: Vec<_> = frames.iter().filter(|frame| frame.number != 1).cloned().collect();
    let fresh = memory();
    let came = take(&mut onto(&fresh), &bytes(&gap, PLAIN));
    assert!(matches!(came, Err(Error::Gap(1) | Error::OtherStream)), "{came:?}");
}

/// Two copies of one volume to which as much happens in the same second: other bytes are another moment.
#[test]
fn copies_of_a_volume_are_told_apart() {
    let moments = [7, 9].map(|byte| {
        let now = move || Time { secs: 1_800_000_000, nanos: byte };
        let fs = Fs::new(on_ram(&SHAPES[2]), now);
        onto(&fs).make(b"f", Kind::File, 0).expect("made");
        onto(&fs).write(b"f", 0, &[byte as u8; 100]).expect("written");
        fs.store().create_snapshot("one").expect("a snapshot");
        let source = Source::of(fs.store(), ["one", "one"]);
        let plain = source.frames(true)[0].plain.clone();
        let opening = Opening::decode(&plain).expect("an opening");
        (source.moments[0], opening.moment())
    });
    let [(row, moment), (other_row, other)] = moments;
    assert!(row.is(&other_row), "without the hash they are the same");
    assert!(!moment.is(&other));
}

/// What a hostile stream puts, and what was left by one, is not taken for its own by the next.
#[test]
fn what_lies_aside_is_looked_at() {
    let source = Source::random(&SHAPES[2], seed());
    let (whole, since) = (source.stream(true), source.stream(false));
    let fs = memory();
    taken(&fs, &whole);
    let mut target = onto(&fs);
    target.make(b".esker-received/99", Kind::File, 0).expect("made");
    let came = take(&mut target, &since);
    assert!(
        matches!(&came, Err(Error::InTheWay(path)) if path == b".esker-received/99"),
        "{came:?}"
    );
    target.make(b"here", Kind::File, 0).expect("made");
    let word = Word::Take { ino: 99, path: b"here" };
    for again in [false, true] {
        let done = apply(&mut target, &word, again);
        assert!(matches!(done, Err(Error::InTheWay(_))), "{done:?}");
    }
    target.remove(b"here", false).expect("removed");
    target.remove(b".esker-received/99", false).expect("removed");
    taken(&fs, &since);
    let mut frames = vec![source.frames(true)[0].clone()];
    let mut all = |step, words: &[Word<'_>]| {
        let mut plain = Vec::new();
        words.iter().for_each(|word| word.encode(&mut plain));
        let mark = frames.last().expect("one").mark();
        let (number, chain) = (mark.frames, mark.after(step, &plain).chain);
        frames.push(Frame { number, step, plain, chain });
    };
    let path = b"a".as_slice();
    all(Step::Place, &[Word::Make { kind: Kind::File, rdev: 0, path }]);
    all(Step::End, &[Word::End, Word::End]);
    let came = take(&mut onto(&memory()), &bytes(&frames, PLAIN));
    assert!(matches!(came, Err(Error::Damaged(2))), "one end is enough: {came:?}");
    let fs = memory();
    let two = [bytes(&source.frames(true), PLAIN), whole].concat();
    assert!(matches!(verify(&mut Frames::new(&two[..])), Err(Error::More)));
    assert!(matches!(take(&mut onto(&fs), &two), Err(Error::More)));
    same(&source.one, fs.store(), "the first of two is there");
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

/// Streams of every version are received for ever, and those of this one made of the same snapshots byte by byte.
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
    for version in [1, 2] {
        let fs = memory();
        for (name, whole, view) in [("whole", true, &source.one), ("since", false, &source.two)] {
            let name = format!("v{version}-{name}.stream");
            let path = golden(&name);
            if version == VERSION && std::env::var("ESKER_GOLDEN").as_deref() == Ok("write") {
                std::fs::write(&path, source.stream(whole)).expect("written");
            }
            let kept = std::fs::read(&path).expect("it is kept");
            let is_made = kept == source.stream(whole);
            assert_eq!(is_made, version == VERSION, "{name} is made otherwise");
            taken(&fs, &kept);
            same(view, fs.store(), &name);
        }
        let (whole, since) = (source.stream(true), source.stream(false));
        let come = |stream: &[u8]| take(&mut onto(&fs), stream);
        if version == VERSION {
            assert!(matches!(come(&since), Ok(Came::Already)));
        } else {
            // What has no hash is nothing that a difference of now begins from.
            assert!(matches!(come(&since), Err(Error::OtherBase(_))));
        }
        assert!(matches!(come(&whole), Err(Error::NotEmpty)));
    }
    let later = Opening { version: VERSION + 1, ..Opening::new(&source.moments[0], None, 0) };
    let (number, step, plain) = (0, Step::Open, later.encode().to_vec());
    let frame = Frame { number, step, chain: Mark::default().after(step, &plain).chain, plain };
    let came = take(&mut onto(&memory()), &bytes(&[frame], PLAIN));
    assert!(matches!(came, Err(Error::Version(3))), "{came:?}");
}
