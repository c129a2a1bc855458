//! The modules that are measured and run, built from source.

use std::path::PathBuf;
use std::process::Command;

const TARGET: &str = "wasm32-unknown-unknown";
const WASI: &str = "wasm32-wasip1";
/// Esker in one of a manager's memories.
const MANAGED: u32 = 7;

/// What the guest is built with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guest {
    /// Esker and bare memory.
    Ours,
    /// The peer too.
    Peer,
    /// A program of `std::fs` over Esker.
    Wasi,
    /// The same over the peer.
    WasiPeer,
    /// SQLite over Esker.
    Sqlite,
    /// SQLite, the same object code, over the peer.
    SqlitePeer,
}

impl Guest {
    /// The one that a subject is in.
    #[must_use]
    pub const fn of(subject: u32) -> Self {
        match subject {
            0..4 | MANAGED => Self::Ours,
            201 | 202 => Self::Wasi,
            216 => Self::WasiPeer,
            301..=304 => Self::Sqlite,
            316 => Self::SqlitePeer,
            _ => Self::Peer,
        }
    }

    const fn features(self) -> &'static str {
        match self {
            Self::Ours => "",
            Self::Peer => "peer",
            Self::Wasi => "wasi",
            Self::WasiPeer => "wasi-peer",
            Self::Sqlite => "wasi,sqlite",
            Self::SqlitePeer => "wasi-peer,sqlite",
        }
    }
}

/// Builds the guest as a canister is built, and links it where it calls WASI; its bytes. SQLite is not linked: what it
/// costs and what the files below cost is told apart where one calls the other.
///
/// # Errors
/// In words, when it cannot be built: the target may be missing.
pub fn build(guest: Guest) -> Result<Vec<u8>, String> {
    let what = ["-p", "esker-meter-guest", "--features", guest.features()];
    let module = "esker_meter_guest.wasm";
    if let Guest::Ours | Guest::Peer = guest {
        return build_module(&what, module, TARGET);
    }
    let module = build_module(&what, module, WASI)?;
    if let Guest::Sqlite | Guest::SqlitePeer = guest {
        return Ok(module);
    }
    let linked = esker_wasi_link::link(&module).map_err(|error| error.to_string())?;
    match linked.left.iter().find(|left| left.why.is_some()) {
        Some(left) => Err(format!("{} is left", left.name)),
        None => Ok(linked.module),
    }
}

/// Builds one of the examples of `esker-embedded` in the same way.
///
/// # Errors
/// As [`build`].
pub fn build_example(name: &str) -> Result<Vec<u8>, String> {
    build_example_with(name, "")
}

/// The same with features.
///
/// # Errors
/// As [`build`].
pub fn build_example_with(name: &str, features: &str) -> Result<Vec<u8>, String> {
    let what = ["-p", "esker-embedded", "--example", name, "--features", features];
    build_module(&what, &format!("examples/{name}.wasm"), TARGET)
}

fn build_module(what: &[&str], module: &str, target: &str) -> Result<Vec<u8>, String> {
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target"),
        PathBuf::from,
    );
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--profile", "meter", "--target", target]);
    cargo.args(what).arg("--target-dir").arg(&folder);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    // Flags of the machine's own compiler are not for this one.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    let status = cargo.status().map_err(|error| format!("{cargo:?}: {error}"))?;
    if !status.success() {
        return Err(format!("{cargo:?}: {status}; `rustup target add {target}` may help"));
    }
    let module = folder.join(target).join("meter").join(module);
    std::fs::read(&module).map_err(|error| format!("{}: {error}", module.display()))
}
