//! Images that are mounted together, upon a base, behind a header, or damaged.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::picture::picture;
use crate::common::{
    Scratch, can_mount, done, esker, is_alive, is_mounted, refused, text, within_seconds,
};
use serde_json::Value;

/// A tree of some blocks, and an image of it.
fn packed(scratch: &Scratch, name: &str, seed: u8, more: &[&str]) -> (PathBuf, PathBuf) {
    let tree = scratch.dir(name);
    fs::create_dir(tree.join("dir")).unwrap();
    for number in 0..40_u32 {
        let mut state = u32::from(seed) * 1000 + number;
        let bytes = (0..30_000).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        });
        fs::write(tree.join(format!("dir/{number}")), bytes.collect::<Vec<_>>()).unwrap();
    }
    let image = scratch.path(format!("{name}.esker"));
    let pack = ["pack", text(&tree), "-o", text(&image), "-l", "1", "--block-size", "128K"];
    done(&esker([&pack[..], more].concat()));
    (tree, image)
}

#[test]
fn one_process_serves_several_images() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let ((one, image), (other, second)) =
        (packed(&scratch, "one", 1, &[]), packed(&scratch, "other", 2, &[]));
    let (m, n) = (scratch.dir("m"), scratch.dir("n"));
    let both = ["mount", text(&image), text(&m), text(&second), text(&n)];
    let both = |more: &[&'static str]| esker([&both[..], more].concat());
    let report: Value = serde_json::from_str(&done(&both(&["--json", "-o", "cache=4M"]))).unwrap();
    let pid = report[0]["pid"].as_u64().unwrap();
    assert_eq!((&report[0]["pid"], report[1]["mounted"].as_str()), (&report[1]["pid"], n.to_str()));
    assert_eq!(picture(&one), picture(&m));
    assert_eq!(picture(&other), picture(&n));
    done(&esker(["umount", text(&m)]));
    assert!(is_alive(pid) && is_mounted(&n) && !is_mounted(&m));
    assert_eq!(picture(&other), picture(&n));
    done(&esker(["umount", text(&n)]));
    assert!(within_seconds(|| !is_alive(pid)));
    // A signal ends all, and what can be changed comes in numbers too.
    let said = done(&both(&["--overlay"]));
    assert_eq!(said.matches("changes in memory").count(), 2, "{said}");
    fs::write(n.join("new"), "new").unwrap();
    assert!(!m.join("new").exists());
    let pid = fs::read_dir("/proc").unwrap().flatten().find_map(|process| {
        let line = fs::read(process.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).into_owned();
        line.contains(text(&m)).then(|| process.file_name().to_str()?.parse::<i32>().ok())?
    });
    let pid = rustix::process::Pid::from_raw(pid.unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(within_seconds(|| !is_mounted(&m) && !is_mounted(&n)));
}

#[test]
fn several_images_need_a_directory_each() {
    let scratch = Scratch::new();
    let (_, image) = packed(&scratch, "tree", 1, &[]);
    let dir = scratch.dir("m");
    let mount = |more: &[&str]| esker([&["mount", text(&image), text(&dir)][..], more].concat());
    refused(&mount(&[text(&image)]), 2, &["a directory is missing"], &dir);
    refused(&mount(&["mem:", "/nowhere"]), 2, &["only images"], &dir);
    refused(&mount(&[text(&image), text(&dir)]), 2, &["two file systems for one"], &dir);
    let missing = scratch.path("missing.esker");
    let other = scratch.dir("n");
    refused(&mount(&[text(&missing), text(&other)]), 4, &["missing.esker"], &dir);
}

#[test]
fn a_base_is_found_wherever_it_is_said_to_be() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (tree, old) = packed(&scratch, "old", 1, &[]);
    fs::write(tree.join("new"), "new").unwrap();
    let new = scratch.path("new.esker");
    done(&esker(["pack", text(&tree), "-o", text(&new), "--base", text(&old)]));
    assert!(fs::metadata(&new).unwrap().len() < fs::metadata(&old).unwrap().len() / 4);
    let moved = scratch.dir("elsewhere").join("renamed.esker");
    fs::rename(&old, &moved).unwrap();
    let dir = scratch.dir("m");
    let mount = ["mount", text(&new), text(&dir)];
    refused(&esker(mount), 4, &["old.esker is missing", "--base"], &dir);
    let (_, stranger) = packed(&scratch, "stranger", 3, &[]);
    let with = |base: &Path| esker([&mount[..], &["--base", text(base)]].concat());
    refused(&with(&stranger), 4, &["old.esker is missing"], &dir);
    refused(&with(&tree), 4, &["a directory, not an image"], &dir);
    done(&with(&moved));
    assert_eq!(picture(&tree), picture(&dir));
    // So it is for the verbs that look without mounting.
    let out = scratch.path("out");
    let looks: [&[&str]; 4] = [
        &["cat", &format!("{}:/dir/7", text(&new))],
        &["extract", text(&new), "-o", text(&out), "--preserve"],
        &["check", text(&new)],
        &["info", text(&new)],
    ];
    for look in looks {
        assert_eq!(esker(look).status.code(), Some(4), "{look:?}");
        done(&esker([look, &["--base", text(&moved)]].concat()));
    }
    assert_eq!(picture(&tree.join("dir")), picture(&out.join("dir")));
    done(&esker(["umount", text(&dir)]));
    // Behind a header of somebody else the image is found by itself.
    let behind = scratch.path("behind");
    fs::write(&behind, [vec![b'#'; 100_001], fs::read(&moved).unwrap()].concat()).unwrap();
    done(&esker(["mount", text(&behind), text(&dir)]));
    fs::remove_file(tree.join("new")).unwrap();
    assert_eq!(fs::read(dir.join("dir/7")).unwrap(), fs::read(tree.join("dir/7")).unwrap());
}

/// Only those files cannot be read that lie in the damaged block, and the log names it once.
#[test]
fn damage_is_named_once_and_costs_what_it_hits() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (tree, image) = packed(&scratch, "tree", 1, &[]);
    let mut bytes = fs::read(&image).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&image, bytes).unwrap();
    let (dir, log) = (scratch.dir("m"), scratch.path("log"));
    done(&esker(["mount", text(&image), text(&dir), "--log", text(&log)]));
    let mut broken = 0;
    for _ in 0..3 {
        broken = 0;
        for number in 0..40 {
            let name = format!("dir/{number}");
            match fs::read(dir.join(&name)) {
                Ok(found) => assert!(found == fs::read(tree.join(&name)).unwrap()),
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(5), "{error}");
                    broken += 1;
                }
            }
        }
    }
    assert!((1..=12).contains(&broken), "{broken} files cannot be read");
    let told = fs::read_to_string(&log).unwrap();
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.contains("tree.esker: block ") && told.contains("cannot be read"), "{told}");
}

#[test]
fn an_image_behind_a_script_is_mounted() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (tree, image) = packed(&scratch, "tree", 7, &[]);
    let script = b"#!/bin/sh\necho an image follows\nexit\n".to_vec();
    let both = scratch.file("both", &[script, fs::read(&image).unwrap()].concat());
    let dir = scratch.dir("m");
    done(&esker(["mount", text(&both), text(&dir), "-o", "cache=1M"]));
    assert_eq!(picture(&tree), picture(&dir));
    done(&esker(["umount", text(&dir)]));
    assert!(within_seconds(|| !is_mounted(&dir)));
}
