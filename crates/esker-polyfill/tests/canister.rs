//! A canister of plain `std::fs`: built, linked, and called, with an upgrade between any two calls. All that it has on
//! the heap is lost each time; what a call that returned did is there, and nothing of one that failed.

use std::path::Path;

use esker_proof::canister::{
    Canister, example, example_with, example_with_c, example_without_features, has_wasi,
    has_wasi_c, linked, module_in_c, run_alone,
};

/// Bytes of a WebAssembly page.
const PAGE: usize = 64 * 1024;

/// The example, built and linked; nothing where this machine cannot, which CI must.
fn canister() -> Option<Canister> {
    has_wasi().then(|| Canister::new(&linked(&example("esker-polyfill", "canister"))))
}

/// Calls a function after an upgrade; what it said, or why it failed.
fn call(canister: &mut Canister, name: &str) -> Result<String, String> {
    canister.upgrade();
    let fresh = canister.system.stable.is_empty();
    let start = if fresh { "canister_init" } else { "canister_post_upgrade" };
    for name in [start, name] {
        canister.call(name, &[])?;
    }
    canister.system.now += 1_000_000_000;
    Ok(canister.said())
}

#[test]
fn files_outlive_upgrades_and_calls_that_fail_leave_nothing() {
    let Some(mut canister) = canister() else { return };
    let mut expected = String::new();
    for number in 1..=5 {
        expected += &format!("greeting number {number}\n");
        assert_eq!(call(&mut canister, "canister_update greet").unwrap(), expected);
        let before = canister.system.stable.clone();
        let why = call(&mut canister, "canister_update fail").unwrap_err();
        assert!(why.contains("the program has ended with an error"), "{why}");
        assert!(canister.system.stable == before);
        assert_eq!(call(&mut canister, "canister_query list").unwrap(), "greetings\n");
    }
    // A few pages: the smallest there is of stable-fs takes a thousand.
    assert!(canister.system.stable.len() <= 8 * PAGE, "{}", canister.system.stable.len());
}

#[test]
fn a_memory_that_holds_something_else_is_left_alone() {
    let Some(mut canister) = canister() else { return };
    canister.system.stable = vec![7; PAGE];
    let why = call(&mut canister, "canister_update greet").unwrap_err();
    assert!(why.contains("the files cannot be opened"), "{why}");
    assert!(canister.system.stable == [7; PAGE]);
}

#[test]
fn who_comes_from_stable_fs_finds_everything_and_a_file_may_have_a_memory_of_its_own() {
    if !has_wasi() {
        return;
    }
    let moved = example_with("esker-polyfill", "moved", "import");
    let mut canister = Canister::new(&linked(&moved));
    canister.call("canister_update old", &[]).unwrap();
    let mut more = String::new();
    for copied in ["Some((1, 2))", "None", "None"] {
        canister.upgrade();
        canister.call("canister_post_upgrade", &[]).unwrap();
        assert_eq!(canister.said(), format!("{copied}\n"));
        if more.is_empty() {
            canister.call("canister_update streams", &[]).unwrap();
            canister.upgrade();
            canister.call("canister_post_upgrade", &[]).unwrap();
            canister.said();
        }
        canister.call("canister_update append", &[]).unwrap();
        more += ", and more";
        let expected = format!("from the old files{more}\n{more}\n{}\ntrue\n", more.len());
        assert_eq!(canister.said(), expected);
    }
    canister.call("canister_update below", &[]).unwrap();
    assert_eq!(canister.said(), "done\n");
    canister.call("canister_update foreign", &[]).unwrap();
    assert_eq!(canister.said(), "65536\n");
}

#[test]
fn calls_are_counted_time_is_told_and_files_may_be_on_the_heap() {
    if !has_wasi() {
        return;
    }
    let features = "report_wasi_calls,transient";
    let mut canister = Canister::new(&linked(&example_with("esker-polyfill", "counted", features)));
    canister.call("canister_init", &[]).unwrap();
    canister.call("canister_update count", &[]).unwrap();
    let said = canister.said();
    let looked: Vec<&str> =
        said.lines().filter(|line| line.starts_with("path_filestat_get")).collect();
    // The system here counts nothing but how often it was asked: once before each call, and once behind it.
    let [found, none] = [0, 44].map(|errno| format!("path_filestat_get: {errno}, 1 instructions"));
    assert_eq!(looked, [found, none], "{said}");
    assert!(said.lines().any(|line| line == "2 instructions"), "{said}");
    canister.call("canister_update still", &[]).unwrap();
    let told: Vec<u64> = canister.said().lines().filter_map(|line| line.parse().ok()).collect();
    assert_eq!(told, [5_000_000_007, canister.system.now]);
    for expected in ["1 files", "0 files"] {
        canister.call("canister_query list", &[]).unwrap();
        let said = canister.said();
        assert!(said.lines().any(|line| line == expected), "{said}");
        canister.upgrade();
        canister.call("canister_init", &[]).unwrap();
        canister.said();
    }
    assert!(canister.system.stable.is_empty());
}

#[test]
fn who_comes_from_the_peer_finds_every_name() {
    if !has_wasi() {
        return;
    }
    let mut canister = Canister::new(&linked(&example("esker-polyfill", "names")));
    canister.call("canister_init", &[]).unwrap();
    assert_eq!(canister.said(), "by the manager's memory\ntmp\n");
}

#[test]
fn what_c_asks_of_files_holds_in_a_canister() {
    if !has_wasi_c() {
        return;
    }
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../esker-wasi/tests/programs/cases.c");
    let module = example_with_c("esker-polyfill", "c_canister", &cases);
    let mut canister = Canister::new(&linked(&module));
    canister.call("canister_init", &[]).unwrap();
    let failed = canister.call("canister_update cases", &[]);
    let said = canister.said();
    assert_eq!(failed, Ok(0), "{said}");
    assert!(said.ends_with(" checks, 0 failed\n"), "{said}");
}

/// Its constructor brings the files up, as C++ does whose canisters come from the peer: at a time when the system does
/// not tell the time.
#[test]
fn a_canister_in_c_begins_with_its_constructors() {
    if !has_wasi_c() {
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/letters.c");
    let mut canister = Canister::new(&linked(&module_in_c("esker-polyfill", &source)));
    for lines in 1..=3 {
        canister.call("canister_update write", &[]).unwrap();
        assert_eq!(canister.said(), format!("{lines} lines\n"));
        canister.upgrade();
    }
}

#[test]
fn a_module_that_is_no_canister_needs_nobody() {
    if !has_wasi() {
        return;
    }
    for target in ["wasm32-wasip1", "wasm32-unknown-unknown"] {
        let module = example_without_features("esker-polyfill", "plain", target);
        assert_eq!(run_alone(&linked(&module), "work"), 0, "{target}");
    }
}
