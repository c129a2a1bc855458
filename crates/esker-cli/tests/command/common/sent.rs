//! A volume with two snapshots, what was sent of it, and what came.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;

use super::lab::{Lab, succeeds};
use super::picture::picture;
use super::rich::rich_tree;
use super::text;

/// Everything in a tree but what a receiver keeps there.
pub fn seen(root: &Path) -> BTreeMap<String, String> {
    let mut seen = picture(root);
    seen.retain(|path, _| !path.starts_with(".esker-received"));
    seen
}

/// Everything in a volume, a snapshot or an image.
pub fn shown(lab: &Lab, what: &str) -> BTreeMap<String, String> {
    let mnt = lab.path("look");
    succeeds(&["mount", what, &mnt, "-o", "ro"]);
    let seen = seen(Path::new(&mnt));
    succeeds(&["umount", &mnt]);
    seen
}

#[track_caller]
pub fn same(one: &BTreeMap<String, String>, other: &BTreeMap<String, String>) {
    for (path, told) in one {
        assert_eq!(Some(told), other.get(path), "{path}");
    }
    assert_eq!(one.len(), other.len());
}

/// A volume with the snapshots `one` and `two`, whatever may change between them.
pub fn source() -> (Lab, String) {
    let lab = Lab::new(&["mnt", "look", "dir"]);
    let disk = lab.path("disk.vol");
    let tree = rich_tree(&lab.0);
    succeeds(&["mkfs", &disk, "--size", "256M", "--from", text(&tree)]);
    succeeds(&["snapshot", "create", &disk, "one"]);
    let mnt = lab.path("mnt");
    succeeds(&["mount", &disk, &mnt]);
    let at = |name: &str| format!("{mnt}/{name}");
    fs::rename(at("a/deep"), at("moved")).expect("renamed");
    fs::rename(at("a"), at("t")).expect("renamed");
    fs::rename(at("inherits"), at("a")).expect("renamed");
    fs::rename(at("t"), at("inherits")).expect("renamed");
    fs::rename(at("pipe"), at("moved/pipe")).expect("renamed");
    fs::remove_dir(at("empty")).expect("removed");
    fs::remove_file(at("dangling")).expect("removed");
    fs::write(at("dangling"), "a file now").expect("written");
    fs::create_dir(at("a/new")).expect("made");
    fs::write(at("a/new/file"), vec![9; 200_000]).expect("written");
    fs::set_permissions(at("nothing"), fs::Permissions::from_mode(0o444)).expect("set");
    fs::hard_link(at("nothing"), at("a/new/nothing-too")).expect("linked");
    let big = fs::OpenOptions::new().write(true).open(at("inherits/big")).expect("opened");
    std::os::unix::fs::FileExt::write_all_at(&big, b"changed", 1 << 20).expect("written");
    let holes = fs::OpenOptions::new().write(true).open(at("holes")).expect("opened");
    holes.set_len(3 << 40).expect("cut");
    drop((big, holes));
    succeeds(&["umount", &mnt]);
    succeeds(&["snapshot", "create", &disk, "two"]);
    (lab, disk)
}

pub fn send_both(lab: &Lab, disk: &str) -> (String, String) {
    let (whole, since) = (lab.path("whole.stream"), lab.path("since.stream"));
    let (one, two) = (format!("{disk}@one"), format!("{disk}@two"));
    assert!(succeeds(&["send", &one, "-o", &whole]).contains("sent one in"));
    let line = succeeds(&["send", &two, "--since", "one", "-o", &since, "--json"]);
    let answer: Value = serde_json::from_str(&line).expect("a line of JSON");
    assert_eq!((&answer["snapshot"], &answer["since"]), (&"two".into(), &"one".into()));
    let len = |path: &str| fs::metadata(path).expect("there").len();
    assert!(len(&since) < 64 << 10, "what was only renamed was sent again: {}", len(&since));
    (whole, since)
}
