//! The way from the root to a leaf, and on to its neighbours.
//!
//! Above: all verbs that need more than one leaf or change its parents. Below: node.rs. Invariant:
//! as long as the tree does not change, each step's page is the child `index` of the step above.

use super::node::Node;
use super::pages::{PageId, Pages};
use super::{LEVELS_MAX, Tree};
use crate::error::{Error, Result};

/// One inner node on the way.
#[derive(Clone, Copy)]
pub struct Step {
    /// The node.
    pub page: PageId,
    /// Which of its children comes next, the first being 0.
    pub index: u16,
}

/// From the root down to a leaf. It is found where it stays: to move it would cost as much as to find it.
pub struct Path {
    steps: [Step; LEVELS_MAX as usize],
    /// How many inner nodes there are on the way.
    depth: usize,
    /// The leaf.
    pub leaf: PageId,
}

impl Path {
    /// At the root, and no further.
    #[inline]
    pub const fn at(root: PageId) -> Self {
        let step = Step { page: root, index: 0 };
        Self { steps: [step; LEVELS_MAX as usize], depth: 0, leaf: root }
    }

    /// The inner nodes, the root first.
    pub fn steps(&self) -> &[Step] {
        &self.steps[..self.depth]
    }

    /// The level of the node below the first `depth` steps.
    pub const fn level(&self, depth: usize) -> u8 {
        (self.depth - depth) as u8
    }

    /// The page below the first `depth` steps.
    pub fn page(&self, depth: usize) -> PageId {
        self.steps().get(depth).map_or(self.leaf, |step| step.page)
    }
}

/// Which child to go down to.
#[derive(Clone, Copy)]
enum Side<'a> {
    First,
    Last,
    Of(&'a [u8]),
}

impl<P: Pages> Tree<P> {
    /// The leaf that `key` belongs to.
    #[inline]
    pub(super) fn leaf(&self, key: &[u8]) -> Result<PageId> {
        let mut page = self.root;
        for level in (1..self.levels).rev() {
            let bytes = self.pages.get(page)?;
            let node = Node::parse(&bytes, level)?;
            page = node.child(node.route(key)?)?;
        }
        Ok(page)
    }

    /// The way to the leaf that `key` belongs to.
    pub(super) fn find_path(&self, path: &mut Path, key: &[u8]) -> Result<()> {
        path.depth = (self.levels - 1) as usize;
        self.descend(path, 0, self.root, Side::Of(key))
    }

    /// Goes down from `page`, which stands below the first `from` steps.
    fn descend(
        &self,
        path: &mut Path,
        from: usize,
        mut page: PageId,
        side: Side<'_>,
    ) -> Result<()> {
        for depth in from..path.depth {
            let bytes = self.pages.get(page)?;
            let node = Node::parse(&bytes, path.level(depth))?;
            let index = match side {
                Side::First => 0,
                Side::Last => node.count(),
                Side::Of(key) => node.route(key)?,
            };
            path.steps[depth] = Step { page, index: index as u16 };
            page = node.child(index)?;
        }
        path.leaf = page;
        Ok(())
    }

    /// Goes to the leaf behind; `false` when there is none. `Corrupt` when it is empty, lest there be no end of such.
    pub(super) fn next_leaf(&self, path: &mut Path) -> Result<bool> {
        for depth in (0..path.depth).rev() {
            let Step { page, index } = path.steps[depth];
            let bytes = self.pages.get(page)?;
            let node = Node::parse(&bytes, path.level(depth))?;
            if usize::from(index) < node.count() {
                path.steps[depth].index = index + 1;
                let child = node.child(usize::from(index) + 1)?;
                self.descend(path, depth + 1, child, Side::First)?;
                let bytes = self.pages.get(path.leaf)?;
                let empty = Node::parse(&bytes, 0)?.count() == 0;
                return if empty { Err(Error::Corrupt) } else { Ok(true) };
            }
        }
        Ok(false)
    }

    /// Goes to the leaf before; `false` when there is none.
    pub(super) fn previous_leaf(&self, path: &mut Path) -> Result<bool> {
        for depth in (0..path.depth).rev() {
            let Step { page, index } = path.steps[depth];
            let Some(index) = index.checked_sub(1) else { continue };
            path.steps[depth].index = index;
            let bytes = self.pages.get(page)?;
            let child = Node::parse(&bytes, path.level(depth))?.child(usize::from(index))?;
            self.descend(path, depth + 1, child, Side::Last)?;
            return Ok(true);
        }
        Ok(false)
    }
}
