//! Parts: the only thing that is written to segments. A commit is one part, or several where it does not fit.
//!
//! Above: `log` and `settle` write them, `recovery` reads them. Invariant: a head that was parsed had its
//! checksum right, belongs to this volume, and its numbers lie inside the part; a part names the one before it
//! by that one's checksum, so a part of another life of the segment is never taken for its successor.
#![expect(missing_docs, reason = "fields have their meanings in FORMAT.md")]

use esker::layout;
use esker_stone::check::Covered;
use esker_stone::{Codec, PageRef, Sealed};

use crate::device::Buffer;
use crate::error::Result;
use crate::limits::{NUMBER_MAX, SLOT_MAX};

/// How a head begins.
pub const MAGIC: [u8; 8] = *b"EskrPart";
/// A part of a commit.
pub const LOG: u32 = 1;
/// A table, or a root.
pub const TABLES: u32 = 2;
/// Parity of a part of tables.
pub const PARITY: u32 = 3;
/// Blocks that were moved.
pub const MOVED: u32 = 4;
/// The last part of its commit.
pub const LAST: u32 = 1;

layout! {
    /// The beginning of a part.
    pub struct PartHead: 192 {
        0 => magic: [u8; 8],
        8 => checksum: u64,
        16 => uuid: [u8; 16],
        32 => segment: u64,
        40 => at: u64,
        48 => len: u64,
        56 => kind: u32,
        60 => flags: u32,
        64 => sequence: u64,
        72 => epoch: u64,
        80 => before: u64,
        88 => durable: u64,
        96 => next: u32,
        100 => spare: u32,
        104 => body_checksum: u64,
        112 => part: u32,
        116 => first_slot: u32,
        120 => slots: u32,
        124 => rows_at: u32,
        128 => rows_stored: u32,
        132 => rows_plain: u32,
        136 => rows_codec: u32,
        140 => reserved: u32,
        144 => rows_checksum: u64,
        152 => time: i64,
        160 => rows_hash: [u8; 32],
    }
}

/// Where the checksum of the head begins.
const CHECKED_FROM: usize = 16;

impl PartHead {
    const fn covered(&self) -> Covered {
        Covered { segment: self.segment, number: self.at }
    }

    /// Describes the page of rows that lies here in the part.
    pub fn set_rows(&mut self, rows: &PageRef) {
        self.rows_at = (rows.at - self.at) as u32;
        self.rows_stored = rows.stored;
        self.rows_plain = rows.plain;
        self.rows_codec = rows.codec.number().into();
        self.rows_checksum = rows.checksum;
        self.rows_hash = rows.hash;
    }

    /// The page of rows.
    ///
    /// # Errors
    /// `Unsupported`, `Range`.
    pub fn rows(&self) -> Result<PageRef> {
        let page = PageRef {
            segment: self.segment,
            at: self.at + u64::from(self.rows_at),
            stored: self.rows_stored,
            plain: self.rows_plain,
            codec: Codec::numbered(self.rows_codec.into())?,
            checksum: self.rows_checksum,
            hash: self.rows_hash,
        };
        Ok(page.checked()?)
    }

    /// Puts the head before the body in `part`, with both checksums right; the name by which the next part will call
    /// this one.
    pub fn seal(&mut self, part: &mut [u8]) -> u64 {
        self.len = part.len() as u64;
        self.body_checksum = self.covered().checksum(1, &part[Self::SIZE..]);
        self.checksum = self.covered().checksum(0, &self.encode()[CHECKED_FROM..]);
        part[..Self::SIZE].copy_from_slice(&self.encode());
        self.checksum
    }

    /// From the first bytes of a part of this volume.
    #[must_use]
    pub fn parse(bytes: &[u8], uuid: &[u8; 16]) -> Option<Self> {
        let head = Self::decode(bytes)?;
        let right = head.magic == MAGIC
            && head.uuid == *uuid
            && head.covered().checksum(0, &bytes[CHECKED_FROM..Self::SIZE]) == head.checksum;
        let rows_end = u64::from(head.rows_at) + u64::from(head.rows_stored);
        let inside = head.len >= Self::SIZE as u64
            && rows_end <= head.len
            && head.first_slot.checked_add(head.slots).is_some_and(|end| end < SLOT_MAX)
            && head.at.checked_add(head.len).is_some()
            && [head.segment, head.sequence, head.epoch, head.durable]
                .into_iter()
                .all(|number| number < NUMBER_MAX);
        (right && inside).then_some(head)
    }

    /// Whether this is the last part of its commit.
    #[must_use]
    pub const fn is_last(&self) -> bool {
        self.flags & LAST != 0
    }

    /// Compares the whole part with its checksum.
    #[must_use]
    pub fn holds(&self, part: &[u8]) -> bool {
        part.len() as u64 == self.len
            && self.covered().checksum(1, &part[Self::SIZE..]) == self.body_checksum
    }
}

/// A page at the end of a part that is being filled.
pub(crate) fn append_page(part: &mut Buffer, (segment, at): (u64, u64), page: &Sealed) -> PageRef {
    let page_ref = PageRef::new((segment, at + part.len() as u64), page);
    part.extend_from_slice(&page.stored);
    page_ref
}
