//! Files out of images: as archives that their own programs understand, by patterns, and never outside of the target,
//! whoever is at work there.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::picture::picture;
use crate::common::{ESKER, Scratch, can_switch_user, done, errors, esker, text};
use rustix::fs::{CWD, RenameFlags};

/// A tree with whole seconds, which is all that these archives have.
fn tree(scratch: &Scratch) -> PathBuf {
    let tree = scratch.dir("tree");
    for dir in ["a", "a/b", "empty", "etc"] {
        fs::create_dir(tree.join(dir)).unwrap();
    }
    fs::write(tree.join("a/one"), "one\n".repeat(500_000)).unwrap();
    fs::write(tree.join("a/b/two.conf"), "two\n").unwrap();
    fs::write(tree.join("etc/x.conf"), "x\n").unwrap();
    fs::write(tree.join("nothing"), "").unwrap();
    fs::write(tree.join("ümläut é"), "letters").unwrap();
    symlink("a/one", tree.join("link")).unwrap();
    whole_seconds(&tree);
    tree
}

fn whole_seconds(tree: &Path) {
    touch(tree, &[]);
}

/// Gives a time to what find(1) finds.
fn touch(tree: &Path, tests: &[&str]) {
    let touch = ["-exec", "touch", "-h", "-d", "@1700000000", "{}", "+"];
    let find = Command::new("find").arg(tree).arg("-depth").args(tests).args(touch).status();
    assert!(find.unwrap().success());
}

fn packed(scratch: &Scratch, tree: &Path) -> PathBuf {
    let image = scratch.path("x.esker");
    done(&esker(["pack", text(tree), "-o", text(&image), "-l", "2"]));
    image
}

/// Both, without the top, which is the caller's own, and times of directories and links, which these programs do not
/// set.
#[track_caller]
fn same(before: &Path, after: &Path) {
    touch(after, &["(", "-type", "d", "-o", "-type", "l", ")"]);
    let (mut before, mut after) = (picture(before), picture(after));
    before.remove("");
    after.remove("");
    assert_eq!(before, after);
}

#[test]
fn cpio_is_what_cpio_understands() {
    let scratch = Scratch::new();
    let tree = tree(&scratch);
    for name in ["a/other", "last"] {
        fs::hard_link(tree.join("a/one"), tree.join(name)).unwrap();
    }
    let fifo = Command::new("mkfifo").arg(tree.join("pipe")).status().unwrap();
    assert!(fifo.success());
    whole_seconds(&tree);
    let image = packed(&scratch, &tree);
    let archive = scratch.path("x.cpio");
    done(&esker(["extract", text(&image), "--cpio", text(&archive)]));
    // Of three names one has the bytes.
    assert!(fs::metadata(&archive).unwrap().len() < 3_000_000);
    let out = scratch.dir("out");
    let mut cpio = Command::new("cpio");
    cpio.args(["-idm", "--quiet"]).current_dir(&out).stdin(fs::File::open(&archive).unwrap());
    done(&cpio.output().unwrap());
    same(&tree, &out);
}

#[test]
fn zip_is_what_unzip_understands() {
    let scratch = Scratch::new();
    let tree = tree(&scratch);
    let image = packed(&scratch, &tree);
    let archive = scratch.path("x.zip");
    // Through a pipe, which nobody can go back in.
    let piped = esker(["extract", text(&image), "--zip", "-"]);
    done(&piped);
    fs::write(&archive, &piped.stdout).unwrap();
    assert!(piped.stdout.len() < 100_000, "it is compressed");
    let out = scratch.dir("out");
    let mut unzip = Command::new("unzip");
    unzip.args(["-q", "-X", text(&archive), "-d", text(&out)]).env("LC_ALL", "C.UTF-8");
    done(&unzip.env("TZ", "UTC").output().unwrap());
    same(&tree, &out);
    let tested = Command::new("unzip").args(["-tq", text(&archive)]).output().unwrap();
    done(&tested);
}

#[test]
fn zip_has_room_for_more_names_and_bytes_than_its_old_form() {
    let scratch = Scratch::new();
    let tree = scratch.dir("tree");
    (0..66_000).for_each(|name| drop(fs::File::create(tree.join(name.to_string())).unwrap()));
    let large = fs::File::create(tree.join("large")).unwrap();
    large.set_len((4 << 30) + 1).unwrap();
    let (image, archive) = (packed(&scratch, &tree), scratch.path("x.zip"));
    done(&esker(["extract", text(&image), "--zip", text(&archive)]));
    let listed = Command::new("unzip").args(["-Z", "-l", text(&archive)]).output().unwrap();
    let listed = done(&listed);
    assert_eq!(listed.lines().filter(|line| line.starts_with("-rw")).count(), 66_001);
    assert!(listed.lines().any(|line| line.contains("4294967297") && line.ends_with("large")));
    let tested = Command::new("unzip").args(["-tq", text(&archive), "large", "65999"]).output();
    done(&tested.unwrap());
}

/// What is read stays, whatever it is replaced by and however that is called.
#[test]
fn what_is_extracted_from_is_not_replaced() {
    let scratch = Scratch::new();
    let tree = tree(&scratch);
    fs::write(tree.join("x.esker"), "a file that is called as the image is").unwrap();
    let image = packed(&scratch, &tree);
    let (was, link) = (fs::read(&image).unwrap(), scratch.path("link"));
    symlink(&image, &link).unwrap();
    for form in ["--tar", "--cpio", "--zip"] {
        for output in [&image, &link] {
            let refused = esker(["extract", text(&image), form, text(output), "--force"]);
            assert_eq!(refused.status.code(), Some(2), "{form}");
            assert!(errors(&refused).contains("that is what is read"), "{}", errors(&refused));
            assert!(fs::read(&image).unwrap() == was);
        }
    }
    let place = text(image.parent().unwrap()).to_owned();
    let partly = esker(["extract", text(&image), "-o", &place, "--force", "--continue"]);
    assert_eq!(partly.status.code(), Some(5), "{}", errors(&partly));
    assert!(errors(&partly).contains("what is extracted from is in its place"));
    assert!(fs::read(&image).unwrap() == was);
    assert!(scratch.path("etc/x.conf").exists(), "all else is there");
}

#[test]
fn an_archive_leaves_out_what_it_cannot_hold_and_says_so() {
    let scratch = Scratch::new();
    let tree = tree(&scratch);
    fs::File::create(tree.join("huge")).unwrap().set_len(5 << 30).unwrap();
    let fifo = Command::new("mkfifo").arg(tree.join("pipe")).status().unwrap();
    assert!(fifo.success());
    let image = packed(&scratch, &tree);
    for (form, name) in [("--cpio", "/huge"), ("--zip", "/pipe")] {
        let mut command = Command::new(ESKER);
        command.args(["extract", text(&image), form, "-"]);
        let output = command.args(["--pattern", name, "--pattern", "nothing"]);
        let output = output.stdout(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(5), "{}", errors(&output));
        assert!(errors(&output).contains(name), "{}", errors(&output));
    }
}

#[test]
fn patterns_choose_files_and_whole_directories() {
    let scratch = Scratch::new();
    let tree = tree(&scratch);
    let image = packed(&scratch, &tree);
    let names = |patterns: &[&str]| {
        let out = scratch.path("out");
        let _ = fs::remove_dir_all(&out);
        let mut all = vec!["extract", text(&image), "-o", text(&out)];
        patterns.iter().for_each(|pattern| all.extend(["--pattern", pattern]));
        done(&esker(&all));
        picture(&out).into_keys().filter(|name| !name.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(names(&["**.conf"]), ["a", "a/b", "a/b/two.conf", "etc", "etc/x.conf"]);
    assert_eq!(names(&["/a/b/", "noth*"]), ["a", "a/b", "a/b/two.conf", "nothing"]);
    assert_eq!(names(&["empty"]), ["empty"]);
    let nothing = esker(["extract", text(&image), "-o", "/nowhere", "--pattern", "no such"]);
    assert_eq!(nothing.status.code(), Some(1));
    assert!(errors(&nothing).contains("nothing in the image matches"));
}

/// Overwrites bytes in the middle of the data.
fn damage(image: &Path) {
    let mut bytes = fs::read(image).unwrap();
    bytes[600..700].fill(0x55);
    fs::write(image, bytes).unwrap();
}

#[test]
fn a_damaged_file_is_left_out_of_an_archive_on_request() {
    let scratch = Scratch::new();
    let tree = tree(&scratch);
    let image = scratch.path("x.esker");
    done(&esker(["pack", text(&tree), "-o", text(&image), "-l", "0"]));
    damage(&image);
    for form in ["--tar", "--cpio", "--zip"] {
        let archive = scratch.path("archive");
        let stops = esker(["extract", text(&image), form, text(&archive), "--force"]);
        assert_eq!(stops.status.code(), Some(6), "{form}");
        assert!(errors(&stops).contains("--continue"), "{}", errors(&stops));
        let goes = ["extract", text(&image), form, text(&archive), "--force", "--continue"];
        let goes = esker(goes);
        assert_eq!(goes.status.code(), Some(6), "{form}: {}", errors(&goes));
        assert!(errors(&goes).contains("/a/"), "{form}: {}", errors(&goes));
    }
    // What is left is an archive.
    let tested = Command::new("unzip").args(["-tq", text(&scratch.path("archive"))]).output();
    done(&tested.unwrap());
}

#[test]
fn a_directory_that_becomes_a_link_meanwhile_leads_nowhere() {
    let scratch = Scratch::new();
    let tree = scratch.dir("tree");
    for number in 0..40 {
        let dir = tree.join(format!("a/{number}"));
        fs::create_dir_all(&dir).unwrap();
        for file in 0..20 {
            fs::write(dir.join(format!("file{file}")), "data").unwrap();
            fs::hard_link(dir.join(format!("file{file}")), dir.join(format!("more{file}")))
                .unwrap();
        }
    }
    let image = packed(&scratch, &tree);
    let outside = scratch.dir("outside");
    let before = fs::metadata(&outside).unwrap();
    for round in 0..8 {
        let out = scratch.dir(&format!("out{round}"));
        fs::create_dir(out.join("a")).unwrap();
        let link = out.join("evil");
        symlink(&outside, &link).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let swap = |one: &Path, other: &Path| {
                        let _ =
                            rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
                    };
                    swap(&out.join("a"), &link);
                    for number in 0..40 {
                        swap(&out.join(format!("a/{number}")), &link);
                        swap(&out.join(format!("a/{number}")), &link);
                    }
                }
            });
            let all = ["extract", text(&image), "-o", text(&out), "--continue", "--force"];
            let _ = esker(all);
            stop.store(true, Ordering::Relaxed);
        });
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    let after = fs::metadata(&outside).unwrap();
    assert_eq!((after.mode(), after.mtime()), (before.mode(), before.mtime()));
}

#[test]
fn a_device_that_may_not_be_made_costs_nothing_else() {
    if !can_switch_user() {
        return;
    }
    let scratch = Scratch::new();
    let tree = tree(&scratch);
    let made = Command::new("mknod").arg(tree.join("null")).args(["c", "1", "3"]).status().unwrap();
    assert!(made.success());
    let image = packed(&scratch, &tree);
    let out = scratch.dir("out");
    for path in [scratch.path("."), out.clone()] {
        std::os::unix::fs::chown(&path, Some(65534), Some(65534)).unwrap();
    }
    let mut command = Command::new(ESKER);
    command.args(["extract", text(&image), "-o", text(&out), "--specials", "--continue"]);
    let output = command.uid(65534).gid(65534).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", errors(&output));
    assert!(errors(&output).contains("/null: Operation not permitted"), "{}", errors(&output));
    assert_eq!(fs::read(out.join("etc/x.conf")).unwrap(), b"x\n");
    assert!(!out.join("null").exists());
}
