//! Checksums of stored bytes under their logical names, and strong hashes of plain ones.
//!
//! Invariant: nothing here knows where bytes lie, so a check stays right when they move.

use twox_hash::XxHash3_64;

use crate::error::{Damage, Result};
use crate::limits::UNIT_LEN;

/// A strong hash: BLAKE3.
pub type Hash = [u8; 32];

/// What a checksum covers besides the bytes: where in the logical order of things they belong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covered {
    /// The segment's number.
    pub segment: u64,
    /// A page's offset in it, or a block's slot.
    pub number: u64,
}

impl Covered {
    /// The checksum of one unit.
    #[must_use]
    pub fn checksum(self, unit: u64, stored: &[u8]) -> u64 {
        let mut name = [0; 24];
        name[..8].copy_from_slice(&self.segment.to_le_bytes());
        name[8..16].copy_from_slice(&self.number.to_le_bytes());
        name[16..].copy_from_slice(&unit.to_le_bytes());
        XxHash3_64::oneshot_with_seed(XxHash3_64::oneshot(&name), stored)
    }

    /// The checksums of all units of a block.
    #[must_use]
    pub fn checksums(self, stored: &[u8]) -> Vec<u64> {
        (0..).zip(stored.chunks(UNIT_LEN)).map(|(unit, bytes)| self.checksum(unit, bytes)).collect()
    }

    /// Checks units from number `first` on; `stored` begins with that unit.
    ///
    /// # Errors
    /// `Checksum`, also when there are fewer checksums than units.
    pub fn verify(self, first: usize, stored: &[u8], checksums: &[u64]) -> Result<()> {
        for (index, unit) in stored.chunks(UNIT_LEN).enumerate() {
            let number = first + index;
            let right = checksums.get(number) == Some(&self.checksum(number as u64, unit));
            if !right {
                return Err(Damage::Checksum.into());
            }
        }
        Ok(())
    }
}

/// The checksum of bytes that have no logical name.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// The strong hash of plain bytes.
#[must_use]
pub fn hash(plain: &[u8]) -> Hash {
    *blake3::hash(plain).as_bytes()
}

/// The strong hash of a list of strong hashes: never that of any bytes.
#[must_use]
pub fn hash_of_hashes(hashes: &[Hash]) -> Hash {
    blake3::derive_key("esker 2026 list of pieces", hashes.as_flattened())
}

/// A hash or name for a person.
#[must_use]
pub fn hex(hash: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    hash.iter().flat_map(|&byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
