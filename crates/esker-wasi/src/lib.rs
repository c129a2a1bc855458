//! The door for WebAssembly programs: the functions of WASI preview 1 over any home.
//!
//! Above: a host that runs a program, or a module that the functions are linked into. Below: `esker::posix`, which
//! decides everything about files, and a [`World`] with what is not one. A [`Context`] is what one program sees: its
//! open files, arguments, environment, and directories that it was given. Each function is a method under its own name;
//! [`preview1!`] tells them all with the types of their arguments, for whoever binds them. The program's memory is a
//! [`Guest`], and whatever it hands over may be hostile: it is told so, and nothing panics.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod context;
mod errno;
mod functions;
mod guest;
mod io;
mod layouts;
mod list;
mod names;
mod open;
mod poll;
mod process;
mod random;
mod rights;
mod stat;
mod strings;
mod table;
mod world;

pub use context::Context;
pub use errno::Errno;
pub use functions::NAMES;
pub use guest::Guest;
pub use random::Seeded;
pub use rights::Rights;
pub use world::{Clock, Stream, World};

/// What a function of WASI answers.
pub type Result<T = (), E = Errno> = core::result::Result<T, E>;
