//! Time as a parameter.

use crate::attr::Time;

/// Tells the time. The operating system's lives in `esker-host`; tests bring their own.
pub trait Clock {
    /// Now.
    fn now(&self) -> Time;
}

impl<F: Fn() -> Time> Clock for F {
    fn now(&self) -> Time {
        self()
    }
}
