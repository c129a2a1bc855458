//! Entries come in: in place, by laying the page anew, or by splitting it.
//!
//! Invariant: a put that fails has changed nothing. All pages for its splits are had, from the leaf
//! up to the root, before the first page is written, from the root down.

use super::key::{KeyBuf, common_len};
use super::node::Node;
use super::node_mut::NodeMut;
use super::pages::{PageId, Pages};
use super::path::Path;
use super::sequence::Sequence;
use super::{LEVELS_MAX, Tree};
use crate::error::{Error, Result};
use crate::limits::{KEY_LEN_MAX, PAGE_SIZE, VALUE_LEN_MAX};

/// Bytes that laying a page anew must leave free, or else it would soon be laid anew again: then it
/// is split.
const LAY_SLACK: usize = 64;

/// Bytes that a leaf uses at least so that an entry that begins otherwise than all of its own gets a leaf for itself:
/// to lay the leaf anew, under the little that they have in common, would cost the more the more there are.
const ALONE_MIN: usize = PAGE_SIZE / 2;

/// What a node is to take in.
struct Incoming<'a> {
    /// The slot it gets.
    at: usize,
    /// The slot is there already, and gets another value.
    replaces: bool,
    key: &'a [u8],
    value: &'a [u8],
    /// It follows the entry that came in last.
    ascending: bool,
    /// It is the entry that came in last.
    newest: bool,
}

impl Incoming<'_> {
    /// What the node would hold.
    fn sequence<'a>(&'a self, node: &'a Node<'a>) -> Sequence<'a> {
        let behind = (self.at + usize::from(self.replaces)).min(node.count());
        Sequence {
            before: (node, 0..self.at),
            between: Some((self.key, self.value)),
            behind: (node, behind..node.count()),
        }
    }

    /// How many entries a split should leave in the left node, if not half of the bytes. What grows
    /// at its end leaves full nodes behind; so does what grows in the middle, once it is at a
    /// node's end.
    fn split_wish(&self, count: usize, level: u8) -> Option<usize> {
        if self.at == count {
            Some(count - usize::from(level > 0 && count > 0))
        } else {
            self.ascending.then_some(self.at + 1)
        }
    }
}

impl<P: Pages> Tree<P> {
    /// Inserts an entry, or replaces its value. `TooBig` when the key or the value is longer than
    /// the limits allow, `NoSpace` or `NoMemory` when there are no pages; nothing has changed then.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if key.len() > KEY_LEN_MAX || value.len() > VALUE_LEN_MAX {
            return Err(Error::TooBig);
        }
        let mut path = Path::at(self.root);
        self.find_path(&mut path, key)?;
        self.put_below(&path, key, value, false).map(drop)
    }

    /// Puts an entry where the path to it leads; with `fresh`, `Corrupt` when there is one. Its slot, if no node was
    /// split.
    pub(super) fn put_below(
        &mut self,
        path: &Path,
        key: &[u8],
        value: &[u8],
        fresh: bool,
    ) -> Result<usize> {
        let place = Node::parse(&*self.pages.get(path.leaf)?, 0)?.find(key)?;
        if fresh && place.is_ok() {
            return Err(Error::Corrupt);
        }
        let at = place.unwrap_or_else(|at| at);
        let incoming = Incoming {
            at,
            replaces: place.is_ok(),
            key,
            value,
            ascending: place.is_err() && at > 0 && self.newest == Some((path.leaf, at - 1)),
            newest: place.is_ok() && self.newest == Some((path.leaf, at)),
        };
        self.take_in(path, path.steps().len(), &incoming)?;
        if place.is_err() {
            self.newest = Some((path.leaf, at));
        }
        Ok(at)
    }

    /// Takes an entry into the node below the first `depth` steps of the path.
    fn take_in(&mut self, path: &Path, depth: usize, incoming: &Incoming<'_>) -> Result<()> {
        let (page, level) = (path.page(depth), path.level(depth));
        let Incoming { at, key, value, .. } = *incoming;
        let mut node = NodeMut::parse(self.pages.edit(page)?, level)?;
        let fits =
            if incoming.replaces { node.replace(at, value)? } else { node.insert(at, key, value) };
        if fits {
            node.save();
            return Ok(());
        }
        if !incoming.replaces && node.insert_other(at, key, value)? {
            node.save();
            self.laid += 1;
            return Ok(());
        }
        let separator = if level == 0 { self.behind_all(page, incoming)? } else { None };
        let alone = separator.is_some() && self.stands_alone(page, incoming)?;
        if !alone && self.lay_anew(page, level, incoming)? {
            return Ok(());
        }
        match separator {
            Some(separator) => self.append(path, depth, incoming, &separator)?,
            None => return self.split(path, depth, incoming),
        }
        if incoming.replaces { self.cut(page, 0, at..at + 1) } else { Ok(()) }
    }

    /// What separates an entry from all others in its leaf, if it comes behind them and is the newest.
    fn behind_all(&self, leaf: PageId, incoming: &Incoming<'_>) -> Result<Option<KeyBuf>> {
        let bytes = self.pages.get(leaf)?;
        let node = Node::parse(&bytes, 0)?;
        let last = incoming.at + usize::from(incoming.replaces) == node.count();
        if !last || incoming.replaces != incoming.newest || incoming.at == 0 {
            return Ok(None);
        }
        let (mut last, mut separator) = (KeyBuf::new(), KeyBuf::new());
        node.key(incoming.at - 1, &mut last)?;
        separator.set_tail(0, incoming.key)?;
        separator.truncate(common_len(&last, &separator) + 1);
        Ok(Some(separator))
    }

    /// Whether a new entry, which comes behind all others of its leaf, begins otherwise than these, and they are many:
    /// they stay as they are, under a prefix of their own.
    fn stands_alone(&self, leaf: PageId, incoming: &Incoming<'_>) -> Result<bool> {
        let bytes = self.pages.get(leaf)?;
        let node = Node::parse(&bytes, 0)?;
        let same = incoming.replaces || incoming.key.starts_with(node.prefix);
        Ok(!same && node.header.used_len() >= ALONE_MIN)
    }

    /// A new leaf for an entry that comes behind all others of its leaf, which stay where they are. The
    /// prefix is what the old leaf's keys have in common with the new one: so will those to come, or
    /// else the leaf is laid anew. (The old leaf's own prefix may be far shorter.)
    fn append(
        &mut self,
        path: &Path,
        depth: usize,
        incoming: &Incoming<'_>,
        separator: &[u8],
    ) -> Result<()> {
        let prefix_len = {
            let bytes = self.pages.get(path.page(depth))?;
            let mut first = KeyBuf::new();
            Node::parse(&bytes, 0)?.key(0, &mut first)?;
            common_len(&first, incoming.key)
        };
        let right = self.pages.allocate()?;
        let prefix = &incoming.key[..prefix_len];
        let mut node = NodeMut::create(self.pages.edit(right)?, 0, PageId(0), prefix)?;
        node.insert(0, incoming.key, incoming.value);
        node.save();
        self.hand_up(path, depth, separator, right)
    }

    /// Lays the node anew with the new entry, if there is enough room: without holes, and with
    /// another prefix if the new key asks for it.
    fn lay_anew(&mut self, page: PageId, level: u8, incoming: &Incoming<'_>) -> Result<bool> {
        let old = {
            let bytes = self.pages.get(page)?;
            let node = Node::parse(&bytes, level)?;
            // A new key can shorten the prefix, which frees nothing.
            let new_len = if incoming.replaces { 0 } else { incoming.value.len() };
            let used_len = node.header.used_len() - node.prefix.len();
            if used_len + new_len + LAY_SLACK > PAGE_SIZE {
                return Ok(false);
            }
            let sequence = incoming.sequence(&node);
            if sequence.page_len(0..sequence.count())? + LAY_SLACK > PAGE_SIZE {
                return Ok(false);
            }
            *bytes
        };
        self.laid += 1;
        let node = Node::parse(&old, level)?;
        let (sequence, first) = (incoming.sequence(&node), PageId(node.header.first_child));
        let laid = sequence.lay(0..sequence.count(), level, first, self.pages.edit(page)?);
        if laid.is_err() {
            self.pages.edit(page)?.set(&old);
        }
        laid.map(|()| true)
    }

    /// Splits the node and has its parent take in the right half, before anything is written.
    fn split(&mut self, path: &Path, depth: usize, incoming: &Incoming<'_>) -> Result<()> {
        let (page, level) = (path.page(depth), path.level(depth));
        let mut halves = [[0; PAGE_SIZE]; 2];
        let separator = {
            let bytes = self.pages.get(page)?;
            let node = Node::parse(&bytes, level)?;
            let wish = incoming.split_wish(node.count(), level);
            let first = PageId(node.header.first_child);
            incoming.sequence(&node).split(level, first, wish, &mut halves)?
        };
        let right = self.pages.allocate()?;
        self.hand_up(path, depth, &separator, right)?;
        self.pages.edit(page)?.set(&halves[0]);
        self.pages.edit(right)?.set(&halves[1]);
        Ok(())
    }

    /// Has the parent take in the new node right of the one below the first `depth` steps. On an
    /// error the new node goes.
    fn hand_up(
        &mut self,
        path: &Path,
        depth: usize,
        separator: &[u8],
        right: PageId,
    ) -> Result<()> {
        let taken = match depth.checked_sub(1) {
            None => self.raise(separator, right),
            Some(depth) => {
                let incoming = Incoming {
                    at: usize::from(path.steps()[depth].index),
                    replaces: false,
                    key: separator,
                    value: &right.to_value(),
                    ascending: false,
                    newest: false,
                };
                self.take_in(path, depth, &incoming)
            }
        };
        if taken.is_err() {
            self.pages.free(right);
        }
        self.shape += 1;
        taken
    }

    /// A new root above the old one and its right half.
    fn raise(&mut self, separator: &[u8], right: PageId) -> Result<()> {
        let level = self.levels;
        if level == LEVELS_MAX {
            return Err(Error::Corrupt);
        }
        let root = self.pages.allocate()?;
        let mut node = NodeMut::create(self.pages.edit(root)?, level, self.root, separator)?;
        node.insert(0, separator, &right.to_value());
        node.save();
        (self.root, self.levels) = (root, level + 1);
        Ok(())
    }
}
