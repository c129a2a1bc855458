//! One of the home's trees: the keys of every inode of one group. It exists while it has inodes.
//!
//! Neighbours: `home` locks it, `commit` changes it. Invariant: no inodes, no tree, no bytes.

use alloc::sync::Arc;

use crate::error::{Error, Result};
use crate::ground::Budget;
use crate::limits::PAGE_SIZE;
use crate::store::Flow;
use crate::tree::{Census, HeapPages, Pages, Tree};

/// Pages that a small tree has, and as many as the next change may need.
const FEW: usize = 4;
/// Most pages that any tree keeps in reserve.
const SPARE_MAX: usize = 64;

/// A tree made when first needed.
pub(super) struct SubTree {
    tree: Option<Tree<HeapPages>>,
    budget: Arc<Budget>,
    /// Inodes that live here.
    pub inodes: u64,
}

impl SubTree {
    /// No inodes yet.
    pub(super) const fn new(budget: Arc<Budget>) -> Self {
        Self { tree: None, budget, inodes: 0 }
    }

    fn existing(&mut self) -> Result<&mut Tree<HeapPages>> {
        self.tree.as_mut().ok_or(Error::Corrupt)
    }

    /// As the tree's.
    #[inline]
    pub(super) fn get<R>(&self, key: &[u8], f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>> {
        self.tree.as_ref().map_or(Ok(None), |tree| tree.get(key, f))
    }

    /// As the tree's.
    #[inline]
    pub(super) fn floor<R>(
        &self,
        key: &[u8],
        f: impl FnOnce(&[u8], &[u8]) -> R,
    ) -> Result<Option<R>> {
        self.tree.as_ref().map_or(Ok(None), |tree| tree.floor(key, f))
    }

    /// As the tree's.
    #[inline]
    pub(super) fn scan(&self, from: &[u8], each: impl FnMut(&[u8], &[u8]) -> Flow) -> Result<()> {
        self.tree.as_ref().map_or(Ok(()), |tree| tree.scan(from, each))
    }

    /// As the tree's; `reserve` comes first.
    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.existing()?.put(key, value)
    }

    /// Changes a value that must be there.
    pub(super) fn edit(&mut self, key: &[u8], f: impl FnOnce(&mut [u8])) -> Result<()> {
        self.existing()?.edit(key, f)?.ok_or(Error::Corrupt)
    }

    /// Removes a key that must be there.
    pub(super) fn remove(&mut self, key: &[u8]) -> Result<()> {
        if self.existing()?.remove(key)? { Ok(()) } else { Err(Error::Corrupt) }
    }

    /// As the tree's.
    pub(super) fn remove_range(
        &mut self,
        from: &[u8],
        to: &[u8],
        each: impl FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        self.tree.as_mut().map_or(Ok(0), |tree| tree.remove_range(from, to, each))
    }

    /// Makes sure of so many puts. With `overdraft` the budget does not count.
    pub(super) fn reserve(&mut self, puts: usize, overdraft: bool) -> Result<()> {
        let tree = match &mut self.tree {
            Some(tree) => tree,
            none => none.insert(Tree::new(HeapPages::new(Arc::clone(&self.budget)))?),
        };
        if overdraft {
            tree.pages_mut().overdraft(true);
        }
        let reserved = tree.reserve_puts(puts);
        if overdraft {
            tree.pages_mut().overdraft(false);
        }
        reserved
    }

    /// After every change, made or given up: a tree without inodes goes, and pages that were
    /// reserved for more than the next usual change will need.
    pub(super) fn settle(&mut self) {
        if self.inodes == 0 {
            self.tree = None;
        }
        let Some(tree) = &mut self.tree else { return };
        let (used, held) = (tree.pages().used(), tree.pages().bytes() / PAGE_SIZE);
        if held - used > SPARE_MAX || (used <= FEW && held > 2 * FEW) {
            // Reserving nothing cannot fail.
            let _ = tree.pages_mut().reserve(0);
        }
    }

    /// Bytes of pages held.
    pub(super) fn bytes(&self) -> u64 {
        self.tree.as_ref().map_or(0, |tree| tree.pages().bytes() as u64)
    }

    /// Spoils a page.
    #[cfg(test)]
    pub(super) fn damage(&mut self, page: crate::tree::PageId) {
        let page = self.existing().and_then(|tree| tree.pages_mut().edit(page));
        page.expect("the page is in use").fill(0xa5);
    }

    /// Walks everything; nothing where there is no tree.
    pub(super) fn check(&self) -> Result<Option<Census>> {
        self.tree.as_ref().map(Tree::check).transpose()
    }
}
