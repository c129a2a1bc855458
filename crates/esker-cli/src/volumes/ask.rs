//! Asking the server of a mount, in JSON both ways.
//!
//! Above: verbs. Below: `esker_fuse::control`. Invariant: what the server refuses comes back with its words and its
//! exit status.

use std::fs::metadata;
use std::io::Error;
use std::path::Path;

use rustix::io::Errno;
use serde_json::{Value, json};

use super::host;
use crate::failure::{Exit, Failure, Outcome, said};

/// The exits that a server may answer with.
const EXITS: [Exit; 3] = [Exit::Usage, Exit::Source, Exit::Damaged];

/// A failure as a server answers it.
pub fn refusal(failure: &Failure) -> Value {
    json!({ "error": failure.text, "exit": failure.exit as u8 })
}

/// Nobody there knows what is asked.
pub fn unknown() -> Value {
    json!({ "error": "not a volume", "unknown": true })
}

/// What is said where nobody answers who knows what is asked: what it is not, and what to name.
type Nothing<'a> = (&'a str, &'a str);

/// As long as it is a volume that is asked about.
const NO_VOLUME: Nothing<'_> =
    ("not a volume", "name a volume, or something in the mount of one that can be written");

/// Why nobody answers for this path.
fn nobody(path: &Path, nothing: Nothing<'_>) -> Failure {
    let mount = esker_fuse::mount::mounted_on(path);
    if mount.is_ok_and(|mount| mount.has("ro") && super::is_volume(Path::new(&mount.source))) {
        let remedy = "ask the volume itself, or mount it without -o ro";
        return Failure::at(Exit::Failed, "it is mounted to be read only", path, remedy);
    }
    Failure::at(Exit::Usage, nothing.0, path, nothing.1)
}

fn unable(path: &Path, error: &Error, nothing: Nothing<'_>) -> Failure {
    let what = match Errno::from_io_error(error) {
        Some(Errno::NOTTY) => return nobody(path, nothing),
        Some(Errno::PERM) => "only root, and who mounted it, may do that".to_owned(),
        Some(Errno::ACCESS) => "no permission to open it".to_owned(),
        _ => format!("cannot ask the mount ({})", said(error)),
    };
    Failure::at(Exit::Failed, &what, path, "")
}

/// What the kernel took from programs and kept back cannot be written now. It tells so once.
fn unkept(path: &Path, error: &Error) -> Failure {
    match Errno::from_io_error(error) {
        Some(Errno::NOSPC | Errno::IO | Errno::ROFS | Errno::DQUOT) => {
            let what = format!("what was written last cannot be kept ({})", said(error));
            let usual = "make room for it, or ask once more to go on without it";
            Failure::at(Exit::Failed, &what, path, &host::remedy(path, error, usual))
        }
        _ => unable(path, error, NO_VOLUME),
    }
}

/// Asks the server of the mount in which this path lies. `handed_over`: what the kernel keeps back belongs to it.
pub fn ask(path: &Path, message: &Value, handed_over: bool) -> Outcome<Value> {
    let meta = metadata(path).map_err(|error| unable(path, &error, NO_VOLUME))?;
    if !meta.is_file() && !meta.is_dir() {
        return Err(nobody(path, NO_VOLUME));
    }
    if handed_over {
        crate::verbs::handed_over(path).map_err(|error| unkept(path, &error))?;
    }
    ask_of(path, message, NO_VOLUME)
}

/// Asks it, whatever it serves.
pub fn ask_of(path: &Path, message: &Value, nothing: Nothing<'_>) -> Outcome<Value> {
    let answer = esker_fuse::control::ask(path, message.to_string().as_bytes());
    let answer = answer.map_err(|error| unable(path, &error, nothing))?;
    let answer: Value = serde_json::from_slice(&answer)
        .map_err(|_| Failure::at(Exit::Failed, "the mount's answer makes no sense", path, ""))?;
    let Some(text) = answer["error"].as_str() else { return Ok(answer) };
    if answer["unknown"] == true {
        return Err(nobody(path, nothing));
    }
    let exit = EXITS.into_iter().find(|&exit| answer["exit"].as_u64() == Some(exit as u64));
    Err(Failure::new(exit.unwrap_or(Exit::Failed), text, ""))
}
