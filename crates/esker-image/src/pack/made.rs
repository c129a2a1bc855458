//! Blocks that are made of text in other blocks: streams that were unpacked, several small ones in one block.
//!
//! Above: `data`. Beside: `contents`, which knows where the text lies in the end. Invariant: what a block takes to be
//! made is bounded, so that a read of a few bytes stays quick; the recipes of all of them are within one limit.

use esker_stone::Hash;
use esker_stone::check::hash;
use esker_stone::deflate::Run;
use esker_stone::limits::{RECIPE_STEPS_MAX, RECIPE_TEXT_MAX};
use esker_stone::recipe::Steps;

/// Bytes at which a block is full.
const LEN: usize = 64 << 10;
/// Bytes of text at which it is.
const TEXT_LEN: usize = 64 << 10;
/// Bytes of all recipes, which wait in memory until it is known where their text lies.
const RECIPES_MAX: usize = 24 << 20;

/// A stretch of a content.
#[derive(Clone, Copy, Debug)]
pub(super) struct Text {
    pub content: u32,
    pub from: u64,
    pub len: u64,
}

/// A block, and what it is made of.
pub(super) struct Made {
    pub steps: Steps,
    pub text: Vec<Text>,
    pub len: u32,
    pub hash: Hash,
}

/// Blocks as they are gathered.
#[derive(Default)]
pub(super) struct Making {
    steps: Steps,
    text: Vec<Text>,
    text_len: usize,
    count: usize,
    /// The bytes of the block at hand.
    plain: Vec<u8>,
    done: Vec<Made>,
    /// Bytes of all recipes so far.
    recipes: usize,
    /// Whether encoders are guessed beside zlib.
    others: bool,
}

impl Making {
    /// Whether there is room for more.
    pub const fn has_room(&self) -> bool {
        self.recipes < RECIPES_MAX
    }

    /// Whether encoders are guessed beside zlib.
    pub const fn has_others(&self) -> bool {
        self.others
    }

    /// Bytes of memory that it takes, in about.
    pub fn memory(&self) -> u64 {
        (self.recipes + self.done.len() * size_of::<Made>() + 2 * LEN) as u64
    }

    /// Begins another block where so much more would be too much.
    fn fit(&mut self, len: usize, text_len: usize) {
        let full = self.plain.len() + len > LEN || self.text_len + text_len > TEXT_LEN;
        if full || self.count >= RECIPE_STEPS_MAX {
            self.close();
        }
    }

    /// Where the next byte goes: which block, and where in it.
    fn place(&mut self, bytes: &[u8]) -> (u32, u32) {
        let place = (self.done.len() as u32, self.plain.len() as u32);
        self.plain.extend_from_slice(bytes);
        self.count += 1;
        place
    }

    /// A few bytes that are kept as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> (u32, u32) {
        self.fit(bytes.len(), 0);
        self.steps.raw(bytes);
        self.place(bytes)
    }

    /// The bytes of a run; its text is that of `content`.
    pub fn run(&mut self, bytes: &[u8], run: &Run, content: u32) -> (u32, u32) {
        self.fit(bytes.len(), run.text.len());
        debug_assert!(run.text.len() <= RECIPE_TEXT_MAX);
        self.steps.run(run);
        self.others |= !run.is_by_zlib();
        let (from, len) = (run.text.start as u64, run.text.len() as u64);
        self.text.push(Text { content, from, len });
        self.text_len += run.text.len();
        self.place(bytes)
    }

    fn close(&mut self) {
        if self.plain.is_empty() {
            return;
        }
        let (steps, text) = (std::mem::take(&mut self.steps), std::mem::take(&mut self.text));
        self.recipes += steps.len() + text.len() * size_of::<Text>();
        let (len, hash) = (self.plain.len() as u32, hash(&self.plain));
        self.done.push(Made { steps, text, len, hash });
        self.plain.clear();
        (self.text_len, self.count) = (0, 0);
    }

    /// All of them.
    pub fn finish(mut self) -> Vec<Made> {
        self.close();
        self.done
    }
}
