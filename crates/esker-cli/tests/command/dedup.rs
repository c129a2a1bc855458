//! Equal bytes that were written apart, stored once by command: the files stay what they are, and room is free again.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use crate::common::lab::{Lab, fails, succeeds};
use crate::common::{can_mount, text};
use serde_json::Value;

fn told(words: &[&str]) -> Value {
    serde_json::from_str(&succeeds(words)).expect("JSON")
}

/// Bytes that do not compress.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

#[test]
fn equal_files_are_stored_once() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["mnt"]);
    let (disk, mnt) = (lab.path("disk.vol"), lab.0.path("mnt"));
    succeeds(&["mkfs", &disk, "--size", "64M"]);
    succeeds(&["mount", &disk, text(&mnt), "-o", "nodedup"]);
    let files: Vec<_> = (0..20).map(|seed| noise(seed * 2 + 1, 200_000)).collect();
    for tree in ["one", "two"] {
        fs::create_dir(mnt.join(tree)).expect("made");
        for (number, bytes) in files.iter().enumerate() {
            fs::write(mnt.join(tree).join(number.to_string()), bytes).expect("written");
        }
    }
    let times = |name: &str| {
        let meta = fs::metadata(mnt.join(name)).expect("it is there");
        let (m, c) = ((meta.mtime(), meta.mtime_nsec()), (meta.ctime(), meta.ctime_nsec()));
        (m, c, meta.size(), meta.blocks())
    };
    let before = times("two/7");
    fails(&["dedup", text(&mnt)], 2, &["directory", "unmount"]);
    fails(&["dedup", &disk], 1, &["in use", "unmount"]);
    succeeds(&["umount", text(&mnt)]);
    std::thread::sleep(Duration::from_millis(20));

    let image = fs::read(&disk).expect("read");
    let dry = told(&["dedup", &disk, "--dry-run", "--json"]);
    assert!(fs::read(&disk).expect("read") == image, "it was written");
    let done = told(&["dedup", &disk, "--json"]);
    let number = |value: &Value, key: &str| value[key].as_u64().expect("a number");
    assert_eq!(number(&dry, "shared"), number(&done, "shared"));
    assert_eq!(number(&dry, "block_bytes"), number(&done, "block_bytes"));
    let (was, used) = (number(&done, "used_before"), number(&done, "used"));
    assert!(used + 3_800_000 < was, "{used} of {was}");
    let again = told(&["dedup", &disk, "--json", "--memory", "64K"]);
    assert_eq!((number(&again, "shared"), number(&again, "passes")), (0, 1));
    succeeds(&["check", &disk]);

    succeeds(&["mount", &disk, text(&mnt)]);
    assert_eq!(times("two/7"), before);
    for tree in ["one", "two"] {
        for (number, bytes) in files.iter().enumerate() {
            let found = fs::read(mnt.join(tree).join(number.to_string())).expect("read");
            assert!(found == *bytes, "{tree}/{number}");
        }
    }
    // What is written over one is nothing to the other.
    fs::write(mnt.join("one/3"), b"other").expect("written");
    assert!(fs::read(mnt.join("two/3")).expect("read") == files[3]);
    succeeds(&["umount", text(&mnt)]);
    succeeds(&["check", &disk]);
    fails(&["dedup", &disk, "--memory", "1K"], 2, &["64K or more"]);
    fails(&["dedup", &lab.path("nowhere")], 4, &["nowhere"]);
}
