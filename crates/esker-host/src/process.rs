//! What a process may ask about itself.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// Memory of this process that is in RAM now, in bytes.
///
/// # Errors
/// When `/proc` is not there or not as proc(5) says.
pub fn resident_bytes() -> io::Result<u64> {
    let pages = std::fs::read_to_string("/proc/self/statm")?;
    let pages = pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.ok_or_else(|| io::Error::other("/proc/self/statm has no second number"))?;
    Ok(pages * rustix::param::page_size() as u64)
}

/// A random number from the kernel.
///
/// # Errors
/// When the kernel has none to give.
pub fn seed() -> io::Result<u64> {
    let mut bytes = [0; 8];
    let mut known = 0;
    while known < bytes.len() {
        known += getrandom(&mut bytes[known..], GetRandomFlags::empty())?;
    }
    Ok(u64::from_ne_bytes(bytes))
}
