//! A mount point that cannot be used is refused in words that say what to do.

use std::fs;
use std::process::Command;

use crate::common::{
    Scratch, can_mount, command, errors, esker, is_alive, is_mounted, mount, refused,
};

#[test]
fn missing() {
    let scratch = Scratch::new();
    let dir = scratch.path("m");
    let output = command(&dir, &[]).output().unwrap();
    refused(&output, 3, &[dir.to_str().unwrap(), "no such directory", "mkdir -p"], &dir);
    let below_file = scratch.file("f", b"").join("m");
    refused(&command(&below_file, &[]).output().unwrap(), 3, &["not a directory"], &dir);
}

#[test]
fn not_a_directory() {
    let scratch = Scratch::new();
    let file = scratch.file("m", b"");
    refused(&command(&file, &[]).output().unwrap(), 3, &["not a directory"], &file);
}

#[test]
fn not_empty() {
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    scratch.file("m/kept", b"kept");
    refused(&command(&dir, &[]).output().unwrap(), 3, &["not empty", "-o nonempty"], &dir);
    if !can_mount() {
        return;
    }
    mount(&dir, &["-o", "nonempty"]);
    assert!(is_mounted(&dir) && !dir.join("kept").exists());
    assert!(esker(["umount", dir.to_str().unwrap()]).status.success());
    assert_eq!(fs::read(dir.join("kept")).unwrap(), b"kept");
}

#[test]
fn in_use_by_another_mount() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    mount(&dir, &[]);
    fs::write(dir.join("f"), "first").unwrap();
    let output = command(&dir, &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let text = errors(&output);
    assert!(text.contains("mounted here already") && text.contains("unmount it first"), "{text}");
    assert_eq!(fs::read(dir.join("f")).unwrap(), b"first");
}

/// kill -9 of the daemon leaves a mount that answers nobody. The next mount says so and what to do,
/// and doing it helps.
#[test]
fn stale_after_a_kill() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    let kill = |dir: &std::path::Path| {
        let output = command(dir, &["--json"]).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let pid = report["pid"].as_u64().unwrap();
        let held = fs::File::open(dir).unwrap();
        assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
        assert!(crate::common::within_seconds(|| !is_alive(pid)));
        assert!(crate::common::within_seconds(|| fs::metadata(dir).is_err()));
        held
    };
    let held = kill(&dir);
    let output = command(&dir, &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let text = errors(&output);
    assert!(text.contains("has died") && text.contains("with -o clear_stale"), "{text}");
    // What is told helps even while somebody uses what is dead.
    let remedy = format!("clear it with: esker umount -l '{}', or", dir.display());
    assert!(text.contains(&remedy), "{text}");

    let output = esker(["umount", "-l", dir.to_str().unwrap()]);
    assert!(output.status.success(), "{}", errors(&output));
    drop(held);
    mount(&dir, &[]);
    fs::write(dir.join("f"), "alive").unwrap();
    assert!(esker(["umount", dir.to_str().unwrap()]).status.success());

    // And by an option, for those who want no questions.
    let _held = kill(&dir);
    mount(&dir, &["-o", "clear_stale"]);
    fs::write(dir.join("f"), "alive").unwrap();
}

#[test]
fn umount_takes_only_what_is_ours() {
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    let shown = dir.to_str().unwrap();
    refused(&esker(["umount", shown]), 3, &["not a mount point", shown], &dir);
    refused(&esker(["umount", "/no/such/place"]), 3, &["/no/such/place"], &dir);
    refused(&esker(["umount"]), 2, &["<DIR>"], &dir);
    let proc = esker(["umount", "/proc"]);
    assert_eq!(proc.status.code(), Some(3));
    assert!(errors(&proc).contains("not an Esker mount but proc (proc): /proc: use umount(8)"));
    assert!(std::path::Path::new("/proc/self").exists());
}
