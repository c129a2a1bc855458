//! The modules that are measured and run, built from source.

use std::path::PathBuf;
use std::process::Command;

const TARGET: &str = "wasm32-unknown-unknown";

/// Builds the guest, with or without the peer in it, as a canister is built; its bytes.
///
/// # Errors
/// In words, when it cannot be built: the target may be missing.
pub fn build(peer: bool) -> Result<Vec<u8>, String> {
    let mut what = vec!["-p", "esker-meter-guest"];
    if peer {
        what.extend(["--features", "peer"]);
    }
    build_module(&what, "esker_meter_guest.wasm")
}

/// Builds one of the examples of `esker-embedded` in the same way.
///
/// # Errors
/// As [`build`].
pub fn build_example(name: &str) -> Result<Vec<u8>, String> {
    let what = ["-p", "esker-embedded", "--example", name];
    build_module(&what, &format!("examples/{name}.wasm"))
}

fn build_module(what: &[&str], module: &str) -> Result<Vec<u8>, String> {
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target"),
        PathBuf::from,
    );
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--profile", "meter", "--target", TARGET]);
    cargo.args(what).arg("--target-dir").arg(&folder);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    // Flags of the machine's own compiler are not for this one.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    let status = cargo.status().map_err(|error| format!("{cargo:?}: {error}"))?;
    if !status.success() {
        return Err(format!("{cargo:?}: {status}; `rustup target add {TARGET}` may help"));
    }
    let module = folder.join(TARGET).join("meter").join(module);
    std::fs::read(&module).map_err(|error| format!("{}: {error}", module.display()))
}
