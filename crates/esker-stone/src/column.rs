//! Columns of numbers: five ways to write them down, of which the shortest is taken.
//!
//! Above: `group`. Invariant: decoding allocates for exactly as many values as were asked for, and
//! takes every byte of the column or fails.

use crate::error::{Damage, Result, Unsupported};

/// How a column is written. Numbers are those of `FORMAT.md`.
pub(crate) mod encoding {
    pub const RAW: u8 = 0;
    pub const SAME: u8 = 1;
    pub const VARINTS: u8 = 2;
    pub const DELTA_VARINTS: u8 = 3;
    pub const PLANES: u8 = 4;
    pub const DELTA_PLANES: u8 = 5;
}
use encoding::{DELTA_PLANES, DELTA_VARINTS, PLANES, SAME, VARINTS};

/// Numbers of a column, as narrow as they can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Numbers {
    /// All the same.
    Same(u64),
    /// Below 2^8.
    Bytes(Vec<u8>),
    /// Below 2^16.
    Halves(Vec<u16>),
    /// Below 2^32.
    Words(Vec<u32>),
    /// Any.
    Longs(Vec<u64>),
}

impl Numbers {
    /// The number of a row; 0 behind the last.
    #[must_use]
    pub fn get(&self, row: usize) -> u64 {
        match self {
            Self::Same(value) => *value,
            Self::Bytes(values) => values.get(row).map_or(0, |&value| value.into()),
            Self::Halves(values) => values.get(row).map_or(0, |&value| value.into()),
            Self::Words(values) => values.get(row).map_or(0, |&value| value.into()),
            Self::Longs(values) => values.get(row).copied().unwrap_or(0),
        }
    }

    /// Bytes that it takes in memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        match self {
            Self::Same(_) => 0,
            Self::Bytes(values) => values.len(),
            Self::Halves(values) => values.len() * 2,
            Self::Words(values) => values.len() * 4,
            Self::Longs(values) => values.len() * 8,
        }
    }

    /// As narrow as they can be.
    #[must_use]
    pub fn narrow(values: Vec<u64>) -> Self {
        let max = values.iter().copied().max().unwrap_or(0);
        if values.iter().all(|&value| value == max) {
            return Self::Same(max);
        }
        // What was compared with the largest fits.
        match max {
            0..=0xff => Self::Bytes(values.iter().map(|&value| value as u8).collect()),
            0x100..=0xffff => Self::Halves(values.iter().map(|&value| value as u16).collect()),
            0x1_0000..=0xffff_ffff => {
                Self::Words(values.iter().map(|&value| value as u32).collect())
            }
            _ => Self::Longs(values),
        }
    }
}

/// A signed number as an unsigned one, small if it was near zero.
#[must_use]
pub const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// The signed number again.
#[must_use]
pub const fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

/// The zigzag of `a − b`.
#[must_use]
pub const fn difference(a: u64, b: u64) -> u64 {
    zigzag(a.wrapping_sub(b).cast_signed())
}

/// What `b` and [`difference`] make.
#[must_use]
pub const fn apply(b: u64, difference: u64) -> u64 {
    b.wrapping_add(unzigzag(difference).cast_unsigned())
}

/// Bytes of a LEB128 number, at most.
const VARINT_LEN_MAX: usize = 10;

/// Appends a LEB128 number.
pub(crate) fn put_varint(mut value: u64, target: &mut Vec<u8>) {
    while value >= 0x80 {
        target.push(value as u8 | 0x80);
        value >>= 7;
    }
    target.push(value as u8);
}

/// Takes a LEB128 number from the front.
pub(crate) fn take_varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or(Damage::Column)?;
        *bytes = rest;
        let part = u64::from(byte & 0x7f);
        if shift == 63 && part > 1 {
            break;
        }
        value |= part << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(Damage::Column.into())
}

fn deltas(values: &[u64]) -> Vec<u64> {
    let mut before = 0;
    let step = |&value: &u64| {
        let step = difference(value, before);
        before = value;
        step
    };
    values.iter().map(step).collect()
}

fn varints(values: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() + VARINT_LEN_MAX);
    values.iter().for_each(|&value| put_varint(value, &mut bytes));
    bytes
}

fn planes(values: &[u64]) -> Vec<u8> {
    let max = values.iter().copied().max().unwrap_or(0);
    let width = max.checked_ilog2().unwrap_or(0) / 8 + 1;
    let mut bytes = Vec::with_capacity(1 + values.len() * width as usize);
    bytes.push(width as u8);
    for plane in 0..width {
        bytes.extend(values.iter().map(|&value| (value >> (8 * plane)) as u8));
    }
    bytes
}

/// The shortest form of the numbers, by `measure`, which tells how long bytes will be when the page is
/// compressed. Of equals, the first in the order of the encodings' numbers.
pub(crate) fn encode(values: &[u64], measure: &dyn Fn(&[u8]) -> usize) -> (u8, Vec<u8>) {
    if let Some(first) = values.first()
        && values.iter().all(|value| value == first)
    {
        return (SAME, varints(&[*first]));
    }
    let deltas = deltas(values);
    let forms = [
        (VARINTS, varints(values)),
        (DELTA_VARINTS, varints(&deltas)),
        (PLANES, planes(values)),
        (DELTA_PLANES, planes(&deltas)),
    ];
    let best = forms.into_iter().min_by_key(|(encoding, bytes)| (measure(bytes), *encoding));
    best.unwrap_or((VARINTS, Vec::new()))
}

/// `count` numbers.
pub(crate) fn decode(
    encoding: u8,
    mut bytes: &[u8],
    count: usize,
    kind: (u8, u8),
) -> Result<Numbers> {
    let values = match encoding {
        SAME => {
            let value = take_varint(&mut bytes)?;
            return if bytes.is_empty() {
                Ok(Numbers::Same(value))
            } else {
                Err(Damage::Column.into())
            };
        }
        VARINTS | DELTA_VARINTS => {
            // Each takes a byte at least: so nothing is allocated that is not there.
            if count > bytes.len() {
                return Err(Damage::Column.into());
            }
            let mut values = Vec::with_capacity(count);
            for _ in 0..count {
                values.push(take_varint(&mut bytes)?);
            }
            if !bytes.is_empty() {
                return Err(Damage::Column.into());
            }
            values
        }
        PLANES | DELTA_PLANES => from_planes(bytes, count)?,
        _ => return Err(Unsupported::Column(kind.0, kind.1).into()),
    };
    Ok(Numbers::narrow(if matches!(encoding, DELTA_VARINTS | DELTA_PLANES) {
        let mut before = 0;
        let sum = |step: u64| {
            before = apply(before, step);
            before
        };
        values.into_iter().map(sum).collect()
    } else {
        values
    }))
}

fn from_planes(bytes: &[u8], count: usize) -> Result<Vec<u64>> {
    let (&width, planes) = bytes.split_first().ok_or(Damage::Column)?;
    let right = (1..=8).contains(&width) && planes.len() == count * usize::from(width);
    if !right {
        return Err(Damage::Column.into());
    }
    let mut values = vec![0u64; count];
    if count == 0 {
        return Ok(values);
    }
    for (plane, bytes) in planes.chunks_exact(count).enumerate() {
        for (value, &byte) in values.iter_mut().zip(bytes) {
            *value |= u64::from(byte) << (8 * plane);
        }
    }
    Ok(values)
}
