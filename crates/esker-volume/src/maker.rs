//! Who makes the stores that hold what changes, one for each layer.
//!
//! Above: whoever opens a volume to write. Neighbours: `home` asks. Invariant: what is made is empty but for a root
//! directory, whether it is new or was used before.

use esker::Result;

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

/// One that makes, and one that makes again.
impl<U, F, G> Maker<U> for (F, G)
where
    F: Fn() -> Result<U> + Send + Sync,
    G: Fn(U) -> Result<U> + Send + Sync,
{
    fn make(&self) -> Result<U> {
        self.0()
    }

    fn again(&self, used: U) -> Result<U> {
        self.1(used)
    }
}
