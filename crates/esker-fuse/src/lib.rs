//! The door to the Linux kernel: FUSE up to protocol 7.45, spoken by ourselves.
//!
//! [`mount::mount`] attaches a directory and gives a [`transport::Device`]; a [`session::Session`]
//! receives requests from it, [`request::Request`] takes them apart, a [`handler::Handler`]
//! answers: [`door::Door`] from a file system, [`null::Null`] from nothing (the bound that a file
//! system is measured against).
//! Below: `esker::posix`. Nothing here knows of other doors.

#![deny(unsafe_code)]

mod caller;
pub mod control;
pub mod convert;
pub mod door;
pub mod handler;
mod ioctl;
pub mod latency;
mod later;
pub mod mount;
pub mod negotiate;
pub mod null;
mod parse;
mod partings;
mod renewed;
pub mod reply;
pub mod request;
pub mod session;
pub mod slow;
pub mod transport;
pub mod wire;
mod writers;

pub use control::Control;
pub use door::{Door, DoorOptions};
pub use latency::Latencies;
pub use mount::{MountError, MountOptions, Mounted, OptionError, mount};
pub use null::Null;
pub use session::{Running, Session, SessionError, SessionOptions, converse};
