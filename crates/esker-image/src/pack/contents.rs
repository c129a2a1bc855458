//! What files hold: each content once, as its parts, and where these came to lie.
//!
//! Above: `data`, `packer`, `kinds`. Below: `shelf`, `finder`. Invariant: a part lies in the spool, in a block that
//! is known already, in one that is made, or is a hole; every address of the spool is in exactly one unit, and each
//! unit in one block.

use esker::layout;
use esker_stone::check::Hash;
use esker_stone::recipe::Ingredient;
use esker_stone::rows::extents::{BlockName, Piece, Place};
use esker_stone::superblock::DATA;

use super::Result;
use super::finder::Finder;
use super::made::Text;
use super::scratch::Scratches;
use super::shelf::{Rows, row};
use super::units::Units;

/// Where the bytes of a part are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Nowhere: they are zero.
    Hole,
    /// In the spool, where this part brought them.
    Spool(u64),
    /// In the spool, where another part brought them.
    Again(u64),
    /// In a block that was there before.
    There(Place),
    /// In a block that is made, by its number among these, and where in it.
    Made(u32, u32),
}

/// A stretch of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub len: u64,
    pub source: Source,
}

impl Part {
    /// What is behind the first bytes of a part that is made; `None`: nothing.
    pub fn behind(self, len: u64) -> Option<Self> {
        match self.source {
            Source::Made(number, at) if len < self.len => {
                // Inside of a block, whose length fits.
                let source = Source::Made(number, at + len as u32);
                Some(Self { len: self.len - len, source })
            }
            _ => None,
        }
    }

    fn goes_on(&self, part: Self) -> bool {
        match (self.source, part.source) {
            (Source::Spool(at), Source::Spool(next)) | (Source::Again(at), Source::Again(next)) => {
                at + self.len == next
            }
            (Source::Made(one, at), Source::Made(other, next)) => {
                one == other && u64::from(at) + self.len == u64::from(next)
            }
            (Source::There(one), Source::There(other)) => {
                one.block == other.block
                    && u64::from(one.offset) + self.len == u64::from(other.offset)
            }
            _ => false,
        }
    }

    /// A part of it, for somebody else.
    const fn slice(self, skip: u64, len: u64) -> Self {
        // Inside of a block, whose length fits.
        let source = match self.source {
            Source::Hole => Source::Hole,
            Source::Spool(at) | Source::Again(at) => Source::Again(at + skip),
            Source::There(place) => {
                Source::There(Place { offset: place.offset + skip as u32, ..place })
            }
            Source::Made(number, at) => Source::Made(number, at + skip as u32),
        };
        Self { len, source }
    }
}

/// Adds a part to others; what goes on where the last one ended is one with it.
pub(super) fn join(parts: &mut Vec<Part>, part: Part) {
    if let Some(last) = parts.last_mut()
        && last.goes_on(part)
    {
        last.len += part.len;
    } else if part.len > 0 {
        parts.push(part);
    }
}

layout! {
    /// A part.
    pub struct PartRow: 25 {
        0 => len: u64,
        8 => source: u8,
        9 => at: u64,
        17 => number: u32,
        21 => offset: u32,
    }
}
row!(PartRow);

/// What the numbers of a [`PartRow`] say.
mod source {
    pub const HOLE: u8 = 0;
    pub const SPOOL: u8 = 1;
    pub const AGAIN: u8 = 2;
    pub const THERE: u8 = 3;
    pub const MADE: u8 = 4;
}

impl From<Part> for PartRow {
    fn from(part: Part) -> Self {
        let (source, at, number, offset) = match part.source {
            Source::Hole => (source::HOLE, 0, 0, 0),
            Source::Spool(at) => (source::SPOOL, at, 0, 0),
            Source::Again(at) => (source::AGAIN, at, 0, 0),
            Source::There(Place { block, offset }) => {
                (source::THERE, block.segment, block.slot, offset)
            }
            Source::Made(number, offset) => (source::MADE, 0, number, offset),
        };
        Self { len: part.len, source, at, number, offset }
    }
}

impl From<PartRow> for Part {
    fn from(row: PartRow) -> Self {
        let PartRow { len, at, number: slot, offset, .. } = row;
        let source = match row.source {
            source::SPOOL => Source::Spool(at),
            source::AGAIN => Source::Again(at),
            source::THERE => {
                Source::There(Place { block: BlockName { segment: at, slot }, offset })
            }
            source::MADE => Source::Made(slot, offset),
            _ => Source::Hole,
        };
        Self { len, source }
    }
}

layout! {
    /// A content: its parts follow each other.
    pub struct ContentRow: 48 {
        0 => hash: Hash,
        32 => first: u32,
        36 => count: u32,
        40 => data: u64,
    }
}
row!(ContentRow);

layout! {
    /// A piece that may come again: in which part it begins, and behind how many of its bytes; and the content that is
    /// this piece and nothing else.
    pub struct PieceRow: 48 {
        0 => hash: Hash,
        32 => part: u32,
        36 => skip: u64,
        44 => content: u32,
    }
}
row!(PieceRow);

/// No content.
const NONE: u32 = u32::MAX;

/// What files hold. What is known of it lies in scratch files; in memory is what finds it by its hashes.
pub(super) struct Contents {
    contents: Rows<ContentRow>,
    /// Those of several pieces by their hash.
    known: Finder,
    pieces: Rows<PieceRow>,
    /// Pieces by theirs.
    seen: Finder,
    parts: Rows<PartRow>,
    /// Where each unit of the spool came to lie: slot, offset.
    places: Vec<(u32, u32)>,
    /// The slot of the first block that is made.
    made_slot: u32,
    /// Contents that hold the text of others: the other, and the text.
    texts: Vec<(u32, u32)>,
}

impl Contents {
    /// None yet.
    pub fn new(scratches: Scratches<'_>) -> Result<Self> {
        Ok(Self {
            contents: Rows::new(scratches()?),
            known: Finder::new(),
            pieces: Rows::new(scratches()?),
            seen: Finder::new(),
            parts: Rows::new(scratches()?),
            places: Vec::new(),
            made_slot: 0,
            texts: Vec::new(),
        })
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.contents.count() as usize
    }

    /// Bytes of memory that it takes, in about.
    pub fn memory(&self) -> u64 {
        let rows = self.contents.memory() + self.pieces.memory() + self.parts.memory();
        let pairs = self.places.len() + self.texts.len();
        rows + self.known.memory() + self.seen.memory() + pairs as u64 * 8
    }

    /// A piece of a base.
    pub fn base_piece(&mut self, own: &Hash, pieces: &[Piece]) -> Result<()> {
        let part = self.parts.count();
        for &Piece { len, place } in pieces {
            let source = place.map_or(Source::Hole, Source::There);
            self.parts.push(&Part { len, source }.into())?;
        }
        self.see(own, part, 0)
    }

    /// A piece begins in a part behind so many bytes; what was seen before stays where it was.
    fn see(&mut self, own: &Hash, part: u32, skip: u64) -> Result<()> {
        if self.piece(own)?.is_none() {
            let row = PieceRow { hash: *own, part, skip, content: NONE };
            let number = self.pieces.push(&row)?;
            self.seen.insert(own, number);
        }
        Ok(())
    }

    /// A piece, and its number.
    fn piece(&mut self, own: &Hash) -> Result<Option<(u32, PieceRow)>> {
        let Self { seen, pieces, .. } = self;
        let number = seen.find(own, |number| Ok(pieces.get(number)?.hash == *own))?;
        number.map(|number| Ok((number, pieces.get(number)?))).transpose()
    }

    /// The number of a content that is there under this hash.
    fn find(&mut self, own: &Hash) -> Result<Option<u32>> {
        match self.piece(own)? {
            Some((_, PieceRow { content, .. })) if content != NONE => Ok(Some(content)),
            Some(_) => Ok(None),
            None => {
                let Self { known, contents, .. } = self;
                known.find(own, |number| Ok(contents.get(number)?.hash == *own))
            }
        }
    }

    /// The number of a content, new or not. `pieces` are the hashes of its pieces, and where each begins.
    pub fn number(&mut self, own: Hash, parts: &[Part], pieces: &[(Hash, u64)]) -> Result<u32> {
        if let Some(number) = self.find(&own)? {
            return Ok(number);
        }
        let content = self.add(own, parts, pieces)?;
        match self.piece(&own)? {
            Some((number, row)) => self.pieces.set(number, &PieceRow { content, ..row })?,
            None => self.known.insert(&own, content),
        }
        Ok(content)
    }

    /// A new content.
    fn add(&mut self, hash: Hash, parts: &[Part], pieces: &[(Hash, u64)]) -> Result<u32> {
        let (first, count) = (self.parts.count(), parts.len() as u32);
        let (mut ends, mut end, mut data) = (Vec::with_capacity(parts.len()), 0, 0);
        for part in parts {
            self.parts.push(&(*part).into())?;
            end += part.len;
            ends.push(end);
            data += if part.source == Source::Hole { 0 } else { part.len };
        }
        for (piece, at) in pieces {
            let part = ends.partition_point(|end| end <= at);
            let start = part.checked_sub(1).map_or(0, |before| ends[before]);
            self.see(piece, first + part as u32, at - start)?;
        }
        self.contents.push(&ContentRow { hash, first, count, data })
    }

    fn parts(&mut self, content: u32) -> Result<Vec<Part>> {
        let ContentRow { first, count, .. } = self.contents.get(content)?;
        (first..first + count).map(|part| Ok(self.parts.get(part)?.into())).collect()
    }

    /// How many bytes of a content are no hole.
    pub fn data(&mut self, content: u32) -> Result<u64> {
        Ok(self.contents.get(content)?.data)
    }

    /// The parts of a piece that was there before, `len` long.
    pub fn seen(&mut self, piece: &Hash, len: u64) -> Result<Option<Vec<Part>>> {
        let Some((_, row)) = self.piece(piece)? else { return Ok(None) };
        let (mut found, mut left) = (Vec::new(), len);
        let (mut number, mut skip) = (row.part, row.skip);
        while left > 0 && number < self.parts.count() {
            let part = Part::from(self.parts.get(number)?);
            let now = left.min(part.len.saturating_sub(skip));
            found.push(part.slice(skip, now));
            (left, skip, number) = (left - now, 0, number + 1);
        }
        Ok(Some(found))
    }

    /// A content of its own that is the text of others, of which only the spool holds parts.
    pub fn text(&mut self, parts: &[Part], pieces: &[(Hash, u64)]) -> Result<u32> {
        self.add(Hash::default(), parts, pieces)
    }

    /// The parts of a piece that was there before, if they are all in the spool.
    pub fn seen_in_spool(&mut self, piece: &Hash, len: u64) -> Result<Option<Vec<Part>>> {
        let in_spool = |part: &Part| matches!(part.source, Source::Spool(_) | Source::Again(_));
        Ok(self.seen(piece, len)?.filter(|parts| parts.iter().all(in_spool)))
    }

    /// A content is made of the text that another one holds.
    pub fn made_of(&mut self, content: u32, text: u32) {
        self.texts.push((content, text));
    }

    /// All texts, each behind the content that is made of it.
    pub fn texts(&self) -> &[(u32, u32)] {
        &self.texts
    }

    /// Whether a content is there under this hash.
    pub fn knows(&mut self, own: &Hash) -> Result<bool> {
        Ok(self.find(own)?.is_some())
    }

    /// No content and no piece is looked for any more.
    pub fn forget(&mut self) {
        (self.known, self.seen) = (Finder::new(), Finder::new());
    }

    /// Where the units came to lie, in their order.
    pub fn lie(&mut self, places: Vec<(u32, u32)>) {
        self.places = places;
    }

    /// Blocks that are made begin at this slot.
    pub fn make_from(&mut self, slot: u32) {
        self.made_slot = slot;
    }

    /// Where a stretch of a text lies.
    pub fn ingredients(&mut self, text: Text, units: &Units) -> Result<Vec<Ingredient>> {
        let (mut found, mut at) = (Vec::new(), 0);
        let (from, to) = (text.from, text.from + text.len);
        for piece in self.pieces(text.content, units)? {
            let (start, end) = (from.max(at), to.min(at + piece.len));
            if let Some(place) = piece.place.filter(|_| start < end) {
                let offset = place.offset + (start - at) as u32;
                let len = (end - start) as u32;
                found.push(Ingredient { slot: place.block.slot, offset, len });
            }
            at += piece.len;
        }
        Ok(found)
    }

    /// The pieces of a content.
    pub fn pieces(&mut self, content: u32, units: &Units) -> Result<Vec<Piece>> {
        let parts = self.parts(content)?;
        Ok(self.some_pieces(parts.iter(), units))
    }

    /// The pieces of a content that it brought itself.
    pub fn own_pieces(&mut self, content: u32, units: &Units) -> Result<Vec<Piece>> {
        let parts = self.parts(content)?;
        let own = |part: &&Part| !matches!(part.source, Source::Again(_));
        Ok(self.some_pieces(parts.iter().filter(own), units))
    }

    fn some_pieces<'a>(&self, parts: impl Iterator<Item = &'a Part>, units: &Units) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        for part in parts {
            match part.source {
                Source::Hole => pieces.push(Piece { len: part.len, place: None }),
                Source::There(place) => pieces.push(Piece { len: part.len, place: Some(place) }),
                Source::Made(number, offset) => {
                    let block = BlockName { segment: DATA, slot: self.made_slot + number };
                    pieces.push(Piece { len: part.len, place: Some(Place { block, offset }) });
                }
                Source::Spool(at) | Source::Again(at) => {
                    self.spooled(at, part.len, units, &mut pieces);
                }
            }
        }
        pieces
    }

    /// Adds the pieces of a stretch of the spool.
    fn spooled(&self, mut at: u64, mut len: u64, units: &Units, pieces: &mut Vec<Piece>) {
        let mut unit = units.holding(at);
        while len > 0 {
            let (start, end) = units.range(unit);
            let now = len.min(end - at);
            let (slot, offset) = self.places[unit as usize];
            let block = BlockName { segment: DATA, slot };
            let place = Place { block, offset: offset + (at - start) as u32 };
            match pieces.last_mut() {
                Some(Piece { len, place: Some(last) })
                    if last.block == block
                        && u64::from(last.offset) + *len == u64::from(place.offset) =>
                {
                    *len += now;
                }
                _ => pieces.push(Piece { len: now, place: Some(place) }),
            }
            (at, len, unit) = (at + now, len - now, unit + 1);
        }
    }
}
