//! A delta: the rows of one commit, each with its final value, and their pages.
//!
//! Above: `commit` fills one, `recovery` reads one back. Below: esker-stone's rows. Invariant: rows of a kind rise; a
//! page holds whole groups only.

use esker::Ino;
use esker_stone::key::kind;
use esker_stone::rows::blocks::{BlockRow, Blocks};
use esker_stone::rows::extents::{BlockName, Content, Extent, Extents};
use esker_stone::rows::inodes::{Inode, Inodes};
use esker_stone::rows::names::{Named, Names};
use esker_stone::rows::numbers::NumberRow;
use esker_stone::rows::places::{Listing, Listings};
use esker_stone::rows::xattrs::{Xattr, Xattrs};
use esker_stone::rows::{gone, numbers};
use esker_stone::{Measure, Unsupported, groups};

use crate::error::Result;
use crate::limits::{GROUP_LEN, GROUP_ROWS};
use crate::rows::{Begun, Counter, Live, Move, Orphan, Refs};

/// The rows of a commit.
#[derive(Clone, Debug, Default)]
pub struct Delta {
    /// Inodes.
    pub inodes: Vec<Inode>,
    /// Names.
    pub names: Vec<Named>,
    /// Places in listings.
    pub places: Vec<Listing>,
    /// Extended attributes.
    pub xattrs: Vec<Xattr>,
    /// Stretches of files.
    pub extents: Vec<Extent>,
    /// References of blocks.
    pub refs: Vec<Refs>,
    /// Blocks that were moved.
    pub moves: Vec<Move>,
    /// Segments that were begun for these.
    pub begun: Vec<Begun>,
    /// Keys of what is gone.
    pub gone: Vec<Vec<u8>>,
    /// Needed bytes of segments.
    pub lives: Vec<Live>,
    /// Inodes without a name.
    pub orphans: Vec<Orphan>,
    /// Counters.
    pub counters: Vec<Counter>,
    /// Blocks.
    pub blocks: Vec<(BlockName, BlockRow)>,
}

/// Groups on their way into pages.
struct Pages {
    limit: usize,
    pages: Vec<Vec<u8>>,
}

impl Pages {
    fn group(&mut self, bytes: &[u8]) {
        match self.pages.last_mut() {
            Some(page) if page.len() + bytes.len() <= self.limit => page.extend_from_slice(bytes),
            _ => self.pages.push(bytes.to_vec()),
        }
    }

    /// Cuts rows into groups of bounded weight.
    fn rows<T>(
        &mut self,
        rows: &[T],
        weight: impl Fn(&T) -> usize,
        encode: impl Fn(&[T]) -> Vec<u8>,
    ) {
        let (mut from, mut sum) = (0, 0);
        for (at, row) in rows.iter().enumerate() {
            let own = weight(row);
            if at > from && (sum + own > GROUP_LEN || at - from == GROUP_ROWS) {
                self.group(&encode(&rows[from..at]));
                (from, sum) = (at, 0);
            }
            sum += own;
        }
        if from < rows.len() {
            self.group(&encode(&rows[from..]));
        }
    }

    fn numbers<const N: usize, R: NumberRow<N>>(&mut self, rows: &[R], measure: Measure) {
        self.rows(rows, |_| N * 4, |rows| numbers::encode(rows, measure));
    }
}

fn pieces(row: &Extent) -> usize {
    match &row.content {
        Content::Same(_) => 1,
        Content::Pieces(pieces) => pieces.len(),
    }
}

impl Delta {
    /// Puts all rows in order.
    pub fn sort(&mut self) {
        self.inodes.sort_by_key(|row| row.ino);
        self.names.sort_by(|a, b| (a.dir, &a.name).cmp(&(b.dir, &b.name)));
        self.places.sort_by_key(|row| (row.dir, row.seq));
        self.xattrs.sort_by(|a, b| (a.ino, &a.name).cmp(&(b.ino, &b.name)));
        self.extents.sort_by_key(|row| (row.ino, row.start));
        self.refs.sort_by_key(|row| row.block);
        self.moves.sort_by_key(|row| row.block);
        self.begun.sort_by_key(|row| row.segment);
        self.gone.sort();
        self.gone.dedup();
        self.lives.sort_by_key(|row| row.segment);
        self.orphans.sort_by_key(|row| row.0);
        self.counters.sort_by_key(|row| row.number);
    }

    /// The plain bytes of as many pages as it takes, none longer than `limit` unless one group is. Blocks are left
    /// out: each part has the rows of its own.
    #[must_use]
    pub fn pages(&self, limit: usize, measure: Measure) -> Vec<Vec<u8>> {
        let mut to = Pages { limit, pages: Vec::new() };
        let m = measure;
        to.rows(&self.inodes, |row| 40 + row.inline.len(), |rows| Inodes::encode(rows, m));
        to.rows(&self.names, |row| 12 + row.name.len(), |rows| Names::encode(rows, m));
        to.rows(&self.places, |row| 8 + row.name.len(), |rows| Listings::encode(rows, m));
        let weight = |row: &Xattr| 8 + row.name.len() + row.value.len();
        to.rows(&self.xattrs, weight, |rows| Xattrs::encode(rows, m));
        to.rows(&self.extents, |row| 16 + 16 * pieces(row), |rows| Extents::encode(rows, m));
        to.numbers(&self.refs, m);
        to.numbers(&self.moves, m);
        to.numbers(&self.begun, m);
        to.rows(&self.gone, Vec::len, |rows| gone::encode(rows, m));
        to.numbers(&self.lives, m);
        to.numbers(&self.orphans, m);
        to.numbers(&self.counters, m);
        to.pages
    }

    /// Whether it says anything: without rows, blocks are nobody's.
    #[must_use]
    pub const fn has_rows(&self) -> bool {
        let Self { inodes, names, places, xattrs, extents, refs, .. } = self;
        let Self { moves, begun, gone, lives, orphans, counters, .. } = self;
        let files = inodes.is_empty() && names.is_empty() && places.is_empty();
        let bytes = xattrs.is_empty() && extents.is_empty() && refs.is_empty();
        let moved = moves.is_empty() && begun.is_empty() && lives.is_empty();
        !(files && bytes && moved && gone.is_empty() && orphans.is_empty() && counters.is_empty())
    }

    /// Adds the rows of a page. `segment` is where blocks are that do not say it.
    ///
    /// # Errors
    /// `Stone`.
    pub fn read(&mut self, plain: &[u8], segment: u64) -> Result<()> {
        for (kind, bytes) in groups(plain)? {
            self.read_group(kind, bytes, segment)?;
        }
        Ok(())
    }

    fn read_group(&mut self, kind: u8, bytes: &[u8], segment: u64) -> Result<()> {
        match kind {
            kind::INODE => {
                let page = Inodes::decode(bytes)?;
                for row in 0..page.len() {
                    self.inodes.push(Inode {
                        ino: page.ino(row).unwrap_or(Ino(0)),
                        attr: page.attr_at(row)?,
                        inline: page.inline_at(row).to_vec(),
                    });
                }
            }
            kind::NAME => {
                let page = Names::decode(bytes)?;
                for row in 0..page.len() {
                    self.names.push(page.row(row)?);
                }
            }
            kind::PLACE => {
                let page = Listings::decode(bytes)?;
                let row =
                    |(dir, seq, name): (Ino, u64, &[u8])| Listing { dir, seq, name: name.to_vec() };
                self.places.extend((0..page.len()).filter_map(|at| page.row(at)).map(row));
            }
            kind::XATTR => {
                let page = Xattrs::decode(bytes)?;
                let row = |(ino, name, value): (Ino, &[u8], &[u8])| Xattr {
                    ino,
                    name: name.to_vec(),
                    value: value.to_vec(),
                };
                self.xattrs.extend((0..page.len()).filter_map(|at| page.row(at)).map(row));
            }
            kind::EXTENT => {
                let page = Extents::decode(bytes)?;
                for row in 0..page.len() {
                    self.extents.push(page.row(row)?);
                }
            }
            kind::REFS => self.refs.extend(numbers::decode::<3, Refs>(bytes)?),
            kind::MOVE => self.moves.extend(numbers::decode::<5, Move>(bytes)?),
            kind::BEGUN => self.begun.extend(numbers::decode::<2, Begun>(bytes)?),
            kind::GONE => self.gone.extend(gone::decode(bytes)?),
            kind::LIVE => self.lives.extend(numbers::decode::<2, Live>(bytes)?),
            kind::ORPHAN => self.orphans.extend(numbers::decode::<1, Orphan>(bytes)?),
            kind::COUNTER => self.counters.extend(numbers::decode::<2, Counter>(bytes)?),
            kind::BLOCK => {
                let page = Blocks::decode(bytes)?;
                let segment = if page.segment() == 0 { segment } else { page.segment() };
                let row =
                    |(slot, row): (u32, &BlockRow)| (BlockName { segment, slot }, row.clone());
                self.blocks.extend(page.iter().map(row));
            }
            _ => return Err(esker_stone::Error::from(Unsupported::Group(kind)).into()),
        }
        Ok(())
    }
}
