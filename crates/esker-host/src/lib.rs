//! What the operating system gives a file system: memory ([`Arena`], [`Pool`], [`MappedFile`]) and ways to give it back
//! ([`release`], [`give_back`], [`share_heap`]), time ([`SystemClock`]), a random number ([`seed`]), writes that go on
//! by themselves ([`Writes`]), room below ([`discard()`]), zones ([`ZonedFile`]).
//!
//! Below: the kernel. Above: doors and tools; the core asks for these things through the traits of
//! `esker::ground`. Invariant: all unsafe code of the house that is not a door's is in `allocator`,
//! `arena`, `discard`, `huge`, `mapped`, `writes` and `zones`.

mod allocator;
mod arena;
mod clock;
mod discard;
mod huge;
mod mapped;
mod pool;
mod process;
mod words;
mod writes;
mod zones;

pub use allocator::{give_back, share_heap};
pub use arena::Arena;
pub use clock::SystemClock;
pub use discard::discard;
pub use huge::release;
pub use mapped::MappedFile;
pub use pool::{Lent, Pool};
pub use process::{resident_bytes, seed};
pub use writes::{Placing, Writes};
pub use zones::{ZonedFile, ZonesLayout};
