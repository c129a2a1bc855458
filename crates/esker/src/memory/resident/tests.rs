//! The embedded home from inside: what no call from above can bring about.

use super::{OpenError, Resident, Superblock};
use crate::attr::{Attr, Kind, Time};
use crate::error::Error;
use crate::ground::{Heap, Memory};
use crate::ids::Ino;
use crate::memory::finding::Finding;
use crate::memory::home::{Home, Options};
use crate::memory::keys;
use crate::memory::record::ExtentValue;
use crate::store::{Batch, Change, Store, Use, View};

fn options() -> Options {
    let root = Attr::new(Kind::Directory, 0o755, 1, 1, Ino::ROOT, Time::default());
    Options { size_max: 1 << 30, file_size_max: 1 << 40, root }
}

fn open(memory: &Heap) -> Result<Home<Resident<&Heap>>, OpenError> {
    Home::<Resident<&Heap>>::open(memory, &options())
}

/// A memory with a new home, but for some bytes of its superblock, with the right check over them or not.
fn spoilt(spoil: impl FnOnce(&mut Superblock), seal: bool) -> Option<OpenError> {
    let memory = Heap::new();
    drop(open(&memory).unwrap());
    let mut superblock = Superblock::read(&memory).unwrap();
    spoil(&mut superblock);
    let bytes = if seal { superblock.sealed() } else { superblock.encode() };
    memory.write(0, &bytes).unwrap();
    let mut before = alloc::vec![0; memory.size() as usize];
    memory.read(0, &mut before).unwrap();
    let found = open(&memory).err();
    let mut after = alloc::vec![0; memory.size() as usize];
    memory.read(0, &mut after).unwrap();
    assert!(before == after, "a memory that is not opened stays as it is");
    found
}

#[test]
fn what_cannot_be_opened_is_named() {
    assert_eq!(spoilt(|_| {}, true), None);
    assert_eq!(spoilt(|block| block.magic[0] = b'e', true), Some(OpenError::Foreign));
    let older = OpenError::Version { found: 0 };
    assert_eq!(spoilt(|block| block.version = 0, true), Some(older));
    let newer = OpenError::Version { found: 2 };
    assert_eq!(spoilt(|block| block.version = 2, false), Some(newer));
    let size = OpenError::PageSize { found: 8192, granule: 512 };
    assert_eq!(spoilt(|block| block.page_size = 8192, true), Some(size));
    assert_eq!(spoilt(|block| block.inodes += 1, false), Some(OpenError::Torn));
    // More than fit its pages.
    assert_eq!(spoilt(|block| block.inodes = 1 << 60, true), Some(OpenError::Torn));
    assert_eq!(spoilt(|block| block.spare = 897, true), Some(OpenError::Torn));
    assert_eq!(spoilt(|block| block.free = block.end + 1, true), Some(OpenError::Torn));
    let short = OpenError::Short { needs: 1 << 30, has: 1 << 16 };
    assert_eq!(spoilt(|block| block.end = 1 << 21, true), Some(short));
    let short = OpenError::Short { needs: u64::MAX, has: 1 << 16 };
    assert_eq!(spoilt(|block| block.end = u64::MAX, true), Some(short));
    assert_eq!(
        spoilt(|block| block.keys_levels = 0, true),
        Some(OpenError::Memory(Error::Corrupt))
    );
    let foreign = Heap::new();
    foreign.grow(1 << 16).unwrap();
    foreign.write(65_535, &[1]).unwrap();
    assert_eq!(open(&foreign).err(), Some(OpenError::Foreign));
    foreign.write(65_535, &[0]).unwrap();
    assert!(open(&foreign).is_ok(), "nothing is in it");
}

#[test]
fn an_inode_noted_wrongly_is_found() {
    let memory = Heap::new();
    let home = open(&memory).unwrap();
    assert_eq!(home.check(), []);
    let mut tree = home.trees[0].write();
    tree.put(&keys::orphan(Ino(7)), &[]).unwrap();
    drop(tree);
    assert_eq!(home.check(), [Finding::Orphan { ino: Ino(7) }]);
}

#[test]
fn a_new_home_is_one_unit() {
    let memory = Heap::new();
    let home = open(&memory).unwrap();
    assert_eq!((memory.size(), home.usage().used), (1 << 16, 1 << 16));
    let small = Options { size_max: 1000, ..options() };
    let nothing = Heap::new();
    let refused = Home::<Resident<&Heap>>::open(&nothing, &small).err();
    assert_eq!(refused, Some(OpenError::Memory(Error::NoSpace)));
    assert_eq!(nothing.size(), 0);
}

#[test]
fn a_piece_past_the_end_is_never_at_hand() {
    let memory = Heap::new();
    let (home, now) = (open(&memory).unwrap(), Time { secs: 7, nanos: 8 });
    let ino = home.next_ino(Ino::ROOT, Kind::File);
    let attr = Attr::new(Kind::File, 0o644, 1, 1, Ino::ROOT, now);
    let source = [7; 9000];
    let mut batch = Batch::new();
    batch.push(Change::Make { ino, attr });
    batch.push(Change::Write { ino, at: 0, source: &source });
    home.commit(&batch).unwrap();
    let mut target = [0; 100];
    for (place, sound) in
        [(None, true), (Some(memory.size() - 4096), false), (Some(1 << 62), false)]
    {
        if let Some(place) = place {
            let value = ExtentValue { place, len: 1000 }.encode();
            home.trees[0].write().put(&keys::extent(ino, 0), &value).unwrap();
        }
        home.space.base.state.lock().cool_all();
        for after in [Use::Write, Use::Read] {
            home.warm(ino, after, now);
        }
        assert_eq!(home.reread(ino, 8000, &mut target, now), Ok(sound.then_some(100)));
        assert_eq!(home.rewrite(ino, 8000, &[1; 100], now), Ok(sound));
    }
}
