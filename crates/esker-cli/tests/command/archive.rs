//! `--from TAR` brings everything along, and nothing hostile gets in.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::picture::picture;
use crate::common::rich::rich_tree;
use crate::common::tar::{archive, entry, header, link, pax};
use crate::common::{Scratch, can_mount, command, errors, esker, mount, refused};

fn unpack(scratch: &Scratch, dir: &Path, bytes: &[u8]) -> Output {
    let file = scratch.file("t.tar", bytes);
    command(dir, &["--from", file.to_str().unwrap()]).output().unwrap()
}

/// GNU tar of a tree with everything, in each format that can hold it, comes out as the tree.
#[test]
fn everything_comes_along() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let source = rich_tree(&scratch);
    // No archive holds sockets, and extended attributes of links are beyond GNU tar.
    fs::remove_file(source.join("socket")).unwrap();
    for link in ["link", "link-again"] {
        fs::remove_file(source.join(link)).unwrap();
    }
    let dir = scratch.dir("m");
    let before = picture(&source);
    let file = scratch.path("t.tar");
    for more in ["--sparse-version=1.0", "--sparse-version=0.1", "--sparse-version=0.0", "--gzip"] {
        let mut tar = Command::new("tar");
        tar.args(["--format=posix", "--sparse", "--acls", "--xattrs", "--xattrs-include=*", more]);
        let done = tar.arg("-cf").arg(&file).arg("-C").arg(&source).arg(".").status().unwrap();
        assert!(done.success());
        mount(&dir, &["--from", file.to_str().unwrap()]);
        let after = picture(&dir);
        for (name, words) in &before {
            assert_eq!(Some(words), after.get(name), "{name:?} with {more}");
        }
        assert_eq!(before.len(), after.len());
        assert!(fs::metadata(dir.join("holes")).unwrap().blocks() < 1000);
        assert!(esker(["umount", dir.to_str().unwrap()]).status.success());
    }
}

#[test]
fn standard_input_is_an_archive_too() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    let bytes = archive(&[
        entry(b"a/b/c", b'0', b"deep"),
        entry(b"f", b'0', b"1"),
        entry(b"f", b'0', b"22"),
    ]);
    let mut child = command(&dir, &["--from", "-"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(fs::read(dir.join("a/b/c")).unwrap(), b"deep");
    assert_eq!(fs::read(dir.join("f")).unwrap(), b"22", "the later entry counts");
    assert_eq!(fs::metadata(dir.join("a")).unwrap().mode() & 0o7777, 0o755);
}

#[test]
fn hostile_archives_are_refused_by_entry() {
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    let long = b"n".repeat(300);
    let big =
        |size: &str| [pax(&[("size", size.as_bytes())]), header(b"big", b'0', 0, b"")].concat();
    let cases: Vec<(Vec<Vec<u8>>, &[&str])> = vec![
        (vec![entry(b"/etc/passwd", b'0', b"x")], &["entry /etc/passwd", "absolute"]),
        (vec![entry(b"a/../../x", b'0', b"x")], &["entry a/../../x", "upwards"]),
        (vec![entry(b"..", b'5', b"")], &["entry ..", "upwards"]),
        (vec![pax(&[("path", b"a\0b")]), entry(b"x", b'0', b"")], &["entry a\\x00b", "NUL"]),
        (vec![pax(&[("path", &long)]), entry(b"x", b'0', b"")], &["entry nnn", "255"]),
        (
            vec![link(b"h", b'1', b"../../etc/passwd")],
            &["entry h", "hard link to ../../etc/passwd"],
        ),
        (vec![link(b"h", b'1', b"/etc/passwd")], &["entry h", "outside"]),
        (vec![link(b"h", b'1', b"later"), entry(b"later", b'0', b"")], &["entry h", "no earlier"]),
        (vec![entry(b"d", b'5', b""), link(b"h", b'1', b"d")], &["entry h", "directory"]),
        (
            vec![link(b"s", b'2', b"/tmp"), entry(b"s/x", b'0', b"x")],
            &["entry s/x", "below s", "symbolic link"],
        ),
        (
            vec![entry(b"f", b'0', b""), entry(b"f/x/y", b'0', b"")],
            &["entry f/x/y", "below f", "file"],
        ),
        (vec![entry(b"f", b'0', b""), entry(b"f", b'5', b"")], &["entry f", "made it a file"]),
        (vec![entry(b"d", b'5', b""), entry(b"d", b'0', b"")], &["entry d", "replace a directory"]),
        (vec![link(b"s", b'2', b"")], &["entry s", "target"]),
        (
            vec![gnu_long(&[b"d/".repeat(60_000), b"f".to_vec()].concat()), entry(b"d", b'0', b"")],
            &["entry d/d/", "/d/f (120001 bytes): ", "longer than 65536 bytes"],
        ),
        (
            vec![pax(&[("linkpath", &b"d/".repeat(60_000))]), link(b"h", b'1', b"")],
            &["entry h", "hard link to d/d/", "longer than 65536 bytes"],
        ),
        (
            vec![pax(&[("path", &b"n".repeat(600_000))]), entry(b"x", b'0', b"")],
            &["nnn (600000 bytes): ", "longer than 65536 bytes"],
        ),
        (vec![entry(b".", b'0', b"x")], &["entry .", "root"]),
        (vec![big("9223372036854775807")], &["entry big", "cut short"]),
        (vec![big("18446744073709551615")], &["entry big", "cut short"]),
        (vec![big("99999999999999999999")], &["entry big", "size"]),
        (vec![entry(b"\x1b[2J", b'Q', b"")], &["entry \\x1b[2J", "not known (Q)"]),
        (vec![vec![b'x'; 512]], &["no tar archive"]),
        (
            vec![entry(b"ok", b'0', b""), vec![b'x'; 512]],
            &["entry ok", "behind this entry", "checksum"],
        ),
    ];
    for (parts, words) in cases {
        let output = unpack(&scratch, &dir, &archive(&parts));
        refused(&output, 4, words, &dir);
        refused(&output, 4, &["t.tar", "nothing is left of it"], &dir);
        assert!(errors(&output).len() < 1000, "{}", errors(&output));
    }
}

/// The path of the next entry, as GNU tar writes a long one.
fn gnu_long(path: &[u8]) -> Vec<u8> {
    entry(b"././@LongLink", b'L', path)
}

/// The deepest path that is taken makes 32767 directories: in the space that the file system has,
/// and next to nothing beside it.
#[test]
fn a_deep_path_costs_what_its_directories_cost() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    let deep = archive(&[
        gnu_long(&[b"d/".repeat(32_767), b"f".to_vec()].concat()),
        entry(b"x", b'0', b"deep"),
        gnu_long(&[b"d/".repeat(32_767), b"g".to_vec()].concat()),
        entry(b"x", b'0', b"deep"),
    ]);
    let file = scratch.file("t.tar", &deep);
    let from = ["--json", "--from", file.to_str().unwrap(), "-o", "size=64M"];
    let output = command(&dir, &from).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["filled"]["directories"], 32_767);
    let status = fs::read_to_string(format!("/proc/{}/status", report["pid"])).unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let most: u64 = most.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(most < 128 << 10, "{most} KiB at most");
    let output = command(&dir, &["--from", file.to_str().unwrap(), "-o", "size=1M"]).output();
    assert!(!output.unwrap().status.success());
}

/// Two blocks of zeros end an archive, an empty one too. What never ends is none.
#[test]
fn zeros_end_an_archive_and_are_not_read_for_ever() {
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    let words = ["more than 16 MiB follow the mark of its end"];
    let from = |file: &str| command(&dir, &["--from", file]).output().unwrap();
    refused(&from("/dev/zero"), 4, &words, &dir);
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&vec![0; 17 << 20]).unwrap();
    let output = unpack(&scratch, &dir, &packed.finish().unwrap());
    refused(&output, 4, &words, &dir);
    if !can_mount() {
        return;
    }
    let output = unpack(&scratch, &dir, &[0; 10240]);
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
}

/// The report tells what is there, not what was there for a while.
#[test]
fn what_was_replaced_is_not_counted() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    let bytes = archive(&[
        entry(b"f", b'0', &[1; 3000]),
        entry(b"f", b'0', b"22"),
        entry(b"g", b'0', b"333"),
        link(b"h", b'1', b"g"),
        entry(b"g", b'0', b"4444"),
        link(b"s", b'2', b"f"),
        entry(b"s", b'0', b""),
        entry(b"s", b'6', b""),
        link(b"p", b'2', b"f"),
    ]);
    let file = scratch.file("t.tar", &bytes);
    let output = command(&dir, &["--json", "--from", file.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let filled = &report["filled"];
    for (key, count) in
        [("files", 3), ("hard_links", 0), ("symlinks", 1), ("specials", 1), ("bytes", 9)]
    {
        assert_eq!(filled[key], count, "{key}: {filled}");
    }
}

/// A directory's default ACL is for those who come later, not for its entries in the archive.
#[test]
fn entries_do_not_inherit_from_their_directory() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    let acl = b"user::rwx,user:7:rwx,group::r-x,mask::rwx,other::---";
    let bytes = archive(&[
        pax(&[("SCHILY.acl.default", acl)]),
        entry(b"d/", b'5', b""),
        entry(b"d/f", b'0', b"x"),
        entry(b"d/e/", b'5', b""),
        entry(b"d/i/g", b'0', b"x"),
    ]);
    let output = unpack(&scratch, &dir, &bytes);
    assert!(output.status.success(), "{}", errors(&output));
    let names = |path: &str| {
        let mut list = vec![0; 4096];
        let len = rustix::fs::listxattr(dir.join(path), &mut list).unwrap();
        String::from_utf8(list[..len].to_vec()).unwrap()
    };
    assert_eq!(names("d"), "system.posix_acl_default\0");
    for path in ["d/f", "d/e", "d/i", "d/i/g"] {
        assert_eq!(names(path), "", "{path}");
    }
    assert_eq!(fs::metadata(dir.join("d/f")).unwrap().mode() & 0o7777, 0o644);
    assert_eq!(fs::metadata(dir.join("d")).unwrap().mtime(), 15);
    fs::write(dir.join("d/new"), "x").unwrap();
    assert_eq!(names("d/new"), "system.posix_acl_access\0");
}

/// A file of eight exabytes, of which the archive holds a byte: its holes cost nothing, neither
/// does a refusal.
#[test]
fn huge_files_are_made_of_holes_or_refused() {
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    let sparse = |size: &str, at: &str| {
        let map = format!("{at},1");
        let records = [
            ("GNU.sparse.size", size.as_bytes()),
            ("GNU.sparse.numblocks", b"1"),
            ("GNU.sparse.map", map.as_bytes()),
        ];
        archive(&[pax(&records), entry(b"huge", b'0', b"x")])
    };
    for (size, at, word) in [
        ("9223372036854775808", "0", "file too large"),
        ("18446744073709551615", "9223372036854775807", "file too large"),
        ("10", "10", "map of holes"),
        ("10", "18446744073709551615", "map of holes"),
    ] {
        refused(&unpack(&scratch, &dir, &sparse(size, at)), 4, &["entry huge", word], &dir);
    }
    if !can_mount() {
        return;
    }
    let output = unpack(&scratch, &dir, &sparse("1099511627776", "1099511627775"));
    assert!(output.status.success(), "{}", errors(&output));
    let meta = fs::metadata(dir.join("huge")).unwrap();
    assert!(meta.size() == 1 << 40 && meta.blocks() < 100);
}

#[test]
fn an_archive_that_is_cut_short_is_refused() {
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    let whole = archive(&[entry(b"first", b'0', &[1; 2000]), entry(b"second", b'0', &[2; 2000])]);
    refused(&unpack(&scratch, &dir, b""), 4, &["archive is empty"], &dir);
    for (len, entry) in [
        (100, ""),
        (700, "first"),
        (2560, "first"),
        (3000, "first"),
        (5119, "second"),
        (5120, "second"),
    ] {
        refused(&unpack(&scratch, &dir, &whole[..len]), 4, &[entry, "cut short"], &dir);
    }
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&whole).unwrap();
    let mut packed = packed.finish().unwrap();
    refused(&unpack(&scratch, &dir, &packed[..packed.len() - 3]), 4, &["cut short"], &dir);
    let last = packed.len() - 6;
    packed[last] ^= 1;
    refused(&unpack(&scratch, &dir, &packed), 4, &["cannot be read", "checksum"], &dir);
    refused(&unpack(&scratch, &dir, b"\xfd7zXZ\0rest"), 4, &["xz -dc"], &dir);
}

#[test]
fn what_does_not_fit_is_named() {
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    let file = scratch.file("t.tar", &archive(&[entry(b"large", b'0', &vec![1; 3 << 20])]));
    let from = ["--from", file.to_str().unwrap(), "-o", "size=1M"];
    let output = command(&dir, &from).output().unwrap();
    refused(&output, 4, &["entry large", "no space left", "-o size="], &dir);
}
