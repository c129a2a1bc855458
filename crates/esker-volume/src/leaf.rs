//! Leaves of tables: rows of one kind, whichever.
//!
//! Above: `stack`, `settle`. Below: esker-stone's rows. Invariant: a leaf says itself what its rows are.

use esker_stone::cache::Kept;
use esker_stone::key::kind;
use esker_stone::rows::blocks::Blocks;
use esker_stone::rows::extents::Extents;
use esker_stone::rows::inodes::Inodes;
use esker_stone::rows::names::Names;
use esker_stone::rows::numbers;
use esker_stone::rows::places::Listings;
use esker_stone::rows::xattrs::Xattrs;

use crate::error::{Damage, Result};
use crate::rows::{Move, Refs};

/// A leaf, taken apart.
#[derive(Debug)]
pub enum Leaf {
    /// Inodes.
    Inodes(Box<Inodes>),
    /// Names.
    Names(Names),
    /// Places in listings.
    Places(Listings),
    /// Extended attributes.
    Xattrs(Xattrs),
    /// Stretches of files.
    Extents(Extents),
    /// References.
    Refs(Vec<Refs>),
    /// Blocks that were moved.
    Moves(Vec<Move>),
    /// Blocks.
    Blocks(Blocks),
}

impl Leaf {
    /// From its plain bytes.
    ///
    /// # Errors
    /// `Table` for a kind that no table has; `Stone`.
    pub fn decode(plain: &[u8]) -> Result<Self> {
        Ok(match plain.first() {
            Some(&kind::INODE) => Self::Inodes(Box::new(Inodes::decode(plain)?)),
            Some(&kind::NAME) => Self::Names(Names::decode(plain)?),
            Some(&kind::PLACE) => Self::Places(Listings::decode(plain)?),
            Some(&kind::XATTR) => Self::Xattrs(Xattrs::decode(plain)?),
            Some(&kind::EXTENT) => Self::Extents(Extents::decode(plain)?),
            Some(&kind::REFS) => Self::Refs(numbers::decode(plain)?),
            Some(&kind::MOVE) => Self::Moves(numbers::decode(plain)?),
            Some(&kind::BLOCK) => Self::Blocks(Blocks::decode(plain)?),
            _ => return Err(Damage::Table.into()),
        })
    }

    /// What its rows are.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Inodes(_) => kind::INODE,
            Self::Names(_) => kind::NAME,
            Self::Places(_) => kind::PLACE,
            Self::Xattrs(_) => kind::XATTR,
            Self::Extents(_) => kind::EXTENT,
            Self::Refs(_) => kind::REFS,
            Self::Moves(_) => kind::MOVE,
            Self::Blocks(_) => kind::BLOCK,
        }
    }

    /// How many rows it has.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Inodes(rows) => rows.len(),
            Self::Names(rows) => rows.len(),
            Self::Places(rows) => rows.len(),
            Self::Xattrs(rows) => rows.len(),
            Self::Extents(rows) => rows.len(),
            Self::Refs(rows) => rows.len(),
            Self::Moves(rows) => rows.len(),
            Self::Blocks(rows) => rows.len(),
        }
    }
}

impl Kept for Leaf {
    fn memory(&self) -> usize {
        match self {
            Self::Inodes(rows) => rows.memory(),
            Self::Names(rows) => rows.memory(),
            Self::Places(rows) => rows.memory(),
            Self::Xattrs(rows) => rows.memory(),
            Self::Extents(rows) => rows.memory(),
            Self::Refs(rows) => rows.len() * size_of::<Refs>(),
            Self::Moves(rows) => rows.len() * size_of::<Move>(),
            Self::Blocks(rows) => rows.memory(),
        }
    }
}
