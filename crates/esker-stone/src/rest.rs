//! An image at rest, opened: superblocks found, pages and blocks loaded and checked.
//!
//! Above: homes, which cache. Below: everything else here. Invariant: no byte leaves here that was not
//! checked, and nothing is allocated that the limits of the format do not bound.

use std::io::{self, Read};
use std::sync::Arc;

use crate::check::Covered;
use crate::codec::through;
use crate::error::{Damage, Error, Result};
use crate::limits::UNIT_LEN;
use crate::page::PageRef;
use crate::rooms::Rooms;
use crate::root::Root;
use crate::rows::blocks::{BlockRow, ORIGIN_SEGMENT_MASK};
use crate::rows::extents::BlockName;
use crate::source::ReadAt;
use crate::superblock::{DATA, MAGIC, ROOTS, Superblock, TABLES};
use crate::transform;

/// Units that a decoder's reader loads at once.
const UNITS_AT_ONCE: usize = 4;
/// Bytes looked through at once for the beginning of an image.
const SCAN: usize = 1 << 20;

/// Where an image begins in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Here.
    At(u64),
    /// At the beginning, or behind something else: found from its end, or by looking for it.
    Auto,
}

/// An image, opened.
#[derive(Debug)]
pub struct Rest<R> {
    source: R,
    start: u64,
    superblock: Superblock,
    root: Root,
    rooms: Arc<Rooms>,
}

fn superblock_at<R: ReadAt>(source: &R, at: u64) -> Result<Superblock> {
    let mut bytes = [0; Superblock::SIZE];
    source.read_at(at, &mut bytes).map_err(|error| match error {
        Error::Damaged(Damage::Truncated) => Damage::NoImage.into(),
        error => error,
    })?;
    Superblock::parse(&bytes)
}

/// The superblock at the end of the file, and where its image begins.
fn tail<R: ReadAt>(source: &R) -> Result<(Superblock, u64)> {
    let len = source.size()?;
    let at = len.checked_sub(Superblock::SIZE as u64).ok_or(Damage::NoImage)?;
    let block = superblock_at(source, at)?;
    let start = len.checked_sub(block.size).ok_or(Damage::Range)?;
    Ok((block, start))
}

/// Looks for a superblock from the beginning of the file on.
fn scan<R: ReadAt>(source: &R) -> Result<(Superblock, u64)> {
    let len = source.size()?;
    let mut bytes = vec![0; SCAN];
    let mut at = 0;
    while at < len {
        let count = usize::try_from(len - at).unwrap_or(SCAN).min(SCAN);
        source.read_at(at, &mut bytes[..count])?;
        let found = bytes[..count].windows(MAGIC.len()).enumerate();
        for (offset, _) in found.filter(|(_, window)| *window == MAGIC) {
            let place = at + offset as u64;
            if let Ok(block) = superblock_at(source, place)
                && block.size <= len - place
            {
                return Ok((block, place));
            }
        }
        // The magic may lie across the border.
        let step = count.saturating_sub(MAGIC.len() - 1).max(1);
        at += step as u64;
        if count < SCAN {
            break;
        }
    }
    Err(Damage::NoImage.into())
}

/// The superblock that counts, and where the image begins.
fn find<R: ReadAt>(source: &R, start: Start) -> Result<(Superblock, u64)> {
    let begin = if let Start::At(at) = start { at } else { 0 };
    let head = superblock_at(source, begin);
    let tail = tail(source).and_then(|(block, at)| {
        let same = start == Start::Auto || at == begin;
        if same { Ok((block, at)) } else { Err(Damage::NoImage.into()) }
    });
    match (head, tail) {
        // Something else may follow the image, or another generation of it.
        (Ok(head), Ok((tail, at))) if at == begin && tail.generation > head.generation => {
            Ok((tail, at))
        }
        (Ok(head), _) => Ok((head, begin)),
        (Err(_), Ok(found)) => Ok(found),
        (Err(Error::Damaged(Damage::NoImage)), Err(_)) if start == Start::Auto => scan(source),
        (Err(error), Err(_)) => Err(error),
    }
}

impl<R: ReadAt> Rest<R> {
    /// Finds the superblock and reads the root page.
    ///
    /// # Errors
    /// `NoImage`, `Truncated`, and all that reading meets.
    pub fn open(source: R, start: Start) -> Result<Self> {
        let rest = Self::open_damaged(source, start)?;
        if rest.source.size()?.saturating_sub(rest.start) < rest.superblock.size {
            return Err(Damage::Truncated.into());
        }
        Ok(rest)
    }

    /// As [`Rest::open`], also when the file is shorter than the image.
    ///
    /// # Errors
    /// `NoImage`, and all that reading meets.
    pub fn open_damaged(source: R, start: Start) -> Result<Self> {
        let (superblock, start) = find(&source, start)?;
        let none = Root {
            layer: crate::root::Top { page: superblock.root()?, height: 0, entries: 0 },
            indexes: Vec::new(),
            bases: Vec::new(),
            statistics: crate::root::Statistics::default(),
            notes: Vec::new(),
        };
        let mut rest = Self { source, start, superblock, root: none, rooms: Arc::default() };
        let plain = rest.page(&rest.superblock.root()?, &[])?;
        rest.root = Root::decode(&plain)?;
        Ok(rest)
    }

    /// From now on what is decoded goes to these rooms, if some of them wait.
    pub fn use_rooms(&mut self, rooms: Arc<Rooms>) {
        self.rooms = rooms;
    }

    /// The root page.
    #[must_use]
    pub const fn root(&self) -> &Root {
        &self.root
    }

    /// The superblock.
    #[must_use]
    pub const fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Where the image begins in its file.
    #[must_use]
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// Where the bytes come from.
    #[must_use]
    pub const fn source(&self) -> &R {
        &self.source
    }

    /// Where a stretch of a segment lies in the file, and where again.
    fn places(&self, segment: u64, at: u64, len: u64) -> Result<(u64, Option<u64>)> {
        let own = &self.superblock;
        let (place, twin, room) = match segment {
            ROOTS => (own.roots_place, Some(own.roots_twin), own.roots_len),
            TABLES => (own.tables_place, None, own.tables_len),
            DATA => (own.data_place, None, own.data_len),
            _ => return Err(Damage::Reference.into()),
        };
        let inside = at.checked_add(len).is_some_and(|end| end <= room);
        if !inside {
            return Err(Damage::Reference.into());
        }
        // The superblock's places lie inside the image, and sums of two such within 64 bits.
        let in_file = |place: u64| self.start.checked_add(place + at).ok_or(Damage::Range);
        Ok((in_file(place)?, twin.map(in_file).transpose()?))
    }

    /// The copies of a page: how many there are, and which are wrong.
    ///
    /// # Errors
    /// `Reference`.
    pub fn copies(&self, page: &PageRef) -> Result<(usize, Vec<(usize, Error)>)> {
        let (first, twin) = self.places(page.segment, page.at, page.stored.into())?;
        let all = [Some(first), twin];
        let mut wrong = Vec::new();
        for (number, place) in all.into_iter().flatten().enumerate() {
            if let Err(error) = self.stored_page(page, place) {
                wrong.push((number, error));
            }
        }
        Ok((1 + usize::from(twin.is_some()), wrong))
    }

    fn stored_page(&self, page: &PageRef, place: u64) -> Result<Vec<u8>> {
        let mut stored = vec![0; page.stored as usize];
        self.source.read_at(place, &mut stored)?;
        page.verify(&stored)?;
        Ok(stored)
    }

    /// The plain bytes of a page, from its second copy if the first is wrong.
    ///
    /// # Errors
    /// Whatever reading it meets.
    pub fn page(&self, page: &PageRef, base: &[u8]) -> Result<Vec<u8>> {
        let page = page.checked()?;
        let (first, twin) = self.places(page.segment, page.at, page.stored.into())?;
        let stored = match (self.stored_page(&page, first), twin) {
            (Err(error), Some(twin)) => self.stored_page(&page, twin).map_err(|_| error)?,
            (stored, _) => stored?,
        };
        page.open(&stored, base)
    }

    fn block_place(&self, name: BlockName, row: &BlockRow) -> Result<u64> {
        let segment = name.segment & ORIGIN_SEGMENT_MASK;
        self.places(segment, row.at, row.stored.into()).map(|(place, _)| place)
    }

    /// The stored bytes of a block, checked.
    ///
    /// # Errors
    /// Whatever reading meets.
    pub fn stored_block(&self, name: BlockName, row: &BlockRow) -> Result<Vec<u8>> {
        let place = self.block_place(name, row)?;
        let mut stored = vec![0; row.stored as usize];
        self.source.read_at(place, &mut stored)?;
        BlockRow::covered(name).verify(0, &stored, &row.checksums)?;
        Ok(stored)
    }

    /// A unit of a block whose plain bytes are the stored ones, checked.
    ///
    /// # Errors
    /// Whatever reading meets; `Reference` behind its end.
    pub fn unit(&self, name: BlockName, row: &BlockRow, unit: usize) -> Result<Vec<u8>> {
        let from = unit.saturating_mul(UNIT_LEN);
        let left = (row.stored as usize).checked_sub(from).filter(|&left| left > 0);
        let mut bytes = vec![0; left.ok_or(Damage::Reference)?.min(UNIT_LEN)];
        let place = self.block_place(name, row)?;
        self.source.read_at(place + from as u64, &mut bytes)?;
        BlockRow::covered(name).verify(unit, &bytes, &row.checksums)?;
        Ok(bytes)
    }

    /// The plain bytes of a block.
    ///
    /// # Errors
    /// Whatever reading meets.
    pub fn block(&self, name: BlockName, row: &BlockRow, base: &[u8]) -> Result<Vec<u8>> {
        row.open_in(self.stored_block(name, row)?, base, &self.rooms)
    }

    /// The form of a block that is told in words; `base` is that of the block that has its words.
    ///
    /// # Errors
    /// Whatever reading meets.
    pub fn form(&self, name: BlockName, row: &BlockRow, base: &[u8]) -> Result<Vec<u8>> {
        row.open_form(self.stored_block(name, row)?, base, &self.rooms)
    }

    /// The first `len` bytes of such a form, or all of them where the codec cannot stop early.
    ///
    /// # Errors
    /// Whatever reading meets.
    pub fn form_head(
        &self,
        name: BlockName,
        row: &BlockRow,
        base: &[u8],
        len: usize,
    ) -> Result<Vec<u8>> {
        let whole = row.words as usize;
        let head = if len < whole { self.head(name, row, base, whole, len)? } else { None };
        head.map_or_else(|| self.form(name, row, base), Ok)
    }

    /// The recipe of a block that is made by one.
    ///
    /// # Errors
    /// Whatever reading meets.
    pub fn recipe(&self, name: BlockName, row: &BlockRow) -> Result<Vec<u8>> {
        row.open_recipe(self.stored_block(name, row)?)
    }

    /// The first `len` plain bytes of a block, or all of them where the codec cannot stop early.
    /// Reads and checks no more of the stored bytes than that takes.
    ///
    /// # Errors
    /// Whatever reading meets.
    pub fn block_head(
        &self,
        name: BlockName,
        row: &BlockRow,
        base: &[u8],
        len: usize,
    ) -> Result<Vec<u8>> {
        let whole = row.plain as usize;
        if len >= whole || row.recipe > 0 || row.words > 0 {
            return self.block(name, row, base);
        }
        // A transform is undone chunk by chunk.
        let chunks = len.next_multiple_of(transform::CHUNK_LEN).min(whole);
        let Some(mut plain) = self.head(name, row, base, whole, chunks)? else {
            return self.block(name, row, base);
        };
        row.transform.undo(&mut plain);
        plain.truncate(len);
        Ok(plain)
    }

    /// The first `len` of the `whole` bytes that the codec of a block has; `None` if it can only decode all of them.
    fn head(
        &self,
        name: BlockName,
        row: &BlockRow,
        base: &[u8],
        whole: usize,
        len: usize,
    ) -> Result<Option<Vec<u8>>> {
        let place = self.block_place(name, row)?;
        let mut units = Units {
            source: &self.source,
            place,
            left: row.stored as usize,
            next: 0,
            covered: BlockRow::covered(name),
            checksums: &row.checksums,
            loaded: Vec::new(),
            taken: 0,
        };
        self.rooms.lend(row.codec.head_room(len, whole), |plain| {
            let done = row.codec.decode_head(&mut units, base, len, whole, plain);
            done.transpose().map(|done| done.map(|()| plain[..len].to_vec()))
        })
    }
}

/// The stored bytes of a block as a decoder reads them: unit by unit, each checked first.
struct Units<'a, R> {
    source: &'a R,
    place: u64,
    left: usize,
    next: usize,
    covered: Covered,
    checksums: &'a [u64],
    loaded: Vec<u8>,
    taken: usize,
}

impl<R: ReadAt> Units<'_, R> {
    fn load(&mut self) -> Result<()> {
        let count = self.left.min(UNITS_AT_ONCE * UNIT_LEN);
        self.loaded.resize(count, 0);
        self.source.read_at(self.place, &mut self.loaded)?;
        self.covered.verify(self.next, &self.loaded, self.checksums)?;
        self.next += UNITS_AT_ONCE;
        self.place += count as u64;
        self.left -= count;
        self.taken = 0;
        Ok(())
    }
}

impl<R: ReadAt> Read for Units<'_, R> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.loaded.len() && self.left > 0 {
            self.load().map_err(through)?;
        }
        let ready = self.loaded.get(self.taken..).unwrap_or_default();
        let count = ready.len().min(target.len());
        target[..count].copy_from_slice(&ready[..count]);
        self.taken += count;
        Ok(count)
    }
}
