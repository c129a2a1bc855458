//! `-o remount`: what was asked, and what a remount can do of it.
//!
//! Above: `verbs::mount`. Below: the door, which changes what it is told to and nothing else.
//! Invariant: what cannot be done is told by name. Asked by a person, nothing is done then; asked by
//! mount(8), which repeats what fstab says whatever was wanted, the rest is done.

use std::ffi::OsString;
use std::path::Path;

use esker_fuse::mount::{self, MountEntry, Remount, mounted_on};

use crate::failure::{Exit, Failure, Outcome, shown};
use crate::mounts;
use crate::options::for_mount;
use crate::printed::warn;

/// Words that ask for nothing.
const IDLE: [&str; 3] = ["remount", "defaults", "default_permissions"];

/// A remount as it was asked for.
pub struct Request<'a> {
    /// Of what.
    pub dir: &'a Path,
    /// What stood behind each `-o`, which is known to make sense.
    pub options: &'a [OsString],
    /// What else was given.
    pub others: Vec<&'static str>,
    /// mount(8) asks.
    pub by_mount8: bool,
}

/// Does it, and tells how what is mounted may be used now.
pub fn remount(request: &Request<'_>) -> Outcome<MountEntry> {
    let failed = |error| mounts::failure(&error);
    let present = mounted_on(request.dir).map_err(failed)?;
    let mut change = Remount::default();
    let mut beyond: Vec<String> = request.others.iter().map(|&other| other.to_owned()).collect();
    for word in words(request) {
        if !change.take(&word) && !is_so(&word, &present) {
            beyond.push(shown(word.as_bytes()));
        }
    }
    let beyond = beyond.join(", ");
    match (beyond.is_empty(), request.by_mount8) {
        (true, _) => {}
        (false, true) => warn(&format!("a remount leaves as it is: {beyond}")),
        (false, false) => {
            let what = format!("a remount cannot change {beyond}");
            let remedy = "it changes ro, nosuid, nodev, noexec and sync; for all else unmount, and \
                          mount again";
            return Err(Failure::new(Exit::Usage, what, remedy));
        }
    }
    mount::remount(&present, change).map_err(failed)
}

/// The options one by one. mount.fuse adds `dev` and `suid` at their end, whoever asked for what:
/// these ask for nothing.
fn words(request: &Request<'_>) -> Vec<String> {
    let lists = request.options.iter().map(|list| list.to_string_lossy());
    let mut words: Vec<String> = lists.flat_map(|list| mount::words(&list)).collect();
    for added in ["suid", "dev"] {
        if request.by_mount8 && words.last().is_some_and(|word| word == added) {
            words.pop();
        }
    }
    words
}

/// It asks for what is there already, or for nothing.
fn is_so(word: &str, present: &MountEntry) -> bool {
    let (key, value) = word.split_once('=').unwrap_or((word, ""));
    let is_source = key == "fsname" && present.source == value;
    IDLE.contains(&word) || present.has(word) || is_source || for_mount(key)
}
