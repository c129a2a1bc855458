//! Images that can be changed: memory above them takes what changes, and they stay as they are.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use crate::common::picture::picture;
use crate::common::rich::rich_tree;
use crate::common::{Scratch, can_mount, done, esker, refused, text, within_seconds};

#[track_caller]
fn same(before: &BTreeMap<String, String>, after: &Path) {
    let after = picture(after);
    for (name, words) in before {
        assert_eq!(Some(words), after.get(name), "{name:?}");
    }
    assert_eq!(before.len(), after.len());
}

fn tree(scratch: &Scratch) -> std::path::PathBuf {
    let tree = scratch.dir("tree");
    for dir in ["a", "a/b", "empty", "full"] {
        fs::create_dir(tree.join(dir)).unwrap();
    }
    fs::write(tree.join("a/large"), vec![7; 3 << 20]).unwrap();
    fs::write(tree.join("a/b/two"), "two\n".repeat(7000)).unwrap();
    fs::write(tree.join("gone"), "gone").unwrap();
    (0..100).for_each(|at| fs::write(tree.join(format!("full/{at}")), [at; 99]).unwrap());
    symlink("a/large", tree.join("link")).unwrap();
    fs::hard_link(tree.join("a/large"), tree.join("other")).unwrap();
    tree
}

/// Everything that can happen to a file or a name, on a tree that nobody watches.
fn change(root: &Path) {
    let at = |name: &str| root.join(name);
    let large = fs::File::options().write(true).open(at("other")).unwrap();
    large.write_all_at(b"in the middle", 1 << 20).unwrap();
    large.set_len(2 << 20).unwrap();
    fs::remove_file(at("gone")).unwrap();
    fs::write(at("gone"), "here again, and other").unwrap();
    fs::remove_dir_all(at("full")).unwrap();
    fs::create_dir(at("full")).unwrap();
    fs::write(at("full/7"), "seven").unwrap();
    // A directory moves with what is in it, and below itself nothing is copied.
    fs::rename(at("a"), at("empty/moved")).unwrap();
    fs::write(at("empty/moved/b/new"), vec![3; 70_000]).unwrap();
    fs::rename(at("link"), at("empty/moved/b/two")).unwrap();
    fs::set_permissions(at("empty/moved/b"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::hard_link(at("other"), at("third")).unwrap();
    rustix::fs::setxattr(at("other"), "user.colour", b"red", rustix::fs::XattrFlags::empty())
        .unwrap();
    let from = fs::File::open(at("empty/moved/large")).unwrap();
    let to = fs::File::create(at("copy")).unwrap();
    std::io::copy(&mut &from, &mut &to).unwrap();
}

#[test]
fn changes_are_seen_and_kept_by_packing_the_mount() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let tree = tree(&scratch);
    let (image, again) = (scratch.path("x.esker"), scratch.path("again.esker"));
    done(&esker(["pack", text(&tree), "-o", text(&image), "-l", "2"]));
    let before = fs::read(&image).unwrap();
    let dir = scratch.dir("m");
    let said = done(&esker(["mount", text(&image), text(&dir), "--overlay", "-o", "size=64M"]));
    assert!(said.contains("with up to 64.0 MiB of changes in memory"), "{said}");
    same(&picture(&tree), &dir);
    change(&dir);
    // The same on the tree itself: times of what was made are of either's making.
    change(&tree);
    let timeless = |root: &Path| -> BTreeMap<String, String> {
        let word = |words: String| {
            words
                .split(' ')
                .filter(|word| !word.starts_with("mtime="))
                .collect::<Vec<_>>()
                .join(" ")
        };
        picture(root).into_iter().map(|(name, words)| (name, word(words))).collect()
    };
    assert_eq!(timeless(&tree), timeless(&dir));
    let (one, other) = (dir.join("other"), dir.join("empty/moved/large"));
    assert_eq!(fs::metadata(one).unwrap().ino(), fs::metadata(other).unwrap().ino());
    done(&esker(["pack", text(&dir), "-o", text(&again), "-l", "2"]));
    let changed = picture(&dir);
    done(&esker(["umount", text(&dir)]));
    assert!(before == fs::read(&image).unwrap(), "the image was changed");
    done(&esker(["mount", text(&again), text(&dir)]));
    same(&changed, &dir);
    done(&esker(["umount", text(&dir)]));
    done(&esker(["mount", text(&image), text(&dir), "-o", "overlay,mode=1777"]));
    assert_eq!(fs::read(dir.join("gone")).unwrap(), b"gone");
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o7777, 0o1777);
}

/// Devices, pipes, holes, lists, names of any bytes: all is there, and all can be brought up.
#[test]
fn everything_can_be_brought_up() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let tree = rich_tree(&scratch);
    let image = scratch.path("x.esker");
    done(&esker(["pack", text(&tree), "-o", text(&image), "-l", "2"]));
    let dir = scratch.dir("m");
    done(&esker(["mount", text(&image), text(&dir), "--overlay"]));
    let before = picture(&tree);
    same(&before, &dir);
    // Another owner and back moves everything up.
    for (uid, gid) in [("1", "1"), ("0", "0")] {
        let mut chown = std::process::Command::new("chown");
        let status = chown.args(["-hR", &format!("{uid}:{gid}")]).arg(&dir).status().unwrap();
        assert!(status.success());
    }
    let (mut before, mut after) = (before, picture(&dir));
    for picture in [&mut before, &mut after] {
        for words in picture.values_mut() {
            // chown(2) takes set-id bits and capabilities, and owners are what was changed.
            let word = |word: &&str| {
                !["mode=", "owner=", "security."].iter().any(|start| word.starts_with(start))
            };
            *words = words.split(' ').filter(word).collect::<Vec<_>>().join(" ");
        }
    }
    assert_eq!(before, after);
}

/// The mount is there at once, and soon the image is let go of: then it may go.
#[test]
fn memory_fills_from_an_image_while_it_is_used() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let tree = rich_tree(&scratch);
    let image = scratch.path("x.esker");
    done(&esker(["pack", text(&tree), "-o", text(&image), "-l", "2"]));
    let dir = scratch.dir("m");
    let from = ["mount", "mem:", text(&dir), "--from", text(&image)];
    let small = esker([&from[..], &["-o", "size=1M"]].concat());
    refused(&small, 1, &["3.0 MiB", "choose a larger -o size="], &dir);
    let report = done(&esker([&from[..], &["--json"]].concat()));
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    fs::write(dir.join("new"), "new").unwrap();
    let open = format!("/proc/{}/fd", report["pid"]);
    let holds = || {
        let files = fs::read_dir(&open).unwrap().flatten();
        files.filter_map(|file| fs::read_link(file.path()).ok()).any(|path| path == image)
    };
    assert!(within_seconds(|| !holds()), "the image stays in use");
    fs::write(&image, "nothing").unwrap();
    fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
    fs::remove_file(dir.join("new")).unwrap();
    let mut before = picture(&tree);
    before.remove("");
    let mut after = picture(&dir);
    after.remove("");
    assert_eq!(before, after);
}

#[test]
fn an_overlay_needs_an_image() {
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    let output = esker(["mount", "mem:", text(&dir), "--overlay"]);
    refused(&output, 2, &["--overlay is only for images"], &dir);
    let none = scratch.file("none", b"no image");
    let output = esker(["mount", text(&none), text(&dir), "-o", "overlay"]);
    refused(&output, 4, &["not an Esker image"], &dir);
}
