//! Entries go out; nodes that become too small merge, and what is empty goes back.
//!
//! Invariant: removing needs no pages. No leaf but the root is ever empty.

use core::ops::Range;

use super::Tree;
use super::key::KeyBuf;
use super::node::{HINTS_RANGE, Node};
use super::node_mut::NodeMut;
use super::pages::{PageId, PageMut, Pages};
use super::path::{Path, Step};
use super::sequence::Sequence;
use crate::error::{Error, Result};
use crate::limits::PAGE_SIZE;

/// A node that uses less than this looks for a sibling to merge with,
const MERGE_BELOW: usize = PAGE_SIZE / 4;
/// each time that it uses so many bytes less,
const MERGE_STEP: usize = PAGE_SIZE / 8;
/// and does so if both together leave as much room again. Where keys go in order a node is soon empty, and what was
/// merged would have been laid anew for nothing.
const MERGED_LEN_MAX: usize = PAGE_SIZE / 2;

/// Whether a node that uses `left` bytes, after it used `before`, stays as it is.
pub(super) const fn stays(before: usize, left: usize) -> bool {
    left >= MERGE_BELOW || left / MERGE_STEP == before / MERGE_STEP
}

impl<P: Pages> Tree<P> {
    /// Removes an entry; whether there was one.
    pub fn remove(&mut self, key: &[u8]) -> Result<bool> {
        let mut path = Path::at(self.root);
        self.find_path(&mut path, key)?;
        self.remove_below(&path, key)
    }

    /// Removes the entry that the path leads to; whether there was one.
    pub(super) fn remove_below(&mut self, path: &Path, key: &[u8]) -> Result<bool> {
        let Ok(at) = Node::parse(&*self.pages.get(path.leaf)?, 0)?.find(key)? else {
            return Ok(false);
        };
        self.cut(path.leaf, 0, at..at + 1)?;
        self.settle(path, path.steps().len())?;
        Ok(true)
    }

    /// Removes all entries with keys from `from` up to but without `to`, and tells each before it
    /// goes. How many there were.
    pub fn remove_range(
        &mut self,
        from: &[u8],
        to: &[u8],
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<usize> {
        let mut removed = 0;
        if from >= to {
            return Ok(removed);
        }
        // Leaf by leaf; each time around, the leaf that `from` belongs to is another.
        let mut path = Path::at(self.root);
        while let Some(start) = self.seek(&mut path, from)? {
            let bytes = self.pages.get(path.leaf)?;
            let node = Node::parse(&bytes, 0)?;
            let end = node.find(to)?.unwrap_or_else(|at| at);
            let mut key = KeyBuf::new();
            node.begin(&mut key)?;
            for index in start..end {
                let value = node.entry(index, &mut key)?;
                each(&key, value);
            }
            let (count, depth) = (node.count(), path.steps().len());
            drop(bytes);
            removed += end.saturating_sub(start);
            if start == 0 && end == count {
                self.detach(&path, depth)?;
                continue;
            }
            if start < end {
                self.cut(path.leaf, 0, start..end)?;
                self.settle(&path, depth)?;
            }
            if end < count {
                break;
            }
        }
        Ok(removed)
    }

    /// Entries of one node go.
    pub(super) fn cut(&mut self, page: PageId, level: u8, range: Range<usize>) -> Result<()> {
        let mut node = NodeMut::parse(self.pages.edit(page)?, level)?;
        node.remove(range)?;
        node.save();
        Ok(())
    }

    /// The node below the first `depth` steps lost something: it may have to go, merge, or as the
    /// root, hand over.
    fn settle(&mut self, path: &Path, depth: usize) -> Result<()> {
        let (page, level) = (path.page(depth), path.level(depth));
        let (count, used_len) = {
            let bytes = self.pages.get(page)?;
            let node = Node::parse(&bytes, level)?;
            (node.count(), node.header.used_len())
        };
        let Some(above) = depth.checked_sub(1) else { return self.lower() };
        if level == 0 && count == 0 {
            return self.detach(path, depth);
        }
        if used_len >= MERGE_BELOW {
            return Ok(());
        }
        let Step { page: parent, index } = path.steps()[above];
        let index = usize::from(index);
        if self.merge(parent, level, index)? || self.merge(parent, level, index + 1)? {
            return self.settle(path, above);
        }
        Ok(())
    }

    /// Merges a node's children `right` and the one left of it, if there are both and they fit.
    fn merge(&mut self, parent: PageId, level: u8, right: usize) -> Result<bool> {
        let Some(separator_at) = right.checked_sub(1) else { return Ok(false) };
        let (left_page, right_page, merged) = {
            let bytes = self.pages.get(parent)?;
            let node = Node::parse(&bytes, level + 1)?;
            if right > node.count() {
                return Ok(false);
            }
            let (left_page, right_page) = (node.child(right - 1)?, node.child(right)?);
            let (left_bytes, right_bytes) =
                (self.pages.get(left_page)?, self.pages.get(right_page)?);
            // Merging shortens no key's suffix: what is used less one prefix and one beginning is
            // the least that both need.
            let (left, right) =
                (Node::parse(&left_bytes, level)?, Node::parse(&right_bytes, level)?);
            let used_len = left.header.used_len() + right.header.used_len();
            let once = HINTS_RANGE.end + left.prefix.len() + right.prefix.len();
            if used_len > MERGED_LEN_MAX + once {
                return Ok(false);
            }
            let mut separator = KeyBuf::new();
            node.key(separator_at, &mut separator)?;
            let child = PageId(right.header.first_child).to_value();
            let sequence = Sequence {
                before: (&left, 0..left.count()),
                between: (level > 0).then_some((&*separator, &child)),
                behind: (&right, 0..right.count()),
            };
            let all = 0..sequence.count();
            if sequence.page_len(all.clone())? > MERGED_LEN_MAX {
                return Ok(false);
            }
            let mut merged = *left_bytes;
            let first = PageId(left.header.first_child);
            sequence.lay(all, level, first, PageMut::new(&mut merged))?;
            (left_page, right_page, merged)
        };
        self.shape += 1;
        self.pages.edit(left_page)?.set(&merged);
        self.pages.free(right_page);
        self.cut(parent, level + 1, separator_at..right)?;
        Ok(true)
    }

    /// The node below the first `depth` steps goes, with all that it holds.
    fn detach(&mut self, path: &Path, depth: usize) -> Result<()> {
        self.shape += 1;
        let page = path.page(depth);
        let Some(above) = depth.checked_sub(1) else {
            self.levels = 1;
            NodeMut::create(self.pages.edit(page)?, 0, PageId(0), &[])?.save();
            return Ok(());
        };
        self.pages.free(page);
        let (Step { page: parent, index }, level) = (path.steps()[above], path.level(above));
        let index = usize::from(index);
        let (count, second) = {
            let bytes = self.pages.get(parent)?;
            let node = Node::parse(&bytes, level)?;
            if node.count() == 0 { (0, None) } else { (node.count(), Some(node.child(1)?)) }
        };
        let Some(second) = second else { return self.detach(path, above) };
        if index > count {
            return Err(Error::Corrupt);
        }
        if index == 0 {
            let mut node = NodeMut::parse(self.pages.edit(parent)?, level)?;
            node.set_first_child(second);
            node.save();
        }
        let slot = index.saturating_sub(1);
        self.cut(parent, level, slot..slot + 1)?;
        self.settle(path, above)
    }

    /// As long as the root has but one child, that is the root.
    fn lower(&mut self) -> Result<()> {
        while self.levels > 1 {
            let child = {
                let bytes = self.pages.get(self.root)?;
                let node = Node::parse(&bytes, self.levels - 1)?;
                if node.count() > 0 {
                    break;
                }
                node.child(0)?
            };
            self.shape += 1;
            self.pages.free(self.root);
            (self.root, self.levels) = (child, self.levels - 1);
        }
        Ok(())
    }
}
