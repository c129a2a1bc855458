//! A file system in a memory that the host of a plain WebAssembly module keeps, which imports four functions and
//! exports `append`: `cargo build -p esker-embedded --example imported --target wasm32-unknown-unknown`.
//!
//! Another instance of the module over the same memory goes on where this one ends.
#![cfg(target_arch = "wasm32")]

use esker::Time;
use esker_embedded::{Fd, Files, HostMemory, Open};

#[link(wasm_import_module = "host")]
unsafe extern "C" {
    safe fn memory_size() -> u64;
    safe fn memory_grow(size: u64) -> u32;
    fn memory_read(at: u64, target: *mut u8, len: usize);
    fn memory_write(at: u64, source: *const u8, len: usize);
}

fn read(at: u64, target: &mut [u8]) {
    // SAFETY: the host fills as many bytes as there are.
    unsafe { memory_read(at, target.as_mut_ptr(), target.len()) }
}

fn write(at: u64, source: &[u8]) {
    // SAFETY: the host reads as many bytes as there are.
    unsafe { memory_write(at, source.as_ptr(), source.len()) }
}

const MEMORY: HostMemory =
    HostMemory { size: || memory_size(), grow: |size| memory_grow(size) != 0, read, write };

fn append_to_log(byte: u8) -> Result<u64, Box<dyn std::error::Error>> {
    let mut files = Files::open_memory(MEMORY, || Time { secs: 0, nanos: 0 })?;
    let log = files.open(Fd::ROOT, b"log", Open { append: true, ..Open::CREATE })?;
    files.write(log, &[byte])?;
    let size = files.stat(log)?.size;
    files.close(log)?;
    Ok(size)
}

/// Adds a byte to a log; how long that is then, or 0 when it cannot be.
#[unsafe(no_mangle)]
pub extern "C" fn append(byte: u32) -> u64 {
    append_to_log(byte as u8).unwrap_or(0)
}
