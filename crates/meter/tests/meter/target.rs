//! Whether WebAssembly can be built here.

use std::process::Command;

/// The machine has the target; in CI it must.
pub fn has_wasm() -> bool {
    let mut sysroot = Command::new("rustc");
    sysroot.args(["--print", "target-libdir"]);
    sysroot.args(["--target", "wasm32-unknown-unknown"]);
    let found = sysroot.output().ok().and_then(|output| String::from_utf8(output.stdout).ok());
    let there = found.is_some_and(|path| std::path::Path::new(path.trim()).exists());
    assert!(there || std::env::var("ESKER_CI").as_deref() != Ok("1"), "no wasm32 target");
    if !there {
        eprintln!("SKIPPED: no target wasm32-unknown-unknown");
    }
    there
}
