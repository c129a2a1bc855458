//! The most names of an inode and the most sub-directories of a directory: what would be one more
//! is refused, and nothing has changed.

use esker::ground::{Clock, Heap};
use esker::limits::LINKS_MAX;
use esker::memory::{Home, Options};
use esker::posix::{Caller, Fs, New, RenameFlags};
use esker::store::{Batch, Change, Store as _, View as _};
use esker::{Attr, Error, Ino, Kind, Name, Time};

struct Still;

impl Clock for Still {
    fn now(&self) -> Time {
        Time::default()
    }
}

type Memory = Fs<Home<Heap>>;

fn fs() -> Memory {
    let root = Attr::new(Kind::Directory, 0o755, 0, 0, Ino::ROOT, Time::default());
    let options = Options { size_max: 1 << 24, file_size_max: 1 << 20, root };
    Fs::new(Home::new(Heap::new(), &options).unwrap(), Still)
}

fn name(text: &str) -> Name<'_> {
    Name::parse(text.as_bytes()).unwrap()
}

fn make(fs: &Memory, dir: Ino, text: &str, kind: Kind) -> Ino {
    let new = New { kind, perm: 0o755, umask: 0, rdev: 0 };
    fs.create(&Caller::ROOT, dir, name(text), new).unwrap().ino
}

/// As if it had so many already: two thousand million cannot be made in a test.
fn count(fs: &Memory, ino: Ino, nlink: u32) {
    let attr = Attr { nlink, ..fs.store().attr(ino).unwrap() };
    let mut batch = Batch::new();
    batch.push(Change::Set { ino, attr });
    fs.store().commit(&batch).unwrap();
}

#[test]
fn a_file_has_no_more_names_than_can_be_counted() {
    let fs = fs();
    let file = make(&fs, Ino::ROOT, "file", Kind::File);
    count(&fs, file, LINKS_MAX - 1);
    fs.link(&Caller::ROOT, file, Ino::ROOT, name("last")).unwrap();
    let more = fs.link(&Caller::ROOT, file, Ino::ROOT, name("more"));
    assert_eq!(more.unwrap_err(), Error::TooManyLinks);
    assert_eq!(Error::TooManyLinks.errno(), 31, "EMLINK");
    assert_eq!(fs.getattr(file).unwrap().nlink, LINKS_MAX);
    assert_eq!(fs.lookup(&Caller::ROOT, Ino::ROOT, name("more")).unwrap_err(), Error::NotFound);
}

#[test]
fn a_directory_has_no_more_directories_than_can_be_counted() {
    let fs = fs();
    let full = make(&fs, Ino::ROOT, "full", Kind::Directory);
    make(&fs, Ino::ROOT, "other", Kind::Directory);
    count(&fs, full, LINKS_MAX - 1);
    make(&fs, full, "last", Kind::Directory);
    let new = New { kind: Kind::Directory, perm: 0o755, umask: 0, rdev: 0 };
    let more = fs.create(&Caller::ROOT, full, name("more"), new);
    assert_eq!(more.unwrap_err(), Error::TooManyLinks);
    let plain = RenameFlags::default();
    let moved = fs.rename(&Caller::ROOT, Ino::ROOT, name("other"), full, name("moved"), plain);
    assert_eq!(moved, Err(Error::TooManyLinks));
    // What brings no further directory is welcome.
    make(&fs, full, "file", Kind::File);
    fs.rename(&Caller::ROOT, full, name("last"), full, name("renamed"), plain).unwrap();
    fs.rename(&Caller::ROOT, Ino::ROOT, name("other"), full, name("renamed"), plain).unwrap();
    assert_eq!(fs.getattr(full).unwrap().nlink, LINKS_MAX);
}
