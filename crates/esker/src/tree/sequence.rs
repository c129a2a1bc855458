//! Entries in a row, taken from one or two nodes and one entry between: what a node would hold
//! after a change. Laid into fresh pages, it compacts, splits and merges.
//!
//! Above: insert.rs and remove.rs. Below: node.rs to read, node_mut.rs to write. Invariant: a page
//! is laid only with keys in the order given, under the longest prefix that they share.

use core::ops::Range;
use core::ptr;

use super::key::{KeyBuf, common_len, rest_len};
use super::node::{HINTS_RANGE, Node, NodeSlot};
use super::node_mut::NodeMut;
use super::pages::{Page, PageId, PageMut};
use crate::error::{Error, Result};
use crate::limits::{KEY_LEN_MAX, PAGE_SIZE, VALUE_LEN_MAX};

/// The longest entry, slot included.
const ENTRY_LEN_MAX: usize = NodeSlot::SIZE + KEY_LEN_MAX + VALUE_LEN_MAX;
// See `split_at`: what every page has, a prefix, half of a page, and one entry more.
const _: () = assert!(HINTS_RANGE.end + KEY_LEN_MAX + PAGE_SIZE / 2 + ENTRY_LEN_MAX <= PAGE_SIZE);

/// An entry that is not in a node yet.
pub type NewEntry<'a> = (&'a [u8], &'a [u8]);

/// Entries `before`, perhaps one `between`, and entries `behind`.
pub struct Sequence<'a> {
    pub before: (&'a Node<'a>, Range<usize>),
    pub between: Option<NewEntry<'a>>,
    pub behind: (&'a Node<'a>, Range<usize>),
}

/// Where an entry of a sequence comes from.
enum Source<'a> {
    Node(&'a Node<'a>, usize),
    New(NewEntry<'a>),
}

impl<'a> Sequence<'a> {
    /// How many entries there are.
    pub fn count(&self) -> usize {
        self.before.1.len() + usize::from(self.between.is_some()) + self.behind.1.len()
    }

    fn source(&self, index: usize) -> Source<'a> {
        let before = self.before.1.len();
        match self.between {
            _ if index < before => Source::Node(self.before.0, self.before.1.start + index),
            Some(entry) if index == before => Source::New(entry),
            between => {
                let behind = index - before - usize::from(between.is_some());
                Source::Node(self.behind.0, self.behind.1.start + behind)
            }
        }
    }

    /// The whole key of an entry, and its value.
    pub fn entry(&self, index: usize) -> Result<(KeyBuf, &'a [u8])> {
        let mut key = KeyBuf::new();
        let value = match self.source(index) {
            Source::Node(node, index) => {
                node.begin(&mut key)?;
                node.entry(index, &mut key)?
            }
            Source::New((new_key, value)) => {
                key.set_tail(0, new_key)?;
                value
            }
        };
        Ok((key, value))
    }

    /// Bytes of an entry's slot and cell in a node with a prefix of `prefix_len`.
    fn entry_len(&self, index: usize, prefix_len: usize) -> Result<usize> {
        let (key_len, value_len) = match self.source(index) {
            Source::Node(node, index) => {
                let slot = node.slot(index)?;
                (node.prefix.len() + slot.suffix_len as usize, slot.value_len as usize)
            }
            Source::New((key, value)) => (key.len(), value.len()),
        };
        Ok(NodeSlot::SIZE + rest_len(key_len.saturating_sub(prefix_len)) + value_len)
    }

    /// The longest prefix of some of the entries.
    fn prefix(&self, range: &Range<usize>) -> Result<KeyBuf> {
        if range.is_empty() {
            return Ok(KeyBuf::new());
        }
        let (mut first, _) = self.entry(range.start)?;
        let (last, _) = self.entry(range.end - 1)?;
        first.truncate(common_len(&first, &last));
        Ok(first)
    }

    /// The page of a leaf that has just these entries, which may stay as it is.
    fn whole_leaf(&self, range: &Range<usize>) -> Option<&'a Page> {
        let behind = self.count() - self.behind.1.len();
        let mut places = [(0, &self.before), (behind, &self.behind)].into_iter();
        let place = places.find(|(start, (node, slots))| {
            let count = node.count();
            node.header.level == 0 && slots.len() == count && *range == (*start..start + count)
        });
        place.map(|(_, (node, _))| node.page)
    }

    /// Bytes that a page with some of the entries would use.
    pub fn page_len(&self, range: Range<usize>) -> Result<usize> {
        if self.whole_leaf(&range).is_some() {
            return Ok(PAGE_SIZE);
        }
        let prefix_len = self.prefix(&range)?.len();
        let mut len = HINTS_RANGE.end + prefix_len;
        for index in range {
            len += self.entry_len(index, prefix_len)?;
        }
        Ok(len)
    }

    /// A page with some of the entries. `Corrupt` when they do not fit, which callers see to.
    pub fn lay(
        &self,
        range: Range<usize>,
        level: u8,
        first: PageId,
        mut target: PageMut<'_>,
    ) -> Result<()> {
        if let Some(page) = self.whole_leaf(&range) {
            target.set(page);
            return Ok(());
        }
        let prefix = self.prefix(&range)?;
        let mut node = NodeMut::create(target, level, first, &prefix)?;
        let mut at = 0;
        self.each(range, |key, value| {
            let fits = node.insert(at, key, value);
            at += 1;
            if fits { Ok(()) } else { Err(Error::Corrupt) }
        })?;
        node.save();
        Ok(())
    }

    /// Calls `f` with the whole key and the value of some of the entries.
    fn each(
        &self,
        range: Range<usize>,
        mut f: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        let (mut key, mut begun) = (KeyBuf::new(), None);
        for index in range {
            match self.source(index) {
                Source::Node(node, index) => {
                    if !begun.is_some_and(|begun| ptr::eq(begun, node)) {
                        node.begin(&mut key)?;
                        begun = Some(node);
                    }
                    let value = node.entry(index, &mut key)?;
                    f(&key, value)?;
                }
                Source::New((key, value)) => f(key, value)?,
            }
        }
        Ok(())
    }

    /// How many entries make up half of the bytes.
    fn middle(&self) -> Result<usize> {
        let prefix_len = self.prefix(&(0..self.count()))?.len();
        let (mut low, mut low_len, mut high, mut high_len) = (0, 0, self.count(), 0);
        while low < high {
            if low_len <= high_len {
                low_len += self.entry_len(low, prefix_len)?;
                low += 1;
            } else {
                high -= 1;
                high_len += self.entry_len(high, prefix_len)?;
            }
        }
        Ok(low)
    }

    /// The entry that is to be split before: `wish`, if both parts fit a page. There always is one.
    /// If the new key has its node's prefix, half of a page and one entry are less than a page; if
    /// not, it stands first or last, and the others fit the page that they came from.
    fn split_at(&self, level: u8, wish: Option<usize>) -> Result<usize> {
        let inner = usize::from(level > 0);
        let last = self.count().checked_sub(1 + inner).ok_or(Error::Corrupt)?;
        let wish = wish.map_or_else(|| self.middle(), Ok)?;
        for at in [wish.clamp(1, last.max(1)), self.middle()?, 1, last] {
            if (1..=last).contains(&at)
                && self.page_len(0..at)? <= PAGE_SIZE
                && self.page_len(at + inner..self.count())? <= PAGE_SIZE
            {
                return Ok(at);
            }
        }
        Err(Error::Corrupt)
    }

    /// Lays the entries into two pages, with as many in the left one as `wish` says, or half of the
    /// bytes in each. Returns the least key that belongs to the right one.
    pub fn split(
        &self,
        level: u8,
        first: PageId,
        wish: Option<usize>,
        [left, right]: &mut [Page; 2],
    ) -> Result<KeyBuf> {
        let at = self.split_at(level, wish)?;
        let (left, right) = (PageMut::new(left), PageMut::new(right));
        self.lay(0..at, level, first, left)?;
        let (mut separator, value) = self.entry(at)?;
        if level > 0 {
            let first = PageId::from_value(value)?;
            self.lay(at + 1..self.count(), level, first, right)?;
        } else {
            self.lay(at..self.count(), level, PageId(0), right)?;
            let (before, _) = self.entry(at - 1)?;
            separator.truncate(common_len(&before, &separator) + 1);
        }
        Ok(separator)
    }
}
