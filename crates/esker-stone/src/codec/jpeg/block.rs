//! Blocks of 8 × 8 numbers, and those that came before.
//!
//! Above: `model`. Below: `guess`. Invariant: of a component only as many rows are kept as the next block may look at.

use super::guess::{Meeting, SIDE};

/// Where in a block each number lies that comes in a scan, row by row.
pub(super) const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59,
    52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// A block, and what is known of it that others look at.
#[derive(Clone)]
pub(super) struct Block {
    pub numbers: [i16; 64],
    /// What its waves come to where the blocks below and to the right begin.
    pub ends: Meeting,
    /// How the picture goes on below and to the right, in eighths.
    pub below: [i32; SIDE],
    pub right: [i32; SIDE],
    /// How many numbers are not 0: inside, in the first row, in the first column.
    pub inside: u8,
    pub edges: [u8; 2],
    /// What the guess of its first number was wrong by.
    pub wrong: i32,
    /// Its row and one; 0: there is none here.
    row: u32,
}

impl Block {
    pub const NONE: Self = Self {
        numbers: [0; 64],
        ends: Meeting { rows: [0; SIDE], columns: [0; SIDE] },
        below: [0; SIDE],
        right: [0; SIDE],
        inside: 0,
        edges: [0; 2],
        wrong: 0,
        row: 0,
    };
}

/// The blocks of a component that may be looked at.
pub(super) struct Rows {
    blocks: Vec<Block>,
    width: usize,
    height: u32,
}

/// What is beside a block.
#[derive(Clone, Copy)]
pub(super) struct Beside<'a> {
    pub above: Option<&'a Block>,
    pub left: Option<&'a Block>,
    pub corner: Option<&'a Block>,
}

impl Rows {
    /// Rows of so many blocks, of which so many come at once.
    pub fn new(width: usize, at_once: u32) -> Self {
        let height = at_once + 1;
        Self { blocks: vec![Block::NONE; width * height as usize], width, height }
    }

    fn place(&self, x: usize, y: u32) -> usize {
        (y % self.height) as usize * self.width + x
    }

    fn at(&self, x: Option<usize>, y: Option<u32>) -> Option<&Block> {
        let (x, y) = (x?, y?);
        self.blocks.get(self.place(x, y)).filter(|block| block.row == y + 1)
    }

    /// What is beside a block, as far as it came before.
    pub fn beside(&self, x: usize, y: u32) -> Beside<'_> {
        let (before, over) = (x.checked_sub(1), y.checked_sub(1));
        Beside {
            above: self.at(Some(x), over),
            left: self.at(before, Some(y)),
            corner: self.at(before, over),
        }
    }

    /// Keeps a block.
    pub fn put(&mut self, x: usize, y: u32, block: Block) {
        let place = self.place(x, y);
        if let Some(own) = self.blocks.get_mut(place) {
            *own = Block { row: y + 1, ..block };
        }
    }
}
