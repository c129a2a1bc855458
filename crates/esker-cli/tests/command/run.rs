//! `esker run`: programs of plain `std::fs` over each home, what they leave behind, and programs that are none.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::common::wasm::{program, program_with_c, program_with_stack};
use crate::common::{ESKER, Scratch, done, errors, esker, text};

/// `esker run` with something on standard input.
fn run(arguments: &[&str], input: &[u8]) -> Output {
    run_kept(Path::new(env!("CARGO_TARGET_TMPDIR")), arguments, input)
}

/// The same, with compiled programs kept in a directory.
fn run_kept(caches: &Path, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(ESKER);
    command.arg("run").args(arguments).env("LANG", "eo").env("XDG_CACHE_HOME", caches);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // Whoever does not read it may be gone already.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

#[test]
fn a_program_finds_in_memory_all_that_the_standard_library_has() {
    let Some(everything) = program("everything") else { return };
    let everything = text(&everything);
    let output = run(&[everything, "--fs", "mem:", "--env", "LANG"], b"a line\n");
    assert_eq!(done(&output), "read \"a line\\n\", LANG is Some(\"eo\")\n");
    assert_eq!(errors(&output), "1 words\n");
    let output = run(&[everything, "--fs", "mem:", "--", "exit", "--fs"], b"");
    assert_eq!((output.status.code(), errors(&output)), (Some(7), "3 words\n".to_owned()));
    assert_eq!(output.stdout, b"read \"\", LANG is None\n");
    let output = run(&[everything, "--fs", "mem:", "--", "panic"], b"");
    assert_eq!(output.status.code(), Some(134));
    assert!(errors(&output).contains("as it was told"), "{}", errors(&output));
}

#[test]
fn a_volume_keeps_what_a_program_wrote_and_an_image_does_not() {
    let (Some(everything), Some(greet)) = (program("everything"), program("greet")) else { return };
    let (everything, greet) = (text(&everything), text(&greet));
    let scratch = Scratch::new();
    let (image, volume) = (scratch.path("x.esker"), scratch.path("x.vol"));
    let tree = scratch.dir("tree");
    fs::create_dir(tree.join("data")).unwrap();
    fs::write(tree.join("data/old"), "as it was").unwrap();
    done(&esker(["pack", text(&tree), "-o", text(&image), "-q"]));
    done(&esker(["mkfs", text(&volume), "--size", "64M"]));

    let before = fs::read(&image).unwrap();
    let told = done(&run(&[greet, "--fs", text(&image), "--", "Ada"], b""));
    let expected = "Hello, Ada.\nThis was written in /data/letters.\n";
    assert_eq!(told, format!("{expected}/data has old\n/data has letters\n"));
    done(&run(&[everything, "--fs", text(&image)], b""));
    assert!(fs::read(&image).unwrap() == before, "the image has changed");

    done(&run(&[everything, "--fs", text(&volume)], b""));
    done(&run(&[greet, "--fs", text(&volume)], b""));
    assert_eq!(done(&esker(["ls", text(&volume)])), "copy\ndata\nleft\n");
    let place = format!("{}:/data/letters/letter.txt", text(&volume));
    let kept = "Hello, world.\nThis was written in /data/letters.\n";
    assert_eq!(done(&esker(["cat", &place])), kept);
    done(&esker(["check", text(&volume)]));

    // Only what it is given, under the name that it is given by.
    let told = done(&run(&[greet, "--fs", text(&volume), "--dir", "data/letters::/"], b""));
    assert_eq!(told, "Hello, world.\nThis was written in /data/letters.\n/data has letters\n");
    let two = ["--fs", text(&volume), "--dir", "/data", "--dir", "data/letters::other"];
    let told = done(&run(&[&[greet][..], &two].concat(), b""));
    assert!(told.ends_with("/data has letters\n"), "{told}");
    // Nothing of it can be changed where that was said, and nothing is there where nothing was given.
    let output = run(&[greet, "--fs", text(&volume), "-o", "ro"], b"");
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    let output = run(&[greet], b"");
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
}

#[test]
fn what_c_asks_of_files_holds_over_every_home() {
    let cases = program_with_c("c_cases", "esker-wasi/tests/programs/cases.c");
    let Some(cases) = cases else { return };
    let scratch = Scratch::new();
    let (image, volume) = (scratch.path("x.esker"), scratch.path("x.vol"));
    done(&esker(["pack", text(&scratch.dir("tree")), "-o", text(&image), "-q"]));
    done(&esker(["mkfs", text(&volume), "--size", "64M"]));
    for home in ["mem:", text(&image), text(&volume)] {
        let told = done(&run(&[text(&cases), "--fs", home], b""));
        assert!(told.ends_with(" checks, 0 failed\n"), "{home}: {told}");
    }
    assert_eq!(done(&esker(["ls", text(&volume)])), "");
}

/// Every call is answered, whatever it says, and the home is as sound as before.
#[test]
fn nonsense_is_answered_and_spoils_nothing() {
    let Some(nonsense) = program_with_stack("nonsense", 32 << 20) else { return };
    let scratch = Scratch::new();
    let volume = scratch.path("x.vol");
    done(&esker(["mkfs", text(&volume), "--size", "64M"]));
    let cases = std::env::var("ESKER_CASES").map_or(8, |cases| cases.parse().unwrap());
    for seed in 1..=cases {
        let seed = seed.to_string();
        for home in ["mem:", text(&volume)] {
            let output = run(&[text(&nonsense), "--fs", home, "--", "20000", &seed], b"input");
            let status = output.status.code();
            assert_eq!(status, Some(0), "{seed} over {home}: {}", errors(&output));
        }
    }
    done(&esker(["check", text(&volume)]));
}

#[test]
fn what_a_program_calls_is_counted() {
    let Some(greet) = program("greet") else { return };
    let count = |more: &[&str]| {
        let output = run(&[&[text(&greet), "--count"][..], more].concat(), b"");
        let mut counts = BTreeMap::new();
        for line in errors(&output).lines() {
            if let [calls, refused, name] = line.split_whitespace().collect::<Vec<_>>()[..]
                && let (Ok(calls), Ok(refused)) = (calls.parse::<u64>(), refused.parse::<u64>())
            {
                counts.insert(name.to_owned(), (calls, refused));
            }
        }
        (output.status.code(), counts)
    };
    let (status, counts) = count(&["--fs", "mem:"]);
    assert_eq!(status, Some(0));
    // `data`, then `data/letters`; the letter is made, read, and the directory listed.
    assert_eq!(counts["path_create_directory"].0 - counts["path_create_directory"].1, 2);
    assert!(counts["path_open"].0 >= 3 && counts["path_open"].1 == 0, "{counts:?}");
    assert!(counts["fd_write"].0 > 0 && !counts.contains_key("proc_exit"), "{counts:?}");
    // How it ended makes no difference.
    let (status, counts) = count(&[]);
    assert_eq!((status, counts["proc_exit"]), (Some(1), (1, 0)));
}

#[test]
fn a_tree_is_copied_before_a_program_sees_it() {
    let Some(greet) = program("greet") else { return };
    let scratch = Scratch::new();
    let tree = scratch.dir("tree");
    fs::create_dir(tree.join("data")).unwrap();
    let told = done(&run(&[text(&greet), "--fs", "mem:", "--from", text(&tree)], b""));
    assert!(told.ends_with("/data has letters\n"), "{told}");
    assert_eq!(fs::read_dir(tree.join("data")).unwrap().count(), 0);
}

/// Compiled programs in a directory of caches.
fn kept(caches: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![caches.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => left.push(path),
                // Beside them is how often each was used, and when it was last tidied up.
                false if path.extension().is_none() && !text(&path).contains(".cleanup") => {
                    found.push(path);
                }
                false => {}
            }
        }
    }
    found
}

#[test]
fn a_program_that_was_compiled_once_is_not_compiled_again() {
    let Some(greet) = program("greet") else { return };
    let scratch = Scratch::new();
    let caches = scratch.dir("caches");
    // A program that does nothing but trap: an export "_start" of a function that is `unreachable`.
    let trap = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x0a\x01\x06_start\0\0\
        \x0a\x05\x01\x03\0\0\x0b";
    let trap = scratch.file("trap.wasm", trap);
    let greets = |more: &[&str]| {
        let output = run_kept(&caches, &[&[text(&greet), "--fs", "mem:"], more].concat(), b"");
        (output.status.code(), errors(&output).contains("unreachable"))
    };
    assert_eq!(greets(&["--no-cache"]), (Some(0), false));
    assert_eq!(kept(&caches), [] as [PathBuf; 0]);

    assert_eq!(run_kept(&caches, &[text(&trap)], b"").status.code(), Some(134));
    let of_trap = kept(&caches).pop().unwrap();
    assert_eq!(greets(&[]), (Some(0), false));
    let of_greet = kept(&caches).into_iter().find(|path| *path != of_trap).unwrap();
    // What is there is what is run.
    let compiled = fs::read(&of_greet).unwrap();
    fs::copy(&of_trap, &of_greet).unwrap();
    assert_eq!(greets(&[]), (Some(134), true));
    assert_eq!(greets(&["--no-cache"]), (Some(0), false));
    // What cannot be used is made anew.
    for spoilt in [&compiled[..compiled.len() / 2], b"", b"hello"] {
        fs::write(&of_greet, spoilt).unwrap();
        assert_eq!(greets(&[]), (Some(0), false));
        assert!(fs::read(&of_greet).unwrap() == compiled, "it was not made anew");
    }
    // Where somebody else could have put something, nothing is used.
    fs::copy(&of_trap, &of_greet).unwrap();
    fs::set_permissions(caches.join("esker"), Permissions::from_mode(0o770)).unwrap();
    assert_eq!(greets(&[]), (Some(0), false));
}

#[test]
fn what_cannot_be_run_is_refused_in_words() {
    let scratch = Scratch::new();
    // One import: "env" "f", a function of type 0, and an export "_start".
    let needy = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x02\x09\x01\x03env\x01f\0\0\
        \x07\x0a\x01\x06_start\0\0";
    let [empty, hello, none, component, later, cut, needy] = [
        &b"\0asm\x01\0\0\0"[..],
        b"hello",
        b"",
        b"\0asm\x0d\0\x01\0",
        b"\0asm\x02\0\0\0",
        b"\0asm\x01\0\0\0\x01",
        needy,
    ]
    .map(|content| {
        let name = content.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        scratch.file(&format!("x{name}"), content)
    });
    let dir = scratch.dir("dir");
    let gone = scratch.path("gone");
    let refusals: [(&[&str], i32, &str); 12] = [
        (&[text(&gone)], 4, "cannot read the program"),
        (&[text(&hello)], 4, "not a WebAssembly program"),
        (&[text(&none)], 4, "not a WebAssembly program"),
        (&[text(&component)], 4, "is a component"),
        (&[text(&later)], 4, "version of WebAssembly"),
        (&[text(&cut)], 4, "not valid"),
        (&[text(&empty)], 4, "no beginning (_start)"),
        (&[text(&needy)], 4, "needs what is not there: env.f"),
        (&[text(&empty), "--dir", "x"], 2, "--fs"),
        (&[text(&empty), "--fs", text(&gone)], 4, "_start"),
        (&[text(&empty), "words"], 2, "words"),
        (&[text(&empty), "-o", "sise=1"], 2, "sise"),
    ];
    for (arguments, status, words) in refusals {
        let output = run(arguments, b"");
        let text = errors(&output);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {text}");
        assert!(text.contains(words) && !text.contains("panic"), "{arguments:?}: {text}");
    }
    let Some(greet) = program("greet") else { return };
    let refusals: [(&[&str], i32, &str); 5] = [
        (&["--fs", text(&gone)], 4, "gone"),
        (&["--fs", text(&empty)], 4, "x0061736d01000000"),
        (&["--fs", text(&dir)], 4, "--from"),
        (&["--fs", "mem:", "--dir", "nowhere"], 2, "no such directory in the home: nowhere"),
        (&["--fs", text(&empty), "--from", text(&dir)], 2, "--from is only for mem:"),
    ];
    for (arguments, status, words) in refusals {
        let output = run(&[&[text(&greet)][..], arguments].concat(), b"");
        let text = errors(&output);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {text}");
        assert!(text.contains(words) && !text.contains("panic"), "{arguments:?}: {text}");
    }
}
