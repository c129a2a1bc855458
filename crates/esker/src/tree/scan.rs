//! Entries in their order.
//!
//! Invariant: a scan visits each leaf once at most, whatever the pages say: their first keys must
//! rise.

use alloc::sync::Arc;

use super::Tree;
use super::key::{KeyBuf, suffix_behind};
use super::node::{Node, Tail};
use super::pages::{Page, PageId, Pages};
use super::path::Path;
use crate::error::{Error, Result};
use crate::store::Flow;

/// A leaf as it was when it was found, whatever has become of it in the tree.
pub struct KeptLeaf {
    page: Arc<Page>,
    /// Where to begin.
    start: usize,
}

impl KeptLeaf {
    /// As [`Tree::scan_numbers`], in this leaf alone; whether there may be more behind it.
    #[inline]
    pub fn numbers(&self, from: &[u8], mut each: impl FnMut(u64, &[u8]) -> Flow) -> Result<bool> {
        let node = Node::parse(&self.page, 0)?;
        let flow = Numbers::from(from)?.walk(&node, self.start, &mut each)?;
        Ok(flow.is_continue())
    }
}

/// Keys that end in numbers, which rise.
struct Numbers<'k> {
    /// What they begin with.
    head: &'k [u8],
    /// All that come are greater.
    behind: u64,
}

impl<'k> Numbers<'k> {
    fn from(key: &'k [u8]) -> Result<Self> {
        let (head, number) = key.split_last_chunk().ok_or(Error::Corrupt)?;
        Ok(Self { head, behind: u64::from_be_bytes(*number).saturating_sub(1) })
    }

    /// Those of a leaf, from a slot on; breaks where there are no more.
    #[inline]
    fn walk(
        &mut self,
        node: &Node<'_>,
        start: usize,
        each: &mut impl FnMut(u64, &[u8]) -> Flow,
    ) -> Result<Flow> {
        let tail = suffix_behind(node.prefix, self.head).and_then(Tail::behind);
        let Some(tail) = tail else { return self.walk_others(node, start, each) };
        for slot in node.slots.get(start..).unwrap_or(&[]) {
            let (number, value) = node.number(slot, &tail)?;
            if self.take(number, value, each)?.is_break() {
                return Ok(Flow::Break(()));
            }
        }
        Ok(Flow::Continue(()))
    }

    /// The same in a leaf that has other keys too.
    fn walk_others(
        &mut self,
        node: &Node<'_>,
        start: usize,
        each: &mut impl FnMut(u64, &[u8]) -> Flow,
    ) -> Result<Flow> {
        let mut key = KeyBuf::new();
        node.begin(&mut key)?;
        for index in start..node.count() {
            let value = node.entry(index, &mut key)?;
            let tail = suffix_behind(&key, self.head).and_then(|tail| tail.try_into().ok());
            let Some(tail) = tail else { return Ok(Flow::Break(())) };
            if self.take(u64::from_be_bytes(tail), value, each)?.is_break() {
                return Ok(Flow::Break(()));
            }
        }
        Ok(Flow::Continue(()))
    }

    #[inline]
    fn take(
        &mut self,
        number: u64,
        value: &[u8],
        each: &mut impl FnMut(u64, &[u8]) -> Flow,
    ) -> Result<Flow> {
        if number <= self.behind {
            return Err(Error::Corrupt);
        }
        self.behind = number;
        Ok(each(number, value))
    }
}

impl<P: Pages> Tree<P> {
    /// Calls `each` with the key and value of every entry from `from` on, in order, until it
    /// breaks.
    pub fn scan(&self, from: &[u8], mut each: impl FnMut(&[u8], &[u8]) -> Flow) -> Result<()> {
        let mut path = Path::at(self.root);
        let Some(mut start) = self.seek(&mut path, from)? else { return Ok(()) };
        let (mut key, mut reached) = (KeyBuf::new(), None);
        loop {
            let bytes = self.pages.get(path.leaf)?;
            let node = Node::parse(&bytes, 0)?;
            node.begin(&mut key)?;
            for index in start..node.count() {
                let value = node.entry(index, &mut key)?;
                let rises = |reached: &KeyBuf| **reached < *key;
                if index == start && !reached.as_ref().is_none_or(rises) {
                    return Err(Error::Corrupt);
                }
                if each(&key, value).is_break() {
                    return Ok(());
                }
            }
            if !self.next_leaf(&mut path)? {
                return Ok(());
            }
            (start, reached) = (0, Some(key.clone()));
        }
    }

    /// Calls `each` with number and value of every entry whose key is like `from` but for its last 8 bytes, a
    /// big-endian number that is not 0, from that key on, in order, until it breaks.
    pub fn scan_numbers(
        &self,
        from: &[u8],
        mut each: impl FnMut(u64, &[u8]) -> Flow,
    ) -> Result<()> {
        let mut path = Path::at(self.root);
        let Some(mut start) = self.seek(&mut path, from)? else { return Ok(()) };
        let mut numbers = Numbers::from(from)?;
        loop {
            let bytes = self.pages.get(path.leaf)?;
            let node = Node::parse(&bytes, 0)?;
            let flow = numbers.walk(&node, start, &mut each)?;
            if flow.is_break() || !self.next_leaf(&mut path)? {
                return Ok(());
            }
            start = 0;
        }
    }

    /// The leaf of the first entry from `from` on, if there is one, to be looked at without the tree. Only of pages
    /// that can be kept.
    pub fn keep_leaf(&self, from: &[u8]) -> Result<Option<KeptLeaf>> {
        let mut leaf = self.leaf(from)?;
        let (mut start, count) = self.place_in(leaf, from)?;
        // Mostly there is an entry in the leaf that the key itself belongs to.
        if start == count {
            let mut path = Path::at(self.root);
            let Some(first) = self.seek(&mut path, from)? else { return Ok(None) };
            (leaf, start) = (path.leaf, first);
        }
        let page = self.pages.kept(leaf)?.ok_or(Error::Corrupt)?;
        Ok(Some(KeptLeaf { page, start }))
    }

    /// Where in a leaf the first entry from `from` on is or would be, and how many there are.
    fn place_in(&self, leaf: PageId, from: &[u8]) -> Result<(usize, usize)> {
        let bytes = self.pages.get(leaf)?;
        let node = Node::parse(&bytes, 0)?;
        Ok((node.find(from)?.unwrap_or_else(|at| at), node.count()))
    }

    /// Calls `f` with the entry of the greatest key that is not greater than `key`.
    pub fn floor<R>(&self, key: &[u8], f: impl FnOnce(&[u8], &[u8]) -> R) -> Result<Option<R>> {
        let mut path = Path::at(self.root);
        self.find_path(&mut path, key)?;
        let place = Node::parse(&*self.pages.get(path.leaf)?, 0)?.find(key)?;
        let end = match place {
            Ok(at) => at + 1,
            Err(0) if !self.previous_leaf(&mut path)? => return Ok(None),
            Err(0) => usize::MAX,
            Err(at) => at,
        };
        let bytes = self.pages.get(path.leaf)?;
        let node = Node::parse(&bytes, 0)?;
        let at = end.min(node.count()).checked_sub(1).ok_or(Error::Corrupt)?;
        let mut found = KeyBuf::new();
        let value = node.key(at, &mut found)?;
        Ok(Some(f(&found, value)))
    }

    /// Goes to the leaf of the first entry from `from` on; its slot.
    pub(super) fn seek(&self, path: &mut Path, from: &[u8]) -> Result<Option<usize>> {
        self.find_path(path, from)?;
        let (at, count) = self.place_in(path.leaf, from)?;
        if at < count {
            return Ok(Some(at));
        }
        Ok(self.next_leaf(path)?.then_some(0))
    }
}
