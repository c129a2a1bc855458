//! Rows of extents: which bytes of which blocks make up a file.

use esker::Ino;
use esker::limits::FILE_SIZE_MAX;

use super::pieces::{Places, place};
use super::{count_before, rising, write_rising};
use crate::column::{Numbers, apply, difference, unzigzag, zigzag};
use crate::error::{Damage, Result};
use crate::group::{Group, GroupWriter, Measure};
use crate::key::kind;
use crate::limits::{BLOCK_LEN_MAX, PIECES_MAX, PIECES_PER_PAGE_MAX};

const INO: u8 = 1;
const START: u8 = 3;
const LEN: u8 = 4;
const PIECES: u8 = 5;
const ALIAS: u8 = 6;
const PIECE_LEN: u8 = 7;
const SEGMENT: u8 = 8;
const SLOT: u8 = 9;
const OFFSET: u8 = 10;
const RELATION: u8 = 11;
const BACK: u8 = 12;
const COLUMNS: [u8; 12] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];

/// One of so many pieces must be told by others for all of them to be told so: a page in which fewer are is no smaller.
const RELATED: usize = 4;

/// A block's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockName {
    /// The segment that it was written in; its top 16 bits say of which image.
    pub segment: u64,
    /// Its number there.
    pub slot: u32,
}

/// Where a piece of a file begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The block.
    pub block: BlockName,
    /// The first byte in it.
    pub offset: u32,
}

/// A piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// In bytes.
    pub len: u64,
    /// Where its bytes are; nowhere: it is a hole.
    pub place: Option<Place>,
}

/// What a stretch of a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The same as another inode's, all of it.
    Same(Ino),
    /// Pieces in their order.
    Pieces(Vec<Piece>),
}

/// A stretch of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Whose.
    pub ino: Ino,
    /// Where it begins.
    pub start: u64,
    /// How long it is; `None`: up to the end of the file.
    pub len: Option<u64>,
    /// What it holds. The last piece's length counts only together with `len`.
    pub content: Content,
}

/// A page of extents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extents {
    inos: Vec<u64>,
    starts: Numbers,
    lens: Numbers,
    /// For each row, the number of its first piece, or of its alias; and of its first piece's length.
    firsts: Vec<(u32, u32)>,
    counts: Numbers,
    aliases: Numbers,
    piece_lens: Numbers,
    segments: Numbers,
    slots: Numbers,
    offsets: Numbers,
}

/// The segment, slot and offset of each of so many pieces.
fn places(
    group: &Group<'_>,
    pieces: usize,
    counts: &Numbers,
    lens: &Numbers,
) -> Result<[Numbers; 3]> {
    let relations = group.some_numbers(RELATION, pieces)?;
    let related = (0..pieces).filter(|&piece| relations.get(piece) != 0).count();
    let columns = [SEGMENT, SLOT, OFFSET];
    let [segments, slots, offsets] =
        columns.map(|column| group.some_numbers(column, pieces - related));
    let alone = [segments?, slots?, offsets?];
    if related == 0 {
        return Ok(alone);
    }
    let all = |numbers: &Numbers, count| (0..count).map(|at| numbers.get(at)).collect();
    let [segments, slots, offsets] = alone.map(|numbers| all(&numbers, pieces - related));
    let backs = all(&group.some_numbers(BACK, related)?, related);
    let told = Places { relations: all(&relations, pieces), backs, segments, slots, offsets };
    let rows = (0..group.count).map(|row| counts.get(row) as usize).filter(|&count| count > 0);
    let found = told.resolve(rows, (0..).map(|at| lens.get(at)))?;
    Ok([found.segments, found.slots, found.offsets].map(Numbers::narrow))
}

impl Extents {
    /// The plain bytes of a page of these, which rise by inode and start.
    #[must_use]
    pub fn encode(rows: &[Extent], measure: Measure) -> Vec<u8> {
        let mut group = GroupWriter::new(kind::EXTENT, rows.len(), measure);
        let inos: Vec<_> = rows.iter().map(|row| row.ino.0).collect();
        write_rising(&mut group, (INO, INO + 1), &inos, 0);
        let mut counts = Vec::with_capacity(rows.len());
        let (mut aliases, mut lens, mut in_pieces) = (vec![], vec![], vec![]);
        for row in rows {
            match &row.content {
                Content::Same(other) => {
                    counts.push(0);
                    aliases.push(difference(row.ino.0, other.0));
                }
                Content::Pieces(pieces) => {
                    counts.push(pieces.len() as u64);
                    lens.extend(pieces.iter().take(pieces.len().max(1) - 1).map(|p| p.len));
                    in_pieces.push(pieces.as_slice());
                }
            }
        }
        group.numbers(START, &rows.iter().map(|row| row.start).collect::<Vec<_>>());
        group.numbers(LEN, &rows.iter().map(|row| row.len.unwrap_or(0)).collect::<Vec<_>>());
        group.numbers(PIECES, &counts);
        group.numbers(ALIAS, &aliases);
        group.numbers(PIECE_LEN, &lens);
        let mut places = Places::related(&in_pieces);
        if places.backs.len() * RELATED < places.relations.len() {
            places = Places::alone(&in_pieces);
        }
        group.numbers(SEGMENT, &places.segments);
        group.numbers(SLOT, &places.slots);
        group.numbers(OFFSET, &places.offsets);
        group.numbers(RELATION, &places.relations);
        group.numbers(BACK, &places.backs);
        group.page()
    }

    /// From the plain bytes of a page.
    ///
    /// # Errors
    /// `Damaged`, `Unsupported`.
    pub fn decode(plain: &[u8]) -> Result<Self> {
        let group = Group::only(plain, kind::EXTENT, &COLUMNS)?;
        let inos = rising(&group, (INO, INO + 1), 0)?;
        let (starts, lens) = (group.numbers(START)?, group.numbers(LEN)?);
        let counts = group.numbers(PIECES)?;
        let (mut firsts, mut pieces, mut aliases) = (Vec::with_capacity(group.count), 0, 0);
        for row in 0..group.count {
            let count = usize::try_from(counts.get(row)).unwrap_or(usize::MAX);
            if count > PIECES_MAX || starts.get(row) > FILE_SIZE_MAX {
                return Err(Damage::Range.into());
            }
            let same = row > 0 && inos[row - 1] == inos[row];
            if same && starts.get(row - 1) >= starts.get(row) {
                return Err(Damage::Order.into());
            }
            // Each row with pieces has one length less than it has pieces.
            let with_pieces = row - aliases;
            let first = if count == 0 { aliases } else { pieces };
            firsts.push((first as u32, (pieces - with_pieces) as u32));
            pieces += count;
            aliases += usize::from(count == 0);
        }
        if pieces > PIECES_PER_PAGE_MAX {
            return Err(Damage::Range.into());
        }
        let with_len = pieces - (group.count - aliases);
        let piece_lens = group.some_numbers(PIECE_LEN, with_len)?;
        let [segments, slots, offsets] = places(&group, pieces, &counts, &piece_lens)?;
        let page = Self {
            inos,
            starts,
            lens,
            firsts,
            counts,
            aliases: group.some_numbers(ALIAS, aliases)?,
            piece_lens,
            segments,
            slots,
            offsets,
        };
        for row in 0..page.len() {
            page.row(row)?;
        }
        Ok(page)
    }

    /// How many stretches there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.inos.len()
    }

    /// None at all.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.inos.is_empty()
    }

    /// The first row that does not begin before this byte of a file.
    #[must_use]
    pub fn lower_bound(&self, ino: Ino, at: u64) -> usize {
        let before = |row: usize| (self.inos[row], self.starts.get(row)) < (ino.0, at);
        count_before(self.inos.len(), before)
    }

    /// The row of the stretch that holds a byte of a file, or would.
    #[must_use]
    pub fn holding(&self, ino: Ino, at: u64) -> Option<usize> {
        let behind = self.lower_bound(ino, at.saturating_add(1));
        behind.checked_sub(1).filter(|&row| self.inos.get(row) == Some(&ino.0))
    }

    /// A row.
    ///
    /// # Errors
    /// `Range`, which a page that was decoded does not have.
    pub fn row(&self, row: usize) -> Result<Extent> {
        let ino = *self.inos.get(row).ok_or(Damage::Reference)?;
        let (start, len) = (self.starts.get(row), self.lens.get(row));
        let end = start.checked_add(len).filter(|&end| end <= FILE_SIZE_MAX);
        end.ok_or(Damage::Range)?;
        let len = (len > 0).then_some(len);
        let &(first, first_len) = self.firsts.get(row).ok_or(Damage::Reference)?;
        let (first, first_len) = (first as usize, first_len as usize);
        let count = self.counts.get(row) as usize;
        if count == 0 {
            let other = apply(ino, zigzag(unzigzag(self.aliases.get(first)).wrapping_neg()));
            if other == ino || start != 0 || len.is_some() {
                return Err(Damage::Range.into());
            }
            return Ok(Extent { ino: Ino(ino), start, len, content: Content::Same(Ino(other)) });
        }
        let (mut pieces, mut known) = (Vec::with_capacity(count), 0u64);
        for index in 0..count {
            let last = index + 1 == count;
            let own = if last { 0 } else { self.piece_lens.get(first_len + index) };
            known = known.checked_add(own).ok_or(Damage::Range)?;
            if !last && own == 0 {
                return Err(Damage::Range.into());
            }
            pieces.push(Piece { len: own, place: self.place(first + index)? });
        }
        let rest = match len {
            Some(len) => len.checked_sub(known).filter(|&rest| rest > 0).ok_or(Damage::Extents)?,
            None => 0,
        };
        if let Some(last) = pieces.last_mut() {
            last.len = rest;
        }
        Ok(Extent { ino: Ino(ino), start, len, content: Content::Pieces(pieces) })
    }

    fn place(&self, number: usize) -> Result<Option<Place>> {
        let numbers = [&self.segments, &self.slots, &self.offsets].map(|all| all.get(number));
        let found = place(numbers)?;
        if found.is_some_and(|place| place.offset as usize >= BLOCK_LEN_MAX) {
            return Err(Damage::Range.into());
        }
        Ok(found)
    }

    /// Bytes that it takes in memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        let columns = [
            &self.starts,
            &self.lens,
            &self.counts,
            &self.aliases,
            &self.piece_lens,
            &self.segments,
            &self.slots,
            &self.offsets,
        ];
        self.inos.len() * 16 + columns.iter().map(|column| column.memory()).sum::<usize>()
    }
}
