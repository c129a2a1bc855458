//! The lock order of a whole file system, stated here and nowhere else: whoever holds a lock takes only
//! locks of a higher [`Rank`], or of the same rank with a higher number.
//!
//! What waits for what:
//! - A call waits for another on the same inode, or on one of the same stripe, where at least one of the two
//!   changes it: of 1024 pairs of unrelated inodes one shares a stripe, and then the wait is as long
//!   as the other call (a write's bytes; at most the 1 GiB of one copy_file_range). A read that
//!   moves atime is a change for a moment. `getattr`, `access`, `statfs`, `getxattr`, `listxattr`
//!   and a listing without attributes lock no inode.
//! - Only a rename between two directories that moves a directory, or would replace one, takes the
//!   rename lock, and so waits for others of its kind.
//! - Who puts another state in the place of all that there is (`Fs::alone_with_all`) takes the rename lock and every
//!   inode, and so waits for all calls that are under way, and all that come wait for it.
//! - A sub-tree has the keys of a group of inodes: directories are dealt out over all groups, and a
//!   file is in the group of the directory that it was made in. It is locked while keys are looked
//!   at or changed, without a call outside, so a look-up waits at most for the keys of commits in its
//!   own group. One kind of commit also moves bytes meanwhile: one that overwrites what readers can see and
//!   at the same time needs room for new keys (an overwrite that goes on past the end of the file).
//! - The map of free space and the uses of shared space are one lock each for the whole home, for as
//!   long as it takes to find or mark runs. Changes of a file's space take them; no look-up and no
//!   read does.
//! - An inode of an overlay's lower home that changes for the first time is brought up beside no other of its shard
//!   (`overlay::state`), for as long as the lower takes to tell its attributes. The table of what was brought up
//!   is locked for a look at a time.
//! - A home that lies in its memory as a whole takes one commit at a time: a change waits for any other.
//! - Budget, inode numbers and counters are atomic numbers: nobody waits for them.
//! - Doors: no lock of theirs is held during a call of `Fs`, and nothing is taken while one is,
//!   so they have no rank. A request waits for a worker of its door.
//!
//! Who lists a directory with attributes is called back while its inode is locked, and so calls no
//! `Fs` from there.
//!
//! Above: [`super::sync`], whose locks are born with their place. With debug assertions and `std`
//! every thread knows the places that it holds, and panics with both names when it takes one out of
//! order, whether or not another thread is there to make it a deadlock.

/// The kinds of locks, in the order in which they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// `posix::locks`: a directory moves to another parent. There is one.
    Rename,
    /// `posix::locks`: the inodes that a call names, all at once; numbered by their stripes.
    Inode,
    /// `overlay::state`: the right to bring up an inode; numbered by shard.
    Lift,
    /// `overlay::state`: what was brought up; numbered by shard. Nothing is taken while one is held.
    Overlay,
    /// `memory::resident`: a commit to a home that lies in its memory as a whole. There is one.
    Turn,
    /// `overlay::leaving`: the home that is left, and what is kept of it. Nothing is taken while one is held.
    Leaving,
    /// `memory::home`: the keys of one group of inodes; numbered by group. A reader holds one of them.
    SubTree,
    /// `memory::space`: which space has several users. There is one.
    Uses,
    /// `memory::space`: which space is free. There is one.
    Space,
    /// `memory::resident`: pages of one tree that are at hand; numbered by tree, and held one at a time.
    Cache,
    /// `memory::resident`: which pages are free. There is one.
    Spare,
    /// `memory::resident`: records at hand. There is one, and nothing is taken while it is held.
    Known,
    /// `ground::undo`: what the call under way put aside. There is one.
    Undo,
    /// `ground::heap`: which blocks there are. There is one.
    Blocks,
    /// `ground::heap`: a block's bytes; numbered by block, and held one at a time.
    Block,
    /// `posix::holds`: how often inodes are held; numbered by shard. Nothing is taken while one is held.
    Holds,
}

/// A lock's place in the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    rank: Rank,
    number: usize,
}

impl Rank {
    /// The place of the lock with this number.
    #[must_use]
    pub const fn number(self, number: usize) -> Place {
        Place { rank: self, number }
    }

    /// The place of a lock that is the only one of its rank.
    #[must_use]
    pub const fn only(self) -> Place {
        self.number(0)
    }
}

#[cfg(all(feature = "std", debug_assertions))]
pub(super) use held::Taken;

#[cfg(all(feature = "std", debug_assertions))]
mod held {
    use alloc::vec::Vec;
    use core::cell::RefCell;
    use core::fmt;

    use super::Place;

    // The explorer's threads are not the operating system's.
    #[cfg(feature = "shuttle")]
    use shuttle::thread_local;
    #[cfg(not(feature = "shuttle"))]
    use std::thread_local;

    thread_local! {
        /// What this thread holds, in rising order.
        static HELD: RefCell<Vec<Place>> = const { RefCell::new(Vec::new()) };
    }

    impl fmt::Display for Place {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{:?} {}", self.rank, self.number)
        }
    }

    /// A place that this thread holds until this goes.
    #[derive(Debug)]
    pub struct Taken(Place);

    impl Taken {
        /// Before the thread waits for the lock.
        #[track_caller]
        pub(in crate::ground) fn new(place: Place) -> Self {
            let above = |held: &RefCell<Vec<Place>>| {
                let mut held = held.borrow_mut();
                let above = held.last().copied().filter(|&last| last >= place);
                if above.is_none() {
                    held.push(place);
                }
                above
            };
            // A thread that is ending or panicking has other worries.
            if let Ok(Some(held)) = HELD.try_with(above)
                && !std::thread::panicking()
            {
                panic!("lock order: {place} is taken while {held} is held");
            }
            Self(place)
        }
    }

    impl Drop for Taken {
        fn drop(&mut self) {
            let _ = HELD.try_with(|held| {
                let mut held = held.borrow_mut();
                if let Some(index) = held.iter().rposition(|&place| place == self.0) {
                    held.remove(index);
                }
            });
        }
    }
}

#[cfg(all(test, feature = "std", debug_assertions, not(feature = "shuttle")))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::Rank;
    use crate::ground::sync::{Mutex, RwLock};

    fn refused(take: impl FnOnce()) -> alloc::string::String {
        let panic = catch_unwind(AssertUnwindSafe(take)).expect_err("out of order");
        *panic.downcast().expect("it says why")
    }

    #[test]
    fn rising_is_right_and_everything_else_is_named() {
        let rename = Mutex::new(Rank::Rename.only(), ());
        let inodes = [1, 2].map(|number| RwLock::new(Rank::Inode.number(number), ()));
        let shard = Mutex::new(Rank::Holds.number(7), ());
        {
            let first = (rename.lock(), inodes[0].read());
            let second = inodes[1].write();
            drop(shard.lock());
            drop(first);
            drop((second, shard.lock()));
        }
        let said = refused(|| drop((inodes[1].read(), inodes[0].read())));
        assert_eq!(said, "lock order: Inode 1 is taken while Inode 2 is held");
        let said = refused(|| drop((inodes[1].read(), inodes[1].read())));
        assert_eq!(said, "lock order: Inode 2 is taken while Inode 2 is held");
        let said = refused(|| drop((shard.lock(), rename.lock())));
        assert_eq!(said, "lock order: Rename 0 is taken while Holds 7 is held");
        // What was refused is not held, and what was held is let go of.
        drop((rename.lock(), inodes[0].read(), inodes[1].read(), shard.lock()));
    }
}
