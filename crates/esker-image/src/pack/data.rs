//! Bytes of files: cut into pieces, each stored once, gathered into blocks.
//!
//! Above: `packer`. Below: `pool`. Invariant: a place that was given out is in a block that has been, or will be,
//! given to the pool; pieces of equal hash have the same place.

use std::collections::HashMap;
use std::io::Write;

use esker_stone::Setting;
use esker_stone::check::{Hash, hash, hash_of_hashes};
use esker_stone::rows::extents::{BlockName, Piece, Place};
use esker_stone::superblock::DATA;

use super::pool::{Pool, Written};
use super::{Error, Options, Result};
use crate::Image;

/// Longest piece that is stored once.
const PIECE_LEN: usize = 1 << 20;
/// Bytes that the tables take for each piece or content, in about.
const KNOWN_LEN: u64 = 96;

/// A piece of a file, packed small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    len: u64,
    /// Of the block; 0: it is a hole.
    segment: u64,
    slot: u32,
    offset: u32,
}

impl Part {
    fn goes_on_at(&self, place: Place) -> bool {
        let same = place.block == BlockName { segment: self.segment, slot: self.slot };
        same && u64::from(self.offset) + self.len == u64::from(place.offset)
    }
}

/// Everything about the bytes.
pub(super) struct Data<W> {
    pool: Pool<W>,
    setting: Setting,
    block_len: usize,
    /// The block that is being filled.
    open: Vec<u8>,
    /// Where pieces are, by their hash.
    places: HashMap<Hash, Place>,
    contents: Contents,
    /// Bytes that were there already.
    pub saved: u64,
    /// Bytes of all blocks.
    pub stored_plain: u64,
    /// Largest block.
    pub largest: u64,
}

/// What files hold: each content once, as its parts.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Contents by their hash.
    known: HashMap<Hash, u32>,
    /// For each content, the end of its parts.
    ends: Vec<u32>,
    parts: Vec<Part>,
}

impl Contents {
    /// How many there are.
    pub const fn len(&self) -> usize {
        self.ends.len()
    }

    /// The number of a content.
    fn number(&mut self, own: Hash, parts: &[Part]) -> u32 {
        if let Some(&number) = self.known.get(&own) {
            return number;
        }
        let number = self.ends.len() as u32;
        self.parts.extend(parts);
        self.ends.push(self.parts.len() as u32);
        self.known.insert(own, number);
        number
    }

    /// The pieces of a content.
    pub fn pieces(&self, content: u32) -> impl Iterator<Item = Piece> {
        let content = content as usize;
        let start = content.checked_sub(1).and_then(|before| self.ends.get(before));
        let start = start.map_or(0, |&end| end as usize);
        let end = self.ends.get(content).map_or(start, |&end| end as usize);
        self.parts[start..end].iter().map(|part| Piece {
            len: part.len,
            place: (part.segment != 0).then_some(Place {
                block: BlockName { segment: part.segment, slot: part.slot },
                offset: part.offset,
            }),
        })
    }
}

/// A file on its way in.
#[derive(Debug, Default)]
pub struct Incoming {
    piece: Vec<u8>,
    parts: Vec<Part>,
    hashes: Vec<Hash>,
    size: u64,
    data: u64,
}

impl<W: Write> Data<W> {
    pub fn start(options: &Options, output: W) -> Result<Self> {
        let (threads, room) = super::packer::workers(options)?;
        Ok(Self {
            pool: Pool::start(threads, room, output)?,
            setting: options.data,
            block_len: options.block_len,
            open: Vec::new(),
            places: HashMap::new(),
            contents: Contents::default(),
            saved: 0,
            stored_plain: 0,
            largest: 0,
        })
    }

    /// Bytes that the tables take, in about.
    pub fn bytes(&self) -> u64 {
        let known = self.places.len() + self.contents.len();
        known as u64 * KNOWN_LEN + self.contents.parts.len() as u64 * 24
    }

    /// Stored bytes so far.
    pub const fn written(&self) -> u64 {
        self.pool.written()
    }

    /// Longest piece.
    pub fn piece_len(&self) -> usize {
        PIECE_LEN.min(self.block_len)
    }

    /// A piece that is stored elsewhere.
    pub fn know(&mut self, piece: Hash, place: Place) {
        self.places.entry(piece).or_insert(place);
    }

    /// More bytes of a file.
    pub fn data(&mut self, file: &mut Incoming, mut bytes: &[u8]) -> Result<()> {
        file.size += bytes.len() as u64;
        file.data += bytes.len() as u64;
        let limit = self.piece_len();
        while !bytes.is_empty() {
            let room = limit - file.piece.len();
            let (now, rest) = bytes.split_at(room.min(bytes.len()));
            file.piece.extend_from_slice(now);
            bytes = rest;
            if file.piece.len() == limit {
                self.cut(file)?;
            }
        }
        Ok(())
    }

    /// A hole in a file.
    pub fn hole(&mut self, file: &mut Incoming, len: u64) -> Result<()> {
        self.cut(file)?;
        if len > 0 {
            file.size += len;
            let mut words = [0; 32];
            words[..8].copy_from_slice(&len.to_le_bytes());
            words[8..12].copy_from_slice(b"hole");
            file.hashes.push(words);
            file.parts.push(Part { len, segment: 0, slot: 0, offset: 0 });
        }
        Ok(())
    }

    /// Ends the piece at hand: stores it, or finds that it is stored.
    fn cut(&mut self, file: &mut Incoming) -> Result<()> {
        if file.piece.is_empty() {
            return Ok(());
        }
        let own = hash(&file.piece);
        let len = file.piece.len() as u64;
        let place = match self.places.get(&own) {
            Some(&place) => {
                self.saved += len;
                place
            }
            None => {
                let place = self.append(&file.piece)?;
                self.places.insert(own, place);
                place
            }
        };
        file.hashes.push(own);
        file.piece.clear();
        match file.parts.last_mut() {
            // One stretch of a block is one piece, however it was cut.
            Some(last) if last.goes_on_at(place) => last.len += len,
            _ => {
                let BlockName { segment, slot } = place.block;
                file.parts.push(Part { len, segment, slot, offset: place.offset });
            }
        }
        Ok(())
    }

    fn append(&mut self, piece: &[u8]) -> Result<Place> {
        if self.open.len() + piece.len() > self.block_len {
            self.close()?;
        }
        let block = BlockName { segment: DATA, slot: self.pool.next_slot() };
        let offset = self.open.len() as u32;
        self.open.extend_from_slice(piece);
        Ok(Place { block, offset })
    }

    /// Gives the block that is being filled to the pool.
    fn close(&mut self) -> Result<()> {
        if self.open.is_empty() {
            return Ok(());
        }
        let plain = std::mem::take(&mut self.open);
        self.stored_plain += plain.len() as u64;
        self.largest = self.largest.max(plain.len() as u64);
        self.pool.push(plain, self.setting)
    }

    /// Takes over all blocks of an image, as they are stored there, each checked.
    pub fn adopt(&mut self, image: &Image) -> Result<()> {
        let top = match image.root().indexes[..] {
            // There is nothing in any file.
            [] => return Ok(()),
            [(DATA, top)] => top,
            _ => return Err(esker::Error::NotSupported.into()),
        };
        for slot in 0..u32::try_from(top.entries).map_err(|_| esker::Error::NotSupported)? {
            let name = BlockName { segment: DATA, slot };
            let row = image.block_row(name).map_err(Error::Image)?;
            let stored = image.rest().stored_block(name, &row).map_err(Error::Image)?;
            self.stored_plain += u64::from(row.plain);
            self.largest = self.largest.max(row.plain.into());
            self.pool.adopt(&stored, row)?;
        }
        Ok(())
    }

    /// A file whose bytes are in blocks that were taken over: as [`finish_file`](Self::finish_file).
    pub fn adopt_file(&mut self, pieces: impl Iterator<Item = Piece>) -> (u32, u64, u64) {
        let (mut parts, mut words) = (Vec::new(), Vec::new());
        let (mut size, mut data) = (0, 0);
        for Piece { len, place } in pieces {
            let none = Place { block: BlockName { segment: 0, slot: 0 }, offset: 0 };
            let Place { block: BlockName { segment, slot }, offset } = place.unwrap_or(none);
            size += len;
            data += if place.is_some() { len } else { 0 };
            for word in [len, segment, slot.into(), offset.into()] {
                words.extend(word.to_le_bytes());
            }
            parts.push(Part { len, segment, slot, offset });
        }
        (self.contents.number(hash(&words), &parts), size, data)
    }

    /// Ends a file: the number of its content, its size, and how much of it is data.
    pub fn finish_file(&mut self, mut file: Incoming) -> Result<(u32, u64, u64)> {
        self.cut(&mut file)?;
        let own = match &file.hashes[..] {
            [one] => *one,
            many => hash_of_hashes(many),
        };
        Ok((self.contents.number(own, &file.parts), file.size, file.data))
    }

    /// What files hold.
    pub const fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Writes the last block; nothing may come in any more, but pieces can still be asked for.
    pub fn flush(&mut self) -> Result<()> {
        self.close()
    }

    /// Waits for everything to be written.
    pub fn finish(self) -> Result<(Written<W>, Contents)> {
        Ok((self.pool.finish()?, self.contents))
    }
}
