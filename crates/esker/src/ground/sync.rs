//! Locks behind one façade: real ones with the feature `std`, none to speak of in a single-threaded build.
//!
//! A lock whose holder panicked is opened all the same: a home that may be half-changed says so itself (see
//! `memory::home`), and a door answers the panic with EIO.

#[cfg(feature = "std")]
mod real {
    use std::sync::PoisonError;

    /// Many readers or one writer.
    #[derive(Debug, Default)]
    pub struct RwLock<T>(std::sync::RwLock<T>);
    /// Reading.
    pub type ReadGuard<'a, T> = std::sync::RwLockReadGuard<'a, T>;
    /// Writing.
    pub type WriteGuard<'a, T> = std::sync::RwLockWriteGuard<'a, T>;

    impl<T> RwLock<T> {
        /// Unlocked.
        pub const fn new(value: T) -> Self {
            Self(std::sync::RwLock::new(value))
        }
        /// Waits for writers.
        pub fn read(&self) -> ReadGuard<'_, T> {
            self.0.read().unwrap_or_else(PoisonError::into_inner)
        }
        /// Waits for everybody.
        pub fn write(&self) -> WriteGuard<'_, T> {
            self.0.write().unwrap_or_else(PoisonError::into_inner)
        }
        /// A holder panicked while writing.
        pub fn poisoned(&self) -> bool {
            self.0.is_poisoned()
        }
    }

    /// One at a time.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(std::sync::Mutex<T>);
    /// Holding it.
    pub type MutexGuard<'a, T> = std::sync::MutexGuard<'a, T>;

    impl<T> Mutex<T> {
        /// Unlocked.
        pub const fn new(value: T) -> Self {
            Self(std::sync::Mutex::new(value))
        }
        /// Waits.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}

#[cfg(not(feature = "std"))]
mod real {
    use core::cell::{Ref, RefCell, RefMut};

    /// Many readers or one writer, checked and never waited for.
    #[derive(Debug, Default)]
    pub struct RwLock<T>(RefCell<T>);
    /// Reading.
    pub type ReadGuard<'a, T> = Ref<'a, T>;
    /// Writing.
    pub type WriteGuard<'a, T> = RefMut<'a, T>;

    impl<T> RwLock<T> {
        /// Unlocked.
        pub const fn new(value: T) -> Self {
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
        /// A single-threaded build ends with a panic.
        pub const fn poisoned(&self) -> bool {
            false
        }
    }

    /// One at a time.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(RefCell<T>);
    /// Holding it.
    pub type MutexGuard<'a, T> = RefMut<'a, T>;

    impl<T> Mutex<T> {
        /// Unlocked.
        pub const fn new(value: T) -> Self {
            Self(RefCell::new(value))
        }
        /// There is no other thread to wait for.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.borrow_mut()
        }
    }
}

pub use real::{Mutex, MutexGuard, ReadGuard, RwLock, WriteGuard};
