//! All limits of the format in one place, and what they owe each other. `FORMAT.md` has them in words.

use esker::limits::{NAME_LEN_MAX, XATTR_VALUE_LEN_MAX};

/// Stored bytes of a block that one checksum covers.
pub const UNIT_LEN: usize = 64 * 1024;
/// Plain bytes of a section of a text that is told in words; the last one may be shorter.
pub const SECTION_LEN: usize = 64 * 1024;
/// Most rows of a group.
pub const ROWS_MAX: usize = 4096;
/// Most plain bytes of a page.
pub const PAGE_LEN_MAX: usize = 1 << 20;
/// Most stored bytes of a page: a codec may add a little to what it cannot shrink.
pub const PAGE_STORED_LEN_MAX: usize = PAGE_LEN_MAX + PAGE_LEN_MAX / 64 + 1024;
/// Most plain bytes of a block.
pub const BLOCK_LEN_MAX: usize = 64 << 20;
/// Most stored bytes of a block.
pub const BLOCK_STORED_LEN_MAX: usize = BLOCK_LEN_MAX + BLOCK_LEN_MAX / 64 + 1024;
/// Most bytes of a recipe.
pub const RECIPE_LEN_MAX: usize = 1 << 20;
/// Most bytes of the text that a recipe takes.
pub const RECIPE_TEXT_MAX: usize = 4 << 20;
/// Most steps of a recipe.
pub const RECIPE_STEPS_MAX: usize = 4096;
/// Most pages on the way from a root to a leaf, the leaf not counted.
pub const LEVELS_MAX: u8 = 8;
/// Most pages below one inner page.
pub const FAN_OUT: usize = 256;
/// Most pieces of one row of extents.
pub const PIECES_MAX: usize = 1024;
/// Most pieces in one group of extents.
pub const PIECES_PER_PAGE_MAX: usize = 64 * 1024;
/// Longest key of an entry.
pub const KEY_LEN_MAX: usize = 9 + NAME_LEN_MAX;
/// Plain bytes at which a page is full, unless said otherwise.
pub const PAGE_LEN: usize = 32 * 1024;

const _: () = assert!(XATTR_VALUE_LEN_MAX * 4 <= PAGE_LEN_MAX);
const _: () = assert!(BLOCK_STORED_LEN_MAX <= u32::MAX as usize);
// Readers keep the one as they keep the other.
const _: () = assert!(SECTION_LEN == UNIT_LEN);
const _: () = assert!(FAN_OUT <= ROWS_MAX && ROWS_MAX <= u16::MAX as usize);
// Two blocks, one the base of the other, fit the largest window that decoders allow.
const _: () = assert!(2 * BLOCK_LEN_MAX <= 1 << 27);
