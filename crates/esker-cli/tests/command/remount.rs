//! A remount changes what was asked, and nothing else.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{ESKER, Scratch, can_mount, command, errors, esker, is_mounted, mount};

/// The words of the mount table about what is mounted here.
fn words(dir: &Path) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = table.lines().find(|line| line.split(' ').nth(1) == dir.to_str()).unwrap();
    line.split(' ').nth(3).unwrap().split(',').map(str::to_owned).collect()
}

#[track_caller]
fn has(dir: &Path, expected: &[&str], missing: &[&str]) {
    let words = words(dir);
    let found = |word: &&&str| words.iter().any(|known| known == **word);
    assert!(expected.iter().all(|word| found(&word)), "{expected:?} in {words:?}");
    assert!(!missing.iter().any(|word| found(&word)), "no {missing:?} in {words:?}");
}

fn remount(dir: &Path, options: &str) -> Output {
    command(dir, &["-o", &format!("remount,{options}")]).output().unwrap()
}

#[track_caller]
fn done(output: &Output) {
    assert!(output.status.success(), "{}", errors(output));
}

/// What was forbidden stays forbidden unless somebody allows it.
#[test]
fn what_is_not_named_stays() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    mount(&dir, &["-o", "nosuid,nodev,noexec,noatime,sync,allow_other"]);
    let kept = ["nosuid", "nodev", "noexec", "noatime", "sync", "allow_other"];
    done(&remount(&dir, "ro"));
    has(&dir, &kept, &["rw"]);
    has(&dir, &["ro"], &[]);
    assert_eq!(fs::write(dir.join("f"), "x").unwrap_err().raw_os_error(), Some(30), "EROFS");
    done(&remount(&dir, "rw,exec,async"));
    fs::write(dir.join("f"), "x").unwrap();
    has(&dir, &["rw", "nosuid", "nodev", "noatime"], &["ro", "noexec", "sync"]);
    // From another place, through a link, with what is so already.
    std::os::unix::fs::symlink("m", scratch.path("link")).unwrap();
    let mut relative = command(Path::new("link"), &["-o", "remount,ro,noatime,allow_other"]);
    done(&relative.current_dir(scratch.path("")).output().unwrap());
    has(&dir, &["ro", "nosuid", "nodev"], &["rw"]);
    let busy = fs::File::open(&dir).unwrap();
    done(&remount(&dir, "rw"));
    drop(busy);
}

/// A user's mount, which fusermount3 made nosuid and nodev, stays so when root remounts it.
#[test]
fn a_mount_of_a_user_gets_no_rights() {
    const NOBODY: u32 = 65534;
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    chown(&dir, Some(NOBODY), Some(NOBODY)).unwrap();
    let program = scratch.path("esker");
    assert!(Command::new("cp").arg(ESKER).arg(&program).status().unwrap().success());
    let by_user = |options: &[&str]| {
        let mut command = Command::new(&program);
        command.args(["mount", "mem:"]).arg(&dir).args(options).stdin(Stdio::null());
        command.uid(NOBODY).gid(NOBODY).output().unwrap()
    };
    done(&by_user(&[]));
    has(&dir, &["nosuid", "nodev", "rw"], &[]);
    let refused = by_user(&["-o", "remount,ro"]);
    assert_eq!(refused.status.code(), Some(1), "{}", errors(&refused));
    assert!(errors(&refused).contains("not permitted; only root may remount it"));
    done(&remount(&dir, "ro"));
    has(&dir, &["nosuid", "nodev", "ro"], &["rw"]);
}

#[test]
fn what_a_remount_cannot_do_is_refused_by_name() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    mount(&dir, &["-o", "size=8M"]);
    let beyond = "ro,size=1G,uid=5,allow_other,threads=3,noatime,dirsync,fsname=x,writeback";
    let output = remount(&dir, beyond);
    assert_eq!(output.status.code(), Some(2));
    let text = errors(&output);
    let named = "cannot change size=1G, uid=5, allow_other, threads=3, noatime, dirsync, fsname=x, \
                 writeback: ";
    assert!(text.contains(named) && text.contains("unmount, and mount again"), "{text}");
    has(&dir, &["rw"], &["ro"]);
    let more = ["-o", "remount,ro", "-f", "--from", "/", "--skip-unreadable", "--log", "/nowhere"];
    let output = command(&dir, &more).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = errors(&output);
    assert!(text.contains("--from, --skip-unreadable, --foreground, --log"), "{text}");
    has(&dir, &["rw"], &["ro"]);
    let output = remount(&dir, "frobnicate");
    assert!(errors(&output).contains("unknown mount option: frobnicate"));
}

#[test]
fn a_machine_is_told_what_came_of_it() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    mount(&dir, &["-o", "nodev"]);
    let line = |options: &str| {
        let output = command(&dir, &["--json", "-o", options]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    };
    let value = line("remount,ro");
    assert_eq!(value["remounted"], dir.to_str().unwrap());
    let options = value["options"].as_array().unwrap();
    assert!(options.iter().any(|word| word == "ro") && options.iter().any(|word| word == "nodev"));
    let value = line("remount,size=1G");
    assert_eq!(value["exit"], 2);
    assert!(value["error"].as_str().unwrap().contains("size=1G"));
}

/// mount(8) says `esker SOURCE DIR -o ...`, repeats the mount table or fstab, and its helper adds `dev`
/// and `suid` at the end.
#[test]
fn mount8_repeats_what_it_knows() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    mount(&dir, &["-o", "nosuid,nodev,noexec"]);
    let point = dir.to_str().unwrap();
    let table = "ro,nosuid,noexec,relatime,remount,user_id=0,group_id=0,default_permissions,dev";
    let output = esker(["mem:", point, "-o", table]);
    done(&output);
    assert_eq!(errors(&output), "");
    has(&dir, &["ro", "nosuid", "nodev", "noexec"], &[]);
    let output = esker(["mem:", point, "-o", "rw,remount,size=2G,uid=5,dev,suid"]);
    done(&output);
    assert_eq!(errors(&output), "esker: a remount leaves as it is: size=2G, uid=5\n");
    has(&dir, &["rw", "nosuid", "nodev", "noexec"], &[]);
    done(&esker(["mem:", point, "-o", "remount,suid,dev,suid"]));
    has(&dir, &["noexec", "nodev"], &["nosuid"]);
}

#[test]
fn only_what_is_ours_is_remounted() {
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    crate::common::refused(&remount(&dir, "ro"), 3, &["nothing is mounted here"], &dir);
    let output = remount(&scratch.path("none"), "ro");
    crate::common::refused(&output, 3, &["no such directory"], &dir);
    let output = remount(Path::new("/proc"), "ro");
    assert_eq!(output.status.code(), Some(3));
    assert!(errors(&output).contains("/proc: what is mounted here is no Esker file system but"));
    assert!(is_mounted(Path::new("/proc")));
}
