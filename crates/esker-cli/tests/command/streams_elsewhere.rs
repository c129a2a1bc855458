//! Streams into directories of which the receiver, or the file system, is not what the sender's was: a user who is not
//! root, file systems without holes or with little room for attributes, and what somebody has laid into the way.

use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, Output};

use crate::common::lab::{Lab, fails, run, succeeds, told};
use crate::common::{ESKER, can_mount, can_switch_user};
use rustix::fs::{XattrFlags, setxattr};

const NOBODY: u32 = 65534;

fn shell(words: &[&str]) {
    let status = Command::new(words[0]).args(&words[1..]).status().expect("it runs");
    assert!(status.success(), "{words:?}");
}

fn mode(path: &str) -> u32 {
    fs::symlink_metadata(path).expect("there").mode() & 0o7777
}

/// A volume whose snapshots `one` and `two` are made of what these do, and their streams.
fn streams(lab: &Lab, one: impl Fn(&str), two: impl Fn(&str)) -> (String, String) {
    let (disk, mnt) = (lab.path("disk.vol"), lab.path("mnt"));
    fs::create_dir_all(&mnt).expect("made");
    succeeds(&["mkfs", &disk, "--size", "64M"]);
    for name in ["one", "two"] {
        succeeds(&["mount", &disk, &mnt]);
        if name == "one" {
            one(&mnt)
        } else {
            two(&mnt)
        }
        succeeds(&["umount", &mnt]);
        succeeds(&["snapshot", "create", &disk, name]);
    }
    let (whole, since) = (lab.path("one.stream"), lab.path("two.stream"));
    succeeds(&["send", &format!("{disk}@one"), "-o", &whole]);
    succeeds(&["send", &format!("{disk}@two"), "--since", "one", "-o", &since]);
    (whole, since)
}

fn write(path: String, text: &str, perm: u32) {
    fs::write(&path, text).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(perm)).expect("set");
}

fn attribute(path: &str, value: &[u8]) {
    setxattr(path, "user.note", value, XattrFlags::empty()).expect("set");
}

/// Runs esker as a user who is not root.
fn as_nobody(words: &[&str]) -> Output {
    let mut command = Command::new("setpriv");
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups", ESKER];
    command.args(user).args(words).output().expect("it runs")
}

/// Done, but for what is named.
#[track_caller]
fn partly(output: &Output, parts: &[&str]) {
    let text = told(output);
    assert_eq!(output.status.code(), Some(5), "{text}");
    parts.iter().for_each(|part| assert!(text.contains(part), "{text} lacks {part}"));
}

#[test]
fn who_is_not_root_receives_what_he_can_have() {
    if !can_mount() || !can_switch_user() {
        return;
    }
    let lab = Lab::new(&["mnt", "to"]);
    let locked = |path: String, perm| {
        fs::set_permissions(path, fs::Permissions::from_mode(perm)).expect("set");
    };
    let (whole, since) = streams(
        &lab,
        |at| {
            write(format!("{at}/read-only"), "one", 0o444);
            attribute(&format!("{at}/read-only"), b"one");
            write(format!("{at}/program"), "#!", 0o6755);
            fs::create_dir(format!("{at}/closed")).expect("made");
            write(format!("{at}/closed/inside"), "one", 0o200);
            write(format!("{at}/closed/other"), "as it was", 0o600);
            attribute(&format!("{at}/closed/inside"), b"one");
            shell(&["chattr", "+d", &format!("{at}/closed/inside")]);
            locked(format!("{at}/closed"), 0o600);
            for name in ["closed/inside", "closed/other", "closed", "read-only", ""] {
                chown(format!("{at}/{name}"), Some(NOBODY), Some(NOBODY)).expect("given");
            }
        },
        |at| {
            fs::write(format!("{at}/closed/inside"), "two").expect("written");
            attribute(&format!("{at}/closed/inside"), b"two");
            fs::rename(format!("{at}/closed/other"), format!("{at}/moved")).expect("moved");
            let path = format!("{at}/read-only");
            rustix::fs::removexattr(&path, "user.note").expect("gone");
        },
    );
    let to = lab.path("to");
    chown(&to, Some(NOBODY), Some(NOBODY)).expect("given");
    locked(lab.path(""), 0o755);
    for stream in [&whole, &since] {
        locked(stream.clone(), 0o644);
    }
    partly(&as_nobody(&["receive", &to, &whole]), &["the owner of /program", "set-id of /program"]);
    assert_eq!(mode(&format!("{to}/program")), 0o755, "whose program is it?");
    assert_eq!(mode(&format!("{to}/closed")), 0o600);
    assert_eq!(
        (mode(&format!("{to}/read-only")), mode(&format!("{to}/closed/inside"))),
        (0o444, 0o200)
    );
    let note = |name: &str| {
        let mut value = [0; 9];
        let len = rustix::fs::getxattr(format!("{to}/{name}"), "user.note", &mut value[..]);
        len.ok().map(|len| value[..len].to_vec())
    };
    assert_eq!(note("read-only").as_deref(), Some(&b"one"[..]));
    // It is told again of what is not there.
    partly(&as_nobody(&["receive", &to, &whole]), &["already", "when it was received"]);
    let output = as_nobody(&["receive", &to, &since]);
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(fs::read_to_string(format!("{to}/closed/inside")).expect("read"), "two");
    assert_eq!(fs::read_to_string(format!("{to}/moved")).expect("read"), "as it was");
    assert_eq!((note("read-only"), note("closed/inside")), (None, Some(b"two".to_vec())));
    assert_eq!(
        (mode(&format!("{to}/closed")), mode(&format!("{to}/closed/inside"))),
        (0o600, 0o200)
    );
}

#[test]
fn file_systems_that_have_less_take_what_they_can() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["mnt", "ram", "ext"]);
    let large = vec![7; 20_000];
    let (whole, since) = streams(
        &lab,
        |at| {
            fs::write(format!("{at}/file"), vec![7; 300_000]).expect("written");
            attribute(&format!("{at}/file"), &large);
        },
        |at| {
            let file = fs::File::options().write(true).open(format!("{at}/file")).expect("open");
            let flags =
                rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&file, flags, 100_000, 150_000).expect("a hole");
            file.write_all_at(b"more", 299_999).expect("written");
        },
    );
    // No holes.
    let (ram, ext, disk) = (lab.path("ram"), lab.path("ext"), lab.path("ext4"));
    shell(&["mount", "-t", "ramfs", "ramfs", &ram]);
    // Little room for attributes, and a directory from the beginning.
    fs::File::create(&disk).and_then(|file| file.set_len(32 << 20)).expect("made");
    shell(&["mkfs.ext4", "-q", &disk]);
    shell(&["mount", "-o", "loop", &disk, &ext]);
    for to in [&ram, &ext] {
        partly(&run(&["receive", to, &whole]), &["the extended attribute user.note of /file"]);
        let status = run(&["receive", to, &since]).status.code();
        assert!(matches!(status, Some(0 | 5)), "{status:?}");
        let bytes = fs::read(format!("{to}/file")).expect("read");
        let wanted = [vec![7; 100_000], vec![0; 150_000], vec![7; 49_999], b"more".to_vec()];
        assert!(bytes == wanted.concat(), "other bytes in {to}");
    }
    // What was found is something.
    let full = lab.path("full");
    fs::create_dir_all(format!("{full}/lost+found/x")).expect("made");
    fails(&["receive", &full, &whole], 1, &["there is something already"]);
}

#[test]
fn what_lies_in_the_way_is_left_alone() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["mnt", "to", "also"]);
    let (whole, since) = streams(
        &lab,
        |at| fs::write(format!("{at}/file"), "one").expect("written"),
        |at| fs::write(format!("{at}/file"), "two").expect("written"),
    );
    let (to, mine) = (lab.path("to"), lab.path("mine"));
    let own = format!("{to}/.esker-received");
    fs::write(&mine, "mine").expect("written");
    fs::create_dir(&own).expect("made");
    fs::hard_link(&mine, format!("{own}/state.new")).expect("linked");
    succeeds(&["receive", &to, &whole]);
    assert_eq!(fs::read_to_string(&mine).expect("read"), "mine");
    fs::write(format!("{own}/99"), "stale").expect("written");
    fails(&["receive", &to, &since], 1, &["in the way", ".esker-received/99"]);
    fs::remove_file(format!("{own}/99")).expect("removed");
    // Two streams, one behind the other.
    let both = lab.path("both.stream");
    let bytes = [&whole, &since].map(|path| fs::read(path).expect("read")).concat();
    fs::write(&both, bytes).expect("written");
    fails(&["receive", "--verify", &both], 4, &["more behind the end"]);
    fails(&["receive", &lab.path("also"), &both], 4, &["more behind the end"]);
    succeeds(&["receive", &lab.path("also"), &since]);
    succeeds(&["receive", &to, &since]);
    for dir in ["to", "also"] {
        let path = lab.path(&format!("{dir}/file"));
        assert_eq!(fs::read_to_string(path).expect("read"), "two");
    }
    // A pipe where what is known should be is not waited for.
    let state = format!("{own}/state");
    fs::remove_file(&state).expect("removed");
    shell(&["mkfifo", &state]);
    assert!(!run(&["receive", &to, &since]).status.success());
    assert!(Path::new(&state).exists());
}
