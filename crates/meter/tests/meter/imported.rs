//! A plain WebAssembly module whose files are in a memory of its host: each instance goes on where the last one ended.

use esker_meter::build_example;
use wasmi::{Caller, Engine, Error, Extern, Linker, Module, Store};

use crate::target;

/// Bytes that the host lends at most.
const SIZE_MAX: u64 = 1 << 20;

/// What the host keeps.
#[derive(Clone, Default)]
struct Kept(Vec<u8>);

fn bytes<'a>(caller: &'a mut Caller<'_, Kept>) -> (&'a mut [u8], &'a mut Kept) {
    match caller.get_export("memory") {
        Some(Extern::Memory(memory)) => memory.data_and_store_mut(caller),
        _ => panic!("a module has a memory"),
    }
}

/// An instance over what another one left, which calls `append` for each byte; what it told, and what is kept then.
fn append(module: &[u8], kept: Kept, text: &[u8]) -> Result<(Vec<u64>, Kept), Error> {
    let engine = Engine::default();
    let module = Module::new(&engine, module)?;
    let mut store = Store::new(&engine, kept);
    let mut linker = <Linker<Kept>>::new(&engine);
    linker.func_wrap("host", "memory_size", |caller: Caller<'_, Kept>| {
        caller.data().0.len() as u64
    })?;
    linker.func_wrap("host", "memory_grow", |mut caller: Caller<'_, Kept>, size: u64| {
        if size <= SIZE_MAX {
            caller.data_mut().0.resize(size as usize, 0);
        }
        u32::from(size <= SIZE_MAX)
    })?;
    let read = |mut caller: Caller<'_, Kept>, at: u64, to: u32, len: u32| {
        let (module, kept) = bytes(&mut caller);
        let (to, at) = (to as usize, at as usize);
        module[to..to + len as usize].copy_from_slice(&kept.0[at..at + len as usize]);
    };
    linker.func_wrap("host", "memory_read", read)?;
    let write = |mut caller: Caller<'_, Kept>, at: u64, from: u32, len: u32| {
        let (module, kept) = bytes(&mut caller);
        let (from, at) = (from as usize, at as usize);
        kept.0[at..at + len as usize].copy_from_slice(&module[from..from + len as usize]);
    };
    linker.func_wrap("host", "memory_write", write)?;
    let instance = linker.instantiate_and_start(&mut store, &module)?;
    let append = instance.get_typed_func::<u32, u64>(&store, "append")?;
    let mut told = Vec::new();
    for &byte in text {
        told.push(append.call(&mut store, u32::from(byte))?);
    }
    Ok((told, store.into_data()))
}

#[test]
fn a_module_finds_what_another_instance_wrote() {
    if !target::has_wasm() {
        return;
    }
    let module = build_example("imported").unwrap();
    let (told, kept) = append(&module, Kept::default(), b"abc").unwrap();
    assert_eq!(told, [1, 2, 3]);
    let (told, kept) = append(&module, kept, b"de").unwrap();
    assert_eq!(told, [4, 5]);
    assert!(kept.0.windows(5).any(|window| window == b"abcde"));
    // A memory that holds something else is refused.
    let (told, after) = append(&module, Kept(vec![7; 65_536]), b"x").unwrap();
    assert_eq!((told, after.0 == [7; 65_536]), (vec![0], true));
}
