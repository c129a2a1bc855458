//! Snapshots in the root directory of a mount, on request: they come and go, show what was, and cannot be changed.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use crate::common::can_mount;
use crate::common::lab::{Lab, fails, succeeds};
use rustix::fs::{CWD, FallocateFlags, RenameFlags, SeekFrom as Seek, XattrFlags};
use rustix::io::Errno;

/// A volume that is mounted with its snapshots.
struct Mounted {
    lab: Lab,
    disk: String,
    mnt: String,
}

impl Mounted {
    fn new() -> Self {
        let lab = Lab::new(&["mnt", "copy"]);
        let (disk, mnt) = (lab.path("disk.vol"), lab.path("mnt"));
        succeeds(&["mkfs", &disk, "--size", "64M"]);
        succeeds(&["mount", &disk, &mnt, "-o", "snapshots"]);
        Self { lab, disk, mnt }
    }

    fn at(&self, path: &str) -> String {
        format!("{}/{path}", self.mnt)
    }

    fn create(&self, name: &str) {
        succeeds(&["snapshot", "create", &self.mnt, name]);
    }

    fn delete(&self, name: &str) {
        succeeds(&["snapshot", "delete", &self.mnt, name]);
    }

    /// The names in a directory of the mount.
    fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.at(path)).expect("a directory");
        let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("text");
        let mut names: Vec<_> = entries.map(|entry| name(entry.expect("an entry"))).collect();
        names.sort();
        names
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).expect("a file")
    }

    fn unmount_and_check(&self) {
        succeeds(&["umount", &self.mnt]);
        succeeds(&["check", &self.disk]);
    }
}

/// What is the same in both, by name, content, attributes.
fn assert_same(one: &str, two: &str) {
    let answer = Command::new("diff").args(["-r", "--no-dereference", one, two]).output();
    let answer = answer.expect("diff(1) runs");
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stdout));
}

/// Something of every kind.
fn fill(dir: &str) {
    fs::create_dir_all(format!("{dir}/d/deep")).expect("made");
    fs::write(format!("{dir}/d/deep/f"), "as it was").expect("written");
    fs::write(format!("{dir}/large"), vec![7; 3_000_000]).expect("written");
    fs::hard_link(format!("{dir}/large"), format!("{dir}/d/link")).expect("linked");
    symlink("d/deep/f", format!("{dir}/symlink")).expect("linked");
    rustix::fs::mknodat(
        CWD,
        format!("{dir}/fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .expect("made");
    let mut sparse = File::create(format!("{dir}/sparse")).expect("made");
    sparse.seek(SeekFrom::Start(8 << 20)).expect("sought");
    sparse.write_all(b"behind a hole").expect("written");
    let attribute = XattrFlags::empty();
    rustix::fs::setxattr(format!("{dir}/large"), "user.a", b"value", attribute).expect("set");
    fs::create_dir(format!("{dir}/many")).expect("made");
    for number in 0..3000 {
        File::create(format!("{dir}/many/{number}")).expect("made");
    }
}

/// All that `fill` has made.
fn assert_filled(dir: &str) {
    assert_eq!(fs::read_to_string(format!("{dir}/symlink")).expect("read"), "as it was");
    assert_eq!(fs::read(format!("{dir}/d/link")).expect("read"), vec![7; 3_000_000]);
    let (one, two) = (format!("{dir}/large"), format!("{dir}/d/link"));
    let (one, two) = (fs::metadata(one).expect("there"), fs::metadata(two).expect("there"));
    assert_eq!((one.ino(), one.nlink()), (two.ino(), 2));
    assert!(fs::metadata(format!("{dir}/fifo")).expect("there").file_type().is_fifo());
    let sparse = File::open(format!("{dir}/sparse")).expect("opened");
    assert_eq!(rustix::fs::seek(&sparse, Seek::Hole(0)), Ok(0));
    assert!(rustix::fs::seek(&sparse, Seek::Data(0)).expect("data") > 4 << 20);
    let mut value = [0; 16];
    let len = rustix::fs::getxattr(format!("{dir}/large"), "user.a", &mut value[..]);
    assert_eq!(&value[..len.expect("an attribute")], b"value");
    assert_eq!(fs::read_dir(format!("{dir}/many")).expect("listed").count(), 3000);
}

#[test]
fn snapshots_show_what_was() {
    if !can_mount() {
        return;
    }
    let own = Mounted::new();
    fill(&own.mnt);
    own.create("one");
    let one = own.at(".snapshots/one");
    assert_filled(&one);
    assert_same(&format!("{one}/d"), &own.at("d"));
    assert_same(&format!("{one}/many"), &own.at("many"));
    let live = fs::metadata(own.at("large")).expect("there").ino();
    let then = fs::metadata(format!("{one}/large")).expect("there");
    assert_ne!(live, then.ino(), "the kernel would take one for the other");
    assert_eq!(then.dev(), fs::metadata(&own.mnt).expect("there").dev());
    assert!(!own.names("").contains(&".snapshots".to_owned()), "it is not listed");
    // Up and down again.
    let up = fs::metadata(format!("{one}/..")).expect("there").ino();
    assert_eq!(up, fs::metadata(own.at(".snapshots")).expect("there").ino());
    let above = fs::metadata(own.at(".snapshots/..")).expect("there").ino();
    assert_eq!(above, fs::metadata(&own.mnt).expect("there").ino());

    fs::write(own.at("d/deep/f"), "as it is").expect("written");
    fs::remove_file(own.at("large")).expect("removed");
    fs::remove_dir_all(own.at("many")).expect("removed");
    assert_filled(&one);
    // Out of a snapshot, with the calls that would share what is copied, and with tools.
    fs::copy(format!("{one}/large"), own.at("back")).expect("copied");
    assert_eq!(fs::read(own.at("back")).expect("read"), vec![7; 3_000_000]);
    let copy = own.lab.path("copy/of");
    let done = Command::new("cp").args(["-a", &one, &copy]).status().expect("cp(1) runs");
    assert!(done.success());
    assert_filled(&copy);
    own.unmount_and_check();

    succeeds(&["mount", &own.disk, &own.mnt, "-o", "ro,snapshots"]);
    assert_filled(&one);
    assert_eq!(own.text("d/deep/f"), "as it is");
    own.unmount_and_check();
    succeeds(&["mount", &own.disk, &own.mnt]);
    assert!(!Path::new(&own.at(".snapshots")).exists(), "nobody asked for it");
    own.unmount_and_check();
}

#[test]
fn snapshots_come_and_go() {
    if !can_mount() {
        return;
    }
    let own = Mounted::new();
    assert!(own.names(".snapshots").is_empty());
    assert!(!Path::new(&own.at(".snapshots/one")).exists());
    let there = File::open(own.at(".snapshots")).expect("opened");
    fs::write(own.at("f"), vec![1; 1 << 20]).expect("written");
    own.create("one");
    fs::write(own.at("f"), vec![2; 1 << 20]).expect("written");
    assert_eq!(own.names(".snapshots"), ["one"]);
    let mut held = File::open(own.at(".snapshots/one/f")).expect("opened");
    own.create("two");
    assert_eq!(own.names(".snapshots"), ["one", "two"]);
    own.delete("one");
    assert_eq!(own.names(".snapshots"), ["two"]);
    assert!(!Path::new(&own.at(".snapshots/one")).exists());
    // Of the same name, and another one.
    fs::write(own.at("f"), vec![3; 1 << 20]).expect("written");
    own.create("one");
    assert_eq!(fs::read(own.at(".snapshots/one/f")).expect("read"), vec![3; 1 << 20]);
    assert_eq!(fs::read(own.at(".snapshots/two/f")).expect("read"), vec![2; 1 << 20]);
    let mut bytes = Vec::new();
    match held.read_to_end(&mut bytes) {
        Ok(_) => panic!("nobody has these any more: {} bytes", bytes.len()),
        Err(error) => assert_eq!(Errno::from_io_error(&error), Some(Errno::STALE)),
    }
    assert!(bytes.iter().all(|&byte| byte == 1), "bytes of something else");
    assert_eq!(there.metadata().expect("there").nlink(), 4);
    drop((held, there));
    own.unmount_and_check();
}

#[test]
fn many_are_looked_at() {
    if !can_mount() {
        return;
    }
    let own = Mounted::new();
    for number in 0..60 {
        fs::write(own.at("f"), format!("{number}")).expect("written");
        own.create(&format!("s{number}"));
    }
    assert_eq!(own.names(".snapshots").len(), 60);
    for round in 0..3 {
        for number in (0..60).filter(|number| number % (round + 1) == 0) {
            assert_eq!(own.text(&format!(".snapshots/s{number}/f")), format!("{number}"));
        }
    }
    own.unmount_and_check();
}

fn errno<T>(done: std::io::Result<T>) -> Option<Errno> {
    done.err().and_then(|error| Errno::from_io_error(&error))
}

#[test]
fn nothing_in_them_changes() {
    if !can_mount() {
        return;
    }
    let own = Mounted::new();
    fs::create_dir(own.at("d")).expect("made");
    fs::write(own.at("f"), "as it was").expect("written");
    own.create("one");
    let (one, shelf) = (own.at(".snapshots/one"), own.at(".snapshots"));
    let file = format!("{one}/f");
    let refused = Some(Errno::ROFS);
    assert_eq!(errno(OpenOptions::new().write(true).open(&file)), refused);
    assert_eq!(errno(OpenOptions::new().read(true).append(true).open(&file)), refused);
    assert_eq!(errno(File::create(&file)), refused);
    assert_eq!(errno(File::create(format!("{one}/new"))), refused);
    assert_eq!(errno(File::create(format!("{shelf}/new"))), refused);
    assert_eq!(errno(fs::create_dir(format!("{shelf}/new"))), refused);
    assert_eq!(errno(fs::create_dir(format!("{one}/d/new"))), refused);
    assert_eq!(errno(symlink("f", format!("{one}/new"))), refused);
    assert_eq!(errno(fs::remove_file(&file)), refused);
    assert_eq!(errno(fs::remove_dir(format!("{one}/d"))), refused);
    assert_eq!(errno(fs::rename(&file, format!("{one}/g"))), refused);
    assert_eq!(errno(fs::rename(&file, own.at("g"))), refused);
    assert_eq!(errno(fs::rename(own.at("f"), format!("{one}/g"))), refused);
    assert_eq!(errno(fs::rename(&one, format!("{shelf}/two"))), refused);
    assert_eq!(errno(fs::rename(&shelf, own.at("elsewhere"))), refused);
    assert_eq!(errno(fs::hard_link(&file, own.at("g"))), refused);
    assert_eq!(errno(fs::hard_link(own.at("f"), format!("{one}/g"))), refused);
    let swap = RenameFlags::EXCHANGE;
    assert_eq!(rustix::fs::renameat_with(CWD, &file, CWD, own.at("f"), swap), Err(Errno::ROFS));
    assert_eq!(errno(fs::set_permissions(&file, fs::Permissions::from_mode(0o600))), refused);
    let attribute = XattrFlags::empty();
    assert_eq!(rustix::fs::setxattr(&file, "user.a", b"v", attribute), Err(Errno::ROFS));
    let read = File::open(&file).expect("opened");
    let fallocated = rustix::fs::fallocate(&read, FallocateFlags::empty(), 0, 4096);
    assert_eq!(fallocated, Err(Errno::BADF));
    drop(read);
    assert_eq!(errno(OpenOptions::new().write(true).truncate(true).open(&file)), refused);
    let nameless = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR;
    let made = rustix::fs::openat(CWD, &one, nameless, rustix::fs::Mode::RWXU);
    assert_eq!(made.err(), Some(Errno::ROFS));
    assert_eq!(fs::create_dir(&shelf).map_err(|error| error.kind()), Err(ErrorKind::AlreadyExists));
    assert!(fs::remove_dir(&shelf).is_err());
    assert_eq!(own.text(".snapshots/one/f"), "as it was");
    assert_eq!(own.names(".snapshots/one"), ["d", "f"]);
    own.unmount_and_check();
}

#[test]
fn a_volume_on_an_image_shows_its_snapshots() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["tree", "mnt"]);
    let (tree, disk, mnt) = (lab.path("tree"), lab.path("disk.vol"), lab.path("mnt"));
    let image = lab.path("tree.esker");
    fill(&tree);
    succeeds(&["pack", &tree, "-o", &image]);
    succeeds(&["mkfs", &disk, "--size", "64M", "--base", &image]);
    succeeds(&["mount", &disk, &mnt, "-o", &format!("snapshots,base={image}")]);
    succeeds(&["snapshot", "create", &mnt, "one"]);
    fs::write(format!("{mnt}/large"), "short").expect("written");
    fs::remove_dir_all(format!("{mnt}/many")).expect("removed");
    let then = format!("{mnt}/.snapshots/one");
    assert_filled(&then);
    // What comes from the image is named there once more.
    let shared = || {
        succeeds(&["sync", &mnt]);
        let all = succeeds(&["stats", &mnt, "--json"]);
        let all: serde_json::Value = serde_json::from_str(&all).expect("JSON");
        all["written"]["shared"].as_u64().expect("a number")
    };
    let before = shared();
    succeeds(&["clone", &format!("{then}/large"), &format!("{mnt}/again")]);
    assert!(shared() - before >= 3_000_000);
    succeeds(&["snapshot", "delete", &mnt, "one"]);
    assert_eq!(fs::read(format!("{mnt}/again")).expect("read"), vec![7; 3_000_000]);
    succeeds(&["umount", &mnt]);
    succeeds(&["check", &disk]);
}

#[test]
fn what_cannot_be_is_told_why() {
    if !can_mount() {
        return;
    }
    let own = Mounted::new();
    own.create("one");
    let (then, copy) = (format!("{}@one", own.disk), own.lab.path("copy"));
    let place = own.at(".snapshots/one");
    fails(&["mount", &then, &copy], 1, &["is mounted on", &format!("it is at {place}")]);
    fails(&["snapshot", "mount", &own.disk, "one", &copy], 1, &["is mounted on", &place]);
    succeeds(&["umount", &own.mnt]);
    succeeds(&["mount", &own.disk, &own.mnt]);
    fails(&["mount", &then, &copy], 1, &["is mounted on", "esker snapshot mount"]);
    succeeds(&["umount", &own.mnt]);
    fails(&["mount", &then, &own.mnt, "-o", "snapshots"], 2, &["not for a snapshot"]);
    fails(&["mount", "mem:", &own.mnt, "-o", "snapshots"], 2, &["is only for volumes"]);
    succeeds(&["mount", &own.disk, &own.mnt]);
    fs::create_dir(own.at(".snapshots")).expect("made");
    succeeds(&["umount", &own.mnt]);
    for options in ["snapshots", "ro,snapshots"] {
        let words = ["of its own", ".snapshots", "without -o snapshots"];
        fails(&["mount", &own.disk, &own.mnt, "-o", options], 1, &words);
    }
    succeeds(&["check", &own.disk]);
}
