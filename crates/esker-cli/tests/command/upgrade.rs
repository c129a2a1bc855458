//! Volumes that are upgraded by command: what they would get is said, what they get is there, and what cannot be is
//! refused by name.

use std::fs;

use crate::common::lab::{Lab, fails, succeeds};
use crate::common::{can_mount, text};
use serde_json::{Value, json};

fn told(words: &[&str]) -> Value {
    serde_json::from_str(&succeeds(words)).expect("JSON")
}

/// A directory with something in it, and a volume that holds the same.
fn filled() -> (Lab, String) {
    let lab = Lab::new(&["mnt", "tree"]);
    let (tree, disk) = (lab.0.path("tree"), lab.path("disk.vol"));
    for number in 0..300 {
        fs::write(tree.join(format!("file {number}")), vec![number as u8; 3000]).expect("written");
    }
    succeeds(&["mkfs", &disk, "--size", "64M", "--from", text(&tree)]);
    (lab, disk)
}

#[test]
fn a_volume_gets_a_second_copy() {
    let (lab, disk) = filled();
    succeeds(&["snapshot", "create", &disk, "before"]);
    let before = fs::read(&disk).expect("read");
    let dry = told(&["upgrade", &disk, "--meta-copies", "2", "--dry-run", "--json"]);
    assert_eq!((&dry["gets"], &dry["upgraded"]), (&json!(["meta_copies"]), &json!(false)));
    let said = succeeds(&["upgrade", &disk, "-n", "--meta-copies", "2"]);
    assert!(said.contains("would get: two copies of metadata"), "{said}");
    assert!(fs::read(&disk).expect("read") == before, "it was written");

    let done = told(&["upgrade", &disk, "--meta-copies", "2", "--json"]);
    assert_eq!((&done["meta_copies"], &done["upgraded"]), (&json!(2), &json!(true)));
    let said = succeeds(&["upgrade", &disk, "--meta-copies", "2"]);
    assert!(said.contains("has all that this version writes"), "{said}");
    succeeds(&["check", &disk]);
    succeeds(&["scrub", &disk]);
    for place in [disk.clone(), format!("{disk}@before")] {
        let out = lab.path("out");
        succeeds(&["extract", &place, "-o", &out]);
        assert_eq!(fs::read(format!("{out}/file 299")).expect("read"), vec![43; 3000]);
        fs::remove_dir_all(out).expect("removed");
    }
    fails(&["upgrade", &disk, "--meta-copies", "1"], 2, &["not taken away"]);
}

#[test]
fn what_cannot_be_upgraded_is_refused_by_name() {
    let (lab, disk) = filled();
    let (tree, image) = (lab.path("tree"), lab.path("tree.esker"));
    succeeds(&["pack", &tree, "-o", &image]);
    let said = succeeds(&["upgrade", &image]);
    assert!(said.contains("needs no upgrade") && said.contains("repack"), "{said}");
    fails(&["upgrade", &tree], 2, &["directory", "unmount"]);
    fails(&["upgrade", &lab.path("tree/file 1")], 4, &["not an Esker volume"]);
    fails(&["upgrade", &lab.path("nowhere")], 4, &["nowhere"]);

    // One of a newer version.
    let newer = lab.path("newer.vol");
    let mut bytes = fs::read(&disk).expect("read");
    let len = told(&["info", &disk, "--json"])["segment"].as_u64().expect("a number") as usize;
    for at in (0..2).flat_map(|home| (0..32).map(move |step| home * len + step * 4096)) {
        if let Ok(found) = esker_volume::Superblock::parse(&bytes[at..at + 512]) {
            let newer = esker_volume::Superblock { incompatible: 1 << 40, ..found };
            bytes[at..at + 512].copy_from_slice(&newer.sealed());
        }
    }
    fs::write(&newer, &bytes).expect("written");
    fails(&["upgrade", &newer], 4, &["newer esker"]);
    assert!(fs::read(&newer).expect("read") == bytes, "it was written");

    if can_mount() {
        let mnt = lab.path("mnt");
        succeeds(&["mount", &disk, &mnt]);
        fails(&["upgrade", &disk], 1, &["in use", "unmount"]);
        fails(&["upgrade", &mnt], 2, &["unmount"]);
        succeeds(&["umount", &mnt]);
    }
}
