//! `esker spent`: runs a program for `esker bench pack` and tells what it cost, its children's work included.

use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Args;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use serde_json::json;

use super::say;
use crate::failure::{Exit, Failure, Outcome, os_shown, said};

/// Run a program to its end; print what it cost as JSON.
#[derive(Args)]
pub struct Spent {
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    words: Vec<std::ffi::OsString>,
}

impl Spent {
    /// Runs. A process of its own does, so that nobody else's children are counted.
    pub fn run(&self) -> Outcome {
        let (program, arguments) = self.words.split_first().ok_or_else(|| {
            Failure::new(Exit::Usage, "no program to run", "name one, and its arguments")
        })?;
        let begin = Instant::now();
        let status = Command::new(program).args(arguments).stdout(Stdio::null()).status();
        let status = status.map_err(|error| {
            let what = format!("cannot run {} ({})", os_shown(program), said(&error));
            Failure::new(Exit::Failed, what, "")
        })?;
        let wall = begin.elapsed().as_secs_f64();
        if !status.success() {
            let what = format!("{} failed ({status})", os_shown(program));
            return Err(Failure::new(Exit::Failed, what, ""));
        }
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| {
            Failure::new(Exit::Failed, format!("cannot ask what it cost ({error})"), "")
        })?;
        let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        // In KiB, as Linux has it.
        let most = usage.max_rss().max(0).cast_unsigned() * 1024;
        say(&json!({ "wall": wall, "cpu_micros": micros, "memory": most }).to_string());
        Ok(())
    }
}
