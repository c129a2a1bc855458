//! The cases in C of `esker-wasi`, in a canister: built with `--cfg with_c` and what a C compiler made of them; without
//! them nothing.

#![allow(unexpected_cfgs)]

#[cfg(all(target_family = "wasm", with_c))]
mod canister {
    unsafe extern "C" {
        safe fn cases() -> i32;
    }

    #[unsafe(export_name = "canister_init")]
    extern "C" fn init() {
        esker_polyfill::init(&[7; 32], &[]);
    }

    #[unsafe(export_name = "canister_update cases")]
    extern "C" fn run() -> i32 {
        cases()
    }
}
