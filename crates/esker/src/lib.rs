//! Esker's core: the knot ([`store`]), POSIX ([`posix`]), the ordered map ([`tree`]), the memory home ([`memory`]), and
//! one home above another ([`overlay`]).
//!
//! A door (FUSE, WASI, a program) calls [`posix::Fs`], which asks a [`store::View`], decides by the rules of
//! POSIX, and commits one bounded [`store::Batch`] to a [`store::Store`]. A home remembers and
//! knows nothing of POSIX. Imports never go up: `posix` > `store` < `memory` > `tree` > `ground`,
//! and `store` < `overlay` > `ground`.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod attr;
pub mod error;
pub mod ground;
pub mod ids;
pub mod layout;
pub mod limits;
pub mod memory;
pub mod name;
pub mod overlay;
pub mod posix;
pub mod store;
pub mod tree;

pub use attr::{Attr, Flags, Kind, Time};
pub use error::{Error, Result};
pub use ids::{Cursor, Ino, Span};
pub use name::{Name, XattrName};
