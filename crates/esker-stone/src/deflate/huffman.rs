//! Huffman codes of deflate (RFC 1951): read, written, and made as zlib and gzip make them.
//!
//! Above: `blocks`, `run`. Below: `bits`. Invariant: a code that is read is complete, or has one or no member; making
//! one takes any frequencies, and neither depends on anything else.

use super::bits::{Reader, Writer};

/// Longest code of a literal, a length or a distance.
const CODE_LEN_MAX: u8 = 15;
/// Longest code of a code's length.
const META_LEN_MAX: u8 = 7;
/// Literals, the end of a block, lengths.
pub(super) const LITERALS: usize = 286;
/// Distances.
pub(super) const DISTANCES: usize = 30;
/// Ends a block.
pub(super) const END: usize = 256;
/// Kinds of lengths of codes.
const METAS: usize = 19;
/// The order in which their lengths are told.
const META_ORDER: [usize; METAS] =
    [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
/// Bits that follow those which repeat, and the fewest that they repeat.
const REPEATS: [(u32, usize); 3] = [(2, 3), (3, 3), (7, 11)];

/// Lengths of the codes of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trees {
    pub literals: Vec<u8>,
    pub distances: Vec<u8>,
}

impl Trees {
    /// Those that are always the same.
    pub fn fixed() -> Self {
        let len = |at: usize| match at {
            0..144 => 8,
            144..256 => 9,
            256..280 => 7,
            _ => 8,
        };
        Self { literals: (0..288).map(len).collect(), distances: vec![5; 32] }
    }

    /// Those of these frequencies.
    pub fn made(literals: &mut [u32; LITERALS], distances: &mut [u32; DISTANCES]) -> Self {
        Self {
            literals: lengths(literals, CODE_LEN_MAX),
            distances: lengths(distances, CODE_LEN_MAX),
        }
    }

    /// Reads how a block describes its codes.
    pub fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let literals = reader.take(5)? as usize + 257;
        let distances = reader.take(5)? as usize + 1;
        let count = reader.take(4)? as usize + 4;
        if literals > LITERALS || distances > DISTANCES {
            return None;
        }
        let mut metas = [0; METAS];
        for &at in &META_ORDER[..count] {
            metas[at] = reader.take(3)? as u8;
        }
        let decoder = Decoder::new(&metas)?;
        let mut all: Vec<u8> = Vec::with_capacity(literals + distances);
        while all.len() < literals + distances {
            let symbol = decoder.next(reader)?;
            let Some((bits, least)) = symbol.checked_sub(16).and_then(|at| REPEATS.get(at)) else {
                all.push(symbol as u8);
                continue;
            };
            let again = if symbol == 16 { *all.last()? } else { 0 };
            let count = least + reader.take(*bits)? as usize;
            all.resize(all.len() + count, again);
        }
        if all.len() > literals + distances || all[END] == 0 {
            return None;
        }
        let distances = all.split_off(literals);
        Some(Self { literals: all, distances })
    }

    /// Describes them as zlib does.
    pub fn write(&self, writer: &mut Writer) {
        let runs = [runs(&self.literals), runs(&self.distances)];
        let mut counts = [0; METAS];
        runs.iter().flatten().for_each(|&(symbol, _)| counts[symbol] += 1);
        let metas = lengths(&mut counts, META_LEN_MAX);
        let len = |at: usize| metas.get(at).copied().unwrap_or(0);
        let count = (4..=METAS).rev().find(|&count| len(META_ORDER[count - 1]) > 0).unwrap_or(4);
        writer.put(self.literals.len().saturating_sub(257) as u32, 5);
        writer.put(self.distances.len().saturating_sub(1) as u32, 5);
        writer.put(count as u32 - 4, 4);
        META_ORDER[..count].iter().for_each(|&at| writer.put(len(at).into(), 3));
        let codes = codes(&metas);
        for (symbol, extra) in runs.into_iter().flatten() {
            let (code, bits) = codes[symbol];
            writer.put(code.into(), bits);
            if let Some((bits, _)) = symbol.checked_sub(16).and_then(|at| REPEATS.get(at)) {
                writer.put(extra, *bits);
            }
        }
    }
}

/// Lengths with repeats, each with what is told of it.
fn runs(lens: &[u8]) -> Vec<(usize, u32)> {
    let (mut runs, mut before, mut from) = (Vec::new(), None, 0);
    while from < lens.len() {
        let len = lens[from];
        // What was there before as well may repeat at once.
        let (most, least) = match (len, before == Some(len)) {
            (0, _) => (138, 3),
            (_, true) => (6, 3),
            _ => (7, 4),
        };
        let count = lens[from..].iter().take(most).take_while(|&&other| other == len).count();
        if count < least {
            runs.extend((0..count).map(|_| (usize::from(len), 0)));
        } else if len > 0 {
            let own = usize::from(before != Some(len));
            runs.extend((0..own).map(|_| (usize::from(len), 0)));
            runs.push((16, (count - own - 3) as u32));
        } else if count <= 10 {
            runs.push((17, (count - 3) as u32));
        } else {
            runs.push((18, (count - 11) as u32));
        }
        before = Some(len);
        from += count;
    }
    runs
}

/// A node of a tree that grows.
#[derive(Clone, Copy)]
struct Node {
    /// How frequent it is, and below that, in 32 bits, how deep: of two that are as frequent the flatter one comes
    /// first.
    weight: u64,
    number: u32,
}

impl Node {
    const fn new(count: u32, depth: u32, number: usize) -> Self {
        Self { weight: (count as u64) << 32 | depth as u64, number: number as u32 }
    }

    /// The one above two others.
    fn above(self, other: Self, number: usize) -> Self {
        let (count, depth) = (|own: Self| (own.weight >> 32) as u32, |own: Self| own.weight as u32);
        let counts = count(self).saturating_add(count(other));
        Self::new(counts, depth(self).max(depth(other)) + 1, number)
    }
}

/// Puts a node of a heap where it belongs. Nodes lie from 1 on; the first is the rarest.
fn sink(heap: &mut [Node], mut at: usize) {
    let own = heap[at];
    while let Some(&first) = heap.get(at * 2) {
        let (mut child, mut next) = (at * 2, first);
        if let Some(&second) = heap.get(child + 1).filter(|second| second.weight <= next.weight) {
            (child, next) = (child + 1, second);
        }
        if own.weight <= next.weight {
            break;
        }
        heap[at] = next;
        at = child;
    }
    heap[at] = own;
}

/// Lengths of codes for these frequencies, up to the last that has any; at least two get some. zlib, gzip and others
/// make the same ones: which of two as frequent ones is longer follows from the order in which a heap gives them out.
fn lengths(counts: &mut [u32], most: u8) -> Vec<u8> {
    let leaves = counts.len();
    let node = |at: usize, counts: &[u32]| Node::new(counts[at], 0, at);
    // Before the first one lies nothing.
    let mut heap = vec![Node::new(0, 0, 0)];
    heap.extend((0..leaves).filter(|&at| counts[at] > 0).map(|at| node(at, counts)));
    let mut last = counts.iter().rposition(|&count| count > 0);
    while heap.len() < 3 {
        let more = match last {
            Some(at) if at >= 2 => 0,
            at => {
                last = Some(at.map_or(0, |at| at + 1));
                last.unwrap_or(0)
            }
        };
        counts[more] = 1;
        heap.push(node(more, counts));
    }
    (1..=(heap.len() - 1) / 2).rev().for_each(|at| sink(&mut heap, at));
    let (mut parents, mut order) = (vec![0; leaves], Vec::with_capacity(2 * heap.len()));
    while heap.len() > 2 {
        let one = heap.swap_remove(1);
        sink(&mut heap, 1);
        let (other, own) = (heap[1], parents.len());
        order.extend([one.number as usize, other.number as usize]);
        parents.push(0);
        (parents[one.number as usize], parents[other.number as usize]) = (own, own);
        heap[1] = one.above(other, own);
        sink(&mut heap, 1);
    }
    order.reverse();
    let mut lens = cut(&order, &parents, leaves, most);
    lens.truncate(last.map_or(0, |at| at + 1));
    lens
}

/// The depths of leaves in a tree, none deeper than may be. `order` has all nodes but the root, the most frequent
/// first.
fn cut(order: &[usize], parents: &[usize], leaves: usize, most: u8) -> Vec<u8> {
    let mut lens = vec![0; parents.len()];
    let (mut counts, mut over) = ([0usize; 17], 0);
    for &node in order {
        let len = lens[parents[node]] + 1;
        over += usize::from(len > most);
        lens[node] = len.min(most);
        if node < leaves {
            counts[usize::from(len.min(most))] += 1;
        }
    }
    if over > 0 {
        let most = usize::from(most);
        // Two that are too deep go below one that is not, again and again.
        while over > 0 {
            let Some(at) = (1..most).rev().find(|&at| counts[at] > 0) else { break };
            counts[at] -= 1;
            counts[at + 1] += 2;
            counts[most] = counts[most].saturating_sub(1);
            over = over.saturating_sub(2);
        }
        let mut rarest = order.iter().rev().filter(|&&node| node < leaves);
        for len in (1..=most).rev() {
            for _ in 0..counts[len] {
                if let Some(&leaf) = rarest.next() {
                    lens[leaf] = len as u8;
                }
            }
        }
    }
    lens.truncate(leaves);
    lens
}

/// Codes of these lengths as they are written, each with its length; nothing where there is none.
pub(super) fn codes(lens: &[u8]) -> Vec<(u16, u32)> {
    let mut next = first_codes(lens);
    let own = |&len: &u8| {
        let (slot, bits) = (&mut next[usize::from(len)], u32::from(len));
        let code = *slot;
        *slot = code.wrapping_add(1);
        if len == 0 { (0, 0) } else { (code.reverse_bits() >> (16 - bits), bits) }
    };
    lens.iter().map(own).collect()
}

/// The first code of each length.
fn first_codes(lens: &[u8]) -> [u16; 17] {
    let (mut next, mut counts) = ([0u16; 17], [0u16; 17]);
    lens.iter().filter(|&&len| len > 0).for_each(|&len| counts[usize::from(len)] += 1);
    for len in 1..16 {
        next[len + 1] = next[len].wrapping_add(counts[len]).wrapping_shl(1);
    }
    next[0] = 0;
    next
}

/// Finds symbols by their codes.
pub(super) struct Decoder {
    /// By the next bits: symbol and length of its code; no length: there is no such code.
    table: Vec<(u16, u8)>,
}

impl Decoder {
    /// `None` for lengths that no code has.
    pub fn new(lens: &[u8]) -> Option<Self> {
        let longest = u32::from(lens.iter().copied().max()?);
        let room: u32 = lens.iter().filter(|&&len| len > 0).map(|&len| 1 << (15 - len)).sum();
        let single = lens.iter().filter(|&&len| len > 0).count() <= 1;
        if room > 1 << 15 || (room < 1 << 15 && !single) {
            return None;
        }
        let mut table = vec![(0, 0); 1 << longest];
        for (symbol, (code, bits)) in codes(lens).into_iter().enumerate() {
            if bits > 0 {
                let (from, step) = (usize::from(code), 1 << bits);
                table
                    .iter_mut()
                    .skip(from)
                    .step_by(step)
                    .for_each(|own| *own = (symbol as u16, bits as u8));
            }
        }
        Some(Self { table })
    }

    pub fn next(&self, reader: &mut Reader<'_>) -> Option<usize> {
        let (symbol, bits) = self.table[reader.peek() as usize & (self.table.len() - 1)];
        if bits == 0 {
            return None;
        }
        reader.skip(bits.into())?;
        Some(symbol.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frequencies of many shapes, from a seed.
    fn counts<const N: usize>(seed: u32) -> [u32; N] {
        let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state >> 8
        };
        core::array::from_fn(|at| match seed % 4 {
            0 => next() % 3,
            // Each as frequent as all before: as deep as can be.
            1 => 1 << (at % 24),
            2 => next() % 30_000 / (at as u32 + 1),
            _ => u32::from(at as u32 == seed / 4),
        })
    }

    #[test]
    fn codes_are_whole_and_not_too_long() {
        for seed in 0..200 {
            let mut all = counts::<LITERALS>(seed);
            for most in [CODE_LEN_MAX, META_LEN_MAX + 2] {
                let lens = lengths(&mut all, most);
                assert!(lens.iter().all(|&len| len <= most));
                assert!(lens.iter().zip(&all).all(|(&len, &count)| (len > 0) == (count > 0)));
                let room: u32 =
                    lens.iter().filter(|&&len| len > 0).map(|&len| 1 << (15 - len)).sum();
                assert_eq!(room, 1 << 15, "{seed}");
            }
        }
    }

    #[test]
    fn what_is_described_is_read_again() {
        for seed in 0..200 {
            let mut literals = counts::<LITERALS>(seed);
            literals[END] = 1;
            let trees = Trees::made(&mut literals, &mut counts::<DISTANCES>(seed + 2));
            let mut writer = Writer::default();
            trees.write(&mut writer);
            writer.put(0x5a5a, 16);
            let bytes = writer.finish();
            let mut reader = Reader::new(&bytes, 0);
            // What has no code at the end of either may be told or not; here it is not.
            assert_eq!(Trees::read(&mut reader), Some(trees));
            assert_eq!(reader.take(8), Some(0x5a));
        }
    }

    #[test]
    fn codes_that_cannot_be_are_refused() {
        assert!(Decoder::new(&[1, 1, 1]).is_none(), "too many");
        assert!(Decoder::new(&[2, 2, 2]).is_none(), "too few");
        assert!(Decoder::new(&[0, 1]).is_some(), "a single one");
        assert!(Decoder::new(&[0, 0]).is_some(), "none");
        assert!(Decoder::new(&[]).is_none());
        let hostile: Vec<u8> = (0..4000u32).map(|at| ((at * at) >> 5) as u8).collect();
        for at in 0..20_000 {
            let _ = Trees::read(&mut Reader::new(&hostile, at));
        }
    }
}
