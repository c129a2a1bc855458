//! Every way in which a home can contradict itself.

use crate::error::Error;
use crate::ids::{Cursor, Ino};

/// One contradiction, with its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A sub-tree's pages are damaged.
    Tree {
        /// Which.
        group: usize,
        /// What its own check says.
        error: Error,
    },
    /// A key that means nothing, or that belongs to another sub-tree.
    Key {
        /// The sub-tree.
        group: usize,
    },
    /// A value that cannot be read.
    Value {
        /// Whose.
        ino: Ino,
    },
    /// Keys of an inode without a record.
    NoRecord {
        /// Whose.
        ino: Ino,
    },
    /// Names, attributes or extents that this kind of inode does not have.
    Misplaced {
        /// Whose.
        ino: Ino,
    },
    /// An entry leads to no inode.
    EntryWithoutInode {
        /// Where.
        dir: Ino,
        /// Its place in the listing.
        seq: Cursor,
    },
    /// An entry and its inode say different kinds.
    EntryKind {
        /// Where.
        dir: Ino,
        /// Its place in the listing.
        seq: Cursor,
    },
    /// A name without its place in the listing, or with another one.
    NameWithoutSeq {
        /// Where.
        dir: Ino,
        /// The place.
        seq: Cursor,
    },
    /// A place in the listing without its name, or with another one.
    SeqWithoutName {
        /// Where.
        dir: Ino,
        /// The place.
        seq: Cursor,
    },
    /// A place in the listing that has not been given out yet.
    SeqBeyondNext {
        /// Where.
        dir: Ino,
        /// The place.
        seq: Cursor,
    },
    /// A directory's size is not the number of its entries.
    DirectorySize {
        /// Which.
        dir: Ino,
        /// As stored.
        size: u64,
        /// As counted.
        found: u64,
    },
    /// The link count is not that of the names found.
    LinkCount {
        /// Whose.
        ino: Ino,
        /// As stored.
        nlink: u32,
        /// As counted.
        found: u32,
    },
    /// A directory says that it lies in another one than where its name is.
    Parent {
        /// Which.
        dir: Ino,
        /// As stored.
        parent: Ino,
        /// Where its name is.
        found: Ino,
    },
    /// The pieces of an extended attribute are not numbered from 0 up.
    XattrPieces {
        /// Whose.
        ino: Ino,
    },
    /// An extent begins before its predecessor ends.
    ExtentOverlap {
        /// Whose.
        ino: Ino,
        /// At which granule of the file.
        start: u64,
    },
    /// Content both in the record and in extents.
    InlineAndExtents {
        /// Whose.
        ino: Ino,
    },
    /// The inode's count of granules is not that of its extents.
    Blocks {
        /// Whose.
        ino: Ino,
        /// As stored.
        blocks: u64,
        /// As counted.
        found: u64,
    },
    /// Extents name granules that are free or lie past the memory's end.
    NotClaimed {
        /// The first granule of the memory.
        place: u64,
        /// Granules.
        len: u64,
    },
    /// Granules are claimed and no extent names them.
    NotUsed {
        /// The first granule of the memory.
        place: u64,
        /// Granules.
        len: u64,
    },
    /// Granules are named more or less often than counted.
    Uses {
        /// The first granule of the memory.
        place: u64,
        /// As stored.
        uses: u32,
        /// As counted.
        found: u32,
    },
    /// The accounts of space are damaged.
    Accounts {
        /// How.
        error: Error,
    },
    /// Free space by length is not free space by address.
    FreeByLength,
    /// An inode is noted to be without names and has some, or the other way round.
    Orphan {
        /// Which.
        ino: Ino,
    },
    /// The budget is not the sum of pages and data.
    Budget {
        /// As stored, in bytes.
        used: u64,
        /// As counted, in bytes.
        found: u64,
    },
    /// The number of inodes is wrong.
    Inodes {
        /// As stored.
        inodes: u64,
        /// As counted.
        found: u64,
    },
}
