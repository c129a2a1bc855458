//! Entries in their order.
//!
//! Invariant: a scan visits each leaf once at most, whatever the pages say: their first keys must
//! rise.

use super::Tree;
use super::key::{KeyBuf, suffix_behind};
use super::node::Node;
use super::pages::Pages;
use super::path::Path;
use crate::error::{Error, Result};
use crate::store::Flow;

impl<P: Pages> Tree<P> {
    /// Calls `each` with the key and value of every entry from `from` on, in order, until it
    /// breaks.
    pub fn scan(&self, from: &[u8], mut each: impl FnMut(&[u8], &[u8]) -> Flow) -> Result<()> {
        let Some((mut path, mut start)) = self.seek(from)? else { return Ok(()) };
        let (mut key, mut reached) = (KeyBuf::new(), None);
        loop {
            let bytes = self.pages.get(path.leaf)?;
            let node = Node::parse(&bytes, 0)?;
            node.begin(&mut key)?;
            for index in start..node.count() {
                let value = node.entry(index, &mut key)?;
                if index == start {
                    if reached.is_some_and(|reached: KeyBuf| *reached >= *key) {
                        return Err(Error::Corrupt);
                    }
                    reached = Some(key.clone());
                }
                if each(&key, value).is_break() {
                    return Ok(());
                }
            }
            if !self.next_leaf(&mut path)? {
                return Ok(());
            }
            start = 0;
        }
    }

    /// Calls `each` with number and value of every entry whose key is `head` and a big-endian number of 8 bytes, from
    /// the number `from` on, in order, until it breaks.
    pub fn scan_numbers(
        &self,
        head: &[u8],
        from: u64,
        mut each: impl FnMut(u64, &[u8]) -> Flow,
    ) -> Result<()> {
        let mut key = KeyBuf::new();
        key.set_tail(0, head)?;
        key.set_tail(head.len(), &from.to_be_bytes())?;
        let Some((mut path, mut start)) = self.seek(&key)? else { return Ok(()) };
        let mut reached = None;
        loop {
            let bytes = self.pages.get(path.leaf)?;
            let node = Node::parse(&bytes, 0)?;
            let known = suffix_behind(node.prefix, head).filter(|known| known.len() <= 8);
            let known_len = known.map_or(0, <[u8]>::len);
            let number =
                known.map(|known| known.iter().fold(0, |n, &byte| n << 8 | u64::from(byte)));
            node.begin(&mut key)?;
            for index in start..node.count() {
                let (number, value) = match number {
                    Some(known) => node.number(index, known, known_len)?,
                    // The leaf has other keys too.
                    None => {
                        let value = node.entry(index, &mut key)?;
                        let tail = suffix_behind(&key, head).and_then(|tail| tail.try_into().ok());
                        let Some(tail) = tail else { return Ok(()) };
                        (u64::from_be_bytes(tail), value)
                    }
                };
                if reached.is_some_and(|reached| reached >= number) {
                    return Err(Error::Corrupt);
                }
                reached = Some(number);
                if each(number, value).is_break() {
                    return Ok(());
                }
            }
            if !self.next_leaf(&mut path)? {
                return Ok(());
            }
            start = 0;
        }
    }

    /// Calls `f` with the entry of the greatest key that is not greater than `key`.
    pub fn floor<R>(&self, key: &[u8], f: impl FnOnce(&[u8], &[u8]) -> R) -> Result<Option<R>> {
        let mut path = self.path(key)?;
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
        Ok(Some(f(&node.key(at)?, node.value(at)?)))
    }

    /// The leaf and the slot of the first entry from `from` on.
    pub(super) fn seek(&self, from: &[u8]) -> Result<Option<(Path, usize)>> {
        let mut path = self.path(from)?;
        let (at, count) = {
            let bytes = self.pages.get(path.leaf)?;
            let node = Node::parse(&bytes, 0)?;
            (node.find(from)?.unwrap_or_else(|at| at), node.count())
        };
        if at < count {
            return Ok(Some((path, at)));
        }
        Ok(self.next_leaf(&mut path)?.then_some((path, 0)))
    }
}
