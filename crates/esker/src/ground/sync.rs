//! Locks behind one façade: real ones with the feature `std`, none to speak of in a single-threaded build,
//! and those of a schedule explorer with the feature `shuttle`, which only tests turn on.
//!
//! Each is born with its place in the lock order ([`super::order`]): debug builds hold to it, and others
//! forget it. A lock whose holder panicked is opened all the same: a home that may be half-changed says so
//! itself (see `memory::home`), and a door answers the panic with EIO.

#[cfg(feature = "std")]
mod real {
    use std::sync::PoisonError;

    #[cfg(feature = "shuttle")]
    use shuttle::sync as threads;
    #[cfg(not(feature = "shuttle"))]
    use std::sync as threads;

    use crate::ground::order::Place;

    /// Many readers or one writer.
    #[derive(Debug)]
    pub struct RwLock<T>(threads::RwLock<T>);
    /// Reading.
    pub type ReadGuard<'a, T> = threads::RwLockReadGuard<'a, T>;
    /// Writing.
    pub type WriteGuard<'a, T> = threads::RwLockWriteGuard<'a, T>;

    impl<T> RwLock<T> {
        /// Unlocked.
        pub const fn new(_: Place, value: T) -> Self {
            Self(threads::RwLock::new(value))
        }
        /// Waits for writers.
        pub fn read(&self) -> ReadGuard<'_, T> {
            self.0.read().unwrap_or_else(PoisonError::into_inner)
        }
        /// Waits for everybody.
        pub fn write(&self) -> WriteGuard<'_, T> {
            self.0.write().unwrap_or_else(PoisonError::into_inner)
        }
        /// Nobody else can hold it.
        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// One at a time.
    #[derive(Debug)]
    pub struct Mutex<T>(threads::Mutex<T>);
    /// Holding it.
    pub type MutexGuard<'a, T> = threads::MutexGuard<'a, T>;

    impl<T> Mutex<T> {
        /// Unlocked.
        pub const fn new(_: Place, value: T) -> Self {
            Self(threads::Mutex::new(value))
        }
        /// Waits.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
        /// Nobody else can hold it.
        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
        }
    }
}

#[cfg(not(feature = "std"))]
mod real {
    use core::cell::{Ref, RefCell, RefMut};

    use crate::ground::order::Place;

    /// Many readers or one writer, checked and never waited for.
    #[derive(Debug)]
    pub struct RwLock<T>(RefCell<T>);
    /// Reading.
    pub type ReadGuard<'a, T> = Ref<'a, T>;
    /// Writing.
    pub type WriteGuard<'a, T> = RefMut<'a, T>;

    impl<T> RwLock<T> {
        /// Unlocked.
        pub const fn new(_: Place, value: T) -> Self {
            Self(RefCell::new(value))
        }
        /// There is no other thread to wait for.
        pub fn read(&self) -> ReadGuard<'_, T> {
            self.0.borrow()
        }
        /// There is no other thread to wait for.
        pub fn write(&self) -> WriteGuard<'_, T> {
            self.0.borrow_mut()
        }
        /// Nobody else can hold it.
        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut()
        }
    }

    /// One at a time.
    #[derive(Debug)]
    pub struct Mutex<T>(RefCell<T>);
    /// Holding it.
    pub type MutexGuard<'a, T> = RefMut<'a, T>;

    impl<T> Mutex<T> {
        /// Unlocked.
        pub const fn new(_: Place, value: T) -> Self {
            Self(RefCell::new(value))
        }
        /// There is no other thread to wait for.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.borrow_mut()
        }
        /// Nobody else can hold it.
        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut()
        }
    }
}

/// The same, held to their order.
#[cfg(all(feature = "std", debug_assertions))]
mod checked {
    use core::ops::{Deref, DerefMut};

    use super::real;
    use crate::ground::order::{Place, Taken};

    /// Many readers or one writer.
    #[derive(Debug)]
    pub struct RwLock<T> {
        place: Place,
        lock: real::RwLock<T>,
    }
    /// Reading.
    pub type ReadGuard<'a, T> = Guard<real::ReadGuard<'a, T>>;
    /// Writing.
    pub type WriteGuard<'a, T> = Guard<real::WriteGuard<'a, T>>;

    impl<T> RwLock<T> {
        /// Unlocked.
        pub const fn new(place: Place, value: T) -> Self {
            Self { place, lock: real::RwLock::new(place, value) }
        }
        /// Waits for writers.
        #[track_caller]
        pub fn read(&self) -> ReadGuard<'_, T> {
            let taken = Taken::new(self.place);
            Guard { guard: self.lock.read(), _taken: taken }
        }
        /// Waits for everybody.
        #[track_caller]
        pub fn write(&self) -> WriteGuard<'_, T> {
            let taken = Taken::new(self.place);
            Guard { guard: self.lock.write(), _taken: taken }
        }
        /// Nobody else can hold it.
        pub fn get_mut(&mut self) -> &mut T {
            self.lock.get_mut()
        }
    }

    /// One at a time.
    #[derive(Debug)]
    pub struct Mutex<T> {
        place: Place,
        lock: real::Mutex<T>,
    }
    /// Holding it.
    pub type MutexGuard<'a, T> = Guard<real::MutexGuard<'a, T>>;

    impl<T> Mutex<T> {
        /// Unlocked.
        pub const fn new(place: Place, value: T) -> Self {
            Self { place, lock: real::Mutex::new(place, value) }
        }
        /// Waits.
        #[track_caller]
        pub fn lock(&self) -> MutexGuard<'_, T> {
            let taken = Taken::new(self.place);
            Guard { guard: self.lock.lock(), _taken: taken }
        }
        /// Nobody else can hold it.
        pub fn get_mut(&mut self) -> &mut T {
            self.lock.get_mut()
        }
    }

    /// A lock held, and that it is known to be.
    #[derive(Debug)]
    pub struct Guard<G> {
        guard: G,
        _taken: Taken,
    }

    impl<G: Deref> Deref for Guard<G> {
        type Target = G::Target;
        fn deref(&self) -> &G::Target {
            &self.guard
        }
    }

    impl<G: DerefMut> DerefMut for Guard<G> {
        fn deref_mut(&mut self) -> &mut G::Target {
            &mut self.guard
        }
    }
}

#[cfg(all(feature = "std", debug_assertions))]
pub use checked::{Mutex, MutexGuard, ReadGuard, RwLock, WriteGuard};
#[cfg(not(all(feature = "std", debug_assertions)))]
pub use real::{Mutex, MutexGuard, ReadGuard, RwLock, WriteGuard};

/// Numbers that threads share.
pub mod atomic {
    #[cfg(not(feature = "shuttle"))]
    pub use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    #[cfg(feature = "shuttle")]
    pub use shuttle::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
}
