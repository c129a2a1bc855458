//! What calls of WASI cost, and a line in the log for each: with features of ic-wasi-polyfill's names. Without them
//! nothing of it is in a canister.
//!
//! Above: `calls`. Invariant: what a call does and answers is the same, counted or not.

use std::cell::Cell;

thread_local! {
    /// Instructions, since they were last reset.
    static COUNTER: Cell<u64> = const { Cell::new(0) };
}

/// Instructions that calls of WASI took, with the feature `count_wasi_calls`; 0 without it.
#[must_use]
pub fn get_counter() -> u64 {
    COUNTER.get()
}

/// From now on they are counted anew.
pub fn reset_counter() {
    COUNTER.set(0);
}

/// Makes a call.
#[cfg(all(target_family = "wasm", not(feature = "count_wasi_calls")))]
#[inline(always)]
pub fn counted(_: &str, call: impl FnOnce() -> i32) -> i32 {
    call()
}

/// Makes a call, and counts it.
#[cfg(all(target_family = "wasm", feature = "count_wasi_calls"))]
pub fn counted(name: &str, call: impl FnOnce() -> i32) -> i32 {
    use crate::canister::{instructions, log};

    let before = instructions();
    let answer = call();
    let cost = instructions().saturating_sub(before);
    COUNTER.set(COUNTER.get().saturating_add(cost));
    if cfg!(feature = "report_wasi_calls") {
        log(format!("{name}: {answer}, {cost} instructions\n").as_bytes());
    }
    answer
}
