//! Inodes whose bytes are used again and again: what a read or a write needs to know of them, and nothing else.
//!
//! Neighbours: `posix` says when an inode is warm ([`crate::store::View::warm`]); a commit makes cold
//! what it changes, and all when values of the tree moved.
//! Invariant: what is here agrees with the trees: a size changes in both at once.

use alloc::vec::Vec;

use super::Resident;
use super::superblock::Superblock;
use crate::attr::Time;
use crate::error::Result;
use crate::ground::Memory;
use crate::ground::sync::atomic::Ordering;
use crate::ids::Ino;
use crate::limits::{GRANULE, INLINE_LEN_MAX, PAGE_SIZE};
use crate::memory::extents;
use crate::memory::home::Home;
use crate::memory::keys;
use crate::memory::record::{self, Record};
use crate::store::Use;
use crate::tree::{PageId, Tree};

/// Places to begin with: as many as inodes that are used in turn, or else each would make another cold at each use.
const PLACES: usize = 64;
/// Never more than that: some 1 MiB.
const PLACES_MAX: usize = 4096;
/// Pieces of an inode that are at hand besides the one that was used last: a database is read and written here and
/// there.
const PIECES: usize = 7;

/// Bytes of a file that lie in one piece, ours alone, and where.
#[derive(Clone, Copy)]
struct Piece {
    from: u64,
    to: u64,
    place: u64,
}

impl Piece {
    /// Of no bytes.
    const NONE: Self = Self { from: 0, to: 0, place: 0 };
}

/// No clock tells it.
const NEVER: Time = Time { secs: i64::MIN, nanos: u32::MAX };

/// One inode.
#[derive(Clone, Copy)]
struct Warm {
    /// 0 for none.
    ino: u64,
    /// Times at which a read and a write leave the attributes as they are.
    read: Time,
    written: Time,
    size: u64,
    /// Bytes of the file that lie in one piece, ours alone, within the memory, and that a file may have; and where.
    from: u64,
    to: u64,
    place: u64,
    /// Those that were used before it, the latest first.
    before: [Piece; PIECES],
    /// Where the record's size is: in which page, at which address.
    leaf: u32,
    size_place: u64,
    /// Pages read when the page was last seen not to be at hand.
    fetched: u64,
}

impl Warm {
    /// Of no inode.
    const COLD: Self = Self {
        ino: 0,
        read: NEVER,
        written: NEVER,
        size: 0,
        from: 0,
        to: 0,
        place: 0,
        before: [Piece::NONE; PIECES],
        leaf: 0,
        size_place: 0,
        fetched: u64::MAX,
    };
}

/// What a commit has to itself.
pub struct State {
    /// As the memory has it.
    pub superblock: Superblock,
    layout: u64,
    /// A power of two, each for the inodes of one number modulo it.
    warm: Vec<Warm>,
    /// None of them is warm.
    cold: bool,
    /// A file without bytes, and when a write leaves its attributes as they are: most get theirs when they are made.
    fresh: Option<(Ino, Time)>,
}

impl State {
    pub fn new(superblock: Superblock) -> Self {
        let warm = alloc::vec![Warm::COLD; PLACES];
        Self { superblock, layout: 0, warm, cold: true, fresh: None }
    }

    /// All are cold.
    pub fn cool_all(&mut self) {
        if !self.cold {
            self.warm.iter_mut().for_each(|warm| warm.ino = 0);
            self.cold = true;
        }
        self.fresh = None;
    }

    /// This one is cold.
    pub fn cool(&mut self, ino: Ino) {
        if let Some(warm) = self.place(ino) {
            warm.ino = 0;
        }
        if self.fresh.is_some_and(|(fresh, _)| fresh == ino) {
            self.fresh = None;
        }
    }

    /// Values lie where they did as long as the layout is the same.
    pub fn moved_to(&mut self, layout: u64) {
        if self.layout != layout {
            self.layout = layout;
            self.cool_all();
        }
    }

    #[inline]
    fn place(&mut self, ino: Ino) -> Option<&mut Warm> {
        let index = self.index(ino.0);
        let warm = self.warm.get_mut(index)?;
        (warm.ino == ino.0).then_some(warm)
    }

    #[inline]
    fn index(&self, ino: u64) -> usize {
        ino as usize & self.warm.len().wrapping_sub(1)
    }

    /// Puts an inode into its place; if another is warm there, both find one among twice as many, as long as there may
    /// be more.
    fn put(&mut self, warm: Warm) {
        self.cold = false;
        loop {
            let index = self.index(warm.ino);
            let known = &mut self.warm[index];
            let other = known.ino != 0 && known.ino != warm.ino;
            if !other || self.warm.len() >= PLACES_MAX {
                self.warm[index] = warm;
                return;
            }
            let more = alloc::vec![Warm::COLD; self.warm.len() * 2];
            for old in core::mem::replace(&mut self.warm, more) {
                // Two that had places of their own have them here.
                if old.ino != 0 {
                    let index = self.index(old.ino);
                    self.warm[index] = old;
                }
            }
        }
    }
}

impl<M: Memory> Home<Resident<M>> {
    /// See [`crate::store::Store::rewrite`].
    #[inline(always)]
    pub(super) fn rewrite_warm(&self, ino: Ino, at: u64, source: &[u8], now: Time) -> Result<bool> {
        let mut state = self.space.base.state.lock();
        let Some(warm) = state.place(ino).filter(|warm| warm.written == now) else {
            let fresh = state.fresh == Some((ino, now));
            drop(state);
            return if fresh { self.fill_fresh(ino, at, source, now) } else { Ok(false) };
        };
        if at > warm.size {
            return Ok(false);
        }
        let end = at + source.len() as u64;
        let memory = self.memory();
        if at >= warm.from && end <= warm.to {
            memory.write_inside(warm.place + (at - warm.from), source)?;
        } else {
            if !self.write_pieces(warm, at, source)? {
                return Ok(false);
            }
        }
        if end > warm.size {
            warm.size = end;
            memory.write_inside(warm.size_place, &end.to_le_bytes())?;
            // Whoever read the page since it was last seen not to be at hand may have the old size, and its attributes
            // can be known from nowhere else.
            let fetched = self.space.base.pool.fetched.load(Ordering::SeqCst);
            if warm.fetched != fetched {
                warm.fetched = fetched;
                self.let_go(ino, PageId(warm.leaf));
            }
        }
        memory.whole()?;
        Ok(true)
    }

    /// What is at hand of a record that changed in the memory is looked up anew.
    #[cold]
    fn let_go(&self, ino: Ino, leaf: PageId) {
        if let Some(tree) = self.trees[0].read().tree() {
            tree.pages().let_go(leaf);
        }
        self.space.base.known.lock().forget(ino);
    }

    /// Writes bytes that lie in another piece than those before, or in two; `false` if they do not.
    #[cold]
    fn write_pieces(&self, warm: &mut Warm, at: u64, source: &[u8]) -> Result<bool> {
        let end = at + source.len() as u64;
        let Some((first, cut)) = self.find_pieces(warm, at, end)? else { return Ok(false) };
        let (before, behind) = source.split_at(cut);
        self.memory().write_inside(first, before)?;
        if !behind.is_empty() {
            self.memory().write_inside(warm.place, behind)?;
        }
        Ok(true)
    }

    /// The first bytes of a file go into its record, if they fit there.
    #[inline(never)]
    fn fill_fresh(&self, ino: Ino, at: u64, source: &[u8], now: Time) -> Result<bool> {
        let mut state = self.space.base.state.lock();
        if state.fresh != Some((ino, now)) {
            return Ok(false);
        }
        let (len, mut record) = (source.len() as u64, Record::NONE);
        match self.space.base.known.lock().get(ino) {
            Some(known) if known.own == 0 && known.size == 0 => record.assign(known),
            _ => return Ok(false),
        }
        let fits = len > 0 && len <= self.file_size_max && source.len() <= INLINE_LEN_MAX;
        if at > 0 || !fits {
            return Ok(false);
        }
        (record.size, record.inline_len) = (len, source.len() as u16);
        self.fill(ino, &record, source, &mut state)
    }

    /// See [`crate::store::View::reread`].
    #[inline]
    pub(super) fn reread_warm(
        &self,
        ino: Ino,
        at: u64,
        target: &mut [u8],
        now: Time,
    ) -> Result<Option<usize>> {
        let mut state = self.space.base.state.lock();
        let Some(warm) = state.place(ino).filter(|warm| warm.read == now) else {
            return Ok(None);
        };
        let len = warm.size.saturating_sub(at).min(target.len() as u64);
        let end = at.saturating_add(len);
        let target = &mut target[..len as usize];
        if at >= warm.from && end <= warm.to {
            self.memory().read_inside(warm.place + (at - warm.from), target)?;
        } else {
            let Some((first, cut)) = self.find_pieces(warm, at, end)? else { return Ok(None) };
            let (before, behind) = target.split_at_mut(cut);
            self.memory().read_inside(first, before)?;
            if !behind.is_empty() {
                self.memory().read_inside(warm.place, behind)?;
            }
        }
        Ok(Some(len as usize))
    }

    /// The piece that holds all these bytes, or the two, if there are no more: the address of the first byte, and how
    /// many lie there. Those behind lie from where the inode's piece now begins.
    #[cold]
    fn find_pieces(&self, warm: &mut Warm, at: u64, end: u64) -> Result<Option<(u64, usize)>> {
        if at >= end || !self.find_piece(warm, at)? {
            return Ok(None);
        }
        let (first, cut) = (warm.place + (at - warm.from), warm.to.min(end));
        // The second begins where the first ends, for it is found by its first byte there.
        let found = cut == end || self.find_piece(warm, cut)? && warm.from == cut && warm.to >= end;
        Ok(found.then_some((first, (cut - at) as usize)))
    }

    /// The piece that holds a byte, if there is one.
    fn find_piece(&self, warm: &mut Warm, at: u64) -> Result<bool> {
        let last = Piece { from: warm.from, to: warm.to, place: warm.place };
        let mut before = warm.before.iter_mut();
        if let Some(known) = before.find(|piece| piece.from <= at && at < piece.to) {
            let Piece { from, to, place } = core::mem::replace(known, last);
            (warm.from, warm.to, warm.place) = (from, to, place);
            return Ok(true);
        }
        let (ino, granule) = (Ino(warm.ino), at / GRANULE);
        let extent = extents::holding(&self.tree(ino), ino, granule)?;
        let Some(extent) = extent.filter(|extent| !extent.unwritten) else { return Ok(false) };
        // The stretch of it that nobody shares.
        let (mut start, mut stop) = (extent.start, extent.end());
        self.space.parts(extent.run(), |part, shared| {
            if shared {
                let (from, to) = (part.start - extent.place, part.end() - extent.place);
                let (from, to) = (extent.start + from, extent.start + to);
                if to <= granule {
                    start = start.max(to);
                } else {
                    stop = stop.min(from);
                }
            }
        })?;
        if start > granule || stop <= granule {
            return Ok(false);
        }
        let found = Piece {
            from: start * GRANULE,
            to: (stop * GRANULE).min(self.file_size_max),
            place: (extent.place + (start - extent.start)) * GRANULE,
        };
        let end = found.place.checked_add(found.to.saturating_sub(found.from));
        if end.is_none_or(|end| end > self.memory().size()) {
            return Ok(false);
        }
        warm.before.rotate_right(1);
        warm.before[0] = last;
        (warm.from, warm.to, warm.place) = (found.from, found.to, found.place);
        Ok(at < warm.to)
    }

    /// See [`crate::store::View::warm`].
    pub(super) fn warm_up(&self, ino: Ino, after: Use, now: Time) {
        let mut state = self.space.base.state.lock();
        if state.place(ino).is_none() {
            // Bytes in the record itself are quick to reach, and to change is to write it anew.
            match self.record(ino, |record| (record.own, record.size)) {
                Ok((0, 0)) if after == Use::Write => {
                    state.fresh = Some((ino, now));
                    return;
                }
                Ok((0, _)) | Err(_) => return,
                Ok(_) => {}
            }
            let tree = self.tree(ino);
            let find = |tree: &Tree<_>| {
                let record =
                    |value: &[u8], leaf, start| record::record(value).map(|r| (r, leaf, start));
                tree.find_value(&keys::inode(ino), record)
            };
            let Some(Ok(Some(Ok((record, leaf, offset))))) = tree.tree().map(find) else { return };
            state.put(Warm {
                ino: ino.0,
                size: record.size,
                leaf: leaf.0,
                size_place: u64::from(leaf.0) * PAGE_SIZE as u64
                    + (offset + Record::SIZE_OFFSET) as u64,
                ..Warm::COLD
            });
        }
        let Some(warm) = state.place(ino) else { return };
        match after {
            Use::Read => warm.read = now,
            Use::Write => warm.written = now,
        }
    }
}
