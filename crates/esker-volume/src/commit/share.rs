//! Bytes that are there already: what is written names their block once more, in place of laying them down.
//!
//! Above: the sink. Neighbours: `known` remembers hashes from commit to commit. Invariant: nothing is shared by its
//! hash alone: the bytes were compared, and their block is one that somebody needs. What a try at a commit laid down
//! is known to later ones only if it came to its end.

use std::sync::PoisonError;

use esker::Ino;
use esker_stone::rows::extents::Place;

use super::Writer;
use super::blocks::Waiting;
use crate::base::is_based;
use crate::counts::Count;
use crate::device::Device;
use crate::error::Result;
use crate::limits::{FRESH_MAX, HASHED_LEN_MIN};
use crate::recent::Run;
use crate::shelf::{Whose, whose};
use crate::stack::Stack;

/// Bytes that this commit has laid down.
pub(super) struct Fresh {
    ino: Ino,
    start: u64,
    place: Place,
}

impl<D: Device> Writer<'_, D> {
    /// By what equal bytes are found, where they are looked for.
    pub(super) fn hash(&self, bytes: &[u8]) -> Option<u64> {
        let wanted = self.volume.known.is_some() && bytes.len() >= HASHED_LEN_MIN;
        wanted.then(|| esker_stone::check::checksum(bytes))
    }

    /// Bytes that were laid down can be found.
    pub(super) fn note(&mut self, ino: Ino, run: &Run, hash: Option<u64>) {
        if let (Some(hash), Some(place)) = (hash, run.place)
            && self.fresh.len() < FRESH_MAX
        {
            self.fresh.insert(hash, Fresh { ino, start: run.start, place });
        }
    }

    /// What was laid down is safe: later commits may find it.
    pub(super) fn publish_hashes(&mut self) {
        if let Some(known) = &self.volume.known {
            let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
            self.fresh.drain().for_each(|(hash, fresh)| known.add(hash, fresh.place));
        }
    }

    /// Whether these bytes of a file are there already, and it names them now.
    pub(super) fn share_equal(&mut self, hash: u64, (ino, at): (Ino, u64), own: &[u8]) -> bool {
        if self.share_waiting(hash, (ino, at), own) {
            return true;
        }
        let Some(place) = self.equal(hash, own) else { return false };
        self.named(ino, Run { start: at, len: own.len() as u64, place: Some(place) });
        true
    }

    /// The same for those that wait to be laid down.
    fn share_waiting(&mut self, hash: u64, (ino, at): (Ino, u64), own: &[u8]) -> bool {
        for plain in self.plains.iter_mut().chain([&mut self.open]) {
            let Some(same) = plain.waiting.iter().find(|waiting| waiting.hash == Some(hash)) else {
                continue;
            };
            let place = same.run.place;
            let bytes = place.and_then(|place| plain.bytes.get(place.offset as usize..));
            if bytes.and_then(|bytes| bytes.get(..own.len())) == Some(own) {
                let run = Run { start: at, len: own.len() as u64, place };
                plain.waiting.push(Waiting { ino, run, hash: None });
                self.volume.counts.add(Count::Shared, run.len);
                return true;
            }
        }
        false
    }

    /// Where the same bytes are, of this commit or an earlier one. Where that cannot be read they are laid down anew.
    fn equal(&self, hash: u64, own: &[u8]) -> Option<Place> {
        if let Some(fresh) = self.fresh.get(&hash) {
            let mut bytes = vec![0; own.len()];
            let same = self.source.recall(fresh.ino, fresh.start, &mut bytes) && bytes == own;
            return same.then_some(fresh.place);
        }
        let known = self.volume.known.as_ref()?;
        let place = known.lock().unwrap_or_else(PoisonError::into_inner).find(hash)?;
        // Bytes that are told again for their block to become free are not to keep it.
        if self.folded.contains(&place.block) {
            return None;
        }
        let stack = self.volume.stack(self.state);
        let (refs, row) = (stack.refs(place.block).ok()?, stack.block_row(place.block).ok()?);
        // Nor are they to keep much that nobody names.
        let named = refs.named().saturating_add(own.len() as u64);
        if refs.bytes == 0 || named.saturating_mul(2) < row.plain.into() {
            return None;
        }
        // What memory has may be damaged on the device, and these bytes are what is to come in its place.
        let plain = stack.load_block(place.block).ok()?;
        let bytes = plain.get(place.offset as usize..)?.get(..own.len())?;
        (bytes == own).then_some(place)
    }

    /// A file names bytes of a block that is there.
    fn named(&mut self, ino: Ino, run: Run) {
        if let Some(place) = run.place.filter(|place| !is_based(place.block)) {
            self.refers(place.block, run.len.cast_signed());
        }
        self.volume.counts.add(Count::Shared, run.len);
        self.runs.entry(ino).or_default().push(run);
    }

    /// Bytes of a file are those that the volume has in another, as it is before this commit, or that a snapshot has:
    /// how many of the first of them it names in the place of having its own.
    pub(super) fn share_of(
        &mut self,
        ino: Ino,
        (at, len): (u64, u64),
        (from, from_at): (Ino, u64),
    ) -> Result<u64> {
        let volume = self.volume;
        let seen;
        let (stack, from) = match whose(from) {
            Whose::Inside(number, own) => {
                let sequence = volume.shelf.sequence(number);
                let found = sequence.and_then(|own| volume.shelf.seen(self.state, own));
                let Ok(found) = found else { return Ok(0) };
                // What it keeps stays as long as it does, and is counted from now on.
                seen = found;
                (Stack { volume, state: &seen, index: self.state }, own)
            }
            _ => (volume.stack(self.state), from),
        };
        if stack.inode(from)?.is_none_or(|row| !row.inline.is_empty()) {
            return Ok(0);
        }
        let run = stack.run(from, from_at)?;
        let len = run.len.min(len);
        if run.place.is_none() || len < self.source.shares_from() {
            return Ok(0);
        }
        self.release(ino, at, at + len)?;
        self.named(ino, Run { start: at, len, place: run.place });
        Ok(len)
    }
}
