//! The form of a file system at rest: blocks and their index, layers, segments, roots. `FORMAT.md`
//! has every byte of it in words.
//!
//! Above: homes at rest (`esker-image`). Below: the words of the core (numbers, names, attributes). Knows no
//! door, no POSIX and no device: bytes come through [`ReadAt`].
//!
//! | file | what it holds |
//! |---|---|
//! | superblock.rs, root.rs | where everything hangs from |
//! | rest.rs | an image opened: pages and blocks, loaded and checked |
//! | tree.rs, layer.rs | trees of pages: built, filled, searched |
//! | page.rs, rows/ | pages, and what is in them |
//! | group.rs, column.rs, strings.rs, key.rs | rows in columns |
//! | cache.rs | what was decoded, within one limit |
//! | ahead.rs | what is likely to be asked for next, decoded meanwhile |
//! | rooms.rs | where it is decoded to |
//! | chance.rs | what no codec makes smaller |
//! | codec/, transform.rs, check.rs | compression, what comes before it, checksums, hashes |
//! | recipe.rs, deflate/ | blocks that are made of text in other blocks |
//! | words/ | text, its frequent words told by one byte or two |
//! | source.rs, error.rs, limits.rs | where bytes come from, what can be wrong with them, how much there may be |
//!
//! Invariant: every byte that comes in is hostile until it was checked; nothing panics on any of them.

#![deny(unsafe_code)]

pub mod ahead;
pub mod cache;
pub mod chance;
pub mod check;
pub mod codec;
mod column;
pub mod deflate;
mod error;
mod group;
pub mod key;
pub mod layer;
pub mod limits;
mod page;
pub mod recipe;
pub mod rest;
pub mod rooms;
pub mod root;
pub mod rows;
mod source;
mod strings;
pub mod superblock;
mod teller;
mod transform;
pub mod tree;
mod words;

pub use check::{Hash, hash, hex};
pub use codec::jpeg;
pub use codec::{Codec, Encoder, Search, Setting, Shape, Shared};
pub use error::{Damage, Error, Result, Unsupported};
pub use group::{ColumnHead, GroupHead, Measure, groups};
pub use page::{PageRef, Sealed};
pub use recipe::Recipe;
pub use rest::{Rest, Start};
pub use source::ReadAt;
pub use superblock::Superblock;
pub use teller::Teller;
pub use transform::Transform;
pub use words::{Form, Vocabulary, Words, is_text};
