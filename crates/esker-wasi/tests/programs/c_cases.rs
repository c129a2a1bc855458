//! The cases in C beside this, as a program: built with `--cfg with_c` and what a C compiler made of `cases.c`, for
//! whoever runs programs; without them nothing.

#![allow(unexpected_cfgs)]

#[cfg(with_c)]
fn main() {
    unsafe extern "C" {
        safe fn cases() -> i32;
    }
    std::process::exit(cases());
}

#[cfg(not(with_c))]
fn main() {}
