//! Memory comes back from a file system whose trees lie on slabs and huge pages.

use esker::ground::Clock as _;
use esker::memory::{Home, Options};
use esker::posix::{Caller, Fs, New};
use esker::{Attr, Ino, Kind, Name, Result};
use esker_host::{Arena, SystemClock, resident_bytes};

/// So many that most of the tree lies in slabs.
const FILES: u32 = 250_000;
/// Of so many files one stays.
const KEPT: u32 = 500;
const NEW: New = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };

fn named<T>(number: u32, then: impl FnOnce(Name<'_>) -> Result<T>) -> Result<T> {
    then(Name::parse(format!("file-{number}").as_bytes())?)
}

#[test]
fn what_removed_files_took_goes_back() -> Result<()> {
    let root = Attr::new(Kind::Directory, 0o755, 0, 0, Ino::ROOT, SystemClock.now());
    let options = Options { size_max: 1 << 30, file_size_max: i64::MAX as u64, root };
    let fs = Fs::new(Home::new(Arena::new(1 << 30)?, &options)?, SystemClock);
    let now = || (resident_bytes().expect("there is /proc"), fs.store().usage().used);
    let create = |number| named(number, |name| fs.create(&Caller::ROOT, Ino::ROOT, name, NEW));
    let before = now();
    for number in 0..FILES {
        fs.forget(create(number)?.ino, 1);
    }
    let full = now();
    let (taken, counted) = (full.0 - before.0, full.1 - before.1);
    assert!(taken < counted + counted / 4, "{taken} taken, {counted} counted");
    // Backwards, so that holes come to all slabs before any is empty.
    for step in (1..KEPT).rev() {
        for number in (step..FILES).step_by(KEPT as usize) {
            named(number, |name| fs.unlink(&Caller::ROOT, Ino::ROOT, name))?;
        }
    }
    let few = now();
    let (left, used) = (few.0.saturating_sub(before.0), few.1 - before.1);
    assert!(used < counted / 10, "{used} of {counted} still counted");
    assert!(left < taken / 3, "{left} of {taken} still resident");
    assert!(fs.store().check().is_empty());
    for number in (0..FILES).filter(|number| number % KEPT > 0) {
        fs.forget(create(number)?.ino, 1);
    }
    let again = now();
    assert!(again.0 - before.0 < taken * 5 / 4, "{taken}, then {}", again.0 - before.0);
    assert!(fs.store().check().is_empty());
    println!("taken {taken}, counted {counted}; left {left}, counted {used}");
    Ok(())
}
