//! Receivers that are killed, or find no room, or each other: what comes in the end is what was sent, or nothing.
//!
//! `ESKER_CASES` says how many kills of each kind (8).

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::lab::{fails, run, succeeds, tmpfs, told};
use crate::common::sent::{same, seen, send_both, shown, source};
use crate::common::{ESKER, can_mount, within_seconds};

fn cases() -> u32 {
    std::env::var("ESKER_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(8)
}

/// Starts it, with all it starts itself in a group of its own.
fn started(words: &[&str]) -> Child {
    let mut command = Command::new(ESKER);
    command.args(words).process_group(0).stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it starts")
}

/// Kills a receiver at several moments of its life, alone or with what it started; how many were killed before the end.
fn killed(words: &[&str], took: Duration, again: &mut dyn FnMut(u32)) -> u32 {
    let mut hit = 0;
    for case in 0..cases() {
        let mut child = started(words);
        std::thread::sleep(took * case / cases());
        let pid = rustix::process::Pid::from_child(&child);
        if case % 3 == 2 {
            child.kill().expect("killed");
        } else {
            let signal = rustix::process::Signal::KILL;
            rustix::process::kill_process_group(pid, signal).expect("killed");
        }
        hit += u32::from(!child.wait().expect("it ends").success());
        again(case);
    }
    hit
}

#[test]
fn killed_while_it_makes_an_image() {
    if !can_mount() {
        return;
    }
    let (lab, disk) = source();
    let (whole, since) = send_both(&lab, &disk);
    let (two, old, new) =
        (shown(&lab, &format!("{disk}@two")), lab.path("old.esker"), lab.path("new.esker"));
    succeeds(&["receive", &old, &whole]);
    let words = ["receive", &new, &since, "--base", &old];
    let began = Instant::now();
    succeeds(&words);
    let took = began.elapsed();
    fs::remove_file(&new).expect("removed");
    let hit = killed(&words, took, &mut |case| {
        // What was started by one that was killed alone may be at work for a while.
        let done = within_seconds(|| {
            if Path::new(&new).exists() {
                return true;
            }
            let output = run(&words);
            let text = told(&output);
            let waits = ["at work here", "an image already"].iter().any(|why| text.contains(why));
            assert!(output.status.success() || waits, "{case}: {text}");
            output.status.success()
        });
        assert!(done, "it never ends");
        same(&two, &shown(&lab, &new));
        fs::remove_file(&new).expect("removed");
        let _ = fs::remove_file(format!("{new}.part"));
    });
    assert!(hit > 0, "none was killed before its end");
}

#[test]
fn killed_while_it_fills_a_directory() {
    if !can_mount() {
        return;
    }
    let (lab, disk) = source();
    let (whole, since) = send_both(&lab, &disk);
    let (one, two) = (shown(&lab, &format!("{disk}@one")), shown(&lab, &format!("{disk}@two")));
    let bytes = fs::read(&since).expect("read");
    for case in 0..cases() as usize {
        let dir = tmpfs(&lab, "dir", "64m");
        succeeds(&["receive", &dir, &whole]);
        same(&one, &seen(Path::new(&dir)));
        // It has so much of the difference, and waits for more.
        let mut child = started(&["receive", &dir]);
        let part = &bytes[..bytes.len() * case / cases() as usize];
        let stdin = child.stdin.as_mut().expect("a pipe");
        stdin.write_all(part).expect("written");
        let path = format!("{dir}/.esker-received/state");
        let before = fs::read(&path).expect("read");
        if part.len() > 1000 {
            // So it has begun.
            assert!(within_seconds(|| fs::read(&path).is_ok_and(|now| now != before)));
        }
        child.kill().expect("killed");
        child.wait().expect("it ends");
        succeeds(&["receive", &dir, &since]);
        same(&two, &seen(Path::new(&dir)));
        assert!(Command::new("umount").arg(&dir).status().expect("it runs").success());
    }
}

/// A directory in which two names are changed with each other must not be changed by two.
#[test]
fn two_at_once_are_one() {
    if !can_mount() {
        return;
    }
    let (lab, disk) = source();
    let (whole, since) = send_both(&lab, &disk);
    let (two, bytes) = (shown(&lab, &format!("{disk}@two")), fs::read(&since).expect("read"));
    let (dir, old) = (tmpfs(&lab, "dir", "64m"), lab.path("old.esker"));
    succeeds(&["receive", &dir, &whole]);
    succeeds(&["receive", &old, &whole]);
    let new = lab.path("new.esker");
    for (words, begun) in [
        (vec!["receive", &dir], format!("{dir}/.esker-received/state")),
        (vec!["receive", &new, "--base", &old], format!("{new}.part")),
    ] {
        let changed = || fs::metadata(&begun).and_then(|meta| meta.modified()).ok();
        let before = changed();
        let mut first = started(&words);
        let stdin = first.stdin.as_mut().expect("a pipe");
        stdin.write_all(&bytes[..1000]).expect("written");
        assert!(within_seconds(|| changed() != before));
        let second = [&words[..2], &[since.as_str()], &words[2..]].concat();
        fails(&second, 1, &["another `esker receive` is at work here"]);
        stdin.write_all(&bytes[1000..]).expect("written");
        drop(first.stdin.take());
        assert!(first.wait().expect("it ends").success());
    }
    same(&two, &seen(Path::new(&dir)));
    same(&two, &shown(&lab, &new));
    assert!(!Path::new(&format!("{new}.part.lock")).exists());
}

/// What is cut goes on in the volume beside an image; another stream meanwhile is refused.
#[test]
fn an_image_goes_on() {
    if !can_mount() {
        return;
    }
    let (lab, disk) = source();
    let (whole, since) = send_both(&lab, &disk);
    let (two, bytes) = (shown(&lab, &format!("{disk}@two")), fs::read(&since).expect("read"));
    let (old, new, part) = (lab.path("old.esker"), lab.path("new.esker"), lab.path("part.stream"));
    succeeds(&["receive", &old, &whole]);
    for cut in [100, bytes.len() / 3, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&part, &bytes[..cut]).expect("written");
        fails(&["receive", &new, &part, "--base", &old], 4, &["cut short"]);
        assert!(!Path::new(&new).exists());
    }
    fails(&["receive", &new, &whole], 1, &["it holds a part of the snapshot two"]);
    let token = succeeds(&["receive", &new, "--have"]);
    let from = format!("{disk}@two");
    let rest = lab.path("rest.stream");
    succeeds(&["send", &from, "--since", "one", "--from", token.trim(), "-o", &rest]);
    succeeds(&["receive", &new, &rest]);
    same(&two, &shown(&lab, &new));
    // The base of one is no base of the other.
    let other = lab.path("other.esker");
    fails(&["receive", &other, &since, "--base", &new], 1, &["it holds the snapshot two"]);
    fails(&["receive", &other, &whole, "--base", &new], 2, &["needs no base"]);
    fails(&["receive", &other, &since, "--base", &disk], 2, &["no image"]);
    // What was unpacked, and so may be another tree, is none either, whoever packs it.
    let (tree, bad) = (lab.path("tree"), lab.path("bad.esker"));
    succeeds(&["extract", &old, "-o", &tree, "--set-id", "--specials"]);
    fs::remove_file(format!("{tree}/plain")).expect("removed");
    for source in [&tree, &disk] {
        succeeds(&["pack", source, "-o", &bad, "--force"]);
        let said = ["does not know what it holds", "esker receive"];
        fails(&["receive", &other, &since, "--base", &bad], 1, &said);
    }
    assert!(!Path::new(&other).exists() && !Path::new(&format!("{other}.part")).exists());
    // Packed again with other owners it is another tree, and else the same.
    succeeds(&["repack", &old, "-o", &bad, "--force", "--owner", "1:1"]);
    fails(&["receive", &other, &since, "--base", &bad], 1, &["does not know what it holds"]);
    let again = lab.path("again.esker");
    succeeds(&["repack", &old, "-o", &again]);
    succeeds(&["receive", &other, &since, "--base", &again]);
    same(&two, &shown(&lab, &other));
}

/// A target that is too small says so, and the stream goes on when it is larger.
#[test]
fn room_is_made() {
    if !can_mount() {
        return;
    }
    let (lab, disk) = source();
    let noise = lab.path("mnt");
    succeeds(&["mount", &disk, &noise]);
    let chance = |n: u64| (n.wrapping_mul(n).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8;
    let bytes = (0..9 << 20).map(chance).collect::<Vec<u8>>();
    fs::write(format!("{noise}/noise"), bytes).expect("written");
    succeeds(&["umount", &noise]);
    succeeds(&["snapshot", "create", &disk, "three"]);
    let (stream, three) = (lab.path("three.stream"), format!("{disk}@three"));
    succeeds(&["send", &three, "-o", &stream]);
    let wanted = shown(&lab, &three);
    let small = lab.path("small.vol");
    succeeds(&["mkfs", &small, "--size", "8M"]);
    fails(&["receive", &small, &stream], 1, &["no space left", "esker resize"]);
    fails(&["receive", &small, &stream], 1, &["no space left", "esker resize"]);
    succeeds(&["resize", &small, "--size", "64M"]);
    succeeds(&["receive", &small, &stream]);
    same(&wanted, &shown(&lab, &format!("{small}@three")));
    succeeds(&["check", &small]);
    let dir = tmpfs(&lab, "dir", "6m");
    fails(&["receive", &dir, &stream], 1, &["no space left", "make room"]);
    let larger = ["-o", "remount,size=64m", &dir];
    assert!(Command::new("mount").args(larger).status().expect("it runs").success());
    succeeds(&["receive", &dir, &stream]);
    same(&wanted, &seen(Path::new(&dir)));
}
