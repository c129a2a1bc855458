//! A mount from its first answer to its end.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{
    ESKER, Killed, Scratch, can_mount, command, errors, esker, is_alive, is_mounted, mount,
    within_seconds,
};
use serde_json::Value;

fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{}", errors(output));
    assert!(output.stderr.is_empty(), "{}", errors(output));
    let line = std::str::from_utf8(&output.stdout).unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    serde_json::from_str(line).unwrap()
}

fn signal(name: &str, pid: u64) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn mount_returns_when_the_mount_answers() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    for round in 0..10 {
        let value = report(&command(&dir, &["--json", "-o", "size=64M"]).output().unwrap());
        assert!(is_mounted(&dir), "round {round}");
        fs::write(dir.join("first"), "at once").unwrap();
        assert_eq!(value["mounted"], dir.to_str().unwrap());
        assert_eq!(value["size"], 64 << 20);
        let pid = value["pid"].as_u64().unwrap();
        assert!(is_alive(pid));
        let output = esker(["umount", "--json", dir.to_str().unwrap()]);
        assert_eq!(report(&output)["unmounted"], dir.to_str().unwrap());
        assert!(!is_mounted(&dir));
        assert!(within_seconds(|| !is_alive(pid)), "the daemon stays");
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    }
}

/// The daemon has let go of everything of ours: a pipe that it had inherited would never end.
#[test]
fn the_background_lets_go_of_the_terminal() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    let output = command(&dir, &[]).current_dir(scratch.path("")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with(&format!("mounted {}", dir.display())), "{text}");
    assert!(text.contains("esker umount"), "{text}");
    let pid = fs::read_dir("/proc").unwrap().flatten().find_map(|process| {
        let words = fs::read(process.path().join("cmdline")).ok()?;
        let ours = words
            .windows(dir.as_os_str().len())
            .any(|part| part == dir.as_os_str().as_encoded_bytes());
        ours.then(|| process.file_name().to_str()?.parse::<u64>().ok()).flatten()
    });
    let process = format!("/proc/{}", pid.expect("the daemon runs"));
    let link = |name: &str| fs::read_link(format!("{process}/{name}")).unwrap();
    assert_eq!(link("cwd"), Path::new("/"));
    for descriptor in ["fd/0", "fd/1", "fd/2"] {
        assert_eq!(link(descriptor), Path::new("/dev/null"));
    }
    let stat = fs::read_to_string(format!("{process}/stat")).unwrap();
    let words: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    assert_eq!(words[3], pid.unwrap().to_string(), "it leads a session of its own");
}

#[test]
fn a_signal_unmounts_and_ends_well() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    for (name, busy) in [("-TERM", false), ("-INT", false), ("-TERM", true), ("-HUP", false)] {
        let child = command(&dir, &["-f"]).stderr(Stdio::piped()).spawn().unwrap();
        let mut child = Killed(child);
        assert!(within_seconds(|| is_mounted(&dir) && fs::write(dir.join("f"), "x").is_ok()));
        let open = busy.then(|| File::open(dir.join("f")).unwrap());
        signal(name, child.0.id().into());
        let status = child.0.wait().unwrap();
        assert_eq!(status.code(), Some(0), "{name}, in use: {busy}");
        assert!(!is_mounted(&dir), "{name}, in use: {busy}");
        let mut text = String::new();
        child.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "", "{name}");
        drop(open);
    }
    // And in the background.
    let value = report(&command(&dir, &["--json"]).output().unwrap());
    let pid = value["pid"].as_u64().unwrap();
    signal("-TERM", pid);
    assert!(within_seconds(|| !is_alive(pid)) && !is_mounted(&dir));
}

#[test]
fn umount_names_who_is_in_the_way() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    let pid = report(&command(&dir, &["--json"]).output().unwrap())["pid"].as_u64().unwrap();
    let mut user = Killed(
        Command::new("sh")
            .args(["-c", "echo in; read x"])
            .current_dir(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut word = [0; 3];
    user.0.stdout.as_mut().unwrap().read_exact(&mut word).unwrap();
    let output = esker(["umount", dir.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(3));
    let text = errors(&output);
    assert!(text.contains(&format!("in use by sh (pid {})", user.0.id())), "{text}");
    assert!(text.contains("-l") && is_mounted(&dir));

    let output = esker(["umount", "-l", dir.to_str().unwrap()]);
    assert!(output.status.success() && !is_mounted(&dir), "{}", errors(&output));
    assert!(is_alive(pid), "whoever is in it still stands on something");
    user.0.stdin.take().unwrap().write_all(b"\n").unwrap();
    user.0.wait().unwrap();
    assert!(within_seconds(|| !is_alive(pid)), "the last user has gone");
}

#[test]
fn options_reach_the_mount() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    let options =
        "size=32M,file_size=1M,uid=12,gid=34,mode=1770,nosuid,nodev,noexec,noatime,fsname=a b\\,c";
    mount(&dir, &["-o", options]);
    let root = fs::metadata(&dir).unwrap();
    assert_eq!((root.uid(), root.gid(), root.mode() & 0o7777), (12, 34, 0o1770));
    let table = fs::read_to_string("/proc/self/mounts").unwrap();
    let line = table.lines().find(|line| line.contains(dir.to_str().unwrap())).unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!((words[0], words[2]), ("a\\040b,c", "fuse.esker"));
    for word in ["nosuid", "nodev", "noexec", "noatime", "default_permissions"] {
        assert!(words[3].split(',').any(|option| option == word), "{word}: {}", words[3]);
    }
    assert!(!words[3].contains("allow_other"));
    let space = rustix::fs::statfs(&dir).unwrap();
    assert_eq!(space.f_blocks as u64 * space.f_bsize as u64, 32 << 20);
    let file = File::create(dir.join("f")).unwrap();
    assert_eq!(file.set_len((1 << 20) + 1).unwrap_err().raw_os_error(), Some(27), "EFBIG");
    file.set_len(1 << 20).unwrap();
    drop(file);
    assert!(esker(["umount", dir.to_str().unwrap()]).status.success());

    mount(&dir, &["-o", "ro,umask=027"]);
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o7777, 0o750);
    assert_eq!(fs::write(dir.join("f"), "x").unwrap_err().raw_os_error(), Some(30), "EROFS");
}

/// Through fusermount3, which is set-uid; nobody else may come in, not even root.
#[test]
fn a_user_without_privileges_mounts_what_is_his() {
    const NOBODY: u32 = 65534;
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    // The program itself may lie where that user cannot go; fs::copy would leave it open for
    // writing in what other tests start meanwhile.
    let program = scratch.path("esker");
    assert!(Command::new("cp").arg(ESKER).arg(&program).status().unwrap().success());
    let run = |program: &Path, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).uid(NOBODY).gid(NOBODY).output().unwrap()
    };
    let point = dir.to_str().unwrap();
    let refused = run(&program, &["mount", "mem:", point]);
    crate::common::refused(&refused, 3, &[point, "not yours"], &dir);

    // What another has mounted is not his to take away.
    mount(&dir, &["-o", "allow_other"]);
    let stranger = run(&program, &["umount", point]);
    assert_eq!(stranger.status.code(), Some(1), "{}", errors(&stranger));
    let words = "not permitted; only root, or the user who mounted it, may unmount it";
    assert!(errors(&stranger).contains(words) && is_mounted(&dir), "{}", errors(&stranger));
    assert!(esker(["umount", point]).status.success());

    chown(&dir, Some(NOBODY), Some(NOBODY)).unwrap();
    let pid = report(&run(&program, &["mount", "--json", "mem:", point]))["pid"].as_u64().unwrap();
    assert!(is_mounted(&dir));
    let script = "set -e; cd \"$0\"; echo kept >f; ln f g; mv g h; cat h; stat -c %u:%h f";
    let output = run(Path::new("sh"), &["-c", script, point]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "kept\n65534:2\n", "{}", errors(&output));
    let output = run(&program, &["umount", point]);
    assert!(output.status.success() && !is_mounted(&dir), "{}", errors(&output));
    assert!(within_seconds(|| !is_alive(pid)), "the daemon stays");
}

#[test]
fn a_full_file_system_says_so_and_works_again() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    mount(&dir, &["-o", "size=4M"]);
    // With the kernel gathering writes, it may be told at the write or at the sync.
    let fill = || {
        File::create(dir.join("big")).and_then(|mut file| {
            file.write_all(&vec![1; 8 << 20])?;
            file.sync_all()
        })
    };
    assert_eq!(fill().unwrap_err().raw_os_error(), Some(28), "ENOSPC");
    fs::remove_file(dir.join("big")).unwrap();
    fs::write(dir.join("small"), vec![2; 1 << 20]).unwrap();
    assert_eq!(fs::read(dir.join("small")).unwrap(), vec![2; 1 << 20]);
}

#[test]
fn the_log_is_a_file_if_one_is_named() {
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    let nowhere = scratch.path("no/log");
    let output = command(&dir, &["--log"]).arg(&nowhere).output().unwrap();
    crate::common::refused(&output, 1, &["cannot write the log", nowhere.to_str().unwrap()], &dir);
    if !can_mount() {
        return;
    }
    let log = scratch.path("log");
    let output = command(&dir, &["--log"]).arg(&log).output().unwrap();
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(fs::read(&log).unwrap(), b"");
}
