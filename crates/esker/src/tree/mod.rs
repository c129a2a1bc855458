//! The ordered map: a B+ tree of slotted pages, keys and values being bytes.
//!
//! | file | what it holds |
//! |---|---|
//! | pages.rs, heap_pages.rs, slabs.rs | where pages live: the seam, and the heap |
//! | key.rs, node.rs, node_mut.rs | the bytes of one page |
//! | sequence.rs | entries in a row, to lay out, split and merge pages |
//! | path.rs | the way from the root to a leaf |
//! | finger.rs | short cuts to a leaf |
//! | insert.rs, remove.rs, scan.rs, check.rs | the verbs |
//!
//! Above: a home. Below: [`Pages`]. Invariant: all leaves are on level 0; a node's keys lie between
//! those that its parent keeps around it; no call panics or fails to end whatever its pages hold.

mod check;
mod finger;
mod heap_pages;
mod insert;
mod key;
mod node;
mod node_mut;
mod pages;
mod path;
mod remove;
mod scan;
mod sequence;
mod slabs;

pub use check::Census;
pub use finger::{Finger, Spot, Tell};
pub use heap_pages::HeapPages;
pub use node::{NodeHeader, NodeSlot};
pub use pages::{LINE, Lines, Page, PageId, PageMut, Pages};
pub use scan::KeptLeaf;

use self::node::Node;
use self::node_mut::NodeMut;
use crate::error::{Error, Result};

/// More levels than a tree ever gets: for one more, the root must have filled, with more than eight
/// nodes below it each of which had to fill.
const LEVELS_MAX: u8 = 16;

/// An ordered map of bytes to bytes. Keys are up to [`KEY_LEN_MAX`](crate::limits::KEY_LEN_MAX)
/// bytes long, values up to [`VALUE_LEN_MAX`](crate::limits::VALUE_LEN_MAX), and sorted as bytes.
///
/// All calls return `Corrupt` when the pages that they touch contradict themselves.
#[derive(Debug)]
pub struct Tree<P> {
    pages: P,
    root: PageId,
    /// How many, the leaves' included.
    levels: u8,
    /// Leaf and slot of the entry that came in last: how a split sees that keys come in ascending.
    newest: Option<(PageId, usize)>,
    /// Rises whenever a key may come to belong to another leaf. Never 0.
    shape: u64,
    /// Nodes whose values moved within.
    laid: u64,
}

impl<P: Pages> Tree<P> {
    /// An empty tree of one page.
    pub fn new(mut pages: P) -> Result<Self> {
        let root = pages.allocate()?;
        NodeMut::create(pages.edit(root)?, 0, PageId(0), &[])?.save();
        Ok(Self { pages, root, levels: 1, newest: None, shape: 1, laid: 0 })
    }

    /// The tree with this root, as [`root`](Self::root) told it. `Corrupt` when no tree has as many
    /// levels.
    pub fn open(pages: P, root: PageId, levels: u8) -> Result<Self> {
        if levels == 0 || levels > LEVELS_MAX {
            return Err(Error::Corrupt);
        }
        Ok(Self { pages, root, levels, newest: None, shape: 1, laid: 0 })
    }

    /// Another root, or the one from before, after pages changed below the tree.
    pub fn reopen(&mut self, root: PageId, levels: u8) -> Result<()> {
        if levels == 0 || levels > LEVELS_MAX {
            return Err(Error::Corrupt);
        }
        (self.root, self.levels, self.newest) = (root, levels, None);
        self.shape += 1;
        Ok(())
    }

    /// The root, and how many levels there are.
    #[must_use]
    pub const fn root(&self) -> (PageId, u8) {
        (self.root, self.levels)
    }

    /// A number that is another after values moved, but for those replaced by longer ones.
    #[must_use]
    pub const fn layout(&self) -> u64 {
        self.shape.wrapping_add(self.laid)
    }

    /// Pages that so many puts may take.
    #[must_use]
    pub const fn pages_for(&self, puts: usize) -> usize {
        let splits = puts.saturating_mul(self.levels as usize);
        splits.saturating_add(puts / 4 + (puts > 0) as usize)
    }

    /// Calls `f` with a key's value, if the key is there.
    #[inline]
    pub fn get<R>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        let bytes = self.pages.get(self.leaf(key)?)?;
        let node = Node::parse(&bytes, 0)?;
        match node.find_far(key)? {
            Ok(at) => Ok(Some(f(node.value(at)?))),
            Err(_) => Ok(None),
        }
    }

    /// Calls `f` with a key's value to be changed in place, if the key is there.
    pub fn edit<R>(&mut self, key: &[u8], f: impl FnOnce(&mut [u8]) -> R) -> Result<Option<R>> {
        let leaf = self.leaf(key)?;
        let Ok(at) = Node::parse(&*self.pages.get(leaf)?, 0)?.find(key)? else {
            return Ok(None);
        };
        let value = NodeMut::parse(self.pages.edit(leaf)?, 0)?.into_value(at)?;
        Ok(Some(f(value)))
    }

    /// Calls `f` with a key's value, the page that it lies in, and where in that, if the key is there.
    pub fn find_value<R>(
        &self,
        key: &[u8],
        f: impl FnOnce(&[u8], PageId, usize) -> R,
    ) -> Result<Option<R>> {
        let leaf = self.leaf(key)?;
        let bytes = self.pages.get(leaf)?;
        let node = Node::parse(&bytes, 0)?;
        match node.find(key)? {
            Ok(at) => Ok(Some(f(node.value(at)?, leaf, node.slot(at)?.value().start))),
            Err(_) => Ok(None),
        }
    }

    /// Makes sure of the pages for so many puts, among any number of edits and removals.
    ///
    /// A put splits one node on each level at most. A split root is two pages more and one more
    /// level, but a root has more than eight keys before it is full.
    pub fn reserve_puts(&mut self, puts: usize) -> Result<()> {
        self.pages.reserve(self.pages_for(puts))
    }

    /// How many levels there are, that of the leaves included.
    #[must_use]
    pub const fn levels(&self) -> usize {
        self.levels as usize
    }

    /// Where the pages live.
    pub const fn pages(&self) -> &P {
        &self.pages
    }

    /// Where the pages live, to be told things. The tree's own pages are not the caller's to
    /// change.
    pub const fn pages_mut(&mut self) -> &mut P {
        &mut self.pages
    }
}
