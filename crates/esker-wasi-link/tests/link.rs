//! Modules linked: what is redirected runs, what is not is named, and nothing else changes.

use esker_wasi_link::{Error, Why, link};
use wasmi::{Engine, Linker, Module, Store};

fn module(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

/// Imports of each kind before, between and behind those of WASI; calls directly, through a table and by reference.
const ALL_WAYS: &str = r#"(module
    (type $two (func (param i32 i32) (result i32)))
    (import "host" "one" (func $one (result i32)))
    (import "wasi_snapshot_preview1" "random_get" (func $random (type $two)))
    (import "host" "ten" (func $ten (result i32)))
    (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
    (table $table 2 funcref)
    (elem (i32.const 0) func $random $hundred)
    (elem declare func $yield)
    (global $reference funcref (ref.func $yield))
    (memory (export "memory") 1)
    (func $linked_random (export "__ic_custom_random_get") (type $two)
        (i32.add (i32.const 1000) (i32.add (local.get 0) (local.get 1))))
    (func $hundred (result i32) (i32.const 100))
    (func $linked_yield (export "__ic_custom_sched_yield") (result i32) (i32.const 10000))
    (func (export "direct") (result i32)
        (i32.add (call $random (i32.const 2) (i32.const 3)) (call $yield)))
    (func (export "table") (result i32)
        (i32.add
            (call_indirect (type $two) (i32.const 4) (i32.const 5) (i32.const 0))
            (call_indirect (result i32) (i32.const 1))))
    (func (export "host") (result i32) (i32.add (call $one) (call $ten)))
    (func (export "_start")))"#;

#[test]
fn calls_lead_to_what_is_linked_in_and_others_where_they_did() {
    let linked = link(&module(ALL_WAYS)).unwrap();
    assert_eq!(linked.redirected, ["random_get", "sched_yield"]);
    let left: Vec<_> = linked.left.iter().map(|left| (left.name.as_str(), left.why)).collect();
    assert_eq!(left, [("host.one", None), ("host.ten", None)]);
    let engine = Engine::default();
    let module = Module::new(&engine, &linked.module).unwrap();
    assert!(module.imports().all(|import| import.module() == "host"));
    let mut exports: Vec<_> = module.exports().map(|export| export.name().to_owned()).collect();
    exports.sort();
    assert_eq!(exports, ["_initialize", "direct", "host", "memory", "table"]);
    let mut store = Store::new(&engine, ());
    let mut linker = <Linker<()>>::new(&engine);
    linker.func_wrap("host", "one", || 1).unwrap();
    linker.func_wrap("host", "ten", || 10).unwrap();
    let instance = linker.instantiate_and_start(&mut store, &module).unwrap();
    for (name, sum) in [("direct", 11_005), ("table", 1109), ("host", 11)] {
        let function = instance.get_typed_func::<(), i32>(&store, name).unwrap();
        assert_eq!(function.call(&mut store, ()).unwrap(), sum, "{name}");
    }
}

/// As a linker for C leaves a module that is called: nothing that is linked in is exported, and what constructors do is
/// in a function that nobody of a canister's system calls.
fn reactor(more: &str) -> Vec<u8> {
    module(&format!(
        r#"(module
        (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
        (global $begun (mut i32) (i32.const 0))
        (func $__ic_custom_sched_yield (result i32) (i32.const 7))
        (func $begin (global.set $begun (i32.add (global.get $begun) (call $yield))))
        (func (export "work") (result i32) (i32.add (global.get $begun) (call $yield)))
        (export "_initialize" (func $begin))
        (memory 1) (data (i32.const 0) "bytes") {more})"#
    ))
}

#[test]
fn what_c_begins_with_begins_and_what_is_linked_in_is_found_by_its_name() {
    let run = |bytes: &[u8]| {
        let engine = Engine::default();
        let module = Module::new(&engine, bytes).unwrap();
        let mut exports: Vec<_> = module.exports().map(|export| export.name().to_owned()).collect();
        exports.sort();
        let mut store = Store::new(&engine, ());
        let instance = <Linker<()>>::new(&engine).instantiate_and_start(&mut store, &module);
        let work = instance.unwrap().get_typed_func::<(), i32>(&store, "work").unwrap();
        (exports.join(" "), work.call(&mut store, ()).unwrap())
    };
    let linked = link(&reactor("")).unwrap();
    assert_eq!(
        (&linked.redirected[..], &linked.left[..]),
        (&["sched_yield".to_owned()][..], &[][..])
    );
    assert_eq!(run(&linked.module), ("work".to_owned(), 14));
    // What begins already stays, and so does what is exported; a module that needs nothing is left alone.
    let linked = link(&reactor("(func $own) (start $own)")).unwrap();
    assert_eq!(run(&linked.module), ("_initialize work".to_owned(), 7));
    let again = link(&linked.module).unwrap();
    assert_eq!(run(&again.module), ("_initialize work".to_owned(), 7));
    // A name alone says nothing: what has it must be such a function.
    let other = r#"(module
        (import "wasi_snapshot_preview1" "sched_yield" (func (result i32)))
        (func $__ic_custom_sched_yield (param i32)))"#;
    let linked = link(&module(other)).unwrap_err();
    assert_eq!(linked, Error::NothingLinkedIn);
}

/// As a linker wraps what is exported: each call from outside counts, and so does what it does inside.
fn wrapped(last: &str) -> Vec<u8> {
    module(&format!(
        r#"(module
        (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
        (import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))
        (global $count (export "count") (mut i32) (i32.const 0))
        (func $begin (global.set $count (i32.add (global.get $count) (i32.const 1))))
        (func $end (global.set $count (i32.add (global.get $count) (i32.const 100))))
        (func $own_yield (result i32) (i32.const 7))
        (func $own_close (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
        (func (export "__ic_custom_sched_yield") (result i32)
            (call $begin) (call $own_yield) (call $end))
        (func (export "__ic_custom_fd_close") (param i32) (result i32)
            (call $begin) (call $own_close {last}) (call $end))
        (func (export "work") (result i32)
            (i32.add (call $yield) (call $close (i32.const 30)))))"#
    ))
}

#[test]
fn what_a_linker_wrapped_is_called_without_what_is_around_it() {
    // In the second, a function does something of its own: then nothing is only a wrapper.
    for (last, answer, counted) in
        [("(local.get 0)", 38, 0), ("(i32.add (local.get 0) (i32.const 1))", 39, 202)]
    {
        let linked = link(&wrapped(last)).unwrap();
        let engine = Engine::default();
        let module = Module::new(&engine, &linked.module).unwrap();
        let mut store = Store::new(&engine, ());
        let linker = <Linker<()>>::new(&engine);
        let instance = linker.instantiate_and_start(&mut store, &module).unwrap();
        let work = instance.get_typed_func::<(), i32>(&store, "work").unwrap();
        assert_eq!(work.call(&mut store, ()).unwrap(), answer);
        let count = instance.get_global(&store, "count").unwrap().get(&store);
        assert_eq!(count.i32(), Some(counted), "{last}");
    }
}

#[test]
fn what_cannot_be_redirected_is_named_with_its_reason() {
    let linked = link(&module(
        r#"(module
            (import "wasi_snapshot_preview1" "fd_close" (func (param i32) (result i32)))
            (import "wasi_snapshot_preview1" "fd_sync" (func $sync (param i32) (result i32)))
            (import "wasi_unstable" "fd_seek" (func (param i32) (result i32)))
            (import "wasi" "thread-spawn" (func (param i32) (result i32)))
            (import "env" "memory" (memory 1))
            (import "wasi_snapshot_preview1" "sched_yield" (func (result i32)))
            (func (export "__ic_custom_fd_close") (param i64) (result i32) (i32.const 0))
            (func (export "__ic_custom_sched_yield") (result i32) (i32.const 0))
            (export "__ic_custom_fd_sync" (func $sync)))"#,
    ))
    .unwrap();
    assert_eq!(linked.redirected, ["sched_yield"]);
    let left: Vec<_> = linked.left.iter().map(|left| (left.name.as_str(), left.why)).collect();
    let expected = [
        ("wasi_snapshot_preview1.fd_close", Some(Why::OtherType)),
        ("wasi_snapshot_preview1.fd_sync", Some(Why::Missing)),
        ("wasi_unstable.fd_seek", Some(Why::OtherVersion)),
        ("wasi.thread-spawn", Some(Why::OtherVersion)),
        ("env.memory", None),
    ];
    assert_eq!(left, expected);
}

#[test]
fn what_is_no_module_is_refused() {
    for bytes in [&b""[..], b"\0asm", b"#!/bin/sh\n", &[0; 100]] {
        assert!(matches!(link(bytes), Err(Error::Invalid(_))), "{bytes:?}");
    }
    assert_eq!(link(&module("(component)")), Err(Error::Component));
    let unlinked =
        r#"(module (import "wasi_snapshot_preview1" "sched_yield" (func (result i32))))"#;
    assert_eq!(link(&module(unlinked)), Err(Error::NothingLinkedIn));
    // One that needs nothing stays as it is.
    let linked = link(&module(r#"(module (func (export "f")))"#)).unwrap();
    assert_eq!((linked.redirected.len(), linked.left.len()), (0, 0));
}

#[test]
fn damaged_modules_are_refused_and_never_panic() {
    let good = module(ALL_WAYS);
    for at in 0..good.len() {
        for flip in [1, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[at] ^= flip;
            let _ = link(&bytes);
        }
        let _ = link(&good[..at]);
    }
}

#[test]
fn names_for_people_follow_their_functions() {
    let linked = link(&module(ALL_WAYS)).unwrap();
    let mut names = Vec::new();
    for payload in wasmparser::Parser::new(0).parse_all(&linked.module) {
        if let wasmparser::Payload::CustomSection(section) = payload.unwrap()
            && let wasmparser::KnownCustom::Name(section) = section.as_known()
        {
            for part in section {
                if let wasmparser::Name::Function(map) = part.unwrap() {
                    names.extend(map.into_iter().map(|name| {
                        let name = name.unwrap();
                        (name.index, name.name.to_owned())
                    }));
                }
            }
        }
    }
    let expected =
        [(0, "one"), (1, "ten"), (2, "linked_random"), (3, "hundred"), (4, "linked_yield")];
    let expected: Vec<_> = expected.iter().map(|(at, name)| (*at, (*name).to_owned())).collect();
    assert_eq!(names, expected);
}
