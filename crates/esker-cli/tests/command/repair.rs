//! `esker check --repair` by command: a sound volume is left alone, a damaged one checks clean afterwards and says what
//! that cost, and what cannot be repaired is refused by name.

use std::fs;
use std::os::unix::fs::FileExt as _;

use crate::common::lab::{Lab, fails, run, succeeds, told};
use crate::common::{can_mount, noise};
use esker_volume::Superblock;
use esker_volume::part::{LOG, PartHead, TABLES};
use serde_json::Value;

/// A volume of twenty files.
fn volume(lab: &Lab, flags: &[&str]) -> String {
    let disk = lab.path("disk.vol");
    for number in 0..20 {
        let dir = lab.path(&format!("tree/d{}", number % 3));
        fs::create_dir_all(&dir).expect("a directory");
        fs::write(format!("{dir}/f{number}"), noise(number, 30_000)).expect("written");
    }
    let words = ["mkfs", &disk, "--size", "16M", "--segment", "256K", "--from", &lab.path("tree")];
    succeeds(&[&words[..], flags].concat());
    disk
}

fn repaired(words: &[&str]) -> Value {
    let output = run(&[&["check", "--repair", "--json"], words].concat());
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = line.lines().next().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|_| panic!("{}", told(&output)))
}

/// Files of the volume, by what they are now.
fn whole(disk: &str) -> usize {
    let read = |number: u64| {
        let path = format!("{disk}:/d{}/f{number}", number % 3);
        let output = run(&["cat", &path]);
        output.status.success() && output.stdout == noise(number, 30_000)
    };
    (0..20).filter(|&number| read(number)).count()
}

#[test]
fn a_sound_volume_is_left_alone() {
    let lab = Lab::new(&["tree"]);
    for flags in [&[][..], &["--force", "--meta-copies", "2"]] {
        let disk = volume(&lab, flags);
        let before = fs::read(&disk).expect("it reads");
        let said = succeeds(&["check", "--repair", &disk]);
        assert!(said.contains("is whole: there is nothing to repair"), "{said}");
        let done = repaired(&[&disk]);
        assert!(done["sound"] == true && done["written"] == false, "{done}");
        assert!(fs::read(&disk).expect("it reads") == before, "it was written");
    }
}

/// Places of all superblocks, and of the first block of data.
fn places(bytes: &[u8]) -> (Vec<usize>, usize) {
    let units = (0..bytes.len()).step_by(512);
    let superblocks: Vec<_> =
        units.clone().filter(|&at| Superblock::parse(&bytes[at..]).is_ok()).collect();
    let uuid = Superblock::parse(&bytes[superblocks[0]..]).expect("it is one").uuid;
    let block = units.clone().find(|&at| {
        let head = PartHead::parse(&bytes[at..], &uuid);
        head.is_some_and(|head| head.kind == LOG && head.slots > 4)
    });
    (superblocks, block.expect("a commit with blocks") + PartHead::SIZE + 5000)
}

/// Who reads what is damaged hears of it once in the log of the mount, mounted to be written or not.
#[test]
fn the_log_of_a_mount_names_what_is_damaged() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["tree", "mnt"]);
    let disk = volume(&lab, &[]);
    let (_, block) = places(&fs::read(&disk).expect("it reads"));
    let file = fs::OpenOptions::new().write(true).open(&disk).expect("it opens");
    file.write_all_at(&[0xa5; 64], block as u64).expect("damage");
    let (log, mnt) = (lab.path("mount.log"), lab.path("mnt"));
    for how in ["ro", "rw"] {
        let _ = fs::remove_file(&log);
        succeeds(&["mount", &disk, &mnt, "-o", how, "--log", &log]);
        let read = |number: u64| fs::read(format!("{mnt}/d{}/f{number}", number % 3)).is_ok();
        let readable = |_| (0..20).filter(|&number| read(number)).count();
        assert!((0..2).map(readable).all(|count| count < 20), "nothing is damaged");
        succeeds(&["umount", &mnt]);
        let told = fs::read_to_string(&log).expect("a log");
        let lines: Vec<_> = told.lines().filter(|line| line.contains("cannot be read")).collect();
        assert!(lines.len() == 1 && lines[0].contains("block") && lines[0].contains("disk.vol"));
    }
}

#[test]
fn a_damaged_volume_becomes_one_that_is_whole() {
    let lab = Lab::new(&["tree"]);
    let disk = volume(&lab, &[]);
    let bytes = fs::read(&disk).expect("it reads");
    let (superblocks, block) = places(&bytes);
    let file = fs::OpenOptions::new().write(true).open(&disk).expect("it opens");
    file.write_all_at(&[0xa5; 64], block as u64).expect("damage");
    let before = fs::read(&disk).expect("it reads");
    fails(&["check", &disk], 6, &["damaged"]);
    let plan = repaired(&["--dry-run", &disk]);
    assert!(plan["rebuilt"] == true && plan["written"] == false, "{plan}");
    assert!(fs::read(&disk).expect("it reads") == before, "it was only to look");
    let done = repaired(&[&disk]);
    let damaged = done["damaged"].as_array().expect("a list").clone();
    // Two files may share the block.
    assert!(
        (1..=2).contains(&damaged.len()) && done["findings"].as_array().is_some_and(Vec::is_empty),
        "{done}"
    );
    assert_eq!(plan["damaged"], done["damaged"]);
    let path = damaged[0]["path"].as_str().expect("a path");
    assert!(path.ends_with(".damaged"), "{done}");
    succeeds(&["check", &disk]);
    assert_eq!(whole(&disk), 20 - damaged.len());
    succeeds(&["stat", &format!("{disk}:{path}")]);
    let said = succeeds(&["check", "--repair", &disk]);
    assert!(said.contains("nothing to repair"), "{said}");
    // Without any superblock it is put together as well.
    for at in superblocks.into_iter().chain((0..128).map(|step| step * 4096)) {
        file.write_all_at(&[0; 512], at as u64).expect("damage");
    }
    fails(
        &["check", &disk],
        4,
        &[
            "not an Esker image or volume",
            "if it was a volume, `esker check --repair`",
            "`esker recover`",
        ],
    );
    fails(&["dump", &disk], 4, &["not an Esker volume", "if it was one, `esker check --repair`"]);
    // The root is found by its head, and says that there were no snapshots.
    let done = repaired(&[&disk]);
    assert!(done["settings_lost"] == true && done["rebuilt"] == true, "{done}");
    succeeds(&["check", &disk]);
}

/// With two copies all tables are made again from their parity, and nothing is lost.
#[test]
fn what_has_a_second_copy_comes_back_as_it_was() {
    let lab = Lab::new(&["tree"]);
    let disk = volume(&lab, &["--meta-copies", "2"]);
    let bytes = fs::read(&disk).expect("it reads");
    let (superblocks, _) = places(&bytes);
    let newest =
        superblocks.iter().map(|&at| (Superblock::parse(&bytes[at..]).expect("it is"), at));
    let (newest, at) = newest.max_by_key(|(own, _)| own.generation).expect("one");
    let file = fs::OpenOptions::new().write(true).open(&disk).expect("it opens");
    let root = u64::from(newest.root_physical) * newest.segment_len + newest.root_at;
    for place in [at as u64, root] {
        file.write_all_at(&[0xa5; 300], place).expect("damage");
    }
    let said = succeeds(&["check", "--repair", &disk]);
    assert!(said.contains("made again as they were"), "{said}");
    succeeds(&["check", &disk]);
    assert_eq!(whole(&disk), 20);
}

#[test]
fn what_cannot_be_repaired_is_told() {
    let lab = Lab::new(&["tree", "mnt"]);
    let disk = volume(&lab, &[]);
    let image = lab.path("x.esker");
    succeeds(&["pack", &lab.path("tree"), "-o", &image]);
    fails(&["check", "--repair", &image], 2, &["an image", "extract --salvage"]);
    fails(&["check", "--repair", &lab.path("tree")], 2, &["a directory"]);
    fails(&["check", "--repair", &lab.path("nothing")], 4, &["cannot open the volume"]);
    fails(&["check", "--dry-run", &disk], 2, &["--repair"]);
    fs::write(lab.path("noise"), noise(7, 3 << 20)).expect("written");
    fails(&["check", "--repair", &lab.path("noise")], 4, &["not an Esker volume"]);
    if can_mount() {
        succeeds(&["mount", &disk, &lab.path("mnt")]);
        fails(&["check", "--repair", &disk], 1, &["in use", "unmount it"]);
        succeeds(&["umount", &lab.path("mnt")]);
    }
}

#[test]
fn a_snapshot_is_taken_out() {
    let lab = Lab::new(&["tree"]);
    let disk = volume(&lab, &[]);
    succeeds(&["snapshot", "create", &disk, "before"]);
    let out = lab.path("out");
    succeeds(&["recover", &format!("{disk}@before"), "-o", &out]);
    assert_eq!(fs::read(format!("{out}/d1/f4")).expect("it is out"), noise(4, 30_000));
    let other = lab.path("other");
    fails(&["recover", &format!("{disk}@other"), "-o", &other], 6, &["no snapshot of this name"]);
    // Whole files that are there already are not taken for lost.
    fails(&["recover", &disk, "-o", &out], 2, &["something in it", "empty directory", "--force"]);
    succeeds(&["recover", &disk, "-o", &out, "--force"]);
    let long_ago = ["recover", &disk, "-o", &other, "--before", "1000"];
    fails(&long_ago, 6, &["nothing of that time is left", "later time"]);
}

/// A volume on an image that lies elsewhere is repaired with it, and not touched without it.
#[test]
fn a_base_is_wanted_before_anything_is_written() {
    let lab = Lab::new(&["tree", "base", "elsewhere"]);
    let (disk, image, away) = (lab.path("disk.vol"), lab.path("b.esker"), lab.path("elsewhere/b"));
    fs::write(lab.path("base/below"), noise(99, 40_000)).expect("written");
    succeeds(&["pack", &lab.path("base"), "-o", &image]);
    succeeds(&["mkfs", &disk, "--size", "16M", "--segment", "256K", "--base", &image]);
    fs::rename(&image, &away).expect("it moves");
    let before = fs::read(&disk).expect("it reads");
    fails(&["check", "--repair", &disk], 4, &["b.esker", "--base"]);
    let done = repaired(&["--base", &away, &disk]);
    assert!(done["sound"] == true && done["written"] == false, "{done}");
    assert!(fs::read(&disk).expect("it reads") == before, "it was written");
    // Damage to the tables: what is left is put together, on the same image.
    let mut bytes = before;
    let units = || (0..bytes.len()).step_by(512);
    let all: Vec<_> = units().filter_map(|at| Superblock::parse(&bytes[at..]).ok()).collect();
    let root = |own: &Superblock| {
        u64::from(own.root_physical) * own.segment_len + own.root_at - PartHead::SIZE as u64
    };
    let roots: Vec<_> = all.iter().filter(|own| own.root_at > 0).map(root).collect();
    let is_table = |at: &usize| {
        let head = PartHead::parse(&bytes[*at..], &all[0].uuid);
        head.is_some_and(|head| head.kind == TABLES) && !roots.contains(&(*at as u64))
    };
    let tables: Vec<_> = units().filter(is_table).collect();
    assert!(!tables.is_empty(), "no tables");
    for at in tables {
        bytes[at + PartHead::SIZE + 20] ^= 1;
    }
    fs::write(&disk, &bytes).expect("damage");
    fails(&["check", "--repair", &disk], 4, &["--base"]);
    assert!(fs::read(&disk).expect("it reads") == bytes, "it was written");
    let done = repaired(&["--base", &away, &disk]);
    assert!(done["rebuilt"] == true && done["written"] == true, "{done}");
    succeeds(&["check", "--base", &away, &disk]);
    // The row that said so is lost: it is known from an older table.
    let below = run(&["cat", "--base", &away, &format!("{disk}:/below.older")]);
    assert!(below.stdout == noise(99, 40_000), "{}", told(&below));
}
