//! Random numbers from a seed.

/// xorshift64*.
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    /// Less than `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.below(from.len() as u64) as usize])
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let seed = self.next();
        // Never 0: data that were lost must not look like a hole.
        (0..len as u64).map(|index| (seed.wrapping_add(index * 31) % 255) as u8 + 1).collect()
    }
}

/// Sizes and offsets at which something changes: record, granule, page, unit.
const EDGES: [u64; 11] = [0, 64, 480, 512, 1024, 4096, 5120, 8192, 16384, 65536, 100_000];

/// A length or an offset that is often near an edge, or near `size`.
pub fn offset(chance: &mut Chance, size: u64) -> u64 {
    let base = match chance.below(4) {
        0 => size,
        1 => chance.below(20_000),
        2 => chance.below(40) * 512,
        _ => chance.pick(&EDGES).unwrap_or(0),
    };
    match chance.below(4) {
        0 => base + chance.below(3),
        1 => base.saturating_sub(chance.below(3)),
        2 => base + chance.below(700),
        _ => base,
    }
}
