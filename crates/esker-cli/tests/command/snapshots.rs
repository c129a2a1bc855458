//! Snapshots by command: of volumes that are mounted and of such that are not, looked at, deleted, refused by name.

use std::fs;
use std::process::Command;

use crate::common::lab::{Lab, fails, succeeds, told};
use crate::common::{ESKER, can_mount, can_switch_user};
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

fn exists(path: &str) -> bool {
    fs::symlink_metadata(path).is_ok()
}

#[test]
fn a_volume_goes_back_to_a_snapshot() {
    if !can_mount() {
        return;
    }
    let lab = lab();
    let (disk, mnt) = (lab.path("disk.vol"), lab.path("mnt"));
    succeeds(&["mount", &disk, &mnt]);
    fs::write(format!("{mnt}/f"), "as it was").expect("written");
    fs::write(format!("{mnt}/old"), vec![7; 100_000]).expect("written");
    succeeds(&["snapshot", "create", &mnt, "before"]);
    fs::write(format!("{mnt}/f"), "as it is").expect("written");
    fs::write(format!("{mnt}/new"), vec![8; 50_000]).expect("written");
    fs::rename(format!("{mnt}/old"), format!("{mnt}/moved")).expect("renamed");
    fails(&["snapshot", "rollback", &mnt, "never"], 1, &["no snapshot", "snapshot list"]);
    fails(&["snapshot", "rollback", &disk, "before"], 1, &["in use by", "is mounted on", "mnt"]);
    let told = ["+ /new", "c /f", "r /old -> /moved", "only in before", "before gives back"];
    // What the kernel still has belongs to it.
    fails(&["snapshot", "diff", &mnt, "before"], 7, &told);
    fails(&["snapshot", "diff", &mnt, "before", "never"], 1, &["no snapshot", "never"]);
    succeeds(&["umount", &mnt]);
    fails(&["snapshot", "diff", &disk, "before"], 7, &told);
    let freed = format!("\"freed\":{}", listed(&disk)[0]["bytes"]);
    let lines =
        ["\"from\":\"/old\"", "\"change\":\"renamed\"", "\"changes\":3", "\"after\":", &freed];
    fails(&["snapshot", "diff", &disk, "before", "--json"], 7, &lines);
    fails(&["snapshot", "diff", &disk, "never"], 1, &["no snapshot", "never"]);
    fails(&["snapshot", "rollback", &disk, "never"], 1, &["no snapshot", "snapshot list"]);
    let back = succeeds(&["snapshot", "rollback", &disk, "before", "--keep", "after"]);
    assert!(back.contains("as it was in the snapshot before"), "{back}");
    succeeds(&["check", &disk]);
    let same = succeeds(&["snapshot", "diff", &disk, "before"]);
    assert!(same.contains("nothing changed since before"), "{same}");
    fails(&["snapshot", "diff", &disk, "before", "after"], 7, &told);
    succeeds(&["mount", &disk, &mnt]);
    assert_eq!(fs::read_to_string(format!("{mnt}/f")).expect("read"), "as it was");
    assert_eq!(fs::read(format!("{mnt}/old")).expect("read"), vec![7; 100_000]);
    assert!(!exists(&format!("{mnt}/new")) && !exists(&format!("{mnt}/moved")));
    fs::write(format!("{mnt}/more"), "goes on").expect("written");
    succeeds(&["umount", &mnt]);
    let back = succeeds(&["snapshot", "rollback", &disk, "after", "--json"]);
    assert!(back.contains("\"now\":\"after\""), "{back}");
    assert_eq!(succeeds(&["cat", &format!("{disk}:/f")]), "as it is");
    assert_eq!(listed(&disk).len(), 2);
    succeeds(&["check", &disk]);
}

fn ruled(target: &str, more: &[&str]) -> Value {
    let words = [&["snapshot", "rules", target, "--json"][..], more].concat();
    serde_json::from_str(&succeeds(&words)).expect("a line of JSON")
}

#[test]
fn a_volume_has_rules_for_snapshots() {
    let lab = lab();
    let disk = lab.path("disk.vol");
    assert!(succeeds(&["snapshot", "rules", &disk]).contains("no rules"));
    let (add, remove) = ("--add", "--remove");
    ruled(&disk, &[add, "every hour keep 24", add, "every day keep 7 for 30d", "--largest", "40"]);
    let rules =
        |words: &[&'static str]| [&["snapshot", "rules", disk.as_str()][..], words].concat();
    let text = ["`every hour keep 24`", "remove it first"];
    fails(&rules(&[add, "every hour keep 3"]), 2, &text);
    fails(&rules(&[add, "every second keep 3"]), 2, &["a rule is `every hour keep"]);
    fails(
        &rules(&[add, "every week keep 4 for 1d"]),
        2,
        &["every week keep 4 for 1d", "go before"],
    );
    fails(&rules(&[add, "every week keep 20"]), 2, &["keep 51", "may be 40"]);
    fails(&rules(&[remove, "every week"]), 2, &["no rule `every week`"]);
    let left = ruled(&disk, &[remove, "every day keep 7"]);
    assert_eq!(left["rules"].as_array().map(Vec::len), Some(1), "{left}");
    assert_eq!(left["rules"][0]["rule"], "every hour keep 24");
    assert_eq!(left["largest"], 40);
    if !can_mount() {
        return;
    }
    let mnt = lab.path("mnt");
    succeeds(&["mount", &disk, &mnt]);
    fs::write(format!("{mnt}/f"), "something").expect("written");
    let mut rows = listed(&mnt);
    for _ in 0..1000 {
        if rows.is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(10));
            rows = listed(&mnt);
        }
    }
    assert_eq!(rows[0]["rule"], "every hour");
    let name = rows[0]["name"].as_str().expect("a name").to_owned();
    assert!(name.starts_with("hourly-") && name.ends_with('Z'), "{name}");
    assert_eq!(ruled(&mnt, &[])["rules"][0]["snapshots"], 1);
    ruled(&mnt, &[remove, "every hour", "--largest", "0"]);
    succeeds(&["umount", &mnt]);
    assert!(succeeds(&["snapshot", "rules", &disk]).contains("no rules"));
    assert_eq!(listed(&disk).len(), 1, "what was made stays");
    succeeds(&["snapshot", "delete", &disk, &name]);
    succeeds(&["check", &disk]);
}

/// Nothing is waited for, and what cannot be asked is told why.
#[test]
fn what_cannot_be_asked_is_told_why() {
    let lab = lab();
    let (disk, pipe) = (lab.path("disk.vol"), lab.path("pipe"));
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.is_ok_and(|status| status.success()));
    for words in [["list", ""], ["create", "x"], ["delete", "x"]] {
        let name = Some(words[1]).filter(|name| !name.is_empty());
        let all: Vec<_> = ["snapshot", words[0], &pipe].into_iter().chain(name).collect();
        fails(&all, 2, &["not a volume"]);
    }
    fails(&["snapshot", "create", &disk, ""], 2, &["an empty one"]);
    fails(&["snapshot", "list", &lab.path("missing")], 1, &["missing"]);
    if !can_mount() {
        return;
    }
    let mnt = lab.path("mnt");
    succeeds(&["mount", &disk, &mnt, "-o", "ro"]);
    fails(&["snapshot", "list", &mnt], 1, &["mounted to be read only", "ask the volume itself"]);
    succeeds(&["snapshot", "list", &disk]);
    succeeds(&["umount", &mnt]);
    succeeds(&["mount", &disk, &mnt]);
    fails(&["snapshot", "list", &disk], 1, &["in use by", "is mounted on", "mnt"]);
    let (of_mount, out) = (format!("{mnt}@x"), lab.path("out"));
    let alone: [&[&str]; 3] =
        [&["send", &of_mount], &["freeze", &mnt, "-o", &out], &["dump", &mnt]];
    for words in alone {
        fails(words, 2, &["a mount, where the volume itself is wanted", "unmount it", "disk.vol"]);
    }
    succeeds(&["umount", &mnt]);
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

/// The server of a mount shows one of its snapshots elsewhere, while it is written; both can go first.
#[test]
fn a_mounted_volume_shows_a_snapshot_elsewhere() {
    if !can_mount() {
        return;
    }
    let lab = lab();
    let (disk, mnt, then) = (lab.path("disk.vol"), lab.path("mnt"), lab.path("then"));
    succeeds(&["mount", &disk, &mnt]);
    fs::write(format!("{mnt}/f"), "as it was").expect("written");
    fs::create_dir(format!("{mnt}/dir")).expect("made");
    succeeds(&["snapshot", "create", &mnt, "before"]);
    fs::write(format!("{mnt}/f"), "as it is").expect("written");
    fails(&["snapshot", "mount", &mnt, "never", &then], 1, &["no snapshot", "snapshot list"]);
    fails(&["snapshot", "mount", &mnt, "before", &mnt], 3, &["mounted here already"]);
    let inside = format!("{mnt}/dir");
    fails(&["snapshot", "mount", &mnt, "before", &inside], 3, &["very mount", "elsewhere"]);
    let told = succeeds(&["snapshot", "mount", &mnt, "before", &then]);
    assert!(told.contains("the snapshot") && told.contains("disk.vol@before"), "{told}");
    assert_eq!(fs::read_to_string(format!("{then}/f")).expect("read"), "as it was");
    let written = fs::write(format!("{then}/f"), "x").expect_err("it is read-only");
    assert_eq!(written.raw_os_error(), Some(30));
    fs::write(format!("{mnt}/f"), "as it will be").expect("written");
    succeeds(&["umount", &then]);
    assert!(!exists(&format!("{then}/f")));
    succeeds(&["snapshot", "mount", &mnt, "before", &then, "--json"]);
    assert_eq!(fs::read_to_string(format!("{then}/f")).expect("read"), "as it was");
    fails(&["mount", &format!("{disk}@before"), &mnt], 3, &["mnt"]);
    // With the volume goes what its server shows besides.
    succeeds(&["umount", &mnt]);
    assert!(!exists(&format!("{then}/f")));
    succeeds(&["check", &disk]);
    assert_eq!(succeeds(&["cat", &format!("{disk}:/f")]), "as it will be");
}
