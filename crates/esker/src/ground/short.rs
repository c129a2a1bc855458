//! Short strings of bytes: copied and compared where a call to do it would cost more than the bytes.
//!
//! Above: keys and values of the tree. Invariant: as `copy_from_slice` and `cmp`, in all but speed.

use core::cmp::Ordering;

/// From here on a call is worth its cost.
const LONG: usize = 64;

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

/// How two strings sort.
#[inline]
pub fn order(a: &[u8], b: &[u8]) -> Ordering {
    if cfg!(target_arch = "wasm32") { order_words(a, b) } else { a.cmp(b) }
}

/// Copies fewer than [`LONG`] bytes to as many.
#[inline]
fn copy_parts(target: &mut [u8], source: &[u8]) {
    let len = source.len();
    // Each power of two in the length once: no loop, which a compiler would turn into that call.
    let mut at = 0;
    macro_rules! part {
        ($size:literal) => {
            if len & $size != 0
                && let (Some(target), Some(source)) =
                    (target.get_mut(at..at + $size), source.get(at..at + $size))
            {
                target.copy_from_slice(source);
                at += $size;
            }
        };
    }
    part!(32);
    part!(16);
    part!(8);
    part!(4);
    part!(2);
    if len & 1 != 0 {
        target[at] = source[at];
    }
}

#[inline]
fn order_words(a: &[u8], b: &[u8]) -> Ordering {
    let (words_a, rest_a) = a.as_chunks::<8>();
    let (words_b, rest_b) = b.as_chunks::<8>();
    for (a, b) in words_a.iter().zip(words_b) {
        let (a, b) = (u64::from_be_bytes(*a), u64::from_be_bytes(*b));
        if a != b {
            return a.cmp(&b);
        }
    }
    if words_a.len() != words_b.len() {
        let common = words_a.len().min(words_b.len()) * 8;
        return a[common..].cmp(&b[common..]);
    }
    for (a, b) in rest_a.iter().zip(rest_b) {
        if a != b {
            return a.cmp(b);
        }
    }
    rest_a.len().cmp(&rest_b.len())
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
