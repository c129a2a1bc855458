//! Pictures of JPEG, each strip of which becomes a block.
//!
//! Above: `data`. Below: the pictures of esker-stone. Invariant: a picture of which nothing is worth it is left to be
//! taken as any other file.

use std::io::Write;

use esker_stone::check::hash;
use esker_stone::jpeg::{Picture, Strip};

use super::{
    Category, Data, Incoming, Looked, PIECE_LEN, Part, Result, Source, UnitId, join, own_hash,
};

/// Bytes of a strip of a picture, in about, and the fewest of a picture that are worth a block.
const PICTURE_LEN: usize = 256 << 10;
const PICTURE_LEN_MIN: usize = 4 << 10;
/// A strip of which more than one byte in so many was there before is smaller as it is: made anew it saves a fifth.
const KNOWN_SHARE: usize = 4;

impl<W: Write> Data<W> {
    /// Whether a file may be a picture of which nothing was taken yet.
    pub(super) fn may_be_picture(&self, file: &Incoming) -> bool {
        let first = !file.text && file.said.is_none() && file.is_uncut();
        self.pictures.is_some() && first && Picture::begins(&file.piece.bytes)
    }

    /// Takes a picture whose bytes are all at hand in strips, each of which becomes a block. `false`: there are none
    /// that are worth it.
    pub(super) fn take_picture(&mut self, file: &mut Incoming) -> Result<bool> {
        let pieces: Vec<_> = file.piece.bytes.chunks(PIECE_LEN).map(hash).collect();
        let Some(picture) = Picture::of(&file.piece.bytes) else { return Ok(false) };
        if self.contents.knows(&own_hash(&pieces))? {
            return Ok(false);
        }
        let bytes = std::mem::take(&mut file.piece.bytes);
        let strips = picture.strips(&bytes, PICTURE_LEN);
        let found = strips.iter().map(|strip| strip.bytes.len()).sum::<usize>();
        if found < PICTURE_LEN_MIN {
            file.piece.bytes = bytes;
            return Ok(false);
        }
        let mut at = 0;
        for strip in strips {
            self.beside(file, &bytes[at..strip.bytes.start])?;
            at = strip.bytes.end;
            self.take_strip(file, &bytes[strip.bytes.clone()], strip)?;
        }
        self.beside(file, &bytes[at..])?;
        let starts = (0u64..).step_by(PIECE_LEN);
        file.pieces.extend(pieces.iter().copied().zip(starts));
        file.hashes = pieces;
        Ok(true)
    }

    /// Takes a strip of a picture, or knows it, or much of it, from another one.
    fn take_strip(&mut self, file: &mut Incoming, own: &[u8], strip: Strip) -> Result<()> {
        let (name, len) = (hash(own), own.len() as u64);
        if let Some(seen) = self.contents.seen(&name, len)? {
            self.saved += len;
            seen.into_iter().for_each(|part| join(&mut file.parts, part));
            return Ok(());
        }
        let anchors = self.looker.anchors(own);
        let looked = Looked::new(own, &anchors);
        let (all, known) = self.repeats.as_ref().map_or((0, 0), |repeats| repeats.known(looked));
        if known * KNOWN_SHARE > all {
            return self.take(file, looked);
        }
        file.pieces.push((name, file.parts.iter().map(|part| part.len).sum()));
        let address = self.spool.len();
        let source = Source::Spool(address);
        self.spool.append(own)?;
        self.repeats.iter_mut().for_each(|repeats| repeats.note(looked, address));
        self.units.push_whole(own, Category::Picture);
        let unit = self.units.count() as UnitId - 1;
        self.pictures.iter_mut().for_each(|all| {
            all.insert(unit, Box::new(strip.clone()));
        });
        join(&mut file.parts, Part { len, source });
        self.place_some()
    }
}
