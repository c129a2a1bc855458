//! Snapshots beside the volume: each shows, under its name, what it shows by itself, while others come and go and the
//! volume changes; and what is changed in none of them reaches the volume.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;

use esker::posix::{Caller, Fs, New, OpenFlags, SetAttr};
use esker::store::{Flow, View};
use esker::{Attr, Cursor, Error, Ino, Kind, Name, Result, Time};
use esker_proof::chance::Chance;
use esker_proof::cut::{SHAPES, Shape};
use esker_proof::harness::seed;
use esker_proof::lying::ram::Ram;
use esker_proof::world::inside::Checked as _;
use esker_proof::world::on_volume::mount;
use esker_volume::{SNAPSHOTS, Shown, Snapped, make};

const SIZE: usize = 24 << 20;
const ROUNDS: usize = 120;
/// At once; more than are kept open.
const SNAPSHOTS_AT_ONCE: usize = 20;

fn name(text: &str) -> Name<'_> {
    Name::parse(text.as_bytes()).expect("a name")
}

/// All of a tree but numbers of inodes: the same for a snapshot by itself and beside others.
fn told(view: &dyn View, root: Ino) -> Result<Vec<u8>> {
    let (mut told, mut todo) = (Vec::new(), vec![(Vec::new(), root)]);
    while let Some((path, ino)) = todo.pop() {
        let attr = Attr { parent: Ino(0), ..view.attr(ino)? };
        told.extend_from_slice(format!("{}: {attr:?}\n", path.escape_ascii()).as_bytes());
        match attr.kind {
            Kind::Directory => view.entries(ino, Cursor::START, true, &mut |listed| {
                let path = [&path[..], b"/", listed.name.bytes()].concat();
                assert!(listed.attr.is_some_and(|attr| attr.kind == listed.entry.kind));
                todo.push((path, listed.entry.ino));
                Flow::Continue(())
            })?,
            _ => {
                let mut bytes = vec![0; attr.size as usize + 1];
                let len = view.read(ino, 0, &mut bytes)?;
                told.extend_from_slice(&bytes[..len]);
            }
        }
    }
    Ok(told)
}

/// What each snapshot shows by itself; none of the same name is ever another one.
type Moments = Mutex<BTreeMap<String, Vec<u8>>>;

/// Looks at all that there are until it is to end; how many it saw whole, and how many went away meanwhile.
fn look(view: &dyn View, moments: &Moments, ends: &AtomicBool, seen: &AtomicU64) -> (u64, u64) {
    let (mut whole, mut gone) = (0, 0);
    while !ends.load(Relaxed) {
        let shelf = view.entry(Ino::ROOT, name(SNAPSHOTS)).expect("it is there").ino;
        let mut all = Vec::new();
        let listed = view.entries(shelf, Cursor::START, false, &mut |listed| {
            let name = String::from_utf8(listed.name.bytes().to_vec()).expect("text");
            all.push((name, listed.entry.ino));
            Flow::Continue(())
        });
        listed.expect("a list");
        for (name, root) in all {
            match told(view, root) {
                Ok(told) => {
                    // It is shown before whoever made it has noted what it shows.
                    if let Some(own) = moments.lock().expect("no panic").get(&name) {
                        assert_eq!(own, &told, "{name} shows something else");
                        whole += 1;
                    }
                }
                Err(Error::Stale) => gone += 1,
                Err(error) => panic!("{name}: {error:?}"),
            }
            seen.fetch_add(1, Relaxed);
        }
    }
    (whole, gone)
}

#[test]
fn snapshots_show_beside_others_what_they_show_alone() {
    let shape = Shape { size: SIZE as u64, recent_len: 64 << 10, table_len: 4 << 10, ..SHAPES[0] };
    let device = Arc::new(Ram::new(SIZE));
    make(&device, &shape.making()).expect("a volume");
    let home = mount(&shape, Arc::clone(&device)).expect("it opens");
    let volume = Arc::clone(home.shared());
    let fs = Fs::new(home, || Time { secs: 1, nanos: 0 });
    let shown =
        Shown::new(Arc::clone(&volume), Arc::clone(&volume)).expect("nothing is in the way");
    let (moments, ends, seen) = (Moments::default(), AtomicBool::new(false), AtomicU64::new(0));
    let mut chance = Chance::new(seed());
    let looked = thread::scope(|scope| {
        let looks = scope.spawn(|| look(&shown, &moments, &ends, &seen));
        let mut there: Vec<String> = Vec::new();
        for round in 0..ROUNDS {
            for step in 0..8 {
                let path = format!("f{}", (round * 8 + step) % 50);
                let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
                let made = fs.create(&Caller::ROOT, Ino::ROOT, name(&path), new);
                let node = made.or_else(|_| fs.lookup(&Caller::ROOT, Ino::ROOT, name(&path)));
                let ino = node.expect("a file").ino;
                let bytes = vec![chance.below(256) as u8; 1 + chance.below(9000) as usize];
                fs.write(ino, chance.below(4000), &bytes, false).expect("room");
                fs.forget(ino, 1);
                if step == 3 {
                    fs.unlink(&Caller::ROOT, Ino::ROOT, name(&path)).expect("removed");
                }
            }
            let own = format!("s{round}");
            fs.store().create_snapshot(&own).expect("a snapshot");
            let alone = Snapped::new(Arc::clone(&volume), &own).expect("it is there");
            let alone = told(&alone, Ino::ROOT).expect("it shows everything");
            moments.lock().expect("no panic").insert(own.clone(), alone);
            there.push(own);
            if there.len() > SNAPSHOTS_AT_ONCE {
                let goes = there.remove(chance.below(there.len() as u64) as usize);
                volume.delete_snapshot(&goes).expect("deleted");
            }
        }
        // However slow it is, it looks at what is there in the end.
        let until = seen.load(Relaxed) + 2 * SNAPSHOTS_AT_ONCE as u64;
        while seen.load(Relaxed) < until && !looks.is_finished() {
            thread::yield_now();
        }
        ends.store(true, Relaxed);
        looks.join().expect("it saw nothing wrong")
    });
    println!("{} whole, {} went away meanwhile", looked.0, looked.1);
    assert!(looked.0 >= SNAPSHOTS_AT_ONCE as u64);
    drop(shown);
    assert_eq!(fs.store().findings(), [""; 0]);
}

/// What POSIX refuses to do to a snapshot, and to what shows them.
#[test]
fn nothing_in_them_changes() {
    let shape = Shape { size: SIZE as u64, ..SHAPES[0] };
    let device = Arc::new(Ram::new(SIZE));
    make(&device, &shape.making()).expect("a volume");
    let home = Arc::new(mount(&shape, Arc::clone(&device)).expect("it opens"));
    let volume = Arc::clone(home.shared());
    let fs = Fs::new(Shown::new(Arc::clone(&home), volume).expect("it is free"), || Time {
        secs: 100_000_000,
        nanos: 0,
    });
    let root = &Caller::ROOT;
    let new = New { kind: Kind::File, perm: 0o644, umask: 0, rdev: 0 };
    let live = fs.create(root, Ino::ROOT, name("f"), new).expect("made").ino;
    fs.write(live, 0, b"as it was", false).expect("written");
    home.create_snapshot("one").expect("a snapshot");
    let shelf = fs.lookup(root, Ino::ROOT, name(SNAPSHOTS)).expect("there").ino;
    let one = fs.lookup(root, shelf, name("one")).expect("there").ino;
    let then = fs.lookup(root, one, name("f")).expect("there").ino;
    assert_ne!(then, live);
    let before = home.waiting();
    let refused = Some(Error::ReadOnly);
    let writing = OpenFlags { write: true, ..OpenFlags::default() };
    assert_eq!(fs.open(root, then, writing).err(), refused);
    assert_eq!(fs.write(then, 0, b"x", false).err(), refused);
    assert_eq!(fs.create(root, one, name("g"), new).err(), refused);
    assert_eq!(fs.create(root, shelf, name("g"), new).err(), refused);
    assert_eq!(fs.tmpfile(root, one, new).err(), refused);
    assert_eq!(fs.tmpfile(root, shelf, new).err(), refused);
    assert_eq!(fs.unlink(root, one, name("f")).err(), refused);
    assert_eq!(fs.link(root, then, Ino::ROOT, name("g")).err(), refused);
    assert_eq!(fs.link(root, live, one, name("g")).err(), refused);
    let mode = SetAttr { perm: Some(0o600), ..SetAttr::default() };
    assert_eq!(fs.setattr(root, then, &mode).err(), refused);
    assert_eq!(fs.setattr(root, shelf, &mode).err(), refused);
    assert_eq!(fs.copy_range(root, (live, 0), (then, 0), 4).err(), refused);
    assert_eq!(fs.create(root, Ino::ROOT, name(SNAPSHOTS), new).err(), Some(Error::Exists));
    let mut bytes = [0; 9];
    assert_eq!(fs.read(then, 0, &mut bytes), Ok(9));
    assert_eq!(&bytes, b"as it was");
    assert_eq!(home.waiting(), before, "something was changed");
    assert_eq!(fs.copy_range(root, (shelf, 0), (live, 0), 4).err(), Some(Error::IsDirectory));
    home.volume().delete_snapshot("one").expect("deleted");
    assert_eq!(fs.read(then, 0, &mut bytes), Err(Error::Stale));
    assert_eq!(fs.getattr(one).err(), Some(Error::Stale));
    assert_eq!(fs.lookup(root, shelf, name("one")).err(), Some(Error::NotFound));
    fs.write(live, 0, b"as it is", false).expect("the volume goes on");
}
