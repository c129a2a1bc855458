//! A file system inside a program: no kernel, no mount, no files on disk.

use esker::ground::{Clock, Heap};
use esker::memory::{Home, Options};
use esker::posix::{Caller, Fs, New};
use esker::{Attr, Ino, Kind, Name, Result};
use esker_host::SystemClock;

fn main() -> Result<()> {
    let root = Attr::new(Kind::Directory, 0o755, 0, 0, Ino::ROOT, SystemClock.now());
    let options = Options { size_max: 64 << 20, file_size_max: u64::MAX, root };
    let fs = Fs::new(Home::new(Heap::new(), &options)?, SystemClock);

    let new = New { kind: Kind::File, perm: 0o644, umask: 0o022, rdev: 0 };
    let file = fs.create(&Caller::ROOT, Ino::ROOT, Name::parse(b"hello")?, new)?;
    fs.write(file.ino, 0, b"write into memory", false)?;

    let mut bytes = [0; 64];
    let count = fs.read(file.ino, 0, &mut bytes)?;
    assert_eq!(&bytes[..count], b"write into memory");
    fs.forget(file.ino, 1); // `create` holds the file for us, as an open descriptor would
    Ok(())
}
