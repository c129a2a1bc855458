//! One page of the tree, to change in place.
//!
//! Above: insert.rs, remove.rs, and sequence.rs, which builds new pages with it. Below: the format
//! in node.rs. Invariant: once saved, this is a page that [`Node::parse`](super::node::Node::parse)
//! takes, with its slots in the order that the caller gave them.

use core::ops::Range;

use super::key::{HEAD_LEN, KeyBuf, common_len, cut, rest_len, suffix_behind};
use super::node::{HINTED, HINTS, HINTS_RANGE, NodeHeader, NodeSlot, hint_step};
use super::pages::{PageId, PageMut};
use crate::error::{Error, Result};
use crate::ground::short;
use crate::limits::PAGE_SIZE;

/// A page whose header was checked.
pub struct NodeMut<'a> {
    page: PageMut<'a>,
    header: NodeHeader,
    /// The least slot that is not what it was,
    changed: usize,
    /// when hints were this far apart, or 0 if there were none.
    step: usize,
}

impl<'a> NodeMut<'a> {
    /// An empty node instead of what is in `page`. `Corrupt` when the prefix is longer than any
    /// key.
    pub fn create(mut page: PageMut<'a>, level: u8, first: PageId, prefix: &[u8]) -> Result<Self> {
        let header = NodeHeader {
            level,
            hinted: HINTED as u8,
            room: 0,
            first_child: first.0,
            count: 0,
            prefix_len: prefix.len() as u16,
            cells_start: PAGE_SIZE as u16,
            holes_len: 0,
        };
        page.part(header.prefix()).ok_or(Error::Corrupt)?.copy_from_slice(prefix);
        Ok(Self { page, header, changed: 0, step: 0 })
    }

    /// The node in `page`, which is on `level`. `Corrupt` when it cannot be.
    pub fn parse(page: PageMut<'a>, level: u8) -> Result<Self> {
        let header = NodeHeader::parse(&page, level)?;
        let step = if header.hinted == 0 { 0 } else { hint_step(header.count as usize) };
        Ok(Self { page, header, changed: usize::MAX, step })
    }

    /// Writes the header and the hints, which tell of the slots: after all changes.
    pub fn save(&mut self) {
        self.header.hinted = HINTED as u8;
        self.put(0, &self.header.encode());
        if HINTED {
            self.save_hints();
        }
    }

    fn save_hints(&mut self) {
        let step = hint_step(self.header.count as usize);
        if step == 0 {
            if let Some(hints) = self.page.part(HINTS_RANGE) {
                hints.fill(0);
            }
            return;
        }
        let known = if step == self.step { self.changed.div_ceil(step) } else { 0 };
        let first = known.saturating_sub(1);
        if first >= HINTS {
            return;
        }
        let (mut hints, mut source) = ([[0; HEAD_LEN]; HINTS], self.slot_start((first + 1) * step));
        for hint in &mut hints[first..] {
            // The head is the first field of a slot.
            let Some(head) = self.page.get(source..source + HEAD_LEN) else { return };
            hint.copy_from_slice(head);
            source += step * NodeSlot::SIZE;
        }
        self.put(HINTS_RANGE.start + first * HEAD_LEN, hints[first..].as_flattened());
    }

    /// Bytes to where there is room for them.
    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(target) = self.page.part(at..at + bytes.len()) {
            short::copy(target, bytes);
        }
    }

    fn slot_start(&self, index: usize) -> usize {
        self.header.slots().start + index * NodeSlot::SIZE
    }

    fn slot(&self, index: usize) -> Result<NodeSlot> {
        if index >= self.header.count as usize {
            return Err(Error::Corrupt);
        }
        NodeSlot::decode(&self.page[self.slot_start(index)..]).ok_or(Error::Corrupt)
    }

    fn set_slot(&mut self, index: usize, slot: &NodeSlot) {
        let start = self.slot_start(index);
        self.put(start, &slot.encode());
    }

    /// How many entries there are.
    pub const fn count(&self) -> usize {
        self.header.count as usize
    }

    /// Bytes that say something.
    pub const fn used_len(&self) -> usize {
        self.header.used_len()
    }

    /// Bytes of an entry's slot and cell.
    pub fn entry_len(&self, index: usize) -> Result<usize> {
        Ok(NodeSlot::SIZE + self.slot(index)?.cell_len())
    }

    /// A new cell in the gap, which is wide enough, and the slot to go with it.
    fn add_cell(&mut self, suffix: &[u8], value: &[u8]) -> NodeSlot {
        let (head, rest) = cut(suffix);
        let end = self.header.cells_start as usize;
        let middle = end - value.len();
        let start = middle - rest.len();
        self.put(start, rest);
        self.put(middle, value);
        self.header.cells_start = start as u16;
        NodeSlot {
            head,
            suffix_len: suffix.len() as u16,
            value_len: value.len() as u16,
            cell_start: start as u16,
        }
    }

    /// A new entry at `index`, if it has the node's prefix and fits without moving other cells.
    pub fn insert(&mut self, index: usize, key: &[u8], value: &[u8]) -> bool {
        let Some(suffix) = suffix_behind(key, &self.page[self.header.prefix()]) else {
            return false;
        };
        let (cell_len, gap_len) = (rest_len(suffix.len()) + value.len(), self.header.gap_len());
        // Of the slots, those move that are fewer, if there is room on their side.
        let (slots, start) = (self.header.slots(), self.slot_start(index));
        let near = 2 * index < self.count() || NodeSlot::SIZE + cell_len > gap_len;
        let forward = near && self.header.room as usize >= NodeSlot::SIZE;
        if cell_len + if forward { 0 } else { NodeSlot::SIZE } > gap_len {
            return false;
        }
        let slot = self.add_cell(suffix, value);
        if forward {
            self.page.move_within(slots.start..start, slots.start - NodeSlot::SIZE);
            self.header.room -= NodeSlot::SIZE as u16;
        } else {
            self.page.move_within(start..slots.end, start + NodeSlot::SIZE);
        }
        self.header.count += 1;
        self.changed = self.changed.min(index);
        self.set_slot(index, &slot);
        true
    }

    /// A new entry at `index` that begins otherwise than all others, if there is room to write the cells of these
    /// anew, under what they have in common with it.
    pub fn insert_other(&mut self, index: usize, key: &[u8], value: &[u8]) -> Result<bool> {
        let prefix = self.header.prefix();
        let common_len = common_len(&self.page[prefix.clone()], key);
        // What their suffixes begin with from then on.
        let more = prefix.start + common_len..prefix.end;
        if more.is_empty() {
            return Ok(false);
        }
        let cells_len =
            PAGE_SIZE - self.header.cells_start as usize - self.header.holes_len as usize;
        // No suffix has more bytes in its cell than it has bytes more.
        let longer = cells_len + self.count() * more.len();
        let own = NodeSlot::SIZE + rest_len(key.len() - common_len) + value.len();
        if longer + own > self.header.gap_len() {
            return Ok(false);
        }
        let mut suffix = KeyBuf::new();
        suffix.set_tail(0, &self.page[more.clone()])?;
        for index in 0..self.count() {
            self.lengthen(index, more.len(), &mut suffix)?;
        }
        self.header.prefix_len = common_len as u16;
        self.header.room += more.len() as u16;
        self.changed = 0;
        Ok(self.insert(index, key, value))
    }

    /// A new cell for an entry whose suffix begins with the first `more` bytes of `suffix` from now on. `Corrupt` when
    /// cells lie in each other, so that there is no room.
    fn lengthen(&mut self, index: usize, more: usize, suffix: &mut KeyBuf) -> Result<()> {
        let slot = self.slot(index)?;
        let (head_len, old) = ((slot.suffix_len as usize).min(HEAD_LEN), slot.value());
        if slot.cell_start < self.header.cells_start || old.end > PAGE_SIZE {
            return Err(Error::Corrupt);
        }
        suffix.set_head(more, slot.head.to_be_bytes(), head_len)?;
        suffix.set_tail(more + head_len, &self.page[slot.cell_start as usize..old.start])?;
        let (head, rest) = cut(suffix);
        if rest.len() + old.len() > self.header.gap_len() {
            return Err(Error::Corrupt);
        }
        let middle = self.header.cells_start as usize - old.len();
        let start = middle - rest.len();
        self.put(start, rest);
        self.page.copy_down(old, middle);
        self.header.cells_start = start as u16;
        self.add_hole(slot.cell_len())?;
        let suffix_len = suffix.len() as u16;
        self.set_slot(index, &NodeSlot { head, suffix_len, cell_start: start as u16, ..slot });
        Ok(())
    }

    /// Another value for an entry, if it fits without moving other cells.
    pub fn replace(&mut self, index: usize, value: &[u8]) -> Result<bool> {
        let mut slot = self.slot(index)?;
        let cell_start = slot.cell_start as usize;
        let rest = cell_start..slot.value().start;
        if value.len() <= slot.value_len as usize {
            let hole_len = slot.value_len as usize - value.len();
            slot.value_len = value.len() as u16;
            let target = self.page.part(slot.value()).ok_or(Error::Corrupt)?;
            short::copy(target, value);
            self.add_hole(hole_len)?;
        } else {
            let old = cell_start..cell_start + slot.cell_len();
            self.page.get(old.clone()).ok_or(Error::Corrupt)?;
            // The lowest cell grows where it is.
            let lowest = old.start == self.header.cells_start as usize;
            let end = if lowest { old.end } else { self.header.cells_start as usize };
            if self.header.slots().end + rest.len() + value.len() > end {
                return Ok(false);
            }
            if !lowest {
                self.add_hole(slot.cell_len())?;
            }
            let start = end - value.len() - rest.len();
            self.page.move_within(rest, start);
            self.put(end - value.len(), value);
            self.header.cells_start = start as u16;
            (slot.cell_start, slot.value_len) = (start as u16, value.len() as u16);
        }
        self.set_slot(index, &slot);
        Ok(true)
    }

    /// Some entries go.
    pub fn remove(&mut self, range: Range<usize>) -> Result<()> {
        for index in range.clone() {
            self.add_hole(self.slot(index)?.cell_len())?;
        }
        let (start, end) = (self.slot_start(range.start), self.slot_start(range.end));
        let slots = self.header.slots();
        if start - slots.start < slots.end - end {
            self.page.move_within(slots.start..start, slots.start + (end - start));
            self.header.room += (end - start) as u16;
        } else {
            self.page.move_within(end..slots.end, start);
        }
        self.header.count -= range.len() as u16;
        self.changed = self.changed.min(range.start);
        if self.header.count == 0 {
            let header = &mut self.header;
            (header.room, header.cells_start, header.holes_len) = (0, PAGE_SIZE as u16, 0);
        }
        Ok(())
    }

    /// Another first child of an inner node.
    pub fn set_first_child(&mut self, child: PageId) {
        self.header.first_child = child.0;
    }

    /// The value of an entry, to be changed.
    pub fn into_value(self, index: usize) -> Result<&'a mut [u8]> {
        let range = self.slot(index)?.value();
        self.page.into_part(range).ok_or(Error::Corrupt)
    }

    /// Bytes of a cell are no longer needed.
    fn add_hole(&mut self, len: usize) -> Result<()> {
        let holes_len = self.header.holes_len as usize + len;
        if self.header.cells_start as usize + holes_len > PAGE_SIZE {
            return Err(Error::Corrupt);
        }
        self.header.holes_len = holes_len as u16;
        Ok(())
    }
}
