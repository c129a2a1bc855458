//! A small tree with one of everything, packed in memory, and what can be seen of an image.
#![allow(dead_code, reason = "each test uses its part")]

pub mod dice;
pub mod parts;

use std::collections::BTreeMap;
use std::io::Cursor as Output;
use std::sync::Arc;

use esker::store::{Flow, View};
use esker::{Attr, Cursor, Error, Flags, Ino, Kind, Time, XattrName};
use esker_image::pack::{Choices, Incoming, Meta, NodeId, Options, Owns, Packer, Sharing, Times};
use esker_image::{Cache, Image, Source};
use esker_stone::{Codec, Setting, Start, Transform};

/// What is seen of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub attr: Attr,
    pub bytes: Vec<u8>,
    pub holes: Vec<(u64, u64)>,
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

pub type Picture = BTreeMap<Vec<u8>, Result<Seen, Error>>;

/// Bytes that repeat in part, from a seed.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut bytes = Vec::with_capacity(len + 64);
    while bytes.len() < len {
        let word = next();
        let count = (word >> 56) as usize % 40 + 1;
        let from = (word >> 8) as usize % (bytes.len() + 1);
        if word.is_multiple_of(3) && from + count < bytes.len() {
            bytes.extend_from_within(from..from + count);
        } else {
            bytes.extend((0..count).map(|_| next() as u8));
        }
    }
    bytes.truncate(len);
    bytes
}

/// Small blocks and pages, so that a small tree has many.
pub fn options(codec: Codec, level: i32) -> Options {
    Options {
        data: Setting::new(codec, level),
        pages: Setting::new(codec, level),
        block_len: 64 << 10,
        repeats: Some(1024),
        alike: true,
        unpack: Some(usize::MAX),
        words: true,
        pictures: true,
        sharing: Some(Sharing { base_len: 32 << 10, group_len: 256 << 10 }),
        owns: Owns::default(),
        page_len: 512,
        times: Times::All,
        threads: 2,
        memory: 1 << 30,
        notes: vec![(b"made".to_vec(), b"by a test".to_vec())],
    }
}

fn meta(kind: Kind, perm: u16) -> Meta {
    let time = |secs, nanos| Time { secs, nanos };
    Meta {
        uid: 1000,
        gid: 100,
        mtime: time(1_700_000_000, 123_456_789),
        others: Some(Box::new([time(-5, 999_999_999), time(1 << 40, 0), time(0, 1)])),
        ..Meta::new(kind, perm)
    }
}

fn file<W: std::io::Write + std::io::Seek>(
    packer: &mut Packer<W>,
    dir: NodeId,
    name: &[u8],
    parts: &[Result<&[u8], u64>],
) -> NodeId {
    let node = packer.make(dir, name, meta(Kind::File, 0o4755)).unwrap();
    let mut incoming = Incoming::default();
    for part in parts {
        match part {
            Ok(bytes) => packer.data(&mut incoming, bytes).unwrap(),
            Err(hole) => packer.hole(&mut incoming, *hole).unwrap(),
        }
    }
    packer.end(node, incoming).unwrap();
    node
}

/// One of everything. With `large`, files of many blocks and a directory of many pages too.
pub fn pack(options: Options, large: bool) -> Vec<u8> {
    let mut root = meta(Kind::Directory, 0o1755);
    root.xattrs = vec![(b"user.root".to_vec(), b"yes".to_vec())];
    let mut packer = Packer::new(Output::new(Vec::new()), root, options).unwrap();
    let dir = packer.make(NodeId::ROOT, b"dir", meta(Kind::Directory, 0o700)).unwrap();
    let deep = packer.make(dir, b"deep", meta(Kind::Directory, 0o755)).unwrap();
    packer.make(NodeId::ROOT, b"empty dir", meta(Kind::Directory, 0o755)).unwrap();
    file(&mut packer, deep, b"empty", &[]);
    let text = noise(1, 700);
    let first = file(&mut packer, dir, b"text", &[Ok(&text)]);
    file(&mut packer, deep, b"the same text", &[Ok(&text)]);
    packer.link(NodeId::ROOT, b"hard link", first).unwrap();
    let bytes = noise(2, 300);
    file(&mut packer, deep, b"holes", &[Err(8192), Ok(&bytes), Err(1 << 40), Ok(&text), Err(1)]);
    file(&mut packer, deep, b"only hole", &[Err(i64::MAX as u64)]);
    let link = packer.make(dir, b"link \xff\n", meta(Kind::Symlink, 0o777)).unwrap();
    packer.target(link, b"../no/\xfe/where").unwrap();
    for (name, kind) in [
        (&b"pipe"[..], Kind::Fifo),
        (b"socket", Kind::Socket),
        (b"tty", Kind::CharDevice),
        (b"disk", Kind::BlockDevice),
    ] {
        let device = matches!(kind, Kind::CharDevice | Kind::BlockDevice);
        let mut own = meta(kind, 0o660);
        (own.rdev, own.flags) = (if device { 0x0812 } else { 0 }, Flags::IMMUTABLE);
        own.xattrs = vec![
            (b"user.b".to_vec(), noise(3, 100)),
            (b"user.a".to_vec(), Vec::new()),
            (b"security.capability".to_vec(), vec![1, 0, 0, 2]),
        ];
        packer.make(dir, name, own).unwrap();
    }
    packer.make(deep, &[b'n'; 255], meta(Kind::Directory, 0)).unwrap();
    if large {
        fill(&mut packer);
    }
    packer.finish().unwrap().0.into_inner()
}

/// So many files of 64 KiB in blocks of 4 MiB.
pub fn pack_long(options: Options, files: usize) -> Vec<u8> {
    let options = Options { block_len: 4 << 20, sharing: None, ..options };
    let root = meta(Kind::Directory, 0o755);
    let mut packer = Packer::new(Output::new(Vec::new()), root, options).unwrap();
    for number in 0..files {
        let bytes = noise(number as u64 + 1, 64 << 10);
        file(&mut packer, NodeId::ROOT, format!("{number:03}").as_bytes(), &[Ok(&bytes)]);
    }
    packer.finish().unwrap().0.into_inner()
}

/// Sound of a few tones, as a WAVE file with samples of 16 bits.
pub fn wave(channels: u16, samples: usize) -> Vec<u8> {
    let mut bytes = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0".to_vec();
    bytes.extend(channels.to_le_bytes());
    bytes.extend([0x40, 0x1f, 0, 0, 0x80, 0x3e, 0, 0, 2, 0, 16, 0]);
    bytes.extend(b"data\0\0\0\0");
    let tone = |at: usize, len: usize| {
        let place = (at % len) as i32 - (len / 2) as i32;
        place * place
    };
    let sample = |at: usize| (tone(at, 150) + tone(at * 3, 191) + (at * at % 13) as i32) as i16;
    bytes.extend((0..samples).flat_map(|at| sample(at).to_le_bytes()));
    bytes
}

/// A small image whose blocks are of all categories.
pub fn pack_sounds(options: Options) -> Vec<u8> {
    let root = meta(Kind::Directory, 0o755);
    let mut packer = Packer::new(Output::new(Vec::new()), root, options).unwrap();
    let (one, two) = (wave(1, 2000), wave(2, 2500));
    file(&mut packer, NodeId::ROOT, b"one.wav", &[Ok(&one)]);
    file(&mut packer, NodeId::ROOT, b"two.wav", &[Ok(&two), Err(5000), Ok(&two[..999])]);
    file(&mut packer, NodeId::ROOT, b"text", &[Ok(&noise(5, 3000))]);
    file(&mut packer, NodeId::ROOT, b"packed", &[Ok(&chance(2500))]);
    packer.finish().unwrap().0.into_inner()
}

/// Machines by their numbers in ELF, and what is done to code for them; Thumb has the number of ARM.
pub const MACHINES: [(&str, u16, Transform); 5] = [
    ("x86", 62, Transform::X86),
    ("arm", 40, Transform::Arm),
    ("thumb", 40, Transform::Thumb),
    ("arm64", 183, Transform::Arm64),
    ("riscv", 243, Transform::Riscv),
];

/// A call of a function, in the words of a machine.
fn call(transform: Transform, from: u32, to: u32) -> Vec<u8> {
    let away = to.wrapping_sub(from);
    let bit = |at: u32, count: u32| away >> at & ((1 << count) - 1);
    match transform {
        Transform::X86 => [&[0xe8][..], &away.wrapping_sub(5).to_le_bytes()].concat(),
        Transform::Arm => {
            (0xeb00_0000 | away.wrapping_sub(8) >> 2 & 0x00ff_ffff).to_le_bytes().into()
        }
        Transform::Thumb => {
            let halves = away.wrapping_sub(4) >> 1;
            (0xf800_f000 | (halves & 0x7ff) << 16 | halves >> 11 & 0x7ff).to_le_bytes().into()
        }
        Transform::Arm64 => (0x9400_0000 | away >> 2 & 0x03ff_ffff).to_le_bytes().into(),
        _ => {
            let word = bit(20, 1) << 31 | bit(1, 10) << 21 | bit(11, 1) << 20 | bit(12, 8) << 12;
            (word | 0xef).to_le_bytes().into()
        }
    }
}

/// A program of so many calls: a head, code from 4096 on, and something behind it. Its version says what is called.
pub fn program(machine: u16, transform: Transform, version: u32, calls: u32) -> Vec<u8> {
    let mut code = Vec::new();
    for number in 0..calls {
        let chance = number.wrapping_mul(2_654_435_761);
        let to = 4096 * (chance >> 27) + if number % 97 == 0 { 64 * version } else { 0 };
        code.extend(call(transform, code.len() as u32, to));
        // What is between is not always as long.
        code.extend([0, 0x13, 0, 0].repeat((chance >> 9) as usize % 4));
    }
    let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
    bytes.resize(4096, 0);
    let numbers = [(16, 3), (18, machine.into()), (32, 64), (54, 56), (56, 1), (64, 1), (68, 5)];
    for (at, number) in numbers.into_iter().chain([(72, 4096), (96, code.len() as u32)]) {
        let len = if at < 64 && at != 32 { 2 } else { 4 };
        bytes[at..at + len].copy_from_slice(&number.to_le_bytes()[..len]);
    }
    bytes.extend(&code);
    bytes.extend(noise(machine.into(), 5000));
    bytes
}

/// Programs for every machine in two versions, one that is cut short, and code in a file that is none.
pub fn programs(calls: u32) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for (name, machine, transform) in MACHINES {
        for version in 0..2 {
            let bytes = program(machine, transform, version, calls);
            files.push((format!("{name} {version}"), bytes));
        }
    }
    files.push(("short".to_owned(), files[6].1[..files[6].1.len() / 2 + 1].to_vec()));
    files.push(("text".to_owned(), [&b"no head"[..], &files[0].1].concat()));
    files
}

/// An image of programs, whose blocks share no base.
pub fn pack_programs(options: Options, calls: u32) -> Vec<u8> {
    let files = programs(calls);
    let all = files.iter().map(|(name, bytes)| (&name[..], &bytes[..]));
    pack_files(Options { sharing: None, ..options }, all)
}

/// Text of four kinds: lines of programs, each file with names of its own beside those of all.
pub fn texts() -> Vec<(String, Vec<u8>)> {
    let chance = |at: u32| at.wrapping_mul(2_654_435_761) >> 20;
    let line = |file: u32, at: u32| {
        let name = ["device", "buffer", "length", "offset"][(chance(at) % 4) as usize];
        let own = format!("driver_{}", file * 7 + chance(at + file) % 9);
        match chance(at ^ file) % 3 {
            0 => format!("\tif ({own}->{name} > {})\n\t\treturn -EINVAL;\n", chance(at + 1)),
            1 => format!("\tmutex_lock(&{own}->{name}_lock);\n"),
            _ => format!("\t{name} = {own}_read({name}, {});\n", chance(at + file + 2)),
        }
    };
    let text = |file| (0..5000).flat_map(move |at| line(file, at).into_bytes()).collect();
    (0..4).map(|file| (format!("text {file}.c"), text(file))).collect()
}

/// An image of text.
pub fn pack_texts(options: Options) -> Vec<u8> {
    let files = texts();
    pack_files(options, files.iter().map(|(name, bytes)| (&name[..], &bytes[..])))
}

/// Files of gzip and zip, by name.
pub const STREAMS: [(&str, &[u8]); 3] = [
    ("long.gz", include_bytes!("../streams/long.gz")),
    ("short.gz", include_bytes!("../streams/short.gz")),
    ("three.zip", include_bytes!("../streams/three.zip")),
];

/// Files of gzip by encoders beside zlib, by name; all have the same text.
pub const ENCODERS: [(&str, &[u8]); 4] = [
    ("cargo.gz", include_bytes!("../streams/cargo.gz")),
    ("go.gz", include_bytes!("../streams/go.gz")),
    ("ng.gz", include_bytes!("../streams/ng.gz")),
    ("node.gz", include_bytes!("../streams/node.gz")),
];

/// PNG files, by name.
pub const PICTURES: [(&str, &[u8]); 2] = [
    ("whole.png", include_bytes!("../streams/whole.png")),
    ("chunks.png", include_bytes!("../streams/chunks.png")),
];

/// Pictures of JPEG, by name; the last one comes in steps.
pub const JPEGS: [(&str, &[u8]); 6] = [
    ("colour.jpg", include_bytes!("../pictures/colour.jpg")),
    ("grey.jpg", include_bytes!("../pictures/grey.jpg")),
    ("marked.jpg", include_bytes!("../pictures/marked.jpg")),
    ("wide.jpg", include_bytes!("../pictures/wide.jpg")),
    ("print.jpg", include_bytes!("../pictures/print.jpg")),
    ("steps.jpg", include_bytes!("../pictures/steps.jpg")),
];

/// An image of pictures, whole and damaged.
pub fn pack_jpegs(options: Options) -> Vec<u8> {
    let [(_, colour), (_, grey), (_, marked), ..] = JPEGS;
    let mut wrong = marked.to_vec();
    wrong[marked.len() * 3 / 4] ^= 0x10;
    let tail = [grey, &noise(8, 3000)].concat();
    let own = [
        ("again.jpg", colour),
        ("cut short.jpg", &colour[..colour.len() * 3 / 4]),
        ("damaged.jpg", &wrong),
        ("head.jpg", &colour[..700]),
        ("tail.jpg", &tail),
    ];
    pack_files(options, JPEGS.into_iter().chain(own))
}

/// Files of every kind that is told from others.
pub fn all_kinds() -> Vec<(String, Vec<u8>)> {
    let mut files = texts();
    files.extend(programs(12_000));
    files.push(("sound.wav".to_owned(), wave(2, 9000)));
    files.push(("chance".to_owned(), noise(9, 100_000)));
    let packed = STREAMS.into_iter().chain(ENCODERS).chain(PICTURES).chain(JPEGS);
    files.extend(packed.map(|(name, bytes)| (name.to_owned(), bytes.to_vec())));
    files
}

/// An image of these files.
pub fn pack_files<'a>(
    options: Options,
    files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Vec<u8> {
    pack_and_tell(options, files).0
}

/// The same, and what was chosen.
pub fn pack_and_tell<'a>(
    options: Options,
    files: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> (Vec<u8>, Choices) {
    let root = meta(Kind::Directory, 0o755);
    let mut packer = Packer::new(Output::new(Vec::new()), root, options).unwrap();
    for (name, bytes) in files {
        file(&mut packer, NodeId::ROOT, name.as_bytes(), &[Ok(bytes)]);
    }
    let (output, packed) = packer.finish().unwrap();
    (output.into_inner(), packed.choices)
}

/// An image with streams of deflate, and with what looks like them.
pub fn pack_streams(options: Options) -> Vec<u8> {
    let root = meta(Kind::Directory, 0o755);
    let mut packer = Packer::new(Output::new(Vec::new()), root, options).unwrap();
    for (name, bytes) in STREAMS {
        file(&mut packer, NodeId::ROOT, name.as_bytes(), &[Ok(bytes)]);
    }
    let [(_, long), (_, short), (_, zip)] = STREAMS;
    file(&mut packer, NodeId::ROOT, b"again.gz", &[Ok(short)]);
    file(&mut packer, NodeId::ROOT, b"two members.gz", &[Ok(short), Ok(long)]);
    file(&mut packer, NodeId::ROOT, b"holes.gz", &[Ok(short), Err(9000), Ok(short)]);
    file(&mut packer, NodeId::ROOT, b"cut short.gz", &[Ok(&long[..long.len() / 2])]);
    file(&mut packer, NodeId::ROOT, b"no head.gz", &[Ok(&long[..5])]);
    let mut wrong = long.to_vec();
    wrong[long.len() / 2] ^= 4;
    file(&mut packer, NodeId::ROOT, b"damaged.gz", &[Ok(&wrong)]);
    file(&mut packer, NodeId::ROOT, b"program", &[Ok(&noise(8, 5000)), Ok(zip)]);
    file(&mut packer, NodeId::ROOT, b"long tail.zip", &[Ok(zip), Ok(&noise(9, 5000))]);
    packer.finish().unwrap().0.into_inner()
}

/// An image of a text in many versions, no two of which have a long stretch in common.
pub fn pack_versions(options: Options) -> Vec<u8> {
    let mut packer =
        Packer::new(Output::new(Vec::new()), meta(Kind::Directory, 0o755), options).unwrap();
    let text = noise(9, 60_000);
    for version in 0..16u32 {
        let mut own = text.clone();
        for at in (0..own.len()).step_by(500) {
            own[at] = own[at].wrapping_add(version as u8);
        }
        file(&mut packer, NodeId::ROOT, format!("{version}").as_bytes(), &[Ok(&own)]);
    }
    packer.finish().unwrap().0.into_inner()
}

/// An image of a file and of others that are it with changes: their pieces lie in its block and in their own in turn.
pub fn pack_changed(options: Options) -> Vec<u8> {
    let text = noise(9, 60_000);
    let version = |version: usize| {
        let mut own = text.clone();
        for (number, at) in (3000 + version * 700..own.len() - 3000).step_by(6000).enumerate() {
            let new = noise((version * 100 + number) as u64, 300 + 40 * (version % 3));
            own.splice(at..at + 300, new);
        }
        (version.to_string(), own)
    };
    let files: Vec<_> = (0..6).map(version).collect();
    pack_files(options, files.iter().map(|(name, own)| (name.as_str(), own.as_slice())))
}

/// Bytes that nothing shrinks.
pub fn chance(len: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1du64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn fill<W: std::io::Write + std::io::Seek>(packer: &mut Packer<W>) {
    let many = packer.make(NodeId::ROOT, b"many", meta(Kind::Directory, 0o755)).unwrap();
    for number in 0..3000u32 {
        let name = format!("{:04x}-{number}", number.wrapping_mul(40_503) & 0xffff);
        let bytes = noise(u64::from(number % 700), 20 + number as usize % 90);
        file(packer, many, name.as_bytes(), &[Ok(&bytes)]);
    }
    let bytes = noise(77, 900_000);
    file(packer, many, b"large", &[Ok(&bytes)]);
    file(packer, many, b"large with a start", &[Ok(b"start"), Ok(&bytes)]);
    let mut sparse: Vec<Result<&[u8], u64>> = Vec::new();
    for number in 0..3000 {
        sparse.push(Ok(&bytes[number * 10..number * 10 + 10]));
        sparse.push(Err(4096));
    }
    file(packer, many, b"sparse", &sparse);
    file(packer, many, b"one.wav", &[Ok(&wave(1, 90_000))]);
    file(packer, many, b"two.wav", &[Ok(&wave(2, 90_001))]);
    file(packer, many, b"packed", &[Ok(&chance(100_000))]);
}

pub fn open(bytes: Vec<u8>) -> esker_stone::Result<Image> {
    open_with(Box::new(bytes), 8 << 20)
}

pub fn open_with(source: Source, cache: usize) -> esker_stone::Result<Image> {
    Image::open(source, Start::Auto, Vec::new(), Cache::new(cache))
}

/// How far into a file is looked, whatever its size, which may be up to 2^63.
fn seen_len(size: u64) -> usize {
    const WHOLE: u64 = 16 << 20;
    if size <= WHOLE { size as usize } else { 16 << 10 }
}

fn holes(view: &dyn View, ino: Ino) -> Result<Vec<(u64, u64)>, Error> {
    let (mut at, mut runs) = (0, Vec::new());
    while let Some(run) = view.next_data(ino, at)? {
        runs.push((run.start(), run.end()));
        at = run.end();
        assert!(runs.len() < 10_000, "runs of data without end");
    }
    Ok(runs)
}

fn seen(view: &dyn View, ino: Ino, attr: Attr) -> Result<Seen, Error> {
    let mut bytes = Vec::new();
    if matches!(attr.kind, Kind::File | Kind::Symlink) {
        bytes = vec![0; seen_len(attr.size)];
        let len = view.read(ino, 0, &mut bytes)?;
        bytes.truncate(len);
        // And the end.
        let mut last = vec![0; 5000];
        let len = view.read(ino, attr.size.saturating_sub(5000), &mut last)?;
        bytes.extend(&last[..len]);
    }
    let mut names = Vec::new();
    view.xattrs(ino, &mut |name| {
        names.push(name.bytes().to_vec());
        Flow::Continue(())
    })?;
    let mut xattrs = Vec::new();
    for name in names {
        let mut value = Vec::new();
        view.xattr(ino, XattrName::parse(&name)?, &mut value)?;
        xattrs.push((name, value));
    }
    Ok(Seen { attr, bytes, holes: holes(view, ino)?, xattrs })
}

/// Everything that can be seen, each path for itself.
pub fn picture(view: &dyn View) -> Result<Picture, Error> {
    let mut picture = Picture::new();
    let root = view.attr(Ino::ROOT)?;
    picture.insert(b"/".to_vec(), seen(view, Ino::ROOT, root));
    let mut pending = vec![(Vec::new(), Ino::ROOT)];
    while let Some((path, dir)) = pending.pop() {
        assert!(picture.len() < 100_000, "a tree without end");
        let mut found = Vec::new();
        let listed = view.entries(dir, Cursor::START, false, &mut |listed| {
            found.push((listed.name.bytes().to_vec(), listed.entry));
            Flow::Continue(())
        });
        for (name, entry) in found {
            let own = [&path[..], b"/", &name].concat();
            let looked_up = view.entry(dir, esker::Name::parse(&name)?);
            let attr = looked_up.and_then(|again| {
                assert_eq!(again, entry, "a name leads to two things");
                view.attr(entry.ino)
            });
            if attr.is_ok() && entry.kind == Kind::Directory {
                pending.push((own.clone(), entry.ino));
            }
            picture.insert(own, attr.and_then(|attr| seen(view, entry.ino, attr)));
        }
        if let Err(error) = listed {
            let own = if path.is_empty() { b"/".to_vec() } else { path };
            picture.insert(own, Err(error));
        }
    }
    Ok(picture)
}

/// What was damaged may fail, but it may not be wrong: names and contents are those of `right`, as far as there are
/// any. A directory that cannot be listed hides what is in it.
pub fn nothing_wrong(damaged: &Picture, right: &Picture) -> Result<(), String> {
    for (path, seen) in damaged {
        let shown = path.escape_ascii();
        match (seen, right.get(path)) {
            (_, None) => return Err(format!("{shown} was made up")),
            (Ok(seen), Some(Ok(right))) if seen != right => {
                return Err(format!("{shown} is wrong"));
            }
            _ => {}
        }
    }
    for path in right.keys().filter(|path| !damaged.contains_key(*path)) {
        let hidden = damaged.iter().any(|(other, seen)| {
            let inside = other == b"/" || path.starts_with(&[&other[..], b"/"].concat());
            seen.is_err() && inside
        });
        if !hidden {
            return Err(format!("{} is gone and nobody says so", path.escape_ascii()));
        }
    }
    Ok(())
}

/// A source that others may hold too.
pub fn shared(bytes: &Arc<Vec<u8>>) -> Source {
    Box::new(Arc::clone(bytes))
}
