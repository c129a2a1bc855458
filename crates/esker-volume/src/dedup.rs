//! Equal bytes that were written apart are named once: all files are read, and blocks of which every byte is somewhere
//! else too become free.
//!
//! Above: verbs. Neighbours: `dedup/find` finds what is equal, `commit/share` names it. Invariants: bytes were compared
//! before they are shared, and nobody else writes meanwhile; only names of blocks change, so each commit shows the same
//! files with the same attributes; a block is let go of as a whole or not at all, so nothing becomes larger.

mod find;

use std::collections::{BTreeMap, HashMap, HashSet};

use esker::Ino;
use esker_stone::rows::extents::BlockName;

use crate::base::is_based;
use crate::commit::{Sink, Source};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::limits::DEDUP_ROW_LEN;
use crate::volume::Volume;

use find::Finding;

/// How equal bytes are looked for.
#[derive(Clone, Copy)]
pub struct Deduping<'a> {
    /// Bytes of memory for hashes, about. Where they do not suffice, files are read several times.
    pub memory: usize,
    /// Only count what would be gained.
    pub dry_run: bool,
    /// By what equal bytes are found. They are compared: a bad one finds less, and nothing wrong.
    pub hash: fn(&[u8]) -> u64,
    /// Is told how many bytes were read, of how many in this pass at most, and says whether to go on.
    pub pace: &'a dyn Fn(u64, u64) -> bool,
}

impl<'a> Deduping<'a> {
    /// All there is, with this memory.
    #[must_use]
    pub const fn new(memory: usize, pace: &'a dyn Fn(u64, u64) -> bool) -> Self {
        Self { memory, dry_run: false, hash: esker_stone::check::checksum, pace }
    }
}

/// What came of looking for equal bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deduped {
    /// Files that were looked at in the first pass.
    pub files: u64,
    /// Bytes that were read, in all passes.
    pub read: u64,
    /// Times that files were read through.
    pub passes: u64,
    /// Bytes of files that are named elsewhere now.
    pub shared: u64,
    /// Blocks that nobody needs any more.
    pub blocks: u64,
    /// Their bytes, as they were stored.
    pub freed: u64,
    /// Files of which not all could be read. They stay as they are.
    pub unreadable: u64,
    /// Not everything was looked at.
    pub stopped: bool,
}

/// Bytes of a file that are also elsewhere: from there on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Equal {
    ino: Ino,
    at: u64,
    len: u64,
    from: (Ino, u64),
}

/// What is shared in one commit.
struct Shares<'a>(&'a [Equal]);

impl Source for Shares<'_> {
    fn tell(&self, to: &mut dyn Sink) -> Result<()> {
        for &Equal { ino, at, len, from } in self.0 {
            let mut done = 0;
            while done < len {
                match to.share(ino, at + done, len - done, (from.0, from.1 + done))? {
                    0 => break,
                    shared => done += shared,
                }
            }
        }
        Ok(())
    }

    fn shares_from(&self) -> u64 {
        // Whether that is worth its rows was looked at.
        1
    }
}

impl<D: Device> Volume<D> {
    /// Names equal bytes of all files once. Done again after it was stopped, or cut, it goes on with what is left.
    ///
    /// # Errors
    /// `ReadOnly`; `NoSpace`, and those of the device: what was done until then stays done.
    pub fn dedup(&mut self, how: &Deduping<'_>) -> Result<Deduped> {
        if !how.dry_run {
            self.writable()?;
        }
        let mut finding = Finding::new(self, *how);
        finding.run()?;
        let done = finding.done;
        if done.blocks > 0 && !how.dry_run {
            // Rows of blocks that are gone go. Without room for that they go later.
            let _ = self.settle_all(&mut self.log());
        }
        Ok(done)
    }

    /// Of what is equal, what lets go of whole blocks: in pieces that each are in one block, and are in one elsewhere.
    fn worth_sharing(
        &self,
        equal: &[Equal],
        done: &mut Deduped,
        counted: &mut Counted,
    ) -> Result<Vec<Equal>> {
        let state = self.state();
        let stack = self.stack(&state);
        let mut blocks: BTreeMap<BlockName, Vec<Equal>> = BTreeMap::new();
        for &Equal { ino, at, len, from } in equal {
            let mut gone = 0;
            while gone < len {
                let own = stack.run(ino, at + gone)?;
                let other = stack.run(from.0, from.1 + gone)?;
                let part = own.len.min(other.len).min(len - gone);
                if let (Some(own), Some(other)) = (own.place, other.place)
                    && own != other
                    && !is_based(own.block)
                    && !is_based(other.block)
                {
                    let from = (from.0, from.1 + gone);
                    let piece = Equal { ino, at: at + gone, len: part, from };
                    blocks.entry(own.block).or_default().push(piece);
                }
                gone += part;
            }
        }
        let mut worth = Vec::new();
        for (block, pieces) in blocks {
            let bytes: u64 = pieces.iter().map(|piece| piece.len).sum();
            // One that a snapshot needs would stay.
            if stack.refs(block)?.named() != bytes || state.needs_now(block) {
                continue;
            }
            let stored = u64::from(stack.block_row(block)?.stored);
            if stored <= pieces.len() as u64 * DEDUP_ROW_LEN || !counted.is_new(block) {
                continue;
            }
            done.shared += bytes;
            done.blocks += 1;
            done.freed += stored;
            worth.extend(pieces);
        }
        worth.sort_unstable_by_key(|piece| (piece.ino, piece.at));
        Ok(worth)
    }

    /// Shares these, in commits of bounded size.
    fn share_all(&self, worth: &[Equal]) -> Result<()> {
        let most = (self.rows_room(false) / (4 * DEDUP_ROW_LEN)).clamp(16, 8192) as usize;
        for some in worth.chunks(most) {
            match self.commit(&Shares(some)) {
                Err(Error::NoSpace) => {
                    self.reclaim(some.len() as u64 * DEDUP_ROW_LEN + self.shape.segment_room)?;
                    self.commit(&Shares(some))?;
                }
                done => done?,
            }
        }
        Ok(())
    }
}

/// Blocks that would be free by now, where nothing is written: they are not counted twice.
#[derive(Default)]
struct Counted(Option<HashSet<BlockName>>);

impl Counted {
    fn is_new(&mut self, block: BlockName) -> bool {
        self.0.as_mut().is_none_or(|known| known.insert(block))
    }
}

/// Where bytes were first, by their hash.
type First = HashMap<u64, (Ino, u64)>;
