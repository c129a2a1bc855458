//! Volumes by command: made, mounted, looked into, refused by name when something is wrong.

mod common;

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Command, Output};

use common::{ESKER, Scratch, can_mount};

struct Lab(Scratch);

impl Lab {
    fn new() -> Self {
        let scratch = Scratch::new();
        scratch.dir("mnt");
        Self(scratch)
    }

    fn path(&self, name: &str) -> String {
        self.0.path(name).to_string_lossy().into_owned()
    }
}

fn run(words: &[&str]) -> Output {
    Command::new(ESKER).args(words).output().expect("esker runs")
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

fn succeeds(words: &[&str]) -> String {
    let output = run(words);
    assert!(output.status.success(), "{words:?}: {}", told(&output));
    told(&output)
}

/// It fails with this status, and says all of this.
fn fails(words: &[&str], status: i32, parts: &[&str]) {
    let output = run(words);
    let text = told(&output);
    assert_eq!(output.status.code(), Some(status), "{words:?}: {text}");
    parts.iter().for_each(|part| assert!(text.contains(part), "{words:?}: {text} lacks {part}"));
}

#[test]
fn a_volume_is_made_with_what_was_asked_for() {
    let lab = Lab::new();
    let disk = lab.path("disk.vol");
    fails(&["mkfs", &disk], 2, &["give --size"]);
    fails(&["mkfs", &disk, "--size", "100K"], 2, &["too small"]);
    fs::remove_file(&disk).expect("what was refused may be there");
    let uuid = "01234567-89ab-cdef-0123-456789abcdef";
    succeeds(&["mkfs", &disk, "--size", "64M", "--label", "some name", "--uuid", uuid]);
    let sparse = fs::metadata(&disk).expect("a file");
    assert_eq!(sparse.len(), 64 << 20);
    assert!(std::os::unix::fs::MetadataExt::blocks(&sparse) * 512 < 4 << 20, "it is sparse");
    let info = succeeds(&["info", &disk]);
    for part in [uuid, "some name", "64.0 MiB"] {
        assert!(info.contains(part), "{info}");
    }
    fails(&["mkfs", &disk], 1, &["Esker volume", "--force"]);
    succeeds(&["mkfs", &disk, "--force", "--compress", "none", "--block", "4K", "--segment", "1M"]);
    for bad in [["--segment", "3M"], ["--block", "64K"], ["--compress", "xz"], ["--uuid", "1"]] {
        fails(&["mkfs", &disk, "--force", bad[0], bad[1]], 2, &[bad[0]]);
    }
    succeeds(&["check", &disk]);
}

#[test]
fn what_is_no_volume_or_damaged_is_refused_by_name() {
    let lab = Lab::new();
    let disk = lab.path("disk.vol");
    succeeds(&["mkfs", &disk, "--size", "16M"]);
    let file = fs::OpenOptions::new().read(true).write(true).open(&disk).expect("it is there");
    file.set_len(8 << 20).expect("cut");
    fails(&["check", &disk], 6, &["cut short"]);
    fails(&["ls", &disk], 6, &["cut short"]);
    file.set_len(16 << 20).expect("as large again");
    succeeds(&["check", &disk]);
    let mut head = [0; 512];
    file.read_exact_at(&mut head, 0).expect("a superblock");
    for (at, what, status) in [(8, "version", 4), (32, "features", 4), (100, "volume", 4)] {
        let mut other = head;
        other[at] ^= 0x40;
        if at < 100 {
            let sum = esker_stone::check::checksum(&other[..496]);
            other[496..504].copy_from_slice(&sum.to_le_bytes());
        }
        file.write_all_at(&other, 0).expect("written");
        fails(&["check", &disk], status, &[what]);
    }
}

#[test]
fn a_mounted_volume_keeps_what_it_was_given() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let (disk, mnt) = (lab.path("disk.vol"), lab.path("mnt"));
    succeeds(&["mkfs", &disk, "--size", "64M"]);
    succeeds(&["mount", &disk, &mnt]);
    fs::write(format!("{mnt}/f"), "kept").expect("write");
    succeeds(&["sync", &mnt]);
    fails(&["mount", &disk, &lab.path("other")], 3, &["no such directory"]);
    fs::create_dir(lab.path("other")).expect("a directory");
    fails(&["mount", &disk, &lab.path("other")], 1, &["in use by esker (pid"]);
    fails(&["mkfs", "--force", &disk], 1, &["in use by esker (pid"]);
    fails(&["check", &disk], 1, &["in use by esker (pid"]);
    fs::write(format!("{mnt}/g"), vec![7; 100_000]).expect("write");
    succeeds(&["umount", &mnt]);
    succeeds(&["check", &disk]);
    assert_eq!(succeeds(&["cat", &format!("{disk}:/f")]), "kept");
    assert!(succeeds(&["ls", &disk]).contains('g'));
    assert!(succeeds(&["dump", &disk, "/f"]).contains("Inode"));
    for what in ["superblocks", "segments", "parts", "tables", "inode:1"] {
        succeeds(&["dump", &disk, what]);
    }
    fails(&["dump", &disk, "nothing"], 2, &["nothing that can be shown"]);
    let out = lab.path("out");
    succeeds(&["extract", &disk, "-o", &out]);
    assert_eq!(fs::read(format!("{out}/g")).expect("it came out"), vec![7; 100_000]);
    succeeds(&["pack", &disk, "-o", &lab.path("x.esker"), "--level", "1"]);
    succeeds(&["diff", &disk, &lab.path("x.esker")]);
}

#[test]
fn a_read_only_mount_writes_nothing() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new();
    let (disk, mnt) = (lab.path("disk.vol"), lab.path("mnt"));
    succeeds(&["mkfs", &disk, "--size", "16M"]);
    succeeds(&["mount", &disk, &mnt]);
    fs::write(format!("{mnt}/f"), "kept").expect("write");
    succeeds(&["umount", &mnt]);
    let before = fs::read(&disk).expect("bytes");
    fs::set_permissions(Path::new(&disk), std::os::unix::fs::PermissionsExt::from_mode(0o444))
        .expect("chmod");
    succeeds(&["mount", &disk, &mnt, "-o", "ro"]);
    assert_eq!(fs::read(format!("{mnt}/f")).expect("read"), b"kept");
    assert!(fs::write(format!("{mnt}/f"), "changed").is_err());
    succeeds(&["umount", &mnt]);
    assert!(fs::read(&disk).expect("bytes") == before, "it was written");
}
