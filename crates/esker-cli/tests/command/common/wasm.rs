//! Programs and modules for WebAssembly, built from examples.

use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "wasm32-wasip1";
/// Of Debian's `wasi-libc`.
const HEADERS: &str = "/usr/include/wasm32-wasi";

/// Builds an example of `esker-wasi`, where this machine can; says so, or fails, where it cannot.
pub fn program(name: &str) -> Option<PathBuf> {
    built("esker-wasi", name)
}

/// The same with so much stack, in bytes: its lowest addresses are never used.
pub fn program_with_stack(name: &str, bytes: u64) -> Option<PathBuf> {
    let stack = format!("link-arg=-zstack-size={bytes}");
    make(&["rustc", "-p", "esker-wasi", "--example", name], &["-C", &stack])
}

/// The same of one that has a file of C beside it, where there is a compiler for that.
pub fn program_with_c(name: &str, source: &str) -> Option<PathBuf> {
    let clang = Command::new("clang").arg("--version").output().is_ok();
    if !super::can("compile C (clang, wasi-libc)", clang && Path::new(HEADERS).exists()) {
        return None;
    }
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.o"));
    let mut clang = Command::new("clang");
    clang.args(["--target=wasm32-wasi", "-O1", "-isystem", HEADERS, "-c", "-o"]);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(source);
    assert!(clang.arg(&object).arg(source).status().unwrap().success(), "{clang:?}");
    let linked = format!("link-arg={}", object.display());
    make(&["rustc", "-p", "esker-wasi", "--example", name], &["--cfg", "with_c", "-C", &linked])
}

/// The same of any package.
pub fn built(package: &str, name: &str) -> Option<PathBuf> {
    make(&["build", "-p", package, "--example", name], &[])
}

/// Runs cargo, with words for the compiler; what it built is named last.
fn make(cargo_words: &[&str], compiler_words: &[&str]) -> Option<PathBuf> {
    let name = cargo_words.last().unwrap();
    let mut rustc = Command::new("rustc");
    let output = rustc.args(["--print", "target-libdir", "--target", TARGET]).output().unwrap();
    let library = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    if !super::can("build for WebAssembly (rustup target add wasm32-wasip1)", library.exists()) {
        return None;
    }
    // Beside this program, whatever folder cargo was told to use.
    let folder = Path::new(super::ESKER).ancestors().nth(2).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(cargo_words).args(["--quiet", "--locked", "--target", TARGET]);
    cargo.arg("--target-dir").arg(folder);
    if !compiler_words.is_empty() {
        cargo.arg("--").args(compiler_words);
    }
    // Flags of the machine's own compiler are not for this one.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    assert!(cargo.status().unwrap().success(), "{cargo:?}");
    Some(folder.join(TARGET).join("debug/examples").join(format!("{name}.wasm")))
}
