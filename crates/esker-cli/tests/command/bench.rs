//! `esker bench` measures what it says, tells what it left out, and leaves nothing behind.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{
    ESKER, Killed, Scratch, can_mount, errors, esker, is_alive, tar, within_seconds,
};
use serde_json::Value;

/// `esker bench` with mount points in the scratch directory, small sizes and one round.
fn bench(scratch: &Scratch, arguments: &[&str]) -> Command {
    let mut command = Command::new(ESKER);
    command.arg("bench").args(arguments).arg("--scratch").arg(scratch.path("."));
    command.args(["--rounds", "1", "--files", "20,40", "--bytes", "4M"]).stdin(Stdio::null());
    command
}

fn run(scratch: &Scratch, arguments: &[&str]) -> Output {
    bench(scratch, arguments).output().unwrap()
}

#[track_caller]
fn report(output: &Output, status: i32) -> Value {
    assert_eq!(output.status.code(), Some(status), "{}", errors(output));
    serde_json::from_slice(&output.stdout).expect("standard output is one JSON value")
}

/// Rows that have figures of this target.
fn rows_of(report: &Value, target: &str) -> usize {
    let rows = report["rows"].as_array().unwrap();
    rows.iter().filter(|row| row["targets"][target]["median"].as_f64().is_some()).count()
}

/// Some note holds all of these words.
#[track_caller]
fn noted(report: &Value, words: &[&str]) {
    let notes = report["notes"].as_array().unwrap();
    let holds = |note: &Value| words.iter().all(|word| note.as_str().unwrap().contains(word));
    assert!(notes.iter().any(holds), "{words:?} not in {notes:?}");
}

/// No mount, directory or image of the bench is there any more.
#[track_caller]
fn nothing_left(scratch: &Scratch) {
    let ours = |place: &Path| {
        let entries = fs::read_dir(place).unwrap().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter(|name| name.starts_with("esker-bench-")).collect::<Vec<_>>()
    };
    assert_eq!(ours(&scratch.path(".")), [""; 0]);
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains(scratch.path("esker-bench-").to_str().unwrap()), "{mounts}");
}

#[track_caller]
fn no_image_of(pid: u32) {
    let images = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let mut names = images.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let found = names.find(|name| name.starts_with(&format!("esker-bench-{pid}-")));
    assert_eq!(found, None);
}

#[test]
fn mistakes_are_named_and_nothing_is_measured() {
    let scratch = Scratch::new();
    let file = scratch.file("plain", b"");
    let plain = file.to_str().unwrap();
    for (arguments, words) in [
        (&["dri"][..], &["no such workload: dri", "did you mean dir?", "library"][..]),
        (&["dir", "--on", "men:"], &["no such target: men:", "did you mean mem:?"]),
        (&["dir", "--on", "/no/such/place"], &["no such target: /no/such/place", "tmpfs:"]),
        (&["dir", "--on", plain], &["no such target", "plain", "a directory that exists"]),
        (&["dir", "--on", "tmpfs:x"], &["no such target: tmpfs:x"]),
        (&["dir", "--on", "mem:sise=1M"], &["unknown mount option: sise", "size="]),
        (&["dir", "-o", "transport=wire"], &["transport=wire"]),
        (&["dir", "--loop", "zfs"], &["zfs", "ext4, xfs, btrfs"]),
        (&["tree"], &["tree has no tree", "--archive or --repository"]),
        (&["tree", "--archive", "/no/such.tar"], &["no such file", "/no/such.tar"]),
        (&["dir", "--pin", "99999"], &["cannot pin to CPU 99999", "nproc"]),
        (&["dir", "--markdown", "/tmp/x.md"], &["--title"]),
        (&["dir", "--markdown", "/no/place/x.md", "--title", "T"], &["/no/place/x.md"]),
        (&["dir", "--html", "/tmp"], &["cannot be written to: /tmp"]),
    ] {
        let output = run(&scratch, arguments);
        let text = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.starts_with("esker: ") && output.stdout.is_empty(), "{text}");
        for word in words {
            assert!(text.contains(word), "{word} is not in: {text}");
        }
    }
    for arguments in [
        ["--files", "0"],
        ["--files", "1G"],
        ["--files", "10,,20"],
        ["--bytes", "1K"],
        ["--bytes", "9999T"],
        ["--bytes", "much"],
        ["--rounds", "0"],
        ["--scratch", "/no/such/place"],
    ] {
        let output = esker(["bench", "dir", "--on", "lib:"].iter().chain(&arguments));
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", errors(&output));
        assert!(errors(&output).contains(arguments[0]), "{}", errors(&output));
    }
    let told = report(&run(&scratch, &["dri", "--json"]), 2);
    assert!(told["error"].as_str().unwrap().contains("no such workload"));
    nothing_left(&scratch);
}

#[test]
fn figures_come_as_json_page_and_markdown() {
    let scratch = Scratch::new();
    let dir = scratch.dir("there");
    let markdown = scratch.file("notes.md", b"# Mine\n\nKeep this.\n");
    let html = scratch.path("page.html");
    let place = dir.to_str().unwrap();
    let arguments = [
        "dir",
        "append",
        "fio",
        "library",
        "--on",
        "lib:",
        "--on",
        place,
        "--pin",
        "0",
        "--json",
        "--title",
        "Here and now",
        "--markdown",
        markdown.to_str().unwrap(),
        "--html",
        html.to_str().unwrap(),
    ];
    let first = report(&run(&scratch, &arguments), 0);
    assert!(rows_of(&first, "library") > 50 && rows_of(&first, place) > 20, "{first:#}");
    for (name, value) in [("placement", "CPU 0"), ("rounds", "1, "), ("command", "esker bench dir")]
    {
        let told = first["conditions"][name].as_str().unwrap();
        assert!(told.contains(value), "{told}");
    }
    for name in ["date", "kernel", "CPU", "memory", "load average at start", "version"] {
        assert!(first["conditions"][name].is_string(), "{name}");
    }
    let grown = "dir: cost of each among 40 files, 1 among 20";
    assert!(first["rows"].as_array().unwrap().iter().any(|row| row["workload"] == grown));
    let text = fs::read_to_string(&markdown).unwrap();
    assert!(text.starts_with("# Mine\n\nKeep this.\n\n## Here and now\n"), "{text}");
    assert!(text.contains("| create, 40 files |") && text.contains("- placement: client"));
    let page = fs::read_to_string(&html).unwrap();
    assert!(page.contains("<svg") && !page.contains("src=") && !page.contains("http"));

    fs::write(&markdown, text.replace("## Here and now\n", "## Here and now\n\nA remark.\n"))
        .unwrap();
    report(&run(&scratch, &arguments), 0);
    let again = fs::read_to_string(&markdown).unwrap();
    assert!(again.contains("Keep this.") && again.contains("\n\nA remark.\n"), "{again}");
    assert_eq!(again.matches("| create, 40 files |").count(), 1);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    nothing_left(&scratch);
}

#[test]
fn what_cannot_be_written_to_is_left_out() {
    let scratch = Scratch::new();
    let output = run(&scratch, &["append", "--on", "/proc", "--on", "lib:", "--json"]);
    let told = report(&output, 1);
    noted(&told, &["/proc left out", "cannot write", "the others run without it"]);
    assert_eq!((rows_of(&told, "library"), rows_of(&told, "/proc")), (2, 0));
    assert!(errors(&output).contains("/proc left out"));
    let misfit = run(&scratch, &["library", "--on", scratch.path(".").to_str().unwrap()]);
    assert_eq!(misfit.status.code(), Some(1));
    assert!(errors(&misfit).contains("it calls Esker in process"), "{}", errors(&misfit));
    let alone = run(&scratch, &["append", "--on", "/proc"]);
    assert_eq!(alone.status.code(), Some(1));
    assert!(errors(&alone).contains("nothing was measured"), "{}", errors(&alone));
    nothing_left(&scratch);
}

#[test]
fn without_loop_devices_the_others_run() {
    let scratch = Scratch::new();
    let tools = scratch.dir("tools");
    let told = |arguments: &[&str]| {
        let mut command = bench(&scratch, arguments);
        let child = command.env("PATH", &tools).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = child.spawn().unwrap();
        let pid = child.id();
        let told = report(&child.wait_with_output().unwrap(), 1);
        no_image_of(pid);
        assert_eq!(rows_of(&told, "library"), 2);
        told
    };
    let arguments = ["append", "--on", "lib:", "--loop", "xfs,ext4", "--json"];
    if !Path::new("/dev/loop-control").exists() {
        return noted(&told(&arguments), &["ext4-loop left out", "no loop devices"]);
    }
    let none = told(&arguments);
    noted(&none, &["xfs-loop left out", "cannot run mkfs.xfs", "install it"]);
    noted(&none, &["ext4-loop left out", "cannot run mkfs.ext4"]);
    for (name, script) in [
        ("mkfs.ext4", "#!/bin/sh\nexit 0\n"),
        ("mount", "#!/bin/sh\necho failed to setup loop device for $3 >&2\nexit 32\n"),
    ] {
        let path = scratch.file(&format!("tools/{name}"), script.as_bytes());
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    noted(&told(&arguments), &["ext4-loop left out", "loop device", "modprobe loop"]);
    nothing_left(&scratch);
}

#[test]
fn a_loop_device_holds_a_file_system() {
    if !can_mount() || !Path::new("/dev/loop-control").exists() {
        return;
    }
    let scratch = Scratch::new();
    let output = run(&scratch, &["dir", "--on", "tmpfs:", "--loop", "ext4", "--json"]);
    if output.status.code() == Some(1) {
        // Not every kernel and machine has what it takes; then it says so.
        return noted(&report(&output, 1), &["ext4-loop left out"]);
    }
    assert!(rows_of(&report(&output, 0), "ext4-loop") > 20);
    nothing_left(&scratch);
}

#[test]
fn too_small_a_target_is_told() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let output = run(&scratch, &["append", "--on", "mem:size=2M", "--on", "lib:", "--json"]);
    let told = report(&output, 1);
    noted(&told, &["append failed on esker,size=2M", "No space left", "fewer --files or --bytes"]);
    assert_eq!((rows_of(&told, "library"), rows_of(&told, "esker,size=2M")), (2, 0));
    nothing_left(&scratch);
}

#[test]
fn mounts_are_measured_beside_the_bound() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let targets = ["--on", "null:", "--on", "mem:no_writeback", "--on", "mem:no_writeback"];
    let entries = [tar::entry(b"top/", b'5', b""), tar::entry(b"top/inside", b'0', b"inside")];
    let archive = scratch.file("top.tar", &tar::archive(&entries));
    let archive =
        ["--archive", archive.to_str().unwrap(), "--build", "test -e inside && echo built"];
    let workloads = ["dir", "tree", "memory", "clients", "-o", "transport=device", "--json"];
    let arguments = [&workloads[..], &targets, &archive].concat();
    let told = report(&run(&scratch, &arguments), 0);
    let esker = "esker,transport=device,no_writeback";
    assert!(rows_of(&told, esker) > 30, "{told:#}");
    assert_eq!(rows_of(&told, esker), rows_of(&told, &format!("{esker} #2")));
    noted(&told, &["tree is not for null", "hold"]);
    assert_eq!(told["conditions"][esker], "transport over the device, no writeback");
    nothing_left(&scratch);
}

#[test]
fn without_rights_for_io_uring_the_device_is_run_instead() {
    let enabled = fs::read_to_string("/sys/module/fuse/parameters/enable_uring");
    if !can_mount() || enabled.is_ok_and(|text| text.trim() == "Y") {
        return;
    }
    let scratch = Scratch::new();
    let told = report(&run(&scratch, &["append", "--on", "mem:transport=ring", "--json"]), 1);
    noted(&told, &["esker,transport=ring left out", "io_uring", "run instead"]);
    assert_eq!(rows_of(&told, "esker,transport=device"), 2);
    nothing_left(&scratch);
}

/// The bench with a mount on which it is at work for long, and the daemon of that.
fn at_work(scratch: &Scratch, more: &[&str]) -> (Killed, u64) {
    let mut command = Command::new(ESKER);
    command.args(["bench", "dir", "--on", "mem:", "--rounds", "1", "--json"]).args(more);
    command.arg("--scratch").arg(scratch.path(".")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let bench = Killed(command.spawn().unwrap());
    let pid = bench.0.id();
    let place = scratch.path(format!("esker-bench-{pid}/target-0/dir"));
    assert!(within_seconds(|| place.exists()), "no work seen in {}", place.display());
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let children =
        threads.map(|thread| fs::read_to_string(thread.path().join("children")).unwrap());
    let children: String = children.collect();
    let daemon = children.split_whitespace().next().unwrap().parse().unwrap();
    (bench, daemon)
}

fn signal(pid: u64, name: &str) {
    let sent = Command::new("kill").args([name, &pid.to_string()]).status().unwrap();
    assert!(sent.success());
}

fn output(mut bench: Killed) -> Output {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let (out, err) = (bench.0.stdout.take(), bench.0.stderr.take());
    std::io::Read::read_to_end(&mut out.unwrap(), &mut stdout).unwrap();
    std::io::Read::read_to_end(&mut err.unwrap(), &mut stderr).unwrap();
    Output { status: bench.0.wait().unwrap(), stdout, stderr }
}

#[test]
fn a_target_that_dies_is_left_out_and_cleaned_up() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (bench, daemon) = at_work(&scratch, &["--on", "lib:", "--files", "200K"]);
    signal(daemon, "-KILL");
    let told = report(&output(bench), 1);
    noted(&told, &["dir failed on esker", "left out"]);
    noted(&told, &["esker cannot be used any more"]);
    assert_eq!(rows_of(&told, "library"), 5);
    nothing_left(&scratch);
}

#[test]
fn a_signal_stops_it_and_it_cleans_up() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let there = scratch.dir("there");
    let on = ["--on", there.to_str().unwrap(), "--files", "10M"];
    for name in ["-INT", "-TERM"] {
        let (bench, daemon) = at_work(&scratch, &on);
        signal(bench.0.id().into(), name);
        let output = output(bench);
        let told = report(&output, 1);
        assert!(told["error"].as_str().unwrap().contains("stopped by a signal"), "{told}");
        assert!(!is_alive(daemon));
        assert_eq!(fs::read_dir(&there).unwrap().count(), 0);
        nothing_left(&scratch);
    }
}

/// Whoever waits for a server that hangs cannot be interrupted: then the server has to go.
#[test]
fn a_second_signal_ends_a_server_that_hangs() {
    if !can_mount() {
        return;
    }
    let scratch = Scratch::new();
    let (bench, daemon) = at_work(&scratch, &["--files", "10M"]);
    signal(daemon, "-STOP");
    let pid = u64::from(bench.0.id());
    signal(pid, "-INT");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(is_alive(pid), "it waits for its server");
    signal(pid, "-INT");
    let told = report(&output(bench), 1);
    assert!(told["error"].as_str().unwrap().contains("stopped by a signal"), "{told}");
    nothing_left(&scratch);
}

/// Files of text that is alike, and some of nothing that is.
fn small_tree(scratch: &Scratch) -> std::path::PathBuf {
    let tree = scratch.path("tree");
    fs::create_dir(&tree).unwrap();
    for number in 0..40 {
        let text = format!("file {number}\n").repeat(900 + number);
        fs::write(tree.join(format!("{number}.txt")), text).unwrap();
    }
    tree
}

#[test]
fn packing_is_measured_beside_what_is_installed() {
    let scratch = Scratch::new();
    let (tree, images) = (small_tree(&scratch), scratch.path("images"));
    fs::create_dir(&images).unwrap();
    let bytes: u64 =
        fs::read_dir(&tree).unwrap().map(|file| file.unwrap().metadata().unwrap().len()).sum();
    let curve = scratch.path("curve.svg");
    let pack = |more: &[&str]| {
        let mut command = Command::new(ESKER);
        command.args(["bench", "pack", "--json", "--reads", "20"]).arg(&tree).stdin(Stdio::null());
        command.args(["--with", "esker:1", "--with", "esker:5", "--with", "xz:1"]).args(more);
        command.arg("--scratch").arg(scratch.path(".")).arg("--images").arg(&images);
        command.arg("--svg").arg(&curve).output().unwrap()
    };
    let read = can_mount();
    let given = "tree:another <one>=123,4.5*xz:1";
    let first = report(&pack(&["--rounds", if read { "2" } else { "0" }, "--given", given]), 0);
    let told = &first["trees"][0];
    assert_eq!((told["tree"].as_str(), told["bytes"].as_u64()), (Some("tree"), Some(bytes)));
    let rows = told["rows"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["what"].as_str().unwrap()).collect();
    assert_eq!(names, ["esker -l 1", "esker -l 5", "tar, xz -1"]);
    for row in rows {
        let stored = row["making"]["stored"].as_u64().unwrap();
        assert!(stored > 0 && stored < bytes / 2, "{row}");
        assert!(row["making"]["memory"].as_u64().unwrap() > 1 << 20, "{row}");
        let is_read = read && row["what"] != "tar, xz -1";
        assert_eq!(row["reading"].as_array().unwrap().len(), if is_read { 2 } else { 0 }, "{row}");
        if is_read {
            assert!(row["reading"][0]["server_memory"].as_u64().unwrap() > 1 << 20, "{row}");
        }
    }
    let given = (&told["given"][0]["cpu"], rows[2]["making"]["cpu"].as_f64().unwrap());
    assert!((given.0.as_f64().unwrap() - 4.5 * given.1).abs() < 1e-6, "{given:?}");
    let picture = fs::read_to_string(&curve).unwrap();
    assert!(picture.contains("another &lt;one&gt;") && picture.contains("tar, xz -1"), "{picture}");
    // Each line says where it is, of a tree however small.
    let mut lines: Vec<_> = picture.split("\"end\">").skip(1).collect();
    lines.dedup_by_key(|line| line.split('<').next());
    assert_eq!(lines.len(), 5, "{picture}");
    assert_eq!(picture.matches("<circle").count(), 4);
    // What was kept is not made again: it cost what it cost.
    let again = report(&pack(&["--rounds", "0"]), 0);
    for at in 0..3 {
        assert_eq!(again["trees"][0]["rows"][at]["making"], rows[at]["making"]);
    }
    nothing_left(&scratch);
}

#[test]
fn what_cannot_be_packed_is_told() {
    let scratch = Scratch::new();
    let tree = small_tree(&scratch);
    let pack = |words: &[&str]| {
        let mut command = Command::new(ESKER);
        command.args(["bench", "pack", "--rounds", "0", "--json", "--scratch"]);
        command.arg(scratch.path(".")).args(words).stdin(Stdio::null()).output().unwrap()
    };
    let tree = tree.to_str().unwrap();
    let told = report(&pack(&[tree, "--with", "esker:1", "--with", "esker:1,--no-such"]), 1);
    noted(&told, &["esker -l 1 --no-such of tree left out", "--no-such"]);
    assert_eq!(told["trees"][0]["rows"].as_array().unwrap().len(), 1);
    for words in [
        &[tree, "--with", "zip"][..],
        &["/no/such/tree"],
        &[tree, "--given", "x"],
        &[tree, "--given", "other:it=1,2"],
        &[tree, "--rounds", "x"],
    ] {
        assert_eq!(pack(words).status.code(), Some(2), "{words:?}");
    }
    // A picture takes the place of pictures only, and a name stays in its cell.
    let svg = scratch.path("x.svg");
    let draw = || {
        let given = ["--with", "esker:1", "--given", "tree:a|b=1,2", "--svg"];
        let mut command = Command::new(ESKER);
        command.args(["bench", "pack", "--rounds", "0", tree]).args(given).arg(&svg);
        command.arg("--scratch").arg(scratch.path(".")).stdin(Stdio::null()).output().unwrap()
    };
    for _ in 0..2 {
        assert!(crate::common::done(&draw()).contains("| a\\|b (given) |"));
    }
    fs::write(&svg, "<svg xmlns='mine'></svg>").unwrap();
    assert_eq!(draw().status.code(), Some(2));
    assert_eq!(fs::read_to_string(&svg).unwrap(), "<svg xmlns='mine'></svg>");
    fs::remove_file(&svg).unwrap();
    // Each version of it has other codecs.
    if Command::new("mkfs.erofs").arg("--help").output().is_ok() {
        let told = report(&pack(&[tree, "--with", "erofs"]), 0);
        let name = told["trees"][0]["rows"][0]["what"].as_str().unwrap().to_owned();
        assert!(name.starts_with("erofs "), "{name}");
    }
    let empty = scratch.path("empty");
    fs::create_dir(&empty).unwrap();
    assert_eq!(pack(&[empty.to_str().unwrap()]).status.code(), Some(4));
    nothing_left(&scratch);
}

/// Two dots for each act on each file system, each with its figure, and none outside.
fn dots_are_drawn(picture: &str, told: &serde_json::Value) {
    let rows = told["rows"].as_array().unwrap();
    let acts: Vec<_> = rows.iter().flat_map(|row| row["acts"].as_object().unwrap()).collect();
    assert_eq!(picture.matches("<circle").count(), 2 * acts.len());
    for (name, act) in acts {
        let what = if name == "read" { ["read", "reads"] } else { ["written", "writes"] };
        let [bytes, requests] = what.map(|what| act["traffic"][what].as_u64().unwrap());
        for figure in [format!("{:.2}", bytes as f64 / 1e6), requests.to_string()] {
            assert!(
                picture.contains(&format!(">{figure}</text>")),
                "{figure} of {name}: {picture}"
            );
        }
    }
    for circle in picture.split("cx=\"").skip(1) {
        let x: f64 = circle.split('"').next().unwrap().parse().unwrap();
        assert!((96.0..=790.0).contains(&x), "{circle}");
    }
    assert!(picture.contains("esker --block 4K --compress none") && !picture.contains("href"));
}

/// What the server asks of the device is what reaches it, but that requests may be cut on the way.
#[test]
fn a_server_counts_what_it_asks_of_a_device() {
    if !can_mount() || !Path::new("/dev/loop-control").exists() {
        return;
    }
    let scratch = Scratch::new();
    let mut command = Command::new(ESKER);
    command.args(["bench", "volume", "1Mx10", "--json", "--size", "512M", "--data", "random"]);
    command.args(["--on", "esker:-o=discard", "--on", "ext4", "--scratch"]);
    command.arg(scratch.path(".")).arg("--images").arg(scratch.path("."));
    let told = report(&command.stdin(Stdio::null()).output().unwrap(), 0);
    let [ours, kernel] = told["rows"].as_array().unwrap().as_slice() else { panic!("{told}") };
    let figures = |act: &str, name: &str| {
        let of = |whose: &str| ours["acts"][act][whose][name].as_u64().unwrap();
        [of("own"), of("traffic")]
    };
    for act in ["create", "read", "update", "delete"] {
        let [own, counted] = figures(act, "written");
        assert_eq!(own, counted, "{act}");
        // Whoever counts flushes once besides.
        for name in ["writes", "flushes"] {
            let [own, counted] = figures(act, name);
            assert!(own <= counted && (own > 0 || act == "read"), "{act}: {own} and {counted}");
        }
        let [own, counted] = figures(act, "discarded");
        assert_eq!(own, counted, "{act}");
        assert!(own >= 8 << 20 || act != "delete", "{own} were given back");
        assert!(kernel["acts"][act]["own"].is_null(), "{act} of another is no act of ours");
    }
    nothing_left(&scratch);
}

#[test]
fn what_reaches_a_device_is_counted() {
    if !can_mount() || !Path::new("/dev/loop-control").exists() {
        return;
    }
    let scratch = Scratch::new();
    let volume = |words: &[&str]| {
        let mut command = Command::new(ESKER);
        command.args(["bench", "volume", "--json", "--size", "512M", "--scratch"]);
        command.arg(scratch.path(".")).arg("--images").arg(scratch.path("."));
        command.args(words).stdin(Stdio::null()).output().unwrap()
    };
    let works = ["16Kx10", "16Kx10/pass", "overwrite:4M"];
    let random = ["--data", "random", "--on", "esker", "--on", "esker:block=4K,compress=none"];
    let picture = scratch.path("dots.svg");
    let drawn = ["--svg", picture.to_str().unwrap()];
    let told = report(&volume(&[&works[..], &random, &drawn].concat()), 0);
    dots_are_drawn(&fs::read_to_string(&picture).unwrap(), &told);
    let rows = told["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    let figure = |row: usize, act: &str, name: &str| {
        let value = &rows[row]["acts"][act]["traffic"][name];
        value.as_u64().unwrap_or_else(|| panic!("no {name} of {act} in {}", rows[row]))
    };
    for row in 0..2 {
        assert_eq!(rows[row]["acts"]["create"]["logical"].as_u64(), Some(160 << 10));
        assert!(figure(row, "create", "written") > 160 << 10, "random bytes take their room");
        assert!(figure(row, "read", "read") > 160 << 10, "nothing was left in a cache");
        assert!((1..160 << 10).contains(&figure(row, "delete", "written")));
        let (once, often) =
            (figure(row, "create", "flushes"), figure(row + 2, "create", "flushes"));
        assert!(once > 0 && often >= once + 3, "{once} flushes, and {often} with three syncs more");
        assert_eq!(rows[row + 4]["acts"]["overwrite"]["syncs"].as_u64(), Some(3));
        // A few of the 64 blocks are written twice before a sync.
        assert!(figure(row + 4, "overwrite", "written") >= 56 * 4096);
    }
    let odd = report(&volume(&["16Kx10", "--on", "esker", "--on", "esker:no-such"]), 1);
    noted(&odd, &["on esker --no-such left out", "no-such"]);
    for words in [
        &["16Kx10", "--on", "zfs"][..],
        &["5x5"],
        &["--data", "text"],
        &["--size", "1M"],
        &["--device", "/dev/null"],
        &["--device", "/dev/null", "--erase"],
    ] {
        let mut command = Command::new(ESKER);
        let output = command.args(["bench", "volume"]).args(words).stdin(Stdio::null()).output();
        assert_eq!(output.unwrap().status.code(), Some(2), "{words:?}");
    }
    nothing_left(&scratch);
}

/// What a volume does to flash in the long run: nothing is timed, so the figures have bounds.
#[test]
fn what_happens_to_flash_is_simulated() {
    let flash = |words: &[&str]| {
        let mut command = Command::new(ESKER);
        command.args(["bench", "flash", "--json"]).args(words).stdin(Stdio::null());
        command.output().unwrap()
    };
    let words = ["steady", "wear", "inflation", "--size", "16M", "--full", "80", "--passes", "2"];
    let told = report(&flash(&[&words[..], &["--times", "20"]].concat()), 0);
    for row in told["steady"].as_array().unwrap() {
        let figure = |name: &str| row[name].as_u64().unwrap();
        let user = figure("user");
        assert_eq!(row["causes"]["sum"].as_u64(), Some(figure("written")), "causes add up: {row}");
        // What was written over twice before a sync counts once.
        assert!(row["causes"]["user"].as_u64() >= Some(user / 100 * 95), "{row}");
        // So small a volume writes as much for what it knows as for what it holds.
        assert!(figure("written") < user * 7, "written over and over: {row}");
        // A batch is 128 KiB.
        assert!(figure("most_in_a_sync") < 4 << 20, "somebody waits for everything: {row}");
        assert!(figure("largest_request") <= 1 << 20, "{row}");
    }
    assert_eq!(told["steady"].as_array().unwrap().len(), 2);
    // As mkfs makes volumes: what does not compress is no worse off there.
    let words = ["steady", "--size", "16M", "--full", "85", "--passes", "2", "--block", "32K"];
    let told_long = report(&flash(&[&words[..], &["--compress", "zstd"]].concat()), 0);
    for row in told_long["steady"].as_array().unwrap() {
        let (user, written) = (row["user"].as_u64().unwrap(), row["written"].as_u64().unwrap());
        assert!(written < user * 9, "what stays of blocks is written over and over: {row}");
    }
    for row in told["wear"].as_array().unwrap() {
        let (most, mean) = (row["most"].as_f64().unwrap(), row["mean"].as_f64().unwrap());
        assert!(most <= mean * 1.5 + 8.0, "some wear faster than others: {row}");
        assert!(row["least"].as_u64() > Some(0), "some never wear: {row}");
    }
    assert_eq!(told["wear"].as_array().unwrap().len(), 4);
    assert_eq!(told["inflation"].as_array().unwrap().len(), 39);
    for cell in told["inflation"].as_array().unwrap() {
        assert!(cell["ratio"].as_f64() > cell["ssdfs"].as_f64(), "less than SSDFS: {cell}");
    }
    for words in [
        &["decay"][..],
        &["steady", "--size", "1M"],
        &["steady", "--full", "99"],
        &["steady", "--block", "3K"],
    ] {
        assert_eq!(flash(words).status.code(), Some(2), "{words:?}");
    }
}
