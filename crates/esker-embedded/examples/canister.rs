//! A canister's module: files in one of its memories, beside others. There, each function carries what stands above it;
//! here `main` calls them: `cargo run -p esker-embedded --features stable --example canister`.

use std::cell::RefCell;

use esker::Time;
use esker_embedded::{Fd, Files, Open, Stable};
use ic_stable_structures::DefaultMemoryImpl;
use ic_stable_structures::memory_manager::{MemoryId, MemoryManager, VirtualMemory};

type Memory = Stable<VirtualMemory<DefaultMemoryImpl>>;

thread_local! {
    static STABLE: DefaultMemoryImpl = DefaultMemoryImpl::default();
    static FILES: RefCell<Option<Files<Memory>>> = const { RefCell::new(None) };
}

// `ic_cdk::api::time()`, in nanoseconds.
fn now() -> Time {
    Time { secs: 1_700_000_000, nanos: 0 }
}

pub(crate) fn with<R>(f: impl FnOnce(&mut Files<Memory>) -> esker::Result<R>) -> R {
    FILES.with_borrow_mut(|files| f(files.as_mut().expect("init was called"))).expect("a trap")
}

// #[ic_cdk::init] and #[ic_cdk::post_upgrade]
pub(crate) fn init() {
    let manager = STABLE.with(|stable| MemoryManager::init(stable.clone()));
    let files = Files::open_memory(Stable::new(manager.get(MemoryId::new(30))), now);
    FILES.set(Some(files.expect("a memory of ours, or an empty one")));
}

// #[ic_cdk::update]
pub(crate) fn write_file(name: String, content: String) {
    with(|files| {
        if let Some((above, _)) = name.rsplit_once('/') {
            files.make_dirs(Fd::ROOT, above.as_bytes())?;
        }
        let file = files.open(Fd::ROOT, name.as_bytes(), Open::EMPTY)?;
        files.write(file, content.as_bytes())?;
        files.close(file)
    });
}

// #[ic_cdk::query]
pub(crate) fn fs_size() -> u64 {
    with(|files| Ok(files.space().used))
}

pub(crate) fn main() {
    init();
    write_file("notes/today".into(), "what a returned call did is in the memory".into());
    let before = fs_size();
    // An upgrade: the heap is gone.
    FILES.set(None);
    init();
    println!("{before} bytes in use before, {} after", fs_size());
}
