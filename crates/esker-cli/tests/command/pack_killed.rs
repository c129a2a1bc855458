//! Packing that is killed, at every level: while it reads, while it writes, and at any moment. What is left is the old
//! output alone, or the new one if it was whole; no other file, but for the moment in which a whole image takes the
//! place of the old one: it has a name of its own then, which the next one that packs there takes away.
//!
//! `ESKER_CASES` says how many kills of each kind (12).

#[path = "../../../esker-image/tests/kit/files.rs"]
#[allow(dead_code, reason = "it is for others too")]
mod files;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::common::{ESKER, Scratch, done, esker, text};

fn cases() -> usize {
    std::env::var("ESKER_CASES").ok().and_then(|count| count.parse().ok()).unwrap_or(12)
}

/// One after the other.
fn level(case: usize) -> String {
    (case % 10).to_string()
}

/// Text that takes a while, what nothing makes smaller, and something of each kind that is treated in its own way.
fn tree(scratch: &Scratch) -> PathBuf {
    let tree = scratch.dir("tree");
    for file in files::few_kinds() {
        fs::write(tree.join(file.name), file.bytes).unwrap();
    }
    let word = |n: u32| (n.wrapping_mul(0x9e37_79b9) & 0x3f3f_3f3f).to_le_bytes();
    fs::write(tree.join("words"), (0..300_000).flat_map(word).collect::<Vec<u8>>()).unwrap();
    let chance = |n: u64| (n.wrapping_mul(n).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8;
    fs::write(tree.join("chance"), (0..700_000).map(chance).collect::<Vec<u8>>()).unwrap();
    tree
}

/// The only file in a directory, and its bytes; `None`: there is none.
fn only(dir: &Path) -> Option<Vec<u8>> {
    let all: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(all.len() <= 1, "more than the output: {all:?}");
    all.first().map(|path| {
        assert_eq!(path.file_name().unwrap(), "x.esker");
        fs::read(path).unwrap()
    })
}

#[test]
fn killed_while_it_reads() {
    let scratch = Scratch::new();
    let tree = tree(&scratch);
    let mut tar = Command::new("tar");
    let archive = tar.args(["-C", text(&tree), "-c", "."]).output().unwrap().stdout;
    let out = scratch.dir("out");
    let image = out.join("x.esker");
    for old in [None, Some(b"old".to_vec())] {
        old.iter().for_each(|old| fs::write(&image, old).unwrap());
        for case in 0..cases() {
            let mut packing = Command::new(ESKER)
                .args(["pack", "-", "-o", text(&image), "--force", "-q", "-l", &level(case)])
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            let part = &archive[..archive.len() * case / cases()];
            // The pipe stays open, so the end is never seen.
            packing.stdin.as_ref().unwrap().write_all(part).unwrap();
            packing.kill().unwrap();
            packing.wait().unwrap();
            assert_eq!(only(&out), old, "after {} bytes", part.len());
        }
    }
}

#[test]
fn killed_while_it_writes() {
    let scratch = Scratch::new();
    let tree = tree(&scratch);
    let out = scratch.dir("out");
    let image = out.join("x.esker");
    fs::write(&image, "old").unwrap();
    let (mut killed, mut limit) = (0, 0);
    for case in 0.. {
        // A file that grows beyond so many blocks of 512 bytes ends the process.
        let script = format!("ulimit -c 0; ulimit -f {limit}; exec \"$@\"");
        let mut limited = Command::new("sh");
        limited.args(["-c", &script, "sh", ESKER, "pack", text(&tree), "-o", text(&image)]);
        let status = limited
            .args(["--force", "-q", "-l", &level(case)])
            .stdout(Stdio::null())
            .status()
            .unwrap();
        let left = only(&out).expect("the old output, or the new one");
        if status.success() {
            assert_ne!(left, b"old");
            break;
        }
        assert_eq!(left, b"old", "at {limit} blocks");
        killed += usize::from(status.code().is_none());
        limit += (5000 / cases()).max(1);
    }
    assert!(killed >= cases().min(8) / 2, "only {killed} were killed");
    done(&esker(["check", "--full", text(&image)]));
}

/// What a killed one left beside the old output: nothing, or the whole new one under a name of its own.
fn beside(out: &Path) -> Option<PathBuf> {
    let names = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path());
    let mut others: Vec<_> = names.filter(|path| !path.ends_with("x.esker")).collect();
    assert!(others.len() <= 1, "{others:?}");
    let other = others.pop()?;
    let name = other.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with(".esker-") && name.ends_with(".new"), "{name}");
    Some(other)
}

#[test]
fn killed_at_any_moment() {
    let scratch = Scratch::new();
    let tree = tree(&scratch);
    let out = scratch.dir("out");
    let image = out.join("x.esker");
    let mut unfinished = 0;
    for (case, old) in (0..2 * cases()).flat_map(|case| [(case, None), (case, Some(b"old"))]) {
        let level = level(case);
        let arguments = ["pack", text(&tree), "-o", text(&image), "-q", "--force", "-l", &level];
        let began = Instant::now();
        done(&esker(arguments));
        let (whole, took) = (only(&out).unwrap(), began.elapsed());
        match old {
            Some(old) => fs::write(&image, old).unwrap(),
            None => fs::remove_file(&image).unwrap(),
        }
        let mut packing = Command::new(ESKER);
        let mut packing = packing.args(arguments).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(took * case as u32 / (2 * cases()) as u32);
        packing.kill().unwrap();
        packing.wait().unwrap();
        let left = fs::read(&image).ok();
        if let Some(other) = beside(&out) {
            assert!(old.is_some() && left.as_deref() == old.map(|old| &old[..]), "it was in time");
            assert!(fs::read(other).unwrap() == whole, "less than the whole image");
        }
        match left {
            Some(left) if left == whole => {}
            left => {
                assert_eq!(left.as_deref(), old.map(|old| &old[..]), "something else");
                unfinished += 1;
            }
        }
    }
    assert!(unfinished > cases(), "few were killed before their end");
}

#[test]
fn what_a_killed_one_left_is_taken_away_by_the_next() {
    let scratch = Scratch::new();
    let (tree, out) = (tree(&scratch), scratch.dir("out"));
    fs::write(out.join("x.esker"), "old").unwrap();
    fs::write(out.join(".esker-7.new"), "a whole image of one that was killed").unwrap();
    done(&esker([
        "pack",
        text(&tree),
        "-o",
        text(&out.join("x.esker")),
        "-q",
        "--force",
        "-l",
        "1",
    ]));
    assert_ne!(only(&out).unwrap(), b"old");
}
