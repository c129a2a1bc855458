//! A canister of plain `std::fs`: built, linked, and called, with an upgrade between any two calls. All that it has on
//! the heap is lost each time; what a call that returned did is there, and nothing of one that failed.

use std::path::PathBuf;
use std::process::Command;

use esker_wasi_link::link;
use wasmi::{Caller, Engine, Extern, Linker, Module, Store};

const PAGE: u64 = 64 * 1024;
const TARGET: &str = "wasm32-wasip1";

/// What a canister's system keeps: its memory, and what it said.
#[derive(Clone, Default)]
struct System {
    stable: Vec<u8>,
    said: Vec<u8>,
    now: u64,
}

fn trap(why: &str) -> wasmi::Error {
    wasmi::Error::new(why.to_owned())
}

/// The module's memory, and the system.
fn both<'a>(caller: &'a mut Caller<'_, System>) -> (&'a mut [u8], &'a mut System) {
    let Some(Extern::Memory(memory)) = caller.get_export("memory") else { panic!("no memory") };
    memory.data_and_store_mut(caller)
}

fn range(at: u64, len: u64) -> std::ops::Range<usize> {
    at as usize..(at + len) as usize
}

fn system(linker: &mut Linker<System>) -> Result<(), wasmi::Error> {
    linker.func_wrap("ic0", "stable64_size", |caller: Caller<'_, System>| {
        caller.data().stable.len() as u64 / PAGE
    })?;
    linker.func_wrap("ic0", "stable64_grow", |mut caller: Caller<'_, System>, pages: u64| {
        let stable = &mut caller.data_mut().stable;
        let before = stable.len() as u64 / PAGE;
        stable.resize(((before + pages) * PAGE) as usize, 0);
        before
    })?;
    let read = |mut caller: Caller<'_, System>, to: u64, from: u64, len: u64| {
        let (module, system) = both(&mut caller);
        module[range(to, len)].copy_from_slice(&system.stable[range(from, len)]);
    };
    linker.func_wrap("ic0", "stable64_read", read)?;
    let write = |mut caller: Caller<'_, System>, to: u64, from: u64, len: u64| {
        let (module, system) = both(&mut caller);
        system.stable[range(to, len)].copy_from_slice(&module[range(from, len)]);
    };
    linker.func_wrap("ic0", "stable64_write", write)?;
    linker.func_wrap("ic0", "time", |caller: Caller<'_, System>| caller.data().now)?;
    linker.func_wrap(
        "ic0",
        "debug_print",
        |mut caller: Caller<'_, System>, at: u32, len: u32| {
            let (module, system) = both(&mut caller);
            system.said.extend_from_slice(&module[range(at.into(), len.into())]);
        },
    )?;
    let trapped = |mut caller: Caller<'_, System>, at: u32, len: u32| -> Result<(), wasmi::Error> {
        let why = both(&mut caller).0[range(at.into(), len.into())].to_vec();
        Err(trap(&String::from_utf8_lossy(&why)))
    };
    linker.func_wrap("ic0", "trap", trapped)?;
    Ok(())
}

/// A canister, as its system sees it.
struct Canister {
    module: Module,
    system: System,
    fresh: bool,
}

impl Canister {
    fn new(module: &[u8]) -> Self {
        let system = System { now: 1_700_000_000_000_000_000, ..System::default() };
        let module = Module::new(&Engine::default(), module).unwrap();
        Self { module, system, fresh: true }
    }

    /// Calls a function in a new instance, which is what an upgrade leaves; what it said, or why it failed. The system
    /// keeps nothing of a call that failed.
    fn call(&mut self, name: &str) -> Result<String, String> {
        let engine = self.module.engine();
        let mut store = Store::new(engine, self.system.clone());
        let mut linker = <Linker<System>>::new(engine);
        system(&mut linker).unwrap();
        let instance = linker.instantiate_and_start(&mut store, &self.module).unwrap();
        let start = if self.fresh { "canister_init" } else { "canister_post_upgrade" };
        for name in [start, name] {
            let function = instance.get_typed_func::<(), ()>(&store, name).unwrap();
            function.call(&mut store, ()).map_err(|error| error.to_string())?;
        }
        self.fresh = false;
        self.system = store.into_data();
        self.system.now += 1_000_000_000;
        Ok(String::from_utf8(std::mem::take(&mut self.system.said)).unwrap())
    }
}

/// The example, built and linked; nothing where this machine cannot, which CI must.
fn canister() -> Option<Vec<u8>> {
    let mut rustc = Command::new("rustc");
    let output = rustc.args(["--print", "target-libdir", "--target", TARGET]).output().unwrap();
    let library = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if !library.exists() {
        assert!(std::env::var_os("ESKER_CI").is_none(), "no target {TARGET}");
        eprintln!("LEFT OUT: no target {TARGET}");
        return None;
    }
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target"),
        PathBuf::from,
    );
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "-p", "esker-polyfill", "--example", "canister"]);
    cargo.args(["--target", TARGET]).arg("--target-dir").arg(&folder);
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    assert!(cargo.status().unwrap().success(), "{cargo:?}");
    let module = folder.join(TARGET).join("debug/examples/canister.wasm");
    let linked = link(&std::fs::read(module).unwrap()).unwrap();
    assert!(linked.redirected.len() > 10, "{:?}", linked.redirected);
    assert!(linked.left.iter().all(|left| left.name.starts_with("ic0.")), "{:?}", linked.left);
    Some(linked.module)
}

#[test]
fn files_outlive_upgrades_and_calls_that_fail_leave_nothing() {
    let Some(module) = canister() else { return };
    let mut canister = Canister::new(&module);
    let mut expected = String::new();
    for number in 1..=5 {
        expected += &format!("greeting number {number}\n");
        assert_eq!(canister.call("canister_update greet").unwrap(), expected);
        let before = canister.system.stable.clone();
        let why = canister.call("canister_update fail").unwrap_err();
        assert!(why.contains("the program has ended with an error"), "{why}");
        assert!(canister.system.stable == before);
        assert_eq!(canister.call("canister_query list").unwrap(), "greetings\n");
    }
    // A few pages: the smallest there is of stable-fs takes a thousand.
    assert!(canister.system.stable.len() <= 8 * PAGE as usize, "{}", canister.system.stable.len());
}

#[test]
fn a_memory_that_holds_something_else_is_left_alone() {
    let Some(module) = canister() else { return };
    let mut canister = Canister::new(&module);
    canister.system.stable = vec![7; PAGE as usize];
    let why = canister.call("canister_update greet").unwrap_err();
    assert!(why.contains("the files cannot be opened"), "{why}");
    assert!(canister.system.stable == [7; PAGE as usize]);
}
