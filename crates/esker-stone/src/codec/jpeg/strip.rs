//! A strip of a scan, told by what is likely in it, and made again.
//!
//! Above: `mod`, `scan`. Below: `walk`, `model`, `head`. Invariant: what is made of stored bytes fits the room that it
//! has, whatever they say; memory goes by the width of the picture that they tell of, which is bounded.

use core::ops::Range;
use std::io::Read;

use super::bits::{Carry, Reader, Writer};
use super::chance::{Decoder, Encoder};
use super::head::{HEAD_LEN_MAX, Head};
use super::model::Model;
use super::walk::Walk;
use crate::codec::undecodable;
use crate::error::{Damage, Result};

/// Most bytes of a strip.
pub const STRIP_LEN_MAX: usize = 1 << 20;
/// Bytes that say how long a head is.
const LEN_LEN: usize = 2;

/// A strip of the scan of a picture.
#[derive(Clone, Debug)]
pub struct Strip {
    /// Where it lies in its file.
    pub bytes: Range<usize>,
    pub(super) head: Head,
    /// The bits of its last block that lie in the byte behind it.
    pub(super) tail: Carry,
}

impl Strip {
    /// Bytes of memory that it takes, in about.
    #[must_use]
    pub const fn memory(&self) -> usize {
        size_of::<Self>() + 1024
    }

    /// The stored form of its bytes; `None`: these are not those that it was found in.
    #[must_use]
    pub fn encode(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let (tail, count) = self.tail.bits()?;
        let bytes = [plain, &[(tail << (8 - count)) as u8]].concat();
        let mut head = Vec::new();
        self.head.put(&mut head);
        let mut stored = u16::try_from(head.len()).ok()?.to_le_bytes().to_vec();
        stored.extend(head);
        let codes = self.head.tables.codes()?;
        let mut reader = Reader::new(&bytes, 0);
        let (before, taken) = self.head.carry.bits()?;
        if u64::from(reader.take(taken)?) != before {
            return None;
        }
        let mut walk = Walk::new(&self.head.tables, &codes, self.head.place.clone());
        let (mut rows, mut model) = (walk.rows(self.head.count), Model::new());
        let mut encoder = Encoder::new(&mut stored);
        for _ in 0..self.head.count {
            if let Some(second) = walk.marker() {
                reader.ones()?;
                reader.marker(second)?;
            }
            let told = walk.group(|step, first| {
                let before = *first;
                let mut numbers = step.read(&mut reader, first).ok_or(())?;
                let rows = (&mut rows[step.component], step.x, step.y);
                let what = (step.component, step.quants);
                model.block(&mut encoder, what, rows, before, &mut numbers).map_err(|_| ())
            });
            told.ok()?;
        }
        encoder.finish();
        Some(stored)
    }
}

/// Makes the first bytes of a strip, `whole` long, of stored ones; gives whether they came to their end.
pub(super) fn decode(stored: &mut dyn Read, whole: usize, plain: &mut [u8]) -> Result<bool> {
    if whole > STRIP_LEN_MAX {
        return Err(Damage::Undecodable.into());
    }
    let mut len = [0; LEN_LEN];
    stored.read_exact(&mut len).map_err(|error| undecodable(&error))?;
    let len = usize::from(u16::from_le_bytes(len));
    let mut head = [0; HEAD_LEN_MAX];
    let head = head.get_mut(..len).ok_or(Damage::Undecodable)?;
    stored.read_exact(head).map_err(|error| undecodable(&error))?;
    let head = Head::take(head)?;
    let codes = head.tables.codes().ok_or(Damage::Undecodable)?;
    let room = plain.len();
    let mut writer = Writer::new(plain);
    let put = |writer: &mut Writer<'_>, carry: Carry| {
        carry.bits().into_iter().for_each(|(bits, count)| writer.put(bits, count));
    };
    put(&mut writer, head.carry);
    let mut walk = Walk::new(&head.tables, &codes, head.place.clone());
    // A group takes two bits at least.
    let most = u32::try_from(whole * 4 + 4).unwrap_or(u32::MAX);
    let (mut rows, mut model) = (walk.rows(head.count.min(most)), Model::new());
    let mut decoder = Decoder::new(stored)?;
    for _ in 0..head.count {
        if let Some(second) = walk.marker() {
            writer.pad();
            writer.marker(second);
        }
        walk.group(|step, first| {
            let mut numbers = [0; 64];
            let rows = (&mut rows[step.component], step.x, step.y);
            let what = (step.component, step.quants);
            model.block(&mut decoder, what, rows, *first, &mut numbers)?;
            step.write(&mut writer, first, &numbers)
                .ok_or(Damage::Undecodable)
                .map_err(crate::error::Error::from)
        })?;
        if writer.len() > whole {
            return Err(Damage::Undecodable.into());
        }
        if writer.len() >= room && room < whole {
            return Ok(true);
        }
    }
    put(&mut writer, head.pad);
    if writer.len() != whole {
        return Err(Damage::Undecodable.into());
    }
    decoder.is_at_end()
}
