//! `esker run`: programs of plain `std::fs` over each home, what they leave behind, and programs that are none.

mod common;

use std::fs;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use common::wasm::program;
use common::{ESKER, Scratch, done, errors, esker, text};

/// `esker run` with something on standard input.
fn run(arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(ESKER);
    command.arg("run").args(arguments).env("LANG", "eo");
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
fn a_tree_is_copied_before_a_program_sees_it() {
    let Some(greet) = program("greet") else { return };
    let scratch = Scratch::new();
    let tree = scratch.dir("tree");
    fs::create_dir(tree.join("data")).unwrap();
    let told = done(&run(&[text(&greet), "--fs", "mem:", "--from", text(&tree)], b""));
    assert!(told.ends_with("/data has letters\n"), "{told}");
    assert_eq!(fs::read_dir(tree.join("data")).unwrap().count(), 0);
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
