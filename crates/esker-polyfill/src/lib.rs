//! WASI inside of a canister: programs of plain `std::fs`, over files in stable memory.
//!
//! Above: a canister that calls one of the `init` functions in its own `init` and `post_upgrade`, is built for
//! wasm32-wasip1, and then linked by `esker wasi-link`, so that its calls of WASI come here. Below: `esker-wasi` over
//! the embedded home; without the feature `ic` the same in any other module. Functions have the names that they have
//! in `ic-wasi-polyfill`. Invariant: what a call that returned did is in the stable memory; what is here on the heap
//! may be lost between any two calls.
//!
//! On a machine that is no WebAssembly all of it is there but the functions of WASI: tests of a canister's code are
//! built, and their `std::fs` is the machine's.

#[cfg(target_family = "wasm")]
mod calls;
mod canister;
mod chunks;
mod counted;
#[cfg(feature = "import")]
mod import;
mod init;
mod mount;
#[cfg(target_family = "wasm")]
mod own;

pub use canister::{set_clock, stand_still};
pub use chunks::{ChunkSize, ChunkType, FS, FileSystem, Storage};
pub use counted::{get_counter, reset_counter};
pub use esker_wasi::Stream;
#[cfg(feature = "import")]
pub use import::{ImportError, Imported, init_from_stable_fs};
pub use init::{
    argument, init, init_seed, init_with_memory, init_with_memory_manager, preopen, raw_init,
    raw_init_seed, set_input, set_output, try_init,
};
pub use mount::{
    MountedFileSizePolicy, init_memory_file, mount_memory_file, store_memory_file,
    unmount_memory_file,
};
