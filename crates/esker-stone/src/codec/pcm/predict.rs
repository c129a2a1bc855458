//! Linear prediction: a sample guessed from those before it, and the weights that guess best.
//!
//! Above: `frame`. Invariant: a guess takes whole numbers alone. Weights are found with floating-point numbers, but
//! only added, multiplied, divided and rounded, which every machine does in the same way.

use super::frame::WEIGHT_BITS;

/// Most samples that a guess takes.
pub(super) const ORDER_MAX: usize = 16;
/// How many that are tried.
const ORDERS: [usize; 4] = [2, 6, 10, ORDER_MAX];
/// Most bits that are cut off from a sum.
const SHIFT_MAX: u32 = 15;

/// Weights of the samples before.
pub(super) struct Weights {
    /// That of the last sample at the end, and zeros for those that count nothing.
    all: [i64; ORDER_MAX],
    order: usize,
    shift: u32,
}

impl Weights {
    /// Some, at most [`ORDER_MAX`], that of the last sample first, in parts of two to the power of `shift`.
    pub fn new(some: &[i64], shift: u32) -> Self {
        let mut all = [0; ORDER_MAX];
        all.iter_mut().rev().zip(some).for_each(|(to, from)| *to = *from);
        Self { all, order: some.len(), shift }
    }

    /// That of the last sample first.
    pub fn each(&self) -> impl Iterator<Item = i64> {
        self.all.iter().rev().copied().take(self.order)
    }

    /// How many there are.
    pub const fn order(&self) -> usize {
        self.order
    }

    pub const fn shift(&self) -> u32 {
        self.shift
    }

    /// Bits that they take.
    pub const fn cost(&self) -> u64 {
        self.order as u64 * WEIGHT_BITS as u64
    }

    /// The next sample behind these, at least [`ORDER_MAX`]: a sum, rounded down.
    pub fn guess(&self, before: &[i64]) -> i64 {
        let sum = match self.order {
            0..=2 => self.sum::<2>(before),
            3..=6 => self.sum::<6>(before),
            7..=10 => self.sum::<10>(before),
            _ => self.sum::<ORDER_MAX>(before),
        };
        sum >> self.shift
    }

    /// The last samples, each times its weight. How many is known when this is built, so there is no loop.
    fn sum<const COUNT: usize>(&self, before: &[i64]) -> i64 {
        let last = |all: &[i64]| all.last_chunk::<COUNT>().copied().unwrap_or([0; COUNT]);
        // Samples and weights are too small for more than 64 bits.
        last(before)
            .iter()
            .zip(last(&self.all))
            .fold(0i64, |sum, (sample, weight)| sum.wrapping_add(sample.wrapping_mul(weight)))
    }
}

/// Weights that may be the best ones for a signal, the first [`ORDER_MAX`] samples of which are known.
pub(super) fn candidates(signal: &[i64]) -> Vec<Weights> {
    let alike = alike(signal);
    // What does not change, and what goes on as it did.
    let mut found = vec![Weights::new(&[1], 0), Weights::new(&[2, -1], 0)];
    if alike[0] > 0.0 {
        found.extend(grown(&alike).iter().filter_map(|weights| rounded(weights)));
    }
    found
}

/// How alike a signal is to itself some samples later, its ends counted less.
fn alike(signal: &[i64]) -> [f64; ORDER_MAX + 1] {
    let half = (signal.len() as f64 - 1.0) / 2.0;
    let faded: Vec<f64> = signal
        .iter()
        .enumerate()
        .map(|(at, &sample)| {
            let place = (at as f64 - half) / (half + 1.0);
            sample as f64 * (1.0 - place * place)
        })
        .collect();
    std::array::from_fn(|lag| {
        // Four sums side by side, as processors like it.
        let (one, other) = (&faded[lag..], &faded[..faded.len() - lag]);
        let mut sums = [0.0; 4];
        for (one, other) in one.chunks_exact(4).zip(other.chunks_exact(4)) {
            for (sum, (one, other)) in sums.iter_mut().zip(one.iter().zip(other)) {
                *sum += one * other;
            }
        }
        (sums[0] + sums[1]) + (sums[2] + sums[3])
    })
}

/// The best weights of each order that is tried (Levinson and Durbin).
fn grown(alike: &[f64; ORDER_MAX + 1]) -> Vec<Vec<f64>> {
    let (mut weights, mut wrong): (Vec<f64>, f64) = (Vec::new(), alike[0]);
    let mut found = Vec::new();
    for order in 1..=ORDER_MAX {
        let known: f64 = weights.iter().zip(alike[1..order].iter().rev()).map(|(w, a)| w * a).sum();
        let next = (alike[order] - known) / wrong;
        let back: Vec<f64> = weights.iter().rev().copied().collect();
        weights.iter_mut().zip(back).for_each(|(own, back)| *own -= next * back);
        weights.push(next);
        wrong *= 1.0 - next * next;
        if ORDERS.contains(&order) {
            found.push(weights.clone());
        }
        if wrong <= 0.0 || wrong.is_nan() {
            break;
        }
    }
    found
}

/// Weights as whole numbers, as fine as there is room for; `None`: they are too large.
fn rounded(weights: &[f64]) -> Option<Weights> {
    let most = f64::from((1 << (WEIGHT_BITS - 1)) - 1);
    let largest = weights.iter().fold(0.0f64, |most, weight| most.max(weight.abs()));
    let scale = |shift: u32| f64::from(1 << shift);
    let shift = (0..=SHIFT_MAX).rev().find(|&shift| largest * scale(shift) < most)?;
    let all: Vec<_> = weights.iter().map(|weight| (weight * scale(shift)).round() as i64).collect();
    Some(Weights::new(&all, shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tone_is_guessed_from_two_samples() {
        let mut signal = vec![0i64, 5000];
        while signal.len() < 4000 {
            let [.., one, two] = signal[..] else { unreachable!() };
            signal.push(((two * 1990) >> 10) - one);
        }
        let wrong = |weights: &Weights| -> i64 {
            let wrong = |at: usize| (signal[at] - weights.guess(&signal[..at])).abs();
            (ORDER_MAX..signal.len()).map(wrong).sum()
        };
        let all = candidates(&signal);
        assert!(all.len() > 3, "orders up to where nothing is wrong any more");
        let best = all.iter().map(wrong).min().unwrap();
        let still = all.iter().map(wrong).max().unwrap();
        assert!(best * 20 < still, "{best} and {still}");
    }

    #[test]
    fn no_signal_is_too_much() {
        for signal in [vec![0; 17], vec![1 << 32; 4112], vec![-(1 << 32); 100], vec![7; 16]] {
            assert!(candidates(&signal).len() >= 2);
        }
        assert!(
            rounded(&[1e9]).is_none() && rounded(&[f64::NAN]).is_none_or(|own| own.each().eq([0]))
        );
    }
}
