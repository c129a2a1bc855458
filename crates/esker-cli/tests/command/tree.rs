//! `--from TREE` brings everything along, or says what it cannot bring.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use crate::common::picture::picture;
use crate::common::rich::{rich_tree, touch};
use crate::common::{
    ESKER, Scratch, can_mount, can_switch_user, command, errors, esker, mount, refused,
};

#[test]
fn everything_comes_along() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let source = rich_tree(&scratch);
    let dir = scratch.dir("m");
    let output = command(&dir, &["--json", "--from", source.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let (before, after) = (picture(&source), picture(&dir));
    for (name, words) in &before {
        assert_eq!(Some(words), after.get(name), "{name:?}");
    }
    assert_eq!(before.len(), after.len());
    let filled = &report["filled"];
    assert_eq!(filled["hard_links"], 3);
    assert_eq!(filled["symlinks"], 3);
    assert_eq!(filled["specials"], 4);
    assert_eq!(filled["directories"], 6);
    assert_eq!(filled["files"], 8);
    let blocks = fs::metadata(dir.join("holes")).unwrap().blocks();
    assert!(blocks < 1000, "six terabytes of hole take {blocks} blocks");
}

#[test]
fn what_the_options_say_about_the_root_counts_more() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let source = scratch.dir("source");
    fs::set_permissions(&source, fs::Permissions::from_mode(0o711)).unwrap();
    chown(&source, Some(9), Some(9)).unwrap();
    touch(&source, 77, 7);
    let link = scratch.path("link");
    symlink(&source, &link).unwrap();
    let dir = scratch.dir("m");
    let from = link.to_str().unwrap();
    mount(&dir, &["--from", from]);
    let root = fs::metadata(&dir).unwrap();
    assert_eq!((root.mode() & 0o7777, root.uid(), root.mtime()), (0o711, 9, 77));
    assert!(esker(["umount", dir.to_str().unwrap()]).status.success());
    mount(&dir, &["--from", from, "-o", "uid=3,umask=001"]);
    let root = fs::metadata(&dir).unwrap();
    assert_eq!((root.mode() & 0o7777, root.uid(), root.gid(), root.mtime()), (0o710, 3, 9, 77));
}

#[test]
fn what_cannot_be_read_is_named_and_nothing_is_mounted() {
    if !can_switch_user() {
        return;
    }
    let scratch = Scratch::new();
    let source = scratch.dir("source");
    let dir = scratch.dir("m");
    chown(&dir, Some(65534), Some(65534)).unwrap();
    for name in ["open", "secret", "closed/inner", "listed/inner"] {
        let path = source.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "x").unwrap();
    }
    fs::write(source.join(OsStr::from_bytes(b"odd\xff\x1b[2J")), "x").unwrap();
    for (name, mode) in [("secret", 0o600), ("closed", 0o700), ("listed", 0o744)] {
        fs::set_permissions(source.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let odd = source.join(OsStr::from_bytes(b"odd\xff\x1b[2J"));
    fs::set_permissions(odd, fs::Permissions::from_mode(0o200)).unwrap();
    // The program itself may lie where that user cannot go. Not fs::copy: a process that another
    // test starts at that moment would hold the copy open for writing, and it could not be
    // executed.
    let program = scratch.path("esker");
    assert!(Command::new("cp").arg(ESKER).arg(&program).status().unwrap().success());
    let run = |more: &[&str]| {
        let mut command = Command::new(&program);
        command.args(["mount", "mem:"]).arg(&dir).arg("--from").arg(&source).args(more);
        command.stdin(Stdio::null()).uid(65534).gid(65534).output().unwrap()
    };
    let output = run(&[]);
    let named = ["secret", "closed", "source/listed", "odd\\xff\\x1b[2J"];
    refused(&output, 4, &named, &dir);
    refused(
        &output,
        4,
        &[
            "4 things:",
            "Permission denied\n",
            "leave them out with --skip-unreadable",
            "nothing was mounted",
        ],
        &dir,
    );
    assert!(!errors(&output).contains("open:"));
    for name in ["closed", "listed", "odd"] {
        let odd = OsStr::from_bytes(b"odd\xff\x1b[2J");
        let path = source.join(if name == "odd" { odd } else { OsStr::new(name) });
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    refused(&run(&[]), 4, &[": 1 thing:\n", "make it readable"], &dir);

    if can_mount() {
        let source = source.to_str().unwrap();
        mount(&dir, &["--from", source, "--skip-unreadable"]);
        assert!(dir.join("secret").exists(), "root reads everything");
    }
}

#[test]
fn what_does_not_fit_is_named() {
    let scratch = Scratch::new();
    let source = scratch.dir("source");
    let dir = scratch.dir("m");
    fs::write(source.join("large"), vec![1; 3 << 20]).unwrap();
    let from = ["--from", source.to_str().unwrap(), "-o"];
    for (option, words) in [
        ("size=1M", &["large", "no space left", "-o size="]),
        ("file_size=2M", &["large", "file too large", "-o file_size="]),
    ] {
        let output = command(&dir, &from).arg(option).output().unwrap();
        refused(&output, 1, words, &dir);
    }
    refused(
        &command(&dir, &["--from", "/no/such/place"]).output().unwrap(),
        4,
        &["/no/such/place", "No such file"],
        &dir,
    );
}
