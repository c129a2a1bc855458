//! Snapshots sent and received by command: into a volume, a directory and an image, whole and as a difference, through
//! a pipe and from a file, cut short and gone on with, and refused by name.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::lab::{Lab, fails, succeeds};
use crate::common::sent::{same, seen, send_both, shown, source};
use crate::common::{ESKER, can_mount};

#[test]
fn everything_comes_along_into_every_target() {
    if !can_mount() {
        return;
    }
    let (lab, disk) = source();
    let (whole, since) = send_both(&lab, &disk);
    let (one, two) = (shown(&lab, &format!("{disk}@one")), shown(&lab, &format!("{disk}@two")));
    assert!(succeeds(&["receive", "--verify", &since]).contains("since one"));

    let other = lab.path("other.vol");
    succeeds(&["mkfs", &other, "--size", "256M"]);
    fails(&["receive", &other, &since], 1, &["what changed since the snapshot one", "--base"]);
    assert!(succeeds(&["receive", &other, &whole]).contains("received: the snapshot one"));
    assert!(succeeds(&["receive", &other, &whole]).contains("was there already"));
    same(&one, &shown(&lab, &format!("{other}@one")));
    succeeds(&["receive", &other, &since]);
    same(&two, &shown(&lab, &other));
    same(&two, &shown(&lab, &format!("{other}@two")));
    succeeds(&["check", &other]);

    let dir = lab.path("dir");
    let words = ["-t", "tmpfs", "-o", "size=64m", "tmpfs", &dir];
    assert!(Command::new("mount").args(words).status().expect("it runs").success());
    succeeds(&["receive", &dir, &whole]);
    same(&one, &seen(Path::new(&dir)));
    succeeds(&["receive", &dir, &since]);
    same(&two, &seen(Path::new(&dir)));

    let (old, new) = (lab.path("old.esker"), lab.path("new.esker"));
    succeeds(&["receive", &old, &whole]);
    same(&one, &shown(&lab, &old));
    fails(&["receive", &old, &whole], 2, &["there is an image already"]);
    fails(&["receive", &new, &since], 1, &["what changed since the snapshot one", "--base"]);
    succeeds(&["receive", &new, &since, "--base", &old]);
    same(&two, &shown(&lab, &new));
    assert!(!Path::new(&format!("{new}.part")).exists());
}

#[test]
fn a_stream_that_is_cut_short_goes_on() {
    if !can_mount() {
        return;
    }
    let (lab, disk) = source();
    let (whole, since) = send_both(&lab, &disk);
    let two = shown(&lab, &format!("{disk}@two"));
    let bytes = fs::read(&whole).expect("read");
    let other = lab.path("other.vol");
    succeeds(&["mkfs", &other, "--size", "256M"]);
    let none = succeeds(&["receive", &other, "--have"]);
    assert!(none.starts_with("0:0000"), "{none}");
    let part = lab.path("part.stream");
    for cut in [79, 80, 400, bytes.len() / 3, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&part, &bytes[..cut]).expect("written");
        fails(&["receive", &other, &part], 4, &["cut short", "--from"]);
        fails(&["receive", "--verify", &part], 4, &["cut short"]);
    }
    fails(&["receive", &other, &since], 1, &["it holds a part of the snapshot one"]);
    let token = succeeds(&["receive", &other, "--have"]);
    let line = format!("{ESKER} send {disk}@one --from {} | {ESKER} receive {other}", token.trim());
    assert!(Command::new("sh").args(["-c", &line]).status().expect("it runs").success());
    let line = format!("{ESKER} send {disk}@two --since one | {ESKER} receive {other}");
    assert!(Command::new("sh").args(["-c", &line]).status().expect("it runs").success());
    same(&two, &shown(&lab, &other));
    let out = lab.path("x.stream");
    fails(
        &["send", &format!("{disk}@two"), "--from", token.trim(), "-o", &out],
        1,
        &["another stream"],
    );
    fails(&["send", &format!("{disk}@two"), "--from", "x", "-o", &out], 2, &["--have"]);
    assert!(!Path::new(&out).exists());
}

#[test]
fn what_does_not_fit_is_refused_by_name() {
    let lab = Lab::new(&["dir", "full"]);
    let (disk, other) = (lab.path("disk.vol"), lab.path("other.vol"));
    let stream = lab.path("one.stream");
    succeeds(&["mkfs", &disk, "--size", "64M", "--from", &lab.path("full")]);
    fs::write(lab.path("full/mine"), "mine").expect("written");
    fails(&["send", &disk, "-o", &stream], 2, &["VOLUME@NAME"]);
    fails(&["send", &format!("{disk}@one"), "-o", &stream], 1, &["no snapshot", "one"]);
    succeeds(&["snapshot", "create", &disk, "one"]);
    fails(
        &["send", &format!("{disk}@one"), "--since", "zero", "-o", &stream],
        1,
        &["no snapshot", "zero"],
    );
    succeeds(&["send", &format!("{disk}@one"), "-o", &stream]);
    fails(&["send", &format!("{disk}@one"), "-o", &stream], 2, &["exists already"]);
    fails(&["receive", &lab.path("nothing"), &stream], 2, &["no such target"]);
    fails(&["receive", &stream, &stream], 2, &["neither a directory nor a volume"]);
    fails(&["receive", &lab.path("full"), &stream], 1, &["there is something already", "empty"]);
    assert_eq!(fs::read_dir(lab.path("full")).expect("read").count(), 1);
    fails(&["receive", &lab.path("dir"), &disk], 4, &["no stream"]);
    fails(&["receive", &lab.path("dir"), &lab.path("no")], 4, &["cannot read the stream"]);
    let mut bytes = fs::read(&stream).expect("read");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let damaged = lab.path("damaged.stream");
    fs::write(&damaged, &bytes).expect("written");
    fails(&["receive", &lab.path("dir"), &damaged], 6, &["damaged in frame"]);
    fails(&["receive", "--verify", &damaged], 6, &["damaged in frame"]);
    succeeds(&["receive", &lab.path("dir"), &stream]);
    succeeds(&["mkfs", &other, "--size", "64M"]);
    succeeds(&["snapshot", "create", &other, "one"]);
    fails(&["receive", &other, &stream], 1, &["there is a snapshot called one", "delete it"]);
    succeeds(&["snapshot", "delete", &other, "one"]);
    succeeds(&["receive", &other, &stream]);
    fails(&["receive", &other, &stream, "--base", &disk], 2, &["--base is for images"]);
}

/// Whoever changed what was received is not overwritten.
#[test]
fn a_volume_that_was_changed_since_is_left_alone() {
    if !can_mount() {
        return;
    }
    let (lab, disk) = source();
    let (whole, since) = send_both(&lab, &disk);
    let (other, mnt) = (lab.path("other.vol"), lab.path("mnt"));
    succeeds(&["mkfs", &other, "--size", "256M"]);
    succeeds(&["receive", &other, &whole]);
    succeeds(&["mount", &other, &mnt]);
    fails(&["receive", &other, &since], 1, &["in use by esker"]);
    fs::write(format!("{mnt}/mine"), "mine").expect("written");
    succeeds(&["umount", &mnt]);
    fails(&["receive", &other, &since], 1, &["changed since it was received", "rollback"]);
    assert_eq!(succeeds(&["cat", &format!("{other}:/mine")]), "mine");
    succeeds(&["snapshot", "rollback", &other, "one"]);
    let copy = lab.path("copy.vol");
    succeeds(&["mkfs", &copy, "--size", "256M", "--from", &other]);
    fails(&["receive", &copy, &since], 1, &["a copy of what received the snapshot one"]);
    succeeds(&["snapshot", "delete", &other, "one"]);
    succeeds(&["mount", &other, &mnt]);
    fs::write(format!("{mnt}/mine"), "mine").expect("written");
    succeeds(&["umount", &mnt]);
    for stream in [&whole, &since] {
        fails(&["receive", &other, stream], 1, &["nothing shows any more", "snapshot one"]);
    }
}
