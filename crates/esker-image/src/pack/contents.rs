//! What files hold: each content once, as its parts, and where these came to lie.
//!
//! Above: `data`, `packer`, `kinds`. Invariant: a part lies in the spool, in a block that is known already, in one that
//! is made, or is a hole; every address of the spool is in exactly one unit, and each unit in one block.

use std::collections::HashMap;

use esker_stone::check::Hash;
use esker_stone::recipe::Ingredient;
use esker_stone::rows::extents::{BlockName, Piece, Place};
use esker_stone::superblock::DATA;

use super::made::Text;
use super::units::Units;

/// Bytes that the tables take for each piece or content, in about.
const KNOWN_LEN: u64 = 96;

/// Where the bytes of a part are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Nowhere: they are zero.
    Hole,
    /// In the spool, where this part brought them.
    Spool(u64),
    /// In the spool, where another part brought them.
    Again(u64),
    /// In a block that was there before, by its number among these.
    There(u32),
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
}

/// Where a piece was seen that comes again.
#[derive(Clone, Copy, Debug)]
enum Seen {
    /// In a content, from this byte on.
    Content(u32, u64),
    /// In a base: these of the parts in bases.
    Base(u32, u32),
}

/// What files hold.
#[derive(Default)]
pub(super) struct Contents {
    /// Contents by their hash.
    known: HashMap<Hash, u32>,
    /// Pieces by theirs.
    pieces: HashMap<Hash, Seen>,
    /// For each content, the end of its parts.
    ends: Vec<u32>,
    parts: Vec<Part>,
    /// Parts of pieces in bases.
    base_parts: Vec<Part>,
    /// Places in blocks that were there before.
    there: Vec<Place>,
    /// Where each unit of the spool came to lie: slot, offset.
    places: Vec<(u32, u32)>,
    /// The slot of the first block that is made.
    made_slot: u32,
    /// Contents that hold the text of others: the other, and the text.
    texts: Vec<(u32, u32)>,
}

impl Contents {
    /// How many there are.
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes of memory that it takes, in about.
    pub fn memory(&self) -> u64 {
        let known = self.known.len() + self.pieces.len();
        let parts = self.parts.len() + self.base_parts.len() + self.there.len();
        let parts = parts + self.texts.len();
        known as u64 * KNOWN_LEN + (parts * size_of::<Part>() + self.places.len() * 8) as u64
    }

    /// Adds a part to others; what goes on where the last one ended is one with it.
    pub fn join(&self, parts: &mut Vec<Part>, part: Part) {
        if let Some(last) = parts.last_mut()
            && self.goes_on(*last, part)
        {
            last.len += part.len;
        } else if part.len > 0 {
            parts.push(part);
        }
    }

    fn goes_on(&self, last: Part, part: Part) -> bool {
        match (last.source, part.source) {
            (Source::Spool(at), Source::Spool(next)) | (Source::Again(at), Source::Again(next)) => {
                at + last.len == next
            }
            (Source::Made(one, at), Source::Made(other, next)) => {
                one == other && u64::from(at) + last.len == u64::from(next)
            }
            (Source::There(one), Source::There(other)) => {
                let (one, other) = (self.there[one as usize], self.there[other as usize]);
                one.block == other.block
                    && u64::from(one.offset) + last.len == u64::from(other.offset)
            }
            _ => false,
        }
    }

    /// A part in a block that was there before.
    pub fn there(&mut self, len: u64, place: Place) -> Part {
        self.there.push(place);
        Part { len, source: Source::There((self.there.len() - 1) as u32) }
    }

    /// A piece of a base.
    pub fn base_piece(&mut self, own: Hash, pieces: &[Piece]) {
        let start = self.base_parts.len() as u32;
        for piece in pieces {
            let part = match piece.place {
                Some(place) => self.there(piece.len, place),
                None => Part { len: piece.len, source: Source::Hole },
            };
            self.base_parts.push(part);
        }
        let end = self.base_parts.len() as u32;
        self.pieces.entry(own).or_insert(Seen::Base(start, end));
    }

    /// The number of a content, and whether it is new. `pieces` are the hashes of its pieces, and where each begins.
    pub fn number(&mut self, own: Hash, parts: &[Part], pieces: &[(Hash, u64)]) -> u32 {
        if let Some(&number) = self.known.get(&own) {
            return number;
        }
        let number = self.ends.len() as u32;
        self.parts.extend(parts);
        self.ends.push(self.parts.len() as u32);
        self.known.insert(own, number);
        for &(piece, at) in pieces {
            self.pieces.entry(piece).or_insert(Seen::Content(number, at));
        }
        number
    }

    fn parts(&self, content: u32) -> &[Part] {
        let content = content as usize;
        let start = content.checked_sub(1).and_then(|before| self.ends.get(before));
        let start = start.map_or(0, |&end| end as usize);
        let end = self.ends.get(content).map_or(start, |&end| end as usize);
        &self.parts[start..end]
    }

    /// How many bytes of a content are no hole.
    pub fn data(&self, content: u32) -> u64 {
        let data = self.parts(content).iter().filter(|part| part.source != Source::Hole);
        data.map(|part| part.len).sum()
    }

    /// The parts of a piece that was there before, `len` long.
    pub fn seen(&mut self, piece: &Hash, len: u64) -> Option<Vec<Part>> {
        match *self.pieces.get(piece)? {
            Seen::Base(start, end) => Some(self.base_parts[start as usize..end as usize].to_vec()),
            Seen::Content(content, from) => {
                let (mut found, mut at) = (Vec::new(), 0);
                for part in self.parts(content) {
                    let (start, end) = (from.max(at), (from + len).min(at + part.len));
                    if start < end {
                        found.push((*part, start - at, end - start));
                    }
                    at += part.len;
                }
                Some(
                    found
                        .into_iter()
                        .map(|(part, skip, len)| self.slice(part, skip, len))
                        .collect(),
                )
            }
        }
    }

    /// A part of a part.
    fn slice(&mut self, part: Part, skip: u64, len: u64) -> Part {
        match part.source {
            Source::Spool(at) | Source::Again(at) => Part { len, source: Source::Again(at + skip) },
            Source::There(number) if skip > 0 => {
                let place = self.there[number as usize];
                // Inside of a block, whose length fits.
                self.there(len, Place { offset: place.offset + skip as u32, ..place })
            }
            // Inside of a block as well.
            Source::Made(number, at) => {
                Part { len, source: Source::Made(number, at + skip as u32) }
            }
            source => Part { len, source },
        }
    }

    /// A content of its own that is the text of others, of which only the spool holds parts.
    pub fn text(&mut self, parts: &[Part], pieces: &[(Hash, u64)]) -> u32 {
        let number = self.ends.len() as u32;
        self.parts.extend(parts);
        self.ends.push(self.parts.len() as u32);
        for &(piece, at) in pieces {
            self.pieces.entry(piece).or_insert(Seen::Content(number, at));
        }
        number
    }

    /// The parts of a piece that was there before, if they are all in the spool.
    pub fn seen_in_spool(&mut self, piece: &Hash, len: u64) -> Option<Vec<Part>> {
        let in_spool = |part: &Part| matches!(part.source, Source::Spool(_) | Source::Again(_));
        self.seen(piece, len).filter(|parts| parts.iter().all(in_spool))
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
    pub fn knows(&self, own: &Hash) -> bool {
        self.known.contains_key(own)
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
    pub fn ingredients(&self, text: Text, units: &Units) -> Vec<Ingredient> {
        let (mut found, mut at) = (Vec::new(), 0);
        let (from, to) = (text.from, text.from + text.len);
        for piece in self.pieces(text.content, units) {
            let (start, end) = (from.max(at), to.min(at + piece.len));
            if let Some(place) = piece.place.filter(|_| start < end) {
                let offset = place.offset + (start - at) as u32;
                let len = (end - start) as u32;
                found.push(Ingredient { slot: place.block.slot, offset, len });
            }
            at += piece.len;
        }
        found
    }

    /// The pieces of a content.
    pub fn pieces(&self, content: u32, units: &Units) -> Vec<Piece> {
        self.some_pieces(self.parts(content).iter(), units)
    }

    /// The pieces of a content that it brought itself.
    pub fn own_pieces(&self, content: u32, units: &Units) -> Vec<Piece> {
        let own = |part: &&Part| !matches!(part.source, Source::Again(_));
        self.some_pieces(self.parts(content).iter().filter(own), units)
    }

    fn some_pieces<'a>(&self, parts: impl Iterator<Item = &'a Part>, units: &Units) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        for part in parts {
            match part.source {
                Source::Hole => pieces.push(Piece { len: part.len, place: None }),
                Source::There(number) => {
                    let place = Some(self.there[number as usize]);
                    pieces.push(Piece { len: part.len, place });
                }
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
