//! Shared mappings of a file. The only place of the workshop, besides its worker threads, that needs `unsafe`.
//!
//! Above: [`super::work`]. Invariant: a mapping lives no longer than the call that made it, and nobody cuts the
//! file meanwhile, so no access can miss its pages.

use std::fs::File;

use memmap2::MmapOptions;

/// Bytes per page, which mappings are made of.
const PAGE: u64 = 4096;

/// Calls `f` with the bytes of the file from `at` (in whole pages from there down, of which only these are given).
pub(super) fn read(file: &File, at: u64, len: usize, f: impl FnOnce(&[u8])) -> Result<(), String> {
    let base = at / PAGE * PAGE;
    let within = (at - base) as usize;
    // SAFETY: the file is ours alone, and it is not cut while the mapping lives.
    let map = unsafe { MmapOptions::new().offset(base).len(within + len).map(file) };
    let map = map.map_err(|error| format!("mmap: {error}"))?;
    f(&map[within..within + len]);
    Ok(())
}

/// Writes through a shared mapping; msync(2) if `flush`.
pub(super) fn write(file: &File, at: u64, source: &[u8], flush: bool) -> Result<(), String> {
    let base = at / PAGE * PAGE;
    let within = (at - base) as usize;
    // SAFETY: the file is ours alone, and it is not cut while the mapping lives.
    let map = unsafe { MmapOptions::new().offset(base).len(within + source.len()).map_mut(file) };
    let mut map = map.map_err(|error| format!("mmap: {error}"))?;
    map[within..].copy_from_slice(source);
    if flush {
        map.flush().map_err(|error| format!("msync: {error}"))?;
    }
    Ok(())
}
