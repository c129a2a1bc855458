//! The kernel's protocol as bytes: every structure, opcode and flag once, under the field names of
//! linux/fuse.h (protocol 7.45).
//!
//! Above: `request` takes requests apart, `reply` puts answers together. Below: nothing.
//! Invariant: a structure here has the size and the offsets that it has in the kernel's header;
//! `layout!` refuses holes, and `tests/wire.rs` holds the sizes against the header's.

pub mod flags;
mod opcode;
mod structs;

pub use opcode::Opcode;
pub use structs::*;

/// The protocol's major version.
pub const MAJOR: u32 = 7;
/// The newest minor version known here.
pub const MINOR: u32 = 45;
/// The oldest minor version spoken: Linux 5.13, the first to offer `SETXATTR_EXT` and
/// `HANDLE_KILLPRIV_V2`.
pub const MINOR_MIN: u32 = 33;
/// The root directory's node.
pub const ROOT_ID: u64 = 1;
/// What records in a listing are aligned to, in bytes.
pub const RECORD_ALIGN: usize = 8;
/// Extension types up to this one are security contexts.
pub const EXT_SECCTX_MAX: u32 = 31;
/// The extension that carries supplementary groups.
pub const EXT_GROUPS: u32 = 32;
/// The notification that [`NotifyInvalInodeOut`] carries.
pub const NOTIFY_INVAL_INODE: u32 = 2;
/// The notification that [`NotifyInvalEntryOut`] carries.
pub const NOTIFY_INVAL_ENTRY: u32 = 3;
/// `statx(2)`: all that stat(2) tells, and the birth time.
pub const STATX_BASIC_AND_BTIME: u32 = 0x07ff | 0x0800;

// The kernel speaks the machine's byte order, `layout!` always little-endian.
#[cfg(not(target_endian = "little"))]
compile_error!("the FUSE door speaks to little-endian kernels only");
