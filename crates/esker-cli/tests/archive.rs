//! `--from TAR` brings everything along, and nothing hostile gets in.

mod common;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::picture::picture;
use common::rich::rich_tree;
use common::tar::{archive, entry, header, link, pax};
use common::{Scratch, can_mount, command, errors, esker, mount, refused};

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
        refused(&output, 4, &["t.tar", "nothing was mounted"], &dir);
    }
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
