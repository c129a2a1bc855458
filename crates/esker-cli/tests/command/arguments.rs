//! What is wrong on the command line is named, with what to do, and nothing is mounted.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::process::Command;

use crate::common::{ESKER, Scratch, command, errors, esker, refused};

#[test]
fn a_bad_mount_option_is_named() {
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    for (option, words) in [
        ("frobnicate", &["unknown mount option: frobnicate: `esker mount --help`"][..]),
        ("sise=1G", &["unknown mount option: sise (did you mean size=?): "]),
        ("alow_other", &["(did you mean allow_other?): "]),
        ("size=big", &["size=big", "512M"]),
        ("size=1", &["size=1", "too small"]),
        ("size=17000000T", &["size=17000000T: too large"]),
        ("size=200%", &["size=200%: more than all of the memory"]),
        ("ro,size=12Q", &["size=12Q"]),
        ("uid=joe", &["uid=joe", "id -u"]),
        ("mode=999", &["mode=999", "octal"]),
        ("umask=x", &["umask=x"]),
        ("threads=0", &["threads=0"]),
        ("size", &["needs a value: size"]),
        ("ro=1", &["ro=1"]),
        ("a\u{1b}[2J", &["a\\x1b[2J"]),
    ] {
        refused(&command(&dir, &["-o", option]).output().unwrap(), 2, words, &dir);
    }
    let odd = OsString::from_vec(b"fsname=\xff".to_vec());
    refused(&command(&dir, &["-o"]).arg(odd).output().unwrap(), 2, &["UTF-8"], &dir);
}

#[test]
fn other_mistakes_are_told_too() {
    let scratch = Scratch::new();
    let dir = scratch.dir("m");
    let shown = dir.to_str().unwrap();
    refused(&esker(["mount", "img:x", shown]), 4, &["img:x", "No such file"], &dir);
    refused(&esker(["mount", "mem", shown]), 2, &["with a colon"], &dir);
    refused(&esker(["mount", "mem:"]), 2, &["<DIR>"], &dir);
    refused(&esker(["mount", "mem:", shown, "--skip-unreadable"]), 2, &["--from"], &dir);
    refused(&esker(["munt", "mem:", shown]), 2, &["munt", "mount"], &dir);
    assert_eq!(esker([""; 0]).status.code(), Some(2));
}

#[test]
fn help_is_for_a_person() {
    for (arguments, words) in [
        (&["--help"][..], &["Examples:", "Exit status:", "umount"][..]),
        (&["mount", "--help"], &["size=SIZE", "Examples:", "--from", "allow_other"]),
        (&["umount", "--help"], &["Examples:", "lazy"]),
        (&["bench", "--help"], &["Targets:", "null:", "Workloads:", "Examples:", "--markdown"]),
        (&["help", "mount"], &["Examples:"]),
    ] {
        let output = esker(arguments);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && output.stderr.is_empty());
        for word in words {
            assert!(text.contains(word), "{word} is not in: {text}");
        }
        assert!(!text.contains("serve-in"), "the hidden argument shows: {text}");
        let longest = text.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(100), "a line of {longest:?} letters in {arguments:?}");
    }
    let version = esker(["--version"]);
    assert_eq!(version.stdout, format!("esker {}\n", env!("CARGO_PKG_VERSION")).as_bytes());
}

#[test]
fn failures_are_json_where_a_machine_reads() {
    let scratch = Scratch::new();
    let missing = scratch.path("no \"such\" place");
    let output = command(&missing, &["--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let line = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value["exit"], 3);
    assert!(value["error"].as_str().unwrap().contains("no \"such\" place"));
    assert!(errors(&output).contains("mkdir -p"));
    // What is wrong before there is a verb to ask is told in the same way.
    for (arguments, word) in [
        (&["mount", "--json"][..], "<DIR>"),
        (&["mount", "--json", "img:", "/nowhere"], "only mem:"),
        (&["umount", "/nowhere", "--json", "--jsn"], "--jsn"),
    ] {
        let output = esker(arguments);
        assert_eq!(output.status.code(), Some(2));
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(value["exit"], 2);
        let text = value["error"].as_str().unwrap();
        assert!(text.contains(word) && !text.starts_with("error"), "{text}");
        assert!(errors(&output).starts_with("esker: "), "{}", errors(&output));
    }
    assert!(esker(["mount"]).stdout.is_empty());
}

#[test]
fn nobody_need_listen() {
    let shell = format!("'{ESKER}' --help | true; '{ESKER}' mount --help >/dev/full; exit 0");
    let output = Command::new("sh").args(["-c", &shell]).output().unwrap();
    assert!(!errors(&output).contains("panic"), "{}", errors(&output));
}
