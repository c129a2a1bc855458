//! The volume home: a log-structured disk that never loses what was synced. `FORMAT.md` has every byte of it
//! in words.
//!
//! Above: doors and verbs. Below: `esker-stone` has the rows, pages and blocks; the knot has the words.
//!
//! | file | what it holds |
//! |---|---|
//! | device/ | the seam to what keeps bytes |
//! | superblock.rs, part.rs, root.rs, rows.rs | what lies on the device |
//! | delta.rs, leaf.rs | rows of a commit, rows of a table |
//! | segments.rs, log.rs | where things go, and what happens when that fails |
//! | commit.rs, commit/ | laying a commit down: blocks, what is there already, what differs little, what is counted |
//! | merge.rs, settle.rs | from rows in memory to tables, and free segments again |
//! | parity.rs | what a damaged part of tables is made from again |
//! | snapshots.rs, snapped.rs | what the volume was like at moments with a name; looking at that |
//! | shelf.rs, shown.rs | snapshots beside what it holds now |
//! | rules.rs, keeper.rs | which snapshots are made by themselves, and go; what is to be done now |
//! | rollback.rs | going back to such a moment |
//! | differences.rs, changes.rs | how two moments differ, as rows and as paths |
//! | room.rs, fold.rs | how much more fits, and making room |
//! | base.rs, lay.rs | an image below; laying a new volume over one |
//! | choose.rs, migrate.rs | which segments are emptied while others write, and doing it |
//! | recovery.rs, mkfs.rs, alter.rs | finding everything again; the first commit; another size or name |
//! | upgrade.rs | what newer versions write, for volumes of older ones |
//! | recover/ | what is left of a volume that is damaged |
//! | stream/ | a snapshot, or how two differ, sent and received |
//! | recent.rs, stack.rs, whole.rs, view.rs | looking: in memory, in tables, at content, and as the knot asks |
//! | moment.rs | what the volume was like a moment ago, while others write |
//! | dedup.rs, dedup/find.rs | equal bytes of all files, named once |
//! | counts.rs | what was written, and why |
//! | check.rs, scrub.rs, dump.rs | counting everything again; mending what has parity; showing what is there |
//! | dirty.rs, cost.rs, promised.rs | what changed since, and what it takes to write that; room that is kept |
//! | layer.rs, home.rs, maker.rs | what is not yet written, in memory; the home that POSIX has |
//!
//! Invariant: nothing that a safe commit needs is ever written over; every byte that comes in is hostile until it was
//! checked.

#![forbid(unsafe_code)]

mod alter;
pub mod base;
mod changes;
mod check;
mod choose;
mod commit;
mod cost;
mod counts;
mod dedup;
pub mod delta;
pub mod device;
mod differences;
mod dirty;
mod discards;
mod dump;
mod error;
mod fold;
mod home;
pub mod keeper;
mod known;
mod lay;
mod layer;
mod leaf;
mod left;
pub mod limits;
mod listing;
mod log;
mod maker;
mod merge;
mod migrate;
pub mod mkfs;
pub mod moment;
mod parity;
pub mod part;
#[cfg(test)]
mod planted;
mod proclaim;
mod promised;
mod ranges;
pub mod recent;
pub mod recover;
mod recovery;
mod replaced;
mod rollback;
mod room;
pub mod root;
pub mod rows;
pub mod rules;
pub mod scrub;
pub mod segments;
mod settle;
mod shelf;
mod shown;
mod snapped;
pub mod snapshots;
mod stack;
pub mod stream;
pub mod superblock;
mod tally;
mod upgrade;
mod vain;
mod view;
mod volume;
mod whole;

pub use alter::Change;
pub use base::{Base, Bases, Below};
pub use changes::{Changed, Changes, How};
pub use check::Finding;
pub use commit::{NoDeltas, Sink, Source};
pub use counts::Counted;
pub use dedup::{Deduped, Deduping};
pub use differences::{Difference, Moment};
pub use dirty::{Dirty, Told};
pub use dump::What;
pub use error::{Damage, Error, NoBase, Result};
pub use home::Kept;
pub use maker::Maker;
pub use merge::Row;
pub use mkfs::{Making, make};
pub use ranges::Ranges;
pub use recovery::{is_there, open};
pub use replaced::Replaced;
pub use shown::{SNAPSHOTS, Shown};
pub use snapped::Snapped;
pub use snapshots::SnapshotError;
pub use stack::State;
pub use superblock::Superblock;
pub use upgrade::Upgrade;
pub use volume::{Options, Volume};
