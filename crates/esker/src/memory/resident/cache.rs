//! Pages of one tree that are at hand: those used last, and all that were changed and are not in the memory yet.
//!
//! Neighbours: `pages` reads and writes the memory. Invariant: a changed page stays until it is written or
//! dropped; what is here and unchanged is what the memory holds.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use crate::error::{Error, Result};
use crate::limits::PAGE_SIZE;
use crate::tree::{Lines, Page, PageMut};

/// Places that a page may take.
const WAYS: usize = 4;
/// Freed pages that are known at most, but for those of one commit.
const GONE_MAX: usize = 1024;

struct Held {
    /// Of the page; 0 for none: the first page is no tree's.
    id: u32,
    /// When it was used last.
    used: u32,
    /// What was changed.
    lines: Lines,
    page: Option<Arc<Page>>,
}

/// A few pages.
pub struct Cache {
    places: Vec<Held>,
    sets: usize,
    now: u32,
    /// Changed pages that found all their places taken by others such.
    beyond: BTreeMap<u32, Held>,
    /// Changed pages, in the order of their first change.
    changed: Vec<u32>,
    /// Pages freed since these were last forgotten: not to be read, whatever the memory has there.
    gone: BTreeSet<u32>,
}

impl Cache {
    /// Room for about so many pages.
    pub fn new(capacity: usize) -> Self {
        let sets = (capacity / WAYS).max(1).next_power_of_two();
        Self {
            places: Vec::new(),
            sets,
            now: 0,
            beyond: BTreeMap::new(),
            changed: Vec::new(),
            gone: BTreeSet::new(),
        }
    }

    #[inline]
    fn set(&self, id: u32) -> Range<usize> {
        let start = (id as usize & (self.sets - 1)) * WAYS;
        start..start + WAYS
    }

    /// The place that a page has, unless it is beyond.
    #[inline]
    fn place(&self, id: u32) -> Option<usize> {
        let set = self.set(id);
        let start = set.start;
        let mut held = self.places.get(set)?.iter();
        held.position(|held| held.id == id).map(|index| start + index)
    }

    /// What is in a place, which was used just now.
    #[inline]
    fn use_place(&mut self, place: usize) -> &mut Held {
        self.now = self.now.wrapping_add(1);
        let held = &mut self.places[place];
        held.used = self.now;
        held
    }

    #[inline]
    fn find(&mut self, id: u32) -> Option<&mut Held> {
        if let Some(place) = self.place(id) {
            return Some(self.use_place(place));
        }
        if self.beyond.is_empty() { None } else { self.beyond.get_mut(&id) }
    }

    /// A place for a page that has none: a vacant one, or that of the unchanged page not used for the longest.
    fn make_room(&mut self, id: u32) -> &mut Held {
        let (set, now) = (self.set(id), self.now);
        if self.places.is_empty() {
            let vacant = || Held { id: 0, used: 0, lines: Lines::default(), page: None };
            self.places.resize_with(self.sets * WAYS, vacant);
        }
        let unchanged =
            self.places[set.clone()].iter().enumerate().filter(|(_, held)| held.lines.is_empty());
        let age = |held: &Held| if held.id == 0 { u32::MAX } else { now.wrapping_sub(held.used) };
        let oldest = unchanged.max_by_key(|(_, held)| age(held)).map(|(index, _)| index);
        let held = match oldest {
            Some(index) => &mut self.places[set.start + index],
            None => self.beyond.entry(id).or_insert(Held {
                id,
                used: now,
                lines: Lines::default(),
                page: None,
            }),
        };
        (held.id, held.used) = (id, now);
        held
    }

    /// A page's place, with the page in it, which `read` fills.
    #[inline]
    fn hold(&mut self, id: u32, read: impl FnOnce(&mut Page) -> Result<()>) -> Result<&mut Held> {
        if let Some(place) = self.place(id) {
            return Ok(self.use_place(place));
        }
        if !self.beyond.contains_key(&id) {
            self.fetch(id, read)?;
        }
        self.find(id).ok_or(Error::Corrupt)
    }

    #[cold]
    fn fetch(&mut self, id: u32, read: impl FnOnce(&mut Page) -> Result<()>) -> Result<()> {
        // None of these is at hand.
        if self.gone.contains(&id) {
            return Err(Error::Corrupt);
        }
        let held = self.make_room(id);
        let mut page = held.page.take().unwrap_or_else(|| Arc::new([0; PAGE_SIZE]));
        let done = read(Arc::make_mut(&mut page));
        held.page = Some(page);
        if done.is_err() {
            self.drop_page(id);
        }
        done
    }

    /// A page to read.
    #[inline]
    pub fn get(
        &mut self,
        id: u32,
        read: impl FnOnce(&mut Page) -> Result<()>,
    ) -> Result<Arc<Page>> {
        self.hold(id, read)?.page.clone().ok_or(Error::Corrupt)
    }

    /// A page to change.
    #[inline]
    pub fn edit(
        &mut self,
        id: u32,
        read: impl FnOnce(&mut Page) -> Result<()>,
    ) -> Result<PageMut<'_>> {
        // Whoever edits changes something.
        if let Some(place) = self.place(id) {
            if self.use_place(place).lines.is_empty() {
                self.changed.push(id);
            }
            let held = &mut self.places[place];
            let page = held.page.as_mut().ok_or(Error::Corrupt)?;
            return Ok(PageMut::noted(Arc::make_mut(page), &mut held.lines));
        }
        if self.hold(id, read)?.lines.is_empty() {
            self.changed.push(id);
        }
        let held = self.find(id).ok_or(Error::Corrupt)?;
        let page = held.page.as_mut().ok_or(Error::Corrupt)?;
        Ok(PageMut::noted(Arc::make_mut(page), &mut held.lines))
    }

    /// A page for new content, which is all that will be written of it. What else is in it here and in the memory is
    /// nobody's: `read` makes both the same, for whoever compares them.
    pub fn begin(&mut self, id: u32, read: impl FnOnce(&mut Page) -> Result<()>) -> Result<()> {
        self.gone.remove(&id);
        self.edit(id, |page| if cfg!(debug_assertions) { read(page) } else { Ok(()) }).map(drop)
    }

    /// The page, which is unchanged, is read anew when it is needed next: its bytes are about to change in the
    /// memory.
    pub fn let_go(&mut self, id: u32) {
        self.drop_page(id);
    }

    /// The page is none of the tree's any more.
    pub fn end(&mut self, id: u32) {
        self.drop_page(id);
        self.gone.insert(id);
    }

    fn drop_page(&mut self, id: u32) {
        if let Some(held) = self.find(id) {
            (held.id, held.lines) = (0, Lines::default());
        }
        self.beyond.remove(&id);
    }

    /// Writes what was changed, in runs of bytes, each with its place in its page; at the end of a page, nothing.
    pub fn flush(
        &mut self,
        mut write: impl FnMut(u32, Range<usize>, &Page) -> Result<()>,
    ) -> Result<()> {
        let mut changed = core::mem::take(&mut self.changed);
        for &id in &changed {
            let Some(held) = self.find(id) else { continue };
            let Some(page) = &held.page else { continue };
            for run in held.lines.runs() {
                write(id, run, page)?;
            }
            write(id, 0..0, page)?;
            held.lines = Lines::default();
        }
        changed.clear();
        self.changed = changed;
        self.beyond.clear();
        Ok(())
    }

    /// Forgets what was changed.
    pub fn forget(&mut self) {
        for id in core::mem::take(&mut self.changed) {
            self.drop_page(id);
        }
        self.beyond.clear();
        self.gone.clear();
    }

    /// Forgets which pages were freed, once there are many; whether it did, so that from now on they may be read.
    pub fn forget_gone(&mut self) -> bool {
        let many = self.gone.len() > GONE_MAX;
        if many {
            self.gone.clear();
        }
        many
    }
}
