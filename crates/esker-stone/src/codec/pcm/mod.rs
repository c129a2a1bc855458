//! Sound whose samples are whole numbers: what a linear prediction of each is wrong by, in Rice codes.
//!
//! Above: `codec`. Below: `frame`, `predict`, `bits`. Invariant: any bytes come out as they went in, sound or not; what
//! is made of stored bytes follows from whole numbers alone, and takes the same time whatever they say.

mod bits;
mod frame;
mod predict;

use std::io::Read;

use super::{Coding, undecodable};
use crate::error::{Damage, Result};
use bits::{Reader, Writer};
use frame::{Channels, FRAME_LEN};

/// Most channels.
const CHANNELS_MAX: u8 = 8;

/// How samples lie in the bytes: those of one moment, one of each channel, side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    width: u8,
    channels: u8,
    upper_first: bool,
}

impl Shape {
    /// Samples of 1 to 4 bytes in 1 to 8 channels, the upper byte first or the lower one. Those of one byte have 128
    /// in the middle where the lower byte would come first, else 0.
    #[must_use]
    pub fn new(width: u8, channels: u8, upper_first: bool) -> Option<Self> {
        let known = (1..=4).contains(&width) && (1..=CHANNELS_MAX).contains(&channels);
        known.then_some(Self { width, channels, upper_first })
    }

    /// The number at rest, which is the codec's level.
    #[must_use]
    pub const fn number(self) -> u8 {
        (self.width - 1) | (self.upper_first as u8) << 2 | (self.channels - 1) << 3
    }

    /// Of the number at rest.
    #[must_use]
    pub const fn numbered(number: u8) -> Option<Self> {
        if number >> 6 != 0 {
            return None;
        }
        let (width, channels) = ((number & 3) + 1, (number >> 3) + 1);
        Some(Self { width, channels, upper_first: number >> 2 & 1 == 1 })
    }

    /// How many channels.
    #[must_use]
    pub const fn channels(self) -> u8 {
        self.channels
    }

    /// Bytes of one moment.
    #[must_use]
    pub const fn moment_len(self) -> usize {
        self.width as usize * self.channels as usize
    }

    /// Bits of a sample.
    const fn bits(self) -> u32 {
        self.width as u32 * 8
    }

    /// The sample that these bytes are.
    fn sample(self, bytes: &[u8]) -> i64 {
        // As most sound is.
        if let (&[lower, upper], false) = (bytes, self.upper_first) {
            return i16::from_le_bytes([lower, upper]).into();
        }
        let join = |word: i64, &byte: &u8| word << 8 | i64::from(byte);
        let word = match self.upper_first {
            true => bytes.iter().fold(0, join),
            false => bytes.iter().rev().fold(0, join),
        };
        signed(word ^ self.middle(), self.bits())
    }

    /// The bytes of a sample.
    fn put(self, sample: i64, bytes: &mut [u8]) {
        if let ([lower, upper], false) = (&mut *bytes, self.upper_first) {
            [*lower, *upper] = (sample as i16).to_le_bytes();
            return;
        }
        let word = (sample ^ self.middle()).to_le_bytes();
        let own = &word[..bytes.len()];
        match self.upper_first {
            true => bytes.iter_mut().rev().zip(own).for_each(|(to, from)| *to = *from),
            false => bytes.copy_from_slice(own),
        }
    }

    const fn middle(self) -> i64 {
        if self.width == 1 && !self.upper_first { 128 } else { 0 }
    }
}

/// The number that the lowest bits are, the highest of which is its sign.
const fn signed(word: i64, bits: u32) -> i64 {
    word << (64 - bits) >> (64 - bits)
}

/// The codec. Its level is the number of a shape.
pub(super) struct Pcm;

/// Makes plain bytes of stored ones, frame by frame.
fn decode(stored: &mut dyn Read, whole: usize, plain: &mut [u8]) -> Result<bool> {
    let mut head = [0];
    stored.read_exact(&mut head).map_err(|error| undecodable(&error))?;
    let shape = Shape::numbered(head[0]).ok_or(Damage::Undecodable)?;
    let mut reader = Reader::new(stored);
    let mut channels = Channels::new(shape);
    let (moments, len) = (whole / shape.moment_len(), shape.moment_len());
    let mut made = vec![0; FRAME_LEN * len];
    for from in (0..moments).step_by(FRAME_LEN) {
        let Some(rest) = plain.get_mut(from * len..).filter(|rest| !rest.is_empty()) else {
            return Ok(true);
        };
        let made = &mut made[..FRAME_LEN.min(moments - from) * len];
        channels.read(&mut reader, made)?;
        let now = rest.len().min(made.len());
        rest[..now].copy_from_slice(&made[..now]);
    }
    // What is no whole moment.
    for byte in plain.iter_mut().skip(moments * len) {
        *byte = reader.take(8)? as u8;
    }
    reader.is_at_end()
}

impl Coding for Pcm {
    fn encode(&self, level: i32, plain: &[u8], _: &[u8], stored: &mut Vec<u8>) -> Result<()> {
        let number = u8::try_from(level).unwrap_or(u8::MAX);
        let shape = Shape::numbered(number).ok_or(Damage::Undecodable)?;
        stored.push(number);
        let mut writer = Writer::new(stored);
        let mut channels = Channels::new(shape);
        let (own, rest) = plain.split_at(plain.len() - plain.len() % shape.moment_len());
        for bytes in own.chunks(FRAME_LEN * shape.moment_len()) {
            channels.write(bytes, &mut writer);
        }
        rest.iter().for_each(|&byte| writer.put(byte.into(), 8));
        writer.finish();
        Ok(())
    }

    fn decode(&self, mut stored: &[u8], _: &[u8], plain: &mut [u8]) -> Result<()> {
        let whole = plain.len();
        match decode(&mut stored, whole, plain)? {
            true => Ok(()),
            false => Err(Damage::Undecodable.into()),
        }
    }

    fn decode_head(
        &self,
        stored: &mut dyn Read,
        _: &[u8],
        _: usize,
        whole: usize,
        plain: &mut [u8],
    ) -> Option<Result<()>> {
        Some(decode(stored, whole, plain).map(|_| ()))
    }

    fn encoding_memory(&self, _: i32, len: usize) -> u64 {
        len as u64 + (1 << 20)
    }

    fn levels(&self) -> (i32, i32) {
        (0, 63)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Codec, Setting};

    #[test]
    fn shapes_have_numbers() {
        for number in 0..64 {
            let shape = Shape::numbered(number).unwrap();
            assert_eq!(shape.number(), number);
            assert_eq!(Shape::new(shape.width, shape.channels, shape.upper_first), Some(shape));
            for sample in [0, 1, -1, -128, 127] {
                let mut bytes = [0; 4];
                shape.put(sample, &mut bytes[..usize::from(shape.width)]);
                assert_eq!(shape.sample(&bytes[..usize::from(shape.width)]), sample, "{shape:?}");
            }
        }
        assert_eq!(Shape::numbered(64), None);
        assert!(Shape::new(0, 1, false).is_none() && Shape::new(2, 9, false).is_none());
    }

    /// Tones with a little noise, at a loudness of so many bits, with some silence.
    fn tones(shape: Shape, moments: usize, loud: u32) -> Vec<u8> {
        let (mut bytes, mut state) = (Vec::new(), 1u32);
        // Resonators: what they say follows from the two samples before.
        let mut before = [[1i64 << (loud - 2), 1 << (loud - 3)]; 8];
        for moment in 0..moments {
            for (channel, before) in before.iter_mut().take(shape.channels.into()).enumerate() {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let noise = i64::from(state >> 28) - 8;
                let next = ((before[0] * (1900 - 40 * channel as i64)) >> 10) - before[1];
                *before = [next.clamp(-(1 << (loud - 1)), (1 << (loud - 1)) - 1), before[0]];
                let silent = moment % 20_000 < 5000;
                let sample = if silent { 0 } else { signed(before[0] + noise, shape.bits()) };
                let at = bytes.len();
                bytes.resize(at + usize::from(shape.width), 0);
                shape.put(sample, &mut bytes[at..]);
            }
        }
        bytes
    }

    #[test]
    fn sound_of_every_shape_comes_out_as_it_went_in_and_gets_smaller() {
        for number in 0..64 {
            let shape = Shape::numbered(number).unwrap();
            for (moments, loud) in [(9000, shape.bits() - 1), (1, 7), (5000, shape.bits().min(12))]
            {
                let mut plain = tones(shape, moments, loud);
                plain.extend(&[1, 2, 3, 4, 5][..shape.moment_len().min(6) - 1]);
                let mut stored = Vec::new();
                Pcm.encode(number.into(), &plain, &[], &mut stored).unwrap();
                let mut made = vec![0xee; plain.len()];
                Pcm.decode(&stored, &[], &mut made).unwrap();
                assert!(made == plain, "{shape:?}");
                if moments == 9000 {
                    assert!(stored.len() * 4 < plain.len() * 3, "{shape:?}: {}", stored.len());
                }
                for head in [0, 1, plain.len() / 3, plain.len() - 1] {
                    let mut from = &stored[..];
                    let mut made = vec![0xee; head];
                    Pcm.decode_head(&mut from, &[], head, plain.len(), &mut made).unwrap().unwrap();
                    assert!(made == plain[..head], "{shape:?}: {head}");
                }
            }
        }
    }

    #[test]
    fn it_does_more_than_a_codec_for_anything() {
        let shape = Shape::new(2, 2, false).unwrap();
        let plain = tones(shape, 50_000, 14);
        let len = |codec, level| Setting::new(codec, level).encode(&plain, &[]).unwrap().1.len();
        assert!(len(Codec::Pcm, shape.number().into()) * 2 < len(Codec::Zstd, 19));
    }

    #[test]
    fn silence_and_bits_that_are_never_used_take_next_to_nothing() {
        let shape = Shape::new(3, 2, false).unwrap();
        let mut stored = Vec::new();
        Pcm.encode(shape.number().into(), &[0; 600_000], &[], &mut stored).unwrap();
        assert!(stored.len() < 200, "{}", stored.len());
        let narrow = tones(Shape::new(2, 2, false).unwrap(), 20_000, 14);
        let wide: Vec<u8> = narrow.chunks(2).flat_map(|two| [0, two[0], two[1]]).collect();
        let len = |plain: &[u8], shape: Shape| {
            let mut stored = Vec::new();
            Pcm.encode(shape.number().into(), plain, &[], &mut stored).unwrap();
            stored.len()
        };
        let (narrow, wide) = (len(&narrow, Shape::new(2, 2, false).unwrap()), len(&wide, shape));
        assert!(wide < narrow + narrow / 50, "{wide} and {narrow}");
    }

    #[test]
    fn hostile_bytes_are_refused_or_make_something() {
        let shape = Shape::new(4, 2, true).unwrap();
        let plain = tones(shape, 6000, 30);
        let mut stored = Vec::new();
        Pcm.encode(shape.number().into(), &plain, &[], &mut stored).unwrap();
        let mut made = vec![0xee; plain.len()];
        for at in (0..stored.len()).step_by(stored.len() / 150) {
            for wrong in [0, 1, 0x7f, 0x80, 0xff] {
                let mut hostile = stored.clone();
                hostile[at] = wrong;
                let _ = Pcm.decode(&hostile, &[], &mut made);
            }
            assert!(Pcm.decode(&stored[..at], &[], &mut made).is_err());
        }
        for wrong in [0u8, 0x55, 0xaa, 0xff] {
            for number in 0..=255 {
                let hostile = [&[number], &[wrong; 70_000][..]].concat();
                let _ = Pcm.decode(&hostile, &[], &mut made);
            }
        }
        let more = [&stored[..], &[0]].concat();
        assert!(Pcm.decode(&more, &[], &mut made).is_err(), "something behind the end");
    }
}
