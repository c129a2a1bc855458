//! The home itself: its sub-trees, its space, its counters, and who may touch what when.
//!
//! Neighbours: `commit` changes it, `view` reads it, `check` doubts it; `ground::order` has the order
//! of its locks. A reader holds one sub-tree at a time and never while it calls out. Invariant:
//! `broken` is set whenever a commit may have been left half done.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::base::Base;
use super::free::Free;
use super::keys;
use super::record::Record;
use super::refs::Refs;
use super::space::Space;
use super::subtree::SubTree;
use crate::attr::{Attr, Kind};
use crate::error::Result;
use crate::ground::order::Rank;
use crate::ground::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::ground::sync::{ReadGuard, RwLock};
use crate::ground::{Budget, Memory};
use crate::ids::Ino;
use crate::limits::{FILE_SIZE_MAX, GRANULE};
use crate::store::{self, Batch, Change, Flow};
use crate::tree::HeapPages;

/// Inodes of an earlier life that go with one commit.
const LEFT_BEHIND_AT_ONCE: usize = 8;

/// How a home is to be.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Most bytes that it may hold, everything counted.
    pub size_max: u64,
    /// Largest file, in bytes; at most [`FILE_SIZE_MAX`].
    pub file_size_max: u64,
    /// The root directory: owner, permissions and times.
    pub root: Attr,
}

/// What a home takes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Most that it may hold.
    pub total: u64,
    /// All in use: trees and data.
    pub used: u64,
    /// Pages of the trees: inodes, names, extents, small content.
    pub trees: u64,
    /// Data space in use.
    pub data: u64,
    /// Length of the memory, used or not.
    pub memory: u64,
    /// Inodes.
    pub inodes: u64,
}

/// What a group counts; in lines of the processor's cache of its own, so that those who work in one
/// group do not hinder others.
#[repr(align(128))]
struct Group {
    /// Numbers given out.
    next: AtomicU64,
    /// Inodes.
    inodes: AtomicU64,
}

impl Group {
    /// The first of so many groups, and those behind it, of an empty home.
    fn new(group: usize, groups: usize) -> Self {
        // Number 0 is nobody's, and number 1 the root's.
        let next = (Ino::ROOT.0 + groups as u64 - group as u64) / groups as u64;
        Self { next: AtomicU64::new(next), inodes: AtomicU64::new(0) }
    }
}

/// A sub-tree for each group.
type Trees<P> = Box<[RwLock<SubTree<P>>]>;

/// What takes time to make of a home to which few inodes come.
type Parts<P> = (Trees<P>, Box<[Group]>);

/// A file system in a growable memory.
pub struct Home<B: Base> {
    pub(super) trees: Trees<B::Pages>,
    pub(super) space: Space<B>,
    pub(super) budget: Arc<Budget>,
    pub(super) file_size_max: u64,
    /// Counts by group.
    groups: Box<[Group]>,
    /// Directories made: the next one's group.
    turn: AtomicUsize,
    pub(super) broken: AtomicBool,
    /// Inodes without names may be left from an earlier life.
    pub(super) left_behind: AtomicBool,
}

impl<B: Base> Home<B> {
    /// An inode has come.
    pub(super) fn count_in(&self, ino: Ino) {
        self.group(ino).inodes.fetch_add(1, Ordering::Relaxed);
    }

    /// An inode has gone.
    pub(super) fn count_out(&self, ino: Ino) {
        self.group(ino).inodes.fetch_sub(1, Ordering::Relaxed);
    }

    fn group(&self, ino: Ino) -> &Group {
        &self.groups[keys::group(ino, B::GROUPS)]
    }

    /// A home without trees, over accounts as they are.
    pub(super) fn bare(
        base: B,
        budget: Arc<Budget>,
        file_size_max: u64,
        free: Free<B::Pairs>,
        refs: Refs<B::Pairs>,
    ) -> Result<Self> {
        let space = Space::new(base, Arc::clone(&budget), free, refs)?;
        Ok(Self::of(space, budget, file_size_max, Self::parts()))
    }

    fn parts() -> Parts<B::Pages> {
        let tree = |group| RwLock::new(Rank::SubTree.number(group), SubTree::new(B::GROUPS));
        let group = |group| Group::new(group, B::GROUPS);
        ((0..B::GROUPS).map(tree).collect(), (0..B::GROUPS).map(group).collect())
    }

    fn of(
        space: Space<B>,
        budget: Arc<Budget>,
        file_size_max: u64,
        (trees, groups): Parts<B::Pages>,
    ) -> Self {
        Self {
            trees,
            space,
            budget,
            file_size_max: file_size_max.min(FILE_SIZE_MAX),
            groups,
            turn: AtomicUsize::new(keys::group(Ino::ROOT, B::GROUPS)),
            broken: AtomicBool::new(false),
            left_behind: AtomicBool::new(false),
        }
    }

    /// Puts the root directory into an empty home.
    pub(super) fn plant(&self, root: &Attr) -> Result<()> {
        let root = Attr { kind: Kind::Directory, nlink: 2, parent: Ino::ROOT, ..*root };
        let mut tree = self.trees[keys::group(Ino::ROOT, B::GROUPS)].write();
        tree.reserve(1, false, || self.space.base.pages(&self.budget))?;
        tree.put(&keys::inode(Ino::ROOT), &Record::new(&root).encode())?;
        tree.inodes = 1;
        self.count_in(Ino::ROOT);
        Ok(())
    }

    /// The next number of a group, and its inodes: what outlives a home that has but one.
    pub(super) fn counts(&self) -> (u64, u64) {
        let Group { next, inodes } = &self.groups[0];
        (next.load(Ordering::Relaxed), inodes.load(Ordering::Relaxed))
    }

    /// Counts from before.
    pub(super) fn set_counts(&self, next: u64, inodes: u64) {
        self.groups[0].next.store(next, Ordering::Relaxed);
        self.groups[0].inodes.store(inodes, Ordering::Relaxed);
    }
}

impl<M: Memory> Home<M> {
    /// An empty home: a root directory.
    ///
    /// # Errors
    /// `NoSpace` when `size_max` is too small even for that.
    pub fn new(memory: M, options: &Options) -> Result<Self> {
        Self::empty(memory, options, Self::parts())
    }

    /// An empty home out of one that nobody needs any more: of one to which only a few inodes come, what takes time is
    /// to be made. `lend` gives it a memory, when that of the other is gone.
    ///
    /// # Errors
    /// Those of [`new`](Self::new), and of `lend`.
    pub fn again(self, lend: impl FnOnce() -> Result<M>, options: &Options) -> Result<Self> {
        let Self { mut trees, mut groups, space, .. } = self;
        drop(space);
        trees.iter_mut().for_each(|tree| tree.get_mut().clear());
        let count = groups.len();
        groups.iter_mut().enumerate().for_each(|(at, group)| *group = Group::new(at, count));
        Self::empty(lend()?, options, (trees, groups))
    }

    fn empty(memory: M, options: &Options, parts: Parts<HeapPages>) -> Result<Self> {
        let budget = Arc::new(Budget::new(options.size_max));
        let space = Space::new(memory, Arc::clone(&budget), Free::default(), Refs::default())?;
        let home = Self::of(space, budget, options.file_size_max, parts);
        home.plant(&options.root)?;
        Ok(home)
    }
}

impl<B: Base> Home<B> {
    /// The memory below.
    pub fn memory(&self) -> &B::Memory {
        self.space.memory()
    }

    /// What it takes now.
    pub fn usage(&self) -> Usage {
        let own = self.space.base.own_bytes();
        Usage {
            total: self.budget.total(),
            used: self.budget.used(),
            trees: self.trees.iter().map(|tree| tree.read().bytes()).sum::<u64>() + own,
            data: (self.space.claimed() * GRANULE).saturating_sub(own),
            memory: self.memory().size(),
            inodes: self.inodes(),
        }
    }

    /// The sub-tree that holds all of an inode, to read.
    #[inline]
    pub(super) fn tree(&self, ino: Ino) -> ReadGuard<'_, SubTree<B::Pages>> {
        self.trees[keys::group(ino, B::GROUPS)].read()
    }

    pub(super) fn number(&self, parent: Ino, kind: Kind) -> Ino {
        let group = match kind {
            Kind::Directory => (self.turn.fetch_add(1, Ordering::Relaxed) + 1) % B::GROUPS,
            _ => keys::group(parent, B::GROUPS),
        };
        let number = self.groups[group].next.fetch_add(1, Ordering::Relaxed);
        Ino(number * B::GROUPS as u64 + group as u64)
    }

    /// Inodes.
    pub(super) fn inodes(&self) -> u64 {
        let counts = self.groups.iter().map(|group| group.inodes.load(Ordering::Relaxed));
        counts.sum()
    }

    /// Drops a few of the inodes without names that an earlier life left behind: whoever held them is gone.
    /// Every commit begins with it, so that opening has nothing to do.
    ///
    /// # Errors
    /// As any commit.
    pub fn drop_left_behind(&self) -> Result<()> {
        // A look first: what every commit writes to, no other thread can have at hand.
        let left = &self.left_behind;
        if !left.load(Ordering::Relaxed) || !left.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let mut found = alloc::vec::Vec::new();
        self.tree(Ino(0)).scan(&keys::orphan(Ino(0)), |key, _| match keys::parse(key) {
            Some((_, keys::Rest::Orphan(ino))) if found.len() <= LEFT_BEHIND_AT_ONCE => {
                found.push(ino);
                Flow::Continue(())
            }
            _ => Flow::Break(()),
        })?;
        for &ino in found.iter().take(LEFT_BEHIND_AT_ONCE) {
            let mut batch = Batch::new();
            batch.push(Change::Drop { ino });
            self.apply(&batch)?;
        }
        self.left_behind.store(found.len() > LEFT_BEHIND_AT_ONCE, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn space_now(&self) -> store::Space {
        store::Space { total: self.budget.total(), used: self.budget.used(), inodes: self.inodes() }
    }
}
