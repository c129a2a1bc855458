//! Filling the leaves of a layer and of a block index.
//!
//! Above: whoever packs. Below: `rows`, `tree`. Invariant: entries come in the order of their keys; a leaf
//! holds rows of one kind and ends when it is full; no more leaves wait than make a table.

use std::io::Write;

use crate::error::Result;
use crate::group::Measure;
use crate::key;
use crate::limits::{PIECES_PER_PAGE_MAX, ROWS_MAX};
use crate::root::Top;
use crate::rows::blocks::{BlockRow, Blocks};
use crate::rows::extents::{Content, Extent, Extents};
use crate::rows::inodes::{Inode, Inodes};
use crate::rows::names::{Named, Names};
use crate::rows::xattrs::{Xattr, Xattrs};
use crate::superblock::{ROOTS, TABLES};
use crate::tree::{Growing, Leaf, Writing};

/// Bytes that a row takes in a page before it is compressed, in about.
mod weight {
    /// Columns of an inode that differ from row to row.
    pub const INODE: usize = 10;
    /// A name's numbers.
    pub const NAME: usize = 4;
    /// An attribute's numbers.
    pub const XATTR: usize = 4;
    /// A stretch, or a piece of one.
    pub const EXTENT: usize = 8;
    /// A row of the block index without its checks.
    pub const BLOCK: usize = 44;
    /// The length of a section in words.
    pub const SECTION: usize = 3;
}

/// Rows that wait for their leaf to be full.
#[derive(Debug)]
enum Rows {
    Inodes(Vec<Inode>),
    Names(Vec<Named>),
    Xattrs(Vec<Xattr>),
    Extents(Vec<Extent>),
}

impl Rows {
    const fn kind(&self) -> u8 {
        match self {
            Self::Inodes(_) => key::kind::INODE,
            Self::Names(_) => key::kind::NAME,
            Self::Xattrs(_) => key::kind::XATTR,
            Self::Extents(_) => key::kind::EXTENT,
        }
    }

    fn leaf(&self, measure: Measure) -> Option<Leaf> {
        let (key, entries, plain) = match self {
            Self::Inodes(rows) => {
                (key::inode(rows.first()?.ino), rows.len(), Inodes::encode(rows, measure))
            }
            Self::Names(rows) => {
                let first = rows.first()?;
                (key::name(first.dir, &first.name), rows.len(), Names::encode(rows, measure))
            }
            Self::Xattrs(rows) => {
                let first = rows.first()?;
                (key::xattr(first.ino, &first.name), rows.len(), Xattrs::encode(rows, measure))
            }
            Self::Extents(rows) => {
                let first = rows.first()?;
                (key::extent(first.ino, first.start), rows.len(), Extents::encode(rows, measure))
            }
        };
        Some(Leaf { kind: self.kind(), key, entries: entries as u64, plain })
    }
}

/// Takes entries in the order of their keys and makes leaves of them.
#[derive(Debug)]
pub struct LayerWriter<W> {
    writing: Writing,
    page_len: usize,
    rows: Rows,
    count: usize,
    weight: usize,
    pieces: usize,
    leaves: Growing<W>,
}

impl<W: Write> LayerWriter<W> {
    /// Nothing yet; pages are full at so many plain bytes, and leaves go to `tables`, whose whole they will be.
    #[must_use]
    pub const fn new(writing: Writing, page_len: usize, tables: W) -> Self {
        Self {
            writing,
            page_len,
            rows: Rows::Inodes(Vec::new()),
            count: 0,
            weight: 0,
            pieces: 0,
            leaves: Growing::new(writing, TABLES, tables),
        }
    }

    fn flush(&mut self) -> Result<()> {
        (self.count, self.weight, self.pieces) = (0, 0, 0);
        self.rows.leaf(self.writing.measure()).map_or(Ok(()), |leaf| self.leaves.push(leaf))
    }

    /// Ends the leaf if one more row of this weight would be too much.
    fn make_room(&mut self, weight: usize, pieces: usize) -> Result<bool> {
        let full = self.count == ROWS_MAX
            || (self.count > 0 && self.weight + weight > self.page_len)
            || self.pieces + pieces > PIECES_PER_PAGE_MAX;
        if full {
            self.flush()?;
        }
        self.count += 1;
        self.weight += weight;
        self.pieces += pieces;
        Ok(full)
    }

    /// An inode.
    ///
    /// # Errors
    /// What the codec or `tables` says.
    pub fn inode(&mut self, row: Inode) -> Result<()> {
        let full = self.make_room(weight::INODE + row.inline.len(), 0)?;
        match &mut self.rows {
            Rows::Inodes(rows) if !full => rows.push(row),
            rows => *rows = Rows::Inodes(vec![row]),
        }
        Ok(())
    }

    /// Ends the leaf if it holds another kind of rows.
    fn turn_to(&mut self, empty: Rows) -> Result<()> {
        if self.rows.kind() != empty.kind() {
            self.flush()?;
            self.rows = empty;
        }
        Ok(())
    }

    /// A name.
    ///
    /// # Errors
    /// What the codec or `tables` says.
    pub fn name(&mut self, row: Named) -> Result<()> {
        self.turn_to(Rows::Names(Vec::new()))?;
        let full = self.make_room(weight::NAME + row.name.len(), 0)?;
        match &mut self.rows {
            Rows::Names(rows) if !full => rows.push(row),
            rows => *rows = Rows::Names(vec![row]),
        }
        Ok(())
    }

    /// An extended attribute.
    ///
    /// # Errors
    /// What the codec or `tables` says.
    pub fn xattr(&mut self, row: Xattr) -> Result<()> {
        self.turn_to(Rows::Xattrs(Vec::new()))?;
        let full = self.make_room(weight::XATTR + row.name.len() + row.value.len(), 0)?;
        match &mut self.rows {
            Rows::Xattrs(rows) if !full => rows.push(row),
            rows => *rows = Rows::Xattrs(vec![row]),
        }
        Ok(())
    }

    /// A stretch of a file.
    ///
    /// # Errors
    /// What the codec or `tables` says.
    pub fn extent(&mut self, row: Extent) -> Result<()> {
        self.turn_to(Rows::Extents(Vec::new()))?;
        let pieces = match &row.content {
            Content::Same(_) => 0,
            Content::Pieces(pieces) => pieces.len(),
        };
        let full = self.make_room(weight::EXTENT * (1 + pieces), pieces)?;
        match &mut self.rows {
            Rows::Extents(rows) if !full => rows.push(row),
            rows => *rows = Rows::Extents(vec![row]),
        }
        Ok(())
    }

    /// Compresses what is left: what is above the leaves into the end of `roots`. Gives back where the leaves are.
    ///
    /// # Errors
    /// What the codec or `tables` says.
    pub fn finish(mut self, roots: &mut Vec<u8>) -> Result<(Top, W)> {
        self.flush()?;
        self.leaves.finish(roots)
    }
}

/// Writes the index of a segment's blocks into `roots`; `None` if there are no blocks.
///
/// # Errors
/// What the codec says.
pub fn write_index(
    rows: &[BlockRow],
    writing: Writing,
    page_len: usize,
    roots: &mut Vec<u8>,
) -> Result<Option<Top>> {
    let mut leaves = Vec::new();
    let (mut from, mut weight) = (0, 0);
    for (row, block) in rows.iter().enumerate() {
        let own =
            weight::BLOCK + block.checksums.len() * 8 + block.sections.len() * weight::SECTION;
        if row > from && (weight + own > page_len || row - from == ROWS_MAX) {
            leaves.push(index_leaf(rows, from..row, writing.measure()));
            (from, weight) = (row, 0);
        }
        weight += own;
    }
    if from == rows.len() {
        return Ok(None);
    }
    leaves.push(index_leaf(rows, from..rows.len(), writing.measure()));
    writing.build(&leaves, ROOTS, None, roots).map(Some)
}

fn index_leaf(rows: &[BlockRow], range: core::ops::Range<usize>, measure: Measure) -> Leaf {
    let slot = range.start as u32;
    let entries = range.len() as u64;
    let plain = Blocks::encode(slot, &rows[range], measure);
    Leaf { kind: key::kind::BLOCK, key: key::slot(slot), entries, plain }
}
