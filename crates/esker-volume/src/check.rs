//! Doubting everything: what a volume counts, counted again from what it holds.
//!
//! Above: verbs, proofs. Below: `stack`. Invariant: nothing is changed, and nothing that was counted is
//! believed; every finding names a thing and what is wrong with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use esker::store::Flow;
use esker::{Cursor, Ino, Kind};
use esker_stone::rows::extents::BlockName;
use esker_stone::rows::snapshots::SnapshotRow;

use crate::base::is_based;
use crate::device::Device;
use crate::error::{Damage, Error};
use crate::merge::{Row, rows};
use crate::recent::END;
use crate::rows::Refs;
use crate::segments::Condition;
use crate::stack::Stack;
use crate::view::list;
use crate::volume::Volume;

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A directory cannot be listed.
    Listing(Ino, esker::Error),
    /// A name leads to no inode, or to one of another kind.
    Dangling(Ino, Ino),
    /// A directory is not where it says that it is, or has two names.
    Parent(Ino),
    /// An inode has another number of names than it says.
    Links(Ino),
    /// A directory has another number of entries than it says.
    Entries(Ino),
    /// No name leads to an inode, and it is not known to be without one.
    Lost(Ino),
    /// There are not as many inodes as it says.
    Inodes,
    /// An inode's number is one that is still to be given out.
    Number(Ino),
    /// What a file holds cannot be found.
    Content(Ino, Error),
    /// A block's bytes are wrong.
    Block(BlockName, Error),
    /// A block has other references than are counted.
    References(BlockName),
    /// A segment holds other bytes that somebody needs than are counted.
    Live(u64),
    /// A table cannot be read.
    Table(Error),
    /// The log cannot be read, which is needed when the volume is opened next.
    Log(u64),
    /// A block is kept that no snapshot needs.
    Kept(BlockName),
    /// Blocks that differ from others have other bytes than are counted.
    Deltas,
    /// In the snapshot with this last commit.
    Within(u64, Box<Finding>),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listing(dir, error) => {
                write!(f, "directory {}: cannot be listed ({error})", dir.0)
            }
            Self::Dangling(dir, ino) => {
                write!(f, "directory {}: a name leads to inode {}, which is not it", dir.0, ino.0)
            }
            Self::Parent(dir) => write!(f, "directory {}: not where it says that it is", dir.0),
            Self::Links(ino) => write!(f, "inode {}: another number of names than it says", ino.0),
            Self::Entries(dir) => {
                write!(f, "directory {}: another number of entries than it says", dir.0)
            }
            Self::Lost(ino) => write!(f, "inode {}: no name leads to it", ino.0),
            Self::Inodes => f.write_str("there are not as many inodes as it says"),
            Self::Number(ino) => write!(f, "inode {}: its number was not given out yet", ino.0),
            Self::Content(ino, error) => write!(f, "inode {}: its content ({error})", ino.0),
            Self::Block(block, error) => {
                write!(f, "block {} of segment {}: {error}", block.slot, block.segment)
            }
            Self::References(block) => {
                let (slot, segment) = (block.slot, block.segment);
                write!(f, "block {slot} of segment {segment}: other references than are counted")
            }
            Self::Live(segment) => {
                write!(f, "segment {segment}: other bytes in use than are counted")
            }
            Self::Table(error) => write!(f, "a table cannot be read ({error})"),
            Self::Log(sequence) => write!(f, "the log cannot be read up to commit {sequence}"),
            Self::Kept(block) => {
                let (slot, segment) = (block.slot, block.segment);
                write!(f, "block {slot} of segment {segment}: kept for no snapshot")
            }
            Self::Deltas => f.write_str("deltas have other bytes than are counted"),
            Self::Within(sequence, finding) => {
                write!(f, "snapshot of commit {sequence}: {finding}")
            }
        }
    }
}

impl<D: Device> Stack<'_, D> {
    /// Reads a block from the device; how many bytes.
    pub(crate) fn prove(&self, block: BlockName) -> Result<u64, Error> {
        let row = self.block_row(block)?;
        self.load_block(block)?;
        Ok(row.stored.into())
    }
}

/// Counts again.
struct Checking<'a, D> {
    stack: Stack<'a, D>,
    findings: Vec<Finding>,
    /// Bytes of files that name each block.
    refs: BTreeMap<BlockName, u64>,
    /// Names that lead to each inode.
    names: BTreeMap<Ino, u32>,
    /// Of which it is not known any more which inodes somebody used without a name.
    is_snapshot: bool,
}

impl<D: Device> Volume<D> {
    /// All that is wrong. Every byte that somebody needs is read.
    #[must_use]
    pub fn check(&self) -> Vec<Finding> {
        self.count(true)
    }

    /// The same; bytes of blocks are read if `all` says so.
    pub(crate) fn count(&self, all: bool) -> Vec<Finding> {
        // Nobody writes meanwhile.
        let log = self.log();
        let state = self.state();
        let stack = self.stack(&state);
        let mut own = Checking::new(stack, false);
        own.inodes();
        own.deltas();
        own.blocks(all);
        own.segments(log.superblock.root().ok().flatten().map(|page| (page.segment, page.stored)));
        let mut findings = own.findings;
        for row in &state.snapshots {
            let seen = state.seen_by(row);
            let stack = Stack { volume: self, state: &seen, index: &state };
            let mut own = Checking::new(stack, true);
            own.inodes();
            own.snapshot_blocks(row);
            let within = |finding| Finding::Within(row.sequence, Box::new(finding));
            findings.extend(own.findings.into_iter().map(within));
        }
        findings
    }

    /// How many blocks there are that snapshots name and of which nothing is left since the volume was repaired.
    ///
    /// # Errors
    /// What looking meets.
    pub fn lost_blocks(&self) -> Result<u64, Error> {
        let state = self.state();
        let stack = self.stack(&state);
        let (mut from, mut count) = (Some(BlockName { segment: 0, slot: 0 }), 0);
        while let Some(begin) = from {
            let (names, next) = stack.blocks_from(begin)?;
            for block in names {
                let needed = stack.refs(block)?.bytes > 0;
                count += u64::from(needed && stack.block_row(block)?.is_lost());
            }
            from = next;
        }
        Ok(count)
    }
}

/// Walks all directories; how many names lead to each inode.
fn check_names<D: Device>(stack: &Stack<'_, D>, findings: &mut Vec<Finding>) -> BTreeMap<Ino, u32> {
    let mut names = BTreeMap::new();
    let mut todo = vec![Ino::ROOT];
    while let Some(dir) = todo.pop() {
        let mut entries = Vec::new();
        let listed = list(stack, dir, (Cursor::START, false), &mut |listed| {
            entries.push(listed.entry);
            Flow::Continue(())
        });
        if let Err(error) = listed {
            findings.push(Finding::Listing(dir, error));
            continue;
        }
        if stack.attr(dir).is_ok_and(|attr| attr.size != entries.len() as u64) {
            findings.push(Finding::Entries(dir));
        }
        for entry in entries {
            let count = names.entry(entry.ino).or_insert(0u32);
            *count = count.saturating_add(1);
            let again = *count > 1;
            match stack.attr(entry.ino) {
                Ok(attr) if attr.kind != entry.kind => {
                    findings.push(Finding::Dangling(dir, entry.ino));
                }
                Ok(attr) if attr.kind == Kind::Directory => {
                    if again || attr.parent != dir || entry.ino == Ino::ROOT {
                        findings.push(Finding::Parent(entry.ino));
                    } else {
                        todo.push(entry.ino);
                    }
                }
                Ok(_) => {}
                Err(_) => findings.push(Finding::Dangling(dir, entry.ino)),
            }
        }
    }
    names
}

impl<'a, D: Device> Checking<'a, D> {
    fn new(stack: Stack<'a, D>, is_snapshot: bool) -> Self {
        let mut findings = Vec::new();
        let names = check_names(&stack, &mut findings);
        Self { stack, findings, refs: BTreeMap::new(), names, is_snapshot }
    }

    /// Every block that a snapshot has is there for it: some file names it, or it is kept since a later commit.
    fn snapshot_blocks(&mut self, row: &SnapshotRow) {
        for &block in self.refs.keys() {
            let stays = |refs: Refs| match refs.unnamed_since() {
                Some(since) => block < row.blocks && row.sequence < since,
                None => refs.bytes > 0,
            };
            if !self.stack.refs(block).is_ok_and(stays) {
                self.findings.push(Finding::References(block));
            }
        }
    }

    /// The numbers of all inodes, and of all blocks that are counted, wherever they are said.
    fn known(&mut self) -> (BTreeSet<Ino>, BTreeSet<BlockName>) {
        let (mut inodes, mut blocks) = (BTreeSet::new(), BTreeSet::new());
        let mut all = Vec::new();
        for table in 0..self.stack.state.tables.len() {
            let read = self.stack.leaves(table, &mut |leaf| rows(leaf, &mut all));
            if let Err(error) = read {
                self.findings.push(Finding::Table(error));
            }
            for row in all.drain(..) {
                match row {
                    Row::Inode(row) => drop(inodes.insert(row.ino)),
                    Row::Refs(row) => drop(blocks.insert(row.block)),
                    Row::Block(name, _) => drop(blocks.insert(name)),
                    _ => {}
                }
            }
        }
        for own in self.stack.state.news().into_iter().rev() {
            for (&ino, row) in &own.inodes {
                let known = row.is_some();
                if known {
                    inodes.insert(ino)
                } else {
                    inodes.remove(&ino)
                };
            }
            for (&block, &bytes) in &own.refs {
                if bytes > 0 {
                    blocks.insert(block)
                } else {
                    blocks.remove(&block)
                };
            }
        }
        (inodes, blocks)
    }

    fn inodes(&mut self) {
        let (inodes, blocks) = self.known();
        if !self.is_snapshot {
            self.refs.extend(blocks.into_iter().map(|block| (block, 0)));
        }
        if inodes.len() as u64 != self.stack.state.numbers.inodes {
            self.findings.push(Finding::Inodes);
        }
        for ino in inodes {
            let row = match self.stack.inode(ino) {
                Ok(Some(row)) => row,
                Ok(None) => continue,
                Err(error) => {
                    self.findings.push(Finding::Content(ino, error));
                    continue;
                }
            };
            if ino.0 >= self.stack.state.numbers.next_ino {
                self.findings.push(Finding::Number(ino));
            }
            let names = self.names.get(&ino).copied().unwrap_or(0);
            let orphan = match self.is_snapshot {
                true => row.attr.nlink == 0,
                false => self.stack.state.orphans.contains(&ino),
            };
            if (row.attr.nlink == 0) != orphan || (names == 0 && !orphan && ino != Ino::ROOT) {
                self.findings.push(Finding::Lost(ino));
            } else if row.attr.kind != Kind::Directory && row.attr.nlink != names {
                self.findings.push(Finding::Links(ino));
            }
            if let Err(error) = self.content(ino) {
                self.findings.push(Finding::Content(ino, error));
            }
        }
    }

    /// Counts what the runs of a file name.
    fn content(&mut self, ino: Ino) -> Result<(), Error> {
        let mut at = 0;
        while at < END {
            let run = self.stack.run(ino, at)?;
            if let Some(place) = run.place.filter(|place| is_based(place.block)) {
                self.stack.prove_base(place, run.len)?;
            } else if let Some(place) = run.place {
                let bytes = self.refs.entry(place.block).or_default();
                *bytes = bytes.saturating_add(run.len);
                let plain = u64::from(self.stack.block_row(place.block)?.plain);
                if u64::from(place.offset) + run.len > plain {
                    return Err(Damage::Block.into());
                }
            }
            at = run.end();
        }
        Ok(())
    }

    /// Counts what deltas name. Each block that is counted is there.
    fn deltas(&mut self) {
        let mut sum = 0u64;
        for block in self.refs.keys().copied().collect::<Vec<_>>() {
            let Ok(row) = self.stack.block_row(block) else { continue };
            if let Some(base) = row.base {
                let bytes = self.refs.entry(base).or_default();
                *bytes = bytes.saturating_add(row.plain.into());
                sum = sum.saturating_add(row.plain.into());
            }
        }
        if sum != self.stack.state.deltas {
            self.findings.push(Finding::Deltas);
        }
    }

    /// Compares the references of every block, and reads it if `all` says so.
    fn blocks(&mut self, all: bool) {
        for (block, bytes) in self.refs.clone() {
            let state = self.stack.state;
            match self.stack.refs(block) {
                Ok(row) if row.unnamed_since().is_some() && bytes == 0 => {
                    let needed = row.unnamed_since().is_some_and(|since| state.needs(block, since));
                    if !needed && !state.sweeping {
                        self.findings.push(Finding::Kept(block));
                    }
                }
                Ok(row) if row.named() == bytes && bytes > 0 => {}
                _ => self.findings.push(Finding::References(block)),
            }
            let read = match all {
                true => self.stack.prove(block).map(drop),
                false => self.stack.block_row(block).map(drop),
            };
            match read {
                // That is known, and cannot be made good.
                Ok(()) | Err(Error::Damaged(Damage::Lost)) => {}
                Err(error) => self.findings.push(Finding::Block(block, error)),
            }
        }
    }

    /// Compares what segments hold with what is counted.
    fn segments(&mut self, root: Option<(u64, u32)>) {
        let mut live: BTreeMap<u64, u64> = BTreeMap::new();
        let mut add = |segment, bytes| *live.entry(segment).or_default() += bytes;
        for &block in self.refs.keys() {
            let Ok(row) = self.stack.block_row(block) else { continue };
            if let Ok((segment, _)) = self.stack.whereabouts(block, &row)
                && !row.is_lost()
            {
                add(segment, self.stack.refs(block).map_or(0, |refs| refs.needed(row.stored)));
            }
        }
        for table in self.stack.state.tables.iter().chain(&self.stack.state.kept) {
            add(table.top.page.segment, table.bytes);
        }
        if let Some((segment, stored)) = root {
            add(segment, stored.into());
        }
        let segments = self.stack.volume.segments();
        for row in segments.rows() {
            let found = live.remove(&row.number).unwrap_or(0);
            let used =
                matches!(row.condition, Condition::Log | Condition::Tables | Condition::Moved);
            if row.live != found || (!used && found > 0) {
                self.findings.push(Finding::Live(row.number));
            }
        }
        self.findings.extend(live.into_keys().map(Finding::Live));
    }
}
