//! What a home stands on: where its pages and accounts live, and what outlives it.
//!
//! Neighbours: `home` is made over one; `commit` calls at its beginning and end. Two kinds stand: any plain
//! [`Memory`], beside which trees and accounts are kept on the heap, and [`Resident`](super::Resident), which
//! keeps everything in the memory itself. Invariant: a plan, once begun, either reaches `finish` or `give_up`.

use alloc::sync::Arc;

use super::free::Run;
use super::home::Home;
use super::pairs::{HeapPairs, Pairs};
use super::plan::Ledger;
use super::record::Record;
use crate::attr::Time;
use crate::error::Result;
use crate::ground::{Budget, Memory};
use crate::ids::Ino;
use crate::limits::SUBTREES;
use crate::store::{Entry, Use};
use crate::tree::{HeapPages, Pages};

/// Free pages that a small tree keeps: as many as a new file in it may need, for each level and in
/// all.
const SPARE_LEVEL: usize = 3;
const SPARE_MIN: usize = 4;
/// Free pages that any other tree has at most, for each of its pages and in all. When it has more, half of them
/// go back together, which takes the operating system little more than one.
const SPARE_SHARE: usize = 8;
const SPARE_MAX: usize = 512;

/// Pages as a home keeps them.
pub trait Sheets: Pages {
    /// Keys of which is noted in which leaf they are; none, or a power of two.
    const HINTS: usize = 0;

    /// Whether pages may be had past the budget from now on: for batches that only shrink.
    fn overdraft(&mut self, allowed: bool);

    /// Pages to begin a tree with.
    fn begin(&mut self) -> Result<()>;

    /// After every change, made or given up, of a tree of so many levels: what was reserved for
    /// more than the next usual change will need goes back. Whether a page that was freed may from now on
    /// turn up as something else.
    fn settle(&mut self, levels: usize) -> bool;

    /// Nothing has changed for a while: no page is kept for the next change.
    fn rest(&mut self) {}

    /// Bytes held and charged to the budget by these pages themselves.
    fn held(&self) -> u64;
}

impl Sheets for HeapPages {
    fn overdraft(&mut self, allowed: bool) {
        HeapPages::overdraft(self, allowed);
    }

    fn begin(&mut self) -> Result<()> {
        self.reserve(1 + SPARE_MIN)
    }

    fn settle(&mut self, levels: usize) -> bool {
        let least = SPARE_MIN + SPARE_LEVEL * (levels - 1);
        let most = (self.used() / SPARE_SHARE).clamp(least, SPARE_MAX);
        if self.spare() > most {
            self.keep(least.max(most / 2));
        }
        false
    }

    fn rest(&mut self) {
        self.keep(0);
    }

    fn held(&self) -> u64 {
        self.bytes() as u64
    }
}

/// What a home stands on.
pub trait Base: Sized {
    /// Where file content lies.
    type Memory: Memory;
    /// Where the trees' pages live.
    type Pages: Sheets;
    /// Where space is accounted for.
    type Pairs: Pairs;
    /// Held from the beginning of a plan to its end.
    type Turn<'a>
    where
        Self: 'a;

    /// Sub-trees, each with a lock of its own; a power of two.
    const GROUPS: usize;
    /// Trees and accounts are in the memory, and outlive the home.
    const LASTING: bool;
    /// An append claims ahead so many eighths of the file's size,
    const AHEAD_EIGHTHS: u64;
    /// and no fewer granules than these.
    const AHEAD_MIN: u64;

    /// The memory.
    fn memory(&self) -> &Self::Memory;

    /// Granules that a hole of a file is filled by at least, and at multiples of which: a power of two.
    #[inline]
    fn page(&self) -> u64 {
        1
    }

    /// Pages for a new tree.
    fn pages(&self, budget: &Arc<Budget>) -> Self::Pages;

    /// Free pages at hand.
    fn spare(&self) -> usize {
        usize::MAX
    }

    /// Whole pages of the memory become free pages.
    fn stock(&self, pages: Run) {
        let _ = pages;
    }

    /// Free pages above `keep`, back as a run of granules, one at a time.
    fn unstock(&self, keep: usize) -> Option<Run> {
        let _ = keep;
        None
    }

    /// Bytes that are in use without any extent.
    fn own_bytes(&self) -> u64 {
        0
    }

    /// Granules that are in use without any extent: what the home itself lies in.
    fn own_runs(home: &Home<Self>) -> Result<alloc::vec::Vec<Run>> {
        let _ = home;
        Ok(alloc::vec::Vec::new())
    }

    /// A plan begins.
    fn begin(home: &Home<Self>) -> Result<Self::Turn<'_>>;

    /// The inode is one of those that the plan has changed, and this is left of it.
    #[inline]
    fn touched(home: &Home<Self>, turn: &mut Self::Turn<'_>, ino: Ino, left: Option<&Record>) {
        let _ = (home, turn, ino, left);
    }

    /// The plan has changed what the name of a directory leads to.
    #[inline]
    fn renamed(home: &Home<Self>, dir: Ino, name: &[u8]) {
        let _ = (home, dir, name);
    }

    /// What `look` says of an inode's record, which `find` finds in the tree.
    #[inline]
    fn record<R>(
        home: &Home<Self>,
        ino: Ino,
        look: impl FnOnce(&Record) -> R,
        find: impl FnOnce() -> Result<Record>,
    ) -> Result<R> {
        let _ = (home, ino);
        Ok(look(&find()?))
    }

    /// What a name leads to, which `find` finds in the tree.
    #[inline]
    fn entry(
        home: &Home<Self>,
        dir: Ino,
        name: &[u8],
        find: impl FnOnce() -> Result<Entry>,
    ) -> Result<Entry> {
        let _ = (home, dir, name);
        find()
    }

    /// All that a plan does was done.
    fn finish(home: &Home<Self>, turn: &mut Self::Turn<'_>) -> Result<()>;

    /// The plan failed: what it did to accounts, and to pages if it got there, is undone.
    fn give_up(home: &Home<Self>, ledger: &Ledger, turn: &mut Self::Turn<'_>) -> Result<()>;

    /// As [`Store::sync`](crate::store::Store::sync).
    fn sync(home: &Home<Self>) -> Result<()> {
        let _ = home;
        Ok(())
    }

    /// As [`Store::rewrite`](crate::store::Store::rewrite).
    #[inline]
    fn rewrite(home: &Home<Self>, ino: Ino, at: u64, source: &[u8], now: Time) -> Result<bool> {
        let _ = (home, ino, at, source, now);
        Ok(false)
    }

    /// As [`View::reread`](crate::store::View::reread).
    #[inline]
    fn reread(
        home: &Home<Self>,
        ino: Ino,
        at: u64,
        target: &mut [u8],
        now: Time,
    ) -> Result<Option<usize>> {
        let _ = (home, ino, at, target, now);
        Ok(None)
    }

    /// As [`View::warm`](crate::store::View::warm).
    #[inline]
    fn warm(home: &Home<Self>, ino: Ino, after: Use, now: Time) {
        let _ = (home, ino, after, now);
    }
}

impl<M: Memory> Base for M {
    type Memory = M;
    type Pages = HeapPages;
    type Pairs = HeapPairs;
    type Turn<'a>
        = ()
    where
        M: 'a;

    const GROUPS: usize = SUBTREES;
    const LASTING: bool = false;
    const AHEAD_EIGHTHS: u64 = 1;
    const AHEAD_MIN: u64 = 1;

    #[inline]
    fn memory(&self) -> &M {
        self
    }

    fn pages(&self, budget: &Arc<Budget>) -> HeapPages {
        HeapPages::with_lender(Arc::clone(budget), self.lender())
    }

    #[inline]
    fn begin(_: &Home<M>) -> Result<()> {
        Ok(())
    }

    #[inline]
    fn finish(_: &Home<M>, (): &mut ()) -> Result<()> {
        Ok(())
    }

    fn give_up(home: &Home<M>, ledger: &Ledger, (): &mut ()) -> Result<()> {
        home.space.let_go(&ledger.shares)?;
        home.space.let_go(&ledger.claims)
    }
}
