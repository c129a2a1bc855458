//! Snapshots by command: of volumes that are mounted and of such that are not, looked at, deleted, refused by name.

mod common;

use std::fs;
use std::process::Command;

use common::lab::{Lab, fails, succeeds, told};
use common::{ESKER, can_mount, can_switch_user};
use serde_json::Value;

/// With a volume in it.
fn lab() -> Lab {
    let lab = Lab::new(&["mnt", "then"]);
    succeeds(&["mkfs", &lab.path("disk.vol"), "--size", "64M"]);
    lab
}

fn listed(target: &str) -> Vec<Value> {
    let line = succeeds(&["snapshot", "list", target, "--json"]);
    let answer: Value = serde_json::from_str(&line).expect("a line of JSON");
    answer["snapshots"].as_array().expect("a list").clone()
}

#[test]
fn a_volume_that_is_not_mounted_has_snapshots() {
    let lab = lab();
    let disk = lab.path("disk.vol");
    assert!(succeeds(&["snapshot", "list", &disk]).contains("no snapshots"));
    assert!(succeeds(&["snapshot", "create", &disk, "one"]).contains("made the snapshot one"));
    fails(
        &["snapshot", "create", &disk, "one"],
        1,
        &["there is a snapshot", "one", "another name"],
    );
    fails(&["snapshot", "create", &disk, "a/b"], 2, &["1 to 64 letters"]);
    fails(&["snapshot", "delete", &disk, "two"], 1, &["no snapshot", "snapshot list"]);
    assert_eq!(listed(&disk)[0]["name"], "one");
    fails(&["ls", &format!("{disk}@two")], 1, &["no snapshot"]);
    assert!(succeeds(&["snapshot", "list", &disk]).contains("one"));
    succeeds(&["check", &disk]);
    succeeds(&["snapshot", "delete", &disk, "one", "--json"]);
    assert!(listed(&disk).is_empty());
    fails(&["snapshot", "list", &lab.path("mnt")], 2, &["not a volume"]);
}

#[test]
fn a_mounted_volume_has_snapshots() {
    if !can_mount() {
        return;
    }
    let lab = lab();
    let (disk, mnt, then) = (lab.path("disk.vol"), lab.path("mnt"), lab.path("then"));
    succeeds(&["mount", &disk, &mnt]);
    fs::write(format!("{mnt}/f"), "as it was").expect("written");
    fs::write(format!("{mnt}/large"), vec![7; 3_000_000]).expect("written");
    succeeds(&["snapshot", "create", &mnt, "before"]);
    fs::write(format!("{mnt}/f"), "as it is").expect("written");
    fs::remove_file(format!("{mnt}/large")).expect("removed");
    succeeds(&["snapshot", "create", &format!("{mnt}/f"), "after"]);
    let rows = listed(&mnt);
    let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap_or_default()).collect();
    assert_eq!(names, ["before", "after"]);
    assert!(rows[0]["bytes"].as_u64() > Some(0), "{rows:?}");
    fails(&["snapshot", "create", &mnt, "after"], 1, &["there is a snapshot"]);
    fails(&["snapshot", "create", &mnt, ""], 2, &["1 to 64 letters"]);
    fails(&["snapshot", "delete", &disk, "after"], 1, &["in use by esker (pid"]);
    succeeds(&["umount", &mnt]);
    succeeds(&["check", &disk]);
    assert_eq!(succeeds(&["cat", &format!("{disk}@before:/f")]), "as it was");
    assert_eq!(succeeds(&["cat", &format!("{disk}@after:/f")]), "as it is");
    let (before, after) = (format!("{disk}@before"), format!("{disk}@after"));
    fails(&["diff", &before, &after], 7, &["c /f", "- /large"]);
    fails(&["diff", &before, &disk], 7, &["c /f", "- /large"]);
    succeeds(&["diff", &after, &disk]);
    let packed = lab.path("packed.esker");
    succeeds(&["pack", &format!("{disk}@before"), "-o", &packed]);
    assert_eq!(succeeds(&["cat", &format!("{packed}:/f")]), "as it was");
    succeeds(&["mount", &format!("{disk}@before"), &then]);
    assert_eq!(fs::read(format!("{then}/large")).expect("read"), vec![7; 3_000_000]);
    assert!(fs::write(format!("{then}/f"), "no").is_err(), "a snapshot is only read");
    succeeds(&["umount", &then]);
    succeeds(&["snapshot", "mount", &disk, "after", &then]);
    assert!(fs::metadata(format!("{then}/large")).is_err());
    succeeds(&["umount", &then]);
    succeeds(&["mount", &disk, &mnt]);
    assert!(succeeds(&["snapshot", "delete", &mnt, "before"]).contains("deleted"));
    assert_eq!(listed(&mnt).len(), 1);
    succeeds(&["umount", &mnt]);
    succeeds(&["check", &disk]);
}

/// What is no mount of a volume is told so, and who is neither root nor serves the mount is refused.
#[test]
fn only_those_are_answered_who_may_ask() {
    if !can_mount() || !can_switch_user() {
        return;
    }
    let lab = lab();
    let (disk, mnt, then) = (lab.path("disk.vol"), lab.path("mnt"), lab.path("then"));
    succeeds(&["mount", "mem:", &then]);
    fails(&["snapshot", "create", &then, "x"], 2, &["not a volume"]);
    succeeds(&["umount", &then]);
    succeeds(&["mount", &disk, &mnt, "-o", "allow_other"]);
    let other = Command::new("setpriv")
        .args(["--reuid=65534", "--clear-groups", ESKER, "snapshot", "list", &mnt])
        .output();
    if let Ok(output) = other {
        assert_eq!(output.status.code(), Some(1), "{}", told(&output));
        assert!(told(&output).contains("only root"), "{}", told(&output));
    }
    succeeds(&["umount", &mnt]);
}
