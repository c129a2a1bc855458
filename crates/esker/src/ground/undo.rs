//! A memory that outlives kills, over one that only outlives: what a call changes is first put aside, and put back if
//! the call did not end. For mapped files; a canister's memory rolls back by itself and needs none of this.
//!
//! Above: a home, which says when a call is whole ([`Memory::whole`]). Below: two memories, the second for what is put
//! aside. Invariant: a page's old bytes are in the log before its first change since the last `whole`. See
//! FORMAT.md, "The undo log".

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::memory::Memory;
use super::order::Rank;
use super::sync::Mutex;
use crate::error::{Error, Result};
use crate::layout;
use crate::limits::PAGE_SIZE;

layout! {
    /// Which entries of the log count. Two of these are written in turn, at 0 and at 32.
    pub struct UndoHead: 32 {
        /// `EskrUndo`.
         0 => magic: [u8; 8],
        /// Of the format.
         8 => version: u32,
        /// Bytes of a page.
        12 => page_size: u32,
        /// Entries of this number belong to a call that has not ended; the greater of the two counts.
        16 => sequence: u64,
        /// Of the bytes before.
        24 => check: u64,
    }
}

layout! {
    /// One page put aside; its bytes follow.
    pub struct UndoEntry: 24 {
        /// The call's.
         0 => sequence: u64,
        /// The page's number.
         8 => page: u64,
        /// Of the bytes before, and of the page's.
        16 => check: u64,
    }
}

const MAGIC: [u8; 8] = *b"EskrUndo";
const VERSION: u32 = 1;
const PAGE: u64 = PAGE_SIZE as u64;
const ENTRIES_START: u64 = 64;
const ENTRY_LEN: usize = UndoEntry::SIZE + PAGE_SIZE;

/// What is under way.
#[derive(Default)]
struct Call {
    sequence: u64,
    /// Pages put aside.
    pages: BTreeSet<u64>,
}

/// A memory, and a log of what calls change in it.
pub struct Undo<M, L> {
    memory: M,
    log: L,
    call: Mutex<Call>,
}

/// A number that other bytes hardly have.
fn check_of(bytes: &[u8]) -> u64 {
    let words = bytes.as_chunks::<8>().0.iter();
    words.fold(bytes.len() as u64, |sum, word| {
        (sum ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31)
    })
}

impl<M: Memory, L: Memory> Undo<M, L> {
    /// The memory as it was at the end of the last call that ended.
    ///
    /// # Errors
    /// `Corrupt` for a log that holds something else; what the memories say.
    pub fn open(memory: M, log: L) -> Result<Self> {
        let known = log.size() > 0;
        let sequence = if known { Self::sequence(&log)? } else { 0 };
        let call = Mutex::new(Rank::Undo.only(), Call { sequence, pages: BTreeSet::new() });
        let undo = Self { memory, log, call };
        if known {
            undo.put_back(sequence)?;
        } else {
            undo.log.grow(ENTRIES_START)?;
        }
        undo.begin(&mut undo.call.lock())?;
        Ok(undo)
    }

    /// The greater sequence of the heads that are whole.
    fn sequence(log: &L) -> Result<u64> {
        let mut found = None;
        for at in [0, UndoHead::SIZE as u64] {
            let mut bytes = [0; UndoHead::SIZE];
            log.read(at, &mut bytes)?;
            let sound = check_of(&bytes[..24]).to_le_bytes() == bytes[24..];
            if let Some(head) = UndoHead::decode(&bytes).filter(|_| sound)
                && (head.magic, head.version) == (MAGIC, VERSION)
                && head.page_size == PAGE_SIZE as u32
            {
                found = found.max(Some(head.sequence));
            }
        }
        // A log that was being made when it ended has no whole head, and nothing to put back.
        let mut first = [0; ENTRIES_START as usize];
        log.read(0, &mut first)?;
        let (other, made) = first.split_at(UndoHead::SIZE);
        let begun = other == [0; UndoHead::SIZE] && (made[..8] == MAGIC || made[..8] == [0; 8]);
        found.or(begun.then_some(0)).ok_or(Error::Corrupt)
    }

    /// Restores the pages of a call that did not end, the last one put aside first.
    fn put_back(&self, sequence: u64) -> Result<()> {
        let mut entries: Vec<(u64, Box<[u8]>)> = Vec::new();
        let mut bytes = alloc::vec![0; ENTRY_LEN];
        let last = self.log.size().saturating_sub(ENTRIES_START) / ENTRY_LEN as u64;
        for index in 0..last {
            self.log.read(ENTRIES_START + index * ENTRY_LEN as u64, &mut bytes)?;
            let Some(entry) = UndoEntry::decode(&bytes) else { break };
            let page = &bytes[UndoEntry::SIZE..];
            let sound = entry.check == check_of(&bytes[..16]) ^ check_of(page);
            let within = (entry.page.checked_add(1)).and_then(|end| end.checked_mul(PAGE));
            if entry.sequence != sequence
                || !sound
                || within.is_none_or(|end| end > self.memory.size())
            {
                break;
            }
            entries.push((entry.page, page.into()));
        }
        for (page, bytes) in entries.iter().rev() {
            self.memory.write(page * PAGE, bytes)?;
        }
        Ok(())
    }

    /// Another call: entries so far mean nothing any more.
    fn begin(&self, call: &mut Call) -> Result<()> {
        // A log may say anything.
        let sequence = call.sequence.checked_add(1).ok_or(Error::Corrupt)?;
        let head = UndoHead {
            magic: MAGIC,
            version: VERSION,
            page_size: PAGE_SIZE as u32,
            sequence,
            check: 0,
        };
        let mut bytes = head.encode();
        let check = check_of(&bytes[..24]);
        bytes[24..].copy_from_slice(&check.to_le_bytes());
        self.log.write((sequence % 2) * UndoHead::SIZE as u64, &bytes)?;
        call.sequence = sequence;
        call.pages.clear();
        Ok(())
    }

    /// Puts a page aside, if that was not done yet in this call.
    fn put_aside(&self, call: &mut Call, page: u64) -> Result<()> {
        if call.pages.contains(&page) {
            return Ok(());
        }
        let mut bytes = alloc::vec![0; ENTRY_LEN];
        let (head, old) = bytes.split_at_mut(UndoEntry::SIZE);
        self.memory.read(page * PAGE, old)?;
        let entry = UndoEntry { sequence: call.sequence, page, check: 0 };
        let check = check_of(&entry.encode()[..16]) ^ check_of(old);
        head.copy_from_slice(&UndoEntry { check, ..entry }.encode());
        let at = ENTRIES_START + call.pages.len() as u64 * ENTRY_LEN as u64;
        self.log.grow(at + ENTRY_LEN as u64)?;
        self.log.write(at, &bytes)?;
        call.pages.insert(page);
        Ok(())
    }
}

impl<M: Memory, L: Memory> Memory for Undo<M, L> {
    fn size(&self) -> u64 {
        self.memory.size() / PAGE * PAGE
    }

    /// A longer memory is not made shorter again: what is new in it is nobody's.
    fn grow(&self, size: u64) -> Result<()> {
        self.memory.grow(size.checked_next_multiple_of(PAGE).ok_or(Error::NoSpace)?)
    }

    fn read(&self, at: u64, target: &mut [u8]) -> Result<()> {
        self.memory.read(at, target)
    }

    fn write(&self, at: u64, source: &[u8]) -> Result<()> {
        if source.is_empty() {
            return Ok(());
        }
        let end = at.checked_add(source.len() as u64).filter(|&end| end <= self.size());
        let end = end.ok_or(Error::Corrupt)?;
        let mut call = self.call.lock();
        for page in at / PAGE..end.div_ceil(PAGE) {
            self.put_aside(&mut call, page)?;
        }
        self.memory.write(at, source)
    }

    fn whole(&self) -> Result<()> {
        let mut call = self.call.lock();
        if call.pages.is_empty() {
            return Ok(());
        }
        self.memory.whole()?;
        self.begin(&mut call)
    }

    fn sync(&self) -> Result<()> {
        self.memory.sync()?;
        self.log.sync()
    }
}
