//! What each file of an image costs: its part of the stored bytes of the blocks that hold it.
//!
//! Above: `page`. Below: `esker-image`. Invariant: what is told adds up to the stored bytes of all blocks, but for what
//! no file names; a block that several files share costs each of them by the bytes that it names there.

use std::collections::HashMap;

use esker::store::Flow;
use esker::{Ino, Kind};
use esker_image::Image;
use esker_stone::rows::blocks::{BlockRow, ORIGIN_SEGMENT_MASK};
use esker_stone::rows::extents::{BlockName, Piece};
use esker_stone::superblock::DATA;
use esker_stone::{Hash, Recipe, Result, hash};

use crate::images::{Node, walk};

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
        let ingredients = ingredients(image, &rows);
        let prices = prices(&rows, &found, &ingredients);
        let cost = |piece: &Piece| {
            let slot = own_slot(piece)?;
            Some(piece.len as f64 * prices.get(slot)?)
        };
        let priced = |found: Found| File {
            stored: found.pieces.iter().filter_map(cost).sum(),
            content: named(&found),
            path: found.path,
            size: found.size,
        };
        let told =
            |(path, why): (Vec<u8>, String)| format!("{}: {why}", crate::failure::shown(&path));
        Ok(Self {
            files: found.into_iter().map(priced).collect(),
            rows,
            troubles: troubles.into_iter().map(told).collect(),
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

/// The place of a block of this image among its rows.
fn own_slot(piece: &Piece) -> Option<usize> {
    let place = piece.place?;
    let own = place.block.segment <= ORIGIN_SEGMENT_MASK;
    own.then_some(place.block.slot as usize)
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

/// For each block that is made: the slots and lengths of its text.
fn ingredients(image: &Image, rows: &[BlockRow]) -> Vec<(usize, Vec<(usize, u32)>)> {
    let made = rows.iter().enumerate().filter(|(_, row)| row.recipe > 0);
    made.map(|(slot, row)| {
        let name = BlockName { segment: DATA, slot: slot as u32 };
        let recipe = image.rest().recipe(name, row).unwrap_or_default();
        let text = Recipe::parse(&recipe).map_or_else(|_| Vec::new(), |recipe| recipe.text);
        (slot, text.iter().map(|part| (part.slot as usize, part.len)).collect())
    })
    .collect()
}

/// What a byte of each block costs whoever names it.
fn prices(rows: &[BlockRow], files: &[Found], made: &[(usize, Vec<(usize, u32)>)]) -> Vec<f64> {
    let mut named = vec![0u64; rows.len()];
    let mut name = |slot: usize, len: u64| {
        if let Some(own) = named.get_mut(slot) {
            *own = own.saturating_add(len);
        }
    };
    for piece in files.iter().flat_map(|file| &file.pieces) {
        own_slot(piece).into_iter().for_each(|slot| name(slot, piece.len));
    }
    for &(slot, len) in made.iter().flat_map(|(_, text)| text) {
        name(slot, len.into());
    }
    let mut costs: Vec<f64> = rows.iter().map(|row| f64::from(row.stored)).collect();
    let price = |costs: &[f64], slot: usize| costs[slot] / (named[slot].max(1) as f64);
    for (slot, text) in made {
        let inside = text.iter().filter(|(from, _)| from < slot);
        let text: f64 = inside.map(|&(from, len)| price(&costs, from) * f64::from(len)).sum();
        costs[*slot] += text;
    }
    (0..rows.len()).map(|slot| price(&costs, slot)).collect()
}
