//! The examples do what they say, and are short enough to be read at once.

#[path = "../examples/canister.rs"]
mod canister;
#[path = "../examples/mapped.rs"]
#[allow(dead_code, reason = "its `main` has no argument here")]
mod mapped;
#[path = "../examples/vector.rs"]
#[allow(dead_code, reason = "its `main` only prints")]
mod vector;

use std::path::Path;

use esker_embedded::{Fd, Open};

/// Lines of an example, at most.
const LINES: usize = 60;

fn read_file(name: &str) -> Vec<u8> {
    canister::with(|files| {
        let file = files.open(Fd::ROOT, name.as_bytes(), Open::READ)?;
        let mut content = vec![0; files.stat(file)?.size as usize];
        files.read(file, &mut content)?;
        files.close(file)?;
        Ok(content)
    })
}

#[test]
fn a_canister_s_module_finds_its_files_after_an_upgrade() {
    canister::init();
    let empty = canister::fs_size();
    canister::write_file("a/b/c".into(), "first".into());
    let long = "second, which is longer".repeat(1000);
    canister::write_file("a/b/c".into(), long.clone());
    let full = canister::fs_size();
    assert!(full > empty + 23_000, "{full} bytes, of {empty} at first");
    // The heap is replaced by one that is new.
    canister::init();
    assert_eq!(canister::fs_size(), full);
    assert_eq!(read_file("a/b/c"), long.as_bytes());
    canister::main();
    assert!(read_file("notes/today").starts_with(b"what a returned call did"));
    assert_eq!(read_file("a/b/c"), long.as_bytes());
}

#[test]
fn a_vector_says_hello_after_an_upgrade() {
    let found = vector::hello();
    assert_eq!(found.as_deref(), Ok("what a returned call did is in the memory"));
}

#[test]
fn a_mapped_file_has_a_line_for_each_run() {
    let folder = std::env::temp_dir().join(format!("esker-examples-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("home");
    let line = format!("run by process {}\n", std::process::id());
    for run in 1..=3 {
        assert_eq!(mapped::log(&file).unwrap(), line.repeat(run));
    }
    std::fs::write(&file, [7; 8192]).unwrap();
    let refused = mapped::log(&file).unwrap_err().to_string();
    assert!(refused.contains("something else"), "{refused}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn examples_are_short() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut count = 0;
    for example in std::fs::read_dir(folder).unwrap() {
        let path = example.unwrap().path();
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines < LINES, "{}: {lines} lines", path.display());
        count += 1;
    }
    assert!(count >= 4, "{count} examples");
}
