//! The first page of a memory that holds a home: what it is, and where everything begins. See FORMAT.md, "The
//! embedded home".
//!
//! Neighbours: `open` reads it, `finish` writes it after each commit that changed it. Invariant: nothing in it
//! is believed before its check is right and its numbers lie within the memory.

use super::OpenError;
use crate::error::Result;
use crate::ground::Memory;
use crate::layout;
use crate::limits::{GRANULE, PAGE_SIZE};
use crate::memory::record::Record;

/// The first bytes of every memory that holds a home.
pub const MAGIC: [u8; 8] = *b"Esker\r\n\x1a";
/// The version of the format that this code writes.
pub const VERSION: u32 = 1;
/// Where in the first page the numbers of free pages begin, and how many fit.
pub const SPARE_START: usize = 512;
pub const SPARE_MAX: usize = (PAGE_SIZE - SPARE_START) / 4;
/// Inodes whose records fit a page.
const INODES_MAX: u64 = (PAGE_SIZE / Record::SIZE) as u64;

layout! {
    /// How a memory with a home begins. See FORMAT.md, "Superblock".
    pub struct Superblock: 128 {
        /// `Esker`, and bytes that show what harm a text channel does.
          0 => magic: [u8; 8],
        /// Of the format.
          8 => version: u32,
        /// Bytes of a page.
         12 => page_size: u32,
        /// Bytes of a granule.
         16 => granule: u32,
        /// Free pages: so many numbers follow at byte 512.
         20 => spare: u32,
        /// Commits up to this one.
         24 => sequence: u64,
        /// Granules of the memory under this home, free or not.
         32 => end: u64,
        /// Of these: free.
         40 => free: u64,
        /// The number of the next inode.
         48 => next_ino: u64,
        /// Inodes.
         56 => inodes: u64,
        /// The root page of the tree of keys,
         64 => keys_root: u32,
        /// of that of free space by address,
         68 => starts_root: u32,
        /// by length,
         72 => lens_root: u32,
        /// and of that of uses.
         76 => uses_root: u32,
        /// The levels of each.
         80 => keys_levels: u8,
        /// As above.
         81 => starts_levels: u8,
        /// As above.
         82 => lens_levels: u8,
        /// As above.
         83 => uses_levels: u8,
        /// Pages of the memory that are trees', or free.
         84 => pages: u32,
        /// Zero.
         88 => unused: [u8; 32],
        /// Of all bytes before.
        120 => check: u64,
    }
}

const _: () = assert!(Superblock::SIZE <= SPARE_START);

impl Superblock {
    /// A number that another string of as many bytes hardly has.
    fn check_of(bytes: &[u8]) -> u64 {
        let words = bytes.as_chunks::<8>().0.iter();
        words.fold(0x45_73_6b_65_72, |sum: u64, word| {
            (sum ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
        })
    }

    /// Its bytes, with the check that they should have.
    #[must_use]
    pub fn sealed(&self) -> [u8; Self::SIZE] {
        let mut bytes = self.encode();
        let (body, check) = bytes.split_at_mut(Self::SIZE - 8);
        check.copy_from_slice(&Self::check_of(body).to_le_bytes());
        bytes
    }

    /// What a memory begins with, if that is a home of ours.
    pub(super) fn read<M: Memory>(memory: &M) -> Result<Self, OpenError> {
        let has = memory.size();
        if has < PAGE_SIZE as u64 {
            return Err(OpenError::Foreign);
        }
        let mut bytes = [0; Self::SIZE];
        memory.read(0, &mut bytes)?;
        let found = Self::decode(&bytes).ok_or(OpenError::Foreign)?;
        if found.magic != MAGIC {
            return Err(OpenError::Foreign);
        }
        if found.version != VERSION {
            return Err(OpenError::Version { found: found.version });
        }
        if (found.page_size, found.granule) != (PAGE_SIZE as u32, GRANULE as u32) {
            return Err(OpenError::PageSize { found: found.page_size, granule: found.granule });
        }
        let sound = found.check == Self::check_of(&bytes[..Self::SIZE - 8])
            && found.spare as usize <= SPARE_MAX
            && found.free <= found.end
            && u64::from(found.pages) * (PAGE_SIZE as u64 / GRANULE) <= found.end - found.free
            && found.inodes <= u64::from(found.pages) * INODES_MAX;
        if !sound {
            return Err(OpenError::Torn);
        }
        match found.end.checked_mul(GRANULE) {
            Some(needs) if needs <= has => Ok(found),
            needs => Err(OpenError::Short { needs: needs.unwrap_or(u64::MAX), has }),
        }
    }
}
