//! What the global allocator keeps of memory that was freed.

/// Has the allocator give whole pages that nobody uses back to the operating system, where it can be
/// asked to. It walks through all that it keeps, which takes milliseconds.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim(3) may be called at any time from any thread; it touches only what is free.
    unsafe {
        libc::malloc_trim(0);
    }
}
