//! Changing: inodes are brought up, then the batch goes to the upper, then the overlay remembers what it means.
//!
//! Neighbours: `state` remembers, `view` answers. Invariant: what can fail comes before the upper's commit, and nothing
//! fails behind it.

use alloc::vec;
use alloc::vec::Vec;

use super::Overlay;
use super::below::{Below, Piece};
use super::slots::{Slot, Slots};
use super::state::{State, Told};
use crate::attr::Kind;
use crate::error::{Error, Result};
use crate::ids::{Cursor, Ino, Span};
use crate::limits::{CHANGES_MAX, GRANULE};
use crate::name::{Name, XattrName};
use crate::store::{Batch, Change, Flow, Store, View};

/// An extended attribute that is copied.
type Copied = (Vec<u8>, Vec<u8>);

/// A batch as the upper gets it, and what the overlay is to remember of it.
#[derive(Default)]
struct Plan<'a> {
    upper: Batch<'a>,
    any: bool,
    slots: [Option<(Ino, Cursor, Slot)>; CHANGES_MAX],
}

impl<'a> Plan<'a> {
    fn push(&mut self, change: Change<'a>) {
        self.upper.push(change);
        self.any = true;
    }

    /// A name's meaning as the plan leaves it.
    fn slot(&self, dir: Ino, place: Cursor) -> Option<Slot> {
        let known = self.slots.iter().flatten().rev();
        known.filter(|known| (known.0, known.1) == (dir, place)).map(|known| known.2).next()
    }

    /// There are no more of them than changes.
    fn set_slot(&mut self, dir: Ino, place: Cursor, slot: Slot) {
        if let Some(free) = self.slots.iter_mut().find(|known| known.is_none()) {
            *free = Some((dir, place, slot));
        }
    }
}

impl<U: Store, L: View> Store for Overlay<U, L> {
    fn next_ino(&self, parent: Ino, kind: Kind) -> Ino {
        Ino(self.upper.next_ino(parent, kind).0 + self.shift)
    }

    #[inline]
    fn commit(&self, batch: &Batch<'_>) -> Result<()> {
        if batch.changes().all(|change| self.is_above_all(change)) {
            return self.upper.commit(batch);
        }
        self.states_of_late(batch, |ino, state| self.states.list_late(ino, state));
        let done = self.change(batch);
        if done.is_err() {
            self.states_of_late(batch, |ino, _| self.states.unlist_late(ino));
        }
        done
    }

    fn trim(&self, ino: Ino) -> Result<()> {
        let above = ino.0 > self.last || matches!(self.states.told(ino), Told::Above { .. });
        if above { self.upper.trim(ino) } else { Ok(()) }
    }

    fn tick(&self) -> Result<u64> {
        self.upper.tick()
    }

    fn sync(&self) -> Result<()> {
        self.upper.sync()
    }
}

impl<U: Store, L: View> Overlay<U, L> {
    /// Inodes that are new, with a number that was given out before the lower came to be: what to remember of each.
    fn states_of_late(&self, batch: &Batch<'_>, each: impl Fn(Ino, State)) {
        for change in batch.changes() {
            match *change {
                Change::Make { ino, attr } if ino.0 <= self.last => each(ino, State::of(&attr)),
                _ => {}
            }
        }
    }

    fn change(&self, batch: &Batch<'_>) -> Result<()> {
        batch.changes().try_for_each(|change| self.bring_up_for(change))?;
        let mut plan = Plan::default();
        batch.changes().try_for_each(|change| self.plan(&mut plan, change))?;
        if plan.any {
            self.upper.commit(&plan.upper)?;
        }
        batch.changes().for_each(|change| self.remember(change));
        for &(dir, place, slot) in plan.slots.iter().flatten() {
            self.states.set_slot(dir, place, slot);
        }
        Ok(())
    }

    /// Whether a change concerns the upper alone.
    fn is_above_all(&self, change: &Change<'_>) -> bool {
        match *change {
            Change::Make { ino, .. } | Change::Set { ino, .. } | Change::Xattr { ino, .. } => {
                ino.0 > self.last
            }
            Change::Unlink { dir, .. } => dir.0 > self.last,
            Change::Link { dir, ino, .. } => dir.0 > self.last && ino.0 > self.last,
            Change::Drop { ino }
            | Change::Write { ino, .. }
            | Change::Cut { ino, .. }
            | Change::Punch { ino, .. }
            | Change::Reserve { ino, .. } => self.is_above(ino),
            Change::Share { source, ino, .. } => {
                !self.is_beside(source) && self.is_above(source) && self.is_above(ino)
            }
        }
    }

    /// Brings up what a change needs to find above.
    fn bring_up_for(&self, change: &Change<'_>) -> Result<()> {
        match *change {
            Change::Make { .. } | Change::Drop { .. } => Ok(()),
            Change::Set { ino, .. }
            | Change::Write { ino, .. }
            | Change::Cut { ino, .. }
            | Change::Punch { ino, .. }
            | Change::Reserve { ino, .. }
            | Change::Xattr { ino, .. } => self.bring_up(ino),
            Change::Unlink { dir, .. } => self.bring_up(dir),
            Change::Share { source, ino, .. } if self.is_beside(source) => {
                self.lower.attr(source)?;
                self.bring_up(ino)
            }
            Change::Link { dir: first, ino, .. } | Change::Share { source: first, ino, .. } => {
                self.bring_up(first)?;
                self.bring_up(ino)
            }
        }
    }

    /// What a change is to the upper, and to the names of a lower directory.
    fn plan<'a>(&self, plan: &mut Plan<'a>, change: &Change<'a>) -> Result<()> {
        match *change {
            Change::Link { dir, name, ino, kind } => {
                if let Some(place) = self.lower_name(plan, dir, name)? {
                    plan.set_slot(dir, place, Slot::Leads(ino, kind));
                    return Ok(());
                }
            }
            Change::Unlink { dir, name } => {
                if let Some(place) = self.lower_name(plan, dir, name)? {
                    plan.set_slot(dir, place, Slot::Hidden);
                    return Ok(());
                }
            }
            Change::Share { source, ino, at, len, .. } if self.is_beside(source) => {
                return self.make_hole(plan, ino, (at, at + len));
            }
            Change::Drop { ino } if ino.0 <= self.last => match self.states.told(ino) {
                Told::Nothing => return self.lower.attr(ino).map(drop),
                Told::Gone => return Err(Error::NotFound),
                Told::Above { .. } => {}
            },
            _ => {}
        }
        plan.push(*change);
        Ok(())
    }

    /// A hole above for bytes that come from below; the file grows to hold it.
    fn make_hole(&self, plan: &mut Plan<'_>, ino: Ino, (start, end): (u64, u64)) -> Result<()> {
        if self.size(plan, ino)? < end {
            plan.push(Change::Cut { ino, len: end });
        }
        if let Some(span) = Span::new(start, end) {
            plan.push(Change::Punch { ino, span });
        }
        Ok(())
    }

    /// The size of a file that the upper has, or gets, as the plan leaves it.
    fn size(&self, plan: &Plan<'_>, ino: Ino) -> Result<u64> {
        let mut size = match self.upper.attr(ino) {
            Err(Error::NotFound) => 0,
            attr => attr?.size,
        };
        for change in plan.upper.changes() {
            match *change {
                Change::Make { ino: own, .. } if own == ino => size = 0,
                Change::Cut { ino: own, len } if own == ino => size = len,
                Change::Write { ino: own, at, source } if own == ino => {
                    size = size.max(at + source.len() as u64);
                }
                Change::Share { ino: own, at, len, .. } if own == ino => size = size.max(at + len),
                _ => {}
            }
        }
        Ok(size)
    }

    /// The place of a name that a lower directory has, unless it is hidden.
    fn lower_name(&self, plan: &Plan<'_>, dir: Ino, name: Name<'_>) -> Result<Option<Cursor>> {
        if dir.0 > self.last {
            return Ok(None);
        }
        let place = match self.lower.entry(dir, name) {
            Ok(entry) => entry.seq,
            Err(Error::NotFound) => return Ok(None),
            Err(error) => return Err(error),
        };
        let slot = plan.slot(dir, place).unwrap_or_else(|| self.states.slot(dir, place));
        Ok(Some(place).filter(|_| slot != Slot::Hidden))
    }

    /// After the upper has taken it: where bytes come from now, and what is gone.
    fn remember(&self, change: &Change<'_>) {
        match *change {
            Change::Write { ino, at, source } => {
                self.states.cover(ino, at, at + source.len() as u64);
            }
            Change::Cut { ino, len } => self.states.cover(ino, len, u64::MAX),
            Change::Punch { ino, span } => self.states.cover(ino, span.start(), span.end()),
            Change::Share { source, from, ino, at, len } => {
                let (pieces, granules) = self.shared(source, from, len);
                self.states.cover(ino, at, at + len);
                let moved = |piece: &Piece| Piece {
                    start: piece.start - from + at,
                    end: piece.end - from + at,
                    ..*piece
                };
                let pieces: Vec<Piece> = pieces.iter().map(moved).collect();
                // Data that comes to lie otherwise within granules may touch twice as many.
                let alike = from % GRANULE == at % GRANULE;
                let granules = granules.saturating_mul(if alike { 1 } else { 2 });
                self.states.borrow(ino, &pieces, granules, ino.0 > self.last);
            }
            Change::Drop { ino } if ino.0 <= self.last => self.states.list(ino, State::Gone),
            Change::Drop { ino } => self.states.unlist(ino),
            _ => {}
        }
    }

    /// What of a range of a file comes from below, and the most space that all of it that does can take.
    fn shared(&self, source: Ino, from: u64, len: u64) -> (Vec<Piece>, u64) {
        if self.is_beside(source) {
            let piece = Piece { start: from, end: from + len, ino: source, from };
            let granules = self.lower.attr(source).map_or(piece.granules(), |attr| attr.blocks);
            return (vec![piece], granules);
        }
        (self.states.pieces(source, from, from + len), self.states.granules_max(source))
    }

    /// The upper has the inode, or gets it as it is below, with a hole for its bytes: no answer changes.
    pub(super) fn bring_up(&self, ino: Ino) -> Result<()> {
        let known = |told| match told {
            Told::Nothing => None,
            Told::Gone => Some(Err(Error::NotFound)),
            Told::Above { .. } => Some(Ok(())),
        };
        if ino.0 > self.last {
            return Ok(());
        }
        if let Some(known) = known(self.states.told(ino)) {
            return known;
        }
        // Whoever shares a file's bytes has it only beside other readers: two may come here at once.
        let _alone = self.states.lift(ino);
        if let Some(known) = known(self.states.told(ino)) {
            return known;
        }
        let attr = self.lower.attr(ino)?;
        let space = self.space();
        if space.used > space.total {
            return Err(Error::NoSpace);
        }
        let xattrs = self.xattrs_below(ino)?;
        if self.upper.attr(ino).is_ok() {
            // Somebody was here before, and did not get to the end.
            self.drop_above(ino)?;
        }
        let mut batch = Batch::new();
        batch.push(Change::Make { ino, attr });
        let has_content = matches!(attr.kind, Kind::File | Kind::Symlink);
        if has_content && attr.size > 0 {
            batch.push(Change::Cut { ino, len: attr.size });
        }
        self.push_xattrs(batch, ino, &xattrs)?;
        let state = if attr.kind == Kind::Directory {
            State::Directory { below: attr.size, slots: Slots::default() }
        } else {
            let below = Below::whole(ino, if has_content { attr.size } else { 0 });
            State::Content { below, granules_max: attr.blocks }
        };
        self.states.list(ino, state);
        Ok(())
    }

    /// The root directory is above from the beginning.
    pub(super) fn bring_up_root(&self) -> Result<()> {
        let attr = self.lower.attr(Ino::ROOT)?;
        let xattrs = self.xattrs_below(Ino::ROOT)?;
        let mut batch = Batch::new();
        batch.push(Change::Set { ino: Ino::ROOT, attr });
        self.push_xattrs(batch, Ino::ROOT, &xattrs)?;
        let state = State::Directory { below: attr.size, slots: Slots::default() };
        self.states.list(Ino::ROOT, state);
        Ok(())
    }

    fn xattrs_below(&self, ino: Ino) -> Result<Vec<Copied>> {
        let mut found: Vec<Copied> = Vec::new();
        self.lower.xattrs(ino, &mut |name| {
            found.push((name.bytes().to_vec(), Vec::new()));
            Flow::Continue(())
        })?;
        for (name, value) in &mut found {
            self.lower.xattr(ino, XattrName::parse(name)?, value)?;
        }
        Ok(found)
    }

    /// Commits a batch that was begun with as many attributes as fit, and the rest behind it.
    fn push_xattrs<'a>(&self, mut batch: Batch<'a>, ino: Ino, xattrs: &'a [Copied]) -> Result<()> {
        let room = CHANGES_MAX - batch.changes().count();
        let (first, rest) = xattrs.split_at(room.min(xattrs.len()));
        for (name, value) in first {
            let name = XattrName::parse(name)?;
            batch.push(Change::Xattr { ino, name, value: Some(value) });
        }
        self.upper.commit(&batch)?;
        for part in rest.chunks(CHANGES_MAX) {
            let mut batch = Batch::new();
            for (name, value) in part {
                let name = XattrName::parse(name)?;
                batch.push(Change::Xattr { ino, name, value: Some(value) });
            }
            if let Err(error) = self.upper.commit(&batch) {
                // If it cannot go now, it goes when it is brought up again.
                let _ = self.drop_above(ino);
                return Err(error);
            }
        }
        Ok(())
    }

    fn drop_above(&self, ino: Ino) -> Result<()> {
        let mut batch = Batch::new();
        batch.push(Change::Drop { ino });
        self.upper.commit(&batch)
    }
}
