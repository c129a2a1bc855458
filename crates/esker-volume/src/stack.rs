//! Looking through the stack: what came recently, and below it the settled tables.
//!
//! Above: `view` answers POSIX, `commit` asks what a new value replaces, `settle` merges. Below: pages and
//! blocks, checked when they are loaded. Invariant: an answer is that of the newest commit of `state`; whoever
//! asks holds `state`, so no segment that is named here is taken for something else meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use esker::Ino;
use esker_stone::PageRef;
use esker_stone::cache::{Key, What};
use esker_stone::key::{self, kind};
use esker_stone::rows::blocks::BlockRow;
use esker_stone::rows::extents::{BlockName, Extents};
use esker_stone::rows::inodes::Inode;
use esker_stone::rows::names::Named;
use esker_stone::rows::pages::Inner;
use esker_stone::rows::snapshots::SnapshotRow;
use esker_stone::rows::tables::TableRow;
use esker_stone::tree::{Found, Pages};

use crate::base::Base;
use crate::device::Device;
use crate::error::{Damage, Error, Result};
use crate::leaf::Leaf;
use crate::recent::{END, Recent, Run, runs};
use crate::rows::{Move, Numbers, Refs};
use crate::rules::{Occasion, Rules};
use crate::volume::Volume;

/// What the newest commit left.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The settled layer: tables in the order of their keys.
    pub tables: Vec<TableRow>,
    /// What came since settling began.
    pub recent: Recent,
    /// What came before that and is being settled: some of it lies in the tables already.
    pub settling: Recent,
    /// What is counted.
    pub numbers: Numbers,
    /// Inodes without a name that somebody used.
    pub orphans: BTreeSet<Ino>,
    /// The oldest first.
    pub snapshots: Vec<SnapshotRow>,
    /// Tables that only snapshots have: their layer is the newest of these. In the order of layer and key.
    pub kept: Vec<TableRow>,
    /// Of tables that snapshots have, wherever they lie: the oldest of these.
    pub since: BTreeMap<(u64, u64), u64>,
    /// Blocks may be kept that no snapshot needs any more.
    pub sweeping: bool,
    /// Plain bytes of blocks that have a base.
    pub deltas: u64,
    /// Of a root: the segment from which on scrubbing is to read blocks; 0: from the first.
    pub scrubbed: u64,
    /// Rules for snapshots.
    pub rules: Rules,
    /// The last commits of snapshots that rules have made.
    pub made: BTreeMap<u64, Occasion>,
    /// The base, if there is one.
    pub base: Option<Base>,
    /// Rises whenever tables lie elsewhere.
    pub version: u64,
}

impl State {
    /// What came since the tables, the newest first.
    pub(crate) const fn news(&self) -> [&Recent; 2] {
        [&self.recent, &self.settling]
    }
}

/// The first of two entries, and of two with the same key the newer.
fn first<'a, K: Ord, V>(
    new: Option<(&'a K, &'a V)>,
    old: Option<(&'a K, &'a V)>,
) -> Option<(&'a K, &'a V)> {
    match (new, old) {
        (Some(new), Some(old)) => Some(if old.0 < new.0 { old } else { new }),
        (new, old) => new.or(old),
    }
}

/// The stack as it is now.
pub(crate) struct Stack<'a, D> {
    pub volume: &'a Volume<D>,
    pub state: &'a State,
    /// Has the blocks: those of snapshots, too, are where the volume has them now.
    pub index: &'a State,
}

/// A leaf that was found, and where.
#[derive(Clone)]
pub(crate) struct At {
    table: usize,
    found: Found,
    pub leaf: Arc<Leaf>,
}

impl<D: Device> Pages for Volume<D> {
    fn inner(&self, page: &PageRef) -> esker_stone::Result<Arc<Inner>> {
        let load = |_| Inner::decode(&self.page(page, None).map_err(stone)?);
        self.cache.get(self.key(page, What::Page), |_: &Inner| true, load)
    }
}

/// Back into the words of the layer below, on the way through its trees.
fn stone(error: Error) -> esker_stone::Error {
    match error {
        Error::Stone(error) => error,
        Error::Device(crate::device::Fault::Io(errno)) => {
            esker_stone::Error::Io(std::io::ErrorKind::Other, errno)
        }
        Error::Device(_) => esker_stone::Error::Io(std::io::ErrorKind::Other, None),
        _ => esker_stone::Damage::Reference.into(),
    }
}

/// Of a block that others differ from: what is wrong with it is not wrong with them.
const fn of_base(error: Error) -> Error {
    match error {
        Error::Stone(esker_stone::Error::Damaged(_)) => Error::Damaged(Damage::DeltaBase),
        error => error,
    }
}

impl<D: Device> Volume<D> {
    fn key(&self, page: &PageRef, what: What) -> Key {
        Key { image: self.number, what, segment: page.segment, number: page.at }
    }

    /// Where plain bytes of a block are kept.
    pub(crate) const fn block_key(&self, block: BlockName) -> Key {
        let (segment, number) = (block.segment, block.slot as u64);
        Key { image: self.number, what: What::Block, segment, number }
    }

    /// The plain bytes of a page.
    pub(crate) fn page(&self, page: &PageRef, base: Option<&PageRef>) -> Result<Vec<u8>> {
        let base = match base {
            None => Vec::new(),
            Some(base) => base.open(&self.stored_page(base)?, &[])?,
        };
        let opened = self.stored_page(page).and_then(|stored| Ok(page.open(&stored, &base)?));
        opened.inspect_err(|error| self.teller.tell("the page at", page.segment, page.at, error))
    }

    fn stored_page(&self, page: &PageRef) -> Result<Vec<u8>> {
        let page = page.checked()?;
        let mut stored = vec![0; page.stored as usize];
        self.read_segment(page.segment, page.at, &mut stored)?;
        page.verify(&stored)?;
        Ok(stored)
    }

    /// Bytes of a segment, wherever it lies.
    pub(crate) fn read_segment(&self, segment: u64, at: u64, target: &mut [u8]) -> Result<()> {
        let physical = self.segments().find(segment).ok_or(Damage::Segment)?;
        let inside = at.checked_add(target.len() as u64);
        if inside.is_none_or(|end| end > self.shape.segment_room) {
            return Err(Damage::Segment.into());
        }
        Ok(self.device.read(self.place(physical) + at, target)?)
    }
}

impl<D: Device> Stack<'_, D> {
    /// A leaf of a table.
    pub(crate) fn leaf(&self, found: &Found) -> Result<Arc<Leaf>> {
        let page = found.page;
        let volume = self.volume;
        let load = |_| -> Result<Leaf> { Leaf::decode(&volume.page(&page, found.base.as_ref())?) };
        let leaf = volume.cache.get(volume.key(&page, What::Page), |_: &Leaf| true, load)?;
        if leaf.len() as u64 != found.entries {
            return Err(Damage::Table.into());
        }
        Ok(leaf)
    }

    fn load(&self, table: usize, found: Found) -> Result<At> {
        let leaf = self.leaf(&found)?;
        Ok(At { table, found, leaf })
    }

    /// The leaf that would hold the key, or the very first one.
    fn leaf_at(&self, key: &[u8]) -> Result<Option<At>> {
        let table = self.state.tables.partition_point(|table| table.key.as_slice() <= key);
        let table = table.saturating_sub(1);
        let Some(row) = self.state.tables.get(table) else { return Ok(None) };
        let found = row.top.leaf_with_key(key, self.volume)?;
        self.load(table, found).map(Some)
    }

    fn leaf_behind(&self, at: &At) -> Result<Option<At>> {
        let rank = at.found.before + at.found.entries;
        let mut table = at.table;
        let own = self.state.tables.get(table).ok_or(Damage::Table)?;
        let mut found = own.top.leaf_with_rank(rank, self.volume)?;
        while found.is_none() {
            table += 1;
            let Some(row) = self.state.tables.get(table) else { return Ok(None) };
            found = row.top.leaf_with_rank(0, self.volume)?;
        }
        found.map(|found| self.load(table, found)).transpose()
    }

    /// The leaf that would hold the key, if its rows are of the key's kind.
    fn exact(&self, key: &[u8]) -> Result<Option<Arc<Leaf>>> {
        let at = self.leaf_at(key)?.filter(|at| key.first() == Some(&at.leaf.kind()));
        Ok(at.map(|at| at.leaf))
    }

    /// The first leaf with a row of this kind that is not before the key, and that row, which `bound` finds.
    fn lower(&self, key: &[u8], bound: impl Fn(&Leaf) -> usize) -> Result<Option<(At, usize)>> {
        let wanted = key.first().copied().unwrap_or(0);
        let mut at = self.leaf_at(key)?;
        while let Some(here) = at {
            if here.leaf.kind() > wanted {
                return Ok(None);
            }
            if here.leaf.kind() == wanted {
                let row = bound(&here.leaf);
                if row < here.leaf.len() {
                    return Ok(Some((here, row)));
                }
            }
            at = self.leaf_behind(&here)?;
        }
        Ok(None)
    }

    /// Leaves from the one that would hold the key on, as long as `each` says so.
    pub(crate) fn leaves_from(
        &self,
        key: &[u8],
        each: &mut dyn FnMut(&Leaf) -> bool,
    ) -> Result<()> {
        let wanted = key.first().copied().unwrap_or(0);
        let mut at = self.leaf_at(key)?;
        while let Some(here) = at {
            if here.leaf.kind() >= wanted && !each(&here.leaf) {
                return Ok(());
            }
            at = self.leaf_behind(&here)?;
        }
        Ok(())
    }

    /// Every leaf of a table, in order.
    pub(crate) fn leaves(
        &self,
        table: usize,
        each: &mut dyn FnMut(&Leaf) -> Result<()>,
    ) -> Result<()> {
        let Some(row) = self.state.tables.get(table) else { return Ok(()) };
        let mut rank = 0;
        while let Some(found) = row.top.leaf_with_rank(rank, self.volume)? {
            rank += found.entries.max(1);
            each(&self.load(table, found)?.leaf)?;
        }
        Ok(())
    }

    /// An inode.
    pub(crate) fn inode(&self, ino: Ino) -> Result<Option<Inode>> {
        if let Some(known) = self.state.news().iter().find_map(|own| own.inodes.get(&ino)) {
            return Ok(known.clone());
        }
        let leaf = self.exact(&key::inode(ino))?;
        let Some(Leaf::Inodes(rows)) = leaf.as_deref() else { return Ok(None) };
        let Some(row) = rows.find(ino) else { return Ok(None) };
        let inline = rows.inline_at(row).to_vec();
        Ok(Some(Inode { ino, attr: rows.attr_at(row)?, inline }))
    }

    /// What a name leads to.
    pub(crate) fn name(&self, dir: Ino, name: &[u8]) -> Result<Option<Named>> {
        let key = (dir, name.to_vec());
        if let Some(known) = self.state.news().iter().find_map(|own| own.names.get(&key)) {
            return Ok(known.clone());
        }
        let leaf = self.exact(&key::name(dir, name))?;
        let Some(Leaf::Names(rows)) = leaf.as_deref() else { return Ok(None) };
        let row = rows.lower_bound(dir, name);
        let found = rows.dir(row) == Some(dir) && rows.name(row) == name;
        Ok(if found { Some(rows.row(row)?) } else { None })
    }

    /// The first extended attribute of an inode whose name is not before this one.
    pub(crate) fn xattr_from(&self, ino: Ino, name: &[u8]) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let mut from = name.to_vec();
        loop {
            let range = (ino, from.clone())..(Ino(ino.0.saturating_add(1)), Vec::new());
            let [new, old] = self.state.news().map(|own| own.xattrs.range(range.clone()).next());
            let recent = first(new, old);
            let bound = |leaf: &Leaf| match leaf {
                Leaf::Xattrs(rows) => rows.lower_bound(ino, &from),
                _ => 0,
            };
            let below = self.lower(&key::xattr(ino, &from), bound)?;
            let below = below.and_then(|(at, row)| match &*at.leaf {
                Leaf::Xattrs(rows) => {
                    rows.row(row).map(|(owner, name, value)| (owner, name.to_vec(), value.to_vec()))
                }
                _ => None,
            });
            let below =
                below.filter(|(owner, ..)| *owner == ino).map(|(_, name, value)| (name, value));
            match (recent, below) {
                (Some(((_, own), said)), below) if below.as_ref().is_none_or(|b| *own <= b.0) => {
                    match said {
                        Some(value) => return Ok(Some((own.clone(), value.clone()))),
                        None => from = [own.as_slice(), &[0]].concat(),
                    }
                }
                (_, below) => return Ok(below),
            }
        }
    }

    /// The value of an extended attribute.
    pub(crate) fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = self.xattr_from(ino, name)?;
        Ok(found.filter(|(own, _)| own == name).map(|(_, value)| value))
    }

    /// What the tables say of a byte of a file and those behind it: up to where they say something else.
    fn run_below(&self, ino: Ino, at: u64) -> Result<Run> {
        if let Some(Leaf::Extents(rows)) = self.exact(&key::extent(ino, at))?.as_deref()
            && let Some(row) = rows.holding(ino, at)
        {
            let all = runs(&rows.row(row)?)?;
            let mut holding = all.iter().filter_map(|run| run.within(at, END));
            if let Some(run) = holding.rfind(|run| run.start == at) {
                return Ok(run);
            }
        }
        let bound = |leaf: &Leaf| match leaf {
            Leaf::Extents(rows) => rows.lower_bound(ino, at + 1),
            _ => 0,
        };
        let next = self.lower(&key::extent(ino, at + 1), bound)?;
        let next = match next.as_ref().map(|(at, row)| (&*at.leaf, *row)) {
            Some((Leaf::Extents(rows), row)) => start_of(rows, row, ino)?,
            _ => END,
        };
        Ok(Run { start: at, len: next - at, place: None })
    }

    /// What is said of a byte of a file and those behind it.
    pub(crate) fn run(&self, ino: Ino, at: u64) -> Result<Run> {
        let mut until = END;
        for own in self.state.news() {
            match own.extents.get(&ino).map(|runs| runs.at(at)) {
                None => {}
                Some(Err(next)) => until = until.min(next),
                Some(Ok(run)) => return run.within(at, until).ok_or_else(|| Damage::Table.into()),
            }
        }
        if self.state.tables.is_empty() {
            return Ok(Run { start: at, len: until - at, place: None });
        }
        let below = self.run_below(ino, at)?;
        below.within(at, until).ok_or_else(|| Damage::Table.into())
    }

    const fn on_index(&self) -> Stack<'_, D> {
        Stack { volume: self.volume, state: self.index, index: self.index }
    }

    /// How many bytes of files name a block.
    pub(crate) fn refs(&self, block: BlockName) -> Result<Refs> {
        let bytes = self.on_index().refs_row(block)?;
        Ok(Refs { block, bytes })
    }

    fn refs_row(&self, block: BlockName) -> Result<u64> {
        if let Some(&known) = self.state.news().iter().find_map(|own| own.refs.get(&block)) {
            return Ok(known);
        }
        let leaf = self.exact(&key::block(kind::REFS, block.segment, block.slot))?;
        let Some(Leaf::Refs(rows)) = leaf.as_deref() else { return Ok(0) };
        let row = rows.binary_search_by_key(&block, |row| row.block);
        Ok(row.ok().and_then(|row| rows.get(row)).map_or(0, |row| row.bytes))
    }

    /// What is known of a block.
    pub(crate) fn block_row(&self, block: BlockName) -> Result<BlockRow> {
        if let Some(known) = self.index.news().iter().find_map(|own| own.blocks.get(&block)) {
            return Ok(known.clone());
        }
        let leaf = self.on_index().exact(&key::block(kind::BLOCK, block.segment, block.slot))?;
        let row = match leaf.as_deref() {
            Some(Leaf::Blocks(rows)) if rows.segment() == block.segment => rows.find(block.slot),
            _ => None,
        };
        row.cloned().ok_or_else(|| Damage::Block.into())
    }

    /// Where a block lies now: the segment, and the offset there.
    pub(crate) fn whereabouts(&self, block: BlockName, row: &BlockRow) -> Result<(u64, u64)> {
        let near = |own: &Recent| own.moves.range(..=block).next_back().map(|(_, row)| *row);
        let holding = |own: &Recent| near(own).filter(|row| row.holds(block));
        let mut moved = self.index.news().into_iter().find_map(holding);
        if moved.is_none() {
            let leaf = self.on_index().exact(&key::block(kind::MOVE, block.segment, block.slot))?;
            if let Some(Leaf::Moves(rows)) = leaf.as_deref() {
                let at = rows.partition_point(|row| row.block <= block);
                let near: Option<&Move> = at.checked_sub(1).and_then(|at| rows.get(at));
                moved = near.copied().filter(|row| row.holds(block));
            }
        }
        Ok(match moved {
            Some(row_moved) => (row_moved.to, row.at.wrapping_add(row_moved.shift)),
            None => (block.segment, row.at),
        })
    }

    /// The plain bytes of a block.
    pub(crate) fn block(&self, block: BlockName) -> Result<Arc<Vec<u8>>> {
        let load = |_| {
            let row = self.block_row(block)?;
            let base = self.base_of(&row)?.map(|base| self.block(base).map_err(of_base));
            let base = base.transpose()?;
            self.decoded(block, &row, base.as_deref().map_or(&[], Vec::as_slice))
        };
        let got = self.volume.cache.get(self.volume.block_key(block), |_: &Vec<u8>| true, load);
        let (segment, slot) = (block.segment, block.slot.into());
        got.inspect_err(|error| self.volume.teller.tell("block", segment, slot, error))
    }

    /// The same, as the device has them now.
    pub(crate) fn load_block(&self, block: BlockName) -> Result<Vec<u8>> {
        let row = self.block_row(block)?;
        let base = self.base_of(&row)?.map(|base| self.load_block(base).map_err(of_base));
        let base = base.transpose()?;
        self.decoded(block, &row, &base.unwrap_or_default())
    }

    /// What a block differs from, which differs from nothing itself.
    fn base_of(&self, row: &BlockRow) -> Result<Option<BlockName>> {
        let Some(base) = row.base else { return Ok(None) };
        match self.block_row(base)?.base {
            None => Ok(Some(base)),
            Some(_) => Err(esker_stone::Damage::BaseOfBase.into()),
        }
    }

    fn decoded(&self, block: BlockName, row: &BlockRow, base: &[u8]) -> Result<Vec<u8>> {
        Ok(row.open(self.stored_block(block, row)?, base)?)
    }

    /// The stored bytes of a block, checked.
    pub(crate) fn stored_block(&self, block: BlockName, row: &BlockRow) -> Result<Vec<u8>> {
        if row.is_lost() {
            return Err(Damage::Lost.into());
        }
        if row.plain > self.volume.shape.block_len || row.stored > row.plain {
            return Err(Damage::Block.into());
        }
        let (segment, at) = self.whereabouts(block, row)?;
        let mut stored = vec![0; row.stored as usize];
        self.volume.read_segment(segment, at, &mut stored)?;
        BlockRow::covered(block).verify(0, &stored, &row.checksums)?;
        Ok(stored)
    }
}

/// Where a row begins; the end if it is of another file.
fn start_of(rows: &Extents, row: usize, ino: Ino) -> Result<u64> {
    let row = rows.row(row)?;
    Ok(if row.ino == ino { row.start } else { END })
}
