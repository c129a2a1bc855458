//! The parts of a block's cost that fall on its stretches, so that each stored byte is charged once.
//!
//! Above: `costs`. Invariant: what all who name stretches of a block are charged adds up to what it costs.

/// Zeros in a row from so many on take next to nothing once compressed.
const ZEROS_MIN: usize = 64;

/// A stretch of the plain bytes of a block: where it begins, and where it ends.
pub type Stretch = (u64, u64);

/// What a block costs up to some places in it, which rise: where any stretch that is named begins or ends is one.
pub struct Parts(Vec<(u64, f64)>);

impl Parts {
    /// Shares out what a block costs among all stretches that are named of it. Each byte weighs the same however often
    /// it is named; zeros weigh nothing, unless there is nothing else.
    pub fn of(cost: f64, named: &[Stretch], zeros: &[Stretch]) -> Self {
        let mut turns = Vec::with_capacity(2 * (named.len() + zeros.len()));
        for &(from, to) in named {
            turns.extend([(from, 1.0, 0), (to, -1.0, 0)]);
        }
        for &(from, to) in zeros {
            turns.extend([(from, 0.0, 1), (to, 0.0, -1)]);
        }
        turns.sort_by_key(|&(at, ..)| at);
        let weight = |heed_zeros: bool| {
            let mut places = Vec::with_capacity(turns.len());
            let (mut names, mut zeros, mut last, mut weight, mut parts) = (0.0, 0, 0, 0.0, 0.0);
            for &(at, name, zero) in &turns {
                if names > 0.0 && !(heed_zeros && zeros > 0) {
                    let len = (at - last) as f64;
                    weight += len;
                    parts += len / names;
                }
                (names, zeros, last) = (names + name, zeros + zero, at);
                places.push((at, parts));
            }
            (weight, places)
        };
        let (mut all, mut places) = weight(true);
        if all == 0.0 {
            (all, places) = weight(false);
        }
        let price = if all > 0.0 { cost / all } else { 0.0 };
        places.iter_mut().for_each(|(_, parts)| *parts *= price);
        Self(places)
    }

    /// What one of those pays who name a stretch.
    pub fn part(&self, (from, to): Stretch) -> f64 {
        let until = |end: u64| {
            let behind = self.0.partition_point(|&(at, _)| at <= end);
            behind.checked_sub(1).map_or(0.0, |last| self.0[last].1)
        };
        until(to) - until(from)
    }
}

/// Where there are zeros in a row.
pub fn zeros(plain: &[u8]) -> Vec<Stretch> {
    let mut all = Vec::new();
    let mut at = 0;
    for run in plain.chunk_by(|one, other| (*one == 0) == (*other == 0)) {
        if run[0] == 0 && run.len() >= ZEROS_MIN {
            all.push((at, at + run.len() as u64));
        }
        at += run.len() as u64;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_charged_once() {
        // Twins, one that goes on beyond them, one that is named twice by the same, and 40 bytes that nobody names.
        let named = [(0, 100), (0, 100), (50, 160), (200, 220), (200, 220)];
        let parts = Parts::of(18.0, &named, &[]);
        let paid = named.map(|own| parts.part(own));
        assert!((paid.iter().sum::<f64>() - 18.0).abs() < 1e-9, "{paid:?}");
        // A byte costs a tenth: 50 by two, 50 by three; 60 alone.
        let twin = 2.5 + 5.0 / 3.0;
        for (is, was) in paid.into_iter().zip([twin, twin, 5.0 / 3.0 + 6.0, 1.0, 1.0]) {
            assert!((is - was).abs() < 1e-9, "{is} {was}");
        }
    }

    #[test]
    fn zeros_are_free_beside_others() {
        let named = [(0, 1000), (1000, 1100)];
        let parts = Parts::of(50.0, &named, &[(0, 1000)]);
        assert_eq!(named.map(|own| parts.part(own)), [0.0, 50.0]);
        let parts = Parts::of(50.0, &named[..1], &[(0, 2000)]);
        assert_eq!(parts.part(named[0]), 50.0);
        assert_eq!(Parts::of(50.0, &[], &[]).part((3, 9)), 0.0);
    }

    #[test]
    fn zeros_in_a_row_are_found() {
        let plain = [&[0; 70][..], &[1], &[0; 63], &[2], &[0; 64]].concat();
        assert_eq!(zeros(&plain), [(0, 70), (135, 199)]);
        assert_eq!(zeros(&[]), []);
    }
}
