//! One page of the tree, to read.
//!
//! A node is a header, the prefix that all its keys have in common, a sorted array of slots, a gap,
//! and the cells, which grow down from the end of the page. Before the slots there may be room for
//! more, so that what comes or goes among the first ones moves only these. A slot holds the first bytes
//! of its key behind the prefix, so that a search stays within the slots until these are equal. A
//! leaf's values are the tree's; an inner node's are the children, each under the least key that it may
//! hold, but for the first child, which stands in the header. See FORMAT.md, "Tree page".
//!
//! Above: all verbs of the tree. Invariant: whatever the bytes are, no call panics; a node that was
//! parsed has its slots and cells within the page, what a slot says is checked when it is used.

use core::cmp::Ordering;
use core::hint::black_box;
use core::ops::Range;

use super::key::{HEAD_LEN, KeyBuf, cut, rest_len, suffix_behind};
use super::pages::{Page, PageId};
use crate::error::{Error, Result};
use crate::ground::short;
use crate::layout;
use crate::limits::PAGE_SIZE;

layout! {
    /// How a page of the tree begins. See FORMAT.md, "Tree page".
    pub struct NodeHeader: 16 {
         /// Leaves are at 0, the root is highest.
         0 => level: u8,
         /// 1 if there are hints, or 0.
         1 => hinted: u8,
         /// Bytes between the prefix and the slots.
         2 => room: u16,
         /// Inner nodes: the child for keys below that of the first slot. Leaves: zero.
         4 => first_child: u32,
         /// How many slots there are.
         8 => count: u16,
        /// Bytes of the prefix, which follows the header.
        10 => prefix_len: u16,
        /// Where the lowest cell begins.
        12 => cells_start: u16,
        /// Bytes behind `cells_start` that belong to no cell.
        14 => holes_len: u16,
    }
}

layout! {
    /// One entry of a node; sorted. See FORMAT.md, "Tree slot".
    pub struct NodeSlot: 10 {
        /// The first bytes of the suffix as a number, filled up with zeros.
        0 => head: u32,
        /// Bytes of the key behind the prefix, the head's included.
        4 => suffix_len: u16,
        /// Bytes of the value.
        6 => value_len: u16,
        /// Where the cell begins: the suffix behind its head, and the value.
        8 => cell_start: u16,
    }
}

const _: () = assert!(PAGE_SIZE <= u16::MAX as usize);

/// How many slots' heads are repeated behind the header: those at equal steps, so that a search
/// touches these and one or two more lines of the processor's cache.
pub const HINTS: usize = 12;
/// Where in the page the hints are.
pub(super) const HINTS_RANGE: Range<usize> = NodeHeader::SIZE..NodeHeader::SIZE + HINTS * HEAD_LEN;

/// Whether hints are worth their cost. In WebAssembly a few steps more of a search are less than to compare them all.
pub(super) const HINTED: bool = !cfg!(target_arch = "wasm32");

/// A line of the processor's cache, in bytes.
const LINE: usize = 64;

/// Slots from one hint to the next; the first hint is for the slot at this index.
pub(super) const fn hint_step(count: usize) -> usize {
    count / (HINTS + 1)
}

/// A slot's bytes.
pub type RawSlot = [u8; NodeSlot::SIZE];

impl NodeSlot {
    #[inline]
    pub(super) fn parse(bytes: &RawSlot) -> Self {
        Self::decode(bytes).expect("a slot has the bytes of a slot")
    }

    /// The head, which is the first thing in a slot.
    #[inline]
    const fn head_of(&[a, b, c, d, ..]: &RawSlot) -> u32 {
        u32::from_le_bytes([a, b, c, d])
    }

    /// Bytes of the cell.
    #[inline]
    pub(super) const fn cell_len(&self) -> usize {
        rest_len(self.suffix_len as usize) + self.value_len as usize
    }

    /// Where in the page the value is.
    #[inline]
    pub(super) const fn value(&self) -> Range<usize> {
        let start = self.cell_start as usize + rest_len(self.suffix_len as usize);
        start..start + self.value_len as usize
    }
}

impl NodeHeader {
    /// The header of a page, with its numbers in order. `Corrupt` when they are not.
    #[inline(always)]
    pub(super) fn parse(page: &Page, level: u8) -> Result<Self> {
        let header = Self::decode(page).expect("a page is longer than its header");
        let sound = header.level == level
            && header.slots().end <= header.cells_start as usize
            && header.cells_start as usize + header.holes_len as usize <= PAGE_SIZE;
        if sound { Ok(header) } else { Err(Error::Corrupt) }
    }

    /// Where in the page the prefix is.
    #[inline]
    pub(super) const fn prefix(&self) -> Range<usize> {
        HINTS_RANGE.end..HINTS_RANGE.end + self.prefix_len as usize
    }

    /// Where in the page the slots are.
    #[inline]
    pub(super) const fn slots(&self) -> Range<usize> {
        let start = self.prefix().end + self.room as usize;
        start..start + self.count as usize * NodeSlot::SIZE
    }

    /// Bytes between slots and cells.
    #[inline]
    pub(super) const fn gap_len(&self) -> usize {
        self.cells_start as usize - self.slots().end
    }

    /// Bytes that say something.
    pub(super) const fn used_len(&self) -> usize {
        PAGE_SIZE - self.room as usize - self.gap_len() - self.holes_len as usize
    }
}

/// How numbers of eight bytes go on behind the prefix of a node, which ends in the first few of them.
pub struct Tail {
    suffix_len: usize,
    rest_len: usize,
    /// What the prefix says, where it stands before the rest of a number is there.
    known: u64,
    /// Bits of a head that are not a number's.
    shift: usize,
}

impl Tail {
    /// Behind these bytes, if there are no more than a number has.
    pub fn behind(known: &[u8]) -> Option<Self> {
        let suffix_len = size_of::<u64>().checked_sub(known.len())?;
        let head_len = suffix_len.min(HEAD_LEN);
        let worth = known.iter().fold(0, |worth: u64, &byte| worth << 8 | u64::from(byte));
        Some(Self {
            suffix_len,
            rest_len: rest_len(suffix_len),
            known: worth << (8 * head_len),
            shift: 8 * (HEAD_LEN - head_len),
        })
    }
}

/// Where a key is, or else where it would have to go; as of a slice's `binary_search`.
pub type Place = core::result::Result<usize, usize>;

/// A page whose header was checked.
pub struct Node<'a> {
    pub page: &'a Page,
    pub header: NodeHeader,
    pub prefix: &'a [u8],
    pub slots: &'a [RawSlot],
}

impl<'a> Node<'a> {
    /// The node in `page`, which is on `level`. `Corrupt` when it cannot be.
    #[inline(always)]
    pub fn parse(page: &'a Page, level: u8) -> Result<Self> {
        let header = NodeHeader::parse(page, level)?;
        let prefix = page.get(header.prefix()).ok_or(Error::Corrupt)?;
        let (slots, _) = page.get(header.slots()).ok_or(Error::Corrupt)?.as_chunks();
        Ok(Self { page, header, prefix, slots })
    }

    /// How many entries there are.
    #[inline]
    pub const fn count(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub fn slot(&self, index: usize) -> Result<NodeSlot> {
        self.slots.get(index).map(NodeSlot::parse).ok_or(Error::Corrupt)
    }

    #[inline]
    fn bytes(&self, range: Range<usize>) -> Result<&'a [u8]> {
        self.page.get(range).ok_or(Error::Corrupt)
    }

    /// The value of an entry.
    #[inline]
    pub fn value(&self, index: usize) -> Result<&'a [u8]> {
        self.bytes(self.slot(index)?.value())
    }

    /// Puts the prefix into `key`; then [`Self::entry`] may be called with it.
    #[inline]
    pub fn begin(&self, key: &mut KeyBuf) -> Result<()> {
        key.set_tail(0, self.prefix)
    }

    /// The value of an entry; its key's suffix goes into `key`, which holds the prefix already.
    #[inline]
    pub fn entry(&self, index: usize, key: &mut KeyBuf) -> Result<&'a [u8]> {
        let slot = self.slot(index)?;
        let (suffix_len, start) = (slot.suffix_len as usize, slot.cell_start as usize);
        let cell = self.bytes(start..start + slot.cell_len())?;
        let (rest, value) = cell.split_at(rest_len(suffix_len));
        let head = slot.head.to_be_bytes();
        key.set_head(self.prefix.len(), head, suffix_len.min(HEAD_LEN))?;
        if !rest.is_empty() {
            key.set_tail(self.prefix.len() + HEAD_LEN, rest)?;
        }
        Ok(value)
    }

    /// The number that an entry's key ends in, and the value. `Corrupt` when the key ends in anything else.
    #[inline]
    pub fn number(&self, slot: &RawSlot, tail: &Tail) -> Result<(u64, &'a [u8])> {
        let slot = NodeSlot::parse(slot);
        if slot.suffix_len as usize != tail.suffix_len {
            return Err(Error::Corrupt);
        }
        let start = slot.cell_start as usize;
        let value_start = start + tail.rest_len;
        let value = self.bytes(value_start..value_start + slot.value_len as usize)?;
        let mut number = tail.known | u64::from(slot.head) >> tail.shift;
        if tail.rest_len > 0 {
            for &byte in self.bytes(start..value_start)? {
                number = number << 8 | u64::from(byte);
            }
        }
        Ok((number, value))
    }

    /// The whole key of an entry, and its value.
    pub fn key(&self, index: usize, key: &mut KeyBuf) -> Result<&'a [u8]> {
        self.begin(key)?;
        self.entry(index, key)
    }

    /// Where `key` is or would go.
    pub fn find(&self, key: &[u8]) -> Result<Place> {
        self.search::<false>(key)
    }

    /// Which of a few slots, if there are such, is that of `key`.
    #[inline]
    pub fn find_at<const N: usize>(
        &self,
        key: &[u8],
        guesses: [usize; N],
    ) -> Result<Option<usize>> {
        let Some(suffix) = suffix_behind(key, self.prefix) else { return Ok(None) };
        let (head, rest) = cut(suffix);
        for guess in guesses {
            let Some(slot) = self.slots.get(guess) else { continue };
            if NodeSlot::head_of(slot) != head {
                continue;
            }
            let slot = NodeSlot::parse(slot);
            let start = slot.cell_start as usize;
            if slot.suffix_len as usize == suffix.len()
                && short::same(self.bytes(start..start + rest.len())?, rest)
            {
                return Ok(Some(guess));
            }
        }
        Ok(None)
    }

    /// As [`find`](Self::find), with two slots that are looked at first.
    #[inline]
    pub fn find_near(&self, key: &[u8], guesses: [usize; 2]) -> Result<Place> {
        match self.find_at(key, guesses)? {
            Some(index) => Ok(Ok(index)),
            None => self.find(key),
        }
    }

    /// Whether the key of a slot comes before `key`; nothing where there is no such slot.
    #[inline]
    pub fn is_before(&self, index: usize, key: &[u8]) -> Result<Option<bool>> {
        if index >= self.count() {
            return Ok(None);
        }
        let Some(suffix) = suffix_behind(key, self.prefix) else {
            return Ok(Some(short::order(self.prefix, key).is_lt()));
        };
        let (slot, (head, rest)) = (self.slot(index)?, cut(suffix));
        let order = match slot.head.cmp(&head) {
            Ordering::Equal => self.compare(&slot, rest, suffix.len())?,
            order => order,
        };
        Ok(Some(order.is_lt()))
    }

    /// The same in a page that is likely far from the processor.
    pub fn find_far(&self, key: &[u8]) -> Result<Place> {
        // In WebAssembly instructions are what counts, and they only grow by it.
        self.search::<{ !cfg!(target_arch = "wasm32") }>(key)
    }

    #[inline]
    fn search<const FAR: bool>(&self, key: &[u8]) -> Result<Place> {
        let Some(suffix) = suffix_behind(key, self.prefix) else {
            let before = short::order(key, self.prefix).is_lt();
            return Ok(Err(if before { 0 } else { self.count() }));
        };
        let (head, rest) = cut(suffix);
        let end = self.count();
        // Keys that come in order go behind all others. Elsewhere a look at the last slot costs more than it saves.
        if cfg!(target_arch = "wasm32") && end > 0 && head > self.head(end - 1) {
            return Ok(Err(end));
        }
        let Range { start: mut low, end: mut high } = self.narrow(head);
        if FAR {
            self.touch(low..high);
        }
        // Heads alone first: a step is a load and a move that depends on it, nothing to guess.
        while low < high {
            let middle = low.wrapping_add(high) / 2;
            let less = self.head(middle) < head;
            low = if less { middle + 1 } else { low };
            high = if less { high } else { middle };
        }
        if low >= end || self.head(low) != head {
            return Ok(Err(low));
        }
        // Most heads are of one slot alone: it is the only one to be asked.
        let alone = low + 1 >= end || self.head(low + 1) != head;
        let end = if alone { low + 1 } else { end };
        self.find_equal(low..end, head, rest, suffix.len())
    }

    /// Among slots from one with this head on: where the suffix is or would go.
    #[inline]
    fn find_equal(
        &self,
        Range { start: mut low, end: mut high }: Range<usize>,
        head: u32,
        rest: &[u8],
        suffix_len: usize,
    ) -> Result<Place> {
        let mut middle = low;
        while low < high {
            let slot = NodeSlot::parse(&self.slots[middle]);
            let order = match slot.head == head {
                true => self.compare(&slot, rest, suffix_len)?,
                false => Ordering::Greater,
            };
            match order {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(Ok(middle)),
            }
            middle = low.midpoint(high);
        }
        Ok(Err(low))
    }

    /// The head of a slot.
    #[inline]
    fn head(&self, index: usize) -> u32 {
        NodeSlot::head_of(&self.slots[index])
    }

    /// The slots of which one, or else the one behind them, is the first whose head is not less.
    #[inline]
    fn narrow(&self, head: u32) -> Range<usize> {
        let (count, step) = (self.count(), hint_step(self.count()));
        if step == 0 || !HINTED || self.header.hinted == 0 {
            return 0..count;
        }
        // As wide as the hints and without a check for overflow, so that it compiles to a few
        // instructions on many hints at once.
        let mut below = 0u32;
        for hint in self.page[HINTS_RANGE].as_chunks().0 {
            below = below.wrapping_add(u32::from(u32::from_le_bytes(*hint) < head));
        }
        let below = below as usize;
        let low = if below == 0 { 0 } else { below * step + 1 };
        low..if below == HINTS { count } else { (below + 1) * step }
    }

    /// Reads a byte of all lines of the processor's cache that a search among these slots will
    /// likely read one after the other, so that they come at once. Where the cells are is a guess,
    /// for they may lie in any order: keys that came in ascending have them in descending.
    #[inline]
    fn touch(&self, slots: Range<usize>) {
        let start = self.header.slots().start;
        let cells_start = self.header.cells_start as usize;
        let middle = slots.start.midpoint(slots.end);
        let cell = PAGE_SIZE - (PAGE_SIZE - cells_start) * middle / self.count().max(1);
        let (first, last) = (slots.start * NodeSlot::SIZE, slots.end * NodeSlot::SIZE);
        for at in [start + first, start + last, cell.saturating_sub(LINE), cell] {
            black_box(self.page[at % PAGE_SIZE]);
        }
    }

    /// Whether the hints, if there are any, are what the slots say.
    pub(super) fn hints_hold(&self) -> bool {
        if self.header.hinted != 1 {
            return self.header.hinted == 0;
        }
        let step = hint_step(self.count());
        let mut hints = self.page[HINTS_RANGE].as_chunks().0.iter().enumerate();
        hints.all(|(index, hint)| {
            let said = if step == 0 { 0 } else { self.head((index + 1) * step) };
            u32::from_le_bytes(*hint) == said
        })
    }

    /// A slot's key with another of the same head.
    #[inline]
    fn compare(&self, slot: &NodeSlot, rest: &[u8], suffix_len: usize) -> Result<Ordering> {
        let own_len = slot.suffix_len as usize;
        let start = slot.cell_start as usize;
        let own = self.bytes(start..start + rest_len(own_len))?;
        // Most keys that are looked for are there; in WebAssembly to see that is not less.
        if !cfg!(target_arch = "wasm32") && own_len == suffix_len && short::same(own, rest) {
            return Ok(Ordering::Equal);
        }
        Ok(short::order(own, rest).then(own_len.cmp(&suffix_len)))
    }

    /// Which child `key` belongs to, the first being 0.
    #[inline]
    pub fn route(&self, key: &[u8]) -> Result<usize> {
        Ok(match self.find_far(key)? {
            Ok(index) => index + 1,
            Err(index) => index,
        })
    }

    /// A child; there is one more than there are slots.
    #[inline]
    pub fn child(&self, index: usize) -> Result<PageId> {
        let Some(index) = index.checked_sub(1) else {
            return Ok(PageId(self.header.first_child));
        };
        PageId::from_value(self.value(index)?)
    }
}

impl PageId {
    /// As an inner node's value.
    pub(super) const fn to_value(self) -> [u8; 4] {
        self.0.to_le_bytes()
    }

    /// From an inner node's value.
    #[inline]
    pub(super) fn from_value(value: &[u8]) -> Result<Self> {
        let bytes = value.try_into().map_err(|_| Error::Corrupt)?;
        Ok(Self(u32::from_le_bytes(bytes)))
    }
}
