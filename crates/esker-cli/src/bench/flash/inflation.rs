//! Erase block inflation: how many bytes of files an erase block of a volume holds, beside rows of commits, for data
//! that packs so well.
//!
//! Above: [`super`]. Below: [`super::subject`]. Invariant: only whole erase blocks count, and each cell has the data
//! and the sizes of the table that it stands beside.

use esker_stone::{Codec, Setting};
use esker_volume::segments::Condition;

use super::subject::{Shape, Subject};
use crate::bench::Tell;
use crate::failure::Outcome;

/// Whole erase blocks that are looked at.
const BLOCKS: u64 = 8;

/// A cell: bytes of a logical block, what they pack into, bytes of an erase block, and how many times its size SSDFS
/// stores in it, as its author tells.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub block: u32,
    pub packed: usize,
    pub erase: u64,
    pub ssdfs: f64,
}

const K: u64 = 1 << 10;

/// SSDFS's erase block sizes, and its ratios for each logical block size from 4K to 32K.
type Ratios = [&'static [(u64, f64)]; 4];

/// All of SSDFS's table: what 4K pack into, and the ratios.
const TABLE: [(usize, Ratios); 4] = [
    (
        64,
        [
            &[(128 * K, 6.2), (256 * K, 9.2), (512 * K, 10.0)],
            &[(128 * K, 5.0), (256 * K, 10.8), (512 * K, 13.2)],
            &[(256 * K, 5.0), (512 * K, 12.0)],
            &[(256 * K, 1.7), (512 * K, 4.6)],
        ],
    ),
    (
        1135,
        [
            &[(128 * K, 2.3), (256 * K, 2.7), (512 * K, 2.9)],
            &[(256 * K, 2.5), (512 * K, 2.9)],
            &[(256 * K, 2.1), (512 * K, 2.6)],
            &[(256 * K, 1.2), (512 * K, 2.5)],
        ],
    ),
    (
        2171,
        [
            &[(128 * K, 1.4), (256 * K, 1.5), (512 * K, 1.6)],
            &[(128 * K, 1.3), (256 * K, 1.5), (512 * K, 1.7)],
            &[(256 * K, 1.3), (512 * K, 1.6)],
            &[(256 * K, 1.0), (512 * K, 1.5)],
        ],
    ),
    (
        3188,
        [
            &[(128 * K, 1.1), (256 * K, 1.15), (512 * K, 1.2)],
            &[(128 * K, 0.9), (256 * K, 1.1), (512 * K, 1.2)],
            &[(256 * K, 1.0), (512 * K, 1.1)],
            &[(256 * K, 0.75), (512 * K, 1.1)],
        ],
    ),
];

/// Its cells in their order.
pub fn cells() -> Vec<Cell> {
    let mut all = Vec::new();
    for (packed, rows) in TABLE {
        for (shift, row) in rows.into_iter().enumerate() {
            let of = |&(erase, ssdfs): &(u64, f64)| Cell {
                block: 4096 << shift,
                packed: packed << shift,
                erase,
                ssdfs,
            };
            all.extend(row.iter().map(of));
        }
    }
    all
}

impl Cell {
    /// How many times the size of an erase block is stored in it.
    #[expect(clippy::cast_precision_loss, reason = "two digits behind the point are shown")]
    pub fn run(&self, tell: &mut dyn Tell, (done, all): (usize, usize)) -> Outcome<f64> {
        tell.step(done, all, "inflation");
        // As much as a quarter of an erase block holds, in about.
        let count = (self.erase as usize / 4 / self.packed).max(1);
        let mut bytes = vec![0; count * self.block as usize];
        // Room is asked for as if nothing could be packed.
        let size = 4 * (BLOCKS + 1) * self.erase + 4 * bytes.len() as u64;
        let size = size.next_multiple_of(self.erase);
        let shape = Shape {
            size,
            segment: self.erase,
            block: self.block,
            setting: Setting::new(Codec::Zstd, 1),
        };
        let mut subject = Subject::new(shape)?;
        let ino = subject.file("file")?;
        let (mut at, mut before, mut first) = (0, log_segments(&subject), None);
        loop {
            for block in bytes.chunks_mut(self.block as usize) {
                subject.noise(&mut block[..self.packed]);
            }
            subject.write(ino, at, &bytes)?;
            subject.sync()?;
            at += bytes.len() as u64;
            let begun = log_segments(&subject);
            if begun == std::mem::replace(&mut before, begun) {
                continue;
            }
            let (from, past) = *first.get_or_insert((at, begun));
            if begun >= past + BLOCKS {
                return Ok((at - from) as f64 / ((begun - past) * self.erase) as f64);
            }
        }
    }
}

fn log_segments(subject: &Subject) -> u64 {
    let rows = subject.volume().stretches();
    rows.iter().filter(|row| row.condition == Condition::Log).count() as u64
}
