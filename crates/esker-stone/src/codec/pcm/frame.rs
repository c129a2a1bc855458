//! Frames of sound: some moments of all channels, each signal in them predicted by one set of weights.
//!
//! Above: `pcm`. Below: `predict`, `bits`. Invariant: reader and writer keep the same history, and all numbers on the
//! way stay within 56 bits, whatever is read.

use super::bits::{NUMBER_MAX, Reader, Writer, rice_len};
use super::predict::{ORDER_MAX, Weights, candidates};
use super::{Shape, signed};
use crate::error::{Damage, Result};

/// Moments of a frame, but for the last one.
pub(super) const FRAME_LEN: usize = 4096;

/// The order that says that all samples are the same as the last one.
const CONSTANT: u64 = ORDER_MAX as u64 + 1;
const ORDER_BITS: u32 = 5;
const SHIFT_BITS: u32 = 4;
/// Bits of a weight, the sign included.
pub(super) const WEIGHT_BITS: u32 = 15;
/// Bits that say how many of each sample are not used.
const UNUSED_BITS: u32 = 5;
/// The mean of what predictions are wrong by counts the last ones, two to this power in about.
const MEAN_SHIFT: u32 = 5;
/// The mean at the beginning.
const MEAN: u64 = 64 << MEAN_SHIFT;
/// Samples of a stretch that is tried with all weights that may be the best.
const STRETCH_LEN: usize = 32;
/// One of how many stretches is.
const TRIED: usize = 4;
/// Most bits that a Rice code has as they are.
const LOW_MAX: u32 = 36;

/// How two channels are told. Each of the two signals is the left or the right one, their difference (left − right),
/// or their mean, rounded down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pair {
    LeftRight,
    LeftSide,
    SideRight,
    MidSide,
}

impl Pair {
    const ALL: [Self; 4] = [Self::LeftRight, Self::LeftSide, Self::SideRight, Self::MidSide];
    const BITS: u32 = 2;

    /// Which signals it has, as numbers of left, right, difference, mean.
    const fn signals(self) -> [usize; 2] {
        match self {
            Self::LeftRight => [0, 1],
            Self::LeftSide => [0, 2],
            Self::SideRight => [2, 1],
            Self::MidSide => [3, 2],
        }
    }

    /// Left and right.
    const fn back(self, [one, other]: [i64; 2]) -> [i64; 2] {
        match self {
            Self::LeftRight => [one, other],
            Self::LeftSide => [one, one - other],
            Self::SideRight => [one + other, other],
            Self::MidSide => {
                let sum = one << 1 | other & 1;
                [(sum + other) >> 1, (sum - other) >> 1]
            }
        }
    }
}

/// One of the signals of two channels.
const fn signal(number: usize, left: i64, right: i64) -> i64 {
    match number {
        0 => left,
        1 => right,
        2 => left - right,
        _ => (left + right) >> 1,
    }
}

/// What is known of the channels so far.
pub(super) struct Channels {
    shape: Shape,
    /// Of each the last samples before the frame, and room for those of the frame.
    samples: Vec<Vec<i64>>,
    /// Of each of the signals what predictions were wrong by.
    means: Vec<u64>,
}

/// Zigzag: small numbers of either sign become small ones.
const fn zigzag(wrong: i64) -> u64 {
    (wrong << 1 ^ wrong >> 63).cast_unsigned()
}

const fn unzigzag(word: u64) -> i64 {
    (word >> 1).cast_signed() ^ -((word & 1).cast_signed())
}

/// How many bits of the next Rice code are as they are.
const fn low(mean: u64) -> u32 {
    let low = ((mean >> MEAN_SHIFT) * 3 / 4 + 1).ilog2();
    if low < LOW_MAX { low } else { LOW_MAX }
}

const fn moved(mean: u64, number: u64) -> u64 {
    mean - (mean >> MEAN_SHIFT) + number
}

/// A signal as it is told: its weights, or that it is constant, and what it costs.
struct Told {
    weights: Option<Weights>,
    wrong: Vec<u64>,
    cost: u64,
}

/// The best way to tell a signal, the first [`ORDER_MAX`] samples of which are known.
fn told(signal: &[i64], mean: u64) -> Told {
    let own = &signal[ORDER_MAX..];
    if own.iter().all(|&sample| sample == signal[ORDER_MAX - 1]) {
        return Told { weights: None, wrong: Vec::new(), cost: ORDER_BITS.into() };
    }
    let wrong = |weights: &Weights, at| zigzag(signal[at] - weights.guess(&signal[..at]));
    let trial = |weights: &Weights| {
        let stretches = (ORDER_MAX..signal.len()).step_by(STRETCH_LEN * TRIED);
        let each = stretches.flat_map(|at| at..signal.len().min(at + STRETCH_LEN));
        let numbers: Vec<u64> = each.map(|at| wrong(weights, at)).collect();
        weights.cost() + cost(&numbers, mean) * own.len() as u64 / numbers.len().max(1) as u64
    };
    let best = candidates(signal).into_iter().min_by_key(trial);
    let all = |weights: &Weights| -> Vec<u64> {
        (ORDER_MAX..signal.len()).map(|at| wrong(weights, at)).collect()
    };
    let told = best.map(|weights| (all(&weights), weights));
    let told = told.filter(|(wrong, _)| wrong.iter().all(|&number| number <= NUMBER_MAX));
    let (wrong, weights) = told.unwrap_or_else(|| {
        // A sample is never so far from the one before that the difference has no code.
        let still = Weights::new(&[1], 0);
        (all(&still), still)
    });
    let cost = weights.cost() + cost(&wrong, mean);
    Told { weights: Some(weights), wrong, cost }
}

/// Bits of these numbers.
fn cost(numbers: &[u64], mut mean: u64) -> u64 {
    let mut cost = 0;
    for &number in numbers {
        cost += rice_len(number, low(mean));
        mean = moved(mean, number);
    }
    cost
}

impl Channels {
    pub fn new(shape: Shape) -> Self {
        let count = usize::from(shape.channels);
        Self { shape, samples: vec![vec![0; ORDER_MAX]; count], means: vec![MEAN; count] }
    }

    /// Ends a frame: its last samples are what is known of the next one.
    fn forget(&mut self) {
        for samples in &mut self.samples {
            samples.drain(..samples.len() - ORDER_MAX);
        }
    }

    /// Writes the frame of these bytes.
    pub fn write(&mut self, bytes: &[u8], writer: &mut Writer<'_>) {
        let shape = self.shape;
        for moment in bytes.chunks_exact(shape.moment_len()) {
            let each = moment.chunks_exact(shape.width.into());
            self.samples.iter_mut().zip(each).for_each(|(to, from)| to.push(shape.sample(from)));
        }
        let used = |samples: &Vec<i64>| samples[ORDER_MAX..].iter().fold(0, |all, own| all | own);
        let used = self.samples.iter().map(used).fold(0, |all, own| all | own);
        let unused = used.trailing_zeros().min(shape.bits() - 1);
        writer.put(unused.into(), UNUSED_BITS);
        let narrow = |samples: &Vec<i64>| samples.iter().map(|sample| sample >> unused).collect();
        let plain: Vec<Vec<i64>> = self.samples.iter().map(narrow).collect();
        match &plain[..] {
            [left, right] => {
                let both = || left.iter().zip(right);
                let own = |number| -> Vec<i64> {
                    both().map(|(&left, &right)| signal(number, left, right)).collect()
                };
                // What a difference was wrong by before says little of a channel, but enough.
                let all: [Told; 4] = std::array::from_fn(|number| {
                    told(&own(number), self.means[usize::from(number == 1 || number == 2)])
                });
                let cost = |pair: &Pair| -> u64 {
                    pair.signals().iter().map(|&number| all[number].cost).sum()
                };
                let pair = Pair::ALL.into_iter().min_by_key(cost).unwrap_or(Pair::LeftRight);
                writer.put(pair as u64, Pair::BITS);
                for (at, number) in pair.signals().into_iter().enumerate() {
                    // The means may be those of other places than they were tried with.
                    put(&all[number], &mut self.means[at], writer);
                }
            }
            all => {
                for (signal, mean) in all.iter().zip(&mut self.means) {
                    put(&told(signal, *mean), mean, writer);
                }
            }
        }
        self.forget();
    }

    /// Reads the frame that makes these bytes.
    pub fn read(&mut self, reader: &mut Reader<'_>, bytes: &mut [u8]) -> Result<()> {
        let (shape, len) = (self.shape, bytes.len() / self.shape.moment_len());
        let unused = reader.take(UNUSED_BITS)? as u32;
        if unused >= shape.bits() {
            return Err(Damage::Undecodable.into());
        }
        let known = |samples: &Vec<i64>| samples.iter().map(|sample| sample >> unused).collect();
        let mut signals: Vec<Vec<i64>> = self.samples.iter().map(known).collect();
        let mut pair = Pair::LeftRight;
        if let [left, right] = &mut signals[..] {
            pair = Pair::ALL[reader.take(Pair::BITS)? as usize];
            let [one, other] = pair.signals();
            for (left, right) in left.iter_mut().zip(right) {
                (*left, *right) = (signal(one, *left, *right), signal(other, *left, *right));
            }
        }
        for (signal, mean) in signals.iter_mut().zip(&mut self.means) {
            // A difference has one bit more.
            take(reader, signal, len, mean, shape.bits() + 1)?;
        }
        if let [left, right] = &mut signals[..] {
            for (left, right) in left.iter_mut().zip(right) {
                [*left, *right] = pair.back([*left, *right]);
            }
        }
        for (samples, signal) in self.samples.iter_mut().zip(&signals) {
            samples
                .extend(signal[ORDER_MAX..].iter().map(|own| signed(own << unused, shape.bits())));
        }
        let width = usize::from(shape.width);
        for (at, moment) in bytes.chunks_exact_mut(shape.moment_len()).enumerate() {
            for (samples, to) in self.samples.iter().zip(moment.chunks_exact_mut(width)) {
                shape.put(samples[ORDER_MAX + at], to);
            }
        }
        self.forget();
        Ok(())
    }
}

/// Writes a signal.
fn put(told: &Told, mean: &mut u64, writer: &mut Writer<'_>) {
    let Some(weights) = &told.weights else {
        writer.put(CONSTANT, ORDER_BITS);
        return;
    };
    writer.put(weights.order() as u64, ORDER_BITS);
    writer.put(weights.shift().into(), SHIFT_BITS);
    for weight in weights.each() {
        writer.put((weight & ((1 << WEIGHT_BITS) - 1)).cast_unsigned(), WEIGHT_BITS);
    }
    for &number in &told.wrong {
        writer.rice(number, low(*mean));
        *mean = moved(*mean, number);
    }
}

/// Reads a signal of so many samples behind those that are known.
fn take(
    reader: &mut Reader<'_>,
    signal: &mut Vec<i64>,
    len: usize,
    mean: &mut u64,
    bits: u32,
) -> Result<()> {
    let order = reader.take(ORDER_BITS)?;
    if order == CONSTANT {
        let last = signal.last().copied().unwrap_or(0);
        signal.resize(signal.len() + len, last);
        return Ok(());
    }
    if order > ORDER_MAX as u64 {
        return Err(Damage::Undecodable.into());
    }
    let shift = reader.take(SHIFT_BITS)? as u32;
    let mut weight = || Ok(signed(reader.take(WEIGHT_BITS)?.cast_signed(), WEIGHT_BITS));
    let all: Result<Vec<i64>> = (0..order).map(|_| weight()).collect();
    let weights = Weights::new(&all?, shift);
    signal.reserve(len);
    for _ in 0..len {
        let number = reader.rice(low(*mean))?;
        *mean = moved(*mean, number);
        signal.push(signed(weights.guess(signal) + unzigzag(number), bits));
    }
    Ok(())
}
