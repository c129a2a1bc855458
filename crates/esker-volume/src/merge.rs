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

use crate::base::goes_on;
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// An inode.
    Inode(Inode),
    /// A name.
    Name(Named),
    /// A place in a listing.
    Place(Listing),
    /// An extended attribute.
    Xattr(Xattr),
    /// A stretch of a file.
    Extent(Extent),
    /// References of a block.
    Refs(Refs),
    /// Blocks that were moved.
    Move(Move),
    /// A block.
    Block(BlockName, BlockRow),
}

/// A key, without a buffer of its own: keys of tables are in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Order<'a> {
    kind: u8,
    /// Of an inode, or a segment.
    number: u64,
    /// A place, an offset or a slot, where keys of this kind have one.
    second: u64,
    /// A name, where they have one.
    name: &'a [u8],
}

impl<'a> Order<'a> {
    const fn new(kind: u8, Ino(number): Ino, second: u64) -> Self {
        Self { kind, number, second, name: &[] }
    }

    const fn named(kind: u8, Ino(number): Ino, name: &'a [u8]) -> Self {
        Self { kind, number, second: 0, name }
    }

    const fn block(kind: u8, block: BlockName) -> Self {
        Self { kind, number: block.segment, second: block.slot as u64, name: &[] }
    }
}

impl Row {
    /// As in keys.
    #[must_use]
    pub const fn kind(&self) -> u8 {
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

    /// Its key.
    #[must_use]
    pub fn key(&self) -> Vec<u8> {
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

    /// Where it stands among others.
    fn order(&self) -> Order<'_> {
        match self {
            Self::Inode(row) => Order::new(kind::INODE, row.ino, 0),
            Self::Name(row) => Order::named(kind::NAME, row.dir, &row.name),
            Self::Place(row) => Order::new(kind::PLACE, row.dir, row.seq),
            Self::Xattr(row) => Order::named(kind::XATTR, row.ino, &row.name),
            Self::Extent(row) => Order::new(kind::EXTENT, row.ino, row.start),
            Self::Refs(row) => Order::block(kind::REFS, row.block),
            Self::Move(row) => Order::block(kind::MOVE, row.block),
            Self::Block(name, _) => Order::block(kind::BLOCK, *name),
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

/// Where keys of one kind begin and end.
pub(crate) type Bounds<K> = (Bound<K>, Bound<K>);

/// A number of at most eight bytes, as if zeros came behind.
fn padded(bytes: &[u8]) -> u64 {
    let mut whole = [0; 8];
    whole.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_be_bytes(whole)
}

impl Range {
    /// Where keys of this kind begin and end that lie in it, in the words of `parse`, which is given the number that
    /// a key begins with and the rest; `None`: there are none. What is parsed rises as keys do.
    fn part<K>(&self, kind: u8, parse: impl Fn(u64, &[u8]) -> K) -> Option<Bounds<K>> {
        let parsed = |key: &[u8]| {
            let (number, rest) = key.split_at_checked(8).unwrap_or((key, &[]));
            parse(padded(number), rest)
        };
        let from = match self.from.split_first() {
            Some((own, _)) if *own > kind => return None,
            Some((own, rest)) if *own == kind => Bound::Included(parsed(rest)),
            _ => Bound::Unbounded,
        };
        let to = match self.to.as_deref().map(<[u8]>::split_first) {
            None => Bound::Unbounded,
            Some(Some((own, _))) if *own > kind => Bound::Unbounded,
            Some(Some((own, rest))) if *own == kind => Bound::Excluded(parsed(rest)),
            Some(_) => return None,
        };
        Some((from, to))
    }

    /// Blocks whose rows of this kind lie in it.
    pub fn blocks(&self, kind: u8) -> Option<Bounds<BlockName>> {
        self.part(kind, |segment, slot| {
            let slot = (padded(slot) >> 32) as u32;
            BlockName { segment, slot }
        })
    }

    /// Inodes that may have keys of this kind in it: the last one, too, may have some.
    fn inodes(&self, kind: u8) -> Option<Bounds<Ino>> {
        let (from, to) = self.part(kind, |ino, _| Ino(ino))?;
        let to = match to {
            Bound::Excluded(ino) => Bound::Included(ino),
            to => to,
        };
        Some((from, to))
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

/// Entries of a map whose keys lie within bounds, if there are any.
fn within<K: Ord, V>(
    map: &BTreeMap<K, V>,
    bounds: Option<Bounds<K>>,
) -> impl Iterator<Item = (&K, &V)> {
    bounds.into_iter().flat_map(|bounds| map.range(bounds))
}

/// What came recently, by ranges of keys.
pub(crate) struct Fresh<'a> {
    recent: &'a Recent,
}

impl<'a> Fresh<'a> {
    /// Of all that came.
    pub const fn new(recent: &'a Recent) -> Self {
        Self { recent }
    }

    /// Rows with keys in a range, `None` for what is gone, content left out. Only the range is looked at. Of two for
    /// one key the later one counts.
    fn rows(&self, range: &Range) -> impl Iterator<Item = (Order<'a>, Option<Row>)> + use<'a> {
        let own = self.recent;
        let inodes = within(&own.inodes, range.part(kind::INODE, |ino, _| Ino(ino)));
        let inodes = inodes
            .map(|(&ino, row)| (Order::new(kind::INODE, ino, 0), row.clone().map(Row::Inode)));
        let names =
            within(&own.names, range.part(kind::NAME, |dir, name| (Ino(dir), name.to_vec())));
        let names = names.map(|((dir, name), row)| {
            (Order::named(kind::NAME, *dir, name), row.clone().map(Row::Name))
        });
        let places =
            within(&own.places, range.part(kind::PLACE, |dir, seq| (Ino(dir), padded(seq))));
        let places = places.map(|(&(dir, seq), name)| {
            let row = name.clone().map(|name| Row::Place(Listing { dir, seq, name }));
            (Order::new(kind::PLACE, dir, seq), row)
        });
        let xattrs =
            within(&own.xattrs, range.part(kind::XATTR, |ino, name| (Ino(ino), name.to_vec())));
        let xattrs = xattrs.map(|((ino, name), value)| {
            let row = value.clone().map(|value| Xattr { ino: *ino, name: name.clone(), value });
            (Order::named(kind::XATTR, *ino, name), row.map(Row::Xattr))
        });
        inodes.chain(names).chain(places).chain(xattrs).chain(self.block_rows(range))
    }

    /// The same of blocks.
    fn block_rows(
        &self,
        range: &Range,
    ) -> impl Iterator<Item = (Order<'a>, Option<Row>)> + use<'a> {
        let own = self.recent;
        let part = |kind| range.blocks(kind);
        let gone = move |kind| {
            let gone = within(&own.refs, part(kind)).filter(|&(_, &bytes)| bytes == 0);
            gone.map(move |(&block, _)| (Order::block(kind, block), None))
        };
        let refs = within(&own.refs, part(kind::REFS)).map(move |(&block, &bytes)| {
            let row = (bytes > 0).then_some(Row::Refs(Refs { block, bytes }));
            (Order::block(kind::REFS, block), row)
        });
        let moves = within(&own.moves, part(kind::MOVE))
            .map(move |(&block, row)| (Order::block(kind::MOVE, block), Some(Row::Move(*row))));
        let blocks = within(&own.blocks, part(kind::BLOCK)).map(move |(&block, row)| {
            (Order::block(kind::BLOCK, block), Some(Row::Block(block, row.clone())))
        });
        refs.chain(gone(kind::MOVE)).chain(moves).chain(gone(kind::BLOCK)).chain(blocks)
    }

    /// Whether anything that came changes a row with a key in this range.
    pub fn touches(&self, range: &Range) -> bool {
        self.rows(range).next().is_some() || self.contents(range).next().is_some() || {
            let mut gone = self.gone(range, kind::EXTENT).chain(self.gone(range, kind::XATTR));
            gone.next().is_some()
        }
    }

    /// Files of which something in this range was said, with the part of the file that is in it.
    fn contents(&self, range: &Range) -> impl Iterator<Item = (Ino, &'a Runs, (u64, u64))> {
        let files = within(&self.recent.extents, range.inodes(kind::EXTENT));
        let files = files.map(|(&ino, own)| (ino, own, range.bytes(ino)));
        files.filter(|(_, own, (from, to))| own.meets(*from, *to))
    }

    /// Inodes that are gone and may have had rows of this kind in this range.
    fn gone(&self, range: &Range, kind: u8) -> impl Iterator<Item = Ino> {
        let inodes = within(&self.recent.inodes, range.inodes(kind));
        inodes.filter(|(_, row)| row.is_none()).map(|(&ino, _)| ino)
    }

    fn is_gone(&self, ino: Ino) -> bool {
        matches!(self.recent.inodes.get(&ino), Some(None))
    }

    /// The rows of a range of keys, in their order: those of tables, which are in it, with what came laid over them.
    ///
    /// # Errors
    /// `Table` for rows that are not in order.
    pub fn over(&self, below: Vec<Row>, range: &Range) -> Result<Vec<Row>> {
        let mut content: BTreeMap<Ino, Runs> = BTreeMap::new();
        let mut rows = Vec::with_capacity(below.len());
        for row in below {
            match row {
                row if row.owner().is_some_and(|ino| self.is_gone(ino)) => {}
                Row::Extent(row) => {
                    let own = content.entry(row.ino).or_default();
                    runs(&row)?.into_iter().for_each(|run| own.put(run));
                }
                row => rows.push(row),
            }
        }
        if !rows.is_sorted_by(|one, two| one.order() < two.order()) {
            return Err(Damage::Table.into());
        }
        for (ino, said, (from, to)) in self.contents(range) {
            if self.is_gone(ino) {
                continue;
            }
            let own = content.entry(ino).or_default();
            said.between(from, to).for_each(|run| own.put(run));
        }
        let behind = rows.split_off(rows.partition_point(|row| row.kind() < kind::EXTENT));
        let stretches = content.iter().flat_map(|(&ino, runs)| extents(ino, runs));
        rows.extend(stretches.map(Row::Extent));
        rows.extend(behind);
        Ok(laid(self.rows(range).collect(), rows))
    }
}

/// What came in the place of what was there, or between that.
fn laid(came: BTreeMap<Order<'_>, Option<Row>>, below: Vec<Row>) -> Vec<Row> {
    let mut merged = Vec::with_capacity(below.len() + came.len());
    let mut came = came.into_iter().peekable();
    for row in below {
        while let Some((_, own)) = came.next_if(|(order, _)| *order < row.order()) {
            merged.extend(own);
        }
        match came.next_if(|(order, _)| *order == row.order()) {
            Some((_, own)) => merged.extend(own),
            None => merged.push(row),
        }
    }
    merged.extend(came.filter_map(|(_, own)| own));
    merged
}

/// Rows of a file's runs. Holes are not said: nothing lies below.
fn extents(ino: Ino, runs: &Runs) -> Vec<Extent> {
    let mut joined: Vec<Run> = Vec::new();
    for run in runs.iter().filter(|run| run.place.is_some()) {
        if let Some(before) = joined.last_mut()
            && before.end() == run.start
            && let (Some(one), Some(two)) = (before.place, run.place)
            && goes_on(one, before.len, two)
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
pub(crate) fn leaves(rows: Vec<Row>, measure: Measure) -> Vec<tree::Leaf> {
    let mut leaves = Vec::new();
    let mut open: Vec<Row> = Vec::new();
    let mut weight = 0;
    for row in rows {
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
