//! Every name of ic-wasi-polyfill's that canisters use, used as they do: who comes from there changes one line of the
//! manifest, `ic-wasi-polyfill = { package = "esker-polyfill", .. }`.

use std::cell::RefCell;

// What that line does.
use esker_polyfill as ic_wasi_polyfill;
use ic_stable_structures::DefaultMemoryImpl;
use ic_stable_structures::memory_manager::{MemoryId, MemoryManager};
use ic_wasi_polyfill::{MountedFileSizePolicy, get_counter, init_seed, reset_counter};

const MOUNTED: MemoryId = MemoryId::new(120);
const FILE: &str = "/mounted";

thread_local! {
    static MEMORIES: RefCell<MemoryManager<DefaultMemoryImpl>> =
        RefCell::new(MemoryManager::init(DefaultMemoryImpl::default()));
}

/// The memories are the program's own.
pub fn with_memories() {
    MEMORIES.with(|all| {
        let all = all.borrow();
        let environment = [("SQLITE_TMPDIR", "tmp")];
        ic_wasi_polyfill::init_with_memory_manager(&[0u8; 32], &environment, &all, 200..210);
    });
    ic_wasi_polyfill::FS.with(|fs| {
        let mut fs = fs.borrow_mut();
        fs.storage.set_chunk_size(ic_wasi_polyfill::ChunkSize::CHUNK4K).unwrap();
        fs.storage.set_chunk_type(ic_wasi_polyfill::ChunkType::V2);
        assert_eq!(fs.storage.chunk_size(), 4096);
    });
    init_seed(&[1, 2, 3]);
    reset_counter();
    assert_eq!(get_counter(), 0);
}

/// Nobody looks at what some of them answer.
pub fn mounted() {
    ic_wasi_polyfill::unmount_memory_file(FILE);
    let memory = MEMORIES.with_borrow(|all| all.get(MOUNTED));
    let policy = ic_wasi_polyfill::MountedFileSizePolicy::MemoryPages;
    assert_eq!(ic_wasi_polyfill::mount_memory_file(FILE, Box::new(memory), policy), 0);
    ic_wasi_polyfill::store_memory_file(FILE);
    ic_wasi_polyfill::init_memory_file(FILE);
    assert_eq!(ic_wasi_polyfill::unmount_memory_file(FILE), 0);
    for policy in [MountedFileSizePolicy::Explicit(0), MountedFileSizePolicy::PreviousOrMemoryPages]
    {
        let memory = MEMORIES.with_borrow(|all| all.get(MOUNTED));
        ic_wasi_polyfill::mount_memory_file(FILE, Box::new(memory), policy);
        ic_wasi_polyfill::unmount_memory_file(FILE);
    }
}

/// A memory of its own; then nothing is said of memories, as C does.
pub fn with_memory() {
    let memory = MEMORIES.with_borrow(|all| all.get(MemoryId::new(0)));
    ic_wasi_polyfill::init_with_memory(&[0u8; 32], &[], memory);
    ic_wasi_polyfill::init(&[12, 3, 54, 1], &[("PATH", "/usr/bin"), ("HOME", "/home/user")]);
    // SAFETY: nothing is pointed to.
    unsafe {
        ic_wasi_polyfill::raw_init(std::ptr::null(), 0);
        ic_wasi_polyfill::raw_init_seed(std::ptr::null(), 0);
    }
}

#[cfg(target_family = "wasm")]
#[unsafe(export_name = "canister_init")]
extern "C" fn init() {
    with_memories();
    std::fs::write("/kept", "by the manager's memory").unwrap();
    mounted();
    with_memory();
    assert!(std::fs::read("/kept").is_err());
    std::fs::write("/own", "by the other").unwrap();
    with_memories();
    println!("{}", std::fs::read_to_string("/kept").unwrap());
    println!("{}", std::env::var("SQLITE_TMPDIR").unwrap());
}
