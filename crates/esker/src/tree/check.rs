//! Walks the whole tree and believes nothing.
//!
//! Above: the home's `check`, and tests. Invariant: each page is visited once at most.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::Tree;
use super::key::KeyBuf;
use super::node::{Node, NodeHeader, NodeSlot};
use super::pages::{PageId, Pages};
use crate::error::{Error, Result};
use crate::limits::{PAGE_SIZE, VALUE_LEN_MAX};

/// What there is in a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Pages that the root leads to, itself included.
    pub pages: usize,
    /// Entries.
    pub entries: usize,
    /// Bytes of the pages that say something: neither gap nor hole.
    pub bytes: usize,
}

/// The keys that a node may hold: from the first up to but without the second.
type Fences<'a> = (&'a [u8], Option<&'a [u8]>);

#[derive(Default)]
struct Walk {
    census: Census,
    seen: BTreeSet<PageId>,
}

impl<P: Pages> Tree<P> {
    /// Walks all pages: header, cells, order and bounds of keys, depth, that no page is reached
    /// twice.
    /// `Corrupt` when anything is wrong.
    pub fn check(&self) -> Result<Census> {
        let mut walk = Walk::default();
        self.check_node(self.root, self.levels - 1, (&[], None), &mut walk)?;
        Ok(walk.census)
    }

    /// The numbers of all pages that the root leads to, after as good a look.
    pub fn page_ids(&self) -> Result<BTreeSet<PageId>> {
        let mut walk = Walk::default();
        self.check_node(self.root, self.levels - 1, (&[], None), &mut walk)?;
        Ok(walk.seen)
    }

    fn check_node(&self, id: PageId, level: u8, fences: Fences<'_>, walk: &mut Walk) -> Result<()> {
        if !walk.seen.insert(id) {
            return Err(Error::Corrupt);
        }
        let bytes = self.pages.get(id)?;
        let node = Node::parse(&bytes, level)?;
        check_cells(&node)?;
        let keys = check_keys(&node, fences)?;
        walk.census.pages += 1;
        walk.census.bytes += node.header.used_len();
        if level == 0 {
            if node.count() == 0 && id != self.root {
                return Err(Error::Corrupt);
            }
            walk.census.entries += node.count();
            return Ok(());
        }
        for index in 0..=node.count() {
            let lower = index.checked_sub(1).map_or(fences.0, |index| &keys[index]);
            let upper = keys.get(index).map(|key| &**key).or(fences.1);
            self.check_node(node.child(index)?, level - 1, (lower, upper), walk)?;
        }
        Ok(())
    }
}

/// The cells neither overlap nor reach out of the page, the holes are what lies between them, and
/// the hints repeat what the slots say.
fn check_cells(node: &Node<'_>) -> Result<()> {
    let NodeHeader { cells_start, holes_len, .. } = node.header;
    let mut cells: Vec<_> = node.slots.iter().map(NodeSlot::parse).collect();
    cells.sort_unstable_by_key(|slot| slot.cell_start);
    let (mut end, mut holes) = (cells_start as usize, 0);
    for slot in cells.iter().filter(|slot| slot.cell_len() > 0) {
        let gap = (slot.cell_start as usize).checked_sub(end).ok_or(Error::Corrupt)?;
        holes += gap;
        end += gap + slot.cell_len();
    }
    holes += PAGE_SIZE.checked_sub(end).ok_or(Error::Corrupt)?;
    let sound = holes == holes_len as usize && node.hints_hold();
    if sound { Ok(()) } else { Err(Error::Corrupt) }
}

/// The keys rise and lie within the fences; the slots' heads are what the keys say. All keys of an
/// inner node, none of a leaf's.
fn check_keys(node: &Node<'_>, (lower, upper): Fences<'_>) -> Result<Vec<KeyBuf>> {
    let mut keys: Vec<KeyBuf> = Vec::new();
    let mut last: Option<KeyBuf> = None;
    for index in 0..node.count() {
        let mut key = KeyBuf::new();
        node.key(index, &mut key)?;
        let sound = node.find(&key)? == Ok(index)
            && last.as_ref().is_none_or(|last| **last < *key)
            && *key >= *lower
            && upper.is_none_or(|upper| *key < *upper)
            && node.value(index)?.len() <= VALUE_LEN_MAX;
        if !sound {
            return Err(Error::Corrupt);
        }
        last = Some(key.clone());
        if node.header.level > 0 {
            keys.push(key);
        }
    }
    Ok(keys)
}
