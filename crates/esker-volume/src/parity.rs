//! Parity: what a part of tables can be made from again when much of it, or of this, is damaged.
//!
//! Above: `settle` writes it behind such a part where a volume has two copies, `recover` and `scrub` use it. Below:
//! `part`. Invariant: what was made again has the checksums that every piece of parity repeats, or it is not given.
//!
//! The part is cut into shards, up to [`GROUP`] of them are a group, and a group has [`pieces`] of parity, one shard
//! each. Any of all these, as many as the group has shards, are enough: a Cauchy Reed-Solomon code over the field of
//! 256 elements of the polynomial 0x11d.

use std::collections::BTreeMap;

use crate::device::Buffer;
use crate::limits::UNIT_MAX;
use crate::part::{PARITY, PartHead};

/// Shards of a group.
pub(crate) const GROUP: usize = 32;
/// Bytes of a piece of parity: its head, the checksums of the group, the shard.
pub(crate) const PIECE: usize = UNIT_MAX as usize;
/// Where the shard begins in it.
const SHARD_AT: usize = PartHead::SIZE + GROUP * 8;
/// Bytes of a shard.
const SHARD: usize = PIECE - SHARD_AT;
/// Longest part that has parity.
pub(crate) const PART_MAX: usize = 16 << 20;
/// The first unit by which checksums of shards are named: those before are the head and the body.
const UNIT_FROM: u64 = 2;

/// Powers of 2 in the field, twice in a row, and their inverse.
const TABLES: ([u8; 510], [u8; 256]) = {
    let (mut power, mut log) = ([0; 510], [0; 256]);
    let (mut value, mut at) = (1u16, 0);
    while at < 255 {
        power[at] = value as u8;
        power[at + 255] = value as u8;
        log[value as usize] = at as u8;
        value <<= 1;
        if value & 0x100 != 0 {
            value ^= 0x11d;
        }
        at += 1;
    }
    (power, log)
};

fn times(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    let log = |one: u8| usize::from(TABLES.1[usize::from(one)]);
    TABLES.0[log(a) + log(b)]
}

/// One divided by this, which is not 0.
fn inverse(a: u8) -> u8 {
    TABLES.0[255 - usize::from(TABLES.1[usize::from(a)])]
}

/// What a shard of the group adds to a shard of parity.
fn coefficient(parity: usize, shard: usize) -> u8 {
    inverse(((GROUP + parity) ^ shard) as u8)
}

/// Adds so many times `source` to `target`.
fn add(target: &mut [u8], by: u8, source: &[u8]) {
    if by == 0 {
        return;
    }
    let row: [u8; 256] = std::array::from_fn(|value| times(by, value as u8));
    for (to, from) in target.iter_mut().zip(source) {
        *to ^= row[usize::from(*from)];
    }
}

/// How many shards of parity a group of so many has: a block of the device that is lost takes two shards of the part
/// with it, so there are more than shards.
const fn pieces(shards: usize) -> usize {
    shards + shards / 4 + 4
}

/// Bytes of the parity of a part of so many bytes.
pub(crate) fn parity_len(part: u64) -> u64 {
    let shards = part.div_ceil(SHARD as u64);
    let (groups, rest) = (shards / GROUP as u64, (shards % GROUP as u64) as usize);
    let rest = if rest > 0 { pieces(rest) } else { 0 };
    (groups * pieces(GROUP) as u64 + rest as u64) * PIECE as u64
}

/// The shards of a part, the last filled up with zeros.
fn shards(part: &[u8]) -> Vec<Vec<u8>> {
    let whole = |bytes: &[u8]| {
        let mut shard = bytes.to_vec();
        shard.resize(SHARD, 0);
        shard
    };
    part.chunks(SHARD).map(whole).collect()
}

fn checksum(head: &PartHead, of: u64, shard: usize, bytes: &[u8]) -> u64 {
    let covered = esker_stone::check::Covered { segment: head.segment, number: of };
    covered.checksum(UNIT_FROM + shard as u64, bytes)
}

/// The parity of a part with this head, to be written right behind it.
pub(crate) fn parity(head: &PartHead, part: &[u8]) -> Buffer {
    let all = shards(part);
    let mut target = Buffer::with_capacity(parity_len(part.len() as u64) as usize);
    for (group, own) in all.chunks(GROUP).enumerate() {
        let first = group * GROUP;
        let sums = (first..).zip(own).map(|(at, shard)| checksum(head, head.at, at, shard));
        let sums: Vec<u8> = sums.flat_map(u64::to_le_bytes).collect();
        for number in 0..pieces(own.len()) {
            let mut piece = vec![0; PIECE];
            piece[PartHead::SIZE..][..sums.len()].copy_from_slice(&sums);
            for (at, shard) in own.iter().enumerate() {
                add(&mut piece[SHARD_AT..], coefficient(number, at), shard);
            }
            let mut own_head = PartHead {
                at: head.at + (part.len() + target.len()) as u64,
                kind: PARITY,
                before: head.at,
                next: part.len() as u32,
                spare: 0,
                part: number as u32,
                first_slot: first as u32,
                slots: own.len() as u32,
                rows_at: 0,
                rows_stored: 0,
                rows_plain: 0,
                rows_codec: 0,
                rows_checksum: 0,
                rows_hash: [0; 32],
                ..*head
            };
            own_head.seal(&mut piece);
            target.extend_from_slice(&piece);
        }
    }
    target
}

/// What is left of the parity of a part.
#[derive(Clone, Debug, Default)]
pub(crate) struct Left {
    /// Pieces by the first shard of their group: how many it has, its checksums, shards of parity by number.
    groups: BTreeMap<usize, Pieces>,
}

#[derive(Clone, Debug, Default)]
struct Pieces {
    shards: usize,
    sums: Vec<u64>,
    parity: Vec<(usize, Vec<u8>)>,
}

impl Left {
    /// Adds a piece, if it is whole and makes sense.
    pub fn take(&mut self, head: &PartHead, piece: &[u8]) {
        let (first, shards) = (head.first_slot as usize, head.slots as usize);
        let sound = head.kind == PARITY
            && head.holds(piece)
            && piece.len() == PIECE
            && (1..=GROUP).contains(&shards)
            && first.is_multiple_of(GROUP)
            && len_of(head).is_some_and(|len| first + shards <= len.div_ceil(SHARD))
            && (head.part as usize) < pieces(shards);
        if !sound {
            return;
        }
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let sums: Vec<_> =
            piece[PartHead::SIZE..].chunks_exact(8).take(shards).map(number).collect();
        let group = self.groups.entry(first).or_default();
        let new = group.sums.is_empty();
        if new {
            (group.shards, group.sums) = (shards, sums);
        } else if group.sums != sums {
            return;
        }
        let number = head.part as usize;
        if group.parity.iter().all(|(known, _)| *known != number) {
            group.parity.push((number, piece[SHARD_AT..].to_vec()));
        }
    }

    /// The part again, from what is left of it; `head` is that of any piece. `None`: too much is lost.
    pub fn restore(&self, head: &PartHead, damaged: &[u8]) -> Option<Vec<u8>> {
        let left = shards(damaged);
        let mut part = Vec::with_capacity(left.len() * SHARD);
        let mut next = 0;
        for (&first, own) in &self.groups {
            if first != next {
                return None;
            }
            next = first + own.shards;
            let mut known = Vec::with_capacity(own.shards);
            for (at, (shard, sum)) in left.get(first..next)?.iter().zip(&own.sums).enumerate() {
                let right = checksum(head, head.before, first + at, shard) == *sum;
                known.push(right.then(|| shard.clone()));
            }
            own.fill(&mut known)?;
            for (at, (shard, sum)) in known.into_iter().zip(&own.sums).enumerate() {
                let shard = shard?;
                if checksum(head, head.before, first + at, &shard) != *sum {
                    return None;
                }
                part.extend(shard);
            }
        }
        part.truncate(damaged.len());
        (next == left.len()).then_some(part)
    }
}

/// Bytes of the part that a piece of parity is of, if it says so.
pub(crate) fn len_of(head: &PartHead) -> Option<usize> {
    (head.kind == PARITY).then_some(head.next as usize).filter(|&len| len <= PART_MAX)
}

impl Pieces {
    /// Makes the missing shards again.
    fn fill(&self, known: &mut [Option<Vec<u8>>]) -> Option<()> {
        let missing: Vec<_> = (0..known.len()).filter(|&at| known[at].is_none()).collect();
        let count = missing.len();
        // Each row: how often the missing shards are in a sum, and the sum.
        let mut rows: Vec<(Vec<u8>, Vec<u8>)> = Vec::with_capacity(count);
        for (number, parity) in self.parity.iter().take(count) {
            let mut sum = parity.clone();
            for (at, shard) in known.iter().enumerate() {
                if let Some(shard) = shard {
                    add(&mut sum, coefficient(*number, at), shard);
                }
            }
            rows.push((missing.iter().map(|&at| coefficient(*number, at)).collect(), sum));
        }
        if rows.len() < count {
            return None;
        }
        for column in 0..count {
            let pivot = (column..count).find(|&row| rows[row].0[column] != 0)?;
            rows.swap(column, pivot);
            let by = inverse(rows[column].0[column]);
            let scaled = |bytes: &[u8]| bytes.iter().map(|&byte| times(by, byte)).collect();
            let own: (Vec<u8>, Vec<u8>) = (scaled(&rows[column].0), scaled(&rows[column].1));
            for (_, row) in rows.iter_mut().enumerate().filter(|(at, _)| *at != column) {
                let by = row.0[column];
                add(&mut row.0, by, &own.0);
                add(&mut row.1, by, &own.1);
            }
            rows[column] = own;
        }
        for (&at, (_, sum)) in missing.iter().zip(rows) {
            known[at] = Some(sum);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::part::{MAGIC, TABLES};

    fn head() -> PartHead {
        let bytes = [0; PartHead::SIZE];
        let head = PartHead::decode(&bytes).expect("a head");
        PartHead { magic: MAGIC, segment: 7, at: 4096, kind: TABLES, ..head }
    }

    /// Whatever half of a part and its parity is lost, the part comes back; with more it is not given.
    #[test]
    fn half_of_it_is_enough() {
        let mut seed = 5u64;
        let mut chance = |end: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
            (seed >> 33) as usize % end
        };
        for len in [512, 4096, 8192, GROUP * SHARD, 200 << 10] {
            let mut part: Vec<u8> = (0..len).map(|at| (at * 7 % 251) as u8).collect();
            let mut head = head();
            head.seal(&mut part);
            let all = parity(&head, &part);
            assert_eq!(all.len() as u64, parity_len(len as u64));
            for round in 0..20 {
                let (mut left, mut any) = (Left::default(), None);
                let mut lost: BTreeMap<u32, usize> = BTreeMap::new();
                for piece in all.chunks(PIECE) {
                    let own = PartHead::parse(piece, &[0; 16]).expect("a head");
                    let gone = lost.entry(own.first_slot).or_default();
                    // Of each group as many pieces are kept as shards will be missing.
                    if chance(3) == 0 && *gone + 1 < pieces(own.slots as usize) {
                        *gone += 1;
                    } else {
                        left.take(&own, piece);
                        any = Some(own);
                    }
                }
                let mut damaged = part.clone();
                for (first, gone) in lost {
                    let own = (len.div_ceil(SHARD) - first as usize).min(GROUP);
                    let spare = pieces(own) - gone;
                    for shard in 0..own.min(spare).min(1 + round % own) {
                        damaged[(first as usize + shard) * SHARD] ^= 1;
                    }
                }
                let again = left.restore(&any.expect("a piece"), &damaged).expect("it is enough");
                assert_eq!(again, part, "{len} bytes, round {round}");
            }
            let mut few = Left::default();
            let own = PartHead::parse(&all, &[0; 16]).expect("a head");
            few.take(&own, &all[..PIECE]);
            let damaged = vec![0; len];
            assert_eq!(few.restore(&own, &damaged).is_some(), len <= SHARD);
        }
    }

    /// A piece that is damaged, or of something else, is not believed.
    #[test]
    fn damaged_pieces_are_left_out() {
        let mut part = vec![3; 8192];
        let mut head = head();
        head.seal(&mut part);
        let all = parity(&head, &part);
        let own = PartHead::parse(&all, &[0; 16]).expect("a head");
        let mut left = Left::default();
        for at in [PartHead::SIZE, SHARD_AT, PIECE - 1] {
            let mut bad = all[..PIECE].to_vec();
            bad[at] ^= 1;
            left.take(&own, &bad);
            assert!(left.groups.is_empty(), "byte {at}");
        }
        left.take(&PartHead { slots: 33, ..own }, &all[..PIECE]);
        assert!(left.groups.is_empty());
    }
}
