//! How the global allocator keeps memory: what was freed, and in how many heaps.

/// Has the allocator give whole pages that nobody uses back to the operating system, where it can be
/// asked to. It walks through all that it keeps, which takes milliseconds.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim(3) may be called at any time from any thread; it touches only what is free.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Has threads that start from now on share one heap, where that can be chosen. With a heap for each, large pieces that
/// many threads take and leave lie between others: a cache of 48 MiB came to 150 MB, and to 120 in one heap.
pub fn share_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: mallopt(3) may be called at any time; this parameter only steers where later calls look for room.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}
