//! The home itself: its sub-trees, its space, its counters, and who may touch what when.
//!
//! Neighbours: `commit` changes it, `view` reads it, `check` doubts it; `ground::order` has the order
//! of its locks. A reader holds one sub-tree at a time and never while it calls out. Invariant:
//! `broken` is set whenever a commit may have been left half done.

use alloc::sync::Arc;
use core::array;

use super::keys;
use super::record::Record;
use super::space::Space;
use super::subtree::SubTree;
use crate::attr::{Attr, Kind};
use crate::error::Result;
use crate::ground::order::Rank;
use crate::ground::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::ground::sync::{ReadGuard, RwLock};
use crate::ground::{Budget, Memory};
use crate::ids::Ino;
use crate::limits::{FILE_SIZE_MAX, GRANULE, SUBTREES};
use crate::store;

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

/// A file system in a growable memory.
pub struct Home<M> {
    pub(super) trees: [RwLock<SubTree>; SUBTREES],
    pub(super) space: Space<M>,
    pub(super) budget: Arc<Budget>,
    pub(super) file_size_max: u64,
    /// Counts by group.
    groups: [Group; SUBTREES],
    /// Directories made: the next one's group.
    turn: AtomicUsize,
    pub(super) broken: AtomicBool,
}

impl<M> Home<M> {
    /// An inode has come.
    pub(super) fn count_in(&self, ino: Ino) {
        self.groups[keys::group(ino)].inodes.fetch_add(1, Ordering::Relaxed);
    }

    /// An inode has gone.
    pub(super) fn count_out(&self, ino: Ino) {
        self.groups[keys::group(ino)].inodes.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<M: Memory> Home<M> {
    /// An empty home: a root directory.
    ///
    /// # Errors
    /// `NoSpace` when `size_max` is too small even for that.
    pub fn new(memory: M, options: &Options) -> Result<Self> {
        let budget = Arc::new(Budget::new(options.size_max));
        let lender = memory.lender();
        let home = Self {
            trees: array::from_fn(|group| {
                RwLock::new(Rank::SubTree.number(group), SubTree::new(Arc::clone(&budget), lender))
            }),
            space: Space::new(memory, Arc::clone(&budget)),
            budget,
            file_size_max: options.file_size_max.min(FILE_SIZE_MAX),
            // Number 0 is nobody's, and number 1 the root's.
            groups: array::from_fn(|group| Group {
                next: AtomicU64::new(u64::from(group < 2)),
                inodes: AtomicU64::new(u64::from(group == keys::group(Ino::ROOT))),
            }),
            turn: AtomicUsize::new(keys::group(Ino::ROOT)),
            broken: AtomicBool::new(false),
        };
        let root = Attr { kind: Kind::Directory, nlink: 2, parent: Ino::ROOT, ..options.root };
        let mut tree = home.trees[keys::group(Ino::ROOT)].write();
        tree.reserve(1, false)?;
        tree.put(&keys::inode(Ino::ROOT), &Record::new(&root).encode())?;
        tree.inodes = 1;
        drop(tree);
        Ok(home)
    }

    /// The memory below.
    pub fn memory(&self) -> &M {
        self.space.memory()
    }

    /// What it takes now.
    pub fn usage(&self) -> Usage {
        Usage {
            total: self.budget.total(),
            used: self.budget.used(),
            trees: self.trees.iter().map(|tree| tree.read().bytes()).sum(),
            data: self.space.claimed() * GRANULE,
            memory: self.memory().size(),
            inodes: self.inodes(),
        }
    }

    /// The sub-tree that holds all of an inode, to read.
    #[inline]
    pub(super) fn tree(&self, ino: Ino) -> ReadGuard<'_, SubTree> {
        self.trees[keys::group(ino)].read()
    }

    pub(super) fn number(&self, parent: Ino, kind: Kind) -> Ino {
        let group = match kind {
            Kind::Directory => (self.turn.fetch_add(1, Ordering::Relaxed) + 1) % SUBTREES,
            _ => keys::group(parent),
        };
        let number = self.groups[group].next.fetch_add(1, Ordering::Relaxed);
        Ino(number * SUBTREES as u64 + group as u64)
    }

    /// Inodes.
    pub(super) fn inodes(&self) -> u64 {
        let counts = self.groups.iter().map(|group| group.inodes.load(Ordering::Relaxed));
        counts.sum()
    }

    pub(super) fn space_now(&self) -> store::Space {
        store::Space { total: self.budget.total(), used: self.budget.used(), inodes: self.inodes() }
    }
}
