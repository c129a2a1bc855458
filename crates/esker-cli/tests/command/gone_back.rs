//! A volume that is mounted goes back to a snapshot while it is in use: what is seen through the kernel is what was
//! then, whatever it remembers; what is open and the same goes on, and what is open and is not is stale.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::can_mount;
use crate::common::lab::{Lab, fails, succeeds};
use serde_json::Value;

const ESTALE: Option<i32> = Some(116);
const MOUNTS: [&str; 3] = ["writeback", "no_writeback", "snapshots"];

fn lab() -> Lab {
    let lab = Lab::new(&["mnt"]);
    succeeds(&["mkfs", &lab.path("disk.vol"), "--size", "64M"]);
    lab
}

/// What a program sees of something: its type and rights, its length, when it was written, how many names it has, and
/// what it holds.
type Seen = (u32, u64, (i64, i64), u64, Vec<u8>);

/// Everything in a directory but the snapshots that are shown there, by path.
fn tree(root: &Path) -> BTreeMap<String, Seen> {
    let (mut found, mut todo) = (BTreeMap::new(), vec![root.to_owned()]);
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(&dir).expect("listed") {
            let path = entry.expect("an entry").path();
            let own = path.strip_prefix(root).expect("below").to_string_lossy().into_owned();
            if own == ".snapshots" {
                continue;
            }
            let meta = fs::symlink_metadata(&path).unwrap_or_else(|why| panic!("{own}: {why}"));
            let bytes = if meta.is_file() {
                fs::read(&path).unwrap_or_else(|why| panic!("{own}: {why}"))
            } else if meta.is_symlink() {
                fs::read_link(&path).expect("read").into_os_string().into_encoded_bytes()
            } else {
                todo.push(path);
                Vec::new()
            };
            let (names, time) = (meta.nlink(), (meta.mtime(), meta.mtime_nsec()));
            found.insert(own, (meta.mode(), meta.len(), time, names, bytes));
        }
    }
    found
}

/// The same without a listing: whoever asks for a name gets what the kernel remembers.
fn named(root: &str, names: &[String]) -> Vec<Option<(u64, u64)>> {
    let one = |name: &String| {
        let meta = fs::symlink_metadata(format!("{root}/{name}")).ok()?;
        Some((meta.ino(), meta.len()))
    };
    names.iter().map(one).collect()
}

/// How many inodes there are.
fn inodes(root: &str) -> u64 {
    let space = rustix::fs::statvfs(root).expect("it says");
    space.f_files - space.f_ffree
}

fn write(path: &str, bytes: impl AsRef<[u8]>) {
    fs::write(path, bytes).unwrap_or_else(|why| panic!("{path}: {why}"));
}

/// Lays down a tree with something of everything.
fn lay(mnt: &str) {
    for dir in ["dir", "dir/below", "leaves", "moves"] {
        fs::create_dir(format!("{mnt}/{dir}")).expect("made");
    }
    write(&format!("{mnt}/same"), "the same");
    write(&format!("{mnt}/grows"), "short");
    write(&format!("{mnt}/shrinks"), vec![1; 300_000]);
    write(&format!("{mnt}/changes"), vec![2; 200_000]);
    write(&format!("{mnt}/goes"), vec![3; 10_000]);
    write(&format!("{mnt}/dir/named"), "has two names");
    write(&format!("{mnt}/leaves/below"), "goes with its directory");
    write(&format!("{mnt}/moves/below"), "moves with its directory");
    write(&format!("{mnt}/rights"), "has others");
    fs::hard_link(format!("{mnt}/dir/named"), format!("{mnt}/dir/below/other")).expect("linked");
    symlink("same", format!("{mnt}/link")).expect("linked");
}

/// Changes something of everything.
fn change(mnt: &str) {
    write(&format!("{mnt}/grows"), vec![4; 500_000]);
    write(&format!("{mnt}/shrinks"), "x");
    let changes = File::options().write(true).open(format!("{mnt}/changes")).expect("opened");
    changes.write_all_at(&[5; 70_000], 50_000).expect("written");
    fs::remove_file(format!("{mnt}/goes")).expect("removed");
    write(&format!("{mnt}/dir/below/other"), "has one content by both");
    fs::remove_dir_all(format!("{mnt}/leaves")).expect("removed");
    fs::rename(format!("{mnt}/moves"), format!("{mnt}/dir/moved")).expect("moved");
    fs::set_permissions(format!("{mnt}/rights"), fs::Permissions::from_mode(0o600)).expect("set");
    fs::remove_file(format!("{mnt}/link")).expect("removed");
    symlink("grows", format!("{mnt}/link")).expect("linked");
    fs::create_dir(format!("{mnt}/comes")).expect("made");
    write(&format!("{mnt}/comes/file"), vec![6; 100_000]);
    write(&format!("{mnt}/leaves"), "a file where a directory was");
}

/// The volume is whole, and shows the same once it is mounted anew.
fn is_kept(lab: &Lab) {
    let (disk, mnt) = (lab.path("disk.vol"), lab.path("mnt"));
    let seen = tree(Path::new(&mnt));
    succeeds(&["umount", &mnt]);
    succeeds(&["check", &disk]);
    succeeds(&["mount", &disk, &mnt]);
    assert_eq!(tree(Path::new(&mnt)), seen);
    succeeds(&["umount", &mnt]);
}

#[test]
fn a_mount_shows_what_was_then() {
    if !can_mount() {
        return;
    }
    for options in MOUNTS {
        let lab = lab();
        let (disk, mnt) = (lab.path("disk.vol"), lab.path("mnt"));
        succeeds(&["mount", &disk, &mnt, "-o", options]);
        lay(&mnt);
        let (then, count) = (tree(Path::new(&mnt)), inodes(&mnt));
        let nameless = File::create(format!("{mnt}/nameless")).expect("made");
        fs::remove_file(format!("{mnt}/nameless")).expect("removed");
        succeeds(&["snapshot", "create", &mnt, "then"]);
        drop(nameless);
        change(&mnt);
        let now = tree(Path::new(&mnt));
        let names: Vec<_> = then.keys().chain(now.keys()).cloned().collect();
        let by_name = named(&mnt, &names);
        let told = succeeds(&["snapshot", "rollback", &mnt, "then", "--keep", "now", "--json"]);
        let told: Value = serde_json::from_str(&told).expect("JSON");
        assert_eq!((&told["now"], &told["kept"]), (&"then".into(), &"now".into()));
        assert_eq!(tree(Path::new(&mnt)), then, "{options}");
        assert_eq!(inodes(&mnt), count, "{options}: what nobody has any more is there");
        fails(
            &["snapshot", "rollback", &mnt, "then", "--keep", "now"],
            1,
            &["there is a snapshot"],
        );
        // There and back again, by any path in the mount.
        for _ in 0..3 {
            succeeds(&["snapshot", "rollback", &format!("{mnt}/same"), "now"]);
            assert_eq!(named(&mnt, &names), by_name, "{options}");
            assert_eq!(tree(Path::new(&mnt)), now, "{options}");
            succeeds(&["snapshot", "rollback", &mnt, "then"]);
            assert_eq!(tree(Path::new(&mnt)), then, "{options}");
        }
        // It goes on from there.
        write(&format!("{mnt}/grows"), "longer than it was");
        write(&format!("{mnt}/new"), "new");
        assert_eq!(fs::read(format!("{mnt}/grows")).expect("read"), b"longer than it was");
        is_kept(&lab);
    }
}

#[test]
fn what_is_open_goes_on_or_is_stale() {
    if !can_mount() {
        return;
    }
    for options in MOUNTS {
        let lab = lab();
        let (disk, mnt) = (lab.path("disk.vol"), lab.path("mnt"));
        succeeds(&["mount", &disk, &mnt, "-o", options]);
        lay(&mnt);
        let open = |name: &str| {
            let path = format!("{mnt}/{name}");
            File::options().read(true).write(true).open(path).expect("opened")
        };
        // Without a name, and in the snapshot all the same.
        write(&format!("{mnt}/nameless"), vec![3; 10_000]);
        let mut nameless = open("nameless");
        fs::remove_file(format!("{mnt}/nameless")).expect("removed");
        succeeds(&["snapshot", "create", &mnt, "then"]);
        let (mut same, changes, mut shrinks) = (open("same"), open("changes"), open("shrinks"));
        let dir = File::open(format!("{mnt}/dir")).expect("opened");
        change(&mnt);
        let comes = open("comes/file");
        let mut bytes = Vec::new();
        assert!(shrinks.read_to_end(&mut bytes).is_ok());
        // Held back by the kernel, and of no use to anybody any more.
        changes.write_all_at(b"late", 7).expect("taken");
        succeeds(&["snapshot", "rollback", &mnt, "then"]);
        let stale = |of: &File| {
            let read = of.read_at(&mut [0; 10], 0).expect_err("it is stale");
            assert_eq!(read.raw_os_error(), ESTALE, "{options}");
            // With writeback the kernel takes the bytes and tells what became of them here.
            let written = of.write_all_at(b"wrong", 3).and_then(|()| of.sync_all());
            assert!(written.is_err(), "{options}");
        };
        [&changes, &shrinks, &comes].into_iter().for_each(stale);
        assert_eq!(fs::read(format!("{mnt}/changes")).expect("read"), vec![2; 200_000]);
        same.seek(std::io::SeekFrom::End(0)).expect("moved");
        same.write_all(b" and more").expect("written");
        same.sync_all().expect("safe");
        assert_eq!(fs::read(format!("{mnt}/same")).expect("read"), b"the same and more");
        assert!(dir.metadata().expect("there").is_dir());
        nameless.read_to_end(&mut bytes).expect("read");
        assert!(bytes.ends_with(&[3; 10_000]));
        drop((same, changes, shrinks, comes, nameless, dir));
        is_kept(&lab);
    }
}

/// Does things at random below a directory, until it is told to stop.
fn busy(dir: &Path, mut seed: u64, stop: &AtomicBool) -> u64 {
    let mut done = 0;
    let mut next = |below: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % below
    };
    while !stop.load(Ordering::Relaxed) {
        let name = |number: u64| dir.join(format!("{}/{}", number % 4, number / 4));
        let (one, other) = (name(next(60)), name(next(60)));
        // What was there a moment ago may not be there, and the other way round.
        let ended = match next(9) {
            0..=2 => fs::write(&one, vec![next(256) as u8; next(40_000) as usize]),
            3 => fs::remove_file(&one),
            4 => fs::rename(&one, &other),
            5 => fs::hard_link(&one, &other),
            6 => fs::create_dir(one.parent().expect("one")),
            7 => fs::remove_dir_all(other.parent().expect("one")),
            _ => fs::read(&one).map(drop),
        };
        done += u64::from(ended.is_ok());
    }
    done
}

/// Tells others to stop, also when it goes because something failed.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn others_go_on_meanwhile() {
    if !can_mount() {
        return;
    }
    for options in MOUNTS {
        let lab = lab();
        let (disk, mnt) = (lab.path("disk.vol"), lab.path("mnt"));
        succeeds(&["mount", &disk, &mnt, "-o", options]);
        for dir in 0..4 {
            fs::create_dir(format!("{mnt}/{dir}")).expect("made");
        }
        succeeds(&["snapshot", "create", &mnt, "0"]);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let hands: Vec<_> = (1..4_u64)
                .map(|seed| {
                    let (mnt, stop) = (Path::new(&mnt), &stop);
                    scope.spawn(move || busy(mnt, 0x9e37_79b9_7f4a_7c15 >> seed, stop))
                })
                .collect();
            let ends = Stop(&stop);
            for turn in 1..8_u32 {
                thread::sleep(Duration::from_millis(60));
                succeeds(&["snapshot", "create", &mnt, &turn.to_string()]);
                thread::sleep(Duration::from_millis(60));
                let to = (turn * 5 % (turn + 1)).to_string();
                succeeds(&["snapshot", "rollback", &mnt, &to]);
            }
            drop(ends);
            assert!(hands.into_iter().all(|hand| hand.join().expect("it ends") > 0));
        });
        succeeds(&["check", "--online", &mnt]);
        is_kept(&lab);
    }
}
