//! Sound that is not compressed: what the head of a WAVE file says of its samples.
//!
//! Above: `data`. Invariant: whatever a head says, it decides only what is tried.

use super::category::Category;

/// A head up to its first chunk.
const HEAD_LEN: usize = 12;
/// Chunks that are looked at for the one that says what the samples are.
const CHUNKS_MAX: usize = 8;

/// What a file is that begins with these bytes, if it is sound with samples of 16 bits.
pub(super) fn category(bytes: &[u8]) -> Option<Category> {
    let (head, mut rest) = bytes.split_at_checked(HEAD_LEN)?;
    if !head.starts_with(b"RIFF") || !head.ends_with(b"WAVE") {
        return None;
    }
    for _ in 0..CHUNKS_MAX {
        let (name, behind) = rest.split_at_checked(4)?;
        let (len, behind) = behind.split_first_chunk()?;
        let len = u32::from_le_bytes(*len) as usize;
        if name == b"fmt " {
            let half = |at: usize| Some(u16::from_le_bytes(*behind.get(at..)?.first_chunk()?));
            return match (half(0)?, half(2)?, half(14)?) {
                (1, 1, 16) => Some(Category::Mono),
                (1, 2, 16) => Some(Category::Stereo),
                _ => None,
            };
        }
        // Chunks have an even length.
        rest = behind.get(len.checked_add(len % 2)?..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(format: u16, channels: u16, bits: u16) -> Vec<u8> {
        let mut bytes = b"RIFF\0\0\0\0WAVEJUNK\x03\0\0\0....fmt \x10\0\0\0".to_vec();
        bytes.extend(format.to_le_bytes());
        bytes.extend(channels.to_le_bytes());
        bytes.extend([0; 10]);
        bytes.extend(bits.to_le_bytes());
        bytes.extend(b"data");
        bytes
    }

    #[test]
    fn heads_say_what_the_samples_are() {
        assert_eq!(category(&head(1, 1, 16)), Some(Category::Mono));
        assert_eq!(category(&head(1, 2, 16)), Some(Category::Stereo));
        for other in [head(1, 1, 8), head(1, 6, 16), head(3, 1, 32), b"RIFF".to_vec(), Vec::new()] {
            assert_eq!(category(&other), None);
        }
    }

    #[test]
    fn a_hostile_head_says_nothing() {
        let right = head(1, 2, 16);
        for at in 0..right.len() {
            assert!(category(&right[..at]).is_none() || at >= 48);
            for byte in [0, 0x7f, 0xff] {
                let mut wrong = right.clone();
                wrong[at] = byte;
                let _ = category(&wrong);
            }
        }
    }
}
