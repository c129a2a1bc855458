//! Numbers told bit by bit, each by what three things say of it.
//!
//! Above: `model`. Below: `chance`. Invariant: what is asked first is how many bits a number has, so small ones are
//! cheap; no number has more bits than its kind allows.

use super::chance::{Coder, Learning, Slot, WEIGHTS, Weights};
use crate::error::Result;

/// What is asked, in three ways: each the number of a group of chances.
pub(super) type Contexts = [usize; 3];

/// A table of chances in three parts, each of groups of the same length.
struct Groups {
    slots: [Vec<Slot>; 3],
    len: usize,
}

impl Groups {
    fn new(groups: Contexts, len: usize) -> Self {
        Self { slots: groups.map(|count| vec![Slot::NEW; count * len]), len }
    }

    /// Three groups of chances.
    #[inline(always)]
    fn of(&mut self, contexts: Contexts) -> [&mut [Slot]; 3] {
        let ([one, two, three], [first, second, third]) = (&mut self.slots, contexts);
        let own = |context: usize| context * self.len..(context + 1) * self.len;
        [&mut one[own(first)], &mut two[own(second)], &mut three[own(third)]]
    }
}

/// Numbers from 0 on that have a fixed count of bits.
pub(super) struct Counts {
    groups: Groups,
    weights: Vec<Weights>,
    bits: u32,
}

impl Counts {
    pub fn new(groups: Contexts, bits: u32) -> Self {
        let len = 1 << bits;
        Self { groups: Groups::new(groups, len), weights: vec![WEIGHTS; len], bits }
    }

    /// Tells a number, or is told it.
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        learning: &Learning,
        contexts: Contexts,
        number: usize,
    ) -> Result<usize> {
        let mut node = 1;
        let [one, two, three] = self.groups.of(contexts);
        for bit in (0..self.bits).rev() {
            let slots = [&mut one[node], &mut two[node], &mut three[node]];
            let found =
                learning.mixed(coder, slots, &mut self.weights[node], number >> bit & 1 == 1)?;
            node = node << 1 | usize::from(found);
        }
        Ok(node - (1 << self.bits))
    }
}

/// Numbers of either sign.
pub(super) struct Numbers {
    groups: Groups,
    weights: Vec<Weights>,
    signs: Vec<Slot>,
    /// Bits below the highest: the next one, and those after it.
    seconds: Vec<Slot>,
    others: Vec<Slot>,
    bits: usize,
}

/// How many of each there are, or which.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub contexts: Contexts,
    pub weights: usize,
    pub sign: usize,
    pub second: usize,
}

impl Numbers {
    /// Numbers of at most so many bits.
    pub fn new(counts: Asked, bits: usize) -> Self {
        Self {
            groups: Groups::new(counts.contexts, bits),
            weights: vec![WEIGHTS; counts.weights * bits],
            signs: vec![Slot::NEW; counts.sign],
            seconds: vec![Slot::NEW; counts.second * (bits + 1)],
            others: vec![Slot::NEW; (bits + 1) * bits],
            bits,
        }
    }

    /// Tells a number, or is told it.
    pub fn code(
        &mut self,
        coder: &mut impl Coder,
        learning: &Learning,
        asked: Asked,
        number: i32,
    ) -> Result<i32> {
        let whole = number.unsigned_abs();
        let own = (u32::BITS - whole.leading_zeros()) as usize;
        let mut bits = 0;
        let [one, two, three] = self.groups.of(asked.contexts);
        let weights = &mut self.weights[asked.weights * self.bits..(asked.weights + 1) * self.bits];
        for (((one, two), three), weights) in one.iter_mut().zip(two).zip(three).zip(weights) {
            if !learning.mixed(coder, [one, two, three], weights, own > bits)? {
                break;
            }
            bits += 1;
        }
        if bits == 0 {
            return Ok(0);
        }
        let negative = learning.plain(coder, &mut self.signs[asked.sign], number < 0)?;
        let mut found = 1;
        for bit in (0..bits - 1).rev() {
            let slot = match bit + 2 == bits {
                true => &mut self.seconds[asked.second * (self.bits + 1) + bits],
                false => &mut self.others[bits * self.bits + bit],
            };
            let one = learning.plain(coder, slot, whole >> bit & 1 == 1)?;
            found = found << 1 | i32::from(one);
        }
        Ok(if negative { -found } else { found })
    }
}
