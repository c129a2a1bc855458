//! A file system inside a program's own memory: a canister's stable memory, a WebAssembly program's, a vector, a
//! file. What a returned call did is in the memory; after an upgrade everything is there, with no hook to call.
//!
//! Above: programs. Below: the embedded home ([`esker::memory::Resident`]) through [`esker::posix`].
//! [`Files`] has handles and paths, as a program without a kernel needs them; [`mounted`] is for doors that have their
//! own.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod backing;
mod files;
mod handle;
mod host_memory;
#[cfg(feature = "import")]
mod import;
mod mount;
pub mod mounted;
mod names;
#[cfg(feature = "stable")]
mod stable;

pub use backing::{Backing, BackingHead, MountError};
pub use files::{Files, Settings};
pub use handle::{Fd, Lock, Open, Whence};
pub use host_memory::HostMemory;
#[cfg(feature = "import")]
pub use import::{ImportError, Imported, import};
#[cfg(feature = "stable")]
pub use stable::Stable;
