//! The module's own memory, as the functions of WASI look at a program's.

use core::arch::wasm32::memory_size;

use esker_wasi::{Errno, Guest, Result};

const PAGE: u64 = 64 * 1024;

/// The memory that this module runs in.
///
/// A program hands over buffers of its own, which nobody else uses while it waits for the answer.
pub struct Own;

/// Whether all of it lies in the memory, and not at its very first byte, which no Rust program can point to.
fn is_there(at: u32, len: u32) -> Result {
    let end = u64::from(at) + u64::from(len);
    if at != 0 && end <= memory_size::<0>() as u64 * PAGE { Ok(()) } else { Err(Errno::Fault) }
}

impl Guest for Own {
    #[inline]
    fn bytes(&self, at: u32, len: u32) -> Result<&[u8]> {
        if len == 0 {
            return Ok(&[]);
        }
        is_there(at, len)?;
        // SAFETY: the range lies in the memory, any bytes are bytes, and the program lends them for this call.
        Ok(unsafe { core::slice::from_raw_parts(at as *const u8, len as usize) })
    }

    #[inline]
    fn bytes_mut(&mut self, at: u32, len: u32) -> Result<&mut [u8]> {
        if len == 0 {
            return Ok(&mut []);
        }
        is_there(at, len)?;
        // SAFETY: as above; what a program wants written is its own, and nothing here points into it.
        Ok(unsafe { core::slice::from_raw_parts_mut(at as *mut u8, len as usize) })
    }
}
