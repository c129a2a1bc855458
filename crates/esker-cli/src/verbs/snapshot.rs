//! `esker snapshot`: moments of a volume that are kept under a name.

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, Subcommand};
use esker_fuse::MountOptions;
use esker_fuse::mount::examine;
use esker_volume::rules::date;
use serde_json::{Value, json};

use super::say;
use crate::failure::{Exit, Failure, Outcome, path_shown, said};
use crate::mounts;
use crate::units::size_shown;
use crate::volumes::base::Given;
use crate::volumes::is_volume;
use crate::volumes::snapshots::{Edit, Request, offline, online};
use crate::volumes::{ask, desk};

/// Keep what a volume is like under a name, and look at it later.
///
/// A snapshot shows the volume as it was when it was made, and cannot be changed. What changes afterwards is written
/// elsewhere, so it takes as much room as what is different since; deleting it gives that back. Of a volume that
/// is mounted name the mount, or anything in it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  esker snapshot create /mnt/d before        of a volume that is mounted
  esker snapshot create disk.vol before      of one that is not
  esker snapshot list disk.vol
  esker mount disk.vol@before /mnt/b         to be read
  esker mount disk.vol /mnt/d -o snapshots   all of them, in /mnt/d/.snapshots, while it is used
  esker ls disk.vol@before:/etc              as do cat, stat, find, du, tree, extract and pack
  esker snapshot diff disk.vol before        what changed since
  esker snapshot rollback disk.vol before    as it was then, with all snapshots
  esker snapshot rules /mnt/d --add 'every hour keep 24' --add 'every day keep 7 for 30d'
  esker snapshot delete /mnt/d before")]
pub struct Snapshot {
    #[command(subcommand)]
    what: What,
}

/// The volume, and how to tell of it.
#[derive(Args)]
struct Target {
    /// A volume, or something in the mount of one
    #[arg(value_name = "VOLUME|MOUNT")]
    path: PathBuf,
    #[command(flatten)]
    given: Given,
    /// Print one line of JSON about the result
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// Make one; all that changed until now is in it, and safe
    Create {
        #[command(flatten)]
        target: Target,
        /// 1 to 64 letters, digits and ._:-
        name: String,
    },
    /// Tell which there are, and how much room each would give back
    List {
        #[command(flatten)]
        target: Target,
    },
    /// Take one away, and give back the room that only it needed
    Delete {
        #[command(flatten)]
        target: Target,
        /// Which
        name: String,
    },
    /// Go back to one: what came later is gone, but for what snapshots have
    ///
    /// A mount goes on meanwhile: files that are the same stay open, and who has one open that is another one then, or
    /// not there any more, is told that it is stale.
    Rollback {
        #[command(flatten)]
        target: Target,
        /// Which
        name: String,
        /// Keep what the volume is like now as a snapshot of this name
        #[arg(long, value_name = "NAME")]
        keep: Option<String>,
    },
    /// Tell what changed since one: - is gone, + is new, r is renamed, c has other content, m other attributes, t is
    /// of another type; and what deleting it would give back
    Diff {
        #[command(flatten)]
        target: Target,
        /// Since which
        from: String,
        /// Until which; without it, until now
        to: Option<String>,
    },
    /// Tell or change by which rules a mount makes snapshots and takes them away again
    ///
    /// A rule is `every hour keep 24`, or with day, week, month, or `on sync`; with `for 30d` its snapshots go at
    /// that age too (m, h, d, w, y). They are called hourly-2026-11-22T20:00:00Z. Those made by hand stay.
    Rules {
        #[command(flatten)]
        target: Target,
        /// One more rule; may be given several times
        #[arg(long, value_name = "RULE")]
        add: Vec<String>,
        /// One less: `every hour`. Its snapshots stay, until there is such a rule again
        #[arg(long, value_name = "RULE")]
        remove: Vec<String>,
        /// Snapshots of all rules together, at most; 0: as many as they keep
        #[arg(long, value_name = "N")]
        largest: Option<u64>,
    },
    /// Mount one, to be read. Of a volume that is mounted its server does that, for as long as it serves it; it also
    /// shows all of them with `esker mount -o snapshots`
    Mount {
        #[command(flatten)]
        target: Target,
        /// Which
        name: String,
        /// Where: an empty directory
        dir: PathBuf,
    },
}

fn asked(target: &Target, request: Request<'_>) -> Outcome<Value> {
    let path = &target.path;
    if is_volume(path) {
        offline(path, &target.given.bases, request)
    } else {
        online(path, request)
    }
}

impl Snapshot {
    /// Whether a machine is told.
    pub const fn json(&self) -> bool {
        match &self.what {
            What::Create { target, .. }
            | What::List { target }
            | What::Delete { target, .. }
            | What::Rollback { target, .. }
            | What::Diff { target, .. }
            | What::Rules { target, .. }
            | What::Mount { target, .. } => target.json,
        }
    }

    /// Does it.
    pub fn run(&self) -> Outcome {
        let (target, answer) = match &self.what {
            What::Create { target, name } => (target, asked(target, Request::Create(name))?),
            What::List { target } => (target, asked(target, Request::List)?),
            What::Delete { target, name } => (target, asked(target, Request::Delete(name))?),
            What::Rollback { target, name, keep } => {
                (target, asked(target, Request::Rollback(name, keep.as_deref()))?)
            }
            What::Rules { target, add, remove, largest } => {
                let edit = Edit { add: add.clone(), remove: remove.clone(), largest: *largest };
                (target, asked(target, Request::Rules(edit))?)
            }
            What::Diff { target, from, to } => return diff(target, from, to.as_deref()),
            What::Mount { target, name, dir } => return mount(target, name, dir),
        };
        if target.json {
            say(&answer.to_string());
        } else {
            words(&answer, &target.path).iter().for_each(|line| say(line));
        }
        Ok(())
    }
}

/// Tells what changed.
fn diff(target: &Target, from: &str, to: Option<&str>) -> Outcome {
    let mut told = asked(target, Request::Diff(from, to))?;
    let bytes = |key: &str| told[key].as_u64().unwrap_or(0);
    let [before, after, freed, unlisted] = ["before", "after", "freed", "unlisted"].map(bytes);
    let rows = told["all"].take();
    for row in rows.as_array().into_iter().flatten() {
        let text = |key: &str| row[key].as_str().unwrap_or_default();
        let (path, letter, from) = (text("path"), text("letter"), row["from"].as_str());
        match (target.json, from) {
            (true, None) => say(&json!({ "path": path, "change": text("change") }).to_string()),
            (true, Some(from)) => {
                let told = json!({ "path": path, "change": text("change"), "from": from });
                say(&told.to_string());
            }
            (false, None) => say(&format!("{letter} {path}")),
            (false, Some(from)) => say(&format!("{letter} {from} -> {path}")),
        }
    }
    let count = told["changes"].as_u64().unwrap_or(0);
    if target.json {
        let told = json!({
            "changes": count, "unlisted": unlisted,
            "before": before, "after": after, "freed": freed,
        });
        say(&told.to_string());
    } else if count == 0 {
        say(&format!("nothing changed since {from}"));
    } else {
        if unlisted > 0 {
            say(&format!("and {unlisted} more; unmounted, the volume tells of all"));
        }
        let (before, after) = (size_shown(before), size_shown(after));
        say(&format!("{before} of content is only in {from}, {after} only in what came after it"));
        say(&format!("deleting {from} gives back {}", size_shown(freed)));
    }
    let same = count == 0;
    if same { Ok(()) } else { Err(Failure { exit: Exit::Different, text: String::new() }) }
}

/// The server of a mount shows one of its snapshots in another place, too.
fn mount_besides(target: &Target, name: &str, dir: &Path) -> Outcome {
    let dir = examine(dir, &MountOptions::default()).map_err(|error| mounts::failure(&error))?;
    let device = |path: &Path| path.metadata().map(|meta| meta.dev());
    if device(&dir).is_ok_and(|own| device(&target.path).is_ok_and(|other| own == other)) {
        let what = "that is in the very mount that it is a snapshot of";
        return Err(Failure::at(Exit::MountPoint, what, &dir, "choose a directory elsewhere"));
    }
    let told = ask::ask(&target.path, &desk::show(name, &dir), false)?;
    if target.json {
        say(&told.to_string());
    } else {
        let (dir, source) = (path_shown(&dir), told["source"].as_str().unwrap_or_default());
        let source = path_shown(Path::new(source));
        say(&format!("mounted {dir}, the snapshot {source}; `esker umount {dir}` unmounts it"));
    }
    Ok(())
}

/// As `esker mount VOLUME@NAME DIR`.
fn mount(target: &Target, name: &str, dir: &Path) -> Outcome {
    if !is_volume(&target.path) && target.path.is_dir() {
        return mount_besides(target, name, dir);
    }
    let mut source = OsString::from(&target.path);
    source.push("@");
    source.push(name);
    let failed = |error: &std::io::Error| {
        Failure::new(Exit::Failed, format!("cannot start esker ({})", said(error)), "")
    };
    let own = std::env::current_exe().map_err(|error| failed(&error))?;
    let mut command = Command::new(own);
    command.arg("mount").args(target.json.then_some("--json")).arg(source).arg(dir);
    for base in &target.given.bases {
        command.arg("--base").arg(base);
    }
    Err(failed(&command.exec()))
}

/// What a person is told.
fn words(answer: &Value, path: &Path) -> Vec<String> {
    let place = path_shown(path);
    if let Some(name) = answer["created"].as_str() {
        return vec![format!("made the snapshot {name} of {place}")];
    }
    if let Some(name) = answer["deleted"].as_str() {
        return vec![format!("deleted the snapshot {name} of {place}")];
    }
    if let Some(name) = answer["now"].as_str() {
        return vec![format!("{place} is as it was in the snapshot {name}")];
    }
    if let Some(rules) = answer["rules"].as_array() {
        return rules_shown(rules, answer["largest"].as_u64(), &place);
    }
    let rows = answer["snapshots"].as_array().map_or(&[][..], Vec::as_slice);
    if rows.is_empty() {
        return vec![format!("{place} has no snapshots")];
    }
    let names = rows.iter().filter_map(|row| row["name"].as_str());
    let width = names.map(str::len).max().unwrap_or(0);
    let line = |row: &Value| {
        let name = row["name"].as_str().unwrap_or_default();
        let held = size_shown(row["bytes"].as_u64().unwrap_or(0));
        let time = row["time"].as_i64().unwrap_or(0);
        format!("{name:<width$}  {:>20} {held:>10} of its own", time_shown(time))
    };
    rows.iter().map(line).collect()
}

fn rules_shown(rules: &[Value], largest: Option<u64>, place: &str) -> Vec<String> {
    if rules.is_empty() {
        return vec![format!("{place} has no rules for snapshots")];
    }
    let line = |row: &Value| {
        let (rule, count) = (row["rule"].as_str().unwrap_or_default(), &row["snapshots"]);
        format!("{rule:<32} {count} there")
    };
    let most = largest.filter(|&most| most > 0).map(|most| format!("together at most {most}"));
    rules.iter().map(line).chain(most).collect()
}

/// Seconds since 1970 as a date and time of the day, UTC.
fn time_shown(time: i64) -> String {
    let ((year, month, date), secs) = (date(time), time.rem_euclid(86_400));
    let (hour, minute, second) = (secs / 3600, secs / 60 % 60, secs % 60);
    format!("{year:04}-{month:02}-{date:02} {hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates() {
        assert_eq!(time_shown(0), "1970-01-01 00:00:00Z");
        assert_eq!(time_shown(951_827_696), "2000-02-29 12:34:56Z");
        assert_eq!(time_shown(4_107_542_400), "2100-03-01 00:00:00Z");
        assert_eq!(time_shown(-1), "1969-12-31 23:59:59Z");
    }
}
