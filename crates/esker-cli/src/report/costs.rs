//! What each file of an image costs: its part of the stored bytes of the blocks that hold it.
//!
//! Above: `page`. Below: `esker-image`, `parts`. Invariant: what is told adds up to the stored bytes of all blocks, but
//! for those of which no file names a byte.

use std::collections::{BTreeMap, HashMap};

use esker::store::Flow;
use esker::{Ino, Kind};
use esker_image::{Image, Thing};
use esker_stone::recipe::Ingredient;
use esker_stone::rows::blocks::{BlockRow, ORIGIN_SEGMENT_MASK};
use esker_stone::rows::extents::{BlockName, Piece};
use esker_stone::superblock::DATA;
use esker_stone::{Codec, Hash, Recipe, Result, hash};

use super::parts::{Parts, Stretch, zeros};
use crate::images::{Node, inner_shown, thing_shown, walk};

/// A file.
pub struct File {
    /// Its path.
    pub path: Vec<u8>,
    /// Bytes of its content.
    pub size: u64,
    /// Stored bytes that are there for it.
    pub stored: f64,
    /// Its content, so that two with the same are known.
    pub content: Hash,
}

/// What everything costs.
pub struct Costs {
    /// All files, in the order of their paths.
    pub files: Vec<File>,
    /// The rows of all blocks, by slot.
    pub rows: Vec<BlockRow>,
    /// What could not be read.
    pub troubles: Vec<String>,
}

/// A file before it is known what its blocks cost.
struct Found {
    path: Vec<u8>,
    size: u64,
    pieces: Vec<Piece>,
}

impl Costs {
    /// Of a whole image.
    ///
    /// # Errors
    /// What reading the block index meets.
    pub fn of(image: &Image, root: Node) -> Result<Self> {
        let rows = image.block_rows()?;
        let (mut found, mut troubles) = (Vec::new(), Vec::new());
        let mut wrong = Vec::new();
        let mut each = |node: &Node| {
            if node.attr.kind == Kind::File {
                match pieces(image, node.ino, node.attr.size) {
                    Ok(pieces) => {
                        let (path, size) = (node.path.clone(), node.attr.size);
                        found.push(Found { path, size, pieces });
                    }
                    Err(error) => wrong.push((node.path.clone(), error.to_string())),
                }
            }
            Flow::Continue(())
        };
        walk(image, root, &mut each, &mut |node, error| {
            troubles.push((node.path.clone(), error.to_string()));
        });
        troubles.extend(wrong);
        let (parts, lost) = shared(image, &rows, &found);
        let cost = |piece: &Piece| {
            let (slot, stretch) = own_stretch(piece)?;
            Some(parts.get(slot)?.part(stretch))
        };
        let priced = |found: Found| File {
            stored: found.pieces.iter().filter_map(cost).sum(),
            content: named(&found),
            path: found.path,
            size: found.size,
        };
        let told = |(path, why): (Vec<u8>, String)| format!("{}: {why}", inner_shown(&path));
        let in_block = |(slot, why)| format!("{}: {why}", thing_shown(&Thing::Block(name(slot))));
        let troubles = troubles.into_iter().map(told);
        Ok(Self {
            files: found.into_iter().map(priced).collect(),
            rows,
            troubles: troubles.chain(lost.into_iter().map(in_block)).collect(),
        })
    }

    /// Contents that several files have: their places among the files, those that would cost the most again first.
    pub fn duplicates(&self) -> Vec<Vec<usize>> {
        let mut by_content: HashMap<&Hash, Vec<usize>> = HashMap::new();
        for (at, file) in self.files.iter().enumerate().filter(|(_, file)| file.size > 0) {
            by_content.entry(&file.content).or_default().push(at);
        }
        let mut all: Vec<_> = by_content.into_values().filter(|same| same.len() > 1).collect();
        let again = |same: &Vec<usize>| (same.len() as u64 - 1) * self.files[same[0]].size;
        all.sort_by(|one, other| again(other).cmp(&again(one)).then(one[0].cmp(&other[0])));
        all
    }
}

/// A block of this image by its place among its rows, and the stretch of it that a piece is.
fn own_stretch(piece: &Piece) -> Option<(usize, Stretch)> {
    let place = piece.place?;
    let from = u64::from(place.offset);
    let own = place.block.segment <= ORIGIN_SEGMENT_MASK;
    own.then(|| (place.block.slot as usize, (from, from.saturating_add(piece.len))))
}

/// What a content is known by: its pieces, which are the same for files that have the same.
fn named(found: &Found) -> Hash {
    let mut words = found.size.to_le_bytes().to_vec();
    for piece in &found.pieces {
        words.extend(piece.len.to_le_bytes());
        if let Some(place) = piece.place {
            words.extend(place.block.segment.to_le_bytes());
            words.extend(place.block.slot.to_le_bytes());
            words.extend(place.offset.to_le_bytes());
        }
    }
    // Small contents have no pieces: they lie beside their names, each for itself.
    if found.pieces.is_empty() {
        words.extend(&found.path);
    }
    hash(&words)
}

/// All pieces of a file; none of one that lies in its inode.
fn pieces(image: &Image, ino: Ino, size: u64) -> Result<Vec<Piece>> {
    let (mut all, mut at) = (Vec::new(), 0);
    if size == 0 || image.is_inline(ino)? {
        return Ok(all);
    }
    while at < size {
        let stretch = image.stretch(ino, size, at)?;
        at = stretch.start + stretch.pieces.iter().map(|piece| piece.len).sum::<u64>();
        all.extend(stretch.pieces);
    }
    Ok(all)
}

/// Blocks that could not be read, by their slots, and why.
type Lost = BTreeMap<usize, String>;

/// For each block that is made: the slots and stretches of its text.
fn ingredients(
    image: &Image,
    rows: &[BlockRow],
    lost: &mut Lost,
) -> HashMap<usize, Vec<(usize, Stretch)>> {
    let made = rows.iter().enumerate().filter(|(_, row)| row.recipe > 0);
    made.map(|(slot, row)| {
        let recipe = image.rest().recipe(name(slot), row);
        let text = match recipe.and_then(|recipe| Ok(Recipe::parse(&recipe)?.text)) {
            Ok(text) => text,
            Err(error) => {
                lost.insert(slot, error.to_string());
                Vec::new()
            }
        };
        let stretch = |part: &Ingredient| {
            let from = u64::from(part.offset);
            (part.slot as usize, (from, from + u64::from(part.len)))
        };
        (slot, text.iter().map(stretch).collect())
    })
    .collect()
}

fn name(slot: usize) -> BlockName {
    BlockName { segment: DATA, slot: slot as u32 }
}

/// Shares out what all blocks cost. What is made of text costs what that does, too.
fn shared(image: &Image, rows: &[BlockRow], files: &[Found]) -> (Vec<Parts>, Lost) {
    let mut lost = Lost::new();
    let made = ingredients(image, rows, &mut lost);
    let mut named: Vec<Vec<Stretch>> = vec![Vec::new(); rows.len()];
    let pieces = files.iter().flat_map(|file| &file.pieces).filter_map(own_stretch);
    for (slot, stretch) in pieces.chain(made.values().flatten().copied()) {
        named.get_mut(slot).into_iter().for_each(|own| own.push(stretch));
    }
    let (mut parts, mut blanks) = (Vec::<Parts>::new(), Blanks { image, rows, base: None, lost });
    for (slot, row) in rows.iter().enumerate() {
        // Text lies in blocks before.
        let text = made.get(&slot).into_iter().flatten();
        let text = text.filter_map(|&(from, stretch)| Some(parts.get(from)?.part(stretch)));
        let cost = f64::from(row.stored) + text.sum::<f64>();
        parts.push(Parts::of(cost, &named[slot], &blanks.of(slot)));
    }
    (parts, blanks.lost)
}

/// Looks for zeros in blocks.
struct Blanks<'a> {
    image: &'a Image,
    rows: &'a [BlockRow],
    /// The last base that was decoded.
    base: Option<(BlockName, Vec<u8>)>,
    /// What could not be.
    lost: Lost,
}

impl Blanks<'_> {
    /// Where a block has zeros that take next to nothing. Where nothing is made of text or told in words there are none
    /// worth the work; of what cannot be read nobody knows.
    fn of(&mut self, slot: usize) -> Vec<Stretch> {
        let row = &self.rows[slot];
        let is_looked_at =
            matches!(row.codec, Codec::Lz4 | Codec::Zstd | Codec::Xz | Codec::Brotli)
                && row.recipe == 0
                && row.words == 0;
        let plain = if is_looked_at { self.plain(slot, row) } else { None };
        plain.map_or_else(Vec::new, |plain| zeros(&plain))
    }

    fn plain(&mut self, slot: usize, row: &BlockRow) -> Option<Vec<u8>> {
        let rest = self.image.rest();
        if let Some(base) = row.base
            && self.base.as_ref().is_none_or(|(known, _)| *known != base)
        {
            let row = self.rows.get(base.slot as usize).filter(|_| base.segment == DATA)?;
            let plain = self.read(base.slot as usize, rest.block(base, row, &[]))?;
            self.base = Some((base, plain));
        }
        let base = self.base.as_ref().filter(|_| row.base.is_some());
        let plain = rest.block(name(slot), row, base.map_or(&[], |(_, plain)| plain));
        self.read(slot, plain)
    }

    fn read(&mut self, slot: usize, plain: Result<Vec<u8>>) -> Option<Vec<u8>> {
        plain.map_err(|error| self.lost.insert(slot, error.to_string())).ok()
    }
}
