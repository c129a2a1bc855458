//! Answers: the home's [`View`] and [`Store`].
//!
//! Neighbours: `listing` walks directories, `commit` takes batches. Invariant: a lock is held only
//! while keys are looked at, never while bytes are copied out of the memory or a caller is called.

use alloc::vec::Vec;

use super::base::Base;
use super::extents::{self, Extent};
use super::home::Home;
use super::keys::{self, Rest};
use super::record::{self, Record};
use super::write::address;
use crate::attr::{Attr, Kind, Time};
use crate::error::{Error, Result};
use crate::ground::Memory;
use crate::ids::{Cursor, Ino, Span};
use crate::limits::GRANULE;
use crate::name::{Name, XattrName};
use crate::store::{Batch, Entry, Flow, Listed, Space, Store, Use, View};

/// Extents looked up at once for a read.
const EXTENTS_AT_ONCE: usize = 16;

impl<B: Base> View for Home<B> {
    #[inline]
    fn warms(&self) -> bool {
        B::LASTING
    }

    #[inline]
    fn attr(&self, ino: Ino) -> Result<Attr> {
        if B::LASTING {
            return self.record(ino, Record::attr)?;
        }
        let attr = |value: &[u8]| record::record(value)?.attr();
        let is_directory =
            |attr: &Result<Attr>| matches!(attr, Ok(attr) if attr.kind == Kind::Directory);
        self.tree(ino).record(ino, attr, is_directory)?.ok_or(Error::NotFound)?
    }

    #[inline]
    fn entry(&self, dir: Ino, name: Name<'_>) -> Result<Entry> {
        B::entry(self, dir, name.bytes(), || self.find_entry(dir, name))
    }

    fn entries(
        &self,
        dir: Ino,
        after: Cursor,
        attrs: bool,
        each: &mut dyn FnMut(Listed<'_>) -> Flow,
    ) -> Result<()> {
        self.list(dir, after, attrs, each)
    }

    fn read(&self, ino: Ino, at: u64, target: &mut [u8]) -> Result<usize> {
        let mut found = [None; EXTENTS_AT_ONCE];
        let tree = self.tree(ino);
        let start = |value: &[u8]| start_reading(value, at, target);
        let (len, inline) = tree.get_record(ino, start)?.ok_or(Error::NotFound)??;
        if inline || len == 0 {
            return Ok(len);
        }
        let end = at + len as u64;
        let (mut from, to) = (at / GRANULE, end.div_ceil(GRANULE));
        let mut tree = Some(tree);
        while from < to {
            let mut count = 0;
            let held = tree.take().unwrap_or_else(|| self.tree(ino));
            extents::each_extent(&held, ino, from, to, |extent| {
                found[count] = Some(extent.part(from, to));
                count += 1;
                if count < found.len() { Flow::Continue(()) } else { Flow::Break(()) }
            })?;
            drop(held);
            let full = count == found.len();
            for extent in found.iter_mut().take(count).filter_map(Option::take) {
                let gap = (from * GRANULE).max(at)..(extent.start * GRANULE).clamp(at, end);
                fill_hole(target, at, gap);
                let part = (extent.start * GRANULE).max(at)..(extent.end() * GRANULE).min(end);
                fill(target, at, part, |from, bytes| self.read_extent(&extent, from, bytes))?;
                from = extent.end();
            }
            if !full {
                let gap = (from * GRANULE).clamp(at, end)..end;
                fill_hole(target, at, gap);
                break;
            }
        }
        Ok(len)
    }

    #[inline]
    fn reread(&self, ino: Ino, at: u64, target: &mut [u8], now: Time) -> Result<Option<usize>> {
        B::reread(self, ino, at, target, now)
    }

    #[inline]
    fn warm(&self, ino: Ino, after: Use, now: Time) {
        B::warm(self, ino, after, now);
    }

    fn next_data(&self, ino: Ino, at: u64) -> Result<Option<Span>> {
        let tree = self.tree(ino);
        let record = tree.get(&keys::inode(ino), record::record)?.ok_or(Error::NotFound)??;
        if !record.has_content() || at >= record.size {
            return Ok(None);
        }
        if record.own == 0 {
            let end = u64::from(record.inline_len);
            return Ok(Span::new(at, end).filter(|span| !span.is_empty()));
        }
        let mut run: Option<(u64, u64)> = None;
        let to = record.size.div_ceil(GRANULE);
        extents::each_extent(&tree, ino, at / GRANULE, to, |extent| {
            run = match run {
                None if extent.unwritten => None,
                None => Some((extent.start, extent.end())),
                Some((start, end)) if end == extent.start && !extent.unwritten => {
                    Some((start, extent.end()))
                }
                Some(_) => return Flow::Break(()),
            };
            Flow::Continue(())
        })?;
        let bytes = |granule: u64| granule.saturating_mul(GRANULE).clamp(at, record.size);
        Ok(run.and_then(|(start, end)| Span::new(bytes(start), bytes(end))))
    }

    fn xattr(&self, ino: Ino, name: XattrName<'_>, target: &mut Vec<u8>) -> Result<()> {
        let mut next = 0;
        self.tree(ino).scan(
            &keys::xattr(ino, name.bytes(), 0),
            |key, value| match keys::parse(key) {
                Some((owner, Rest::Xattr(found, piece)))
                    if owner == ino && found == name.bytes() && piece == next =>
                {
                    target.extend_from_slice(value);
                    next += 1;
                    Flow::Continue(())
                }
                _ => Flow::Break(()),
            },
        )?;
        match next {
            0 => self.attr(ino).and(Err(Error::NoData)),
            _ => Ok(()),
        }
    }

    fn xattrs(&self, ino: Ino, each: &mut dyn FnMut(XattrName<'_>) -> Flow) -> Result<()> {
        let mut names: Vec<Vec<u8>> = Vec::new();
        self.tree(ino).scan(&keys::xattrs(ino), |key, _| match keys::parse(key) {
            Some((owner, Rest::Xattr(name, piece))) if owner == ino => {
                if piece == 0 {
                    names.push(name.to_vec());
                }
                Flow::Continue(())
            }
            _ => Flow::Break(()),
        })?;
        if names.is_empty() {
            return self.attr(ino).map(drop);
        }
        for name in &names {
            if each(XattrName::parse(name).map_err(|_| Error::Corrupt)?).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn space(&self) -> Space {
        self.space_now()
    }
}

impl<B: Base> Store for Home<B> {
    fn next_ino(&self, parent: Ino, kind: Kind) -> Ino {
        self.number(parent, kind)
    }

    fn commit(&self, batch: &Batch<'_>) -> Result<()> {
        self.apply(batch)
    }

    #[inline(always)]
    fn rewrite(&self, ino: Ino, at: u64, source: &[u8], now: Time) -> Result<bool> {
        B::rewrite(self, ino, at, source, now)
    }

    fn trim(&self, ino: Ino) -> Result<()> {
        self.give_back(ino)
    }

    fn tick(&self) -> Result<u64> {
        let rested = self.trees.iter().map(|tree| tree.write().tick()).sum();
        self.space.tick()?;
        Ok(rested)
    }

    fn sync(&self) -> Result<()> {
        B::sync(self)
    }
}

impl<B: Base> Home<B> {
    /// In how many extents a file's space lies.
    ///
    /// # Errors
    /// `Corrupt` when one cannot be read.
    pub fn extents(&self, ino: Ino) -> Result<usize> {
        let mut count = 0;
        extents::each_extent(&self.tree(ino), ino, 0, u64::MAX, |_| {
            count += 1;
            Flow::Continue(())
        })?;
        Ok(count)
    }

    /// What a name leads to, as the tree has it.
    #[inline]
    pub(super) fn find_entry(&self, dir: Ino, name: Name<'_>) -> Result<Entry> {
        let find = |key: &[u8]| self.tree(dir).name(key, record::entry);
        keys::with_name(dir, name.bytes(), find)?.ok_or(Error::NotFound)?
    }

    /// What `look` says of an inode's record.
    #[inline]
    pub(super) fn record<R>(&self, ino: Ino, look: impl FnOnce(&Record) -> R) -> Result<R> {
        let find = || self.tree(ino).get_record(ino, record::record)?.ok_or(Error::NotFound)?;
        B::record(self, ino, look, find)
    }

    fn read_extent(&self, extent: &Extent, at: u64, target: &mut [u8]) -> Result<()> {
        if extent.unwritten {
            target.fill(0);
            return Ok(());
        }
        self.memory().read(address(extent, at), target)
    }
}

/// How many bytes there are to read; with `true`, they are in `target` already, from the record.
fn start_reading(value: &[u8], at: u64, target: &mut [u8]) -> Result<(usize, bool)> {
    let record = record::record(value)?;
    if !record.has_content() {
        return Err(Error::Invalid);
    }
    let len = record.size.saturating_sub(at).min(target.len() as u64) as usize;
    if record.own > 0 || len == 0 {
        return Ok((len, false));
    }
    let content = record::inline(value)?;
    let content = usize::try_from(at).ok().and_then(|at| content.get(at..)).unwrap_or(&[]);
    let known = content.len().min(len);
    target[..known].copy_from_slice(&content[..known]);
    target[known..len].fill(0);
    Ok((len, true))
}

/// Fills the part of `target` for bytes `part` of a file, where `target` begins at byte `at`.
fn fill(
    target: &mut [u8],
    at: u64,
    part: core::ops::Range<u64>,
    with: impl FnOnce(u64, &mut [u8]) -> Result<()>,
) -> Result<()> {
    if part.is_empty() {
        return Ok(());
    }
    with(part.start, &mut target[(part.start - at) as usize..(part.end - at) as usize])
}

fn fill_hole(target: &mut [u8], at: u64, part: core::ops::Range<u64>) {
    if !part.is_empty() {
        target[(part.start - at) as usize..(part.end - at) as usize].fill(0);
    }
}
