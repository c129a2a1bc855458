//! All limits of a volume in one place, and what they owe each other.

/// Numbers that only ever rise, of segments, commits and the like, stay below this.
pub const NUMBER_MAX: u64 = 1 << 48;
/// Slots of blocks in a segment stay below this.
pub const SLOT_MAX: u32 = 1 << 31;
/// Smallest segment, in bytes.
pub const SEGMENT_LEN_MIN: u64 = 128 << 10;
/// Largest segment, in bytes.
pub const SEGMENT_LEN_MAX: u64 = 4 << 30;
/// Most segments.
pub const SEGMENTS_MAX: u64 = 32 << 10;
/// Segments that are kept back for commits that only take away.
pub const SPARE: usize = 3;
/// Fewest segments, superblocks included.
pub const SEGMENTS_MIN: u64 = 12;
/// Largest logical block, in bytes.
pub const BLOCK_LEN_MAX: u32 = 32 << 10;
/// Smallest logical block, in bytes.
pub const BLOCK_LEN_MIN: u32 = 4 << 10;
/// Smallest unit, in bytes: what a device may tear a write into.
pub const UNIT_MIN: u32 = 512;
/// Largest unit, in bytes.
pub const UNIT_MAX: u32 = 4096;
/// Superblocks in one segment, one behind the other.
pub const SUPERBLOCKS_MAX: u64 = 64;
/// Copies of the superblock.
pub const COPIES_MAX: u32 = 2;
/// Bytes from one superblock to the next.
pub const SUPERBLOCK_STEP: u64 = 4096;
/// Bytes of a part whose commit goes on, about: many are on their way to the device while more is compressed, each is
/// as long as a few of the largest requests that devices take, and whole ones fill segments.
pub const PART_LEN: usize = 1 << 20;
/// Bytes that one write takes that goes astray, at most: more than any part has.
pub const ASTRAY_LEN: u64 = 2 << 20;
/// Bytes behind the beginning of that in which there is a head, if anything follows.
pub const BEHIND_LEN: u64 = 2 * ASTRAY_LEN;
/// Parts that are torn and that opening looks past: behind each failure there are two at most.
pub const TORN_MAX: usize = 64;
/// Plain bytes of one page of a commit's rows.
pub const ROWS_PAGE_LEN: usize = 256 << 10;
/// Plain bytes of one group in it, about.
pub const GROUP_LEN: usize = 32 << 10;
/// Rows of one group in it.
pub const GROUP_ROWS: usize = 2048;
/// Pieces of one row of extents.
pub const PIECES: usize = 64;
/// A block that is laid down in pieces is cut at a multiple of this.
pub const CUT: usize = 4 << 10;
/// Longest content that is kept in its inode.
pub const INLINE_LEN: u64 = 512;
/// Names of one directory whose places in its listing are kept: 16 bytes each.
pub const LISTED: usize = 1 << 19;
/// As many listings of so many names are kept together.
pub const LISTINGS_MAX: usize = 4;
/// Directories whose listings are kept.
pub const LISTINGS: usize = 64;
/// Names of a directory that are found again as quickly,
pub const LISTED_LEAST: usize = 64;
/// if they are in so many leaves.
pub const LEAVES_LEAST: usize = 2;
/// Names of a directory that are looked for before anybody waits for them.
pub const LISTED_LONG: u64 = 4096;
/// Leaves that are looked at for a listing before others may commit.
pub const LEAVES_AT_ONCE: usize = 32;
/// How often that is begun anew where they do, and lay tables elsewhere.
pub const AGAIN_MAX: usize = 3;
/// Segments that a commit may go on in besides its own, named in advance.
pub const NEXT: usize = 2;
/// Stored bytes of one table, about.
pub const TABLE_LEN: usize = 1 << 20;
/// Bytes of a volume from which on that is so; smaller ones have shorter ones in proportion.
pub const TABLE_SCALE: u64 = 8 << 30;
/// The same of the smallest volumes.
pub const TABLE_LEN_MIN: usize = 32 << 10;
/// Shortest bytes that are shared where it is known whose they are: each keeps all of its block.
pub const SHARED_LEN_MIN: u64 = 4 << 10;
/// Shortest bytes that are looked for among others.
pub const HASHED_LEN_MIN: usize = 4 << 10;
/// Hashes that are kept of what was written, 24 bytes each.
pub const HASHES_MAX: usize = 128 << 10;
/// Hashes that are kept of what one commit writes.
pub const FRESH_MAX: usize = 64 << 10;
/// Pieces of files by whose hashes equal bytes are looked for in all of a volume.
pub const DEDUP_PIECE_LEN: u64 = 4 << 10;
/// Memory that one such hash takes, about.
pub const DEDUP_ENTRY_LEN: usize = 48;
/// Ranges of equal bytes that are looked at together.
pub const DEDUP_FOUND_MAX: usize = 32 << 10;
/// Bytes of these.
pub const DEDUP_FOUND_LEN: u64 = 1 << 30;
/// Bytes of rows that a shared piece takes, at most.
pub const DEDUP_ROW_LEN: u64 = 64;
/// Deltas have at most one part of so many of a volume's bytes, before they are compressed: about as much may be held
/// for them that no file has any more.
pub const DELTAS_SHARE: u64 = 16;
/// Bytes of blocks of one commit that are kept in memory, at most, since others may take their place.
pub const REMEMBERED_LEN: usize = 4 << 20;
/// Snapshots of a volume.
pub const SNAPSHOTS_MAX: usize = 4096;
/// Snapshots whose tables are known while somebody looks at them beside the volume; those looked at last.
pub const SNAPSHOTS_LOOKED_AT: usize = 8;
/// Longest path to a base image, in bytes.
pub const BASE_PATH_MAX: usize = 4096;
/// Bytes of rows in one commit, at most: they are in memory several times while it is written.
pub const ROWS_LEN: u64 = 8 << 20;
/// Bytes of pages that are kept while a moment is looked at.
pub const MOMENT_CACHE_LEN: usize = 32 << 20;
/// Bytes of rows in memory, those that are being settled among them. The more there are, the fewer tables are written
/// anew for each, and the more is kept free for them.
pub const RECENT_LEN: usize = 64 << 20;
/// The same of the smallest volumes.
pub const RECENT_LEN_MIN: usize = 256 << 10;
/// Bytes of a volume from which on that is so; smaller ones have less in proportion.
pub const RECENT_SCALE: u64 = 2 << 30;
/// Commits behind the root, those that are being settled among them, about: opening reads each of them. The more there
/// are, the fewer tables are written anew for short ones.
pub const COMMITS_MAX: u64 = 16 << 10;
/// The same of a volume that was written and closed: whoever closes it has time that whoever opens it has not.
pub const CLOSED_COMMITS_MAX: u64 = 1 << 10;
/// Bytes of tables that are written anew to spare an opening the reading of one commit, at most: on a card both take
/// about a millisecond.
pub const CLOSED_COMMIT_LEN: u64 = 16 << 10;

const _: () = assert!(SUPERBLOCKS_MAX * SUPERBLOCK_STEP <= 2 * SEGMENT_LEN_MIN);
const _: () = assert!((PART_LEN + 2 * ROWS_PAGE_LEN) as u64 <= ASTRAY_LEN);
const _: () = assert!(BLOCK_LEN_MAX as u64 * 2 < SEGMENT_LEN_MIN);
