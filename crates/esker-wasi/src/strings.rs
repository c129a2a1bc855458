//! Arguments and environment: strings one behind the other, each with a NUL at its end.

use alloc::vec::Vec;

use crate::{Errno, Guest, Result};

#[derive(Debug, Default)]
pub(crate) struct Strings {
    bytes: Vec<u8>,
    count: u32,
}

impl Strings {
    /// Adds one; a NUL would end it early.
    pub(crate) fn push(&mut self, parts: &[&[u8]]) -> Result {
        let len = parts.iter().map(|part| part.len()).sum::<usize>() + 1;
        let end = self.bytes.len().saturating_add(len);
        if parts.iter().any(|part| part.contains(&0)) {
            return Err(Errno::Invalid);
        }
        if u32::try_from(end).is_err() {
            return Err(Errno::TooBig);
        }
        self.bytes.try_reserve(len).map_err(|_| Errno::NoMemory)?;
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.bytes.push(0);
        self.count += 1;
        Ok(())
    }

    /// How many, and how many bytes they take.
    pub(crate) fn sizes<G: Guest + ?Sized>(&self, guest: &mut G, count: u32, len: u32) -> Result {
        guest.put_u32(count, self.count)?;
        guest.put_u32(len, self.bytes.len() as u32)
    }

    /// The bytes to `buffer`, and to `pointers` where each string begins there.
    pub(crate) fn get<G: Guest + ?Sized>(
        &self,
        guest: &mut G,
        pointers: u32,
        buffer: u32,
    ) -> Result {
        guest.put(buffer, &self.bytes)?;
        let ends = self.bytes.iter().enumerate().filter(|(_, byte)| **byte == 0);
        let starts = core::iter::once(0).chain(ends.map(|(at, _)| at as u32 + 1));
        for (index, start) in (0..self.count).zip(starts) {
            let place = index.checked_mul(4).and_then(|more| pointers.checked_add(more));
            guest.put_u32(place.ok_or(Errno::Fault)?, buffer + start)?;
        }
        Ok(())
    }
}
