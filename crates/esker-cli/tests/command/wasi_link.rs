//! `esker wasi-link`: a real module is linked and needs WASI no more; what is none is refused, and nothing is lost.

use std::fs;

use crate::common::wasm::{built, program};
use crate::common::{Scratch, done, errors, esker, text};

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_canister_of_the_standard_library_needs_wasi_no_more() {
    let Some(module) = built("esker-polyfill", "canister") else { return };
    let scratch = Scratch::new();
    let output = scratch.path("out.wasm");
    let arguments = ["wasi-link", text(&module), "-o", text(&output)];
    let told = done(&esker(arguments));
    assert!(told.starts_with(&format!("linked {}: ", text(&output))), "{told}");
    let (before, after) = (fs::read(&module).unwrap(), fs::read(&output).unwrap());
    for gone in ["wasi_snapshot_preview1", "__ic_custom_fd_write"] {
        // Names for debugging stay.
        let head = |bytes: &[u8]| bytes[..bytes.len().min(16 << 10)].to_vec();
        assert!(holds(&head(&before), "wasi_snapshot_preview1"));
        assert!(!holds(&head(&after), gone), "{gone}");
    }
    assert!(holds(&after, "canister_update greet"));
    // Once more there is nothing to do; a machine is told all.
    let again = scratch.path("again.wasm");
    let told = done(&esker(["wasi-link", text(&output), "-o", text(&again), "--json"]));
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let nothing = serde_json::json!([]);
    assert_eq!((&told["redirected"], &told["left"]), (&nothing, &nothing));
    assert_eq!(fs::read_dir(output.parent().unwrap()).unwrap().count(), 2);
}

#[test]
fn what_cannot_be_linked_is_refused_and_what_was_there_stays() {
    let scratch = Scratch::new();
    let kept = scratch.file("kept", b"as it was");
    let hello = scratch.file("hello", b"hello");
    let component = scratch.file("component", b"\0asm\x0d\0\x01\0");
    let mut refusals = vec![
        (scratch.path("gone"), "cannot read the module"),
        (hello, "no valid module"),
        (component, "a component"),
    ];
    refusals.extend(program("greet").map(|greet| (greet, "add esker-polyfill")));
    for (module, words) in refusals {
        let output = esker(["wasi-link", text(&module), "-o", text(&kept)]);
        let text = errors(&output);
        assert_eq!(output.status.code(), Some(4), "{text}");
        assert!(text.contains(words) && !text.contains("panic"), "{text}");
    }
    assert_eq!(fs::read(&kept).unwrap(), b"as it was");
    let empty = scratch.file("empty", b"\0asm\x01\0\0\0");
    let nowhere = scratch.path("no/where");
    let output = esker(["wasi-link", text(&empty), "-o", text(&nowhere)]);
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
}
