//! `esker wasi-link`: a module's imports of WASI, redirected to the functions that are linked into it.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use esker_wasi_link::{Error, link};
use serde_json::json;

use super::say;
use crate::failure::{Exit, Failure, Outcome, path_shown, said, shown};
use crate::printed::warn;

/// Redirect a module's imports of WASI to functions that are linked into it.
///
/// For a canister: its system knows nothing of WASI. Built for wasm32-wasip1 with the crate esker-polyfill (or
/// ic-wasi-polyfill), it has both the imports and the functions; this joins them, and takes the imports away.
#[derive(Args)]
#[command(after_help = "\
Only WASI preview 1 is redirected. What of WASI cannot be is left, and named with its reason; the
exit status is 5 then. An export _start becomes _initialize; what was _initialize, where
constructors of C are, runs by itself from now on, when the module is brought up.

Example:
  cargo build --release --target wasm32-wasip1
  esker wasi-link target/wasm32-wasip1/release/app.wasm -o app.wasm")]
pub struct WasiLink {
    /// The module
    #[arg(value_name = "MODULE")]
    module: PathBuf,
    /// Where the new module goes; what is there is replaced
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Print one line of JSON about the result
    #[arg(long)]
    pub json: bool,
}

impl WasiLink {
    /// Links.
    pub fn run(&self) -> Outcome {
        let bytes = fs::read(&self.module).map_err(|error| {
            let what = format!("cannot read the module ({})", said(&error));
            Failure::at(Exit::Source, &what, &self.module, "")
        })?;
        let linked = link(&bytes).map_err(|error| {
            let remedy = match error {
                Error::NothingLinkedIn => "add esker-polyfill to it, and call its init",
                Error::Component => "build it for wasm32-wasip1",
                Error::Invalid(_) => "",
            };
            let what = format!("cannot be linked: {}", shown(error.to_string().as_bytes()));
            Failure::at(Exit::Source, &what, &self.module, remedy)
        })?;
        replace(&self.output, &linked.module)?;
        let (count, place) = (linked.redirected.len(), path_shown(&self.output));
        let wasi = || linked.left.iter().filter_map(|left| left.why.map(|why| (left, why)));
        if self.json {
            let left: Vec<_> = wasi()
                .map(|(left, why)| json!({ "import": left.name, "why": why.to_string() }))
                .collect();
            say(&json!({ "linked": place, "redirected": linked.redirected, "left": left })
                .to_string());
        } else {
            say(&format!("linked {place}: {count} functions of WASI"));
        }
        for (left, why) in wasi() {
            warn(&format!("left as it is: {}: {why}", shown(left.name.as_bytes())));
        }
        match wasi().next() {
            None => Ok(()),
            Some(_) => Err(Failure { exit: Exit::Partly, text: String::new() }),
        }
    }
}

/// Writes the file whole, or leaves what was there.
fn replace(path: &Path, bytes: &[u8]) -> Outcome {
    let unable = |error: std::io::Error| {
        let what = format!("cannot write the output ({})", said(&error));
        Failure::at(Exit::Failed, &what, path, "choose another -o")
    };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(name);
    let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        // It may not even be there.
        let _ = fs::remove_file(&beside);
        unable(error)
    })
}
