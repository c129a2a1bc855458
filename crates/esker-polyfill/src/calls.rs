//! The functions of WASI, exported under the names that `esker wasi-link` and `wasi2ic` redirect calls to.

use core::hint::black_box;

use crate::canister::trap;
use crate::counted::counted;
use crate::init::with;
use crate::own::Own;

macro_rules! export {
    (
        guest { $($guest:ident($($g:ident: $gt:ty),*);)* }
        alone { $($alone:ident($($a:ident: $at:ty),*);)* }
    ) => {
        $(
            #[unsafe(export_name = concat!("__ic_custom_", stringify!($guest)))]
            extern "C" fn $guest($($g: $gt),*) -> i32 {
                counted(stringify!($guest), || with(|program| program.$guest(&mut Own, $($g),*)))
            }
        )*
        $(
            #[unsafe(export_name = concat!("__ic_custom_", stringify!($alone)))]
            extern "C" fn $alone($($a: $at),*) -> i32 {
                counted(stringify!($alone), || with(|program| program.$alone($($a),*)))
            }
        )*

        /// Names them all, for linkers that leave out what nobody names, as those for C do.
        pub fn keep() {
            $(black_box($guest as *const ());)*
            $(black_box($alone as *const ());)*
            black_box(proc_exit as *const ());
        }
    };
}

esker_wasi::preview1!(export);

/// A canister does not end: whoever ends a program in one ends the message, which is undone.
#[unsafe(export_name = "__ic_custom_proc_exit")]
extern "C" fn proc_exit(status: u32) -> ! {
    trap(if status == 0 { "the program has ended" } else { "the program has ended with an error" })
}
