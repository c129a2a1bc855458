//! A file system in a vector, dropped and found again:
//! `cargo run -p esker-embedded --features stable --example vector`.
//!
//! In a canister the vector is `MEMORY_MANAGER.with(|m| m.borrow().get(MemoryId::new(0)))`, opened anew in `init` and
//! in `post_upgrade`; nothing else is to be called.

use esker::Time;
use esker_embedded::{Fd, Files, Open, Stable};
use ic_stable_structures::VectorMemory;

fn now() -> Time {
    // `ic_cdk::api::time()` in a canister.
    Time { secs: 1_700_000_000, nanos: 0 }
}

fn open(memory: VectorMemory) -> Files<Stable<VectorMemory>> {
    Files::open_memory(Stable::new(memory), now).expect("a memory of ours, or an empty one")
}

fn write_file(
    files: &mut Files<Stable<VectorMemory>>,
    path: &str,
    text: &str,
) -> esker::Result<()> {
    let file = files.open(Fd::ROOT, path.as_bytes(), Open::EMPTY)?;
    files.write(file, text.as_bytes())?;
    files.close(file)
}

/// What is found after an upgrade.
pub fn hello() -> esker::Result<String> {
    let memory = VectorMemory::default();
    let mut files = open(memory.clone());
    files.mkdir(Fd::ROOT, b"data")?;
    write_file(&mut files, "data/hello", "what a returned call did is in the memory")?;
    // An upgrade: all that was on the heap is gone.
    drop(files);
    let mut files = open(memory);
    let mut text = [0; 100];
    let file = files.open(Fd::ROOT, b"/data/hello", Open::READ)?;
    let count = files.read(file, &mut text)?;
    files.close(file)?;
    Ok(String::from_utf8_lossy(&text[..count]).into_owned())
}

fn main() -> esker::Result<()> {
    println!("{}", hello()?);
    Ok(())
}
