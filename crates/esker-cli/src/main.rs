//! The command `esker`: one verb per file under `verbs`.
//!
//! Below: the doors (`esker-fuse`), the core (`esker`) and the machine (`esker-host`). The verbs
//! put them together and talk to a person; they decide nothing about files. Invariant: every way
//! out of the program is an [`Exit`] status with a message that says what, where and what to do.
// They panic where nobody can be told.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod background;
mod bench;
mod called;
mod cloning;
mod ending;
mod failure;
mod filling;
mod fitting;
mod homes;
mod housekeeping;
mod images;
mod import;
mod log;
mod mounts;
mod near;
mod options;
mod pack;
mod printed;
mod profile;
mod progress;
mod remount;
mod report;
mod sandbox;
mod serve;
mod stats;
mod streams;
mod units;
mod verbs;
mod volumes;
mod wasm;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;

use called::Called;
use failure::{Exit, Failure, Outcome};
use verbs::Cli;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let called = Called::by(words.first());
    if called.is_fake(&words) {
        return ExitCode::SUCCESS;
    }
    let words = called.words(words);
    let json = words.iter().any(|word| word == "--json");
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, json, called),
    };
    ended(printed::outcome(verbs::run(cli)), called)
}

fn ended(outcome: Outcome, called: Called) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => ExitCode::from(called.status(failure.exit)),
    }
}

/// Help goes to standard output, a mistake to standard error, in our words, and as any failure to a
/// machine that reads.
fn usage(error: &clap::Error, json: bool, called: Called) -> ExitCode {
    if !error.use_stderr() {
        // Kept, if it fails.
        let _ = write!(printed::printer(), "{error}");
        return ended(printed::outcome(Ok(())), called);
    }
    let text = error.to_string();
    match text.strip_prefix("error: ") {
        Some(text) => printed::told(&format!("esker: {text}")),
        None => printed::told(&text),
    }
    if json {
        let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned();
        verbs::say_failure(&Failure { exit: Exit::Usage, text });
    }
    ExitCode::from(called.status(Exit::Usage))
}
