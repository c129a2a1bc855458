//! Volumes over a base image by command: made, changed, mounted again, frozen, recovered, moved, and refused by name.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use crate::common::lab::{Lab, fails, succeeds};
use crate::common::picture::picture;
use crate::common::rich::rich_tree;
use crate::common::{can_mount, noise, text};
use serde_json::Value;

/// Everything in a volume, a snapshot or an image.
fn shown(lab: &Lab, what: &str) -> BTreeMap<String, String> {
    let mnt = lab.path("look");
    succeeds(&["mount", what, &mnt, "-o", "ro"]);
    let seen = picture(Path::new(&mnt));
    succeeds(&["umount", &mnt]);
    seen
}

const LEN: usize = 8 << 20;

/// An image with all sorts of things and a large file, and a volume over it.
fn over() -> (Lab, String, String) {
    let lab = Lab::new(&["mnt", "look", "far"]);
    let tree = rich_tree(&lab.0);
    fs::write(tree.join("large"), noise(9, LEN)).expect("written");
    let (image, disk) = (lab.path("tree.esker"), lab.path("disk.vol"));
    succeeds(&["pack", text(&tree), "-o", &image, "--level", "2"]);
    succeeds(&["mkfs", &disk, "--size", "256M", "--base", &image]);
    (lab, image, disk)
}

fn used(disk: &str) -> u64 {
    let all: Value = serde_json::from_str(&succeeds(&["info", disk, "--json"])).expect("JSON");
    all["used"].as_u64().expect("a number")
}

#[test]
fn an_image_becomes_a_volume_and_an_image_again() {
    if !can_mount() {
        return;
    }
    let (lab, image, disk) = over();
    let blocks = fs::metadata(&disk).expect("there").blocks() * 512;
    assert!(blocks < 2 << 20, "the base was copied: {blocks}");
    assert_eq!(shown(&lab, &disk), shown(&lab, &image));
    succeeds(&["check", &disk]);
    succeeds(&["snapshot", "create", &disk, "begin"]);

    let mnt = lab.path("mnt");
    let at = |name: &str| format!("{mnt}/{name}");
    succeeds(&["mount", &disk, &mnt]);
    let file = fs::OpenOptions::new().write(true).open(at("large")).expect("opened");
    file.write_all_at(b"in the middle of a piece", 5 << 20).expect("written");
    file.set_len(7 << 20).expect("cut");
    drop(file);
    fs::hard_link(at("large"), at("another")).expect("linked");
    fs::rename(at("a"), at("moved")).expect("renamed");
    fs::remove_dir_all(at("inherits")).expect("removed");
    fs::write(at("new"), "only here").expect("written");
    let changed = picture(Path::new(&mnt));
    succeeds(&["umount", &mnt]);

    assert_eq!(shown(&lab, &disk), changed);
    succeeds(&["check", &disk]);
    assert!(used(&disk) < 1 << 20, "more than what changed is stored");
    let mut wanted = noise(9, 7 << 20);
    wanted[5 << 20..][..24].copy_from_slice(b"in the middle of a piece");
    let read = crate::common::esker(["cat", &format!("{disk}:/large")]);
    assert!(read.stdout == wanted, "other bytes");

    let (all, own) = (lab.path("all.esker"), lab.path("own.esker"));
    succeeds(&["freeze", &disk, "-o", &all, "--level", "2"]);
    succeeds(&["freeze", &disk, "-o", &own, "--on-top", "--level", "2"]);
    assert_eq!(shown(&lab, &all), changed);
    assert_eq!(shown(&lab, &own), changed);
    assert!(fs::metadata(&own).expect("there").len() < 2 << 20, "the base is in it");
    let begin = lab.path("begin.esker");
    succeeds(&["freeze", &format!("{disk}@begin"), "-o", &begin, "--level", "2"]);
    assert_eq!(shown(&lab, &begin), shown(&lab, &image));

    succeeds(&["snapshot", "rollback", &disk, "begin"]);
    succeeds(&["check", &disk]);
    assert_eq!(shown(&lab, &disk), shown(&lab, &image));
}

#[test]
fn a_stream_carries_what_lies_in_the_base() {
    if !can_mount() {
        return;
    }
    let (lab, image, disk) = over();
    succeeds(&["snapshot", "create", &disk, "one"]);
    let (stream, other) = (lab.path("one.stream"), lab.path("other.vol"));
    succeeds(&["send", &format!("{disk}@one"), "-o", &stream]);
    succeeds(&["mkfs", &other, "--size", "256M"]);
    succeeds(&["receive", &other, &stream]);
    fs::remove_file(&image).expect("not needed any more");
    let read = crate::common::esker(["cat", &format!("{other}:/large")]);
    assert!(read.stdout == noise(9, LEN), "other bytes");
}

#[test]
fn a_base_that_is_not_there_or_another_is_named() {
    let (lab, image, disk) = over();
    let before = fs::read(&disk).expect("read");
    let moved = lab.path("far/elsewhere");
    fs::rename(&image, &moved).expect("moved");
    let way_out = ["tree.esker is missing", "--base", "esker tune"];
    fails(&["ls", &disk], 4, &way_out);
    fails(&["check", &disk], 4, &way_out);
    fails(&["mount", &disk, &lab.path("mnt"), "-f"], 4, &way_out);
    succeeds(&["ls", &disk, "--base", &moved]);
    succeeds(&["check", &disk, "--full", "--base", &moved]);

    let small = lab.0.dir("small");
    fs::write(small.join("file"), "another").expect("written");
    succeeds(&["pack", text(&small), "-o", &image]);
    fails(&["ls", &disk], 4, &["tree.esker is another one"]);
    fails(&["ls", &disk, "--base", &image], 4, &["another one"]);
    assert!(fs::read(&disk).expect("read") == before, "the volume was written");

    let (out, again) = (lab.path("out"), lab.path("again"));
    fails(&["recover", &disk, "-o", &out], 6, &["is another one", "large"]);
    fails(&["recover", &disk, "-o", &again, "--base", &moved], 5, &["--specials"]);
    assert!(fs::read(lab.path("again/large")).expect("read") == noise(9, LEN), "other bytes");

    succeeds(&["tune", &disk, "--base", &moved]);
    let told: Value = serde_json::from_str(&succeeds(&["info", &disk, "--json"])).expect("JSON");
    assert!(told["base"]["file"].as_str().is_some_and(|file| file.ends_with("far/elsewhere")));
    assert_eq!(told["incompatible"], serde_json::json!(["base", "deltas", "pieces", "names"]));
    fs::rename(&moved, lab.path("far.esker")).expect("moved");
    succeeds(&["ls", &disk]);
}

#[test]
fn damage_in_the_base_is_told_when_it_is_read() {
    let (_lab, image, disk) = over();
    let file = fs::OpenOptions::new().write(true).open(&image).expect("opened");
    let middle = fs::metadata(&image).expect("there").len() / 2;
    file.write_all_at(&[0x55; 64], middle).expect("damaged");
    succeeds(&["check", &disk]);
    fails(&["check", &disk, "--full"], 6, &["the base image", "tree.esker", "large"]);
    fails(&["scrub", &disk, "--dry-run"], 6, &["the base image", "tree.esker", "large"]);
    fails(&["scrub", &disk], 6, &["the base image", "tree.esker", "large"]);
    fails(&["cat", &format!("{disk}:/large")], 6, &[]);
}

/// Every verb that opens a volume is told where the base is, and says by name that it is not there.
#[test]
fn every_verb_takes_a_base() {
    let (lab, image, disk) = over();
    succeeds(&["snapshot", "create", &disk, "one"]);
    let (moved, other) = (lab.path("far/elsewhere"), lab.path("far/other"));
    fs::rename(&image, &moved).expect("moved");
    let small = lab.0.dir("small");
    fs::write(small.join("file"), "another").expect("written");
    succeeds(&["pack", text(&small), "-o", &other]);
    let (at, out) = (format!("{disk}@one"), lab.path("out"));
    let verbs: [(&[&str], &str); 16] = [
        (&["scrub", &disk], "--base"),
        (&["snapshot", "list", &disk], "--base"),
        (&["snapshot", "create", &disk, "two"], "--base"),
        (&["snapshot", "diff", &disk, "one", "two"], "--base"),
        (&["snapshot", "rollback", &disk, "one"], "--base"),
        (&["snapshot", "delete", &disk, "two"], "--base"),
        (&["snapshot", "rules", &disk], "--base"),
        (&["send", &at, "-o", &out], "--base"),
        (&["freeze", &disk, "-o", &out, "--level", "1", "--force"], "--volume-base"),
        (&["freeze", &at, "-o", &out, "--level", "1", "--force"], "--volume-base"),
        (&["stats", &disk], "--base"),
        (&["info", &disk], "--base"),
        (&["dump", &disk, "tables"], "--base"),
        (&["label", &disk, "name"], "--base"),
        (&["resize", &disk, "--size", "300M"], "--base"),
        (&["upgrade", &disk, "--meta-copies", "2"], "--base"),
    ];
    for (words, option) in verbs {
        // What is made of the volume has the base in it, or is not sound without it.
        let with = |base: &str| [words, &[option, base][..]].concat().join("\n");
        let with = |base: &str| with(base).split('\n').map(str::to_owned).collect::<Vec<_>>();
        let run = |base: &str, status, parts: &[&str]| {
            let words = with(base);
            fails(&words.iter().map(String::as_str).collect::<Vec<_>>(), status, parts);
        };
        let before = fs::read(&disk).expect("read");
        fails(words, 4, &["tree.esker is missing", "--base"]);
        run(&other, 4, &["tree.esker is missing"]);
        assert!(fs::read(&disk).expect("read") == before, "{words:?} wrote");
        // From then on it would know where the base is.
        run(&moved, 0, &[]);
        fs::write(&disk, before).expect("as it was");
        let _ = fs::remove_file(&out);
        if words[1] == "create" {
            run(&moved, 0, &[]);
            fs::rename(&moved, &image).expect("moved");
            succeeds(&["tune", &disk, "--base", &image]);
            fs::rename(&image, &moved).expect("moved");
        }
    }
}

#[test]
fn what_cannot_be_a_base_is_refused() {
    let (lab, image, disk) = over();
    let new = lab.path("new.vol");
    let mkfs = |base: &str| ["mkfs", &new, "--size", "64M", "--base", base].map(str::to_owned);
    let refuses = |base: &str, status, parts: &[&str]| {
        let words = mkfs(base);
        fails(&words.iter().map(String::as_str).collect::<Vec<_>>(), status, parts);
        assert!(!Path::new(&new).exists(), "it is left behind");
    };
    refuses(&disk, 4, &["a volume, not an image", "esker freeze"]);
    refuses(&lab.path("nothing"), 4, &["nothing"]);
    refuses(&new, 4, &[]);
    fails(&["mkfs", &new, "--size", "64M", "--base", &image, "--from", &image], 2, &["--from"]);
    fails(
        &["mkfs", &new, "--size", "64M", "--segment", "4M", "--base", &image],
        0,
        &["tree.esker"],
    );
    fails(&["freeze", &image, "-o", &lab.path("x.esker")], 4, &["not a volume"]);
    let plain = lab.path("plain.vol");
    succeeds(&["mkfs", &plain, "--size", "64M"]);
    fails(&["freeze", &plain, "-o", &lab.path("x.esker"), "--on-top"], 2, &["lies on nothing"]);
    fails(&["tune", &plain, "--base", &image], 2, &["lies on no image"]);
}
