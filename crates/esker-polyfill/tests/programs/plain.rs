//! A module that is no canister, and calls WASI in its own words: built without the feature `ic`, for any target, and
//! linked, it needs nobody.

#[cfg(target_family = "wasm")]
mod module {
    use std::sync::atomic::{AtomicU64, Ordering};

    use esker_polyfill::{Stream, set_clock, set_output};

    #[link(wasm_import_module = "wasi_snapshot_preview1")]
    unsafe extern "C" {
        safe fn clock_time_get(clock: u32, precision: u64, nanos: &mut u64) -> i32;
        fn fd_write(fd: u32, pieces: *const [usize; 2], count: usize, written: &mut usize) -> i32;
        fn path_create_directory(fd: u32, path: *const u8, len: usize) -> i32;
    }

    static PRINTED: AtomicU64 = AtomicU64::new(0);

    fn print(_: Stream, text: &[u8]) {
        PRINTED.fetch_add(text.len() as u64, Ordering::Relaxed);
    }

    fn make(path: &str) -> i32 {
        // SAFETY: the path is as long as is said.
        unsafe { path_create_directory(3, path.as_ptr(), path.len()) }
    }

    /// What was wrong, by the number of its line; 0 for nothing.
    #[unsafe(no_mangle)]
    extern "C" fn work() -> u32 {
        esker_polyfill::init(&[7; 32], &[]);
        set_clock(|| 42);
        set_output(print);
        if (make("data"), make("data"), make("/other")) != (0, 20, 63) {
            return line!();
        }
        let mut nanos = 0;
        if clock_time_get(0, 0, &mut nanos) != 0 || nanos != 42 {
            return line!();
        }
        let (text, mut written) = ("Hello.", 0);
        // SAFETY: the text is as long as is said.
        let told = unsafe { fd_write(1, &[text.as_ptr() as usize, text.len()], 1, &mut written) };
        if (told, written, PRINTED.load(Ordering::Relaxed)) != (0, 6, 6) {
            return line!();
        }
        0
    }
}
