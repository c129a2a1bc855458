//! The model test of the memory home, over the memories of this crate and of the operating system.

#[path = "../../esker/tests/memory/chance.rs"]
#[allow(dead_code, reason = "the memory home's tests use all of it")]
mod chance;
#[path = "../../esker/tests/memory/model.rs"]
#[allow(dead_code, reason = "the memory home's tests use all of it")]
mod model;
#[path = "../../esker/tests/memory/player.rs"]
#[allow(dead_code, reason = "the memory home's tests use all of it")]
mod player;

use esker::ground::{Heap, Memory};
use esker_embedded::Stable;
use esker_host::MappedFile;
use ic_stable_structures::memory_manager::{MemoryId, MemoryManager};
use ic_stable_structures::{Memory as _, VectorMemory};

use crate::player::{embedded, play_on, seeds};

/// Batches for each memory.
const ROUNDS: u32 = 600;

fn plays(memory: impl Memory, seed: u64) {
    assert_eq!(play_on(embedded(memory, u64::MAX, 16), seed, ROUNDS, 7), 0, "refused");
}

#[test]
fn agrees_in_a_canister_s_memories() {
    for seed in seeds() {
        plays(Stable::new(VectorMemory::default()), seed);
        let manager = MemoryManager::init(VectorMemory::default());
        manager.get(MemoryId::new(7)).grow(3);
        plays(Stable::new(manager.get(MemoryId::new(8))), seed);
    }
}

#[test]
fn agrees_in_a_memory_of_any_kind() {
    for seed in seeds() {
        plays(Box::new(Heap::new()) as Box<dyn Memory>, seed);
    }
}

#[test]
fn agrees_in_a_mapped_file() {
    let folder = std::env::temp_dir().join(format!("esker-model-{}", std::process::id()));
    for seed in seeds() {
        std::fs::create_dir_all(&folder).unwrap();
        plays(MappedFile::open_whole(&folder.join("home"), 1 << 30).unwrap(), seed);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
