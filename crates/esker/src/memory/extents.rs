//! A file's extents, and the window through which a commit changes them.
//!
//! Neighbours: `write`, `resize` and `share` splice; `commit` carries what differs into the tree.
//! Invariant: extents are in order, do not overlap and are not empty; a window holds all extents
//! that touch what was loaded.

use core::ops::Range;

use super::base::Sheets;
use super::few::Few;
use super::free::Run;
use super::keys::{self, Rest};
use super::record::ExtentValue;
use super::subtree::SubTree;
use crate::error::{Error, Result};
use crate::ids::Ino;
use crate::limits::{FILE_SIZE_MAX, GRANULE};
use crate::store::Flow;

/// Past the last granule of any file and of any memory. An extent's ends may lie a little behind: nothing that
/// is counted in bytes overflows there.
const GRANULES_MAX: u64 = FILE_SIZE_MAX / GRANULE;
/// Most granules of one extent: what its value can tell.
const LEN_MAX: u64 = u32::MAX as u64;

/// A run of granules of a file and where it lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// The first granule of the file.
    pub start: u64,
    /// Granules.
    pub len: u64,
    /// The first granule in the memory.
    pub place: u64,
    /// Has space but no bytes yet: reads as zeros.
    pub unwritten: bool,
}

/// Extents in a row.
pub(super) type Extents = Few<Extent, 2>;

impl Extent {
    /// One past the last granule of the file.
    pub(super) fn end(&self) -> u64 {
        self.start + self.len
    }

    /// Where it lies.
    pub(super) fn run(&self) -> Run {
        Run { start: self.place, len: self.len }
    }

    /// The part within `from..to`, which it touches.
    pub(super) fn part(&self, from: u64, to: u64) -> Self {
        let (start, end) = (self.start.max(from), self.end().min(to));
        Self { start, len: end - start, place: self.place + (start - self.start), ..*self }
    }

    /// `next` goes on where this one ends, in the file and in the memory.
    fn goes_on(&self, next: &Self) -> bool {
        self.end() == next.start
            && self.place + self.len == next.place
            && self.unwritten == next.unwritten
            && self.len + next.len <= LEN_MAX
    }

    /// As the tree has it.
    pub(super) fn encode(&self) -> [u8; ExtentValue::SIZE] {
        let place = (self.place * GRANULE) | u64::from(self.unwritten);
        debug_assert!(self.len <= LEN_MAX, "longer runs are cut in pieces");
        ExtentValue { place, len: self.len as u32 }.encode()
    }

    /// From the tree.
    pub(super) fn decode(start: u64, value: &[u8]) -> Result<Self> {
        let value = ExtentValue::decode(value).ok_or(Error::Corrupt)?;
        let (place, unwritten) = (value.place / GRANULE, value.place & 1 != 0);
        let extent = Self { start, len: u64::from(value.len), place, unwritten };
        let sound = extent.len > 0 && start <= GRANULES_MAX && place <= GRANULES_MAX;
        if sound { Ok(extent) } else { Err(Error::Corrupt) }
    }
}

/// Appends a run in as few extents as can be.
pub(super) fn append(extents: &mut Extents, extent: Extent) {
    match extents.last_mut() {
        Some(last) if last.goes_on(&extent) => last.len += extent.len,
        _ => {
            let mut at = extent.start;
            while at < extent.end() {
                let piece = extent.part(at, extent.end().min(at + LEN_MAX));
                at = piece.end();
                extents.push(piece);
            }
        }
    }
}

/// The extent of the inode that holds granule `at`.
pub(super) fn holding<P: Sheets>(tree: &SubTree<P>, ino: Ino, at: u64) -> Result<Option<Extent>> {
    let found = tree.floor(&keys::extent(ino, at), |key, value| match keys::parse(key) {
        // The keys of a damaged page may not rise.
        Some((owner, Rest::Extent(start))) if owner == ino && start > at => Err(Error::Corrupt),
        Some((owner, Rest::Extent(start))) if owner == ino => {
            Extent::decode(start, value).map(Some)
        }
        _ => Ok(None),
    })?;
    Ok(found.transpose()?.flatten().filter(|extent| extent.end() > at))
}

/// Whether an extent of the inode ends behind granule `at`.
pub(super) fn reaches<P: Sheets>(tree: &SubTree<P>, ino: Ino, at: u64) -> Result<bool> {
    let last = tree.floor(&keys::extents_end(ino), |key, value| match keys::parse(key) {
        Some((owner, Rest::Extent(start))) if owner == ino => {
            Extent::decode(start, value).map(|extent| extent.end() > at)
        }
        _ => Ok(false),
    })?;
    last.unwrap_or(Ok(false))
}

/// Tells every extent of the inode that touches granules `from..to`, in order, as the tree has
/// them.
pub(super) fn each_extent<P: Sheets>(
    tree: &SubTree<P>,
    ino: Ino,
    from: u64,
    to: u64,
    mut each: impl FnMut(Extent) -> Flow,
) -> Result<()> {
    if from >= to {
        return Ok(());
    }
    if let Some(extent) = holding(tree, ino, from)?
        && (each(extent).is_break() || extent.end() >= to)
    {
        return Ok(());
    }
    let (mut failed, mut last) = (None, from);
    tree.scan(&keys::extent(ino, from + 1), |key, value| {
        let start = match keys::parse(key) {
            Some((owner, Rest::Extent(start))) if owner == ino && start < to => start,
            _ => return Flow::Break(()),
        };
        // In damaged pages they may not rise, and whoever goes on behind the last would come to no end.
        if start <= last {
            failed = Some(Error::Corrupt);
            return Flow::Break(());
        }
        last = start;
        match Extent::decode(start, value) {
            Ok(extent) => each(extent),
            Err(error) => {
                failed = Some(error);
                Flow::Break(())
            }
        }
    })?;
    failed.map_or(Ok(()), Err)
}

/// A stretch of a file that either has one extent's space or is a hole.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Piece {
    /// The first granule of the file.
    pub start: u64,
    /// Granules.
    pub len: u64,
    /// What is there, cut to the stretch.
    pub extent: Option<Extent>,
}

/// Pieces in a row.
pub(super) type Pieces = Few<Piece, 2>;

/// The extents of one inode as far as a commit looks at them: as they are and as they will be.
#[derive(Debug, Default)]
pub(super) struct Window {
    /// Granules of the file of which everything is here.
    loaded: Range<u64>,
    stored: Extents,
    now: Extents,
    /// There is nothing in the tree behind this window: a new inode, or one that was emptied.
    pub alone: bool,
    /// The tree's extents go, all of them.
    pub wiped: bool,
}

impl Window {
    /// Of an inode that is not in the tree yet.
    pub(super) fn of_new() -> Self {
        Self { alone: true, ..Self::default() }
    }

    /// Nothing was looked at yet.
    pub(super) fn untouched(&self) -> bool {
        self.loaded.is_empty() && self.now.is_empty()
    }

    /// Makes sure that all extents that touch `from..to`, or end or begin there, are here.
    pub(super) fn load<P: Sheets>(
        &mut self,
        tree: &SubTree<P>,
        ino: Ino,
        from: u64,
        to: u64,
    ) -> Result<()> {
        let (from, to) = (from.saturating_sub(1), to.saturating_add(1));
        if self.alone || (self.loaded.start <= from && to <= self.loaded.end) {
            return Ok(());
        }
        if self.loaded.is_empty() {
            self.loaded = from..from;
        }
        if from < self.loaded.start {
            let mut more = Extents::default();
            read(tree, ino, from, self.loaded.start, &mut more)?;
            self.loaded.start = more.first().map_or(from, |extent| extent.start.min(from));
            for known in [&mut self.now, &mut self.stored] {
                *known = more.iter().chain(known.iter()).copied().collect();
            }
        }
        if to > self.loaded.end {
            let known = self.stored.len();
            read(tree, ino, self.loaded.end, to, &mut self.stored)?;
            let more = &self.stored[known..];
            self.now.extend(more.iter().copied());
            if let Some(first) = more.first() {
                self.loaded.start = self.loaded.start.min(first.start);
            }
            self.loaded.end = more.last().map_or(to, |extent| extent.end().max(to));
        }
        Ok(())
    }

    /// The first extent that ends behind `at`.
    fn position(&self, at: u64) -> usize {
        self.now.partition_point(|extent| extent.end() <= at)
    }

    /// What is at `at`, up to `to`, which lies behind it.
    pub(super) fn piece(&self, at: u64, to: u64) -> Piece {
        match self.now.get(self.position(at)) {
            Some(extent) if extent.start <= at => {
                let part = extent.part(at, to);
                Piece { start: at, len: part.len, extent: Some(part) }
            }
            next => {
                let end = next.map_or(to, |extent| extent.start.min(to));
                Piece { start: at, len: end - at, extent: None }
            }
        }
    }

    /// Everything from `from` to `to` in order, holes too.
    pub(super) fn pieces(&self, from: u64, to: u64) -> impl Iterator<Item = Piece> {
        let mut at = from;
        core::iter::from_fn(move || {
            let piece = (at < to).then(|| self.piece(at, to))?;
            at += piece.len;
            Some(piece)
        })
    }

    /// The extent that ends at `at`.
    pub(super) fn ending(&self, at: u64) -> Option<Extent> {
        let last = self.now[..self.position(at)].last();
        last.copied().filter(|extent| extent.end() == at)
    }

    /// Where the hole that holds `at` begins.
    pub(super) fn hole_start(&self, at: u64) -> u64 {
        self.now[..self.position(at)].last().map_or(0, Extent::end)
    }

    /// One past the last granule with space, of what is loaded.
    pub(super) fn end(&self) -> u64 {
        self.now.last().map_or(0, Extent::end)
    }

    /// Puts `fresh` in the place of whatever lies in `from..to`; how many granules there are more.
    pub(super) fn splice(&mut self, from: u64, to: u64, fresh: &[Extent]) -> i64 {
        let (first, last) =
            (self.position(from), self.now.partition_point(|extent| extent.start < to));
        let touched = &self.now[first..last.max(first)];
        let mut merged = Extents::default();
        let before = first.checked_sub(1).map(|index| self.now[index]);
        let head = touched.first().filter(|extent| extent.start < from);
        let tail = touched.last().filter(|extent| extent.end() > to);
        let behind = self.now.get(last.max(first)).copied();
        let gone: u64 = touched.iter().map(|extent| extent.part(from, to).len).sum();
        let come: u64 = fresh.iter().map(|extent| extent.len).sum();
        let pieces = before.into_iter().chain(head.map(|extent| extent.part(0, from)));
        let pieces = pieces.chain(fresh.iter().copied());
        let pieces = pieces.chain(tail.map(|extent| extent.part(to, u64::MAX))).chain(behind);
        pieces.for_each(|extent| append(&mut merged, extent));
        let end = (last.max(first) + usize::from(behind.is_some())).min(self.now.len());
        let (before, behind) = (&self.now[..first.saturating_sub(1)], &self.now[end..]);
        self.now = before.iter().chain(&*merged).chain(behind).copied().collect();
        come as i64 - gone as i64
    }

    /// How the tree's extents become what they shall be: keys to remove, extents to put and extents
    /// to edit.
    pub(super) fn difference(&self) -> Difference<'_> {
        Difference { stored: &self.stored, now: &self.now }
    }
}

fn read<P: Sheets>(
    tree: &SubTree<P>,
    ino: Ino,
    from: u64,
    to: u64,
    target: &mut Extents,
) -> Result<()> {
    each_extent(tree, ino, from, to, |extent| {
        target.push(extent);
        Flow::Continue(())
    })
}

/// One step from the stored extents to the new ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The key goes.
    Remove(u64),
    /// The key comes.
    Put(Extent),
    /// The key's value changes.
    Edit(Extent),
}

/// The steps from stored to new, in the order of keys.
pub(super) struct Difference<'w> {
    stored: &'w [Extent],
    now: &'w [Extent],
}

impl Iterator for Difference<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        loop {
            let (old, new) = (self.stored.first(), self.now.first());
            let order = match (old, new) {
                (None, None) => return None,
                (Some(_), None) => core::cmp::Ordering::Less,
                (None, Some(_)) => core::cmp::Ordering::Greater,
                (Some(old), Some(new)) => old.start.cmp(&new.start),
            };
            if order.is_le() {
                self.stored = &self.stored[1..];
            }
            if order.is_ge() {
                self.now = &self.now[1..];
            }
            match (order, old, new) {
                (core::cmp::Ordering::Less, Some(old), _) => return Some(Step::Remove(old.start)),
                (core::cmp::Ordering::Greater, _, Some(new)) => return Some(Step::Put(*new)),
                (_, Some(old), Some(new)) if old != new => return Some(Step::Edit(*new)),
                _ => {}
            }
        }
    }
}
