//! Short strings of bytes: copied and compared where a call to do it would cost more than the bytes.
//!
//! Above: keys and values of the tree. Invariant: as `copy_from_slice` and `cmp`, in all but speed.

use core::cmp::Ordering;

/// From here on a call is worth its cost.
const LONG: usize = 128;

/// Words of zeros. In WebAssembly one instruction could fill them all, which costs more than one for each.
#[inline]
pub fn zeros<const N: usize>() -> [[u8; 8]; N] {
    // What the compiler knows to be zero it would fill in with that instruction.
    let zero = if cfg!(target_arch = "wasm32") { core::hint::black_box(0) } else { 0_u64 };
    [zero.to_ne_bytes(); N]
}

/// Copies `source` over `target`, which is as long.
#[inline]
pub fn copy(target: &mut [u8], source: &[u8]) {
    // Elsewhere a call costs little, and a guess that is wrong much.
    if cfg!(target_arch = "wasm32") && source.len() < LONG && target.len() == source.len() {
        copy_parts(target, source);
    } else {
        target.copy_from_slice(source);
    }
}

/// Whether two strings of one length are equal. They are short: a call would cost more than the
/// comparison of a few words, the last of which may overlap the one before.
#[inline]
pub fn same(a: &[u8], b: &[u8]) -> bool {
    if let (Some(last_a), Some(last_b)) = (a.last_chunk::<8>(), b.last_chunk::<8>()) {
        let mut words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0);
        return last_a == last_b && words.all(|(a, b)| a == b);
    }
    if let (Some(first_a), Some(first_b)) = (a.first_chunk::<4>(), b.first_chunk::<4>()) {
        return first_a == first_b && a.last_chunk::<4>() == b.last_chunk::<4>();
    }
    a.iter().zip(b).all(|(a, b)| a == b)
}

/// How two strings sort.
#[inline]
pub fn order(a: &[u8], b: &[u8]) -> Ordering {
    if cfg!(target_arch = "wasm32") { order_words(a, b) } else { a.cmp(b) }
}

/// Copies fewer than [`LONG`] bytes to as many: words from the front, and the last one, which may overlap these.
#[inline]
fn copy_parts(target: &mut [u8], source: &[u8]) {
    let len = source.len();
    // No loop, which a compiler would turn into that call.
    macro_rules! word {
        ($at:literal) => {
            if let (Some(target), Some(source)) =
                (target.get_mut($at..$at + 8), source.get($at..$at + 8))
            {
                target.copy_from_slice(source);
            }
        };
    }
    if let Some(last) = source.last_chunk::<8>() {
        word!(0);
        if len > 16 {
            word!(8);
            word!(16);
        }
        if len > 32 {
            word!(24);
            word!(32);
            word!(40);
            word!(48);
        }
        if len > 64 {
            word!(56);
            word!(64);
            word!(72);
            word!(80);
        }
        if len > 96 {
            word!(88);
            word!(96);
            word!(104);
            word!(112);
        }
        if let Some(target) = target.last_chunk_mut() {
            *target = *last;
        }
    } else if let (Some(first), Some(last)) = (source.first_chunk::<4>(), source.last_chunk::<4>())
    {
        target[..4].copy_from_slice(first);
        target[len - 4..].copy_from_slice(last);
    } else if let [first, .., last] = source {
        target[0] = *first;
        target[len / 2] = source[len / 2];
        target[len - 1] = *last;
    } else if let [only] = source {
        target[0] = *only;
    }
}

/// How two different words of bytes sort: as the first bytes do that differ, which takes less to find than to put all
/// of them into their order.
#[inline]
fn order_different(a: u64, b: u64) -> Ordering {
    let shift = (a ^ b).trailing_zeros() & !7;
    ((a >> shift) as u8).cmp(&((b >> shift) as u8))
}

#[inline]
fn order_words(a: &[u8], b: &[u8]) -> Ordering {
    let len = a.len().min(b.len());
    let (head_a, head_b) = (&a[..len], &b[..len]);
    for (a, b) in head_a.as_chunks::<8>().0.iter().zip(head_b.as_chunks::<8>().0) {
        if a != b {
            return order_different(u64::from_le_bytes(*a), u64::from_le_bytes(*b));
        }
    }
    if let (Some(last_a), Some(last_b)) = (head_a.last_chunk::<8>(), head_b.last_chunk::<8>()) {
        // It begins among bytes that are the same.
        if last_a != last_b {
            return order_different(u64::from_le_bytes(*last_a), u64::from_le_bytes(*last_b));
        }
    } else if let (Some(first_a), Some(first_b)) = (head_a.first_chunk(), head_b.first_chunk()) {
        // As one word: the first four bytes, and the last four, which may be some of them.
        let last = |head: &[u8]| head.last_chunk().map_or(0, |last| u32::from_le_bytes(*last));
        let word = |first, last| u64::from(u32::from_le_bytes(first)) | u64::from(last) << 32;
        let (a, b) = (word(*first_a, last(head_a)), word(*first_b, last(head_b)));
        if a != b {
            return order_different(a, b);
        }
    } else if let Some((a, b)) = head_a.iter().zip(head_b).find(|(a, b)| a != b) {
        return a.cmp(b);
    }
    a.len().cmp(&b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn does_as_the_slices_do() {
        let bytes: alloc::vec::Vec<u8> = (1..=200).collect();
        for len in 0..=200 {
            let mut target = alloc::vec![0; len];
            if len < LONG {
                copy_parts(&mut target, &bytes[..len]);
            } else {
                copy(&mut target, &bytes[..len]);
            }
            assert_eq!(target, bytes[..len]);
            for other in 0..=200 {
                let mut different = bytes[..other].to_vec();
                assert_eq!(order_words(&bytes[..len], &different), bytes[..len].cmp(&different));
                if let Some(byte) = different.get_mut(other.saturating_sub(3)) {
                    *byte ^= 0x81;
                }
                assert_eq!(order_words(&bytes[..len], &different), bytes[..len].cmp(&different));
            }
        }
    }
}
