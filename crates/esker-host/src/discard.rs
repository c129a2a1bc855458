//! Has a block device forget what it need not keep any more.
//!
//! Below: the kernel. Invariant: what was there reads as anything from then on; nobody asks for it before it is written
//! again.
#![expect(unsafe_code, reason = "an ioctl, with the numbers that it is declared with")]

use std::fs::File;
use std::io::Result;

use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

/// `BLKDISCARD`: where, and how many bytes.
const DISCARD: Opcode = opcode::none(0x12, 119);

/// Has a block device forget so many bytes. A hole, as one makes it in a file, would have it write zeros.
///
/// # Errors
/// What the kernel says; `Unsupported` of a device that cannot.
pub fn discard(file: &File, at: u64, len: u64) -> Result<()> {
    // SAFETY: the opcode is declared with two numbers of 64 bits, which the kernel reads.
    Ok(unsafe { ioctl(file, Setter::<DISCARD, [u64; 2]>::new([at, len])) }?)
}
