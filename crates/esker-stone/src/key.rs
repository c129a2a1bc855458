//! Keys of entries: a kind, an inode number, and what tells entries of an inode apart, in an order
//! in which comparing bytes is comparing keys.

use esker::Ino;

/// Kinds of groups, and of the entries in them.
pub mod kind {
    /// Inodes.
    pub const INODE: u8 = 1;
    /// Names.
    pub const NAME: u8 = 2;
    /// Extended attributes.
    pub const XATTR: u8 = 4;
    /// Places in the listing of a directory (volumes).
    pub const PLACE: u8 = 3;
    /// Stretches of files.
    pub const EXTENT: u8 = 5;
    /// Bytes of files that name a block (volumes).
    pub const REFS: u8 = 6;
    /// Blocks that were moved (volumes).
    pub const MOVE: u8 = 7;
    /// Keys of what is gone (volumes).
    pub const GONE: u8 = 8;
    /// Bytes of segments that somebody needs (volumes).
    pub const LIVE: u8 = 9;
    /// Inodes without a name (volumes).
    pub const ORPHAN: u8 = 10;
    /// Counters (volumes).
    pub const COUNTER: u8 = 11;
    /// Rows of a block index.
    pub const BLOCK: u8 = 16;
    /// Pages below an inner page.
    pub const PAGE: u8 = 32;
    /// Layers, in the root page.
    pub const LAYER: u8 = 33;
    /// Block indexes, in the root page.
    pub const INDEX: u8 = 34;
    /// Base images, in the root page.
    pub const BASE: u8 = 35;
    /// Statistics, in the root page.
    pub const STATISTIC: u8 = 36;
    /// Notes, in the root page.
    pub const NOTE: u8 = 37;
    /// Tables, in the root of a volume.
    pub const TABLE: u8 = 40;
    /// Segments, in the root of a volume.
    pub const SEGMENT: u8 = 41;
    /// Snapshots, in the root of a volume.
    pub const SNAPSHOT: u8 = 42;
    /// Tables that snapshots have, in the root of a volume.
    pub const SINCE: u8 = 43;
    /// Rules for snapshots, in the root of a volume.
    pub const RULE: u8 = 44;
    /// Snapshots that rules have made, in the root of a volume.
    pub const MADE: u8 = 45;
    /// Segments that were begun for blocks that are moved, in the log of a volume.
    pub const BEGUN: u8 = 50;
}

fn key(kind: u8, ino: Ino, rest: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(9 + rest.len());
    key.push(kind);
    key.extend(ino.0.to_be_bytes());
    key.extend_from_slice(rest);
    key
}

/// An inode.
#[must_use]
pub fn inode(ino: Ino) -> Vec<u8> {
    key(kind::INODE, ino, &[])
}

/// A name in a directory; of the empty name: before all of them.
#[must_use]
pub fn name(dir: Ino, name: &[u8]) -> Vec<u8> {
    key(kind::NAME, dir, name)
}

/// An extended attribute; of the empty name: before all of them.
#[must_use]
pub fn xattr(ino: Ino, name: &[u8]) -> Vec<u8> {
    key(kind::XATTR, ino, name)
}

/// The stretch of a file that begins here.
#[must_use]
pub fn extent(ino: Ino, start: u64) -> Vec<u8> {
    key(kind::EXTENT, ino, &start.to_be_bytes())
}

/// A place in a directory's listing.
#[must_use]
pub fn place(dir: Ino, seq: u64) -> Vec<u8> {
    key(kind::PLACE, dir, &seq.to_be_bytes())
}

/// An inode without a name.
#[must_use]
pub fn orphan(ino: Ino) -> Vec<u8> {
    key(kind::ORPHAN, ino, &[])
}

/// Something of a block, by its kind.
#[must_use]
pub fn block(kind: u8, segment: u64, slot: u32) -> Vec<u8> {
    key(kind, Ino(segment), &slot.to_be_bytes())
}

/// Before all entries of this kind.
#[must_use]
pub fn first(kind: u8) -> Vec<u8> {
    vec![kind]
}

/// A row of a block index.
#[must_use]
pub fn slot(slot: u32) -> Vec<u8> {
    slot.to_be_bytes().to_vec()
}
