//! The names of ic-wasi-polyfill where a canister's code is tested: on a machine that is no WebAssembly. Files are the
//! machine's there; those that are brought up are seen by nobody, but everything answers as it does in a canister.

#[path = "programs/names.rs"]
mod names;

#[test]
fn a_canister_is_tested_where_it_is_written() {
    names::with_memories();
    names::mounted();
    names::with_memory();
}

#[test]
#[should_panic(expected = "no memory for the files")]
fn what_is_wrong_is_said_there_too() {
    let memories = ic_stable_structures::memory_manager::MemoryManager::init(
        ic_stable_structures::DefaultMemoryImpl::default(),
    );
    esker_polyfill::init_with_memory_manager(&[], &[], &memories, 0..0);
}
