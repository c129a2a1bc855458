//! Images for the verbs that look into them without mounting: opened, and places in them found.
//!
//! Above: `verbs`. Below: `esker-image`. Invariant: paths are followed name by name, and symbolic links within the
//! image, whose root they do not leave.

pub mod archive;
pub mod copy;
pub mod limits;
mod walk;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use esker::store::{Flow, View};
use esker::{Attr, Cursor, Ino, Kind, Name};
use esker_image::{Cache, Image, Source, Thing};
use esker_stone::root::Base;
use esker_stone::{Damage, Error, Hash, Rest, Start, hex};

use crate::failure::{Exit, Failure, Outcome, path_shown, shown};
use crate::units::{OWN_MAX, map_limit, ram, size_shown};
use crate::volumes;

pub use walk::{Node, children, walk};

/// Symbolic links that one path may lead through.
const LINKS_MAX: usize = 40;

/// Bytes that the verbs keep of what they decoded.
pub const CACHE_LEN: usize = 256 << 20;
/// The part of the memory that may be mapped which that is at most.
const PART_KEPT: u64 = 2;
/// Blocks whose length decoding one takes: its stored bytes, what the codec remembers, and the plain ones.
const BLOCKS_DECODED: u64 = 3;
/// Memory that everything else takes while files are read, in about.
const SMALL: u64 = 16 << 20;

/// A place in an image, as in `x.esker:/usr/bin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The image's file.
    pub image: PathBuf,
    /// The path in it, without a `/` in front or behind; empty: the root.
    pub path: Vec<u8>,
}

impl Place {
    /// Takes a word apart. What exists as a file is an image; otherwise the path begins behind the first `:/`.
    pub fn parse(word: &OsStr) -> Self {
        let bytes = word.as_bytes();
        let whole = || Self { image: word.into(), path: Vec::new() };
        if Path::new(word).exists() {
            return whole();
        }
        let colon = bytes.windows(2).position(|two| two == b":/");
        let colon = colon.or_else(|| bytes.iter().rposition(|&byte| byte == b':'));
        let Some(colon) = colon else { return whole() };
        let parts = bytes[colon + 1..].split(|&byte| byte == b'/');
        let parts: Vec<_> = parts.filter(|part| !part.is_empty() && *part != b".").collect();
        Self { image: OsStr::from_bytes(&bytes[..colon]).into(), path: parts.join(&b'/') }
    }
}

/// For clap.
#[derive(Clone)]
pub struct PlaceParser;

impl clap::builder::TypedValueParser for PlaceParser {
    type Value = Place;

    fn parse_ref(
        &self,
        _: &clap::Command,
        _: Option<&clap::Arg>,
        word: &OsStr,
    ) -> Result<Place, clap::Error> {
        Ok(Place::parse(word))
    }
}

/// How to open an image.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Opening {
    /// Where the image begins in its file, in bytes, or auto
    #[arg(long, value_name = "BYTES", default_value = "auto", value_parser = start)]
    pub offset: Begin,

    /// An image that this one was packed against; any number of them. Otherwise it is looked for beside it
    #[arg(long = "base", value_name = "FILE")]
    pub bases: Vec<PathBuf>,
}

/// Where an image begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Begin(pub Option<u64>);

/// A number of bytes, or `auto`.
pub fn start(word: &str) -> Result<Begin, String> {
    match word {
        "auto" => Ok(Begin(None)),
        _ => crate::units::parse_size(word, 0)
            .map(|at| Begin(Some(at)))
            .map_err(|_| "give a number of bytes, or auto".to_owned()),
    }
}

impl Begin {
    /// As the image home says it.
    pub fn start(self) -> Start {
        self.0.map_or(Start::Auto, Start::At)
    }
}

/// What is wrong with an image, for a person.
pub fn failure(path: &Path, error: Error) -> Failure {
    let (exit, what, remedy) = match error {
        Error::Io(..) => (Exit::Source, format!("cannot read the image ({error})"), ""),
        Error::Damaged(Damage::NoImage) => (
            Exit::Source,
            "not an Esker image or volume".to_owned(),
            "if it was a volume, `esker check --repair` makes it whole as far as it can be, and \
             `esker recover` takes out what is left; `esker pack` or `esker mkfs` makes one",
        ),
        Error::Damaged(Damage::Truncated) => {
            let what = "the image is cut short: its end is missing".to_owned();
            (Exit::Damaged, what, "fetch it again; `esker extract --salvage` tries what is left")
        }
        Error::Damaged(damage) => {
            let what = format!("the image is damaged ({})", damage.text());
            (
                Exit::Damaged,
                what,
                "`esker check` tells more, `esker extract --salvage` tries what is left",
            )
        }
        Error::Unsupported(_) => {
            (Exit::Source, format!("cannot read the image: {error}"), "take a newer esker")
        }
        Error::OverLimit(_) => (Exit::Failed, error.to_string(), ""),
    };
    Failure::at(exit, &what, path, remedy)
}

/// Something in an image could not be read.
pub fn unreadable(path: &Path, what: &str, error: esker::Error) -> Failure {
    let remedy = "`esker check` tells more, `esker extract --salvage` saves";
    Failure::at(Exit::Damaged, &format!("cannot read {what} ({error})"), path, remedy)
}

/// Opens the file.
pub fn open_file(path: &Path) -> Outcome<Source> {
    // To open a pipe would be to wait for who writes to it.
    let meta = std::fs::metadata(path).map_err(|error| failure(path, error.into()))?;
    if meta.is_dir() {
        let remedy = "name the file of an image or a volume; `esker stats` tells of a mount";
        return Err(Failure::at(Exit::Source, "a directory, not an image", path, remedy));
    }
    if !(meta.is_file() || meta.file_type().is_block_device()) {
        let what = "neither a file nor a block device, so not an image";
        return Err(Failure::at(Exit::Source, what, path, ""));
    }
    let file = File::open(path).map_err(|error| failure(path, error.into()))?;
    Ok(Box::new(file))
}

/// Whether this is an image, to tell it from an archive.
pub fn is_image(path: &Path, begin: Begin) -> bool {
    if !std::fs::metadata(path).is_ok_and(|meta| meta.is_file()) {
        return false;
    }
    let Ok(file) = File::open(path) else { return false };
    let begin = Start::At(begin.0.unwrap_or(0));
    !matches!(Rest::open(file, begin), Err(Error::Damaged(Damage::NoImage)))
}

/// Opens an image.
pub fn open(path: &Path, opening: &Opening, cache: &Arc<Cache>) -> Outcome<Image> {
    open_with(path, opening.offset, &opening.bases, cache)
}

/// Opens an image whose bases may be among these.
pub fn open_with(
    path: &Path,
    begin: Begin,
    bases: &[PathBuf],
    cache: &Arc<Cache>,
) -> Outcome<Image> {
    let source = open_file(path)?;
    let rest = Rest::open(source, begin.start()).map_err(|error| match error {
        Error::Damaged(Damage::Truncated) => cut_short(path, begin, bases, cache),
        error => failure(path, error),
    })?;
    with_bases(path, rest, bases, cache)
}

/// Tells of an image whose end is missing what is left of it.
fn cut_short(path: &Path, begin: Begin, bases: &[PathBuf], cache: &Arc<Cache>) -> Failure {
    let opening = Opening { offset: begin, bases: bases.to_vec() };
    match open_damaged(path, &opening, cache).map(|image| is_readable(&image)) {
        Ok(true) => failure(path, Damage::Truncated.into()),
        Ok(false) => nothing_left(path),
        Err(failure) => failure,
    }
}

/// Whether the names in the root can be read: without them nothing can.
pub fn is_readable(image: &dyn View) -> bool {
    image.entries(Ino::ROOT, Cursor::START, false, &mut |_| Flow::Break(())).is_ok()
}

/// An image whose names are gone.
fn nothing_left(path: &Path) -> Failure {
    let what = "the image is cut short, and names and attributes are in what is missing";
    Failure::at(Exit::Damaged, what, path, "fetch it again: nothing can be saved from this")
}

/// Opens an image as far as it is there.
pub fn open_damaged(path: &Path, opening: &Opening, cache: &Arc<Cache>) -> Outcome<Image> {
    let source = open_file(path)?;
    let rest = Rest::open_damaged(source, opening.offset.start()).map_err(|error| match error {
        Error::Damaged(Damage::Truncated) => nothing_left(path),
        error => failure(path, error),
    })?;
    with_bases(path, rest, &opening.bases, cache)
}

/// Opens the bases, wherever they are.
fn with_bases(
    path: &Path,
    rest: Rest<Source>,
    given: &[PathBuf],
    cache: &Arc<Cache>,
) -> Outcome<Image> {
    let mut bases = Vec::new();
    for file in base_files(path, &rest.root().bases, given)? {
        bases.push(Arc::new(open_with(&file, Begin(None), given, cache)?));
    }
    Image::with(rest, bases, Arc::clone(cache)).map_err(|error| failure(path, error))
}

/// All files that an image is read from, as far as they are known: itself, its bases and theirs. Of anything else what
/// is named.
pub fn files_of(path: &Path, opening: &Opening) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    let source = open_file(path).ok();
    let rest = source.and_then(|source| Rest::open(source, opening.offset.start()).ok());
    let bases = rest.and_then(|rest| base_files(path, &rest.root().bases, &opening.bases).ok());
    let behind = Opening { offset: Begin(None), bases: opening.bases.clone() };
    all.extend(bases.into_iter().flatten().flat_map(|base| files_of(&base, &behind)));
    all.extend(opening.bases.iter().cloned());
    all
}

/// The files that an image's bases are in: each among those that are given, or beside the image, under the name by
/// which it was known or any other. What an image is called is in it.
pub fn base_files(path: &Path, bases: &[Base], given: &[PathBuf]) -> Outcome<Vec<PathBuf>> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut found = Vec::new();
    for base in bases {
        let mut file = None;
        for given in given {
            if file.is_none() && image_name(given)? == base.name {
                file = Some(given.clone());
            }
        }
        let known = folder.join(OsStr::from_bytes(&base.file));
        let beside = || {
            // Beside a device there are devices.
            let others = path.is_file().then(|| folder.read_dir());
            let others = others.into_iter().flatten().flatten().flatten();
            let mut files = [known.clone()].into_iter().chain(others.map(|entry| entry.path()));
            files.find(|file| image_name(file).is_ok_and(|name| name == base.name))
        };
        let Some(file) = file.or_else(beside) else {
            let why = if known.exists() { "is another one" } else { "is missing" };
            let what = format!("the base image {} {why}", path_shown(&known));
            let name = hex(&base.name);
            let remedy =
                format!("put the image with the name {name} beside it, or name it with --base");
            return Err(Failure::at(Exit::Source, &what, path, &remedy));
        };
        found.push(file);
    }
    Ok(found)
}

/// What the image in a file is called.
fn image_name(file: &Path) -> Outcome<Hash> {
    let rest = Rest::open(open_file(file)?, Start::Auto).map_err(|error| failure(file, error))?;
    Ok(rest.superblock().image_name())
}

/// How something is opened.
pub type Open = fn(&Path, &Opening, &Arc<Cache>) -> Outcome<Box<dyn View>>;

/// Opens whatever can be looked into: an image, or a volume that nobody writes.
pub fn open_any(path: &Path, opening: &Opening, cache: &Arc<Cache>) -> Outcome<Box<dyn View>> {
    open_if(path, opening, cache, |_, _| Ok(()))
}

/// The same for who reads files of it.
pub fn open_to_read(path: &Path, opening: &Opening, cache: &Arc<Cache>) -> Outcome<Box<dyn View>> {
    open_if(path, opening, cache, has_room)
}

fn open_if(
    path: &Path,
    opening: &Opening,
    cache: &Arc<Cache>,
    fits: fn(&Path, &Image) -> Outcome,
) -> Outcome<Box<dyn View>> {
    if volumes::is_volume(path) {
        return Ok(Box::new(volumes::look_over(path, &opening.bases)?));
    }
    if let Some(snapshot) = volumes::snapshots::look(path, &opening.bases) {
        return Ok(Box::new(snapshot?));
    }
    let image = open(path, opening, cache)?;
    fits(path, &image)?;
    Ok(Box::new(image))
}

/// What a path in an image leads to, whatever links there are on the way.
pub fn find(image: &dyn View, place: &Place) -> Outcome<Node> {
    find_by(image, place, true)
}

/// The same, but of a symbolic link at its end the link itself.
pub fn find_itself(image: &dyn View, place: &Place) -> Outcome<Node> {
    find_by(image, place, false)
}

fn find_by(image: &dyn View, place: &Place, through_last: bool) -> Outcome<Node> {
    let found = follow(image, &place.path, through_last).map_err(|error| {
        let what = format!("{} ({error})", shown(&[b"/", &place.path[..]].concat()));
        let (exit, remedy) = match error {
            esker::Error::Io => (Exit::Damaged, "`esker check` tells more"),
            _ => (Exit::Failed, ""),
        };
        Failure::at(exit, &what, &place.image, remedy)
    })?;
    let path = if place.path.is_empty() { vec![] } else { [b"/", &place.path[..]].concat() };
    Ok(Node { path, ..found })
}

/// A path in an image for a person: that of the root is none.
pub fn inner_shown(path: &[u8]) -> String {
    shown(if path.is_empty() { b"/" } else { path })
}

/// What has exactly this path, which has no `/` in front: no link is followed.
pub fn exactly(image: &dyn View, path: &[u8]) -> esker::Result<(Ino, Kind)> {
    path.split(|&byte| byte == b'/').try_fold((Ino::ROOT, Kind::Directory), |(dir, _), name| {
        let entry = image.entry(dir, Name::parse(name)?)?;
        Ok((entry.ino, entry.kind))
    })
}

/// The names of a path, the first last.
fn names(path: &[u8]) -> Vec<Vec<u8>> {
    let names = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && *name != b".");
    names.rev().map(<[u8]>::to_vec).collect()
}

fn follow(image: &dyn View, path: &[u8], through_last: bool) -> esker::Result<Node> {
    let node = |ino| -> esker::Result<Node> {
        Ok(Node { path: Vec::new(), ino, attr: image.attr(ino)?, depth: 0 })
    };
    let (mut at, mut left, mut links) = (node(Ino::ROOT)?, names(path), 0);
    while let Some(name) = left.pop() {
        let next = node(step(image, &at, &name)?)?;
        if next.attr.kind != Kind::Symlink || left.is_empty() && !through_last {
            at = next;
            continue;
        }
        links += 1;
        if links > LINKS_MAX {
            return Err(esker::Error::TooManySymlinks);
        }
        let target = target(image, &next)?.into_encoded_bytes();
        if target.first() == Some(&b'/') {
            at = node(Ino::ROOT)?;
        }
        left.extend(names(&target));
    }
    Ok(at)
}

fn step(image: &dyn View, node: &Node, name: &[u8]) -> esker::Result<Ino> {
    if node.attr.kind != Kind::Directory {
        return Err(esker::Error::NotDirectory);
    }
    match name {
        b".." => Ok(node.attr.parent),
        name => Ok(image.entry(node.ino, Name::parse(name)?)?.ino),
    }
}

/// What in an image something was found about.
pub fn thing_shown(thing: &Thing) -> String {
    match thing {
        Thing::Superblock(0) => "the superblock in front".to_owned(),
        Thing::Superblock(_) => "the superblock behind".to_owned(),
        Thing::Page { segment, at, copy } => {
            format!("page {at} of segment {segment}, copy {}", copy + 1)
        }
        Thing::Block(name) => format!("block {} of segment {}", name.slot, name.segment),
        Thing::BaseBlock(image, name) => {
            format!(
                "block {} of segment {} of the base image {}",
                name.slot,
                name.segment,
                hex(image)
            )
        }
        Thing::Path(path) => shown(path),
        Thing::Whole => "the image as a whole".to_owned(),
    }
}

/// A cache for verbs.
pub fn cache() -> Arc<Cache> {
    Cache::new(kept(CACHE_LEN))
}

/// What is kept of so many bytes where no more than a part of the memory may be mapped.
fn kept(len: usize) -> usize {
    len.min(usize::try_from(map_limit() / PART_KEPT).unwrap_or(usize::MAX))
}

/// Refuses to read files of an image whose blocks are too long to be decoded in the memory that may be had.
pub fn has_room(path: &Path, image: &Image) -> Outcome {
    let longest = |image: &Image| image.root().statistics.block_len;
    let bases = image.bases().iter().map(|base| longest(base));
    let decoding = bases.fold(longest(image), u64::max).saturating_mul(BLOCKS_DECODED);
    let needed = decoding.saturating_add(kept(CACHE_LEN) as u64 + SMALL);
    let mut room = Vec::<u8>::new();
    let held = room.try_reserve_exact(usize::try_from(needed).unwrap_or(usize::MAX));
    // Otherwise it might never be asked for.
    std::hint::black_box(&room);
    held.map_err(|_| {
        // Half of what is allowed is for the cache.
        let all = size_shown(decoding.saturating_add(OWN_MAX).saturating_mul(2));
        let what = format!("too little memory to read what is in the image: {all} are needed");
        Failure::at(Exit::Failed, &what, path, "allow as much with `ulimit -v`")
    })
}

/// A cache for verbs that read all files in the order of their names, which is not that of the blocks: those of the
/// highest levels are long, and to decode one for each of its files would take for ever.
pub fn cache_for_all() -> Arc<Cache> {
    const PART_OF_RAM: u64 = 8;
    let part = usize::try_from(ram() / PART_OF_RAM).unwrap_or(usize::MAX);
    Cache::new(kept(part.max(CACHE_LEN)))
}

/// `-rwxr-xr-x` and the like.
pub fn mode_shown(attr: &Attr) -> String {
    let kind = match attr.kind {
        Kind::File => '-',
        Kind::Directory => 'd',
        Kind::Symlink => 'l',
        Kind::Fifo => 'p',
        Kind::Socket => 's',
        Kind::CharDevice => 'c',
        Kind::BlockDevice => 'b',
    };
    let mut text = String::from(kind);
    for (shift, special, letters) in [(6, 0o4000, "sS"), (3, 0o2000, "sS"), (0, 0o1000, "tT")] {
        let bits = attr.perm >> shift;
        text.push(if bits & 4 == 0 { '-' } else { 'r' });
        text.push(if bits & 2 == 0 { '-' } else { 'w' });
        let set = attr.perm & special != 0;
        text.push(match (bits & 1 != 0, set) {
            (true, false) => 'x',
            (false, false) => '-',
            (true, true) => letters.chars().next().unwrap_or('s'),
            (false, true) => letters.chars().last().unwrap_or('S'),
        });
    }
    text
}

/// A kind in a word.
pub const fn kind_shown(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symlink",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
        Kind::CharDevice => "chardev",
        Kind::BlockDevice => "blockdev",
    }
}

/// A date and a time of day in UTC: year, month, day, hour, minute, second.
pub fn date(time: esker::Time) -> (i128, [i64; 5]) {
    let (days, secs) = (time.secs.div_euclid(86_400), time.secs.rem_euclid(86_400));
    // Days since the first of March of year 0, in eras of 400 years.
    let shifted = i128::from(days) + 719_468;
    let (era, day) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + next;
    (year, [month as i64, date as i64, secs / 3600, secs / 60 % 60, secs % 60])
}

/// Seconds since 1970 as a date in UTC.
pub fn time_shown(time: esker::Time) -> String {
    let (year, [month, day, hour, minute, second]) = date(time);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

/// Where a symbolic link leads.
pub fn target(image: &dyn View, node: &Node) -> esker::Result<OsString> {
    use std::os::unix::ffi::OsStringExt as _;
    let mut bytes = vec![0; usize::try_from(node.attr.size).unwrap_or(0).min(4096)];
    let len = image.read(node.ino, 0, &mut bytes)?;
    bytes.truncate(len);
    Ok(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read() {
        let place = |word: &str| {
            let place = Place::parse(OsStr::new(word));
            (place.image.to_string_lossy().into_owned(), String::from_utf8(place.path).unwrap())
        };
        assert_eq!(place("x.esker"), ("x.esker".into(), String::new()));
        assert_eq!(place("x.esker:/"), ("x.esker".into(), String::new()));
        assert_eq!(place("d/x.esker:/usr//bin/./"), ("d/x.esker".into(), "usr/bin".into()));
        assert_eq!(place("x:etc"), ("x".into(), "etc".into()));
        assert_eq!(place("x:/a:/b"), ("x".into(), "a:/b".into()));
    }

    #[test]
    fn dates_are_right() {
        let shown = |secs| time_shown(esker::Time { secs, nanos: 0 });
        assert_eq!(shown(0), "1970-01-01 00:00:00");
        assert_eq!(shown(951_827_696), "2000-02-29 12:34:56");
        assert_eq!(shown(-1), "1969-12-31 23:59:59");
        assert_eq!(shown(4_107_542_399), "2100-02-28 23:59:59");
        shown(i64::MIN);
        shown(i64::MAX);
    }
}
