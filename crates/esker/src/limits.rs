//! All limits in one place, and what they owe each other.

/// Longest name of an entry, in bytes.
pub const NAME_LEN_MAX: usize = 255;
/// Longest symlink target, in bytes.
pub const SYMLINK_LEN_MAX: usize = 4095;
/// Longest name of an extended attribute, namespace included, in bytes.
pub const XATTR_NAME_LEN_MAX: usize = 255;
/// Longest value of an extended attribute, in bytes.
pub const XATTR_VALUE_LEN_MAX: usize = 64 * 1024;
/// Most bytes that listxattr(2) can return.
pub const XATTR_LIST_LEN_MAX: usize = 64 * 1024;
/// Largest file, in bytes: what a signed 64-bit offset can reach.
pub const FILE_SIZE_MAX: u64 = i64::MAX as u64;
/// Most names of one inode, and most sub-directories of one directory plus two.
pub const LINKS_MAX: u32 = i32::MAX as u32;
/// Longest path that a program hands over for one call, in bytes, as in Linux.
pub const PATH_LEN_MAX: usize = 4095;
/// Symbolic links followed on one path before ELOOP, as in Linux.
pub const SYMLINKS_FOLLOWED_MAX: u32 = 40;
/// Changes in the longest POSIX operation.
pub const CHANGES_MAX: usize = 8;

/// Bytes of one page of the tree.
pub const PAGE_SIZE: usize = 4096;
/// Longest key of the tree: an inode number, a kind, a name and a piece number.
pub const KEY_LEN_MAX: usize = 8 + 1 + NAME_LEN_MAX + 2;
/// Longest value of the tree: an inode record with its inline content.
pub const VALUE_LEN_MAX: usize = INODE_HEAD_LEN_MAX + INLINE_LEN_MAX;
/// Fixed part of an inode record.
pub const INODE_HEAD_LEN_MAX: usize = 128;
/// Largest content kept inside the inode record, in bytes.
pub const INLINE_LEN_MAX: usize = 480;
/// Bytes of a longer extended attribute kept under one key.
pub const XATTR_PIECE_LEN: usize = 512;
/// Smallest piece of data space, in bytes.
pub const GRANULE: u64 = 512;
/// What data space is given back to the operating system in, in bytes.
pub const RELEASE_UNIT: u64 = 64 * 1024;
/// Most data space that rests, freed and not given back yet, in bytes.
pub const RESTING_MAX: u64 = 512 << 20;
/// How long it rests, in ticks.
pub const RESTING_TICKS: u64 = 10;
/// Sub-trees of a home, each with a lock of its own.
pub const SUBTREES: usize = 64;

// Four largest cells fit a page, or a split could not be balanced.
const _: () = assert!(4 * (KEY_LEN_MAX + VALUE_LEN_MAX + 16) <= PAGE_SIZE);
const _: () = assert!(XATTR_PIECE_LEN <= VALUE_LEN_MAX);
const _: () = assert!(RELEASE_UNIT.is_multiple_of(GRANULE) && RELEASE_UNIT >= 4096);
const _: () = assert!(SUBTREES.is_power_of_two());
