//! Who makes the stores that hold what changes, one for each layer.
//!
//! Above: whoever opens a volume to write. Neighbours: `home` asks. Invariant: what is made is empty but for a root
//! directory, whether it is new or was used before.

use esker::Result;
use esker::ground::Memory;
use esker::memory::{Home, Options};

/// Makes the stores that hold what changes.
pub trait Maker<U>: Send + Sync {
    /// An empty one with a root directory.
    ///
    /// # Errors
    /// `NoMemory`, and whatever else keeps it from being made.
    fn make(&self) -> Result<U>;

    /// An empty one out of one that was made so, and that nobody needs any more.
    ///
    /// # Errors
    /// As [`make`](Self::make).
    fn again(&self, used: U) -> Result<U> {
        drop(used);
        self.make()
    }

    /// None will be wanted soon: what was kept for the next ones can go.
    fn rest(&self) {}
}

impl<U, F: Fn() -> Result<U> + Send + Sync> Maker<U> for F {
    fn make(&self) -> Result<U> {
        self()
    }
}

/// Makes homes in memory, each in one that is lent.
pub struct Homes<F> {
    options: Options,
    lend: F,
}

impl<F> Homes<F> {
    /// Homes that are to be so, each in a memory that `lend` gives, of no bytes.
    pub const fn new(options: Options, lend: F) -> Self {
        Self { options, lend }
    }
}

impl<M: Memory, F: Fn() -> Result<M> + Send + Sync> Maker<Home<M>> for Homes<F> {
    fn make(&self) -> Result<Home<M>> {
        Home::new((self.lend)()?, &self.options)
    }

    fn again(&self, used: Home<M>) -> Result<Home<M>> {
        used.again(&self.lend, &self.options)
    }
}
