//! The rights of a process that serves images: given up once it serves, and never missed.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::picture::picture;
use crate::common::{
    ESKER, Scratch, can_mount, done, esker, is_alive, is_mounted, text, within_seconds,
};
use serde_json::Value;

const NOBODY: u32 = 65534;

fn packed(scratch: &Scratch) -> (PathBuf, PathBuf) {
    let tree = scratch.dir("tree");
    fs::create_dir(tree.join("dir")).unwrap();
    for number in 0..300_u32 {
        let words: Vec<_> = (0..number * 40).map(|word| (word * word % 9973).to_string()).collect();
        fs::write(tree.join(format!("dir/{number}")), words.join(" ")).unwrap();
    }
    let image = scratch.path("x.esker");
    done(&esker(["pack", text(&tree), "-o", text(&image), "--block-size", "64K"]));
    (tree, image)
}

/// The number behind a word of /proc/PID/status, the same of every thread.
fn of_all_threads(pid: u64, word: &str) -> Option<u64> {
    let mut numbers = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let status = fs::read_to_string(thread.path().join("status")).ok()?;
        let number = status.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(":\t"));
        numbers.push(number?.parse().ok()?);
    }
    let first = *numbers.first()?;
    numbers.iter().all(|&number| number == first).then_some(first)
}

fn is_confined(pid: u64) -> bool {
    const FILTERED: u64 = 2;
    of_all_threads(pid, "Seccomp") == Some(FILTERED) && of_all_threads(pid, "NoNewPrivs") == Some(1)
}

fn pid(output: &Output) -> u64 {
    let report: Value = serde_json::from_str(&done(output)).unwrap();
    report["pid"].as_u64().unwrap()
}

fn terminate(pid: u64) {
    let killed = Command::new("kill").arg(pid.to_string()).status().unwrap();
    assert!(killed.success());
}

#[test]
fn an_image_is_served_without_rights() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (tree, image) = packed(&scratch);
    let dir = scratch.dir("m");
    let mount = |more: &[&'static str]| {
        pid(&esker([&["mount", "--json", text(&image), text(&dir)], more].concat()))
    };
    for way in [&[][..], &["--overlay"], &["-o", "cache=1M,threads=3"]] {
        let pid = mount(way);
        assert!(within_seconds(|| is_confined(pid)), "{way:?}");
        assert_eq!(picture(&tree), picture(&dir), "{way:?}");
        if way == ["--overlay"] {
            fs::write(dir.join("dir/7"), vec![7; 5 << 20]).unwrap();
            assert_eq!(fs::read(dir.join("dir/7")).unwrap(), vec![7; 5 << 20]);
        }
        assert!(is_confined(pid), "a thread that came later is confined too: {way:?}");
        terminate(pid);
        assert!(within_seconds(|| !is_alive(pid)) && !is_mounted(&dir), "{way:?}");
    }
    // Memory that an image moves to, and one that keeps its rights.
    let arguments = ["mount", "--json", "mem:", text(&dir), "--from", text(&image)];
    let filled = pid(&esker(arguments));
    assert!(within_seconds(|| is_confined(filled)));
    assert_eq!(picture(&tree), picture(&dir));
    done(&esker(["umount", text(&dir)]));
    assert!(within_seconds(|| !is_alive(filled)));
    let free = mount(&["-o", "no_sandbox"]);
    assert_eq!(picture(&tree), picture(&dir));
    assert_eq!(
        (of_all_threads(free, "Seccomp"), of_all_threads(free, "NoNewPrivs")),
        (Some(0), Some(0))
    );
    done(&esker(["umount", text(&dir)]));
}

/// Who may not unmount needs fusermount3 for it, which a confined process cannot start any more.
#[test]
fn a_user_unmounts_without_rights() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (_, image) = packed(&scratch);
    let dir = scratch.dir("m with 'quotes'");
    chown(&dir, Some(NOBODY), Some(NOBODY)).unwrap();
    let program = scratch.path("esker");
    assert!(Command::new("cp").arg(ESKER).arg(&program).status().unwrap().success());
    let run = |arguments: &[&str]| as_nobody(&program, arguments);
    let list = ["-c", "ls \"$0/dir\" | wc -l", text(&dir)];
    for lazily in [false, true] {
        let pid = pid(&run(&["mount", "--json", text(&image), text(&dir)]));
        assert!(within_seconds(|| is_confined(pid)));
        assert_eq!(done(&as_nobody(Path::new("sh"), &list)).trim(), "300");
        let script = ["-c", "cd \"$0\"; echo there; read -r _", text(&dir)];
        let user = lazily.then(|| {
            let mut user = Command::new("sh");
            user.args(script).uid(NOBODY).gid(NOBODY).stdin(Stdio::piped());
            user.stdout(Stdio::piped()).spawn().unwrap()
        });
        if let Some(user) = &user {
            // Its directory is in use once it has said so.
            let cwd = PathBuf::from(format!("/proc/{}/cwd", user.id()));
            assert!(within_seconds(|| fs::read_link(&cwd).is_ok_and(|cwd| cwd == dir)));
        }
        terminate(pid);
        assert!(within_seconds(|| !is_alive(pid)) && !is_mounted(&dir), "lazily: {lazily}");
        if let Some(mut user) = user {
            drop(user.stdin.take());
            user.wait().unwrap();
        }
    }
    let pid = pid(&run(&["mount", "--json", text(&image), text(&dir)]));
    done(&run(&["umount", text(&dir)]));
    assert!(within_seconds(|| !is_alive(pid)));
}

fn as_nobody(program: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).uid(NOBODY).gid(NOBODY).output().unwrap()
}
