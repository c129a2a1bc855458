//! The memory home: a file system in a growable memory.
//!
//! | file | what it holds |
//! |---|---|
//! | keys.rs, record.rs | the bytes of the tree |
//! | home.rs, subtree.rs | sub-trees, counters, locks |
//! | view.rs, listing.rs | answers |
//! | plan.rs, write.rs, resize.rs, share.rs | what a batch will change |
//! | commit.rs | changing it, whole or not at all |
//! | extents.rs | a file's extents |
//! | check.rs, finding.rs | doubting everything |
//! | few.rs | short lists |
//! | hints.rs | short cuts to keys |
//! | space.rs, free.rs, resting.rs, refs.rs, pairs.rs | data space, and who shares it |
//! | base.rs | what all that stands on |
//! | resident | the embedded home: standing on nothing but the memory |
//!
//! Above: `store`, whose contract this keeps. Below: `tree` and `ground`. Invariant: all keys of an
//! inode are in the sub-tree of its group, and whoever changes or reads an inode's content has
//! locked the inode above.

mod base;
mod check;
mod commit;
mod extents;
mod few;
mod finding;
mod free;
mod hints;
mod home;
mod keys;
mod listing;
mod pairs;
mod plan;
#[cfg(test)]
mod planted;
mod record;
mod refs;
mod resident;
mod resize;
mod resting;
mod share;
mod space;
mod subtree;
mod view;
mod write;

pub use base::{Base, Sheets};
pub use finding::Finding;
pub use free::Run;
pub use home::{Home, Options, Usage};
pub use pairs::Pairs;
pub use plan::Ledger;
pub use resident::{OpenError, Resident, Superblock, Tuning};
