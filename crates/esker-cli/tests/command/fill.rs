//! Volumes that are filled when they are made: from trees, archives, images and other volumes.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::picture::picture;
use crate::common::rich::rich_tree;
use crate::common::{Scratch, can_mount, done, esker, refused, text};

/// What is in a volume, by mounting it.
#[track_caller]
fn seen(volume: &Path, dir: &Path) -> std::collections::BTreeMap<String, String> {
    done(&esker(["mount", "-o", "ro", text(volume), text(dir)]));
    let seen = picture(dir);
    done(&esker(["umount", text(dir)]));
    assert!(done(&esker(["check", text(volume)])).contains("is whole"));
    seen
}

#[test]
fn a_volume_is_filled_from_whatever_holds_files() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (tree, dir) = (rich_tree(&scratch), scratch.dir("m"));
    let [image, volume, next] = ["x.esker", "one.vol", "next.vol"].map(|name| scratch.path(name));
    done(&esker(["pack", text(&tree), "-o", text(&image), "-l", "2"]));
    let fill = |from: &Path, target: &Path| {
        let words = ["mkfs", text(target), "--size", "64M", "--force", "--json", "--from"];
        let told = done(&esker(words.into_iter().chain([text(from)])));
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        told["filled"].clone()
    };
    let tally = fill(&tree, &volume);
    assert_eq!(seen(&volume, &dir), picture(&tree));
    for from in [&image, &volume] {
        assert_eq!(fill(from, &next), tally, "{from:?}");
        assert_eq!(seen(&next, &dir), picture(&tree), "{from:?}");
    }
    let tar = scratch.path("x.tar");
    let mut command = Command::new("tar");
    command.args(["--format=pax", "--xattrs", "--xattrs-include=*", "--acls", "-C", text(&tree)]);
    command.args(["-cf", text(&tar), "plain", "a"]);
    assert!(command.status().unwrap().success());
    fill(&tar, &next);
    let (found, before) = (seen(&next, &dir), picture(&tree));
    for name in ["plain", "a/big", "a/deep/er"] {
        assert_eq!(found[name], before[name], "{name}");
    }
}

#[test]
fn what_does_not_fit_leaves_no_volume() {
    let scratch = Scratch::new();
    let (tree, volume) = (scratch.dir("tree"), scratch.path("small.vol"));
    let noise: Vec<u8> =
        (0..4u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(tree.join("large"), noise).unwrap();
    let make = |from: &Path| {
        let words = ["mkfs", text(&volume), "--size", "2M", "--compress", "none", "--from"];
        esker(words.into_iter().chain([text(from)]))
    };
    refused(&make(&tree), 1, &["large"], &scratch.dir("m"));
    assert!(!volume.exists(), "what is of no use is left");
    refused(&make(&scratch.path("nowhere")), 4, &["nowhere"], &scratch.path("m"));
    assert!(!volume.exists());
}
