//! Which inodes a call has to itself.
//!
//! Above: every verb. Below: [`crate::ground::order`], where the lock order of a whole file system is
//! stated. Invariant: a call takes all inode locks that it needs at once, in ascending order of their
//! stripes. Inodes share stripes, so an inode may wait for a stranger, never for itself: a call takes
//! each stripe once, in the strongest mode that it needs. Without threads there is nobody to wait for, and no lock.

#[cfg(not(feature = "std"))]
pub(super) use alone::Locks;
#[cfg(feature = "std")]
pub(super) use striped::Locks;

/// How an inode is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// Beside other readers.
    Read,
    /// Alone.
    Write,
}

/// Nobody else is there.
#[cfg(not(feature = "std"))]
mod alone {
    use super::Mode;
    use crate::ids::Ino;

    /// No locks.
    pub struct Locks;

    /// Nothing held.
    pub struct Held;

    impl Locks {
        /// What was seen without locks stays so.
        pub const ALONE: bool = true;

        pub const fn new() -> Self {
            Self
        }

        pub const fn read(&self, _: Ino) -> Held {
            Held
        }

        pub const fn write(&self, _: Ino) -> Held {
            Held
        }

        pub const fn lock(&self, _: &[(Ino, Mode)]) -> Held {
            Held
        }

        pub const fn rename(&self) -> Held {
            Held
        }

        pub const fn all(&self) -> Held {
            Held
        }
    }
}

#[cfg(feature = "std")]
mod striped {
    use alloc::boxed::Box;
    use alloc::vec::Vec;

    use super::Mode;
    use crate::ground::order::Rank;
    use crate::ground::sync::{Mutex, MutexGuard, ReadGuard, RwLock, WriteGuard};
    use crate::ids::Ino;

    const STRIPES: usize = 1024;
    /// Inodes in the longest operation: a rename's two directories, what moves and what is replaced.
    const INODES_MAX: usize = 4;

    /// All locks above the home.
    pub struct Locks {
        stripes: Box<[RwLock<()>]>,
        rename: Mutex<()>,
    }

    /// Locks held; dropping lets go.
    pub struct Held<'a> {
        _guards: [Option<Guard<'a>>; INODES_MAX],
    }

    /// All locks held; dropping lets go.
    pub struct All<'a> {
        _rename: MutexGuard<'a, ()>,
        _inodes: Vec<WriteGuard<'a, ()>>,
    }

    enum Guard<'a> {
        Read { _guard: ReadGuard<'a, ()> },
        Write { _guard: WriteGuard<'a, ()> },
    }

    impl Locks {
        /// Others may change what was seen without locks.
        pub const ALONE: bool = false;

        pub fn new() -> Self {
            let stripe = |number| RwLock::new(Rank::Inode.number(number), ());
            let stripes = (0..STRIPES).map(stripe).collect();
            Self { stripes, rename: Mutex::new(Rank::Rename.only(), ()) }
        }

        /// The inode beside other readers.
        pub fn read(&self, ino: Ino) -> ReadGuard<'_, ()> {
            self.stripes[stripe(ino)].read()
        }

        /// The inode alone.
        pub fn write(&self, ino: Ino) -> WriteGuard<'_, ()> {
            self.stripes[stripe(ino)].write()
        }

        /// Every inode named, at most four of them.
        pub fn lock(&self, wanted: &[(Ino, Mode)]) -> Held<'_> {
            let mut order = [(usize::MAX, Mode::Read); INODES_MAX];
            for (place, &(ino, mode)) in order.iter_mut().zip(wanted) {
                *place = (stripe(ino), mode);
            }
            let order = &mut order[..wanted.len()];
            // Strongest first within a stripe, so that the first one met is the one to take.
            order.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
            let mut guards = [const { None }; INODES_MAX];
            let mut last = usize::MAX;
            for (guard, &mut (stripe, mode)) in guards.iter_mut().zip(order.iter_mut()) {
                if stripe != last {
                    *guard = Some(self.take(stripe, mode));
                    last = stripe;
                }
            }
            Held { _guards: guards }
        }

        /// Every inode alone.
        pub fn all(&self) -> All<'_> {
            let rename = self.rename.lock();
            All { _rename: rename, _inodes: self.stripes.iter().map(RwLock::write).collect() }
        }

        /// The rename lock, before any inode.
        pub fn rename(&self) -> MutexGuard<'_, ()> {
            self.rename.lock()
        }

        fn take(&self, stripe: usize, mode: Mode) -> Guard<'_> {
            match mode {
                Mode::Read => Guard::Read { _guard: self.stripes[stripe].read() },
                Mode::Write => Guard::Write { _guard: self.stripes[stripe].write() },
            }
        }
    }

    /// Neighbouring inodes of one group must not meet in one stripe, nor those of neighbouring groups.
    fn stripe(ino: Ino) -> usize {
        (ino.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - STRIPES.trailing_zeros())) as usize
    }
}
