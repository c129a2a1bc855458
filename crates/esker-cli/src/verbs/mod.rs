//! What `esker` can do: one verb per file.

mod alter;
mod bench;
mod bench_flash;
mod bench_pack;
mod bench_volume;
mod cat;
mod check;
mod clone;
mod dedup;
mod diff;
mod du;
mod dump;
mod extract;
mod find;
mod freeze;
mod info;
mod look;
mod ls;
pub mod mkfs;
mod mount;
mod null_server;
mod pack;
mod receive;
mod recover;
mod repack;
mod report;
mod run;
mod scrub;
mod send;
mod slow_server;
mod snapshot;
mod spent;
mod stat;
mod stats;
mod sync;
mod tree;
mod umount;
mod upgrade;
mod wasi_link;

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

use crate::failure::{Exit, Failure, Outcome};
use crate::printed::{printer, warn};
pub use mount::BY_MOUNT8;
pub use sync::sync as handed_over;

/// One file system, three homes: memory, volumes, images.
#[derive(Parser)]
#[command(name = "esker", version, max_term_width = 100, arg_required_else_help = true)]
#[command(after_help = "\
Examples:
  esker mount mem: /mnt/x                   an empty file system in memory
  esker mount mem: /mnt/x --from ./tree     the same, filled with a copy of a tree
  esker umount /mnt/x                       give it, and its memory, back
  esker mkfs disk.vol --size 10G            a writable volume in a file
  esker mount disk.vol /mnt/d               that volume as a file system
  esker snapshot create /mnt/d before       what it is like now, to be looked at later
  esker clone /mnt/d/a /mnt/d/b             a file or tree once more, with the same blocks
  esker dedup disk.vol                      equal bytes of all its files stored once
  esker stats /mnt/d                        how full it is, how long its answers take
  esker send disk.vol@before -o b.stream    that as a stream, for `esker receive` elsewhere
  esker pack ./tree -o tree.esker           a tree into one compressed file
  esker mkfs c.vol --size 9G --base t.esker an image that can be changed: only changes are stored
  esker freeze c.vol -o new.esker           that image and the changes into one again
  esker mount tree.esker /mnt/t             that file as a file system
  esker ls tree.esker:/bin                  a look into it, without mounting
  esker extract tree.esker -o dir           files out of it
  esker recover disk.vol -o dir             what is left of a damaged volume or image
  esker run app.wasm --fs tree.esker        a WebAssembly program over it
  esker bench dir                           how fast, beside tmpfs and the limit of FUSE

Exit status:
  0  done
  1  the system or the file system refused
  2  wrong arguments or options
  3  the mount point is missing, in use, stale, not empty or not a directory
  4  the tree, archive or image to start from cannot be read, or was refused
  5  done, but something was left out, which was named
  6  an image or a volume is damaged
  7  what was compared differs

`esker help VERB` tells more.")]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Mkfs(Box<mkfs::Mkfs>),
    Mount(mount::Mount),
    Umount(umount::Umount),
    Sync(sync::Sync),
    Snapshot(snapshot::Snapshot),
    Clone(clone::Clone),
    Dedup(dedup::Dedup),
    Send(Box<send::Send>),
    Receive(Box<receive::Receive>),
    Pack(Box<pack::Pack>),
    Freeze(Box<freeze::Freeze>),
    Repack(Box<repack::Repack>),
    Report(Box<report::Report>),
    Run(Box<run::Run>),
    WasiLink(wasi_link::WasiLink),
    Ls(ls::Ls),
    Cat(cat::Cat),
    Stat(stat::Stat),
    Find(find::Find),
    Du(du::Du),
    Tree(tree::Tree),
    Extract(Box<extract::Extract>),
    Diff(Box<diff::Diff>),
    Info(info::Info),
    Check(check::Check),
    Recover(Box<recover::Recover>),
    Scrub(scrub::Scrub),
    Stats(stats::Stats),
    Resize(alter::Resize),
    Label(alter::Label),
    Tune(alter::Tune),
    Upgrade(upgrade::Upgrade),
    Dump(dump::Dump),
    Bench(Box<bench::Bench>),
    #[command(hide = true)]
    NullServer(null_server::NullServer),
    #[command(hide = true)]
    SlowServer(slow_server::SlowServer),
    #[command(hide = true)]
    Spent(spent::Spent),
}

/// Does what was asked; a failure has been told by then.
pub fn run(cli: Cli) -> Outcome {
    match cli.verb {
        Verb::Mkfs(verb) => told(verb.json, verb.run()),
        Verb::Mount(verb) => told(verb.json, verb.run()),
        Verb::Umount(verb) => told(verb.json, verb.run()),
        Verb::Sync(verb) => told(verb.json, verb.run()),
        Verb::Snapshot(verb) => told(verb.json(), verb.run()),
        Verb::Clone(verb) => told(verb.json, verb.run()),
        Verb::Dedup(verb) => told(verb.json, verb.run()),
        Verb::Send(verb) => told(verb.json, verb.run()),
        Verb::Receive(verb) => told(verb.json, verb.run()),
        Verb::Pack(verb) => told(verb.json, verb.run()),
        Verb::Freeze(verb) => told(verb.pack.json, verb.run()),
        Verb::Repack(verb) => told(verb.json, verb.run()),
        Verb::Report(verb) => told(false, verb.run()),
        Verb::Run(verb) => told(false, verb.run()),
        Verb::WasiLink(verb) => told(verb.json, verb.run()),
        Verb::Ls(verb) => told(verb.look.json, verb.run()),
        Verb::Cat(verb) => told(verb.look.json, verb.run()),
        Verb::Stat(verb) => told(verb.look.json, verb.run()),
        Verb::Find(verb) => told(verb.look.json, verb.run()),
        Verb::Du(verb) => told(verb.look.json, verb.run()),
        Verb::Tree(verb) => told(verb.look.json, verb.run()),
        Verb::Extract(verb) => told(verb.json, verb.run()),
        Verb::Diff(verb) => told(verb.json, verb.run()),
        Verb::Info(verb) => told(verb.json, verb.run()),
        Verb::Check(verb) => told(verb.json, verb.run()),
        Verb::Recover(verb) => told(verb.json, verb.run()),
        Verb::Scrub(verb) => told(verb.json, verb.run()),
        Verb::Stats(verb) => told(verb.json, verb.run()),
        Verb::Resize(verb) => told(verb.json, verb.run()),
        Verb::Label(verb) => told(verb.json, verb.run()),
        Verb::Tune(verb) => told(verb.json, verb.run()),
        Verb::Upgrade(verb) => told(verb.json, verb.run()),
        Verb::Dump(verb) => told(verb.json, verb.run()),
        Verb::Bench(verb) => told(verb.json(), verb.run()),
        Verb::NullServer(verb) => told(false, verb.run()),
        Verb::SlowServer(verb) => told(false, verb.run()),
        Verb::Spent(verb) => told(false, verb.run()),
    }
}

/// Tells a failure: a person on standard error, a machine on standard output too.
fn told(json: bool, outcome: Outcome) -> Outcome {
    if let Err(failure) = &outcome
        && !failure.text.is_empty()
    {
        warn(&failure.text);
        if json {
            say_failure(failure);
        }
    }
    outcome
}

/// Whether a path leads to what this is of.
pub fn is_same(one: &std::fs::Metadata, path: &Path) -> bool {
    path.metadata().is_ok_and(|other| (one.dev(), one.ino()) == (other.dev(), other.ino()))
}

/// The same of several files.
fn spare_all(sources: &[PathBuf], output: &Path) -> Outcome {
    sources.iter().try_for_each(|source| spare(source, output))
}

/// What is read is not what is written: an output that would take its place.
fn spare(source: &Path, output: &Path) -> Outcome {
    if source.metadata().is_ok_and(|one| is_same(&one, output)) {
        let what = "that is what is read";
        return Err(Failure::at(Exit::Usage, what, output, "name another output"));
    }
    Ok(())
}

/// A failure for a machine: one line of JSON on standard output.
pub fn say_failure(failure: &Failure) {
    let line = serde_json::json!({ "error": failure.text, "exit": failure.exit as u8 });
    say(&line.to_string());
}

/// A line on standard output; that it could not be printed is told at the end.
fn say(line: &str) {
    let _ = is_heard(line);
}

/// The same, and whether somebody is.
fn is_heard(line: &str) -> bool {
    writeln!(printer(), "{line}").is_ok()
}
