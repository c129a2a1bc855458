//! What is printed gets to standard output, or whoever calls is told that it did not.

use std::fs::{self, File};
use std::io::Read as _;
use std::process::{Command, Output, Stdio};

use crate::common::{ESKER, Scratch, done, errors, esker, text};

/// Runs `esker` with standard output onto a device that is always full.
fn onto_a_full_one(arguments: &[&str]) -> Output {
    let full = File::options().write(true).open("/dev/full").unwrap();
    Command::new(ESKER).args(arguments).stdin(Stdio::null()).stdout(full).output().unwrap()
}

#[test]
fn what_cannot_be_printed_is_told() {
    let scratch = Scratch::new();
    let (tree, other) = (scratch.dir("tree"), scratch.dir("other"));
    fs::write(tree.join("file"), "some text\n".repeat(100)).unwrap();
    let (image, new) = (scratch.path("x.esker"), scratch.path("y.esker"));
    let (image, new) = (text(&image), text(&new));
    let (volume, page) = (scratch.path("v.vol"), scratch.path("x.html"));
    done(&esker(["pack", text(&tree), "-o", image]));
    done(&esker(["pack", text(&other), "-o", new]));
    done(&esker(["mkfs", text(&volume), "--size", "64M"]));
    let file = format!("{image}:/file");
    let [out, made, none] = ["out", "z.esker", "none"].map(|name| scratch.path(name));
    let all: &[(i32, &[&str])] = &[
        (1, &["ls", image]),
        (1, &["ls", image, "--json"]),
        (1, &["find", image]),
        (1, &["tree", image]),
        (1, &["du", image]),
        (1, &["stat", &file]),
        (1, &["cat", &file]),
        (1, &["info", image]),
        (1, &["check", image]),
        (1, &["report", image, "-o", "-"]),
        (1, &["extract", image, "--tar", "-"]),
        (1, &["extract", image, "-o", text(&out)]),
        (1, &["pack", text(&tree), "-o", text(&made)]),
        (1, &["stats", text(&volume)]),
        (1, &["dump", text(&volume), "superblocks"]),
        (1, &["help", "ls"]),
        (1, &["--version"]),
        (1, &["diff", image, new]),
        // What failed before has the say.
        (4, &["ls", text(&none), "--json"]),
    ];
    for (status, arguments) in all {
        let output = onto_a_full_one(arguments);
        assert_eq!(output.status.code(), Some(*status), "{arguments:?}: {}", errors(&output));
        let told = errors(&output);
        assert!(told.contains("No space left on device"), "{arguments:?}: {told}");
    }
    // What prints nothing has nothing to tell.
    assert_eq!(errors(&onto_a_full_one(&["report", image, "-o", text(&page)])), "");
    assert_eq!(errors(&onto_a_full_one(&["diff", image, image])), "");
}

/// Nobody can be told that standard error is full, and what is to be told there is no reason to end otherwise.
#[test]
fn what_cannot_be_told_ends_as_it_would() {
    let scratch = Scratch::new();
    let tree = scratch.dir("tree");
    fs::write(tree.join("file"), "some text").unwrap();
    let (image, none) = (scratch.path("x.esker"), scratch.path("none"));
    let (script, list) = (scratch.file("s.lua", b"print('told')"), scratch.file("l", b"no/such\n"));
    let lists = ["--hot", text(&list), "--on-bad-answer", "skip", "--script", text(&script)];
    let made = [&["pack", text(&tree), "-o", text(&image)][..], &lists].concat();
    for (status, arguments) in [(4, &["ls", text(&none)][..]), (0, &made), (2, &["no-such-verb"])] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(ESKER);
        let ended = command.args(arguments).stdin(Stdio::null()).stderr(full).output().unwrap();
        assert_eq!(ended.status.code(), Some(status), "{arguments:?}");
    }
    assert!(done(&esker(["ls", text(&image)])).contains("file"));
}

/// Who reads the first line of many has seen enough, and nobody is told anything.
#[test]
fn a_closed_pipe_is_no_failure() {
    let scratch = Scratch::new();
    let tree = scratch.dir("tree");
    for number in 0..3000 {
        fs::write(tree.join(format!("a file with a long name {number}")), "x").unwrap();
    }
    let image = scratch.path("x.esker");
    done(&esker(["pack", text(&tree), "-o", text(&image)]));
    for arguments in [["ls", text(&image)], ["find", text(&image)], ["du", text(&image)]] {
        let mut command = Command::new(ESKER);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.stdin(Stdio::null()).spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), errors(&output)), (Some(0), String::new()));
    }
}
