//! Every kind of rows reads as it was written, whatever is in them; and no bytes make reading panic.

use esker::{Attr, Flags, Ino, Kind, Time};
use esker_stone::rows::blocks::{BlockRow, Blocks};
use esker_stone::rows::extents::{BlockName, Content, Extent, Extents, Piece, Place};
use esker_stone::rows::inodes::{Inode, Inodes};
use esker_stone::rows::names::{Named, Names};
use esker_stone::rows::pages::{Child, Inner};
use esker_stone::rows::xattrs::{Xattr, Xattrs};
use esker_stone::{Codec, Measure, PageRef, Transform};
use proptest::prelude::*;

const KINDS: [Kind; 7] = [
    Kind::File,
    Kind::Directory,
    Kind::Symlink,
    Kind::Fifo,
    Kind::Socket,
    Kind::CharDevice,
    Kind::BlockDevice,
];

fn kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(&KINDS[..])
}

fn time() -> impl Strategy<Value = Time> {
    (any::<i64>(), 0u32..1_000_000_000).prop_map(|(secs, nanos)| Time { secs, nanos })
}

fn measure() -> impl Strategy<Value = Measure> {
    prop::sample::select(&[Measure::Raw, Measure::Packed][..])
}

prop_compose! {
    fn inode()(
        kind in kind(), perm in 0u16..0o10000, ids in any::<[u32; 5]>(),
        size in 0..i64::MAX as u64,
        blocks in any::<u64>(), parent in any::<u64>(), times in prop::array::uniform4(time()),
        same in any::<bool>(), inline in prop::collection::vec(any::<u8>(), 1..40),
        keep in any::<bool>(),
    ) -> Inode {
        let [atime, mtime, ctime, btime] = if same { [times[0]; 4] } else { times };
        let holds = kind == Kind::Symlink || (kind == Kind::File && keep);
        let inline = if holds { inline } else { Vec::new() };
        let size = if holds { inline.len() as u64 } else { size };
        let parent = Ino(if kind == Kind::Directory { parent } else { 0 });
        let attr = Attr {
            kind, perm, uid: ids[0], gid: ids[1], nlink: ids[2], rdev: ids[3], flags: Flags(ids[4]),
            size, blocks, parent, atime, mtime, ctime, btime,
        };
        Inode { ino: Ino(0), attr, inline }
    }
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let byte = any::<u8>().prop_filter("in a name", |byte| *byte != 0 && *byte != b'/');
    prop::collection::vec(byte, 1..256).prop_filter("no dots", |name| name != b"." && name != b"..")
}

fn place() -> impl Strategy<Value = Option<Place>> {
    prop::option::of((1..u64::MAX, any::<u32>(), 0u32..64 << 20)).prop_map(|place| {
        place.map(|(segment, slot, offset)| Place { block: BlockName { segment, slot }, offset })
    })
}

/// Pieces of a file that is others with changes: of few blocks, most where an earlier one ended, where it would have
/// gone on, or where it began.
fn changed() -> impl Strategy<Value = Vec<Piece>> {
    prop::collection::vec((1u64..4000, 0usize..6, any::<prop::sample::Index>()), 1..60).prop_map(
        |steps| {
            let (mut pieces, mut at): (Vec<(u64, Piece)>, _) = (Vec::new(), 0);
            for (number, (len, how, back)) in steps.into_iter().enumerate() {
                let block = BlockName { segment: 1 + number as u64 % 3, slot: number as u32 % 5 };
                let alone = Place { block, offset: number as u32 * 7919 };
                let other = (!pieces.is_empty()).then(|| pieces[back.index(pieces.len())]);
                let further = |by: u64| {
                    let (_, other) = other?;
                    let Place { block, offset } = other.place?;
                    Some(Place { block, offset: u32::try_from(u64::from(offset) + by).ok()? })
                };
                let place = match (how, other) {
                    (0, _) => None,
                    (1, Some((_, other))) => further(other.len),
                    (2, Some((from, _))) => further(at - from),
                    (3, _) => further(0),
                    _ => Some(alone),
                };
                pieces.push((at, Piece { len, place }));
                at += len;
            }
            pieces.into_iter().map(|(_, piece)| piece).collect()
        },
    )
}

fn content() -> impl Strategy<Value = (Content, u64)> {
    let with_len = |pieces: Vec<Piece>| {
        let len = pieces.iter().map(|piece| piece.len).sum();
        (Content::Pieces(pieces), len)
    };
    let pieces = prop::collection::vec((1u64..1 << 40, place()), 1..20).prop_map(move |pieces| {
        with_len(pieces.into_iter().map(|(len, place)| Piece { len, place }).collect())
    });
    prop_oneof![
        pieces,
        changed().prop_map(with_len),
        (1u64..1000).prop_map(|ino| (Content::Same(Ino(1 << 40 | ino)), 0))
    ]
}

fn damaged(plain: &[u8], cut: usize, at: usize, bit: u8) -> Vec<u8> {
    let mut plain = plain.to_vec();
    if let Some(byte) = plain.get_mut(at) {
        *byte ^= 1 << bit;
    }
    plain.truncate(cut);
    plain
}

/// What was read can be asked for, row by row.
fn read_all(plain: &[u8]) {
    if let Ok(page) = Inodes::decode(plain) {
        assert!((0..page.len()).all(|row| page.attr_at(row).is_ok()));
    }
    if let Ok(page) = Names::decode(plain) {
        assert!((0..page.len()).all(|row| page.child(row).is_ok() && !page.name(row).is_empty()));
    }
    if let Ok(page) = Extents::decode(plain) {
        assert!((0..page.len()).all(|row| page.row(row).is_ok()));
    }
    if let Ok(page) = Xattrs::decode(plain) {
        assert!((0..page.len()).all(|row| page.row(row).is_some()));
    }
    if let Ok(page) = Inner::decode(plain) {
        assert!((0..page.len()).all(|row| page.page(row).is_some()));
    }
    if let Ok(page) = Blocks::decode(plain) {
        assert!(page.iter().all(|(slot, row)| page.find(slot) == Some(row)));
    }
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn inodes(
        rows in prop::collection::vec((inode(), 1u64..1 << 50), 1..50), measure in measure(),
        cut in 0usize..10_000, at in 0usize..4000, bit in 0u8..8,
    ) {
        let mut ino = 0;
        let rows: Vec<_> = rows.into_iter().map(|(row, step)| {
            ino += step;
            Inode { ino: Ino(ino), ..row }
        }).collect();
        let plain = Inodes::encode(&rows, measure);
        let page = Inodes::decode(&plain).unwrap();
        prop_assert_eq!(page.len(), rows.len());
        for (row, inode) in rows.iter().enumerate() {
            prop_assert_eq!(page.find(inode.ino), Some(row));
            prop_assert_eq!(page.attr_at(row).unwrap(), inode.attr);
            prop_assert_eq!(page.inline_at(row), &inode.inline[..]);
        }
        read_all(&damaged(&plain, cut, at, bit));
    }

    #[test]
    fn names(
        rows in prop::collection::btree_map((any::<u64>(), name()), (any::<u64>(), kind()), 1..50),
        measure in measure(), cut in 0usize..20_000, at in 0usize..9000, bit in 0u8..8,
    ) {
        let rows: Vec<_> = rows.into_iter().map(|((dir, name), (ino, kind))| {
            Named { dir: Ino(dir), name, ino: Ino(ino), kind, seq: 0 }
        }).collect();
        let plain = Names::encode(&rows, measure);
        let page = Names::decode(&plain).unwrap();
        for (row, named) in rows.iter().enumerate() {
            prop_assert_eq!(page.lower_bound(named.dir, &named.name), row);
            prop_assert_eq!(page.child(row).unwrap(), (named.ino, named.kind));
            prop_assert_eq!((page.dir(row), page.name(row)), (Some(named.dir), &named.name[..]));
        }
        read_all(&damaged(&plain, cut, at, bit));
    }

    #[test]
    fn xattrs(
        rows in prop::collection::btree_map(
            (any::<u64>(), name()), prop::collection::vec(any::<u8>(), 0..300), 1..30),
        measure in measure(), cut in 0usize..20_000, at in 0usize..9000, bit in 0u8..8,
    ) {
        let rows: Vec<_> = rows.into_iter()
            .map(|((ino, name), value)| Xattr { ino: Ino(ino), name, value }).collect();
        let plain = Xattrs::encode(&rows, measure);
        let page = Xattrs::decode(&plain).unwrap();
        for (row, xattr) in rows.iter().enumerate() {
            prop_assert_eq!(page.lower_bound(xattr.ino, &xattr.name), row);
            prop_assert_eq!(page.row(row), Some((xattr.ino, &xattr.name[..], &xattr.value[..])));
        }
        read_all(&damaged(&plain, cut, at, bit));
    }

    #[test]
    fn extents(
        rows in prop::collection::vec((content(), any::<bool>()), 1..40), measure in measure(),
        cut in 0usize..20_000, at in 0usize..9000, bit in 0u8..8,
    ) {
        let (mut ino, mut start) = (1, 0);
        let mut written = Vec::new();
        for ((content, len), last) in rows {
            let alias = matches!(content, Content::Same(_));
            if alias && start > 0 {
                (ino, start) = (ino + 1, 0);
            }
            let own = (!last && !alias).then_some(len);
            written.push(Extent { ino: Ino(ino), start, len: own, content });
            (ino, start) = if own.is_none() { (ino + 1, 0) } else { (ino, start + len) };
        }
        let plain = Extents::encode(&written, measure);
        let page = Extents::decode(&plain).unwrap();
        for (row, extent) in written.iter().enumerate() {
            let mut expected = extent.clone();
            if let (None, Content::Pieces(pieces)) = (expected.len, &mut expected.content) {
                // Its length is the file's affair.
                pieces.last_mut().unwrap().len = 0;
            }
            prop_assert_eq!(page.row(row).unwrap(), expected);
            prop_assert_eq!(page.holding(extent.ino, extent.start), Some(row));
        }
        read_all(&damaged(&plain, cut, at, bit));
    }

    #[test]
    fn blocks(
        rows in prop::collection::vec(
            (
                0u64..1 << 40, 0u32..300_000, 0u32..64 << 20, 0u64..5,
                prop::option::of((1u64..9, any::<u32>())),
                any::<u64>(), any::<[u8; 32]>(), any::<u32>(),
            ),
            1..40,
        ),
        hashed in any::<bool>(), slot in 0u32..1 << 31, measure in measure(),
        cut in 0usize..20_000, at in 0usize..9000, bit in 0u8..8,
    ) {
        let mut place = 0;
        let row = |(gap, stored, plain, codec, base, sum, hash, category)| {
            let (stored, plain, category): (u32, u32, u32) = (stored, plain, category);
            let base: Option<(u64, u32)> = base;
            let at: u64 = place + gap;
            place = at + u64::from(stored);
            let units = (stored as usize).div_ceil(64 << 10);
            let transform = Transform::ALL[stored as usize % Transform::ALL.len()];
            let told = transform == Transform::None && category % 3 == 0;
            let words = if told { category % 7 * 1000 } else { 0 };
            let count = if words > 0 && hashed { plain.div_ceil(64 << 10) } else { 0 };
            // The first one has what the others do not share evenly.
            let share = words.checked_div(count).unwrap_or(0);
            let first = words - share * count.saturating_sub(1);
            let sections = (0..count).map(|number| if number == 0 { first } else { share });
            BlockRow {
                at, stored, plain, codec: Codec::numbered(codec).unwrap(),
                transform,
                base: base.map(|(segment, slot)| BlockName { segment, slot }),
                checksums: vec![sum; units], hash: hashed.then_some(hash), category,
                recipe: category % 3 * 100,
                words,
                sections: sections.collect(),
                owner: (category % 5 > 2).then_some((at + 1, sum)),
            }
        };
        let rows: Vec<_> = rows.into_iter().map(row).collect();
        let plain = Blocks::encode(slot, &rows, measure);
        let page = Blocks::decode(&plain).unwrap();
        for (row, block) in (slot..).zip(&rows) {
            prop_assert_eq!(page.find(row), Some(block));
        }
        prop_assert_eq!(page.find(slot + rows.len() as u32), None);
        read_all(&damaged(&plain, cut, at, bit));
    }

    #[test]
    fn inner_pages(
        rows in prop::collection::btree_map(
            prop::collection::vec(any::<u8>(), 0..264),
            (
                0u64..1 << 40, any::<u64>(), 0u64..1 << 60, 0u32..1 << 20,
                any::<u64>(), any::<[u8; 32]>(),
            ),
            1..40,
        ),
        level in 0u8..8, measure in measure(),
        cut in 0usize..20_000, at in 0usize..9000, bit in 0u8..8,
    ) {
        let rows: Vec<_> = rows.into_iter().enumerate().map(
            |(row, (key, (entries, segment, at, len, checksum, hash)))| {
                let page = PageRef {
                    segment, at, stored: len, plain: len, codec: Codec::Zstd, checksum, hash,
                };
                Child { key, entries, page, base: (row > 0 && row % 2 == 1).then_some(0) }
            }).collect();
        let plain = Inner::encode(&rows, level, measure);
        let page = Inner::decode(&plain).unwrap();
        let mut before = 0;
        for (row, child) in rows.iter().enumerate() {
            prop_assert_eq!(page.with_key(&child.key), row);
            prop_assert_eq!((page.before(row), page.entries(row)), (before, child.entries));
            let base = child.base.map(|_| rows[0].page);
            prop_assert_eq!(page.page(row), Some((child.page, base)));
            before += child.entries;
        }
        prop_assert_eq!((page.level, page.all_entries()), (level, before));
        read_all(&damaged(&plain, cut, at, bit));
    }

    #[test]
    fn no_bytes_make_reading_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400), kind in 0u8..40,
    ) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        read_all(&bytes);
        let _ = esker_stone::root::Root::decode(&bytes);
    }
}
