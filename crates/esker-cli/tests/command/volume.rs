//! Volumes by command: made, mounted, looked into, refused by name when something is wrong.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use crate::common::lab::{Lab, fails, succeeds, told};
use crate::common::{ESKER, can_mount, noise};

#[test]
fn a_volume_is_made_with_what_was_asked_for() {
    let lab = Lab::new(&["mnt"]);
    let disk = lab.path("disk.vol");
    fails(&["mkfs", &disk], 2, &["give --size"]);
    fails(&["mkfs", &disk, "--size", "100K"], 2, &["100.0 KiB is too small", "128.0 KiB", "12"]);
    assert!(!Path::new(&disk).exists(), "what was refused is left");
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
    let long = ["mkfs", &disk, "--force", "--segment", "4M"];
    let told = succeeds(&long);
    assert!(told.contains("with room for 18."), "{told}");
    assert!(told.contains("without --segment they have 256.0 KiB"), "{told}");
    let told = succeeds(&[&long[..], &["--json"]].concat());
    let told: serde_json::Value =
        told.lines().next().and_then(|line| serde_json::from_str(line).ok()).expect("JSON");
    assert!(told["room"].as_u64() < Some(20 << 20), "{told}");
    for bad in [["--segment", "3M"], ["--block", "64K"], ["--compress", "xz"], ["--uuid", "1"]] {
        fails(&["mkfs", &disk, "--force", bad[0], bad[1]], 2, &[bad[0]]);
    }
    succeeds(&["check", &disk]);
}

#[test]
fn what_is_no_volume_or_damaged_is_refused_by_name() {
    let lab = Lab::new(&["mnt"]);
    let disk = lab.path("disk.vol");
    fs::write(&disk, [7; 5000]).expect("written");
    for verb in ["dump", "info", "check", "ls"] {
        fails(&[verb, &disk], 4, &["not an Esker", "`esker mkfs`"]);
    }
    fs::remove_file(&disk).expect("it is there");
    succeeds(&["mkfs", &disk, "--size", "16M"]);
    let file = fs::OpenOptions::new().read(true).write(true).open(&disk).expect("it is there");
    file.set_len(8 << 20).expect("cut");
    fails(&["check", &disk], 6, &["cut short"]);
    fails(&["ls", &disk], 6, &["cut short"]);
    file.set_len(16 << 20).expect("as large again");
    succeeds(&["check", &disk]);
    let mut head = [0; 512];
    file.read_exact_at(&mut head, 0).expect("a superblock");
    for (at, what, status) in [(8, "version", 4), (39, "features", 4), (100, "volume", 4)] {
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
    let lab = Lab::new(&["mnt"]);
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
    for what in ["superblocks", "at:0", "segments", "parts", "tables", "inode:1"] {
        succeeds(&["dump", &disk, what]);
    }
    fails(&["dump", &disk, "nothing"], 2, &["nothing that can be shown"]);
    for (what, said) in [
        ("table:77", "no table 77"),
        ("part:77:0", "no segment 77"),
        ("part:1:512", "no part of segment 1"),
        ("block:77:1", "no block 1 of segment 77"),
        ("inode:77", "no inode 77"),
        ("at:99999999999", "past the end"),
    ] {
        assert!(succeeds(&["dump", &disk, what]).contains(said), "{what}");
    }
    let out = lab.path("out");
    succeeds(&["extract", &disk, "-o", &out]);
    assert_eq!(fs::read(format!("{out}/g")).expect("it came out"), vec![7; 100_000]);
    succeeds(&["pack", &disk, "-o", &lab.path("x.esker"), "--level", "1"]);
    succeeds(&["diff", &disk, &lab.path("x.esker")]);
}

fn used(disk: &str) -> u64 {
    let told = succeeds(&["info", disk, "--json"]);
    let used = told.split_once("\"used\":").expect("it is said").1;
    used.split([',', '}']).next().and_then(|word| word.trim().parse().ok()).expect("a number")
}

/// Words that would do nothing are refused by name, with what to do instead.
#[test]
fn options_that_do_not_fit_are_refused() {
    let lab = Lab::new(&["mnt"]);
    let (disk, mnt) = (lab.path("disk.vol"), lab.path("mnt"));
    succeeds(&["mkfs", &disk, "--size", "16M"]);
    for (word, remedy) in [("uid=5", "chown(1)"), ("mode=700", "chmod(1)"), ("size=1G", "dirty=")] {
        let name = word.split_inclusive('=').next().expect("a word");
        fails(&["mount", &disk, &mnt, "-o", word], 2, &[name, "not for volumes", remedy]);
    }
    fails(&["mount", &disk, &mnt, "--overlay"], 2, &["overlay is not for volumes"]);
    fails(&["mount", "mem:", &mnt, "-o", "commit=5"], 2, &["commit= is only for volumes"]);
    fails(&["mount", &disk, &mnt, "-o", "compress=xz"], 2, &["compress=xz", "zstd"]);
    fails(&["mkfs", &disk, "--force", "--reserve", "60%"], 2, &["--reserve", "50%"]);
    fails(&["mkfs", &disk, "--force", "--reserve", "12M"], 2, &["--reserve", "half"]);
    fails(&["mount", &disk, &mnt, "-o", "threads=0"], 2, &["threads=0", "from 1 to 64"]);
    fails(&["resize", &disk, "--size", "9999T"], 2, &["4.0 GiB at most"]);
    let other = lab.path("other.vol");
    fails(&["mkfs", &other, "--size", "1000T"], 2, &["128.0 TiB at most"]);
    fails(&["mkfs", &other, "--size", "1M"], 2, &["too small", "1.5 MiB at least"]);
}

#[test]
fn a_reserve_is_not_shown_as_free() {
    let lab = Lab::new(&["mnt"]);
    let disk = lab.path("disk.vol");
    let free = |reserve: &str| {
        succeeds(&["mkfs", &disk, "--force", "--size", "64M", "--reserve", reserve]);
        let told = succeeds(&["info", &disk, "--json"]);
        let free = told.split_once("\"free\":").expect("it is said").1;
        free.split(',').next().and_then(|word| word.parse::<u64>().ok()).expect("a number")
    };
    // Of each segment a little is never told to be free.
    let kept = free("0") - free("25%");
    assert!((13 << 20..=16 << 20).contains(&kept), "{kept}");
}

#[test]
fn what_is_new_is_compressed_as_the_mount_says() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["mnt"]);
    let (disk, mnt) = (lab.path("disk.vol"), lab.path("mnt"));
    succeeds(&["mkfs", &disk, "--size", "64M"]);
    let more = |options: &[&str], name: &str| {
        let before = used(&disk);
        succeeds(&[&["mount", &disk, &mnt][..], options].concat());
        fs::write(format!("{mnt}/{name}"), vec![7; 4 << 20]).expect("write");
        succeeds(&["umount", &mnt]);
        used(&disk) - before
    };
    let (plain, packed) = (more(&["-o", "compress=none,nodiscard,nodedup"], "f"), more(&[], "g"));
    assert!(plain >= 4 << 20 && packed < 1 << 20, "{plain}, {packed}");
    succeeds(&["check", &disk]);
}

/// Whoever only looks has nothing written, however long it is mounted, nor when it is unmounted.
#[test]
fn a_volume_in_which_nothing_changes_is_not_written() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["mnt"]);
    let (disk, mnt) = (lab.path("disk.vol"), lab.path("mnt"));
    succeeds(&["mkfs", &disk, "--size", "16M"]);
    succeeds(&["mount", &disk, &mnt]);
    fs::write(format!("{mnt}/f"), vec![7; 1 << 20]).expect("write");
    succeeds(&["umount", &mnt]);
    let before = fs::read(&disk).expect("bytes");
    succeeds(&["mount", &disk, &mnt, "-o", "commit=1"]);
    for _ in 0..5 {
        assert_eq!(fs::read(format!("{mnt}/f")).expect("read").len(), 1 << 20);
        assert_eq!(fs::read_dir(&mnt).expect("a listing").count(), 1);
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
    succeeds(&["sync", &mnt]);
    assert!(fs::read(&disk).expect("bytes") == before, "it was written");
    succeeds(&["umount", &mnt]);
    assert!(fs::read(&disk).expect("bytes") == before, "it was written when it was left");
}

/// A volume that is made again under the same UUID holds nothing of what was there, and says so.
#[test]
fn nothing_comes_back_of_an_earlier_volume_of_the_same_name() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["mnt"]);
    let (disk, mnt) = (lab.path("disk.vol"), lab.path("mnt"));
    let making = ["mkfs", &disk, "--force", "--size", "16M"];
    let again = ["--uuid", "01234567-89ab-cdef-0123-456789abcdef"];
    for round in 0..3 {
        succeeds(&[&making[..], &again].concat());
        assert_eq!(succeeds(&["ls", &disk]), "", "round {round}");
        succeeds(&["mount", &disk, &mnt]);
        fs::write(format!("{mnt}/f{round}"), vec![7; 3 << 20]).expect("write");
        succeeds(&["umount", &mnt]);
        succeeds(&["check", &disk]);
    }
    // Its superblocks are gone, and no one can say how far it was.
    let file = fs::OpenOptions::new().write(true).open(&disk).expect("it is there");
    file.write_all_at(&[0; 256 << 10], 0).expect("written");
    fails(&[&making[..], &again, &["--no-discard"]].concat(), 2, &["the same UUID"]);
    succeeds(&[&making[..], &again].concat());
    assert_eq!(succeeds(&["ls", &disk]), "");
}

/// Under the names that mount(8), fsck(8) and mkfs(8) look for, from where the volume lies, with their exit statuses.
#[test]
fn helpers_answer_as_those_who_call_them_expect() {
    let lab = Lab::new(&["mnt"]);
    let helper = |name: &str, words: &[&str]| {
        let link = lab.path(name);
        if !Path::new(&link).exists() {
            std::os::unix::fs::symlink(ESKER, &link).expect("a link");
        }
        let mut command = Command::new(link);
        let output = command.args(words).current_dir(lab.path("")).output().expect("it runs");
        (output.status.code().expect("an exit status"), told(&output))
    };
    assert_eq!(helper("mkfs.esker", &["disk.vol", "--size", "16M"]).0, 0);
    assert_eq!(helper("mkfs.esker", &["disk.vol"]).0, 1);
    assert_eq!(helper("fsck.esker", &["-a", "-C", "3", "disk.vol"]).0, 0);
    assert_eq!(helper("fsck.esker", &["none.vol"]).0, 8);
    assert_eq!(helper("fsck.esker", &[]).0, 16);
    assert_eq!(helper("mount.esker", &["disk.vol", "mnt", "-o", "nonsense"]).0, 1);
    assert_eq!(helper("mount.esker", &["disk.vol", "none"]).0, 32);
    assert_eq!(helper("mount.esker", &["none.vol", "mnt"]).0, 32);
    if can_mount() {
        let (status, said) = helper("mount.esker", &["disk.vol", "mnt", "-n", "-o", "rw,commit=9"]);
        assert_eq!(status, 0, "{said}");
        fs::write(lab.path("mnt/f"), "kept").expect("write");
        succeeds(&["umount", &lab.path("mnt")]);
        damage_last_head(&lab.path("disk.vol"));
        let (status, said) = helper("fsck.esker", &["disk.vol"]);
        assert!(status == 4 && said.contains("a commit that was safe is lost"), "{status}: {said}");
        fails(&["mount", &lab.path("disk.vol"), &lab.path("mnt")], 6, &["is lost"]);
    }
}

/// Turns a byte round in the head of the last commit.
fn damage_last_head(disk: &str) {
    let mut bytes = fs::read(disk).expect("a volume");
    let mut heads =
        (0..bytes.len()).step_by(4096).filter(|&at| bytes[at..].starts_with(b"EskrPart"));
    let last = heads.next_back().expect("a commit");
    bytes[last + 100] ^= 1;
    fs::write(disk, bytes).expect("written");
}

/// A file as a block device, as long as this lives.
struct Loop(String);

impl Loop {
    fn new(words: &[&str]) -> Option<Self> {
        let made = Command::new("losetup").args(["-f", "--show"]).args(words).output().ok()?;
        made.status.success().then(|| Self(told(&made).trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["-d", &self.0]).status();
    }
}

/// The version of the kernel.
fn kernel() -> (u32, u32) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

/// On a block device syncfs(2) and umount(8) reach the server, and return when all is written.
#[test]
fn umount8_and_sync1_of_a_block_device_wait() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["mnt"]);
    let (file, mnt) = (lab.path("disk"), lab.path("mnt"));
    fs::File::create(&file).and_then(|file| file.set_len(64 << 20)).expect("a file");
    let Some(device) = Loop::new(&[&file]) else {
        eprintln!("LEFT OUT: no loop device to be had");
        return;
    };
    succeeds(&["mkfs", &device.0]);
    succeeds(&["mount", &device.0, &mnt, "-o", "placement=none"]);
    assert!(succeeds(&["info", &mnt]).contains("not told: it was mounted with placement=none"));
    succeeds(&["umount", &mnt]);
    succeeds(&["mount", &device.0, &mnt, "-o", "commit=3600"]);
    assert!(succeeds(&["info", &mnt]).contains("not told: the device keeps no streams apart"));
    let shows = |name: &str| {
        let copy = lab.path("copy");
        fs::copy(&file, &copy).expect("a copy");
        succeeds(&["check", &copy]);
        succeeds(&["ls", &copy]).contains(name)
    };
    fs::write(format!("{mnt}/synced"), vec![7; 1 << 20]).expect("write");
    let sync = Command::new("sync").args(["-f", &mnt]).status().expect("sync(1)");
    assert!(sync.success());
    if kernel() >= (6, 18) {
        assert!(shows("synced"));
    } else {
        eprintln!("LEFT OUT: before Linux 6.18 syncfs(2) is not passed on");
    }
    fs::write(format!("{mnt}/unmounted"), vec![7; 1 << 20]).expect("write");
    let umount = Command::new("umount").arg(&mnt).status().expect("umount(8)");
    assert!(umount.success() && shows("unmounted"));
}

/// Sectors that a block device was told to forget so far.
fn discarded(device: &str) -> u64 {
    let name = device.rsplit('/').next().expect("a name");
    let told = fs::read_to_string(format!("/sys/class/block/{name}/stat")).expect("told");
    told.split_whitespace().nth(13).and_then(|word| word.parse().ok()).expect("a number")
}

/// A device is told to forget what a volume needs no more, with `-o discard` and by mkfs; it writes no zeros there.
#[test]
fn a_device_forgets_what_nobody_needs() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["mnt"]);
    let (file, mnt) = (lab.path("disk"), lab.path("mnt"));
    fs::File::create(&file).and_then(|file| file.set_len(64 << 20)).expect("a file");
    let Some(device) = Loop::new(&[&file]) else {
        eprintln!("LEFT OUT: no loop device to be had");
        return;
    };
    let life = |options: &str, told: &str| {
        succeeds(&["mount", &device.0, &mnt, "-o", options]);
        assert!(succeeds(&["info", &mnt]).contains(told), "{told}");
        fs::write(format!("{mnt}/noise"), crate::common::noise(1, 16 << 20)).expect("written");
        succeeds(&["sync", &mnt]);
        fs::remove_file(format!("{mnt}/noise")).expect("removed");
        succeeds(&["umount", &mnt]);
    };
    let begin = discarded(&device.0);
    succeeds(&["mkfs", &device.0, "--no-discard"]);
    life("rw", "nothing is given back: it is mounted without discard");
    assert_eq!(discarded(&device.0), begin);
    life("discard", "0 B given back since it was mounted");
    let sectors = discarded(&device.0) - begin;
    // All that was free, and then what was written.
    assert!((56 << 20..96 << 20).contains(&(sectors * 512)), "{sectors}");
    let before = discarded(&device.0);
    succeeds(&["mkfs", "-F", &device.0]);
    assert_eq!(discarded(&device.0) - before, (64 << 20) / 512);
}

/// What was deleted takes no room in the file below once the volume is unmounted, nor what was there before mkfs.
#[test]
fn a_file_gives_back_what_nobody_needs() {
    use std::os::unix::fs::MetadataExt as _;
    let lab = Lab::new(&["mnt", "from"]);
    let (disk, mnt) = (lab.path("disk.vol"), lab.path("mnt"));
    let takes = || fs::metadata(&disk).expect("there").blocks() * 512;
    let noise = crate::common::noise(1, 32 << 20);
    fs::write(lab.path("from/noise"), &noise).expect("written");
    succeeds(&["mkfs", &disk, "--size", "64M", "--from", &lab.path("from")]);
    assert!(takes() > 32 << 20);
    if can_mount() {
        succeeds(&["mount", &disk, &mnt]);
        assert_eq!(fs::read(format!("{mnt}/noise")).expect("read"), noise);
        fs::remove_file(format!("{mnt}/noise")).expect("removed");
        succeeds(&["umount", &mnt]);
        assert!(takes() < 4 << 20, "{}", takes());
        succeeds(&["check", &disk]);
        // What was free before is given back on request.
        succeeds(&["mount", &disk, &mnt, "-o", "nodiscard"]);
        fs::write(format!("{mnt}/noise"), &noise).expect("written");
        succeeds(&["sync", &mnt]);
        fs::remove_file(format!("{mnt}/noise")).expect("removed");
        succeeds(&["umount", &mnt]);
        assert!(takes() > 32 << 20, "{}", takes());
        succeeds(&["mount", &disk, &mnt, "-o", "discard"]);
        succeeds(&["umount", &mnt]);
        assert!(takes() < 4 << 20, "{}", takes());
        succeeds(&["check", &disk]);
    }
    fs::write(&disk, &noise).expect("written");
    succeeds(&["mkfs", "-F", &disk]);
    assert!(takes() < 1 << 20, "{}", takes());
}

/// umount(8) of a volume in a file does not wait until all is written: whoever opens the volume then does.
#[test]
fn who_comes_after_umount8_waits() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["mnt"]);
    let (disk, mnt) = (lab.path("disk.vol"), lab.path("mnt"));
    succeeds(&["mkfs", &disk, "--size", "64M"]);
    succeeds(&["mount", &disk, &mnt]);
    for number in 0..8u8 {
        fs::write(format!("{mnt}/f{number}"), vec![number; 1 << 20]).expect("written");
    }
    let status = Command::new("umount").arg(&mnt).status().expect("umount");
    assert!(status.success());
    succeeds(&["check", &disk]);
}

/// A device that cannot be written can be opened to be written: that is said before anybody counts on it.
#[test]
fn a_read_only_device_is_mounted_to_be_read() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["mnt"]);
    let (file, mnt) = (lab.path("disk"), lab.path("mnt"));
    succeeds(&["mkfs", &file, "--size", "16M"]);
    let Some(device) = Loop::new(&["-r", &file]) else {
        eprintln!("LEFT OUT: no loop device to be had");
        return;
    };
    fails(&["mount", &device.0, &mnt], 4, &["the device is read-only", "-o ro"]);
    fails(&["mkfs", "--force", &device.0], 4, &["the device is read-only"]);
    succeeds(&["mount", &device.0, &mnt, "-o", "ro"]);
    assert_eq!(fs::read_dir(&mnt).expect("a listing").count(), 0);
    // Twice, too.
    let other = lab.path("other");
    fs::create_dir(&other).expect("a directory");
    succeeds(&["mount", &device.0, &other, "-o", "ro"]);
    assert_eq!(fs::read_dir(&other).expect("a listing").count(), 0);
    succeeds(&["umount", &other]);
    succeeds(&["umount", &mnt]);
    succeeds(&["check", &device.0]);
}

/// Who has a loop device has the file below it: nobody writes by the one what another writes by the other.
#[test]
fn a_loop_device_and_its_file_are_one_volume() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["mnt", "other"]);
    let (file, mnt, other) = (lab.path("disk"), lab.path("mnt"), lab.path("other"));
    succeeds(&["mkfs", &file, "--size", "16M"]);
    let (Some(device), Some(twin)) = (Loop::new(&[&file]), Loop::new(&[&file])) else {
        eprintln!("LEFT OUT: no loop devices to be had");
        return;
    };
    let all = [&file, &device.0, &twin.0];
    for first in all {
        succeeds(&["mount", first, &mnt]);
        for second in all {
            fails(&["mount", second, &other], 1, &["in use by esker", "it is mounted on", &mnt]);
        }
        fails(&["mkfs", "--force", all[usize::from(first == all[0])]], 1, &["in use by esker"]);
        succeeds(&["umount", &mnt]);
    }
}

/// A volume that is mounted is one even if its first superblock is damaged.
#[test]
fn a_damaged_volume_in_use_is_called_so() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["mnt", "other"]);
    let (disk, mnt, other) = (lab.path("disk.vol"), lab.path("mnt"), lab.path("other"));
    succeeds(&["mkfs", &disk, "--size", "16M"]);
    succeeds(&["mount", &disk, &mnt]);
    fs::write(format!("{mnt}/f"), "written").expect("written");
    succeeds(&["umount", &mnt]);
    let file = fs::OpenOptions::new().write(true).open(&disk).expect("a file");
    file.write_all_at(&[7; 4096], 0).expect("damaged");
    succeeds(&["mount", &disk, &mnt]);
    for words in [&["check", &disk][..], &["ls", &disk], &["mount", &disk, &other]] {
        fails(words, 1, &["in use by esker", &mnt]);
    }
    succeeds(&["umount", &mnt]);
    succeeds(&["info", &disk]);
}

#[test]
fn a_read_only_mount_writes_nothing() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["mnt"]);
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

#[test]
fn a_volume_grows_and_gets_another_name() {
    let lab = Lab::new(&["mnt"]);
    let disk = lab.path("disk.vol");
    succeeds(&["mkfs", &disk, "--size", "16M", "--label", "old", "--from", &lab.path(".")]);
    let holds = succeeds(&["ls", &disk]);
    succeeds(&["resize", &disk, "--size", "32M"]);
    let info = succeeds(&["info", &disk]);
    assert!(info.contains("32.0 MiB") && info.contains("old"), "{info}");
    assert_eq!(fs::metadata(&disk).expect("a file").len(), 32 << 20);
    fails(&["resize", &disk, "--size", "16M"], 2, &["only grows", "32.0 MiB"]);
    fails(&["resize", &disk, "--size", "1T"], 2, &["4.0 GiB at most"]);
    fails(&["label", &disk, &"x".repeat(33)], 2, &["32 bytes"]);
    assert_eq!(succeeds(&["label", &disk]).trim(), "old");
    assert_eq!(succeeds(&["label", &disk, "new"]).trim(), "new");
    succeeds(&["tune", &disk, "--compress", "lz4", "--reserve", "5%"]);
    fails(&["tune", &disk, "--reserve", "60%"], 2, &["50%"]);
    fails(&["tune", &disk], 2, &["--compress"]);
    let told = succeeds(&["label", &disk, "--json"]);
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!((&told["label"], &told["compress"]), (&"new".into(), &"lz4".into()));
    assert_eq!(told["reserve"].as_u64(), Some((32 << 20) / 100 * 5));
    assert_eq!(succeeds(&["ls", &disk]), holds);
    succeeds(&["check", &disk]);
    let nothing = lab.path("nothing");
    fs::write(&nothing, [7; 1 << 20]).expect("written");
    fails(&["resize", &nothing, "--size", "64M"], 4, &["not an Esker volume"]);
    assert_eq!(fs::metadata(&nothing).expect("a file").len(), 1 << 20);
    // What cannot be read takes nothing's place.
    fails(
        &["mkfs", "-F", &disk, "--from", &nothing],
        4,
        &["refused archive", "nothing was changed"],
    );
    assert_eq!(succeeds(&["label", &disk]).trim(), "new");
}

/// An image is told to be one, where a volume is meant.
#[test]
fn an_image_is_no_volume() {
    let lab = Lab::new(&["tree", "out"]);
    let image = lab.path("x.esker");
    fs::write(lab.path("tree/f"), "abc").expect("written");
    succeeds(&["pack", &lab.path("tree"), "-o", &image]);
    fails(&["tune", &image, "--reserve", "1%"], 4, &["not a volume but an image"]);
    fails(&["resize", &image], 4, &["not a volume but an image"]);
    let out = lab.path("out");
    for word in [&["--before", "5"][..], &["--keep-older"]] {
        let words = [&["recover", &image, "-o", &out], word].concat();
        fails(&words, 2, &["an image never changed", "leave them out"]);
    }
    succeeds(&["recover", &image, "-o", &out]);
    assert_eq!(fs::read(lab.path("out/f")).expect("it is out"), b"abc");
}

/// A volume whose file got another name, or lost its name, is unmounted as any other.
#[test]
fn a_volume_whose_file_was_renamed_is_unmounted() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["mnt"]);
    let (disk, other, mnt) = (lab.path("disk.vol"), lab.path("other.vol"), lab.path("mnt"));
    succeeds(&["mkfs", &disk, "--size", "16M"]);
    succeeds(&["mount", &disk, &mnt]);
    fs::write(format!("{mnt}/file"), "content").expect("written");
    fs::rename(&disk, &other).expect("renamed");
    succeeds(&["umount", &mnt]);
    succeeds(&["mount", &other, &mnt]);
    assert_eq!(fs::read(format!("{mnt}/file")).expect("read"), b"content");
    fs::write(format!("{mnt}/more"), "content").expect("written");
    fs::remove_file(&other).expect("removed");
    succeeds(&["umount", &mnt]);
}

/// Where a block lies is told as the device has it, and what lies there is that block.
#[test]
fn a_block_is_found_on_the_device() {
    let lab = Lab::new(&["tree"]);
    let disk = lab.path("disk.vol");
    fs::write(lab.path("tree/g"), noise(1, 100_000)).expect("written");
    succeeds(&["mkfs", &disk, "--size", "16M", "--from", &lab.path("tree")]);
    let number = |text: &str, behind: &str| {
        let rest = &text[text.rfind(behind).expect(behind) + behind.len()..];
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse::<u64>().expect(rest)
    };
    let file = succeeds(&["dump", &disk, "/g"]);
    let [slot, segment] = ["in block ", "of segment "].map(|behind| number(&file, behind));
    let block = succeeds(&["dump", &disk, &format!("block:{segment}:{slot}")]);
    let inside = number(&block, ", at ");
    let place = number(&block, &format!(", at {inside}, "));
    let there = succeeds(&["dump", &disk, &format!("at:{place}")]);
    assert!(there.contains(&format!("0 bytes into block {slot} of segment {segment}")), "{there}");
}
