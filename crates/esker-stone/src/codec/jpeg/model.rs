//! What is likely in a block, and its numbers told by that.
//!
//! Above: `strip`. Below: `block`, `guess`, `numbers`. Invariant: everything that is asked follows from what was told
//! before, so both sides ask the same.

use super::block::{Beside, Block, Rows, ZIGZAG};
use super::chance::{Coder, Learning};
use super::guess::{Meeting, Opinion, SIDE, edge, opinion, picture};
use super::numbers::{Asked, Counts, Numbers};
use crate::error::{Damage, Result};

/// Numbers inside of a block: neither in its first row nor in its first column.
const INSIDE: usize = 49;
/// Bits of numbers but the first of a block, and of what guesses of those are wrong by.
const BITS: usize = 10;
const FIRST_BITS: usize = 17;
/// How many steps there are, of numbers and of counts.
const STEPS: usize = 12;
const COUNTS: usize = 10;

/// In which step a number is: two for each doubling.
const fn step(number: u32) -> usize {
    let step = match number {
        0..4 => number as usize,
        _ => {
            let bits = number.ilog2();
            (2 * bits + (number >> (bits - 1) & 1)) as usize
        }
    };
    if step < STEPS { step } else { STEPS - 1 }
}

/// In which step a count of at most 49 is.
const fn count_step(count: u32) -> usize {
    match count {
        0..4 => count as usize,
        4..6 => 4,
        6..9 => 5,
        9..13 => 6,
        13..19 => 7,
        19..28 => 8,
        _ => 9,
    }
}

/// 0, 1 or 2: none, positive, negative.
const fn sign(number: i32) -> usize {
    match number {
        0 => 0,
        1.. => 1,
        _ => 2,
    }
}

/// What is known of the blocks of a kind: of lightness, or of colour.
struct Kind {
    inside_count: Counts,
    inside: Numbers,
    edge_count: Counts,
    edge: Numbers,
    first: Numbers,
}

impl Kind {
    fn new() -> Self {
        let inside = Asked {
            contexts: [INSIDE * COUNTS * STEPS, INSIDE * COUNTS * STEPS, INSIDE * 36 * 4],
            weights: INSIDE,
            sign: INSIDE * 9,
            second: INSIDE,
        };
        let edge = Asked {
            contexts: [14 * 8 * STEPS, 14 * STEPS * COUNTS, 14 * 2 * STEPS * STEPS],
            weights: 14,
            sign: 14 * 2 * STEPS,
            second: 14 * STEPS,
        };
        let first = Asked {
            contexts: [STEPS * STEPS, STEPS * COUNTS, STEPS * STEPS],
            weights: 1,
            sign: 9,
            second: 1,
        };
        Self {
            inside_count: Counts::new([50, 100, 50], 6),
            inside: Numbers::new(inside, BITS),
            edge_count: Counts::new([2 * COUNTS * 9, 2 * COUNTS * 8, 2 * COUNTS * 8], 3),
            edge: Numbers::new(edge, BITS),
            first: Numbers::new(first, FIRST_BITS),
        }
    }
}

/// Everything that is learned.
pub(super) struct Model {
    learning: Learning,
    kinds: [Kind; 2],
    /// Where numbers inside of a block lie, in the order of scans.
    order: [u8; INSIDE],
}

/// Magnitude of a number of a block that may not be there.
fn size(block: Option<&Block>, at: usize) -> u32 {
    block.map_or(0, |block| block.numbers[at].unsigned_abs().into())
}

impl Beside<'_> {
    /// A property of the block above and the one to the left, in the middle; of the one that is there if there is one.
    fn middle(&self, of: impl Fn(&Block) -> u32) -> u32 {
        match (self.above, self.left) {
            (Some(one), Some(two)) => (of(one) + of(two)).div_ceil(2),
            (Some(one), None) | (None, Some(one)) => of(one),
            (None, None) => 0,
        }
    }

    /// How large the number at a place is in the blocks around, sixteen times over.
    fn around(&self, at: usize) -> u32 {
        let (above, left) = (size(self.above, at), size(self.left, at));
        match (self.above, self.left) {
            (Some(_), Some(_)) => (13 * (above + left) + 6 * size(self.corner, at)) / 2,
            _ => 16 * (above + left),
        }
    }
}

/// A block as it is told or made.
struct Work<'a, C> {
    coder: &'a mut C,
    learning: &'a Learning,
    kind: &'a mut Kind,
    beside: Beside<'a>,
    quants: &'a [u16; 64],
    block: Block,
}

impl Model {
    pub fn new() -> Self {
        let mut order = [0; INSIDE];
        let inside = ZIGZAG.iter().filter(|&&at| at % 8 > 0 && at / 8 > 0);
        order.iter_mut().zip(inside).for_each(|(own, at)| *own = *at);
        Self { learning: Learning::new(), kinds: [Kind::new(), Kind::new()], order }
    }

    /// Tells a block that lies at this place of its component, or makes it; `before` is the first number of the block
    /// before.
    pub fn block<C: Coder>(
        &mut self,
        coder: &mut C,
        (component, quants): (usize, &[u16; 64]),
        (rows, x, y): (&mut Rows, usize, u32),
        before: i16,
        numbers: &mut [i16; 64],
    ) -> Result<()> {
        let beside = rows.beside(x, y);
        let mut block = Block::NONE;
        block.numbers = *numbers;
        let kind = &mut self.kinds[component.min(1)];
        let mut work = Work { coder, learning: &self.learning, kind, beside, quants, block };
        work.inside(&self.order)?;
        work.edges()?;
        work.first(before)?;
        let block = work.block;
        *numbers = block.numbers;
        rows.put(x, y, block);
        Ok(())
    }
}

impl<C: Coder> Work<'_, C> {
    /// What is neither in the first row nor in the first column.
    fn inside(&mut self, order: &[u8; INSIDE]) -> Result<()> {
        let own = order.iter().filter(|&&at| self.block.numbers[usize::from(at)] != 0).count();
        let beside = self.beside;
        let coarse = |block: Option<&Block>| block.map_or(9, |block| block.inside as usize / 6);
        let contexts = [
            beside.middle(|block| block.inside.into()) as usize,
            coarse(beside.above) * 10 + coarse(beside.left),
            beside.corner.map_or(0, |block| block.inside.into()),
        ];
        let counts = &mut self.kind.inside_count;
        let count = counts.code(self.coder, self.learning, contexts, own)?;
        self.block.inside = count as u8;
        let around = beside.middle(|block| block.inside.into());
        let around = [0, 3, 8].iter().filter(|&&least| around > least).count();
        let mut left = count as u32;
        for (number, &at) in order.iter().enumerate() {
            if left == 0 {
                break;
            }
            let at = usize::from(at);
            let asked = self.ask_inside(number, at, left, around);
            let own = self.block.numbers[at].into();
            let found = self.kind.inside.code(self.coder, self.learning, asked, own)?;
            self.block.numbers[at] = found as i16;
            left -= u32::from(found != 0);
        }
        if left > 0 { Err(Damage::Undecodable.into()) } else { Ok(()) }
    }

    fn ask_inside(&self, number: usize, at: usize, left: u32, around: usize) -> Asked {
        let (above, beside) = (self.beside.above, self.beside.left);
        let own = |at: usize, row: usize, column: usize| {
            if at / SIDE > row && at % SIDE > column {
                u32::from(self.block.numbers[at - row * SIDE - column].unsigned_abs())
            } else {
                0
            }
        };
        // What lies before it in its row, in its column, and between.
        let near =
            2 * (own(at, 1, 0) + own(at, 0, 1)) + own(at, 1, 1) + own(at, 2, 0) + own(at, 0, 2);
        let few = |size: u32| step(size).min(5);
        let signs = |block: Option<&Block>| block.map_or(0, |block| sign(block.numbers[at].into()));
        Asked {
            contexts: [
                (number * COUNTS + count_step(left)) * STEPS + step(self.beside.around(at) / 4),
                (number * COUNTS + count_step(left)) * STEPS + step(near),
                ((number * 6 + few(size(above, at))) * 6 + few(size(beside, at))) * 4 + around,
            ],
            weights: number,
            sign: (number * 3 + signs(above)) * 3 + signs(beside),
            second: number,
        }
    }

    /// The first row, and then the first column.
    fn edges(&mut self) -> Result<()> {
        let inside = count_step(self.block.inside.into());
        let begins = self.meeting(false);
        for (way, across) in [1, SIDE].into_iter().enumerate() {
            let (beside, here) = match way {
                0 => (self.beside.above, &begins.rows),
                _ => (self.beside.left, &begins.columns),
            };
            let guess = beside.map_or([0; SIDE], |beside| {
                let there = if way == 0 { &beside.ends.rows } else { &beside.ends.columns };
                edge(there, here, self.quants, across)
            });
            let own = (1..SIDE).filter(|at| self.block.numbers[at * across] != 0).count();
            let likely = guess.iter().filter(|guess| guess.unsigned_abs() > 1).count();
            let other = self.block.edges[0] as usize * way;
            let near = self.beside.middle(|block| block.edges[way].into()) as usize;
            let near = if beside.is_some() { near } else { 8 };
            let contexts = [
                (way * COUNTS + inside) * 9 + near,
                (way * COUNTS + inside) * 8 + other,
                (way * COUNTS + inside) * 8 + likely,
            ];
            let counts = &mut self.kind.edge_count;
            let count = counts.code(self.coder, self.learning, contexts, own)?;
            self.block.edges[way] = count as u8;
            self.edge(way, across, count, &guess)?;
        }
        Ok(())
    }

    /// What waves come to where the block begins, of those inside, or where it ends, of all.
    fn meeting(&self, ends: bool) -> Meeting {
        let mut found = Meeting::default();
        for (at, &number) in self.block.numbers.iter().enumerate() {
            if number != 0 && (ends || at > SIDE && at % SIDE > 0) {
                found.add(at, number, self.quants, ends);
            }
        }
        found
    }

    /// The numbers of an edge, of which so many are not 0.
    fn edge(&mut self, way: usize, across: usize, count: usize, guess: &[i32; SIDE]) -> Result<()> {
        let inside = count_step(self.block.inside.into());
        let (mut left, mut before) = (count, 0);
        for (number, &guess) in guess.iter().enumerate().skip(1) {
            if left == 0 {
                break;
            }
            let at = number * across;
            let place = way * 7 + number - 1;
            let likely = step(guess.unsigned_abs());
            let signed = usize::from(guess < 0) * STEPS + likely;
            let around = step(self.beside.around(at) / 4);
            let asked = Asked {
                contexts: [
                    (place * 8 + left) * STEPS + likely,
                    (place * STEPS + around) * COUNTS + inside,
                    (place * 2 * STEPS + signed) * STEPS + step(before),
                ],
                weights: place,
                sign: place * 2 * STEPS + signed,
                second: place * STEPS + likely,
            };
            let own = self.block.numbers[at].into();
            let found = self.kind.edge.code(self.coder, self.learning, asked, own)?;
            self.block.numbers[at] = found as i16;
            before = found.unsigned_abs();
            left -= usize::from(found != 0);
        }
        if left > 0 { Err(Damage::Undecodable.into()) } else { Ok(()) }
    }

    /// The first number, which says how light the block is.
    fn first(&mut self, before: i16) -> Result<()> {
        let quant = i32::from(self.quants[0]);
        let picture = picture(&self.block.numbers, self.quants);
        let column = |x: usize| picture.map(|row| row[x]);
        let above = self.beside.above.map(|block| opinion(&block.below, picture[0], picture[1]));
        let left = self.beside.left.map(|block| opinion(&block.right, column(0), column(1)));
        let units = |eighths: i32| eighths.unsigned_abs() / quant.unsigned_abs();
        let (guess, spreads, apart) = match (above, left) {
            (Some(one), Some(two)) => {
                // The one that is surer of itself counts more.
                let (mine, yours) = (i64::from(two.spread) + 1, i64::from(one.spread) + 1);
                let sum = i64::from(one.mean) * mine + i64::from(two.mean) * yours;
                let guess = (sum / (mine + yours)) as i32;
                (guess / quant, [one.spread, two.spread], one.mean - two.mean)
            }
            (Some(Opinion { mean, spread }), None) | (None, Some(Opinion { mean, spread })) => {
                (mean / quant, [spread, spread], 0)
            }
            (None, None) => (before.into(), [0, 0], 0),
        };
        let [over, side] = spreads.map(|spread| step(units(spread)));
        let wrong = |block: Option<&Block>| block.map_or(0, |block| block.wrong);
        let near = [wrong(self.beside.above), wrong(self.beside.left)];
        let asked = Asked {
            contexts: [
                over * STEPS + side,
                step(units(apart)) * COUNTS + count_step(self.block.inside.into()),
                step(near[0].unsigned_abs()) * STEPS + step(near[1].unsigned_abs()),
            ],
            weights: 0,
            sign: sign(near[0]) * 3 + sign(near[1]),
            second: 0,
        };
        let guess = guess.clamp(i16::MIN.into(), i16::MAX.into());
        let own = i32::from(self.block.numbers[0]) - guess;
        let wrong = self.kind.first.code(self.coder, self.learning, asked, own)?;
        let found = i16::try_from(guess + wrong).map_err(|_| Damage::Undecodable)?;
        self.block.numbers[0] = found;
        self.block.wrong = wrong;
        self.block.ends = self.meeting(true);
        let light = (i32::from(found) * quant).clamp(-8191, 8191);
        let goes_on = |last: i32, before: i32| light + last + (last - before) / 2;
        for (below, (last, before)) in
            self.block.below.iter_mut().zip(picture[7].iter().zip(picture[6]))
        {
            *below = goes_on(*last, before);
        }
        for (right, row) in self.block.right.iter_mut().zip(picture) {
            *right = goes_on(row[7], row[6]);
        }
        Ok(())
    }
}
