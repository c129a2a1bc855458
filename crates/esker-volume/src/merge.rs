//! Merging: what came recently laid over some tables, as rows in the order of their keys, and their leaves.
//!
//! Above: `settle`. Below: `recent`, `stack`. Invariant: merged rows answer every question about their range
//! of keys as the two did before; what is gone leaves nothing behind, for nothing lies below.

use std::collections::BTreeMap;
use std::ops::Bound;

use esker::Ino;
use esker_stone::key::{self, kind};
use esker_stone::rows::blocks::{BlockRow, Blocks};
use esker_stone::rows::extents::{BlockName, Extent, Extents};
use esker_stone::rows::inodes::{Inode, Inodes};
use esker_stone::rows::names::{Named, Names};
use esker_stone::rows::numbers;
use esker_stone::rows::places::{Listing, Listings};
use esker_stone::rows::xattrs::{Xattr, Xattrs};
use esker_stone::{Measure, tree};

use crate::commit;
use crate::error::{Damage, Result};
use crate::leaf::Leaf;
use crate::limits::PIECES;
use crate::recent::{END, Recent, Run, Runs, runs};
use crate::rows::{Move, Refs};

/// Plain bytes of a leaf.
const LEAF_LEN: usize = 16 << 10;
/// Rows of a leaf.
const LEAF_ROWS: usize = 2048;

/// A row of any kind.
#[derive(Clone, Debug)]
pub(crate) enum Row {
    Inode(Inode),
    Name(Named),
    Place(Listing),
    Xattr(Xattr),
    Extent(Extent),
    Refs(Refs),
    Move(Move),
    Block(BlockName, BlockRow),
}

impl Row {
    fn kind(&self) -> u8 {
        match self {
            Self::Inode(_) => kind::INODE,
            Self::Name(_) => kind::NAME,
            Self::Place(_) => kind::PLACE,
            Self::Xattr(_) => kind::XATTR,
            Self::Extent(_) => kind::EXTENT,
            Self::Refs(_) => kind::REFS,
            Self::Move(_) => kind::MOVE,
            Self::Block(..) => kind::BLOCK,
        }
    }

    fn key(&self) -> Vec<u8> {
        let block = |block: &BlockName| key::block(self.kind(), block.segment, block.slot);
        match self {
            Self::Inode(row) => key::inode(row.ino),
            Self::Name(row) => key::name(row.dir, &row.name),
            Self::Place(row) => key::place(row.dir, row.seq),
            Self::Xattr(row) => key::xattr(row.ino, &row.name),
            Self::Extent(row) => key::extent(row.ino, row.start),
            Self::Refs(row) => block(&row.block),
            Self::Move(row) => block(&row.block),
            Self::Block(name, _) => block(name),
        }
    }

    fn weight(&self) -> usize {
        match self {
            Self::Inode(row) => 40 + row.inline.len(),
            Self::Name(row) => 12 + row.name.len(),
            Self::Place(row) => 8 + row.name.len(),
            Self::Xattr(row) => 8 + row.name.len() + row.value.len(),
            Self::Extent(_) => 16 * PIECES,
            Self::Refs(_) | Self::Move(_) => 12,
            Self::Block(..) => 40,
        }
    }

    /// The inode without which it means nothing.
    fn owner(&self) -> Option<Ino> {
        match self {
            Self::Xattr(row) => Some(row.ino),
            Self::Extent(row) => Some(row.ino),
            _ => None,
        }
    }
}

/// The rows of a leaf.
pub(crate) fn rows(leaf: &Leaf, to: &mut Vec<Row>) -> Result<()> {
    match leaf {
        Leaf::Inodes(page) => {
            for row in 0..page.len() {
                let ino = page.ino(row).ok_or(Damage::Table)?;
                let inline = page.inline_at(row).to_vec();
                to.push(Row::Inode(Inode { ino, attr: page.attr_at(row)?, inline }));
            }
        }
        Leaf::Names(page) => {
            for row in 0..page.len() {
                to.push(Row::Name(page.row(row)?));
            }
        }
        Leaf::Places(page) => {
            let all = (0..page.len()).filter_map(|row| page.row(row));
            to.extend(
                all.map(|(dir, seq, name)| Row::Place(Listing { dir, seq, name: name.to_vec() })),
            );
        }
        Leaf::Xattrs(page) => {
            let all = (0..page.len()).filter_map(|row| page.row(row));
            to.extend(all.map(|(ino, name, value)| {
                Row::Xattr(Xattr { ino, name: name.to_vec(), value: value.to_vec() })
            }));
        }
        Leaf::Extents(page) => {
            for row in 0..page.len() {
                to.push(Row::Extent(page.row(row)?));
            }
        }
        Leaf::Refs(page) => to.extend(page.iter().map(|row| Row::Refs(*row))),
        Leaf::Moves(page) => to.extend(page.iter().map(|row| Row::Move(*row))),
        Leaf::Blocks(page) => {
            let segment = page.segment();
            let name = |slot| BlockName { segment, slot };
            to.extend(page.iter().map(|(slot, row)| Row::Block(name(slot), row.clone())));
        }
    }
    Ok(())
}

/// A range of keys: from the first, to before the second if there is one.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    pub from: Vec<u8>,
    pub to: Option<Vec<u8>>,
}

impl Range {
    /// Whether any key from `first` to `last` lies in it.
    fn meets(&self, first: &[u8], last: &[u8]) -> bool {
        self.from.as_slice() <= last && self.to.as_deref().is_none_or(|to| first < to)
    }

    /// The bytes of a file whose stretches would begin in it.
    fn bytes(&self, ino: Ino) -> (u64, u64) {
        let prefix = key::extent(ino, 0);
        let start = |key: &[u8]| -> Option<u64> {
            let (head, start) = key.split_at_checked(9)?;
            let own = prefix.starts_with(head);
            own.then(|| start.try_into().map_or(0, u64::from_be_bytes))
        };
        let from = start(&self.from).unwrap_or(0);
        (from, self.to.as_deref().and_then(start).unwrap_or(END))
    }
}

/// What came recently, in the order of keys.
pub(crate) struct Fresh<'a> {
    recent: &'a Recent,
    rows: BTreeMap<Vec<u8>, Option<Row>>,
}

impl<'a> Fresh<'a> {
    /// Of all that came.
    pub fn new(recent: &'a Recent) -> Self {
        let mut rows = BTreeMap::new();
        for (&ino, row) in &recent.inodes {
            rows.insert(key::inode(ino), row.clone().map(Row::Inode));
        }
        for ((dir, name), row) in &recent.names {
            rows.insert(key::name(*dir, name), row.clone().map(Row::Name));
        }
        for (&(dir, seq), name) in &recent.places {
            let row = name.clone().map(|name| Row::Place(Listing { dir, seq, name }));
            rows.insert(key::place(dir, seq), row);
        }
        for ((ino, name), value) in &recent.xattrs {
            let row = value.clone().map(|value| (*ino, name.clone(), value));
            let row = row.map(|(ino, name, value)| Row::Xattr(Xattr { ino, name, value }));
            rows.insert(key::xattr(*ino, name), row);
        }
        let key = |kind, block: BlockName| key::block(kind, block.segment, block.slot);
        for (&block, &bytes) in &recent.refs {
            let row = (bytes > 0).then_some(Row::Refs(Refs { block, bytes }));
            if bytes == 0 {
                rows.insert(key(kind::BLOCK, block), None);
                rows.insert(key(kind::MOVE, block), None);
            }
            rows.insert(key(kind::REFS, block), row);
        }
        for (&block, row) in &recent.blocks {
            rows.insert(key(kind::BLOCK, block), Some(Row::Block(block, row.clone())));
        }
        for (&block, row) in &recent.moves {
            rows.insert(key(kind::MOVE, block), Some(Row::Move(*row)));
        }
        Self { recent, rows }
    }

    /// Whether anything that came changes a row with a key in this range.
    pub fn touches(&self, range: &Range) -> bool {
        let from = Bound::Included(range.from.clone());
        let to = range.to.clone().map_or(Bound::Unbounded, Bound::Excluded);
        let own = self.rows.range((from, to)).next().is_some();
        let extents = || {
            self.recent.extents.iter().any(|(&ino, own)| {
                let (first, last) = (own.iter().next(), own.iter().last());
                let first = key::extent(ino, first.map_or(0, |run| run.start));
                range.meets(&first, &key::extent(ino, last.map_or(0, Run::end)))
            })
        };
        let gone = || {
            let gone = self.recent.inodes.iter().filter(|(_, row)| row.is_none());
            gone.into_iter().any(|(&ino, _)| {
                range.meets(&key::extent(ino, 0), &key::extent(ino, END))
                    || range.meets(&key::xattr(ino, &[]), &key::xattr(ino, &[0xff; 255]))
            })
        };
        own || extents() || gone()
    }

    fn is_gone(&self, ino: Ino) -> bool {
        matches!(self.recent.inodes.get(&ino), Some(None))
    }

    /// The rows of a range of keys: those of tables, with what came laid over them.
    pub fn over(&self, below: Vec<Row>, range: &Range) -> Result<BTreeMap<Vec<u8>, Row>> {
        let mut merged = BTreeMap::new();
        let mut content: BTreeMap<Ino, Runs> = BTreeMap::new();
        for row in below {
            match row {
                row if row.owner().is_some_and(|ino| self.is_gone(ino)) => {}
                Row::Extent(row) => {
                    let own = content.entry(row.ino).or_default();
                    runs(&row)?.into_iter().for_each(|run| own.put(run));
                }
                row => drop(merged.insert(row.key(), row)),
            }
        }
        for (&ino, said) in &self.recent.extents {
            let (from, to) = range.bytes(ino);
            let (first, last) = (key::extent(ino, from), key::extent(ino, to));
            if !range.meets(&first, &last) || self.is_gone(ino) {
                continue;
            }
            let own = content.entry(ino).or_default();
            said.iter().filter_map(|run| run.within(from, to)).for_each(|run| own.put(run));
        }
        for (ino, runs) in content {
            for row in extents(ino, &runs) {
                merged.insert(key::extent(ino, row.start), Row::Extent(row));
            }
        }
        let from = Bound::Included(range.from.clone());
        let to = range.to.clone().map_or(Bound::Unbounded, Bound::Excluded);
        for (key, row) in self.rows.range((from, to)) {
            match row {
                Some(row) => drop(merged.insert(key.clone(), row.clone())),
                None => drop(merged.remove(key)),
            }
        }
        Ok(merged)
    }
}

/// Rows of a file's runs. Holes are not said: nothing lies below.
fn extents(ino: Ino, runs: &Runs) -> Vec<Extent> {
    let mut joined: Vec<Run> = Vec::new();
    for run in runs.iter().filter(|run| run.place.is_some()) {
        if let Some(before) = joined.last_mut()
            && before.end() == run.start
            && let (Some(one), Some(two)) = (before.place, run.place)
            && one.block == two.block
            && u64::from(one.offset) + before.len == u64::from(two.offset)
        {
            before.len += run.len;
            continue;
        }
        joined.push(*run);
    }
    let mut rows = Vec::new();
    let mut at = 0;
    while at < joined.len() {
        let mut end = at + 1;
        while end < joined.len() && end - at < PIECES && joined[end].start == joined[end - 1].end()
        {
            end += 1;
        }
        rows.push(commit::row(ino, &joined[at..end]));
        at = end;
    }
    rows
}

/// The leaves of rows.
pub(crate) fn leaves(rows: BTreeMap<Vec<u8>, Row>, measure: Measure) -> Vec<tree::Leaf> {
    let mut leaves = Vec::new();
    let mut open: Vec<Row> = Vec::new();
    let mut weight = 0;
    for row in rows.into_values() {
        let apart = |before: &Row| match (before, &row) {
            (Row::Block(one, _), Row::Block(two, _)) => one.segment != two.segment,
            (before, row) => before.kind() != row.kind(),
        };
        let full = weight + row.weight() > LEAF_LEN || open.len() == LEAF_ROWS;
        if open.last().is_some_and(|before| full || apart(before)) {
            leaves.extend(leaf(std::mem::take(&mut open), measure));
            weight = 0;
        }
        weight += row.weight();
        open.push(row);
    }
    leaves.extend(leaf(open, measure));
    leaves
}

macro_rules! only {
    ($rows:expr, $kind:ident) => {
        $rows
            .into_iter()
            .filter_map(|row| if let Row::$kind(row) = row { Some(row) } else { None })
            .collect::<Vec<_>>()
    };
}

fn leaf(rows: Vec<Row>, measure: Measure) -> Option<tree::Leaf> {
    let first = rows.first()?;
    let (kind, key, entries) = (first.kind(), first.key(), rows.len() as u64);
    let plain = match first {
        Row::Inode(_) => Inodes::encode(&only!(rows, Inode), measure),
        Row::Name(_) => Names::encode(&only!(rows, Name), measure),
        Row::Place(_) => Listings::encode(&only!(rows, Place), measure),
        Row::Xattr(_) => Xattrs::encode(&only!(rows, Xattr), measure),
        Row::Extent(_) => Extents::encode(&only!(rows, Extent), measure),
        Row::Refs(_) => numbers::encode(&only!(rows, Refs), measure),
        Row::Move(_) => numbers::encode(&only!(rows, Move), measure),
        Row::Block(name, _) => {
            let segment = name.segment;
            let blocks: Vec<_> = rows
                .iter()
                .filter_map(|row| {
                    if let Row::Block(name, row) = row { Some((name.slot, row)) } else { None }
                })
                .collect();
            Blocks::encode_some(segment, &blocks, measure)
        }
    };
    Some(tree::Leaf { kind, key, entries, plain })
}
