//! Sound that is not compressed: what the heads of WAVE and AIFF files say of their samples.
//!
//! Above: `data`. Invariant: whatever a head says, it decides only what is tried.

use core::ops::Range;

use esker_stone::Shape;

/// A head up to its first chunk.
const HEAD_LEN: usize = 12;
/// Chunks that are looked at for those that say what the samples are, and where.
const CHUNKS_MAX: usize = 32;
/// Name and length of a chunk.
const CHUNK_HEAD_LEN: usize = 8;
/// WAVE: samples are whole numbers, and what samples are is told further behind.
const WAVE_WHOLE: u16 = 1;
const WAVE_EXTENDED: u16 = 0xfffe;
/// AIFF: what is before the samples in their chunk.
const AIFF_SAMPLES: usize = 8;

/// What is in a file of sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sound {
    /// How samples lie in the bytes.
    pub shape: Shape,
    /// Where in the file they are, as far as anybody says.
    pub bytes: Range<u64>,
}

/// Two kinds of files, and what differs in them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Wave,
    /// Whether it is the one that says how samples are compressed.
    Aiff(bool),
}

impl Kind {
    fn of(head: &[u8]) -> Option<Self> {
        match (&head[..4], &head[8..]) {
            (b"RIFF" | b"RF64", b"WAVE") => Some(Self::Wave),
            (b"FORM", b"AIFF") => Some(Self::Aiff(false)),
            (b"FORM", b"AIFC") => Some(Self::Aiff(true)),
            _ => None,
        }
    }

    fn short(self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self == Self::Wave { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) })
    }

    fn long(self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self == Self::Wave { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) })
    }

    /// What the chunk says that tells how samples lie in the bytes.
    fn shape(self, chunk: &[u8]) -> Option<Shape> {
        let (channels, bits, upper_first) = match self {
            Self::Wave => {
                let format = match self.short(chunk, 0)? {
                    WAVE_EXTENDED => self.short(chunk, 24)?,
                    format => format,
                };
                if format != WAVE_WHOLE {
                    return None;
                }
                (self.short(chunk, 2)?, self.short(chunk, 14)?, false)
            }
            Self::Aiff(compressed) => {
                let lower_first = match chunk.get(18..22) {
                    Some(b"sowt") if compressed => true,
                    Some(b"NONE" | b"twos" | b"in24" | b"in32") | None => false,
                    Some(_) if !compressed => false,
                    Some(_) => return None,
                };
                (self.short(chunk, 0)?, self.short(chunk, 6)?, !lower_first)
            }
        };
        // Fewer bits than whole bytes are the upper ones.
        let width = u8::try_from(bits.div_ceil(8)).ok()?;
        Shape::new(width, u8::try_from(channels).ok()?, upper_first)
    }
}

/// What is in a file that begins with these bytes, if it is sound whose samples are whole numbers.
pub(super) fn found(bytes: &[u8]) -> Option<Sound> {
    let (head, _) = bytes.split_at_checked(HEAD_LEN)?;
    let kind = Kind::of(head)?;
    let (mut at, mut shape) = (HEAD_LEN, None);
    for _ in 0..CHUNKS_MAX {
        let name = bytes.get(at..at.checked_add(4)?)?;
        let len = kind.long(bytes, at + 4)? as usize;
        let chunk = bytes.get(at + CHUNK_HEAD_LEN..)?;
        let mut start = at + CHUNK_HEAD_LEN;
        match name {
            b"fmt " | b"COMM" => shape = Some(kind.shape(chunk.get(..len).unwrap_or(chunk))?),
            b"data" | b"SSND" => {
                if let Kind::Aiff(_) = kind {
                    start = start.checked_add(AIFF_SAMPLES + kind.long(chunk, 0)? as usize)?;
                }
                // Who wrote it as it came by did not know how long it would be.
                let known = len != 0 && len != u32::MAX as usize;
                let end =
                    if known { (at + CHUNK_HEAD_LEN).saturating_add(len) } else { usize::MAX };
                return Some(Sound { shape: shape?, bytes: start as u64..end.max(start) as u64 });
            }
            _ => {}
        }
        // Chunks have an even length.
        at = start.checked_add(len.checked_add(len % 2)?)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(format: u16, channels: u16, bits: u16) -> Vec<u8> {
        let mut bytes = b"RIFF\0\0\0\0WAVEJUNK\x03\0\0\0....fmt \x10\0\0\0".to_vec();
        bytes.extend(format.to_le_bytes());
        bytes.extend(channels.to_le_bytes());
        bytes.extend([0; 10]);
        bytes.extend(bits.to_le_bytes());
        bytes.extend(b"data\x64\0\0\0");
        bytes
    }

    fn aiff(kind: &[u8; 4], channels: u16, bits: u16, more: &[u8]) -> Vec<u8> {
        let mut bytes = b"FORM\0\0\0\0".to_vec();
        bytes.extend(kind);
        bytes.extend(b"COMM\0\0\0");
        bytes.push(18 + more.len() as u8);
        bytes.extend(channels.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(bits.to_be_bytes());
        bytes.extend([0; 10]);
        bytes.extend(more);
        bytes.extend(b"SSND\0\0\x10\0\0\0\0\x02\0\0\0\0");
        bytes
    }

    fn shape(width: u8, channels: u8, upper_first: bool) -> Option<Shape> {
        Shape::new(width, channels, upper_first)
    }

    #[test]
    fn heads_say_what_the_samples_are_and_where() {
        for (bytes, right, from) in [
            (wave(1, 1, 8), shape(1, 1, false), 56),
            (wave(1, 2, 16), shape(2, 2, false), 56),
            (wave(1, 6, 24), shape(3, 6, false), 56),
            (wave(1, 2, 20), shape(3, 2, false), 56),
            (aiff(b"AIFF", 2, 16, b""), shape(2, 2, true), 56),
            (aiff(b"AIFC", 1, 32, b"NONE\0\0"), shape(4, 1, true), 62),
            (aiff(b"AIFC", 2, 16, b"sowt\0\0"), shape(2, 2, false), 62),
        ] {
            let found = found(&bytes).unwrap();
            assert_eq!((Some(found.shape), found.bytes.start), (right, from));
            let len = if bytes.starts_with(b"RIFF") { 100 } else { 4096 - 10 };
            assert_eq!(found.bytes.end - found.bytes.start, len);
        }
        let mut endless = wave(1, 2, 16);
        endless[52..].fill(0xff);
        assert!(found(&endless).unwrap().bytes.end > 1 << 40);
        for other in [
            wave(3, 1, 32),
            wave(1, 9, 16),
            wave(1, 0, 16),
            wave(1, 2, 0),
            wave(1, 2, 64),
            aiff(b"AIFC", 2, 16, b"ima4\0\0"),
            b"RIFF".to_vec(),
            Vec::new(),
        ] {
            assert_eq!(found(&other), None);
        }
    }

    #[test]
    fn a_hostile_head_says_nothing() {
        for right in [wave(1, 2, 16), aiff(b"AIFC", 2, 16, b"sowt\0\0")] {
            for at in 0..right.len() {
                let cut = found(&right[..at]);
                assert!(cut.is_none() || at + 4 >= right.len(), "{at}");
                for byte in [0, 0x7f, 0xff] {
                    let mut wrong = right.clone();
                    wrong[at] = byte;
                    if let Some(sound) = found(&wrong) {
                        assert!(sound.bytes.start <= sound.bytes.end);
                    }
                }
            }
        }
    }
}
