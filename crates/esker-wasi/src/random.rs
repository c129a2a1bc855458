//! Chance from a seed: ChaCha with twenty rounds, as RFC 8439 has it. For programs that must run alike wherever they
//! run, as a canister's replicas do; it is as hard to foretell as its seed.

const BLOCK: usize = 64;

/// A stream of bytes that depends on a seed alone.
#[derive(Clone, Debug)]
pub struct Seeded {
    key: [u32; 8],
    counter: u64,
    block: [u8; BLOCK],
    used: usize,
}

impl Seeded {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: [u8; 32]) -> Self {
        let mut key = [0; 8];
        let words = seed.as_chunks().0.iter();
        key.iter_mut().zip(words).for_each(|(word, bytes)| *word = u32::from_le_bytes(*bytes));
        Self { key, counter: 0, block: [0; BLOCK], used: BLOCK }
    }

    /// The next bytes of it.
    pub fn fill(&mut self, target: &mut [u8]) {
        for byte in target {
            if self.used == BLOCK {
                self.block = block(&self.key, self.counter);
                self.counter = self.counter.wrapping_add(1);
                self.used = 0;
            }
            *byte = self.block[self.used];
            self.used += 1;
        }
    }
}

fn block(key: &[u32; 8], counter: u64) -> [u8; BLOCK] {
    let mut start = [0; 16];
    // "expand 32-byte k"
    start[..4].copy_from_slice(&[0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574]);
    start[4..12].copy_from_slice(key);
    start[12] = counter as u32;
    start[13] = (counter >> 32) as u32;
    let mut state = start;
    for _ in 0..10 {
        for column in 0..4 {
            quarter(&mut state, [column, column + 4, column + 8, column + 12]);
        }
        for column in 0..4 {
            let diagonal = |row: usize| 4 * row + (column + row) % 4;
            quarter(&mut state, [column, diagonal(1), diagonal(2), diagonal(3)]);
        }
    }
    let mut bytes = [0; BLOCK];
    for (target, (end, start)) in bytes.as_chunks_mut().0.iter_mut().zip(state.iter().zip(start)) {
        *target = end.wrapping_add(start).to_le_bytes();
    }
    bytes
}

fn quarter(state: &mut [u32; 16], [a, b, c, d]: [usize; 4]) {
    for (one, two, three, turn) in [(a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)] {
        state[one] = state[one].wrapping_add(state[two]);
        state[three] = (state[three] ^ state[one]).rotate_left(turn);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first block for the key of zeros, as published with the cipher.
    #[test]
    fn the_stream_of_zeros_begins_as_it_should() {
        let mut bytes = [0; 16];
        Seeded::new([0; 32]).fill(&mut bytes);
        let known = 0x76b8_e0ad_a0f1_3d90_405d_6ae5_5386_bd28_u128;
        assert_eq!(u128::from_be_bytes(bytes), known);
    }

    #[test]
    fn pieces_make_the_same_stream() {
        let (mut whole, mut pieces) = ([0; 200], [0; 200]);
        Seeded::new([7; 32]).fill(&mut whole);
        let mut stream = Seeded::new([7; 32]);
        pieces.chunks_mut(33).for_each(|piece| stream.fill(piece));
        assert_eq!(whole, pieces);
    }
}
