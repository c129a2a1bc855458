//! Images from the command: packed, mounted, extracted, compared, damaged.

use std::cell::Cell;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::common::picture::picture;
use crate::common::rich::rich_tree;
use crate::common::{
    ESKER, Scratch, can_mount, can_switch_user, done, errors, esker, refused, text,
};
use esker_stone::Superblock;

/// Packs, quickly.
#[track_caller]
fn pack(tree: &Path, image: &Path, more: &[&str]) -> String {
    let all = [&["pack", text(tree), "-o", text(image), "-l", "2"], more].concat();
    done(&esker(all))
}

/// Packs a tree and mounts the image: both, the image and where it is shown.
#[track_caller]
fn mounted(scratch: &Scratch, tree: &Path) -> (PathBuf, PathBuf) {
    let (image, dir) = (scratch.path("x.esker"), scratch.dir("m"));
    pack(tree, &image, &[]);
    done(&esker(["mount", text(&image), text(&dir)]));
    (image, dir)
}

#[track_caller]
fn same(before: &Path, after: &Path) {
    let (before, after) = (picture(before), picture(after));
    for (name, words) in &before {
        assert_eq!(Some(words), after.get(name), "{name:?}");
    }
    assert_eq!(before.len(), after.len());
}

/// A small tree that any user can make.
fn small_tree(scratch: &Scratch) -> PathBuf {
    let tree = scratch.dir("tree");
    for dir in ["a", "a/b", "empty"] {
        fs::create_dir(tree.join(dir)).unwrap();
    }
    fs::write(tree.join("a/one"), "one\n".repeat(5000)).unwrap();
    fs::write(tree.join("a/b/two"), "two\n".repeat(7000)).unwrap();
    fs::write(tree.join("a/b/twin"), "two\n".repeat(7000)).unwrap();
    fs::write(tree.join("nothing"), "").unwrap();
    symlink("a/one", tree.join("link")).unwrap();
    fs::hard_link(tree.join("a/one"), tree.join("a/other")).unwrap();
    tree
}

#[test]
fn everything_comes_along_by_mount_extract_and_tar() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let tree = rich_tree(&scratch);
    let (image, dir) = mounted(&scratch, &tree);
    same(&tree, &dir);
    let refused = fs::write(dir.join("new"), "x").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    done(&esker(["umount", text(&dir)]));
    // Six terabytes of hole, and times and attributes that not every file system has.
    let out = scratch.dir("out");
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"]).arg(&out);
    assert!(mount.status().unwrap().success());
    done(&esker(["extract", text(&image), "-o", text(&out), "--preserve"]));
    let (mut before, mut after) = (picture(&tree), picture(&out));
    // The target itself is the caller's.
    before.remove("");
    after.remove("");
    assert_eq!(before, after);
    assert_eq!(done(&esker(["check", "--full", text(&image)])).matches("is whole").count(), 1);
}

#[test]
fn an_archive_is_what_tar_understands() {
    let scratch = Scratch::new();
    let tree = small_tree(&scratch);
    fs::write(tree.join("n".repeat(200)), "a long name").unwrap();
    fs::File::create(tree.join("hole")).unwrap().set_len(1 << 30).unwrap();
    let image = scratch.path("x.esker");
    pack(&tree, &image, &[]);
    let archive = scratch.path("x.tar");
    done(&esker(["extract", text(&image), "--tar", text(&archive)]));
    assert!(fs::metadata(&archive).unwrap().len() < 1 << 20);
    let out = scratch.dir("out");
    let tar = Command::new("tar").args(["-xpSf", text(&archive), "-C", text(&out)]).output();
    done(&tar.unwrap());
    same(&tree, &out);
}

#[test]
fn the_same_bytes_whatever_the_threads_and_the_memory() {
    let scratch = Scratch::new();
    let tree = small_tree(&scratch);
    let (one, other) = (scratch.path("one.esker"), scratch.path("other.esker"));
    pack(&tree, &one, &["--threads", "1", "--memory", "64M"]);
    pack(&tree, &other, &["--threads", "8"]);
    assert!(fs::read(&one).unwrap() == fs::read(&other).unwrap());
    assert_eq!(done(&esker(["diff", text(&one), text(&other)])), "");
}

#[test]
fn looking_into_an_image() {
    let scratch = Scratch::new();
    let tree = small_tree(&scratch);
    let image = scratch.path("x.esker");
    let report: serde_json::Value =
        serde_json::from_str(&pack(&tree, &image, &["--json"])).unwrap();
    assert_eq!((&report["files"], &report["directories"]), (&4.into(), &4.into()));
    assert_eq!(report["duplicate_bytes"], 28_000);
    let at = |path: &str| format!("{}:{path}", text(&image));
    assert_eq!(done(&esker(["ls", &at("/a")])), "b\none\nother\n");
    assert_eq!(done(&esker(["cat", &at("/a/b/two")])), "two\n".repeat(7000));
    assert_eq!(done(&esker(["find", text(&image), "--name", "tw*"])), "/a/b/twin\n/a/b/two\n");
    assert_eq!(done(&esker(["find", text(&image), "--type", "l"])), "/link\n");
    assert!(done(&esker(["ls", "-l", text(&image)])).contains("link -> a/one"));
    assert!(done(&esker(["tree", text(&image)])).contains("\n        b/\n"));
    assert!(done(&esker(["du", "-b", text(&image)])).contains("\t/a\n"));
    let stat = done(&esker(["stat", "--json", &at("/a/one")]));
    let stat: serde_json::Value = serde_json::from_str(&stat).unwrap();
    assert_eq!((&stat["size"], &stat["links"]), (&20_000.into(), &2.into()));
    for verb in ["ls", "find", "du", "tree", "info", "check"] {
        let lines = done(&esker([verb, "--json", text(&image)]));
        assert!(!lines.is_empty(), "{verb}");
        for line in lines.lines() {
            serde_json::from_str::<serde_json::Value>(line)
                .unwrap_or_else(|error| panic!("{verb}: {error}: {line}"));
        }
    }
}

#[test]
fn what_differs_is_named() {
    let scratch = Scratch::new();
    let tree = small_tree(&scratch);
    let (old, new) = (scratch.path("old.esker"), scratch.path("new.esker"));
    pack(&tree, &old, &[]);
    fs::write(tree.join("a/b/two"), "2").unwrap();
    fs::remove_file(tree.join("nothing")).unwrap();
    fs::write(tree.join("a/new"), "").unwrap();
    fs::set_permissions(tree.join("empty"), fs::Permissions::from_mode(0o700)).unwrap();
    fs::remove_file(tree.join("link")).unwrap();
    fs::create_dir(tree.join("link")).unwrap();
    pack(&tree, &new, &[]);
    let output = esker(["diff", "--no-times", text(&old), text(&new)]);
    assert_eq!(output.status.code(), Some(7), "{}", errors(&output));
    let told = String::from_utf8(output.stdout).unwrap();
    let mut lines: Vec<_> = told.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["+ /a/new", "- /nothing", "c /a/b/two", "m /empty", "t /link"]);
}

#[test]
fn filters_leave_out_and_take_in() {
    let scratch = Scratch::new();
    let tree = small_tree(&scratch);
    let image = scratch.path("x.esker");
    let rules = ["--exclude", "b/", "--include", "one", "--exclude", "/a/o*", "--owner", "7:8"];
    pack(&tree, &image, &[&rules[..], &["--time", "1000", "--umask", "077"]].concat());
    let found = done(&esker(["find", text(&image)]));
    assert_eq!(found, "/\n/a\n/a/one\n/empty\n/link\n/nothing\n");
    let line = done(&esker(["ls", "-l", &format!("{}:/a", text(&image))]));
    assert!(line.contains("    7     8 ") && line.contains("1970-01-01 00:16:40"), "{line}");
    assert!(line.starts_with("-rw-------"), "{line}");
}

#[test]
fn two_trees_stand_side_by_side() {
    let scratch = Scratch::new();
    let (one, other) = (scratch.dir("one"), scratch.dir("other"));
    fs::write(one.join("x"), "1").unwrap();
    fs::write(other.join("y"), "2").unwrap();
    let image = scratch.path("x.esker");
    done(&esker(["pack", text(&one), text(&other), "-o", text(&image)]));
    let found = done(&esker(["find", text(&image), "--type", "f"]));
    assert_eq!(found, "/one/x\n/other/y\n");
}

#[test]
fn what_cannot_be_packed_is_refused_by_name() {
    let scratch = Scratch::new();
    let tree = small_tree(&scratch);
    let image = scratch.path("x.esker");
    let nowhere = scratch.path("nowhere");
    let run = |arguments: &[&str]| esker([&["pack"], arguments].concat());
    refused(&run(&[text(&nowhere), "-o", text(&image)]), 4, &["nowhere"], &nowhere);
    let inside = tree.join("a/x.esker");
    let output = run(&[text(&tree), "-o", text(&inside)]);
    refused(&output, 2, &["lies inside", "a/x.esker"], &nowhere);
    fs::write(&image, "old").unwrap();
    refused(&run(&[text(&tree), "-o", text(&image)]), 2, &["exists", "--force"], &nowhere);
    let output = run(&[text(&tree), "-o", text(&image), "--force", "--memory", "1M"]);
    refused(&output, 2, &["memory", "--memory"], &nowhere);
    assert_eq!(fs::read(&image).unwrap(), b"old");
    refused(&run(&[text(&tree), "-o", "-"]), 2, &["standard output", "./-"], &nowhere);
    for bad in
        [["--codec", "zip"], ["--codec", "zstd:99"], ["--block-size", "1"], ["--level", "10"]]
    {
        let output = run(&[&[text(&tree), "-o", text(&image), "--force"][..], &bad].concat());
        refused(&output, 2, &[bad[1]], &nowhere);
    }
    done(&run(&[text(&tree), "-o", text(&image), "--force"]));
    let left: Vec<_> = fs::read_dir(scratch.path("")).unwrap().collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

/// What takes the place of a file is for those whom that was for.
#[test]
fn permissions_of_what_is_replaced_stay() {
    let scratch = Scratch::new();
    let tree = small_tree(&scratch);
    let [image, copy, page, tar] = ["x.esker", "y.esker", "x.html", "x.tar"].map(|name| {
        let path = scratch.file(name, b"");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        if can_switch_user() {
            std::os::unix::fs::chown(&path, Some(7), Some(8)).unwrap();
        }
        path
    });
    done(&esker(["pack", text(&tree), "-o", text(&image), "--force"]));
    done(&esker(["repack", text(&image), "-o", text(&copy), "--force"]));
    done(&esker(["report", text(&image), "-o", text(&page)]));
    done(&esker(["extract", text(&image), "--tar", text(&tar), "--force"]));
    for path in [image, copy, page, tar] {
        let meta = path.metadata().unwrap();
        assert!(meta.len() > 0);
        assert_eq!(meta.mode() & 0o777, 0o640, "{}", path.display());
        assert!(!can_switch_user() || (meta.uid(), meta.gid()) == (7, 8), "{}", path.display());
    }
}

#[test]
fn a_full_disk_leaves_the_old_output() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let disk = scratch.dir("disk");
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&disk);
    assert!(mount.status().unwrap().success());
    let tree = scratch.dir("tree");
    let random: Vec<u8> =
        (0..3_000_000u64).map(|n| (n.wrapping_mul(n) >> 13) as u8 ^ n as u8).collect();
    fs::write(tree.join("large"), random).unwrap();
    let image = disk.join("x.esker");
    fs::write(&image, "old").unwrap();
    let output = esker(["pack", text(&tree), "-o", text(&image), "--force", "-l", "0"]);
    refused(&output, 1, &["No space", "x.esker"], &scratch.path("none"));
    assert_eq!(fs::read(&image).unwrap(), b"old");
    assert_eq!(fs::read_dir(&disk).unwrap().count(), 1);
}

#[test]
fn what_is_no_image_is_refused_by_name() {
    let scratch = Scratch::new();
    let tree = small_tree(&scratch);
    let image = scratch.path("x.esker");
    pack(&tree, &image, &[]);
    let bytes = fs::read(&image).unwrap();
    let mut newer = bytes.clone();
    for at in [0, newer.len() - Superblock::SIZE] {
        let place = at..at + Superblock::SIZE;
        let mut block = Superblock::decode(&newer[place.clone()]).unwrap();
        block.version += 1;
        block.seal();
        newer[place].copy_from_slice(&block.encode());
    }
    let dir = scratch.dir("m");
    let cases: [(&str, Vec<u8>, i32, &str); 6] = [
        ("newer", newer, 4, "take a newer esker"),
        ("empty", Vec::new(), 4, "not an Esker image"),
        ("text", b"hello\n".repeat(300), 4, "not an Esker image"),
        ("short", bytes[..bytes.len() - 600].to_vec(), 6, "cut short"),
        ("head", bytes[..512].to_vec(), 6, ""),
        ("nothing", vec![0; 5000], 4, "not an Esker image"),
    ];
    for (name, bytes, status, words) in cases {
        let file = scratch.file(name, &bytes);
        for verb in ["ls", "info"] {
            refused(&esker([verb, text(&file)]), status, &[name, words], &dir);
        }
        if can_mount() {
            refused(&esker(["mount", text(&file), text(&dir)]), status, &[name, words], &dir);
        }
    }
    let missing = scratch.path("missing.esker");
    refused(&esker(["ls", text(&missing)]), 4, &["missing.esker"], &dir);
    refused(&esker(["ls", text(&tree)]), 4, &["directory"], &dir);
    let pipe = scratch.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for verb in ["ls", "check", "info"] {
        refused(&esker([verb, text(&pipe)]), 4, &["pipe", "neither a file"], &dir);
    }
    let place = format!("{}:/no/such", text(&image));
    refused(&esker(["cat", &place]), 1, &["/no/such", "no such file"], &dir);
}

/// Whoever meets an image without its end says whether something can be saved from it, and that is true.
#[test]
fn of_what_is_cut_short_is_told_what_is_left() {
    let scratch = Scratch::new();
    let (tree, image) = (small_tree(&scratch), scratch.path("x.esker"));
    pack(&tree, &image, &[]);
    let bytes = fs::read(&image).unwrap();
    let (mut saved, mut gone) = (0, 0);
    for cut in (1..bytes.len() - 512).step_by(97) {
        let file = scratch.file("cut", &bytes[..bytes.len() - cut]);
        let told = esker(["info", text(&file)]);
        assert_eq!(told.status.code(), Some(6));
        let out = scratch.path(format!("out{cut}"));
        let salvaged = esker(["extract", text(&file), "-o", text(&out), "--salvage"]);
        let has_some = fs::read_dir(&out).is_ok_and(|mut names| names.next().is_some());
        let said = errors(&told);
        assert!(said.contains("cut short"), "{cut}: {said}");
        let tar = errors(&esker(["extract", text(&file), "--tar", "-", "--salvage"]));
        assert!(!tar.contains(": : "), "{cut}: what is lost has a path: {tar}");
        let (left, none) = ("--salvage` tries what is left", "nothing can be saved from this");
        let right = if has_some { left } else { none };
        assert!(said.contains(right), "{cut}: {said} {}", errors(&salvaged));
        if has_some {
            saved += 1
        } else {
            gone += 1
        };
    }
    assert!(saved > 4 && gone > 4, "{saved} {gone}");
}

/// A byte in the middle of the block, changed.
fn damage(image: &Path) {
    let mut bytes = fs::read(image).unwrap();
    let data = u64::from_le_bytes(bytes[64..72].try_into().unwrap()) as usize;
    bytes[512 + data / 2] ^= 1;
    fs::write(image, bytes).unwrap();
}

#[test]
fn damage_costs_the_files_that_it_hits_and_is_named() {
    let scratch = Scratch::new();
    let tree = small_tree(&scratch);
    let image = scratch.path("x.esker");
    // Small blocks, so that the files are in several.
    pack(&tree, &image, &["--block-size", "16K", "--codec", "none"]);
    damage(&image);
    let output = esker(["check", text(&image)]);
    assert_eq!(output.status.code(), Some(6), "{}", errors(&output));
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("block ") && told.contains("/a/"), "{told}");
    let out = scratch.path("out");
    let output = esker(["extract", text(&image), "-o", text(&out), "--salvage"]);
    assert_eq!(output.status.code(), Some(6), "{}", errors(&output));
    let mut whole = 0;
    for name in ["a/one", "a/other", "a/b/two", "a/b/twin", "nothing"] {
        let (right, found) = (fs::read(tree.join(name)).unwrap(), fs::read(out.join(name)));
        match found {
            Ok(found) => {
                assert!(found == right, "{name} is wrong under its right name");
                whole += 1;
            }
            Err(_) => assert!(errors(&output).contains(name), "{name} is gone and not named"),
        }
    }
    assert!((1..5).contains(&whole), "{whole} files are whole: {}", errors(&output));
    let (told, mut spans) = (errors(&output), 0);
    for name in ["a/one", "a/b/two"] {
        let Ok(found) = fs::read(out.join(format!("{name}.damaged"))) else { continue };
        let line = told.lines().find(|line| line.contains(name)).unwrap();
        let words: Vec<_> = line.split(' ').collect();
        let word = words.iter().position(|word| *word == "bytes").unwrap();
        let number = |at: usize| words[at].trim_end_matches(',').parse::<usize>().unwrap();
        let (from, to) = (number(word + 1), number(word + 3));
        let right = fs::read(tree.join(name)).unwrap();
        assert!(found[..from] == right[..from] && found[to..] == right[to..], "{line}");
        assert!(from < to && found[from..to].iter().all(|&byte| byte == 0), "{line}");
        spans += 1;
    }
    assert!(spans > 0, "{told}");
    // An archive cannot hold half a file: it is left out, or there is none.
    let archive = scratch.path("x.tar");
    let words = ["cannot be read to its end", "--continue"];
    refused(&esker(["extract", text(&image), "--tar", text(&archive)]), 6, &words, &out);
    assert!(!archive.exists());
    if can_mount() {
        let dir = scratch.dir("m");
        done(&esker(["mount", text(&image), text(&dir)]));
        let failed = ["a/one", "a/b/two"].map(|name| fs::read(dir.join(name)).err());
        let failed: Vec<_> = failed.iter().flatten().map(std::io::Error::raw_os_error).collect();
        assert!(!failed.is_empty() && failed.iter().all(|&errno| errno == Some(5)), "{failed:?}");
        assert_eq!(fs::read(dir.join("nothing")).unwrap(), b"");
        done(&esker(["umount", text(&dir)]));
    }
}

#[test]
fn extraction_stays_inside_whatever_waits_there() {
    let scratch = Scratch::new();
    let tree = small_tree(&scratch);
    let image = scratch.path("x.esker");
    pack(&tree, &image, &[]);
    let outside = scratch.dir("outside");
    let victim = scratch.file("victim", b"safe");
    for force in [false, true] {
        let out = scratch.dir(if force { "forced" } else { "out" });
        fs::create_dir(out.join("a")).unwrap();
        // A directory that leads elsewhere, a file that does, a further name, a pipe that would hang.
        symlink(&outside, out.join("a/b")).unwrap();
        symlink(&victim, out.join("nothing")).unwrap();
        fs::hard_link(&victim, out.join("a/one")).unwrap();
        let fifo = Command::new("mkfifo").arg(out.join("link")).status().unwrap();
        assert!(fifo.success());
        let more: &[&str] = if force { &["--force"] } else { &["--continue"] };
        let output = esker([&["extract", text(&image), "-o", text(&out)], more].concat());
        assert_eq!(fs::read(&victim).unwrap(), b"safe");
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{}", errors(&output));
        if force {
            done(&output);
            assert!(fs::symlink_metadata(out.join("a/b")).unwrap().is_dir());
            assert_eq!(fs::read(out.join("a/one")).unwrap(), "one\n".repeat(5000).as_bytes());
            assert!(fs::symlink_metadata(out.join("link")).unwrap().is_symlink());
        } else {
            assert_eq!(output.status.code(), Some(5));
            for name in ["/a/b", "/nothing", "/a/one", "/link"] {
                assert!(errors(&output).contains(name), "{name}: {}", errors(&output));
            }
            assert!(fs::symlink_metadata(out.join("link")).unwrap().file_type().is_fifo());
        }
    }
    let link = scratch.path("target-link");
    symlink(&outside, &link).unwrap();
    let output = esker(["extract", text(&image), "-o", text(&link)]);
    assert!(!output.status.success() && fs::read_dir(&outside).unwrap().count() == 0);
}

#[test]
fn privileges_come_out_only_on_request() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let tree = scratch.dir("tree");
    fs::write(tree.join("tool"), "x").unwrap();
    fs::set_permissions(tree.join("tool"), fs::Permissions::from_mode(0o6755)).unwrap();
    std::os::unix::fs::chown(tree.join("tool"), Some(7), Some(8)).unwrap();
    fs::set_permissions(tree.join("tool"), fs::Permissions::from_mode(0o6755)).unwrap();
    let made = Command::new("mknod").arg(tree.join("null")).args(["c", "1", "3"]).status().unwrap();
    assert!(made.success());
    let image = scratch.path("x.esker");
    pack(&tree, &image, &[]);
    let out = scratch.path("out");
    let output = esker(["extract", text(&image), "-o", text(&out)]);
    assert_eq!(output.status.code(), Some(5));
    assert!(errors(&output).contains("/null") && !out.join("null").exists());
    let tool = fs::metadata(out.join("tool")).unwrap();
    assert_eq!((tool.mode() & 0o7777, tool.uid()), (0o755, 0));
    let all = scratch.path("all");
    done(&esker(["extract", text(&image), "-o", text(&all), "--preserve"]));
    let tool = fs::metadata(all.join("tool")).unwrap();
    assert_eq!((tool.mode() & 0o7777, tool.uid(), tool.gid()), (0o6755, 7, 8));
    assert!(fs::symlink_metadata(all.join("null")).unwrap().file_type().is_char_device());
}

#[test]
fn limits_stop_an_extraction() {
    let scratch = Scratch::new();
    let tree = small_tree(&scratch);
    let image = scratch.path("x.esker");
    pack(&tree, &image, &[]);
    let out = scratch.path("out");
    let run = |limit: [&str; 2]| {
        esker([&["extract", text(&image), "-o", text(&out), "--force"], &limit[..]].concat())
    };
    let output = run(["--max-bytes", "10K"]);
    assert_eq!(output.status.code(), Some(5));
    assert!(errors(&output).contains("--max-bytes"), "{}", errors(&output));
    let output = run(["--max-files", "2"]);
    assert!(errors(&output).contains("--max-files"), "{}", errors(&output));
    // What lies deeper is left out, and all else comes.
    fs::create_dir_all(tree.join("one/two/three")).unwrap();
    fs::write(tree.join("one/two/file"), "deep").unwrap();
    fs::write(tree.join("zeros"), vec![0; 64 << 20]).unwrap();
    pack(&tree, &image, &["--force"]);
    let shallow = scratch.path("shallow");
    let output = esker(["extract", text(&image), "-o", text(&shallow), "--max-depth", "2"]);
    assert_eq!(output.status.code(), Some(5));
    let said = errors(&output);
    assert!(said.contains("/one/two/three: deeper than --max-depth allows"), "{said}");
    assert!(said.contains("/one/two/file: deeper"), "{said}");
    assert!(shallow.join("one/two").is_dir() && !shallow.join("one/two/file").exists());
    assert!(shallow.join("zeros").exists());
    let tar = scratch.path("shallow.tar");
    let output = esker(["extract", text(&image), "--tar", text(&tar), "--max-depth", "1"]);
    assert_eq!(output.status.code(), Some(5));
    let said = errors(&output);
    assert!(said.contains("/one/two: deeper") && !said.contains("/one/two/"), "{said}");
    // So many times the image.
    assert!(fs::metadata(&image).unwrap().len() < 1 << 20);
    for way in [["-o", text(&out)], ["--tar", text(&tar)]] {
        let ratio = |times| {
            esker([&["extract", text(&image), "--force", "--max-ratio", times], &way[..]].concat())
        };
        let said = errors(&ratio("20"));
        assert!(said.contains("more bytes than --max-ratio allows"), "{said}");
        done(&ratio("20000000"));
    }
    fs::remove_dir_all(tree.join("one")).unwrap();
    // Holes are bytes of an archive that has none.
    fs::File::create(tree.join("hole")).unwrap().set_len(1 << 40).unwrap();
    pack(&tree, &image, &["--force"]);
    let old = scratch.file("old", b"an older archive");
    for form in ["--cpio", "--zip", "--tar"] {
        for limit in [["--max-bytes", "10K"], ["--max-files", "2"]] {
            let archive = [&["extract", text(&image), form, text(&old), "--force"], &limit[..]];
            refused(&esker(archive.concat()), 1, &["old", limit[0]], &scratch.path("no"));
        }
    }
    assert_eq!(fs::read(&old).unwrap(), b"an older archive");
}

#[test]
fn a_directory_that_is_made_is_like_the_one_it_comes_from() {
    let scratch = Scratch::new();
    let tree = small_tree(&scratch);
    fs::set_permissions(&tree, fs::Permissions::from_mode(0o700)).unwrap();
    let image = scratch.path("x.esker");
    pack(&tree, &image, &[]);
    let (made, there) = (scratch.path("made"), scratch.dir("there"));
    fs::set_permissions(&there, fs::Permissions::from_mode(0o711)).unwrap();
    for out in [&made, &there] {
        done(&esker(["extract", text(&image), "-o", text(out), "--preserve"]));
    }
    same(&tree, &made);
    assert_eq!(fs::metadata(&there).unwrap().mode() & 0o7777, 0o711, "it is the caller's");
}

#[test]
fn links_in_an_image_are_followed_within_it() {
    let scratch = Scratch::new();
    let tree = small_tree(&scratch);
    for (target, link) in
        [("a", "dir"), ("/dir/b", "a/up"), ("../../../a/b/two", "a/b/far"), ("loop", "loop")]
    {
        symlink(target, tree.join(link)).unwrap();
    }
    let image = scratch.path("x.esker");
    pack(&tree, &image, &[]);
    let at = |path: &str| format!("{}:{path}", text(&image));
    let two = "two\n".repeat(7000);
    for path in ["/dir/b/two", "/a/up/two", "/dir/up/two", "/a/b/far", "/dir/up/../b/far"] {
        assert_eq!(done(&esker(["cat", &at(path)])), two, "{path}");
    }
    assert!(done(&esker(["ls", &at("/dir/up")])).contains("twin"));
    assert!(done(&esker(["stat", &at("/dir/up")])).contains("symlink"));
    let out = scratch.path("out");
    refused(&esker(["cat", &at("/loop")]), 1, &["/loop", "symbolic links"], &out);
    refused(&esker(["cat", &at("/link/x")]), 1, &["/link/x", "not a directory"], &out);
    done(&esker(["extract", &at("/dir/up"), "-o", text(&out)]));
    assert_eq!(fs::read_to_string(out.join("twin")).unwrap(), two);
}

#[test]
fn a_file_that_changes_while_it_is_packed_is_named() {
    let scratch = Scratch::new();
    let tree = scratch.dir("tree");
    let log = tree.join("log");
    fs::write(&log, vec![b'x'; 40 << 20]).unwrap();
    let image = scratch.path("x.esker");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            use std::io::Write as _;
            let mut log = fs::File::options().append(true).open(&log).unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                log.write_all(b"more\n").unwrap();
                sleep(Duration::from_millis(1));
            }
        });
        let output = esker(["pack", text(&tree), "-o", text(&image), "-l", "1"]);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        output
    });
    assert_eq!(output.status.code(), Some(5), "{}", errors(&output));
    assert!(errors(&output).contains("log: it changed while it was read"), "{}", errors(&output));
    done(&esker(["check", "--full", text(&image)]));
    let size = done(&esker(["stat", "--json", &format!("{}:/log", text(&image))]));
    let size: serde_json::Value = serde_json::from_str(&size).unwrap();
    assert!(size["size"].as_u64().unwrap() >= 40 << 20);
}

/// Files of an image are read without a request to open each, and one to close it.
#[test]
fn files_of_an_image_need_no_opening() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let tree = small_tree(&scratch);
    let (_, dir) = mounted(&scratch, &tree);
    for _ in 0..5 {
        same(&tree, &dir);
    }
    let stats = done(&esker(["stats", text(&dir), "--json"]));
    let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
    let operations = stats["operations"].as_array().unwrap();
    let count = |name: &str| {
        let own = operations.iter().find(|own| own["operation"] == name);
        own.map_or(0, |own| own["count"].as_u64().unwrap())
    };
    assert!(count("read") >= 3, "{stats}");
    assert_eq!((count("open"), count("release")), (1, 0), "{stats}");
    assert!(count("getattr") < 5, "statx(2) is answered by what a listing told: {stats}");
    done(&esker(["umount", text(&dir)]));
}

/// Files of an image say when they were born if that was packed, and nothing instead of another time if it was not.
#[test]
fn files_of_an_image_are_born_where_it_was_packed() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (volume, image, dir) = (scratch.path("x.vol"), scratch.path("x.esker"), scratch.dir("m"));
    let tree = scratch.dir("tree"); // Long before its file, or births look like other times.
    let with_mount = |what: &Path, work: &dyn Fn()| {
        done(&esker(["mount", text(what), text(&dir)]));
        work();
        done(&esker(["umount", text(&dir)]));
    };
    let born = || dir.join("file").symlink_metadata().unwrap().created().ok();
    done(&esker(["mkfs", "--size", "16M", text(&volume)]));
    let first = Cell::new(None);
    with_mount(&volume, &|| {
        fs::write(dir.join("file"), "bytes").unwrap();
        sleep(Duration::from_millis(20));
        fs::write(dir.join("file"), "others").unwrap();
        fs::write(dir.join("second"), "bytes").unwrap();
        first.set(born());
    });
    assert!(first.get().is_some(), "a volume knows it");
    for (words, births) in [(&["--all-times"][..], first.get()), (&["--force"], None)] {
        pack(&volume, &image, words);
        with_mount(&image, &|| assert_eq!(born(), births));
    }
    fs::write(tree.join("file"), "bytes").unwrap();
    let there = tree.join("file").symlink_metadata().unwrap().created().ok();
    pack(&tree, &image, &["--all-times", "--force"]);
    with_mount(&image, &|| assert!(there.is_none() || born() == there));
}

#[test]
fn an_archive_streams_in_without_being_unpacked() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let tree = rich_tree(&scratch);
    fs::remove_file(tree.join("socket")).unwrap();
    let archive = scratch.path("x.tar");
    let mut tar = Command::new("tar");
    tar.args(["--format=pax", "--sort=name", "--xattrs", "--xattrs-include=*", "--acls", "-S"]);
    done(&tar.args(["-czf", text(&archive), "-C", text(&tree), "."]).output().unwrap());
    let (image, direct) = (scratch.path("x.esker"), scratch.path("direct.esker"));
    let mut packing = Command::new(ESKER);
    packing.args(["pack", "-", "-o", text(&image), "-l", "2"]);
    done(&packing.stdin(fs::File::open(&archive).unwrap()).output().unwrap());
    pack(&tree, &direct, &[]);
    assert_eq!(done(&esker(["diff", text(&direct), text(&image)])), "");
    let cut = fs::read(&archive).unwrap();
    let cut = scratch.file("cut.tar.gz", &cut[..cut.len() / 2]);
    let nothing = scratch.path("nothing.esker");
    let output = esker(["pack", text(&cut), "-o", text(&nothing)]);
    refused(&output, 4, &["cut.tar.gz", "nothing was packed"], &nothing);
    assert!(!nothing.exists());
}

#[test]
fn an_image_is_packed_again_with_other_choices() {
    let scratch = Scratch::new();
    let tree = small_tree(&scratch);
    let (old, new) = (scratch.path("old.esker"), scratch.path("new.esker"));
    pack(&tree, &old, &[]);
    done(&esker(["pack", text(&old), "-o", text(&new), "--codec", "xz", "--exclude", "twin"]));
    let output = esker(["diff", text(&old), text(&new)]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "- /a/b/twin\n");
    done(&esker(["check", "--full", text(&new)]));
}

#[test]
fn only_what_is_new_against_a_base_is_stored() {
    let scratch = Scratch::new();
    let tree = small_tree(&scratch);
    let random: Vec<u8> = (0..700_000u32)
        .flat_map(|n| n.wrapping_mul(0x9e37_79b9).to_le_bytes()[..3].to_vec())
        .collect();
    fs::write(tree.join("large"), &random).unwrap();
    let (old, new) = (scratch.path("old.esker"), scratch.path("new.esker"));
    pack(&tree, &old, &["--codec", "none"]);
    fs::write(tree.join("new"), "only here").unwrap();
    fs::rename(tree.join("large"), tree.join("moved")).unwrap();
    pack(&tree, &new, &["--codec", "none", "--base", text(&old)]);
    let size = |path: &Path| fs::metadata(path).unwrap().len();
    assert!(size(&old) > 2_000_000 && size(&new) < 10_000, "{} {}", size(&old), size(&new));
    assert_eq!(done(&esker(["cat", &format!("{}:/new", text(&new))])), "only here");
    let out = scratch.path("out");
    done(&esker(["extract", text(&new), "-o", text(&out)]));
    assert!(fs::read(out.join("moved")).unwrap() == random);
    done(&esker(["check", "--full", text(&new)]));
    assert!(done(&esker(["info", text(&new)])).contains("base       old.esker"));
    // What is borrowed is checked too, and what is not needed is not.
    let whole = fs::read(&old).unwrap();
    let needed = whole.windows(64).position(|bytes| bytes == &random[..64]).unwrap();
    let mut damaged = whole.clone();
    damaged[needed] ^= 1;
    fs::write(&old, damaged).unwrap();
    let checked = esker(["check", text(&new)]);
    assert_eq!(checked.status.code(), Some(6));
    let told = String::from_utf8_lossy(&checked.stdout);
    assert!(told.contains("of the base image ") && told.contains("/moved: "), "{told}");
    assert!(!told.contains("/new"), "{told}");
    fs::write(&old, whole).unwrap();
    // Neither of these may replace what it needs.
    for output in [&old, &new] {
        let replace = ["-o", text(output), "--force"];
        let packed = ["pack", text(&tree), "--base", text(output)];
        refused(&esker([&packed[..], &replace].concat()), 2, &["its own base"], &out);
    }
    let renewed = ["repack", text(&new), "--metadata-only", "-o", text(&old), "--force"];
    refused(&esker(renewed), 2, &["its own base"], &out);
    done(&esker(["check", "--full", text(&new)]));
    // Under another name beside the image it is found by what it is called inside.
    fs::rename(&old, scratch.path("renamed.esker")).unwrap();
    assert_eq!(done(&esker(["cat", &format!("{}:/nothing", text(&new))])), "");
    let elsewhere = scratch.dir("elsewhere").join("old.esker");
    fs::rename(scratch.path("renamed.esker"), &elsewhere).unwrap();
    done(&esker(["ls", text(&new), "--base", text(&elsewhere)]));
    refused(&esker(["ls", text(&new)]), 4, &["old.esker", "missing"], &out);
    pack(&tree, &old, &[]);
    refused(&esker(["ls", text(&new)]), 4, &["old.esker", "another one"], &out);
}
