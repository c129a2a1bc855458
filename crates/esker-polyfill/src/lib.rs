//! WASI inside of a canister: programs of plain `std::fs`, over files in stable memory.
//!
//! Above: a canister that calls one of the `init` functions in its own `init` and `post_upgrade`, is built for
//! wasm32-wasip1, and then linked by `esker wasi-link`, so that its calls of WASI come here. Below: `esker-wasi` over
//! the embedded home; without the feature `ic` the same in any other module. Functions have the names that they have
//! in `ic-wasi-polyfill`. Invariant: what a call that returned did is in the stable memory; what is here on the heap
//! may be lost between any two calls.

#[cfg(target_family = "wasm")]
mod calls;
#[cfg(target_family = "wasm")]
mod canister;
#[cfg(target_family = "wasm")]
mod counted;
#[cfg(all(target_family = "wasm", feature = "import"))]
mod import;
#[cfg(target_family = "wasm")]
mod init;
#[cfg(target_family = "wasm")]
mod mount;
#[cfg(target_family = "wasm")]
mod own;

#[cfg(target_family = "wasm")]
pub use canister::{set_clock, stand_still};
#[cfg(target_family = "wasm")]
pub use counted::{get_counter, reset_counter};
#[cfg(target_family = "wasm")]
pub use esker_wasi::Stream;
#[cfg(all(target_family = "wasm", feature = "import"))]
pub use import::{ImportError, Imported, init_from_stable_fs};
#[cfg(target_family = "wasm")]
pub use init::{
    init, init_seed, init_with_memory, init_with_memory_manager, preopen, raw_init, raw_init_seed,
    set_input, set_output, try_init,
};
#[cfg(target_family = "wasm")]
pub use mount::{
    MountedFileSizePolicy, init_memory_file, mount_memory_file, store_memory_file,
    unmount_memory_file,
};
