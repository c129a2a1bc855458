//! Volumes that are looked after while they are mounted: told of, scrubbed, checked, made larger, named.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::FileExt as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::lab::{Lab, fails, run, succeeds, tmpfs, told};
use crate::common::{ESKER, can_mount, noise, within_seconds};
use serde_json::Value;

fn json(words: &[&str]) -> Value {
    let output = run(words);
    // A failure is told in a line of its own, behind it.
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().next().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|_| panic!("{words:?}: {}", told(&output)))
}

/// A volume of 64 MiB that is mounted.
fn lab(more: &[&str]) -> (Lab, String, String) {
    let lab = Lab::new(&["mnt"]);
    let (disk, mnt) = (lab.path("disk.vol"), lab.path("mnt"));
    succeeds(&[&["mkfs", &disk, "--size", "64M"], more].concat());
    succeeds(&["mount", &disk, &mnt]);
    (lab, disk, mnt)
}

/// Noise from here on is none of what [`churn`] writes, which would share its blocks.
const FAR: u64 = 1 << 32;

/// Writes files and takes them away until it is done.
fn churn(dir: &str, done: &AtomicBool) -> u64 {
    let mut count = 0;
    while !done.load(Ordering::Acquire) {
        let path = format!("{dir}/churn {}", count % 30);
        let mut file = fs::File::create(path).expect("created");
        file.write_all(&noise(count, 30_000)).expect("written");
        if count % 10 == 0 {
            file.sync_all().expect("synced");
        }
        count += 1;
    }
    count
}

/// Ends those who write, whatever becomes of who waits for that.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Does something while somebody writes.
fn while_busy<R>(dir: &str, work: impl FnOnce() -> R) -> R {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| churn(dir, &done));
        let ends = Ends(&done);
        assert!(within_seconds(|| fs::exists(format!("{dir}/churn 3")).unwrap_or(false)));
        let answer = work();
        drop(ends);
        assert!(writer.join().expect("it wrote") > 0);
        answer
    })
}

fn size(dir: &str) -> u64 {
    let space = rustix::fs::statvfs(dir).expect("it says");
    space.f_blocks * space.f_frsize
}

#[test]
fn a_mounted_volume_grows_and_is_named() {
    if !can_mount() {
        return;
    }
    let (_lab, disk, mnt) = lab(&[]);
    let before = size(&mnt);
    while_busy(&mnt, || {
        assert!(succeeds(&["resize", &mnt, "--size", "256M"]).contains("has 256.0 MiB now"));
        assert!(size(&mnt) > before + (180 << 20), "{before}, {}", size(&mnt));
        assert_eq!(succeeds(&["label", &mnt, "photographs"]).trim(), "photographs");
        succeeds(&["tune", &mnt, "--compress", "lz4", "--reserve", "1%"]);
    });
    fails(&["resize", &mnt, "--size", "16M"], 2, &["only grows", "256.0 MiB"]);
    fails(&["resize", &mnt, "--size", "100T"], 2, &["8.0 GiB at most"]);
    fails(&["tune", &mnt, "--reserve", "200M"], 2, &["bad --reserve"]);
    fails(&["label", &mnt, &"x".repeat(33)], 2, &["32 bytes"]);
    assert_eq!(succeeds(&["label", &mnt]).trim(), "photographs");
    // More than there was room for.
    fs::write(format!("{mnt}/large"), noise(1, 150 << 20)).expect("there is room");
    fs::write(format!("{mnt}/text"), "abcdefgh".repeat(1 << 20)).expect("there is room");
    succeeds(&["umount", &mnt]);
    succeeds(&["check", &disk]);
    let info = json(&["info", &disk, "--json"]);
    assert_eq!((&info["label"], &info["size"]), (&"photographs".into(), &(256u64 << 20).into()));
    assert_eq!(info["compress"], "lz4");
    assert_eq!(fs::metadata(&disk).expect("it is there").len(), 256 << 20);
    succeeds(&["mount", &disk, &mnt]);
    assert!(fs::read(format!("{mnt}/large")).expect("it reads") == noise(1, 150 << 20));
    succeeds(&["umount", &mnt]);
}

#[test]
fn a_mounted_volume_is_checked_and_scrubbed() {
    if !can_mount() {
        return;
    }
    let (lab, disk, mnt) = lab(&["--meta-copies", "2", "--compress", "none"]);
    for number in 0..40 {
        fs::write(format!("{mnt}/f{number}"), noise(number + FAR, 40_000)).expect("written");
    }
    succeeds(&["sync", &mnt]);
    while_busy(&mnt, || {
        assert!(succeeds(&["check", "--online", &mnt]).contains("is whole"));
        let done = json(&["scrub", &mnt, "--json"]);
        assert_eq!(done["findings"], Value::Array(Vec::new()), "{done}");
        assert!(done["blocks"].as_u64() > Some(40), "{done}");
    });
    fails(&["check", &mnt], 2, &["--online"]);
    fails(&["check", "--online", &disk], 2, &["name the mount"]);
    fails(&["scrub", &disk], 1, &["in use by esker (pid"]);
    // Damage under a mounted volume.
    let bytes = fs::read(&disk).expect("it reads");
    let file = fs::OpenOptions::new().write(true).open(&disk).expect("it opens");
    for number in [3u64, 17] {
        let wanted = &noise(number + FAR, 40_000)[..32];
        let at = bytes.windows(32).position(|own| own == wanted).expect("it is there");
        file.write_all_at(&[!wanted[7]], at as u64 + 7).expect("it writes");
    }
    let done = while_busy(&mnt, || json(&["scrub", &mnt, "--json", "--rate", "100M"]));
    assert_eq!(done["files"], serde_json::json!(["/f17", "/f3"]), "{done}");
    fails(&["check", "--online", &mnt], 6, &["damaged: 2 finding(s)", "esker scrub"]);
    fails(&["scrub", "--dry-run", &mnt], 6, &["/f3: damaged", "/f17: damaged", "2 finding(s)"]);
    succeeds(&["umount", &mnt]);
    fails(&["scrub", &disk], 6, &["/f3: damaged", "/f17: damaged"]);
    fails(&["scrub", &lab.path("mnt")], 2, &["not a volume"]);
}

/// Ctrl-c ends it soon, and the next one goes on, in a mount and without.
#[test]
fn scrubbing_is_stopped_and_goes_on() {
    if !can_mount() {
        return;
    }
    let (_lab, disk, mnt) = lab(&["--compress", "none"]);
    fs::write(format!("{mnt}/f"), noise(5, 20 << 20)).expect("written");
    succeeds(&["sync", &mnt]);
    for target in [&mnt, &disk] {
        if target == &disk {
            succeeds(&["umount", &mnt]);
        }
        let child = Command::new(ESKER)
            .args(["scrub", target, "--rate", "4M"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        thread::sleep(Duration::from_millis(1500));
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is told");
        let output = child.wait_with_output().expect("it ends");
        let text = told(&output);
        assert_eq!(output.status.code(), Some(5), "{text}");
        assert!(text.contains("stopped before everything was read"), "{text}");
        assert!(succeeds(&["scrub", target]).contains("from where it was stopped"));
        assert!(!succeeds(&["scrub", target]).contains("from where it was stopped"));
    }
    succeeds(&["check", &disk]);
}

#[test]
fn a_mount_tells_how_it_fares() {
    if !can_mount() {
        return;
    }
    let (lab, disk, mnt) = lab(&["--label", "some"]);
    fs::write(format!("{mnt}/f"), noise(5, 3 << 20)).expect("written");
    succeeds(&["sync", &mnt]);
    assert_eq!(fs::read(format!("{mnt}/f")).expect("it reads").len(), 3 << 20);
    let all = json(&["stats", &format!("{mnt}/f"), "--json"]);
    assert_eq!((&all["label"], &all["segments"]["len"]), (&"some".into(), &(256u64 << 10).into()));
    assert!(all["written"]["plain"].as_u64() >= Some(3 << 20), "{all}");
    assert!(all["written"]["all"].as_u64() > all["written"]["blocks"].as_u64(), "{all}");
    let (device, plain) = (&all["device"], 3 << 20);
    let asked = ["writes", "flushes"].map(|key| device[key].as_u64().expect("a number"));
    assert!(device["written"].as_u64() >= all["written"]["all"].as_u64(), "{all}");
    assert!(device["written"].as_u64() >= Some(plain) && asked.iter().all(|&n| n > 0), "{device}");
    let segments = &all["segments"];
    let kinds = ["free", "log", "tables", "moved", "named", "bad", "superblocks"];
    let sum: u64 = kinds.iter().map(|key| segments[key].as_u64().expect("a number")).sum();
    assert_eq!(Some(sum), segments["count"].as_u64(), "{all}");
    let operations = all["operations"].as_array().expect("a list");
    let write = operations.iter().find(|own| own["operation"] == "write").expect("it wrote");
    let times = ["p50_ns", "p90_ns", "p99_ns", "p99.9_ns", "max_ns"];
    let times: Vec<_> = times.iter().map(|key| write[key].as_u64().expect("a number")).collect();
    assert!(times[0] > 0 && times.is_sorted(), "{write}");
    assert!(write["count"].as_u64() > Some(0), "{write}");
    let text = succeeds(&["stats", &mnt]);
    for word in
        ["room", "segments", "written", "cache", "waiting", "p99.9", "lookup", "commits", "flushes"]
    {
        assert!(text.contains(word), "{word} is not in {text}");
    }
    let text = succeeds(&["info", &mnt]);
    assert!(text.contains(&format!("a mount of {disk}")) && text.contains("some"), "{text}");
    // It lies in a file, which keeps nothing apart: that is what comes of any wish.
    assert!(text.contains("placement  not told: it is a file"), "{text}");
    let all = json(&["info", &mnt, "--json"]);
    assert_eq!((&all["label"], &all["placement"]["by"]), (&"some".into(), &"none".into()));
    succeeds(&["umount", &mnt]);
    let text = succeeds(&["stats", &disk]);
    assert!(text.contains("segments") && !text.contains("p99.9"), "{text}");
    succeeds(&["mount", "mem:", &mnt]);
    fs::write(format!("{mnt}/f"), "abc").expect("written");
    let all = json(&["stats", &mnt, "--json"]);
    assert!(all["used"].as_u64() > Some(0) && all["segments"].is_null(), "{all}");
    assert!(!all["operations"].as_array().expect("a list").is_empty(), "{all}");
    assert!(!succeeds(&["info", &mnt]).contains("placement"));
    succeeds(&["umount", &mnt]);
    fails(&["info", &lab.path("mnt")], 2, &["a directory"]);
    fails(&["stats", &lab.path("mnt")], 2, &["nothing that esker serves"]);
}

/// In the foreground a machine is told twice: that it answers, and what it came to; also where a signal ends it.
#[test]
fn what_it_came_to_is_told_at_its_end() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["mnt"]);
    let (disk, mnt) = (lab.path("disk.vol"), lab.path("mnt"));
    succeeds(&["mkfs", &disk, "--size", "64M"]);
    for (number, signalled) in [(7, false), (8, true)] {
        let mut mount = Command::new(ESKER);
        let mount = mount.args(["mount", &disk, &mnt, "-f", "--json"]).stdout(Stdio::piped());
        let child = mount.stdin(Stdio::null()).spawn().expect("esker runs");
        let file = format!("{mnt}/f");
        assert!(within_seconds(|| run(&["stats", &mnt]).status.success()));
        fs::write(&file, noise(number, 1 << 20)).expect("written");
        if signalled {
            let pid = child.id().to_string();
            assert!(Command::new("kill").arg(&pid).status().expect("kill(1)").success());
        } else {
            succeeds(&["umount", &mnt]);
        }
        let output = child.wait_with_output().expect("it ended");
        let lines: Vec<Value> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        let [begin, end] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!((&begin["mounted"], begin["pid"].is_u64()), (&end["unmounted"], true));
        let (device, all) = (&end["stats"]["device"], &end["stats"]["written"]["all"]);
        // Nothing is written behind that, and each byte has a cause.
        assert!(device["written"].as_u64() > Some(1 << 20), "{end}");
        assert_eq!(device["written"], *all, "{end}");
        assert!(device["flushes"].as_u64() > Some(0), "{end}");
    }
}

/// Of several mounts each is told once, also where a signal comes when some are over.
#[test]
fn the_end_of_each_mount_is_told_once() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["tree", "a", "b"]);
    let (image, a, b) = (lab.path("x.esker"), lab.path("a"), lab.path("b"));
    succeeds(&["pack", &lab.path("tree"), "-o", &image]);
    let mut mount = Command::new(ESKER);
    mount.args(["mount", &image, &a, &image, &b, "-f", "--json"]).stdout(Stdio::piped());
    let child = mount.stdin(Stdio::null()).spawn().expect("esker runs");
    assert!(within_seconds(|| [&a, &b].iter().all(|dir| run(&["stats", dir]).status.success())));
    succeeds(&["umount", &a]);
    let pid = child.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().expect("kill(1)").success());
    let output = child.wait_with_output().expect("it ended");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let [begin, first, second] = lines.as_slice() else { panic!("{text}") };
    assert_eq!(begin.as_array().map(Vec::len), Some(2), "{text}");
    assert_eq!([&first["unmounted"], &second["unmounted"]], [a.as_str(), b.as_str()], "{text}");
    assert!(first["stats"].is_null() && output.status.success(), "{text}");
}

/// A server leaves the directory in which it was started, and knows its volume all the same.
#[test]
fn a_volume_may_be_named_from_where_one_is() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["mnt"]);
    succeeds(&["mkfs", &lab.path("disk.vol"), "--size", "64M"]);
    let mut mount = Command::new(ESKER);
    let mount = mount.args(["mount", "disk.vol", "mnt"]).current_dir(lab.path("."));
    assert!(mount.status().expect("esker runs").success());
    let mnt = lab.path("mnt");
    assert!(succeeds(&["resize", &mnt, "--size", "128M"]).contains("has 128.0 MiB now"));
    // What the kernel took and nobody can write is told of once, to whoever comes to it.
    let whole = fs::write(format!("{mnt}/large"), noise(2, 160 << 20));
    if whole.is_ok() {
        let told = ["cannot be kept", "No space left", "make room", "once more"];
        fails(&["snapshot", "create", &mnt, "full"], 1, &told);
    }
    fs::remove_file(format!("{mnt}/large")).expect("removed");
    succeeds(&["snapshot", "create", &mnt, "empty"]);
    succeeds(&["umount", &mnt]);
    succeeds(&["check", &lab.path("disk.vol")]);
}

/// Where the file system below is full it is named, files can be removed all the same, and once there is room all that
/// waited is written.
#[test]
fn a_full_host_is_named_and_nothing_is_lost() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["mnt"]);
    let (host, mnt) = (tmpfs(&lab, "host", "24m"), lab.path("mnt"));
    let volume = format!("{host}/disk.vol");
    succeeds(&["mkfs", &volume, "--size", "256M"]);
    succeeds(&["mount", &volume, &mnt, "-o", "commit=60"]);
    let content = |number: u64| noise(number, 4 << 20);
    (0..8).for_each(|number| fs::write(format!("{mnt}/{number}"), content(number)).expect("taken"));
    let parts = [&*format!("{host} is full"), "No space left", "make room there"];
    fails(&["sync", &mnt], 1, &parts);
    fs::remove_file(format!("{mnt}/0")).expect("removed");
    fs::rename(format!("{mnt}/1"), format!("{mnt}/one")).expect("renamed");
    fails(&["snapshot", "create", &mnt, "none"], 1, &parts);
    fails(&["umount", &mnt], 1, &[&parts[..], &["-l"]].concat());
    let words = ["-o", "remount,size=256m", &host];
    assert!(Command::new("mount").args(words).status().expect("it runs").success());
    succeeds(&["umount", &mnt]);
    succeeds(&["check", &volume]);
    succeeds(&["mount", &volume, &mnt]);
    assert!(!fs::exists(format!("{mnt}/0")).expect("it answers"));
    for (number, name) in [(1, "one"), (2, "2"), (7, "7")] {
        assert!(fs::read(format!("{mnt}/{name}")).expect("it reads") == content(number), "{name}");
    }
    succeeds(&["umount", &mnt]);
}

/// Bytes that were taken and then refused are their writers' business: whoever only reads hears nothing of it.
#[test]
fn who_reads_hears_nothing_of_what_was_refused() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["mnt"]);
    let (volume, mnt) = (lab.path("disk.vol"), lab.path("mnt"));
    succeeds(&["mkfs", &volume, "--size", "16M"]);
    succeeds(&["mount", &volume, &mnt]);
    let path = format!("{mnt}/large");
    let mut file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    let mut put = |piece| file.write_all(&noise(piece, 1 << 20)).and_then(|()| file.sync_data());
    let refused = (0..64).find_map(|piece| put(piece).err()).expect("it is full some time");
    assert_eq!(refused.kind(), ErrorKind::StorageFull);
    // Up to behind the end, where the kernel asks how long the file is.
    let read = fs::read(&path).expect("it reads");
    assert!(read.len() >= 8 << 20 && read.starts_with(&noise(0, 1 << 20)));
    drop(file);
    // The kernel tells whoever syncs all of it as well, once.
    let _ = run(&["umount", &mnt]).status.success() || run(&["umount", &mnt]).status.success();
    succeeds(&["check", &volume]);
}

/// Where no block may be stored as what differs it is told why.
#[test]
fn why_there_are_no_deltas_is_told() {
    if !can_mount() {
        return;
    }
    let lab = Lab::new(&["mnt"]);
    let (volume, mnt) = (lab.path("disk.vol"), lab.path("mnt"));
    succeeds(&["mkfs", &volume, "--size", "16M"]);
    for (options, why) in [
        ("deltas", None),
        ("nodeltas", Some("mounted with nodeltas")),
        ("compress=lz4", Some("they take zstd")),
    ] {
        succeeds(&["mount", &volume, &mnt, "-o", options]);
        let told = succeeds(&["stats", &mnt]);
        assert_eq!(told.contains("now there are none"), why.is_some(), "{told}");
        assert!(why.is_none_or(|why| told.contains(why)), "{told}");
        succeeds(&["umount", &mnt]);
    }
}
