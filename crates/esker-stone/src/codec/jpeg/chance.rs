//! Bits that cost what they are unlikely: an arithmetic coder, and chances learned from what came before.
//!
//! Above: `numbers`. Invariant: both sides learn the same, by whole numbers alone; reading behind the end is damage.

use std::io::Read;

use crate::codec::feed::Feed;
use crate::error::{Damage, Result};

/// Bytes that the coder holds.
const HELD: usize = 4;
/// Bits of a chance.
const CHANCE_BITS: u32 = 16;
/// How often a chance was asked until it follows no slower any more.
const TIMES_MAX: u16 = 250;
/// What a weight of one is, and what each of three begins with.
const WEIGHT_ONE_BITS: u32 = 16;
const WEIGHT: i32 = 26_000;
/// What none goes beyond.
const WEIGHT_MAX: i32 = (8 << WEIGHT_ONE_BITS) - 1;
/// How quickly weights follow.
const WEIGHT_SPEED: i32 = 12;
/// The logistic function, 4096 / (1 + e^(−x / 256)), from −2048 to 2048 in steps of 128.
const LOGISTIC: [i32; 33] = [
    1, 2, 3, 6, 10, 16, 27, 45, 73, 120, 194, 310, 488, 747, 1101, 1546, 2047, 2549, 2994, 3348,
    3607, 3785, 3901, 3975, 4022, 4050, 4068, 4079, 4085, 4089, 4092, 4093, 4094,
];
const DOMAIN_MAX: i32 = 2047;

/// Writes or reads a bit whose chance of being one, of 2^16, both sides know.
pub(super) trait Coder {
    /// `bit` if it writes; gives what it is.
    fn bit(&mut self, bit: bool, chance: u32) -> Result<bool>;
}

/// What is left of all numbers below 2^32.
struct Interval {
    low: u32,
    high: u32,
}

impl Interval {
    const ALL: Self = Self { low: 0, high: u32::MAX };

    /// The last number that means one.
    const fn middle(&self, chance: u32) -> u32 {
        let range = (self.high - self.low) as u64;
        self.low + ((range * chance as u64) >> CHANCE_BITS) as u32
    }

    const fn narrow(&mut self, bit: bool, middle: u32) {
        if bit { self.high = middle } else { self.low = middle + 1 }
    }

    /// Takes the uppermost byte off, if it is certain.
    const fn byte(&mut self) -> Option<u8> {
        if (self.low ^ self.high) >> 24 != 0 {
            return None;
        }
        let byte = (self.high >> 24) as u8;
        self.low <<= 8;
        self.high = self.high << 8 | 0xff;
        Some(byte)
    }
}

/// Writes.
pub(super) struct Encoder<'a> {
    stored: &'a mut Vec<u8>,
    interval: Interval,
}

impl<'a> Encoder<'a> {
    pub const fn new(stored: &'a mut Vec<u8>) -> Self {
        Self { stored, interval: Interval::ALL }
    }

    pub fn finish(self) {
        self.stored.extend(self.interval.low.to_be_bytes());
    }
}

impl Coder for Encoder<'_> {
    #[inline]
    fn bit(&mut self, bit: bool, chance: u32) -> Result<bool> {
        let middle = self.interval.middle(chance);
        self.interval.narrow(bit, middle);
        while let Some(byte) = self.interval.byte() {
            self.stored.push(byte);
        }
        Ok(bit)
    }
}

/// Reads.
pub(super) struct Decoder<'a> {
    feed: Feed<'a>,
    interval: Interval,
    number: u32,
}

impl<'a> Decoder<'a> {
    pub fn new(source: &'a mut dyn Read) -> Result<Self> {
        let mut own = Self { feed: Feed::new(source), interval: Interval::ALL, number: 0 };
        for _ in 0..HELD {
            own.number = own.number << 8 | u32::from(own.byte()?);
        }
        Ok(own)
    }

    fn byte(&mut self) -> Result<u8> {
        self.feed.next()?.ok_or_else(|| Damage::Undecodable.into())
    }

    /// Whether nothing is left.
    pub fn is_at_end(&mut self) -> Result<bool> {
        Ok(self.number == self.interval.low && self.feed.is_at_end()?)
    }
}

impl Coder for Decoder<'_> {
    #[inline]
    fn bit(&mut self, _: bool, chance: u32) -> Result<bool> {
        let middle = self.interval.middle(chance);
        let bit = self.number <= middle;
        self.interval.narrow(bit, middle);
        while self.interval.byte().is_some() {
            self.number = self.number << 8 | u32::from(self.byte()?);
        }
        Ok(bit)
    }
}

/// A chance, and how often it was asked.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    chance: u16,
    times: u16,
}

impl Slot {
    pub const NEW: Self = Self { chance: 1 << (CHANCE_BITS - 1), times: 0 };

    /// Learns what the bit was.
    #[inline(always)]
    const fn learn(&mut self, bit: bool, speeds: &[u16; TIMES_MAX as usize + 1]) {
        let speed = speeds[self.times as usize] as u32;
        if self.times < TIMES_MAX {
            self.times += 1;
        }
        let chance = self.chance as u32;
        let moved = if bit {
            chance.wrapping_add((u16::MAX as u32 - chance).wrapping_mul(speed) >> 16)
        } else {
            chance.wrapping_sub(chance.wrapping_mul(speed) >> 16)
        };
        self.chance = moved as u16;
    }
}

/// Weights of three opinions.
pub(super) type Weights = [i32; 3];
/// What they begin with.
pub(super) const WEIGHTS: Weights = [WEIGHT; 3];

/// The logistic function of what is −2047 to 2047, of 2^16.
#[inline(always)]
fn logistic(x: i32) -> i32 {
    let x = x.clamp(-DOMAIN_MAX, DOMAIN_MAX) + DOMAIN_MAX + 1;
    let (step, part) = ((x >> 7) as usize & 31, x & 127);
    (LOGISTIC[step] * (128 - part) + LOGISTIC[step + 1] * part) >> 3
}

/// How chances become opinions, and how quickly slots learn.
pub(super) struct Learning {
    /// Of each chance, of 2^12, the least number whose logistic is no less.
    opinions: Box<[i16; 4096]>,
    speeds: Box<[u16; TIMES_MAX as usize + 1]>,
}

impl Learning {
    pub fn new() -> Self {
        let mut opinions = Box::new([DOMAIN_MAX as i16; 4096]);
        let mut next = 0;
        for x in -DOMAIN_MAX..=DOMAIN_MAX {
            let end = ((logistic(x) >> 4) + 1) as usize;
            if next < end {
                opinions[next..end].fill(x as i16);
                next = end;
            }
        }
        let mut speeds = Box::new([0; TIMES_MAX as usize + 1]);
        // 1 / 1.5, 1 / 2.5, …
        speeds.iter_mut().zip((3u32..).step_by(2)).for_each(|(speed, halves)| {
            *speed = ((2 << 16) / halves) as u16;
        });
        Self { opinions, speeds }
    }

    /// A bit by one slot.
    #[inline]
    pub fn plain(&self, coder: &mut impl Coder, slot: &mut Slot, bit: bool) -> Result<bool> {
        let bit = coder.bit(bit, u32::from(slot.chance).max(16))?;
        slot.learn(bit, &self.speeds);
        Ok(bit)
    }

    /// A bit by three.
    #[inline(always)]
    pub fn mixed(
        &self,
        coder: &mut impl Coder,
        slots: [&mut Slot; 3],
        weights: &mut Weights,
        bit: bool,
    ) -> Result<bool> {
        let [one, two, three] = slots;
        let opinion = |slot: &Slot| i32::from(self.opinions[usize::from(slot.chance >> 4)]);
        let opinions = [opinion(one), opinion(two), opinion(three)];
        // Opinions have 11 bits and a sign, weights 19: nothing overflows.
        let heard = |at: usize| i64::from(opinions[at]).wrapping_mul(weights[at].into());
        let sum = heard(0).wrapping_add(heard(1)).wrapping_add(heard(2));
        let chance = logistic((sum >> WEIGHT_ONE_BITS) as i32);
        let bit = coder.bit(bit, chance.cast_unsigned())?;
        let wrong = (i32::from(bit) << CHANCE_BITS).wrapping_sub(chance) >> 4;
        let speed = wrong.wrapping_mul(WEIGHT_SPEED);
        for (weight, opinion) in weights.iter_mut().zip(opinions) {
            let moved = weight.wrapping_add(opinion.wrapping_mul(speed) >> WEIGHT_ONE_BITS);
            *weight = moved.clamp(-WEIGHT_MAX, WEIGHT_MAX);
        }
        one.learn(bit, &self.speeds);
        two.learn(bit, &self.speeds);
        three.learn(bit, &self.speeds);
        Ok(bit)
    }
}
