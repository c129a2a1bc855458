//! What was chosen when an image was packed, told and kept.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Scratch, done, esker, refused, text};
use esker_stone::Superblock;
use esker_stone::superblock::BRANCHES;

/// A tree with a little text.
fn tree(scratch: &Scratch) -> PathBuf {
    let tree = scratch.dir("tree");
    fs::create_dir(tree.join("a")).unwrap();
    fs::write(tree.join("a/one"), "one\n".repeat(5000)).unwrap();
    tree
}

/// The same words with `--json`.
fn is_told_to_a_machine(words: &[&str]) {
    let told = done(&esker([words, &["--force", "--json"]].concat()));
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["repeats_least"], 1024, "{told}");
    assert!(told["repeated"].as_u64() > Some(100_000), "{told}");
    assert_eq!(told["notes"]["level"], "4", "{told}");
}

#[test]
fn what_was_chosen_is_told() {
    let scratch = Scratch::new();
    let tree = tree(&scratch);
    let mut sound = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
    sound.extend([0x40, 0x1f, 0, 0, 0x80, 0x3e, 0, 0, 2, 0, 16, 0]);
    sound.extend(b"data\0\0\0\0");
    let tone = |at: i32, len: i32| (at % len - len / 2) * (at % len - len / 2);
    let sample = |at: i32| (tone(at, 150) + tone(at * 3, 191) + at * at % 13) as u16;
    sound.extend((0..9_000).map(sample).flat_map(u16::to_le_bytes));
    fs::write(tree.join("a/sound.wav"), sound).unwrap();
    fs::write(tree.join("a/program"), program()).unwrap();
    let lines: String = (0..9000).map(|line| format!("{line} {}\n", line * line)).collect();
    fs::write(tree.join("first"), &lines).unwrap();
    fs::write(tree.join("second"), format!("before\n{lines}behind\n")).unwrap();
    let image = scratch.path("x.esker");
    let words = ["pack", text(&tree), "-o", text(&image), "-l", "4", "--explain"];
    let told = done(&esker(words));
    for words in [
        "level 4",
        "stretches of 1.0 KiB and more",
        "like beside like",
        "usual: 1 blocks of up to",
        "1 with zstd:6",
        "sound in one channel [sound]: 1 block",
        "1 predicted",
        "code for x86 [code]: 1 block",
        "1 with branches told by where they go to",
        "text: 1 block",
    ] {
        assert!(told.contains(words), "{words}: {told}");
    }
    is_told_to_a_machine(&words);
    let out = scratch.path("out");
    done(&esker(["extract", text(&image), "-o", text(&out)]));
    for name in ["a/sound.wav", "a/program", "first", "second"] {
        assert!(fs::read(tree.join(name)).unwrap() == fs::read(out.join(name)).unwrap(), "{name}");
    }
    // Blocks that are taken over as they are need what they needed.
    let again = scratch.path("again.esker");
    done(&esker([
        "repack",
        text(&image),
        "-o",
        text(&again),
        "--metadata-only",
        "--chmod",
        "F600",
    ]));
    // And keep how they came about; a level makes other blocks, and says so.
    let anew = scratch.path("anew.esker");
    let options = ["--unpack", "64K", "--category", "code:block=1M,codec=xz:9"];
    let repack = ["repack", text(&image), "-o", text(&anew), "-l", "8", "--explain"];
    let told = done(&esker([&repack[..], &options].concat()));
    let said = "--unpack 64K --category code:block=1M,codec=xz:9";
    assert!(told.contains(&format!("level 8\n  options {said}\n")), "{told}");
    let info = |image: &Path| {
        let told = done(&esker(["info", "--json", text(image)]));
        serde_json::from_str::<serde_json::Value>(&told).unwrap()
    };
    assert_eq!(info(&anew)["notes"]["level"], "8");
    assert_eq!(info(&anew)["notes"]["options"], said);
    assert_eq!(info(&again)["notes"], info(&image)["notes"]);
    let kinds = info(&again)["categories"].clone();
    let code = kinds.as_array().unwrap().iter().find(|kind| kind["category"] == "code for x86");
    assert_eq!(code.unwrap()["filtered"], 1, "{kinds}");
    for image in [image, again] {
        let block = Superblock::parse(&fs::read(image).unwrap()[..Superblock::SIZE]).unwrap();
        assert_eq!(block.incompatible & BRANCHES, BRANCHES);
    }
}

/// A program of ELF for x86, whose code calls a few functions from many places.
fn program() -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    let numbers = [(16, 3), (18, 62), (32, 64), (54, 56), (56, 1), (64, 1), (68, 5)];
    numbers.into_iter().for_each(|(at, number)| bytes[at] = number);
    bytes[73] = 4096u32.to_le_bytes()[1];
    bytes[96..100].copy_from_slice(&40_000u32.to_le_bytes());
    for call in 0..8000u32 {
        let target = 4096 * (call.wrapping_mul(2_654_435_761) >> 27);
        bytes.push(0xe8);
        bytes.extend(target.wrapping_sub(5 * call + 5).to_le_bytes());
    }
    bytes
}

#[test]
fn streams_that_are_left_as_they_are_are_told() {
    let scratch = Scratch::new();
    let tree = tree(&scratch);
    let streams = Path::new("../esker-image/tests/streams");
    for name in ["long.gz", "short.gz"] {
        fs::copy(streams.join(name), tree.join(name)).unwrap();
    }
    let image = scratch.path("x.esker");
    let pack = |more: &[&str]| {
        let words = ["pack", text(&tree), "-o", text(&image), "--force"];
        esker(words.iter().chain(more))
    };
    let long = "1 longer than 4.0 KiB: 52.6 KiB";
    for (more, left, unpacked) in [
        (&[][..], Some(long), true),
        (&["-l", "5"], Some(long), true),
        (&["-l", "7"], None, true),
        (&["--unpack", "true"], None, true),
        (&["-l", "7", "--unpack", "64K"], None, true),
        // What a quick level stores texts with does not make them smaller than their streams.
        (&["-l", "1", "--unpack", "64K"], Some("2 whose text would not be smaller"), false),
        (&["--unpack", "1K"], Some("2 longer than 1.0 KiB: 54.8 KiB"), false),
        (&["--unpack", "false"], None, false),
        (&["-l", "4"], None, false),
    ] {
        let told = done(&pack(&[more, &["--explain"]].concat()));
        let is_left = told.contains("streams that were left as they are");
        assert_eq!(is_left, left.is_some(), "{more:?}: {told}");
        assert!(left.is_none_or(|left| told.contains(left)), "{more:?}: {told}");
        assert_eq!(told.contains("streams of deflate: "), unpacked, "{more:?}: {told}");
    }
    let report: serde_json::Value = serde_json::from_str(&done(&pack(&["--json"]))).unwrap();
    assert_eq!(report["left"]["long"]["streams"], 1);
    for wrong in ["some", "0", "2T"] {
        refused(&pack(&["--unpack", wrong]), 2, &["--unpack", wrong], &image);
    }
}

/// A program in words by chance; every twentieth is another one in each build.
fn program_of(seed: u64, build: u64) -> Vec<u8> {
    let next = |state: u64| state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    let mut state = next(next(seed));
    let word = |at: u64| {
        state = next(state);
        let own = if at.is_multiple_of(20) { next(build ^ state) } else { state };
        [0x48, 0x8b, (own >> 56) as u8, 0]
    };
    (0..5000).flat_map(word).collect()
}

#[test]
fn a_group_has_a_base_where_that_pays() {
    let scratch = Scratch::new();
    let small = ["--block-size", "64K", "--shared-size", "64K", "--group-size", "512K"];
    let alike: Vec<_> = (0..60).map(|build| program_of(1, build * 77)).collect();
    let unlike: Vec<_> = (0..60).map(|number| program_of(number * 77, 0)).collect();
    for (files, right) in [(alike, true), (unlike, false)] {
        let tree = scratch.dir(if right { "alike" } else { "unlike" });
        for (number, file) in files.iter().enumerate() {
            fs::write(tree.join(number.to_string()), file).unwrap();
        }
        let image = scratch.path("x.esker");
        let pack = ["pack", text(&tree), "-o", text(&image), "-l", "6", "--force"];
        let told = done(&esker([&pack[..], &small, &["--json"]].concat()));
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        let groups = told["groups"].as_array().unwrap();
        assert!(!groups.is_empty(), "{told}");
        for group in groups {
            assert_eq!((&group["category"], &group["on_base"]), (&"usual".into(), &right.into()));
            assert!(group["bytes"].as_u64() > group["base"].as_u64(), "{group}");
            assert!(right || group["tried"]["bytes"].as_u64() > Some(100_000), "{group}");
        }
        let based: u64 = told["categories"]
            .as_array()
            .unwrap()
            .iter()
            .map(|category| category["based"].as_u64().unwrap())
            .sum();
        assert_eq!(based > 0, right, "{told}");
        let told = done(&esker([&pack[..], &small, &["--explain"]].concat()));
        let words = if right { " on a base " } else { " without a base by trials: " };
        assert!(told.contains("groups of usual: ") && told.contains(words), "{told}");
        let out = scratch.path("out");
        done(&esker(["extract", text(&image), "-o", text(&out)]));
        for (number, file) in files.iter().enumerate() {
            assert!(fs::read(out.join(number.to_string())).unwrap() == *file, "{number}");
        }
        fs::remove_dir_all(&out).unwrap();
    }
}
