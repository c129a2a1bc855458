//! Files backed by a memory of their own.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use esker::ground::{Heap, Memory, Undo};
use esker::memory::{Home, Options, Resident};
use esker::posix::{Allocate, Caller, Fs, SetAttr, XattrMode};
use esker::{Attr, Error, Ino, Kind, Result, Time, XattrName};
use esker_embedded::mounted::{self, Mounted};
use esker_embedded::{Backing, BackingHead, Fd, Files, MountError, Open, Settings, Whence};

type Here = Files<&'static Heap>;
type Door = Fs<Mounted<Home<Resident<&'static Heap>>>>;

static NOW: AtomicI64 = AtomicI64::new(5);

fn now() -> Time {
    Time { secs: NOW.load(Ordering::Relaxed), nanos: 0 }
}

/// A memory that outlives whoever uses it.
fn memory() -> &'static Heap {
    Box::leak(Box::new(Heap::new()))
}

/// A memory that comes to its end in a write, of which half is done.
#[derive(Clone, Copy)]
struct Mortal {
    memory: &'static Heap,
    /// Writes until then, of all that share a fate.
    left: &'static AtomicU64,
}

impl Memory for Mortal {
    fn size(&self) -> u64 {
        self.memory.size()
    }

    fn grow(&self, size: u64) -> Result<()> {
        self.memory.grow(size)
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        self.memory.read(at, target)
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        match self.left.load(Ordering::Relaxed) {
            0 => return Err(Error::Io),
            left => self.left.store(left - 1, Ordering::Relaxed),
        }
        if self.left.load(Ordering::Relaxed) > 0 {
            return self.memory.write(at, source);
        }
        self.memory.write(at, &source[..source.len() / 2])?;
        Err(Error::Io)
    }
}

fn files(memory: &'static Heap) -> Here {
    Files::open_memory(memory, now).unwrap()
}

fn put<M: Memory>(files: &mut Files<M>, path: &[u8], bytes: &[u8]) {
    let file = files.open(Fd::ROOT, path, Open::EMPTY).unwrap();
    assert_eq!(files.write(file, bytes), Ok(bytes.len()));
    files.close(file).unwrap();
}

fn get<M: Memory>(files: &mut Files<M>, path: &[u8]) -> Vec<u8> {
    let file = files.open(Fd::ROOT, path, Open::READ).unwrap();
    let size = files.stat(file).unwrap().size;
    assert_eq!(files.stat_path(Fd::ROOT, path, true).unwrap().size, size);
    let mut bytes = vec![0; size as usize + 1];
    assert_eq!(files.read(file, &mut bytes), Ok(size as usize));
    files.close(file).unwrap();
    bytes.truncate(size as usize);
    bytes
}

#[test]
fn what_is_written_above_is_in_the_memory_and_survives_an_upgrade() {
    let (home, own) = (memory(), memory());
    let mut first = files(home);
    put(&mut first, b"db", b"below");
    let open = first.open(Fd::ROOT, b"db", Open::WRITE).unwrap();
    first.mount(Fd::ROOT, b"db", Box::new(own), Backing::Kept).unwrap();
    assert_eq!(get(&mut first, b"db"), b"", "the memory is a new one");
    let used = first.space().used;
    for part in 0..100_u8 {
        assert_eq!(first.write(open, &[part; 1000]), Ok(1000), "a handle from before");
    }
    assert_eq!(first.space().used, used, "nothing of it is below");
    // An upgrade, with nothing closed.
    drop(first);
    let mut later = files(home);
    assert_eq!(get(&mut later, b"db"), b"below", "not mounted yet");
    later.mount(Fd::ROOT, b"db", Box::new(own), Backing::Kept).unwrap();
    let bytes = get(&mut later, b"db");
    assert!(bytes.chunks(1000).zip(0..).all(|(part, byte)| part == [byte; 1000]));
    assert_eq!(bytes.len(), 100_000);
    // Back and forth between the two.
    later.store_mounted(Fd::ROOT, b"db").unwrap();
    later.unmount(Fd::ROOT, b"db").unwrap();
    assert_eq!(get(&mut later, b"db"), bytes);
    put(&mut later, b"db", b"other bytes");
    later.mount(Fd::ROOT, b"db", Box::new(own), Backing::Kept).unwrap();
    assert_eq!(get(&mut later, b"db"), bytes);
    later.init_mounted(Fd::ROOT, b"db").unwrap();
    assert_eq!(get(&mut later, b"db"), b"other bytes");
    assert_eq!(later.fs().store().check(), []);
}

#[test]
fn each_call_that_concerns_bytes_is_the_memory_s() {
    let (home, own) = (memory(), memory());
    let settings = Settings { file_size_max: 200_000, ..Settings::default() };
    let mut files = Files::open_memory_with(home, now, &settings).unwrap();
    files.mount(Fd::ROOT, b"f", Box::new(own), Backing::Kept).unwrap();
    let file = files.open(Fd::ROOT, b"f", Open::WRITE).unwrap();
    files.write_at(file, 0, &[7; 50_000]).unwrap();
    files.set_len(file, 10).unwrap();
    // What was cut off is not there again, neither behind a gap nor in what is made longer.
    files.write_at(file, 20_000, b"x").unwrap();
    files.set_len(file, 60_000).unwrap();
    let mut bytes = vec![1; 60_001];
    assert_eq!(files.read_at(file, 0, &mut bytes), Ok(60_000));
    let mut expected = vec![0; 60_000];
    expected[..10].fill(7);
    expected[20_000] = b'x';
    assert!(bytes[..60_000] == expected);
    assert_eq!(files.seek(file, -1, Whence::End), Ok(59_999));
    let end = files.open(Fd::ROOT, b"f", Open { append: true, ..Open::READ }).unwrap();
    files.write(end, b"end").unwrap();
    assert_eq!(files.stat(file).unwrap().size, 60_003);
    assert_eq!(files.write_at(file, 199_999, b"xy"), Err(Error::FileTooBig));
    assert_eq!(files.set_len(file, 200_001), Err(Error::FileTooBig));
    let before = files.stat(file).unwrap().mtime;
    NOW.fetch_add(7, Ordering::Relaxed);
    files.write_at(file, 0, b"later").unwrap();
    assert!(files.stat(file).unwrap().mtime.secs >= before.secs + 7);
    let emptied = files.open(Fd::ROOT, b"f", Open::EMPTY).unwrap();
    assert_eq!(files.stat(emptied).unwrap().size, 0);
    // Its name stays, and moves.
    assert_eq!(files.unlink(Fd::ROOT, b"f"), Err(Error::Busy));
    files.rename(Fd::ROOT, b"f", Fd::ROOT, b"g").unwrap();
    files.write(emptied, b"still").unwrap();
    assert_eq!(files.stat_path(Fd::ROOT, b"g", true).unwrap().size, 5);
    files.mkdir(Fd::ROOT, b"d").unwrap();
    let other = files.open(Fd::ROOT, b"other", Open::CREATE).unwrap();
    files.close(other).unwrap();
    assert_eq!(files.rename(Fd::ROOT, b"other", Fd::ROOT, b"g"), Err(Error::Busy));
}

/// Bytes from the first address on, as somebody else keeps them there.
#[test]
fn a_memory_of_nothing_but_bytes_is_told_how_long_it_is() {
    let (home, own) = (memory(), memory());
    own.grow(65_536).unwrap();
    own.write(0, b"raw bytes").unwrap();
    let mut files = files(home);
    files.mount(Fd::ROOT, b"f", Box::new(own), Backing::Raw { size: 9 }).unwrap();
    assert_eq!(get(&mut files, b"f"), b"raw bytes");
    let mut back = [0; 4];
    files.unmount(Fd::ROOT, b"f").unwrap().read(4, &mut back).unwrap();
    assert_eq!(&back, b"byte");
    files.mount(Fd::ROOT, b"f", Box::new(own), Backing::RawPages).unwrap();
    assert_eq!(get(&mut files, b"f").len(), 65_536);
}

/// The same, where the file below keeps how long it is: through upgrades, for handles and for doors.
#[test]
fn the_file_below_keeps_how_long_a_memory_of_bytes_is() {
    let (home, own) = (memory(), memory());
    own.grow(65_536).unwrap();
    own.write(0, b"raw bytes").unwrap();
    let mount = |files: &mut Here, first| {
        files.mount(Fd::ROOT, b"f", Box::new(own), Backing::RawKept { first })
    };
    let mut first = files(home);
    mount(&mut first, 9).unwrap();
    assert_eq!(get(&mut first, b"f"), b"raw bytes");
    let file = first.open(Fd::ROOT, b"f", Open { append: true, ..Open::READ }).unwrap();
    // Twice in the same moment.
    first.write(file, b", and").unwrap();
    first.write(file, b" more").unwrap();
    drop(first);
    let mut later = files(home);
    mount(&mut later, 65_536).unwrap();
    assert_eq!(get(&mut later, b"f"), b"raw bytes, and more");
    let file = later.open(Fd::ROOT, b"f", Open::WRITE).unwrap();
    later.set_len(file, 3).unwrap();
    drop(later);
    let mut later = files(home);
    mount(&mut later, 65_536).unwrap();
    let file = later.open(Fd::ROOT, b"f", Open::WRITE).unwrap();
    later.write_at(file, 5, b"!").unwrap();
    assert_eq!(get(&mut later, b"f"), b"raw\0\0!", "what was cut off is not there again");
    // What is copied there is as long as it was below.
    later.unmount(Fd::ROOT, b"f").unwrap();
    put(&mut later, b"f", &[7; 100_000]);
    mount(&mut later, 0).unwrap();
    later.init_mounted(Fd::ROOT, b"f").unwrap();
    drop(later);
    let mut later = files(home);
    mount(&mut later, 0).unwrap();
    assert!(get(&mut later, b"f") == [7; 100_000]);
    later.unmount(Fd::ROOT, b"f").unwrap();
    let short = Box::new(esker::ground::Region::new(own, 0, 65_536).unwrap());
    let refused = later.mount(Fd::ROOT, b"f", short, Backing::RawKept { first: 0 });
    assert_eq!(refused, Err(MountError::Short { needs: 100_000, has: 65_536 }));
    let file = later.open(Fd::ROOT, b"f", Open::READ).unwrap();
    let ino = later.ino(file).unwrap();
    let name = XattrName::parse(b"trusted.esker.mounted_size").unwrap();
    let (me, any) = (Caller::ROOT, XattrMode::Any);
    later.fs().setxattr(&me, ino, name, b"many", any, false).unwrap();
    assert_eq!(mount(&mut later, 0), Err(MountError::File(Error::Corrupt)));
    later.mount(Fd::ROOT, b"f", Box::new(own), Backing::RawPages).unwrap();
    assert_eq!(later.fs().store().check(), []);
}

/// A home behind a door, with one file in `own`.
fn door(home: &'static Heap, own: &'static Heap, backing: Backing) -> (Door, Ino) {
    let root = Attr::new(Kind::Directory, 0o755, 0, 0, Ino::ROOT, now());
    let options = Options { size_max: u64::MAX, file_size_max: u64::MAX, root };
    let home = Home::<Resident<&Heap>>::open(home, &options).unwrap();
    let fs = Fs::new(Mounted::new(home), now);
    mounted::mount(&fs, b"f", Box::new(own), backing).unwrap();
    let ino = fs.walk(&Caller::ROOT, Ino::ROOT, b"f", true).unwrap().ino;
    (fs, ino)
}

#[test]
fn doors_find_a_mounted_file_as_long_as_it_was() {
    for backing in [Backing::Kept, Backing::RawKept { first: 0 }] {
        let (home, own) = (memory(), memory());
        let (fs, ino) = door(home, own, backing);
        for at in [0, 5, 10] {
            assert_eq!(fs.write(ino, at, b"bytes", false), Ok(5));
        }
        let (fs, ino) = door(home, own, backing);
        assert_eq!(fs.getattr(ino).unwrap().size, 15);
        fs.setattr(&Caller::ROOT, ino, &SetAttr { size: Some(7), ..SetAttr::default() }).unwrap();
        let (fs, ino) = door(home, own, backing);
        let mut bytes = [0; 20];
        assert_eq!((fs.read(ino, 0, &mut bytes), &bytes[..7]), (Ok(7), &b"bytesby"[..]));
        mounted::store_mounted(&fs, b"f").unwrap();
        mounted::unmount(&fs, b"f").unwrap();
        assert_eq!(fs.getattr(ino).unwrap().size, 7);
        fs.write(ino, 0, &[1; 5000], false).unwrap();
        mounted::mount(&fs, b"f", Box::new(own), backing).unwrap();
        assert_eq!(fs.getattr(ino).unwrap().size, 7);
        mounted::init_mounted(&fs, b"f").unwrap();
        let (fs, ino) = door(home, own, backing);
        assert_eq!(fs.getattr(ino).unwrap().size, 5000);
    }
}

/// Also where the bytes are in a memory of their own.
#[test]
fn doors_keep_to_a_file_s_own_limit() {
    let (home, own) = (memory(), memory());
    let (fs, ino) = door(home, own, Backing::Kept);
    let me = Caller::ROOT;
    fs.write(ino, 0, &[1; 4000], false).unwrap();
    fs.set_size_limit(&me, ino, Some(5000)).unwrap();
    let size = |size| SetAttr { size: Some(size), ..SetAttr::default() };
    for _ in 0..2 {
        assert_eq!(fs.write(ino, 4000, &[2; 1001], false), Err(Error::FileTooBig));
        assert_eq!(fs.setattr(&me, ino, &size(5001)).err(), Some(Error::FileTooBig));
        assert_eq!(fs.fallocate(&me, ino, Allocate::Reserve, 0, 5001), Err(Error::FileTooBig));
    }
    assert_eq!(fs.getattr(ino).unwrap().size, 4000);
    assert_eq!(fs.write(ino, 4000, &[2; 1000], false), Ok(1000));
    // After an upgrade as well, and when it has its own bytes again.
    let (fs, ino) = door(home, own, Backing::Kept);
    assert_eq!(fs.size_limit(ino), Ok(Some(5000)));
    assert_eq!(fs.write(ino, 5000, b"x", false), Err(Error::FileTooBig));
    mounted::unmount(&fs, b"f").unwrap();
    assert_eq!(fs.write(ino, 5000, b"x", false), Err(Error::FileTooBig));
    fs.set_size_limit(&me, ino, None).unwrap();
    assert_eq!(fs.write(ino, 5000, b"x", false), Ok(1));
}

#[test]
fn what_cannot_be_mounted_is_named_and_stays_as_it_is() {
    let (home, own) = (memory(), memory());
    let mut files = files(home);
    let mut refused = |memory: &'static Heap, backing| {
        let mut before = vec![0; memory.size() as usize];
        memory.read(0, &mut before).unwrap();
        let refused = files.mount(Fd::ROOT, b"f", Box::new(memory), backing).err();
        let mut after = vec![0; memory.size() as usize];
        memory.read(0, &mut after).unwrap();
        assert!(before == after, "a memory that is refused stays as it is");
        refused
    };
    // The home's own memory, and any that holds another.
    assert_eq!(refused(home, Backing::Kept), Some(MountError::Foreign));
    own.grow(1).unwrap();
    own.write(50_000, &[1]).unwrap();
    assert_eq!(refused(own, Backing::Kept), Some(MountError::Foreign), "somebody's zeros");
    own.grow(8192).unwrap();
    let head = BackingHead { magic: *b"EskrFile", version: 1, start: 4096, size: own.size() };
    own.write(0, &head.encode()).unwrap();
    let needs = own.size() + 4096;
    assert_eq!(refused(own, Backing::Kept), Some(MountError::Short { needs, has: own.size() }));
    let far = BackingHead { size: u64::MAX, ..head };
    own.write(0, &far.encode()).unwrap();
    assert!(matches!(refused(own, Backing::Kept), Some(MountError::Short { needs: u64::MAX, .. })));
    own.write(0, &BackingHead { version: 2, ..head }.encode()).unwrap();
    assert_eq!(refused(own, Backing::Kept), Some(MountError::Version { found: 2 }));
    own.write(0, &BackingHead { start: 64, ..head }.encode()).unwrap();
    assert_eq!(refused(own, Backing::Kept), Some(MountError::Foreign));
    let needs = own.size() + 1;
    let short = MountError::Short { needs, has: own.size() };
    assert_eq!(refused(own, Backing::Raw { size: needs }), Some(short));
    // The paths.
    let fresh = || Box::new(Heap::new());
    let kind = |error: Error| Err(MountError::File(error));
    files.mkdir(Fd::ROOT, b"d").unwrap();
    assert_eq!(files.mount(Fd::ROOT, b"d", fresh(), Backing::Kept), kind(Error::IsDirectory));
    assert_eq!(files.mount(Fd::ROOT, b"no/f", fresh(), Backing::Kept), kind(Error::NotFound));
    files.mount(Fd::ROOT, b"m", fresh(), Backing::Kept).unwrap();
    assert_eq!(files.mount(Fd::ROOT, b"m", fresh(), Backing::Kept), kind(Error::Busy));
    assert_eq!(files.unmount(Fd::ROOT, b"f").err(), Some(Error::NotFound), "nothing was made");
    assert_eq!(files.unmount(Fd::ROOT, b"d").err(), Some(Error::Invalid));
    assert_eq!(files.store_mounted(Fd::ROOT, b"d"), Err(Error::Invalid));
    assert_eq!(files.init_mounted(Fd::ROOT, b"none"), Err(Error::NotFound));
}

/// A memory that cannot grow: the file stays as long as it is, and so do its bytes.
#[test]
fn a_full_memory_refuses_what_does_not_fit() {
    let own = esker::ground::Region::new(Heap::new(), 0, 70_000).unwrap();
    let mut files = files(memory());
    files.mount(Fd::ROOT, b"f", Box::new(own), Backing::Kept).unwrap();
    let file = files.open(Fd::ROOT, b"f", Open::WRITE).unwrap();
    files.write(file, &[1; 60_000]).unwrap();
    assert_eq!(files.write(file, &[2; 10_000]), Err(Error::NoSpace));
    assert_eq!(files.set_len(file, 1 << 40), Err(Error::NoSpace));
    let bytes = get(&mut files, b"f");
    assert!(bytes == [1; 60_000]);
}

/// Ends the copying from or to a mounted file at one write after the other, and comes back: each time what there was
/// before, or what was copied. How many ends there were.
fn end_in_between(store: bool) -> u64 {
    let (small, large) = (vec![1; 9000], vec![2; 300_000]);
    for last in 1.. {
        let left: &AtomicU64 = Box::leak(Box::new(AtomicU64::new(u64::MAX)));
        let [home, home_log, own, own_log] = [(); 4].map(|()| Mortal { memory: memory(), left });
        let open = || Files::open_memory(Undo::open(home, home_log).unwrap(), now).unwrap();
        let own = || Box::new(Undo::open(own, own_log).unwrap());
        let (below, above) = if store { (&small, &large) } else { (&large, &small) };
        let mut files = open();
        put(&mut files, b"db", below);
        files.mount(Fd::ROOT, b"db", own(), Backing::Kept).unwrap();
        put(&mut files, b"db", above);
        left.store(last, Ordering::Relaxed);
        let done = match store {
            true => files.store_mounted(Fd::ROOT, b"db"),
            false => files.init_mounted(Fd::ROOT, b"db"),
        };
        drop(files);
        left.store(u64::MAX, Ordering::Relaxed);
        let mut later = open();
        assert_eq!(later.fs().store().check(), []);
        if !store {
            later.mount(Fd::ROOT, b"db", own(), Backing::Kept).unwrap();
        }
        let found = get(&mut later, b"db");
        if done.is_ok() {
            assert!(found == large);
            return last - 1;
        }
        assert!(found == small || found == large, "ended at write {last}: {}", found.len());
        // What was copied and not used goes.
        later.open(Fd::ROOT, b"other", Open::CREATE).unwrap();
        assert!(later.space().inodes == 3, "ended at write {last}");
    }
    unreachable!()
}

#[test]
fn copying_from_and_to_a_mounted_file_is_whole_or_absent() {
    assert!(end_in_between(true) > 20);
    assert!(end_in_between(false) > 20);
}

/// Nothing of it stays when there is no room for both.
#[test]
fn what_cannot_be_copied_leaves_what_there_was() {
    let settings = Settings { size_max: 1 << 20, ..Settings::default() };
    let mut files = Files::open_memory_with(memory(), now, &settings).unwrap();
    put(&mut files, b"f", b"below");
    files.mount(Fd::ROOT, b"f", Box::new(memory()), Backing::Kept).unwrap();
    put(&mut files, b"f", &[7; 2 << 20]);
    let used = files.space().used;
    assert_eq!(files.store_mounted(Fd::ROOT, b"f"), Err(Error::NoSpace));
    assert_eq!(get(&mut files, b"f").len(), 2 << 20);
    files.unmount(Fd::ROOT, b"f").unwrap();
    assert_eq!(get(&mut files, b"f"), b"below");
    assert!(files.space().used <= used + 65_536);
    let narrow = esker::ground::Region::new(Heap::new(), 0, 8192).unwrap();
    files.mount(Fd::ROOT, b"f", Box::new(narrow), Backing::Kept).unwrap();
    put(&mut files, b"f", b"above");
    let file = files.open(Fd::ROOT, b"g", Open::CREATE).unwrap();
    files.write(file, &[1; 10_000]).unwrap();
    let narrow = files.unmount(Fd::ROOT, b"f").unwrap();
    files.mount(Fd::ROOT, b"g", narrow, Backing::Kept).unwrap();
    assert_eq!(files.init_mounted(Fd::ROOT, b"g"), Err(Error::NoSpace));
    assert_eq!(get(&mut files, b"g"), b"above");
    assert_eq!(files.fs().store().check(), []);
}

/// A memory that any version wrote is mounted by all later ones, and can be changed. `ESKER_GOLDEN=1` writes down the
/// one of this version, for when there is a new one.
#[test]
fn golden_memories_are_mounted_for_ever() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let bytes: Vec<u8> = (0..3000_u32).map(|index| (index % 251) as u8).collect();
    if std::env::var_os("ESKER_GOLDEN").is_some() {
        let own = memory();
        let mut files = files(memory());
        files.mount(Fd::ROOT, b"f", Box::new(own), Backing::Kept).unwrap();
        put(&mut files, b"f", &bytes);
        let mut stored = vec![0; 8192];
        let len = stored.len().min(own.size() as usize);
        own.read(0, &mut stored[..len]).unwrap();
        std::fs::write(folder.join("v1.file"), &stored[..len]).unwrap();
    }
    let mut versions = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let stored = std::fs::read(file.unwrap().path()).unwrap();
        let own = memory();
        own.grow(stored.len() as u64).unwrap();
        own.write(0, &stored).unwrap();
        let mut files = files(memory());
        files.mount(Fd::ROOT, b"f", Box::new(own), Backing::Kept).unwrap();
        assert!(get(&mut files, b"f") == bytes);
        let file = files.open(Fd::ROOT, b"f", Open { append: true, ..Open::READ }).unwrap();
        files.write(file, &[9; 70_000]).unwrap();
        assert!(get(&mut files, b"f")[3000..] == [9; 70_000]);
        versions += 1;
    }
    assert!(versions > 0, "no golden memory");
}
