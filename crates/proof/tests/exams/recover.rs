//! Recovering, scrubbing and growing, as a black box: volumes of small files of which some 4 KiB blocks are
//! destroyed, with their superblocks and without. What has its right name is right, whatever is gone; how much
//! that is, is counted.
//! `ESKER_CASES` is how many seeds of each kind.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use esker_proof::chance::Chance;
use esker_proof::harness::{from_env, seed};
use esker_proof::rig::{Place, may_mount, program, run};
use rustix::mount::{UnmountFlags, unmount};

const BLOCK: usize = 4096;
/// Bytes of the segments of the volumes.
const SEGMENT: usize = 256 << 10;
const SIZE: &str = "48M";
const FILES: u64 = 1500;
const WORDS: &[&str] = &[
    "let", "return", "file", "volume", "segment", "root", "table", "commit", "checksum", "unit",
    "value", "match", "error", "self", "result", "struct", "number", "offset", "(", ")", "{", "}",
    ";", "=", ".", "\n",
];

/// What is to be there in the end.
type Tree = BTreeMap<PathBuf, Vec<u8>>;

/// A volume in a file, and what it held.
struct Written {
    place: Place,
    tree: Tree,
    /// All that each path ever held.
    ever: BTreeMap<PathBuf, BTreeSet<Vec<u8>>>,
    /// The last commit.
    commit: u64,
}

impl Written {
    fn file(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// A file has this content from now on.
    fn put(&mut self, path: PathBuf, bytes: Vec<u8>) {
        self.ever.entry(path.clone()).or_default().insert(bytes.clone());
        self.tree.insert(path, bytes);
    }

    /// Whether a commit before the last one may have shown this. The kernel makes a file, and makes it empty, before it
    /// hands over what is written.
    fn may_have_held(&self, path: &Path, bytes: &Vec<u8>) -> bool {
        self.ever.get(path).is_some_and(|ever| bytes.is_empty() || ever.contains(bytes))
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let _ = unmount(self.file("mnt"), UnmountFlags::DETACH);
        let _ = std::fs::remove_dir_all(self.place.path());
    }
}

/// Text as programs are, of which little is alike: 200 to 3200 bytes.
fn text(chance: &mut Chance) -> Vec<u8> {
    let len = 200 << chance.below(4);
    let len = len + chance.below(len);
    let mut text = format!("{:016x} ", chance.number());
    while (text.len() as u64) < len {
        match chance.below(5) {
            0 => text += &format!("{:x} ", chance.below(1 << 20)),
            _ => text += &format!("{} ", chance.pick(WORDS)),
        }
    }
    text.into_bytes()
}

/// Makes a volume with files that came, changed, moved and went.
fn written(flags: &[&str], chance: &mut Chance) -> Written {
    let place = Place::new("recover").expect("a place");
    let (tree, ever) = (Tree::new(), BTreeMap::new());
    let mut own = Written { place, tree, ever, commit: 0 };
    let (volume, mount) = (own.file("disk.vol"), own.file("mnt"));
    let (volume, path) = (volume.to_string_lossy(), mount.to_string_lossy());
    let words = ["mkfs", &volume, "--size", SIZE, "--segment", "256K"];
    run(&[&words[..], flags].concat()).expect("a volume");
    std::fs::create_dir(&mount).expect("a mount point");
    run(&["mount", &volume, &path]).expect("it mounts");
    let name = |number: u64| PathBuf::from(format!("d{}/f{number}", number % 30));
    (0..30).for_each(|dir| std::fs::create_dir(mount.join(format!("d{dir}"))).expect("mkdir"));
    for number in 0..FILES {
        let bytes = text(chance);
        std::fs::write(mount.join(name(number)), &bytes).expect("write");
        own.put(name(number), bytes);
        if number % 500 == 99 {
            run(&["sync", &path]).expect("a sync");
        }
    }
    for _ in 0..FILES / 5 {
        let from = name(chance.below(FILES));
        let Some(before) = own.tree.remove(&from) else { continue };
        match chance.below(4) {
            0 => std::fs::remove_file(mount.join(&from)).expect("unlink"),
            1 => {
                let to = from.with_extension("moved");
                std::fs::rename(mount.join(&from), mount.join(&to)).expect("rename");
                own.put(to, before);
            }
            _ => {
                let bytes = text(chance);
                std::fs::write(mount.join(&from), &bytes).expect("write");
                own.put(from, bytes);
            }
        }
    }
    run(&["umount", &path]).expect("it unmounts");
    let (_, told) = esker(&["info", "--json", &volume]);
    own.commit = number_behind(&told, "\"commit\":").expect("the last commit");
    own
}

/// The number behind the first of these words in a text.
fn number_behind(text: &str, word: &str) -> Option<u64> {
    let (_, rest) = text.split_once(word)?;
    let rest = rest.trim_start();
    rest.split(|byte: char| !byte.is_ascii_digit()).next()?.parse().ok()
}

/// Destroys one block in so many thousand of a copy of the volume, and as many segments with superblocks.
fn destroyed(own: &Written, permille: u64, superblocks: usize, chance: &mut Chance) -> PathBuf {
    let copy = own.file("copy.vol");
    std::fs::copy(own.file("disk.vol"), &copy).expect("a copy");
    let file = std::fs::File::options().write(true).open(&copy).expect("it opens");
    let blocks = file.metadata().expect("stat").len() / BLOCK as u64;
    for block in 0..blocks {
        if chance.below(1000) < permille {
            let mut noise = vec![0; BLOCK];
            let zeros = chance.below(2) == 0;
            noise.iter_mut().filter(|_| !zeros).for_each(|byte| *byte = chance.number() as u8);
            file.write_all_at(&noise, block * BLOCK as u64).expect("damage");
        }
    }
    file.write_all_at(&vec![0; superblocks * SEGMENT], 0).expect("damage");
    copy
}

fn walk(root: &Path, at: &Path, to: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(at).expect("a listing") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => walk(root, &path, to),
            false => to.push(path.strip_prefix(root).expect("below it").to_owned()),
        }
    }
}

/// What came out.
#[derive(Default)]
struct Score {
    whole: usize,
    all: usize,
}

/// Recovers, and compares: nothing wrong has a right name, and whatever is not whole is named. All else is as of the
/// commit that the report tells.
fn recovered(own: &Written, volume: &Path) -> Score {
    let (out, report) = (own.file("out"), own.file("report.txt"));
    let output = Command::new(program().expect("the program"))
        .args(["recover", "--damaged", "-o"])
        .args([&out, volume])
        .arg("--report")
        .arg(&report)
        .output()
        .expect("it runs");
    let told = std::fs::read_to_string(&report)
        .unwrap_or_else(|_| String::from_utf8_lossy(&output.stderr).into_owned());
    let lines = told.lines().filter(|line| line.starts_with('/'));
    let path =
        |line: &str| PathBuf::from(line.split(": ").next().unwrap_or(line).trim_start_matches('/'));
    let named: BTreeSet<PathBuf> = lines.map(path).collect();
    let commit = number_behind(&told, "as of commit ").unwrap_or(own.commit);
    assert!(commit <= own.commit, "there was no such commit: {told}");
    let is_last = commit == own.commit;
    let contents: BTreeSet<&Vec<u8>> = match is_last {
        true => own.tree.values().collect(),
        false => own.ever.values().flatten().collect(),
    };
    let mut files = Vec::new();
    walk(&out, &out, &mut files);
    let mut score = Score { whole: 0, all: own.tree.len() };
    for path in &files {
        let bytes = std::fs::read(out.join(path)).expect("it reads");
        if own.tree.get(path) == Some(&bytes) {
            score.whole += 1;
            continue;
        }
        let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
        let nameless = path.starts_with("lost+found");
        let may_be_older =
            |at: &Path| at.extension().is_some_and(|end| end == "older") && named.contains(at);
        // What lies in a directory that may be older has a name that is no more right than that one's.
        let unsure = nameless || path.ancestors().skip(1).any(may_be_older);
        let right = match end {
            "older" => named.contains(path),
            "damaged" => named.contains(&path.with_extension("")),
            _ if unsure => contents.contains(&bytes),
            _ => !is_last && own.may_have_held(path, &bytes),
        };
        assert!(right, "{} is wrong, and nobody says so: {told}", path.display());
    }
    let whole = score.whole == score.all && named.is_empty();
    let lacks = told.contains("are lost in part");
    assert_eq!(output.status.success(), whole && !lacks, "{told}");
    std::fs::remove_dir_all(&out).expect("it goes");
    score
}

/// Percents of files that are whole with so many thousandths of the blocks destroyed.
fn exam(flags: &[&str], permille: u64, superblocks: bool) -> f64 {
    let mut score = Score::default();
    for case in 0..from_env("ESKER_CASES", 1) {
        let mut chance = Chance::new(seed().wrapping_add(case * 1000 + permille));
        let own = written(flags, &mut chance);
        // Two segments for each copy: what lies behind them nothing else may tell of.
        let homes = if flags.contains(&"--meta-copies") { 4 } else { 2 };
        let gone = if superblocks { homes } else { 0 };
        let volume = destroyed(&own, permille, gone, &mut chance);
        let found = recovered(&own, &volume);
        score = Score { whole: score.whole + found.whole, all: score.all + found.all };
    }
    let percent = score.whole as f64 * 100.0 / score.all as f64;
    println!(
        "{flags:?}, {permille} of 1000 blocks, superblocks gone {superblocks}: {percent:.1} %"
    );
    percent
}

const TWICE: &[&str] = &["--block", "4K", "--meta-copies", "2"];

#[test]
fn small_files_survive_as_far_as_their_own_bytes_do() {
    if !may_mount() {
        return;
    }
    for superblocks in [false, true] {
        for (permille, least) in [(0, 100.0), (10, 98.0), (50, 90.0), (200, 65.0)] {
            let percent = exam(TWICE, permille, superblocks);
            assert!(percent >= least, "{permille} of 1000: {percent} %, not {least}");
        }
    }
}

/// With one copy of everything less is found, and what has its right name is right all the same.
#[test]
fn nothing_wrong_has_a_right_name_with_one_copy() {
    if !may_mount() {
        return;
    }
    for superblocks in [false, true] {
        for permille in [0, 10, 200] {
            let percent = exam(&[], permille, superblocks);
            assert!(permille > 0 || superblocks || percent == 100.0, "{percent} % of a whole one");
        }
    }
}

/// What is no volume, and what is in use, is told so.
#[test]
fn what_cannot_be_recovered_is_told() {
    let place = Place::new("nothing").expect("a place");
    let (file, out) = (place.path().join("noise"), place.path().join("out"));
    std::fs::write(&file, vec![7; 3 << 20]).expect("a file");
    let words = [file.to_string_lossy(), out.to_string_lossy()];
    let told = run(&["recover", &words[0], "-o", &words[1]]).expect_err("nothing is there");
    assert!(told.contains("nothing of a volume or an image"), "{told}");
    let told = run(&["recover", "/nowhere", "-o", &words[1]]).expect_err("nothing is there");
    assert!(told.contains("/nowhere"), "{told}");
    assert!(!out.exists());
    std::fs::remove_file(&file).expect("it goes");
}

fn esker(words: &[&str]) -> (bool, String) {
    let output =
        Command::new(program().expect("the program")).args(words).output().expect("it runs");
    let told = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&told).into_owned())
}

/// The lines that end so, without that.
fn ending(told: &str, end: &str) -> BTreeSet<String> {
    told.lines().filter_map(|line| line.strip_suffix(end)).map(str::to_owned).collect()
}

/// Files that do not come out of a volume as they were.
fn lost(own: &Written, volume: &str) -> BTreeSet<String> {
    let out = own.file("all");
    let _ = esker(&["recover", volume, "-o", &out.to_string_lossy()]);
    let is_lost =
        |path: &Path, bytes: &Vec<u8>| std::fs::read(out.join(path)).ok() != Some(bytes.clone());
    let files = own.tree.iter().filter(|(path, bytes)| is_lost(path, bytes));
    let found = files.map(|(path, _)| format!("/{}", path.display())).collect();
    std::fs::remove_dir_all(&out).expect("it goes");
    found
}

/// Scrubbing makes all tables and superblocks right again, and names exactly the files that are damaged; of a volume
/// that is whole it says nothing.
#[test]
fn scrubbing_mends_what_it_can_and_names_the_rest() {
    if !may_mount() {
        return;
    }
    // Several files share a block of the usual length.
    for flags in [TWICE, &["--meta-copies", "2"]] {
        scrubbed(flags);
    }
}

fn scrubbed(flags: &[&str]) {
    let mut chance = Chance::new(seed());
    let own = written(flags, &mut chance);
    let whole = own.file("disk.vol");
    let (done, told) = esker(&["scrub", &whole.to_string_lossy()]);
    assert!(done && told.contains("0 superblocks, 0 parts of tables, 0 pieces"), "{told}");
    let (mut mended, mut named) = (0, 0);
    for permille in [20, 60] {
        let volume = destroyed(&own, permille, 0, &mut chance);
        let path = volume.to_string_lossy().into_owned();
        let before = std::fs::read(&volume).expect("it reads");
        let (done, told) = esker(&["scrub", "--dry-run", &path]);
        let none = "0 superblocks, 0 parts of tables, 0 pieces of parity; 0 finding";
        assert_eq!(done, told.contains(none), "{told}");
        assert!(std::fs::read(&volume).expect("it reads") == before, "it was only to look");
        let (_, told) = esker(&["scrub", &path, "--rate", "1G"]);
        mended += u64::from(!told.contains("0 parts of tables, 0 pieces"));
        let damaged = ending(&told, ": damaged");
        named += damaged.len();
        let (_, told) = esker(&["scrub", "--dry-run", &path]);
        assert!(told.contains("0 superblocks, 0 parts of tables, 0 pieces"), "{told}");
        assert_eq!(ending(&told, ": damaged"), damaged, "another time, other files");
        assert_eq!(lost(&own, &path), damaged, "{permille} of 1000");
        // As it was before that, and without superblocks, whatever has its own blocks is there too.
        let raw = own.file("raw.vol");
        std::fs::write(&raw, &before).expect("a copy");
        assert_eq!(lost(&own, &raw.to_string_lossy()), damaged, "{permille} of 1000, not mended");
        let file = std::fs::File::options().write(true).open(&raw).expect("it opens");
        file.write_all_at(&vec![0; (4 * SEGMENT).max(1 << 20)], 0).expect("damage");
        assert_eq!(lost(&own, &raw.to_string_lossy()), damaged, "{permille}, superblocks gone");
    }
    assert!(mended > 0 && named > 0, "nothing was damaged");
}

/// Tables that only a snapshot has are made again as well, so that it names all that it had.
#[test]
fn what_only_a_snapshot_has_is_scrubbed() {
    if !may_mount() {
        return;
    }
    let mut chance = Chance::new(seed());
    let own = written(TWICE, &mut chance);
    let (volume, mount) = (own.file("disk.vol"), own.file("mnt"));
    let (path, at) = (volume.to_string_lossy(), mount.to_string_lossy());
    run(&["snapshot", "create", &path, "before"]).expect("a snapshot");
    let (_, before) = esker(&["find", &format!("{path}@before")]);
    assert!(before.lines().count() > own.tree.len(), "{before}");
    run(&["mount", &path, &at]).expect("it mounts");
    // All tables of names and inodes are replaced.
    for dir in 0..30 {
        std::fs::remove_dir_all(mount.join(format!("d{dir}"))).expect("it goes");
    }
    run(&["umount", &at]).expect("it unmounts");
    run(&["check", &path]).expect("it is whole");
    let mut mended = 0;
    for permille in [20, 60] {
        let copy = destroyed(&own, permille, 0, &mut chance);
        let copy = copy.to_string_lossy().into_owned();
        let (_, told) = esker(&["scrub", &copy]);
        mended += u64::from(!told.contains(" 0 parts of tables"));
        let (done, after) = esker(&["find", &format!("{copy}@before")]);
        assert!(done, "{permille} of 1000: {told}");
        assert_eq!(after.replace(&copy, &path), before, "{permille} of 1000: {told}");
    }
    assert!(mended > 0, "no table was damaged");
}

/// What a volume is like is changed, and it grows by what is larger.
#[test]
fn a_volume_is_tuned_and_grows() {
    if !may_mount() {
        return;
    }
    let mut chance = Chance::new(seed());
    let own = written(&[], &mut chance);
    let (volume, mount) = (own.file("disk.vol"), own.file("mnt"));
    let (path, at) = (volume.to_string_lossy(), mount.to_string_lossy());
    for (words, why) in [
        (["resize", &path, "--size", "24M"], "a volume only grows"),
        (["tune", &path, "--reserve", "30M"], "bad --reserve"),
    ] {
        let (done, told) = esker(&words);
        assert!(!done && told.contains(why), "{told}");
    }
    run(&["resize", &path, "--size", "96M"]).expect("it grows");
    run(&["label", &path, "new"]).expect("it is named");
    run(&["tune", &path, "--reserve", "1%", "--compress", "lz4"]).expect("it is tuned");
    let (_, told) = esker(&["info", &path]);
    for word in ["new", "96.0 MiB", "lz4", "384 of"] {
        assert!(told.contains(word), "{word} in {told}");
    }
    run(&["check", &path]).expect("it is whole");
    run(&["mount", &path, &at]).expect("it mounts");
    let noise: Vec<u8> = (0..60 << 20).map(|_| chance.number() as u8).collect();
    std::fs::write(mount.join("large"), &noise).expect("there is room now");
    for (path, bytes) in &own.tree {
        assert!(std::fs::read(mount.join(path)).expect("it reads") == *bytes, "{}", path.display());
    }
    run(&["umount", &at]).expect("it unmounts");
    run(&["check", &path]).expect("it is whole");
}
