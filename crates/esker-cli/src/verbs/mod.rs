//! What `esker` can do: one verb per file.

mod bench;
mod mount;
mod null_server;
mod umount;

use std::io::Write as _;

use clap::{Parser, Subcommand};

use crate::failure::{Failure, Outcome};
pub use mount::BY_MOUNT8;

/// One file system, three homes; this version has the first: memory.
#[derive(Parser)]
#[command(name = "esker", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  esker mount mem: /mnt/x                   an empty file system in memory
  esker mount mem: /mnt/x --from ./tree     the same, filled with a copy of a tree
  esker umount /mnt/x                       give it, and its memory, back
  esker bench dir                           how fast, beside tmpfs and the limit of FUSE

Exit status:
  0  done
  1  the system or the file system refused
  2  wrong arguments or options
  3  the mount point is missing, in use, stale, not empty or not a directory
  4  the tree or archive to start from cannot be read, or was refused

`esker help VERB` tells more.")]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Mount(mount::Mount),
    Umount(umount::Umount),
    Bench(Box<bench::Bench>),
    #[command(hide = true)]
    NullServer(null_server::NullServer),
}

/// Does what was asked; a failure has been told by then.
pub fn run(cli: Cli) -> Outcome {
    match cli.verb {
        Verb::Mount(verb) => told(verb.json, verb.run()),
        Verb::Umount(verb) => told(verb.json, verb.run()),
        Verb::Bench(verb) => told(verb.json, verb.run()),
        Verb::NullServer(verb) => told(false, verb.run()),
    }
}

/// Tells a failure: a person on standard error, a machine on standard output too.
fn told(json: bool, outcome: Outcome) -> Outcome {
    if let Err(failure) = &outcome
        && !failure.text.is_empty()
    {
        eprintln!("esker: {}", failure.text);
        if json {
            say_failure(failure);
        }
    }
    outcome
}

/// A failure for a machine: one line of JSON on standard output.
pub fn say_failure(failure: &Failure) {
    let line = serde_json::json!({ "error": failure.text, "exit": failure.exit as u8 });
    say(&line.to_string());
}

/// A line on standard output; nobody need be there to read it.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
