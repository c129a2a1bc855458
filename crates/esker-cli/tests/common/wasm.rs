//! Programs and modules for WebAssembly, built from examples.

use std::path::PathBuf;
use std::process::Command;

const TARGET: &str = "wasm32-wasip1";

/// Builds an example of `esker-wasi`, where this machine can; says so, or fails, where it cannot.
pub fn program(name: &str) -> Option<PathBuf> {
    built("esker-wasi", name)
}

/// The same of any package.
pub fn built(package: &str, name: &str) -> Option<PathBuf> {
    let mut rustc = Command::new("rustc");
    let output = rustc.args(["--print", "target-libdir", "--target", TARGET]).output().unwrap();
    let library = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if !super::can("build for WebAssembly (rustup target add wasm32-wasip1)", library.exists()) {
        return None;
    }
    // Beside this program, whatever folder cargo was told to use.
    let folder = std::path::Path::new(super::ESKER).ancestors().nth(2).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--locked", "-p", package, "--example", name]);
    cargo.args(["--target", TARGET]).arg("--target-dir").arg(folder);
    // Flags of the machine's own compiler are not for this one.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    assert!(cargo.status().unwrap().success(), "{cargo:?}");
    Some(folder.join(TARGET).join("debug/examples").join(format!("{name}.wasm")))
}
