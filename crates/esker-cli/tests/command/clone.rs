//! Clones within a mount: all that there was, with the same blocks, and nothing where that cannot be.

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, UNIX_EPOCH};

use crate::common::lab::{Lab, fails, succeeds};
use crate::common::{can_mount, noise};
use serde_json::Value;

fn written(mnt: &str) -> (u64, u64) {
    succeeds(&["sync", mnt]);
    let all: Value = serde_json::from_str(&succeeds(&["stats", mnt, "--json"])).expect("JSON");
    let own = |key: &str| all["written"][key].as_u64().expect("a number");
    (own("blocks"), own("shared"))
}

fn tree(dir: &str) {
    fs::create_dir_all(format!("{dir}/sub/empty")).expect("made");
    for number in 0..40 {
        fs::write(format!("{dir}/sub/f{number}"), noise(number, 100 << 10)).expect("written");
    }
    let mut holes = fs::File::create(format!("{dir}/holes")).expect("made");
    holes.seek(SeekFrom::Start(3 << 20)).expect("sought");
    holes.write_all(&noise(99, 40_000)).expect("written");
    holes.set_len(9 << 20).expect("longer");
    holes.set_modified(UNIX_EPOCH + Duration::from_secs(1_234_567)).expect("set");
    fs::write(format!("{dir}/small"), "in its inode").expect("written");
    fs::hard_link(format!("{dir}/sub/f7"), format!("{dir}/again")).expect("linked");
    symlink("sub/f7", format!("{dir}/link")).expect("linked");
    rustix::fs::lsetxattr(
        format!("{dir}/small"),
        "user.note",
        b"of mine",
        rustix::fs::XattrFlags::empty(),
    )
    .expect("set");
    fs::set_permissions(format!("{dir}/sub/empty"), fs::Permissions::from_mode(0o2751))
        .expect("set");
    fs::set_permissions(format!("{dir}/small"), fs::Permissions::from_mode(0o4711)).expect("set");
}

fn same(one: &Path, other: &Path) {
    let (own, its) =
        (one.symlink_metadata().expect("there"), other.symlink_metadata().expect("there"));
    let told = |meta: &fs::Metadata| {
        let size = if meta.is_dir() { 0 } else { meta.size() };
        (meta.mode(), meta.uid(), meta.gid(), size, meta.mtime(), meta.mtime_nsec(), meta.nlink())
    };
    assert_eq!(told(&own), told(&its), "{}", one.display());
    if own.is_dir() {
        let names = |dir: &Path| {
            let entries = fs::read_dir(dir).expect("read");
            let mut names: Vec<_> = entries.map(|entry| entry.expect("read").file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(one), names(other));
        names(one).iter().for_each(|name| same(&one.join(name), &other.join(name)));
    } else if own.is_file() {
        assert!(
            fs::read(one).expect("read") == fs::read(other).expect("read"),
            "{}",
            one.display()
        );
        assert_eq!(own.blocks(), its.blocks(), "{}", one.display());
    } else {
        assert_eq!(fs::read_link(one).expect("read"), fs::read_link(other).expect("read"));
    }
}

/// A tree with everything in it, cloned, costs no block; what is written into the clone is nothing to the tree.
#[test]
fn a_clone_is_exact_and_writes_no_blocks() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["mnt"]);
    let (disk, mnt) = (lab.path("disk.vol"), lab.path("mnt"));
    succeeds(&["mkfs", &disk, "--size", "64M"]);
    succeeds(&["mount", &disk, &mnt]);
    let (tree_dir, copy) = (format!("{mnt}/tree"), format!("{mnt}/copy"));
    tree(&tree_dir);
    let before = written(&mnt);
    assert!(before.0 >= 40 * (100 << 10));
    let line = succeeds(&["clone", &tree_dir, &copy, "--json"]);
    let told: Value = serde_json::from_str(&line).expect("JSON");
    let counts = ["files", "directories", "symlinks", "hard_links"].map(|key| told[key].as_u64());
    assert_eq!(counts, [42, 3, 1, 1].map(Some), "{line}");
    let after = written(&mnt);
    assert!(after.0 - before.0 < 4096, "{} bytes of blocks", after.0 - before.0);
    assert!(after.1 - before.1 >= 40 * (100 << 10));
    same(Path::new(&tree_dir), Path::new(&copy));
    let linked = fs::metadata(format!("{copy}/again")).expect("there");
    assert_eq!(linked.ino(), fs::metadata(format!("{copy}/sub/f7")).expect("there").ino());
    let mut value = [0; 16];
    let len = rustix::fs::lgetxattr(format!("{copy}/small"), "user.note", &mut value[..]);
    assert_eq!(&value[..len.expect("there")], b"of mine");
    fs::write(format!("{copy}/sub/f3"), "changed").expect("written");
    succeeds(&["umount", &mnt]);
    succeeds(&["check", &disk]);
    succeeds(&["mount", &disk, &mnt]);
    let bytes = fs::read(format!("{tree_dir}/sub/f3")).expect("read");
    assert!(bytes == noise(3, 100 << 10), "the source is what it was");
    succeeds(&["clone", &format!("{tree_dir}/holes"), &format!("{mnt}/one")]);
    same(Path::new(&format!("{tree_dir}/holes")), Path::new(&format!("{mnt}/one")));
    fs::remove_dir_all(&tree_dir).expect("removed");
    succeeds(&["umount", &mnt]);
    succeeds(&["check", &disk]);
}

/// What only a snapshot has is cloned, and copied, with the blocks that it has; it stays when the snapshot goes, also
/// before it was written.
#[test]
fn what_a_snapshot_has_is_cloned_without_writing_it() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["mnt"]);
    let (disk, mnt) = (lab.path("disk.vol"), lab.path("mnt"));
    succeeds(&["mkfs", &disk, "--size", "64M"]);
    succeeds(&["mount", &disk, &mnt, "-o", "snapshots"]);
    let (tree_dir, copy, late) = ("tree", "copy", "late");
    let at = |path: &str| format!("{mnt}/{path}");
    tree(&at(tree_dir));
    succeeds(&["snapshot", "create", &mnt, "one"]);
    fs::remove_dir_all(at(tree_dir)).expect("removed");
    let then = at(".snapshots/one/tree");
    let before = written(&mnt);
    succeeds(&["clone", &then, &at(copy)]);
    let copied = fs::copy(format!("{then}/sub/f9"), at("f9")).expect("copied");
    assert_eq!(copied, 100 << 10);
    let after = written(&mnt);
    assert!(after.0 - before.0 < 4096, "{} bytes of blocks", after.0 - before.0);
    assert!(after.1 - before.1 >= 41 * (100 << 10), "{} bytes shared", after.1 - before.1);
    same(Path::new(&then), Path::new(&at(copy)));
    fs::write(at("copy/sub/f3"), "changed").expect("written");
    assert!(fs::read(format!("{then}/sub/f3")).expect("read") == noise(3, 100 << 10));
    succeeds(&["clone", &then, &at(late)]);
    succeeds(&["snapshot", "delete", &mnt, "one"]);
    for remounted in [false, true] {
        for number in (0..40).filter(|&number| number != 3) {
            for dir in [copy, late] {
                let bytes = fs::read(at(&format!("{dir}/sub/f{number}"))).expect("read");
                assert!(bytes == noise(number, 100 << 10), "{dir} {number}");
            }
        }
        assert!(fs::read(at("f9")).expect("read") == noise(9, 100 << 10));
        same(Path::new(&at("copy/holes")), Path::new(&at("late/holes")));
        succeeds(&["umount", &mnt]);
        succeeds(&["check", &disk]);
        if !remounted {
            succeeds(&["mount", &disk, &mnt]);
        }
    }
}

/// What cannot be cloned is told of by name, and nothing is left behind.
#[test]
fn what_cannot_be_cloned_is_refused() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["mnt"]);
    let (disk, mnt) = (lab.path("disk.vol"), lab.path("mnt"));
    succeeds(&["mkfs", &disk, "--size", "64M"]);
    succeeds(&["mount", &disk, &mnt]);
    fs::create_dir(format!("{mnt}/dir")).expect("made");
    let (dir, outside) = (format!("{mnt}/dir"), lab.path("outside"));
    fs::create_dir(&outside).expect("made");
    fails(&["clone", &dir, &format!("{dir}/in")], 2, &["lies in what is to be cloned"]);
    fails(&["clone", &dir, &dir], 2, &["lies in"]);
    fails(&["clone", &dir, &outside], 2, &["not in a mount of esker", "cp(1)"]);
    fails(&["clone", &outside, &format!("{mnt}/new")], 2, &["not in the mount of", "esker send"]);
    fails(&["clone", &format!("{mnt}/no"), &format!("{mnt}/new")], 1, &["cannot clone", "no"]);
    fs::write(format!("{mnt}/there"), "x").expect("written");
    fails(&["clone", &dir, &format!("{mnt}/there")], 2, &["there is something of that name"]);
    if Command::new("mountpoint").arg("-q").arg(&mnt).status().is_ok_and(|done| done.success()) {
        fs::create_dir(format!("{dir}/other")).expect("made");
        succeeds(&["mount", "mem:", &format!("{dir}/other")]);
        fails(&["clone", &dir, &format!("{mnt}/new")], 1, &["cannot clone", "other"]);
        succeeds(&["umount", &format!("{dir}/other")]);
    }
    let names = fs::read_dir(&mnt).expect("read").count();
    assert_eq!(names, 2, "nothing is left behind");
    succeeds(&["umount", &mnt]);
}
