//! Packing a tree, and what that costs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::super::stop;
use super::super::target::this_program;
use super::Subject;
use super::tree::Tree;
use crate::failure::{Exit, Failure, Outcome, said, shown};

/// What it cost to pack a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Making {
    /// Bytes of the file.
    pub stored: u64,
    /// Seconds.
    pub wall: f64,
    /// Seconds of all CPUs, user and system.
    pub cpu: f64,
    /// Bytes of memory at most, of one process.
    pub memory: u64,
}

impl Making {
    /// For machines.
    pub fn json(&self) -> Value {
        let Self { stored, wall, cpu, memory } = self;
        json!({ "stored": stored, "wall": wall, "cpu": cpu, "memory": memory })
    }

    /// What was kept, if it is of this tree.
    fn from_json(text: &str, of: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        if value["of"] != of {
            return None;
        }
        let seconds = |name: &str| value[name].as_f64();
        Some(Self {
            stored: value["stored"].as_u64()?,
            wall: seconds("wall")?,
            cpu: seconds("cpu")?,
            memory: value["memory"].as_u64()?,
        })
    }
}

/// Packs. A file that was `kept` by an earlier run is not made again: what it cost stands beside it.
pub fn make(subject: &Subject, tree: &Tree, file: &Path, kept: bool) -> Outcome<Making> {
    let beside = beside(file);
    // Another tree of the same name, or one that has changed, is packed anew.
    let of = format!("{}: {} files, {} bytes", tree.path.display(), tree.files.len(), tree.bytes);
    let known = fs::read_to_string(&beside).ok().filter(|_| kept && file.exists());
    if let Some(making) = known.as_deref().and_then(|known| Making::from_json(known, &of)) {
        return Ok(making);
    }
    if let Some(program) = subject.program().filter(|program| !is_installed(program)) {
        return Err(Failure::new(Exit::Failed, format!("{program} is not installed"), ""));
    }
    let _ = fs::remove_file(file);
    let making = spent(subject, &tree.path, file).inspect_err(|_| drop(fs::remove_file(file)))?;
    if kept {
        let mut all = making.json();
        all["of"] = json!(of);
        fs::write(&beside, all.to_string()).map_err(|error| {
            let what = format!("cannot keep what was measured ({})", said(&error));
            Failure::at(Exit::Failed, &what, &beside, "")
        })?;
    }
    Ok(making)
}

fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".json");
    name.into()
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

fn spent(subject: &Subject, tree: &Path, file: &Path) -> Outcome<Making> {
    let ours = this_program()?;
    let mut command = Command::new(&ours);
    command.arg("spent").arg("--").args(subject.command(&ours, tree, file));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = stop::run(&mut command).map_err(|error| {
        Failure::new(Exit::Failed, format!("cannot run it: {}", said(&error)), "")
    })?;
    if !output.status.success() {
        let line = output.stderr.split(|&byte| byte == b'\n').find(|line| !line.is_empty());
        return Err(Failure::new(Exit::Failed, shown(line.unwrap_or_default()), ""));
    }
    let told = serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default();
    let stored = fs::metadata(file).map(|metadata| metadata.len());
    let making = stored.ok().and_then(|stored| {
        Some(Making {
            stored,
            wall: told["wall"].as_f64()?,
            cpu: told["cpu_micros"].as_f64()? / 1e6,
            memory: told["memory"].as_u64()?,
        })
    });
    making.ok_or_else(|| Failure::new(Exit::Failed, "it made nothing", ""))
}
