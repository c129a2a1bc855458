//! `st_blocks` while a file is open and the kernel holds its bytes back: tools that save space believe it.
//! A file system that tells of too few blocks has its bytes archived as zeros.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use esker_proof::rig::{Mount, may_mount};

/// Longer than the kernel may believe what it was told when it began to take bytes.
const MOMENT: Duration = Duration::from_millis(300);
const LEN: usize = 300_000;

fn mounts(name: &str) -> Vec<Mount> {
    if !may_mount() {
        return Vec::new();
    }
    let esker = |options| Mount::esker(name, options).expect("esker");
    vec![Mount::tmpfs(name).expect("tmpfs"), esker("size=64m"), esker("size=64m,no_writeback")]
}

fn blocks(path: &Path) -> u64 {
    std::thread::sleep(MOMENT);
    fs::metadata(path).expect("stat").blocks()
}

fn enough(len: u64, blocks: u64) {
    let least = len.div_ceil(512);
    assert!((least..=least + least / 4 + 8).contains(&blocks), "{blocks} blocks for {len} bytes");
}

/// What `tar -S` makes of the file comes out of the archive again.
fn survives_tar(path: &Path) {
    let (dir, name) = (path.parent().expect("a directory"), path.file_name().expect("a name"));
    let tar = Command::new("tar").arg("-cSf-").arg("-C").arg(dir).arg(name).output().expect("tar");
    assert!(tar.status.success(), "{tar:?}");
    let archive = dir.join("archive");
    fs::write(&archive, &tar.stdout).expect("the archive");
    let bytes = Command::new("tar").arg("-xOf").arg(&archive).output().expect("tar").stdout;
    assert!(bytes == fs::read(path).expect("the file"), "tar -S lost bytes");
    fs::remove_file(archive).expect("unlink");
}

#[test]
fn an_open_file_has_the_blocks_of_what_was_written() {
    for mount in mounts("open") {
        let path = mount.path().join("f");
        let file = File::create_new(&path).expect("a file");
        let bytes = vec![0x5a; LEN];
        for (index, at) in (0..).zip([0, LEN, 2 * LEN]) {
            file.write_all_at(&bytes, at as u64).expect("write");
            // At once, while the kernel may still believe what it heard before.
            survives_tar(&path);
            enough(((index + 1) * LEN) as u64, blocks(&path));
        }
        file.sync_all().expect("fsync");
        enough(3 * LEN as u64, blocks(&path));
        drop(file);
        enough(3 * LEN as u64, blocks(&path));
    }
}

#[test]
fn who_opens_an_empty_file_again_and_writes_is_seen() {
    for mount in mounts("again") {
        let path = mount.path().join("f");
        fs::write(&path, "").expect("a file");
        assert_eq!(blocks(&path), 0);
        let file = File::options().write(true).open(&path).expect("open");
        assert_eq!(blocks(&path), 0);
        file.write_all_at(&vec![1; LEN], 0).expect("write");
        survives_tar(&path);
        enough(LEN as u64, blocks(&path));
    }
}

#[test]
fn bytes_in_a_hole_are_no_hole() {
    for mount in mounts("hole") {
        let path = mount.path().join("f");
        let file = File::create_new(&path).expect("a file");
        file.set_len(1 << 30).expect("truncate");
        assert_eq!(blocks(&path), 0);
        file.write_all_at(b"data", 1 << 20).expect("write");
        assert!((1..=8).contains(&blocks(&path)));
        file.set_len(2 << 20).expect("truncate");
        survives_tar(&path);
    }
}
