//! A canister's module for tests of traps: steps that change files in the stable memory, and a number that tells all
//! that is there. Its files stay open from one call to the next, on the heap.
#![cfg(target_arch = "wasm32")]

use std::cell::RefCell;
use std::ops::ControlFlow;

use esker::{Kind, Result, Time};
use esker_embedded::{Backing, Fd, Files, Open, Stable};
use ic_stable_structures::DefaultMemoryImpl;
use ic_stable_structures::memory_manager::{MemoryId, MemoryManager, VirtualMemory};

type Memory = Stable<VirtualMemory<DefaultMemoryImpl>>;

struct Canister {
    files: Files<Memory>,
    /// The file that is written to, as long as it is open.
    open: Option<Fd>,
}

thread_local! {
    static CANISTER: RefCell<Option<Canister>> = const { RefCell::new(None) };
}

fn now() -> Time {
    Time { secs: 1_700_000_000, nanos: 0 }
}

fn start() -> Canister {
    let manager = MemoryManager::init_with_bucket_size(DefaultMemoryImpl::default(), 2);
    let memory = |id| Stable::new(manager.get(MemoryId::new(id)));
    let mut files = Files::open_memory(memory(0), now).expect("a memory of ours, or an empty one");
    let own = Box::new(memory(1));
    files.mount(Fd::ROOT, b"mounted", own, Backing::Kept).expect("mounts");
    Canister { files, open: None }
}

/// What a trap undoes: the whole of a call, whatever it does.
fn take(canister: &mut Canister, number: u32) -> Result<()> {
    let Canister { files, open } = canister;
    let name = format!("dir/file{}", number / 12);
    let bytes = vec![number as u8 + 1; number as usize * 90];
    match number % 12 {
        0 => {
            files.make_dirs(Fd::ROOT, b"dir/sub")?;
            *open = Some(files.open(Fd::ROOT, name.as_bytes(), Open::CREATE)?);
        }
        7 => files.link(Fd::ROOT, name.as_bytes(), Fd::ROOT, format!("link{number}").as_bytes())?,
        8 => {
            let file = files.open(Fd::ROOT, b"mounted", Open { append: true, ..Open::READ })?;
            files.write(file, &bytes)?;
            files.close(file)?;
        }
        9 => {
            files.store_mounted(Fd::ROOT, b"mounted")?;
            if let Some(file) = open.take() {
                files.close(file)?;
            }
        }
        10 => files.rename(Fd::ROOT, name.as_bytes(), Fd::ROOT, b"dir/sub/kept")?,
        11 if number > 24 => files.remove_all(Fd::ROOT, b"dir")?,
        11 => files.symlink(b"dir/sub", Fd::ROOT, format!("to{number}").as_bytes())?,
        step => {
            let Some(file) = *open else { return Ok(()) };
            match step {
                3 => files.set_len(file, 150)?,
                5 => files.set_size_limit(file, Some(60_000))?,
                6 => files.write_at(file, 40_000, &bytes).map(drop)?,
                _ => files.write(file, &bytes).map(drop)?,
            }
        }
    }
    Ok(())
}

/// Adds bytes to a number that tells them from others.
fn mix(sum: &mut u64, bytes: &[u8]) {
    for &byte in bytes {
        *sum = (*sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    *sum = sum.rotate_left(23) ^ bytes.len() as u64;
}

/// Everything below a directory.
fn tell(files: &mut Files<Memory>, dir: &[u8], sum: &mut u64) -> Result<()> {
    let mut found = Vec::new();
    files.list(Fd::ROOT, dir, &mut |entry| {
        found.push((entry.name.to_vec(), entry.kind));
        ControlFlow::Continue(())
    })?;
    for (name, kind) in found {
        let path = [dir, b"/", &name].concat();
        let attr = files.stat_path(Fd::ROOT, &path, false)?;
        mix(sum, &path);
        mix(sum, &attr.size.to_le_bytes());
        mix(sum, &attr.nlink.to_le_bytes());
        match kind {
            Kind::Directory => tell(files, &path, sum)?,
            Kind::File => {
                let file = files.open(Fd::ROOT, &path, Open::READ)?;
                let mut bytes = vec![0; attr.size as usize];
                files.read(file, &mut bytes)?;
                files.close(file)?;
                mix(sum, &bytes);
            }
            _ => {}
        }
    }
    Ok(())
}

fn with<R>(act: impl FnOnce(&mut Canister) -> Result<R>) -> R {
    CANISTER.with_borrow_mut(|canister| act(canister.get_or_insert_with(start))).expect("a trap")
}

/// Takes a step.
#[unsafe(no_mangle)]
pub extern "C" fn step(number: u32) {
    with(|canister| take(canister, number));
}

/// Tells all that is there.
#[unsafe(no_mangle)]
pub extern "C" fn told() -> u64 {
    with(|canister| {
        let mut sum = 0;
        tell(&mut canister.files, b".", &mut sum)?;
        if !canister.files.fs().store().check().is_empty() {
            sum = 0;
        }
        Ok(sum)
    })
}
