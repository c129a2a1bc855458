//! Every way to be broken, planted and found.

use super::extents::Extent;
use super::finding::Finding;
use super::free::Run;
use super::home::{Home, Options};
use super::keys;
use super::pairs::Pairs;
use super::record::{self, Record};
use super::subtree::SubTree;
use crate::attr::{Attr, Kind, Time};
use crate::error::Error;
use crate::ground::{Heap, Memory};
use crate::ids::{Cursor, Ino};
use crate::limits::SUBTREES;
use crate::name::{Name, XattrName};
use crate::store::{Batch, Change, Entry, Store};
use crate::tree::HeapPages;

/// A root with a directory `d`, in it a file `f` with 10 granules; in the root a small file `s`.
struct Scene {
    home: Home<Heap>,
    dir: Ino,
    file: Ino,
    small: Ino,
}

const SEQ: Cursor = Cursor::FIRST;

fn scene() -> Scene {
    let attr = |kind, parent| Attr::new(kind, 0o755, 1, 1, parent, Time::default());
    let root = attr(Kind::Directory, Ino::ROOT);
    let options = Options { size_max: 1 << 30, file_size_max: 1 << 40, root };
    let home = Home::new(Heap::new(), &options).unwrap();
    let dir = home.next_ino(Ino::ROOT, Kind::Directory);
    let file = home.next_ino(dir, Kind::File);
    let small = home.next_ino(Ino::ROOT, Kind::File);
    let name = |name: &'static [u8]| Name::parse(name).unwrap();
    let changes = [
        Change::Make { ino: dir, attr: attr(Kind::Directory, Ino::ROOT) },
        Change::Link { dir: Ino::ROOT, name: name(b"d"), ino: dir, kind: Kind::Directory },
        Change::Set { ino: Ino::ROOT, attr: Attr { nlink: 3, ..root } },
        Change::Make { ino: file, attr: attr(Kind::File, dir) },
        Change::Link { dir, name: name(b"f"), ino: file, kind: Kind::File },
        Change::Write { ino: file, at: 0, source: &[1; 5120] },
        Change::Make { ino: small, attr: attr(Kind::File, Ino::ROOT) },
        Change::Link { dir: Ino::ROOT, name: name(b"s"), ino: small, kind: Kind::File },
    ];
    let colour = XattrName::parse(b"user.a").unwrap();
    let more = [
        Change::Write { ino: small, at: 0, source: b"small" },
        Change::Xattr { ino: small, name: colour, value: Some(&[7; 1200]) },
    ];
    for changes in [&changes[..], &more[..]] {
        let mut batch = Batch::new();
        changes.iter().for_each(|&change| batch.push(change));
        home.commit(&batch).unwrap();
    }
    assert_eq!(home.check(), []);
    Scene { home, dir, file, small }
}

impl Scene {
    fn tree(&self, ino: Ino, change: impl FnOnce(&mut SubTree<HeapPages>)) {
        let mut tree = self.home.trees[keys::group(ino, SUBTREES)].write();
        tree.reserve(8, false, || unreachable!("there is a tree")).unwrap();
        change(&mut tree);
    }

    fn record(&self, ino: Ino, change: impl FnOnce(&mut Record)) {
        self.tree(ino, |tree| {
            let edit = |value: &mut [u8]| {
                let mut record = Record::decode(value).unwrap();
                change(&mut record);
                value[..Record::SIZE].copy_from_slice(&record.encode());
            };
            tree.edit(&keys::inode(ino), edit).unwrap();
        });
    }

    /// The entry of the file in its directory turns into this one, in both places.
    fn entry(&self, entry: Entry) {
        self.tree(self.dir, |tree| {
            tree.put(&keys::name(self.dir, b"f"), &record::name_value(&entry)).unwrap();
            let mut value = record::seq_value(&entry).to_vec();
            value.extend_from_slice(b"f");
            tree.put(&keys::seq(self.dir, entry.seq), &value).unwrap();
        });
    }

    fn extent(&self, start: u64, len: u64, place: u64) {
        let extent = Extent { start, len, place, unwritten: false };
        self.tree(self.file, |tree| {
            tree.put(&keys::extent(self.file, start), &extent.encode()).unwrap();
        });
    }
}

/// Plants one contradiction, after which the check must tell this finding among others.
fn plant(scene: &Scene, finding: Finding) {
    let Scene { home, dir, file, small } = scene;
    let (dir, file, small) = (*dir, *file, *small);
    match finding {
        Finding::Tree { .. } => scene.tree(file, |tree| tree.damage()),
        Finding::Key { .. } => scene.tree(file, |tree| tree.put(b"?", b"").unwrap()),
        Finding::Value { .. } => scene.tree(file, |tree| {
            tree.put(&keys::extent(file, 99), b"short").unwrap();
        }),
        Finding::NoRecord { .. } => scene.tree(file, |tree| {
            tree.remove(&keys::inode(file)).unwrap();
        }),
        Finding::Misplaced { .. } => scene.tree(small, |tree| {
            tree.put(&keys::seq(small, SEQ), b"").unwrap();
        }),
        Finding::EntryWithoutInode { .. } => {
            scene.entry(Entry { ino: Ino(file.0 + 640), kind: Kind::File, seq: SEQ });
        }
        Finding::EntryKind { .. } => {
            scene.entry(Entry { ino: file, kind: Kind::Fifo, seq: SEQ });
        }
        Finding::NameWithoutSeq { .. } => scene.tree(dir, |tree| {
            tree.remove(&keys::seq(dir, SEQ)).unwrap();
        }),
        Finding::SeqWithoutName { .. } => scene.tree(dir, |tree| {
            tree.remove(&keys::name(dir, b"f")).unwrap();
        }),
        Finding::SeqBeyondNext { .. } => scene.record(dir, |record| record.own = SEQ.0),
        Finding::DirectorySize { size, .. } => scene.record(dir, |record| record.size = size),
        Finding::LinkCount { nlink, .. } => scene.record(file, |record| record.nlink = nlink),
        Finding::Parent { parent, .. } => scene.record(dir, |record| record.parent = parent.0),
        Finding::XattrPieces { .. } => scene.tree(small, |tree| {
            tree.remove(&keys::xattr(small, b"user.a", 1)).unwrap();
        }),
        Finding::ExtentOverlap { start, .. } => scene.extent(start, 2, 3),
        Finding::InlineAndExtents { .. } => {
            scene.record(dir, |record| record.inline_len = 0);
            scene.tree(small, |tree| {
                let extent = Extent { start: 0, len: 1, place: 0, unwritten: false };
                tree.put(&keys::extent(small, 0), &extent.encode()).unwrap();
            });
        }
        Finding::Blocks { blocks, .. } => scene.record(file, |record| record.own = blocks),
        Finding::NotClaimed { place, len } => scene.extent(50, len, place),
        Finding::NotUsed { .. } => {
            home.space.claim(1, None, false, &mut Default::default()).unwrap()
        }
        Finding::Uses { place, .. } => {
            home.space.share(Run { start: place, len: 1 }).unwrap();
        }
        Finding::Accounts { .. } => {
            home.space.map.lock().free.by_start.put((u64::MAX, 1), 0).unwrap();
        }
        Finding::FreeByLength => {
            home.space.map.lock().free.by_len.put((1, 1), 0).unwrap();
        }
        // Where nothing outlives the home nothing is noted: see `resident::tests`.
        Finding::Orphan { .. } => {}
        Finding::Budget { .. } => home.budget.force(1),
        Finding::Inodes { .. } => home.count_in(file),
    }
}

#[test]
fn finds_what_was_planted() {
    let Scene { home, dir, file, small } = scene();
    let end = home.memory().size() / crate::limits::GRANULE;
    let (group, used) = (keys::group(file, SUBTREES), home.budget.used());
    let findings = [
        Finding::Tree { group, error: Error::Corrupt },
        Finding::Key { group },
        Finding::Value { ino: file },
        Finding::NoRecord { ino: file },
        Finding::Misplaced { ino: small },
        Finding::EntryWithoutInode { dir, seq: SEQ },
        Finding::EntryKind { dir, seq: SEQ },
        Finding::NameWithoutSeq { dir, seq: SEQ },
        Finding::SeqWithoutName { dir, seq: SEQ },
        Finding::SeqBeyondNext { dir, seq: SEQ },
        Finding::DirectorySize { dir, size: 5, found: 1 },
        Finding::LinkCount { ino: file, nlink: 2, found: 1 },
        Finding::Parent { dir, parent: Ino(77), found: Ino::ROOT },
        Finding::XattrPieces { ino: small },
        Finding::ExtentOverlap { ino: file, start: 3 },
        Finding::InlineAndExtents { ino: small },
        Finding::Blocks { ino: file, blocks: 3, found: 10 },
        Finding::NotClaimed { place: end, len: 4 },
        Finding::NotClaimed { place: 10, len: 1 },
        Finding::NotUsed { place: 10, len: 1 },
        Finding::Uses { place: 4, uses: 2, found: 1 },
        Finding::Accounts { error: Error::Corrupt },
        Finding::FreeByLength,
        Finding::Budget { used: used + 1, found: used },
        Finding::Inodes { inodes: 5, found: 4 },
    ];
    for finding in findings {
        let scene = scene();
        plant(&scene, finding);
        let found = scene.home.check();
        assert!(found.contains(&finding), "planted {finding:?}, found {found:?}");
    }
}
