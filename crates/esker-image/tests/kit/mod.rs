//! A small tree with one of everything, packed in memory, and what can be seen of an image.
#![allow(dead_code, reason = "each test uses its part")]

pub mod dice;
pub mod files;
pub mod parts;

use std::collections::BTreeMap;
use std::io::Cursor as Output;
use std::sync::Arc;

use esker::store::{Flow, View};
use esker::{Attr, Cursor, Error, Flags, Ino, Kind, Name, Time, XattrName};
use esker_image::pack::{Choices, Incoming, Meta, NodeId, Options, Owns, Packer, Sharing, Times};
use esker_image::{Cache, Image, Source};
use esker_stone::rows::blocks::BlockRow;
use esker_stone::rows::extents::{BlockName, Piece};
use esker_stone::superblock::DATA;
use esker_stone::{Codec, Setting, Start};

pub use files::*;

/// What is seen of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub attr: Attr,
    pub bytes: Vec<u8>,
    pub holes: Vec<(u64, u64)>,
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

pub type Picture = BTreeMap<Vec<u8>, Result<Seen, Error>>;

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

/// An image of programs, whose blocks share no base.
pub fn pack_programs(options: Options, calls: u32) -> Vec<u8> {
    let files = programs(calls);
    let all = files.iter().map(|(name, bytes)| (&name[..], &bytes[..]));
    pack_files(Options { sharing: None, ..options }, all)
}

/// An image of text.
pub fn pack_texts(options: Options) -> Vec<u8> {
    let files = texts();
    pack_files(options, files.iter().map(|(name, bytes)| (&name[..], &bytes[..])))
}

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

/// An image of such files.
pub fn pack_samples(options: Options, files: &[Sample]) -> Vec<u8> {
    pack_files(options, files.iter().map(|file| (&file.name[..], &file.bytes[..])))
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

/// What is known of all blocks.
pub fn rows(image: &Image) -> Vec<BlockRow> {
    let slots = 0..image.root().indexes[0].1.entries as u32;
    slots.map(|slot| image.block_row(BlockName { segment: DATA, slot }).unwrap()).collect()
}

/// How many bytes of a file lie in such blocks.
pub fn bytes_in(image: &Image, name: &str, which: impl Fn(&BlockRow) -> bool) -> u64 {
    let ino = image.entry(Ino::ROOT, Name::parse(name.as_bytes()).unwrap()).unwrap().ino;
    let size = image.attr(ino).unwrap().size;
    let places = image.places(ino, size, 0, size).unwrap().unwrap();
    let row = |piece: &Piece| image.block_row(piece.place.unwrap().block).unwrap();
    places.iter().filter(|piece| which(&row(piece))).map(|piece| piece.len).sum()
}

/// Whether what is tried with blocks of its category was done to a block.
pub fn is_treated(row: &BlockRow) -> bool {
    match row.category {
        2 | 3 | 7 => row.codec == Codec::Pcm,
        4 => row.recipe > 0,
        8..12 => row.transform.is_of_code(),
        12 | 13 => row.words > 0,
        14 => row.codec == Codec::Jpeg,
        _ => true,
    }
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
            let looked_up = view.entry(dir, Name::parse(&name)?);
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
