//! What the meter offers: where a row begins and ends, and what to note.

#[cfg(target_arch = "wasm32")]
mod import {
    #[link(wasm_import_module = "meter")]
    unsafe extern "C" {
        pub fn begin(new_message: u32);
        pub fn end(name: *const u8, len: usize);
    }
}

/// The time of a canister's system, in nanoseconds.
#[cfg(all(target_arch = "wasm32", feature = "wasi"))]
pub fn now() -> u64 {
    #[link(wasm_import_module = "ic0")]
    unsafe extern "C" {
        safe fn time() -> u64;
    }
    time()
}

/// Measures what `f` does, in a message of its own or in the one before.
pub fn row<R>(name: &str, new_message: bool, f: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "wasm32")]
    // SAFETY: the meter takes any number.
    unsafe {
        import::begin(u32::from(new_message));
    }
    let done = f();
    #[cfg(target_arch = "wasm32")]
    // SAFETY: the meter reads the name's bytes before it returns.
    unsafe {
        import::end(name.as_ptr(), name.len());
    }
    let _ = (name, new_message);
    done
}
