//! How much memory packing takes, and how many threads there can be within what it may have.
//!
//! Above: `packer`, `data`. Invariant: what is reckoned is at least what is taken; it decides how quick packing is, and
//! nothing about the image.

use esker_stone::Shared;

use super::alike::Likeness;
use super::category::Category;
use super::incoming::WAITING_LEN;
use super::pool::SPARE;
use super::repeats::Repeats;
use super::{Error, Options, Result};

/// Memory that everything small takes, in about.
const SMALL: u64 = 16 << 20;
/// The same of what is known of files, of which most lies elsewhere.
const KNOWN_SMALL: u64 = 16 << 20;
/// Bytes of blocks that wait for a thread, about: so that threads have something to do while what is known already, or
/// is not compressed, goes by.
const AHEAD_LEN: u64 = 16 << 20;
/// Bases that are in use at once: the last blocks of a group are compressed while the next one begins.
const BASES: u64 = 2;

/// Memory that packing takes, in about.
struct Needs {
    /// For each thread that compresses.
    thread: u64,
    /// For each block that is under way.
    block: u64,
    /// For each base that is in use.
    base: u64,
    /// For everything else but what is known of files.
    fixed: u64,
    /// For that, where it is much.
    known: u64,
}

impl Needs {
    fn of(options: &Options) -> Self {
        let block_len = options.owns.block_len_max(options.block_len);
        let base_len = options.shares().map_or(0, |sharing| sharing.base_len);
        let (block, largest) = (block_len as u64, block_len.max(base_len) as u64);
        let coding = |len| options.owns.encoding_memory(options.data, len);
        // What lies on a base is compressed in a room that stays, what stands alone in another one.
        let on_base = if base_len > 0 { coding(block_len + base_len) } else { 0 };
        let base = if base_len > 0 { Shared::memory(options.data, base_len) } else { 0 };
        // Those of which like is drawn to like are filled one after the other.
        let drawn = if options.alike { Category::DRAWN.len() as u64 - 1 } else { 0 };
        let filled = block * (Category::NAMES.len() as u64 - drawn) + base_len as u64;
        // Whether a group has a base is tried in the room of these, when nothing is looked for any more.
        let repeats = options.repeats.map_or(0, |_| Repeats::MEMORY_FULL);
        let alike = if options.alike { Likeness::MEMORY_FULL } else { 0 };
        Self {
            thread: on_base + coding(block_len.max(base_len)) + largest,
            block,
            base,
            fixed: filled + SPARE as u64 * largest + WAITING_LEN as u64 + SMALL,
            known: repeats + alike + KNOWN_SMALL,
        }
    }

    /// All but what is known of files, for so many threads with a block for each.
    fn with(&self, threads: usize) -> u64 {
        let threads = threads as u64;
        (self.thread + self.block) * threads + self.base * threads.min(BASES) + self.fixed
    }

    /// For one thread, with the quarter for what is known of files.
    fn least(&self) -> u64 {
        self.with(1).div_ceil(3) * 4
    }
}

impl Options {
    /// The least memory with which packing begins; many files take more.
    #[must_use]
    pub fn memory_least(&self) -> u64 {
        Needs::of(self).least()
    }
}

/// How memory is shared out.
pub(super) struct Share {
    /// Threads that compress.
    pub threads: usize,
    /// Blocks that may be under way.
    pub room: usize,
    /// Bytes for what is known of files.
    pub known: u64,
    /// How many that may come to, before there are millions of files.
    pub known_least: u64,
}

impl Share {
    /// Within the memory allowed.
    ///
    /// # Errors
    /// `Memory` where it is not enough for one thread and a few files.
    pub fn of(options: &Options) -> Result<Self> {
        let needs = Needs::of(options);
        let memory = options.memory;
        // A quarter is for what is known of files, or as much as that may come to where they are few but large. With
        // less there is one thread, and perhaps not enough for all files.
        let quarter = memory / 4;
        let shares = [(needs.known.max(quarter), options.threads.max(1)), (quarter, 1)];
        let mut ways = shares.into_iter().filter_map(|(kept, most)| {
            let left = memory.saturating_sub(kept);
            let threads = (1..=most).rev().find(|&threads| needs.with(threads) <= left)?;
            Some((threads, left - needs.with(threads)))
        });
        let (threads, left) = ways.next().ok_or(Error::Memory(needs.least()))?;
        let most = (AHEAD_LEN / needs.block.max(1)).max(threads as u64);
        let spare = usize::try_from((left / needs.block.max(1)).min(most)).unwrap_or(threads);
        let taken = needs.with(threads) + needs.block * spare as u64;
        let (known, known_least) = (memory - taken, needs.known);
        Ok(Self { threads, room: threads + spare, known, known_least })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::trial::Trial;

    #[test]
    fn trials_fit_into_what_was_taken_for_looking() {
        for level in [5, 6] {
            let options = Options::level(level, 2, 1 << 30);
            let needs = Needs::of(&options);
            let base_len = options.shares().unwrap().base_len;
            let trial = Trial::memory(options.data, options.block_len, base_len);
            assert!(trial <= (needs.least() / 4).min(needs.known), "{trial}: {level}");
        }
    }
}
