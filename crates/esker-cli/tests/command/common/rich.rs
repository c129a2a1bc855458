//! A tree with one of everything, to be copied.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};

use super::Scratch;

fn node(path: &Path, kind: FileType, device: u64) {
    rustix::fs::mknodat(CWD, path, kind, Mode::from(0o620), device).unwrap();
}

pub fn touch(path: &Path, secs: i64, nanos: i64) {
    let time = Timespec { tv_sec: secs, tv_nsec: nanos };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

fn set_xattr(path: &Path, name: &str, value: &[u8]) {
    rustix::fs::lsetxattr(path, name, value, XattrFlags::empty()).unwrap();
}

fn acl(path: &Path, words: &str) {
    let done = Command::new("setfacl").args(["-m", words]).arg(path).status();
    assert!(done.expect("the package acl is installed").success());
}

/// A tree with one of everything, on a file system that has it all: tmpfs.
pub fn rich_tree(scratch: &Scratch) -> PathBuf {
    let root = scratch.dir("source");
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=64m", "tmpfs"]).arg(&root);
    assert!(mount.status().unwrap().success());
    for dir in ["a", "a/deep", "a/deep/er", "empty", "inherits"] {
        fs::create_dir(root.join(dir)).unwrap();
    }
    make_files(&root);
    make_links_and_nodes(&root);
    give_attributes(&root);
    for (dir, secs) in [("a/deep", 11), ("a", 12), ("inherits", 13), ("", 14)] {
        touch(&root.join(dir), secs, 123_456_789);
    }
    root
}

fn make_files(root: &Path) {
    let at = |name: &str| root.join(name);
    fs::write(at("plain"), "text").unwrap();
    fs::write(at("nothing"), "").unwrap();
    fs::write(at("a/big"), vec![7; 3 << 20]).unwrap();
    fs::write(root.join(OsStr::from_bytes(b"\xff\xfe\n\x1b")), "odd name").unwrap();
    fs::write(at(&"n".repeat(255)), "long name").unwrap();
    fs::write(at("set-id"), "#!").unwrap();
    let holes = File::create(at("holes")).unwrap();
    holes.write_all_at(b"one", 1 << 30).unwrap();
    holes.write_all_at(b"two", 5 << 40).unwrap();
    holes.set_len(6 << 40).unwrap();
}

fn make_links_and_nodes(root: &Path) {
    let at = |name: &str| root.join(name);
    fs::hard_link(at("plain"), at("a/plain-again")).unwrap();
    fs::hard_link(at("plain"), at("a/deep/plain-a-third-time")).unwrap();
    symlink("a/deep", at("link")).unwrap();
    symlink("/no/such/place", at("dangling")).unwrap();
    symlink("t".repeat(4000), at("long-target")).unwrap();
    fs::hard_link(at("link"), at("link-again")).unwrap();
    node(&at("pipe"), FileType::Fifo, 0);
    node(&at("socket"), FileType::Socket, 0);
    node(&at("null"), FileType::CharacterDevice, rustix::fs::makedev(1, 3));
    node(&at("far"), FileType::BlockDevice, rustix::fs::makedev(0xabc, 0xf_ff12));
}

fn give_attributes(root: &Path) {
    let at = |name: &str| root.join(name);
    set_xattr(&at("plain"), "user.colour", b"red\0green");
    set_xattr(&at("plain"), "trusted.overlay.opaque", b"y");
    set_xattr(&at("a"), "user.empty", b"");
    set_xattr(&at("link"), "trusted.on-a-link", b"1");
    acl(&at("a/big"), "u:1001:rw,g:1002:r,m:rwx");
    acl(&at("inherits"), "d:u:1003:rwx,u:1004:x");
    // Below the default ACL there must be something that does not have it.
    fs::create_dir(at("inherits/none")).unwrap();
    fs::write(at("inherits/file"), "x").unwrap();
    for bare in ["inherits/none", "inherits/file"] {
        assert!(Command::new("setfacl").arg("-b").arg(at(bare)).status().unwrap().success());
    }
    lchown(at("link"), Some(5), Some(6)).unwrap();
    chown(at("set-id"), Some(1000), Some(1000)).unwrap();
    chown(at("a/deep"), Some(4_000_000_000), Some(7)).unwrap();
    let modes = [("set-id", 0o6751), ("empty", 0o3777), ("a/deep", 0), ("", 0o2750)];
    for (name, mode) in modes {
        fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    touch(&at("link"), -1, 5);
    touch(&at("plain"), 5_000_000_000, 999_999_999);
    touch(&at("a/deep/er"), -5_000_000_000, 1);
}
